"""Memory that is free, given back to the machine."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give back what the C library keeps of memory that was freed, where it can be asked to.

    Arrays of some megabytes are made and freed by the thousand, and pages between those that stay
    are kept for the next: in a fit to millions of rows that is a third of all memory.
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
