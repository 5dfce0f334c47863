"""``unbag fit --grouping``: one model from several tables of totals of the same rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from unbag import LLPClassifier, bag_target, multi_grouping_target
from unbag.tables.features import make_features
from unbag.tables.persistence import load_model

FIT = (
    "fit",
    "rows.csv",
    "ads.csv",
    "--bag",
    "ad",
    "--positives",
    "sold",
    "-o",
    "m.unbag",
    "--folds",
    "2",
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    ad, day = rng.integers(0, 10, 240), rng.integers(0, 6, 240)
    age = rng.normal(size=240) + rng.normal(size=10)[ad] + rng.normal(size=6)[day]
    sold = rng.random(240) < 1 / (1 + np.exp(1 - age))
    frame = pd.DataFrame({"ad": ad, "day": day, "shop": rng.integers(1, 4, 240), "age": age})
    return frame.assign(sold=sold.astype(int))


@pytest.fixture
def place(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows.drop(columns="sold").to_csv("rows.csv", index=False)
    for name, column in {"ads": "ad", "days": "day", "shops": "shop"}.items():
        rows.groupby(column)["sold"].sum().reset_index().to_csv(f"{name}.csv", index=False)
    return tmp_path


def target(rows, column, **noise):
    counts = rows.groupby(column)["sold"].sum()
    return bag_target(rows[column], counts=counts[rows[column]].to_numpy(), **noise)


@pytest.mark.filterwarnings("always:the model was trained on")
@pytest.mark.usefixtures("place")
def test_the_model_is_that_of_all_tables(rows, call):
    more = ("--grouping", "day=days.csv", "--noise", "day=2.5", "--exclude", "shop,day", "--json")
    result = call(*FIT, *more)
    assert result.returncode == 0, result.stderr
    about = json.loads(result.stdout)
    assert [column["name"] for column in about["columns"]] == ["age"]
    assert about["n_bags"] == 16
    assert about["fitted_with"]["grouping"] == ["day=days.csv"]

    y = multi_grouping_target({"ad": target(rows, "ad"), "day": target(rows, "day", noise=2.5)})
    by_hand = make_pipeline(make_features(), LLPClassifier(None))
    by_hand.fit(rows[["age"]], y)
    found = load_model("m.unbag").model
    np.testing.assert_allclose(
        found.decision_function(rows[["age"]]), by_hand.decision_function(rows[["age"]]), rtol=1e-9
    )

    # what comes after: scores, with the counts of the first table or without, and evaluation
    assert call("predict", "m.unbag", "rows.csv", "-o", "s.csv").returncode == 0
    assert call("predict", "m.unbag", "rows.csv", "--bag-totals", "ads.csv", "-o", "p.csv")
    scores = pd.read_csv("p.csv")
    counts = rows.groupby("ad")["sold"].sum()
    np.testing.assert_allclose(scores.groupby("ad")["probability"].sum(), counts, atol=1e-3)
    known = ("--bag", "day", "--positives", "sold")
    judged = call("evaluate", "m.unbag", "rows.csv", "days.csv", *known)
    assert judged.returncode == 0
    assert (
        "the model was trained on 6 of these 6 bags, and estimates on these are too high"
        in judged.stderr
    )
    args = call("monitor", "m.unbag", "rows.csv", "days.csv", *known).stderr
    assert "m.unbag is a model of several groupings, of which no bag could be held out" in args


@pytest.mark.usefixtures("place")
def test_columns_of_groupings_are_features_and_no_figure_is_made_up(call):
    result = call(*FIT, "--grouping", "day=days.csv", "--grouping", "shop=shops.csv")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("The accuracy cannot be estimated from these tables: ")
    assert "likelihood of counts: 10 by ad, 6 by day, 3 by shop" in result.stderr
    assert [c["name"] for c in load_model("m.unbag").schema["columns"]] == ["day", "shop", "age"]


MISTAKES = {
    "days.csv": "'days.csv' is not of the form COLUMN=TABLE",
    "ad=ads.csv": "two tables are by 'ad'; every grouping has one",
    "dya=days.csv": "rows.csv has no column 'dya'; did you mean 'day'?",
    "day=ads.csv": "ads.csv has no column 'day'",
    "day=none.csv": "there is no file none.csv",
    "day=more.csv": "a table is rounded or noisy, give its standard deviation by --noise COLUMN=N",
    "day=noisy.csv": "if noise was added, give its standard deviation by --noise day=NUMBER.",
    "day=fewer.csv": "Bag 0 has instances but no row in the bag table fewer.csv; correct the key, "
    "or take their rows out of all tables",
    "day=days.csv --noise week=3": "'week=3' names none of ad, day",
    "day=days.csv --model boosted": "--grouping trains a linear model, not --model boosted",
    "day=days.csv --report p.html": "--report does not go with --grouping: the accuracy cannot be",
    "day=days.csv --labels age": "--labels does not go with --grouping: labels of some rows need",
    "day=days.csv --unmatched drop": "--unmatched drop does not go with --grouping: rows that",
    "day=days.csv --positives sold,lost": "ads.csv has no column 'lost'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_one_sentence(place, call, mistake):
    days = pd.read_csv("days.csv")
    days.iloc[1:].to_csv("fewer.csv", index=False)
    days.assign(sold=[*days["sold"][:-1], days["sold"].iloc[-1] - 1]).to_csv(
        "more.csv", index=False
    )
    days.assign(sold=days["sold"] + 0.5).to_csv("noisy.csv", index=False)
    result = call(*FIT, "--grouping", *mistake.split())
    assert result.returncode in (1, 2)
    error = result.stderr.strip().splitlines()[-1]
    assert error.startswith("unbag fit: error: ")
    assert MISTAKES[mistake] in error
    assert not (place / "m.unbag").exists()


@pytest.mark.usefixtures("place")
def test_more_than_two_classes_are_refused_in_words(rows, call):
    for name, column in {"ads": "ad", "days": "day"}.items():
        table = rows.groupby(column)["sold"].agg(a="sum", n="size").reset_index()
        table.assign(b=table["n"] - table["a"], c=0).to_csv(f"{name}.csv", index=False)
    three = ("--positives", "a,b,c", "--grouping", "day=days.csv")
    assert "The grouping 'ad' has 3 classes, and classifiers of groupings take two" in (
        call("fit", "rows.csv", "ads.csv", "--bag", "ad", *three, "-o", "m.unbag").stderr
    )
