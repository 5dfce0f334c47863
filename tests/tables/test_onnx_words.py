"""Sentences in ONNX files are the same words as in training, in whatever language and case."""

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from unbag import LLPKernelClassifier, LLPLinearClassifier, bag_target
from unbag.tables.features import make_features
from unbag.tables.onnx_export import to_onnx
from unbag.tables.schema import make_schema

WORDS = [
    "late",
    "Late",
    "LATE",
    "délai",
    "délai",
    "DELAI",
    "Ärger",
    "arger",
    "über-cool",
    "don't",
    "x",
    "room_7",
    "7up",
    "İzmir",
    "straße",
    "привет",
    "ПРИВЕТ",
    "한국어",
    "日本語",
    "10€",
    "x²",
    "good😀late",
]
ENDS = ["", "!", "…", " \n", "\t, "]


def make_notes(n, seed):
    """Rows of any number of words, with one that no other row has."""
    rng = np.random.default_rng(seed)
    notes = [
        " ".join(rng.choice(WORDS, rng.integers(0, 9))) + rng.choice(ENDS) + f" no{i}n{seed}"
        for i in range(n)
    ]
    return pd.DataFrame({"note": notes, "age": rng.normal(size=n)})


ROWS = make_notes(400, 0)
BAG = np.repeat(np.arange(20), 20)
TARGET = bag_target(BAG, counts=np.bincount(BAG, ROWS["note"].str.contains("late"))[BAG])


def run(model, table):
    graph = to_onnx(model, schema=make_schema(ROWS))
    onnx.checker.check_model(graph, full_check=True)
    inputs = {
        "note": table[["note"]].fillna("").to_numpy(dtype=object),
        "age": table[["age"]].to_numpy(),
    }
    return onnxruntime.InferenceSession(graph.SerializeToString()).run(None, inputs)


@pytest.mark.parametrize(
    ("model", "dtype"), [(LLPLinearClassifier(), "float64"), (LLPKernelClassifier(), "float32")]
)
def test_scores_of_new_sentences_are_the_same(model, dtype):
    model = make_pipeline(make_features(dtype), model).fit(ROWS, TARGET)
    words = {name[5:] for name in model[0].get_feature_names_out() if name.startswith("note_")}
    assert {"late", "delai", "uber", "room_7", "izmir", "привет", "日本語"} <= words
    new = make_notes(200, 1)
    new.loc[3, "note"] = None
    classes, scores, _ = run(model, new)
    np.testing.assert_allclose(scores, model.decision_function(new), atol=1e-5)
    np.testing.assert_array_equal(classes, model.predict(new))
    nothing = new.iloc[:4].assign(note="")
    np.testing.assert_allclose(run(model, nothing)[1], model.decision_function(nothing), atol=1e-5)


def test_a_column_without_a_word_that_is_in_five_rows_is_refused():
    rows = ROWS.assign(note=[f"a{i}b c{i}d e{i}f" for i in range(400)])
    model = make_pipeline(make_features(), LLPLinearClassifier()).fit(rows, TARGET)
    with pytest.raises(ValueError, match=r"^Nothing of 'note' is a feature, since no word is in"):
        run(model, rows)
