"""The schema of a table: what it remembers, what it lets pass, and what it says."""

import datetime as dt
import decimal
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.tables.schema import Schema, SchemaReport, make_schema


def people():
    return pd.DataFrame(
        {
            "district": ["n", "s", "n"],
            "age": [31, 64, 20],
            "income": [1.5, np.nan, 2.5],
            "colour": ["red", "blue", None],
            "member": [True, False, True],
            "since": pd.to_datetime(["2020-01-01 01:00", "2021-01-01 00:00", "2022-01-01 10:00"]),
        }
    )


def test_what_is_remembered():
    schema = make_schema(people(), ["district"])
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "age": "number",
        "income": "number",
        "colour": "category",
        "member": "boolean",
        "since": "time",
    }
    assert schema.keys == ("district",)
    assert [c.name for c in schema.columns if c.missing] == ["income", "colour"]
    assert {c.name: c.values for c in schema.columns if c.values} == {"colour": ("blue", "red")}


def test_dictionaries_go_through_json():
    schema = make_schema(people(), ["district"])
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    odd = pd.DataFrame([["\x1b[31m", 1]], columns=["<script>", "\x1b"])
    assert Schema.from_dict(json.loads(json.dumps(make_schema(odd).to_dict()))) == make_schema(odd)


KINDS = {
    "int": ([1, 2], "number"),
    "uint8": (np.array([1, 2], dtype=np.uint8), "number"),
    "float32": (np.array([1, 2], dtype=np.float32), "number"),
    "Int64": (pd.array([1, None], "Int64"), "number"),
    "Float64": (pd.array([1, None], "Float64"), "number"),
    "decimal": ([decimal.Decimal("1.5"), None], "number"),
    "huge": ([2**70, 1], "number"),
    "lapse": (pd.to_timedelta([1, 2], unit="s"), "number"),
    "void": ([None, None], "number"),
    "bool": ([True, False], "boolean"),
    "boolean": (pd.array([True, None], "boolean"), "boolean"),
    "gappy": ([True, None], "boolean"),
    "date": ([dt.date(2020, 1, 1), None], "time"),
    "datetime": ([dt.datetime(2020, 1, 1), None], "time"),
    "zone": (pd.to_datetime(["2020-01-01", None]).tz_localize("Asia/Tokyo"), "time"),
    "period": (pd.PeriodIndex(["2020-01", "2020-02"], freq="M"), "time"),
    "text": (["a", None], "category"),
    "string": (pd.array(["a", None], "string"), "category"),
    "categorical": (pd.Categorical([1, 2]), "category"),
    "mixed": (pd.Series([1, "a"], dtype=object), "category"),
}


@pytest.mark.parametrize(("values", "kind"), KINDS.values(), ids=KINDS)
def test_kinds(values, kind):
    frame = pd.DataFrame({"x": values})
    schema = make_schema(frame)
    assert schema.columns[0].kind == kind
    same, report = schema.check(frame)
    assert report == SchemaReport()
    assert same["x"].isna().tolist() == frame["x"].isna().tolist()
    types = {"number": "float64", "boolean": "boolean", "time": "datetime64[us]"}
    assert str(same["x"].dtype) == types.get(kind, "object")
    # what has been checked passes again, unchanged; so does a row at a time
    pd.testing.assert_frame_equal(schema.check(same)[0], same)
    rows = [schema.check(frame.iloc[[i]])[0] for i in range(2)]
    pd.testing.assert_frame_equal(pd.concat(rows), same)


def test_order_extra_columns_and_keys():
    schema = make_schema(people(), ["district"])
    whole, report = schema.check(people())
    assert list(whole) == list(schema.names)
    assert report == SchemaReport()
    shuffled = people()[list(people())[::-1]].assign(more=1, other=2).drop(columns="district")
    shuffled.index = [7, 7, 9]
    before = shuffled.copy()
    found, report = schema.check(shuffled)
    assert report == SchemaReport()
    assert found.index.tolist() == [7, 7, 9]
    pd.testing.assert_frame_equal(found.reset_index(drop=True), whole)
    pd.testing.assert_frame_equal(shuffled, before)


def test_text_is_read_as_what_is_expected():
    schema = make_schema(people(), ["district"])
    text = people().astype(object).where(people().notna(), None).map(_as_text)
    pd.testing.assert_frame_equal(schema.check(text)[0], schema.check(people())[0])
    numbers = people().assign(member=[1, 0, 1])
    pd.testing.assert_frame_equal(schema.check(numbers)[0], schema.check(people())[0])


def _as_text(value):
    return None if value is None else str(value)


def test_zones_are_turned_to_utc():
    frame = pd.DataFrame({"t": pd.to_datetime(["2020-06-01 12:00"]).tz_localize("Europe/Berlin")})
    found, _ = make_schema(frame).check(frame)
    assert found["t"].tolist() == [pd.Timestamp("2020-06-01 10:00")]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("age", [1, "x", "y"], "'age' should hold numbers, but the row with index 1 holds 'x'"),
        ("age", [True, False, True], "'age' should hold numbers, .* index 0 holds True"),
        ("age", ["1", "\x1b[0m", "3"], r"index 1 holds '\\x1b\[0m'"),
        ("age", ["1", "2", "z" * 500], r"index 2 holds 'z{76}\.\.\.\."),
        ("since", [1, 2, 3], "'since' should hold dates or times, .* index 0 holds 1"),
        ("since", ["2020-01-01", "soon", ""], "'since' .* index 1 holds 'soon'"),
        ("member", ["true", "False", "maybe"], "'member' should hold true or false, .* 'maybe'"),
        ("member", [0, 1, 2], "'member' should hold true or false, .* index 2 holds 2"),
        ("colour", [["a"], [], None], r"'colour' cannot be a feature: .* index 0 holds \['a'\]"),
    ],
)
def test_other_kinds_are_named(column, values, message):
    schema = make_schema(people(), ["district"])
    with pytest.raises(ValueError, match=message) as caught:
        schema.check(people().assign(**{column: pd.Series(values, dtype=object)}))
    assert str(caught.value).isprintable()


def test_missing_columns_are_all_named():
    schema = make_schema(people(), ["district"])
    with pytest.raises(ValueError, match=r"^The table lacks the columns 'age', 'colour'\.$"):
        schema.check(people().drop(columns=["age", "colour"]))
    with pytest.raises(ValueError, match=r"^The table lacks the column 'age'\.$"):
        schema.check(people().drop(columns=["age", "district"]))
    wide = make_schema(pd.DataFrame([range(10_000)]).rename(columns="c{}".format))
    with pytest.raises(ValueError, match="'c19' and 9,980 more"):
        wide.check(people())


def test_unseen_categories_and_gaps_are_counted():
    schema = make_schema(people(), ["district"])
    later = pd.concat([people()] * 4, ignore_index=True)
    later["colour"] = [*"abcdefga", "red", "red", None, None]
    later["age"] = [None, *range(11)]
    _, report = schema.check(later)
    assert report.unseen == {"colour": 8}
    assert report.examples == {"colour": tuple("abcde")}
    assert report.missing == {"age": 1}
    assert (
        "'colour': 8 rows of categories that were not in the training data, such as 'a', 'b'"
        in " ".join(report.differences)
    )
    assert "'age': 1 missing value, where" in " ".join(report.differences)


def test_many_categories_are_not_remembered():
    frame = pd.DataFrame({"name": [f"person {i}" for i in range(1001)]})
    assert len(make_schema(frame[:1000]).columns[0].values) == 1000
    schema = make_schema(frame)
    assert schema.columns[0].values is None
    assert schema.check(pd.DataFrame({"name": ["somebody"]}))[1] == SchemaReport()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["red", "blue", "a", "b", "c", "d", "e", "f", None]), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_reports_of_chunks_add_up(colours, cuts):
    schema = make_schema(pd.DataFrame({"colour": ["red", "blue"]}))
    frame = pd.DataFrame({"colour": pd.Series(colours, dtype=object), "more": 1})
    edges = [0, *sorted(min(cut, len(frame)) for cut in cuts), len(frame)]
    parts = [schema.check(frame.iloc[i:j])[1] for i, j in pairwise(edges)]
    assert sum(parts, SchemaReport()) == schema.check(frame)[1]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"z": [1j]}), "'z' holds complex numbers"),
        (pd.DataFrame({"z": [b"ab"]}), "'z' cannot be a feature"),
    ],
)
def test_tables_that_give_no_schema(frame, message):
    with pytest.raises(ValueError, match=message):
        make_schema(frame)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "schema that can be read"),
        ({"keys": "district"}, "damaged"),
        ({"columns": None}, "damaged"),
        ({"columns": [{"name": "x"}]}, "damaged"),
        ({"columns": [{"name": "x", "kind": "y", "values": None, "missing": 0}]}, "kind 'y'"),
        ({"keys": ["age"]}, "more than one column 'age'"),
    ],
)
def test_damaged_dictionaries(change, message):
    content = make_schema(people(), ["district"]).to_dict() | change
    with pytest.raises(ValueError, match=message):
        Schema.from_dict(content)
    with pytest.raises(ValueError, match="schema that can be read"):
        Schema.from_dict([])
