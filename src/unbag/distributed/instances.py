"""What a worker holds of the instances, and what the driver may ask about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats, Ints
from unbag.distributed.partitions import Partitions
from unbag.distributed.table import BagsById, BagSummary, merge_summaries, summarise_target
from unbag.kernels.rows import ColumnMoments

CheckX = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Description:
    """What one pass over the data tells the driver.

    Attributes
    ----------
    bags : BagSummary
    n_rows : tuple of int
        Of each partition.
    n_bytes : int
        What the features take in memory.
    """

    bags: BagSummary
    n_rows: tuple[int, ...]
    n_bytes: int


def describe(X: Any, y: Any, check: CheckX) -> Description:
    """Describe one partition, and refuse it if it cannot be learned from."""
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} rows but y has {len(y)}: inconsistent lengths.")
    bags = summarise_target(y)
    return Description(bags, (len(X),), check(X).nbytes if len(X) else 0)


def join_descriptions(parts: list[Description]) -> Description:
    """Describe partitions that follow each other."""
    return Description(
        bags=merge_summaries([part.bags for part in parts]),
        n_rows=tuple(n for part in parts for n in part.n_rows),
        n_bytes=sum(part.n_bytes for part in parts),
    )


@dataclass(frozen=True, eq=False)
class Instances:
    """The checked instances of one partition.

    Attributes
    ----------
    X : ndarray of shape (n_instances, n_features)
    entry : ndarray of shape (n_instances,)
        The entry of each instance's bag in the table of bags.
    """

    X: NDArray[Any]
    entry: Ints

    def __sizeof__(self) -> int:
        return self.X.nbytes + self.entry.nbytes

    def blocks(self, size: int) -> Iterator[tuple[NDArray[Any], Ints]]:
        """Cut X and the entries into blocks of rows."""
        for start in range(0, len(self.entry), size):
            yield self.X[start : start + size], self.entry[start : start + size]


def read_instances(X: Any, y: Any, check: CheckX, table: BagsById) -> list[Instances]:
    """Check the instances of one partition, and look their bags up."""
    return [Instances(check(X), table.find(y["bag"]))] if len(X) else []


def join_instances(parts: list[list[Instances]]) -> list[Instances]:
    """Gather the instances of several partitions.

    What came from another worker may lie at odd addresses, where products are slow, and is moved.
    """
    return [
        Instances(*(np.require(a, requirements="A") for a in (instances.X, instances.entry)))
        for part in parts
        for instances in part
    ]


class RemoteRows:
    """A summary (`unbag.kernels.rows.RowSummary`) of instances that stay where they are."""

    def __init__(self, data: Partitions, check: CheckX, description: Description, d: int) -> None:
        self._data = data
        self._check = check
        self._description = description
        self.shape = (sum(description.n_rows), d)

    def variance(self) -> float:
        """Variance of all entries, in a pass of its own."""
        return self._moments().of_entries()

    def column_variances(self) -> Floats:
        """Variance of every column, in a pass of its own."""
        return self._moments().of_columns()

    def take(self, rows: Ints) -> NDArray[Any]:
        """Bring some of the instances here."""
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(self._description.n_rows)
        own = np.split(rows[order], np.searchsorted(rows[order], ends)[:-1])
        starts = ends - self._description.n_rows
        wanted = [part - start for part, start in zip(own, starts, strict=True)]
        found = self._data.along(wanted).gather(_take_rows, self._check)
        taken = np.empty((len(rows), self.shape[1]), dtype=np.result_type(*found))
        taken[order] = np.concatenate(found)
        return taken

    def _moments(self) -> ColumnMoments:
        found: ColumnMoments = self._data.reduce(_take_moments, ColumnMoments.join, self._check)
        return found


def _take_moments(X: Any, y: Any, check: CheckX) -> ColumnMoments:  # noqa: ARG001
    """Moments of one partition."""
    if len(X) == 0:
        none = np.zeros(X.shape[1])
        return ColumnMoments(0, none, none)
    return ColumnMoments.of(check(X))


def _take_rows(X: Any, y: Any, rows: Ints, check: CheckX) -> NDArray[Any]:  # noqa: ARG001
    """Bring some rows of a partition."""
    if len(rows) == 0:
        return np.empty((0, X.shape[1]), dtype=np.float32)
    return check(X)[rows]
