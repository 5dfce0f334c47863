r"""How many bags it takes: precision of label-free measures, planned before there are any data.

A measure of a classifier is, to first order, Σ_i Σ_c W[i, c] · (mean of φ_c over bag i) with φ its
influence (see `unbag.evaluation.uncertainty`). For L bags of n independent instances, W by least
squares and S_a the covariance of φ = (φ₋, φ₊) inside class a, its variance is

    V = (1/(L n)) Σ_a trace(S_a M⁻¹ T_a M⁻¹),    M = E[γγᵀ],    T_a = E[γ[a] γγᵀ],

with γ = (1 − g, g) and g the observed proportion of a bag. So V falls as 1/L, and three moments of
g say how many bags it takes. If a bag's labels are drawn with probability p, the count is binomial and

    n(n−1)···(n−k+1) E[p^k] = E[(ng)(ng − 1)···(ng − k + 1)],    k = 1, 2, 3.

Bags that are drawn may turn out to be much alike. For normal g with variance s², the mean of
1/Σ(g − ḡ)² is 1/((L − 3)s²), so that L bags whose proportions are random count as L − 3.

* Balanced accuracy b with equal error rates: φ₊ = ½·1[f > t] and φ₋ = ½ − φ₊ both vary by
  b(1 − b)/4 in either class.
* AUC: φ₊(x) = P(f(X₋) < f(x)) and φ₋(x) = P(f(X₊) > f(x)), for scores that are normal with the
  same variance in both classes.

Two instances of a bag whose φ are correlated by ρ leave a bag with n/(1 + (n − 1)ρ) independent
draws: n for ρ = 0 (the paper's IIM), one for ρ = 1 (IBM at its worst).
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import binom

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count, check_inside, check_positive, check_share
from unbag._optional import make_frame
from unbag._text import WIDTH, aligned, measure_words
from unbag.bags.shares import check_range, check_support

PlannedPrecision = Literal["standard_error", "half_width", "labelled_rows"]
PlannedMeasure = Literal["balanced_accuracy", "roc_auc"]

# With fewer, nothing is left over to estimate how much bags vary.
FEWEST_PLANNED = 3
# Bags drawn with replacement from fewer say little of how estimates vary.
_FEWEST_FOR_INTERVALS = 10
# Bags that random variation takes if proportions are random.
_LOST_BAGS = 3
# Quantiles that stand for a distribution of true proportions, and the largest bags whose labels
# still spread the observed ones by more than the quantiles lie apart.
_QUANTILES = 256
_LABELS_MATTER = 4096


@dataclass(frozen=True, eq=False, repr=False)
class BagPlan:
    """What `required_bags` found; printing it says so in words, `frame` gives the table ``by_size``.

    ``labelled_rows`` would separate the classes as well, as `unbag.effective_sample_size` counts,
    ``share_of_labels`` is that as a part of all instances; ``mean`` and ``spread`` are those of the
    observed proportions, and ``half_width`` is that of an interval of the given ``level``.
    """

    n_bags: int
    bag_size: int
    n_instances: int
    measure: str
    expected: float
    standard_error: float
    half_width: float
    level: float
    labelled_rows: float
    share_of_labels: float
    mean: float
    spread: float
    by_size: dict[str, NDArray[np.int64]]

    def frame(self) -> Any:
        """The table of bag sizes as a pandas DataFrame, one row per size."""
        return make_frame(self.by_size)

    def __str__(self) -> str:
        words = (
            f"{self.n_bags:,} bags of {self.bag_size:,} instances ({self.n_instances:,} in all) "
            f"give a label-free {measure_words(self.measure)} a standard error of "
            f"{self.standard_error:.2g} ({100 * self.level:g}% interval: ±{self.half_width:.2g}) "
            f"if it is about {self.expected:g}. They are worth {self.labelled_rows:,.0f} labelled "
            f"rows, {100 * self.share_of_labels:.2g}% of what all labels would give; their "
            f"proportions vary by ±{self.spread:.2g} around {self.mean:.2g}."
        )
        columns = [[name, *(f"{n:,}" for n in cells)] for name, cells in self.by_size.items()]
        rows = aligned(list(zip(*columns, strict=True)), ">")
        return "\n".join(
            [textwrap.fill(words, WIDTH), "", "As good with bags of other size:", *rows]
        )

    __repr__ = __str__


def required_bags(
    bag_size: int,
    proportions: Any,
    target: float,
    *,
    precision: PlannedPrecision = "standard_error",
    measure: PlannedMeasure = "balanced_accuracy",
    expected: float = 0.5,
    level: float = 0.95,
    dependence: float = 0.0,
) -> BagPlan:
    """Number of bags of a size and spread that a measure's standard error needs.

    Parameters
    ----------
    bag_size : int
        Instances in every bag.
    proportions : (low, high), frozen scipy.stats distribution or array-like
        How the bags differ. Two numbers or a distribution say where true proportions come from,
        as in `unbag.datasets.make_bags`: labels are drawn, so that observed proportions vary more.
        Three or more numbers are observed proportions of bags such as there will be.
    target : float
        What is wanted, in the units of ``precision``.
    precision : {"standard_error", "half_width", "labelled_rows"}, default="standard_error"
        Standard error of the measure; half the width of the interval that `unbag.evaluation.estimate`
        will give, which takes ten bags or more; or how many labelled rows the bags should be
        worth for separating the classes, whatever the measure.
    measure : {"balanced_accuracy", "roc_auc"}, default="balanced_accuracy"
        What `unbag.evaluation` is to estimate from the bags, for scores of a model that has not
        seen them.
    expected : float, default=0.5
        About the value that it will have. Better classifiers take fewer bags, so that one half
        is the cautious choice.
    level : float, default=0.95
        Of the interval.
    dependence : float in [0, 1], default=0
        Correlation ρ of the predictions for two instances of a bag, given their classes. At 1 a
        bag counts once, however large, as for ``cluster_by_bag=True`` in `unbag.effective_sample_size`.

    Returns
    -------
    plan : BagPlan
        With ``n_bags``, at least 3.

    Examples
    --------
    >>> from unbag.paper.bounds import required_bags
    >>> required_bags(50, (0.1, 0.6), 0.02, expected=0.8)
    84 bags of 50 instances (4,200 in all) give a label-free balanced accuracy a standard error of
    0.02 (95% interval: ±0.04) if it is about 0.8. They are worth 444 labelled rows, 11% of what all
    labels would give; their proportions vary by ±0.16 around 0.35.
    <BLANKLINE>
    As good with bags of other size:
    bag_size  n_bags  n_instances
          12     222        2,664
          25     141        3,525
          50      84        4,200
         100      47        4,700
         200      26        5,200
    """
    check_count(bag_size, "bag_size")
    check_inside(level, "level")
    check_choice(precision, get_args(PlannedPrecision), "precision")
    check_positive(target, "target")
    check_share(dependence, "dependence")
    covariance = _influence_covariance(measure, expected)
    # what the normal distribution takes is a lower limit of what Student's does
    error = target / float(ndtri((1 + level) / 2)) if precision == "half_width" else target
    lost = lost_bags(proportions)

    def half_width(variance: float, n_bags: int) -> float:
        return _reach(n_bags, level) * sqrt(variance / (n_bags - lost))

    def per_bag(n: int) -> tuple[Floats, float, float, int]:
        """Moments of g; labelled rows and variance of the measure for one bag; bags needed."""
        moments = _observed_moments(proportions, n)
        draws = n / (1 + (n - 1) * dependence)
        rows = draws * _spread(moments) ** 2 / float(moments[0] * (1 - moments[0]))
        variance = _unit_variance(moments, covariance) / draws
        needed = target / rows if precision == "labelled_rows" else variance / error**2
        # a whole number must not be missed by rounding
        n_bags = max(ceil(needed * (1 - 1e-12)) + lost, FEWEST_PLANNED)
        if precision == "half_width":
            n_bags = max(n_bags, _FEWEST_FOR_INTERVALS)
            while half_width(variance, n_bags) > target:
                n_bags += 1
        return moments, rows, variance, n_bags

    moments, rows, variance, n_bags = per_bag(bag_size)
    deviation = sqrt(variance / (n_bags - lost))
    labelled_rows = (n_bags - lost) * rows
    sizes = np.unique([max(int(bag_size * factor), 1) for factor in (0.25, 0.5, 1, 2, 4)])
    counts = np.array([per_bag(int(n))[3] for n in sizes])
    return BagPlan(
        n_bags=n_bags,
        bag_size=bag_size,
        n_instances=n_bags * bag_size,
        measure=measure,
        expected=expected,
        standard_error=deviation,
        half_width=half_width(variance, n_bags),
        level=level,
        labelled_rows=labelled_rows,
        share_of_labels=labelled_rows / (n_bags * bag_size),
        mean=float(moments[0]),
        spread=_spread(moments),
        by_size={"bag_size": sizes, "n_bags": counts, "n_instances": sizes * counts},
    )


def _reach(n_bags: int, level: float) -> float:
    """Half the width of intervals that users get, in standard errors.

    That of Student's distribution with two degrees of freedom taken, and what makes up for those
    (`unbag.evaluation.uncertainty`).
    """
    spare = max(n_bags - 2, 1)
    return float(stdtrit(spare, (1 + level) / 2)) * sqrt(n_bags / spare)


def _influence_covariance(measure: str, expected: float) -> Floats:
    """S_a for the negative and the positive class: shape (2, 2, 2)."""
    check_choice(measure, get_args(PlannedMeasure), "measure")
    check_inside(expected, "expected")
    if measure == "balanced_accuracy":
        return np.full((2, 1, 1), expected * (1 - expected) / 4) * [[1, -1], [-1, 1]]
    distance = sqrt(2) * float(ndtri(expected))
    nodes, weight = np.polynomial.hermite_e.hermegauss(80)
    x = np.stack([nodes, nodes + distance])
    influence = np.stack([ndtr(distance - x), ndtr(x)])
    weight = weight / weight.sum()
    centred = influence - (influence @ weight)[..., None]
    return np.einsum("cak,dak,k->acd", centred, centred, weight)


def _unit_variance(moments: Floats, covariance: Floats) -> float:
    """Σ_a trace(S_a M⁻¹ T_a M⁻¹), the variance times the number of independent draws."""
    first, second, third = moments
    M = np.array([[1 - 2 * first + second, first - second], [first - second, second]])
    positive = np.array([[first - 2 * second + third, second - third], [second - third, third]])
    inverse = np.linalg.inv(M)
    return float(np.sum(covariance * (inverse @ np.stack([M - positive, positive]) @ inverse)))


def share_distribution(proportions: Any, n: int) -> tuple[Floats, Floats]:
    """Observed proportions of bags of n instances, and the probability of each.

    Of random proportions, 256 quantiles stand for the distribution, and the count is binomial.
    """
    _observed_moments(proportions, n)  # refuses what is no description of bags
    if not _are_random(proportions):
        g = np.asarray(proportions, dtype=float)
        return g, np.full(len(g), 1 / len(g))
    at = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if hasattr(proportions, "rvs"):
        true = np.asarray(proportions.ppf(at), dtype=float)
    else:
        low, high = proportions
        true = low + at * (high - low)
    if n > _LABELS_MATTER:
        return true, np.full(_QUANTILES, 1 / _QUANTILES)
    counts = np.arange(n + 1)
    return counts / n, np.mean(binom.pmf(counts, n, true[:, None]), axis=0)


def lost_bags(proportions: Any) -> int:
    """Bags that random variation takes: some if proportions are random, none if they are given."""
    return _LOST_BAGS if _are_random(proportions) else 0


def _observed_moments(proportions: Any, n: int) -> Floats:
    """E[g], E[g²] and E[g³] of the observed proportions of bags of n instances."""
    if _are_random(proportions):
        p1, p2, p3 = _true_moments(proportions)
        # of the count: E[K²] = E[K(K−1)] + E[K], E[K³] = E[K(K−1)(K−2)] + 3E[K(K−1)] + E[K]
        pairs, triples = n * (n - 1) * p2, n * (n - 1) * (n - 2) * p3
        moments = np.array([p1, (pairs + n * p1) / n**2, (triples + 3 * pairs + n * p1) / n**3])
    else:
        g = np.asarray(proportions, dtype=float)
        if g.ndim != 1 or len(g) < 3 or not ((g >= 0) & (g <= 1)).all():
            raise ValueError(
                "proportions must be (low, high), a frozen scipy.stats distribution, or three or "
                "more observed proportions between 0 and 1."
            )
        moments = np.mean([g, g**2, g**3], axis=1)
    if _spread(moments) < 1e-9:
        raise ValueError(
            "All bags would have the same proportion, and no number of those separates the classes "
            "apart."
        )
    return moments


def _are_random(proportions: Any) -> bool:
    return hasattr(proportions, "rvs") or np.shape(proportions) == (2,)


def _true_moments(proportions: Any) -> tuple[float, float, float]:
    if not hasattr(proportions, "rvs"):
        low, high = map(float, proportions)
        check_range(low, high)
        second = (low**2 + low * high + high**2) / 3
        return (low + high) / 2, second, (low + high) * (low**2 + high**2) / 4
    if not hasattr(proportions, "support"):
        raise ValueError("Plans are for two classes: proportions must be a distribution in [0, 1].")
    check_support(*proportions.support())
    first, second, third = (float(proportions.moment(k)) for k in (1, 2, 3))
    return first, second, third


def _spread(moments: Floats) -> float:
    return sqrt(max(float(moments[1] - moments[0] ** 2), 0.0))
