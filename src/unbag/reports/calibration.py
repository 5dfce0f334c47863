"""Whether predicted probabilities are what they say, from bags alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from unbag._optional import make_frame
from unbag._text import shown
from unbag.bags.bags import check_bag_target
from unbag.evaluation import calibration_curve
from unbag.evaluation.curves import CalibrationCurve
from unbag.reports.drawing import CLASS_COLOURS, GREY, MARKERS, Display, add_legend


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
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions.
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
            ax.errorbar(
                curve.predicted,
                curve.observed,
                yerr=2 * np.nan_to_num(curve.standard_error),
                color=CLASS_COLOURS[k % len(CLASS_COLOURS)],
                marker=MARKERS[k % len(MARKERS)],
                markersize=5,
                linewidth=1.2,
                elinewidth=1,
                label="estimated, ±2 standard errors" if two else f"class {shown(name, 20)}",
            )
        ax.set(
            xlabel="predicted probability",
            ylabel="proportion of the class" if not two else "proportion of positives",
            xlim=(-0.02, 1.02),
            # room for whiskers, but not for more than a half outside [0, 1]
            ylim=np.clip(ax.get_ylim(), -0.5, 1.5),
        )
        add_legend(ax, loc="upper left")

    def __str__(self) -> str:
        lines = ["predicted  observed (standard error)"]
        for name, curve in self.curves.items():
            if len(self.curves) > 1:
                lines.append(f"class {name}")
            rows = zip(curve.predicted, curve.observed, curve.standard_error, strict=True)
            lines += [f"{p:9.3f}  {o:8.3f} ({e:.3f})" for p, o, e in rows]
        return "\n".join(lines)
