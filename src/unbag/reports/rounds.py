"""How boosted trees were chosen: the likelihood of held-out bags by leaves and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag.reports.drawing import CLASS_COLOURS, GREY, MARKERS, SinglePicture, add_legend
from unbag.reports.validation_curve import find_model


@dataclass(frozen=True, eq=False, repr=False)
class RoundsDisplay(SinglePicture):
    """Losses of held-out bags over the rounds of a search, for every number of leaves."""

    leaves: NDArray[np.intp]
    rounds: NDArray[np.intp]
    losses: Floats
    num_leaves: int
    n_rounds: int

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Read the path of fitted boosted trees, also inside a pipeline."""
        model = boosted_model(estimator)
        if model is None:
            raise ValueError(
                f"{type(estimator).__name__} has no path of rounds: it is no LLPBoostingClassifier "
                "that is fitted and has folds to choose by."
            )
        path = model.selection_path_
        return cls(
            leaves=np.concatenate([np.full(len(rounds), n) for n, rounds, _ in path]),
            rounds=np.concatenate([rounds for _, rounds, _ in path]),
            losses=np.concatenate([losses for _, _, losses in path]),
            num_leaves=model.num_leaves_,
            n_rounds=model.n_estimators_,
        )

    @property
    def chosen(self) -> NDArray[np.bool_]:
        """Which evaluation the choice is."""
        return (self.leaves == self.num_leaves) & (self.rounds == self.n_rounds)

    @property
    def scaled(self) -> Floats:
        """Losses from the best of all, 0, to the worst, 1."""
        spread = float(np.ptp(self.losses))
        return (self.losses - self.losses.min()) / (spread or 1.0)

    @property
    def edge(self) -> bool:
        """Whether more rounds than were tried may do better: the last ones are the best."""
        return bool(self.n_rounds == self.rounds[self.leaves == self.num_leaves].max())

    def frame(self) -> Any:
        """One row per evaluation: leaves, rounds, the loss, and the choice."""
        columns = {"leaves": self.leaves, "rounds": self.rounds, "loss": self.losses}
        return make_frame({**columns, "chosen": self.chosen})

    def _draw(self, ax: Any) -> None:
        """Draw the losses, from the best, 0, to the worst, 1."""
        for place, n in enumerate(np.unique(self.leaves)):
            own = self.leaves == n
            colour = place % len(CLASS_COLOURS)
            ax.plot(
                self.rounds[own],
                self.scaled[own],
                color=CLASS_COLOURS[colour],
                marker=MARKERS[colour],
                markersize=3,
                label=f"{n} leaves",
            )
        ax.axvline(self.n_rounds, color=GREY, linestyle="--", linewidth=1)
        ax.plot(
            [self.n_rounds],
            self.scaled[self.chosen],
            "D",
            color=GREY,
            markersize=8,
            zorder=3,
            label=f"chosen: {self.num_leaves}, {self.n_rounds} rounds",
        )
        ax.set(xlabel="rounds", ylabel="on held-out bags (best: 0, worst: 1)")
        add_legend(ax)

    def __str__(self) -> str:
        lines = [
            f"Trees of {self.num_leaves} leaves and {self.n_rounds} rounds chosen among "
            f"{len(self.rounds)} evaluations."
        ]
        for n in np.unique(self.leaves):
            own = np.flatnonzero(self.leaves == n)
            best = own[self.losses[own].argmin()]
            mark = "  <- chosen" if n == self.num_leaves else ""
            lines.append(
                f"  {n:4d} leaves, best after {self.rounds[best]:4d} of {self.rounds[own].max():4d}"
                f" rounds: {self.losses[best]:.5g}{mark}"
            )
        return "\n".join(lines)


def boosted_model(estimator: Any) -> Any:
    """Find the boosted trees that chose leaves and rounds: the estimator, or inside of it."""
    found = find_model(estimator, ("selection_path_", "num_leaves_", "n_estimators_"))
    return found if found is not None and found.selection_path_ else None
