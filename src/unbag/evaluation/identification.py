r"""What a measure can be at all: its extremes over every labelling that agrees with the counts.

No assumption on bags is made. Let h be a number of every row that does
not depend on labels, and T = Σ_j y_j h_j its sum over the positives. With the size N and the number
K of positives given, all measures of two classes are functions of one such T:

- decisions: h is 1 above the threshold, 0 below it and ½ at it. T/K is the rate of true positives,
  (Σ_j h_j − T)/(N − K) that of false ones. Rates and costs are linear in T, precision and F1 are
  ratios of linear functions without a pole in between, so that each is monotone in T;
- the area under the ROC curve: h is the mid-rank. Among all pairs of a positive and a negative, a
  positive of mid-rank h stands above h − ½ rows, and Σ over positives of the positives below is
  K²/2 whatever the labels (each pair once, each row half with itself). So the area is
  (T − K/2 − K²/2) / (K(N − K)), linear in T, which is also ½ + (mean of h over positives − mean
  over negatives)/N.

T is a sum over bags, and in a bag it is largest if its k positives are the rows of the largest h,
smallest if they are those of the smallest. Both labellings agree with the counts: the limits are
*sharp*, since each is attained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unbag._arrays import Floats
from unbag._checks import check_inside
from unbag.bags.bags import Bags
from unbag.evaluation.measures import (
    Area,
    ByClassMeans,
    Measure,
    Risk,
    Sample,
    get_measure,
    make_sample,
)

# Counts as near to whole numbers as this, per row of the bag, are whole.
_WHOLE = 1e-6


@dataclass(frozen=True)
class IdentificationBounds:
    """The smallest and the largest value that a measure can take.

    ``sharp`` says whether some labelling attains each; if not, narrower limits might hold.
    """

    low: float
    high: float
    sharp: bool

    def __str__(self) -> str:
        return f"{self.low:.4f} to {self.high:.4f}{'' if self.sharp else ' (or less)'}"


def identification_bounds(
    measure: str | Measure,
    y: Any,
    scores: ArrayLike,
    *,
    confidence_level: float = 0.95,
    **options: Any,
) -> IdentificationBounds:
    """Return the smallest and largest value of a measure over all labels that agree with the counts.

    It is for two classes, and not for risks. Rows of known label keep it. The limits are sharp for
    whole counts.

    Parameters
    ----------
    measure, y, scores : as in `estimate`
    confidence_level : float, default=0.95
        Where counts carry noise: the probability that all true counts lie within the limits that are
        allowed for them, for normal or Laplace noise. A share that is not that of a whole count
        may stand for either of the two next to it.
    **options : as in `estimate`

    Returns
    -------
    values : IdentificationBounds
        With ``low``, ``high`` and ``sharp``.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import identification_bounds
    >>> y = bag_target([1, 1, 1, 2, 2, 2], counts=[1, 1, 1, 2, 2, 2])
    >>> print(identification_bounds("roc_auc", y, [-2.0, -1.0, 0.5, -0.5, 1.0, 2.0]))
    0.3333 to 1.0000
    """
    check_inside(confidence_level, "confidence_level")
    sample = make_sample(y, scores, binary="Limits without assumptions")
    chosen = get_measure(measure, options)
    if isinstance(chosen, Risk):
        raise ValueError(
            "Limits without assumptions are those of rates, costs and areas, not risks."
        )
    return bounds_of(chosen, sample, confidence_level)


@dataclass(frozen=True)
class RankArea(ByClassMeans):
    """Area under the ROC curve of these rows alone: ½ + E[R | +] − E[R | −], R the mid-rank by N."""

    def statistics(self, sample: Sample) -> Floats:
        """Mid-rank of each row, by the number of rows."""
        sample.check_order()
        if sample.bags.n_classes != 2:
            Area().value(sample)
        return stats.rankdata(sample.scores)[None] / sample.bags.n_instances

    def of_means(self, means: Floats, bags: Bags) -> Any:  # noqa: ARG002
        """Area for given class means."""
        return 0.5 + means[..., 1, 0] - means[..., 0, 0]


def in_these_rows(measure: Measure) -> ByClassMeans:
    """Write a measure as a function of class means of statistics that depend on no label."""
    if isinstance(measure, Area):
        return RankArea()
    if not isinstance(measure, ByClassMeans):
        raise ValueError(f"{type(measure).__name__} is not a function of class means.")
    return measure


def bounds_of(
    measure: Measure, sample: Sample, confidence_level: float = 0.95
) -> IdentificationBounds:
    """Find the extremes of a measure; of a risk or several classes, those that it has by nature."""
    bags, N = sample.bags, sample.bags.n_instances
    if bags.n_classes != 2 or isinstance(measure, Risk):
        low, high = (0.0, 1.0) if measure.bounded else (-np.inf, np.inf)
        return IdentificationBounds(low, high, sharp=False)
    fewest, most = _allowed_counts(bags, confidence_level)
    function = in_these_rows(measure)
    statistics = function.statistics(sample)
    values, found = statistics[-1], []
    # rows of each bag from the largest value to the smallest, and back
    order = np.lexsort((-values, bags.index))
    start = np.repeat(np.cumsum(bags.sizes) - bags.sizes, bags.sizes)
    place = np.arange(N) - start
    for rows in (order, order[start + np.repeat(bags.sizes, bags.sizes) - 1 - place]):
        # a bag gives its first rows; of those beyond its fewest, the best of all bags come next
        own = values[rows]
        forced = place < np.repeat(fewest, bags.sizes)
        optional = np.sort(own[~forced & (place < np.repeat(most, bags.sizes))])
        optional = optional[::-1] if rows is order else optional
        T = own[forced].sum() + np.concatenate([[0.0], np.cumsum(optional)])
        K = fewest.sum() + np.arange(len(T))
        # for each number of positives, the measure is monotone in their sum
        K, T = K[(K > 0) & (N > K)], T[(K > 0) & (N > K)]
        means = np.stack([(values.sum() - T) / (N - K), T / K], axis=-1)[..., None]
        if len(statistics) == 2:
            means = np.concatenate([1 - means, means], axis=-1)
        found.append(function.of_means(means, bags))
    ends = np.concatenate(found)
    return IdentificationBounds(float(ends.min()), float(ends.max()), bool((fewest == most).all()))


def _allowed_counts(
    bags: Bags, confidence_level: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Fewest and most positives of each bag: whole counts next to those given, or in their noise."""
    given, sizes = bags.counts[:, 1], bags.sizes
    fewest, most = np.floor(given + _WHOLE * sizes), np.ceil(given - _WHOLE * sizes)
    if bags.noise is not None:
        variance = bags.noise[:, 1, 1]
        # so many normal or Laplace errors lie within these standard deviations
        miss = (1 - confidence_level) / max(int((variance > 0).sum()), 1)
        reach = max(stats.norm.isf(miss / 2), -np.log(miss) / np.sqrt(2))
        reach = reach * sizes * np.sqrt(variance)
        fewest = np.minimum(fewest, np.ceil(given - reach))
        most = np.maximum(most, np.floor(given + reach))
    fewest, most = (np.clip(counts, 0, sizes).astype(np.int64) for counts in (fewest, most))
    absent = [(fewest == sizes).all(), (most == 0).all()]
    if any(absent):
        name = bags.class_names[int(np.argmax(absent))]
        raise ValueError(
            f"These bags hold no row of class {name}, so that there are no classes to compare."
        )
    return fewest, most
