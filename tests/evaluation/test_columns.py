"""What becomes of columns of any kind before they are averaged over bags."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unbag.evaluation.label_shift import read_columns

TABLE = {
    "age": [30.0, None, 50.0, 40.0, 20.0, None, 60.0, 40.0, 40.0, 40.0],
    "race": ["b", "b", "w", "w", "b", "b", "w", None, "w", "w"],
    "id": [f"row {i}" for i in range(10)],
    "on": [True, False] * 5,
}


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda t: pl.DataFrame(t, strict=False)])
def test_gaps_are_filled_and_told_and_text_is_one_column_for_each_value(frame):
    found = read_columns(frame(TABLE))
    assert found.names.tolist() == ["age", "age is missing", "race_w", "on"]
    assert found.left_out == ("id",)
    ages = np.array([np.nan if a is None else a for a in TABLE["age"]])
    np.testing.assert_array_equal(found.column("age"), np.where(np.isnan(ages), 40, ages))
    np.testing.assert_array_equal(found.column("age is missing"), np.isnan(ages))
    np.testing.assert_array_equal(found.column("race_w"), np.array(TABLE["race"], object) == "w")
    np.testing.assert_array_equal(found.column("on"), TABLE["on"])


def test_times_are_numbers_and_arrays_of_objects_are_read_by_columns():
    day = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=3)})
    np.testing.assert_array_equal(np.diff(read_columns(day).column("day")), 86400)
    mixed = np.array([[1, "a"], [2, "a"], [4, "a"]], dtype=object)
    found = read_columns(mixed, ["n", "letter"])
    np.testing.assert_array_equal(found.column("n"), [1, 2, 4])
    np.testing.assert_array_equal(found.column("letter_a"), 1)


def test_many_values_stay_sparse():
    codes = np.repeat(np.arange(200), 5)
    found = read_columns(pd.DataFrame({"place": [f"site {c}" for c in codes]}))
    assert found.values.shape == (1000, 200)
    assert found.values.size == 1000
