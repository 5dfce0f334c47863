"""Draw the five figures of docs/benchmarks.md, and that of the reproduction, from rows in results.

Run it with ``python scripts/benchmark_pictures.py``, with ``pip install -e benchmarks`` done.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbag.paper.rows import load_rows
from unbag.paper.tables import Cell, paper_summary, published_auc, summarise
from unbag.reports.drawing import BLUE, GREY, INK, ORANGE
from unbag_bench.studies.six_tables import METHODS
from unbag_bench.suites.against import against_published

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
Row = dict[str, Any]
KINDS = {
    "naive": "random bags",
    "simple": "label shift",
    "intermediate": "covariate shift",
    "hard": "neither",
}
SHIFTS = {
    "label": "label shift",
    "covariate": "covariate shift",
    "both": "both, half of the bags each",
    "bag effect": "bag effects",
}


def read(study: str) -> list[Row]:
    """Rows of a study."""
    path = ROOT / "benchmarks" / "results" / study / "rows.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def means(rows: list[Row], value: str, *keys: str) -> dict[tuple[Any, ...], list[float]]:
    """Values of the rows that agree in some columns."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[key] for key in keys)].append(row[value])
    return found


def six_tables(ax: Any) -> None:
    """Mean AUC of each method, with labels and with totals."""
    rows = read("six_tables")
    ax.set(xlabel="mean test AUC", yticks=range(len(METHODS)), xlim=(0.75, 0.88))
    ax.set_yticklabels([title for title, *_ in METHODS.values()])
    ax.invert_yaxis()
    for place, method in enumerate(METHODS):
        auc = np.mean([row["auc"] for row in rows if row["method"] == method])
        color = BLUE if method in ("unbag", "ensemble") else GREY
        ax.plot([0.75, auc], [place, place], color=color, lw=1)
        ax.plot(auc, place, "o", color=color)
        ax.annotate(f"{auc:.3f}", (auc, place), (6, 0), textcoords="offset points", va="center")


def scott_and_zhang(ax: Any) -> None:
    """AUC of the count likelihood against the published AUC, setting by setting."""
    rows = [row for row in read("reproduce") if row["method"] == "likelihood"]
    rows = [row for row in rows if (row["low"], row["high"]) != (0.0, 1.0)]
    cells = means(rows, "auc", "table", "dataset", "low", "high", "bag_size")
    for dataset, marker in (("adult", "o"), ("magic", "s")):
        points = [
            (published_auc(table, data, (low, high), size, "lmmcm").mean, np.mean(aucs))
            for (table, data, low, high, size), aucs in cells.items()
            if data == dataset
        ]
        ax.plot(*zip(*points, strict=True), marker, color=BLUE, alpha=0.7, label=dataset)
    ax.axline((0.87, 0.87), slope=1, color=GREY, ls=":", lw=1)
    ax.set(xlabel="published AUC (Scott and Zhang)", ylabel="AUC by the count likelihood")
    ax.legend(frameon=False)


def franco(ax: Any) -> None:
    """Accuracy in each bag set, less that of the best published method."""
    found = sorted(against_published(read("landscape")), key=lambda one: (one.kind, one.gain))
    for kind in dict.fromkeys(one.kind for one in found):
        places, own = zip(*[(i, o) for i, o in enumerate(found) if o.kind == kind], strict=True)
        errors = [2 * o.error for o in own]
        ax.errorbar(places, [o.gain for o in own], errors, fmt="o", ms=3, label=KINDS[kind])
    ax.axhline(0, color=INK, lw=0.8)
    ax.set(xlabel="52 bag sets", xticks=[], ylabel="accuracy − best published")
    ax.legend(frameon=False, ncols=2)


def coverage(ax: Any) -> None:
    """How often 95% intervals of coefficients cover the truth."""
    cells = means(read("coverage"), "coefficients", "shift", "n_bags", "sizes")
    shifts = list(dict.fromkeys(shift for shift, *_ in cells))
    for n_bags, color, step in ((12, ORANGE, -0.22), (50, BLUE, 0.0), (400, INK, 0.22)):
        for sizes, marker, more in (("equal", "o", -0.05), ("unequal", "s", 0.05)):
            own = [cells[shift, n_bags, sizes] for shift in shifts]
            errors = [2 * np.std(held) / len(held) ** 0.5 for held in own]
            ax.errorbar(
                np.arange(len(shifts)) + step + more,
                [np.mean(held) for held in own],
                errors,
                fmt=marker,
                color=color,
                ms=4,
                label=f"{n_bags} {sizes} bags",
            )
    ax.axhline(0.95, color=INK, lw=0.8, ls="--")
    ax.set(xticks=range(len(shifts)), ylabel="coverage of 95% intervals", ylim=(0.25, 1.02))
    ax.set_xticklabels([SHIFTS[shift] for shift in shifts])
    ax.legend(frameon=False, ncols=3, loc="lower left")


def hidden_counts(ax: Any) -> None:
    """Error of slopes with hidden counts over that with all counts."""
    rows = {(row["setting"], row["method"]): row["error"] for row in read("hidden_counts")}
    settings = ("covariate shift", "label shift", "bag effects", "unequal bags", "noise")
    methods = {"sets": BLUE, "middles with noise": GREY, "known counts alone": ORANGE}
    for number, (method, color) in enumerate(methods.items()):
        ratios = [rows[setting, method] / rows[setting, "all counts"] for setting in settings]
        ax.bar(np.arange(5) + 0.27 * (number - 1), ratios, 0.25, color=color, label=method)
    ax.axhline(1, color=INK, lw=0.8, ls="--")
    ax.set(xticks=range(5), ylabel="error, relative to all counts known")
    ax.set_xticklabels(settings)
    ax.legend(frameon=False)


FIGURES: dict[str, Callable[[Any], None]] = {
    "labels": six_tables,
    "scott-zhang": scott_and_zhang,
    "published": franco,
    "coverage": coverage,
    "hidden": hidden_counts,
}


def reproduction(path: Path) -> None:
    """AUC over bag size, a panel for each line of the tables; open markers are the paper's."""
    summaries = summarise(load_rows(path.with_name("rows.jsonl")))
    cells = {cell.line: cell for cell, _ in summaries}
    lines = sorted(cells, key=lambda one: (cells[one].standardize_all, cells[one].sampling, one))
    methods = sorted({method for _, method in summaries})
    figure = Figure(figsize=(4.2 * 4, 3.6 * -(-len(lines) // 4)), layout="constrained")
    grid = figure.subplots(-(-len(lines) // 4), 4, squeeze=False, sharey="row").ravel()
    legend: dict[str, Any] = {}
    for ax, line in zip(grid, lines, strict=False):
        for number, method in enumerate(methods):
            own = sorted(c for c, name in summaries if name == method and c.line == line)
            found = [(c.bag_size, *summaries[c, method][:2]) for c in own]
            if not found:
                continue
            style = {"color": f"C{number}", "linestyle": "--" if method == "labels" else "-"}
            legend[method] = ax.errorbar(*zip(*found, strict=True), marker="o", **style)
            draw_published(ax, own, method, f"oC{number}", legend)
        table, dataset, standardised, sampling, low, high = line
        share = "random bags" if sampling == "iid" else f"proportions in [{low:g}, {high:g}]"
        encoded = ", all columns standardised" if standardised else ""
        ax.set_title(f"Table {table}: {dataset.upper()}\n{share}{encoded}", fontsize=9)
        ax.set_xscale("log", base=2)
        ax.set(xlabel="bag size", ylabel="test AUC")
    for ax in grid[len(lines) :]:
        ax.set_visible(False)
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=len(legend))
    figure.savefig(path, dpi=110)


def draw_published(
    ax: Any, cells: list[Cell], method: str, style: str, legend: dict[str, Any]
) -> None:
    """Open markers where the paper has a figure."""
    reported = [(c.bag_size, paper_summary(c, method)) for c in cells]
    points = [(n, s.mean) for n, s in reported if s is not None and method != "lmmcm-paper"]
    if points:
        (marker,) = ax.plot(*zip(*points, strict=True), style, fillstyle="none", markersize=9)
        legend["the paper's"] = marker


def main() -> None:
    """Draw all."""
    reproduction(ROOT / "benchmarks" / "results" / "reproduce" / "auc.png")
    PICTURES.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        ax = figure.subplots()
        ax.spines[["top", "right"]].set_visible(False)
        draw(ax)
        figure.savefig(PICTURES / f"benchmark-{name}.png", dpi=110)


if __name__ == "__main__":
    main()
