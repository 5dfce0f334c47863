"""Tables as the mixed model takes them: numbers, and categories as they are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unbag.tables.features import DatetimeFeatures, TfidfText
from unbag.tables.mixed_features import MixedFeatures, text_groups

N = 120
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "town": RNG.choice(["Oslo", "Rome", "Bonn"], N),
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "new": RNG.random(N) < 0.5,
        "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), unit="h"),
        "note": [" ".join(RNG.choice([f"word{i}" for i in range(80)], 6)) for _ in range(N)],
    }
)
TABLE.loc[:3, "town"] = ["Riga", "Kyiv", None, "Bern"]
TABLE.loc[5, "age"] = np.inf


def test_numbers_and_times_are_floats():
    found = MixedFeatures().fit_transform(TABLE)
    expected = np.where(np.isfinite(TABLE["age"]), TABLE["age"], np.nan)
    np.testing.assert_array_equal(found["age"], expected)
    np.testing.assert_array_equal(found["new"], TABLE["new"].astype(float))
    assert found["at"].iloc[0] == TABLE["at"].iloc[0].timestamp()
    periods = DatetimeFeatures().fit(TABLE[["at"]])
    names = periods.get_feature_names_out()
    np.testing.assert_array_equal(found[names], periods.transform(TABLE[["at"]]))


def test_rare_and_new_levels_are_one_level():
    features = MixedFeatures().fit(TABLE)
    assert features.levels_ == [["Bonn", "Oslo", "Rome"]]
    found = features.transform(TABLE)["town"]
    assert found[:4].tolist() == ["(rare)"] * 4
    assert (found[4:] == TABLE["town"][4:]).all()


def test_text_becomes_at_most_fifty_columns_of_a_group():
    features = MixedFeatures().fit(TABLE)
    found = features.transform(TABLE)
    names = [name for name in found if name.startswith("note")]
    assert len(names) == 50
    assert text_groups(list(found)) == {"note (text)": [list(found).index(name) for name in names]}
    # scores of components keep the inner products that fifty dimensions can keep best
    words = TfidfText().fit(TABLE[["note"]]).transform(TABLE[["note"]])
    values = np.linalg.svd(words.toarray(), compute_uv=False)
    kept = np.linalg.svd(found[names].to_numpy(), compute_uv=False)
    np.testing.assert_allclose(kept[:5], values[:5], rtol=0.02)


def test_text_without_frequent_words_gives_no_column():
    alone = pd.DataFrame({"note": [f"a{i} b{i} c{i}" for i in range(20)], "x": range(20)})
    assert list(MixedFeatures().fit_transform(alone)) == ["x"]


@pytest.mark.parametrize("rows", [slice(0, 1), slice(7, 50)])
def test_rows_do_not_depend_on_those_that_come_with_them(rows):
    features = MixedFeatures().fit(TABLE)
    part = features.transform(TABLE[rows])
    whole = features.transform(TABLE)[rows].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, whole, check_exact=True)


def test_polars_tables_give_the_same():
    found = MixedFeatures().fit_transform(pl.from_pandas(TABLE))
    pd.testing.assert_frame_equal(found, MixedFeatures().fit_transform(TABLE))


def test_columns_may_be_more_and_in_another_order_but_not_fewer():
    features = MixedFeatures().fit(TABLE)
    more = TABLE[TABLE.columns[::-1]].assign(other=1)
    pd.testing.assert_frame_equal(features.transform(more), features.transform(TABLE))
    with pytest.raises(ValueError, match="age"):
        features.transform(TABLE.drop(columns="age"))
