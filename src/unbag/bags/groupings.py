"""Rows that belong to several aggregates at once: by campaign, by day, by region.

`multi_grouping_target` makes one target of the ordinary ones of each grouping, and
`check_groupings_target` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag.bags.bags import Bags, check_bag_target, expected_shares_of, one_target
from unbag.bags.joining import JoinError
from unbag.bags.labels import fields_of, row_type

# Totals of exact counts agree up to rounding.
_SAME_TOTAL = 1e-6


def multi_grouping_target(targets: Mapping[str, Any]) -> NDArray[np.void]:
    """Make the target for totals of the same rows in several groupings.

    Parameters
    ----------
    targets : mapping
        For the name of each grouping its own target, made by `unbag.bag_target` for the same rows
        in the same order: proportions or counts of two classes, exact or with their ``noise``.

    Returns
    -------
    y : structured ndarray of shape (n_instances,)
        With one field for each grouping, which is its own target: ``y["day"]`` can be given to
        any estimator of this package.

    Examples
    --------
    >>> from unbag import bag_target, multi_grouping_target
    >>> y = multi_grouping_target(
    ...     {
    ...         "campaign": bag_target(["a", "a", "b", "b"], counts={"a": 2, "b": 0}),
    ...         "day": bag_target([1, 2, 1, 2], counts={1: 1.3, 2: 0.8}, noise=0.5),
    ...     }
    ... )
    >>> y["campaign"]["proportion"]
    array([1., 1., 0., 0.])
    >>> y.dtype.names
    ('campaign', 'day')
    """
    if not isinstance(targets, Mapping) or not targets:
        raise ValueError(
            "Give a mapping from the name of each grouping to its bag_target, such as "
            "{'campaign': bag_target(...), 'day': bag_target(...)}."
        )
    for name, target in targets.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"A grouping is named by a text, not by {name!r}.")
        if not ({"bag", "proportion", "size"} <= set(fields_of(target)) and target.ndim == 1):
            raise ValueError(f"The target of grouping {name!r} is not made by unbag.bag_target.")
    (first, n_rows), *others = ((name, len(target)) for name, target in targets.items())
    for name, length in others:
        if length != n_rows:
            raise ValueError(
                f"The targets of the groupings {first!r} and {name!r} have {n_rows} and {length} "
                "rows; all of them are of the same rows."
            )
    y = np.empty(n_rows, row_type([(name, target.dtype) for name, target in targets.items()]))
    for name, target in targets.items():
        y[name] = target
    check_groupings_target(y)
    return y


@dataclass(frozen=True, eq=False)
class Groupings:
    """What is known about the cells of several groupings."""

    names: tuple[str, ...]
    bags: tuple[Bags, ...]  # the cells of each, with every row of known label in one of its own
    classes: NDArray[Any]

    @property
    def class_names(self) -> NDArray[Any]:
        """What to call the classes."""
        return self.bags[0].class_names

    @property
    def n_instances(self) -> int:
        """Number of instances, which are the same in all groupings."""
        return self.bags[0].n_instances

    @property
    def n_cells(self) -> int:
        """Number of cells of all groupings."""
        return sum(bags.n_bags for bags in self.bags)

    @cached_property
    def class_shares(self) -> Floats:
        """Share of each class among all instances, from the groupings that know it best."""
        variance = np.array([_total_variance(bags) for bags in self.bags])
        shares = np.stack([bags.sizes @ bags.proportions for bags in self.bags]) / self.n_instances
        weights = (variance == 0).astype(float) if (variance == 0).any() else 1 / variance
        deviation = np.sqrt(weights**2 @ variance) / weights.sum() / self.n_instances
        return expected_shares_of(weights @ shares / weights.sum(), np.full(2, deviation))


def check_groupings_target(y: Any) -> Groupings:
    """Read a target of several groupings, or of one: `unbag.bag_target`, or plain labels."""
    y = one_target(y)
    names = grouping_names(y)
    read = [_read(y, None)] if names is None else [_read(y[name], name) for name in names]
    pieces = tuple(bags.with_labelled_rows_apart()[0] for bags in read)
    groupings = Groupings(names or ("bag",), pieces, read[0].classes)
    exact = [
        pair for pair in zip(groupings.names, pieces, strict=True) if not _total_variance(pair[1])
    ]
    totals = {name: float(bags.counts[:, 1].sum()) for name, bags in exact}
    for name, total in totals.items():
        first, expected = next(iter(totals.items()))
        if abs(total - expected) > _SAME_TOTAL * max(1.0, expected):
            raise JoinError(
                "By {first!r} there are {expected:g} positives in all, by {name!r} {total:g}; if "
                "a table is rounded or noisy, {noise}.",
                {"first": first, "expected": expected, "name": name, "total": total},
            )
    return groupings


def grouping_names(y: Any) -> tuple[str, ...] | None:
    """Names of the groupings of a target; None for any other target."""
    names = fields_of(y)
    if not names or any(y.dtype[name].names is None for name in names):
        return None
    return names


def _read(target: Any, name: str | None) -> Bags:
    try:
        bags = check_bag_target(target)
    except ValueError as error:
        if name is None:
            raise
        raise ValueError(f"In the grouping {name!r}: {error}") from None
    if bags.n_classes > 2:
        what = "The target" if name is None else f"The grouping {name!r}"
        raise ValueError(
            f"{what} has {bags.n_classes} classes, and classifiers of groupings take two. "
            "Only binary classification is supported."
        )
    return bags


def _total_variance(bags: Bags) -> float:
    """Variance of the number of positives in all bags together."""
    return 0.0 if bags.noise is None else float(bags.sizes**2 @ bags.noise[:, 1, 1])
