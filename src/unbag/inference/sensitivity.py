"""What an unobserved difference between bags would do to the share of a class in a group.

The model takes rows of a group to have equal log-odds in all bags, given their columns and up to a
random intercept. Here log-odds of the class in group g are shifted in bag b by δ (x_gb − x̄_g), with
x_gb the share of the group in the bag: a contextual effect, of which counts say nothing or little.
At each δ the coefficients are found again, with this as an offset and the same variances, and
shares are drawn as in `unbag.inference.groups`. From δ = 0 to ±∞ they go from the estimate to the
bounds of Duncan and Davis, or nearly so.

How large is δ? Its partial R² is the part of the variance of the log-odds in the group that it
would explain, s²/(s² + Var f + τ² + π²/3) with s = |δ| sd(x), and columns of X are measured in the
same way: by the slope, on x_gb, of what they contribute to the mean log-odds of the group in a bag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag._text import shown, table_lines
from unbag.inference.contrasts import interval
from unbag.inference.grouped_rows import GroupedRows, duncan_davis_bounds, find_name
from unbag.inference.posterior import PosteriorScores, draw_shares
from unbag.models.mixed import refit_with_offset

# Standard deviations of the shift of log-odds that are tried.
_STRENGTHS = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])

# Variance of a logistic variable: that of labels given their log-odds.
_LOGISTIC = np.pi**2 / 3.0


@dataclass(frozen=True, eq=False, repr=False)
class GroupSensitivity:
    """Estimates by the strength of an unobserved contextual effect; printing it says what overturns.

    Attributes
    ----------
    what : str
        The share, or difference of shares, that is estimated.
    threshold : float
        The conclusion is that the estimate is on one side of it.
    delta : ndarray of shape (n_values,)
        Change of log-odds where the share of the group in the bag goes from 0 to 1.
    partial_r2 : ndarray of shape (n_values,)
        Part of the variance of log-odds in the group that it explains.
    estimate, low, high : ndarrays of shape (n_values,)
        Estimates and limits of intervals.
    bounds : tuple of float
        What is possible whatever the model.
    overturns : float
        The smallest δ, by its absolute value, at which the estimate is at the threshold; NaN if
        none of those tried is large enough.
    insignificant : float
        The smallest δ at which the interval holds the threshold; 0 if it does without any.
    benchmarks : dict of str to (delta, partial R²)
        Columns of X, measured in the same way, the strongest first.
    confidence_level : float
        Posterior probability of intervals.
    """

    what: str
    threshold: float
    delta: Floats
    partial_r2: Floats
    estimate: Floats
    low: Floats
    high: Floats
    bounds: tuple[float, float]
    overturns: float
    insignificant: float
    benchmarks: dict[str, tuple[float, float]]
    confidence_level: float

    @property
    def table(self) -> Any:
        """One row for each δ, as a pandas DataFrame."""
        return make_frame(self.columns())

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of `table`, by name."""
        names = ("delta", "partial_r2", "estimate", "low", "high")
        return {name: getattr(self, name) for name in names}

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
        k = int(np.argmax(np.abs(self.delta)))
        odds = self.partial_r2[k] / (1.0 - self.partial_r2[k]) * (delta / self.delta[k]) ** 2
        return float(odds / (1.0 + odds))

    @property
    def summary(self) -> str:
        """What overturns the conclusion, in words."""
        at = int(np.flatnonzero(self.delta == 0)[0])
        side = "above" if self.estimate[at] > self.threshold else "below"
        text = f"{self.what} is {self.estimate[at]:.3f}, {side} {self.threshold:g}. "
        if np.isnan(self.overturns):
            most = float(np.abs(self.delta).max())
            text += f"No contextual effect of up to δ = ±{most:.2g} moves the estimate to {self.threshold:g}."
        else:
            text += (
                f"A contextual effect of δ = {self.overturns:+.2f} (partial R² "
                f"{self.r2_at(self.overturns):.1%}) moves the estimate to {self.threshold:g}"
            )
            if self.insignificant and abs(self.insignificant) < abs(self.overturns):
                text += f", one of {self.insignificant:+.2f} an end of its interval"
            text += "."
        if self.benchmarks:
            name, (delta, r2) = next(iter(self.benchmarks.items()))
            text += (
                f" The strongest column, {shown(name, 24)}, has {delta:+.2f} (partial R² {r2:.1%})."
            )
        least, most_ = self.bounds
        return f"{text} Whatever the effect, bounds are {least:.3f} to {most_:.3f}."

    def __str__(self) -> str:
        head = ("delta", "partial R²", "estimate", f"{100 * self.confidence_level:g}% interval")
        rows = [
            (f"{d:+.2f}", f"{r:.1%}", f"{e:.3f}", f"{low:.3f} to {high:.3f}")
            for d, r, e, low, high in zip(*self.columns().values(), strict=True)
        ]
        return "\n".join([self.summary, "", *table_lines(head, rows)])

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
    n_draws: int = 60,
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
        The group whose log-odds are shifted.
    second : group, optional
        One to compare with: the conclusion is then about a difference of shares.
    of : class, optional
        The class; by default the second of two.
    threshold : float, optional
        The conclusion is that the estimate is on one side of it; by default 0 for a difference, and
        one half for a share.
    n_draws : int, default=60
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
    >>> found.delta.shape, bool(abs(found.overturns) > 1)
    ((13,), True)
    """
    rows = GroupedRows.read(X, y, by, None)
    names = rows.bags.class_names
    g = find_name(first, rows.names, "group")
    h = None if second is None else find_name(second, rows.names, "group")
    if of is None and len(names) > 2:
        raise ValueError("of must name one of the classes.")
    c = 1 if of is None else find_name(of, names, "class")
    if threshold is None:
        threshold = 0.5 if h is None else 0.0
    posterior = PosteriorScores(model, rows.bags, n_draws, random_state)
    x = (rows.inside[:, g] / rows.bags.sizes)[rows.bags.index]
    weight = np.where(rows.code == g, rows.multiplicity, 0.0)
    centre = float(np.average(x, weights=weight))
    spread = float(np.sqrt(np.average((x - centre) ** 2, weights=weight)))
    if spread < 1e-6:
        raise ValueError(f"The share of {shown(first, 24)} is the same in all bags.")
    log_odds = posterior.mean_log_odds(rows.X, c)
    rest = np.average((log_odds - np.average(log_odds, weights=weight)) ** 2, weights=weight)
    unexplained = float(rest) + float(posterior.model.bag_effect_) + _LOGISTIC
    X_model = posterior.transform(rows.X)
    delta = np.concatenate([-_STRENGTHS[:0:-1], _STRENGTHS]) / spread
    found, shifted = [], posterior.model
    # outwards from 0 on either side, each fit starting at the one before
    for d in sorted(delta, key=lambda one: (one < 0, abs(one))):
        offset = np.zeros((len(names), len(x)))
        offset[c] = np.where(rows.code == g, d * (x - centre), 0.0)
        output = offset[1:] - offset[:1] if len(names) == 2 else offset
        start = posterior.model if abs(d) == np.abs(delta[delta != 0]).min() else shifted
        shifted = refit_with_offset(start, X_model, rows.bags, output) if d else posterior.model
        draws, _ = draw_shares(rows, posterior.of(shifted), confidence_level, offset)
        value = draws[:, g, c] - (0.0 if h is None else draws[:, h, c])
        found.append((d, value.mean(), *interval(value, confidence_level)))
    delta, estimate, low, high = np.array(sorted(found)).T
    least, most = duncan_davis_bounds(rows)
    ends = (least[g, c], most[g, c])
    if h is not None:
        ends = (least[g, c] - most[h, c], most[g, c] - least[h, c])
    at = int(np.flatnonzero(delta == 0)[0])
    sign = 1.0 if estimate[at] > threshold else -1.0
    r2 = (delta * spread) ** 2
    share = f"share of {shown(names[c], 24)} in {shown(rows.names[g], 24)}"
    return GroupSensitivity(
        what=f"The {share}" + ("" if h is None else f" less that in {shown(rows.names[h], 24)}"),
        threshold=float(threshold),
        delta=delta,
        partial_r2=r2 / (r2 + unexplained),
        estimate=estimate,
        low=low,
        high=high,
        bounds=(float(ends[0]), float(ends[1])),
        overturns=_crossing(delta, sign * (estimate - threshold)),
        insignificant=_crossing(delta, sign * ((low if sign > 0 else high) - threshold)),
        benchmarks=_benchmarks(posterior, rows, log_odds, g, c, x, spread, unexplained),
        confidence_level=confidence_level,
    )


def _crossing(delta: Floats, above: Floats) -> float:
    """The smallest |δ| at which what is positive at 0 is 0, by linear interpolation; NaN if none."""
    at = int(np.flatnonzero(delta == 0)[0])
    if above[at] <= 0:
        return 0.0
    crossings = [
        delta[k] + (delta[k + 1] - delta[k]) * above[k] / (above[k] - above[k + 1])
        for k in range(len(delta) - 1)
        if (above[k] > 0) != (above[k + 1] > 0)
    ]
    return float(min(crossings, key=abs, default=np.nan))


def _benchmarks(
    posterior: PosteriorScores,
    rows: GroupedRows,
    log_odds: Floats,
    g: int,
    c: int,
    x: Floats,
    spread: float,
    rest: float,
) -> dict[str, tuple[float, float]]:
    """δ and partial R² of each column: the slope on x of what it contributes in the group."""
    own = np.flatnonzero(rows.code == g)
    X, weight = _safe_indexing(rows.X, own), rows.multiplicity[own].astype(float)
    mixed = np.random.default_rng(0).permutation(len(own))
    is_frame = hasattr(X, "columns")
    centred = x[own] - np.average(x[own], weights=weight)
    found = {}
    for k in range(X.shape[1]):
        other = X.copy()
        if is_frame:
            name = str(X.columns[k])
            other[X.columns[k]] = X[X.columns[k]].to_numpy()[mixed]
        else:
            name, other[:, k] = f"column {k}", X[mixed, k]
        gain = log_odds[own] - posterior.mean_log_odds(other, c)
        delta = float((weight * centred) @ gain / ((weight * centred) @ centred))
        if abs(delta) > 1e-9:
            square = (delta * spread) ** 2
            found[name] = (delta, square / (square + rest))
    return dict(sorted(found.items(), key=lambda one: -one[1][1]))
