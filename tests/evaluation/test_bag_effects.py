"""Bag effects: found where there are some, and only there; and dispersion. By simulation."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chi2

from unbag import bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.bag_effects import (
    BagEffect,
    describe_effect,
    effect_of_means,
    estimate_bag_effect,
)

DRAWS = 100


def make_target(labels, n_classes=2, **settings):
    """Bags of the rows of a table of labels, with the shares that they have."""
    shares = np.stack([(labels == c).mean(axis=1) for c in range(n_classes)], axis=1)
    bag = np.repeat(np.arange(len(labels)), labels.shape[1])
    return bag_target(bag, shares[bag] if n_classes > 2 else shares[bag, 1], **settings)


def both(p):
    return np.stack([1 - p, p])


def under_covariate_shift(seed, variance, n_bags=100, size=200):
    """Probabilities that differ between and within bags, and an effect that moves all of a bag."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.32, 0.68, size=(n_bags, 1)) + rng.uniform(-0.04, 0.04, size=(n_bags, size))
    effect = rng.uniform(-1, 1, size=(n_bags, 1)) * np.sqrt(3 * variance / 4)
    labels = (rng.uniform(size=p.shape) < p + effect).astype(int)
    return check_bag_target(make_target(labels)), both(p.reshape(-1))


def under_label_shift(seed, separation=2.0, size=50):
    """Gaussian classes, and their true probabilities at the overall class prior."""
    data = make_gaussian_bags(
        n_bags=60, bag_size=size, n_features=1, separation=separation, random_state=seed
    )
    bags = check_bag_target(data.y)
    return bags, both(expit(separation * data.X[:, 0] + logit(bags.class_shares[1])))


# --- covariate shift -----------------------------------------------------------------------


def test_the_variance_of_an_effect_is_found():
    found = [estimate_bag_effect(*under_covariate_shift(seed, 0.1)) for seed in range(DRAWS)]
    variances = np.array([effect.variance for effect in found])
    error = variances.std() / np.sqrt(DRAWS)
    assert error < 0.002
    assert variances.mean() == pytest.approx(0.1, abs=3 * error)
    assert np.mean([effect.low <= 0.1 <= effect.high for effect in found]) > 0.92
    assert all(effect.significant for effect in found)
    assert np.mean([effect.slope for effect in found]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("n_bags", [5, 10, 20])
def test_few_bags_seldom_rule_out_the_effect_that_they_have(n_bags):
    found = [
        estimate_bag_effect(*under_covariate_shift(seed, 0.05, n_bags)) for seed in range(DRAWS)
    ]
    assert np.mean([effect.low <= 0.05 <= effect.high for effect in found]) > 0.92
    assert all(effect.variance <= effect.high <= 1 for effect in found)


def test_the_upper_end_is_where_squares_are_as_small_as_they_seldom_are():
    bags, probabilities = under_covariate_shift(1, 0.1, n_bags=8)
    effect = estimate_bag_effect(bags, probabilities)
    means = np.bincount(bags.index, probabilities[1]) / bags.sizes
    rest = np.bincount(bags.index, probabilities[1] * (1 - probabilities[1])) / bags.sizes
    q = bags.class_shares[1]
    apart, explained = bags.proportions[:, 1] - q, means - q
    weights = 1 / (effect.slope * rest / bags.sizes + effect.high * q * (1 - q))
    slope = max(1, (weights * apart) @ explained / ((weights * explained) @ explained))
    squares = weights @ (apart - slope * explained) ** 2
    assert squares == pytest.approx(chi2(6).ppf(0.025), rel=1e-3)


def test_no_effect_is_found_where_there_is_none():
    found = [estimate_bag_effect(*under_covariate_shift(seed, 0.0)) for seed in range(DRAWS)]
    assert np.mean([effect.low <= 0 <= effect.high for effect in found]) > 0.93
    assert np.mean([effect.significant for effect in found]) < 0.07
    assert np.mean([effect.variance for effect in found]) < 0.001


def test_effects_on_several_classes_are_found():
    """Their covariance is τ²(diag q − qqᵀ), as that of one class in place of the usual mixture."""
    q, variance, n_bags, size = np.array([0.5, 0.3, 0.2]), 0.02, 100, 100
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = q + 0.1 * (rng.dirichlet(5 * q, size=(n_bags, 1)) - q)
        p = p + 0.05 * (rng.dirichlet(5 * q, size=(n_bags, size)) - q)
        favoured = rng.choice(3, p=q, size=n_bags)
        moved = p + np.sqrt(variance) * (np.eye(3)[favoured] - q)[:, None, :]
        labels = (rng.uniform(size=(n_bags, size, 1)) > moved.cumsum(axis=2)[:, :, :2]).sum(axis=2)
        bags = check_bag_target(make_target(labels, 3))
        found.append(estimate_bag_effect(bags, p.reshape(-1, 3).T))
    variances = np.array([effect.variance for effect in found])
    error = variances.std() / np.sqrt(40)
    assert error < 0.001
    assert variances.mean() == pytest.approx(variance, abs=3 * error)
    assert all(effect.significant for effect in found)
    assert found[0].share == pytest.approx(0.5, abs=0.05)


# --- label shift --------------------------------------------------------------------------------


@pytest.mark.parametrize(("separation", "size"), [(1.0, 8), (2.0, 50), (2.0, 300), (4.0, 20)])
def test_label_shift_is_no_bag_effect(separation, size):
    found = [estimate_bag_effect(*under_label_shift(seed, separation, size)) for seed in range(60)]
    assert np.mean([effect.significant for effect in found]) <= 0.1
    # rows that separate the classes less well explain less of the shares
    slopes = np.array([effect.slope for effect in found])
    assert slopes.min() >= 1
    assert slopes.mean() > {1.0: 1.5, 2.0: 1.5, 4.0: 1.0}[separation]


# --- noise --------------------------------------------------------------------------------------


def test_noise_that_is_known_is_not_taken_for_an_effect():
    known, unknown = [], []
    for seed in range(60):
        bags, probabilities = under_covariate_shift(seed, 0.0)
        noise = 0.1 * np.random.default_rng([seed, 1]).normal(size=bags.n_bags)
        noisy = bags.proportions + noise[:, None] * [-1, 1]
        covariance = 0.1**2 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        unknown.append(estimate_bag_effect(replace(bags, proportions=noisy), probabilities))
        declared = replace(
            bags, proportions=noisy, noise=np.broadcast_to(covariance, (bags.n_bags, 2, 2))
        )
        known.append(estimate_bag_effect(declared, probabilities))
    assert np.mean([effect.significant for effect in known]) < 0.1
    assert all(effect.significant for effect in unknown)
    # undeclared, it is an effect of its variance
    variances = [effect.variance for effect in unknown]
    assert np.mean(variances) == pytest.approx(0.1**2 / 0.25, rel=0.05)


# --- how it is used -----------------------------------------------------------------------------


def test_means_of_bags_are_enough():
    bags, probabilities = under_covariate_shift(0, 0.1)
    means, variances = (
        bags.means(probabilities).T,
        bags.means(probabilities * (1 - probabilities)).T,
    )
    assert effect_of_means(bags, means, variances) == estimate_bag_effect(bags, probabilities)


def test_labelled_rows_do_not_count_as_bags():
    bags, probabilities = under_covariate_shift(0, 0.1, n_bags=30)
    # as many of both classes, so that the overall class prior stays the same
    half = np.arange(1000) % 2
    q = bags.class_shares[1]
    labels = np.concatenate([np.full(bags.n_instances, np.nan), half])
    shares = np.concatenate([bags.proportions[bags.index, 1], np.full(1000, 0.5)])
    bag = np.concatenate([bags.index, np.full(1000, 99)])
    mixed = check_bag_target(bag_target(bag, shares, labels=labels))
    assert mixed.labelled.any()
    more = np.concatenate([probabilities, both(half + 0.0)], axis=1)
    alone, together = estimate_bag_effect(bags, probabilities), estimate_bag_effect(mixed, more)
    assert together.variance == pytest.approx(alone.variance, rel=0.02)
    assert together.share == pytest.approx((q * bags.n_instances + 500) / len(bag))


def test_few_bags_leave_it_open():
    bags, probabilities = under_covariate_shift(0, 0.1, n_bags=4)
    found = estimate_bag_effect(bags, probabilities)
    assert (found.variance, found.low, found.high) == (0.0, 0.0, np.inf)
    assert not found.significant
    assert found.slope == 1.0


def test_bags_that_rows_explain_exactly_have_no_effect():
    bags, _ = under_covariate_shift(0, 0.1)
    certain = np.concatenate([np.arange(200) < round(200 * s) for s in bags.proportions[:, 1]])
    found = estimate_bag_effect(bags, both(certain.astype(float)))
    assert found.variance == pytest.approx(0, abs=1e-12)
    assert found.slope == pytest.approx(1)
    assert not found.significant


# --- which assumption --------------------------------------------------------------------------------


def shift_types(make, n_resamples=40):
    return [estimate_bag_effect(*make(seed)).shift_type for seed in range(n_resamples)]


def test_slopes_separate_the_assumptions():
    assert shift_types(lambda seed: under_covariate_shift(seed, 0.0)).count("covariate_shift") > 36
    assert shift_types(lambda seed: under_covariate_shift(seed, 0.1)).count("covariate_shift") > 36
    assert shift_types(under_label_shift).count("label_shift") > 36


def test_random_bags_carry_no_information():
    """There the two assumptions are the same."""

    def shuffled(seed):
        rng = np.random.default_rng(seed)
        p = expit(2 * rng.normal(size=(60, 100)))
        labels = (rng.uniform(size=p.shape) < p).astype(int)
        return check_bag_target(make_target(labels)), both(p.reshape(-1))

    assert shift_types(shuffled).count(None) >= 36
    assert "Inconclusive" in estimate_bag_effect(*shuffled(0)).message


def test_the_expected_slope_under_label_shift_is_found():
    found = [estimate_bag_effect(*under_label_shift(seed)) for seed in range(60)]
    slopes = np.array([effect.slope for effect in found])
    error = slopes.std() / np.sqrt(60)
    expected = np.mean([effect.slope_label_shift for effect in found])
    assert slopes.mean() == pytest.approx(expected, abs=3 * error)
    # and its own standard error is right, up to the error of variances over 60 draws
    stated = np.sqrt(np.mean([effect.slope_error**2 for effect in found]))
    assert stated == pytest.approx(slopes.std(), rel=0.3)


# --- words --------------------------------------------------------------------------------------

FOUND = BagEffect(
    variance=0.04,
    low=0.01,
    high=0.09,
    slope=1.1,
    share=0.5,
    slope_error=0.1,
    slope_label_shift=2.25,
)


def test_words_of_an_effect():
    assert FOUND.spread == pytest.approx(10.0)
    assert "SD of 10.0 percentage points" in str(FOUND)
    assert "5.0 to 15.0" in str(FOUND)
    assert "at most 15.0" in str(replace(FOUND, low=0.0))
    assert "too few bags" in str(replace(FOUND, high=np.inf))


@pytest.mark.parametrize(
    ("slope", "expected", "end"),
    [
        (1.1, 2.25, "agree with covariate shift"),
        (1.5, 2.25, "Inconclusive."),
        (2.0, 2.25, "agree with label shift"),
        (1.1, 1.04, "Inconclusive."),
        (1.1, np.nan, "too few bags"),
    ],
)
def test_words_of_a_slope(slope, expected, end):
    effect = replace(FOUND, slope=slope, slope_unconstrained=slope, slope_label_shift=expected)
    assert end in effect.message
    if np.isfinite(expected):
        assert f"slope {slope:.2f} ± 0.20" in effect.message
        assert f"label shift {expected:.2f}" in effect.message


@pytest.mark.parametrize(
    ("attributes", "facts"),
    [
        ({"bag_effect_": 0.09}, ["standard deviation of 0.30"]),
        ({"bag_effect_": 0.09, "dispersion_": 1.5}, ["standard deviation of 0.30", "1.50 times"]),
        ({"bag_effect_": 0.0, "dispersion_": 1.5}, ["1.50 times"]),
        ({"bag_effect_": 0.0, "dispersion_": 1.001}, ["no bag effect", "no overdispersion"]),
    ],
)
def test_description_of_a_model_names_its_variance_components(attributes, facts):
    found = describe_effect(SimpleNamespace(**attributes))
    assert all(fact in found for fact in facts)
    assert ("standard deviation" in found) == (attributes["bag_effect_"] > 0)
    assert ("times" in found) == (attributes.get("dispersion_", 1.0) > 1.01)


def test_models_without_bag_effects_have_no_description():
    assert describe_effect(SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("slope", "error", "expected"), [(1.0, 0.5, False), (1.0, 1.1, True), (3.0, 0.1, True)]
)
def test_label_shift_is_preferred_unless_the_slope_is_clearly_smaller(slope, error, expected):
    """Halfway between the assumptions, √4, is two standard errors away, less than one, or below."""
    effect = replace(FOUND, slope=slope, slope_error=error, slope_label_shift=4.0)
    assert effect.prefers_label_shift == expected
