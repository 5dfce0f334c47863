"""Summaries of instances, against the whole array."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from unbag.kernels.rows import ColumnMoments, RowsInMemory, SparseRows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3)) * [1, 10, 0.1] + [100, 0, -5]


@pytest.mark.parametrize("cuts", [[], [1], [0, 300, 300, 699]])
def test_moments_of_parts_are_those_of_the_whole(cuts):
    parts = [part for part in np.split(X, cuts) if len(part)]
    found = ColumnMoments.join([ColumnMoments.of(part) for part in parts])
    np.testing.assert_allclose(found.means, X.mean(axis=0))
    np.testing.assert_allclose(found.squares, X.var(axis=0) * len(X))
    assert found.of_entries() == pytest.approx(X.var())
    np.testing.assert_allclose(found.of_columns(), X.var(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_of_many_rows_vary_as_they_do(dtype):
    many = np.tile(X, (200, 1)).astype(dtype)
    np.testing.assert_allclose(RowsInMemory(many).column_variances(), X.var(axis=0), rtol=1e-4)


def test_zeros_that_are_not_written_down_vary_too():
    dense = np.where(RNG.random((50, 4)) < 0.7, 0.0, 3.0)
    rows = SparseRows(csr_array(dense))
    np.testing.assert_allclose(rows.column_variances(), dense.var(axis=0))
    assert rows.variance() == pytest.approx(dense.var())
