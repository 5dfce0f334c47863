"""``unbag sample-labels``, and ``unbag evaluate --labels`` with what it wrote."""

import json

import numpy as np
import pandas as pd
import pytest

from unbag.datasets import load_magic

# rows to label are drawn from the bags that the model was trained on
pytestmark = pytest.mark.filterwarnings("ignore:the model was trained on")

BAGS = ("--bag", "region", "--positives", "conversions")


@pytest.fixture(scope="session")
def truth(frames):
    """Labels of all visits, found again in the data set that they come from."""
    magic = load_magic()
    names = list(magic.frame)[1:4]
    known = magic.frame[names].astype(float).assign(label=magic.target)
    known = known.drop_duplicates(names).set_index(names)["label"]
    return known.loc[list(map(tuple, frames[0][names].to_numpy()))].to_numpy()


@pytest.fixture
def tables(folder):
    return [folder / "model.unbag", folder / "visits.parquet", folder / "regions.csv", *BAGS]


@pytest.fixture
def plan(call, tables, tmp_path):
    path = tmp_path / "to-label.csv"
    result = call("sample-labels", *tables, "--rows", "120", "--keep", "id", "-o", path)
    assert result.returncode == 0, result.stderr
    assert "120 rows written" in result.stderr
    assert "fill in column 'label' (0, 1)" in result.stderr
    return path


def fill(path, labels):
    table = pd.read_csv(path)
    table["label"] = labels[table["row"] - 1]
    table.to_csv(path, index=False)
    return table


def test_plan_is_a_table_to_fill_in(plan, frames):
    table = pd.read_csv(plan)
    assert list(table) == ["row", "region", "id", "weight", "label"]
    assert table["label"].isna().all()
    visits = frames[0].iloc[table["row"] - 1]
    assert table["id"].tolist() == visits["id"].tolist()
    assert table["region"].tolist() == visits["region"].tolist()
    assert table["weight"].sum() == pytest.approx(600, rel=0.2)


def test_plan_filled_in_is_evaluated(call, tables, plan, truth):
    fill(plan, truth)
    result = call("evaluate", *tables, "--labels", plan)
    assert result.returncode == 0, result.stderr
    assert "120 labels" in result.stdout.splitlines()[0]
    result = call("evaluate", *tables, "--labels", plan, "--json")
    found = json.loads(result.stdout)
    assert found["n_labels"] == 120
    area = found["estimates"]["roc_auc"]
    assert area["low"] < area["value"] < area["high"]
    assert area["alone"]["low"] < area["alone"]["high"]


def test_rows_by_a_key_of_their_own(call, tables, plan, truth, tmp_path):
    table = fill(plan, truth)
    by_number = call("evaluate", *tables, "--labels", plan, "--json")
    path = tmp_path / "by-id.parquet"
    table.drop(columns="row").sample(frac=1, random_state=0).to_parquet(path)
    by_key = call("evaluate", *tables, "--labels", path, "--json")
    assert by_key.returncode == 0, by_key.stderr
    assert by_key.stdout == by_number.stdout


def test_gaps_may_stay(call, tables, plan, truth):
    table = fill(plan, truth)
    table["label"] = table["label"].where(table.index % 2 == 0)
    table.to_csv(plan, index=False)
    result = call("evaluate", *tables, "--labels", plan)
    assert "60 labels" in result.stdout.splitlines()[0]


def test_rows_left_out_keep_their_numbers(call, folder, frames, plan, truth, tmp_path):
    """Numbers count the rows of the table, even if some of them have no bag."""
    regions = tmp_path / "some.csv"
    frames[1].iloc[1:].to_csv(regions, index=False)
    tables = [folder / "model.unbag", folder / "visits.parquet", regions, *BAGS]
    out = tmp_path / "some-rows.csv"
    call("sample-labels", *tables, "--unmatched", "drop", "--rows", "100", "-o", out)
    table = fill(out, truth)
    assert table["row"].min() > 25
    assert table["region"].tolist() == frames[0]["region"].iloc[table["row"] - 1].tolist()
    result = call("evaluate", *tables, "--unmatched", "drop", "--labels", out)
    assert result.returncode == 0, result.stderr
    fill(plan, truth)
    result = call("evaluate", *tables, "--unmatched", "drop", "--labels", plan)
    assert result.returncode == 1
    assert "not among the rows" in result.stderr


MISTAKES = {
    "no label": (lambda t: t.assign(label=np.nan), "has no label filled in"),
    "no class": (
        lambda t: t.assign(label=7),
        "has the label '7', which is not a class; the classes are 0, 1",
    ),
    "no column": (lambda t: t.drop(columns="label"), "has no column 'label'"),
    "no row": (lambda t: t.assign(row=t["row"] + 9000), "not among the rows"),
    "row zero": (lambda t: t.assign(row=range(len(t))), "has a label for row 0"),
    "no number": (lambda t: t.assign(row="first"), "must hold row numbers"),
    "twice": (lambda t: t.assign(row=5), "has two labels for row 5"),
    "one class": (lambda t: t[t["label"] == 1], "Of class 0 there are 0 labels"),
    "no weight": (lambda t: t.assign(weight=np.nan), "must hold a positive number"),
    "words for weights": (lambda t: t.assign(weight="much"), "must hold a positive number"),
}


@pytest.mark.parametrize(("change", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(call, tables, plan, truth, change, sentence):
    change(fill(plan, truth)).to_csv(plan, index=False)
    result = call("evaluate", *tables, "--labels", plan)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_mistakes_of_keys(call, tables, plan, truth):
    table = fill(plan, truth)
    table.drop(columns="row").assign(id=-1).to_csv(plan, index=False)
    result = call("evaluate", *tables, "--labels", plan)
    assert "has a label for id '-1', which is not a row of" in result.stderr
    table[["label"]].assign(device="phone").to_csv(plan, index=False)
    result = call("evaluate", *tables, "--labels", plan)
    assert "names some rows twice" in result.stderr


def test_mistakes_of_plans(call, tables, tmp_path):
    result = call("sample-labels", *tables, "--keep", "name", "-o", tmp_path / "a.csv")
    assert "has no column 'name' to keep" in result.stderr
    result = call("sample-labels", *tables, "--rows", "0", "-o", tmp_path / "a.csv")
    assert result.returncode == 2
