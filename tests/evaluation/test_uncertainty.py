"""Standard errors and intervals: against textbook formulas on labels, and by coverage."""

import numpy as np
import pytest

from gaussian import gaussian_auc
from unbag import bag_target
from unbag.datasets import add_count_noise, make_gaussian_bags
from unbag.evaluation import Estimate, estimate

RNG = np.random.default_rng(0)
LABELS = (RNG.uniform(size=600) < 0.4).astype(int)
SCORES = RNG.normal(size=600) + LABELS


def delong(labels, scores):
    """Variance of the AUC by DeLong's formula."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    by_positive, by_negative = wins.mean(axis=1), wins.mean(axis=0)
    return by_positive.var() / len(positive) + by_negative.var() / len(negative)


def test_on_labels_the_error_of_a_rate_is_the_binomial_one():
    found = estimate("recall", LABELS, SCORES)
    expected = np.sqrt(found.value * (1 - found.value) / LABELS.sum())
    assert found.standard_error == pytest.approx(expected, rel=0.08)


def test_on_labels_the_error_of_the_area_is_delongs():
    found = estimate("roc_auc", LABELS, SCORES)
    expected = np.sqrt(delong(LABELS, SCORES))
    assert found.standard_error == pytest.approx(expected, rel=0.08)


def test_intervals_hold_the_truth_as_often_as_they_say():
    truth = gaussian_auc(2.0)
    hits, errors, values = [], [], []
    for seed in range(150):
        data = make_gaussian_bags(
            n_bags=30, bag_size=16, n_features=1, separation=2.0, random_state=seed
        )
        found = estimate(
            "roc_auc",
            data.y,
            data.X[:, 0],
            n_resamples=200,
            confidence_level=0.9,
        )
        hits.append(found.low <= truth <= found.high)
        errors.append(found.standard_error)
        values.append(found.value)
    # three binomial deviations of 150 around .9
    assert 0.82 < np.mean(hits) < 0.98
    assert np.mean(values) == pytest.approx(truth, abs=3 * np.std(values) / np.sqrt(150))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.25)


def test_copied_rows_make_no_interval_narrower():
    data = make_gaussian_bags(n_bags=60, bag_size=20, n_features=1, random_state=0)
    bag, share = np.repeat(data.y["bag"], 10), np.repeat(data.y["proportion"], 10)
    once = estimate("roc_auc", data.y, data.X[:, 0])
    often = estimate("roc_auc", bag_target(bag, share), np.repeat(data.X[:, 0], 10))
    assert often.value == pytest.approx(once.value)
    assert often.standard_error == pytest.approx(once.standard_error, rel=0.02)


def test_known_labels_among_bags_make_the_interval_narrower():
    data = make_gaussian_bags(n_bags=10, bag_size=50, n_features=1, random_state=2)
    known = np.full(500, np.nan)
    known[::5] = data.labels[::5]
    with_labels = bag_target(data.y["bag"], data.y["proportion"], labels=known)
    few = estimate("roc_auc", data.y, data.X[:, 0])
    more = estimate("roc_auc", with_labels, data.X[:, 0])
    assert more.standard_error < 0.8 * few.standard_error


def test_same_seed_same_interval():
    data = make_gaussian_bags(n_bags=20, bag_size=20, n_features=1, random_state=0)
    first = estimate("roc_auc", data.y, data.X[:, 0], random_state=5)
    again = estimate("roc_auc", data.y, data.X[:, 0], random_state=5)
    other = estimate("roc_auc", data.y, data.X[:, 0], random_state=6)
    assert first == again
    assert first != other


def test_impossible_numbers_are_shown_as_they_are_and_limits_cut_to_what_is_possible():
    assert str(Estimate(1.02, 0.04, 0.94, 1.1, 0.95)) == "1.0200 (0.9400 to 1.0000)"
    # nothing of this is possible, so that nothing may look sure
    assert str(Estimate(1.23, 0.04, 1.14, 1.32, 0.95)) == "1.2300 (1.1400 to 1.3200)"
    assert str(Estimate(2.5, 1, 0.5, 4.5, 0.95, bounded=False)) == "2.5000 (0.5000 to 4.5000)"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"confidence_level": 95}, "confidence_level must lie between 0 and 1"),
        ({"n_resamples": 1}, "n_resamples must be a whole number"),
    ],
)
def test_settings_that_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        estimate("roc_auc", LABELS, SCORES, **options)


def test_two_bags_say_nothing_about_how_bags_vary():
    y = bag_target([1, 1, 2, 2], [0.5, 0.5, 1.0, 1.0])
    with pytest.raises(ValueError, match="2 bags of 2 classes leave no degrees of freedom"):
        estimate("roc_auc", y, [1.0, 2.0, 3.0, 4.0])


def test_bags_too_alike_to_be_drawn_again_are_refused():
    share = np.array([0.5] * 30 + [0.6])
    y = bag_target(np.repeat(np.arange(31), 5), np.repeat(share, 5))
    with pytest.raises(ValueError, match="too few or too alike for intervals"):
        estimate("roc_auc", y, np.arange(155.0))


def test_known_noise_neither_biases_nor_is_forgotten_in_the_interval():
    """Laplace noise on counts, 60 draws: left out the AUC is too low by far."""
    truth = gaussian_auc(2.0)
    errors = {"known": [], "ignored": []}
    hits = []
    for seed in range(60):
        data = make_gaussian_bags(
            n_bags=80, bag_size=30, proportions=(0.2, 0.7), n_features=1, random_state=seed
        )
        # another seed, or the noise would go along with the proportions
        known = add_count_noise(data.y, 1.5, random_state=1000 + seed)
        ignored = bag_target(known["bag"], np.clip(known["proportion"], 0, 1))
        found = {
            name: estimate("roc_auc", y, data.X[:, 0])
            for name, y in (("known", known), ("ignored", ignored))
        }
        for name in errors:
            errors[name].append(found[name].value - truth)
        hits.append(found["known"].low <= truth <= found["known"].high)
    assert np.mean(errors["ignored"]) < -0.03
    # what is left is of the order of one over the number of bags
    assert abs(np.mean(errors["known"])) < 0.2 * abs(np.mean(errors["ignored"]))
    assert 0.85 < np.mean(hits) <= 1


def test_what_no_bag_shows_is_allowed_for_where_all_are_predicted_alike():
    # scores that are constant in bags: as many independent rows as bags
    bag, rng = np.repeat(np.arange(30), 20), np.random.default_rng(0)
    y = bag_target(bag, counts=rng.integers(2, 18, 30)[bag])
    found = estimate("balanced_accuracy", y, 5 + rng.normal(size=30)[bag])
    share = 1 - 0.025 ** (1 / 30)  # none of 30 bags, by Clopper and Pearson
    assert (found.low, found.value) == pytest.approx((0.5 - share / 2, 0.5))
    assert found.high == pytest.approx(0.5 + share / 2)
    # scores of independent rows: many more
    found = estimate("balanced_accuracy", y, 5 + 0.1 * rng.normal(size=600))
    assert 0.494 < found.low < 0.5 < found.high < 0.506
    # by a constant all rows are predicted alike for certain
    found = estimate("balanced_accuracy", y, np.full(600, 5.0))
    assert found.high - found.low == pytest.approx(0)


def test_a_rate_of_one_is_no_certainty():
    labels = np.repeat([0, 1], 20)
    found = estimate("recall", labels, np.linspace(1, 2, 40))
    assert found.value == found.high == 1
    assert found.low == pytest.approx(0.025 ** (1 / 40), abs=0.01)
