"""Which rows to label, and how many."""

import numpy as np
import pytest

from estimates import estimate_with_labels
from unbag import bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import required_labels, sample_rows_to_label

DATA = make_gaussian_bags(n_bags=30, bag_size=40, n_features=1, random_state=0)
SCORES = 1.5 * DATA.X[:, 0]


def test_rows_are_drawn_as_often_as_their_weights_say():
    times, weight = np.zeros(1200), np.ones(1200)
    for seed in range(400):
        rows, weights = sample_rows_to_label(60, DATA.y, SCORES, random_state=seed)
        assert len(rows) == len(set(rows)) == 60
        times[rows] += 1
        weight[rows] = weights
    drawn = times > 0
    probability = 1 / weight[drawn]
    error = np.sqrt(probability * (1 - probability) / 400)
    assert np.mean(np.abs(times[drawn] / 400 - probability) < 3 * error) > 0.98
    # half of the probability is the same for all
    assert weight.max() <= 2 * 1200 / 60 + 1e-9


def test_rows_are_spread_over_scores_and_bags():
    rows, _ = sample_rows_to_label(120, DATA.y, SCORES, random_state=0)
    tenth = np.argsort(np.argsort(SCORES))[rows] // 120
    assert np.bincount(tenth, minlength=10).min() >= 5
    assert len(np.unique(DATA.y["bag"][rows])) >= 28


def test_all_rows_can_be_drawn():
    rows, weights = sample_rows_to_label(1200, DATA.y, SCORES, random_state=0)
    np.testing.assert_array_equal(rows, np.arange(1200))
    np.testing.assert_allclose(weights, 1)


def test_rows_that_tell_nothing_are_drawn_evenly():
    y = bag_target([0, 0, 1, 1], counts=[0, 0, 2, 2])
    _, weights = sample_rows_to_label(2, y, [-1.0, 0.5, 0.2, 2.0], random_state=0)
    np.testing.assert_allclose(weights, 2)


def test_several_classes():
    data = make_gaussian_bags(10, 30, n_classes=3, n_features=2, random_state=0)
    rows, weights = sample_rows_to_label(50, data.y, data.X @ data.means.T, random_state=0)
    assert len(rows) == 50
    assert weights.sum() == pytest.approx(300, rel=0.3)


def test_estimates_from_the_plan_are_right_on_average():
    truth = estimate_with_labels("roc_auc", DATA.y, SCORES, DATA.labels.astype(float)).value
    errors = []
    for seed in range(40):
        rows, weights = sample_rows_to_label(100, DATA.y, SCORES, random_state=seed)
        labels, weight = np.full((2, 1200), np.nan)
        labels[rows], weight[rows] = DATA.labels[rows], weights
        found = estimate_with_labels("roc_auc", DATA.y, SCORES, labels, weights=weight)
        errors.append(found.value - truth)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(40)


def test_as_many_labels_as_needed_give_the_precision():
    rng = np.random.default_rng(0)
    n = required_labels(0.04, DATA.y, SCORES)
    widths = []
    for _ in range(20):
        rows = rng.choice(1200, n, replace=False)
        labels = np.full(1200, np.nan)
        labels[rows] = DATA.labels[rows]
        found = estimate_with_labels("roc_auc", DATA.y, SCORES, labels)
        widths.append((found.high - found.low) / 2)
    assert 0.7 * 0.04 < np.mean(widths) < 1.3 * 0.04
    assert 0.5 * n < required_labels(0.04, DATA.y, SCORES, labels=labels) < 2 * n


def test_more_precision_needs_more_labels():
    numbers = [required_labels(p, DATA.y, SCORES, measure="accuracy") for p in (0.1, 0.05, 0.01)]
    assert 0 < numbers[0] < numbers[1] < numbers[2]
    assert required_labels(1e-9, DATA.y, SCORES) == 1200


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sample_rows_to_label(0, DATA.y, SCORES), "from 1 to the 1200 rows"),
        (lambda: sample_rows_to_label(1201, DATA.y, SCORES), "from 1 to the 1200 rows"),
        (lambda: sample_rows_to_label(2.5, DATA.y, SCORES), "n must be a whole number"),
        (lambda: required_labels(0, DATA.y, SCORES), "precision must be a positive"),
        (
            lambda: required_labels(0.1, DATA.y, SCORES, confidence_level=1),
            "confidence_level must lie",
        ),
    ],
)
def test_what_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
