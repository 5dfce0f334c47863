"""Summary of the training bags, and how new rows and their counts differ from it.

Let γ_b be the share of a class in bag b and m_b the mean of its probabilities over the rows of b, by a
model that did not see b. Two straight lines do not depend on which bags there happen to be:

- under covariate shift, γ_b = a + β(m_b − c) on average, with β = 1 for probabilities that hold, and
  the sampling variance is v_b/n_b, v_b the mean of p(1 − p);
- under label shift, m_b = a + s(γ_b − c) on average, with s the difference of the mean
  probabilities of the classes, and the sampling variance is that of p within the classes, over n_b.
  It is this line that stays where it is when bags hold more positives than they used to.

Beyond sampling, and known noise of the proportions, bags have random effects with the variance
τ² u with u = q(1 − q). A line is fitted with the weights 1/(sampling variance + τ² u), τ² by the method of
moments (as in `unbag.evaluation.bag_effects`), and all of this is repeated until it agrees.

Whether rows are still those that a model was trained on: their probabilities, and their columns.
The *population stability index* compares the shares a_k of new rows in the tenths of the training
rows, Σ_k (a_k − e_k) log(a_k/e_k). How large it is when nothing has changed depends on how
different bags are, since the rows of a bag are alike. With Σ the covariance of a − e that bags
show, and D the diagonal of e, the index is about Σ_i λ_i χ²₁ with λ the eigenvalues of D⁻¹Σ: a
chi-square of the same mean and variance gives the p-value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from scipy import stats

from unbag._arrays import Floats
from unbag._outputs import by_output
from unbag._text import counted, p_text, percent, shown
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import probabilities_of
from unbag.defaults import FEWEST_BAGS
from unbag.evaluation.bag_effects import ShiftType, estimate_bag_effect
from unbag.evaluation.held_out import OutOfFold, cross_fit

_ROUNDS = 50
_SETTLED = 1e-6
_ROUNDING = 1e-12
# Standard errors above 0 from which on a slope counts as one.
_SURE = 3.0


@dataclass(frozen=True, eq=False)
class ClassInBags:
    """Observed and predicted proportions of a class in bags."""

    sizes: Floats
    shares: Floats  # γ_b
    noise: Floats  # variance of the known noise in it
    means: Floats  # of p over the rows
    inner: Floats  # of p(1 − p)
    squares: Floats  # of p²

    @classmethod
    def of(cls, bags: Bags, p: Floats, number: int) -> ClassInBags:
        """Summarise the class of this number, from its probabilities by row."""
        noise = np.zeros(bags.n_bags) if bags.noise is None else bags.noise[:, number, number]
        means = bags.means(np.stack([p, p * (1 - p), p**2]))
        columns = (bags.sizes.astype(float), bags.proportions[:, number], noise, *means)
        return cls(*(one[~bags.labelled] for one in columns))

    @property
    def share(self) -> float:
        """Share of the class in all bags together."""
        return float(np.average(self.shares, weights=self.sizes))

    @property
    def mean(self) -> float:
        """Mean of its probabilities in all bags together."""
        return float(np.average(self.means, weights=self.sizes))

    def total_gap(self) -> tuple[float, float]:
        """Share of all rows less their mean probability, and its standard error, by bags."""
        weights = self.sizes / self.sizes.sum()
        apart = self.shares - self.means
        gap = float(weights @ apart)
        sampling = weights**2 @ (self.inner / self.sizes + self.noise)
        spread = len(weights) / (len(weights) - 1) * (weights**2 @ (apart - gap) ** 2)
        return gap, float(np.sqrt(max(spread, sampling)))

    def axes(self, direction: ShiftType) -> tuple[Floats, Floats]:
        """Regressor and response of the line."""
        axes = self.means, self.shares
        return axes if direction == "covariate_shift" else axes[::-1]

    def sampling_variance(self, direction: ShiftType, slope: float) -> Floats:
        """Variance of the response around the line by sampling and known noise."""
        if direction == "covariate_shift":
            return self.inner / self.sizes + self.noise
        known = np.clip(self.shares, 0, 1)
        own = (self.squares - self.means**2) - slope**2 * known * (1 - known)
        own = own * self.sizes / np.maximum(self.sizes - 1, 1)
        # in each of the classes, by least squares over bags
        basis = np.stack([1 - known, known])
        moments = (basis * self.sizes) @ basis.T + _ROUNDING * np.eye(2)
        within = np.maximum(np.linalg.solve(moments, (basis * self.sizes) @ own), 0)
        return within @ basis / self.sizes + slope**2 * self.noise


@dataclass(frozen=True)
class BagLine:
    """y = a + s(x − c), with what it is unsure of."""

    direction: ShiftType
    centre: float
    intercept: float
    slope: float
    slope_error: float
    scatter: float  # τ²
    scatter_error: float
    share: float  # q of the bags that it was fitted to

    @property
    def unit(self) -> float:
        """What τ² is a share of."""
        return self.share * (1 - self.share)

    @property
    def significant(self) -> bool:
        """Whether it rises beyond doubt; held-out bags pull the slope of a weak model below 0."""
        return self.slope > _SURE * self.slope_error

    def at(self, x: Floats) -> Floats:
        """The y of each x."""
        return self.intercept + self.slope * (x - self.centre)

    def shares_at(self, means: Floats) -> Floats:
        """Shares of bags that go with mean probabilities, in [0, 1]."""
        if self.direction == "covariate_shift":
            return np.clip(self.at(means), 0, 1)
        return np.clip(self.centre + (means - self.intercept) / self.slope, 0, 1)


class LineComparison(NamedTuple):
    """New bags compared with a line."""

    z: Floats  # standardised residuals, positive where there is more of the class than expected
    slope: float  # its difference from that of the line
    slope_error: float
    slope_p: float  # two-sided
    chi_square: float  # Σ r²/variance around the new line
    degrees: float
    scatter_p: float


def fit_line(found: ClassInBags, direction: ShiftType) -> BagLine:
    """Fit a line and the scatter around it."""
    x, y = found.axes(direction)
    unit = max(found.share * (1 - found.share), _ROUNDING)
    # two parameters make residuals smaller than they are around the truth
    few = len(x) / (len(x) - 2)
    scatter, slope = 0.0, 1.0
    for _ in range(_ROUNDS):
        sampling = found.sampling_variance(direction, slope)
        weights = 1 / (sampling + scatter * unit + _ROUNDING)
        line = _weighted_line(x, y, weights)
        slope = line.slope
        excess = (few * line.rest**2 - sampling) / unit
        new = max(0.0, float(weights**2 @ excess / (weights @ weights)))
        settled = abs(new - scatter) <= _SETTLED * (new + float(sampling.mean()) / unit)
        scatter = new
        if settled:
            break
    error = np.sqrt(few * (weights**4 @ (excess - scatter) ** 2)) / (weights @ weights)
    return BagLine(
        direction=direction,
        centre=line.centre,
        intercept=line.level,
        slope=slope,
        slope_error=line.slope_error,
        scatter=scatter,
        scatter_error=float(error),
        share=found.share,
    )


def choose_line(found: ClassInBags, label_shift: bool) -> BagLine:
    """The line of the assumption that bags agree with; under label shift, if it has a slope."""
    if label_shift:
        line = fit_line(found, "label_shift")
        if line.significant:
            return line
    return fit_line(found, "covariate_shift")


def compare_with_line(line: BagLine, found: ClassInBags) -> LineComparison:
    """Compare new bags with a line that was fitted to others."""
    x, y = found.axes(line.direction)
    sampling = found.sampling_variance(line.direction, line.slope)
    weights = 1 / (sampling + line.scatter * line.unit + _ROUNDING)
    residual, degrees = y - line.at(x), len(x) - 2
    new = _weighted_line(x, residual, weights)
    slope_error = np.hypot(new.slope_error, line.slope_error)
    squares = weights * new.rest**2
    # as of variances of two samples: the other has as many degrees as τ² is sure of
    unsure = float(weights.mean() * line.unit * line.scatter_error) ** 2
    others = 2 / max(unsure, _ROUNDING)
    # a single outlying bag is not evidence against the model
    without_worst = np.sort(squares)[:-1]
    scatter_p = max(
        _scatter_p(squares, degrees, others), _scatter_p(without_worst, degrees - 1, others)
    )
    return LineComparison(
        z=(residual if line.direction == "covariate_shift" else -residual) * np.sqrt(weights),
        slope=new.slope,
        slope_error=float(slope_error),
        slope_p=float(2 * stats.t.sf(abs(new.slope / slope_error), degrees)),
        chi_square=float(squares.sum()),
        degrees=float(degrees),
        scatter_p=scatter_p,
    )


def _scatter_p(squares: Floats, degrees: int, others: float) -> float:
    """P-value of squares as large as these, against a variance of so many degrees of freedom."""
    # squares of normal residuals have a relative variance of 2, those of bags often more
    mean = max(float(squares.mean()), _ROUNDING)
    per_square = 2 / max(2.0, float(squares.var(ddof=1)) / mean**2)
    return float(stats.f.sf(squares.sum() / degrees, per_square * degrees, others))


class _WeightedLine(NamedTuple):
    centre: float  # of x
    level: float  # of y there
    slope: float
    slope_error: float  # the larger of those by weights and by residuals
    rest: Floats  # residuals


def _weighted_line(x: Floats, y: Floats, weights: Floats) -> _WeightedLine:
    """Weighted least squares."""
    centre, level = np.average(x, weights=weights), np.average(y, weights=weights)
    along = max(float(weights @ (x - centre) ** 2), _ROUNDING)
    slope = weights @ ((x - centre) * y) / along
    rest = y - level - slope * (x - centre)
    few = len(x) / (len(x) - 2)
    spread = max(1.0, float(few * (weights**2 @ ((x - centre) * rest) ** 2) / along))
    error = np.sqrt(spread / along)
    return _WeightedLine(float(centre), float(level), float(slope), float(error), rest)


_TENTHS = np.arange(1, 10) / 10

# Share that a part without rows is taken to have, so that the logarithm exists.
_LEAST = 1e-4

# A population stability index, and its p-value, from which on rows count as changed.
_CHANGED, _SURE_OF_CHANGE = 0.1, 0.01

# Smallest share of rows outside the range of training that is reported, and columns named.
_REPORTED, _LISTED = 0.005, 5


@dataclass(frozen=True)
class Stability:
    """The population stability index of probabilities, and the p-value of no change."""

    index: float
    p_value: float

    @property
    def changed(self) -> bool:
        """Whether rows differ from those of training by more than bags differ, and by enough."""
        return self.index > _CHANGED and self.p_value < _SURE_OF_CHANGE

    @property
    def description(self) -> str:
        """The finding in half a sentence."""
        size = f"population stability index {self.index:.2f}"
        if self.changed:
            return f"changed since training ({size}, {p_text(self.p_value)})"
        if self.p_value < _SURE_OF_CHANGE:
            return f"hardly changed since training ({size}; up to {_CHANGED:g} is small)"
        return f"no change since training found ({size}, {p_text(self.p_value)})"


def score_distribution(bags: Bags, probabilities: Floats) -> dict[str, Any]:
    """Summary of the probabilities of training rows: deciles, proportions and their covariance."""
    edges = np.unique(np.quantile(probabilities, _TENTHS))
    shares, covariance = _parts(bags, probabilities, edges)
    return {"edges": edges.tolist(), "shares": shares.tolist(), "covariance": covariance.tolist()}


def stability_index(kept: Mapping[str, Any], bags: Bags, probabilities: Floats) -> Stability:
    """Compare the probabilities of new rows with what `score_distribution` kept."""
    before = np.maximum(kept["shares"], _LEAST)
    now, covariance = _parts(bags, probabilities, np.asarray(kept["edges"]))
    together = (covariance + np.asarray(kept["covariance"])) / np.sqrt(np.outer(before, before))
    mean, square = np.trace(together), np.sum(together**2)
    quadratic = float(np.sum((now - before) ** 2 / before))
    p_value = float(stats.chi2.sf(quadratic * mean / square, mean**2 / square))
    now = np.maximum(now, _LEAST)
    return Stability(float(np.sum((now - before) * np.log(now / before))), p_value)


def _parts(bags: Bags, probabilities: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Shares of rows between edges, and their covariance with bags as what is independent."""
    part = np.searchsorted(edges, probabilities, side="left")
    table = bags.tally(part, len(edges) + 1)
    shares = table.sum(axis=0) / bags.n_instances
    apart = (table - bags.sizes[:, None] * shares) / bags.n_instances
    return shares, apart.T @ apart * bags.n_bags / (bags.n_bags - 1)


def column_ranges(X: Any) -> dict[str, list[float]]:
    """Smallest and largest value of every column of numbers, if X is not sparse."""
    return {
        name: [float(values.min()), float(values.max())]
        for name, values in _number_columns(X)
        if len(values)
    }


class OutOfRange:
    """Counts rows that leave the range of training, chunk by chunk; missing values are skipped."""

    def __init__(self, ranges: Mapping[str, Any], X: Any = None) -> None:
        self._ranges = ranges
        self._outside: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self.add(X)

    def add(self, X: Any) -> None:
        """Count more rows."""
        for name, values in _number_columns(X):
            if name in self._ranges:
                low, high = self._ranges[name]
                self._outside[name] += int(np.sum((values < low) | (values > high)))
                self._seen[name] += len(values)

    @property
    def shares(self) -> dict[str, float]:
        """Share of rows outside by column, the largest first, where it is large enough to report."""
        found = ((self._outside[name] / n, name) for name, n in self._seen.items() if n)
        reported = sorted(
            ((share, name) for share, name in found if share > _REPORTED), reverse=True
        )
        return {name: share for share, name in reported}

    @property
    def words(self) -> list[str]:
        """A sentence for each column, as far as they are not too many."""
        found = []
        for name, share in list(self.shares.items())[:_LISTED]:
            low, high = self._ranges[name]
            found.append(
                f"{shown(name, 40)} leaves the range of training ({low:g} to {high:g}) in "
                f"{percent(share)} of rows: predictions there are extrapolations"
            )
        more = len(self.shares) - _LISTED
        return [*found, *([f"{counted(more, 'more column')} do so, too"] if more > 0 else [])]


def _number_columns(X: Any) -> Iterator[tuple[str, Floats]]:
    """Name and finite values of every column of numbers, one by one."""
    frame: Any = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        for column in map(frame.get_column, frame.columns):
            if column.dtype.is_numeric():
                values = np.asarray(column.to_numpy(), dtype=float)
                yield str(column.name), values[np.isfinite(values)]
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        for number, values in enumerate(X.T.astype(float, copy=False)):
            yield f"column {number}", values[np.isfinite(values)]


# --- the training bags ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassReference:
    """A class in the training bags, as predicted by models that did not see them."""

    line: BagLine  # of proportions and mean probabilities of bags
    gap: float  # proportion minus mean probability over all rows
    gap_error: float
    rows: Mapping[str, Any]  # deciles of the probabilities, for the population stability index


@dataclass(frozen=True)
class MonitoringReference:
    """Summary of the training bags that `monitor` compares new bags with."""

    n_bags: int
    class_shares: tuple[float, ...]  # class prior of the model's probabilities
    classes: tuple[ClassReference, ...]  # the second of two classes, or each of several
    columns: Mapping[str, Any] = field(default_factory=dict)  # range of each numeric column

    @property
    def numbers(self) -> list[int]:
        """Numbers of the classes that are monitored."""
        n_classes = len(self.class_shares)
        return [1] if n_classes == 2 else list(range(n_classes))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and mappings, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned."""
        classes = tuple(
            ClassReference(**{**one, "line": BagLine(**one["line"])}) for one in kept["classes"]
        )
        return cls(kept["n_bags"], tuple(kept["class_shares"]), classes, kept["columns"])


def make_monitoring_reference(
    model: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    out_of_fold: OutOfFold | None = None,
) -> MonitoringReference:
    """Summarise the training bags for `monitor`.

    Parameters
    ----------
    model : classifier or pipeline
        Clones of it are fitted without each fold; its probabilities are for the class prior
        "empirical".
    X, y : as in `monitor`
    cv : as in `cross_fit`
    out_of_fold : as in `cross_val_evaluate`

    Returns
    -------
    reference : MonitoringReference
        Argument of `monitor`; ``to_dict`` prepares it for a file.

    Examples
    --------
    >>> from unbag import LLPClassifier, LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference, monitor
    >>> april, may = (make_gaussian_bags(n_bags=40, bag_size=40, random_state=s) for s in (0, 1))
    >>> model = LLPEnsembleClassifier([("linear", LLPClassifier(kernel=None))]).fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> monitor(model, may.X, may.y, reference=reference).verdict
    'ok'
    """
    bags = check_bag_target(y)
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"A reference takes {FEWEST_BAGS} bags at least, and there are {n_bags}.")
    if out_of_fold is None:
        out_of_fold = cross_fit(model, X, y, cv=cv)
    log_odds = out_of_fold.log_odds
    if not np.isfinite(log_odds).all():
        raise ValueError("Monitoring takes a model with predict_proba.")
    p = probabilities_of(by_output(log_odds))
    label_shift = estimate_bag_effect(bags, p).prefers_label_shift
    shares = tuple(map(float, bags.class_shares))
    reference = MonitoringReference(n_bags, shares, (), column_ranges(X))
    classes = []
    for number in reference.numbers:
        found = ClassInBags.of(bags, p[number], number)
        rows = score_distribution(bags, p[number])
        classes.append(ClassReference(choose_line(found, label_shift), *found.total_gap(), rows))
    return replace(reference, classes=tuple(classes))
