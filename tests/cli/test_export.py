"""``unbag export``: files that onnxruntime scores as ``unbag predict`` does."""

import json

import duckdb
import numpy as np
import onnxruntime
import pytest

from unbag.tables import open_table


@pytest.mark.parametrize("model", ["auto", "linear", "boosted"])
def test_a_file_scores_as_predict_does(call, folder, frames, known, tmp_path, model):
    saved, file, scores = tmp_path / "m.unbag", tmp_path / "m.onnx", tmp_path / "scores.parquet"
    tables = folder / "visits.parquet", folder / "regions.csv"
    fit = call("fit", *tables, *known, "--model", model, "--folds", 0, "-o", saved)
    assert fit.returncode == 0, fit.stderr
    result = call("export", saved, "-o", file)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{file} has these inputs and outputs:\n  input   double  ")
    assert "  input   text    device\n" in result.stdout
    assert result.stdout.endswith("  output  double  score\n  output  double  probability\n")
    assert call("predict", saved, tables[0], "-o", scores).returncode == 0
    expected, visits = open_table(scores).read(), frames[0]
    session = onnxruntime.InferenceSession(file)
    inputs = {i.name: visits[i.name].to_numpy()[:, None] for i in session.get_inputs()}
    labels, found, probabilities = session.run(None, inputs)
    np.testing.assert_array_equal(labels, expected["class"])
    np.testing.assert_allclose(found, expected["score"], atol=1e-5)
    np.testing.assert_allclose(probabilities[:, 1], expected["probability"], atol=1e-5)


def test_json_has_names_and_types(call, folder, tmp_path):
    result = call("export", folder / "model.unbag", "-o", tmp_path / "m.onnx", "--json")
    found = json.loads(result.stdout)
    assert found["output"] == str(tmp_path / "m.onnx")
    assert {"name": "device", "type": "text"} in found["inputs"]
    assert found["outputs"] == [
        {"name": "class", "type": "int64"},
        {"name": "score", "type": "double"},
        {"name": "probability", "type": "double"},
    ]


def test_mistakes_get_one_sentence_and_leave_nothing_behind(call, folder, tmp_path):
    place = tmp_path / "nowhere" / "m.onnx"
    result = call("export", folder / "model.unbag", "-o", place)
    assert result.returncode == 1
    assert result.stderr == f"unbag export: error: the folder of {place} does not exist\n"
    result = call("export", folder / "regions.csv", "-o", tmp_path / "m.onnx")
    assert result.returncode == 1
    assert "is not a model file" in result.stderr
    assert not list(tmp_path.iterdir())
    assert call("export", folder / "model.unbag").returncode == 2


@pytest.mark.parametrize("model", ["linear", "boosted"])
def test_sql_scores_as_predict_does(call, folder, frames, known, tmp_path, model):
    saved, file, scores = tmp_path / "m.unbag", tmp_path / "m.sql", tmp_path / "scores.parquet"
    tables = folder / "visits.parquet", folder / "regions.csv"
    fit = call("fit", *tables, *known, "--model", model, "--folds", 0, "-o", saved)
    assert fit.returncode == 0, fit.stderr
    result = call("export", saved, "--sql", "duckdb", "--table", "visits", "-o", file)
    assert (result.returncode, result.stdout) == (0, "")
    assert "Class: positive above a probability of " in result.stderr
    assert call("predict", saved, tables[0], "-o", scores).returncode == 0
    connection = duckdb.connect()
    connection.register("visits", frames[0])
    found = connection.sql(file.read_text()).df()["probability"]
    np.testing.assert_allclose(found, open_table(scores).read()["probability"], atol=1e-9)
    printed = call("export", saved, "--sql", "duckdb")
    expression = printed.stdout.strip()
    alone = connection.sql(f"SELECT {expression} AS p FROM visits").df()["p"]
    np.testing.assert_array_equal(alone, found)
    odds = json.loads(call("export", saved, "--sql", "sqlite", "--log-odds", "--json").stdout)
    assert list(odds["columns"]) == ["score"]
    assert "EXP(" not in odds["columns"]["score"]


def test_options_of_sql_need_sql(call, folder, tmp_path):
    model = folder / "model.unbag"
    assert call("export", model, "-o", tmp_path / "m.onnx", "--table", "visits").returncode == 2
    result = call("export", model, "--sql", "mysql")
    assert result.returncode == 2
    assert "duckdb" in result.stderr
