"""Tables in engines, fetched as counts of their different rows, make the models of their rows."""

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from unbag import LLPClassifier, bags_from_frame
from unbag.bags.cells import collect_cells

N = 4000


def make_people():
    """People of thirty districts, some of whose columns have missing values, and the votes of these."""
    rng = np.random.default_rng(0)
    district = rng.integers(0, 30, N)
    town = rng.normal(size=30)[district]
    people = pd.DataFrame(
        {
            "district": [f"d{i:02}" for i in district],
            "age": rng.integers(18, 24, N) + (town > 0),
            "sex": rng.choice(["f", "m", None], N),
            "owner": rng.random(N) < 0.3 + 0.1 * (town > 0),
            "rooms": np.where(rng.random(N) < 0.1, np.nan, rng.integers(1, 4, N).astype(float)),
            "income": rng.lognormal(3 + 0.3 * town, 1),
        }
    )
    eta = (
        0.4 * (people["age"] - 21) - 0.8 * (people["sex"] == "f") + 0.3 * people["rooms"].fillna(2)
    )
    yes = rng.random(N) < 1 / (1 + np.exp(0.6 - eta))
    votes = yes.groupby(people["district"]).sum().rename("yes").reset_index()
    return people, votes


PEOPLE, VOTES = make_people()
FEW = PEOPLE.drop(columns="income")
HOW = {"on": "district", "positives": "yes"}


@pytest.fixture(scope="module")
def spark():
    """A session of Spark on this machine."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
    session = builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(params=["duckdb", "polars", "spark"])
def lazy(request, tmp_path):
    """Make a lazy frame of an engine."""
    session = request.getfixturevalue("spark") if request.param == "spark" else None

    def make(frame):
        if request.param == "polars":
            return pl.from_pandas(frame).lazy()
        path = tmp_path / "rows.parquet"
        frame.to_parquet(path, index=False)
        if session is not None:
            return session.read.parquet(str(path))
        return duckdb.connect().sql(f"SELECT * FROM '{path}'")

    return make


def fitted(X, y, kernel=None):
    return LLPClassifier(kernel=kernel, n_landmarks=30).fit(X, y)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_models_of_cells_are_those_of_rows(lazy):
    X, y = bags_from_frame(lazy(FEW), VOTES, **HOW)
    assert len(X) < 0.7 * N
    assert y["multiplicity"].sum() == N
    rows = fitted(*bags_from_frame(FEW, VOTES, **HOW))
    cells = fitted(X, y)
    assert cells.coef_names_ == rows.coef_names_
    np.testing.assert_allclose(cells.coef_, rows.coef_, atol=1e-5)
    np.testing.assert_allclose(cells.intercept_, rows.intercept_, atol=1e-5)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_engines_draw_the_same_whole_bags(lazy, monkeypatch):
    monkeypatch.setattr("unbag.bags.cells._PILOT", 500)
    frame = nw.from_native(lazy(PEOPLE)).lazy()
    cells = collect_cells(frame, ["district"], max_cells=1000)
    other = collect_cells(nw.from_native(PEOPLE[::-1]).lazy(), ["district"], max_cells=1000)
    sizes = PEOPLE["district"].value_counts()
    kept = cells.frame["district"].unique().to_list()
    assert 2 <= len(kept) < 30
    assert cells.frame["n"].sum() == sizes[kept].sum()
    assert cells.notes == other.notes
    assert cells.frame["n"].to_list() == other.frame["n"].to_list()
    assert f"{len(kept)} of 30 bags" in cells.notes[0]
    assert f"{np.sqrt(30 / len(kept)):.1f} times" in cells.notes[0]
    with pytest.warns(UserWarning, match=r"bins|drawn") as caught:
        X, _ = bags_from_frame(lazy(PEOPLE), VOTES, **HOW, max_cells=1000)
    assert [str(one.message) for one in caught] == cells.notes
    assert len(X) == len(cells.frame)


def test_bins_have_the_means_of_their_rows():
    cells = collect_cells(nw.from_native(PEOPLE).lazy(), ["district"], bins=16)
    frame = cells.frame.to_native()
    assert "income" in cells.notes[0]
    assert "age" not in cells.notes[0]
    total = (frame["n"] * frame["income"]).groupby(frame["district"]).sum()
    own = PEOPLE.groupby("district")["income"].sum()
    np.testing.assert_allclose(total, own)
    # sorted values of a cell do not overlap with those of another
    exact = collect_cells(nw.from_native(PEOPLE).lazy(), ["district", "income"])
    assert len(exact.frame) == len(PEOPLE.drop_duplicates())
    means = frame.groupby([*FEW, "district"][1:], dropna=False)["income"].nunique()
    assert means.max() <= 16
    assert len(frame) < N


def test_finer_bins_approach_the_model_of_the_rows():
    errors = []
    rows = fitted(*bags_from_frame(PEOPLE, VOTES, **HOW))
    for bins in (8, 64):
        lazy = pl.from_pandas(PEOPLE).lazy()
        with pytest.warns(UserWarning, match="Numbers in up to"):
            X, y = bags_from_frame(lazy, VOTES, **HOW, bins=bins)
        errors.append(np.abs(fitted(X, y).coef_ - rows.coef_).max())
    assert errors[1] < 1e-2
    assert errors[1] < errors[0]


def test_several_keys_and_labels():
    people = FEW.assign(half=FEW["owner"], label=np.where(np.arange(N) < 50, 1.0, np.nan))
    votes = people.groupby(["district", "half"]).size().rename("size").reset_index()
    votes["yes"] = votes["size"]
    how = {"on": ["district", "half"], "positives": "yes", "labels": "label"}
    y = bags_from_frame(pl.from_pandas(people).lazy(), votes, **how)[1]
    other = bags_from_frame(people, votes, **how)[1]
    assert y["multiplicity"].sum() == len(other) == N


def test_columns_of_multiplicities():
    grouped = FEW.groupby(list(FEW), dropna=False).size().rename("times").reset_index()
    X, y = bags_from_frame(grouped, VOTES, **HOW, multiplicity="times")
    assert "times" not in X
    rows = fitted(*bags_from_frame(FEW, VOTES, **HOW), kernel="rbf")
    order = FEW.drop(columns="district").columns
    cells = fitted(X[order], y, kernel="rbf")
    assert cells.log_marginal_likelihood_ == pytest.approx(rows.log_marginal_likelihood_, abs=2.0)
    with pytest.raises(ValueError, match="multiplicity of row 1 is 0"):
        bags_from_frame(grouped.assign(times=0), VOTES, **HOW, multiplicity="times")
    with pytest.raises(ValueError, match="no column 'often'"):
        bags_from_frame(grouped, VOTES, **HOW, multiplicity="often")


def test_mistakes_get_one_sentence(monkeypatch):
    lazy = pl.from_pandas(FEW).lazy()
    with pytest.raises(ValueError, match="bins must be at least 2, not 1"):
        bags_from_frame(lazy, VOTES, **HOW, bins=1)
    with pytest.raises(ValueError, match="max_cells must be at least 1, not 0"):
        bags_from_frame(lazy, VOTES, **HOW, max_cells=0)
    with pytest.raises(ValueError, match="no column 'town'"):
        bags_from_frame(lazy, VOTES, on="town", positives="yes")
    with pytest.raises(ValueError, match="those of lazy frames are counted"):
        bags_from_frame(lazy, VOTES, **HOW, multiplicity="age")
    with pytest.raises(ValueError, match="row table has no rows"):
        bags_from_frame(lazy.head(0), VOTES, **HOW)

    def lacks(*_):
        raise NotImplementedError("'std' is not implemented for: 'PolarsExpr'.")

    monkeypatch.setattr("unbag.bags.cells._place_bins", lacks)
    with pytest.raises(ValueError, match=r"polars lacks .*std.*give its column as multiplicity"):
        bags_from_frame(lazy, VOTES, **HOW)
