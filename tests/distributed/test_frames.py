"""Directories of Parquet files, out of core, without a cluster."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import unbag
from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedClassifier, bags_from_frame

DATA = make_gaussian_bags(n_bags=12, bag_size=20, n_features=2, random_state=0)


@pytest.fixture(scope="module")
def tables():
    people = pd.DataFrame(DATA.X, columns=["age", "income"])
    people["region"] = np.where(DATA.y["bag"] < 6, "north", "south")
    people["year"] = 2020 + DATA.y["bag"] % 6
    results = people.assign(share=DATA.y["proportion"], yes=DATA.labels)
    results = results.groupby(["region", "year"], as_index=False).agg(
        share=("share", "first"), yes=("yes", "sum"), n=("yes", "size")
    )
    return people.sample(frac=1, random_state=0, ignore_index=True), results


@pytest.fixture(scope="module")
def parquet(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    for number, part in enumerate(np.array_split(np.arange(240), 4)):
        tables[0].iloc[part].to_parquet(folder / f"part-{number}.parquet")
    return folder


KEY = ["region", "year"]


def test_what_is_added_up_or_sampled_is_said(tables, parquet):
    people, results = tables
    more = results.assign(yes=2 * results["yes"], n=2 * results["n"])
    with pytest.warns(UserWarning, match="12 bags have fewer rows in the row table"):
        _, y = bags_from_frame(
            dd.read_parquet(parquet), more, on=KEY, positives="yes", bag_size="n"
        )
    with pytest.warns(UserWarning, match="12 bags have fewer rows in the row table"):
        _, expected = unbag.bags_from_frame(people, more, on=KEY, positives="yes", bag_size="n")
    assert sorted(y.compute().tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize(
    "known", [{"proportion": "share"}, {"positives": "yes", "bag_size": "n"}, {"positives": "yes"}]
)
def test_the_same_as_tables_in_memory(tables, parquet, known):
    X, y = bags_from_frame(dd.read_parquet(parquet), tables[1], on=KEY, **known)
    X_local, y_local = unbag.bags_from_frame(*tables, on=KEY, **known)
    pd.testing.assert_frame_equal(X.compute().reset_index(drop=True), X_local, check_dtype=False)
    np.testing.assert_array_equal(y.compute(), y_local)


def test_percentages_and_keys_that_differ_in_case(tables):
    people, results = tables
    results = results.assign(region=results["region"].str.upper(), share=100 * results["share"])
    # one bag is written in two ways
    people = people.assign(
        region=people["region"].where(people.index % 3 > 0, people["region"].str.title())
    )
    known = {"on": KEY, "proportion": "share", "percent": True, "ignore": "case"}
    _, y = bags_from_frame(dd.from_pandas(people, npartitions=3), results, **known)
    _, y_local = unbag.bags_from_frame(people, results, **known)
    np.testing.assert_array_equal(y.compute(), y_local)


def test_labels_are_for_tables_in_memory(tables, parquet):
    with pytest.raises(ValueError, match=r"^labels='yes' cannot be used with Dask, .*in memory"):
        bags_from_frame(
            dd.read_parquet(parquet), tables[1], on=KEY, proportion="share", labels="yes"
        )


def test_fit_and_evaluate_out_of_core(tables, parquet):
    X, y = bags_from_frame(dd.read_parquet(parquet), tables[1], on=KEY, proportion="share")
    estimator = LLPClassifier(kernel=None)
    model = DistributedClassifier(estimator, persist=False).fit(X, y)
    local = estimator.fit(*unbag.bags_from_frame(*tables, on=KEY, proportion="share"))
    np.testing.assert_allclose(model.to_local().coef_, local.coef_, atol=1e-6)
    found = unbag.evaluation.evaluate(*dask.compute(y, model.decision_function(X)))
    X_local, y_local = unbag.bags_from_frame(*tables, on=KEY, proportion="share")
    expected = unbag.evaluation.evaluate(y_local, local.decision_function(X_local))
    assert found["roc_auc"].value == pytest.approx(expected["roc_auc"].value, abs=1e-9)


def test_bags_of_one_table_only(tables, parquet):
    frame = dd.read_parquet(parquet)
    with pytest.raises(ValueError, match="pass unmatched='drop'"):
        bags_from_frame(frame, tables[1].iloc[2:], on=KEY, proportion="share")
    X, y = bags_from_frame(frame, tables[1].iloc[2:], on=KEY, proportion="share", unmatched="drop")
    local = unbag.bags_from_frame(
        tables[0], tables[1].iloc[2:], on=KEY, proportion="share", unmatched="drop"
    )
    estimator = LLPClassifier(kernel=None)
    model = DistributedClassifier(estimator).fit(X, y).to_local()
    np.testing.assert_allclose(model.coef_, estimator.fit(*local).coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "county"}, "has no column 'county'"),
        ({"proportion": "shares"}, "did you mean 'share'"),
        ({"positives": "yes"}, "either proportion or positives"),
        ({"proportion": None, "positives": "yes", "bag_size": "share"}, "bag"),
        ({"unmatched": "keep"}, "unmatched must be"),
    ],
)
def test_mistakes(tables, parquet, change, message):
    options = {"on": KEY, "proportion": "share", **change}
    with pytest.raises(ValueError, match=message):
        bags_from_frame(dd.read_parquet(parquet), tables[1], **options)


def test_a_table_in_memory_is_no_dask_frame(tables):
    with pytest.raises(TypeError, match="takes tables in memory"):
        bags_from_frame(*tables, on=KEY, proportion="share")
