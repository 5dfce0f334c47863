"""How many threads inner learners run on.

Threads of OpenMP and BLAS wait for each other after every loop. Where loops are short, that takes
longer than they do, and on a machine where others work, many times longer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import threadpool_limits

# Numbers in a table below which one thread is enough.
FEW_NUMBERS = 1_000_000


def few_threads(X: Any) -> AbstractContextManager[Any]:
    """Limit what runs inside to one thread if a table is small; large ones have all there are."""
    small = X.shape[0] * X.shape[1] < FEW_NUMBERS
    return threadpool_limits(1 if small else None)
