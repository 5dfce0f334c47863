"""Whether a model still holds when new bags come in: counts against promise, and rows.

A model that was trained on bags promises two things of new ones: that its probabilities add up to
their counts, and that shares and mean probabilities of bags lie on the line on which they lay in
training (`unbag.evaluation.bag_lines`), up to chance, known noise and the effect that bags had
then. `make_monitoring_reference` keeps what is needed of the training bags, in some kilobytes; `monitor` holds
new bags against it.

- *holds*: nothing speaks against either promise;
- *drifts*: totals are others, or the line has moved or got steeper, but bags are ordered as well as
  before: other shares of the classes, told by ``class_prior``, put that right;
- *broken*: the line is flatter, bags scatter more around it, or a figure of quality that was
  estimated without labels has fallen: train again.

Each of five tests (totals, level, slope, scatter, quality) is made at a fifth of ``level``, so that
nothing being wrong raises an alarm in 5% of all cases at most; how often it does, and what is found
how often, was simulated (results/monitoring.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import expit, softmax

from unbag._arrays import Floats
from unbag._checks import check_inside
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import move_chances
from unbag.evaluation.bag_effects import FEWEST_BAGS, estimate_bag_effect
from unbag.evaluation.bag_lines import (
    BagLine,
    ClassInBags,
    Direction,
    choose_line,
    hold_against,
)
from unbag.evaluation.monitoring_results import ClassMonitoring, Monitoring, Quality
from unbag.evaluation.row_drift import compare_rows, outside_of, remember_columns, remember_rows
from unbag.model_selection.fitted import check_gives_chances

_ROUNDS = 200
_SETTLED = 1e-10


@dataclass(frozen=True)
class ClassReference:
    """A class in the training bags, as models said that did not see them.

    Attributes
    ----------
    line : BagLine
        Of shares and mean chances of bags.
    gap, gap_error : float
        By how much shares lay above mean chances over all rows, and its standard error.
    rows : mapping
        Tenths of the chances, for the population stability index.
    """

    line: BagLine
    gap: float
    gap_error: float
    rows: Mapping[str, Any]


@dataclass(frozen=True)
class Reference:
    """What is kept of the training bags, to hold new ones against; made by `make_monitoring_reference`.

    Attributes
    ----------
    n_bags : int
        Number of bags.
    class_shares : tuple of float
        That the model's probabilities are for.
    classes : tuple of ClassReference
        The second of two classes, or each of several.
    columns : mapping of str to (low, high)
        Range of each column of numbers.

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import Reference, make_monitoring_reference
    >>> data = make_gaussian_bags(n_bags=20, bag_size=30, random_state=0)
    >>> model = LLPEnsembleClassifier("linear").fit(data.X, data.y)
    >>> reference = make_monitoring_reference(model, data.X, data.y)
    >>> reference.n_bags
    20
    >>> Reference.from_dict(reference.to_dict()) == reference
    True
    """

    n_bags: int
    class_shares: tuple[float, ...]
    classes: tuple[ClassReference, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the classes that are looked at."""
        return _numbers(len(self.class_shares))

    @property
    def world(self) -> Direction:
        """Which world the training bags leaned to: classes keep their look, or rows their odds."""
        return self.classes[0].line.direction

    def to_dict(self) -> dict[str, Any]:
        """Give plain numbers, lists and mappings, for a file.

        Returns
        -------
        kept : dict
            Plain numbers, lists and mappings.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave.

        Parameters
        ----------
        kept : mapping
            The dictionary.

        Returns
        -------
        reference : Reference
            The same as before.
        """
        classes = tuple(
            ClassReference(**{**one, "line": BagLine(**one["line"])}) for one in kept["classes"]
        )
        return cls(kept["n_bags"], tuple(kept["class_shares"]), classes, kept["columns"])


def make_monitoring_reference(
    model: Any, X: Any, y: Any, *, chances: ArrayLike | None = None
) -> Reference:
    """Keep what is needed of the training bags to hold new ones against them.

    Parameters
    ----------
    model : classifier or pipeline
        Fitted to X and y with the class prior "empirical", with ``out_of_fold_scores_``, such as
        `unbag.LLPEnsembleClassifier` or the pipeline of `unbag.tables.make_classifier`.
    X : array or data frame with n_instances rows
        The rows of training.
    y : structured array from `unbag.bag_target`
        Their bags.
    chances : array-like of shape (n_instances, n_classes), optional
        For other models: probabilities of each row by a model that did not see its bag.

    Returns
    -------
    reference : Reference
        What to give to `monitor`; ``to_dict`` makes it something for a file.

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation.monitoring import make_monitoring_reference, monitor
    >>> april, may = (make_gaussian_bags(n_bags=40, bag_size=40, random_state=s) for s in (0, 1))
    >>> model = LLPEnsembleClassifier("linear").fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> monitor(model, may.X, may.y, reference=reference).verdict
    'holds'
    """
    bags = check_bag_target(y)
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"A reference takes {FEWEST_BAGS} bags at least, and there are {n_bags}.")
    table = _held_out_chances(model, bags) if chances is None else np.asarray(chances, float)
    effect = estimate_bag_effect(bags, table.T)
    classes = []
    for number in _numbers(bags.n_classes):
        found = ClassInBags.of(bags, table[:, number], number)
        line = choose_line(found, effect.leans_to_looks)
        classes.append(
            ClassReference(line, *found.total_gap(), remember_rows(bags, table[:, number]))
        )
    shares = tuple(map(float, bags.class_shares))
    return Reference(n_bags, shares, tuple(classes), remember_columns(X))


def monitor(
    model: Any,
    X: Any,
    y: Any,
    *,
    reference: Reference,
    quality: Quality | None = None,
    level: float = 0.05,
    tolerance: float = 0.05,
    class_names: Sequence[Any] | None = None,
) -> Monitoring:
    """Say whether a model still holds, from the counts of new bags.

    Parameters
    ----------
    model : classifier or pipeline with ``predict_proba``
        The model to look after.
    X : array or data frame with n_instances rows
        The new rows.
    y : structured array from `unbag.bag_target`
        Their bags; five at least.
    reference : Reference
        From `make_monitoring_reference`, on the bags of training.
    quality : Quality, optional
        A figure such as the AUC, estimated without labels on the bags of training (held out) and
        on the new ones.
    level : float, default=0.05
        How often there may be an alarm if nothing is wrong, over all tests together.
    tolerance : float, default=0.05
        Difference of totals that does not matter, however sure it is, as a share; of slopes, twice
        as much.
    class_names : sequence, optional
        What to call the classes, in their order.

    Returns
    -------
    found : Monitoring
        With ``verdict``, ``classes``, ``bags``, ``class_prior``; print it.

    Examples
    --------
    The bags of May hold more positives than those of April did:

    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation.monitoring import make_monitoring_reference, monitor
    >>> april = make_gaussian_bags(40, 50, proportions=(0.1, 0.4), random_state=0)
    >>> may = make_gaussian_bags(40, 50, proportions=(0.4, 0.7), random_state=1)
    >>> model = LLPEnsembleClassifier("linear").fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> found = monitor(model, may.X, may.y, reference=reference)
    >>> found.verdict
    'drifts'
    >>> bool(abs(found.class_prior[1] - may.labels.mean()) < 0.05)
    True
    """
    bags = check_bag_target(y)
    _check(bags, reference, level, tolerance)
    check_gives_chances(model)
    if class_names is not None:
        bags = replace(bags, names=tuple(map(str, class_names)))
    chances = np.asarray(model.predict_proba(X), dtype=float)
    before = np.array(reference.class_shares)
    prior = _prior_for_totals(chances, before, bags)
    moved = move_chances(chances, before, prior)
    classes = tuple(
        _hold_class(bags, number, one, chances[:, number], moved[:, number])
        for number, one in zip(reference.numbers, reference.classes, strict=True)
    )
    return Monitoring(
        classes=classes,
        bags=_by_bag(bags, reference, classes, chances),
        class_prior=tuple(map(float, prior)),
        quality=quality,
        outside=outside_of(reference.columns, X),
        level=level,
        tolerance=tolerance,
    )


def _numbers(n_classes: int) -> list[int]:
    return [1] if n_classes == 2 else list(range(n_classes))


def _held_out_chances(model: Any, bags: Bags) -> Floats:
    inner = model[-1] if hasattr(model, "steps") else model
    if not hasattr(inner, "out_of_fold_scores_"):
        raise ValueError(
            f"{type(inner).__name__} has no out_of_fold_scores_; give probabilities of models that "
            "did not see the bags as chances."
        )
    if not np.allclose(inner.class_prior_, bags.class_shares):
        raise ValueError(
            "Probabilities must be for the shares of the training bags to be held against counts: "
            "fit the model with class_prior='empirical'."
        )
    scores = np.asarray(inner.out_of_fold_scores_, dtype=float)
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    return np.asarray(softmax(scores, axis=1))


def _check(bags: Bags, reference: Reference, level: float, tolerance: float) -> None:
    check_inside(level, "level")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must not be negative, as {tolerance!r} is.")
    n_classes = len(reference.class_shares)
    if bags.n_classes != n_classes:
        raise ValueError(
            f"The reference is for {n_classes} classes, and the target has {bags.n_classes}."
        )
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(
            f"Whether a model holds takes {FEWEST_BAGS} new bags at least, and there are {n_bags}."
        )


def _prior_for_totals(chances: Floats, before: Floats, bags: Bags) -> Floats:
    """Shares of the classes at which chances add up to the totals."""
    least = 0.5 / bags.n_instances
    totals = np.clip(bags.class_shares, least, None)
    totals = totals / totals.sum()
    prior = np.clip(before, least, None)
    for _ in range(_ROUNDS):
        step = totals / np.maximum(move_chances(chances, before, prior).mean(axis=0), 1e-300)
        prior = prior * step
        prior = prior / prior.sum()
        if np.abs(step - 1).max() < _SETTLED:
            break
    return prior


def _hold_class(
    bags: Bags, number: int, before: ClassReference, chances: Floats, moved: Floats
) -> ClassMonitoring:
    found = ClassInBags.of(bags, chances, number)
    line = before.line
    held = hold_against(line, found)
    if line.direction == "odds":
        # what other totals do to the line of odds is undone before its slope is looked at
        now = ClassInBags.of(bags, moved, number)
        centred = replace(line, centre=now.mean, intercept=now.share, share=now.share)
        again = hold_against(centred, now)
        names = ("slope", "slope_error", "slope_p", "scatter", "expected", "scatter_p")
        held = held._replace(**{name: getattr(again, name) for name in names})
    gap, error = found.total_gap()
    both = float(np.hypot(error, before.gap_error))
    totals_p = 2 * stats.t.sf(abs(gap - before.gap) / both, len(found.sizes) - 1)
    mean = max(found.mean, 1e-12)
    rows = float(found.sizes.sum())
    return ClassMonitoring(
        name=bags.class_names[number],
        promised=rows * found.mean,
        found=rows * found.share,
        ratio=found.share / mean,
        ratio_error=both / mean,
        totals_p=float(totals_p),
        line=line,
        held=held,
        rows=compare_rows(before.rows, bags, chances),
    )


def _by_bag(
    bags: Bags, reference: Reference, classes: tuple[ClassMonitoring, ...], chances: Floats
) -> dict[str, NDArray[Any]]:
    """One row per bag, of the class where its residual is largest."""
    used = np.flatnonzero(~bags.labelled)
    z = np.stack([one.held.z for one in classes])
    chosen = np.abs(z).argmax(axis=0)
    numbers = np.array(reference.numbers)[chosen]
    means = bags.means(chances.T).T[used, numbers]
    promised = np.array(
        [float(classes[k].line.shares_at(mean)) for k, mean in zip(chosen, means, strict=True)]
    )
    return {
        "bag": bags.ids[used],
        "size": bags.sizes[used],
        "class": bags.class_names[numbers],
        "probability": means,
        "promised": promised,
        "found": bags.proportions[used, numbers],
        "z": z[chosen, np.arange(len(used))],
    }
