"""What columns hold beyond their type: times written as text, codes, ids, strays among numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unbag.tables import open_table
from unbag.tables.column_types import convert, find_stray, is_id, parse_texts
from unbag.tables.features import DatetimeFeatures, make_features

DAY = pd.Timedelta(days=1)


@pytest.mark.parametrize(
    "text",
    [
        ["2024-05-01", None, "2024-05-02"],
        ["2024-05-01 06:30", "2024-05-02 23:59:59.25", None],
        ["2024-05-01T06:30:00Z", "2024-05-02T06:30:00+02:00", None],
    ],
)
def test_iso_times_are_recognised(text):
    found = parse_texts(pd.DataFrame({"at": text, "word": ["a", "b", "c"], "n": [1, 2, 3]}))
    assert list(found) == ["at"]
    expected = [None if t is None else pd.Timestamp(t) for t in text]
    expected = [t if t is None or t.tz is None else t.tz_convert(None) for t in expected]
    assert found["at"].dropna().tolist() == [t for t in expected if t is not None]
    assert parse_texts(pd.DataFrame({"at": text}), ["at"]) == {}  # the user knows better


@pytest.mark.parametrize(
    "text", [["2024-05-01", "soon"], ["2024-05-01", "2024-13-01"], ["20240501"], [None], ["1-2-3"]]
)
def test_other_text_is_no_time(text):
    assert parse_texts(pd.DataFrame({"at": pd.Series(text, dtype=object)})) == {}


def test_percentages_are_numbers():
    text = ["24%", " 7,5 %", None, "-.5%"]
    found = parse_texts(pd.DataFrame({"load": text, "word": ["a%", "5%", "6%", "7%"]}))
    assert list(found) == ["load"]
    np.testing.assert_array_equal(found["load"], [24, 7.5, np.nan, -0.5])
    # those of a table to predict, whose model knows what the column holds
    np.testing.assert_array_equal(convert(pd.Series(text, dtype=object), "number"), found["load"])
    values = pd.Series([f"{n}%" for n in range(20)] + ["?"])
    assert find_stray(values) == (20, "?", 20)


def test_places_in_day_week_and_year():
    """Where a time is in a round is where a clock or a calendar says it is."""
    times = pd.date_range("2021-01-01", "2024-12-31", freq="7h")
    parts = DatetimeFeatures()
    found = parts.fit_transform(pd.DataFrame({"at": times}))
    X = pd.DataFrame(found, columns=parts.get_feature_names_out())
    hour = times.hour / 24
    np.testing.assert_allclose(X["at_hour_sin"], np.sin(2 * np.pi * hour), atol=1e-9)
    week = ((times.day_of_week + 4) % 7 + hour) / 7  # 1970 began on a Thursday
    np.testing.assert_allclose(X["at_weekday_cos"], np.cos(2 * np.pi * week), atol=1e-6)
    year = ((times.day_of_year - 1) + hour) / 365.25
    turned = np.arctan2(X["at_season_sin"], X["at_season_cos"]) / (2 * np.pi)
    apart = (turned - year + 0.5) % 1 - 0.5
    assert np.abs(apart).max() < 2 / 365
    assert X.shape[1] == 6


@pytest.mark.parametrize(
    ("days", "every", "rounds"),
    [
        (1, "1h", []),
        (5, "1h", ["hour"]),
        (5, "24h", []),  # always at the same hour
        (30, "24h", ["weekday"]),
        (30, "168h", []),  # and on the same day
        (800, "10h", ["hour", "weekday", "season"]),
    ],
)
def test_only_periods_that_recur_become_features(days, every, rounds):
    times = pd.date_range("2024-05-01 06:00", pd.Timestamp("2024-05-01") + days * DAY, freq=every)
    frame = pd.DataFrame({"at": times, "never": pd.Series([pd.NaT] * len(times))})
    assert DatetimeFeatures().fit(frame).periods_ == [rounds, []]


def test_times_among_features():
    times = pd.Series(pd.date_range("2024-05-01", periods=200, freq="5h"))
    frame = pd.DataFrame({"at": times.where(times.index % 9 != 0), "n": range(200)})
    features = make_features()
    X = pd.DataFrame(features.fit_transform(frame), columns=features.get_feature_names_out())
    reported = ["at_hour_sin", "at_hour_cos", "at_weekday_sin", "at_weekday_cos"]
    assert list(X) == ["at", "n", "missing_at", *reported]
    assert np.isfinite(X.to_numpy()).all()
    polars = DatetimeFeatures().fit_transform(pl.from_pandas(frame[["at"]]))
    np.testing.assert_allclose(polars, X[reported])
    bare = make_features().fit_transform(frame.assign(at=pd.Timestamp("2024-05-01")))
    assert bare.shape == (200, 2)


# --- codes, ids and strays ----------------------------------------------------------------------


def test_codes_with_leading_zeros_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,n,share,mixed\n01069,10,0.5,01\n80331,0,07.5,x\n,5,00,02\n")
    found = open_table(path).read()
    assert found["zip"].tolist()[:2] == ["01069", "80331"]
    assert found["zip"].isna().tolist() == [False, False, True]
    assert found["n"].tolist() == [10, 0, 5]
    assert found["share"].tolist() == [0.5, 7.5, 0]
    assert found["mixed"].tolist() == ["01", "x", "02"]
    assert pd.concat(open_table(path).chunks(1))["zip"].tolist()[:2] == ["01069", "80331"]
    as_number = open_table(path).read(types={"zip": "number"})["zip"]
    assert as_number.tolist()[:2] == [1069, 80331]


N = 60


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(7, 7 + N), True),
        ([f"visit {i}" for i in range(N)], True),
        (np.arange(N)[::-1], True),
        (np.delete(np.arange(N + 20), np.arange(3, 23)), True),  # rows were left out
        (np.arange(N) * 2, False),  # may be a quantity
        (np.arange(N) * 1.5, False),
        ([f"visit {i}" for i in range(N - 1)] + ["visit 0"], False),
        ([f"visit {i}" for i in range(N - 1)] + [None], False),
        (np.arange(20), False),  # few rows
    ],
)
def test_ids_are_recognised(values, expected):
    assert is_id(pd.Series(values)) == expected


NUMBERS = [str(i) for i in range(40)]


@pytest.mark.parametrize(
    ("values", "stray"),
    [
        ([*NUMBERS, "n/a?"], (40, "n/a?", 40)),
        (["?", "-", *NUMBERS, None], (0, "?", 40)),
        ([*NUMBERS, *"abcd"], None),  # four words are a vocabulary
        ([*"123456789", "x"], None),  # nine numbers may be codes
        ([f"0{n}" for n in NUMBERS] + ["x"], None),  # so are those with zeros before them
        ([*NUMBERS, *["x"] * 50], None),  # a category of its own
        (NUMBERS, None),
        ([*range(40)], None),
    ],
)
def test_strays_among_numbers(values, stray):
    assert find_stray(pd.Series(values, dtype=object)) == stray


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".jsonl"])
def test_texts_for_missing_values(suffix, tmp_path):
    frame = pd.DataFrame({"n": [1.5, "?", 2], "w": ["a", "?", "b"]})
    path = tmp_path / f"t{suffix}"
    write = {".csv": frame.to_csv, ".xlsx": frame.to_excel}.get(suffix)
    if write:
        write(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    table = open_table(path, na_values=["?"])
    found = table.read()
    assert found["n"].dtype == float
    assert found.isna().to_numpy().tolist() == [[False] * 2, [True] * 2, [False] * 2]
    chunks = pd.concat(table.chunks(1))
    assert chunks["n"].dtype == float
    assert chunks["w"].dropna().tolist() == ["a", "b"]


@pytest.mark.parametrize("dtype", ["str", "string", "object", "category"])
def test_text_is_the_same_in_every_type_that_pandas_keeps_it_in(dtype):
    values = pd.Series(["0042", None, "Käse"], index=[3, 1, 2], dtype=dtype, name="code")
    found = convert(values, "category")
    assert found.dtype == object
    assert found.to_dict() == {3: "0042", 1: None, 2: "Käse"}
