"""The terms of a table: groups of columns of numbers, 0/1 columns, categories, and a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unbag.terms.columns import CategoryTerm, NumberTerm, SparseTerm, Term
from unbag.terms.encoding import TableEncoder, TrainingRows
from unbag.terms.kernel import KernelTerm


def make_terms(
    encoder: TableEncoder,
    rows: TrainingRows,
    groups: Any = None,
    n_landmarks: int = 0,
    random_state: Any = 0,
) -> list[Term]:
    """Return terms that are fitted to the rows, with a kernel unless ``n_landmarks`` is 0."""
    terms: list[Term]
    if rows.is_sparse:
        terms, n_landmarks = [SparseTerm("numbers", encoder.number_names)], 0
    else:
        names = encoder.number_names
        own, rest = read_groups(groups, names)
        binary = rows.moments(np.array(rest)).indicators.tolist() if rest else []
        own["numbers"] = [place for place, found in zip(rest, binary, strict=True) if not found]
        indicators = [place for place, found in zip(rest, binary, strict=True) if found]
        own["indicators"] = indicators
        terms = [
            NumberTerm(name, [names[i] for i in places], places, places is not indicators)
            for name, places in own.items()
            if places
        ]
    for place, column in enumerate(encoder.category_names):
        terms.append(CategoryTerm(column, place, encoder.levels[place]))
    for term in terms:
        term.fit(rows)
    if n_landmarks:
        numbers = [term for term in terms if isinstance(term, NumberTerm)]
        kernel = KernelTerm(numbers, encoder.category_names, n_landmarks, random_state)
        kernel.fit(rows)
        terms.append(kernel)
    return terms


def read_groups(groups: Any, names: list[str]) -> tuple[dict[str, list[int]], list[int]]:
    """Return the places of the columns of each group, and of those that are in none.

    >>> from unbag.terms.make import read_groups
    >>> read_groups({"site": ["x1", 2]}, ["x0", "x1", "x2"])
    ({'site': [1, 2]}, [0])
    """
    groups = (groups(names) if callable(groups) else groups) or {}
    if not isinstance(groups, Mapping):
        groups = {f"group {i}": columns for i, columns in enumerate(groups)}
    place = {name: i for i, name in enumerate(names)}
    found, used = {}, set()
    for name, columns in groups.items():
        own = []
        for column in columns:
            at = place.get(column) if isinstance(column, str) else int(column)
            if at is None or not 0 <= at < len(names) or at in used:
                raise ValueError(
                    f"groups names the column {column!r}, which is not a column of numbers or is "
                    "in a group already."
                )
            own.append(at)
            used.add(at)
        found[str(name)] = own
    return found, [i for i in range(len(names)) if i not in used]
