"""The likelihood of the counts of several groupings of the same rows.

With K_1, K_2, ... the counts by each grouping, the finest first,

    L(f) = −log Pr(K_1 = k_1) − log Pr(K_2 = k_2, ... | K_1 = k_1).

The first term is the likelihood of bags as they are (`unbag.observations.count_likelihood`, exact for
small ones). The second is the joint saddle point of all groupings (`unbag.observations.margins`) less
that of the first alone, up to a constant: a double saddle point. So one grouping gives exactly what
it gives elsewhere, and no label is counted twice, though every one is in several counts.

The plain sum of the groupings' own likelihoods, −Σ_g log Pr(K_g = k_g), is a *composite
likelihood*: its aim is right as well, but it takes counts that share rows for independent news. It
is here for comparison, and for groupings with so many cells that their covariance is too large.

Where the aim is right: if rows keep their odds, by definition. If classes keep their look, labels
that give the same counts by all groupings must be equally likely before anyone looks at the rows.
They are if groupings act on the log-odds side by side, P(y_j = 1 | cells of j) = σ(Σ_g u_g(j)):
then the chance of labels depends on their counts alone, Π_g Π_cells exp(u_g k_g) / const.

Noisy counts are another matter (`unbag.observations.noise`): the joint likelihood is that of
rows that keep their odds. Where classes keep their look it is biased, as that of one grouping is,
and what mends it there is known for one grouping at a time only: `looks` goes with the plain sum.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.bags.groupings import Groupings
from unbag.bags.shares import bag_name
from unbag.observations.count_likelihood import CountLikelihood, impossible_counts
from unbag.observations.margins import Cells, Margins

Covariance = Literal["shared", "none"]


class GroupedCounts:
    """Negative log-likelihood of the counts of several groupings per instance, in score space.

    Two classes, and arrays of NumPy. Scores are log-odds at the shares of the classes among all
    instances.

    Parameters
    ----------
    groupings : Groupings
    included : ndarray of bool, shape (n_cells,) or (n_problems, n_cells)
        The cells of all groupings, one grouping after the other, that each problem learns from; at
        least one of each grouping.
    covariance : {"shared", "none"}, default="shared"
        "shared" takes into account that counts of different groupings share rows, "none" adds up
        their likelihoods.
    bag_effect : float, default=0
        As in `CountLikelihood`, for the cells of all groupings.
    looks : float, default=0
        As in `CountLikelihood`; only with ``covariance="none"``, unless all counts are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, multi_grouping_target
    >>> from unbag.bags import check_groupings_target
    >>> from unbag.observations.grouped_counts import GroupedCounts
    >>> by = {"line": [0, 0, 1, 1], "column": [0, 1, 0, 1]}
    >>> y = multi_grouping_target({n: bag_target(cell, counts=[1] * 4) for n, cell in by.items()})
    >>> likelihood = GroupedCounts(check_groupings_target(y), np.ones(4, dtype=bool))
    >>> scores, problem = np.zeros((1, 1, 4)), np.zeros(1, dtype=int)
    >>> likelihood.value_and_gradient(scores, problem)[1].round(6) + 0.0
    array([[[0., 0., 0., 0.]]])
    """

    n_outputs = 1

    def __init__(
        self,
        groupings: Groupings,
        included: NDArray[np.bool_],
        covariance: Covariance = "shared",
        bag_effect: float = 0.0,
        looks: float = 0.0,
    ) -> None:
        check_choice(covariance, get_args(Covariance), "covariance")
        noisy = any(bags.noise is not None for bags in groupings.bags)
        if looks and noisy and covariance == "shared" and len(groupings.bags) > 1:
            raise ValueError(
                "Noisy counts of several groupings, where classes keep their look, can be added up "
                f"only: looks={looks!r} needs covariance='none'."
            )
        tables = groupings.by_grouping(np.atleast_2d(included))
        for bags in groupings.bags:
            _check_whole_counts(bags)
        rows = [table @ bags.sizes for table, bags in zip(tables, groupings.bags, strict=True)]
        # of rows that are counted by some of the groupings, their share
        self._scale = 1 / np.mean(rows, axis=0)
        alone = range(len(rows)) if covariance == "none" else [_finest(groupings)]
        self._alone = [
            (CountLikelihood(tables[g], bags, bag_effect=bag_effect, looks=looks), rows[g])
            for g, bags in enumerate(groupings.bags)
            if g in alone
        ]
        self._joint: list[tuple[Margins, Margins]] = []
        if covariance == "shared" and len(rows) > 1:
            cells = _cells(groupings, bag_effect)
            self._joint = [
                _joint(cells, [table[problem] for table in tables], alone[0])
                for problem in range(len(self._scale))
            ]

    def value(self, scores: NDArray[np.float64], problem: NDArray[np.intp]) -> NDArray[np.float64]:
        """Negative log-likelihood per instance, for every column."""
        found: NDArray[np.float64] = self.totals(scores, problem) * self._scale[problem]
        return found

    def totals(self, scores: NDArray[np.float64], problem: NDArray[np.intp]) -> NDArray[np.float64]:
        """Negative log-likelihood of all counts of a problem, for every column."""
        total = np.zeros(len(scores))
        for part, rows in self._alone:
            total += part.value(scores, problem) * rows[problem]
        for column, which in enumerate(problem if self._joint else []):
            everything, finest = self._joint[which]
            f = scores[column, 0].astype(float)
            total[column] += everything.value(f) - finest.value(f)
        return total

    def value_and_gradient(
        self, scores: NDArray[np.float64], problem: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Negative log-likelihood per instance and its gradient with respect to the scores."""
        total, gradient = np.zeros(len(scores)), np.zeros(scores.shape)
        for part, rows in self._alone:
            value, slope = part.value_and_gradient(scores, problem)
            total += value * rows[problem]
            gradient += slope * rows[problem][:, None, None]
        for column, which in enumerate(problem if self._joint else []):
            everything, finest = self._joint[which]
            f = scores[column, 0].astype(float)
            value, slope = everything.value_and_gradient(f)
            less, less_slope = finest.value_and_gradient(f)
            total[column] += value - less
            gradient[column, 0] += slope - less_slope
        scale = self._scale[problem]
        return total * scale, (gradient * scale[:, None, None]).astype(scores.dtype, copy=False)


def _cell_noise(bags: Bags, bag_effect: float, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance of what the count of each cell may be off by: noise, and n²τ²q(1 − q)."""
    effect = np.where(bags.labelled, 0.0, bag_effect * shares[0] * shares[1])
    share = effect if bags.noise is None else effect + bags.noise[:, 1, 1]
    found: NDArray[np.float64] = share * bags.sizes.astype(float) ** 2
    return found


def _cells(groupings: Groupings, bag_effect: float) -> list[Cells]:
    """What is known of the cells of each grouping."""
    found = []
    for bags in groupings.bags:
        variance = _cell_noise(bags, bag_effect, groupings.class_shares)
        counts = bags.sizes * bags.proportions[:, 1]
        whole = np.round(counts)
        near = (np.abs(counts - whole) < 1e-6) & (variance == 0)
        found.append(Cells(bags.index, np.where(near, whole, counts), variance))
    return found


def _joint(
    cells: list[Cells], included: list[NDArray[np.bool_]], finest: int
) -> tuple[Margins, Margins]:
    """The saddle points of all groupings together, and of the finest."""
    every = np.ones(len(cells[0].index), dtype=bool)
    kept = [own.kept(every, table) for own, table in zip(cells, included, strict=True)]
    return Margins(kept), Margins([kept[finest]])


def _finest(groupings: Groupings) -> int:
    """The grouping of most cells that are not pure."""
    mixed = [int((bags.proportions.max(axis=1) < 1).sum()) for bags in groupings.bags]
    return int(np.argmax(mixed))


def _check_whole_counts(bags: Bags) -> None:
    wrong = impossible_counts(bags)
    if wrong.any():
        bag = int(wrong.argmax())
        n, share = int(bags.sizes[bag]), float(bags.proportions[bag, 1])
        raise ValueError(
            f"Bag {bag_name(bags.ids[bag])} of {n} rows has the share {share:g}: that would be "
            f"{n * share:g} rows, which no labels can give. If the share is known up to some "
            "error, say so by bag_target(noise=...)."
        )
