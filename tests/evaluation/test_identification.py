"""Limits without assumptions, against every labelling that agrees with the counts."""

from itertools import permutations, product

import numpy as np
import pytest

from unbag import bag_target
from unbag.evaluation import identification_bounds
from unbag.evaluation.identification import in_these_rows
from unbag.evaluation.measures import get_measure, make_sample

BAG = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
COUNTS = {0: 1, 1: 2, 2: 2}
SCORES = np.random.default_rng(0).normal(size=len(BAG))
TIED = np.round(SCORES) / 2

MEASURES = [
    ("roc_auc", {}),
    ("balanced_accuracy", {}),
    ("balanced_error", {"threshold": 0.2}),
    ("accuracy", {}),
    ("accuracy", {"class_prior": (0.9, 0.1)}),
    ("cost", {"cost": (1.0, 5.0), "class_prior": "empirical"}),
    ("cost", {"cost": [[0.0, -2.0], [-1.0, 1.0]]}),
    ("recall", {}),
    ("true_positive_rate", {"threshold": -0.5}),
    ("false_positive_rate", {}),
    ("precision", {}),
    ("precision", {"class_prior": (0.99, 0.01)}),
    ("f1", {}),
    ("f1", {"class_prior": (0.2, 0.8), "positive": 0}),
]
ALL_MEASURES = pytest.mark.parametrize(("name", "options"), MEASURES)


def labellings(bag, fills):
    """Every labelling in which each bag has one of its lists of labels, in any order."""
    orders = [{order for labels in choices for order in permutations(labels)} for choices in fills]
    for parts in product(*orders):
        labels = np.empty(len(bag), dtype=int)
        for i, part in enumerate(parts):
            labels[bag == i] = part
        yield labels


def filled(count, size):
    return [1] * count + [0] * (size - count)


def values(name, y, scores, every, options):
    """Measure of each labelling, at the class proportions of the bags."""
    sample = make_sample(y, scores)
    measure = in_these_rows(get_measure(name, options))
    statistics = measure.statistics(sample)
    found = []
    for labels in every:
        means = [statistics[:, labels == c].mean(axis=1) for c in range(sample.bags.n_classes)]
        found.append(float(measure.of_means(np.array(means), sample.bags)))
    return np.array(found)


@ALL_MEASURES
@pytest.mark.parametrize("scores", [SCORES, TIED], ids=["distinct", "tied"])
def test_limits_are_the_extremes_of_all_labellings(name, options, scores):
    y = bag_target(BAG, counts=COUNTS)
    every = labellings(BAG, [[filled(k, np.sum(i == BAG))] for i, k in COUNTS.items()])
    found = identification_bounds(name, y, scores, **options)
    all_values = values(name, y, scores, every, options)
    assert found.sharp
    assert found.low == pytest.approx(all_values.min(), abs=1e-12)
    assert found.high == pytest.approx(all_values.max(), abs=1e-12)


def test_area_is_that_of_labels_where_these_are_known():
    labels = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0])
    pairs = [(a > b) + 0.5 * (a == b) for a in TIED[labels == 1] for b in TIED[labels == 0]]
    found = identification_bounds("roc_auc", labels, TIED)
    assert found.sharp
    assert (found.low, found.high) == pytest.approx((np.mean(pairs), np.mean(pairs)))


@ALL_MEASURES
def test_rows_of_known_label_keep_it(name, options):
    known = np.full(len(BAG), np.nan)
    known[[0, 4, 8]] = [1, 0, 1]
    y = bag_target(BAG, counts=COUNTS, labels=known)
    every = (
        labels
        for labels in labellings(BAG, [[filled(k, np.sum(i == BAG))] for i, k in COUNTS.items()])
        if (labels[[0, 4, 8]] == [1, 0, 1]).all()
    )
    found = identification_bounds(name, y, TIED, **options)
    all_values = values(name, y, TIED, every, options)
    assert found.sharp
    assert found.low == pytest.approx(all_values.min(), abs=1e-12)
    assert found.high == pytest.approx(all_values.max(), abs=1e-12)


@ALL_MEASURES
def test_share_between_two_counts_may_stand_for_either(name, options):
    y = bag_target(BAG, {0: 0.3, 1: 2 / 3, 2: 0.5})
    fills = [[filled(1, 4), filled(2, 4)], [filled(2, 3)], [filled(2, 4)]]
    found = identification_bounds(name, y, SCORES, **options)
    all_values = values(name, y, SCORES, labellings(BAG, fills), options)
    assert not found.sharp
    assert found.low <= all_values.min() + 1e-12
    assert found.high >= all_values.max() - 1e-12
    assert (found.low, found.high) == pytest.approx((all_values.min(), all_values.max()))


@ALL_MEASURES
def test_noise_widens_the_limits(name, options):
    exact = identification_bounds(name, bag_target(BAG, counts=COUNTS), SCORES, **options)
    y = bag_target(BAG, counts=COUNTS, noise=0.4)
    noisy = identification_bounds(name, y, SCORES, **options)
    surer = identification_bounds(name, y, SCORES, confidence_level=0.999, **options)
    assert not noisy.sharp
    assert surer.low <= noisy.low <= exact.low + 1e-12
    assert surer.high >= noisy.high >= exact.high - 1e-12


def test_nothing_predicted_has_no_precision():
    found = identification_bounds(
        "precision", bag_target(BAG, counts=COUNTS), SCORES, threshold=99.0
    )
    assert np.isnan(found.low)
    assert np.isnan(found.high)


@pytest.mark.parametrize(
    ("name", "y", "scores", "options", "sentence"),
    [
        ("roc_auc", bag_target(BAG, counts=dict.fromkeys(range(3), 0)), SCORES, {}, "no row of"),
        (
            "roc_auc",
            bag_target(BAG, counts=COUNTS),
            SCORES,
            {"confidence_level": 1.0},
            "confidence_level must lie",
        ),
        ("recall", np.array([0, 1, 2]), np.eye(3), {}, "for two classes and there are 3"),
        ("corrected_risk", bag_target(BAG, counts=COUNTS), SCORES, {}, "not risks"),
        ("gain", bag_target(BAG, counts=COUNTS), SCORES, {}, "There is no measure 'gain'"),
    ],
)
def test_what_is_refused(name, y, scores, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        identification_bounds(name, y, scores, **options)


def test_words():
    y = bag_target([0, 0], counts={0: 1})
    assert str(identification_bounds("roc_auc", y, [-1.0, 2.0])) == "0.0000 to 1.0000"
    y = bag_target([0, 0, 0], {0: 0.5})
    assert str(identification_bounds("roc_auc", y, [-1.0, 2.0, 3.0])).endswith("(or less)")
