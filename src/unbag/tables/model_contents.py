"""What a model may hold that comes from a file: parts that only compute, with settings that only compute.

Types alone are not enough. A `CountVectorizer` is a harmless type, but with ``input="filename"`` it
opens the file that each row names; a `Pipeline` with a ``memory`` writes to it. So each part that
was built is looked at before anybody gets it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any
from zipfile import ZipFile

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

# Modules of scikit-learn whose estimators read nothing but what they are given, and look up nothing
# in native code by numbers from the file.
_HARMLESS = (
    "sklearn._loss.",
    "sklearn.compose.",
    "sklearn.decomposition._pca",
    "sklearn.decomposition._truncated_svd",
    "sklearn.ensemble.",  # the trees themselves are of types that are not trusted
    "sklearn.feature_extraction.text",
    "sklearn.feature_selection.",
    "sklearn.impute._base",
    "sklearn.kernel_approximation",
    "sklearn.linear_model.",
    "sklearn.metrics._scorer",
    "sklearn.model_selection.",
    "sklearn.naive_bayes",
    "sklearn.pipeline",
    "sklearn.preprocessing.",
    "sklearn.random_projection",
    "sklearn.tree.",
    "sklearn.utils.",
)

_WORDS = r"(?u)\b\w\w+\b"  # scikit-learn's default; other patterns can take for ever on a text
# settings by name, in any part, and what each may be
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "input": ("content",),
    "memory": (None,),
    "analyzer": ("word", "char", "char_wb"),
    "token_pattern": (_WORDS, r"(?u)\b\w+\b", None),
    "strip_accents": (None, "ascii", "unicode"),
}


def foreign_types(payload: ZipFile) -> set[str]:
    """Types of scikit-learn in a file of skops that could do more than compute."""
    schema = json.loads(payload.read("schema.json"))
    named = {
        f"{node['__module__']}.{node['__class__']}"
        for node in _nodes(schema)
        if isinstance(node.get("__module__"), str) and isinstance(node.get("__class__"), str)
    }
    return {
        name for name in named if name.startswith("sklearn.") and not name.startswith(_HARMLESS)
    }


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def check_model_settings(model: Any, trusted: Collection[str]) -> None:
    """Refuse a model of which a part would read, write or call anything.

    Parameters
    ----------
    model : object
        As it was built from a file.
    trusted : collection of str
        Full names of types and functions that may do so.
    """
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | None):
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            waiting.extend([*part.keys(), *part.values()])
        elif isinstance(part, list | tuple | set | frozenset):
            waiting.extend(part)
        elif isinstance(part, np.ndarray):
            if part.dtype == object:
                waiting.extend(part.ravel().tolist())
        elif sparse.issparse(part):
            _check_matrix(part)
        elif callable(part) and not isinstance(part, BaseEstimator):
            _check_function(part, trusted)
        elif hasattr(part, "__dict__"):
            if _name(type(part)) not in trusted:
                _check_part(part)
            waiting.extend(vars(part).values())


def _check_part(part: Any) -> None:
    for name, value in vars(part).items():
        allowed = _SETTINGS.get(name)
        if allowed is None or not isinstance(part, BaseEstimator):
            continue
        if not any(value is one or (isinstance(one, str) and value == one) for one in allowed):
            raise ValueError(
                f"it has a {type(part).__name__} with {name}={value!r}, which can do more than "
                f"compute; if you know who made the file, trust {_name(type(part))!r}"
            )


def _check_matrix(matrix: Any) -> None:
    """Positions beyond the end of a sparse matrix would be read by native code."""
    check = getattr(matrix, "check_format", None)
    if check is None:
        raise ValueError(f"it has a {type(matrix).__name__}; sparse matrices may be CSR or CSC")
    check(full_check=True)


def _check_function(function: Any, trusted: Collection[str]) -> None:
    if isinstance(function, np.ufunc | type):
        return
    name = _name(function)
    if not name.startswith("unbag.") and not (name.startswith("sklearn.")) and name not in trusted:
        raise ValueError(f"it calls {name}; if you know who made the file, trust {name!r}")


def _name(thing: Any) -> str:
    owner = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{owner.__module__}.{owner.__qualname__}"
