"""Losses against finite differences, high precision and their own claims."""

import mpmath
import numpy as np
import pytest

from unbag.observations.losses import LOSSES, ClassLoss, Loss, SoftmaxLoss, get_loss

# Multiples of 1/16, so that the kinks at ±1 and 0 are met exactly and sums of hinges are exact.
STEP = 1 / 16
GRID = np.arange(-96, 97) * STEP
# Where derivatives jump; the derivative must be a subgradient there.
KINKS = {"hinge": [1.0], "ramp": [-1.0, 1.0], "zero_one": [0.0]}
MARGIN = sorted(LOSSES)
PRECISE = [0.0, 1e-300, 1e-10, 1e-3, 0.5, 3.0, 20.0, 40.0, 88.0, 600.0, 745.0, 800.0, 1e4]
PRECISE = sorted({sign * t for t in PRECISE for sign in (-1, 1)})

all_losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(autouse=True)
def no_silent_overflow():
    """Anything but underflow to zero is an error, here and in every loss."""
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        yield


def second_differences(values):
    return values[2:] - 2 * values[1:-1] + values[:-2]


def away_from_kinks(loss, t, distance=1e-3):
    kinks = KINKS.get(loss.name, [])
    return t[np.all([np.abs(t - k) > distance for k in kinks], axis=0)] if kinks else t


def corrected(loss, side, kappa_plus, kappa_minus, t):
    """ℓ^κ_σ(t) as the paper defines it before its first proposition."""
    other = kappa_minus if side > 0 else kappa_plus
    same_side, other_side = loss.value(side * t), loss.value(-side * t)
    return ((1 - other) * same_side - other * other_side) / (1 - kappa_minus - kappa_plus)


def columns_of_scores(n_columns=3, n_outputs=1, n_instances=40, seed=0):
    """Scores of the shape (columns, outputs, instances), away from all kinks."""
    scores = np.random.default_rng(seed).normal(size=(n_columns, n_outputs, n_instances)) * 2
    for kink in (-1.0, 0.0, 1.0):
        near = np.abs(scores - kink) < 1e-2
        scores[near] = kink + 0.03
    return scores


def gradient_by_differences(function, scores, step=1e-6):
    gradient = np.empty_like(scores)
    for place in np.ndindex(scores.shape):
        up, down = scores.copy(), scores.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (function(up) - function(down)) / (2 * step)
    return gradient


# --- φ and its derivative -----------------------------------------------------------------------


def test_registry_holds_every_margin_loss_under_its_own_name():
    assert {loss.name for loss in LOSSES.values()} == set(LOSSES)
    defined = {kind for kind in Loss.__subclasses__() if kind.__module__ == Loss.__module__}
    assert {type(loss) for loss in LOSSES.values()} == defined


# the formulas as the paper and the textbooks have them, written without care for overflow
FORMULAS = {
    "logistic": lambda t: np.log(1 + np.exp(-t)),
    "squared": lambda t: (1 - t) ** 2,
    "huber": lambda t: np.where(t < -1, -4 * t, np.maximum(0, 1 - t) ** 2),
    "hinge": lambda t: np.maximum(0, 1 - t),
    "sigmoid": lambda t: 1 / (1 + np.exp(t)),
    "ramp": lambda t: np.minimum(1, np.maximum(0, (1 - t) / 2)),
    "zero_one": lambda t: np.where(t < 0, 1.0, np.where(t > 0, 0.0, 0.5)),
}


@all_losses
def test_value_is_the_textbook_formula(loss):
    np.testing.assert_allclose(loss.value(GRID), FORMULAS[loss.name](GRID), rtol=1e-12)


@all_losses
def test_derivative_is_the_finite_difference_away_from_kinks(loss):
    t = away_from_kinks(loss, np.random.default_rng(0).uniform(-6, 6, 500))
    step = 1e-6
    difference = (loss.value(t + step) - loss.value(t - step)) / (2 * step)
    np.testing.assert_allclose(loss.derivative(t), difference, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "kink"), [(name, k) for name in ("hinge", "ramp") for k in KINKS[name]]
)
def test_derivative_at_a_kink_lies_between_the_slopes_of_both_sides(name, kink):
    loss, t, step = LOSSES[name], np.array([kink]), STEP
    left = (loss.value(t) - loss.value(t - step)) / step
    right = (loss.value(t + step) - loss.value(t)) / step
    assert left != right
    assert min(left, right) <= loss.derivative(t) <= max(left, right)


# --- losses and pull_back -------------------------------------------------------------------------


@all_losses
def test_losses_against_each_class(loss):
    scores = columns_of_scores()
    losses = loss.losses(scores)
    assert losses.shape == (3, 2, 40)
    np.testing.assert_allclose(losses[:, 0], loss.value(-scores[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(losses[:, 1], loss.value(scores[:, 0]), rtol=1e-12)


@all_losses
def test_pull_back_is_the_derivative_of_each_side(loss):
    scores = columns_of_scores()
    negative, positive = np.zeros((2, 3, 2, 40))
    negative[:, 0] = positive[:, 1] = 1
    assert loss.pull_back(scores, positive).shape == scores.shape
    np.testing.assert_allclose(
        loss.pull_back(scores, positive), loss.derivative(scores), atol=1e-15
    )
    np.testing.assert_allclose(
        loss.pull_back(scores, negative), -loss.derivative(-scores), atol=1e-15
    )


@pytest.mark.parametrize(
    ("loss", "n_classes"),
    [*((loss, 2) for loss in LOSSES.values()), *((SoftmaxLoss(), c) for c in (2, 3, 5))],
    ids=[*LOSSES, "softmax2", "softmax3", "softmax5"],
)
def test_pull_back_is_the_finite_difference_of_weighted_losses(loss, n_classes):
    scores = columns_of_scores(2, loss.n_outputs(n_classes), 7)
    weights = np.random.default_rng(1).normal(size=(2, n_classes, 7))

    def total(f):
        return np.sum(weights * loss.losses(f))

    gradient = loss.pull_back(scores, weights)
    np.testing.assert_allclose(gradient, gradient_by_differences(total, scores), atol=3e-8)


@pytest.mark.parametrize("loss", [*LOSSES.values(), SoftmaxLoss()], ids=[*LOSSES, "softmax"])
def test_columns_do_not_see_each_other_and_share_one_row_of_weights(loss):
    scores = columns_of_scores(4, loss.n_outputs(2), 9)
    weights = np.random.default_rng(2).normal(size=(1, 2, 9))
    losses, together = loss.losses(scores), loss.pull_back(scores, weights)
    for k in range(4):
        own = scores[k : k + 1]
        alone = loss.losses(own)
        np.testing.assert_array_equal(losses[k : k + 1], alone)
        np.testing.assert_array_equal(together[k : k + 1], loss.pull_back(own, weights))


# --- constants and flags ------------------------------------------------------------------------


@all_losses
def test_lipschitz_constant_holds_and_is_the_smallest(loss):
    t = np.unique(np.concatenate([np.linspace(-1e4, 1e4, 2001), np.linspace(-3, 3, 20001)]))
    slopes = np.abs(np.diff(loss.value(t)) / np.diff(t))
    if np.isinf(loss.lipschitz):
        assert slopes.max() > 1e3
    else:
        assert slopes.max() <= loss.lipschitz * (1 + 1e-9)
        assert slopes.max() >= loss.lipschitz * (1 - 1e-3)


@all_losses
def test_at_zero_is_the_loss_of_a_score_of_zero(loss):
    losses = loss.losses(np.zeros((1, 1, 1)))
    np.testing.assert_allclose(losses.ravel(), loss.at_zero, rtol=1e-15)


@all_losses
def test_symmetric_flag_says_whether_both_sides_sum_to_a_constant(loss):
    both = loss.value(GRID) + loss.value(-GRID)
    assert loss.symmetric == bool(np.ptp(both) < 1e-12)


@all_losses
def test_convex_flag_says_whether_no_second_difference_is_negative(loss):
    assert loss.convex == bool(second_differences(loss.value(GRID)).min() > -1e-12)


@all_losses
def test_even_curvature_flag_says_whether_both_sides_bend_alike(loss):
    towards = second_differences(loss.value(GRID))
    against = second_differences(loss.value(-GRID))
    assert loss.even_curvature == bool(np.abs(towards - against).max() < 1e-12)


CONTAMINATIONS = [0.0, 1e-3, 0.1, 0.3, 0.45, 0.499, 0.5, 0.501, 0.55, 0.7, 0.9]


@all_losses
def test_corrected_is_convex_agrees_with_second_differences_of_the_unbiased_loss(loss):
    answers = set()
    for plus in CONTAMINATIONS:
        for minus in CONTAMINATIONS:
            if plus + minus >= 1:
                continue
            # in units in which ℓ^κ has no denominator, so that one tolerance fits all
            curvatures = [
                second_differences(corrected(loss, side, plus, minus, GRID)) * (1 - plus - minus)
                for side in (-1, 1)
            ]
            numerically = bool(np.min(curvatures) > -1e-12)
            assert loss.corrected_is_convex(plus, minus) == numerically, (plus, minus)
            answers.add(numerically)
    assert answers == ({True, False} if loss.convex else {False})


@pytest.mark.parametrize("kappa", [(-0.1, 0.2), (0.2, -0.1), (0.5, 0.5), (0.3, 0.8)])
def test_corrected_is_convex_refuses_contaminations_that_cannot_be_undone(kappa):
    with pytest.raises(ValueError, match=f"got {kappa[0]} and {kappa[1]}"):
        LOSSES["logistic"].corrected_is_convex(*kappa)


@pytest.mark.parametrize("name", [name for name in MARGIN if LOSSES[name].symmetric])
def test_symmetric_losses_are_immune_to_contamination(name):
    """The appendix on symmetric losses: ℓ^κ is ℓ, stretched and shifted."""
    loss, plus, minus = LOSSES[name], 0.2, 0.35
    constant = 2 * loss.at_zero
    for side, shift in ((1, minus), (-1, plus)):
        stretched = (loss.value(side * GRID) - constant * shift) / (1 - plus - minus)
        np.testing.assert_allclose(corrected(loss, side, plus, minus, GRID), stretched, atol=1e-12)


def test_zero_one_alone_is_not_for_training_and_has_no_slope_to_follow():
    assert [name for name, loss in LOSSES.items() if not loss.trainable] == ["zero_one"]
    assert SoftmaxLoss().trainable
    assert not LOSSES["zero_one"].derivative(GRID).any()
    assert all(np.any(loss.derivative(GRID)) for loss in LOSSES.values() if loss.trainable)


# --- probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in MARGIN if LOSSES[n].gives_probabilities])
@pytest.mark.parametrize("probability", [0.03, 0.4, 0.5, 0.88])
def test_probability_is_that_for_which_the_score_minimises_the_expected_loss(name, probability):
    loss = LOSSES[name]
    t = np.linspace(-6, 6, 120001)
    best = t[np.argmin(probability * loss.value(t) + (1 - probability) * loss.value(-t))]
    np.testing.assert_allclose(loss.probability(np.array([best])), probability, atol=1e-4)


def test_only_losses_that_estimate_a_probability_give_one():
    without = {name for name in MARGIN if not LOSSES[name].gives_probabilities}
    assert without == {"hinge", "sigmoid", "ramp", "zero_one"}


def test_softmax_probabilities_are_those_for_which_the_scores_are_stationary():
    scores = columns_of_scores(1, 4, 6)
    loss = SoftmaxLoss()
    probability = loss.probability(scores)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-14)
    assert (probability > 0).all()
    np.testing.assert_allclose(loss.pull_back(scores, probability), 0, atol=1e-15)


# --- extremes -----------------------------------------------------------------------------------


def exact(function, t):
    """Values by mpmath, rounded to double at the end."""
    with mpmath.workdps(60):
        return np.array([float(function(mpmath.mpf(float(x)))) for x in t])


@both_types
@pytest.mark.parametrize(
    ("compute", "truth"),
    [
        (LOSSES["logistic"].value, lambda t: mpmath.log1p(mpmath.exp(-t))),
        (LOSSES["logistic"].derivative, lambda t: -1 / (1 + mpmath.exp(t))),
        (LOSSES["logistic"].probability, lambda t: 1 / (1 + mpmath.exp(-t))),
        (LOSSES["sigmoid"].value, lambda t: 1 / (1 + mpmath.exp(t))),
        (LOSSES["sigmoid"].derivative, lambda t: -mpmath.exp(t) / (1 + mpmath.exp(t)) ** 2),
    ],
    ids=["logistic", "logistic slope", "logistic probability", "sigmoid", "sigmoid slope"],
)
def test_exponentials_keep_all_their_digits_however_small_or_large(compute, truth, dtype):
    t = np.array(PRECISE, dtype=dtype)
    limits = np.finfo(dtype)
    # below the smallest normal number digits are lost by necessity
    np.testing.assert_allclose(
        compute(t).astype(float), exact(truth, t), rtol=8 * limits.eps, atol=2 * limits.tiny
    )


@both_types
def test_logistic_keeps_all_digits_of_losses(dtype):
    t = np.array(PRECISE, dtype=dtype)
    losses = LOSSES["logistic"].losses(t[None, None])
    limits = np.finfo(dtype)
    for side, row in ((-1, losses[0, 0]), (1, losses[0, 1])):
        truth = exact(lambda x, side=side: mpmath.log1p(mpmath.exp(-side * x)), t)
        np.testing.assert_allclose(
            row.astype(float), truth, rtol=8 * limits.eps, atol=2 * limits.tiny
        )


def exact_softmax(scores):
    """Losses and probabilities of one instance by mpmath."""
    with mpmath.workdps(60):
        powers = [mpmath.exp(mpmath.mpf(float(s))) for s in scores]
        total = mpmath.log(mpmath.fsum(powers))
        losses = [float(total - mpmath.mpf(float(s))) for s in scores]
        return np.array(losses), np.array([float(p / mpmath.fsum(powers)) for p in powers])


@both_types
@pytest.mark.parametrize(
    "scores",
    [
        [0, 0, 0],
        [1, -2, 0.5],
        [1e4, -1e4, 0],
        [-1e4, -1e4, -1e4],
        [20, 0, -20],
        [1e-20, 0, -1e-20],
        [-90, -100, -800],
        [700, 690, 800],
    ],
)
def test_softmax_is_right_to_the_rounding_of_its_scores(scores, dtype):
    scores = np.array(scores, dtype=dtype)
    losses = SoftmaxLoss().losses(scores[None, :, None])
    truth, probabilities = exact_softmax(scores)
    eps = np.finfo(dtype).eps
    size = max(1.0, float(np.abs(scores).max()))
    np.testing.assert_allclose(losses[0, :, 0], truth, rtol=4 * eps, atol=4 * eps * size)
    for c in range(3):
        weights = np.zeros((1, 3, 1), dtype=dtype)
        weights[0, c] = 1
        np.testing.assert_allclose(
            SoftmaxLoss().pull_back(scores[None, :, None], weights)[0, :, 0],
            probabilities - np.eye(3)[c],
            rtol=8 * eps,
            atol=8 * eps,
        )


@both_types
@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_softmax_does_not_change_when_all_scores_are_shifted(shift, dtype):
    # sums of small multiples of 1/8 and the shift are exact in both types
    scores = np.random.default_rng(0).integers(-40, 41, size=(2, 3, 50)).astype(dtype) / 8
    losses = SoftmaxLoss().losses(scores)
    shifted = SoftmaxLoss().losses(scores + dtype(shift))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(shifted, losses, rtol=8 * eps, atol=8 * eps)


@both_types
def test_softmax_of_two_classes_is_the_logistic_loss_of_the_difference(dtype):
    rng = np.random.default_rng(3)
    scores = rng.normal(scale=4, size=(2, 2, 60)).astype(dtype)
    weights = rng.normal(size=(2, 2, 60)).astype(dtype)
    margin = scores[:, 1:] - scores[:, :1]
    softmax, logistic = SoftmaxLoss().losses(scores), LOSSES["logistic"].losses(margin)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(softmax, logistic, rtol=50 * eps, atol=50 * eps)
    slope = LOSSES["logistic"].pull_back(margin, weights)
    np.testing.assert_allclose(
        SoftmaxLoss().pull_back(scores, weights),
        np.concatenate([-slope, slope], axis=1),
        atol=50 * eps,
    )


@both_types
@pytest.mark.parametrize("loss", [*LOSSES.values(), SoftmaxLoss()], ids=[*LOSSES, "softmax"])
def test_huge_scores_give_finite_losses_and_gradients(loss, dtype):
    row = np.array([-1e4, -1.0, 0.0, 1.0, 1e4], dtype=dtype)
    n_outputs = loss.n_outputs(2)
    scores = np.stack(np.meshgrid(*[row] * n_outputs)).reshape(1, n_outputs, -1)
    losses = loss.losses(scores)
    gradient = loss.pull_back(scores, np.ones_like(losses))
    assert np.isfinite(losses).all()
    assert np.isfinite(gradient).all()
    assert (losses >= 0).all()


@both_types
@all_losses
def test_huge_scores_on_the_right_side_cost_nothing_more(loss, dtype):
    right, wrong = loss.value(np.array([1e4, -1e4], dtype=dtype))
    if loss.name == "squared":
        assert right == pytest.approx(9999**2)
    else:
        assert right == 0
    if loss.symmetric:
        assert wrong == 1
    else:
        expected = {"logistic": 1e4, "squared": 10001**2, "huber": 4e4, "hinge": 10001}
        assert wrong == pytest.approx(expected[loss.name], rel=1e-6)


@both_types
@pytest.mark.parametrize("loss", [*LOSSES.values(), SoftmaxLoss()], ids=[*LOSSES, "softmax"])
def test_the_type_of_the_scores_is_kept(loss, dtype):
    scores = columns_of_scores(2, loss.n_outputs(2), 5).astype(dtype)
    losses = loss.losses(scores)
    assert losses.dtype == dtype
    assert loss.pull_back(scores, np.ones((2, 2, 5), dtype=dtype)).dtype == dtype
    if loss.gives_probabilities:
        assert loss.probability(scores).dtype == dtype
    if isinstance(loss, Loss):
        assert loss.value(scores).dtype == loss.derivative(scores).dtype == dtype


# --- looking a loss up --------------------------------------------------------------------------


@pytest.mark.parametrize("name", MARGIN)
def test_get_loss_finds_losses_by_name_and_leaves_losses_alone(name):
    assert get_loss(name) is LOSSES[name]
    assert get_loss(LOSSES[name]) is LOSSES[name]
    assert get_loss(name).n_outputs(2) == 1


def test_get_loss_takes_the_form_that_fits_the_number_of_classes():
    assert isinstance(get_loss("logistic", 3), SoftmaxLoss)
    assert get_loss("logistic", 3).n_outputs(3) == 3
    own = SoftmaxLoss()
    assert get_loss(own, 2) is own
    assert isinstance(get_loss("logistic", 2), ClassLoss)
    assert get_loss("logistic", 2).n_outputs(2) == 1


def test_get_loss_names_the_choices_when_the_name_is_unknown():
    with pytest.raises(ValueError, match="not 'logloss'") as caught:
        get_loss("logloss")
    assert all(repr(name) in str(caught.value) for name in LOSSES)


@pytest.mark.parametrize("name", [name for name in MARGIN if name != "logistic"])
def test_get_loss_says_that_margin_losses_are_for_two_classes(name):
    with pytest.raises(ValueError, match=f"loss='{name}' is for two classes and there are 3"):
        get_loss(name, 3)
    with pytest.raises(ValueError, match="use loss='logistic'"):
        get_loss(LOSSES[name], 4)
