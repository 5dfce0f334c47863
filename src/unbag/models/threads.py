"""How many threads learners run on.

Threads of OpenMP and BLAS wait for each other after every loop. Where loops are short, that takes
longer than they do, and on a machine where others work, many times longer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_limits

# Numbers in a table below which one thread is enough.
FEW_NUMBERS = 1_000_000


def few_threads(n_rows: int, n_columns: int) -> AbstractContextManager[Any]:
    """Limit what runs inside to one thread if a table is small; large ones have all there are."""
    return threadpool_limits(_limit(n_rows, n_columns))


def few_blas_threads(n_rows: int, n_columns: int) -> AbstractContextManager[Any]:
    """The same for NumPy's own products, which are there from the start: looked up once."""
    return _blas().limit(limits=_limit(n_rows, n_columns))


def _limit(n_rows: int, n_columns: int) -> int | None:
    return 1 if n_rows * n_columns < FEW_NUMBERS else None


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
