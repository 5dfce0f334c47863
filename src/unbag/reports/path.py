"""How the penalty was chosen: the criterion for every one that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unbag.reports.display import (
    BLUE,
    FAINT,
    ORANGE,
    Display,
    add_legend,
    finish,
    make_axes,
    make_frame,
)


@dataclass(frozen=True, eq=False, repr=False)
class PathDisplay(Display):
    """The selection criterion over the penalties of a search.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Penalties, the strongest first.
    risks : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        Corrected risk on bags that were held out: of all folds together, or of each fold.
    alpha : float
        The chosen one, where the (mean) risk is least.

    Examples
    --------
    >>> from unbag import LinearMCMClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import PathDisplay
    >>> data = make_gaussian_bags(n_bags=20, bag_size=50, random_state=0)
    >>> model = LinearMCMClassifierCV(alphas=[0.001, 0.01, 0.1]).fit(data.X, data.y)
    >>> display = PathDisplay.from_estimator(model)
    >>> len(display.frame())
    3
    """

    alphas: NDArray[np.float64]
    risks: NDArray[np.float64]
    alpha: float

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Read the path of a fitted classifier with a search, also inside a pipeline."""
        model = searching_model(estimator)
        if model is None:
            raise ValueError(
                f"{type(estimator).__name__} has no path: it is not fitted, or it does not choose "
                "its penalty among several, as KernelMCMClassifierCV does."
            )
        return cls(
            np.asarray(model.alphas_), np.asarray(model.selection_risks_), float(model.alpha_)
        )

    @property
    def criterion(self) -> NDArray[np.float64]:
        """The number by which the penalty is chosen."""
        return self.risks if self.risks.ndim == 1 else self.risks.mean(axis=0)

    @property
    def edge(self) -> str:
        """Say if the chosen penalty is the "strongest" or "weakest" tried; else empty."""
        if len(self.alphas) < 2 or self.alphas.min() < self.alpha < self.alphas.max():
            return ""
        return "strongest" if self.alpha == self.alphas.max() else "weakest"

    def frame(self) -> Any:
        """One row per penalty: the criterion, that of each fold if known, and the choice."""
        by_fold = self.risks if self.risks.ndim == 2 else self.risks[:0]
        folds = {f"fold {k + 1}": row for k, row in enumerate(by_fold)}
        columns = {"alpha": self.alphas, "criterion": self.criterion, **folds}
        return make_frame({**columns, "chosen": self.alphas == self.alpha})

    def plot(self, ax: Any = None) -> Any:
        """Draw the criterion over the penalties and return the axes."""
        ax = make_axes(ax)
        if self.risks.ndim == 2:
            for k, row in enumerate(self.risks):
                label = "single folds" if k == 0 else None
                ax.plot(self.alphas, row, color=FAINT, linewidth=1, zorder=1, label=label)
        ax.plot(self.alphas, self.criterion, color=BLUE, marker="o", markersize=4)
        best = self.criterion[np.argmin(np.abs(self.alphas - self.alpha))]
        ax.axvline(self.alpha, color=ORANGE, linestyle="--", linewidth=1)
        ax.plot(
            [self.alpha],
            [best],
            "D",
            color=ORANGE,
            markersize=8,
            label=f"chosen: {self.alpha:.2g}",
        )
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.xaxis.set_minor_formatter(lambda *_: "")
        ax.set(xlabel="penalty α (right: simpler model)", ylabel="risk on held-out bags")
        add_legend(ax)
        return finish(ax)

    def __str__(self) -> str:
        lines = [f"Penalty {self.alpha:.3g} chosen among {len(self.alphas)}."]
        for alpha, risk in zip(self.alphas, self.criterion, strict=True):
            mark = "  <- chosen" if alpha == self.alpha else ""
            lines.append(f"  {alpha:10.3g}  {risk:.5f}{mark}")
        return "\n".join(lines)


def searching_model(estimator: Any) -> Any:
    """Find the model with a search path: the estimator, its last step, or what it wraps."""
    if all(hasattr(estimator, name) for name in ("alphas_", "selection_risks_", "alpha_")):
        return estimator
    steps = getattr(estimator, "steps", None)
    inner = steps[-1][1] if steps else getattr(estimator, "estimator_", None)
    return None if inner is None else searching_model(inner)
