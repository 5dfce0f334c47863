"""Sizes, proportions and information of bags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from unbag._checks import check_choice
from unbag._optional import make_frame
from unbag._text import counted, shown
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.sample_size import EffectiveSampleSize, effective_sample_size
from unbag.reports.drawing import BLUE, GREY, ORANGE, Display, add_legend_above

BagsView = Literal["proportions", "sizes"]


@dataclass(frozen=True, eq=False, repr=False)
class BagsDisplay(Display):
    """Sizes, proportions and information of the bags.

    Attributes
    ----------
    bags : Bags
        Sizes and proportions.
    information : EffectiveSampleSize
        How much each bag contributes.
    view : {"proportions", "sizes"}, default="proportions"
        What is drawn: how the proportions of classes are spread over bags, or how large bags are.
    """

    bags: Bags
    information: EffectiveSampleSize
    view: BagsView = "proportions"

    @classmethod
    def from_data(cls, y: Any, *, view: BagsView = "proportions") -> Self:
        """Read the bags of a target made by `unbag.bag_target`, or of plain labels.

        Parameters
        ----------
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions.
        view : {"proportions", "sizes"}, default="proportions"
            What is drawn.

        Returns
        -------
        display : BagsDisplay
            The display.
        """
        check_choice(view, get_args(BagsView), "view")
        return cls(check_bag_target(y), effective_sample_size(y), view)

    def frame(self) -> Any:
        """One row per bag, the most informative first: name, size, proportions and share."""
        return make_frame(self.information.by_bag)

    def _draw(self, ax: Any) -> None:
        (self._proportions if self.view == "proportions" else self._sizes)(ax)

    def _proportions(self, ax: Any) -> None:
        shares, classes = self.bags.proportions, self.bags.class_names
        if len(classes) == 2:
            bins = np.linspace(min(0.0, shares.min()), max(1.0, shares.max()), 21)
            ax.hist(shares[:, 1], bins=bins, color=BLUE)
            ax.set(xlabel="proportion of positives in the bag", ylabel="number of bags")
            ax.locator_params(axis="y", integer=True)
            return
        rows = np.arange(len(classes))
        low, first, middle, third, high = np.quantile(shares, [0, 0.25, 0.5, 0.75, 1], axis=0)
        ax.hlines(rows, low, high, color=GREY, linewidth=1.2, label="all bags")
        ax.hlines(rows, first, third, color=BLUE, linewidth=7, label="half of the bags")
        ax.plot(middle, rows, "D", color=ORANGE, markersize=5, label="median")
        ax.set_yticks(rows, [shown(name, 20) for name in classes], parse_math=False)
        ax.set(xlabel="proportion of the class in the bag", ylabel="class", xlim=(-0.02, 1.02))
        ax.set_ylim(len(classes) - 0.5, -0.5)
        add_legend_above(ax)

    def _sizes(self, ax: Any) -> None:
        sizes = self.bags.sizes
        low, high = sizes.min(), sizes.max()
        if high > 30 * low:
            ax.hist(sizes, bins=np.geomspace(low, high * 1.0001, 21), color=BLUE)
            ax.set_xscale("log")
        else:
            n_bins = int(min(20, high - low + 1))
            ax.hist(sizes, bins=np.linspace(low - 0.5, high + 0.5, n_bins + 1), color=BLUE)
        ax.set(xlabel="rows in the bag", ylabel="number of bags")

    def __str__(self) -> str:
        sizes, shares = self.bags.sizes, self.bags.proportions
        spread = ", ".join(
            f"{shown(name)}: {shares[:, c].min():.3g} to {shares[:, c].max():.3g}"
            for c, name in enumerate(self.bags.class_names)
        )
        return (
            f"{counted(self.bags.n_bags, 'bag')} of {sizes.min()} to {sizes.max()} rows, "
            f"{self.bags.n_instances:,} in all.\nProportions of the classes: {spread}."
        )
