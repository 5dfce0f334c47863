"""What the checks make of each other."""

from dataclasses import replace

import numpy as np
import pytest

from unbag import bag_target, check_bag_target, label_shift_test
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.bag_effects import BagEffect
from unbag.evaluation.checks import (
    Signal,
    _error_covariance,
    judge_covariate_shift,
    judge_label_shift,
    overall_verdict,
    signal_for_range,
    signal_within_bags,
)

DATA = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
SOUND = label_shift_test(DATA.X, DATA.y)
UNSURE = BagEffect(0.0, 0.0, 0.1, 1.4, 0.5, 0.3, 1.9, 1.4)
LABEL_SHIFT = replace(UNSURE, slope=1.9, slope_unconstrained=1.9, slope_error=0.1)
COVARIATE_SHIFT = replace(UNSURE, slope=1.0, slope_unconstrained=1.0, slope_error=0.1)


def drifting(size):
    X = DATA.X.copy()
    X[:, 0] += size * np.random.default_rng(0).normal(size=40)[DATA.y["bag"]]
    return label_shift_test(X, DATA.y)


GROSS = drifting(3.0)
FEW = make_gaussian_bags(n_bags=6, bag_size=4, random_state=0)
WEAK = label_shift_test(FEW.X, FEW.y)


@pytest.mark.parametrize(
    ("test", "effect", "expected"),
    [
        (SOUND, UNSURE, "not_rejected"),
        (SOUND, LABEL_SHIFT, "not_rejected"),
        (SOUND, None, "not_rejected"),
        (SOUND, COVARIATE_SHIFT, "rejected"),
        (GROSS, UNSURE, "rejected"),
        (GROSS, None, "rejected"),
        (GROSS, COVARIATE_SHIFT, "rejected"),
        # drifts that do not go along with the proportions do no harm
        (GROSS, LABEL_SHIFT, "inconclusive"),
        (replace(SOUND, p_value=0.02, reject=True), UNSURE, "inconclusive"),
        (replace(SOUND, p_value=1e-4, reject=True), LABEL_SHIFT, "inconclusive"),
        # a test that could not fail is none
        (WEAK, UNSURE, "inconclusive"),
        (WEAK, None, "inconclusive"),
        (WEAK, LABEL_SHIFT, "not_rejected"),
        ("too few bags", LABEL_SHIFT, "not_rejected"),
        ("too few bags", UNSURE, "inconclusive"),
        ("too few bags", None, "inconclusive"),
    ],
)
def test_tests_and_slopes(test, effect, expected):
    found = judge_label_shift({"The scores": test}, effect)
    assert found.name == expected
    assert bool(found.advice) is (expected != "not_rejected")


def test_every_test_is_told_with_what_it_could_have_seen():
    found = judge_label_shift(
        {"The scores": SOUND, "The features": WEAK, "Others": "no bags."}, LABEL_SHIFT
    )
    sound, weak, none, _ = found.reasons
    assert f"{SOUND.typical_deviation:.2g} SD would have been detected" in sound
    assert f"{WEAK.typical_deviation:.2g} SD would not have been detected" in weak
    assert none == "Others could not be tested: no bags."


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        (Signal(10, 1.0, 0.2), "not_rejected"),
        (Signal(10, 0.4, 0.5), "inconclusive"),  # none cannot be excluded
        (Signal(10, 0.4, 0.2), "inconclusive"),
        (Signal(10, 0.0, 0.2), "rejected"),
        (Signal(10, 1.0, np.inf), "inconclusive"),
        (Signal(1, 1.0, 0.2), "inconclusive"),  # scores do not follow the proportions
    ],
)
def test_signal_within_bags_decides(signal, expected):
    assert judge_label_shift({"The scores": SOUND}, LABEL_SHIFT, signal).name == expected


def test_estimates_rest_on_what_is_not_rejected():
    good, none = Signal(10, 1.0, 0.2), Signal(10, 0.0, 0.2)
    chosen = {}
    for name, effect, signal in (
        ("label_shift", LABEL_SHIFT, good),
        ("covariate_shift", COVARIATE_SHIFT, good),
        ("sensitivity", LABEL_SHIFT, none),
        ("either", None, Signal(1, 1.0, 0.2)),
    ):
        one = judge_label_shift({"The scores": SOUND}, effect, signal)
        chosen[name] = overall_verdict(one, judge_covariate_shift(effect, signal)).assumption
    assert chosen == {name: name for name in chosen}


@pytest.mark.parametrize(("test", "assumption"), [(SOUND, "either"), (GROSS, "sensitivity")])
def test_what_would_help_is_named_where_scores_do_not_follow_the_proportions(test, assumption):
    flat = Signal(1, 1.0, 0.2)
    of_label_shift = judge_label_shift({"The scores": test}, None, flat)
    found = overall_verdict(of_label_shift, judge_covariate_shift(None, flat))
    assert found.assumption == assumption
    assert "scores do not differ with them" in found.reasons[0]
    for words in ("Labels of a few hundred rows", "Smaller bags, or a column that differs"):
        assert any(words in text for text in found.advice)


def test_a_slope_below_one_is_shown_and_explained():
    reversed_scores = replace(COVARIATE_SHIFT, slope_unconstrained=-1.7)
    found = judge_covariate_shift(reversed_scores)
    assert found.name == "not_rejected"
    assert "slope -1.70 ± 0.20" in found.reasons[0]
    assert "too large or reversed" in found.reasons[0]
    assert "reversed" not in judge_covariate_shift(COVARIATE_SHIFT).reasons[0]


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_signal_within_bags_is_estimated_without_bias(ratio):
    """Classes two standard deviations apart between bags, and so much of that within them."""
    rng, found = np.random.default_rng(0), []
    for _ in range(20):
        bag = np.repeat(np.arange(40), 50)
        labels = rng.uniform(size=2000) < rng.uniform(size=40)[bag]
        share = np.bincount(bag, labels) / 50
        within = np.sqrt(ratio) * (labels - share[bag])
        scores = rng.normal(size=2000) + 2 * (share[bag] + within)
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        found.append(signal_within_bags(check_bag_target(y), scores))
    assert min(one.separation for one in found) > 5
    assert np.mean([one.ratio for one in found]) == pytest.approx(ratio, abs=0.15)
    z = [(one.ratio - ratio) / one.error for one in found]
    assert np.mean(np.abs(z) < 2) > 0.8


@pytest.mark.parametrize(
    ("signal", "label_shift", "expected"),
    [
        (Signal(10, 1.0, 0.2), "not_rejected", "found"),
        (Signal(10, 1.0, 0.2), "inconclusive", "found"),
        (Signal(10, 1.0, 0.2), "rejected", "unknown"),
        # a relation reversed within bags has a variance, too
        (Signal(10, 0.4, 0.1), "inconclusive", "unknown"),
        (Signal(1, 1.0, 0.2), "rejected", "none"),
    ],
)
def test_variances_within_bags_have_no_sign(signal, label_shift, expected):
    verdict = judge_label_shift({"The scores": SOUND}, UNSURE)
    assert signal_for_range(signal, replace(verdict, name=label_shift)) == expected


def test_the_error_covariance_is_that_of_simulated_noise():
    """Of proportions and θᵀKθ with normal noise, for one bag of three classes."""
    rng = np.random.default_rng(0)
    G, theta, scale, n = np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, -1.5]), 1.1, 200_000
    root = rng.normal(size=(3, 3)) * 0.05
    root -= root.mean(axis=0)
    V = root @ root.T
    noisy = G + rng.normal(size=(n, 3)) @ root.T
    D = noisy[:, :, None] * np.eye(3) - noisy[:, :, None] * noisy[:, None, :]
    between = scale * np.einsum("c,bcd,d->b", theta, D + V, theta)
    errors = np.column_stack([noisy - G, between])
    each = np.broadcast_to(V, (n, 3, 3))
    found = _error_covariance(noisy, each, np.full(n, scale), theta).mean(axis=0)
    np.testing.assert_allclose(found, np.cov(errors.T), atol=2e-5, rtol=0.02)


def test_declared_noise_of_proportions_leaves_the_signal_within_bags():
    """Without the correction for errors in variables the ratio is too small."""
    declared, undeclared = [], []
    for seed in range(6):
        data = make_gaussian_bags(n_bags=300, bag_size=60, n_features=1, random_state=seed)
        share = np.bincount(data.y["bag"], data.labels) / 60
        noisy = share + 0.1 * np.random.default_rng(seed).normal(size=300)
        bag, scores = data.y["bag"], data.X[:, 0]
        for found, noise in ((declared, 6.0), (undeclared, 0.0)):
            counts = 60 * (noisy if noise else np.clip(noisy, 0, 1))
            y = (
                bag_target(bag, counts=counts[bag], noise=noise)
                if noise
                else bag_target(bag, counts[bag] / 60)
            )
            found.append(signal_within_bags(check_bag_target(y), scores).ratio)
    error = np.std(declared, ddof=1) / np.sqrt(6)
    assert abs(np.mean(declared) - 1) < 3 * error + 0.05
    assert np.mean(undeclared) < np.mean(declared) - 0.1
