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
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag._checks import check_count, check_inside
from unbag._optional import make_frame
from unbag._text import WIDTH, shown, table_lines
from unbag.evaluation.label_shift import column_names
from unbag.evaluation.permutation_importance import shuffle_column
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

    ``delta`` is the change of log-odds where the share of the group in the bag goes from 0 to 1,
    ``strength`` the standard deviation of what it adds to log-odds, with its sign, and
    ``partial_r2`` the part of their variance in the group that it explains. ``overturns`` is the
    smallest δ, by its absolute value, at which the estimate is at the threshold, NaN if none of
    those tried is large enough; ``insignificant`` that at which the interval holds it, 0 if it
    does without any. ``benchmarks`` are δ and partial R² of columns of X, the strongest first.
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
        """Partial R² of a δ."""
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
        n = len(self.effects[0].delta)
        return make_frame(
            {
                "shifted": np.repeat([one.shifted for one in self.effects], n),
                **{k: np.concatenate([getattr(one, k) for one in self.effects]) for k in names},
            }
        )

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
    """Strength of an unobserved contextual effect that overturns a conclusion.

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
    posterior = PosteriorScores(model, rows.bags, n_draws, random_state)
    question = _Question(rows, posterior, g, h, c, threshold, confidence_level)
    shifted = [g, h] if h is not None else [g, *(s for s in np.argsort(-rows.sizes) if s != g)][:2]
    effects = [question.effect(int(s)) for s in shifted]
    if effects[0] is None:
        raise ValueError(f"The share of {shown(first, 24)} is the same in all bags.")
    least, most = (bound[:, c] for bound in duncan_davis_bounds(rows))
    ends = (least[g], most[g]) if h is None else (least[g] - most[h], most[g] - least[h])
    what = f"The share of {shown(rows.bags.class_names[c], 24)} in {shown(rows.names[g], 24)}"
    return GroupSensitivity(
        what=what + ("" if h is None else f" less that in {shown(rows.names[h], 24)}"),
        threshold=float(threshold),
        estimate=float(question.none[0]),
        effects=tuple(one for one in effects if one is not None),
        bounds=(float(ends[0]), float(ends[1])),
        confidence_level=confidence_level,
    )


class _Question:
    """The share of class c in group g, less that in h if there is one, under contextual effects."""

    def __init__(
        self,
        rows: GroupedRows,
        posterior: PosteriorScores,
        g: int,
        h: int | None,
        c: int,
        threshold: float,
        confidence_level: float,
    ) -> None:
        self._rows, self._posterior, self._g, self._h, self._c = rows, posterior, g, h, c
        self._threshold, self._level = threshold, confidence_level
        self._features = posterior.transform(rows.X)
        self._log_odds = posterior.mean_log_odds(rows.X, c)
        self.none = self._limits(posterior, None)

    def _limits(self, posterior: PosteriorScores, offset: Floats | None) -> Floats:
        """Mean and interval of the estimate."""
        draws, _ = draw_shares(self._rows, posterior, self._level, offset)
        value = draws[:, self._g, self._c]
        value = value if self._h is None else value - draws[:, self._h, self._c]
        return np.array([value.mean(), *interval(value, self._level)])

    def effect(self, s: int) -> ContextualEffect | None:
        """Estimates by the strength of an effect in group s; None if its share does not vary."""
        rows, model, threshold = self._rows, self._posterior.model, self._threshold
        x = (rows.inside[:, s] / rows.bags.sizes)[rows.bags.index]
        weight = np.where(rows.code == s, rows.multiplicity, 0.0)
        x = x - np.average(x, weights=weight)
        spread = float(np.sqrt(np.average(x**2, weights=weight)))
        if spread < 1e-6:
            return None
        found = {0.0: self.none}
        for side in (-1.0, 1.0):
            shifted = model
            # outwards from 0, each fit starting at the one before
            for strength in side * _STRENGTHS:
                offset = np.zeros((rows.bags.n_classes, len(x)))
                offset[self._c] = np.where(rows.code == s, strength / spread * x, 0.0)
                output = offset[1:] - offset[:1] if len(offset) == 2 else offset
                shifted = refit_with_offset(shifted, self._features, rows.bags, output)
                found[strength] = self._limits(self._posterior.of(shifted), offset)
        strength = np.array(sorted(found))
        estimate, low, high = np.array([found[one] for one in strength]).T
        sign = 1.0 if self.none[0] > threshold else -1.0
        centred = self._log_odds - np.average(self._log_odds, weights=weight)
        rest = float(np.average(centred**2, weights=weight)) + model.bag_effect_ + _LOGISTIC
        slopes = sorted(self._slopes(s, x).items(), key=lambda one: -abs(one[1]))
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
                name: (slope, (slope * spread) ** 2 / ((slope * spread) ** 2 + rest))
                for name, slope in slopes
            },
        )

    def _slopes(self, s: int, x: Floats) -> dict[str, float]:
        """The slope on x, in group s, of what each column contributes to log-odds."""
        own = np.flatnonzero(self._rows.code == s)
        X, weighted = _safe_indexing(self._rows.X, own), self._rows.multiplicity[own] * x[own]
        found = {}
        for k, name in enumerate(column_names(X.shape[1], None, X)):
            other = shuffle_column(X, k, np.random.default_rng(0))
            gain = self._log_odds[own] - self._posterior.mean_log_odds(other, self._c)
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
