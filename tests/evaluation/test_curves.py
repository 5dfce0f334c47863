"""Curves over all thresholds, their bands, and the best threshold."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import metrics as sk

from unbag.datasets import make_gaussian_bags
from unbag.evaluation.curves import (
    best_threshold,
    make_roc_band,
)
from unbag.evaluation.measures import make_sample, plain_estimate
from unbag.evaluation.uncertainty import Uncertainty

RNG = np.random.default_rng(0)
LABELS = (RNG.uniform(size=400) < 0.3).astype(int)
SCORES = np.round(RNG.normal(size=400) + LABELS, 1)
DATA = make_gaussian_bags(n_bags=80, bag_size=60, n_features=1, separation=2.0, random_state=0)


def test_band_lies_around_the_curve():
    band = make_roc_band(make_sample(DATA.y, DATA.X[:, 0]), Uncertainty())
    truth = norm.sf(norm.isf(band.fpr) - 2.0)
    inside = (band.low <= truth + 1e-9) & (truth <= band.high + 1e-9)
    assert inside.mean() > 0.9
    assert (np.diff(band.tpr) >= 0).all()
    middle = slice(5, 60)
    assert (band.low[middle] <= band.tpr[middle]).all()
    assert (band.tpr[middle] <= band.high[middle]).all()
    assert 0.02 < np.mean(band.high[middle] - band.low[middle]) < 0.3


def test_best_threshold_of_the_balanced_error_is_halfway_between_the_classes():
    # classes N(-1, 1) and N(1, 1) on the first axis: densities cross in the middle
    centre = np.mean([DATA.X[DATA.labels == c, 0].mean() for c in (0, 1)])
    assert best_threshold(DATA.y, DATA.X[:, 0]) == pytest.approx(centre, abs=0.35)


def test_dear_false_positives_raise_the_threshold():
    cheap = best_threshold(DATA.y, DATA.X[:, 0], cost=(1, 5), class_prior="empirical")
    dear = best_threshold(DATA.y, DATA.X[:, 0], cost=(5, 1), class_prior="empirical")
    assert cheap < dear


def test_no_threshold_costs_less_than_the_best():
    cost, prior = (2.0, 1.0), (0.6, 0.4)
    best = best_threshold(DATA.y, DATA.X[:, 0], cost=cost, class_prior=prior)
    others = np.quantile(DATA.X[:, 0], np.linspace(0, 1, 41))
    charges = [
        plain_estimate("cost", DATA.y, DATA.X[:, 0], cost=cost, class_prior=prior, threshold=t)
        for t in (best, *others)
    ]
    assert charges[0] == min(charges)


def test_best_threshold_of_labels_by_exhaustive_search():
    found = best_threshold(LABELS, SCORES)
    errors = [
        1 - sk.balanced_accuracy_score(LABELS, t < SCORES) for t in (found, *np.unique(SCORES))
    ]
    assert errors[0] == pytest.approx(min(errors))


def test_three_classes_are_refused():
    with pytest.raises(ValueError, match="for two classes and there are 3"):
        best_threshold(np.array([0, 1, 2, 0, 1, 2]), np.eye(3)[[0, 1, 2, 0, 1, 2]])
