"""The ready-made model for a table: what each name stands for."""

from typing import get_args

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from unbag import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
    LLPNeuralClassifier,
    bag_target,
)
from unbag.models.summary import term_table
from unbag.tables.persistence import load_model, save_model
from unbag.tables.pipeline import ModelName, make_classifier, training_record


@pytest.fixture(scope="module")
def table():
    """Numbers, times and text with missing values, in four bags, of which each column tells the class."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(4), 25)
    labels = (rng.random(100) < np.array([0.1, 0.35, 0.65, 0.9])[bag]).astype(int)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(labels + rng.integers(0, 3, 100), unit="D")
    word = np.where(rng.random(100) < 0.2, None, np.array(["no", "yes"])[labels])
    number = np.where(rng.random(100) < 0.2, np.nan, labels + rng.normal(size=100))
    X = pd.DataFrame({"day": day, "word": word, "number": number})
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag]), labels


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auto", LLPClassifier),
        ("linear", LLPClassifier),
        ("boosted", LLPBoostingClassifier),
        ("neural", LLPNeuralClassifier),
        ("ensemble", LLPEnsembleClassifier),
    ],
)
def test_every_name_learns_and_opens_without_trust(name, expected, table, tmp_path):
    X, y, labels = table
    model = make_classifier(name).fit(X, y)
    assert type(model[-1]) is expected
    assert (model.predict(X) == labels).mean() > 0.8
    again = load_model(save_model(model, tmp_path / "m.unbag")).model
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_every_name_is_tested():
    assert set(get_args(ModelName)) == {"auto", "linear", "boosted", "neural", "ensemble"}


def test_the_settings_come_to_the_model():
    model = make_classifier("boosted", random_state=7, cv=2, class_prior="balanced")
    assert (model[-1].random_state, model[-1].cv, model[-1].class_prior) == (7, 2, "balanced")
    assert make_classifier("linear")[-1].kernel is None
    assert make_classifier("auto", class_prior=[0.3, 0.7])[-1].class_prior == [0.3, 0.7]
    with pytest.raises(ValueError, match="model must be"):
        make_classifier("kernel")


def test_a_category_of_many_levels_has_a_variance_of_its_own(tmp_path):
    rng = np.random.default_rng(0)
    n, n_levels = 8000, 200
    effects = rng.normal(size=n_levels)
    level = rng.integers(n_levels, size=n)
    town = np.array([f"town {i}" for i in range(n_levels)])[level]
    bag = np.repeat(np.arange(80), 100)
    age = rng.normal(size=n) + 0.5 * rng.normal(size=80)[bag]
    labels = rng.random(n) < expit(age + effects[level])
    X = pd.DataFrame({"age": age, "town": town})
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    model = make_classifier("linear").fit(X, y)
    terms = {term.term: term for term in model[-1].terms_}
    assert list(terms) == ["numbers", "town"]
    assert terms["town"].columns == ["town"]
    assert 0 < terms["town"].degrees_of_freedom < n_levels
    record = training_record(model[-1])
    assert [one["term"] for one in record["terms"]] == ["numbers", "town"]
    assert record["bag_effect"] == model[-1].bag_effect_
    assert record["dispersion"] == model[-1].dispersion_
    heads, *rows = term_table(model[-1].terms_)
    assert heads[0] == "Term"
    assert [row[:2] for row in rows] == [("numbers", "age"), ("town", "town")]
    # levels that training did not have, and a missing value, have scores
    new = pd.DataFrame({"age": [0.0, np.nan], "town": ["elsewhere", None]})
    assert np.isfinite(model.decision_function(new)).all()
    path = save_model(model, tmp_path / "m.unbag")
    assert path.stat().st_size < 10 * 8 * n_levels**2
    np.testing.assert_array_equal(
        load_model(path).model.decision_function(X), model.decision_function(X)
    )


def test_boosted_trees_need_two_bags_in_each_fold(table):
    X, y, _ = table
    with pytest.raises(ValueError, match=r"[Ff]old"):
        make_classifier("boosted").fit(X[:50], y[:50])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.to_numpy(), "table with named columns, such as a DataFrame .*, not ndarray"),
        (lambda _: "rows.csv", "table with named columns, such as a DataFrame .*, not str"),
        (lambda X: X.set_axis(["a"] * X.shape[1], axis=1), "^X has more than one column 'a'.$"),
    ],
)
def test_what_is_no_table(change, message):
    X = pd.DataFrame({"a": range(60), "b": range(60)})
    y = bag_target(np.repeat(range(10), 6), counts=np.repeat(range(5), 12))
    with pytest.raises(ValueError, match=message):
        make_classifier("linear").fit(change(X), y)
