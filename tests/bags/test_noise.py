"""Noisy proportions: the target that carries the noise, and weights that make up for it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, laplace, norm
from sklearn.metrics import log_loss, roc_auc_score

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.bags.frames import bags_from_frame
from unbag.bags.shares import noise_covariance
from unbag.datasets.bagging import add_count_noise
from unbag.evaluation import evaluate
from unbag.paper.weights import MERGERS, bag_weights
from unbag.weights import decontamination_weights, moment_terms

NAN = np.nan


@st.composite
def noisy_bags(draw, max_classes=4, least_noise=0.0):
    """Bags whose noise is clearly smaller than the spread of their proportions."""
    n_classes = draw(st.integers(2, max_classes))
    n_bags = draw(st.integers(2 * n_classes + 2, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = rng.integers(5, 60, n_bags)
    shares = rng.dirichlet(np.full(n_classes, 0.5), n_bags)
    noise = rng.uniform(least_noise, 0.05, shares.shape)
    noisy = shares + noise * rng.normal(size=shares.shape)
    bag = np.repeat(np.arange(n_bags), sizes)
    if n_classes == 2 and draw(st.booleans()):
        noisy, noise = noisy[:, 1], noise[:, 1]
    bags = check_bag_target(bag_target(bag, noisy[bag], noise=noise[bag]))
    centred = bags.proportions - bags.proportions.mean(axis=0)
    assume(np.linalg.svd(centred, compute_uv=False)[n_classes - 2] > 0.5)
    return bags


# --- the target ---------------------------------------------------------------------------------


NOISE = {
    "number": (0.1, [0.1, 0.1, 0.1, 0.1]),
    "whole number": (1, [1, 1, 1, 1]),
    "NumPy number": (np.float32(0.5), [0.5] * 4),
    "per row": ([0.1, 0.2, 0.1, 0.2], [0.1, 0.2, 0.1, 0.2]),
    "mapping": ({"a": 0.2, "b": 0.1}, [0.1, 0.2, 0.1, 0.2]),
    "Series": (pd.Series({"a": 0.2, "b": 0.1, "c": -1}), [0.1, 0.2, 0.1, 0.2]),
    "polars": (pl.Series([0.1, 0.2, 0.1, 0.2]), [0.1, 0.2, 0.1, 0.2]),
}


@pytest.mark.parametrize(("noise", "per_row"), NOISE.values(), ids=NOISE)
def test_noise_of_every_form(noise, per_row):
    y = bag_target(list("baba"), {"a": 0.2, "b": 0.5}, noise=noise)
    assert y.dtype.names == ("bag", "proportion", "size", "noise")
    np.testing.assert_allclose(y["noise"], per_row)
    np.testing.assert_array_equal(y["proportion"], [0.5, 0.2, 0.5, 0.2])


def test_a_target_without_noise_has_no_such_field():
    y = bag_target([1, 1, 2], [0.5, 0.5, 1])
    assert y.dtype.names == ("bag", "proportion", "size")
    assert check_bag_target(y).noise is None


def test_noise_of_counts_is_divided_by_the_size():
    y = bag_target([1, 1, 1, 1, 2, 2], counts={1: -0.6, 2: 3}, noise={1: 2, 2: 1})
    np.testing.assert_allclose(y["proportion"], [-0.15] * 4 + [1.5] * 2)
    np.testing.assert_allclose(y["noise"], 0.5)
    bags = check_bag_target(y)
    np.testing.assert_allclose(bags.proportions, [[1.15, -0.15], [-0.5, 1.5]])
    np.testing.assert_allclose(bags.noise, [[[0.25, -0.25], [-0.25, 0.25]]] * 2)


PER_CLASS = {
    "one for all": (0.1, [0.1, 0.1, 0.1]),
    "per bag": ({1: 0.1, 2: 0.3}, [0.1, 0.1, 0.1]),
    "per bag and class": ({1: [0.1, 0.2, 0.3], 2: [0, 0, 1]}, [0.1, 0.2, 0.3]),
    "per row": ([[0.1, 0.2, 0.3]] * 2 + [[0, 0, 1]], [0.1, 0.2, 0.3]),
}


@pytest.mark.parametrize(("noise", "of_first"), PER_CLASS.values(), ids=PER_CLASS)
def test_noise_per_class(noise, of_first):
    shares = {1: [0.2, -0.1, 1.1], 2: [0.5, 0.3, 0.5]}
    y = bag_target([1, 1, 2], shares, noise=noise)
    np.testing.assert_allclose(y["noise"][0], of_first)
    np.testing.assert_allclose(y["proportion"].sum(axis=1), 1)
    # what is missing to one is spread by variance
    missing = 1 - 1.2
    weight = np.square(of_first) / np.sum(np.square(of_first))
    np.testing.assert_allclose(y["proportion"][0], shares[1] + missing * weight)


@given(
    shares=st.lists(st.floats(-1, 2), min_size=3, max_size=3),
    noise=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
)
@settings(max_examples=50, deadline=None)
def test_the_covariance_is_that_of_the_shares_made_to_sum_to_one(shares, noise):
    """How the shares in `y` follow the given ones is linear, so V = P diag(s²) Pᵀ."""

    def stored(given_shares):
        return bag_target([1, 1], {1: given_shares}, noise={1: noise})["proportion"][0]

    at = np.array(shares)
    P = np.column_stack([stored(at + step) - stored(at) for step in np.eye(3)])
    V = check_bag_target(bag_target([1, 1], {1: shares}, noise={1: noise})).noise[0]
    np.testing.assert_allclose(V, P @ np.diag(np.square(noise)) @ P.T, atol=1e-9)
    np.testing.assert_allclose(V.sum(axis=0), 0, atol=1e-12)
    # no other way to make use of the sum has less variance in any class
    other = np.eye(3) - np.ones((3, 3)) / 3
    assert (np.diag(V) <= np.diag(other @ np.diag(np.square(noise)) @ other.T) + 1e-12).all()


def test_two_noisy_columns_are_worth_two_readings():
    one = noise_covariance(np.array([0.3]))
    two = noise_covariance(np.array([[0.3, 0.3]]))
    np.testing.assert_allclose(two, one / 2)


def test_a_noisy_bag_of_one_row_is_no_labelled_row():
    shares, noise = {1: 1, 2: 1, 3: 0.2}, {1: 0, 2: 0.3, 3: 0.1}
    bags = check_bag_target(bag_target([1, 2, 3, 3], shares, noise=noise))
    assert bags.ids.tolist() == [2, 3, "rows labelled 1"]
    assert bags.labelled.tolist() == [False, False, True]
    np.testing.assert_allclose(bags.noise[:, 0, 0], [0.09, 0.01, 0])


def test_labelled_rows_have_no_noise_and_leave_theirs_to_the_rest():
    bag, labels = [1, 1, 1, 1, 2, 2, NAN], [1, 1, NAN, NAN, NAN, NAN, 0]
    y = bag_target(bag, counts={1: 1.5, 2: 0.8}, labels=labels, noise=0.5)
    # two of 1.5 ± 0.5 positives are labelled: of the other two, −0.5 ± 0.5 are positive
    np.testing.assert_allclose(y["proportion"], [1, 1, -0.25, -0.25, 0.4, 0.4, 0])
    np.testing.assert_allclose(y["noise"], [0, 0, 0.25, 0.25, 0.25, 0.25, 0])
    bags = check_bag_target(y)
    np.testing.assert_allclose(bags.noise[:, 1, 1], [0.0625, 0.0625, 0, 0])
    assert bags.labelled.tolist() == [False, False, True, True]


def test_labelled_rows_of_several_classes():
    counts = {1: [2.2, 0.9, 1.1], 2: [1, 1, 0]}
    labels = [0, 2, NAN, NAN, NAN, NAN]
    y = bag_target([1] * 4 + [2] * 2, counts=counts, labels=labels, noise={1: 0.2, 2: 0})
    # the counts of bag 1 sum to 0.2 too many, of which each class has a third
    np.testing.assert_allclose(y["proportion"][2], np.array([1.2, 0.9, 0.1]) / 2 - 0.2 / 6)
    np.testing.assert_allclose(y["noise"][2], 0.1)
    np.testing.assert_array_equal(y["noise"][[0, 1, 4]], 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": -0.1}, "noise of bag 1 is a standard deviation: it must be finite and not neg"),
        ({"noise": {1: 0.1, 2: np.inf}}, "noise of bag 2 is a standard deviation"),
        ({"noise": {1: 0.1}}, "Bag 2 has instances but no noise"),
        ({"noise": [0.1, 0.1]}, "There are 3 bag ids but 2 values of noise"),
        ({"noise": "much"}, "noise values must be numbers"),
        ({"noise": {1: [1, 2], 2: [1, 2]}}, "noise must hold one number per bag"),
        ({"proportion": {1: 1.2, 2: 0}, "noise": {1: 0, 2: 1}}, r"bag 1 is 1.2, outside \[0, 1\]"),
        ({"proportion": {1: NAN, 2: 0}, "noise": 1}, "proportion of bag 1 is not a finite number"),
        ({"counts": {1: NAN, 2: 0}, "noise": 1}, "counts of bag 1 must be finite\\."),
        ({"counts": {1: -1, 2: 0}, "noise": 0}, "counts of bag 1 must be finite and not negative"),
        ({"counts": {1: 3, 2: 9}, "noise": {1: 1, 2: 0}}, "Bag 2 has 9 positives but 1 instances"),
    ],
)
def test_what_is_wrong_with_noise_is_said(options, message):
    if "counts" not in options:
        options = {"proportion": {1: 0.5, 2: 1}, **options}
    with pytest.raises(ValueError, match=message):
        bag_target([1, 1, 2], **options)


def test_noise_that_was_tampered_with_is_noticed():
    y = bag_target([1, 1, 2], {1: 0.5, 2: 1}, noise=0.1)
    y["noise"][0] = 0.2
    with pytest.raises(ValueError, match="noise is not the same for all instances of bag 1"):
        check_bag_target(y)
    y["noise"] = -1
    with pytest.raises(ValueError, match="not negative"):
        check_bag_target(y)


# --- bags that carry it along -------------------------------------------------------------------


@given(bags=noisy_bags())
@settings(max_examples=30, deadline=None)
def test_bags_taken_or_divided_keep_their_noise(bags):
    order = np.arange(bags.n_bags)[::-2]
    np.testing.assert_array_equal(bags.take(order)[0].noise, bags.noise[order])
    pieces, first = bags.divide(np.arange(bags.n_instances) % 2)
    np.testing.assert_array_equal(pieces.noise, bags.noise[bags.index[first]])


def test_clipped_proportions_are_shares():
    bags = check_bag_target(bag_target([1, 2, 3], [-0.5, 1.2, 0.3], noise=0.4))
    np.testing.assert_allclose(bags.clipped_proportions, [[1, 0], [0, 1], [0.7, 0.3]])
    three = check_bag_target(bag_target([1, 2], [[-0.5, 0.5, 1], [0.2, 0.2, 0.6]], noise=0.4))
    np.testing.assert_allclose(three.clipped_proportions, [[0, 1 / 3, 2 / 3], [0.2, 0.2, 0.6]])
    exact = check_bag_target(bag_target([1, 2], [0.25, 0.5]))
    assert exact.clipped_proportions is exact.proportions


def test_class_shares_stay_shares():
    bags = check_bag_target(bag_target([1, 1, 2, 2], [-0.3, -0.3, 0.1, 0.1], noise=0.4))
    assert (bags.class_shares > 0).all()
    assert bags.class_shares[1] < 0.5


# --- weights ------------------------------------------------------------------------------------


@given(bags=noisy_bags(least_noise=0.01))
@settings(max_examples=60, deadline=None)
def test_one_is_one_in_every_class_whatever_the_noise(bags):
    W = decontamination_weights(bags)
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-8)
    assert not np.allclose(W.T @ bags.proportions, np.eye(bags.n_classes), atol=1e-6)


@given(bags=noisy_bags(), bag_model=st.sampled_from(["instances", "bags"]))
@settings(max_examples=40, deadline=None)
def test_zero_noise_is_no_noise(bags, bag_model):
    exact = replace(bags, noise=None)
    zero = replace(bags, noise=np.zeros_like(bags.noise))
    np.testing.assert_allclose(
        decontamination_weights(zero, bag_model),
        decontamination_weights(exact, bag_model),
        atol=1e-12,
    )


def test_a_target_of_zero_noise_gives_exact_bags():
    shares = {1: 0.5, 2: 1, 3: 0.2}
    noisy = check_bag_target(bag_target([1, 1, 2, 3, 3], shares, noise=0))
    exact = check_bag_target(bag_target([1, 1, 2, 3, 3], shares))
    assert noisy.noise is None
    np.testing.assert_array_equal(noisy.proportions, exact.proportions)
    np.testing.assert_array_equal(noisy.labelled, exact.labelled)


@given(bags=noisy_bags(), factor=st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_weights_do_not_change_when_bags_grow_and_noise_shrinks_alike(bags, factor):
    """Proportions drawn out by a factor equal noise less by it, in larger bags."""
    centre = bags.proportions.mean(axis=0)
    drawn_out = replace(
        bags,
        proportions=centre + factor * (bags.proportions - centre),
        noise=factor**2 * bags.noise,
    )
    large = replace(bags, sizes=bags.sizes * factor**2)
    # the contrasts Wᵀ(m − mean) of classes shrink by the factor, as the proportions are drawn out
    W, Z = (decontamination_weights(b) for b in (large, drawn_out))
    np.testing.assert_allclose(Z[:, 1:] - Z[:, :1], (W[:, 1:] - W[:, :1]) / factor, atol=1e-8)


@given(bags=noisy_bags(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_classes_in_another_order_are_columns_in_another_order(bags, seed):
    order = np.random.default_rng(seed).permutation(bags.n_classes)
    turned = replace(
        bags, proportions=bags.proportions[:, order], noise=bags.noise[:, order][:, :, order]
    )
    np.testing.assert_allclose(
        decontamination_weights(turned), decontamination_weights(bags)[:, order], atol=1e-9
    )


@given(bags=noisy_bags())
@settings(max_examples=30, deadline=None)
def test_weights_solve_the_sum_of_what_bags_add(bags):
    normal, instrument = moment_terms(bags)
    expected = instrument @ np.linalg.inv(normal.sum(axis=0))
    np.testing.assert_allclose(decontamination_weights(bags), expected, atol=1e-8)
    normal, _ = moment_terms(replace(bags, noise=None))
    G, n = bags.proportions, bags.sizes
    np.testing.assert_allclose(normal.sum(axis=0), G.T @ (n[:, None] * G), rtol=1e-9)


def test_the_formula_of_errors_in_variables():
    """W = N G (GᵀNG − Σ N f V)⁻¹ as a loop over bags, f = 1 − 3/2 · leverage − 2ρ."""
    shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 1.05, 0.2])
    noise = np.array([0.05, 0.1, 0.02, 0.05, 0.0, 0.1, 0.08])
    bag = np.repeat(np.arange(7), [10, 20, 30, 10, 40, 50, 25])
    bags = check_bag_target(bag_target(bag, shares[bag], noise=noise[bag]))
    G = np.column_stack([1 - shares, shares])
    N = [1 / (1 / n + 4 * s**2) for n, s in zip(bags.sizes, noise, strict=True)]
    A = sum(n * np.outer(g, g) for n, g in zip(N, G, strict=True))
    M = A.copy()
    apart = np.array([-1, 1])
    without = A - sum(n * s**2 for n, s in zip(N, noise, strict=True)) * np.outer(apart, apart)
    for n, g, s in zip(N, G, noise, strict=True):
        leverage = n * g @ np.linalg.inv(A) @ g
        ratio = n * s**2 * apart @ np.linalg.inv(without) @ apart
        factor = max(1 - 1.5 * leverage - 2 * ratio, 0)
        M -= n * factor * s**2 * np.array([[1, -1], [-1, 1]])
    expected = np.diag(N) @ G @ np.linalg.inv(M)
    np.testing.assert_allclose(decontamination_weights(bags), expected, atol=1e-10)


def test_a_bag_of_pure_noise_hardly_counts():
    shares, noise = np.array([0.1, 0.9, 0.4, 0.6, 3.0]), np.array([0.01, 0.01, 0.01, 0.01, 5.0])
    bag = np.repeat(np.arange(5), 100)
    with_it = check_bag_target(bag_target(bag, shares[bag], noise=noise[bag]))
    without = with_it.take(np.arange(4))[0]
    W = decontamination_weights(with_it)
    assert np.abs(W[4]).max() < 0.01
    np.testing.assert_allclose(W[:4], decontamination_weights(without), atol=0.02)


def test_bags_that_differ_by_noise_only_are_refused():
    rng = np.random.default_rng(0)
    for n_bags in (2, 5, 30):
        bag = np.repeat(np.arange(n_bags), 50)
        shares = 0.4 + 0.1 * rng.laplace(0, 1 / np.sqrt(2), n_bags)
        bags = check_bag_target(bag_target(bag, shares[bag], noise=0.15))
        with pytest.raises(ValueError, match=f"of the {n_bags} bags vary .* hardly more than noi"):
            decontamination_weights(bags)


def test_the_refusal_names_both_deviations():
    shares = np.array([0.3, 0.5] * 10)
    bag = np.repeat(np.arange(20), 50)
    bags = check_bag_target(bag_target(bag, shares[bag], noise=0.09))
    message = r"\(standard deviation 0.1\) hardly more than noise alone would make them \(0.09\)"
    with pytest.raises(ValueError, match=message):
        decontamination_weights(bags)


def test_three_classes_of_which_noise_alone_moves_one_are_refused():
    rng = np.random.default_rng(1)
    first = rng.uniform(0, 0.8, 40)
    shares = np.column_stack([first, 0.8 - first, np.full(40, 0.2)])
    shares = shares + rng.normal(0, 0.05, shares.shape)
    bag = np.repeat(np.arange(40), 20)
    bags = check_bag_target(bag_target(bag, shares[bag], noise=0.05))
    with pytest.raises(ValueError, match="hardly more than noise"):
        decontamination_weights(bags)


def test_pairs_and_merging_do_not_go_with_noise():
    bag = np.repeat(np.arange(4), 10)
    bags = check_bag_target(bag_target(bag, np.array([0.1, 0.4, 0.6, 0.9])[bag], noise=0.01))
    with pytest.raises(ValueError, match="use weights='least_squares'"):
        bag_weights(bags, method="pairs")
    for merge in MERGERS:
        with pytest.raises(ValueError, match="Noisy proportions cannot be merged"):
            bag_weights(bags, merge=merge)


# --- what it is for: no bias towards zero ---------------------------------------------------------


def auc(W, bags, scores):
    """Area under the ROC curve of scores without ties."""
    order = np.argsort(-scores)
    rates = np.cumsum((W / bags.sizes[:, None])[bags.index[order]], axis=0)
    rates = np.vstack([np.zeros(2), rates])
    return np.sum(np.diff(rates[:, 0]) * (rates[1:, 1] + rates[:-1, 1]) / 2)


def test_laplace_noise_attenuates_estimates_unless_it_is_known():
    rng = np.random.RandomState(0)
    n_bags, distance = 200, 1.2
    errors = []
    for _ in range(200):
        bag = np.repeat(np.arange(n_bags), rng.randint(50, 101, n_bags))
        labels = rng.uniform(size=len(bag)) < rng.uniform(0.2, 0.6, n_bags)[bag]
        scores = rng.normal(size=len(bag)) + distance * labels
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        bags = check_bag_target(add_count_noise(y, 5, random_state=rng))
        for b in (replace(bags, noise=None), bags):
            W = decontamination_weights(b)
            means = b.means(scores > distance / 2) @ W
            errors.append([*means, auc(W, b, scores)])
    truth = [norm.sf(distance / 2), norm.cdf(distance / 2), norm.cdf(distance / np.sqrt(2))]
    errors = np.reshape(errors, (-1, 2, 3)) - truth
    bias, standard_error = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(len(errors))
    assert bias[0, 0] > 0.05
    assert (bias[0, 1:] < -0.08).all()
    assert (np.abs(bias[1]) < 3 * standard_error[1]).all()
    assert (np.abs(bias[1]) < 0.01).all()


def slope_bias(taken_off, rho, distribution, n_bags=40, draws=40_000):
    """n_bags times the relative bias of a slope, if so much of the noise of n_bags is left on."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1, 1, n_bags) * np.sqrt(3 * (n_bags - 1) / (n_bags + 1))
    noise = rng.normal(size=(draws, n_bags)) if distribution == "gaussian" else (
        rng.laplace(scale=np.sqrt(0.5), size=(draws, n_bags))
    )  # fmt: skip
    seen = x + np.sqrt(rho) * noise
    centred = seen - seen.mean(axis=1, keepdims=True)
    slopes = centred @ x / (np.sum(centred**2, axis=1) - (n_bags - taken_off) * rho)
    return n_bags * (slopes.mean() - 1), n_bags * slopes.std() / np.sqrt(draws)


@pytest.mark.parametrize(("distribution", "kurtosis"), [("gaussian", 0), ("laplace", 3)])
def test_bias_of_errors_in_variables_is_known(distribution, kurtosis):
    """n·bias is 3ρ + (2 + κ)ρ², and what has to be left on 3 + (2 + κ)ρ: the proof on the page."""
    rho = 0.25
    for left_on, expected in (
        (0, 3 * rho + (2 + kurtosis) * rho**2),
        (3, (2 + kurtosis) * rho**2),
        (3 + (2 + kurtosis) * rho, 0.0),
    ):
        bias, error = slope_bias(left_on, rho, distribution)
        # and terms of order 1/n_bags, which are some 3ρ²
        assert bias == pytest.approx(expected, abs=3 * error + 0.1)


@pytest.mark.parametrize(("distribution", "expected"), [("gaussian", 0.0), ("laplace", 3.0)])
def test_our_weights_leave_only_what_kurtosis_makes(distribution, expected):
    """ρ = ½ and 60 bags of 50: 3ρ²/n for Laplace noise, almost 0 for Gaussian."""
    rng = np.random.default_rng(0)
    rho, n_bags, draws = 0.5, 60, 3000
    shares = 0.4 + 0.1 * np.linspace(-1, 1, n_bags) * np.sqrt(3 * (n_bags - 1) / (n_bags + 1))
    scale = 0.1 * np.sqrt(rho)
    base = check_bag_target(bag_target(np.arange(n_bags), shares, noise=np.full(n_bags, scale)))
    base = replace(base, sizes=np.full(n_bags, 50))
    slopes = []
    for _ in range(draws):
        noise = rng.normal(size=n_bags) if distribution == "gaussian" else (
            rng.laplace(scale=np.sqrt(0.5), size=n_bags)
        )  # fmt: skip
        seen = shares + scale * noise
        W = decontamination_weights(replace(base, proportions=np.column_stack([1 - seen, seen])))
        means = shares @ W
        slopes.append(means[1] - means[0])
    bias, error = n_bags * (np.mean(slopes) - 1), n_bags * np.std(slopes) / np.sqrt(draws)
    assert bias == pytest.approx(expected * rho**2, abs=3 * error + 0.2)


def test_three_classes_with_noise_of_unequal_size():
    rng = np.random.RandomState(0)
    n_bags, truth = 200, np.array([0.2, 0.5, 0.9])
    scale = np.array([0.05, 0.1, 0.15])
    errors = []
    for _ in range(300):
        sizes = rng.randint(20, 200, n_bags)
        shares = rng.dirichlet([2, 2, 2], n_bags)
        means = shares @ truth + rng.normal(0, 0.4, n_bags) / np.sqrt(sizes)
        noisy = shares + rng.normal(0, scale, shares.shape)
        names = np.arange(n_bags)
        one_each = check_bag_target(bag_target(names, noisy, noise=[scale] * n_bags))
        bags = replace(one_each, sizes=sizes)
        errors.append(
            [means @ decontamination_weights(b) for b in (bags, replace(bags, noise=None))]
        )
    errors = np.array(errors) - truth
    bias, standard_error = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(len(errors))
    assert (np.abs(bias[0]) < 3 * standard_error[0] + 0.003).all()
    assert np.abs(bias[1]).max() > 0.05


# --- tables and made bags -----------------------------------------------------------------------


def tables():
    people = pd.DataFrame({"key": list("aabbbcc"), "x": np.arange(7)})
    results = pd.DataFrame(
        {
            "key": list("bac"),
            "yes": [3.4, -0.5, 1.0],
            "no": [0.2, 2.5, 1.0],
            "sd": [0.6, 0.6, 0.0],
            "sd_no": [0.3, 0.6, 0.0],
        }
    )
    return people, results


@pytest.mark.parametrize("noise", ["sd", 0.6])
def test_a_frame_says_the_noise_of_counts(noise):
    people, results = tables()
    _, y = bags_from_frame(people, results, on="key", positives="yes", noise=noise)
    of_c = 0.0 if noise == "sd" else 0.6
    expected = bag_target(
        people["key"],
        counts=dict(zip(results["key"], results["yes"], strict=True)),
        noise={"a": 0.6, "b": 0.6, "c": of_c},
    )
    assert y.dtype == expected.dtype
    for name in y.dtype.names:
        np.testing.assert_array_equal(y[name], expected[name])


@pytest.mark.parametrize("noise", [["sd_no", "sd"], "sd", 0.6])
def test_a_frame_says_the_noise_of_every_class(noise):
    people, results = tables()
    _, y = bags_from_frame(people, results, on="key", positives=["no", "yes"], noise=noise)
    table = results.set_index("key")
    columns = {"sd": ["sd", "sd"], 0.6: None}
    names = noise if isinstance(noise, list) else columns[noise]
    expected = bag_target(
        people["key"], counts=table[["no", "yes"]], noise=0.6 if names is None else table[names]
    )
    np.testing.assert_allclose(y["proportion"], expected["proportion"])
    np.testing.assert_allclose(y["noise"], expected["noise"])


def test_a_frame_of_noisy_shares():
    people, results = tables()
    _, y = bags_from_frame(people, results, on="key", proportion="yes", noise="sd")
    np.testing.assert_array_equal(y["proportion"], [-0.5, -0.5, 3.4, 3.4, 3.4, 1, 1])
    np.testing.assert_array_equal(y["noise"], [0.6] * 5 + [0] * 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"proportion": "yes"}, r"must hold proportions in \[0, 1\]; it does not for bags"),
        ({"proportion": "yes", "noise": 0}, "it does not for bags 'b' "),
        ({"positives": "yes", "noise": "deviation"}, "The bag table has no column 'deviation'"),
        ({"positives": "yes", "noise": ["sd", "sd_no"]}, "or a list of 1 for as many columns"),
        ({"positives": "yes", "noise": "yes"}, "noise of bag 'a' is a standard deviation"),
        ({"positives": "yes", "noise": -1}, "noise of bag '[ab]' is a standard deviation"),
    ],
)
def test_what_is_wrong_with_the_noise_of_a_frame_is_said(options, message):
    people, results = tables()
    with pytest.raises(ValueError, match=message):
        bags_from_frame(people, results, on="key", **options)


@pytest.mark.parametrize(
    ("distribution", "standard"), [("laplace", laplace(0, 0.5**0.5)), ("gaussian", norm())]
)
def test_noise_added_to_counts_has_the_deviation_that_y_says(distribution, standard):
    bag = np.repeat(np.arange(4000), 5)
    y = bag_target(bag, counts=(np.arange(4000) % 6)[bag])
    noisy = add_count_noise(y, 2.0, distribution=distribution, random_state=0)
    error = ((noisy["proportion"] - y["proportion"]) / noisy["noise"])[::5]
    assert kstest(error, standard.cdf).pvalue > 0.01
    assert noisy["noise"][0] == pytest.approx((2 if distribution == "gaussian" else 8**0.5) / 5)
    again = add_count_noise(y, 2.0, distribution=distribution, random_state=0)
    np.testing.assert_array_equal(again, noisy)


def test_noise_is_added_to_bags_and_not_to_labelled_rows():
    y = bag_target([1] * 4 + [NAN] * 2, counts={1: [1, 2, 1]}, labels=[NAN] * 4 + [0, 2])
    noisy = add_count_noise(y, 1, random_state=0)
    np.testing.assert_array_equal(noisy["proportion"][4:], [[1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(noisy["noise"][[0, 5]], [[2**0.5 / 4] * 3, [0] * 3])
    assert check_bag_target(noisy).labelled.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1], {"scale": 1}, "Plain labels have no counts"),
        (
            bag_target([1, 2], [0.5, 1]),
            {"scale": -1},
            "scale must be a finite number of at least 0",
        ),
        (bag_target([1, 2], [0.5, 1]), {"scale": 1, "distribution": "t"}, "'laplace', 'gaussi"),
        (bag_target([1, 2], [0.5, 1], noise=1), {"scale": 1}, "noisy already"),
    ],
)
def test_what_noise_cannot_be_added_to_is_said(y, options, message):
    with pytest.raises(ValueError, match=message):
        add_count_noise(y, **options)


# --- noise that overwhelms ----------------------------------------------------------------------


def small_bags(scale, seed):
    """1,740 bags of some 14 rows of which 9% are positive, with Laplace noise on their counts."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 21, 1740)
    bag = np.repeat(np.arange(1740), sizes)
    X = rng.normal(size=(len(bag), 4)) + 0.5 * rng.normal(size=(1740, 4))[bag]
    labels = rng.random(len(bag)) < 1 / (1 + np.exp(3 - X @ [1, -0.7, 0.4, 0]))
    counts = np.bincount(bag, labels) + rng.laplace(scale=scale, size=1740)
    return X, bag_target(bag, counts=counts[bag], noise=np.sqrt(2) * scale), labels


def test_counts_with_noise_of_their_own_size_are_learned_from():
    losses = []
    for seed in range(3):
        X, y, labels = small_bags(10.0, seed)
        p = LLPClassifier(kernel=None).fit(X, y).predict_proba(X)[:, 1]
        assert p.mean() == pytest.approx(labels.mean(), abs=0.05)
        assert roc_auc_score(labels, p) > 0.7
        losses.append(log_loss(labels, p) - log_loss(labels, np.full(len(p), labels.mean())))
    assert np.mean(losses) < -0.02


def test_noise_that_leaves_nothing_to_learn_is_said():
    X, y, _ = small_bags(100.0, 0)
    with pytest.warns(UserWarning, match=r"0.19 ± 0.24 is of class 1; .* cannot be trusted"):
        model = LLPClassifier(kernel=None).fit(X, y)
    assert 0.1 < model.class_prior_[1] < 0.9
    assert np.isfinite(model.decision_function(X)).all()
    with pytest.raises(ValueError, match="hardly more than noise alone"):
        evaluate(y, model.decision_function(X))


def test_the_class_prior_of_noisy_counts_is_that_to_be_expected():
    y = bag_target([1] * 10, counts={1: -3.0}, noise=4.0)
    q = np.linspace(0, 1, 200_001)
    density = norm.pdf((q + 0.3) / 0.4)
    shares = check_bag_target(y).class_shares
    np.testing.assert_allclose(shares[1], (q * density).sum() / density.sum(), rtol=1e-4)
    assert shares.sum() == pytest.approx(1)
