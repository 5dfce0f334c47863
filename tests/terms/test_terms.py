import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from unbag.terms.columns import CategoryTerm, NumberTerm, SparseTerm
from unbag.terms.encoding import Moments, TableEncoder
from unbag.terms.kernel import KernelTerm
from unbag.terms.make import make_terms


def encode(table, other=None):
    encoder = TableEncoder().fit(table)
    return encoder, encoder.encode(table if other is None else other)


FRAME = pd.DataFrame(
    {
        "age": [31.0, None, 65.0, 40.0],
        "member": [True, False, True, True],
        "day": pd.to_datetime(["2024-05-01", "2024-05-02", None, "2024-05-04"]),
        "city": ["Rome", None, "Oslo", "Rome"],
        "plan": pd.Categorical([2, 1, 2, 1]),
    }
)


@pytest.mark.parametrize("frame", [FRAME, pl.from_pandas(FRAME.assign(plan=[2, 1, 2, 1]))])
def test_frames_of_any_library(frame):
    encoder, rows = encode(frame)
    assert encoder.number_names[:3] == ["age", "member", "day"]
    np.testing.assert_array_equal(rows.numbers[:, 0], [31, np.nan, 65, 40])
    np.testing.assert_array_equal(rows.numbers[:, 1], [1, 0, 1, 1])
    assert np.isnan(rows.numbers[2, 2])
    assert rows.numbers[1, 2] - rows.numbers[0, 2] == 86400
    assert encoder.levels[0] == ["(missing)", "Oslo", "Rome"]
    assert rows.codes[:, 0].tolist() == [2, 0, 1, 2]


def test_levels_that_training_did_not_have_count_for_nothing():
    encoder, rows = encode(FRAME[["city"]], pd.DataFrame({"city": ["Rome", "Bonn"]}))
    term = CategoryTerm("city", 0, encoder.levels[0])
    np.testing.assert_array_equal(term.matrix(rows).toarray(), [[0, 0, 1], [0, 0, 0]])


def test_numbers_are_standardised_and_missing_values_marked():
    _, rows = encode(FRAME[["age"]])
    term = NumberTerm("numbers", ["age"], [0])
    term.fit(rows)
    assert term.names == ["age", "missing_age"]
    values = term.matrix(rows)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(values[:, 0].std(), 1)
    np.testing.assert_allclose(values[:, 1], [-0.25, 0.75, -0.25, -0.25])
    mean = (31 + 65 + 40) / 3
    filled = np.array([31, mean, 65, 40])
    np.testing.assert_allclose(values[:, 0], (filled - filled.mean()) / filled.std())
    coef, offset = term.in_units(np.array([[2.0, -1.0]]))
    table = np.column_stack([filled, [0, 1, 0, 0]])
    np.testing.assert_allclose(table @ coef[0] + offset[0], values @ [2.0, -1.0])


def test_numbers_that_are_not_scaled_are_only_centred():
    X = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 0.0]])
    _, rows = encode(X)
    term = NumberTerm("indicators", ["x0", "x1"], [0, 1], scaled=False)
    term.fit(rows)
    filled = np.array([[0.0, 1.0, 0.0], [1.0, 0.5, 1.0], [0.0, 0.0, 0.0]])
    centred = filled - filled.mean(axis=0)
    np.testing.assert_allclose(term.matrix(rows), centred)
    coef, offset = term.in_units(np.array([[2.0, -1.0, 3.0]]))
    np.testing.assert_allclose(filled @ coef[0] + offset[0], centred @ [2.0, -1.0, 3.0])


def test_a_kernel_takes_one_hot_columns_for_the_category_itself():
    rng = np.random.default_rng(0)
    numbers, level = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    as_category = pd.DataFrame(numbers, columns=["a", "b"]).assign(c=[f"l{i}" for i in level])
    one_hot = np.column_stack([numbers, np.eye(3)[level]])
    products = []
    for X in (as_category, one_hot):
        encoder, rows = encode(X)
        *_, kernel = make_terms(encoder, rows, n_landmarks=60)
        features = kernel.matrix(rows)
        products.append(features @ features.T)
    np.testing.assert_allclose(*products, atol=1e-8)


def test_indicators_are_columns_of_0_and_1_in_all_parts():
    X = np.array([[0, 0, 1, 0, 0.5, 0], [1, 1, 1, 0, 0.5, np.nan], [0, 2, 1, 0, 1, 1.0]])
    _, rows = encode(X)
    parts = [rows[:2].moments(np.arange(6)), rows[2:].moments(np.arange(6))]
    for moments in (rows.moments(np.arange(6)), Moments.join(parts)):
        assert moments.indicators.tolist() == [True, False, False, False, False, True]


def test_a_sparse_matrix_keeps_the_scales_of_its_columns():
    X = csr_array(np.array([[3.0, 0.0], [0.0, 4.0]]))
    _, rows = encode(X)
    term = SparseTerm("numbers", ["x0", "x1"])
    term.fit(rows)
    scaled = term.matrix(rows).toarray()
    np.testing.assert_allclose(scaled, X.toarray() / np.sqrt(12.5))
    np.testing.assert_allclose((scaled**2).sum(axis=1).mean(), 1)


def make_kernel(frame, n_landmarks=30):
    encoder, rows = encode(frame)
    numbers = NumberTerm("numbers", encoder.number_names, list(range(len(encoder.number_names))))
    numbers.fit(rows)
    term = KernelTerm([numbers], encoder.category_names, n_landmarks, 0)
    term.fit(rows)
    return term, rows, numbers


def test_the_kernel_is_centred_and_its_functions_have_the_standard_deviation_sigma():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "c": rng.choice(list("xyz"), size=200)})
    term, rows, _ = make_kernel(frame)
    values = term.matrix(rows)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-10)
    assert values.var(axis=0).sum() == pytest.approx(1, abs=2e-4)
    covariance = np.cov(values.T, bias=True)
    np.testing.assert_allclose(covariance, np.diag(np.diagonal(covariance)), atol=1e-10)


def test_the_kernel_is_the_gaussian_one_with_all_rows_as_landmarks():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=25), "c": rng.choice(list("xy"), size=25)})
    term, rows, numbers = make_kernel(frame, n_landmarks=25)
    points = np.column_stack([numbers.matrix(rows), pd.get_dummies(frame["c"]).astype(float)])
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    K = np.exp(-squared / squared.mean())
    centre = np.eye(25) - 1 / 25
    K = centre @ K @ centre
    found = term.matrix(rows) @ term.matrix(rows).T
    np.testing.assert_allclose(found, 25 * K / np.trace(K), atol=5e-3)


def test_moments_and_encoders_of_parts_are_those_of_the_whole():
    table = FRAME[["age", "member", "city"]]
    whole, rows = encode(table)
    parts = [table.iloc[:1], table.iloc[1:2], table.iloc[2:]]
    joined = TableEncoder.join([TableEncoder().fit(part) for part in parts])
    assert joined.levels == whole.levels
    found = Moments.join([joined.encode(part).moments(np.arange(2)) for part in parts])
    for one, other in zip(found, rows.moments(np.arange(2)), strict=True):
        np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(found.counts, [3, 4])
    np.testing.assert_allclose(found.means[0], (31 + 65 + 40) / 3)


def test_a_column_that_holds_numbers_in_one_part_only_is_refused():
    parts = [pd.DataFrame({"a": pd.Series(own, dtype=object)}) for own in ([1, 2], ["x", "y"])]
    with pytest.raises(ValueError, match="Column 'a' holds numbers in one part"):
        TableEncoder.join([TableEncoder().fit(part) for part in parts])
