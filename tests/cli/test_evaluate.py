"""``unbag evaluate``: a saved model on bags that it did not see."""

import json
import warnings

import numpy as np
import pytest

from unbag.bags.frames import bags_from_frame
from unbag.evaluation import evaluate
from unbag.evaluation.held_out import posterior_draws
from unbag.tables.persistence import load_model
from unbag.tables.scoring import Rule


@pytest.fixture(scope="session")
def halves(frames, folder):
    """A model of half the regions, and the other half as files."""
    from unbag.cli import main

    visits, regions = frames
    first = visits["region"].isin(regions["region"][::2])
    visits[first].to_parquet(folder / "first.parquet")
    visits[~first].to_parquet(folder / "second.parquet")
    regions[::2].to_csv(folder / "first.csv", index=False)
    regions[1::2].to_csv(folder / "second.csv", index=False)
    known = ["--bag", "region", "--positives", "conversions", "--exclude", "id"]
    fit = ["fit", str(folder / "first.parquet"), str(folder / "first.csv"), *known]
    assert main([*fit, "--model", "linear", "--folds", "0", "-o", str(folder / "half.unbag")]) == 0
    return folder


def test_on_new_bags(run, halves, frames):
    known = ["--bag", "region", "--proportion", "rate"]
    result = run("evaluate", "half.unbag", "second.parquet", "second.csv", *known, cwd=halves)
    assert result.returncode == 0, result.stderr
    visits, regions = frames
    rows = visits["region"].isin(regions["region"][1::2])
    X, y = bags_from_frame(visits[rows], regions[1::2], on="region", proportion="rate")
    found = load_model(halves / "half.unbag")
    model, rule = found.model, Rule(**found.metadata["rule"])
    expected = evaluate(
        y,
        model.decision_function(X),
        X=model[:-1].transform(X),
        probabilities=model.predict_proba(X),
        draws=posterior_draws(model, X),
        threshold=rule.score_threshold,
    )
    assert result.stdout == f"{expected}\n"
    assert result.stderr == ""


def test_json(call, halves):
    known = ["--bag", "region", "--positives", "conversions", "--json"]
    tables = [halves / "second.parquet", halves / "second.csv"]
    result = call("evaluate", halves / "half.unbag", *tables, *known)
    found = json.loads(result.stdout)
    assert (found["n_bags"], found["folds"]) == (12, None)
    assert found["verdict"]["name"] in ("not_rejected", "inconclusive", "rejected")
    assert set(found["by_assumption"]) == {"label_shift", "covariate_shift", "sensitivity"}
    assert set(found["verdicts"]) == {"label_shift", "covariate_shift"}
    assert found["drift"] == []  # this model was saved without a reference
    area = found["estimates"]["roc_auc"]
    assert area["low"] < area["value"] < area["high"]
    assert np.isfinite(area["standard_error"])


def test_robustness(call, halves):
    known = ["--bag", "region", "--positives", "conversions", "--robustness", "0.55"]
    tables = [halves / "second.parquet", halves / "second.csv"]
    result = call("evaluate", halves / "half.unbag", *tables, *known)
    assert "Robustness: the AUC" in result.stdout
    found = json.loads(call("evaluate", halves / "half.unbag", *tables, *known, "--json").stdout)
    assert found["robustness"]["below"] == 0.55
    assert found["robustness"]["column"] in result.stdout.replace("\n", " ")


def test_a_page_of_new_bags(call, halves, tmp_path):
    known = ["--bag", "region", "--positives", "conversions", "--report", tmp_path / "p.html"]
    tables = [halves / "second.parquet", halves / "second.csv"]
    result = call("evaluate", halves / "half.unbag", *tables, *known)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "half.unbag on" in page
    assert "Sensitivity range" in page


def test_mistakes(call, halves):
    model, table = halves / "half.unbag", halves / "second.parquet"
    known = ["--bag", "region", "--positives", "conversions"]
    result = call("evaluate", model, table, halves / "regions.csv", *known)
    assert result.returncode == 1
    assert "12 more" not in result.stderr
    assert "a row in the bag table" in result.stderr
    result = call("evaluate", model, halves / "regions.csv", halves / "second.csv", *known)
    assert "that the model needs" in result.stderr
    result = call("evaluate", halves / "second.csv", table, halves / "second.csv", *known)
    assert "is not a model file" in result.stderr
    result = call("evaluate", model, table, halves / "regions.csv", *known, "--unmatched", "drop")
    assert result.returncode == 0
    assert "Left out: 12 bags of" in result.stderr


KNOWN_BAGS = (
    "unbag evaluate: warning: the model was trained on {} of these 12 bags, and estimates "
    "on these are too high\n"
)


def test_training_bags_are_known_again(call, halves, frames, tmp_path):
    visits, regions = frames
    # other order, other format, one row of one region changed
    again = visits[visits["region"].isin(regions["region"][::2])].sample(frac=1, random_state=0)
    again.to_csv(tmp_path / "again.csv", index=False)
    again.iloc[0, 1] += 1
    again.to_parquet(tmp_path / "changed.parquet")
    known = ("--bag", "region", "--positives", "conversions")
    for table, n_known in (("again.csv", 12), ("changed.parquet", 11)):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            result = call(
                *("evaluate", halves / "half.unbag", tmp_path / table, halves / "first.csv", *known)
            )
        assert result.returncode == 0
        assert result.stderr == KNOWN_BAGS.format(n_known)
