"""Test of label shift: instances of a class have the same distribution in all bags.

The statistics of columns are in `unbag.evaluation.lack_of_fit`; here columns are read as numbers,
p-values of all columns and bags are adjusted to each other, and the finding is put into words.

Missing numbers are replaced by the median, and whether a number was missing is a column of its own.
Of text and categories, every value that is not rare is a column of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from unbag._arrays import Floats
from unbag._checks import check_inside
from unbag._text import aligned, listing, p_text, wrapped
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.shares import bag_name
from unbag.defaults import LARGE_DEVIATION
from unbag.evaluation.lack_of_fit import Plane
from unbag.weights import check_contrast

_LISTED = 5

# Numbers in a table of bags and columns that are tested together.
_TOGETHER = 2**17

# Values of text that fewer rows hold carry no information.
_RARE = 5

# Share of entries that are not zero, below which columns are kept sparse.
_SPARSE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class LabelShiftTest:
    """Result of `label_shift_test`; printing it shows the tables.

    ``features`` has a row for each column: ``statistic`` is the lack of fit (about ``df`` or less under
    label shift), ``detectable_deviation`` that of bag means, in SD within a class, which is detected
    with a power of 80%; skipped columns have NaN. In ``bags``, the worst first, ``feature`` is the
    column in which a bag deviates most, and ``z`` by how many standard errors.
    """

    p_value: float  # the smallest adjusted p-value in the two tables
    reject: bool  # whether it is at most alpha
    alpha: float  # probability of a false rejection, over all columns and bags together
    features: dict[str, NDArray[Any]]
    bags: dict[str, NDArray[Any]]
    notes: tuple[str, ...]  # what was left out, and what to be wary of

    @property
    def worst_feature(self) -> str:
        """The column with the strongest evidence against label shift, in its means or by one bag."""
        p, first = self.features["adjusted_p_value"], self.bags["adjusted_p_value"]
        if len(first) and first[0] < np.nanmin(p):
            return str(self.bags["feature"][0])
        return str(self.features["feature"][int(np.nanargmin(self.features["p_value"]))])

    @property
    def typical_deviation(self) -> float:
        """Deviation in SD that is detected with power 80%: median over columns."""
        return float(np.nanmedian(self.features["detectable_deviation"]))

    @property
    def has_power(self) -> bool:
        """Whether deviations of half a standard deviation would have been detected, or some were."""
        return self.reject or self.typical_deviation <= LARGE_DEVIATION

    @property
    def summary(self) -> str:
        """The finding in a sentence or two, with what would have been detected."""
        p, deviation = self.features["adjusted_p_value"], self.typical_deviation
        if not self.reject:
            found = f"No conflict with label shift found ({p_text(self.p_value)}, adjusted)"
            if deviation > LARGE_DEVIATION:
                return f"{found}, but deviations below {deviation:.2g} SD would not have been detected."
            return f"{found}: deviations above {deviation:.2g} SD would have been detected."
        sentence = "Bag means are linear in the proportions, except for single bags."
        off = np.argsort(p, kind="stable")[: np.sum(p <= self.alpha)]  # NaN comes last
        if len(off):
            worst = [f"{self.features['feature'][j]} ({p_text(p[j])})" for j in off]
            sentence = (
                f"The bag means of {len(off)} of {np.isfinite(p).sum()} columns are not linear in the "
                f"proportions: {listing(worst, 3)}."
            )
        standing = self.bags["bag"][self.bags["adjusted_p_value"] <= self.alpha]
        if not len(standing):
            return sentence
        named = listing([bag_name(bag) for bag in standing])
        return f"{sentence} Bags that stand out, the worst first: {named}."

    def __str__(self) -> str:
        lines = [line for text in (self.summary, *self.notes) for line in wrapped(text)]
        worst = np.argsort(self.features["p_value"], kind="stable")[:_LISTED]
        features = {name: values[worst] for name, values in self.features.items()}
        bags = {name: values[:_LISTED] for name, values in self.bags.items()}
        return "\n".join([*lines, "", *lines_of(features), "", *lines_of(bags)])

    __repr__ = __str__


def lines_of(columns: Mapping[str, NDArray[Any]]) -> list[str]:
    """A table as lines of text, the names of its columns first."""
    cells = [
        [name, *(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values)]
        for name, values in columns.items()
    ]
    return aligned(list(zip(*cells, strict=True)), ">")


def label_shift_test(
    X: Any,
    y: Any,
    *,
    feature_names: ArrayLike | None = None,
    alpha: float = 0.05,
) -> LabelShiftTest:
    """Test label shift: whether instances of a class have the same distribution in all bags.

    Under label shift, the bag means of every column of ``X`` are linear in the proportions. The
    converse does not hold: a deviation that leaves all tested means linear is not detected.

    Parameters
    ----------
    X : array-like or data frame of shape (n_instances,) or (n_instances, n_features)
        Scores of a classifier, or features. May be sparse. Of text, each frequent value is a column of
        zeros and ones; missing numbers are replaced by the median.
    y : structured array from `unbag.bag_target`
        Proportions are exact unless it gives their noise.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the data frame, or 0, 1, ...
    alpha : float, default=0.05
        Probability of a false rejection, over all columns and bags together.

    Returns
    -------
    LabelShiftTest

    Notes
    -----
    Half of alpha is for features (the lack of fit of each over all bags), half for single bags,
    with Holm's correction. No test can distinguish a deviation that is linear in the proportions
    from a difference between classes, unless the classes would have to lie further apart than the
    values within bags do. Correlated rows within bags (one household, one work shift) also make bag
    means deviate, and the test rejects, although estimates by whole bags stay valid. If several
    bags deviate, the bags that are named may be others.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, label_shift_test
    >>> rng = np.random.default_rng(0)
    >>> bag = np.repeat(np.arange(40), 50)
    >>> positive = rng.uniform(size=2000) < np.linspace(0.1, 0.9, 40)[bag]
    >>> y = bag_target(bag, counts=np.bincount(bag, positive)[bag])
    >>> score = rng.normal(size=2000) + 2 * positive
    >>> label_shift_test(score, y).reject
    False
    >>> score[bag == 7] += 1
    >>> found = label_shift_test(score, y)
    >>> found.reject, int(found.bags["bag"][0])
    (True, 7)
    """
    check_inside(alpha, "alpha")
    bags, columns = check_bag_target(y), read_columns(X, feature_names)
    if columns.values.shape[0] != bags.n_instances or not len(columns.names):
        raise ValueError(
            f"There are {bags.n_instances} instances, but X has the shape {columns.values.shape}."
        )
    return columns_test(columns, bags, alpha)


def columns_test(columns: Columns, bags: Bags, alpha: float = 0.05) -> LabelShiftTest:
    """Test columns that are numbers already; see `label_shift_test`."""
    if bags.n_bags <= bags.n_classes:
        raise ValueError(
            f"There are {bags.n_bags} bags of {bags.n_classes} classes; testing takes more bags "
            "than classes, because a plane fits as many bags as there are classes."
        )
    check_contrast(bags)
    if not (bags.sizes > 1).any():
        raise ValueError("No bag has more than one row, so nothing can be tested.")
    names, plane, df = columns.names, Plane(bags), float(bags.n_bags - bags.n_classes)
    statistic, p, drift = np.full((3, len(names)), np.nan)
    steep = np.zeros(len(names), dtype=bool)
    # of each bag the column in which it stands out most: no table of bags times columns is held
    p_bag, z = np.full(bags.n_bags, np.inf), np.full(bags.n_bags, np.nan)
    worst, bag = np.zeros(bags.n_bags, dtype=np.intp), np.arange(bags.n_bags)
    means = ((place, plane.in_bags(columns.at(place))) for place in range(len(names)))
    varying = ((place, one) for place, one in means if one is not None)
    while block := list(islice(varying, max(1, _TOGETHER // bags.n_bags))):
        at = np.array([place for place, _ in block])
        found = plane.test([column for _, column in block])
        ratio, p_lack = found.lack()
        statistic[at], p[at] = df * ratio, np.minimum(p_lack, found.p_steep)
        drift[at] = np.sqrt(found.refined.detectable(alpha / (2 * len(names))) / found.information)
        steep[at] = found.p_steep < p_lack
        column = found.p_bag.argmin(axis=0)
        least = found.p_bag[column, bag]
        new = least < p_bag
        p_bag[new], z[new], worst[new] = least[new], found.z[column, bag][new], at[column[new]]
    tested = np.isfinite(p)
    if not tested.any():
        raise ValueError("Every column is constant, so there is nothing to test.")
    adjusted = np.minimum(2 * _holm(p), 1.0)
    judged = np.isfinite(p_bag)
    of_bags = np.minimum(2 * _holm(np.where(judged, tested.sum() * p_bag, np.nan)), 1.0)
    order = np.lexsort([-np.abs(z), p_bag])[: judged.sum()]
    notes = []
    if not tested.all():
        notes.append(f"Constant and left out: {listing(list(names[~tested]))}.")
    steep &= adjusted <= alpha
    if steep.any():
        notes.append(
            "Bag means change more with the proportions than the spread within bags allows under label "
            f"shift: {listing(list(names[steep]))}."
        )
    smallest = float(min(np.nanmin(adjusted), np.nanmin(of_bags)))
    return LabelShiftTest(
        p_value=smallest,
        reject=smallest <= alpha,
        alpha=alpha,
        features={
            "feature": names,
            "statistic": statistic,
            "df": np.where(tested, df, np.nan),
            "p_value": p,
            "adjusted_p_value": adjusted,
            "detectable_deviation": drift,
        },
        bags={
            "bag": bags.ids[order],
            "size": bags.sizes[order],
            "feature": names[worst[order]],
            "z": z[order],
            "adjusted_p_value": of_bags[order],
        },
        notes=tuple(notes),
    )


def _holm(p: Floats) -> Floats:
    """Holm's adjusted p-values; NaN is not a test."""
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0)
    return adjusted


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of numbers with their names."""

    values: Any  # (n_instances, n_columns)
    names: NDArray[Any]
    left_out: tuple[str, ...] = ()  # columns without a value that several rows share

    def column(self, name: str) -> Floats:
        """Values of one column."""
        place = np.flatnonzero(self.names == name)
        if len(place) == 0:
            known = ", ".join(map(str, self.names[:5]))
            raise ValueError(f"There is no column {name!r}; there are {known} ...")
        return self.at(int(place[0]))

    def at(self, place: int) -> Floats:
        """Values of the column at a place."""
        found: Any = self.values[:, [place]]
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return np.asarray(dense[:, 0], dtype=float)


def read_columns(X: Any, feature_names: ArrayLike | None = None) -> Columns:
    """Read an array, a sparse matrix, a data frame or a single column as numbers."""
    frame: Any = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.rename(frame.name or "score").to_frame()
    if isinstance(frame, nw.DataFrame):
        return _gather({str(n): frame.get_column(n).to_numpy() for n in frame.columns}, len(frame))
    if sparse.issparse(X):
        given: Any = X
        return Columns(sparse.csc_array(given), column_names(given.shape[1], feature_names))
    values = np.asarray(X)
    if values.ndim == 1:
        values = values[:, None]
        feature_names = ["score"] if feature_names is None else feature_names
    if values.ndim != 2:
        return Columns(np.empty((len(values), 0)), np.array([], dtype=str))
    names = column_names(values.shape[1], feature_names)
    if values.dtype.kind in "biuf" and np.isfinite(values).all():
        return Columns(values, names)
    return _gather(dict(zip(names.tolist(), values.T, strict=True)), len(values))


def _gather(columns: dict[str, NDArray[Any]], n_rows: int) -> Columns:
    """Columns of numbers that columns of any type become; sparse if most entries are zero."""
    made = {name: _as_numbers(name, values) for name, values in columns.items()}
    found = {name: one for each in made.values() for name, one in each.items()}
    names, left_out = np.array(list(found), dtype=str), [name for name in made if not made[name]]
    table: Any = np.empty((n_rows, 0))
    if found:
        table = sparse.csc_array(sparse.hstack(list(found.values())))
        table = table.toarray() if table.nnz > _SPARSE * n_rows * len(found) else table
    return Columns(table, names, tuple(left_out))


def _as_numbers(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """Columns that a column becomes, by their names."""
    if values.dtype.kind == "M":
        times = values.astype("datetime64[s]")
        values = np.where(np.isnat(times), np.nan, times.astype(float))
    try:
        # of objects, numbers and None
        numbers = values.astype(float)
    except (TypeError, ValueError):
        return _by_value(name, values)
    gaps = ~np.isfinite(numbers)
    if gaps.all():
        return {}
    columns = {name: numbers}
    if gaps.any():
        filled = np.where(gaps, np.median(numbers[~gaps]), numbers)
        columns = {name: filled, f"{name} is missing": gaps.astype(float)}
    return {what: sparse.csc_array(one[:, None]) for what, one in columns.items()}


def _by_value(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """A column of ones for each value, where it is; None and NaN are a value, too."""
    texts = np.array(["" if one is None or one != one else str(one) for one in values.tolist()])
    known, code, count = np.unique(texts, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(count)
    found = {}
    for place in np.flatnonzero(count >= min(_RARE, len(values))):
        rows = order[ends[place] - count[place] : ends[place]]
        what = f"{name}_{known[place]}" if known[place] else f"{name} is missing"
        ones, none = np.ones(len(rows)), np.zeros(len(rows), dtype=np.intp)
        found[what] = sparse.csc_array((ones, (rows, none)), shape=(len(values), 1))
    return found


def column_names(
    n_columns: int, feature_names: ArrayLike | None, X: Any = None
) -> NDArray[np.object_]:
    """Names of columns: those given, those that a table has, or their numbers."""
    names: Any = getattr(X, "columns", None) if feature_names is None else feature_names
    if names is None:
        names = [f"column {j}" for j in range(n_columns)]
    found = np.array([str(name) for name in np.ravel(names)], dtype=object)
    if len(found) != n_columns:
        raise ValueError(f"X has {n_columns} columns, but there are {len(found)} feature_names.")
    return found
