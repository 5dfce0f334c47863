"""Rows in groups and bags, and what counts alone say of the shares of groups.

Bounds of Duncan and Davis (1953): of n rows of a bag, n_g in the group and k of the class, at least
max(0, k − (n − n_g)) and at most min(k, n_g) are both. Ecological regression (Goodman 1953): the
proportion of the class in a bag is regressed on the shares of the groups in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats, Ints
from unbag._checks import check_one_each
from unbag._text import quoted
from unbag.bags.bags import ANYTHING, Bags, check_bag_target
from unbag.observations.count_likelihood import count_covariance

# Rows of whole bags that are drawn at a time.
ROWS_AT_A_TIME = 2**15


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows in the order of their bags, each in a group."""

    X: Any
    bags: Bags
    names: NDArray[Any]
    code: Ints
    multiplicity: Ints
    weights: Floats

    @classmethod
    def read(cls, X: Any, y: Any, by: Any, weights: ArrayLike | None) -> GroupedRows:
        """Check what `group_estimates` is given."""
        bags, _ = check_bag_target(y, accept=ANYTHING).with_labelled_rows_apart()
        names, code = read_groups_by(X, by, bags.n_instances)
        each = np.ones(bags.n_instances) if weights is None else np.asarray(weights, dtype=float)
        check_one_each(each, bags.n_instances, "weights", "instances")
        if not (np.isfinite(each) & (each >= 0)).all():
            raise ValueError("weights must be finite and not negative.")
        order = np.argsort(bags.index, kind="stable")
        bags = bags.reordered(order)
        number = bags.multiplicity
        number = np.ones(len(order), dtype=np.int64) if number is None else number
        X = _safe_indexing(X, order) if (np.diff(order) < 0).any() else X
        return cls(X, bags, names, code[order], number, each[order])

    @property
    def inside(self) -> Ints:
        """Instances of each group in each bag (n_bags, n_groups)."""
        return self.bags.tally(self.code, len(self.names))

    @property
    def sizes(self) -> Floats:
        """Weights of the groups."""
        found = np.bincount(self.code, self.weights * self.multiplicity, len(self.names))
        return found.astype(float)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Bags and rows of some whole bags at a time."""
        ends = np.cumsum(self.bags.lengths)
        first = 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, start + ROWS_AT_A_TIME, side="right")), first + 1)
            yield slice(first, last), slice(start, int(ends[last - 1]))
            first = last


def count_limits(bags: Bags) -> tuple[Floats, Floats]:
    """Lowest and highest count of each class in each bag, without noise (n_bags, n_classes)."""
    if bags.limits is None:
        return (count := np.round(bags.counts)), count
    low, high = np.moveaxis(bags.limits, -1, 0)
    if low.ndim == 2:
        return low, high
    return np.stack([bags.sizes - high, low], 1), np.stack([bags.sizes - low, high], 1)


def duncan_davis_counts(rows: GroupedRows) -> tuple[Floats, Floats]:
    """Least and largest number of each class among each group of each bag."""
    bags, inside = rows.bags, rows.inside[:, :, None].astype(float)
    low, high = (limit[:, None, :] for limit in count_limits(bags))
    outside = bags.sizes[:, None, None] - inside
    least, most = np.maximum(low - outside, 0.0), np.minimum(high, inside)
    noisy = np.asarray(count_covariance(bags).any(axis=(1, 2)))[:, None, None]
    return np.where(noisy, 0.0, least), np.where(noisy, inside, most)


def duncan_davis_bounds(rows: GroupedRows) -> tuple[Floats, Floats]:
    """Bounds of the shares of all bags together; with weights, rows of the least or most of these."""
    G, found = len(rows.names), []
    for numbers, sign in zip(duncan_davis_counts(rows), (1.0, -1.0), strict=True):
        order = np.lexsort((sign * rows.weights, rows.code, rows.bags.index))
        cell = rows.bags.index[order] * G + rows.code[order]
        number = rows.multiplicity[order]
        before = np.cumsum(number) - number
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        before = before - np.repeat(before[first], np.diff(first, append=len(cell)))
        wanted = numbers.reshape(-1, numbers.shape[2])[cell]
        taken = np.clip(wanted - before[:, None], 0.0, number[:, None])
        weighed = taken * rows.weights[order, None]
        sums = [np.bincount(rows.code[order], column, G) for column in weighed.T]
        found.append(np.stack(sums, axis=1) / rows.sizes[:, None])
    return found[0], found[1]


class Goodman(NamedTuple):
    """Shares (n_groups, n_classes), which may lie outside of 0 and 1, and standard errors (HC1)."""

    share: Floats
    error: Floats


def goodman_regression(inside: Ints, proportions: Floats) -> Goodman:
    """Regress proportions (n_bags, n_classes) on shares of groups, weighted by sizes of bags."""
    n_bags, n_groups = inside.shape
    share = inside / inside.sum(axis=1, keepdims=True)
    inverse = np.linalg.pinv(inside.T @ share)
    found = inverse @ (inside.T @ proportions)
    residual = proportions - share @ found
    few = n_bags / max(n_bags - n_groups, 1)
    pulls = np.einsum("gh,bh,bc->cbg", inverse, inside, residual)
    return Goodman(found, np.sqrt(few * (pulls**2).sum(axis=1)).T)


def read_groups_by(X: Any, by: Any, n_rows: int) -> tuple[NDArray[Any], Ints]:
    """Names of the groups, and the number of that of each row."""
    columns = [by] if isinstance(by, str) else by
    if isinstance(columns, list) and columns and all(isinstance(one, str) for one in columns):
        missing = [one for one in columns if one not in list(getattr(X, "columns", []))]
        if not missing:
            texts = zip(*(_as_text(X[one]) for one in columns), strict=True)
            by = [" ".join(own) for own in texts]
        elif len(columns) != n_rows:
            raise ValueError(f"by names {missing[0]!r}, which is not a column of X.")
    values = np.asarray(by)
    check_one_each(values, n_rows, "by", "instances", "group")
    values = _as_text(values) if values.dtype == object else values
    names, code = np.unique(values, return_inverse=True)
    return names, code


def _as_text(values: Any) -> NDArray[Any]:
    """Values as text; numbers with missing values stay whole, and <NA> of pandas has no truth value."""
    each = np.asarray(values.astype(object) if hasattr(values, "astype") else values)
    gaps = [v is None or repr(v) == "<NA>" or v != v for v in each]
    return np.array(["missing" if gap else str(v) for v, gap in zip(each, gaps, strict=True)])


def find_name(name: Any, names: NDArray[Any], what: str) -> int:
    """Place of a name, by itself or as text."""
    found = [i for i, one in enumerate(names.tolist()) if one == name or str(one) == str(name)]
    if not found:
        raise ValueError(f"There is no {what} {name!r}; there are {quoted(map(str, names))}.")
    return found[0]


def find_class(of: Any, names: NDArray[Any]) -> int:
    """Place of a class; by default the second of two."""
    if of is None and len(names) > 2:
        raise ValueError(f"of must name a class: one of {quoted(map(str, names))}.")
    return 1 if of is None else find_name(of, names, "class")
