"""Effects: what a model says of rows that differ in one column, with the bands of its posterior."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from unbag import LLPBoostingClassifier, LLPClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.reports import EffectsDisplay
from unbag.tables import make_classifier

DATA = make_gaussian_bags(n_bags=40, bag_size=25, n_features=2, random_state=0)
FRAME = pd.DataFrame(DATA.X, columns=["age", "height"]).assign(
    city=np.where(DATA.X[:, 0] > 0, "Rome", "Oslo")
)
NAMED = bag_target(DATA.y["bag"], DATA.y["proportion"], class_names=["no", "yes"])


def effect(display, column):
    return next(one for one in display.effects if one.column == column)


def test_an_effect_is_the_difference_of_the_log_odds_to_the_reference():
    model = LLPClassifier().fit(DATA.X, DATA.y)
    found = effect(EffectsDisplay.from_estimator(model, DATA.X), "column 1")
    rows = np.tile(np.median(DATA.X, axis=0), (len(found.values), 1))
    scores = model.decision_function(rows[:1])
    rows[:, 1] = found.values
    np.testing.assert_allclose(found.log_odds, model.decision_function(rows) - scores)
    assert (found.low <= found.log_odds).all()
    assert (found.log_odds <= found.high).all()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
def test_tables_pipelines_and_classes(kind):
    model = make_classifier("linear").fit(kind(FRAME), NAMED)
    display = EffectsDisplay.from_estimator(model, kind(FRAME))
    assert [one.column for one in display.effects] == ["age", "height", "city"]
    city = effect(display, "city")
    weights = dict(zip(model[-1].coef_names_, model[-1].coef_[0], strict=True))
    most = FRAME["city"].mode()[0]
    expected = [weights[f"city_{v}"] - weights[f"city_{most}"] for v in city.values]
    np.testing.assert_allclose(city.log_odds, expected, atol=1e-9)
    other = EffectsDisplay.from_estimator(model, kind(FRAME), features=["city"], target="no")
    np.testing.assert_allclose(other.effects[0].log_odds, -city.log_odds)
    assert (other.effects[0].low <= other.effects[0].high).all()


def test_several_classes():
    three = make_gaussian_bags(40, 25, n_classes=3, n_features=2, random_state=0)
    model = LLPClassifier(kernel=None).fit(three.X, three.y)
    found = [EffectsDisplay.from_estimator(model, three.X, target=k).effects[0] for k in range(3)]
    # log-probabilities less their mean
    np.testing.assert_allclose(sum(one.log_odds for one in found), 0.0, atol=1e-9)


def test_draws_prints_and_gives_its_numbers():
    display = EffectsDisplay.from_estimator(LLPClassifier().fit(FRAME, NAMED), FRAME)
    figure = display.plot()
    FigureCanvasAgg(figure).draw()
    assert [ax.get_xlabel() for ax in figure.axes] == ["age", "height", "city"]
    assert figure.axes[0].get_ylabel() == "log-odds of yes"
    frame = display.frame()
    assert list(frame) == ["column", "value", "log_odds", "low", "high"]
    assert len(frame) == sum(len(one.values) for one in display.effects)
    assert "height" in repr(display)


def test_refusals():
    model = LLPClassifier(kernel=None).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match=r"no column 'weight'"):
        EffectsDisplay.from_estimator(model, DATA.X, features=["weight"])
    with pytest.raises(ValueError, match=r"target must be one of \[0, 1\]"):
        EffectsDisplay.from_estimator(model, DATA.X, target="x")
    trees = LLPBoostingClassifier((2,), n_estimators=5, cv=2).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match=r"LLPBoostingClassifier.*PartialDependence"):
        EffectsDisplay.from_estimator(trees, DATA.X)
