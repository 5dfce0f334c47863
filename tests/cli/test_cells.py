"""``unbag fit`` on rows that stand for several: grouped in a database, or by a column."""

import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

from unbag.tables.persistence import load_model

KNOWN = ("--bag", "region", "--positives", "conversions", "--exclude", "id")
COLUMNS = ["region", "fLength", "fWidth", "device"]


@pytest.fixture(scope="module")
def coarse(frames, tmp_path_factory):
    """Visits with few different rows, as files, in a database and grouped by hand."""
    folder = tmp_path_factory.mktemp("cells")
    visits, regions = frames
    first, second = visits.columns[:2]
    few = visits[["region", "device", "id"]].assign(
        length=(visits[first] // 60).clip(upper=3), width=(visits[second] > 20).astype(int)
    )
    few.to_csv(folder / "visits.csv", index=False)
    regions.to_csv(folder / "regions.csv", index=False)
    columns = ["region", "device", "length", "width"]
    grouped = few.groupby(columns, dropna=False).size().rename("n").reset_index()
    grouped.to_csv(folder / "grouped.csv", index=False)
    with duckdb.connect(folder / "visits.duckdb") as connection:
        connection.register("few", few)
        connection.execute("CREATE TABLE visits AS FROM few")
    return folder


def model_of(path):
    found = load_model(path)
    return found.model[-1], found.metadata


@pytest.mark.parametrize("kept", ["visits.duckdb", "visits.csv", "grouped.csv"])
def test_the_same_model_from_cells_as_from_rows(call, coarse, tmp_path, kept):
    rows, cells, bags = tmp_path / "rows.unbag", tmp_path / "cells.unbag", coarse / "regions.csv"
    options = [*KNOWN, "--model", "linear"]
    result = call("fit", coarse / "visits.csv", bags, *options, "--folds", 0, "-o", rows)
    assert result.returncode == 0, result.stderr
    how = ["--group-rows"]
    if kept == "grouped.csv":
        how, options = ["--multiplicity", "n"], [*options[:4], *options[6:]]
    result = call("fit", coarse / kept, bags, *options, *how, "-o", cells)
    assert result.returncode == 0, result.stderr
    assert "Read 600 rows with 3 columns." in result.stderr
    if kept != "grouped.csv":
        assert "600 rows of the row table" in result.stderr
    (first, one), (second, other) = model_of(rows), model_of(cells)
    assert second.coef_names_ == first.coef_names_
    np.testing.assert_allclose(second.coef_, first.coef_, atol=1e-5)
    assert other["n_instances"] == one["n_instances"] == 600
    assert other["rule"]["threshold"] == pytest.approx(one["rule"]["threshold"], abs=1e-6)
    scores = call("predict", cells, coarse / "visits.csv", "-o", tmp_path / "s.csv")
    assert scores.returncode == 0


def test_bins_are_named(call, folder, frames, tmp_path):
    out = tmp_path / "m.unbag"
    tables = folder / "visits.parquet", folder / "regions.csv"
    options = [*KNOWN, "--model", "linear", "--group-rows", "--bins", 8, "--json", "-o", out]
    result = call("fit", *tables, *options)
    assert result.returncode == 0, result.stderr
    names = ", ".join(list(frames[0])[:4])
    assert f"Numbers in up to 8 bins, by the means of these: {names}." in result.stderr
    assert json.loads(result.stdout)["n_instances"] == 600


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bins", 9], "--bins goes with --group-rows"),
        (["--group-rows", "--multiplicity", "n"], "leave --multiplicity"),
        (["--group-rows", "--margins", "a,b"], "--margins"),
        (["--group-rows", "--grouping", "a=b.csv"], "--grouping out"),
    ],
)
def test_options_that_contradict_each_other(call, coarse, tmp_path, options, words):
    tables = coarse / "visits.csv", coarse / "regions.csv"
    result = call("fit", *tables, *KNOWN, *options, "-o", tmp_path / "m.unbag")
    assert result.returncode == 2
    assert words in result.stderr


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (SELECT 1) DELETE FROM visits",
        "SELECT 1; DROP TABLE visits",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT 1; ATTACH '{secret}' AS other",
        "SELECT 1; COPY visits TO '{secret}'",
        "SELECT 1; SET enable_external_access = true",
        "SELECT load_extension('{secret}')",
    ],
)
def test_queries_change_nothing_and_read_no_other_file(call, coarse, tmp_path, kind, query):
    secret, place = tmp_path / "secret.csv", tmp_path / f"visits.{kind}"
    secret.write_text("region,age\nr00,1\n")
    frame = pd.read_csv(coarse / "visits.csv")
    if kind == "duckdb":
        place.write_bytes((coarse / "visits.duckdb").read_bytes())
    else:
        with sqlite3.connect(place) as connection:
            frame.to_sql("visits", connection, index=False)
        connection.close()
    before, text = place.read_bytes(), secret.read_text()
    how = ["--query", query.format(secret=secret), "--group-rows", "-o", tmp_path / "m.unbag"]
    result = call("fit", place, coarse / "regions.csv", *KNOWN, *how)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert place.read_bytes() == before
    assert secret.read_text() == text
