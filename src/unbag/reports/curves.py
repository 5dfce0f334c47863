"""Curves from bags alone: ROC with its band, and whether probabilities are calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score, roc_curve

from unbag._arrays import Floats
from unbag._checks import check_one_each
from unbag._optional import make_frame
from unbag._text import percent, shown
from unbag.bags.bags import check_bag_target
from unbag.evaluation import Estimate, Evaluation, calibration_curve
from unbag.evaluation.curves import CalibrationCurve, RocBand
from unbag.evaluation.labelled import LabelledEstimate
from unbag.reports.drawing import BLUE, CLASS_COLOURS, GREY, MARKERS, Display, add_legend


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
        values = np.asarray(labels)
        check_one_each(values, len(evaluation.scores), "labels", "instances", "label")
        names, truth = np.unique(values, return_inverse=True)
        if len(names) != 2:
            raise ValueError(f"labels must be of two classes, and there are {len(names)}.")
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
        label = f"{percent(band.confidence_level, None)} band, pointwise"
        label = "sensitivity range" if self.auc.is_range else label
        between = band.fpr, band.low, band.high
        ax.fill_between(*between, color=BLUE, alpha=0.2, linewidth=0, label=label)
        label = f"from {self.source} (AUC {self.auc.value:.2f})"
        ax.plot(band.fpr, band.tpr, color=BLUE, label=label)
        if self.true_curve is not None and self.true_auc is not None:
            label = f"with the labels (AUC {self.true_auc:.2f})"
            ink = ax.xaxis.label.get_color()  # to be seen on a ground of any colour
            ax.plot(*self.true_curve, color=ink, linestyle="--", linewidth=1.2, label=label)
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="random", zorder=1)
        ax.set(xlabel="false positive rate", ylabel="recall (true positive rate)", aspect="equal")
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
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


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationDisplay(Display):
    """Predicted probabilities against estimated shares, in bins of similar probability.

    Attributes
    ----------
    curves : dict of str to CalibrationCurve
        The curve of the positive class, or of each of several classes, by its name.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import CalibrationDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> probability = 1 / (1 + np.exp(-2 * data.X[:, 0]))
    >>> display = CalibrationDisplay.from_data(data.y, probability, n_bins=5)
    >>> list(display.frame().columns)
    ['class', 'predicted', 'observed', 'standard_error', 'count']
    """

    curves: dict[str, CalibrationCurve]

    @classmethod
    def from_data(cls, y: Any, probabilities: ArrayLike, **options: Any) -> Self:
        """Compare probabilities with the bags, which the model should not have been trained on.

        Parameters
        ----------
        y : as in `calibration_curve`
        probabilities : array-like of shape (n_instances,) or (n_instances, n_classes)
            Probabilities of the second of two classes, or of every class.
        **options
            Of `unbag.evaluation.calibration_curve`, such as ``n_bins``.

        Returns
        -------
        display : CalibrationDisplay
            The display.
        """
        bags = check_bag_target(y)
        wanted = list(zip(bags.class_names, bags.classes, strict=True))
        curves = {
            shown(name): calibration_curve(y, probabilities, pos_label=one, **options)
            for name, one in (wanted[1:] if len(wanted) == 2 else wanted)
        }
        return cls(curves)

    @property
    def agreement(self) -> tuple[int, int, int, float]:
        """How many bins agree within two standard errors, and how far that goes.

        After these: all bins, those that would agree with one probability for all rows, and two
        standard errors of the middle bin.
        """
        known = [c for c in self.curves.values() if np.isfinite(c.standard_error).all()]
        if not known:
            return 0, 0, 0, np.nan
        means = [np.full(len(c.count), np.average(c.predicted, weights=c.count)) for c in known]
        fields = ("predicted", "observed", "standard_error")
        predicted, observed, error = (
            np.concatenate([getattr(c, f) for c in known]) for f in fields
        )
        agree, alike = (
            int((np.abs(observed - one) <= 2 * error).sum())
            for one in (predicted, np.concatenate(means))
        )
        return agree, len(error), alike, float(2 * np.median(error))

    def frame(self) -> Any:
        """One row per class and bin."""
        fields = ("predicted", "observed", "standard_error", "count")
        names = [np.repeat(name, len(c.predicted)) for name, c in self.curves.items()]
        columns = {
            field: np.concatenate([getattr(c, field) for c in self.curves.values()])
            for field in fields
        }
        return make_frame({"class": np.concatenate(names), **columns})

    def _draw(self, ax: Any) -> None:
        """Draw observed shares over predicted probabilities."""
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="as predicted", zorder=1)
        two = len(self.curves) == 1
        for k, (name, curve) in enumerate(self.curves.items()):
            error = 2 * np.nan_to_num(curve.standard_error)
            ax.errorbar(
                curve.predicted,
                curve.observed,
                yerr=error,
                color=CLASS_COLOURS[k % len(CLASS_COLOURS)],
                marker=MARKERS[k % len(MARKERS)],
                markersize=5,
                linewidth=1.2,
                elinewidth=1,
                label="estimated, ±2 standard errors" if two else f"class {shown(name, 20)}",
            )
        what = "positives" if two else "the class"
        ax.set(xlabel="predicted probability", ylabel=f"proportion of {what}", xlim=(-0.02, 1.02))
        # room for whiskers, but not for more than a half outside [0, 1]
        ax.set_ylim(np.clip(ax.get_ylim(), -0.5, 1.5))
        add_legend(ax, loc="upper left")

    def __str__(self) -> str:
        lines = ["predicted  observed (standard error)"]
        for name, curve in self.curves.items():
            if len(self.curves) > 1:
                lines.append(f"class {name}")
            rows = zip(curve.predicted, curve.observed, curve.standard_error, strict=True)
            lines += [f"{p:9.3f}  {o:8.3f} ({e:.3f})" for p, o, e in rows]
        return "\n".join(lines)
