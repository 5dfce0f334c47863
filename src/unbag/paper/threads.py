"""How many threads products of matrices run on.

Threads of OpenMP and BLAS wait for each other after every loop. Where loops are short, that takes
longer than they do, and on a machine where others work, many times longer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from unbag._arrays import FEW_NUMBERS


def few_blas_threads(n_rows: int, n_columns: int) -> AbstractContextManager[Any]:
    """Limit NumPy's products inside to one thread if a table is small."""
    return _blas().limit(limits=1 if n_rows * n_columns < FEW_NUMBERS else None)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
