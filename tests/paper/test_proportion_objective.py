"""Empirical proportion risk: its definition and its gradient."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss, log_loss

from counted_bags import make_bags
from unbag import check_bag_target
from unbag.observations.losses import LogisticLoss, SoftmaxLoss, get_loss
from unbag.paper.proportion_risk import DIVERGENCES, ProportionRisk

every_divergence = pytest.mark.parametrize("divergence", DIVERGENCES)
two_or_three = pytest.mark.parametrize("n_classes", [2, 3])
ONE = np.zeros(1, dtype=np.intp)


# bags of several sizes, pure ones and rows of known label among them
BAGS = {
    2: make_bags([[3, 1], [1, 4], [5, 0], [2, 2], [0, 3], [1, 0], [0, 1], [1, 0]]),
    3: make_bags([[3, 1, 1], [1, 4, 0], [0, 1, 3], [4, 0, 0], [1, 2, 2], [0, 0, 1], [1, 0, 0]]),
}


def some_weights(bags):
    """Three problems on the same bags: by size, any numbers, and two bags held out."""
    sizes = bags.sizes / bags.sizes.sum()
    held_out = np.where(np.arange(bags.n_bags) % 4 == 1, 0.0, sizes)
    some = np.linspace(0.1, 0.6, bags.n_bags)
    return np.repeat(np.stack([sizes, some, held_out])[:, :, None], bags.n_classes, axis=2)


def some_scores(bags, n_columns=9):
    n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
    rng = np.random.default_rng(0)
    scale = np.linspace(0, 5, n_columns)[:, None, None]
    return scale * rng.normal(size=(n_columns, n_outputs, bags.n_instances))


def naive_divergence(divergence, share, proportions):
    if divergence == "cross_entropy":
        return -sum(g * np.log(p) for g, p in zip(proportions, share, strict=True) if g > 0)
    power = {"squared": 2, "absolute": 1}[divergence]
    return sum(abs(p - g) ** power for g, p in zip(proportions, share, strict=True)) / 2


def naive_value(divergence, weights, bags, scores):
    """The definition as a loop over bags, for the scores of one column."""
    positive = expit(scores[0])
    probability = (
        np.stack([1 - positive, positive]) if len(scores) == 1 else softmax(scores, axis=0)
    )
    total = 0.0
    for i in range(bags.n_bags):
        rows = np.flatnonzero(bags.index == i)
        # a row of known label is a bag of its own
        for part in rows[:, None] if bags.labelled[i] else [rows]:
            share = probability[:, part].mean(axis=1)
            weight = weights[i, 0] * len(part) / len(rows)
            total += weight * naive_divergence(divergence, share, bags.proportions[i])
    return total


PROBLEM = np.arange(9) % 3


def make_risk(divergence, n_classes, **settings):
    bags = BAGS[n_classes]
    loss = get_loss("logistic", n_classes)
    return ProportionRisk(some_weights(bags), bags, loss, divergence, **settings)


@every_divergence
@two_or_three
def test_value_is_the_definition(divergence, n_classes):
    bags = BAGS[n_classes]
    assert 0 < bags.labelled.sum() < bags.n_bags
    weights, scores = some_weights(bags), some_scores(bags)
    expected = [
        naive_value(divergence, weights[p], bags, f) for p, f in zip(PROBLEM, scores, strict=True)
    ]
    found = make_risk(divergence, n_classes).value(scores, PROBLEM)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("divergence", ["squared", "absolute"])
def test_two_classes_compare_the_share_of_the_positive_one(divergence):
    bags = make_bags([[3, 1], [1, 4], [2, 3]])
    weights = np.repeat((bags.sizes / bags.sizes.sum())[:, None], 2, axis=1)
    scores = some_scores(bags)[-1:]
    gap = bags.means(expit(scores[0, 0])) - bags.proportions[:, 1]
    power = {"squared": 2, "absolute": 1}[divergence]
    expected = bags.sizes @ np.abs(gap) ** power / bags.sizes.sum()
    risk = ProportionRisk(weights, bags, LogisticLoss(), divergence)
    assert risk.value(scores, ONE)[0] == pytest.approx(expected)


@every_divergence
@two_or_three
def test_gradient_is_the_finite_difference(divergence, n_classes):
    risk, scores = make_risk(divergence, n_classes), some_scores(BAGS[n_classes])
    value, gradient = risk.value_and_gradient(scores, PROBLEM)
    np.testing.assert_array_equal(value, risk.value(scores, PROBLEM))
    step = 1e-6
    for place in np.ndindex(scores.shape[1:]):
        up, down = scores.copy(), scores.copy()
        up[:, *place] += step
        down[:, *place] -= step
        slope = (risk.value(up, PROBLEM) - risk.value(down, PROBLEM)) / (2 * step)
        # at f = 0 some shares are exactly right, which is where the absolute value has its kink
        first = 1 if divergence == "absolute" else 0
        np.testing.assert_allclose(gradient[first:, *place], slope[first:], rtol=1e-5, atol=1e-8)


@every_divergence
def test_softmax_of_two_outputs_is_the_sigmoid_of_their_difference(divergence):
    bags = BAGS[2]
    two = np.random.default_rng(0).normal(size=(9, 2, bags.n_instances))
    weights = some_weights(bags)
    softmaxed = ProportionRisk(weights, bags, SoftmaxLoss(), divergence)
    value, gradient = make_risk(divergence, 2).value_and_gradient(two[:, 1:] - two[:, :1], PROBLEM)
    value_of_two, gradient_of_two = softmaxed.value_and_gradient(two, PROBLEM)
    np.testing.assert_allclose(value_of_two, value, rtol=1e-12)
    both = np.concatenate([-gradient, gradient], axis=1)
    np.testing.assert_allclose(gradient_of_two, both, atol=1e-14)


@every_divergence
@two_or_three
def test_a_bag_of_weight_zero_is_a_bag_that_is_not_there(divergence, n_classes):
    bags, scores = BAGS[n_classes], some_scores(BAGS[n_classes])
    weights = some_weights(bags)[2]
    here = weights[:, 0] > 0
    assert not here.all()
    kept, rows = bags.take(here)
    loss, problem = get_loss("logistic", n_classes), np.zeros(9, dtype=np.intp)
    value, gradient = ProportionRisk(weights, bags, loss, divergence).value_and_gradient(
        scores, problem
    )
    part = ProportionRisk(weights[here], kept, loss, divergence)
    value_of_part, gradient_of_part = part.value_and_gradient(scores[:, :, rows], problem)
    np.testing.assert_allclose(value, value_of_part, rtol=1e-14)
    np.testing.assert_allclose(gradient[:, :, rows], gradient_of_part, atol=1e-15)
    assert not np.delete(gradient, rows, axis=2).any()


@every_divergence
@two_or_three
def test_huge_scores_give_finite_values_and_gradients(divergence, n_classes):
    bags = BAGS[n_classes]
    rng = np.random.default_rng(0)
    scores = rng.choice([-1e4, 0, 1e4], size=some_scores(bags).shape)
    scores[0], scores[1] = -1e4, 1e4
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        risk = make_risk(divergence, n_classes)
        value, gradient = risk.value_and_gradient(scores, PROBLEM)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert (value >= 0).all()
    if divergence != "cross_entropy":
        expected = [
            naive_value(divergence, some_weights(bags)[p], bags, f.astype(float))
            for p, f in zip(PROBLEM, scores, strict=True)
        ]
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_cross_entropy_far_out_is_the_score_itself():
    bags = make_bags([[4, 0], [0, 3]])
    weights = np.array([[0.0, 0.0], [1.0, 1.0]])
    risk = ProportionRisk(weights, bags, LogisticLoss(), "cross_entropy")
    value, gradient = risk.value_and_gradient(np.full((1, 1, 7), -1e4), ONE)
    assert value[0] == pytest.approx(1e4)
    np.testing.assert_allclose(gradient[0, 0], np.where(bags.index == 1, -1 / 3, 0))


@two_or_three
def test_labels_give_log_loss_and_brier_score(n_classes):
    labels = np.random.default_rng(0).integers(0, n_classes, 40)
    bags = check_bag_target(labels)
    scores = some_scores(bags)[-1:]
    weights = np.repeat((bags.sizes / 40)[:, None], n_classes, axis=1)
    positive = expit(scores[0, 0])
    probability = (
        np.column_stack([1 - positive, positive])
        if n_classes == 2
        else softmax(scores[0], axis=0).T
    )
    loss = get_loss("logistic", n_classes)
    found = {d: ProportionRisk(weights, bags, loss, d).value(scores, ONE)[0] for d in DIVERGENCES}
    assert found["cross_entropy"] == pytest.approx(log_loss(labels, probability))
    truth = np.eye(n_classes)[labels]
    assert found["squared"] == pytest.approx(((probability - truth) ** 2).sum(axis=1).mean() / 2)
    if n_classes == 2:
        assert found["squared"] == pytest.approx(brier_score_loss(labels, positive))


# --- models -------------------------------------------------------------------------------------
