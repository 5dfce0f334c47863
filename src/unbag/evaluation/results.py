"""What an evaluation reports: verdicts, estimates by assumption, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._text import aligned, wrapped
from unbag.evaluation.bag_effects import BagEffect
from unbag.evaluation.curves import RocBand
from unbag.evaluation.held_out import ScoredRows
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.measures import Measure, Sample
from unbag.evaluation.sensitivity import RobustnessValue, SignalName, find_robustness
from unbag.evaluation.uncertainty import Assumption, Estimate, Verdict

_LEADS: dict[Assumption, str] = {
    "label_shift": "Estimates hold under label shift, which these bags do not contradict.",
    "covariate_shift": "Estimates hold under covariate shift, which these bags do not contradict.",
    "either": "Ranges span the estimates under the assumptions that are not rejected, and the "
    "sensitivity range.",
    "sensitivity": "Ranges rest on neither assumption.",
    "labels": "Estimates from the labelled rows, without an assumption on bags.",
}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Accuracy of scores, estimated from bags alone. Print it.

    Attributes
    ----------
    verdict : Verdict
        What the estimates rest on, and whether the bags contradict that.
    estimates : dict of str to Estimate
        For each measure: under the assumption that is not rejected; a range over both, and
        beyond, where label shift is inconclusive; the sensitivity range where neither agrees with
        the bags; from labels, where some rows have them and label shift is not "not_rejected".
    by_assumption : dict of str to dict of str to Estimate
        Under "label_shift", "covariate_shift" and "sensitivity", and from "labels".
    rows : ScoredRows
        What was evaluated.
    measures : dict of str to Measure
        By name.
    roc : RocBand or None
        The ROC curve with its band, for two classes.
    threshold : float
        Above it the positive class is predicted.
    verdicts : dict of str to Verdict
        On "label_shift" and on "covariate_shift".
    effect : BagEffect or None
        Regression of observed on predicted bag proportions.
    signal : {"found", "unknown", "none"}
        Whether rows of a bag carry signal: if unknown, the sensitivity range allows for a relation
        reversed within bags; if scores do not follow the proportions, for any.
    factors : (float, float) or None
        Log-odds within bags relative to the fitted ones, at the ends of the sensitivity range.
    drift : tuple of str
        Differences from the training rows, where a reference was given.
    """

    verdict: Verdict
    estimates: dict[str, Estimate]
    by_assumption: dict[str, dict[str, Estimate]]
    rows: ScoredRows = field(repr=False)
    measures: Mapping[str, Measure] = field(repr=False)
    roc: RocBand | None = None
    threshold: float = 0.0
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    effect: BagEffect | None = None
    signal: SignalName = "found"
    factors: tuple[float, float] | None = None
    drift: tuple[str, ...] = ()

    @property
    def scores(self) -> NDArray[np.float64]:
        """What was evaluated: out-of-fold scores, if they come from `cross_val_evaluate`."""
        return self.rows.sample.scores

    @property
    def log_odds(self) -> NDArray[np.float64] | None:
        """By the probabilities of the model for the same rows; None if it gives none."""
        return self.rows.log_odds.log_odds if self.rows.log_odds.scaled else None

    @property
    def fold(self) -> NDArray[np.intp] | None:
        """The fold that each row was held out in."""
        return self.rows.fold

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return self.rows.sample.bags.n_bags

    @property
    def n_instances(self) -> int:
        """Number of instances."""
        return self.rows.sample.bags.n_instances

    @property
    def tests(self) -> dict[str, LabelShiftTest | str]:
        """Tests of label shift by what was tested, or why there is none."""
        return {check.what: check.test for check in self.rows.checks}

    def __getitem__(self, measure: str) -> Estimate:
        if measure not in self.estimates:
            raise KeyError(f"There is no {measure!r} here; there are {', '.join(self.estimates)}.")
        return self.estimates[measure]

    def robustness_value(self, below: float, measure: str | None = None) -> RobustnessValue:
        """Return how strong a confounder must be to move a measure below a value.

        Under covariate shift except for a confounder, in which bags differ, which no column holds
        and which is correlated with the scores. Its strength is in units of the strongest column.

        Parameters
        ----------
        below : float
            The value.
        measure : str, optional
            One of ``estimates``; by default the first, ``"roc_auc"`` or, of several classes,
            ``"balanced_accuracy"``.

        Returns
        -------
        robustness : RobustnessValue
            With ``value``; print it.

        Examples
        --------
        >>> from unbag import LLPClassifier
        >>> from unbag.datasets import make_gaussian_bags
        >>> from unbag.evaluation import cross_val_evaluate
        >>> data = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
        >>> evaluation = cross_val_evaluate(LLPClassifier(kernel=None), data.X, data.y)
        >>> weak, strong = (evaluation.robustness_value(below=auc) for auc in (0.85, 0.75))
        >>> 0 < weak.value < strong.value
        True
        """
        name, one, own = self._measured(measure)
        held_out, checks = self.rows.log_odds, self.rows.checks
        columns = next((check.columns for check in checks if check.columns is not None), None)
        low, _ = self.by_assumption["covariate_shift"][name].shown_limits
        return replace(find_robustness(name, below, held_out, one, own, columns), low=low)

    def by_factor(
        self, measure: str | None = None, factors: Sequence[float] = (0, 1 / 3, 1 / 2, 1, 2, 3)
    ) -> dict[float, float]:
        """Estimate a measure if log-odds within bags are wrong by each of some factors.

        Parameters
        ----------
        measure : str, optional
            As in `robustness_value`.
        factors : sequence of float, default=(0, 1/3, 1/2, 1, 2, 3)
            1 is covariate shift with the fitted log-odds, 0 no relation within bags, and what is
            negative a reversed one.

        Returns
        -------
        values : dict of float to float
        """
        _, one, own = self._measured(measure)
        return {float(kappa): self.rows.log_odds.value_at(kappa, one, own) for kappa in factors}

    def _measured(self, measure: str | None) -> tuple[str, Measure, Sample]:
        name = next(iter(self.estimates)) if measure is None else measure
        self[name]  # or a KeyError that names those there are
        if not self.rows.log_odds.scaled or not self.verdicts:
            raise ValueError("This takes log-odds of rows in bags, which this evaluation has not.")
        return name, self.measures[name], self.rows.of(name)

    def condition(self, measure: str) -> str:
        """Say when the value that stands in a range is right.

        Parameters
        ----------
        measure : str
            One of ``estimates``.

        Returns
        -------
        condition : str
        """
        found, of_label_shift = self[measure], self.by_assumption["label_shift"][measure]
        if found.assumption == "either" and found.value == of_label_shift.value:
            return "if label shift holds"
        return "if log-odds are calibrated within bags"

    @property
    def _first(self) -> Estimate:
        return next(iter(self.estimates.values()))

    @property
    def lead(self) -> str:
        """What the estimates rest on, in a sentence."""
        return _LEADS[self._first.assumption]

    @property
    def sensitivity(self) -> str:
        """The range of log-odds within bags that the sensitivity range is for, in a sentence."""
        if self.signal == "none" or self.factors is None:
            return "Sensitivity range: any log-odds within bags, since bags determine none."
        low, high = self.factors
        text = (
            f"Sensitivity range: log-odds within bags between {low:.2g} and {high:.2g} times the "
            "fitted ones"
        )
        return f"{text}." if self.signal == "found" else f"{text}: no signal within bags is found."

    def frame(self) -> Any:
        """One row per measure, as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            With the columns ``value``, ``standard_error``, ``low``, ``high`` and ``assumption``.
        """
        import pandas as pd

        columns = ("value", "standard_error", "low", "high", "assumption")
        rows = {name: [getattr(e, c) for c in columns] for name, e in self.estimates.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def __str__(self) -> str:
        first, drift = self._first, ["\n".join(wrapped(text)) for text in self.drift]
        verdicts = [*map(str, (self.verdict, *self.other_verdicts)), *drift]
        n_labels = getattr(first, "n_labels", 0)
        what = (
            f"Estimated from the proportions of {self.n_bags:,} bags ({self.n_instances:,} rows) "
            + (f"and {n_labels:,} labels" if n_labels and self.verdicts else "without labels")
        )
        if self.fold is not None:
            what += f", in {self.fold.max() + 1} folds; each bag is scored by a model of other bags"
        if n_labels and self.verdicts:
            return "\n".join([*wrapped(f"{what}. {self.lead}"), *self._table(), "", *verdicts])
        lines = wrapped(f"{what}.")
        if self.verdicts:
            ranges = self.ranges or self.estimates is not self.by_assumption["label_shift"]
            lines += wrapped(f"{self.lead} {self.sensitivity}" if ranges else self.lead)
        return "\n".join([*verdicts, "", *lines, *self._table()])

    @property
    def other_verdicts(self) -> list[Verdict]:
        """Verdicts on what estimates do not rest on, each with the reasons that are its own."""
        rests, said = self.verdict.assumption, self.verdict.reasons
        shown = "label_shift" if rests in ("either", "sensitivity") else rests
        return [
            replace(one, reasons=tuple(text for text in one.reasons if text not in said), advice=())
            for key, one in self.verdicts.items()
            if key != shown
        ]

    def _table(self) -> list[str]:
        first = self._first
        interval = "range" if first.is_range else f"{100 * first.confidence_level:g}% interval"
        of_labels = {name: getattr(one, "alone", None) for name, one in self.estimates.items()}
        alone = {name: one for name, one in of_labels.items() if one is not None}
        columns = {"sensitivity range": self.ranges, "from the labels alone": alone}
        shown = {name: found for name, found in columns.items() if found}
        value = self.condition(next(iter(self.estimates))) if first.is_range else "estimate"
        rows = [["", value, interval, *shown]]
        for name, one in self.estimates.items():
            value = "undefined" if np.isnan(one.value) else f"{one.value:.4f}"
            limits = [each.shown_limits for each in (one, *(own[name] for own in shown.values()))]
            texts = ["" if np.isnan(low) else f"{low:.4f} to {high:.4f}" for low, high in limits]
            rows.append([name, value, *texts])
        return list(aligned(rows))

    @property
    def ranges(self) -> dict[str, Estimate]:
        """The sensitivity range to show with estimates that rest on an assumption; else empty."""
        return {} if self._first.is_range else self.by_assumption.get("sensitivity", {})
