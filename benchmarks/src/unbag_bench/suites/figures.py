"""The picture of the page: a chart of methods by bags, and critical-difference diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unbag.paper.rows import Row
from unbag.reports.drawing import save_figure
from unbag_bench.suites.methods import METHODS
from unbag_bench.suites.page import KIND_WORDS, SHOWN
from unbag_bench.suites.rankings import RANKED_BY, SuiteRanking, suite_rankings
from unbag_bench.suites.ranks import FEWEST_SETS, Ranking, cliques

_OURS, _OTHERS = "#0b6e4f", "0.25"
# Inches: for a method in the height, for one in the width, and of the picture at least.
_LINE, _CELL, _WIDTH = 0.28, 0.42, 9.5


def draw_figure(rows: Sequence[Row], path: Path) -> None:
    """Draw charts and diagrams of all suites that have rows, below each other."""
    from matplotlib.figure import Figure

    rankings = suite_rankings(rows)
    if not rankings:
        raise ValueError("There are no rows to draw: no method was run on every set of a suite.")
    parts: list[tuple[Any, SuiteRanking, float]] = []
    for found in rankings:
        parts.append((draw_chart, found, _chart_height(found)))
        if found.whole.n_sets >= FEWEST_SETS:
            parts.append((draw_diagram, found, _diagram_height(found)))
    heights = [height for *_, height in parts]
    most = max(len(found.whole.methods) for found in rankings)
    width = max(_WIDTH, 0.25 * _WIDTH + _CELL * most)
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for (draw, found, _), panel in zip(parts, panels, strict=True):
        draw(found, panel)
    save_figure(figure, path)


def draw_chart(found: SuiteRanking, axes: Any) -> None:
    """Mean ranks as shades, a row for each kind of bags; a ring marks what to take there.

    That is what is first, or behind the first by one standard error of its own at most.
    """
    methods = found.whole.methods
    ranks = np.array([[_rank_of(r, m) for m in methods] for r in found.by_kind.values()])
    axes.imshow(ranks, cmap="YlGn_r", vmin=1, vmax=len(methods), aspect="auto")
    for line, ranking in enumerate(found.by_kind.values()):
        for column, method in enumerate(methods):
            best = ranking.first_within(method)
            dark = ranks[line, column] < 0.35 * len(methods)
            axes.text(
                column,
                line,
                f"{ranks[line, column]:.1f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
                fontweight="bold" if best else "normal",
                bbox={"boxstyle": "round,pad=0.25", "fill": False, "lw": 1.4, "ec": "#c1121f"}
                if best
                else None,
            )
    axes.set_xticks(range(len(methods)), methods, rotation=38, ha="right", fontsize=8)
    for label, method in zip(axes.get_xticklabels(), methods, strict=True):
        label.set_color(_color(method))
    kinds = [f"{kind}: {KIND_WORDS[kind]} ({r.n_sets})" for kind, r in found.by_kind.items()]
    axes.set_yticks(range(len(kinds)), kinds, fontsize=8)
    axes.set_title(
        f"{found.table.title}: mean rank by {SHOWN[RANKED_BY[found.suite]]}; ringed: take one of "
        "these",
        fontsize=10,
        loc="left",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def draw_diagram(found: SuiteRanking, axes: Any) -> None:
    """Mean ranks on a line; bars join methods that do not differ beyond random variation (Nemenyi)."""
    ranking = found.whole
    k = len(ranking.methods)
    axes.set_axis_off()
    # the part of the scale that is in use, and room for names on either side
    low, high = int(np.floor(ranking.ranks[0])), int(np.ceil(ranking.ranks[-1]))
    width = ranking.critical_difference
    high = max(high, low + 1, int(np.ceil(low + width)))
    unit = (high - low) / 12
    axes.set_xlim(low - 4.5 * unit, high + 4.5 * unit)
    axes.plot([low, high], [0, 0], color="black", lw=1)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, 0.12], color="black", lw=1)
        axes.text(tick, 0.2, str(tick), ha="center", va="bottom", fontsize=8)
    half = (k + 1) // 2
    bars = cliques(ranking)
    depth = 1.0 + 0.35 * len(bars)
    for place, (method, rank) in enumerate(zip(ranking.methods, ranking.ranks, strict=True)):
        left = place < half
        level = -depth - 0.55 * (place if left else k - 1 - place)
        end = low - unit / 4 if left else high + unit / 4
        axes.plot([rank, rank, end], [0, level, level], color=_color(method), lw=0.9)
        axes.text(
            end + (-unit if left else unit) / 10,
            level,
            f"{method}  {rank:.2f}",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            color=_color(method),
        )
    for number, (first, last) in enumerate(bars):
        ends = ranking.ranks[first] - unit / 20, ranking.ranks[last] + unit / 20
        axes.plot(ends, [-0.4 - 0.35 * number] * 2, color="black", lw=3, solid_capstyle="butt")
    axes.plot([low, low + width], [1.1, 1.1], color="black", lw=1.5)
    words = f"critical difference {width:.2f}"
    axes.text(low + width + unit / 8, 1.1, words, va="center", fontsize=8)
    axes.set_ylim(-depth - 0.55 * half, 1.5)


def _rank_of(ranking: Ranking, method: str) -> float:
    return float(ranking.ranks[ranking.methods.index(method)])


def _color(method: str) -> str:
    return _OURS if method in METHODS and METHODS[method].ours else _OTHERS


def _chart_height(found: SuiteRanking) -> float:
    return 1.5 + _LINE * len(found.by_kind)


def _diagram_height(found: SuiteRanking) -> float:
    half = (len(found.whole.methods) + 1) // 2
    return 0.9 + 0.25 * (half + len(cliques(found.whole)))
