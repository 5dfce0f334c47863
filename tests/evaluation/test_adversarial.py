"""Bags that would mislead an evaluation: what it must not claim."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from unbag import bag_target, bags_from_frame
from unbag.datasets import load_flights, make_gaussian_bags
from unbag.evaluation import evaluate
from unbag.tables import make_classifier


def simpson(seed, n_bags=40, size=60, between=1.2, within=0.0):
    """Bag means follow the proportions; the relation within bags is none, or reversed."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    labels = rng.uniform(size=len(bag)) < rng.uniform(0.1, 0.9, n_bags)[bag]
    share = np.bincount(bag, labels)[bag] / size
    scores = rng.normal(size=len(bag)) + between * share + within * (labels - share)
    return bag_target(bag, counts=np.bincount(bag, labels)[bag]), scores, labels


def covers(estimate, truth):
    return estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


@pytest.mark.parametrize("within", [0.0, -0.5])
def test_simpsons_paradox_is_not_taken_for_label_shift(within):
    claimed, covered = 0, 0
    for seed in range(20):
        y, scores, labels = simpson(seed, within=within)
        found = evaluate(y, scores, n_resamples=100)
        claimed += found.verdicts["label_shift"].name == "not_rejected"
        covered += covers(found["roc_auc"], roc_auc_score(labels, scores))
    assert claimed <= 3
    assert covered >= 18


def test_proportions_that_differ_where_scores_do_not_cannot_be_told():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), 50)
    share = rng.uniform(0.1, 0.9, 60)
    scores = rng.normal(size=3000)
    # the relation within bags is strong, and no bag mean shows it
    labels = rng.uniform(size=3000) < expit(-2 * scores + np.log(share / (1 - share))[bag])
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    found = evaluate(y, scores, n_resamples=100)
    assert {one.name for one in found.verdicts.values()} == {"inconclusive"}
    assert found["roc_auc"].assumption == "either"
    assert "do not differ with them" in str(found).replace("\n", " ")
    assert covers(found["roc_auc"], roc_auc_score(labels, scores))


@pytest.mark.parametrize("first", ["year", "winter"])
def test_flights_without_their_delay_cannot_be_told(first):
    flights = load_flights()
    table, late = flights.frame.drop(columns="dep_delay"), np.asarray(flights.target)
    date = table["date"].astype(str)
    ends = {"year": ("2013-07", "2014"), "winter": ("2013-04", "2013-05")}[first]
    before, after = (date < ends[0]).to_numpy(), ((date >= ends[0]) & (date < ends[1])).to_numpy()
    how = {"on": "date", "positives": "late", "unmatched": "drop"}
    X, y = bags_from_frame(table[before], flights.days, **how)
    X_new, y_new = bags_from_frame(table[after], flights.days, **how)
    scores = make_classifier("linear").fit(X, y).decision_function(X_new)
    found = evaluate(y_new, scores, n_resamples=100)
    assert found.verdict.name == "inconclusive"
    assert covers(found["roc_auc"], roc_auc_score(late[after], scores))


@pytest.mark.parametrize("n_bags", [4, 6])
def test_few_bags_cannot_be_told(n_bags):
    data = make_gaussian_bags(n_bags=n_bags, bag_size=30, n_features=1, random_state=0)
    found = evaluate(data.y, data.X[:, 0], n_resamples=100)
    assert found.verdict.name == "inconclusive"
    assert covers(found["roc_auc"], roc_auc_score(data.labels, data.X[:, 0]))


@pytest.mark.parametrize("kind", ["constant", "reversed"])
def test_scores_that_are_no_use(kind):
    data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    scores = np.zeros(2000) if kind == "constant" else -data.X[:, 0]
    found = evaluate(data.y, scores, n_resamples=100)
    assert covers(found["roc_auc"], roc_auc_score(data.labels, scores))
    if kind == "constant":
        assert found.verdicts["label_shift"].name != "not_rejected"


def draw(seed, *, n_bags=40, size=50, slope_sd=0.0, correlation=0.0, copied=1.0, label_shift=False):
    """One score, under label shift of a hidden class or covariate shift, and what deviates from it."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    if label_shift:
        share = rng.uniform(0.1, 0.9, n_bags)[bag]
        hidden = rng.uniform(size=len(bag)) < share
        labels = np.where(
            rng.uniform(size=len(bag)) < copied, hidden, rng.uniform(size=len(bag)) < share
        )
        scores = rng.normal(size=len(bag)) + 1.5 * hidden
    else:
        shift = rng.normal(size=n_bags)
        scores = rng.normal(size=len(bag)) + shift[bag]
        slopes = 1.0 + slope_sd * rng.normal(size=n_bags)
        own = scores * slopes[bag] + (correlation * shift)[bag]
        labels = rng.uniform(size=len(bag)) < expit(own)
        scores = (1.0 + correlation) * scores
    return bag_target(bag, counts=np.bincount(bag, labels)[bag]), scores, labels.astype(int)


def sets(n=8, **setting):
    """Evaluations of some sets with their true areas."""
    for seed in range(n):
        y, scores, labels = draw(seed, **setting)
        yield evaluate(y, scores, n_resamples=100), roc_auc_score(labels, scores)


@pytest.mark.parametrize("label_shift", [True, False])
def test_a_score_that_is_constant_in_bags_is_covered_in_other_bags(label_shift):
    covered = np.zeros(2)
    for seed in range(10):
        of_bags = []
        for seeds, n_bags in ((seed, 20 if label_shift else 40), (100 + seed, 800)):
            y, scores, labels = draw(seeds, n_bags=n_bags, label_shift=label_shift)
            # hardly any bag is below the threshold
            means = scores.reshape(-1, 50).mean(axis=1) + (-0.15 if label_shift else 2.2)
            of_bags += [y, np.repeat(means, 50), labels]
        y, scores, _, _, others, labels = of_bags
        found = evaluate(y, scores, n_resamples=100)
        assert found.verdicts["label_shift"].name != "not_rejected"
        truths = roc_auc_score(labels, others), balanced_accuracy_score(labels, others > 0)
        pairs = zip(("roc_auc", "balanced_accuracy"), truths, strict=True)
        covered += [covers(found[name], truth) for name, truth in pairs]
    assert (covered >= 8).all()


@pytest.mark.parametrize("label_shift", [True, False])
@pytest.mark.parametrize("kind", ["Pareto sizes", "duplicated rows"])
def test_very_unequal_bags_and_duplicated_rows_stay_covered(kind, label_shift):
    covered = 0
    for seed in range(8):
        pareto = 10 + 20 * np.random.default_rng(seed).pareto(1.2, 60)
        size = np.minimum(pareto, 2000).astype(int) if kind == "Pareto sizes" else 50
        y, scores, labels = draw(seed, n_bags=60, size=size, label_shift=label_shift)
        rows = np.repeat(np.arange(len(y)), 2 if kind == "duplicated rows" else 1)
        found = evaluate(y[rows], scores[rows], n_resamples=100)
        covered += covers(found["roc_auc"], roc_auc_score(labels, scores))
    assert covered >= 7


def test_random_slopes_stay_covered():
    found = list(sets(slope_sd=0.6))
    assert sum(covers(one["roc_auc"], truth) for one, truth in found) >= 7


@pytest.mark.parametrize("correlation", [-0.4, 1.0])
def test_the_sensitivity_range_covers_effects_correlated_with_the_score(correlation):
    found = list(sets(correlation=correlation))
    ranges = [one.by_assumption["sensitivity"]["roc_auc"] for one, _ in found]
    assert sum(covers(r, truth) for r, (_, truth) in zip(ranges, found, strict=True)) >= 7


def test_the_sensitivity_range_covers_a_confounder_that_no_test_can_find():
    found = list(sets(label_shift=True, copied=0.5, n_bags=80))
    ranges = [one.by_assumption["sensitivity"]["roc_auc"] for one, _ in found]
    assert sum(covers(r, truth) for r, (_, truth) in zip(ranges, found, strict=True)) >= 7


@pytest.mark.parametrize("n_bags", [6, 12, 40, 200])
@pytest.mark.parametrize("label_shift", [True, False])
def test_either_shift_is_covered_by_few_bags_and_by_many(n_bags, label_shift):
    holds, other = "label_shift", "covariate_shift"
    if not label_shift:
        holds, other = other, holds
    found = list(sets(5, n_bags=n_bags, label_shift=label_shift))
    assert sum(covers(one["roc_auc"], truth) for one, truth in found) >= 4
    assert sum(one.verdicts[holds].name == "rejected" for one, _ in found) <= 1
    assert sum(one.verdicts[other].name == "not_rejected" for one, _ in found) <= n_bags // 6
    assert all(0 <= one["roc_auc"].low <= one["roc_auc"].high <= 1 for one, _ in found) or (
        label_shift or n_bags > 40
    )


@pytest.mark.parametrize("shift", ["label", "covariate"])
def test_three_classes(shift):
    rng, covered = np.random.default_rng(0), 0
    for _ in range(5):
        bag = np.repeat(np.arange(40), 50)
        if shift == "label":
            shares = rng.dirichlet(np.ones(3), size=40)[bag]
            labels = (rng.uniform(size=2000)[:, None] > np.cumsum(shares, axis=1)).sum(axis=1)
            rows = rng.normal(size=(2000, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[labels]
        else:
            rows = rng.normal(size=(2000, 2)) + rng.normal(size=(40, 2))[bag]
        scores = np.column_stack([np.zeros(2000), 2 * rows - (2 if shift == "label" else 0)])
        if shift == "covariate":
            labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        shares = np.stack([np.bincount(bag, labels == c) / 50 for c in range(3)], axis=1)
        found = evaluate(bag_target(bag, shares[bag]), scores, n_resamples=50)
        truth = np.mean([np.mean(scores[labels == c].argmax(axis=1) == c) for c in range(3)])
        covered += covers(found["balanced_accuracy"], truth)
        other = {"label": "covariate_shift", "covariate": "label_shift"}[shift]
        assert found.verdicts[other].name != "not_rejected"
    assert covered >= 4
