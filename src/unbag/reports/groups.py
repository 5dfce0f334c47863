"""Pictures of shares by group, and the page of ``unbag groups``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag._checks import check_choice
from unbag._text import counted, percent, shown
from unbag.inference.grouped_rows import find_name
from unbag.inference.groups import Contrast, GroupEstimates
from unbag.inference.sensitivity import GroupSensitivity
from unbag.reports.drawing import (
    BLUE,
    CLASS_COLOURS,
    FAINT,
    GREY,
    ORANGE,
    Display,
    add_legend,
)
from unbag.reports.page import Finding, NumberTable, Page, Picture, Section, Tile


@dataclass(frozen=True, eq=False, repr=False)
class GroupsDisplay(Display):
    """A picture of shares by group.

    Attributes
    ----------
    estimates : GroupEstimates
        What `unbag.inference.group_estimates` gives.
    kind : {"forest", "tomography", "density"}, default="forest"
        Shares with intervals and bounds; for two groups, the line of possible shares of each bag,
        and its estimate; or the distribution of estimates over bags.
    of : class, optional
        The class; by default the second of two, and else the first.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.inference import group_estimates
    >>> from unbag.reports import GroupsDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> found = group_estimates(model, data.X, data.y, by=data.X[:, 0] > 0)
    >>> GroupsDisplay(found, "tomography").plot().get_xlabel()
    'share of 1 in False'
    """

    estimates: GroupEstimates
    kind: str = "forest"
    of: Any = None

    def frame(self) -> Any:
        """The table of estimates, or that of bags."""
        return self.estimates.table if self.kind == "forest" else self.estimates.bags

    def _draw(self, ax: Any) -> None:
        check_choice(self.kind, ("forest", "tomography", "density"), "kind")
        classes = self.estimates.classes
        c = int(len(classes) == 2) if self.of is None else find_name(self.of, classes, "class")
        getattr(self, f"_{self.kind}")(ax, c)

    def _forest(self, ax: Any, c: int) -> None:
        e = self.estimates
        place = np.arange(len(e.groups))[::-1]
        ax.hlines(place, e.least[:, c], e.most[:, c], color=FAINT, linewidth=6, label="bounds")
        level = f"{percent(e.confidence_level, None)} interval"
        ax.hlines(place, e.low[:, c], e.high[:, c], color=BLUE, linewidth=2, label=level)
        ax.plot(e.share[:, c], place, "o", color=BLUE, markersize=5)
        ax.plot(e.goodman.share[:, c], place, "x", color=ORANGE, markersize=5, label="Goodman")
        ax.set_yticks(place, [shown(name, 24) for name in e.groups])
        # regression may be outside of what is possible
        ends = np.clip([*e.goodman.share[:, c], 0.0, 1.0], -0.25, 1.25)
        ax.set(xlabel=f"share of {shown(e.classes[c], 24)}", ylim=(-0.5, len(place) - 0.5))
        ax.set_xlim(ends.min() - 0.02, ends.max() + 0.02)
        add_legend(ax, loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=3, fontsize=8)

    def _tomography(self, ax: Any, c: int) -> None:
        e = self.estimates
        if len(e.groups) != 2:
            raise ValueError(f"A tomography plot is of two groups, and there are {len(e.groups)}.")
        share, _, _, least, most = e.bag_draws[:, :, :, c]
        # along its line, one group has the most where the other has the least
        ends = np.stack([[least[:, 0], most[:, 0]], [most[:, 1], least[:, 1]]])
        ax.plot(*ends, color=FAINT, linewidth=0.8)
        ax.plot(share[:, 0], share[:, 1], ".", color=BLUE, markersize=4, label="bags")
        ax.plot(e.share[0, c], e.share[1, c], "D", color=ORANGE, label="all together")
        names = [f"share of {shown(e.classes[c], 16)} in {shown(g, 16)}" for g in e.groups]
        ax.set(xlabel=names[0], ylabel=names[1], xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        add_legend(ax)

    def _density(self, ax: Any, c: int) -> None:
        e, grid = self.estimates, np.linspace(0, 1, 201)
        for g, name in enumerate(e.groups[: len(CLASS_COLOURS)]):
            there = e.bag_sizes[:, g] > 0
            value, weight = e.bag_draws[0, there, g, c], e.bag_sizes[there, g]
            width = max(1.06 * float(value.std()) * len(value) ** -0.2, 0.01)
            bumps = np.exp(-0.5 * ((grid[:, None] - value) / width) ** 2)
            height = bumps @ weight / (weight.sum() * width * np.sqrt(2 * np.pi))
            ax.plot(grid, height, color=CLASS_COLOURS[g], label=shown(name, 20))
        ax.set(xlabel=f"share of {shown(e.classes[c], 24)} in a bag", ylabel="density", xlim=(0, 1))
        ax.set_ylim(bottom=0)
        add_legend(ax)

    def __str__(self) -> str:
        return str(self.estimates)


@dataclass(frozen=True, eq=False, repr=False)
class GroupSensitivityDisplay(Display):
    """The estimate over the strength of an unobserved contextual effect.

    Attributes
    ----------
    sensitivity : GroupSensitivity
        What `unbag.inference.group_sensitivity` gives.
    """

    sensitivity: GroupSensitivity

    def frame(self) -> Any:
        """One row for each δ."""
        return self.sensitivity.table

    def _draw(self, ax: Any) -> None:
        s = self.sensitivity
        ax.axhspan(*s.bounds, color=FAINT, alpha=0.35, linewidth=0, label="bounds")
        ax.axhline(s.threshold, color=GREY, linestyle=":", label=f"conclusion: {s.threshold:g}")
        for effect, colour in zip(s.effects, (BLUE, ORANGE), strict=False):
            strength = effect.strength
            ax.fill_between(strength, effect.low, effect.high, color=colour, alpha=0.2, linewidth=0)
            label = f"effect in {shown(effect.shifted, 24)}"
            ax.plot(strength, effect.estimate, color=colour, marker="o", markersize=3, label=label)
            for delta, _ in list(effect.benchmarks.values())[:3]:
                at = delta / effect.delta[-1] * strength[-1]
                ax.axvline(at, ymax=0.04, color=colour, linewidth=1.5)
        ax.set(xlabel="contextual effect: SD of log-odds in the group", ylabel="estimate")
        add_legend(ax, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2, fontsize=8)

    def __str__(self) -> str:
        return str(self.sensitivity)


def groups_page(
    estimates: GroupEstimates,
    contrasts: list[tuple[Contrast, GroupSensitivity]],
    *,
    model: Any,
    title: str = "Shares by group",
    command: str | None = None,
) -> Page:
    """Make a page with tables and pictures of shares by group, and what would overturn contrasts."""
    e, two = estimates, len(estimates.classes) == 2
    kinds = {
        "forest": "Shares of {} with intervals, bounds and ecological regression.",
        "density": "Estimates of {} in each bag, weighted by size.",
        "tomography": "Possible shares of {} of each bag, and estimates.",
    }
    if len(e.groups) != 2:
        del kinds["tomography"]
    pictures = tuple(
        Picture(GroupsDisplay(e, kind, of).plot, words.format(of), words.format(of))
        for of in (e.classes[1:] if two else e.classes)[:6]
        for kind, words in kinds.items()
    )
    notes = (Finding(e.notes[0], "warning"), *(Finding(note, "note") for note in e.notes[1:]))
    head, *rows = e.as_text()
    numbers = NumberTable("Shares by group", head, tuple(rows))
    found = e.polarisation()
    first = zip(found["group"], found["preferred"], found["probability"], strict=True)
    words = "; ".join(f"{g}: {c} (probability {p:.3f})" for g, c, p in first)
    differs = f"Groups differ with probability {found['differs'][0]:.3f}."
    polarised = Finding(f"Preferred class of each group: {words}. {differs}")
    sections = [
        Section("shares", "Shares by group", notes, pictures, (numbers,)),
        Section("polarisation", "Polarisation", (polarised,)),
    ]
    for k, (contrast, one) in enumerate(contrasts):
        picture = Picture(GroupSensitivityDisplay(one).plot, one.what, one.summary)
        said = Finding(f"{contrast}."), Finding(one.summary)
        sections.append(Section(f"contrast{k}", contrast.name, said, (picture,)))
    tiles, c = [], int(two)
    for g, group in enumerate(e.groups[:6]):
        share, low, high = (percent(float(one[g, c]), 1) for one in (e.share, e.low, e.high))
        label = f"{shown(group, 24)}: {shown(e.classes[c], 24)}"
        tiles.append(Tile(label, share, f"{low} to {high}"))
    facts = ("Bags", counted(len(e.bag_ids), "bag")), ("Groups", str(len(e.groups)))
    about: dict[str, Any] = {"title": title, "command": command, "model": repr(model)}
    return Page(sections=tuple(sections), facts=facts, tiles=tuple(tiles), **about)
