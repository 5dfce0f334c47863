"""Commands on tables as people have them: the same model, whatever the tables are kept in."""

import io
import sqlite3
import sys

import numpy as np
import pandas as pd
import pytest

from unbag.cli.output import command_line
from unbag.tables.persistence import describe_model, load_model

FAST = ["--model", "linear", "--folds", 0]


@pytest.fixture
def kept(frames, tmp_path):
    """The same tables, kept in several ways: arguments for both, and what is said of them."""
    visits, regions = frames
    semicolons, latin = tmp_path / "v.csv", tmp_path / "r.csv"
    visits.to_csv(semicolons, index=False, sep=";", decimal=",")
    regions.rename(columns={"n": "Größe"}).to_csv(latin, index=False, encoding="cp1252")
    with pd.ExcelWriter(tmp_path / "b.xlsx") as book:
        visits.to_excel(book, sheet_name="visits", index=False)
        regions.to_excel(book, sheet_name="regions", index=False)
    connection = sqlite3.connect(tmp_path / "t.sqlite")
    visits.to_sql("visits", connection, index=False)
    regions.to_sql("regions", connection, index=False)
    connection.close()
    (tmp_path / "parts").mkdir()
    for i in range(3):
        part = visits.iloc[200 * i : 200 * i + 200]
        part.to_parquet(tmp_path / "parts" / f"{i}.parquet", index=False)
    queries = ["--query", "select * from visits", "--bags-query", "select * from regions"]
    database, url = tmp_path / "t.sqlite", f"sqlite:///{tmp_path}/t.sqlite"
    book = tmp_path / "b.xlsx"
    return {
        "text": ([semicolons, latin], ["semicolons between fields and decimal commas", "cp1252"]),
        "workbook": ([book, book, "--bags-query", "regions"], ["first sheet, 'visits'"]),
        "database": ([database, database, *queries], []),
        "url": ([url, url, *queries], []),
        "parts": ([tmp_path / "parts", tmp_path / "r.csv"], []),
        "pattern": ([tmp_path / "parts" / "*.parquet", tmp_path / "r.csv"], []),
    }


@pytest.mark.parametrize("way", ["text", "workbook", "database", "url", "parts", "pattern"])
def test_the_same_model_from_every_format(way, kept, folder, known, call, tmp_path):
    plain, other = tmp_path / "plain.unbag", tmp_path / "other.unbag"
    tables, remarks = kept[way]
    call("fit", folder / "visits.parquet", folder / "regions.csv", *known, *FAST, "-o", plain)
    result = call("fit", *tables, *known, *FAST, "-o", other)
    assert result.returncode == 0, result.stderr
    for remark in remarks:
        assert result.stderr.count(remark) == 1
    first, second = (load_model(path).model[-1].coef_ for path in (plain, other))
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-9)
    args = describe_model(other)["metadata"]["fitted_with"]
    assert args["instances"] == str(tables[0])


def test_from_standard_input_to_standard_output(folder, call, monkeypatch):
    table = io.BytesIO((folder / "visits.csv.gz").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(table))
    options = ["-o", "-"]
    piped = call("predict", folder / "model.unbag", "-", *options)
    whole = call("predict", folder / "model.unbag", folder / "visits.parquet", *options)
    assert piped.stdout == whole.stdout
    assert piped.stdout.count("\n") == 601


def test_both_tables_from_standard_input(call, known, tmp_path):
    result = call("fit", "-", "-", *known, "-o", tmp_path / "m.unbag")
    assert result.returncode == 2
    assert "only one of the two tables can come from standard input" in result.stderr


def test_urls_of_files_are_refused(call, known, folder, tmp_path):
    out = ["-o", tmp_path / "m.unbag"]
    result = call("fit", "https://a.org/v.csv", folder / "regions.csv", *known, *out)
    assert result.returncode == 2
    assert "https://a.org/v.csv is not on this machine: download it first" in result.stderr


def test_passwords_stay_out_of_messages(call, known, folder, tmp_path):
    out = ["-o", tmp_path / "m.unbag", "--query", "select 1"]
    for url, left in {
        "postgresql+nodriver://ann:s3cret@nowhere/visits": "ann:***@nowhere",
        "postgresql+nodriver://nowhere/visits?sslPassword=s3cret&x=1": "sslPassword=***&x=1",
    }.items():
        result = call("fit", url, folder / "regions.csv", *known, *out)
        assert result.returncode == 1
        assert "s3cret" not in result.stdout + result.stderr
        assert left in result.stderr
    assert "s3c" not in command_line(["fit", "mysql://ann:s3c@s3c@nowhere/visits"])


def test_drivers_that_are_missing_are_named(call, known, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    messages = {
        "postgresql+nodriver": "brings 'postgresql+nodriver' to SQLAlchemy, and none is installed",
        "postgresql+psycopg2": "cannot be read without its driver: install psycopg2",
    }
    for kind, message in messages.items():
        out = ["-o", tmp_path / "m.unbag", "--query", "select 1"]
        result = call("fit", f"{kind}://nowhere/visits", folder / "regions.csv", *known, *out)
        assert result.returncode == 1
        assert message in result.stderr
