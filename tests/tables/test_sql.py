"""Models as SQL, run by DuckDB, SQLite and Spark, say what the models say."""

import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from unbag import LLPBoostingClassifier, LLPClassifier, LLPEnsembleClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.tables import make_classifier
from unbag.tables.features import make_features
from unbag.tables.schema import make_schema
from unbag.tables.sql_export import _Table, select_statement, to_sql
from unbag.tables.sql_expressions import DIALECTS, Scaled, Writer, _last_at_most

DATA = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)
ENGINES = ("duckdb", "sqlite")
ODD = 'O\'Brien "x" `y` \\ 100%'


def make_table():
    """Numbers with missing values and infinities, truth values, times, and odd text, some of it rare."""
    rng = np.random.default_rng(0)
    n = len(DATA.X)
    table = pd.DataFrame(DATA.X.copy(), columns=["age", 'price "in" `€`', "score"])
    table.loc[::7, "age"] = np.nan
    table.loc[3, "age"] = np.inf
    table["device"] = np.where(DATA.X[:, 0] > 0, "phone", ODD)
    table.loc[::11, "device"] = None
    table["town"] = rng.choice(["Łódź", "Paris"], n)
    table.loc[:3, "town"] = ["Rome", "Oslo", "Bern", "Bonn"]
    table["new"] = DATA.X[:, 1] > 0
    table["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="h")
    return table


TABLE = make_table()


def changed(table):
    """What training did not have: new levels, and missing values in columns that had none."""
    new = table.copy()
    new.loc[:9, "device"] = "fridge"
    new.loc[5:20, 'price "in" `€`'] = np.nan
    new.loc[21, "score"] = -np.inf
    new.loc[22, "score"] = 1e6
    new.loc[30:40, "town"] = None
    return new


def answer(engine, expressions, table):
    """What an engine says to the query, a column for each expression."""
    query = select_statement(expressions, engine, table="the table")
    if engine == "duckdb":
        connection = duckdb.connect()
        connection.register("the table", table)
        return connection.sql(query).df()[list(expressions)].to_numpy()
    with sqlite3.connect(":memory:") as connection:
        table.to_sql("the table", connection, index=False)
        return pd.read_sql_query(query, connection)[list(expressions)].to_numpy()


@pytest.fixture(scope="module")
def spark():
    """A session of Spark on this machine."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    session = builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["auto", "linear"])
def test_spark_scores_the_same(spark, name, tmp_path):
    model = make_classifier(name).set_params(model__n_landmarks=20).fit(TABLE, DATA.y)
    new = changed(TABLE)
    path = tmp_path / "visits.parquet"
    new.to_parquet(path, coerce_timestamps="us")
    frame = spark.read.parquet(f"{path}").select(*(f"`{n.replace('`', '``')}`" for n in new))
    frame.createOrReplaceTempView("visits")
    expressions = to_sql(model, "spark")
    rows = spark.sql(select_statement(expressions, "spark", table="visits")).collect()
    expected = model.predict_proba(new)[:, 1]
    np.testing.assert_allclose([row["probability"] for row in rows], expected, atol=1e-9)


def check_same(engine, model, table, schema=None, atol=1e-9):
    expressions = to_sql(model, engine, schema=schema)
    expected = model.predict_proba(table)
    expected = expected[:, 1:] if expected.shape[1] == 2 else expected
    np.testing.assert_allclose(answer(engine, expressions, table), expected, atol=atol)
    scores = answer(engine, to_sql(model, engine, schema=schema, output="score"), table)
    expected = model.decision_function(table).reshape(len(table), -1)
    np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["auto", "linear", "boosted", "ensemble"])
def test_pipelines_score_the_same(name, engine):
    model = make_classifier(name, cv=3)
    if name in ("boosted", "ensemble"):
        boosted = LLPBoostingClassifier(n_estimators=12, cv=3)
        several = [("mixed", LLPClassifier(n_landmarks=20)), ("boosted", boosted)]
        final = boosted if name == "boosted" else LLPEnsembleClassifier(several, cv=3)
        model.set_params(model=final)
    model.fit(TABLE, DATA.y)
    check_same(engine, model, changed(TABLE))


@pytest.mark.parametrize("engine", ENGINES)
def test_several_classes_score_the_same(engine):
    rng = np.random.default_rng(1)
    bag = np.repeat(np.arange(24), 15)
    shares = rng.dirichlet(np.ones(3), 24)
    y = bag_target(bag, shares[bag], class_names=["a", "b", "it's"])
    for name in ("auto", "linear"):
        model = make_classifier(name, class_prior="balanced").fit(TABLE, y)
        check_same(engine, model, changed(TABLE))
    expressions = to_sql(model, engine, class_names=["a", "b", "it's"])
    assert list(expressions) == ["probability_a", "probability_b", "probability_it's"]


@pytest.mark.parametrize("engine", ENGINES)
def test_models_without_a_pipeline(engine):
    table = TABLE.drop(columns=["when"])
    model = LLPClassifier(n_landmarks=30).fit(table, DATA.y)
    check_same(engine, model, changed(table), make_schema(table))
    numbers = pd.DataFrame(DATA.X, columns=["x0", "x1", "x2"])
    for final in (LLPClassifier(n_landmarks=10), LLPBoostingClassifier(n_estimators=9, cv=3)):
        model = final.fit(DATA.X, DATA.y)
        sql = to_sql(model, engine)
        expected = model.predict_proba(DATA.X)[:, 1:]
        np.testing.assert_allclose(answer(engine, sql, numbers), expected, atol=1e-9)
    gaps = numbers.mask(np.random.default_rng(0).random(numbers.shape) < 0.2)
    check_same(engine, LLPBoostingClassifier(n_estimators=9, cv=3).fit(gaps, DATA.y), gaps)


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_features(engine):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"town": rng.choice([f"t{i}" for i in range(40)], len(DATA.X))})
    features = make_features().fit(table)
    assert hasattr(features.transform(table), "tocsr")
    for final in ("auto", "boosted"):
        model = make_classifier(final, cv=3)
        if final == "boosted":
            model.set_params(model__n_estimators=5)
        model.fit(table, DATA.y)
        check_same(engine, model, table)


def test_thresholds_in_units_of_the_column_are_the_last_to_go_left():
    rng = np.random.default_rng(3)
    model = make_features("float32").fit(TABLE[["score"]])
    step = model.named_transformers_["numbers"]
    (feature,) = _Table(Writer("sqlite"), [model], None, None).numbers
    assert isinstance(feature, Scaled)
    for threshold in rng.normal(size=20):
        at = _last_at_most(feature.scale, threshold)
        pair = pd.DataFrame({"score": [at, np.nextafter(at, np.inf)]})
        first, second = step.transform(pair).ravel()
        assert first <= threshold < second


def test_linear_scores_need_no_functions():
    model = make_classifier("linear").fit(TABLE.drop(columns="when"), DATA.y)
    (sql,) = to_sql(model, "sqlite", output="score").values()
    assert not {"EXP(", "POWER(", "SIN(", "FLOOR("} & set(sql.replace("(", "( ").split())
    assert "EXP(" in to_sql(model, "sqlite")["probability"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_writes_every_model(dialect):
    model = make_classifier("auto").fit(TABLE, DATA.y)
    sql = select_statement(to_sql(model, dialect), dialect, table="a.b")
    quote = DIALECTS[dialect].quote
    assert sql.endswith(f"FROM {quote}a{quote}.{quote}b{quote}")
    name, escape = 'price "in" `€`', "\\" if dialect == "bigquery" else quote
    assert name.replace(quote, escape + quote) in sql


def test_no_name_and_no_text_ends_its_quotes():
    r"""In BigQuery a backslash escapes the quote behind it, which doubled ones would not undo."""
    names = {
        "duckdb": '"a\\""; x"',
        "snowflake": '"a\\""; x"',
        "postgresql": '"a\\""; x"',
        "bigquery": '`a\\\\"; x`',
    }
    for dialect, expected in names.items():
        assert Writer(dialect).name('a\\"; x') == expected
    assert Writer("bigquery").name("a\\`; x\n") == "`a\\\\\\`; x\\n`"
    assert Writer("spark").name("a\\`; x") == "`a\\``; x`"
    for dialect, expected in {"duckdb": "'\\''; x'", "bigquery": "'\\\\\\'; x'"}.items():
        assert Writer(dialect).string("\\'; x") == expected


def test_mistakes_get_one_sentence():
    model = LLPClassifier(kernel=None).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match=r"duckdb.*not 'mysql'"):
        to_sql(model, "mysql")
    with pytest.raises(ValueError, match=r"probability.*score.*'class'"):
        to_sql(model, "duckdb", output="class")
    other = LogisticRegression().fit(DATA.X, DATA.labels)
    with pytest.raises(ValueError, match="LogisticRegression cannot be written as SQL"):
        to_sql(other, "duckdb")
    text = pd.DataFrame({"note": [f"the {w} word of {i} words" for i, w in enumerate(DATA.labels)]})
    with pytest.raises(ValueError, match="Free text, here 'note'"):
        to_sql(make_classifier("linear").fit(text, DATA.y), "duckdb")
    odd = pd.DataFrame({"a": np.where(DATA.X[:, 0] > 0, "x\0z", "y")})
    with pytest.raises(ValueError, match="NUL"):
        to_sql(make_classifier("linear").fit(odd, DATA.y), "duckdb")
