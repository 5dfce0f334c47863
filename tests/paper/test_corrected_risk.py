"""The corrected risk: its definition, its gradient, and that it averages to the true risk."""

from functools import cache
from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.metrics import log_loss

from counted_bags import make_bags
from unbag import bag_target, check_bag_target
from unbag.bags.priors import resolve_class_prior
from unbag.datasets import make_gaussian_bags
from unbag.observations.losses import LOSSES, SoftmaxLoss, get_loss
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.weights import bag_weights, pair_bags

TRAINABLE = [name for name, loss in LOSSES.items() if loss.trainable]
PRIORS = ["balanced", "empirical", [0.2, 0.8]]
HALF_WIDTH = 0.1

every_loss = pytest.mark.parametrize("name", TRAINABLE)
both_corrections = pytest.mark.parametrize("correction", ["nonnegative", "none"])
every_prior = pytest.mark.parametrize("prior", PRIORS, ids=["balanced", "empirical", "given"])


def h(risk):
    """h: nothing up to −s, a parabola in between, the risk itself from s on."""
    if risk <= -HALF_WIDTH:
        return 0.0
    return risk if risk >= HALF_WIDTH else (risk + HALF_WIDTH) ** 2 / (4 * HALF_WIDTH)


def naive_class_risk(W, bags, loss, scores, c):
    """R_c as a loop over bags; ``scores`` are those of one column."""
    losses = loss.losses(scores[None])
    total = 0.0
    for i in range(bags.n_bags):
        total += W[i, c] * np.mean(losses[0, c, bags.index == i])
    return total


def naive_value(W, bags, loss, prior, correction, scores):
    total = 0.0
    for c in range(bags.n_classes):
        risk = naive_class_risk(W, bags, loss, scores, c)
        is_curved = correction == "nonnegative" and min(W[:, c]) < 0
        total += prior[c] * (h(risk) if is_curved else risk)
    return total


def gradient_by_differences(risk, scores, problem, step=1e-6):
    gradient = np.empty_like(scores)
    for place in np.ndindex(scores.shape[1:]):
        up, down = scores.copy(), scores.copy()
        up[:, *place] += step
        down[:, *place] -= step
        gradient[:, *place] = (risk.value(up, problem) - risk.value(down, problem)) / (2 * step)
    return gradient


# --- two small problems with all kinds of class risks -------------------------------------------

BAGS = make_bags([[3, 1], [1, 4], [2, 3], [5, 1], [1, 2]])
THREE = make_bags([[3, 1, 1], [1, 4, 0], [0, 1, 3], [2, 2, 2], [1, 0, 3]])


def some_weights(bags):
    """Several problems on the same bags: all bags, pairs, and two of them held out."""
    kept = np.array([0, 1, 3, 4]) if bags.n_classes == 3 else np.array([0, 1, 4])
    held_out = np.zeros((bags.n_bags, bags.n_classes))
    held_out[kept] = bag_weights(bags.take(kept)[0])
    other = bag_weights(
        bags, **({"method": "pairs"} if bags.n_classes == 2 else {"bag_model": "bags"})
    )
    return np.stack([bag_weights(bags), other, held_out])


def some_scores(bags, weights, problem, n_outputs):
    """Scores, a column each, that lead class risks from far below zero to far above it."""
    rng = np.random.default_rng(0)
    n_columns = len(problem)
    strength = np.linspace(-3, 3, n_columns)[:, None, None]
    towards = np.sign(weights[problem]).swapaxes(1, 2)[:, :, bags.index]
    direction = towards[:, 1:] if n_outputs == 1 else towards
    scores = strength * direction + 0.3 * rng.normal(size=(n_columns, n_outputs, len(bags.index)))
    for kink in (-1, 1):
        scores[np.abs(scores - kink) < 1e-4] += 1e-3
    return scores


def assert_all_kinds(risks):
    """Class risks in the flat, the curved and the straight part of h."""
    assert (risks < -HALF_WIDTH).any()
    assert ((risks > -HALF_WIDTH) & (risks < 0)).any()
    assert ((risks > 0) & (risks < HALF_WIDTH)).any()
    assert (risks > HALF_WIDTH).any()


PROBLEM = np.arange(60) % 3
MANY = np.arange(240) % 3


def assert_gradient_is_the_finite_difference(bags, loss, correction, prior):
    weights, shares = some_weights(bags), resolve_class_prior(prior, bags.class_shares)
    risk = CorrectedRisk(weights, bags, loss, shares, correction)
    scores = some_scores(bags, weights, MANY, 1 if bags.n_classes == 2 else bags.n_classes)
    assert_all_kinds(risk.class_risks(scores, MANY))
    value, gradient = risk.value_and_gradient(scores, MANY)
    np.testing.assert_array_equal(value, risk.value(scores, MANY))
    expected = gradient_by_differences(risk, scores, MANY)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@every_loss
@both_corrections
@every_prior
def test_gradient_is_the_finite_difference(name, correction, prior):
    assert_gradient_is_the_finite_difference(BAGS, get_loss(name), correction, prior)


@both_corrections
@pytest.mark.parametrize(
    "prior", ["balanced", "empirical", [0.5, 0.2, 0.3]], ids=["balanced", "empirical", "given"]
)
def test_gradient_is_the_finite_difference_for_three_classes(correction, prior):
    assert_gradient_is_the_finite_difference(THREE, SoftmaxLoss(), correction, prior)


@pytest.mark.parametrize("name", LOSSES)
@both_corrections
@every_prior
def test_value_is_the_definition(name, correction, prior):
    weights, loss = some_weights(BAGS), get_loss(name)
    prior = resolve_class_prior(prior, BAGS.class_shares)
    risk = CorrectedRisk(weights, BAGS, loss, prior, correction)
    scores = some_scores(BAGS, weights, PROBLEM, 1)
    expected = [
        naive_value(weights[p], BAGS, loss, prior, correction, f)
        for p, f in zip(PROBLEM, scores, strict=True)
    ]
    np.testing.assert_allclose(risk.value(scores, PROBLEM), expected, atol=1e-12)


@both_corrections
def test_value_is_the_definition_for_three_classes(correction):
    weights, loss, prior = some_weights(THREE), SoftmaxLoss(), np.array([0.5, 0.2, 0.3])
    risk = CorrectedRisk(weights, THREE, loss, prior, correction)
    scores = some_scores(THREE, weights, PROBLEM, 3)
    found = risk.class_risks(scores, PROBLEM)
    for k, p in enumerate(PROBLEM):
        expected = [naive_class_risk(weights[p], THREE, loss, scores[k], c) for c in range(3)]
        np.testing.assert_allclose(found[k], expected, atol=1e-12)
    expected = [
        naive_value(weights[p], THREE, loss, prior, correction, f)
        for p, f in zip(PROBLEM, scores, strict=True)
    ]
    np.testing.assert_allclose(risk.value(scores, PROBLEM), expected, atol=1e-12)


def test_number_of_outputs_is_that_of_the_loss():
    balanced = [np.full(c, 1 / c) for c in (2, 3)]
    two, three = bag_weights(BAGS), bag_weights(THREE)
    assert CorrectedRisk(two, BAGS, get_loss("hinge"), balanced[0]).n_outputs == 1
    assert CorrectedRisk(two, BAGS, SoftmaxLoss(), balanced[0]).n_outputs == 2
    assert CorrectedRisk(three, THREE, SoftmaxLoss(), balanced[1]).n_outputs == 3
    with pytest.raises(ValueError, match="two classes and there are 3"):
        CorrectedRisk(three, THREE, get_loss("hinge"), balanced[1])


def test_softmax_of_two_outputs_is_the_logistic_risk_of_their_difference():
    weights, prior = some_weights(BAGS), np.array([0.3, 0.7])
    scores = some_scores(BAGS, weights, PROBLEM, 2)
    softmax = CorrectedRisk(weights, BAGS, SoftmaxLoss(), prior)
    logistic = CorrectedRisk(weights, BAGS, get_loss("logistic"), prior)
    value, gradient = logistic.value_and_gradient(scores[:, 1:] - scores[:, :1], PROBLEM)
    value_of_two, gradient_of_two = softmax.value_and_gradient(scores, PROBLEM)
    np.testing.assert_allclose(value_of_two, value, atol=1e-12)
    both = np.concatenate([-gradient, gradient], axis=1)
    np.testing.assert_allclose(gradient_of_two, both, atol=1e-12)


# --- problems and columns -----------------------------------------------------------------------


@both_corrections
def test_each_column_sees_the_weights_of_its_own_problem_only(correction):
    weights, prior = some_weights(BAGS), np.array([0.4, 0.6])
    loss = get_loss("logistic")
    scores = some_scores(BAGS, weights, PROBLEM, 1)
    together = CorrectedRisk(weights, BAGS, loss, prior, correction)
    value, gradient = together.value_and_gradient(scores, PROBLEM)
    for k, p in enumerate(PROBLEM):
        alone = CorrectedRisk(weights[p], BAGS, loss, prior, correction)
        one = alone.value_and_gradient(scores[k : k + 1], np.zeros(1, dtype=np.intp))
        np.testing.assert_allclose(one[0], value[k : k + 1], rtol=1e-14)
        np.testing.assert_allclose(one[1], gradient[k : k + 1], rtol=1e-14)


@both_corrections
def test_a_bag_of_weight_zero_is_a_bag_that_is_not_there(correction):
    weights, prior = some_weights(BAGS)[2], np.array([0.4, 0.6])
    kept, rows = BAGS.take(np.array([0, 1, 4]))
    scores = some_scores(BAGS, weights[None], np.zeros(30, dtype=np.intp), 1)
    problem = np.zeros(30, dtype=np.intp)
    loss = get_loss("logistic")
    whole = CorrectedRisk(weights, BAGS, loss, prior, correction)
    part = CorrectedRisk(bag_weights(kept), kept, loss, prior, correction)
    value, gradient = whole.value_and_gradient(scores, problem)
    value_of_part, gradient_of_part = part.value_and_gradient(scores[:, :, rows], problem)
    np.testing.assert_allclose(value, value_of_part, atol=1e-14)
    np.testing.assert_allclose(gradient[:, :, rows], gradient_of_part, atol=1e-14)
    assert not np.delete(gradient, rows, axis=2).any()


# --- the curve ----------------------------------------------------------------------------------

# Two bags, with one score for all of each: the hinge loss makes R_c a straight line in either.
PAIR = make_bags([[3, 1], [1, 3]])


def along_a_line(c, correction):
    """R_c and h(R_c) along a line of scores, with the slope of both."""
    side = 2 * c - 1
    # the bag with the smaller share of the class, whose weight is negative
    other = PAIR.index == 1 - c
    # in the straight part of the hinge
    t = np.linspace(-0.75, 0.99, 3481)
    scores = np.where(other, side * t[:, None], 0.5 * side)[:, None]
    problem = np.zeros(len(t), dtype=np.intp)
    W = bag_weights(PAIR)
    risk = CorrectedRisk(W, PAIR, get_loss("hinge"), np.eye(2)[c], correction)
    value, gradient = risk.value_and_gradient(scores, problem)
    slope = side * gradient[:, 0, other].sum(axis=1)
    return risk.class_risks(scores, problem)[:, c], value, slope


@pytest.mark.parametrize("c", [0, 1])
def test_bend_is_flat_then_a_parabola_then_the_risk_itself(c):
    risk, value, slope = along_a_line(c, "nonnegative")
    straight, plain, plain_slope = along_a_line(c, "none")
    np.testing.assert_array_equal(risk, straight)
    np.testing.assert_allclose(plain, risk, atol=1e-13)
    assert_all_kinds(risk)
    np.testing.assert_allclose(value, [h(r) for r in risk], atol=1e-14)
    below = risk < -HALF_WIDTH - 1e-12
    assert not value[below].any()
    assert not slope[below].any()
    above = risk > HALF_WIDTH
    np.testing.assert_allclose(value[above], risk[above], rtol=1e-12)
    np.testing.assert_allclose(slope[above], plain_slope[above], rtol=1e-12)
    inside = np.abs(risk) < HALF_WIDTH - 1e-6
    assert (value[inside] > np.maximum(risk[inside], 0)).all()


@pytest.mark.parametrize("c", [0, 1])
def test_bend_has_neither_jumps_nor_kinks(c):
    risk, value, slope = along_a_line(c, "nonnegative")
    _, _, plain_slope = along_a_line(c, "none")
    order = np.argsort(risk)
    steps = np.diff(risk[order])
    assert steps.min() > 0
    # h rises by at most the risk, and h' by at most 1/2s of it, everywhere
    rise = np.diff(value[order]) / steps
    assert rise.min() > -1e-9
    assert rise.max() < 1 + 1e-9
    curvature = np.diff((slope / plain_slope)[order]) / steps
    assert curvature.min() > -1e-9
    assert curvature.max() < 1 / (2 * HALF_WIDTH) + 1e-6


def test_classes_are_bent_one_by_one_and_problem_by_problem():
    """Only classes with a negative weight, of the same problem, are curved."""
    pure = np.eye(2)
    mixed = bag_weights(PAIR)
    half = np.array([[1.5, 0.0], [-0.5, 1.0]])
    bags, prior = PAIR, np.array([0.5, 0.5])
    risk = CorrectedRisk(np.stack([pure, mixed, half]), bags, get_loss("hinge"), prior)
    problem = np.arange(3)
    # a loss of 0.03 against class 0 in the first bag, of 0.02 against class 1 in the second
    scores = np.where(bags.index == 1, 0.98, -0.97)[None, None].repeat(3, axis=0)
    risks = risk.class_risks(scores, problem)
    value = risk.value(scores, problem)
    assert (risks[0] < HALF_WIDTH).all()
    assert value[0] == pytest.approx(risks[0].mean())
    assert (risks[1:, 0] < -HALF_WIDTH).all()
    assert value[1] == pytest.approx((h(risks[1, 0]) + h(risks[1, 1])) / 2)
    assert value[2] == pytest.approx((0 + risks[2, 1]) / 2)
    assert risks[2, 1] < HALF_WIDTH


@both_corrections
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_on_labels_the_risk_is_the_balanced_log_loss(correction, n_classes):
    rng = np.random.default_rng(n_classes)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 40) ** 2 // 3])
    bags = check_bag_target(labels)
    assert bags.n_classes == n_classes
    loss = get_loss("logistic", n_classes)
    truth = np.eye(n_classes)[labels].T
    columns = []
    # the last columns fit so well that all class risks are far below the curve
    for strength in (0, 1, 4, 9):
        noise = rng.normal(size=(n_classes, len(labels)))
        columns.append(strength * truth + 0.3 * noise)
    full = np.stack(columns)
    scores = full[:, 1:] - full[:, :1] if n_classes == 2 else full
    W = bag_weights(bags)
    risk = CorrectedRisk(W, bags, loss, np.full(n_classes, 1 / n_classes), correction)
    found = risk.value(scores, np.zeros(4, dtype=np.intp))
    probability = SoftmaxLoss().probability(full)
    weight = (1 / np.bincount(labels))[labels]
    expected = [log_loss(labels, p.T, sample_weight=weight) for p in probability]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[-1] < HALF_WIDTH / 10


@pytest.mark.parametrize(
    "of_bag", [[1, 0, 0], [2, 0, 1, 2, 1, 0, 2]], ids=["two classes", "three classes"]
)
def test_pure_bags_are_not_bent_by_rounding(of_bag):
    sizes = [3, 5, 7, 2, 6, 9, 4][: len(of_bag)]
    n_classes = max(of_bag) + 1
    bags = make_bags(np.eye(n_classes, dtype=int)[of_bag] * np.array(sizes)[:, None])
    W = bag_weights(bags)
    full = 6.0 * np.eye(n_classes)[np.repeat(of_bag, sizes)].T[None]
    scores = full[:, 1:] - full[:, :1] if n_classes == 2 else full
    prior, problem = np.full(n_classes, 1 / n_classes), np.zeros(1, dtype=np.intp)
    values = [
        CorrectedRisk(W, bags, get_loss("logistic", n_classes), prior, correction).value(
            scores, problem
        )
        for correction in ("none", "nonnegative")
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)


def test_unknown_correction_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="must be one of 'nonnegative', 'none', not 'relu'"):
        CorrectedRisk(np.eye(2), PAIR, get_loss("hinge"), np.full(2, 0.5), "relu")


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@both_corrections
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_scores_give_finite_values_and_gradients(name, correction, dtype):
    weights, prior, loss = some_weights(BAGS), np.array([0.4, 0.6]), get_loss(name)
    rng = np.random.default_rng(0)
    scores = rng.choice([-1e4, 0, 1e4], size=(60, 1, BAGS.n_instances)).astype(dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        risk = CorrectedRisk(weights, BAGS, loss, prior, correction)
        value, gradient = risk.value_and_gradient(scores, PROBLEM)
    assert np.isfinite(gradient).all()
    expected = [
        naive_value(weights[p], BAGS, loss, prior, correction, f.astype(float))
        for p, f in zip(PROBLEM, scores, strict=True)
    ]
    largest = max(1.0, float(np.abs(loss.value(scores.astype(float))).max()))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(value, expected, rtol=100 * eps, atol=20 * eps * largest)


# --- class priors -------------------------------------------------------------------------------


@given(
    counts=st.lists(
        st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=1, max_size=8
    )
)
@settings(max_examples=40, deadline=None)
def test_empirical_prior_is_the_share_of_each_class_among_all_instances(counts):
    bags = make_bags(counts)
    expected = np.sum(counts, axis=0) / np.sum(counts)
    found = resolve_class_prior("empirical", bags.class_shares)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_prior_is_balanced_or_as_given_up_to_its_sum():
    np.testing.assert_allclose(resolve_class_prior("balanced", THREE.class_shares), [1 / 3] * 3)
    np.testing.assert_allclose(
        resolve_class_prior([0.25, 0, 0.75], THREE.class_shares), [0.25, 0, 0.75]
    )
    given = resolve_class_prior(np.array([0.1, 0.9]), BAGS.class_shares)
    np.testing.assert_allclose(given, [0.1, 0.9])


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("uniform", "'balanced', 'empirical' or one number per class, not 'uniform'"),
        ([0.5, 0.5, 0.5], r"each of the 2 classes; its shape is \(3,\)"),
        (0.5, r"its shape is \(\)"),
        ([-0.1, 1.1], "none negative"),
        ([0, 0], "not all 0"),
        ([np.nan, 1], "finite"),
        ([np.inf, 1], "finite"),
    ],
)
def test_impossible_priors_are_refused(prior, message):
    with pytest.raises(ValueError, match=message):
        resolve_class_prior(prior, BAGS.class_shares)


# --- the corrected risk averages to the true risk -----------------------------------------------

N_RESAMPLES = 400
DIRECTION, OFFSET = np.array([0.9, -0.5]), 0.2
SEPARATION = 3.0
SIZES = np.array([6, 8, 10, 12, 14, 16, 20, 24] * 2)
MEASURED = ["zero_one", "logistic", "sigmoid"]
DEPENDENCE = {"instances": (0.0, 0.0), "bags": (0.2, 0.1)}
KNOWN = ["observed proportions", "true proportions", "some labels"]
VARIANTS = [
    ("least_squares", None),
    ("pairs", None),
    ("pairs", "blockwise_max"),
]


def true_class_risks(name):
    """E[ℓ_c(f(X)) | class c]: given the class, the score is normal."""
    spread, risks = sqrt(DIRECTION @ DIRECTION), []
    for side in (-1, 1):
        centre = SEPARATION / 2 * DIRECTION[0] + side * OFFSET
        if name == "zero_one":
            risks.append((1 + erf(-centre / spread / sqrt(2))) / 2)
            continue

        def weighted(z, centre=centre):
            value = LOSSES[name].value(np.array(centre + spread * z))
            return float(value) * exp(-z * z / 2) / sqrt(2 * pi)

        risks.append(quad(weighted, -12, 12)[0])
    return np.array(risks)


def plain_weights(bags, bag_model):
    """The larger bag of each pair taken for positive and the other for negative, weighted alike."""
    gamma, n = bags.proportions[:, 1], bags.draws(bag_model)
    pairing = pair_bags(gamma, n)
    harmonic = 2 / (1 / n[pairing.positive] + 1 / n[pairing.negative])
    w = harmonic * (gamma[pairing.positive] - gamma[pairing.negative]) ** 2
    W = np.zeros((bags.n_bags, 2))
    W[pairing.positive, 1] = W[pairing.negative, 0] = w / w.sum()
    return W


@cache
def resampled_risks(bag_model):
    """Class risks and balanced risk of one fixed score on many draws of the bags.

    An array of shape (draws, known, variants and last the plain weights, losses, 3).
    """
    rng = np.random.RandomState(20)
    dependence, label_dependence = DEPENDENCE[bag_model]
    bag = np.repeat(np.arange(len(SIZES)), SIZES)
    problem = np.arange(len(VARIANTS) + 1)
    found = np.empty((N_RESAMPLES, len(KNOWN), len(problem), len(MEASURED), 3))
    for k in range(N_RESAMPLES):
        draw = make_gaussian_bags(
            bag_size=SIZES,
            proportions=(0.1, 0.8),
            separation=SEPARATION,
            dependence=dependence,
            label_dependence=label_dependence,
            random_state=rng,
        )
        scores = np.tile(draw.X @ DIRECTION + OFFSET, (len(problem), 1, 1))
        labels = np.full(len(bag), np.nan)
        labels[::25] = draw.labels[::25]
        targets = [
            draw.y,
            bag_target(bag, draw.true_proportions[bag]),
            bag_target(bag, draw.y["proportion"], labels=labels),
        ]
        for i, y in enumerate(targets):
            bags = check_bag_target(y)
            weights = [
                bag_weights(bags, method=method, bag_model=bag_model, merge=merge)
                for method, merge in VARIANTS
            ]
            weights = np.stack([*weights, plain_weights(bags, bag_model)])
            for j, name in enumerate(MEASURED):
                loss = LOSSES[name]
                risk = CorrectedRisk(weights, bags, loss, np.full(2, 0.5), "none")
                found[k, i, :, j, :2] = risk.class_risks(scores, problem)
                found[k, i, :, j, 2] = risk.value(scores, problem)
    return found


def mean_and_error(rows):
    return rows.mean(axis=0), rows.std(axis=0, ddof=1) / sqrt(len(rows))


@pytest.mark.parametrize("bag_model", DEPENDENCE)
@pytest.mark.parametrize("name", MEASURED)
def test_corrected_risk_averages_to_the_true_risk_over_resampled_bags(bag_model, name):
    risks = true_class_risks(name)
    truth = np.array([*risks, risks.mean()])
    found = resampled_risks(bag_model)[:, :, :, MEASURED.index(name)]
    average, error = mean_and_error(found)
    corrected, plain = average[:, :-1], average[0, -1]
    corrected_error, plain_error = error[:, :-1], error[0, -1]
    assert (np.abs(corrected - truth) < 4 * corrected_error).all()
    # the risk without correction is not the true one, nor would it have passed the test above
    bias = np.abs(plain - truth)
    assert (bias > 10 * plain_error).all()
    assert (bias > 10 * corrected_error).all()


def test_corrected_risk_of_three_classes_averages_to_the_true_risk():
    rng = np.random.RandomState(5)
    score = rng.normal(size=(3, 2))
    loss, prior, problem = SoftmaxLoss(), np.full(3, 1 / 3), np.zeros(1, dtype=np.intp)
    corrected, plain = [], []
    for _ in range(N_RESAMPLES):
        draw = make_gaussian_bags(
            30, 12, n_classes=3, dependence=0.2, label_dependence=0.1, random_state=rng
        )
        bags = check_bag_target(draw.y)
        scores = (score @ draw.X.T)[None]
        W = bag_weights(bags)
        corrected.append(
            CorrectedRisk(W, bags, loss, prior, "none").class_risks(scores, problem)[0]
        )
        # as if every instance had the label that is most frequent in its bag
        label = np.eye(3)[bags.proportions.argmax(axis=1)]
        W = label / label.sum(axis=0)
        risk = CorrectedRisk(W, bags, loss, prior, "none")
        plain.append(risk.class_risks(scores, problem)[0])
    labels = np.repeat(np.arange(3), 100_000)
    X = draw.means[labels] + rng.normal(size=(len(labels), 2))
    losses = loss.losses((score @ X.T)[None])[0]
    truth = np.array([losses[c, labels == c].mean() for c in range(3)])
    average, error = mean_and_error(np.array(corrected))
    assert (np.abs(average - truth) < 4 * error).all()
    biased, _ = mean_and_error(np.array(plain))
    assert (np.abs(biased - truth) > 10 * error).any()
