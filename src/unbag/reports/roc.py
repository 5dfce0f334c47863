"""The ROC curve from bags alone, with its band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Floats
from unbag._checks import check_one_each
from unbag._optional import make_frame
from unbag._text import percent
from unbag.evaluation import Estimate, Evaluation
from unbag.evaluation.curves import RocBand
from unbag.evaluation.labelled import LabelledEstimate
from unbag.reports.drawing import BLUE, GREY, Display, add_legend


@dataclass(frozen=True, eq=False, repr=False)
class RocDisplay(Display):
    """A label-free ROC curve, and the true one where labels are known for comparison.

    Attributes
    ----------
    band : RocBand
        The curve with its band.
    auc : Estimate
        The area under it.
    true_curve : (fpr, tpr) or None
        The curve by labels.
    true_auc : float or None
        The area under that.
    """

    band: RocBand
    auc: Estimate
    true_curve: tuple[Floats, Floats] | None = None
    true_auc: float | None = None

    @classmethod
    def from_evaluation(cls, evaluation: Evaluation, labels: ArrayLike | None = None) -> Self:
        """Take the curve of an evaluation.

        Parameters
        ----------
        evaluation : Evaluation
            From `unbag.evaluation.cross_val_evaluate` or `unbag.evaluation.evaluate`.
        labels : array-like of shape (n_instances,), optional
            True labels, if they are known after all; they are drawn for comparison only.

        Returns
        -------
        display : RocDisplay
            The display.
        """
        if evaluation.roc is None:
            raise ValueError("The ROC curve is for two classes, and this evaluation has more.")
        auc = evaluation["roc_auc"]
        if isinstance(auc, LabelledEstimate) and auc.alone is not None:
            auc = auc.alone  # the curve is that of the labelled rows, too
        if labels is None:
            return cls(evaluation.roc, auc)
        from sklearn.metrics import roc_auc_score, roc_curve

        values = np.asarray(labels)
        check_one_each(values, len(evaluation.scores), "labels", "instances", "label")
        names, codes = np.unique(values, return_inverse=True)
        if len(names) != 2:
            raise ValueError(f"labels must be of two classes, and there are {len(names)}.")
        truth = codes == 1
        fpr, tpr, _ = roc_curve(truth, evaluation.scores)
        # a point for every row is more than any picture shows
        grid = np.linspace(0, 1, 501)
        curve = (grid, np.interp(grid, fpr, tpr)) if len(fpr) > len(grid) else (fpr, tpr)
        return cls(evaluation.roc, auc, curve, float(roc_auc_score(truth, evaluation.scores)))

    @property
    def source(self) -> str:
        """What the curve is estimated from."""
        return "labels" if self.auc.assumption == "labels" else "proportions"

    def frame(self) -> Any:
        """One row per rate of false positives: the rate of true positives and its limits."""
        band = self.band
        columns = {"fpr": band.fpr, "tpr": band.tpr, "low": band.low, "high": band.high}
        if self.true_curve is not None:
            columns["true tpr"] = np.interp(band.fpr, *self.true_curve)
        return make_frame(columns)

    def _draw(self, ax: Any) -> None:
        """Draw the curve with its band."""
        band = self.band
        ax.fill_between(
            band.fpr,
            band.low,
            band.high,
            color=BLUE,
            alpha=0.2,
            linewidth=0,
            label="sensitivity range"
            if self.auc.is_range
            else f"{percent(band.confidence_level, None)} band, pointwise",
        )
        label = f"from {self.source} (AUC {self.auc.value:.2f})"
        ax.plot(band.fpr, band.tpr, color=BLUE, label=label)
        if self.true_curve is not None and self.true_auc is not None:
            label = f"with the labels (AUC {self.true_auc:.2f})"
            ink = ax.xaxis.label.get_color()  # to be seen on a ground of any colour
            ax.plot(*self.true_curve, color=ink, linestyle="--", linewidth=1.2, label=label)
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="random", zorder=1)
        ax.set(
            xlabel="false positive rate",
            ylabel="recall (true positive rate)",
            xlim=(-0.01, 1.01),
            ylim=(-0.01, 1.01),
            aspect="equal",
        )
        add_legend(ax, loc="lower right")

    def __str__(self) -> str:
        lines = [f"AUC {self.auc}, from {self.source} alone."]
        if self.true_auc is not None:
            lines.append(f"AUC {self.true_auc:.4f} with the labels.")
        for at in (0.1, 0.2, 0.5):
            k = int(np.argmin(np.abs(self.band.fpr - at)))
            low, high = self.band.low[k], self.band.high[k]
            lines.append(f"  TPR at FPR {at:g}: {self.band.tpr[k]:.3f} ({low:.3f} to {high:.3f})")
        return "\n".join(lines)
