"""Threads for long sums over arrays (NumPy lets others work while it computes), and memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from threadpoolctl import threadpool_info


def allowed_threads() -> int:
    """Count the threads that libraries may use here: one inside ``threadpool_limits(1)``."""
    allowed = [library["num_threads"] for library in threadpool_info()]
    return min(allowed, default=os.cpu_count() or 1)


def physical_memory() -> int | None:
    """Bytes of memory, or None where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def for_each(work: Callable[[Any], None], units: Iterable[Any], threads: int) -> None:
    """Do the work of all units in some threads; the first error is raised here."""
    if threads == 1:
        for unit in units:
            work(unit)
        return
    # made again every time: threads do not outlive a fork
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, units):
            pass
