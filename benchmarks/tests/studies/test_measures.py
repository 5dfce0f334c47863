"""What studies measure can still be measured, and gives what stored rows say."""

import numpy as np
import pytest

from unbag.paper.rows import load_rows
from unbag_bench.studies import (
    efficiency,
    evaluation_designs,
    group_intervals,
    hidden_counts,
    monitoring,
    multiple_instance,
    scaling,
    slopes,
)
from unbag_bench.study import results_folder


def rows_of(study):
    return load_rows(results_folder() / study / "rows.jsonl")


@pytest.mark.parametrize("row", rows_of("efficiency")[:12:3], ids=lambda row: row["shares"])
def test_slopes_of_all_methods_are_those_of_the_rows(row):
    """G has a correction for few bags, which rows do not have."""
    found = efficiency.run_one(row["shares"], row["size"], row["separation"], 1)["slopes"]
    for name, (slope,) in found.items():
        tolerance = 1e-2 if name == "G" else 1e-4
        assert slope == pytest.approx(row["slopes"][name][0], rel=tolerance), name


@pytest.mark.parametrize("shift", ["label shift", "covariate shift", "classes"])
def test_slopes_without_effects_are_those_of_the_rows(shift):
    row = next(r for r in rows_of("slopes") if (r["shift"], r["times"]) == (shift, 1))
    found = slopes.run_one(shift, row["kind"], row["size"], 1, 2)["slopes"]
    np.testing.assert_allclose(found, row["slopes"][:2], rtol=0.02)


def test_evaluations_are_judged():
    found = evaluation_designs.measure("covariate shift, 40 bags", "1")
    assert found["verdicts"] == {"label_shift": "rejected", "covariate_shift": "not_rejected"}
    low, high = found["roc_auc"]["interval"]
    assert 0.5 < low < found["roc_auc"]["truth"] < high < 1


def test_another_concept_is_found(monkeypatch):
    monkeypatch.setattr(monitoring, "PER_TASK", 1)
    found = monitoring.run_some("covariate shift", 0, ("nothing", "other concept"))
    assert [row["verdicts"] for row in found] == [{"ok": 1}, {"degraded": 1}]


def test_intervals_of_groups_are_measured():
    found = group_intervals.measure("label shift", "posterior", 30, 1)
    assert set(found["held"]) == set(group_intervals.GROUPS)
    assert all(0 < width < 1 for width in found["width"].values())


def test_hidden_counts_are_measured():
    found = hidden_counts.measure("bands", "sets", 1)
    assert found["hidden"] == 1
    assert found["error"] < 0.1
    assert hidden_counts.measure("bands", "zeros", 1)["error"] is None


def test_time_and_memory_are_measured():
    found = scaling.measure(scaling.Case("mixed", 2000, 40))
    assert found["auc"] > 0.7
    assert found["fit"]["seconds"] > 0


def test_rows_of_positive_bags_are_found():
    row = next(r for r in rows_of("multiple_instance") if r["method"] == "unbag")
    found = multiple_instance.measure(row["data"], row["method"], row["draw"])
    assert found["rows"] == pytest.approx(row["rows"], abs=1e-6)
    assert found["bags"] == pytest.approx(row["bags"], abs=1e-6)
