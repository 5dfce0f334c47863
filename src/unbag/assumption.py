"""A test of the one assumption: given its class, an instance is distributed alike in every bag.

If that holds, then for any function h the mean over bag i, of proportions γ_i and n_i instances,

    m_i = Σ_c γ_i[c] θ_c + e_i,    θ_c = E[h(X) | class c],

lies on a plane in the proportions (a line for two classes). The classes of a bag are counted and
not drawn, so that e_i varies by v_i / n_i with v_i = Σ_c γ_i[c] σ_c² only: the variance within
classes, not the larger one within the mixed bag. Its unbiased estimate from bag i alone is

    s_i² = Σ_j (x_ij − m_i)² / (n_i − 1) − θᵀK_i θ,
    K_i = n_i/(n_i − 1) · (D_i + V_i) − n_i V_i,

where D_i = diag(γ_i) − γ_i γ_iᵀ takes out the distance between classes and V_i is the covariance
of the noise in the proportions, if there is any. With residuals r_i of the plane fitted by least
squares of weights n_i/v_i, and A_ii one minus the leverage of bag i, the lack of fit is

    T = Σ_i (n_i r_i² − A_ii s_i²) / v_i.

T has the mean 0 whatever v_i is put in. What is left of bag i is a sum of products of *different*
instances, so that fourth moments cancel and heavy tails do no harm; its variance needs σ² and
θ only, its skewness third moments as well. With normal data and one variance, 1 + T/(L − C) is
the F-statistic of the analysis of variance, and its p-value is what comes out here.

What is averaged are mid-ranks (for two-valued columns, the values): a feature may have tails as
heavy as it likes, one outlier makes no bag suspicious, and no monotone transformation matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, special
from scipy.optimize import nnls

from unbag.bags import SAME_PROPORTION, Bags, bag_name, check_bag_target
from unbag.decontamination import check_contrast

Array = NDArray[np.float64]

# A bag's variance within classes is not taken for less than this share of the average one.
_LEAST_VARIANCE = 0.2
# Nor for less than this share of the variance in mixed bags.
_LEAST_WITHIN = 0.01
# Bags so many standard errors off the plane pull at it no more than that, in so many rounds.
_FAR = 2.5
_ROBUST_ROUNDS = 20
# Times that plane and variances are fitted in turn; the third changes hardly anything.
_ROUNDS = 3
# Power at which a drift counts as "would have been seen".
_POWER = 0.8
_LISTED = 5
# With more rows than this, ranks are those of a column rounded to quantiles of so many rows.
_EXACT_RANKS = 50_000
_QUANTILES = 500
# Points at which the distribution of an estimated variance is evaluated.
_NODES = 64


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionTest:
    """What `assumption_test` found; printing it shows the tables.

    Attributes
    ----------
    p_value : float
        The smallest adjusted p-value in the two tables.
    reject : bool
        Whether it is at most ``level``.
    level : float
        Chance of a false alarm, over all features and bags together.
    features : dict of arrays
        In the order of the columns: ``feature``, ``statistic`` (lack of fit, on average about
        ``df`` if the assumption holds), ``df``, ``p_value``, ``adjusted_p_value`` and
        ``detectable_drift``: how far, in standard deviations within a class, the means of bags
        must typically drift to be noticed in four of five cases. NaN for skipped columns.
    bags : dict of arrays
        Worst first: ``bag``, ``size``, ``feature`` (in which it stands out most), ``z`` (how many
        standard errors its mean is off there) and ``adjusted_p_value``.
    summary : str
        The finding in words.
    notes : tuple of str
        What was left out, and what to be wary of.
    """

    p_value: float
    reject: bool
    level: float
    features: dict[str, NDArray[Any]]
    bags: dict[str, NDArray[Any]]
    summary: str
    notes: tuple[str, ...]

    def frame(self, table: Literal["features", "bags"] = "features") -> Any:
        """Give one of the two tables as a pandas DataFrame."""
        if table not in ("features", "bags"):
            raise ValueError(f"table must be 'features' or 'bags', not {table!r}.")
        try:
            import pandas as pd
        except ImportError:
            raise ImportError(
                "frame() needs pandas (pip install pandas); the attributes `features` and `bags` "
                "hold the same tables as arrays."
            ) from None
        return pd.DataFrame(getattr(self, table))

    def __str__(self) -> str:
        worst = np.argsort(self.features["p_value"], kind="stable")[:_LISTED]
        first = np.arange(min(_LISTED, len(self.bags["bag"])))
        lines = [self.summary, *self.notes, "", *_table(self.features, worst)]
        return "\n".join([*lines, "", *_table(self.bags, first)])

    __repr__ = __str__


def assumption_test(
    X: Any,
    y: Any,
    *,
    groups: ArrayLike | None = None,
    feature_names: ArrayLike | None = None,
    level: float = 0.05,
) -> AssumptionTest:
    """Test whether instances of a class are distributed alike in all bags.

    Everything this package does rests on that. Each column of ``X`` is a witness: if the means of
    bags do not follow the proportions, instances of one class differ from bag to bag. The
    converse does not hold; a drift that leaves all tested means in place goes unseen.

    Parameters
    ----------
    X : array-like or data frame of shape (n_instances,) or (n_instances, n_features)
        Scores of a classifier, or features as numbers without missing values. May be sparse.
    y : structured array from `unbag.bag_target`
        Proportions are taken for the exact shares in the bag, unless it says how uncertain
        they are.
    groups : array-like of shape (n_instances,), optional
        Bags of different groups are not compared. Out-of-fold scores need this: those of each
        fold come from another function, so give the number of the fold.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the data frame, or 0, 1, ...
    level : float, default=0.05
        Chance of a false alarm, over all features and bags together.

    Returns
    -------
    AssumptionTest

    Notes
    -----
    Half of the level is for features (each one's lack of fit over all bags), half for single
    bags; within either half Holm's correction keeps the chance of any false alarm.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target
    >>> from unbag.assumption import assumption_test
    >>> rng = np.random.default_rng(0)
    >>> bag = np.repeat(np.arange(40), 50)
    >>> positive = rng.uniform(size=2000) < np.linspace(0.1, 0.9, 40)[bag]
    >>> y = bag_target(bag, counts=np.bincount(bag, positive)[bag])
    >>> score = rng.normal(size=2000) + 2 * positive
    >>> assumption_test(score, y).reject
    False
    >>> score[bag == 7] += 1
    >>> found = assumption_test(score, y)
    >>> found.reject, int(found.bags["bag"][0])
    (True, 7)
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not be {level!r}.")
    bags = check_bag_target(y)
    names, columns = _check_columns(X, bags.n_instances, feature_names)
    bags, planes, notes = _planes(bags, groups)
    skipped, tables = [], _Tables(len(names), bags.n_bags)
    for position, column in enumerate(columns):
        values = _as_numbers(column, names[position])
        found = [plane.test(values) for plane in planes]
        if all(one is None for one in found):
            skipped.append(str(names[position]))
        else:
            tables.add(position, planes, found, level / (2 * len(names)))
    if len(skipped) == len(names):
        raise ValueError("Every column is constant, so that there is nothing to test.")
    if skipped:
        notes.append(f"Constant and left out: {_listing(skipped)}.")
    return tables.result(names, bags, level, notes)


@dataclass(frozen=True, eq=False)
class _LackOfFit:
    """What one column says on one plane."""

    excess: float  # T
    scale: float  # mean of Σ n_i r_i²/v_i if the assumption holds
    variance: float  # of T, less what the estimated s_i² would add to normal data
    noise: float  # the latter
    third: float  # third cumulant of T
    information: float  # mean of T for drifts of one standard deviation
    z: Array
    p_bag: Array


class _Plane:
    """The bags of one group, to which each column fits a plane of its own."""

    def __init__(
        self, bags: Bags, rows: NDArray[np.intp] | slice, members: NDArray[np.intp] | slice
    ) -> None:
        self.bags, self.rows, self.members = bags, rows, members
        self.df = bags.n_bags - bags.n_classes
        n, G = bags.sizes[:, None, None], bags.proportions
        D = G[:, :, None] * np.eye(bags.n_classes) - G[:, :, None] * G[:, None, :]
        noise = getattr(bags, "noise", None)
        self.V = np.zeros_like(D) if noise is None else np.asarray(noise)
        self.plural = bags.sizes > 1
        self.within = np.maximum(bags.sizes - 1, 1)
        # a single row is of one class: a share between 0 and 1 can only be its chance
        self.nV = np.where((n == 1) & (self.V == 0).all(axis=(1, 2), keepdims=True), D, n * self.V)
        # noise V makes D too small by V, while residuals vary by nV more
        self.K = n * (D + self.V) / self.within[:, None, None] - self.nV

        # weights 1/v² would be best for normal data, but let bags without a rare value confirm
        # each other that there is no variance
        self.weight = np.where(self.plural, np.sqrt(self.within), 0.0)
        self.by_rows = np.linalg.qr(np.sqrt(bags.sizes)[:, None] * G)[0]
        self.by_freedom, self.triangle = np.linalg.qr(self.weight[:, None] * G)

    def test(self, column: Array) -> _LackOfFit | None:
        """Fit the plane to a column; None if that is constant."""
        h, two_valued = _standardise(column[self.rows])
        if h is None:
            return None
        bags, n, G = self.bags, self.bags.sizes, self.bags.proportions
        moments = [np.bincount(bags.index, h, len(n)) / n]
        power = h
        for _ in range(2):
            power = power * h
            moments.append(np.bincount(bags.index, power, len(n)) / n)
        mean, second, third = moments
        spread = n * np.maximum(second - mean**2, 0.0) / self.within
        skewed = self._third_moments(third - 3 * mean * second + 2 * mean**3)

        pooled = np.average(spread, weights=n - 1)
        v = actual = np.full(len(n), pooled)
        for _ in range(_ROUNDS):
            root = np.sqrt(n / v)
            q, r = np.linalg.qr(root[:, None] * G)
            inverse = np.linalg.inv(r)
            # noise in the proportions flattens the plane; less its part the slopes are right
            steeper = r.T @ r - np.einsum("i,icd->cd", n / v, self.V)
            if np.linalg.eigvalsh(steeper)[0] <= 0:
                raise ValueError(
                    "The noise in the proportions is as large as their differences, so that "
                    "nothing can be tested."
                )
            inverse = np.linalg.inv(steeper) @ r.T
            theta = inverse @ (q.T @ (root * mean))
            half = (inverse @ q.T) * np.sqrt(actual / v)
            covariance = half @ half.T
            residual = root * (mean - G @ theta)
            # θθᵀ less the error of the estimate, which is larger if bags drift
            drift = max(1.0, np.sum(residual**2) / np.sum(_free(q) * actual / v))
            square = np.outer(theta, theta) - drift * covariance
            own = spread - np.einsum("icd,cd->i", self.K, square)
            uncertain = np.einsum("icd,cd->i", self.nV, square)
            target = self.by_freedom.T @ (self.weight * (own - uncertain))
            sigma2 = nnls(self.triangle, target)[0]
            actual = G @ sigma2 + np.maximum(uncertain, 0.0)
            # classes may be far apart, but not so far that nothing is left within them
            actual = np.maximum(actual, _LEAST_WITHIN * pooled)
            v = np.maximum(actual, _LEAST_VARIANCE * np.average(actual, weights=n))

        free = _free(q)
        u = actual / v
        own = np.where(self.plural, own / v, u)
        # T_i holds products of different instances, and −2 Σ_j δ_j ε_j / (n_i − 1) from the
        # distance δ of classes; the estimate of θ adds its own part through K
        distance = theta - (G @ theta)[:, None]
        apart = 4 * n / self.within**2 * np.sum(G * distance**2 * sigma2, axis=1)
        M = np.einsum("i,icd->cd", self.plural * free / v, self.K)
        MC = M @ covariance
        two, three = _traces(q, u)
        variance = 2 * two + np.sum(self.plural * free**2 * apart / v**2)
        lumps = self.plural * 4 * n / self.within**2 * skewed**2 / v**3
        noise = 2 * np.sum(self.plural * (free * u) ** 2 / self.within)
        noise += 4 * theta @ MC @ M @ theta + 2 * np.trace(MC @ MC)
        # T of a two-valued column moves in steps: a pair of equal rare values in a bag is one
        step = float(np.average(2 / (self.within * v), weights=n)) if two_valued else 0.0
        z = _robust_residuals(root * mean, root[:, None] * G, residual, free)
        # the variance of single classes is known less well than the average: err on its side
        cautious = np.maximum(v, np.average(v, weights=n))
        z *= np.sqrt(v / cautious)
        return _LackOfFit(
            excess=float(np.sum(residual**2 - free * own)) - step / 2,
            scale=float(np.sum(free * u)),
            variance=float(variance),
            noise=float(noise),
            third=float(8 * three + np.sum(free**3 * lumps)),
            information=float(np.sum(free * n)),
            z=z,
            p_bag=_bag_tails(
                z, skewed / np.sqrt(n * cautious**3), 2 * np.sum(free * u) ** 2 / noise
            ),
        )

    def _third_moments(self, cubes: Array) -> Array:
        """Third moments of bags, on the plane fitted to them but no smaller than the average."""
        root = np.sqrt(self.bags.sizes)
        fitted = self.by_rows @ (self.by_rows.T @ (root * cubes)) / root
        pooled = np.average(cubes, weights=self.bags.sizes)
        sign = 1.0 if pooled >= 0 else -1.0
        return np.asarray(sign * np.maximum(sign * fitted, abs(pooled)))


def _standardise(values: Array) -> tuple[Array | None, bool]:
    """Centred mid-ranks, or 0 and 1 for two values, and whether it is two; None for a constant."""
    low, high = values.min(), values.max()
    if low == high:
        return None, False
    upper = values == high
    if (upper | (values == low)).all():
        return upper - upper.mean(), True
    if len(values) <= _EXACT_RANKS:
        _, code = np.unique(values, return_inverse=True)
    else:
        sample = values[:: len(values) // _EXACT_RANKS + 1]
        knots = np.unique(np.quantile(sample, np.linspace(0, 1, _QUANTILES + 1)))
        code = np.searchsorted(knots, values, "right")
    count = np.bincount(code)
    middle = (np.cumsum(count) - count / 2) / len(values) - 0.5
    return middle[code], False


def _free(q: Array) -> Array:
    """One minus the leverage of each bag."""
    return np.maximum(1 - np.sum(q**2, axis=1), SAME_PROPORTION)


def _robust_residuals(mean: Array, design: Array, residual: Array, free: Array) -> Array:
    """Standardised residuals from a plane that bags far off it do not pull over (Huber's).

    With weights w and g = x(XᵀwX)⁻¹xᵀ the variance of a residual is about 1 + g(1 − 2w).
    """
    z = residual / np.sqrt(free)
    for _ in range(_ROBUST_ROUNDS):
        if np.abs(z).max() <= _FAR:
            break
        weight = _FAR / np.maximum(np.abs(z), _FAR)
        root = np.sqrt(weight)
        q, r = np.linalg.qr(root[:, None] * design)
        error = np.sqrt(np.maximum(1 + np.sum(q**2, axis=1) * (1 / weight - 2), SAME_PROPORTION))
        z = (mean - design @ np.linalg.solve(r, q.T @ (root * mean))) / error
    return z


def _traces(q: Array, u: Array) -> tuple[float, float]:
    """Traces of (AU)² and (AU)³ for A = I − qqᵀ and U = diag(u)."""
    one, two, three = (q.T @ (u[:, None] ** k * q) for k in (1, 2, 3))
    second = np.sum(u**2) - 2 * np.trace(two) + np.trace(one @ one)
    third = np.sum(u**3) - 3 * np.trace(three) + 3 * np.trace(two @ one)
    return float(second), float(third - np.trace(one @ one @ one))


def _bag_tails(z: Array, skewness: Array, df: float) -> Array:
    """Two-sided p-values of standardised bag means: the larger of Student's and a skewed tail."""
    size = np.abs(z)
    towards = np.maximum(skewness * np.sign(z), 1e-3)
    shape = 4 / towards**2
    skewed = special.gammaincc(shape, shape + size * np.sqrt(shape))
    return np.minimum(2 * np.maximum(special.stdtr(df, -size), skewed), 1.0)


def _tail(excess: float, scale: float, variance: float, noise: float, third: float) -> float:
    """P(T > excess), where Σ n_i r_i²/v_i has three given moments over an estimated variance."""
    a, shape = _pearson(variance, third)
    df = 2 * scale**2 / noise
    share = (np.arange(_NODES) + 0.5) / _NODES
    denominator = special.chdtri(df, share) / df
    threshold = ((scale + excess) * denominator - scale) / a + shape
    return float(special.chdtrc(shape, np.maximum(threshold, 0.0)).mean())


def _pearson(variance: float, third: float) -> tuple[float, float]:
    """Give a and ν so that a(χ²_ν − ν) has this variance and third cumulant."""
    shape = 8 * variance**3 / third**2
    return np.sqrt(variance / (2 * shape)), shape


class _Tables:
    """Gathers what the columns say, so that no table of bags times columns is ever held."""

    def __init__(self, n_features: int, n_bags: int) -> None:
        self.numbers = np.full((4, n_features), np.nan)
        self.p_bag = np.full(n_bags, np.inf)
        self.z = np.full(n_bags, np.nan)
        self.worst = np.zeros(n_bags, dtype=np.intp)
        self.tested = 0

    def add(
        self, position: int, planes: list[_Plane], found: list[_LackOfFit | None], level: float
    ) -> None:
        pairs = [(plane, one) for plane, one in zip(planes, found, strict=True) if one is not None]
        names = ("excess", "scale", "variance", "noise", "third", "information")
        total = {name: sum(getattr(one, name) for _, one in pairs) for name in names}
        information = total.pop("information")
        df = sum(plane.df for plane, _ in pairs)
        a, shape = _pearson(total["variance"], total["third"])
        noticed = a * (special.chdtri(shape, level) - shape)
        seen = noticed + special.ndtri(_POWER) * np.sqrt(total["variance"] + total["noise"])
        self.numbers[:, position] = (
            df * (1 + total["excess"] / total["scale"]),
            df,
            _tail(**total),
            np.sqrt(seen / information),
        )
        self.tested += 1
        for plane, one in pairs:
            better = one.p_bag < self.p_bag[plane.members]
            bags = np.arange(len(self.z))[plane.members][better]
            self.p_bag[bags], self.z[bags] = one.p_bag[better], one.z[better]
            self.worst[bags] = position

    def result(
        self, names: NDArray[Any], bags: Bags, level: float, notes: list[str]
    ) -> AssumptionTest:
        statistic, df, p, drift = self.numbers
        features = {
            "feature": names,
            "statistic": statistic,
            "df": df,
            "p_value": p,
            "adjusted_p_value": np.minimum(2 * _holm(p), 1.0),
            "detectable_drift": drift,
        }
        judged = np.isfinite(self.p_bag)
        adjusted = np.minimum(2 * _holm(np.where(judged, self.tested * self.p_bag, np.nan)), 1.0)
        order = np.lexsort([-np.abs(self.z), self.p_bag])[: judged.sum()]
        table = {
            "bag": bags.ids[order],
            "size": bags.sizes[order],
            "feature": names[self.worst[order]],
            "z": self.z[order],
            "adjusted_p_value": adjusted[order],
        }
        smallest = min(np.nanmin(features["adjusted_p_value"]), np.nanmin(adjusted))
        return AssumptionTest(
            p_value=float(smallest),
            reject=bool(smallest <= level),
            level=level,
            features=features,
            bags=table,
            summary=_summary(features, table, level),
            notes=tuple(notes),
        )


def _holm(p: Array) -> Array:
    """Holm's adjusted p-values; NaN is no test."""
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0)
    return adjusted


def _planes(bags: Bags, groups: ArrayLike | None) -> tuple[Bags, list[_Plane], list[str]]:
    """The groups of bags that can be tested, the bags as they are cut, and what to be wary of."""
    if bags.n_bags <= bags.n_classes:
        raise ValueError(
            f"There are {bags.n_bags} bags of {bags.n_classes} classes; testing takes more bags "
            "than classes, because a plane fits as many bags as there are classes."
        )
    notes: list[str] = []
    if groups is None:
        check_contrast(bags)
        parts: list[Any] = [(None, bags, slice(None), slice(None))]
    else:
        bags, names, codes = _check_groups(bags, groups)
        parts = []
        for code, name in enumerate(names):
            members = np.flatnonzero(codes == code)
            part, rows = bags.take(members)
            parts.append((name, part, rows, members))
    planes, silent = [], []
    for name, part, rows, members in parts:
        enough = part.n_bags > part.n_classes and (part.sizes > 1).any()
        spread = np.linalg.svd(part.proportions, compute_uv=False)
        if enough and spread[-1] > SAME_PROPORTION * np.sqrt(part.n_bags):
            planes.append(_Plane(part, rows, members))
        else:
            silent.append(bag_name(name))
    if not planes:
        what = "No group has" if groups is not None else "There are not"
        raise ValueError(
            f"{what} more bags than classes, of proportions that tell the classes apart, and with "
            "more than one row in some of them; nothing can be tested."
        )
    if silent:
        notes.append(f"Groups of too few or too similar bags say nothing: {_listing(silent)}.")
    return bags, planes, notes


def _check_groups(bags: Bags, groups: ArrayLike) -> tuple[Bags, NDArray[Any], NDArray[np.intp]]:
    """The group of each bag; bags of labelled rows are cut where their rows' groups differ."""
    labels = np.asarray(groups)
    if labels.shape != (bags.n_instances,):
        raise ValueError(
            f"groups must hold one label for each of the {bags.n_instances} instances; its shape "
            f"is {labels.shape}."
        )
    names, codes = np.unique(labels, return_inverse=True)
    pieces, first = bags.divide(codes)
    cut = np.flatnonzero(~bags.labelled & (np.bincount(bags.index[first]) > 1))
    if len(cut):
        raise ValueError(
            f"Bag {bag_name(bags.ids[cut[0]])} has instances in several groups; a proportion says "
            "nothing about part of a bag."
        )
    return pieces, names, codes[first]


def _check_columns(
    X: Any, n_instances: int, feature_names: ArrayLike | None
) -> tuple[NDArray[Any], Iterator[Any]]:
    """Names of the columns, and the columns one by one."""
    columns: Iterator[Any]
    found: list[Any]
    shape: tuple[int, ...]
    given: Any = X
    frame: Any = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        shape, found, columns = frame.shape, [frame.name or "score"], iter([frame.to_numpy()])
    elif isinstance(frame, nw.DataFrame):
        shape, found = frame.shape, list(frame.columns)
        columns = (column.to_numpy() for column in frame.iter_columns())
    elif sparse.issparse(X):
        by_column = sparse.csc_array(given)
        shape = by_column.shape
        found = list(range(shape[1]))
        columns = (by_column[:, [j]].toarray()[:, 0] for j in found)
    else:
        values = np.asarray(X)
        shape = values.shape
        if values.ndim == 1:
            found, columns = ["score"], iter([values])
        else:
            found, columns = list(range(shape[-1] if shape else 0)), iter(values.T)
    if len(shape) not in (1, 2) or shape[0] != n_instances or not found:
        raise ValueError(f"There are {n_instances} instances, but X has the shape {shape}.")
    names = found if feature_names is None else list(np.asarray(feature_names).ravel())
    if len(names) != len(found):
        raise ValueError(f"X has {len(found)} columns, but there are {len(names)} feature_names.")
    return np.array([str(name) for name in names], dtype=object), columns


def _as_numbers(column: Any, name: str) -> Array:
    try:
        values = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"Column {name!r} does not hold numbers; encode it first.") from None
    if not np.isfinite(values).all():
        raise ValueError(
            f"Column {name!r} has missing or infinite values; fill them or leave it out."
        )
    return values


def _summary(features: dict[str, Any], bags: dict[str, Any], level: float) -> str:
    tested = np.isfinite(features["p_value"])
    p = features["adjusted_p_value"]
    off = np.argsort(np.where(tested, p, np.inf), kind="stable")[: np.sum(p[tested] <= level)]
    standing = bags["bag"][bags["adjusted_p_value"] <= level]
    worst = [f"{features['feature'][j]} ({_p_text(p[j])})" for j in off]
    if len(off) == 0 and len(standing) == 0:
        drift = np.median(features["detectable_drift"][tested])
        return (
            f"Nothing speaks against the assumption ({_p_text(np.min(p[tested]))} at the least): "
            f"bag means follow the proportions. Drifts of typically more than about {drift:.2g} "
            "standard deviations in all bags would have been seen."
        )
    sentence = (
        f"The bag means of {len(off)} of {tested.sum()} features do not follow the proportions: "
        f"{_listing(worst)}."
        if len(off)
        else "As a whole the bag means follow the proportions, but single bags do not."
    )
    if len(standing) == 0:
        return sentence + " No single bag stands out."
    named = _listing([bag_name(bag) for bag in standing])
    return sentence + f" Bags that stand out, the worst first: {named}."


def _p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _listing(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _table(columns: dict[str, NDArray[Any]], rows: NDArray[np.intp]) -> list[str]:
    """Lines of text, one for the names and one for each of some rows."""
    cells = [
        [name, *(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values[rows])]
        for name, values in columns.items()
    ]
    widths = [max(map(len, column)) for column in cells]
    return [
        "  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True))
        for line in zip(*cells, strict=True)
    ]
