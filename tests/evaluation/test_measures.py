"""Every measure: its influence against finite differences, its tally against its value."""

import numpy as np
import pytest
from sklearn import metrics as sk

from unbag import bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.measures import MEASURES, Sample, get_measure, make_sample

DATA = make_gaussian_bags(n_bags=12, bag_size=np.arange(5, 17), n_features=1, random_state=3)
SAMPLE = make_sample(DATA.y, np.round(DATA.X[:, 0], 1))
OPTIONS = {"cost": {"cost": (1.0, 5.0), "class_prior": (0.8, 0.2), "threshold": 0.3}}
ALL = pytest.mark.parametrize("name", MEASURES)


def make(name):
    return get_measure(name, OPTIONS.get(name, {}))


class OffsetObjective(Sample):
    """A sample whose weights have been moved: other class distributions on the same instances."""

    def __init__(self, sample, weights):
        super().__init__(sample.bags, sample.scores)
        self.__dict__["weights"] = weights


@ALL
def test_influence_is_the_derivative_in_the_weights(name):
    rng = np.random.default_rng(0)
    step = 1e-6 * rng.normal(size=SAMPLE.weights.shape)
    measure = make(name)
    moved = [measure.value(OffsetObjective(SAMPLE, SAMPLE.weights + s * step)) for s in (-1, 1)]
    influence = SAMPLE.bags.means(measure.influence(SAMPLE)).T
    assert moved[1] - moved[0] == pytest.approx(2 * np.sum(step * influence), rel=1e-4)


@ALL
def test_tally_gives_the_value_back(name):
    measure = make(name)
    tally = measure.tally(SAMPLE)
    means = SAMPLE.weights.T @ tally.bag_means
    assert float(tally.value(means)) == pytest.approx(measure.value(SAMPLE), rel=1e-10)
    stacked = tally.value(np.stack([means, means]))
    np.testing.assert_allclose(stacked, measure.value(SAMPLE), rtol=1e-10)


@pytest.mark.parametrize("name", ["precision", "recall", "f1", "accuracy"])
def test_on_labels_the_measures_are_the_usual_ones(name):
    rng = np.random.default_rng(1)
    labels = (rng.uniform(size=200) < 0.3).astype(int)
    scores = rng.normal(size=200) + labels
    expected = getattr(sk, f"{name}_score")(labels, scores > 0.4)
    value = get_measure(name, {"threshold": 0.4}).value(make_sample(labels, scores))
    assert value == pytest.approx(expected, rel=1e-10)


def test_area_with_more_scores_than_cells_is_exact():
    data = make_gaussian_bags(n_bags=20, bag_size=100, n_features=1, random_state=0)
    sample = make_sample(data.y, data.X[:, 0])
    measure = get_measure("roc_auc", {})
    tally = measure.tally(sample)
    assert tally.bag_means.shape[1] == 200
    value = tally.value(sample.weights.T @ tally.bag_means)
    assert float(value) == pytest.approx(measure.value(sample), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("auc", {}, "There is no measure 'auc'; there are roc_auc"),
        ("roc_auc", {"threshold": 1}, "does not take all of 'threshold'"),
        ("cost", {"cost": (1, 2, 3)}, "cost must be"),
        ("cost", {"cost": (1, np.inf)}, "cost must be"),
        ("recall", {"actual": 2}, "There is no class number 2"),
        ("precision", {"positive": 2}, "There is no class number 2"),
        ("f1", {"positive": -1}, "There is no class number -1"),
        ("accuracy", {"class_prior": (1, 2, 3)}, "class_prior must hold one number for each"),
    ],
)
def test_what_is_refused(name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        get_measure(name, options).value(SAMPLE)


def test_area_of_three_classes_is_refused():
    y = bag_target(np.arange(6), np.eye(3)[[0, 1, 2, 0, 1, 2]])
    sample = make_sample(y, np.eye(3)[[0, 1, 2, 0, 1, 2]])
    with pytest.raises(ValueError, match="for two classes and there are 3"):
        get_measure("roc_auc", {}).value(sample)
