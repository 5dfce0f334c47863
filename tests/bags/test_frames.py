"""A join by hand (pandas' merge, then `bag_target`) is the oracle for `bags_from_frame`."""

import datetime as dt
import decimal
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag import bag_target, check_bag_target
from unbag.bags.bag_table import InconsistencyError
from unbag.bags.frames import bags_from_frame
from unbag.bags.joining import JoinError

MAY_1, MAY_2 = dt.date(2024, 5, 1), dt.date(2024, 5, 2)

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def columns_of(frame):
    """A frame of any kind as a dict of lists."""
    if isinstance(frame, pa.Table):
        return frame.to_pydict()
    if isinstance(frame, pl.DataFrame):
        return frame.to_dict(as_series=False)
    return frame.to_dict(orient="list")


def rows(key, **columns):
    """An row table with one feature."""
    return pd.DataFrame({"key": key, "x": np.arange(len(key)), **columns})


def bags(key=("a", "b"), **columns):
    columns = columns or {"share": [0.5, 1.0]}
    return pd.DataFrame({"key": list(key), **columns})


@pytest.fixture(name="tables")
def shuffled_tables():
    rng = np.random.default_rng(0)
    regions = np.array(["north", "south", "east", "west"])
    region, year = regions[rng.integers(0, 4, 300)], rng.integers(2020, 2023, 300)
    instances = {
        "x": rng.normal(size=300).tolist(),
        "region": region.tolist(),
        "year": year.tolist(),
        "z": rng.integers(0, 9, 300).tolist(),
    }
    pairs = [(r, y) for r in regions for y in range(2020, 2023)]
    order = rng.permutation(len(pairs))
    aggregates = {
        "year": [pairs[i][1] for i in order],
        "region": [str(pairs[i][0]) for i in order],
        "share": rng.random(len(pairs)).tolist(),
    }
    return instances, aggregates


@pytest.mark.parametrize("aggregate_kind", KINDS)
@pytest.mark.parametrize("instance_kind", KINDS)
def test_two_keys_equal_a_merge(tables, instance_kind, aggregate_kind):
    instances, aggregates = tables
    X, y = bags_from_frame(
        KINDS[instance_kind](instances),
        KINDS[aggregate_kind](aggregates),
        on=["region", "year"],
        proportion="share",
    )
    merged = pd.DataFrame(instances).merge(
        pd.DataFrame(aggregates), on=["region", "year"], how="left"
    )
    ids = [f"{r} | {y}" for r, y in zip(merged["region"], merged["year"], strict=True)]
    assert type(X) is type(KINDS[instance_kind](instances))
    assert columns_of(X) == {"x": instances["x"], "z": instances["z"]}
    expected = bag_target(ids, merged["share"])
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("aggregate_kind", KINDS)
@pytest.mark.parametrize("instance_kind", KINDS)
@pytest.mark.parametrize(
    ("key", "written"),
    [
        ([3, -1, 3, 900], [3, -1, 3, 900]),
        (["ö", "", "ö", "b c"], ["ö", "", "ö", "b c"]),
        ([0.5, 1.0, 0.5, 2.0], ["0.5", "1.0", "0.5", "2.0"]),
        ([True, False, True, True], ["True", "False", "True", "True"]),
        ([MAY_2, MAY_1, MAY_2, MAY_2], ["2024-05-02", "2024-05-01", "2024-05-02", "2024-05-02"]),
        (
            [dt.datetime(2024, 5, 2, 6), dt.datetime(2024, 5, 1), *[dt.datetime(2024, 5, 3)] * 2],
            ["2024-05-02 06:00:00", "2024-05-01 00:00:00", *["2024-05-03 00:00:00"] * 2],
        ),
    ],
    ids=["integers", "text", "floats", "booleans", "dates", "times"],
)
def test_single_keys_of_every_type(instance_kind, aggregate_kind, key, written):
    distinct = sorted(set(key), reverse=True)
    shares = {k: i / 7 for i, k in enumerate(distinct)}
    X, y = bags_from_frame(
        KINDS[instance_kind]({"key": key, "x": [10, 11, 12, 13]}),
        KINDS[aggregate_kind]({"share": list(shares.values()), "key": distinct}),
        on="key",
        proportion="share",
    )
    assert columns_of(X) == {"x": [10, 11, 12, 13]}
    assert y["bag"].tolist() == written
    assert y["proportion"].tolist() == [shares[k] for k in key]
    np.testing.assert_array_equal(y, bag_target(written, [shares[k] for k in key]))


@pytest.mark.parametrize(
    ("here", "there", "written"),
    [
        (pd.Series(["b", "a"]).astype("category"), pl.Series(["a", "b"]), ["b", "a"]),
        (pd.Series([4, 3]).astype("category"), pl.Series([3, 4]), [4, 3]),
        (pl.Series(["b", "a"], dtype=pl.Enum(["a", "b"])), pd.Series(["a", "b"]), ["b", "a"]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), pd.Series(["a", "b"]), ["b", "a"]),
        (pd.Series(["b", "a"], dtype=object), pd.Series(["a", "b"], dtype="str"), ["b", "a"]),
        (pd.Series([np.int64(4), 3], dtype=object), pd.Series([3, 4], dtype="Int64"), [4, 3]),
        (pl.Series([4, 3], dtype=pl.UInt8), pd.Series([3, 4], dtype="int32"), [4, 3]),
        (pl.Series([2**64 - 1, 3], dtype=pl.UInt64), pl.Series([3, 2**64 - 1], dtype=pl.UInt64),
         [2**64 - 1, 3]),
        (pd.Series(pd.to_datetime([MAY_2, MAY_1])), pl.Series([MAY_1, MAY_2]),
         ["2024-05-02", "2024-05-01"]),
        (pd.Series([MAY_2, MAY_1]), pl.Series([dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)]),
         ["2024-05-02", "2024-05-01"]),
        (pd.Series(pd.to_datetime([2, 1], unit="ns")), pd.Series(pd.to_datetime([1, 2], unit="ns")),
         ["1970-01-01 00:00:00.000000002", "1970-01-01 00:00:00.000000001"]),
        (pd.Series(pd.to_datetime([MAY_2, MAY_1]).tz_localize("UTC")),
         pl.Series([MAY_1, MAY_2]).cast(pl.Datetime("us", "UTC")),
         ["2024-05-02 00:00:00+00:00", "2024-05-01 00:00:00+00:00"]),
        (pd.Series(pd.PeriodIndex(["2024-02", "2024-01"], freq="M")),
         pd.Series(pd.PeriodIndex(["2024-01", "2024-02"], freq="M")), ["2024-02", "2024-01"]),
        (pl.Series([decimal.Decimal("1.5"), decimal.Decimal("0.5")]),
         pd.Series([decimal.Decimal("0.5"), decimal.Decimal("1.5")]), ["1.5", "0.5"]),
    ],
    ids=["category", "category of integers", "enum", "polars categorical", "object text",
         "object integers", "widths", "very large", "times at midnight", "dates as objects",
         "nanoseconds", "time zone", "period", "decimal"],
)  # fmt: skip
def test_key_types_that_differ_but_match(here, there, written):
    def frame(series, name, values):
        kind = pl.DataFrame if isinstance(series, pl.Series) else pd.DataFrame
        return kind({"key": series, name: values})

    _, y = bags_from_frame(
        frame(here, "x", [1, 2]), frame(there, "share", [0.1, 0.2]), on="key", proportion="share"
    )
    assert y["bag"].tolist() == written
    assert y["proportion"].tolist() == [0.2, 0.1]


def test_shares_per_class():
    table = bags(u=[0.2, 0.0], v=[0.3, 0.5], w=[0.5, 0.5])
    _, y = bags_from_frame(rows(list("abba")), table, on="key", proportion=["u", "v", "w"])
    expected = bag_target(list("abba"), {"a": [0.2, 0.3, 0.5], "b": [0, 0.5, 0.5]})
    np.testing.assert_array_equal(y, expected)


def test_positives_are_divided_by_the_rows():
    table = bags(yes=[2, 1], n=[3, 2])
    _, y = bags_from_frame(rows(list("abaab")), table, on="key", positives="yes", bag_size="n")
    np.testing.assert_array_equal(y, bag_target(list("abaab"), counts={"a": 2, "b": 1}))


def test_counts_per_class():
    table = bags(u=[1, 0], v=[1, 2], w=[1, 0])
    _, y = bags_from_frame(rows(list("abaab")), table, on="key", positives=["u", "v", "w"])
    expected = bag_target(list("abaab"), counts={"a": [1, 1, 1], "b": [0, 2, 0]})
    np.testing.assert_array_equal(y, expected)


@given(
    labels=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=40),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_counting_labels_gives_their_shares(labels, seed):
    table = pd.DataFrame(labels, columns=["key", "label"]).assign(x=0)
    counted = table.groupby("key")["label"].agg(["sum", "count"]).reset_index()
    counted = counted.sample(frac=1, random_state=seed)
    _, y = bags_from_frame(
        table.drop(columns="label"), counted, on="key", positives="sum", bag_size="count"
    )
    np.testing.assert_array_equal(y["bag"], table["key"])
    share = check_bag_target(y).class_shares[1]
    assert share == pytest.approx(table["label"].mean(), abs=1e-12)


def test_a_list_of_one_key_is_that_key():
    one = bags_from_frame(rows([1, 2]), bags([2, 1]), on=["key"], proportion="share")[1]
    np.testing.assert_array_equal(
        one, bags_from_frame(rows([1, 2]), bags([2, 1]), on="key", proportion="share")[1]
    )


def test_tables_are_left_as_they_were_and_the_index_is_kept():
    instances, aggregates = rows(list("abb")).set_index(pd.Index([7, 7, 3])), bags()
    before = instances.copy(), aggregates.copy()
    X, _ = bags_from_frame(instances, aggregates, on="key", proportion="share")
    pd.testing.assert_frame_equal(instances, before[0])
    pd.testing.assert_frame_equal(aggregates, before[1])
    pd.testing.assert_frame_equal(X, instances.drop(columns="key"))


@pytest.mark.parametrize("kind", KINDS)
def test_unmatched_bags_can_be_dropped(kind):
    # what is known about a bag without instances does not matter, not even that it is wrong
    table = {"key": ["b", "gone", "a"], "share": [1.0, 7.0, 0.5]}
    X, y = bags_from_frame(
        KINDS[kind]({"key": ["a", "new", "b", "a", "other"], "x": [0, 1, 2, 3, 4]}),
        KINDS[kind](table),
        on="key",
        proportion="share",
        unmatched="drop",
    )
    assert columns_of(X) == {"x": [0, 2, 3]}
    np.testing.assert_array_equal(y, bag_target(["a", "b", "a"], {"a": 0.5, "b": 1.0}))


def test_dropped_rows_keep_their_index():
    X, _ = bags_from_frame(
        rows(list("acb"), y=list("uvw")), bags(), on="key", proportion="share", unmatched="drop"
    )
    assert X.index.tolist() == [0, 2]
    assert X["y"].tolist() == ["u", "w"]


def test_nothing_to_drop_is_the_same_as_an_error_not_raised():
    given_ = rows(list("abba")), bags()
    strict = bags_from_frame(*given_, on="key", proportion="share")
    lenient = bags_from_frame(*given_, on="key", proportion="share", unmatched="drop")
    pd.testing.assert_frame_equal(strict[0], lenient[0])
    np.testing.assert_array_equal(strict[1], lenient[1])


def test_key_columns_may_have_any_name():
    names = ["row", "number", "key 0"]
    instances = pd.DataFrame({name: [1, 2] for name in names} | {"x": [5, 6]})
    table = pd.DataFrame({name: [2, 1] for name in names} | {"share": [0.2, 0.1]})
    _, y = bags_from_frame(instances, table, on=names, proportion="share")
    assert y["bag"].tolist() == ["1 | 1 | 1", "2 | 2 | 2"]
    assert y["proportion"].tolist() == [0.1, 0.2]


def test_features_may_be_named_by_numbers():
    instances = pd.DataFrame(np.ones((2, 3))).assign(key=["b", "a"])
    X, _ = bags_from_frame(instances, bags(), on="key", proportion="share")
    assert X.columns.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "share",
    [
        pd.Series([0.5, 1.0], dtype="Float64"),
        pd.Series([0.5, 1.0], dtype="float32"),
        pd.Series([0.5, 1], dtype=object),
        pd.Series([decimal.Decimal("0.5"), decimal.Decimal(1)]),
        pd.Series([0.5, 1.0], dtype=pd.ArrowDtype(pa.float64())),
    ],
    ids=str,
)
def test_numbers_of_every_type(share):
    _, y = bags_from_frame(rows(["a", "b"]), bags(share=share), on="key", proportion="share")
    assert y["proportion"].tolist() == [0.5, 1.0]


# --- tables as people have them ----------------------------------------------------------------


def test_percentages_are_shares():
    people = rows(list("aabb"))
    plain = bags_from_frame(people, bags(share=[0.245, 1]), on="key", proportion="share")[1]
    for shares, options in [
        (["24.5%", "100 %"], {}),
        (["24,5%", "100%"], {"percent": True}),  # a sign says it already
        ([24.5, 100], {"percent": True}),
    ]:
        found = bags_from_frame(people, bags(share=shares), on="key", proportion="share", **options)
        assert found[1].tolist() == plain.tolist()
    noisy = [bags(share=[24.5, 100], sd=[1, 2]), bags(share=[0.245, 1], sd=[0.01, 0.02])]
    options = {"on": "key", "proportion": "share"}
    for noise, same in [("sd", "sd"), (3, 0.03)]:
        first = bags_from_frame(people, noisy[0], noise=noise, percent=True, **options)[1]
        second = bags_from_frame(people, noisy[1], noise=same, **options)[1]
        assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("shares", "decimals"), [([[1, 1, 1], [2, 3, 1]], 3), ([[1, 1, 1], [1, 5, 1]], 4)]
)
def test_rounded_shares_are_scaled(shares, decimals):
    """What printing takes from shares that sum to 1 is given back, in proportion."""
    true = np.array(shares) / np.sum(shares, axis=1, keepdims=True)
    printed = pd.DataFrame(true.round(decimals), columns=list("uvw")).assign(key=["a", "b"])
    assert not np.allclose(printed[list("uvw")].sum(axis=1), 1, atol=1e-6, rtol=0)
    y = bags_from_frame(rows(list("ab")), printed, on="key", proportion=list("uvw"))[1]
    np.testing.assert_allclose(y["proportion"].sum(axis=1), 1)
    np.testing.assert_allclose(y["proportion"], true, atol=10**-decimals)


@pytest.mark.parametrize(
    ("here", "there", "ignore"),
    [
        (["D01", "d02"], ["d01", "D02"], "case"),
        ([" a b", "c"], ["a  b ", "c "], "whitespace"),
        (["007", "10"], ["7", "010"], "leading_zeros"),
        ([7, 10], ["007", "010"], "leading_zeros"),
        (["2024-05-01", "2024-05-17"], ["1.5.2024", "17.05.2024"], "date_format"),
        (["2024-05-01", "2024-05-17"], ["05/01/2024", "05/17/2024"], "date_format"),
        ([dt.date(2024, 5, 1), dt.date(2024, 5, 17)], ["20240501", "20240517"], "date_format"),
        (["2024-05-01 07:30:00", "2024-05-17T23:59"], ["2024-05-01", "2024-05-17"], "time"),
        (
            [dt.datetime(2024, 5, 1, 7), dt.datetime(2024, 5, 17)],
            ["2024-05-01", "2024-05-17"],
            "time",
        ),
        (["STRASSE 01 ", "b"], ["straße 01", "B "], ["whitespace", "case"]),
    ],
)
def test_differences_between_keys_can_be_ignored(here, there, ignore):
    X, y = bags_from_frame(
        rows([*here, here[0]]), bags(there), on="key", proportion="share", ignore=ignore
    )
    assert y["proportion"].tolist() == [0.5, 1, 0.5]
    assert y["bag"].tolist() == [str(there[i]) for i in (0, 1, 0)]  # as the bag table has them
    assert X.columns.tolist() == ["x"]


def test_several_keys_match_alike_in_all_kinds_of_frames():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "a": rng.choice(list("xyz"), 60),
            "b": rng.integers(3, size=60),
            "c": rng.choice([0.5, 2], 60),
        }
    )
    table = people.drop_duplicates().sample(frac=1, random_state=0).assign(share=0.5)
    people["x"] = np.arange(60.0)
    keys = ["a", "b", "c"]
    y = bags_from_frame(people, table, on=keys, proportion="share")[1]
    other = bags_from_frame(
        pl.from_pandas(people), pl.from_pandas(table), on=keys, proportion="share"
    )[1]
    np.testing.assert_array_equal(y, other)
    names = people[keys].astype(str).agg(" | ".join, axis=1)
    assert y["bag"].tolist() == names.tolist()


def test_dates_as_text_match_dates():
    days = ["2024-05-01", "2024-05-02"]
    for here, there in [(days, [MAY_1, MAY_2]), ([MAY_1, MAY_2], days)]:
        y = bags_from_frame(rows(here), bags(there), on="key", proportion="share")[1]
        assert y["bag"].tolist() == days


def test_counts_of_several_rows_are_added():
    people = rows(list("aaaabb"))
    finer = bags(list("aab"), yes=[1, 1, 1], no=[2, 0, 1], n=[3, 1, 2], sd=[3, 4, 1])
    whole = bags(list("ab"), yes=[2, 1], no=[2, 1], n=[4, 2], sd=[5, 1])
    for options in [
        {"positives": "yes"},
        {"positives": ["yes", "no"], "bag_size": "n"},
        {"positives": "yes", "noise": "sd"},
    ]:
        with pytest.warns(UserWarning, match="^1 bag has several rows in the bag table, which are"):
            _, y = bags_from_frame(people, finer, on="key", **options)
        expected = bags_from_frame(people, whole, on="key", **options)[1]
        for name in y.dtype.names:
            np.testing.assert_array_equal(y[name], expected[name])
    shares = finer.assign(share=finer["yes"] / finer["n"])
    with pytest.warns(UserWarning, match="several rows"):
        _, y = bags_from_frame(people, shares, on="key", proportion="share", bag_size="n")
    assert y["proportion"].tolist() == [0.5] * 6


def test_rows_may_be_a_sample_of_their_bag():
    people = rows(list("aabb"))
    results = bags(yes=[30, 1], n=[40, 2], share=[0.75, 0.5])
    for options in ({"positives": "yes"}, {"proportion": "share"}):
        with pytest.warns(UserWarning, match="^1 bag has fewer rows in the row table than"):
            _, y = bags_from_frame(people, results, on="key", bag_size="n", **options)
        assert y["proportion"].tolist() == [0.75, 0.75, 0.5, 0.5]
        assert y["size"].tolist() == [2] * 4
    too_many = bags(yes=[41, 1], n=[40, 2])
    with pytest.raises(InconsistencyError, match=r"than there .*'a' \(41, but 40 members\)"):
        bags_from_frame(people, too_many, on="key", positives="yes", bag_size="n")


def test_known_labels_leave_their_bags():
    people = rows(list("aaabbb")).assign(label=[1, None, None, None, 0, None])
    results = bags(yes=[2, 1])
    X, y = bags_from_frame(people, results, on="key", positives="yes", labels="label")
    codes = people["key"].tolist()
    expected = bag_target(codes, counts={"a": 2, "b": 1}, labels=people["label"])
    assert list(X) == ["x"]
    assert y.tolist() == expected.tolist()
    named = people.assign(label=["yes", None, "", None, "no ", None])
    both = bags(no=[1, 2], yes=[2, 1])
    _, y = bags_from_frame(named, both, on="key", positives=["no", "yes"], labels="label")
    assert y["proportion"][:, 1].tolist() == expected["proportion"].tolist()
    apart = pd.concat([people, rows(["c"]).assign(label=1)], ignore_index=True)
    how = {"on": "key", "positives": "yes", "labels": "label", "unmatched": "drop"}
    with pytest.warns(UserWarning, match="selects rows"):
        _, y = bags_from_frame(apart, results, **how)
    assert y.tolist() == expected.tolist()


MANY = list("cdefghij")
MANY_BAGS = bags(MANY, share=[0.5] * 8, n=[2] * 8, yes=[3] * 8, no=[3] * 8, bad=[1.5] * 8)

ERRORS = {
    "neither": (
        rows(list("ab")),
        bags(),
        {},
        "^Give either proportion or positives, and not both.$",
    ),
    "both": (
        rows(list("ab")),
        bags(),
        {"proportion": "share", "positives": "share"},
        "^Give either proportion or positives, and not both.$",
    ),
    "unknown option": (
        rows(list("ab")),
        bags(),
        {"proportion": "share", "unmatched": "ignore"},
        "^unmatched must be one of 'error', 'drop', not 'ignore'.$",
    ),
    "no instances": (
        rows(list("ab"))[:0],
        bags(),
        {"proportion": "share"},
        "^The row table has no rows.$",
    ),
    "no bags": (
        rows(list("ab")),
        bags()[:0],
        {"proportion": "share"},
        "^The bag table has no rows.$",
    ),
    "same name": (
        pd.DataFrame([["a", 1, 2]], columns=["key", "x", "x"]),
        bags(),
        {"proportion": "share"},
        "^Cannot read the row table: .*'x' 2 times.$",
    ),
    "no feature": (
        pd.DataFrame({"key": ["a"]}),
        bags(),
        {"proportion": "share"},
        "^The row table has no column except its key, so there is no X.$",
    ),
    "on is nothing": (
        rows(list("ab")),
        bags(),
        {"on": [], "proportion": "share"},
        r"^on must be a column name or a list of them, not \[\].$",
    ),
    "on is a number": (
        rows(list("ab")),
        bags(),
        {"on": 3, "proportion": "share"},
        "^on must be a column name or a list of them, not 3.$",
    ),
    "on repeated": (
        rows(list("ab")),
        bags(),
        {"on": ["key", "key"], "proportion": "share"},
        "^on names column 'key' twice.$",
    ),
    "list of one class": (
        rows(list("ab")),
        bags(),
        {"proportion": ["share"]},
        "^proportion must be one column name, or a list of one name per class.$",
    ),
    "list of one count": (
        rows(list("ab")),
        bags(),
        {"positives": ["share"]},
        "^positives must be one column name, or a list of one name per class.$",
    ),
    "unknown key": (
        rows(list("ab")),
        bags(),
        {"on": "keys", "proportion": "share"},
        r"^The row table has no column 'keys'; did you mean 'key'\?$",
    ),
    "key in one table": (
        rows(list("ab")),
        bags().rename(columns={"key": "Key"}),
        {"proportion": "share"},
        r"^The bag table has no column 'key'; did you mean 'Key'\?$",
    ),
    "unknown share": (
        rows(list("ab")),
        bags(share_a=[0, 1], share_b=[1, 0]),
        {"proportion": "share"},
        r"^The bag table has no column 'share'; did you mean 'share_b' or 'share_a'\?$",
    ),
    "unknown size": (
        rows(list("ab")),
        bags(),
        {"proportion": "share", "bag_size": "households"},
        "^The bag table has no column 'households'; it has 'key', 'share'.$",
    ),
    "missing key": (
        rows(["a", "b", None]),
        bags(),
        {"proportion": "share"},
        "^Row 3 of the row table has no value in the key column 'key'; fill it in, or leave "
        "the row out.$",
    ),
    "missing integer key": (
        rows([1, np.nan]),
        bags([1, 2]),
        {"proportion": "share"},
        "^Row 2 of the row table has no value in the key column 'key'; fill it in, or leave "
        "the row out.$",
    ),
    "NaN in polars": (
        pl.DataFrame({"key": [0.5, float("nan")], "x": [1, 2]}),
        bags([0.5, 1]),
        {"proportion": "share"},
        "^Row 2 of the row table has no value in the key column 'key'; fill it in, or leave "
        "the row out.$",
    ),
    "missing key of a bag": (
        rows(list("ab")),
        bags(["a", None]),
        {"proportion": "share"},
        "^Row 2 of the bag table has no value in the key column 'key'; fill it in, or leave "
        "the row out.$",
    ),
    "repeated bag": (
        rows(list("ab")),
        pd.concat([bags(), bags()]),
        {"proportion": "share", "unmatched": "drop"},
        "^Bag 'a' appears twice in the bag table, in rows 1 and 3.$",
    ),
    "two shares": (
        rows(list("aab")),
        bags(list("aab"), share=[0.5, 1, 0]),
        {"proportion": "share"},
        "^Bag 'a' appears twice in the bag table, in rows 1 and 2; with bag_size, or counts, they",
    ),
    "two counts with one noise": (
        rows(list("aab")),
        bags(list("aab"), yes=[0.5, 1, 0]),
        {"positives": "yes", "noise": 0.5},
        "^Bag 'a' appears twice in the bag table, in rows 1 and 2.$",
    ),
    "copied rows": (
        rows(list("aabb")),
        bags(list("aba"), yes=[1, 1, 1]),
        {"positives": "yes"},
        "^Bag 'a' appears twice in the bag table, in rows 1 and 3.$",
    ),
    "integers and floats": (
        rows([1, 2]),
        bags([1.0, 2.0]),
        {"proportion": "share"},
        r"^The key column 'key' holds integers \(Int64\) in the row table but floats "
        r"\(Float64\) in the bag table, so that no bag can match; convert one of them.$",
    ),
    "integers and text": (
        pl.DataFrame({"key": ["1", "2"], "x": [1, 2]}),
        bags([1, 2]),
        {"proportion": "share", "unmatched": "drop"},
        r"holds text \(String\) in the row table but integers \(Int64\) in the bag table, so "
        "that no bag can match; their digits would: pass ignore='leading_zeros'.$",
    ),
    "times and dates": (
        rows([dt.datetime(2024, 5, 1, 6), dt.datetime(2024, 5, 2)]),
        pl.DataFrame({"key": [MAY_1, MAY_2], "share": [0.5, 1]}),
        {"proportion": "share"},
        r"holds times \(Datetime.*\) in the row table but dates \(Date\) in the bag table",
    ),
    "time zones": (
        rows(pd.to_datetime([MAY_1, MAY_2]).tz_localize("UTC")),
        bags(pd.to_datetime([MAY_1, MAY_2])),
        {"proportion": "share"},
        r"holds times with a time zone \(Datetime.*\) in the row table but times \(",
    ),
    "mixed key": (
        rows(["a", 1]),
        bags(),
        {"proportion": "share"},
        "^The key column 'key' of the row table mixes integers and text; convert it to one",
    ),
    "lists as keys": (
        rows(list("ab")),
        bags([[1], [2]]),
        {"proportion": "share"},
        "^The key column 'key' of the bag table holds values of type list, which cannot name",
    ),
    "objects as keys": (
        pl.DataFrame({"key": pl.Series([object()], dtype=pl.Object), "x": [1]}),
        bags(),
        {"proportion": "share"},
        "^The key 'key' of the row table holds Object, which cannot name a bag.$",
    ),
    "ambiguous ids": (
        pd.DataFrame({"u": ["a | b", "a"], "v": ["c", "b | c"], "x": [1, 2]}),
        pd.DataFrame({"u": ["a | b", "a"], "v": ["c", "b | c"], "share": [0.1, 0.2]}),
        {"on": ["u", "v"], "proportion": "share"},
        r"^Two different keys would both be written as bag 'a \| b \| c'; rename one of them.$",
    ),
    "no common bag": (
        rows(list("xy")),
        bags(),
        {"proportion": "share", "unmatched": "drop"},
        "^No bag is in both tables: the first is 'x' in the row table and 'a' in the bag ",
    ),
    "unknown bags": (
        rows(list("abuvwxyz")),
        bags(),
        {"proportion": "share"},
        "^Bags 'u', 'v', 'w', 'x', 'y' and 1 more have instances but no row in the bag table; ",
    ),
    "empty bag": (
        rows(list("aa")),
        bags(),
        {"proportion": "share"},
        "^Bag 'b' has a row in the bag table but no instances; correct the key, or pass unmatched=",
    ),
    "both unmatched": (
        rows([1, 2]),
        bags([1, 3]),
        {"proportion": "share"},
        "^Bag 2 has instances but no row in the bag table, and bag 3 has a row in the bag table ",
    ),
    "wrong sizes": (
        rows(MANY),
        MANY_BAGS.assign(n=0),
        {"proportion": "share", "bag_size": "n"},
        r"^The size column 'n' contradicts the number of instance rows of bags 'c' \(0, but 1 "
        r"row\), .*'g' \(0, but 1 row\) and 3 more.$",
    ),
    "missing size": (
        rows(list("aab")),
        bags(share=[0.5, 1], n=[np.nan, 1]),
        {"proportion": "share", "bag_size": "n"},
        r"of bag 'a' \(missing, but 2 rows\).$",
    ),
    "too many positives": (
        rows(MANY * 2),
        MANY_BAGS,
        {"positives": "yes"},
        r"^Column 'yes' counts more positives than there are instance rows for bags 'c' \(3, but 2 "
        r"rows\), .* and 3 more.$",
    ),
    "counts that do not sum": (
        rows(MANY * 2),
        MANY_BAGS,
        {"positives": ["yes", "no"]},
        r"^The counts 'yes', 'no' do not sum to the number of instance rows for bags 'c' \(6, but",
    ),
    "negative count": (
        rows(list("ab")),
        bags(yes=[-1, 1]),
        {"positives": "yes"},
        r"^Column 'yes' of the bag table must hold counts; it does not for bag 'a' \(-1\).$",
    ),
    "missing count": (
        rows(list("ab")),
        pl.DataFrame({"key": ["a", "b"], "yes": [1, None]}),
        {"positives": "yes"},
        r"must hold counts; it does not for bag 'b' \(missing\); where counts are hidden, .*hidden='1-9'",
    ),
    "missing count as text": (
        rows(list("ab")),
        bags(yes=["1", "NA"]),
        {"positives": "yes"},
        r"row 2 holds 'NA'; where counts are hidden, .*hidden='1-9'",
    ),
    "hidden shares": (
        rows(list("ab")),
        bags(yes=[1, 1]),
        {"proportion": "yes", "hidden": "1-9"},
        "^hidden is about positives, not about proportion.$",
    ),
    "share of a set": (
        rows(list("ab")),
        bags(yes=["<10%", "50%"]),
        {"proportion": "yes"},
        "must hold numbers; row 1 holds '<10%'.$",
    ),
    "bins of rows in memory": (
        rows(list("ab")),
        bags(yes=[1, 1]),
        {"positives": "yes", "bins": 8},
        "^bins is for lazy frames",
    ),
    "share outside": (
        rows(MANY),
        MANY_BAGS,
        {"proportion": "bad"},
        r"^Column 'bad' of the bag table must hold proportions in \[0, 1\]; it does not for bags "
        r"'c' \(1.5\), .* and 3 more; if these are percentages, pass percent=True.$",
    ),
    "negative share": (
        rows(list("ab")),
        bags(share=[-0.1, 0.5]),
        {"proportion": "share"},
        r"it does not for bag 'a' \(-0.1\).$",
    ),
    "missing share": (
        rows(list("ab")),
        bags(share=[0.1, np.nan]),
        {"proportion": "share"},
        r"it does not for bag 'b' \(missing\).$",
    ),
    "no share at all": (
        rows(list("ab")),
        bags(share=[None, None]),
        {"proportion": "share"},
        r"it does not for bags 'a' \(missing\), 'b' \(missing\).$",
    ),
    "NA among objects": (
        rows(list("ab")),
        bags(share=np.array([0.5, pd.NA], dtype=object)),
        {"proportion": "share"},
        r"it does not for bag 'b' \(missing\).$",
    ),
    "shares that do not sum": (
        rows(list("ab")),
        bags(u=[0.5, 0.5], v=[0.5, 0.6]),
        {"proportion": ["u", "v"]},
        r"^The shares 'u', 'v' must sum to 1; they do not for bag 'b' \(1.1\).$",
    ),
    "two of three shares": (
        rows(list("ab")),
        bags(u=[0.52, 0.75], v=[0.25, 0.25]),
        {"proportion": ["u", "v"]},
        r"for bag 'a' \(0.77\); give a column for each class, if one is missing.$",
    ),
    "two of three counts": (
        rows(list("aaabbb")),
        bags(u=[1, 1], v=[1, 0]),
        {"positives": ["u", "v"]},
        r"^The counts 'u', 'v' do not sum to .* 'b' \(1, but 3 rows\); give a column for",
    ),
    "shares as counts": (
        rows(list("aabb")),
        bags(share=[0.5, 0.25]),
        {"positives": "share"},
        r"^Column 'share' of the bag table must hold counts; it does not for bags 'a' \(0.5\), 'b' "
        r"\(0.25\); if these are proportions, pass them as proportion.$",
    ),
    "half a person": (
        rows(list("aaaabb")),
        bags(yes=[2.5, 1]),
        {"positives": "yes"},
        r"must hold counts; it does not for bag 'a' \(2.5\); if noise was added, pass its standard",
    ),
    "percentages": (
        rows(list("ab")),
        bags(share=[24.5, 100]),
        {"proportion": "share"},
        r"it does not for bags 'a' \(24.5\), 'b' \(100\); if these are percentages, pass",
    ),
    "counts as shares": (
        rows(list("aaabb")),
        bags(yes=[3, 1]),
        {"proportion": "yes"},
        r"'a' \(3\); if these are percentages, pass percent=True; if these are counts, pass them "
        "as positives.$",
    ),
    "percentages as counts": (
        rows(list("ab")),
        bags(share=["24%", "100%"]),
        {"positives": "share"},
        "must hold numbers; row 1 holds '24%'; if these are proportions, pass them as proportion.$",
    ),
    "percent of counts": (
        rows(list("ab")),
        bags(yes=[1, 1]),
        {"positives": "yes", "percent": True},
        "^percent is about proportion, not about positives.$",
    ),
    "text as share": (
        rows(list("ab")),
        bags(share=["0.5", "n/a?"]),
        {"proportion": "share"},
        r"^Column 'share' of the bag table must hold numbers; row 2 holds 'n/a\?'.$",
    ),
    "swapped": (
        bags(),
        rows(list("aabb")),
        {"proportion": "share"},
        "^The two tables seem to be swapped: column 'share' is in the row table, which has "
        "one row for each bag; give the instances first.$",
    ),
    "case": (
        rows(["D01", "D01", "d02"]),
        bags(["d01", "d02"]),
        {"proportion": "share"},
        "^Bag 'D01' has instances .* no instances; 'D01' and 'd01' differ in case only: pass "
        "ignore='case'.$",
    ),
    "whitespace": (
        rows(["a ", "b"]),
        bags(),
        {"proportion": "share"},
        "'a ' and 'a' differ in whitespace only: pass ignore='whitespace'.$",
    ),
    "zeros": (
        rows(["01", "02"]),
        bags(["1", "2"]),
        {"proportion": "share"},
        "^No bag is in both tables: .*; '01' and '1' differ in leading zeros only: pass ignore=",
    ),
    "dates": (
        rows(["2024-05-01", "2024-05-17"]),
        bags(["01.05.2024", "17.05.2024"]),
        {"proportion": "share"},
        "'2024-05-01' and '01.05.2024' differ in how dates are written only: pass ignore='date_format'.$",
    ),
    "times of day": (
        rows(["2024-05-01 07:30:00", "2024-05-17 09:00:00"]),
        bags(["2024-05-01", "2024-05-17"]),
        {"proportion": "share"},
        "'2024-05-01 07:30:00' and '2024-05-01' differ in the time of day only: pass ignore='time'",
    ),
    "days of times": (
        rows([dt.datetime(2024, 5, 1, 7), dt.datetime(2024, 5, 17, 9)]),
        bags([dt.date(2024, 5, 1), dt.date(2024, 5, 17)]),
        {"proportion": "share"},
        "so that no bag can match; their days would: pass ignore='time'.$",
    ),
    "case and whitespace in two keys": (
        rows(["A ", "B"]).assign(day=["x", "y"]),
        bags().assign(day=["x", "y"]),
        {"on": ["key", "day"], "proportion": "share"},
        r"'A  \| x' and 'a \| x' differ in whitespace and case only: pass ignore=\('whitespace', 'case'\)",
    ),
    "unknown difference": (
        rows(list("ab")),
        bags(),
        {"proportion": "share", "ignore": "accents"},
        "^ignore must be of 'whitespace', 'case', 'leading_zeros', 'date_format', 'time', not "
        "'accents'.$",
    ),
    "unknown label": (
        rows(list("ab")).assign(label=[1, 2]),
        bags(),
        {"proportion": "share", "labels": "label"},
        r"^Column 'label' of the row table must hold labels \(0, 1\) or nothing; row 2 holds",
    ),
    "only labels": (
        rows(list("ab")),
        bags(),
        {"proportion": "share", "labels": "x"},
        "^The row table has no column except its key",
    ),
    "booleans as size": (
        rows(list("ab")),
        bags(share=[0.5, 1], n=[True, True]),
        {"proportion": "share", "bag_size": "n"},
        "^Column 'n' of the bag table holds Boolean, not numbers.$",
    ),
}


@pytest.mark.parametrize(
    ("instances", "aggregates", "options", "message"), ERRORS.values(), ids=ERRORS
)
def test_errors_are_one_sentence(instances, aggregates, options, message):
    with pytest.raises(ValueError, match=message) as raised:
        bags_from_frame(instances, aggregates, **{"on": "key"} | options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("instances", "aggregates", "message"),
    [
        ([["a", 1]], bags(), "^instances must be a data frame.*, not list.$"),
        (rows(list("ab")), np.ones((2, 2)), "^aggregates must be a data frame.*, not ndarray.$"),
        (rows(list("ab"))["x"], bags(), "^instances must be a data frame.*, not Series.$"),
        (rows(list("ab")), pl.LazyFrame({"key": ["a"]}), r"not LazyFrame \(collect it first\).$"),
    ],
)
def test_what_is_no_frame(instances, aggregates, message):
    with pytest.raises(TypeError, match=message):
        bags_from_frame(instances, aggregates, on="key", proportion="share")


# --- errors in other words ----------------------------------------------------------------------


def test_errors_are_worded_for_those_who_know_other_names():
    odd = "{instances} {0!r}"  # braces in names are names
    people = pd.DataFrame({odd: ["n", "s"], "age": [31, 64]})
    results = pd.DataFrame({odd: ["n", "n"], "yes": [1, 1]})
    with pytest.raises(JoinError) as caught:
        bags_from_frame(people, results, on=odd, positives="yes")
    assert str(caught.value) == "Bag 'n' appears twice in the bag table, in rows 1 and 2."
    said = caught.value.worded(bags="file r.csv")
    assert said == "Bag 'n' appears twice in the file r.csv, in rows 1 and 2."
    assert caught.value.fields == {"bag": "n", "first": 1, "row": 2}
    with pytest.raises(JoinError, match=r"has no column '\{instances\} \{0!r\}'"):
        bags_from_frame(people.rename(columns={odd: "x"}), results, on=odd, positives="yes")


def test_contradictions_survive_a_change_of_process():
    people = pd.DataFrame({"district": ["n", "s"], "age": [31, 64]})
    results = pd.DataFrame({"district": ["n", "w"], "yes": [1, 0]})
    with pytest.raises(InconsistencyError) as caught:
        bags_from_frame(people, results, on="district", positives="yes")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.inconsistencies == caught.value.inconsistencies
    assert "or use --unmatched drop to leave" in again.worded(drop="use --unmatched drop")


def test_columns_of_counts_are_the_names_of_the_classes():
    rows = pd.DataFrame({"ward": [1, 1, 2], "x": [0.0, 1.0, 2.0]})
    counts = pd.DataFrame({"ward": [1, 2], "Ann": [1, 0], "Bob": [0, 1], "Cy": [1, 0]})
    _, y = bags_from_frame(rows, counts, on="ward", positives=["Ann", "Bob", "Cy"])
    assert check_bag_target(y).class_names.tolist() == ["Ann", "Bob", "Cy"]


@pytest.mark.parametrize("missing", [None, np.nan, " ", "NA"])
def test_cells_that_name_sets_are_read_and_named(missing):
    rows = pd.DataFrame({"day": [1] * 12 + [2] * 3 + [3] * 5, "x": range(20)})
    days = pd.DataFrame({"day": [1, 2, 3], "late": ["<10", "2", missing]})
    with pytest.warns(UserWarning, match=r"2 of 3 counts in 'late' are sets.*'<10'.*missing"):
        _, y = bags_from_frame(rows, days, on="day", positives="late", hidden="1-9")
    assert y[["low", "high"]][[0, 12, 15]].tolist() == [(0, 9), (2, 2), (1, 5)]
    with pytest.raises(ValueError, match=r"'late'.*row 3 holds.*hidden='1-9'"):
        bags_from_frame(rows, days, on="day", positives="late")
    with pytest.raises(ValueError, match="'few'"):
        bags_from_frame(rows, days, on="day", positives="late", hidden="few")


def test_rows_may_have_multiplicities():
    rows = pd.DataFrame({"day": [1, 2, 2], "x": range(3), "n": [4, 1, 2]})
    days = pd.DataFrame({"day": [1, 2], "late": [3, 1]})
    X, y = bags_from_frame(rows, days, on="day", positives="late", multiplicity="n")
    assert list(X.columns) == ["x"]
    assert y[["size", "multiplicity"]].tolist() == [(4, 4), (3, 1), (3, 2)]
    with pytest.raises(ValueError, match="row 1 is 0"):
        bags_from_frame(rows.assign(n=0), days, on="day", positives="late", multiplicity="n")
