"""Label-free reliability against the usual one on labels, and against the truth on average."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.calibration import calibration_curve as sk_calibration_curve

from unbag import bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import calibration_curve

BINARY = make_gaussian_bags(n_bags=60, bag_size=50, random_state=0)
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1], [190, 110]))
SCORES = np.random.default_rng(1).normal(size=300) + 1.5 * LABELS
PROBABILITY = expit(2 * SCORES - 1)
LABELS3 = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], [90, 60, 150]))
PROBABILITY3 = np.random.default_rng(3).dirichlet([1, 1, 1], 300)


def fixed_bags(n_bags=30, size=12, seed=0):
    """Bags of given labels, for which features are drawn again and again."""
    rng = np.random.default_rng(seed)
    labels = (rng.uniform(size=(n_bags, size)) < rng.uniform(size=(n_bags, 1))).astype(int).ravel()
    bag = np.repeat(np.arange(n_bags), size)
    return labels, bag_target(bag, labels.reshape(n_bags, size).mean(axis=1)[bag])


def draws(labels, n_resamples, seed=1):
    """Scores that are log odds at balanced classes: N(±1, 1), doubled."""
    noise = np.random.default_rng(seed).normal(size=(n_resamples, len(labels)))
    return 2 * (2 * labels - 1 + noise)


@pytest.mark.parametrize("n_bins", [1, 4, 10])
def test_reliability_of_plain_labels_is_the_usual_curve(n_bins):
    curve = calibration_curve(LABELS, PROBABILITY, n_bins=n_bins)
    observed, predicted = sk_calibration_curve(
        LABELS, PROBABILITY, n_bins=n_bins, strategy="quantile"
    )
    np.testing.assert_allclose(curve.observed, observed, atol=1e-12)
    np.testing.assert_allclose(curve.predicted, predicted)
    assert curve.count.sum() == 300
    usual = np.sqrt(np.maximum(observed * (1 - observed), 0) / curve.count)
    assert (curve.standard_error <= 1.05 * usual + 0.02).all()


def test_reliability_of_one_of_several_classes():
    names = np.array(["a", "b", "c"])[LABELS3]
    curve = calibration_curve(names, PROBABILITY3, pos_label="b", n_bins=5)
    observed, predicted = sk_calibration_curve(
        LABELS3 == 1, PROBABILITY3[:, 1], n_bins=5, strategy="quantile"
    )
    np.testing.assert_allclose(curve.observed, observed, atol=1e-12)
    np.testing.assert_allclose(curve.predicted, predicted)
    alone = calibration_curve(names, PROBABILITY3[:, 1], pos_label="b", n_bins=5)
    np.testing.assert_array_equal(curve.observed, alone.observed)


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_standard_errors_are_right_on_average(shift):
    labels, y = fixed_bags(n_bags=40)
    log_odds = draws(labels, 600) + logit(labels.mean())
    gap, error, true_gap = [], [], []
    for z in log_odds:
        truth, wrong = expit(z), expit(z + shift)
        curve = calibration_curve(y, wrong, n_bins=4)
        bins = np.searchsorted(np.quantile(wrong, [0.25, 0.5, 0.75]), wrong)
        true_gap.append(np.bincount(bins, truth - wrong) / np.bincount(bins))
        gap.append(curve.observed - curve.predicted)
        error.append(curve.standard_error)
    spread = np.std(gap, axis=0)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(error), axis=0)), spread, rtol=0.15)
    true = np.mean(true_gap, axis=0)
    np.testing.assert_allclose(np.mean(gap, axis=0), true, atol=4 * spread.max() / 24)


def test_bags_whose_scatter_cannot_be_told():
    y = bag_target([0, 0, 1, 1], [0.0, 0.0, 1.0, 1.0])
    p = [0.1, 0.2, 0.3, 0.9]
    curve = calibration_curve(y, p, n_bins=2)
    np.testing.assert_allclose(curve.observed, [0, 1], atol=1e-12)
    assert np.isnan(curve.standard_error).all()


@pytest.mark.parametrize(
    ("y", "probability", "settings", "message"),
    [
        (
            LABELS,
            PROBABILITY[1:],
            {},
            r"300 instances of 2 classes, but probabilities of shape \(299,\)",
        ),
        (LABELS, SCORES, {}, "must lie between 0 and 1"),
        (LABELS, np.full(300, np.nan), {}, "must lie between 0 and 1"),
        (LABELS3, PROBABILITY3 / 2, {}, "must sum to 1"),
        (LABELS3, PROBABILITY3, {}, "name one with pos_label"),
        (LABELS3, PROBABILITY3, {"pos_label": "x"}, "pos_label 'x' is none of the classes"),
        (LABELS, PROBABILITY, {"n_bins": 0}, "n_bins must be a whole number of at least 1"),
    ],
)
def test_bad_probabilities_get_one_sentence(y, probability, settings, message):
    with pytest.raises(ValueError, match=message):
        calibration_curve(y, probability, **settings)


def test_a_bin_without_a_share_is_refused():
    bag = np.repeat(np.arange(4), 10)
    y = bag_target(bag, dict(enumerate([-1.39, 0.18, -0.28, -0.18])), noise=0.15)
    with pytest.raises(ValueError, match="estimated share of bin 0 is not positive"):
        calibration_curve(y, np.linspace(0, 1, 40), n_bins=4)
