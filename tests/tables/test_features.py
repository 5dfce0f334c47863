"""Features from tables of mixed columns."""

import decimal
import pickle

import numpy as np
import pandas as pd
import pytest

from unbag.tables.features import make_features


def every_kind(n=40):
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=n)
    gaps = np.arange(n) % 5 == 0
    times = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n), unit="s")
    return pd.DataFrame(
        {
            "float": np.where(gaps, np.inf, numbers),
            "int": rng.integers(0, 9, n),
            "bool": numbers > 0,
            "Int64": pd.array(np.where(gaps, None, 3), "Int64"),
            "boolean": pd.array(np.where(gaps, None, numbers > 0), "boolean"),
            "gappy": np.where(gaps, None, numbers > 0),
            "decimal": [decimal.Decimal(i) / 4 for i in range(n)],
            "time": times,
            "zone": times.tz_localize("Europe/Berlin"),
            "date": [t.date() for t in times],
            "lapse": times - times[0],
            "void": np.nan,
            "None": pd.Series([None] * n, dtype=object),
            "object": np.where(gaps, None, np.where(numbers > 0, "u", "v")),
            "string": pd.array(np.where(gaps, None, "w"), "string"),
            "category": pd.Categorical(np.where(numbers > 0, 1, 2)),
            "names": [f"person {i}" for i in range(n)],
        }
    )


def test_features_of_every_kind():
    frame = every_kind()
    features = make_features()
    X = features.fit_transform(frame)
    names = features.get_feature_names_out().tolist()
    assert X.shape == (40, len(names))
    assert X.dtype == float
    assert np.isfinite(X).all()
    found = dict(zip(names, X.T, strict=True))

    def standard(values):
        values = np.asarray(values, dtype=float)
        return (values - values.mean()) / values.std()

    finite = frame["float"].replace(np.inf, np.nan)
    np.testing.assert_allclose(found["float"], standard(finite.fillna(finite.median())))
    np.testing.assert_allclose(found["missing_float"], standard(finite.isna()))
    np.testing.assert_allclose(found["bool"], standard(frame["bool"]))
    np.testing.assert_allclose(found["gappy"], found["boolean"])
    np.testing.assert_allclose(found["decimal"], standard(range(40)))
    seconds = [t.timestamp() for t in frame["time"]]
    np.testing.assert_allclose(found["time"], standard(seconds), atol=1e-6)
    np.testing.assert_allclose(found["zone"], found["time"], atol=1e-6)
    np.testing.assert_allclose(found["lapse"], found["time"], atol=1e-6)
    assert not found["void"].any()
    assert not found["None"].any()
    np.testing.assert_array_equal(found["object_(missing)"], frame["object"].isna())
    np.testing.assert_array_equal(found["string_w"], frame["string"].notna())
    np.testing.assert_array_equal(found["category_1"], frame["category"] == 1)
    np.testing.assert_array_equal(found["names_infrequent_sklearn"], np.ones(40))


def test_features_of_single_rows_equal_those_of_the_table():
    frame = every_kind()
    features = pickle.loads(pickle.dumps(make_features().fit(frame)))
    rows = [features.transform(frame.iloc[[i]]) for i in range(0, len(frame), 4)]
    np.testing.assert_array_equal(np.concatenate(rows), features.transform(frame)[::4])
    through_objects = features.transform(frame.astype(object))
    np.testing.assert_array_equal(through_objects, features.transform(frame))


def test_features_of_unseen_values():
    features = make_features().fit(every_kind())
    odd = every_kind(6).assign(int=[np.nan, np.inf, -np.inf, 1, 2, 3], object="never seen")
    X = pd.DataFrame(features.transform(odd), columns=features.get_feature_names_out())
    assert np.isfinite(X.to_numpy()).all()
    assert not X.filter(like="object_").to_numpy().any()
    assert X["int"][:3].nunique() == 1
    with pytest.raises(ValueError, match=r"'int' should hold numbers, .* index 0 holds 'x'"):
        features.transform(every_kind(2).assign(int="x"))


def test_float32_is_float64_rounded():
    frame = every_kind()
    X = make_features("float32").fit_transform(frame)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, make_features().fit_transform(frame).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_features_pass_through_skops(dtype):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    frame = every_kind()
    features = make_features(dtype).fit(frame)
    content = skops.dumps(features)
    unknown = skops.get_untrusted_types(data=content)
    assert all(name.startswith("unbag.tables.") for name in unknown), unknown
    again = skops.loads(content, trusted=unknown)
    np.testing.assert_array_equal(again.transform(frame), features.transform(frame))
