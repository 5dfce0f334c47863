"""Memory that is free, given back to the machine."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give back what Arrow and the C library keep of memory that was freed, if they can be asked.

    Of a table of millions of rows, Arrow keeps what its key took. Arrays of some megabytes are made
    and freed by the thousand, and pages between those that stay are kept for the next: in a fit to
    millions of rows that is a third of all memory.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
