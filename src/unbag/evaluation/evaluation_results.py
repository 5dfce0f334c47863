"""What an evaluation found: a verdict, what is said of each measure, and what else could be."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._text import WIDTH
from unbag.evaluation.bag_effects import BagEffect
from unbag.evaluation.curves import RocBand
from unbag.evaluation.identification import IdentificationBounds
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.results import Estimate, Verdict, find_estimate
from unbag.evaluation.witnesses import Witness
from unbag.evaluation.worlds import STRAY

# What estimates rest on, in words.
_BASES = {
    "looks": "if a class looks the same in all bags",
    "odds": "if rows that look the same have the same odds in all bags",
    "any": f"if scores tell rows of a bag apart between {STRAY:g} times worse and {STRAY:g} times "
    "better than bags suggest",
}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good scores are, estimated from bags alone.

    Attributes
    ----------
    verdict : Verdict
        Whether the bags bear out what estimates without labels assume.
    estimates : dict of str to Estimate
        What can be said of each measure: by the weights W where the verdict is "supported", a
        range that needs no such assumption where it is "refuted", and what spans both where it is
        "doubtful"; from labels, where there are some and the verdict is not "supported".
    worlds : dict of str to dict of str to Estimate
        The same as each kind of bags would have it: "looks", if classes look the same in all
        bags; "odds", if rows of the same look have the same odds in all of them; "any", with room
        for effects of bags that go along with scores; "labels", from rows of known label.
    roc : RocBand or None
        The ROC curve with its band, for two classes.
    scores : ndarray
        What was evaluated: out-of-fold scores, if they come from `cross_val_evaluate`.
    fold : ndarray of shape (n_instances,) or None
        The fold that each row was held out in.
    threshold : float
        Above it the positive class is predicted.
    n_bags : int
        Number of bags.
    n_instances : int
        Number of instances.
    witnesses : tuple of Witness
        Tests of the assumption, on scores and on features.
    effect : BagEffect or None
        How the shares of held-out bags follow what the scores promise.
    possible : dict of str to IdentificationBounds
        What each measure of these very rows can be at all, over all labels that agree with the
        counts.
    log_odds : ndarray or None
        What the probabilities of the model say of the same rows; None if it gives none.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import evaluate
    >>> data = make_gaussian_bags(n_bags=30, bag_size=30, n_features=1, random_state=0)
    >>> evaluation = evaluate(data.y, data.X[:, 0], n_draws=100)
    >>> evaluation.verdict.name, evaluation.n_bags
    ('supported', 30)
    >>> sorted(evaluation.estimates)[:3]
    ['accuracy', 'balanced_accuracy', 'f1']
    """

    verdict: Verdict
    estimates: dict[str, Estimate]
    worlds: dict[str, dict[str, Estimate]]
    roc: RocBand | None
    scores: NDArray[np.float64]
    fold: NDArray[np.intp] | None
    threshold: float
    n_bags: int
    n_instances: int
    witnesses: tuple[Witness, ...] = ()
    effect: BagEffect | None = None
    possible: dict[str, IdentificationBounds] = field(default_factory=dict)
    log_odds: NDArray[np.float64] | None = None

    def __getitem__(self, measure: str) -> Estimate:
        return find_estimate(self.estimates, measure)

    @property
    def tests(self) -> dict[str, LabelShiftTest | str]:
        """Tests of the assumption by what was tested, or why there is none."""
        return {witness.what: witness.test for witness in self.witnesses}

    def frame(self) -> Any:
        """One row per measure, as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            With the columns ``value``, ``standard_error``, ``low``, ``high`` and ``basis``.
        """
        import pandas as pd

        columns = ("value", "standard_error", "low", "high", "basis")
        rows = {name: [getattr(e, c) for c in columns] for name, e in self.estimates.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def __str__(self) -> str:
        level = next(iter(self.estimates.values())).level
        width = max(map(len, self.estimates))
        folds = (
            ""
            if self.fold is None
            else f", in {self.fold.max() + 1} folds, each scored by a model that did not see it"
        )
        lines = [
            str(self.verdict),
            "",
            f"Estimated from the proportions of {self.n_bags} bags "
            f"({self.n_instances} instances) without labels{folds}.",
            *self._basis_lines(),
            f"{'':{width}}  estimate  {100 * level:g}% interval",
        ]
        for name, e in self.estimates.items():
            low, high = e.shown_limits
            lines.append(f"{name:{width}}  {e.value:8.4f}  {low:.4f} to {high:.4f}")
        return "\n".join(lines)

    def _basis_lines(self) -> list[str]:
        basis = next(iter(self.estimates.values())).basis
        if basis == "labels" and len(self.worlds) > 1:
            return ["From the rows of known label, which hold whatever the bags are:"]
        if basis == "any":
            return textwrap.wrap(f"What holds {_BASES['any']}:", WIDTH)
        if basis == "both":
            text = f"What holds either {_BASES['looks']}, or {_BASES['any']}:"
            return textwrap.wrap(text, WIDTH)
        return []


def what_to_say(verdict: Verdict, worlds: dict[str, dict[str, Estimate]]) -> dict[str, Estimate]:
    """Choose, by the verdict, what is said of each measure."""
    if verdict.name == "supported":
        said = worlds["looks"]
    elif "labels" in worlds:
        said = worlds["labels"]
    elif verdict.name == "refuted":
        said = worlds["any"]
    else:
        said = {name: _span(one, worlds["any"][name]) for name, one in worlds["looks"].items()}
    return {name: replace(one, verdict=verdict) for name, one in said.items()}


def _span(looks: Estimate, other: Estimate) -> Estimate:
    """What holds whichever of two estimates is right."""
    low, high = min(looks.low, other.low), max(looks.high, other.high)
    possible = 0 <= looks.value <= 1 or not looks.bounded
    value = looks.value if possible else other.value
    error = looks.standard_error if possible else other.standard_error
    return Estimate(value, error, low, high, looks.level, looks.bounded, "both")
