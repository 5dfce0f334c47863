"""A quick form of the study of how often bounds hold; the whole of it is in results/bounds."""

import pytest

from unbag.paper.rows import load_rows
from unbag_bench.studies import bounds as study


@pytest.mark.parametrize("name", study.STUDIES)
def test_bounds_hold_as_often_as_they_say(name):
    row = study.run_one(name, draws=12, seed=1)
    assert row["held"] >= row["stated"]
    assert row["median bound"] > 0


def test_bounds_hold_in_at_least_their_share_of_a_thousand_draws():
    rows = load_rows(study.STUDY.folder / "rows.jsonl")
    assert len(rows) >= 25
    assert [row["bound"] for row in rows] == list(study.STUDIES)
    for row in rows:
        assert row["draws"] >= 1000
        assert row["held"] >= row["stated"], row["bound"]
