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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag._checks import check_count, check_inside
from unbag._optional import make_frame
from unbag._text import WIDTH, shown, table_lines
from unbag.inference.contrasts import interval
from unbag.inference.grouped_rows import GroupedRows, duncan_davis_bounds, find_class, find_name
from unbag.inference.posterior import PosteriorScores, draw_shares
from unbag.models.mixed import refit_with_offset

# Standard deviations of the shift of log-odds that are tried.
_STRENGTHS = np.array([0.2, 0.4, 0.8, 1.6, 3.2])

# Variance of a logistic variable: that of labels given their log-odds.
_LOGISTIC = np.pi**2 / 3.0


@dataclass(frozen=True, eq=False)
class ContextualEffect:
    """Estimates by the strength of a contextual effect in one group.

    Attributes
    ----------
    shifted : str
        The group whose log-odds depend on its share in the bag.
    delta : ndarray of shape (n_values,)
        Change of log-odds where the share of the group in the bag goes from 0 to 1.
    strength : ndarray of shape (n_values,)
        Standard deviation, over rows of the group, of what δ adds to log-odds; signed as δ.
    partial_r2 : ndarray of shape (n_values,)
        Part of the variance of log-odds in the group that it explains.
    estimate, low, high : ndarrays of shape (n_values,)
        Estimates and limits of intervals.
    overturns : float
        The smallest δ, by its absolute value, at which the estimate is at the threshold; NaN if
        none of those tried is large enough.
    insignificant : float
        The smallest δ at which the interval holds the threshold; 0 if it does without any.
    benchmarks : dict of str to (delta, partial R²)
        Columns of X, measured in the same way, the strongest first.
    """

    shifted: str
    delta: Floats
    strength: Floats
    partial_r2: Floats
    estimate: Floats
    low: Floats
    high: Floats
    overturns: float
    insignificant: float
    benchmarks: dict[str, tuple[float, float]]

    def r2_at(self, delta: float) -> float:
        """Partial R² of a δ.

        Parameters
        ----------
        delta : float
            Change of log-odds where the share of the group in the bag goes from 0 to 1.

        Returns
        -------
        partial_r2 : float
            Part of the variance of log-odds in the group that it explains.
        """
        odds = self.partial_r2[-1] / (1.0 - self.partial_r2[-1]) * (delta / self.delta[-1]) ** 2
        return float(odds / (1.0 + odds))

    def sentence(self, threshold: float) -> str:
        """How strong the effect must be, compared with columns."""
        group = shown(self.shifted, 24)
        if np.isnan(self.overturns):
            most = float(np.abs(self.delta).max())
            text = f"No effect in {group} of up to δ = ±{most:.2g} moves it to {threshold:g}."
        else:
            text = (
                f"An effect in {group} of δ = {self.overturns:+.2f} (partial R² "
                f"{self.r2_at(self.overturns):.1%}) moves it to {threshold:g}"
            )
            if self.insignificant and abs(self.insignificant) < abs(self.overturns):
                text += f", one of {self.insignificant:+.2f} an end of its interval"
            text += "."
        if self.benchmarks:
            name, (delta, r2) = next(iter(self.benchmarks.items()))
            text += (
                f" The strongest column there, {shown(name, 24)}, has {delta:+.2f} (partial R² "
                f"{r2:.1%})."
            )
        return text


@dataclass(frozen=True, eq=False, repr=False)
class GroupSensitivity:
    """Estimates by the strength of unobserved contextual effects; printing it says what overturns.

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
        return make_frame(self.columns())

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of `table`, by name."""
        names = ("delta", "strength", "partial_r2", "estimate", "low", "high")
        n = len(self.effects[0].delta)
        return {
            "shifted": np.repeat([one.shifted for one in self.effects], n),
            **{k: np.concatenate([getattr(one, k) for one in self.effects]) for k in names},
        }

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
        table = self.columns()
        near = np.abs(table["strength"]) <= strength + 1e-9
        return float(table["low"][near].min()), float(table["high"][near].max())

    @property
    def summary(self) -> str:
        """What overturns the conclusion, in words."""
        side = "above" if self.estimate > self.threshold else "below"
        effects = " ".join(one.sentence(self.threshold) for one in self.effects)
        least, most = self.bounds
        return (
            f"{self.what} is {self.estimate:.3f}, {side} {self.threshold:g}. {effects} Whatever the "
            f"effect, bounds are {least:.3f} to {most:.3f}."
        )

    def __str__(self) -> str:
        level = f"{100 * self.confidence_level:g}% interval"
        head = ("effect in", "delta", "partial R²", "estimate", level)
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
    """Say how strong an unobserved contextual effect must be to overturn a conclusion.

    Parameters
    ----------
    model : LLPClassifier, or a pipeline that ends with one
        Fitted to ``X`` and ``y``.
    X : array or data frame with n_instances rows
        As for `group_estimates`.
    y : structured array from `unbag.bag_target`
        The same.
    by : str, list of str, or array-like of shape (n_instances,)
        Columns of ``X`` that make the groups, or the group of each row.
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
    confidence_level : float, default=0.95
        Posterior probability of intervals.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    sensitivity : GroupSensitivity
        Print it, or take ``sensitivity.table``.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import LLPClassifier, bag_target
    >>> from unbag.inference import group_sensitivity
    >>> rng = np.random.default_rng(0)
    >>> bag = np.repeat(np.arange(40), 50)
    >>> old = rng.uniform(size=2000) < rng.uniform(0.1, 0.9, size=40)[bag]
    >>> vote = rng.uniform(size=2000) < np.where(old, 0.7, 0.3)
    >>> y = bag_target(bag, counts=np.bincount(bag, vote)[bag])
    >>> X = old[:, None].astype(float)
    >>> model = LLPClassifier(kernel=None).fit(X, y)
    >>> by = np.where(old, "old", "young")
    >>> found = group_sensitivity(model, X, y, by, "old", "young", n_draws=20)
    >>> [one.shifted for one in found.effects]
    ['old', 'young']
    >>> bool(abs(found.effects[0].overturns) > 1)
    True
    """
    check_inside(confidence_level, "confidence_level")
    check_count(n_draws, "n_draws", 10)
    rows = GroupedRows.read(X, y, by, None)
    g, c = find_name(first, rows.names, "group"), find_class(of, rows.bags.class_names)
    h = None if second is None else find_name(second, rows.names, "group")
    if h == g:
        raise ValueError(f"first and second are both {shown(first, 24)}; name two groups.")
    if threshold is None:
        threshold = 0.5 if h is None else 0.0
    shifts = _Shifts(rows, PosteriorScores(model, rows.bags, n_draws, random_state), c)

    def limits(model: Any, offset: Floats | None) -> Floats:
        draws, _ = draw_shares(rows, shifts.posterior.of(model), confidence_level, offset)
        value = draws[:, g, c] - (0.0 if h is None else draws[:, h, c])
        return np.array([value.mean(), *interval(value, confidence_level)])

    none = limits(shifts.posterior.model, None)
    others = np.argsort(-rows.sizes)
    second_shifted = h if h is not None else next((int(s) for s in others if s != g), None)
    effects = [shifts.effect(s, limits, none, threshold) for s in (g, second_shifted)]
    if effects[0] is None:
        raise ValueError(f"The share of {shown(first, 24)} is the same in all bags.")
    least, most = (bound[:, c] for bound in duncan_davis_bounds(rows))
    ends = (least[g], most[g]) if h is None else (least[g] - most[h], most[g] - least[h])
    what = f"The share of {shown(rows.bags.class_names[c], 24)} in {shown(rows.names[g], 24)}"
    return GroupSensitivity(
        what=what + ("" if h is None else f" less that in {shown(rows.names[h], 24)}"),
        threshold=float(threshold),
        estimate=float(none[0]),
        effects=tuple(one for one in effects if one is not None),
        bounds=(float(ends[0]), float(ends[1])),
        confidence_level=confidence_level,
    )


class _Shifts:
    """Contextual effects in groups of some rows, on the log-odds of class c."""

    def __init__(self, rows: GroupedRows, posterior: PosteriorScores, c: int) -> None:
        self.posterior, self._rows, self._c = posterior, rows, c
        self._X = posterior.transform(rows.X)
        self._log_odds = posterior.mean_log_odds(rows.X, c)

    def effect(
        self, s: int | None, limits: Callable[..., Floats], none: Floats, threshold: float
    ) -> ContextualEffect | None:
        """Estimates by the strength of an effect in group s; None if its share does not vary."""
        rows, model = self._rows, self.posterior.model
        if s is None:
            return None
        x = (rows.inside[:, s] / rows.bags.sizes)[rows.bags.index]
        weight = np.where(rows.code == s, rows.multiplicity, 0.0)
        x = x - np.average(x, weights=weight)
        spread = float(np.sqrt(np.average(x**2, weights=weight)))
        if spread < 1e-6:
            return None
        found = {0.0: none}
        for side in (-1.0, 1.0):
            shifted = model
            # outwards from 0, each fit starting at the one before
            for strength in side * _STRENGTHS:
                offset = np.zeros((rows.bags.n_classes, len(x)))
                offset[self._c] = np.where(rows.code == s, strength / spread * x, 0.0)
                output = offset[1:] - offset[:1] if len(offset) == 2 else offset
                shifted = refit_with_offset(shifted, self._X, rows.bags, output)
                found[strength] = limits(shifted, offset)
        strength = np.array(sorted(found))
        estimate, low, high = np.array([found[one] for one in strength]).T
        sign = 1.0 if none[0] > threshold else -1.0
        centred = self._log_odds - np.average(self._log_odds, weights=weight)
        rest = float(np.average(centred**2, weights=weight)) + model.bag_effect_ + _LOGISTIC
        slopes = self._slopes(s, x)
        squares = {name: (delta * spread) ** 2 for name, delta in slopes.items()}
        delta = strength / spread
        return ContextualEffect(
            shifted=str(rows.names[s]),
            delta=delta,
            strength=strength,
            partial_r2=strength**2 / (strength**2 + rest),
            estimate=estimate,
            low=low,
            high=high,
            overturns=_crossing(delta, sign * (estimate - threshold)),
            insignificant=_crossing(delta, sign * ((low if sign > 0 else high) - threshold)),
            benchmarks={
                name: (slopes[name], square / (square + rest))
                for name, square in sorted(squares.items(), key=lambda one: -one[1])
            },
        )

    def _slopes(self, s: int, x: Floats) -> dict[str, float]:
        """The slope on x, in group s, of what each column contributes to log-odds."""
        rows = self._rows
        own = np.flatnonzero(rows.code == s)
        X, weighted = _safe_indexing(rows.X, own), rows.multiplicity[own] * x[own]
        mixed, is_frame = np.random.default_rng(0).permutation(len(own)), hasattr(X, "columns")
        found = {}
        for k in range(X.shape[1]):
            other = X.copy()
            if is_frame:
                name = str(X.columns[k])
                other[X.columns[k]] = X[X.columns[k]].to_numpy()[mixed]
            else:
                name, other[:, k] = f"column {k}", X[mixed, k]
            gain = self._log_odds[own] - self.posterior.mean_log_odds(other, self._c)
            slope = float(weighted @ gain / (weighted @ x[own]))
            if abs(slope) > 1e-9:
                found[name] = slope
        return found


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
