"""Displays: their numbers, that they can be drawn with few and many bags, and their names."""

import re
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from unbag import (
    bag_target,
    check_bag_target,
)
from unbag._optional import install_command
from unbag._text import shown
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import evaluate
from unbag.reports import (
    BagsDisplay,
    CalibrationDisplay,
    LabelShiftDisplay,
    RocDisplay,
)
from unbag.reports.drawing import draw_svg

DATA = make_gaussian_bags(n_bags=20, bag_size=40, n_features=1, random_state=0)
SCORES = DATA.X[:, 0]
PROBABILITY = 1 / (1 + np.exp(-2 * SCORES))


def make_displays(data, *, draws=50):
    scores = data.X[:, 0]
    return {
        "bags": BagsDisplay.from_data(data.y),
        "roc": RocDisplay.from_evaluation(
            evaluate(data.y, scores, n_resamples=draws), labels=data.labels
        ),
        "assumption": LabelShiftDisplay.from_data(scores, data.y),
        "reliability": CalibrationDisplay.from_data(data.y, 1 / (1 + np.exp(-2 * scores))),
    }


DISPLAYS = make_displays(DATA)


@pytest.mark.parametrize("name", DISPLAYS)
def test_a_display_draws_prints_and_gives_its_numbers(name):
    display = DISPLAYS[name]
    axes = display.plot()
    assert isinstance(axes, Axes)
    assert axes.get_xlabel()
    FigureCanvasAgg(axes.figure).draw()
    given = Figure().subplots()
    assert display.plot(given) is given
    frame = display.frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) > 0
    assert str(display) == repr(display)
    assert len(str(display)) < 1500
    with pytest.raises(FrozenInstanceError):
        display.anything = 1
    # nothing global is touched
    assert Gcf.get_all_fig_managers() == []


def test_many_bags_stay_readable_and_small():
    sizes = np.random.default_rng(0).integers(2, 12, 10_000)
    many = make_gaussian_bags(bag_size=sizes, n_features=1, random_state=0)
    for name, display in make_displays(many, draws=2).items():
        svg = draw_svg(display.plot)
        assert len(svg) < 150_000, name
    bags = BagsDisplay.from_data(many.y, view="sizes")
    assert len(draw_svg(bags.plot)) < 250_000


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=re.escape(install_command("report"))):
        DISPLAYS["bags"].plot()


def test_without_pandas_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=re.escape(install_command("report"))):
        DISPLAYS["bags"].frame()


@pytest.mark.parametrize("name", ["$x_1$", "$\\frac{", "a&b", "<b>", "名前"])
def test_names_are_drawn_as_they_are(name):
    display = LabelShiftDisplay.from_data(DATA.X, DATA.y, feature_names=[name])
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"mean rank of {escaped}, in %<" in draw_svg(display.plot)


def test_columns_and_classes_are_no_formulas():
    display = LabelShiftDisplay.from_data(DATA.X, DATA.y, feature_names=["$y^2$"])
    assert "mean rank of $y^2$, in %<" in draw_svg(display.plot)
    labels = np.array(["$a$", "$b_1$", "c"])[np.arange(len(DATA.y)) % 3]
    svg = draw_svg(BagsDisplay.from_data(labels).plot)
    assert ">$b_1$<" in svg


def test_shown_names_obey_nothing():
    assert shown("a\u202eb\x00\n\u2028\ud800") == "a\\u202eb\\x00\\n\\u2028\\ud800"
    assert shown("ünï 名前 סניף") == "ünï 名前 סניף"
    assert shown(np.int64(3)) == "3"


# --- bags -------------------------------------------------------------------------------------


def test_bags_numbers():
    display = DISPLAYS["bags"]
    frame = display.frame()
    assert frame["share"].sum() == pytest.approx(1)


def test_bags_of_three_classes_and_unknown_views():
    data = make_gaussian_bags(n_bags=12, bag_size=20, n_classes=3, random_state=0)
    display = BagsDisplay.from_data(data.y)
    labels = [text.get_text() for text in display.plot().get_yticklabels()]
    assert labels == ["0", "1", "2"]
    with pytest.raises(ValueError, match="view must be one of 'proportions'"):
        BagsDisplay.from_data(data.y, view="colours")


# --- ROC --------------------------------------------------------------------------------------


def test_with_labels_for_bags_both_curves_are_the_same():
    display = RocDisplay.from_evaluation(evaluate(DATA.labels, SCORES, n_resamples=20), DATA.labels)
    assert display.true_auc == pytest.approx(roc_auc_score(DATA.labels, SCORES))
    assert display.auc.value == pytest.approx(display.true_auc)
    frame = display.frame()
    np.testing.assert_allclose(frame["tpr"], frame["true tpr"], atol=0.02)


def test_roc_refuses_what_does_not_fit():
    data = make_gaussian_bags(n_bags=9, bag_size=20, n_classes=3, random_state=0)
    scores = np.column_stack([data.X, data.X[:, 0]])
    with pytest.raises(ValueError, match="ROC curve is for two classes"):
        RocDisplay.from_evaluation(evaluate(data.y, scores, n_resamples=10))
    with pytest.raises(ValueError, match="one label for each of the 800 instances"):
        RocDisplay.from_evaluation(evaluate(DATA.y, SCORES, n_resamples=10), [0, 1])


# --- assumption -------------------------------------------------------------------------------


def test_the_line_is_that_of_weighted_least_squares():
    display = DISPLAYS["assumption"]
    sizes = check_bag_target(DATA.y).sizes
    line = np.polynomial.Polynomial.fit(display.position, display.mean, 1, w=np.sqrt(sizes))
    np.testing.assert_allclose(display.expected, line(display.position))


def test_standard_errors_are_right_where_classes_are_alike():
    rng = np.random.default_rng(0)
    y = make_gaussian_bags(n_bags=400, bag_size=50, random_state=0).y
    display = LabelShiftDisplay.from_data(rng.normal(size=len(y)), y)
    assert np.std(display.residual) == pytest.approx(1, abs=0.12)


def test_the_worst_column_and_bag_are_shown():
    data = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
    X = pd.DataFrame({"still": data.X[:, 0], "moved": data.X[:, 1], "text": "a"})
    X.loc[data.y["bag"] == 7, "moved"] += 1.5
    display = LabelShiftDisplay.from_data(X, data.y)
    assert display.feature == "moved"
    assert display.bag[display.suspicious].tolist() == [7]
    texts = [text.get_text() for text in display.plot().texts]
    assert texts == ["7"]
    with pytest.raises(ValueError, match="no column 'height'"):
        LabelShiftDisplay.from_data(X, data.y, feature="height")


def test_with_three_classes_means_are_drawn_over_what_is_expected():
    data = make_gaussian_bags(n_bags=20, bag_size=30, n_classes=3, random_state=0)
    display = LabelShiftDisplay.from_data(data.X, data.y)
    np.testing.assert_allclose(display.position, display.expected)
    display.plot()


# --- reliability ------------------------------------------------------------------------------


def test_with_labels_reliability_counts():
    display = CalibrationDisplay.from_data(DATA.labels, PROBABILITY, n_bins=4)
    place = np.searchsorted(np.quantile(PROBABILITY, [0.25, 0.5, 0.75]), PROBABILITY)
    shares = [DATA.labels[place == k].mean() for k in range(4)]
    np.testing.assert_allclose(display.frame()["observed"], shares)


def test_reliability_counts_the_bins_that_agree():
    share = DATA.labels.mean()
    odds = np.exp(2 * SCORES) * share / (1 - share)
    agree, n_bins, *_ = CalibrationDisplay.from_data(DATA.y, odds / (1 + odds)).agreement
    assert n_bins == 10
    assert agree >= 8
    assert CalibrationDisplay.from_data(DATA.y, 1 / (1 + odds)).agreement[0] < 5


def test_every_class_has_its_curve():
    data = make_gaussian_bags(n_bags=20, bag_size=40, n_classes=3, random_state=0)
    weights = np.exp(data.X @ data.means.T)
    display = CalibrationDisplay.from_data(data.y, weights / weights.sum(axis=1, keepdims=True))
    assert list(display.curves) == ["0", "1", "2"]
    assert len(display.plot().get_legend().get_texts()) == 4


def test_crosses_do_not_bury_the_bags():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), 40)
    y = bag_target(bag, counts=rng.integers(0, 41, 60)[bag])
    display = LabelShiftDisplay.from_data(rng.normal(size=2400) + rng.normal(size=60)[bag], y)
    assert display.suspicious.sum() > 20
    crosses, dots = (
        [line for line in display.plot().lines if line.get_marker() == m] for m in "X."
    )
    worst = np.sort(np.abs(display.residual[display.suspicious]))[-10:]
    drawn = np.isin(display.mean, crosses[0].get_ydata())
    np.testing.assert_allclose(np.sort(np.abs(display.residual[drawn])), worst)
    assert len(dots[0].get_ydata()) == display.suspicious.sum() - 10
    assert crosses[0].get_label() == f"the 10 worst of {display.suspicious.sum()}"
