"""``unbag groups``."""

import json
import re

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def model(folder, known, call, tmp_path):
    path = tmp_path / "m.unbag"
    tables = (folder / "visits.parquet", folder / "regions.csv")
    result = call("fit", *tables, *known, "--model", "linear", "--folds", 0, "-o", path)
    assert result.returncode == 0, result.stderr
    return path, *tables


def test_shares_contrast_and_page(model, known, frames, call, tmp_path):
    page = tmp_path / "groups.html"
    how = ("--by", "device", "--contrast", "desk-phone")
    result = call("groups", *model, *known[:4], *how, "--report", page)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("group  size  class  share  95% interval")
    assert "desk (1) − phone (1)" in result.stdout
    assert "effect in desk" in " ".join(result.stdout.split())
    assert "effect in phone" in " ".join(result.stdout.split())
    text = page.read_text(encoding="utf-8")
    assert text.count('class="picture"') >= 4
    assert "Shares by device" in text
    # the contrast and the numbers as they are printed
    assert re.search(r"desk \(1\) − phone \(1\): [+-]0\.\d{3} \(95% interval", text)
    assert re.search(r"<bdi>0\.\d{3} to 0\.\d{3}</bdi>", text)
    found = json.loads(call("groups", *model, *known[:4], *how, "--json").stdout)
    total = sum(one["size"] * one["share"] for one in found["groups"] if one["class"] == 1)
    assert total == pytest.approx(frames[1]["conversions"].sum(), abs=0.01)
    assert found["contrasts"][0]["first"] == "desk (1)"
    effects = found["sensitivity"][0]["effects"]
    assert [one["shifted"] for one in effects] == ["desk", "phone"]
    assert len(effects[0]["estimate"]) == 11


def test_margins_have_a_table_of_groups(call, tmp_path):
    rng = np.random.default_rng(0)
    old, young = rng.integers(5, 60, size=(2, 30))
    yes = rng.binomial(old, 0.8) + rng.binomial(young, 0.3)
    table = tmp_path / "precincts.csv"
    columns = {"precinct": range(30), "old": old, "young": young, "yes": yes}
    pd.DataFrame(columns).to_csv(table, index=False)
    known = (table, table, "--bag", "precinct", "--positives", "yes", "--margins", "old,young")
    path = tmp_path / "m.unbag"
    result = call("fit", *known, "--model", "linear", "--folds", 0, "-o", path)
    assert result.returncode == 0, result.stderr
    result = call("groups", path, *known, "--contrast", "old-young", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [one["group"] for one in found["groups"][::2]] == ["old", "young"]
    assert found["groups"][1]["size"] == old.sum()
    assert found["contrasts"][0]["low"] < 0.5 < found["contrasts"][0]["high"]
    assert call("groups", path, *known, "--by", "group").returncode == 2


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        (("--by", "fWidth"), 1, r"--by fWidth would make \S+ groups, and more than 50 are"),
        (
            ("--by", "device", "--contrast", "desk-fax"),
            2,
            "does not name two groups; there are desk, ph",
        ),
    ],
)
def test_what_makes_no_groups(how, code, message, model, known, call):
    result = call("groups", *model, *known[:4], *how)
    assert (result.returncode, result.stdout) == (code, "")
    assert re.search(message, result.stderr)
