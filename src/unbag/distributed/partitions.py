"""Dask collections as numbered partitions: what runs on each, and how results come back.

The only module that imports Dask. Every computation is one graph: a task for each partition, and a
tree of sums above them in an order that is fixed before, so that results do not depend on which
worker is faster, or is lost and replaced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from uuid import uuid4

import numpy as np

from unbag._optional import install_command
from unbag._threads import physical_memory

# Results that one task joins.
_FAN_IN = 8


def load_dask() -> ModuleType:
    """Import Dask, or say how to install it."""
    try:
        import dask
        import dask.array
        import dask.dataframe
    except ImportError:
        raise ImportError(
            f"unbag.distributed needs Dask; install it with: {install_command('distributed')}"
        ) from None
    return dask


def is_dask(data: Any) -> bool:
    """Whether this is a Dask array or data frame."""
    return isinstance(data, load_dask().array.Array) or is_frame(data)


def is_frame(data: Any) -> bool:
    """Whether this is a data frame of Dask."""
    return isinstance(data, load_dask().dataframe.DataFrame)


class PartitionError(RuntimeError):
    """Something other than the data themselves went wrong in one partition."""


class PartitionValueError(ValueError):
    """Data of one partition are not as they should be."""


def _in_partition(function: Callable[..., Any], name: str, *inputs: Any) -> Any:
    """Run a function of one partition, and name that in whatever it raises.

    One without rows is None, and so is what is found there.
    """
    if inputs[0] is None:
        return None
    try:
        return function(*inputs)
    except ValueError as error:
        raise PartitionValueError(f"{name}: {error}") from error
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise PartitionError(f"{name}: {type(error).__name__}: {error}") from error


def _join(join: Callable[[list[Any]], Any], *parts: Any) -> Any:
    """Join what partitions found; None is what those without rows find."""
    found = [part for part in parts if part is not None]
    return join(found) if found else None


def _pick(pieces: dict[int, Any], number: int) -> Any:
    return pieces.get(number)


def _answer(rows: Any, function: Callable[[Any], Any]) -> Any:
    return function(rows)


def _tasks(function: Callable[..., Any], name: str, inputs: Iterable[Sequence[Any]]) -> list[Any]:
    """One task for each row of inputs, named so that the scheduler learns how long its kind takes."""
    call = load_dask().delayed(function, pure=False, traverse=False)
    key = f"{name}-{uuid4().hex}"
    return [call(*row, dask_key_name=f"{key}-{i}") for i, row in enumerate(inputs)]


@dataclass(frozen=True, eq=False)
class Partitions:
    """Some Dask collections with the same partitions, walked through side by side."""

    items: list[tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.items)

    def _apply(self, function: Callable[..., Any], shared: Sequence[Any]) -> list[Any]:
        rows = enumerate(self.items)
        calls = [(function, f"Partition {i}", *item, *shared) for i, item in rows]
        return _tasks(_in_partition, function.__name__, calls)

    def map(self, function: Callable[..., Any], *shared: Any) -> Partitions:
        """Apply a function to each partition, on a worker, lazily."""
        return Partitions([(task,) for task in self._apply(function, shared)])

    def reduce(
        self, function: Callable[..., Any], join: Callable[[list[Any]], Any], *shared: Any
    ) -> Any:
        """Apply a function to each partition, and join the results in a tree."""
        level = self._apply(function, [_one_key(item) for item in shared])
        while len(level) > 1:
            groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
            level = _tasks(_join, join.__name__, [(join, *group) for group in groups])
        return level[0].compute()

    def gather(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Apply a function to each partition, and bring all results here: they must be small."""
        return list(load_dask().compute(*self._apply(function, shared)))

    def exchange(
        self,
        split: Callable[..., dict[int, Any]],
        join: Callable[[list[Any]], Any],
        sources: Sequence[Sequence[int]],
        *shared: Any,
    ) -> Partitions:
        """Make new partitions of pieces of these."""
        parts = self._apply(split, shared)
        made = []
        for number, own in enumerate(sources):
            pieces = _tasks(_pick, "piece", [(parts[source], number) for source in own])
            made.append((join, *pieces))
        return Partitions([(task,) for task in _tasks(_join, join.__name__, made)])

    def keep(self) -> Partitions:
        """Compute the partitions and keep them on the workers."""
        flat = [task for item in self.items for task in item]
        with warnings.catch_warnings():
            # a table of many bags is a large graph, sent once
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            kept = iter(load_dask().persist(*flat))
        return Partitions([tuple(next(kept) for _ in item) for item in self.items])


def _one_key(item: Any) -> Any:
    """Give what all partitions share a key of its own, so that it travels once to each worker."""
    if item is None or callable(item) or hasattr(item, "__dask_graph__"):
        return item
    return load_dask().delayed(item, pure=False, traverse=False)


def share(item: Any) -> Any:
    """Send something to where the partitions are, once for many passes over them."""
    return Partitions([(_one_key(item),)]).keep().items[0][0]


def partitions_of(*collections: Any) -> Partitions:
    """Walk through Dask arrays and data frames of the same rows, partition by partition."""
    aligned = [(data, data.to_delayed()) for data in _align(collections)]
    lists = [list(found if is_frame(data) else found.ravel()) for data, found in aligned]
    if len({len(blocks) for blocks in lists}) > 1:
        counts = " and ".join(str(len(blocks)) for blocks in lists)
        raise ValueError(
            f"The collections have {counts} partitions; they must be cut at the same rows."
        )
    return Partitions(list(zip(*lists, strict=True)))


def _align(collections: Sequence[Any]) -> list[Any]:
    """Cut arrays along their rows only, and all where the first one is, if that is known."""
    found, rows = [], None
    for data in collections:
        if not is_dask(data):
            raise ValueError(
                "X and y must be Dask arrays or data frames (dask.array.from_array, "
                f"dask.dataframe.read_parquet), not {type(data).__name__}."
            )
        if not is_frame(data):
            data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
            known = not np.isnan(data.chunks[0]).any()
            if rows is None and known and len(collections) > 1:
                rows = data.chunks[0]
            elif known and rows is not None and data.chunks[0] != rows:
                if sum(data.chunks[0]) != sum(rows):
                    raise ValueError(
                        f"X has {sum(rows)} rows but y has {sum(data.chunks[0])}: inconsistent "
                        "lengths."
                    )
                data = data.rechunk({0: rows})
        found.append(data)
    return found


def memory_limits() -> list[float]:
    """Bytes of memory of each worker, or of this machine without a cluster; infinite if unknown."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)
    if client is None or not hasattr(client, "scheduler_info"):
        return [physical_memory() or np.inf]
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [worker["memory_limit"] or np.inf for worker in workers] or [np.inf]


def map_rows(function: Callable[[Any], Any], data: Any, like: Any) -> Any:
    """Apply a function to the rows of each partition: a Dask array with blocks like ``like``."""
    if is_frame(data):
        return array_of(partitions_of(data).map(_answer, function), like)
    data = data.rechunk({1: -1})
    changed: dict[str, Any] = (
        {"drop_axis": 1} if like.ndim == 1 else {"chunks": (data.chunks[0], like.shape[1:])}
    )
    return data.map_blocks(function, dtype=like.dtype, meta=like, **changed)


def array_of(partitions: Partitions, like: Any) -> Any:
    """Make a Dask array of partitions, each of which holds some rows like those of ``like``."""
    arrays = load_dask().array
    shape = (np.nan, *like.shape[1:])
    blocks = [arrays.from_delayed(block, shape, meta=like) for (block,) in partitions.items]
    return arrays.concatenate(blocks, allow_unknown_chunksizes=True)
