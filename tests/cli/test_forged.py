"""Model files that are cut short or forged: every command says so in one sentence."""

import copy
import json
import zipfile

import pytest

from unbag.tables.persistence import load_model, save_model


@pytest.fixture(scope="module")
def sound(folder):
    """A model file that unbag fit wrote, its header and its model."""
    path = folder / "model.unbag"
    with zipfile.ZipFile(path) as archive:
        return path, json.loads(archive.read("header.json")), archive.read("model.skops")


def commands(path, folder, known, output):
    tables = folder / "visits.parquet", folder / "regions.csv", *known[:4]
    rows = path, folder / "visits.parquet", "-o", output / "scores.csv"
    return [
        ("inspect", path),
        ("predict", *rows),
        ("predict", *rows, "--bag-totals", folder / "regions.csv"),
        ("export", path, "-o", output / "m.onnx"),
        ("export", path, "--sql", "duckdb", "-o", output / "m.sql"),
        ("evaluate", path, *tables),
        ("groups", path, *tables, "--by", "device"),
        ("monitor", path, *tables),
    ]


def ends_in_one_sentence(call, command, path, *words):
    result = call(*command)
    lines = [line for line in result.stderr.splitlines() if line.startswith("unbag ")]
    assert result.returncode == 1, (command, result.stdout)
    assert len(lines) == 1, result.stderr
    for word in (path.name, *words):
        assert word in lines[0]
    assert "Traceback" not in result.stderr


# place in the header, and what is put there
HEADERS = [
    (("metadata",), []),
    (("metadata", "model"), {}),
    (("metadata", "n_instances"), "many"),
    (("metadata", "n_bags"), [1]),
    (("metadata", "class_names"), 3),
    (("metadata", "class_names"), [1, 2]),
    (("metadata", "training"), "by hand"),
    (("metadata", "training", "summary"), 7),
    (("metadata", "evaluation"), [1]),
    (("metadata", "evaluation", "estimates"), "good"),
    (("metadata", "evaluation", "estimates", "roc_auc"), 0.99),
    (("metadata", "evaluation", "estimates", "roc_auc", "low"), "low"),
    (("metadata", "fitted_with"), "care"),
    (("metadata", "fitted_with", "bag"), 7),
    (("metadata", "fitted_with", "types"), ["a"]),
    (("metadata", "fitted_with", "exclude"), None),
    (("metadata", "rule"), "best"),
    (("metadata", "rule"), {"name": "balanced"}),
    (("metadata", "rule", "name"), "luck"),
    (("metadata", "rule", "threshold"), None),
    (("metadata", "rule", "threshold"), 7),
    (("metadata", "reference"), []),
    (("metadata", "reference", "classes"), []),
    (("metadata", "reference", "classes", 0), {"line": None}),
    (("metadata", "reference", "classes", 0, "line", "slope"), "up"),
    (("metadata", "reference", "classes", 0, "rows", "shares"), [1.0]),
    (("metadata", "reference", "columns"), {"age": [1]}),
    (("metadata", "training_bags"), ["a"]),
    (("schema", "format"), 7),
    (("schema", "columns"), 7),
    (("schema", "columns", 0), 7),
    (("schema", "columns", 0), {}),
    (("schema", "columns", 0, "kind"), ["number"]),
    (("schema", "keys"), "region"),
]


@pytest.mark.parametrize(("place", "value"), HEADERS)
def test_headers(place, value, sound, call, folder, known, tmp_path):
    _, header, payload = sound
    header, path = copy.deepcopy(header), tmp_path / "forged.unbag"
    node = header
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("model.skops", payload)
    for command in commands(path, folder, known, tmp_path):
        ends_in_one_sentence(call, command, path)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.99])
def test_files_that_are_cut_short(part, sound, call, folder, known, tmp_path):
    path, content = tmp_path / "cut.unbag", sound[0].read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    for command in commands(path, folder, known, tmp_path):
        ends_in_one_sentence(call, command, path)


def test_a_model_that_fails_when_it_scores(sound, call, folder, known, tmp_path):
    found = load_model(sound[0])
    found.model[0].numbers_ = None
    path = save_model(
        found.model, tmp_path / "forged.unbag", schema=found.schema, metadata=found.metadata
    )
    for command in commands(path, folder, known, tmp_path)[1:3]:
        ends_in_one_sentence(call, command, path, "TypeError", "mixed_features.py, line", "forged")


def test_estimates_that_are_none_are_shown_as_such(sound, call, tmp_path):
    _, header, payload = sound
    header, path = copy.deepcopy(header), tmp_path / "m.unbag"
    header["metadata"]["evaluation"]["estimates"]["precision"] |= {"value": None, "low": None}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("model.skops", payload)
    result = call("inspect", path)
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("precision")]
    assert line.split()[1:3] == ["-", "-"]
