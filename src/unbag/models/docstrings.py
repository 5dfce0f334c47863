"""Docstrings that say an entry once.

A line ``kernel, gamma : as in KernelMCMClassifier`` stands for these entries of that class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

Class = TypeVar("Class", bound=type)

_ENTRY = re.compile(r"^(\w+) : .*(?:\n {4}.*)*", re.MULTILINE)
_ELSEWHERE = re.compile(r"^([\w, ]+) : as in (\w+)$", re.MULTILINE)


def as_in(*others: type) -> Callable[[Class], Class]:
    """Fill in the entries of a class's docstring that are those of other classes."""
    entries = {
        other.__name__: {entry[1]: entry[0] for entry in _ENTRY.finditer(_docstring(other))}
        for other in others
    }

    def fill_in(line: re.Match[str]) -> str:
        return "\n".join(entries[line[2]][name] for name in line[1].split(", "))

    def complete(cls: Class) -> Class:
        cls.__doc__ = _ELSEWHERE.sub(fill_in, _docstring(cls))
        return cls

    return complete


def add_sections(method: Callable[..., object], other: Callable[..., object]) -> None:
    """Give a method whose docstring is one line the parameters and returns of another."""
    doc = _docstring(method)
    if doc and "\n" not in doc:
        method.__doc__ = doc + "\n\n" + _docstring(other).partition("\n\n")[2]


def _docstring(item: object) -> str:
    return cleandoc(item.__doc__ or "")
