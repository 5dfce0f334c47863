"""Estimates from bags and some labels: unbiased over all draws, and intervals that cover the truth."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest

from estimates import estimate_with_labels, plain_estimate
from unbag import bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import evaluate
from unbag.evaluation.labelled import (
    Draw,
    Imputations,
    _with_bags,
    candidates,
    fit_imputations,
    from_draw,
)
from unbag.evaluation.measures import get_measure, make_sample
from unbag.observations.count_likelihood import label_posteriors

TRUE = {
    "roc_auc": partial(plain_estimate, "roc_auc"),
    "balanced_accuracy": partial(plain_estimate, "balanced_accuracy"),
    "accuracy": partial(plain_estimate, "accuracy"),
    "recall": partial(plain_estimate, "recall"),
    "precision": partial(plain_estimate, "precision"),
    "f1": partial(plain_estimate, "f1"),
}


def labelled_bags(n_bags=40, size=30, effect=1.0, seed=0):
    """Rows in bags that differ in who is in them, and by an effect that rows do not show."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    x = rng.normal(size=len(bag)) + rng.normal(size=n_bags)[bag]
    odds = 1.5 * x - 0.8 + effect * rng.normal(size=n_bags)[bag]
    labels = (rng.uniform(size=len(bag)) < 1 / (1 + np.exp(-odds))).astype(int)
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    return y, x, labels


def some(labels, n, rng):
    known = np.full(len(labels), np.nan)
    rows = rng.choice(len(labels), n, replace=False)
    known[rows] = labels[rows]
    return known


@pytest.mark.parametrize("name", TRUE)
def test_all_labels_give_the_truth(name):
    y, scores, labels = labelled_bags(n_bags=10)
    found = estimate_with_labels(name, y, scores, labels.astype(float))
    truth = TRUE[name](labels, scores)
    assert found.value == pytest.approx(truth)
    assert found.alone.value == pytest.approx(truth)
    assert found.standard_error == pytest.approx(0, abs=1e-12)
    assert found.n_labels == len(labels)


def draw(sample, labels, rows, weights=None):
    rows = np.asarray(rows)
    n = sample.bags.n_instances
    given = np.full(len(rows), n / len(rows)) if weights is None else weights
    return Draw(rows, labels[rows], given, sample.bags)


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy", "accuracy", "recall"])
def test_mean_over_all_draws_is_the_truth_whatever_the_guesses(name):
    bag = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    labels = np.array([1, 0, 0, 0, 1, 1, 0, 1, 0])
    scores = np.random.default_rng(1).normal(size=9)
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    sample, measure = make_sample(y, scores), get_measure(name, {})
    for slope in (-3.0, 0.0, 2.0):
        p = label_posteriors(slope * scores[None, None], sample.bags)[0]
        imputation = np.concatenate([1 - p, p])
        values = [
            _with_bags(
                measure,
                sample,
                draw(sample, labels, rows),
                Imputations(imputation, [(imputation, [True] * 4)]),
            )[0]
            for rows in combinations(range(9), 4)
        ]
        assert np.mean(values) == pytest.approx(TRUE[name](labels, scores))


def test_mean_over_all_draws_of_three_classes_is_the_truth():
    bag = np.repeat([0, 1], [4, 5])
    labels = np.array([0, 1, 2, 2, 0, 1, 1, 2, 0])
    counts = {i: np.bincount(labels[bag == i], minlength=3) for i in (0, 1)}
    columns = np.random.default_rng(0).normal(size=(9, 3))
    sample = make_sample(bag_target(bag, counts=counts), columns)
    imputation = label_posteriors(columns.T[None], sample.bags)[0]
    measure = get_measure("balanced_accuracy", {})
    values = [
        _with_bags(
            measure,
            sample,
            draw(sample, labels, rows),
            Imputations(imputation, [(imputation, [True] * 4)]),
        )[0]
        for rows in combinations(range(9), 4)
    ]
    assert np.mean(values) == pytest.approx(plain_estimate("balanced_accuracy", labels, columns))


@pytest.mark.parametrize("effect", [0.0, 1.5])
def test_intervals_hold_and_are_narrower_than_from_labels_alone(effect):
    y, scores, labels = labelled_bags(effect=effect)
    rng = np.random.default_rng(5)
    names = ("roc_auc", "balanced_accuracy", "precision")
    truth = {name: TRUE[name](labels, scores) for name in names}
    hits, widths = {name: [] for name in names}, {name: [] for name in names}
    for _ in range(40):
        found = evaluate(y, scores, labels=some(labels, 150, rng), n_resamples=20)
        for name in names:
            e = found[name]
            hits[name].append(e.low <= truth[name] <= e.high)
            widths[name].append((e.high - e.low, e.alone.high - e.alone.low))
    for name in names:
        with_bags, alone = np.mean(widths[name], axis=0)
        assert np.mean(hits[name]) >= 0.87, name
        assert with_bags < 0.95 * alone, name


def test_useless_scores_make_nothing_wider_than_labels_alone():
    y, _, labels = labelled_bags()
    rng = np.random.default_rng(0)
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(size=len(labels))
        for name in ("roc_auc", "accuracy", "f1"):
            e = estimate_with_labels(name, y, scores, some(labels, 100, rng))
            assert e.high - e.low <= 1.05 * (e.alone.high - e.alone.low) + 1e-12


def test_weights_take_back_what_was_drawn_too_often():
    y, scores, labels = labelled_bags()
    rng = np.random.default_rng(0)
    probability = np.where(scores > 0, 0.3, 0.1)
    truth = plain_estimate("roc_auc", labels, scores)
    errors = []
    for _ in range(40):
        known = np.where(rng.uniform(size=len(labels)) < probability, labels, np.nan)
        found = estimate_with_labels("roc_auc", y, scores, known, weights=1 / probability)
        errors.append([found.value - truth, found.alone.value - truth])
    error = np.std(errors, axis=0) / np.sqrt(40)
    assert (np.abs(np.mean(errors, axis=0)) < 4 * error).all()


def test_labels_given_to_the_target_are_found_there():
    y, scores, labels = labelled_bags()
    known = some(labels, 200, np.random.default_rng(0))
    joined = bag_target(y["bag"], y["proportion"], labels=known)
    found = estimate_with_labels("roc_auc", joined, scores)
    assert found.n_labels == 200
    truth = plain_estimate("roc_auc", labels, scores)
    assert found.low <= truth <= found.high
    # bags give the total only: not as precise
    apart = estimate_with_labels("roc_auc", y, scores, known)
    assert apart.standard_error < found.standard_error <= 1.05 * found.alone.standard_error


def test_noise_in_the_counts_widens_the_interval():
    y, scores, labels = labelled_bags()
    known = some(labels, 200, np.random.default_rng(0))
    counts = np.bincount(y["bag"], labels)
    rng = np.random.default_rng(1)
    found = []
    for noise in (0.01, 3.0):
        noisy = bag_target(
            y["bag"], counts=(counts + noise * rng.normal(size=40))[y["bag"]], noise=noise
        )
        sample = make_sample(noisy, scores)
        drawn = Draw(
            np.flatnonzero(known >= 0),
            known[known >= 0].astype(int),
            np.full(200, 6.0),
            sample.bags,
        )
        imputations = fit_imputations(drawn, candidates(sample, sample.bags))
        found.append(_with_bags(get_measure("recall", {}), sample, drawn, imputations))
    assert 0 < found[0][2] < 1e-6 < found[1][2]
    value, added, more = found[1]
    error = np.sqrt(np.sum(added**2) + more)
    assert abs(value - plain_estimate("recall", labels, scores)) < 3 * error


def test_same_for_any_stretch_and_shift_of_the_scores():
    y, scores, labels = labelled_bags(n_bags=10)
    known = some(labels, 100, np.random.default_rng(0))
    one = estimate_with_labels("roc_auc", y, scores, known)
    other = estimate_with_labels("roc_auc", y, 100 * scores + 7, known)
    assert one.value == pytest.approx(other.value, abs=1e-6)
    assert one.high == pytest.approx(other.high, abs=1e-6)


def test_limits_lie_where_labels_can_be():
    y, scores, labels = labelled_bags(n_bags=10)
    sample = make_sample(y, labels + 0.01 * scores)
    drawn = draw(sample, labels, np.arange(0, 300, 10))
    found = from_draw(
        get_measure("roc_auc", {}),
        sample,
        drawn,
        fit_imputations(drawn, candidates(sample, sample.bags)),
    )
    assert found.high <= 1
    assert found.value <= 1


def test_labels_without_an_error_leave_an_interval():
    """All of 61 labels as predicted: Clopper and Pearson's limit by the rarer class."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [400, 200])
    scores = labels + rng.uniform(0.0, 0.9, 600) - 0.5
    y = bag_target(
        np.arange(600) % 15, counts=np.bincount(np.arange(600) % 15, labels)[np.arange(600) % 15]
    )
    known = np.full(600, np.nan)
    rows = np.concatenate([np.arange(41), 400 + np.arange(20)])
    known[rows] = labels[rows]
    alone = estimate_with_labels("roc_auc", y, scores, known).alone
    assert (alone.value, alone.high) == (1.0, 1.0)
    assert alone.low == pytest.approx(max(0.025 ** (1 / 20), 0), abs=0.02)
    assert estimate_with_labels("accuracy", y, scores, known).low < 1


def test_words_and_names():
    y, scores, labels = labelled_bags(n_bags=10)
    found = evaluate(y, scores, labels=some(labels, 100, np.random.default_rng(0)), n_resamples=20)
    text = str(found)
    assert "100 labels" in text.splitlines()[0]
    assert found["roc_auc"].assumption == "labels"
    assert "from the labels alone" in text
    assert next(iter(found.estimates)) == "roc_auc"
    with pytest.raises(KeyError, match="There is no 'gain' here"):
        found["gain"]


def test_three_classes_have_recalls():
    data = make_gaussian_bags(20, 30, n_classes=3, n_features=2, random_state=0)
    scores = data.X @ data.means.T
    known = some(data.labels, 150, np.random.default_rng(0))
    found = evaluate(data.y, scores, labels=known, n_resamples=20)
    assert list(found.estimates)[2:] == ["recall of 0", "recall of 1", "recall of 2"]
    truth = plain_estimate("balanced_accuracy", data.labels, scores)
    assert found["balanced_accuracy"].low <= truth <= found["balanced_accuracy"].high


Y, SCORES, LABELS = labelled_bags(n_bags=4)
KNOWN = some(LABELS, 60, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("labels", "options", "sentence"),
    [
        (np.full(120, np.nan), {}, "No row has a label"),
        (None, {}, "No row has a label"),
        (KNOWN[1:], {}, "120 instances but 119 labels"),
        (np.where(KNOWN == 1, 2, KNOWN), {}, "Label 2 is none of the 2 classes"),
        (np.where(KNOWN == 1, 0.5, KNOWN), {}, "Label 0.5 is not a class number"),
        (np.where(KNOWN == 1, np.nan, KNOWN), {}, "Of class 1 there are 0 labels"),
        (KNOWN, {"weights": np.ones(3)}, r"weights of shape \(3,\)"),
        (KNOWN, {"weights": np.zeros(120)}, "must be a positive number"),
    ],
)
def test_what_is_refused(labels, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        estimate_with_labels("roc_auc", Y, SCORES, labels, **options)
