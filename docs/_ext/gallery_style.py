"""Colours and sizes of the pictures of the gallery, for scripts that leave them open."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

from unbag.reports.drawing import CLASS_COLOURS, INK


def set_style(_: dict[str, Any], __: str) -> None:
    """Start every script from the same style."""
    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            "axes.prop_cycle": mpl.cycler(color=CLASS_COLOURS),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.edgecolor": INK,
            "axes.titlesize": "medium",
            "figure.constrained_layout.use": True,
            "figure.figsize": (6.4, 4.2),
            "savefig.dpi": 130,
        }
    )
