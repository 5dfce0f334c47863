"""Scored instances in bags: what every label-free measure is computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats
from unbag.bags.bags import Bags, check_bag_target
from unbag.weights import decontamination_weights

ScoreKind = Literal["scores", "probabilities", "predictions"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores of instances whose bags have known proportions."""

    bags: Bags
    scores: Floats  # (n_instances,) or (n_instances, n_classes)
    kind: ScoreKind = "scores"  # type of the scores

    @cached_property
    def weights(self) -> Floats:
        """W, which turns means over bags into means over classes: shape (n_bags, n_classes)."""
        return decontamination_weights(self.bags)

    def row_weights(self) -> Iterator[Floats]:
        """W spread over instances, W[i, c]/n_i, class after class: they take much memory."""
        for of_bags in (self.weights / self.bags.sizes[:, None]).T:
            yield of_bags[self.bags.index]

    def class_means(self, values: Floats) -> Floats:
        """Estimate E[h(X) | class c]; the last axis runs over instances, then over classes."""
        return self.bags.means(values) @ self.weights

    def with_labelled_rows_apart(self) -> Sample:
        """Count every row of known label as an independent draw, whatever the bag model."""
        if not self.bags.labelled.any():
            return self
        return replace(self, bags=self.bags.with_labelled_rows_apart()[0])

    def check_order(self) -> None:
        """Refuse predicted classes, which put no order between rows."""
        if self.kind == "predictions":
            raise ValueError(
                "All scores are class labels, as model.predict(X) gives them, and labels rank no "
                "rows; give model.decision_function(X)."
            )

    def check_threshold(self, threshold: float) -> None:
        """Refuse predicted classes and probabilities that a threshold does not divide."""
        if self.kind == "predictions" and not self.scores.min() < threshold < self.scores.max():
            middle = (self.scores.min() + self.scores.max()) / 2
            raise ValueError(
                "All scores are class labels, as model.predict(X) gives them, and the threshold "
                f"{threshold:g} is not between them; give model.decision_function(X), or "
                f"threshold={middle:g}."
            )
        if self.kind == "probabilities" and threshold == 0:
            raise ValueError(
                "All scores lie between 0 and 1, as probabilities do, and the threshold is 0, so "
                "that all would be predicted positive; give model.decision_function(X), or "
                "threshold=0.5 for probabilities. (Two columns, one for each class, are never "
                "taken for probabilities.)"
            )

    def check_scale(self) -> None:
        """Refuse what a loss would not understand."""
        if self.kind != "scores":
            raise ValueError(
                f"All scores look like {self.kind}, and a loss is one of decision values; give "
                "model.decision_function(X), or see brier_score_loss for probabilities. (Two columns, "
                "one for each class, are never taken for them.)"
            )


def make_sample(
    y: Any, scores: ArrayLike, *, binary: str | None = None, trusted: bool = False
) -> Sample:
    """Check scores against the bags they belong to."""
    bags = check_bag_target(y)
    values = _as_numbers(scores)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != bags.n_instances:
        raise ValueError(
            f"There are {bags.n_instances} instances but scores of shape {values.shape}."
        )
    if values.ndim == 2 and values.shape[1] != bags.n_classes:
        raise ValueError(f"{bags.n_classes} classes need as many columns of scores.")
    what = "A single column of scores" if values.ndim == 1 else binary
    if what is not None and bags.n_classes != 2:
        raise ValueError(f"{what} is for two classes and there are {bags.n_classes}.")
    kind: ScoreKind = "scores" if trusted or values.ndim == 2 else _kind(values, bags.classes)
    if values.ndim == 2 and bags.n_classes == 2:
        values = values[:, 1] - values[:, 0]
    check_finite(values)
    return Sample(bags, values, kind)


def check_finite(scores: Floats) -> None:
    """Refuse scores that are no numbers."""
    if not np.isfinite(scores).all():
        raise ValueError("Scores must be finite numbers.")


def check_probabilities_range(probabilities: Floats) -> None:
    """Refuse what is no probability."""
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError("Probabilities must lie between 0 and 1.")


def as_columns(scores: Floats) -> Floats:
    """Scores of two classes as a column for each, which nobody takes for probabilities."""
    return np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores


def _as_numbers(scores: ArrayLike) -> Floats:
    try:
        return np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "Scores must be numbers; give model.decision_function(X), not model.predict(X)."
        ) from None


def _kind(values: Floats, classes: NDArray[Any]) -> ScoreKind:
    """Predicted classes and probabilities from scores; a constant may be anything."""
    if len(values) == 0 or values.min() == values.max():
        return "scores"
    # classes named by text have the numbers 0, 1, ... as well
    labels = classes if classes.dtype.kind in "biuf" else np.arange(len(classes))
    if np.isin(values, labels.astype(float)).all():
        return "predictions"
    return "probabilities" if values.min() >= 0 and values.max() <= 1 else "scores"
