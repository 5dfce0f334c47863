"""ONNX files, run by onnxruntime, say what the models say."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from unbag import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
    bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.tables import make_classifier
from unbag.tables.column_types import seconds
from unbag.tables.features import make_features
from unbag.tables.onnx_export import export_onnx, read_signature, to_onnx
from unbag.tables.schema import make_schema

DATA = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)
MODELS = {
    "linear": LLPClassifier(kernel=None),
    "kernel": LLPClassifier(n_landmarks=40),
    "boosted": LLPBoostingClassifier(n_estimators=15, cv=3),
    "ensemble": LLPEnsembleClassifier(
        [
            ("linear", LLPClassifier(kernel=None)),
            ("kernel", LLPClassifier()),
            ("boosted", LLPBoostingClassifier(n_estimators=15)),
        ],
        cv=3,
    ),
    "one booster": LLPBoostingClassifier(4, n_estimators=10, cv=None, class_prior=[0.8, 0.2]),
}


def make_table():
    """Numbers with missing values and infinities, truth values, times, and text, some of it rare."""
    rng = np.random.default_rng(0)
    n = len(DATA.X)
    table = pd.DataFrame(DATA.X.copy(), columns=["age", "price in €", "score"])
    table.loc[::7, "age"] = np.nan
    table.loc[3, "age"] = np.inf
    table["device"] = np.where(DATA.X[:, 0] > 0, "phone", "desk")
    table.loc[::11, "device"] = None
    table["town"] = rng.choice(["Łódź", "Paris"], n)
    table.loc[:3, "town"] = ["Rome", "Oslo", "Bern", "Bonn"]
    table["new"] = DATA.X[:, 1] > 0
    table["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="h")
    return table


TABLE = make_table()
SCHEMA = make_schema(TABLE)


def feed(table):
    """Columns as the help says that they are given."""
    checked, found = SCHEMA.check(table)[0], {}
    for column in SCHEMA.columns:
        values = checked[column.name]
        if column.kind == "category":
            values = values.fillna("").to_numpy(dtype=object)
        else:
            values = seconds(values) if column.kind == "time" else values
            values = values.to_numpy(dtype=float, na_value=np.nan)
        found[column.name] = values[:, None]
    return found


def run(graph, inputs):
    onnx.checker.check_model(graph, full_check=True)
    return onnxruntime.InferenceSession(graph.SerializeToString()).run(None, inputs)


def check_same(graph, inputs, model, X, atol=1e-5):
    labels, scores, probabilities = run(graph, inputs)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=atol)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=atol)


def changed(table):
    """What training did not have: new levels, and missing values in columns that had none."""
    new = table.copy()
    new.loc[:9, "device"] = "fridge"
    new.loc[5:20, "price in €"] = np.nan
    new.loc[30:40, "town"] = None
    return new


@pytest.mark.parametrize("name", ["auto", "linear"])
def test_scores_of_the_mixed_model_are_the_same(name):
    model = make_classifier(name).fit(TABLE, DATA.y)
    names = ["numbers", "indicators", "device", "town"]
    assert [term.term for term in model[-1].terms_[:4]] == names
    new = changed(TABLE)
    check_same(to_onnx(model, schema=SCHEMA), feed(new), model, new, atol=1e-9)


def test_the_mixed_model_of_a_frame_alone():
    table = TABLE.drop(columns=["age", "when"]).astype({"new": float})
    model = LLPClassifier(n_landmarks=30).fit(table, DATA.y)
    schema, new = make_schema(table), changed(table)
    inputs = {name: values for name, values in feed(TABLE.assign(**new)).items() if name in table}
    check_same(to_onnx(model, schema=schema), inputs, model, new, atol=1e-9)


def test_the_mixed_model_of_categories_alone():
    table = TABLE[["device", "town"]]
    model = make_classifier("auto").fit(table, DATA.y)
    inputs = {name: feed(TABLE)[name] for name in table}
    check_same(to_onnx(model, schema=make_schema(table)), inputs, model, table, atol=1e-9)


def test_categories_need_the_schema():
    model = LLPClassifier(kernel=None).fit(TABLE[["score", "town"]], DATA.y)
    with pytest.raises(ValueError, match="schema"):
        to_onnx(model)


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_tables_are_the_same(name):
    model = make_pipeline(make_features(), MODELS[name]).fit(TABLE, DATA.y)
    new = changed(TABLE)
    check_same(to_onnx(model, schema=SCHEMA), feed(new), model, new)


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_arrays_are_the_same(name):
    model = make_pipeline(StandardScaler(), MODELS[name]).fit(DATA.X, DATA.y)
    check_same(to_onnx(model), {"X": DATA.X}, model, DATA.X)
    alone = model[-1]
    check_same(to_onnx(alone), {"X": DATA.X}, alone, DATA.X)


@pytest.mark.parametrize("name", ["linear", "kernel", "boosted"])
def test_several_classes(name):
    data = make_gaussian_bags(n_bags=30, bag_size=12, n_classes=3, random_state=1)
    model = MODELS[name].fit(data.X, data.y)
    check_same(to_onnx(model), {"X": data.X}, model, data.X)


def test_boosted_trees_send_missing_values_where_lightgbm_does():
    X = DATA.X.copy()
    X[::5, 0] = np.nan
    model = LLPBoostingClassifier(n_estimators=15, cv=3).fit(X, DATA.y)
    new = X.copy()
    new[1::4, 1] = np.nan  # where training had none
    check_same(to_onnx(model), {"X": new}, model, new)


def test_classes_have_the_names_that_are_given():
    model = LLPClassifier(kernel=None).fit(DATA.X, DATA.y)
    labels = run(to_onnx(model, class_names=["no", "yes"]), {"X": DATA.X})[0]
    np.testing.assert_array_equal(labels, np.array(["no", "yes"])[model.predict(DATA.X)])


def test_inputs_are_called_as_columns_are(tmp_path):
    model = make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(TABLE, DATA.y)
    found = read_signature(export_onnx(model, tmp_path / "model.onnx", schema=SCHEMA))
    assert [v["name"] for v in found["inputs"]] == list(TABLE)
    assert [v["type"] for v in found["inputs"]] == ["double"] * 3 + ["text"] * 2 + ["double"] * 2
    # a column has the name of an output
    assert [v["name"] for v in found["outputs"]] == ["class", "score_", "probability"]


def test_the_file_says_what_it_is(tmp_path):
    model = LLPClassifier(kernel=None, class_prior=[0.25, 0.75]).fit(DATA.X, DATA.y)
    found = onnx.load(export_onnx(model, tmp_path / "model.onnx"))
    assert found.producer_name == "unbag"
    assert found.graph.doc_string == (
        "LLPClassifier of the classes 0, 1; probabilities where these have the shares 0.25, 0.75"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def cut(X):
    return np.clip(X, -1, 1)


def with_free_text():
    notes = [f"call {i} was cut off" for i in range(len(DATA.X))]
    frame = pd.DataFrame({"x": DATA.X[:, 0], "note": notes})
    return make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(frame, DATA.y)


def with_components():
    frame = pd.DataFrame({"x": DATA.X[:, 0], "note": [f"call {i} was cut" for i in range(360)]})
    return make_classifier("linear").fit(frame, DATA.y)


def with_categories():
    frame = pd.DataFrame({"a": DATA.X[:, 0], "b": pd.Categorical(np.where(DATA.labels, "x", "y"))})
    return LLPBoostingClassifier(n_estimators=5, cv=None, num_leaves=4).fit(frame, DATA.y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LogisticRegression().fit(DATA.X, DATA.labels),
            "LogisticRegression cannot be exported to ONNX; the mixed model, boosted trees",
        ),
        (with_free_text, "Free text, here 'note', cannot be exported"),
        (with_components, "Free text, here 'note', cannot be exported"),
        (with_categories, "Boosted trees that split by categories of a data frame"),
        (
            lambda: make_pipeline(FunctionTransformer(cut), LLPClassifier(kernel=None)).fit(
                DATA.X, DATA.y
            ),
            "A step before the model cannot be exported to ONNX: ",
        ),
    ],
)
def test_what_cannot_be_exported_says_so(make, message):
    model = make()
    with pytest.raises(ValueError, match=re.escape(message)):
        to_onnx(model)


def test_a_model_of_one_column_of_text():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(12), 20)
    word = np.where(rng.random(240) < bag / 12, "ja", "nein")
    frame = pd.DataFrame({"word": word})
    y = bag_target(bag, counts=np.bincount(bag, word == "ja")[bag])
    model = make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(frame, y)
    graph = to_onnx(model, schema=make_schema(frame))
    check_same(graph, {"word": word.astype(object)[:, None]}, model, frame)


def test_the_snippet_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "howto" / "export.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(snippet, names)
    expected = names["model"].decision_function(names["data"].X)
    np.testing.assert_allclose(names["scores"], expected, atol=1e-5)
