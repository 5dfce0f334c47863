"""Whether a model still holds: a picture of promised and found shares, and a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from unbag._files import check_place, write_whole
from unbag._optional import make_frame
from unbag._provenance import provenance, versions_line
from unbag._text import counted, percent, shown, whole
from unbag.evaluation import monitoring as words
from unbag.evaluation.monitoring import Monitoring
from unbag.reports.colours import BLUE, GREY, INK, ORANGE
from unbag.reports.content import Finding, FindingKind, NumberTable, Origin, Picture, Section, Tile
from unbag.reports.display import SinglePicture, add_legend
from unbag.reports.page import make_page
from unbag.reports.svg import make_axes_available

_KINDS: dict[str, FindingKind] = {"holds": "good", "drifts": "note", "broken": "warning"}
_DO = {"holds": "nothing to do", "drifts": "recalibrate", "broken": "train again"}

# Standard errors from which on a bag stands out, and how many of these are listed.
_OUT, _LISTED = 3.0, 10


@dataclass(frozen=True, eq=False, repr=False)
class PromiseDisplay(SinglePicture):
    """Shares that were found in bags, over the mean of the model's probabilities.

    Attributes
    ----------
    found : Monitoring

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference, monitor
    >>> from unbag.reports.monitoring import PromiseDisplay
    >>> april, may = (make_gaussian_bags(n_bags=20, bag_size=40, random_state=s) for s in (0, 1))
    >>> model = LLPEnsembleClassifier("linear").fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> display = PromiseDisplay(monitor(model, may.X, may.y, reference=reference))
    >>> list(display.frame().columns)
    ['bag', 'size', 'class', 'probability', 'promised', 'found', 'z']
    """

    found: Monitoring

    def frame(self) -> Any:
        """One row per bag."""
        return make_frame(self.found.bags)

    def _draw(self, ax: Any) -> None:
        """Draw found shares over mean probabilities, with the line of training."""
        bags = self.found.bags
        means, shares, out = bags["probability"], bags["found"], np.abs(bags["z"]) > _OUT
        ends = [min(means.min(), shares.min()), max(means.max(), shares.max())]
        ax.plot(ends, ends, color=GREY, linestyle=":", label="found as promised", zorder=1)
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
        ax.set(xlabel="mean of the model's probabilities", ylabel="share found in the bag")
        add_legend(ax, loc="best")

    def __str__(self) -> str:
        return words.worst_told(self.found)


def monitoring_page(
    found: Monitoring,
    path: str | os.PathLike[str],
    *,
    title: str = "Does the model still hold?",
    model: str = "",
    command: str | None = None,
    remarks: Sequence[str] = (),
) -> Path:
    """Write one self-contained HTML page on what `unbag.evaluation.monitor` found.

    Parameters
    ----------
    found : Monitoring
    path : str or path
    title : str
    model : str
        What is said of the model at the foot of the page.
    command : str, optional
        The command that makes the page, to be shown on it.
    remarks : sequence of str
        What else is known of the rows, such as categories that were not there in training.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference, monitor
    >>> from unbag.reports.monitoring import monitoring_page
    >>> april, may = (make_gaussian_bags(n_bags=20, bag_size=40, random_state=s) for s in (0, 1))
    >>> model = LLPEnsembleClassifier("linear").fit(april.X, april.y)
    >>> found = monitor(model, may.X, may.y, reference=make_monitoring_reference(model, april.X, april.y))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = monitoring_page(found, Path(folder) / "may.html")
    ...     page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    True
    """
    make_axes_available()
    origin = provenance()
    facts = [
        ("Bags", counted(len(found.bags["bag"]), "bag")),
        ("Instances", whole(found.bags["size"].sum())),
        ("Date", origin["date"]),
    ]
    made_by = Origin(command, model, versions_line(origin))
    page = make_page(title, facts, _tiles(found), _sections(found, remarks), made_by)
    return write_whole(check_place(path), page)


def _tiles(found: Monitoring) -> list[Tile]:
    ratio = max(found.classes, key=lambda one: abs(one.ratio - 1)).ratio
    slope = min(found.classes, key=lambda one: one.slope_ratio).slope_ratio
    tiles = [
        Tile("the model", found.verdict, _DO[found.verdict], _KINDS[found.verdict]),
        Tile("found / promised", f"{ratio:.2f}", "totals; 1 is as promised"),
        Tile("bags are told apart", f"{slope:.2f}", "times as well as in training"),
    ]
    if found.quality is not None:
        before = f"{found.quality.before:.3f} when it was fitted"
        tiles.append(Tile(words.quality_name(found), f"{found.quality.now:.3f}", before))
    return tiles


def _sections(found: Monitoring, remarks: Sequence[str]) -> list[Section]:
    alarms = found.alarms
    lead = Finding(words.lead(found), _KINDS[found.verdict])
    advice = tuple(Finding(text, "note") for text in words.advice(found))
    totals = _findings(words.totals_told(found), [alarms["totals"]])
    # of each class its slope, scatter and level
    shape = [alarms["flatter"] or alarms["steeper"], alarms["scatter"], alarms["level"]]
    rows = [*words.rows_told(found), *remarks]
    sections = [
        Section("verdict", "Does the model still hold?", (lead, *advice)),
        Section("totals", "Do totals agree with what the model promises?", totals),
        Section(
            "bags",
            "Do bags lie where they lay in training?",
            _findings(words.bags_told(found), shape * len(found.classes)),
            (_picture(found),),
            (_worst_bags(found),),
        ),
        Section("rows", "Are the rows those of training?", _findings(rows, [found.rows_changed])),
    ]
    quality = words.quality_told(found)
    if quality:
        findings = _findings(quality, [alarms["quality"]])
        sections.append(Section("quality", "Are rows told apart as well as before?", findings))
    return sections


def _findings(texts: Sequence[str], alarms: Sequence[bool]) -> tuple[Finding, ...]:
    """Sentences, of which the first ones may be warnings."""
    pairs = zip_longest(texts, alarms, fillvalue=False)
    return tuple(Finding(str(text), "warning" if alarm else "plain") for text, alarm in pairs)


def _picture(found: Monitoring) -> Picture:
    display = PromiseDisplay(found)
    return Picture(
        display.plot,
        "Share of each bag over the mean of the model's probabilities; larger bags are larger.",
        f"Scatter plot of bags. {display}",
    )


def _worst_bags(found: Monitoring) -> NumberTable:
    bags = found.bags
    order = np.argsort(-np.abs(bags["z"]), kind="stable")[:_LISTED]
    several = len(found.classes) > 1
    rows = tuple(
        (
            shown(bags["bag"][k], 60),
            *([shown(bags["class"][k], 40)] if several else []),
            whole(bags["size"][k]),
            percent(bags["promised"][k], 1),
            percent(bags["found"][k], 1),
            f"{bags['z'][k]:+.1f}",
        )
        for k in order
    )
    header = ("Bag", *(["Class"] if several else []), "Rows", "Promised", "Found")
    return NumberTable("Bags furthest from their promise", (*header, "Standard errors"), rows)
