"""Small tables have one thread, large ones all there are."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from unbag.models.threads import FEW_NUMBERS, few_blas_threads, few_threads


def blas_threads():
    np.eye(2) @ np.eye(2)
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.mark.parametrize("limit", [few_threads, few_blas_threads])
def test_how_many(limit):
    with threadpool_limits(2):
        with limit(100, 8):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with limit(FEW_NUMBERS, 8):
            assert blas_threads() == {2}
