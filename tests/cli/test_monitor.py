"""``unbag monitor``: a saved model when new totals arrive."""

import json

import numpy as np
import pandas as pd
import pytest

from unbag.cli import main
from unbag.datasets import make_gaussian_bags
from unbag.tables.persistence import load_model, save_model

KNOWN = ["--bag", "region", "--positives", "sold"]


def write_month(folder, name, proportions, seed, flip=False, n_bags=30):
    """Two tables of a month."""
    data = make_gaussian_bags(n_bags, 40, proportions, random_state=seed)
    rows = pd.DataFrame(data.X, columns=["age", "spent"])
    rows["colour"] = np.where(rows["spent"] > 0, "red", "blue")
    if flip:
        rows["age"] = -rows["age"]
    rows["region"] = [f"r{b:02}" for b in data.y["bag"]]
    rows.to_parquet(folder / f"{name}.parquet")
    sold = pd.Series(data.labels).groupby(rows["region"]).sum()
    sold.rename("sold").rename_axis("region").reset_index().to_csv(
        folder / f"{name}.csv", index=False
    )
    return rows


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    """A model of April, and months after it."""
    folder = tmp_path_factory.mktemp("months")
    write_month(folder, "april", (0.1, 0.5), 0)
    write_month(folder, "may", (0.1, 0.5), 1)
    write_month(folder, "june", (0.5, 0.9), 2)
    write_month(folder, "july", (0.1, 0.5), 3, flip=True)
    fit = ["fit", folder / "april.parquet", folder / "april.csv", *KNOWN, "--folds", "3"]
    assert main([*map(str, fit), "--model", "linear", "-o", str(folder / "april.unbag")]) == 0
    return folder


def tables(folder, month):
    return ["monitor", folder / "april.unbag", folder / f"{month}.parquet", folder / f"{month}.csv"]


def test_bags_may_be_made_by_what_is_a_feature_of_the_model(call, months, tmp_path):
    rows = pd.read_parquet(months / "may.parquet")
    rows["age"] = rows["age"].round()
    rows.to_parquet(tmp_path / "may.parquet")
    probabilities = 1 / (1 + np.exp(-rows["age"]))
    sold = probabilities.groupby(rows["age"]).sum().round().rename("sold").reset_index()
    sold.to_csv(tmp_path / "ages.csv", index=False)
    args = [tmp_path / "may.parquet", tmp_path / "ages.csv", "--bag", "age", "--positives", "sold"]
    result = call("monitor", months / "april.unbag", *args)
    assert result.returncode in (0, 3, 4), result.stderr
    assert "The training bags were by region, and these are by age" in result.stderr
    result = call("evaluate", months / "april.unbag", *args)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("month", "code"), [("may", 0), ("june", 3), ("july", 4)])
def test_exit_codes_follow_the_verdict(call, months, month, code):
    result = call(*tables(months, month), *KNOWN, "--json")
    assert result.returncode == code, result.stdout
    found = json.loads(result.stdout)
    verdict = {0: "ok", 3: "prior_shift", 4: "degraded"}[code]
    assert (found["verdict"], found["exit_code"]) == (verdict, code)
    assert len(found["bags"]) == 30
    assert result.stderr == ""


def test_words_say_what_to_do(call, months):
    result = call(*tables(months, "june"), *KNOWN)
    text = " ".join(result.stdout.split())
    assert text.startswith("Prior shift:")
    assert "Use --class-prior 0." in text
    for args in ("Totals:", "Slope:", "Dispersion:", "Worst bag: r", "Rows:"):
        assert args in text


def test_small_differences_can_be_left_alone(call, months):
    result = call(*tables(months, "june"), *KNOWN, "--json", "--tolerance", "9")
    assert not json.loads(result.stdout)["alarms"]["totals"]


def test_columns_that_have_changed_are_named(call, months):
    rows = write_month(months, "august", (0.1, 0.5), 4)
    rows.loc[::2, "colour"] = "green"
    rows.loc[::10, "spent"] = 99.0
    rows.to_parquet(months / "august.parquet")
    result = call(*tables(months, "august"), *KNOWN, "--json")
    found = json.loads(result.stdout)
    assert found["unseen_categories"] == {"colour": 600}
    assert found["out_of_range"]["spent"] >= 0.1
    assert "such as 'green'" in result.stderr


def test_bags_by_another_column_are_said_to_be_others(call, months):
    rows = pd.read_parquet(months / "may.parquet").rename(columns={"region": "shop"})
    rows.to_parquet(months / "shops.parquet")
    counts = pd.read_csv(months / "may.csv").rename(columns={"region": "shop"})
    counts.to_csv(months / "shops.csv", index=False)
    result = call(*tables(months, "shops"), "--bag", "shop", "--positives", "sold")
    assert result.returncode == 0
    assert "The training bags were by region, and these are by shop" in result.stderr


def test_mistakes(call, months):
    found = load_model(months / "april.unbag")
    old = {name: value for name, value in found.metadata.items() if name != "reference"}
    save_model(found.model, months / "old.unbag", schema=found.schema, metadata=old)
    known = [months / "may.parquet", months / "may.csv", *KNOWN]
    result = call("monitor", months / "old.unbag", *known)
    assert result.returncode == 1
    assert "has no summary of its training bags to compare new ones with" in result.stderr
    write_month(months, "few", (0.1, 0.5), 5, n_bags=4)
    result = call(*tables(months, "few"), *KNOWN)
    assert result.returncode == 1
    assert "takes 5 new bags at least, and there are 4" in result.stderr
    assert result.stdout == ""


def test_models_of_four_bags_have_nothing_to_hold_others_against(call, months):
    write_month(months, "tiny", (0.1, 0.5), 6, n_bags=4)
    made = ["fit", months / "tiny.parquet", months / "tiny.csv", *KNOWN, "--folds", "0"]
    assert call(*made, "--model", "linear", "-o", months / "tiny.unbag").returncode == 0
    result = call(
        "monitor", months / "tiny.unbag", months / "may.parquet", months / "may.csv", *KNOWN
    )
    assert result.returncode == 1
    assert "was fitted to fewer than five bags" in result.stderr
