"""``unbag fit``: from files to a model file, and every way in which files can be wrong."""

import html
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from unbag._optional import install_command
from unbag.bags.frames import bags_from_frame
from unbag.cli.inspect import inspect_bags
from unbag.evaluation import cross_fit, cross_val_evaluate
from unbag.tables import make_classifier
from unbag.tables.persistence import load_model
from unbag.tables.scoring import Rule, make_rule


def test_from_files_to_a_model(run, folder, frames, known, tmp_path):
    page, model = tmp_path / "page.html", tmp_path / "model.unbag"
    result = run(
        *("fit", "visits.csv.gz", "regions.csv", *known, "--bag-size", "n", "--model", "linear"),
        *("-o", model, "--report", page),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    # nothing but the evaluation on stdout, the verdict first
    assert result.stdout.startswith(("No conflict", "Inconclusive", "Label shift"))
    assert "\nEstimated from the proportions of 24 bags (600 rows)" in result.stdout
    assert "66/66" not in result.stderr  # nobody watches a bar in a pipe
    assert "\nPredicted class: positive above a probability of 0." in result.stderr
    # the terms of the model
    for word in ("Standard deviation", "Share of variance", "numbers", "device"):
        assert word in result.stderr
    words = html.unescape(page.read_text(encoding="utf-8"))
    assert "unbag fit visits.csv.gz regions.csv --bag region" in words
    assert f"--report {page}</pre>" in words

    # the same by hand, from data frames
    found = load_model(model)
    visits, regions = frames
    X, y = bags_from_frame(
        visits.drop(columns="id"), regions, on="region", positives="conversions", bag_size="n"
    )
    by_hand = make_classifier("linear").fit(X, y)
    np.testing.assert_array_equal(by_hand.decision_function(X), found.model.decision_function(X))
    rule = Rule(**found.metadata["rule"])
    out_of_fold = cross_fit(by_hand, X, y, cv=5, warm_start=True)
    expected = make_rule("balanced", expit(out_of_fold.log_odds))
    assert rule.threshold == pytest.approx(expected.threshold)
    evaluation = cross_val_evaluate(
        by_hand, X, y, out_of_fold=out_of_fold, threshold=rule.score_threshold
    )
    assert result.stdout == f"{evaluation}\n"
    # one test of the assumption, before a fit and after it
    seen = inspect_bags(X, y).assumption
    assert (seen.what, seen.test.summary) in [(w, t.summary) for w, t in evaluation.tests.items()]
    assert seen.test.p_value == evaluation.tests["The features"].p_value
    kept = found.metadata["evaluation"]["estimates"]["roc_auc"]
    assert kept["value"] == pytest.approx(evaluation["roc_auc"].value, abs=1e-9)
    assert 0 <= kept["low"] < kept["value"] < kept["high"] <= 1
    assert found.metadata["n_bags"] == 24
    assert found.metadata["fitted_with"]["positives"] == ["conversions"]
    assert found.schema["keys"] == ["region"]
    assert [c["kind"] for c in found.schema["columns"]] == ["number"] * 4 + ["category"]


def test_json_is_all_there_is(call, folder, known, tmp_path):
    arguments = ["fit", folder / "visits.parquet", folder / "regions.csv", *known, "--json"]
    result = call(*arguments, "--model", "linear", "--folds", 3, "-o", tmp_path / "m.unbag")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["evaluation"]["folds"] == 3
    assert found["training"]["objective"] == "likelihood"
    assert [term["term"] for term in found["training"]["terms"]] == ["numbers", "device"]
    shares = [term["variance_share"] for term in found["training"]["terms"]]
    assert sum(shares) == pytest.approx(1)
    assert found["training"]["bag_effect"] >= 0
    assert found["training"]["dispersion"] >= 1
    assert found["leaderboard"] is None
    assert found["n_instances"] == 600
    assert len(found["columns"]) == 5


def test_a_share_instead_of_counts_and_no_evaluation(call, folder, tmp_path):
    known = ["--bag", "region", "--proportion", "rate", "--noise", "0.01", "--exclude", "id"]
    arguments = ["fit", folder / "visits.parquet", folder / "regions.csv", *known]
    result = call(*arguments, "--folds", 0, "--model", "linear", "-o", tmp_path / "m.unbag")
    assert result.returncode == 0
    assert result.stdout.startswith("The features: No conflict with label shift found")
    assert load_model(tmp_path / "m.unbag").metadata["evaluation"] is None


def test_kinds_can_be_given(call, frames, tmp_path):
    visits, regions = frames
    visits = visits.assign(code=np.where(visits["id"] % 2, "007", "7"), region=1)
    visits["region"] = [f"{i:03}" for i in visits["id"] % 24]
    counts = regions.assign(region=[f"{i:03}" for i in range(24)])
    visits.to_csv(tmp_path / "v.csv", index=False)
    counts.to_csv(tmp_path / "r.csv", index=False)
    arguments = ["fit", tmp_path / "v.csv", tmp_path / "r.csv", "--bag", "region"]
    arguments += [
        "--positives",
        "conversions",
        "--exclude",
        "id",
        "--folds",
        0,
        "--model",
        "linear",
    ]
    kinds = "code=category,region=category"
    result = call(*arguments, "--types", kinds, "-o", tmp_path / "m.unbag", "--json")
    assert result.returncode == 0, result.stderr
    columns = {column["name"]: column for column in json.loads(result.stdout)["columns"]}
    assert columns["code"]["values"] == ["007", "7"]


def test_an_ensemble_shows_its_models(call, folder, known, tmp_path):
    model = tmp_path / "m.unbag"
    arguments = ["fit", folder / "visits.parquet", folder / "regions.csv", *known]
    result = call(
        *(*arguments, "--model", "ensemble", "--folds", 2, "-o", model),
        *("--threshold-metric", "cost", "--costs", 1, 4),
    )
    assert result.returncode == 0, result.stderr
    assert "held-out loss  weight  seconds" in result.stderr
    assert "above a probability of 0.2, which minimises the given costs." in result.stderr
    assert "1.0, 4.0" in call("inspect", model).stdout
    found = load_model(model).metadata
    assert {row["learner"] for row in found["leaderboard"]} == {"mixed", "boosted"}
    assert found["rule"]["threshold"] == pytest.approx(0.2)


def test_bags_that_teach_nothing_are_refused(call, tmp_path):
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(15), 20)
    rows = pd.DataFrame({"ward": bag, "age": rng.normal(size=300)})
    counts = pd.DataFrame({"ward": range(15), "ill": [6, 7] * 7 + [6]})
    rows.to_csv(tmp_path / "v.csv", index=False)
    counts.to_csv(tmp_path / "r.csv", index=False)
    arguments = ["fit", tmp_path / "v.csv", tmp_path / "r.csv", "--bag", "ward"]
    arguments += ["--positives", "ill", "--model", "linear", "-o", tmp_path / "m.unbag"]
    result = call(*arguments)
    assert result.returncode == 1
    assert "these bags carry no more information than 0.9 labelled rows" in result.stderr
    assert "Get more bags" in result.stderr
    assert not (tmp_path / "m.unbag").exists()


def test_boosted_trees_are_opened_like_all_models(call, folder, frames, known, tmp_path):
    model = tmp_path / "m.unbag"
    arguments = ["fit", folder / "visits.parquet", folder / "regions.csv", *known]
    result = call(*arguments, "--model", "boosted", "--folds", 2, "-o", model)
    assert result.returncode == 0, result.stderr
    found = load_model(model)
    assert found.metadata["model"] == "LLPBoostingClassifier"
    assert found.metadata["evaluation"]["estimates"]["roc_auc"]["value"] > 0.65
    arguments = ["predict", model, folder / "visits.parquet", "-o", tmp_path / "s.csv"]
    assert call(*arguments).returncode == 0
    X = frames[0][[column["name"] for column in found.schema["columns"]]]
    scores = pd.read_csv(tmp_path / "s.csv")["score"]
    np.testing.assert_allclose(scores, found.model.decision_function(X))


def test_without_lightgbm_it_is_said_before_anything_is_read(call, known, tmp_path, monkeypatch):
    monkeypatch.setattr("unbag.cli.output.find_spec", lambda name: name != "lightgbm" or None)
    nowhere = ["fit", "no.csv", "no.csv", *known, "--model", "boosted"]
    result = call(*nowhere, "-o", tmp_path / "m.unbag")
    assert result.returncode == 1
    assert result.stderr == (
        "unbag fit: error: this command needs lightgbm; install with: "
        f"{install_command('boosting')}\n"
    )


@pytest.fixture
def broken(frames, tmp_path, monkeypatch):
    """Tables with one mistake each."""
    monkeypatch.chdir(tmp_path)
    visits, regions = frames
    visits.to_csv("v.csv", index=False)
    regions.to_csv("r.csv", index=False)
    regions.assign(region=range(24)).to_csv("numbers.csv", index=False)
    regions.drop(index=[3, 4]).to_csv("fewer.csv", index=False)
    regions.assign(conversions=26).to_csv("more.csv", index=False)
    regions.assign(n=[25] * 23 + [24]).to_csv("size.csv", index=False)
    regions.assign(conversions=["many"] + [1] * 23).to_csv("words.csv", index=False)
    regions.head(2).to_csv("two.csv", index=False)
    visits.assign(region=[None] + ["r00"] * 599).to_csv("nowhere.csv", index=False)
    (tmp_path / "short.csv").write_text("region,conversions\nr00,3\nr01\n")
    (tmp_path / "latin.csv").write_bytes(b"region,conversions\nr\xe9,3\n")
    (tmp_path / "none.csv").write_text("region,conversions\n")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ("v.doc r.csv", "", "v.doc cannot be read as a table"),
        ("nobody.csv r.csv", "", "there is no file nobody.csv"),
        ("v.csv cut.parquet", "", "cut.parquet cannot be read as parquet"),
        ("v.csv short.csv", "", "short.csv: line 3 has 1 fields, and the header has 2"),
        (
            "v.csv latin.csv",
            "",
            "No bag is in both tables: the first is 'r00' in the row table v.csv and 'ré' in",
        ),
        ("v.csv none.csv", "", "none.csv has columns and no rows"),
        ("v.csv r.csv", "--exclude nom", "v.csv has no column 'nom' to exclude"),
        ("v.csv r.csv", "--bag-size m", "bag table r.csv has no column 'm'; it has"),
        ("v.csv r.csv", "--types m=number", "--types names the column 'm', which neither"),
        (
            "v.csv r.csv",
            "--types device=number",
            "v.csv: The column 'device'",
        ),
        ("v.csv r.csv", "-o no/where.unbag", "the folder of no/where.unbag does not exist"),
        ("v.csv numbers.csv", "", "--types can make both a category"),
        ("nowhere.csv r.csv", "", "Row 1 of the row table nowhere.csv has no value"),
        ("v.csv more.csv", "", "more positives than there are instance rows for bags 'r00' (26,"),
        (
            "v.csv size.csv",
            "--bag-size n",
            "contradicts the number of instance rows of bag 'r23' (24",
        ),
        (
            "v.csv words.csv",
            "",
            "Column 'conversions' of the bag table words.csv must hold numbers; row 1 holds",
        ),
        ("v.csv fewer.csv", "", "have instances but no row in the bag table fewer.csv; correct "),
        ("v.csv fewer.csv", "", "or use --unmatched drop"),
        (
            "v.csv two.csv",
            "--unmatched drop",
            "these bags carry no more information than 0.4 labelled rows",
        ),
    ],
)
def test_mistakes_get_one_sentence(tables, options, message, call):
    base = "--bag region --positives conversions -o m.unbag --model linear"
    result = call("fit", *tables.split(), *base.split(), *options.split())
    assert (result.returncode, result.stdout) == (1, "")
    error = result.stderr.splitlines()[-1]
    assert error.startswith("unbag fit: error: ")
    assert message in error


@pytest.mark.usefixtures("broken")
def test_what_is_left_out_is_counted(call):
    base = "--bag region --positives conversions -o m.unbag --model linear --folds 0"
    result = call("fit", "v.csv", "fewer.csv", *base.split(), "--unmatched", "drop")
    assert result.returncode == 0, result.stderr
    assert "Left out: 50 rows of v.csv, of 2 bags not in fewer.csv." in result.stderr
    assert load_model("m.unbag").metadata["n_instances"] == 550


def test_names_that_would_be_obeyed(call, frames, tmp_path, nasty):
    visits, regions = frames
    region = {"r00": nasty, "r01": f"{nasty}2"}
    visits = visits.replace({"region": region}).rename(columns={"device": nasty})
    visits.to_parquet(tmp_path / "v.parquet")
    regions.replace({"region": region}).to_csv(tmp_path / "r.csv", index=False)
    base = ["--bag", "region", "--positives", "conversions", "--exclude", "id"]
    tables = [tmp_path / "v.parquet", tmp_path / "r.csv"]
    page, model = tmp_path / "page.html", tmp_path / "m.unbag"
    fit = ["fit", *tables, *base, "--model", "linear", "-o", model, "--report", page]
    visits.assign(**{nasty: nasty}).to_csv(tmp_path / "new.csv", index=False)
    for arguments in (
        fit,
        ["inspect", *tables, *base[:-1]],
        ["inspect", *tables, *base[:-1], "--json"],
        ["inspect", model],
        ["predict", model, tmp_path / "new.csv", "-o", tmp_path / "s.csv"],
        ["predict", model, tables[1], "-o", tmp_path / "s.csv"],
        ["predict", model, tmp_path / "new.csv", "--keep", f"{nasty}3", "-o", tmp_path / "s.csv"],
    ):
        result = call(*arguments)
        assert "\x1b" not in result.stdout + result.stderr
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "\x1b" not in text


def test_hidden_counts_of_cells_that_stand_for_rows(call, tmp_path):
    rng = np.random.default_rng(0)
    cells = pd.DataFrame({"day": np.repeat(np.arange(30), 4), "x": np.tile([0, 1, 2, 3], 30)})
    cells["n"] = rng.integers(1, 30, len(cells))
    late = rng.binomial(cells["n"], 1 / (1 + np.exp(3 - cells["x"])))
    counts = pd.Series(late).groupby(cells["day"]).sum()
    days = pd.DataFrame({"day": counts.index, "late": ["<10" if k < 10 else k for k in counts]})
    cells.to_csv(tmp_path / "cells.csv", index=False)
    days.to_csv(tmp_path / "days.csv", index=False)
    place = tmp_path / "m.unbag"
    result = call(
        "fit",
        tmp_path / "cells.csv",
        tmp_path / "days.csv",
        "--bag",
        "day",
        "--positives",
        "late",
        "--multiplicity",
        "n",
        "--model",
        "linear",
        "-o",
        place,
    )
    assert result.returncode == 0
    assert "'<10'" in result.stderr
    assert "not estimated" in result.stdout
    model = load_model(place)
    assert [column["name"] for column in model.schema["columns"]] == ["x"]


def test_margins_only(call, tmp_path):
    table = pd.DataFrame({"place": range(8), "a": [90, 10] * 4, "b": [10, 90] * 4})
    table["yes"] = table["a"] * 8 // 10 + table["b"] * 2 // 10
    table.to_csv(tmp_path / "t.csv", index=False)
    place = tmp_path / "m.unbag"
    result = call(
        "fit",
        tmp_path / "t.csv",
        tmp_path / "t.csv",
        "--bag",
        "place",
        "--positives",
        "yes",
        "--margins",
        "a,b",
        "-o",
        place,
    )
    assert result.returncode == 0
    assert [column["name"] for column in load_model(place).schema["columns"]] == ["group"]
