"""What ``unbag fit`` keeps with a model, checked before a command reads it: a file can be forged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unbag.tables.schema import Schema

# Forms: a type, a list of one form, alternatives, or a form for each key; ... is for any other key,
# and without it all keys are there and no others.
_FITTED_WITH: dict[Any, Any] = {
    "bag": [str],
    "exclude": [str],
    "types": {...: str},
    "positives": ([str], None),
    "proportion": ([str], None),
    "margins": ([str], None),
    "ignore": ([str], None),
    "noise": (str, float, None),
    "bag_size": (str, None),
    "hidden": (str, None),
    "multiplicity": (str, None),
    "unmatched": (str, None),
    "percent": bool,
    ...: object,
}
_NUMBERS = ["centre", "intercept", "slope", "slope_error", "scatter", "scatter_error", "share"]
_CLASS = {
    "line": {"direction": str} | dict.fromkeys(_NUMBERS, float),
    "gap": float,
    "gap_error": float,
    "rows": {"edges": [float], "shares": [float], "covariance": [[float]]},
}
_ESTIMATE = {"value": (float, None), "low": (float, None), "high": (float, None), ...: object}
_FORMS: dict[str, Any] = {
    "model": str,
    "n_instances": int,
    "n_bags": int,
    "class_names": [str],
    "fitted_with": _FITTED_WITH,
    "rule": {"name": str, "threshold": float, "share": float},
    "training": {"summary": str, ...: object},
    "evaluation": {"estimates": {...: _ESTIMATE}, ...: object},
    "training_bags": {"n_bags": int, "bags": [str], ...: object},
    "reference": {
        "n_bags": int,
        "class_shares": [float],
        "classes": [_CLASS],
        "columns": {...: [float]},
    },
}
_RULES = ("balanced", "accuracy", "f1", "cost")


def check_records(path: Path, metadata: Mapping[str, Any]) -> None:
    """Refuse what a command could not read."""
    for name, form in _FORMS.items():
        value = metadata.get(name)
        if value is not None and not (_has_form(value, form) and _makes_sense(name, value)):
            raise ValueError(
                f"{path} holds as {name!r} what unbag fit would not write: it is forged, or of "
                "another version; load its model in Python, or fit it again"
            )


def read_schema(path: Path, content: Any) -> Schema:
    """Read the schema in the file."""
    try:
        return Schema.from_dict(content)
    except ValueError as error:
        raise ValueError(f"{path} is damaged or forged: {error}") from None


def _has_form(value: Any, form: Any) -> bool:
    if isinstance(form, tuple):
        return any(_has_form(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(one, form[0]) for one in value)
    if isinstance(form, dict):
        if not isinstance(value, dict) or (... not in form and value.keys() != form.keys()):
            return False
        return all(_has_form(one, form.get(key, form.get(...))) for key, one in value.items())
    if form is None:
        return value is None
    if form is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return isinstance(value, form)


def _makes_sense(name: str, value: Any) -> bool:
    """Whether numbers and lengths are possible."""
    if name == "rule":
        return value["name"] in _RULES and 0 <= value["threshold"] <= 1 and 0 <= value["share"] <= 1
    if name != "reference":
        return True
    n_classes = len(value["class_shares"])
    sizes = [(len(one["rows"]["edges"]) + 1, one["rows"]) for one in value["classes"]]
    return (
        n_classes > 1
        and len(value["classes"]) == (1 if n_classes == 2 else n_classes)
        and all(len(ends) == 2 for ends in value["columns"].values())
        and all(
            [len(rows["shares"]), *map(len, rows["covariance"])] == [n] * (n + 1)
            for n, rows in sizes
        )
    )
