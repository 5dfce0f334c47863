"""Whether a model still holds: expected and observed proportions, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from unbag._optional import make_frame
from unbag._text import counted, percent, shown, whole
from unbag.evaluation.monitoring import MonitoringResult
from unbag.reports.drawing import BLUE, GREY, INK, ORANGE, Display, add_legend
from unbag.reports.page import (
    Finding,
    FindingKind,
    NumberTable,
    Page,
    Picture,
    Section,
    Tile,
)

_KINDS: dict[str, FindingKind] = {"ok": "good", "prior_shift": "note", "degraded": "warning"}
_DO = {"ok": "nothing to do", "prior_shift": "recalibrate", "degraded": "train again"}

# Standard errors from which on a bag stands out, and how many of these are listed.
_OUT, _LISTED = 3.0, 10


@dataclass(frozen=True, eq=False, repr=False)
class MonitoringDisplay(Display):
    """Observed proportions of bags over the mean of the model's probabilities."""

    found: MonitoringResult

    def frame(self) -> Any:
        """One row per bag."""
        return make_frame(self.found.bags)

    def _draw(self, ax: Any) -> None:
        """Draw found shares over mean probabilities, with the line of training."""
        bags = self.found.bags
        means, shares, out = bags["probability"], bags["observed"], np.abs(bags["z"]) > _OUT
        ends = [min(means.min(), shares.min()), max(means.max(), shares.max())]
        ax.plot(ends, ends, color=GREY, linestyle=":", label="as expected", zorder=1)
        if len(self.found.classes) == 1:
            along = np.linspace(means.min(), means.max(), 50)
            line = self.found.classes[0].line.shares_at(along)
            ax.plot(along, line, color=INK, linewidth=1.2, label="line of training", zorder=2)
        area = 12 + 40 * np.sqrt(bags["size"] / bags["size"].max())
        style = {"alpha": 0.7, "linewidths": 0}
        ax.scatter(means[~out], shares[~out], s=area[~out], color=BLUE, label="bags", **style)
        if out.any():
            ax.scatter(
                means[out],
                shares[out],
                s=area[out],
                color=ORANGE,
                marker="D",
                label=f"beyond {_OUT:g} standard errors",
                **style,
            )
        ax.set(xlabel="mean of the model's probabilities", ylabel="observed proportion")
        add_legend(ax, loc="best")

    def __str__(self) -> str:
        return self.found.describe_worst_bag()


def monitoring_page(
    found: MonitoringResult,
    *,
    title: str = "Does the model still hold?",
    model: str = "",
    command: str | None = None,
    remarks: Sequence[str] = (),
) -> Page:
    """Make a page of what `unbag.evaluation.monitor` found."""
    alarms = found.alarms
    # of each class its slope and its scatter
    shape = [alarms["flatter"] or alarms["steeper"], alarms["scatter"]] * len(found.classes)
    verdict = (
        Finding(found.lead, _KINDS[found.verdict]),
        *(Finding(text, "note") for text in found.advice),
    )
    picture = Picture(
        MonitoringDisplay(found).plot,
        "Proportion in each bag over the mean of the model's probabilities; larger bags are larger.",
        f"Scatter plot of bags. {found.describe_worst_bag()}",
    )
    sections = (
        Section("verdict", "Does the model still hold?", verdict),
        Section(
            "totals",
            "Do totals agree with the model?",
            _findings(found.describe_totals(), [alarms["totals"]]),
        ),
        Section(
            "bags",
            "Do bags lie on the line of training?",
            _findings(found.describe_bags(), shape),
            (picture,),
            (_worst_bags(found),),
        ),
        Section(
            "rows",
            "Are the rows those of training?",
            _findings([*found.describe_rows(), *remarks], [found.rows_changed]),
        ),
    )
    ratio = max(found.classes, key=lambda one: abs(one.ratio - 1)).ratio
    slope = min(found.classes, key=lambda one: one.slope_ratio).slope_ratio
    name = found.verdict.replace("_", " ")
    tiles = (
        Tile("the model", name, _DO[found.verdict], _KINDS[found.verdict]),
        Tile("observed / expected", f"{ratio:.2f}", "totals; 1 is as expected"),
        Tile("slope", f"{slope:.2f}", "times that of training"),
    )
    facts = (
        ("Bags", counted(len(found.bags["bag"]), "bag")),
        ("Instances", whole(found.bags["size"].sum())),
    )
    return Page(
        title=title, sections=sections, facts=facts, tiles=tiles, command=command, model=model
    )


def _findings(texts: Sequence[str], alarms: Sequence[bool]) -> tuple[Finding, ...]:
    """Sentences, of which the first ones may be warnings."""
    pairs = zip_longest(texts, alarms, fillvalue=False)
    return tuple(Finding(str(text), "warning" if alarm else "plain") for text, alarm in pairs)


def _worst_bags(found: MonitoringResult) -> NumberTable:
    bags = found.bags
    order = np.argsort(-np.abs(bags["z"]), kind="stable")[:_LISTED]
    several = len(found.classes) > 1
    rows = tuple(
        (
            shown(bags["bag"][k], 60),
            *([shown(bags["class"][k], 40)] if several else []),
            whole(bags["size"][k]),
            percent(bags["expected"][k], 1),
            percent(bags["observed"][k], 1),
            f"{bags['z'][k]:+.1f}",
        )
        for k in order
    )
    header = ("Bag", *(["Class"] if several else []), "Rows", "Expected", "Observed")
    return NumberTable("Bags with the largest residuals", (*header, "Standard errors"), rows)
