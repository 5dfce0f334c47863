"""Docstrings that say an entry once.

A line ``kernel, gamma : as in LLPKernelClassifier`` stands for these entries of its docstring.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

Item = TypeVar("Item", bound=Callable[..., object])

_ENTRY = re.compile(r"^(\w+) : .*(?:\n {4}.*)*", re.MULTILINE)
_ELSEWHERE = re.compile(r"^([\w, ]+) : as in (\w+)$", re.MULTILINE)


def as_in(*others: Callable[..., object]) -> Callable[[Item], Item]:
    """Fill in the entries of a docstring that are those of other classes or functions."""
    entries = {
        other.__name__: {entry[1]: entry[0] for entry in _ENTRY.finditer(_docstring(other))}
        for other in others
    }

    def fill_in(line: re.Match[str]) -> str:
        return "\n".join(entries[line[2]][name] for name in line[1].split(", "))

    def complete(item: Item) -> Item:
        item.__doc__ = _ELSEWHERE.sub(fill_in, _docstring(item))
        return item

    return complete


def add_sections(method: Callable[..., object], other: Callable[..., object]) -> None:
    """Give a method whose docstring is one line the parameters and returns of another."""
    doc = _docstring(method)
    if doc and "\n" not in doc:
        method.__doc__ = doc + "\n\n" + _docstring(other).partition("\n\n")[2]


def _docstring(item: object) -> str:
    return cleandoc(item.__doc__ or "")
