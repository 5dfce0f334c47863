"""``unbag inspect``: what tables are worth, where they contradict each other, what a file is."""

import json

import pandas as pd
import pytest

from unbag.frames import bags_from_frame
from unbag.information import bag_information
from unbag.persistence import describe_model


def test_tables(run, folder, frames, known):
    result = run("inspect", "visits.csv.gz", "regions.csv", *known, "--size", "n", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    y = bags_from_frame(*frames, on="region", positives="conversions")[1]
    assert str(bag_information(y)) in result.stdout
    assert "600 instances in 24 bags" in result.stdout
    assert "device" in result.stdout
    assert "the assumption" in result.stdout


def test_tables_as_json(call, folder, frames, known):
    tables = [folder / "visits.parquet", folder / "regions.csv"]
    result = call("inspect", *tables, *known, "--json")
    found = json.loads(result.stdout)
    y = bags_from_frame(*frames, on="region", positives="conversions")[1]
    assert found["information"]["labelled_rows"] == pytest.approx(bag_information(y).labelled_rows)
    assert found["contradictions"] == []
    assert 0 <= found["assumption"]["p_value"] <= 1
    assert "device_phone" in {row["feature"] for row in found["assumption"]["features"]}


def test_contradictions_are_all_listed(call, frames, folder, known, tmp_path, nasty):
    regions = frames[1].copy()
    regions.loc[[1, 2], "conversions"] = 26, -1
    regions.loc[[3, 4, 5], "n"] = 24
    regions = pd.concat([regions.drop(index=7), pd.DataFrame({"region": [nasty], "n": [3]})])
    regions.to_csv(tmp_path / "r.csv", index=False)
    call_it = ["inspect", folder / "visits.parquet", tmp_path / "r.csv", *known, "--size", "n"]
    result = call(*call_it, "--json")
    assert result.returncode == 1
    found = json.loads(result.stdout)["contradictions"]
    assert [row["bag"] for row in found] == ["r07", nasty, "r03", "r04", "r05", "r02"]
    assert found[0] == {
        "bag": "r07",
        "problem": "no row in the bag table",
        "column": "region",
        "stated": None,
        "rows": 25,
    }
    shown = call(*call_it)
    assert len(shown.stdout.splitlines()) == 7
    assert "contradicts" in shown.stderr
    assert "\x1b" not in shown.stdout
    found = json.loads(call(*call_it, "--json", "--unmatched", "drop").stdout)["contradictions"]
    assert [row["bag"] for row in found] == ["r03", "r04", "r05", "r02"]


def test_bags_that_are_worth_little(call, frames, tmp_path):
    visits, regions = frames
    visits[visits["region"].isin(["r11", "r12"])].to_parquet(tmp_path / "v.parquet")
    regions[11:13].to_csv(tmp_path / "r.csv", index=False)
    known = ["--bag", "region", "--positives", "conversions"]
    result = call("inspect", tmp_path / "v.parquet", tmp_path / "r.csv", *known)
    assert result.returncode == 0, result.stderr
    assert "This cannot be tested" in result.stdout


def test_model(run, folder):
    result = run("inspect", "model.unbag", cwd=folder)
    assert result.returncode == 0, result.stderr
    for words in ("LinearMCMClassifierCV, written", "600 instances in 24 bags", "roc_auc"):
        assert words in result.stdout
    assert result.stderr == ""


def test_model_as_json(call, folder, tmp_path):
    result = call("inspect", folder / "model.unbag", "--json")
    assert json.loads(result.stdout) == describe_model(folder / "model.unbag")
    (tmp_path / "m.unbag").write_bytes(b"\x80\x04pickle")
    result = call("inspect", tmp_path / "m.unbag")
    assert (result.returncode, result.stdout) == (1, "")
    assert "looks like a pickle" in result.stderr
