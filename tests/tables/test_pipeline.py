"""The ready-made model for a table: what each name stands for."""

from typing import get_args

import numpy as np
import pandas as pd
import pytest

from unbag import bag_target
from unbag.tables.persistence import load_model, save_model
from unbag.tables.pipeline import ModelName, make_classifier


@pytest.fixture(scope="module")
def table():
    """Numbers, times and text with gaps, in four bags, of which each column tells the class."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(4), 25)
    labels = (rng.random(100) < np.array([0.1, 0.35, 0.65, 0.9])[bag]).astype(int)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(labels + rng.integers(0, 3, 100), unit="D")
    word = np.where(rng.random(100) < 0.2, None, np.array(["no", "yes"])[labels])
    number = np.where(rng.random(100) < 0.2, np.nan, labels + rng.normal(size=100))
    X = pd.DataFrame({"day": day, "word": word, "number": number})
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag]), labels


@pytest.mark.parametrize("name", get_args(ModelName))
def test_every_name_learns_and_opens_without_trust(name, table, tmp_path):
    X, y, labels = table
    model = make_classifier(name).fit(X, y)
    learners = [row["learner"] for row in model[-1].leaderboard_]
    assert sorted(learners) == (["boosted", "mixed"] if name == "auto" else [name])
    assert (model.predict(X) == labels).mean() > 0.8
    again = load_model(save_model(model, tmp_path / "m.unbag")).model
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_settings_come_to_the_learners(table):
    model = make_classifier("boosted", random_state=7, cv=2, class_prior="empirical")
    model.fit(*table[:2])
    assert model[-1].best_estimator_.random_state == 7
    assert len(model[-1].folds_.scores) == 2
    assert model[-1].best_estimator_.class_prior == "empirical"


def test_two_bags_are_too_few(table):
    X, y, _ = table
    with pytest.raises(ValueError, match=r"[Ff]old"):
        make_classifier("linear").fit(X[:50], y[:50])
