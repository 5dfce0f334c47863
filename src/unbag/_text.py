"""Words that several parts of the library use."""

from __future__ import annotations

from collections.abc import Iterable


def p_text(p: float) -> str:
    """Write a p-value."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def listing(names: Iterable[object], most: int = 5) -> str:
    """Name the first few, and say how many more there are.

    Examples
    --------
    >>> listing(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    words = [str(name) for name in names]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
