"""Small tables have one thread, large ones all there are."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from unbag._arrays import FEW_NUMBERS
from unbag.paper.threads import few_blas_threads


def blas_threads():
    np.eye(2) @ np.eye(2)
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_how_many():
    with threadpool_limits(2):
        with few_blas_threads(100, 8):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with few_blas_threads(FEW_NUMBERS, 8):
            assert blas_threads() == {2}
