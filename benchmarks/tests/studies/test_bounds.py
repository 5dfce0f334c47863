"""A quick form of the study of how often bounds hold; the whole of it is in results/bounds."""

import pytest

from unbag_bench.studies import bounds as study


@pytest.mark.parametrize("name", study.STUDIES)
def test_bounds_hold_as_often_as_they_say(name):
    row = study.run_one(name, draws=12, seed=1)
    assert row["held"] >= row["promised"]
    assert row["median bound"] > 0
