"""Which bags are paired, and how far apart the two are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unbag._optional import make_frame
from unbag._text import counted, shown
from unbag.bags.bags import Bags, check_bag_target
from unbag.paper.pairing import Pairing, pair_bags
from unbag.reports.drawing import BLUE, FEW, GREY, ORANGE, SOME, SinglePicture, add_legend


@dataclass(frozen=True, eq=False, repr=False)
class PairingDisplay(SinglePicture):
    """Pairs of bags and the difference Δ between their proportions.

    Attributes
    ----------
    bags : Bags
        The bags.
    pairing : Pairing
        Ordered by Δ, the largest first.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.paper import PairingDisplay
    >>> y = bag_target(["a", "b", "c", "d"], [0.1, 0.9, 0.4, 0.6])
    >>> print(PairingDisplay.from_data(y))
    2 pairs of bags; their proportions differ by 0.2 to 0.8.
      b (0.9) with a (0.1)
      d (0.6) with c (0.4)
    """

    bags: Bags
    pairing: Pairing

    @classmethod
    def from_data(cls, y: Any, pairing: Pairing | None = None) -> Self:
        """Pair the bags of a target, or show a pairing that was made before.

        Parameters
        ----------
        y : structured array from `unbag.bag_target`
            The bag of each instance and its proportions.
        pairing : Pairing, optional
            Pairs that were made before.

        Returns
        -------
        display : PairingDisplay
            The display.
        """
        bags = check_bag_target(y)
        if bags.n_classes != 2:
            raise ValueError(f"Pairs are for two classes and there are {bags.n_classes}.")
        if bags.noise is not None:
            raise ValueError("Bags of noisy proportions are not paired.")
        return cls(bags, pairing or pair_bags(bags.proportions[:, 1], bags.sizes))

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower proportion of each pair."""
        return self.bags.proportions[self.pairing.negative, 1]

    @property
    def high(self) -> NDArray[np.float64]:
        """The higher proportion of each pair."""
        return self.bags.proportions[self.pairing.positive, 1]

    def frame(self) -> Any:
        """One row per pair: the two bags, their proportions and sizes, and Δ.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """
        bags, pairs = self.bags, self.pairing
        return make_frame(
            {
                "positive": bags.ids[pairs.positive],
                "negative": bags.ids[pairs.negative],
                "higher proportion": self.high,
                "lower proportion": self.low,
                "difference": self.high - self.low,
                "size of positive": bags.sizes[pairs.positive],
                "size of negative": bags.sizes[pairs.negative],
            }
        )

    def _draw(self, ax: Any) -> None:
        """Draw each pair as a line between its proportions, or many as a histogram of Δ."""
        n = len(self.pairing)
        if n > SOME:
            ax.hist(self.high - self.low, bins=np.linspace(0, 1, 26), color=BLUE)
            ax.set(xlabel="difference of the two proportions, Δ", ylabel="number of pairs")
            return
        rank = np.arange(1, n + 1)
        ax.hlines(rank, self.low, self.high, color=GREY, linewidth=1.2 if n <= 100 else 0.5)
        size = 5 if n <= FEW else 3 if n <= 100 else 1.5
        ax.plot(self.low, rank, "s", color=ORANGE, markersize=size, label="negative bag")
        ax.plot(self.high, rank, "o", color=BLUE, markersize=size, label="positive bag")
        ax.set(xlabel="share of positives in the bag", xlim=(-0.02, 1.02))
        ax.set_ylim(n + 0.7, 0.3)
        if 0 < n <= FEW // 2:
            ids = self.bags.ids
            ends = zip(ids[self.pairing.positive], ids[self.pairing.negative], strict=True)
            ax.set_yticks(
                rank, [f"{shown(a, 12)} – {shown(b, 12)}" for a, b in ends], parse_math=False
            )
        else:
            ax.set_ylabel("pairs, largest difference first")
        add_legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)

    def __str__(self) -> str:
        n = len(self.pairing)
        if n == 0:
            return "No two bags differ in proportion, so that there is no pair."
        difference = self.high - self.low
        lines = [
            f"{counted(n, 'pair')} of bags; their proportions differ by {difference.min():.3g} "
            f"to {difference.max():.3g}."
        ]
        ids, pairs = self.bags.ids, self.pairing
        for k in range(min(n, 5)):
            a, b = shown(ids[pairs.positive[k]]), shown(ids[pairs.negative[k]])
            lines.append(f"  {a} ({self.high[k]:.3g}) with {b} ({self.low[k]:.3g})")
        return "\n".join([*lines, f"  and {n - 5:,} more"] if n > 5 else lines)
