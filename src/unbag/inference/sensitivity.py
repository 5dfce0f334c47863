"""What an unobserved difference between bags would do to the share of a class in a group.

The model takes rows of a group to have equal log-odds in all bags, given their columns and up to a
random intercept. Here log-odds of the class in one group s are shifted in bag b by δ (x_sb − x̄_s),
with x_sb the share of this group in the bag: a contextual effect, of which counts say little. At
each δ the coefficients are found again, with this as an offset and the same variances, and shares
are drawn as in `unbag.inference.groups`. An effect in any group moves the shares of all, since they
add up to the same counts; it is tried in the group that is asked about, and in the one it is
compared with or else the largest other one.

How large is δ? Its partial R² is the part of the variance of the log-odds in the group that it
would explain, s²/(s² + Var f + τ² + π²/3) with s = |δ| sd(x), and columns of X are measured in the
same way: by the slope, on x, of what they contribute to the mean log-odds of the group in a bag.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag._checks import check_count, check_inside
from unbag._optional import make_frame
from unbag._text import WIDTH, shown, table_lines
from unbag.evaluation.label_shift import column_names
from unbag.evaluation.scorers import shuffle_column
from unbag.inference.grouped_rows import GroupedRows, duncan_davis_bounds, find_class, find_name
from unbag.inference.posterior import PosteriorScores, draw_shares, interval
from unbag.models.mixed import refit_with_offset

# Standard deviations of the shift of log-odds that are tried.
_STRENGTHS = np.array([0.2, 0.4, 0.8, 1.6, 3.2])

# Variance of a logistic variable: that of labels given their log-odds.
_LOGISTIC = np.pi**2 / 3.0


@dataclass(frozen=True, eq=False)
class ContextualEffect:
    """Estimates by the strength of a contextual effect in the group ``shifted``.

    ``delta`` is the change of log-odds where the share of the group in the bag goes from 0 to 1.
    """

    shifted: str
    delta: Floats
    strength: Floats  # standard deviation of what it adds to log-odds, with its sign
    partial_r2: Floats  # part of the variance of log-odds in the group that it explains
    estimate: Floats
    low: Floats
    high: Floats
    overturns: float  # δ nearest to 0 with the estimate at the threshold; NaN if none is
    insignificant: float  # δ nearest to 0 with the threshold in the interval
    benchmarks: dict[str, tuple[float, float]]  # δ and partial R² of columns, the strongest first

    def r2_at(self, delta: float) -> float:
        """Partial R² of a δ."""
        odds = self.partial_r2[-1] / (1.0 - self.partial_r2[-1]) * (delta / self.delta[-1]) ** 2
        return float(odds / (1.0 + odds))

    def sentence(self, threshold: float) -> str:
        """How strong the effect must be, compared with columns."""
        group, delta, end = shown(self.shifted, 24), self.overturns, self.insignificant
        text = (
            f"An effect in {group} of δ = {delta:+.2f} (partial R² {self.r2_at(delta):.1%}) moves it "
            f"to {threshold:g}"
        )
        if np.isnan(delta):
            most = float(np.abs(self.delta).max())
            text = f"No effect in {group} of up to δ = ±{most:.2g} moves it to {threshold:g}"
        elif end and abs(end) < abs(delta):
            text += f", one of {end:+.2f} an end of its interval"
        for name, (slope, r2) in list(self.benchmarks.items())[:1]:
            text += f". The strongest column there, {shown(name, 24)}, has {slope:+.2f} (partial R² {r2:.1%})"
        return text + "."


@dataclass(frozen=True, eq=False, repr=False)
class GroupSensitivity:
    """Estimates by the strength of an unobserved contextual effect.

    Attributes
    ----------
    what : str
        The share, or difference of shares, that is estimated.
    threshold : float
        The conclusion is that the estimate is on one side of it.
    estimate : float
        The estimate without any effect.
    effects : tuple of ContextualEffect
        In the group that is asked about, and in the other one.
    bounds : tuple of float
        What is possible whatever the model.
    confidence_level : float
        Posterior probability of intervals.
    """

    what: str
    threshold: float
    estimate: float
    effects: tuple[ContextualEffect, ...]
    bounds: tuple[float, float]
    confidence_level: float

    @property
    def table(self) -> Any:
        """One row for each group and δ, as a pandas DataFrame."""
        names = ("delta", "strength", "partial_r2", "estimate", "low", "high")
        columns = {k: np.concatenate([getattr(one, k) for one in self.effects]) for k in names}
        shifted = [one.shifted for one in self.effects for _ in one.delta]
        return make_frame({"shifted": shifted, **columns})

    def band(self, strength: float) -> tuple[float, float]:
        """Least lower and largest upper limit over effects of at most some strength.

        Parameters
        ----------
        strength : float
            Standard deviations of log-odds.

        Returns
        -------
        limits : (float, float)
            The band.
        """
        near = [np.abs(one.strength) <= strength + 1e-9 for one in self.effects]
        low = min(one.low[at].min() for one, at in zip(self.effects, near, strict=True))
        high = max(one.high[at].max() for one, at in zip(self.effects, near, strict=True))
        return float(low), float(high)

    @property
    def summary(self) -> str:
        """What overturns the conclusion, in words."""
        side = "above" if self.estimate > self.threshold else "below"
        effects = " ".join(one.sentence(self.threshold) for one in self.effects)
        least, most = self.bounds
        return (
            f"{self.what} is {side} {self.threshold:g}. {effects} Whatever the effect, it is between "
            f"{least:.3f} and {most:.3f}."
        )

    def __str__(self) -> str:
        head = (
            "effect in",
            "delta",
            "partial R²",
            "estimate",
            f"{100 * self.confidence_level:g}% interval",
        )
        rows = [
            (shown(one.shifted, 24), f"{d:+.2f}", f"{r:.1%}", f"{e:.3f}", f"{a:.3f} to {b:.3f}")
            for one in self.effects
            for d, r, e, a, b in zip(
                one.delta, one.partial_r2, one.estimate, one.low, one.high, strict=True
            )
        ]
        return "\n".join([textwrap.fill(self.summary, WIDTH), "", *table_lines(head, rows)])

    __repr__ = __str__


def group_sensitivity(
    model: Any,
    X: Any,
    y: Any,
    by: Any,
    first: Any,
    second: Any = None,
    *,
    of: Any = None,
    threshold: float | None = None,
    n_draws: int = 40,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> GroupSensitivity:
    """Strength of an unobserved contextual effect that overturns a conclusion.

    Parameters
    ----------
    model, X, y, by : as in `group_estimates`
    first : group
        The group whose share the conclusion is about.
    second : group, optional
        One to compare with: the conclusion is then about a difference of shares.
    of : class, optional
        The class; by default the second of two.
    threshold : float, optional
        The conclusion is that the estimate is on one side of it; by default 0 for a difference, and
        one half for a share.
    n_draws : int, default=40
        Draws from the posterior for each value of δ.
    confidence_level, random_state : as in `group_estimates`

    Returns
    -------
    sensitivity : GroupSensitivity
        Print it, or take ``sensitivity.table``.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.inference import group_sensitivity
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> by = ["high" if x > 0 else "low" for x in data.X[:, 0]]
    >>> found = group_sensitivity(model, data.X, data.y, by, "high", threshold=0.8, n_draws=20)
    >>> found.what
    'The share of 1 in high'
    >>> bool(found.bounds[0] <= found.estimate <= found.bounds[1])
    True
    """
    check_inside(confidence_level, "confidence_level")
    check_count(n_draws, "n_draws", 10)
    rows = GroupedRows.read(X, y, by, None)
    g, c = find_name(first, rows.names, "group"), find_class(of, rows.bags.class_names)
    others = np.argsort(-rows.sizes, kind="stable")
    h = next((int(s) for s in others if s != g), g)
    sign, default = np.eye(len(rows.names))[g], 0.5
    what = f"The share of {shown(rows.bags.class_names[c], 24)} in {shown(rows.names[g], 24)}"
    if second is not None:
        h, default = find_name(second, rows.names, "group"), 0.0
        if h == g:
            raise ValueError(f"first and second are both {shown(first, 24)}; name two groups.")
        sign[h] = -1.0
        what += f" less that in {shown(rows.names[h], 24)}"
    threshold = default if threshold is None else float(threshold)
    posterior = PosteriorScores(model, rows.bags, n_draws, random_state)
    question = _Question(rows, posterior, sign, c, threshold, confidence_level)
    effects = [question.effect(s) for s in dict.fromkeys((g, h))]
    if effects[0] is None:
        raise ValueError(f"The share of {shown(first, 24)} is the same in all bags.")
    # least and most of each group, whichever way it counts
    ends = np.sort(np.stack(duncan_davis_bounds(rows))[:, :, c] * sign, axis=0).sum(axis=1)
    return GroupSensitivity(
        what=what,
        threshold=threshold,
        estimate=float(question.estimate[0]),
        effects=tuple(one for one in effects if one is not None),
        bounds=(float(ends[0]), float(ends[1])),
        confidence_level=confidence_level,
    )


@dataclass(frozen=True, eq=False)
class _Question:
    """The sum of shares of class c in groups, each with its sign, under contextual effects."""

    rows: GroupedRows
    posterior: PosteriorScores
    sign: Floats
    c: int
    threshold: float
    level: float

    @cached_property
    def estimate(self) -> Floats:
        """Mean and interval without an effect."""
        return self._limits(self.posterior, None)

    @cached_property
    def _log_odds(self) -> Floats:
        return self.posterior.mean_log_odds(self.rows.X, self.c)

    def _limits(self, posterior: PosteriorScores, offset: Floats | None) -> Floats:
        draws, _ = draw_shares(self.rows, posterior, self.level, offset)
        value = draws[:, :, self.c] @ self.sign
        return np.array([value.mean(), *interval(value, self.level)])

    def effect(self, s: int) -> ContextualEffect | None:
        """Estimates by the strength of an effect in group s; None if its share does not vary."""
        rows, model = self.rows, self.posterior.model
        x = (rows.inside[:, s] / rows.bags.sizes)[rows.bags.index]
        weight = np.where(rows.code == s, rows.multiplicity, 0.0)
        x = x - np.average(x, weights=weight)
        spread = float(np.sqrt(np.average(x**2, weights=weight)))
        if spread < 1e-6:
            return None
        features, found = self.posterior.transform(rows.X), {0.0: self.estimate}
        for side in (-1.0, 1.0):
            shifted = model
            # outwards from 0, each fit starting at the one before
            for strength in side * _STRENGTHS:
                offset = np.zeros((rows.bags.n_classes, len(x)))
                offset[self.c] = np.where(rows.code == s, strength / spread * x, 0.0)
                output = offset[1:] - offset[:1] if len(offset) == 2 else offset
                shifted = refit_with_offset(shifted, features, rows.bags, output)
                found[strength] = self._limits(self.posterior.of(shifted), offset)
        strength = np.array(sorted(found))
        estimate, low, high = np.array([found[one] for one in strength]).T
        centred = self._log_odds - np.average(self._log_odds, weights=weight)
        rest = float(np.average(centred**2, weights=weight)) + model.bag_effect_ + _LOGISTIC

        def partial_r2(strength: Any) -> Any:
            return strength**2 / (strength**2 + rest)

        delta, above = strength / spread, self.estimate[0] > self.threshold
        sign, nearer = (1.0, low) if above else (-1.0, high)
        slopes = sorted(self._slopes(s, x), key=lambda one: -abs(one[1]))
        return ContextualEffect(
            shifted=str(rows.names[s]),
            delta=delta,
            strength=strength,
            partial_r2=partial_r2(strength),
            estimate=estimate,
            low=low,
            high=high,
            overturns=_crossing(delta, sign * (estimate - self.threshold)),
            insignificant=_crossing(delta, sign * (nearer - self.threshold)),
            benchmarks={name: (slope, partial_r2(slope * spread)) for name, slope in slopes},
        )

    def _slopes(self, s: int, x: Floats) -> Iterator[tuple[str, float]]:
        """The slope on x, in group s, of what each column contributes to log-odds."""
        own = np.flatnonzero(self.rows.code == s)
        X, weighted = _safe_indexing(self.rows.X, own), self.rows.multiplicity[own] * x[own]
        for k, name in enumerate(column_names(X.shape[1], None, X)):
            other = shuffle_column(X, k, np.random.default_rng(0))
            gain = self._log_odds[own] - self.posterior.mean_log_odds(other, self.c)
            slope = float(weighted @ gain / (weighted @ x[own]))
            if abs(slope) > 1e-9:
                yield name, slope


def _crossing(delta: Floats, above: Floats) -> float:
    """The smallest |δ| at which what is positive at 0 is 0, by linear interpolation; NaN if none."""
    if above[len(delta) // 2] <= 0:
        return 0.0
    crossings = [
        delta[k] + (delta[k + 1] - delta[k]) * above[k] / (above[k] - above[k + 1])
        for k in range(len(delta) - 1)
        if (above[k] > 0) != (above[k + 1] > 0)
    ]
    return float(min(crossings, key=abs, default=np.nan))
