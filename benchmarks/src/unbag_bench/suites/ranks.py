"""Methods ranked over sets, and the tests behind what is said of them.

A table of scores has a line for each set and a column for each method; higher is better. Of the
methods of one set the best has rank 1, and equal ones share the mean of their ranks.

**Friedman's test** asks whether ranks differ at all. **Nemenyi's critical difference** tells which
mean ranks of k methods over N sets differ beyond random variation (Demšar 2006),

    CD = q √(k(k + 1)/6N),

q the 95% point of the studentised range of k values, over √2. **Wilcoxon's signed-rank test**
compares two methods by their differences over sets; where one method is compared with several,
p-values are corrected by Holm's rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

from unbag._arrays import Floats

# Sets that a test takes at least.
FEWEST_SETS = 6

# Sets up to which the distribution of Wilcoxon's statistic is exact.
_EXACT = 50


@dataclass(frozen=True, eq=False)
class Ranking:
    """Mean ranks of methods over sets, the best first.

    Attributes
    ----------
    methods : tuple of str
    ranks : ndarray of shape (n_methods,)
    errors : ndarray of shape (n_methods,)
        Standard errors over sets; not a number for a single set.
    n_sets : int
    p_value : float
        Of Friedman's test; not a number where there are too few sets or methods for it.
    """

    methods: tuple[str, ...]
    ranks: Floats
    errors: Floats
    n_sets: int
    p_value: float

    @property
    def critical_difference(self) -> float:
        """By how much mean ranks must differ to differ beyond random variation, at 95%."""
        k = len(self.methods)
        q = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
        return float(q * np.sqrt(k * (k + 1) / (6 * self.n_sets)))

    def first_within(self, method: str) -> bool:
        """Whether a method is first, or behind the first by one standard error of its own at most.

        A method that has no standard error, of a single set, must be first.
        """
        place = self.methods.index(method)
        behind = self.ranks[place] - self.ranks[0]
        return bool(behind <= 0 or behind <= self.errors[place])


@dataclass(frozen=True)
class Comparison:
    """One method against another, over sets.

    Attributes
    ----------
    other : str
    gain : float
        Mean of the differences.
    above, level, below : int
        Sets in which the method is above the other, equal to it and below it.
    p_value : float
        Of Wilcoxon's signed-rank test, corrected for the number of comparisons; not a number
        where there are too few sets.
    """

    other: str
    gain: float
    above: int
    level: int
    below: int
    p_value: float


def rank_methods(scores: Mapping[str, Floats]) -> Ranking:
    """Rank methods by their scores on the same sets; not a number is worst.

    Examples
    --------
    >>> from unbag_bench.suites.ranks import rank_methods
    >>> ranking = rank_methods({"a": [0.9, 0.8], "b": [0.7, 0.6], "c": [0.7, 0.9]})
    >>> ranking.methods, ranking.ranks
    (('a', 'c', 'b'), array([1.5 , 1.75, 2.75]))
    """
    names = tuple(scores)
    table = np.column_stack([np.asarray(scores[name], dtype=np.float64) for name in names])
    ranks = rankdata(-np.nan_to_num(table, nan=-np.inf), axis=1)
    means = ranks.mean(axis=0)
    n_sets = len(ranks)
    errors = (
        ranks.std(axis=0, ddof=1) / np.sqrt(n_sets) if n_sets > 1 else np.full(len(names), np.nan)
    )
    order = np.argsort(means, kind="stable")
    p = np.nan
    if n_sets >= FEWEST_SETS and len(names) > 2 and np.ptp(ranks, axis=1).any():
        p = float(friedmanchisquare(*ranks.T).pvalue)
    return Ranking(tuple(names[i] for i in order), means[order], errors[order], n_sets, p)


def cliques(ranking: Ranking) -> list[tuple[int, int]]:
    """Find the longest runs of methods whose mean ranks do not differ beyond random variation.

    Returns
    -------
    runs : list of (first, last)
        Places in the ranking.
    """
    ends = np.searchsorted(ranking.ranks, ranking.ranks + ranking.critical_difference, side="right")
    runs = [(first, int(end) - 1) for first, end in enumerate(ends)]
    longest = [run for place, run in enumerate(runs) if place == 0 or run[1] > runs[place - 1][1]]
    return [run for run in longest if run[1] > run[0]]


def compare(scores: Mapping[str, Floats], method: str) -> list[Comparison]:
    """Compare one method with every other on the same sets, the hardest to beat first.

    Sets where one of the two has no score, not a number, do not count.
    """
    own = np.asarray(scores[method], dtype=np.float64)
    others = [name for name in scores if name != method]
    differences = [own - np.asarray(scores[name], dtype=np.float64) for name in others]
    gains = [found[np.isfinite(found)] for found in differences]
    p = holm(np.array([signed_rank(gain) for gain in gains]))
    found = [
        Comparison(
            name,
            float(gain.mean()) if len(gain) else np.nan,
            int((gain > 0).sum()),
            int((gain == 0).sum()),
            int((gain < 0).sum()),
            float(p_value),
        )
        for name, gain, p_value in zip(others, gains, p, strict=True)
    ]
    return sorted(found, key=lambda one: one.gain)


def holm(p_values: Floats) -> Floats:
    """Correct p-values for their number by Holm's rule; those that are not numbers do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites.ranks import holm
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    corrected = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return corrected


def signed_rank(gain: Floats) -> float:
    """Wilcoxon's p-value of gains over sets, not a number where there are too few."""
    if len(gain) < FEWEST_SETS:
        return np.nan
    # sets that are level say nothing; the method is named, since versions of SciPy choose others
    differs = gain[gain != 0]
    method: Literal["exact", "approx"] = "exact" if len(differs) <= _EXACT else "approx"
    return float(wilcoxon(differs, method=method).pvalue) if len(differs) else 1.0
