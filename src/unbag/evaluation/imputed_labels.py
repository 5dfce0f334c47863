"""Labelled rows, and imputations at the labels of all others that agree with the counts of bags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unbag._arrays import Bools, Floats, Ints
from unbag._outputs import probabilities_of_all
from unbag.bags.bags import Bags
from unbag.bags.targets import read_labels
from unbag.defaults import FEWEST_LABELS
from unbag.evaluation.measures import Sample
from unbag.observations.count_likelihood import label_posteriors

# How far scores, and ranks in their place, are scaled at most to become log-odds.
_STRETCHES = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0, 9.0)
_N_FOLDS = 10

# Scores that are turned into imputations at the same time.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Draw:
    """The labelled rows, with their class numbers and weights, and the bags they were drawn from.

    Weights are one over the probability that a row was drawn, scaled to sum to the number of all rows.
    """

    rows: Ints
    labels: NDArray[np.int64]
    weights: Floats
    bags: Bags

    @cached_property
    def of_class(self) -> Floats:
        """Whether each row is of each class: shape (n_classes, n_labels)."""
        return (self.labels == np.arange(self.bags.n_classes)[:, None]).astype(float)


def draw_of(sample: Sample, labels: ArrayLike | None, weights: ArrayLike | None) -> Draw:
    """Read which rows were labelled, and how likely that was."""
    bags = sample.bags
    if labels is None:
        known = np.where(bags.labelled[bags.index], bags.proportions.argmax(axis=1)[bags.index], -1)
        bags = _all_in_one(bags)
    else:
        known = read_labels(labels)
        if len(known) != bags.n_instances:
            raise ValueError(f"There are {bags.n_instances} instances but {len(known)} labels.")
    rows = np.flatnonzero(known >= 0)
    if not len(rows):
        raise ValueError("No row has a label: give labels, with NaN for the rows without one.")
    if known.max() >= bags.n_classes:
        raise ValueError(f"Label {known.max()} is none of the {bags.n_classes} classes 0, 1, ...")
    counts = np.bincount(known[rows], minlength=bags.n_classes)
    if counts.min() < FEWEST_LABELS:
        raise ValueError(
            f"Of class {bags.class_names[counts.argmin()]} there are {counts.min()} labels, and at "
            f"least {FEWEST_LABELS} of every class are needed: label more rows."
        )
    return Draw(rows, known[rows], _row_weights(weights, rows, bags.n_instances), bags)


def _row_weights(weights: ArrayLike | None, rows: Ints, n: int) -> Floats:
    """Weights of labelled rows, scaled to sum to the number of all rows."""
    if weights is None:
        return np.full(len(rows), n / len(rows))
    given = np.asarray(weights, dtype=float)
    if given.shape != (n,):
        raise ValueError(f"There are {n} instances but weights of shape {given.shape}.")
    given = given[rows]
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError("The weight of a labelled row must be a positive number.")
    return given * (n / given.sum())


def _all_in_one(bags: Bags) -> Bags:
    """One bag of all rows: what is known where labelled rows have left their bags."""
    noise = None
    if bags.noise is not None:
        share = (bags.sizes / bags.n_instances)[:, None, None]
        noise = np.sum(share**2 * bags.noise, axis=0)[None]
    return Bags(
        index=np.zeros(bags.n_instances, dtype=np.intp),
        ids=np.array(["all rows"], dtype=object),
        sizes=np.array([bags.n_instances]),
        proportions=bags.class_shares[None],
        classes=bags.classes,
        labelled=np.zeros(1, dtype=bool),
        noise=noise,
        names=bags.names,
    )


class Imputation(NamedTuple):
    """Imputations at all labels, and the labelled rows that they were not chosen by."""

    probabilities: Floats  # (n_classes, n_instances)
    unseen: Bools  # (n_labels,)


class Imputations(NamedTuple):
    """The imputations under which all labels are likeliest, and those without each tenth of them."""

    probabilities: Floats
    folds: list[Imputation]


class Candidates(Sequence[Floats]):
    """Imputations by scores, or their ranks, on several scales; each made when asked for."""

    def __init__(self, sample: Sample, bags: Bags) -> None:
        self._bags = bags
        scores = sample.scores
        columns = scores[None] if scores.ndim == 1 else scores.T
        middle, spread = np.median(columns), np.subtract(*np.quantile(columns, [0.75, 0.25]))
        spread = spread if spread > 0 else max(float(columns.std()), 1e-300)
        self._forms = [1.35 * (columns - middle) / spread]
        if scores.ndim == 1:
            place = (stats.rankdata(scores) - 0.5) / len(scores)
            self._forms.append(np.log(place / (1 - place))[None] / 1.8)

    def __len__(self) -> int:
        return len(self._forms) * len(_STRETCHES)

    def __getitem__(self, number: Any) -> Any:
        if number >= len(self):
            raise IndexError(number)
        form, stretch = divmod(number, len(_STRETCHES))
        return impute_labels(_STRETCHES[stretch] * self._forms[form], self._bags)

    def __iter__(self) -> Iterator[Floats]:
        """As many at once as there is room for, since bags are sorted again each time."""
        at_once = max(1, _BLOCK // self._forms[0].size)
        for form in self._forms:
            for first in range(0, len(_STRETCHES), at_once):
                some = np.array(_STRETCHES[first : first + at_once])[:, None, None] * form
                yield from map(probabilities_of_all, label_posteriors(some, self._bags))


def fit_imputations(drawn: Draw, candidates: Sequence[Floats]) -> Imputations:
    """Choose the imputations under which labels are likeliest, from all of them and in folds."""
    each = np.arange(len(drawn.rows))
    likelihood = np.empty((len(candidates), len(each)))
    for number, imputation in enumerate(candidates):
        likely = imputation[:, drawn.rows][drawn.labels, each]
        likelihood[number] = drawn.weights * np.log(np.maximum(likely, 1e-9))
    fold = each % _N_FOLDS
    without = np.stack([np.sum(likelihood, axis=1, where=fold != f) for f in range(_N_FOLDS)])
    best = without.argmax(axis=1)[fold]
    chosen = int(likelihood.sum(axis=1).argmax())
    found = {number: candidates[number] for number in {chosen, *best.tolist()}}
    return Imputations(
        found[chosen],
        [Imputation(found[number], best == number) for number in np.unique(best).tolist()],
    )


def impute_labels(log_odds: Floats, bags: Bags) -> Floats:
    """Probability of each class for every row, given the counts of its bag: (n_classes, n_instances)."""
    return probabilities_of_all(label_posteriors(np.asarray(log_odds)[None], bags)[0])


def imputed_means(imputation: Floats, statistics: Floats, bags: Bags) -> tuple[Floats, Floats]:
    """Class means of statistics by imputations, corrected by c_b where these miss the counts, and c_b.

    Shapes (n_classes, n_statistics) and (n_classes, n_statistics, n_bags).
    """
    weight = imputation * (1 - imputation)
    total = np.maximum(bags.means(weight), 1e-12)[:, None]
    plain = bags.means(statistics)
    centres = bags.means(weight[:, None] * statistics) / total
    # where all is certain nothing needs a centre
    centres = np.where(total > 1e-9, centres, plain)
    missed = bags.proportions.T - bags.means(imputation)
    sums = bags.means(imputation[:, None] * statistics) + missed[:, None] * centres
    means = sums @ bags.sizes / bags.n_instances / bags.class_shares[:, None]
    return means, centres
