"""``unbag inspect``: what tables are worth, where they are inconsistent, what a file is."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from unbag import check_bag_target
from unbag.bags.frames import bags_from_frame
from unbag.evaluation import cross_fit
from unbag.evaluation.bag_effects import estimate_bag_effect
from unbag.evaluation.sample_size import effective_sample_size
from unbag.tables import make_classifier
from unbag.tables.persistence import describe_model

BY_SHOP = ("--bag", "shop", "--positives", "buyers")


def write_shops(folder, *, n_bags=80, size=60, effect=0.0, seed=0):
    """Customers of shops: in who comes there shops differ, and by an effect on the log-odds."""
    rng = np.random.default_rng(seed)
    shop = np.repeat(np.arange(n_bags), size)
    age = rng.normal(size=len(shop)) + rng.normal(size=n_bags)[shop]
    odds = np.exp(1.5 * age - 0.5 + effect * rng.normal(size=n_bags)[shop])
    buys = rng.uniform(size=len(shop)) < odds / (1 + odds)
    people = pd.DataFrame({"shop": shop, "age": age, "other": rng.normal(size=len(shop))})
    people.to_csv(folder / "people.csv", index=False)
    counts = np.bincount(shop, buys).astype(int)
    pd.DataFrame({"shop": range(n_bags), "buyers": counts}).to_csv(
        folder / "shops.csv", index=False
    )
    return folder / "people.csv", folder / "shops.csv"


def test_tables(run, folder, frames, known):
    result = run("inspect", "visits.csv.gz", "regions.csv", *known, "--bag-size", "n", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    y = bags_from_frame(*frames, on="region", positives="conversions")[1]
    assert str(effective_sample_size(y)) in result.stdout
    assert "600 rows in 24 bags; the tables are consistent" in result.stdout
    assert "device" in result.stdout
    assert "label shift" in result.stdout
    assert "No bag effect found" in result.stdout
    assert "held-out bags: 600 rows in 24 bags.)" in result.stdout


def test_tables_as_json(call, folder, frames, known):
    tables = [folder / "visits.parquet", folder / "regions.csv"]
    result = call("inspect", *tables, *known, "--json")
    found = json.loads(result.stdout)
    y = bags_from_frame(*frames, on="region", positives="conversions")[1]
    assert found["information"]["n_effective"] == pytest.approx(
        effective_sample_size(y).n_effective
    )
    assert found["inconsistencies"] == []
    assert 0 <= found["assumption"]["p_value"] <= 1
    assert "device_phone" in {row["feature"] for row in found["assumption"]["features"]}


def test_effects_of_bags_are_those_of_a_linear_model(call, tmp_path):
    tables = write_shops(tmp_path, effect=0.8)
    result = call("inspect", *tables, *BY_SHOP, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)["bag_effect"]
    X, y = bags_from_frame(*map(pd.read_csv, tables), on="shop", positives="buyers")
    scores = cross_fit(make_classifier("linear"), X, y).log_odds
    bags = check_bag_target(y)
    effect = estimate_bag_effect(bags, np.stack([expit(-scores), expit(scores)]))
    assert found["variance"] == pytest.approx(effect.variance, rel=1e-6)
    assert [found["low"], found["high"]] == pytest.approx([effect.low, effect.high], rel=1e-6)
    assert found["summary"] == str(effect)
    assert found["significant"]
    shown = " ".join(call("inspect", *tables, *BY_SHOP).stdout.split())
    assert f"Between-bag SD of {effect.spread:.1f} percentage points" in shown


@pytest.mark.parametrize("shift", ["covariate_shift", "label_shift"])
def test_a_hint_in_which_way_bags_differ(shift, call, folder, known, tmp_path):
    tables = write_shops(tmp_path), BY_SHOP
    if shift == "label_shift":
        tables = (folder / "visits.parquet", folder / "regions.csv"), known
    words = {
        "covariate_shift": "agree with covariate shift",
        "label_shift": "agree with label shift",
    }
    (instances, aggregates), args = tables
    result = call("inspect", instances, aggregates, *args, "--json")
    found = json.loads(result.stdout)["bag_effect"]
    assert found["shift_type"] == shift
    assert not found["significant"]
    assert words[shift] in found["message"]
    assert found["slope"] == pytest.approx(
        {"covariate_shift": 1, "label_shift": found["slope_label_shift"]}[shift], rel=0.25
    )


def test_of_many_rows_some_whole_bags_are_inspected(call, tmp_path, monkeypatch):
    tables = write_shops(tmp_path)
    monkeypatch.setattr("unbag.cli.inspect._ROWS_FOR_EFFECT", 1850)
    first, second = (call("inspect", *tables, *BY_SHOP).stdout for _ in range(2))
    said = "held-out bags: 1,800 rows in 30 bags drawn at random, of 4,800 rows in all.)"
    assert said in " ".join(first.split())
    assert first == second
    monkeypatch.setattr("unbag.cli.inspect._MOST_ROWS", 1700)
    assert "Bags are too large for a quick estimate" in call("inspect", *tables, *BY_SHOP).stdout


def test_effects_that_cannot_be_estimated_are_explained(call, tmp_path):
    tables = write_shops(tmp_path, n_bags=10)
    counts = pd.DataFrame({"shop": range(10), "buyers": [20] * 9 + [40]})
    counts.to_csv(tmp_path / "shops.csv", index=False)
    result = call("inspect", *tables, *BY_SHOP, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)["bag_effect"]
    assert found["variance"] is None
    # without the only bag that differs
    assert found["summary"].startswith("This cannot be estimated: ")
    assert found["summary"] in " ".join(call("inspect", *tables, *BY_SHOP).stdout.split())


def test_inconsistencies_are_all_listed(call, frames, folder, known, tmp_path, nasty):
    regions = frames[1].copy()
    regions.loc[[1, 2], "conversions"] = 26, -1
    regions.loc[[3, 4, 5], "n"] = 24
    regions = pd.concat([regions.drop(index=7), pd.DataFrame({"region": [nasty], "n": [3]})])
    regions.to_csv(tmp_path / "r.csv", index=False)
    call_it = ["inspect", folder / "visits.parquet", tmp_path / "r.csv", *known, "--bag-size", "n"]
    result = call(*call_it, "--json")
    assert result.returncode == 1
    found = json.loads(result.stdout)["inconsistencies"]
    assert [row["bag"] for row in found] == ["r07", nasty, "r03", "r04", "r05", "r02"]
    assert found[0] == {
        "bag": "r07",
        "problem": "no row in the bag table",
        "column": "region",
        "reported": None,
        "rows": 25,
    }
    shown = call(*call_it)
    assert len(shown.stdout.splitlines()) == 7
    assert "r.csv is inconsistent with" in shown.stderr
    assert (
        "unbag inspect: error: Bag 'r07' has instances but no row in the bag table" in shown.stderr
    )
    assert "to leave such bags out." in shown.stderr
    assert "\x1b" not in shown.stdout
    found = json.loads(call(*call_it, "--json", "--unmatched", "drop").stdout)["inconsistencies"]
    assert [row["bag"] for row in found] == ["r03", "r04", "r05", "r02"]


def test_bags_that_are_worth_little(call, frames, tmp_path):
    visits, regions = frames
    visits[visits["region"].isin(["r11", "r12"])].to_parquet(tmp_path / "v.parquet")
    regions[11:13].to_csv(tmp_path / "r.csv", index=False)
    known = ["--bag", "region", "--positives", "conversions"]
    result = call("inspect", tmp_path / "v.parquet", tmp_path / "r.csv", *known)
    assert result.returncode == 0, result.stderr
    assert "This cannot be tested" in result.stdout
    assert "This takes at least 5 bags, and there are 2." in result.stdout


def test_model(run, folder):
    result = run("inspect", "model.unbag", cwd=folder)
    assert result.returncode == 0, result.stderr
    for words in ("LLPClassifier, written", "600 rows in 24 bags", "roc_auc"):
        assert words in result.stdout
    assert "trained by the count likelihood" in result.stdout.lower()
    assert result.stderr == ""


def test_model_as_json(call, folder, tmp_path):
    result = call("inspect", folder / "model.unbag", "--json")
    assert json.loads(result.stdout) == describe_model(folder / "model.unbag")
    (tmp_path / "m.unbag").write_bytes(b"\x80\x04pickle")
    result = call("inspect", tmp_path / "m.unbag")
    assert (result.returncode, result.stdout) == (1, "")
    assert "looks like a pickle" in result.stderr
