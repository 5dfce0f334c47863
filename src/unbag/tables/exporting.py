"""What no export can write, and trees as all of them read these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unbag._text import listing


def refuse_text(names: Sequence[Any]) -> None:
    """Refuse columns of free text, which become weights of words."""
    if len(names):
        found = listing(map(repr, names))
        raise ValueError(f"Free text, here {found}, cannot be exported: train without.")


def trees_of(model: Any) -> list[Any]:
    """The roots of boosted trees, as LightGBM writes them."""
    if model.categories_:
        raise ValueError(
            "Boosted trees that split by categories of a data frame cannot be exported; encode "
            "them before, by unbag.tables.make_classifier('boosted')."
        )
    found = [] if model.booster_ is None else model.booster_.dump_model()["tree_info"]
    return [tree["tree_structure"] for tree in found]


def gap_goes_left(node: Any) -> bool:
    """Where a missing value goes at a split, which must be one of numbers."""
    kind, missing = node["decision_type"], node["missing_type"]
    if kind != "<=" or missing not in ("NaN", "None"):
        raise ValueError(
            f"Trees with splits of the kind {kind!r} and missing values as {missing!r} cannot be "
            "exported."
        )
    # where training had no missing values, LightGBM takes them for zero
    return bool(node["default_left"]) if missing == "NaN" else bool(node["threshold"] >= 0)
