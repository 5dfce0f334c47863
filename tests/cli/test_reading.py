"""Every command goes through each of its tables once."""

from collections import Counter

import pytest

from unbag.tables.files import TableFile
from unbag.tables.text_formats import CheckedRows


@pytest.fixture
def counts(monkeypatch):
    """How often each table is opened, and how many characters of it are read."""
    opened, read = Counter(), Counter()
    really_open, really_read = TableFile.open, CheckedRows.read

    def open_and_count(file):
        opened[file.path.name] += 1
        return really_open(file)

    def read_and_count(self, size=-1):
        text = really_read(self, size)
        read[self._file.path.name] += len(text)
        return text

    monkeypatch.setattr(TableFile, "open", open_and_count)
    monkeypatch.setattr(CheckedRows, "read", read_and_count)
    return opened, read


@pytest.mark.parametrize("command", ["fit", "inspect", "evaluate", "sample-labels", "keyed"])
def test_each_table_is_read_once(command, call, folder, frames, known, tmp_path, counts):
    visits, regions = frames
    # large enough that the header is a small part of it
    visits.loc[visits.index.repeat(20)].to_csv(tmp_path / "v.csv", index=False)
    regions.assign(conversions=20 * regions["conversions"]).to_csv(tmp_path / "r.csv", index=False)
    visits.loc[:200:4, ["id"]].assign(label=[0, 1] * 25 + [0]).to_csv(
        tmp_path / "labels.csv", index=False
    )
    tables, model = [tmp_path / "v.csv", tmp_path / "r.csv"], folder / "model.unbag"
    args, out = known[:4], ["-o", tmp_path / "out.csv"]
    by_key = ["--labels", tmp_path / "labels.csv"]
    fitting = [*known, "--model", "linear"]
    arguments = {
        "fit": ["fit", *tables, *fitting, "--folds", 0, *out],
        "inspect": ["inspect", *tables, *known],
        "evaluate": ["evaluate", model, *tables, *args],
        "sample-labels": ["sample-labels", model, *tables, *args, "--keep", "id,device", *out],
        "keyed": ["evaluate", model, *tables, *args, *by_key],
    }
    result = call(*arguments[command])
    opened, read = counts
    if command == "keyed":  # rows that stand there twenty times have no name of their own
        assert "names some rows twice" in result.stderr
    else:
        assert result.returncode == 0, result.stderr
    assert opened["v.csv"] == opened["r.csv"] == 2  # the header, and all of it
    assert read["v.csv"] < 1.1 * (tmp_path / "v.csv").stat().st_size


@pytest.mark.parametrize(("output", "n_passes"), [("s.csv", 1), ("s.parquet", 2)])
def test_predict_reads_text_once_unless_types_must_be_found(
    output, n_passes, call, folder, frames, tmp_path, counts
):
    visits = frames[0].loc[frames[0].index.repeat(20)]
    visits.assign(id=[f"{i:06}" for i in range(len(visits))]).to_csv(
        tmp_path / "v.csv", index=False
    )
    arguments = ["predict", folder / "model.unbag", tmp_path / "v.csv", "--keep", "id"]
    assert call(*arguments, "-o", tmp_path / output).returncode == 0
    opened, read = counts
    assert opened["v.csv"] == 1 + n_passes
    assert read["v.csv"] < (n_passes + 0.1) * (tmp_path / "v.csv").stat().st_size
    if output == "s.csv":  # as it is written, with its zeros
        assert (tmp_path / output).read_text().splitlines()[8].split(",")[1] == "000007"
