"""How the penalty was chosen: the criterion for every one that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag.model_selection.fitted import last_step
from unbag.reports.drawing import BLUE, FAINT, GREEN, MARKERS, ORANGE, SinglePicture, add_legend

# By what penalties are chosen where the likelihood of counts is minimised, in this order.
OF_LIKELIHOODS = ("the likelihood of counts", "the likelihood of rows")


@dataclass(frozen=True, eq=False, repr=False)
class ValidationCurveDisplay(SinglePicture):
    """The selection criterion over the penalties of a search.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Penalties, the strongest first.
    risks : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        Risk on bags that were held out: of all folds together, or of each fold. Of several
        criteria there is one such table each, along the first axis.
    alpha : float
        The chosen one, where the (mean) risk is least, or the sum of the ranks by several.
    criteria : tuple of str
        What several criteria are called; empty for one.

    Examples
    --------
    >>> from unbag.paper import LMMCMClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import ValidationCurveDisplay
    >>> data = make_gaussian_bags(n_bags=20, bag_size=50, random_state=0)
    >>> model = LMMCMClassifierCV([0.001, 0.01, 0.1], kernel="linear").fit(data.X, data.y)
    >>> display = ValidationCurveDisplay.from_estimator(model)
    >>> len(display.frame())
    3
    """

    alphas: NDArray[np.float64]
    risks: NDArray[np.float64]
    alpha: float
    criteria: tuple[str, ...] = ()

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Read the path of a fitted classifier with a search, also inside a pipeline.

        Parameters
        ----------
        estimator : classifier or pipeline
            Fitted, with ``alphas_`` and ``selection_risks_``.

        Returns
        -------
        display : ValidationCurveDisplay
            The display.
        """
        model = searching_model(estimator)
        if model is None:
            raise ValueError(
                f"{type(estimator).__name__} has no path: it is not fitted, or it does not choose "
                "its penalty among several, as LMMCMClassifierCV does."
            )
        risks = np.asarray(model.selection_risks_)
        several = risks.ndim > (2 if getattr(model, "selection", None) == "folds" else 1)
        return cls(
            np.asarray(model.alphas_),
            risks,
            float(model.alpha_),
            OF_LIKELIHOODS if several else (),
        )

    @property
    def by_criterion(self) -> dict[str, NDArray[np.float64]]:
        """Every criterion over the penalties, by its name; the mean if there are folds."""
        tables = self.risks if self.criteria else self.risks[None]
        names = self.criteria or ("risk",)
        means = (table if table.ndim == 1 else table.mean(axis=0) for table in tables)
        return dict(zip(names, means, strict=True))

    @property
    def criterion(self) -> NDArray[np.float64]:
        """The number by which the penalty is chosen."""
        return joint_criterion(np.stack(list(self.by_criterion.values())))

    @property
    def _by_fold(self) -> NDArray[np.float64]:
        """The only criterion by fold, if it is known; several are too many to show."""
        shown = not self.criteria and self.risks.ndim == 2
        return self.risks if shown else np.empty((0, len(self.alphas)))

    @property
    def edge(self) -> str:
        """Say if the chosen penalty is the "strongest" or "weakest" tried; else empty."""
        if len(self.alphas) < 2 or self.alphas.min() < self.alpha < self.alphas.max():
            return ""
        return "strongest" if self.alpha == self.alphas.max() else "weakest"

    def frame(self) -> Any:
        """One row per penalty: the criterion, what it is made of if known, and the choice."""
        parts = {f"fold {k + 1}": row for k, row in enumerate(self._by_fold)}
        parts |= self.by_criterion if self.criteria else {}
        columns = {"alpha": self.alphas, "criterion": self.criterion, **parts}
        return make_frame({**columns, "chosen": self.alphas == self.alpha})

    def _draw(self, ax: Any) -> None:
        """Draw the criterion over the penalties."""
        for k, row in enumerate(self._by_fold):
            label = "single folds" if k == 0 else None
            ax.plot(self.alphas, row, color=FAINT, linewidth=1, zorder=1, label=label)
        chosen = int(np.argmin(np.abs(self.alphas - self.alpha)))
        mark = {"color": ORANGE, "markersize": 8, "label": f"chosen: {self.alpha:.2g}"}
        ax.axvline(self.alpha, color=ORANGE, linestyle="--", linewidth=1)
        lines = zip(self.by_criterion.items(), (BLUE, GREEN), MARKERS, strict=False)
        for (name, values), colour, marker in lines:
            label = None
            if self.criteria:
                values, label = (values - values.min()) / (np.ptp(values) or 1.0), name
            ax.plot(self.alphas, values, color=colour, marker=marker, markersize=4, label=label)
            ax.plot([self.alpha], [values[chosen]], "D", **mark)
            mark["label"] = None
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.xaxis.set_minor_formatter(lambda *_: "")
        worst = "on held-out bags (best: 0, worst: 1)"
        ax.set(
            xlabel="penalty α (right: simpler model)",
            ylabel=worst if self.criteria else "risk on held-out bags",
        )
        add_legend(ax)

    def __str__(self) -> str:
        lines = [f"Penalty {self.alpha:.3g} chosen among {len(self.alphas)}."]
        for alpha, risk in zip(self.alphas, self.criterion, strict=True):
            mark = "  <- chosen" if alpha == self.alpha else ""
            lines.append(f"  {alpha:10.3g}  {risk:.5g}{mark}")
        return "\n".join(lines)


def joint_criterion(risks: Floats) -> Floats:
    """The only criterion (a row), or the sum of the ranks by several."""
    ranks = rankdata(risks, method="min", axis=1)
    return risks[0] if len(risks) == 1 else ranks.sum(axis=0).astype(float)


def searching_model(estimator: Any) -> Any:
    """Find the model that chose among penalties: the estimator, or inside of it."""
    return find_model(estimator, ("alphas_", "selection_risks_", "alpha_"))


def find_model(estimator: Any, names: tuple[str, ...]) -> Any:
    """Find what has some attributes: the estimator, its last step, or what it wraps."""
    if all(hasattr(estimator, name) for name in names):
        return estimator
    last = last_step(estimator)
    inner = last
    if last is estimator:
        # of several learners, the best
        inner = getattr(estimator, "estimator_", getattr(estimator, "best_estimator_", None))
    return None if inner is None else find_model(inner, names)
