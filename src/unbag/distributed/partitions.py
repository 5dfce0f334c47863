"""Dask collections as numbered partitions: what runs on each, and how results come back.

The only module that imports Dask. Every computation is one graph: a task for each partition, and
a tree of sums above them, in an order that is fixed before, so that the result does not depend on
which worker is the faster one, or is lost and replaced. Where rows lie before a fit decides what is
summed first, and so about its last digits.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from unbag._optional import install_command
from unbag.kernels.matrices import physical_memory

# Results that one task joins.
_FAN_IN = 8

# Tasks in a pass over kept data: enough for a fast worker to take over from a slow one.
_GROUPS_PER_THREAD = 4

# Of the memory of all workers, what data kept between passes may take.
_KEPT_SHARE = 0.4


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
    dask = load_dask()
    return isinstance(data, dask.array.Array) or is_frame(data)


def is_frame(data: Any) -> bool:
    """Whether this is a data frame of Dask."""
    return isinstance(data, load_dask().dataframe.DataFrame)


class PartitionError(RuntimeError):
    """Something other than the data themselves went wrong in one partition."""


class PartitionValueError(ValueError):
    """Data of one partition are not as they should be."""


def _in_partition(function: Callable[..., Any], name: str, *inputs: Any) -> Any:
    """Run a function of one partition, and name that in whatever it raises."""
    try:
        return function(*inputs)
    except ValueError as error:
        raise PartitionValueError(f"{name}: {error}") from error
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise PartitionError(f"{name}: {type(error).__name__}: {error}") from error


def _join(join: Callable[[list[Any]], Any], *parts: Any) -> Any:
    return join(list(parts))


def _answer(rows: Any, function: Callable[[Any], Any]) -> Any:
    return function(rows)


@dataclass(frozen=True, eq=False)
class Partitions:
    """Some Dask collections with the same partitions, walked through side by side.

    Graphs are written out as plain dictionaries: wrapping every task in ``dask.delayed`` would take
    longer than many a pass over the data.

    Attributes
    ----------
    items : list of tuples
        For each partition, what it holds of each collection, as a Delayed.
    origins : list of keys, optional
        What each partition is made of, in the words of the scheduler.
    members : list of lists of int, optional
        The partitions that each item stands for, if these are groups of several.
    """

    items: list[tuple[Any, ...]]
    origins: list[Any] | None = None
    members: list[list[int]] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def _name(self, number: int) -> str:
        own = [number] if self.members is None else self.members[number]
        return f"Partition {own[0]}" + (f" or another of {len(own)}" if len(own) > 1 else "")

    @cached_property
    def _graph(self) -> dict[Any, Any]:
        graphs = {id(g): g for item in self.items for g in map(_graph_of, item) if g is not None}
        return {key: task for graph in graphs.values() for key, task in graph.items()}

    def _apply(
        self, function: Callable[..., Any], shared: tuple[Any, ...]
    ) -> tuple[list[Any], dict[Any, Any]]:
        """One task for each partition: their keys, and the graph."""
        from dask.task_spec import Task

        graph = dict(self._graph)
        for item in shared:
            graph.update(_graph_of(item) or {})
        # named after the function, so that the scheduler learns how long each kind takes
        name = f"{function.__name__}-{uuid4().hex}"
        keys = [(name, number) for number in range(len(self))]
        common = [_reference(item) for item in shared]
        for key, item in zip(keys, self.items, strict=True):
            own = map(_reference, item)
            graph[key] = Task(key, _in_partition, function, self._name(key[1]), *own, *common)
        return keys, graph

    def map(self, function: Callable[..., Any], *shared: Any) -> Partitions:
        """Apply a function to each partition, on a worker and not before it is asked for."""
        keys, graph = self._apply(function, shared)
        return replace(self, items=[(_as_delayed(key, graph),) for key in keys])

    def reduce(
        self, function: Callable[..., Any], join: Callable[[list[Any]], Any], *shared: Any
    ) -> Any:
        """Apply a function to each partition, and join the results in a tree."""
        from dask.task_spec import Task, TaskRef

        level, graph = self._apply(function, tuple(_one_key(item) for item in shared))
        while len(level) > 1:
            name = f"{join.__name__}-{uuid4().hex}"
            groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
            level = [(name, number) for number in range(len(groups))]
            for key, group in zip(level, groups, strict=True):
                graph[key] = Task(key, _join, join, *map(TaskRef, group))
        return self._compute(level, graph)[0]

    def gather(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Apply a function to each partition, and bring all results here: they must be small."""
        return list(self._compute(*self._apply(function, shared)))

    def along(self, values: Sequence[Any]) -> Partitions:
        """Give each partition something of its own to walk through with it."""
        along = [(*item, own) for item, own in zip(self.items, values, strict=True)]
        return replace(self, items=along)

    def grouped(self, join: Callable[[list[Any]], Any]) -> Partitions:
        """Join partitions into a few groups for each thread of a worker.

        Every task takes the scheduler some time, so that a pass over data which are kept anyway
        should have few of them. Partitions that a worker has already stay there; of others,
        neighbours come together.
        """
        from dask.task_spec import Task

        members = _group(_holders(self.origins or [None] * len(self)))
        name, graph = f"group-{uuid4().hex}", dict(self._graph)
        keys = [(name, number) for number in range(len(members))]
        for key, group in zip(keys, members, strict=True):
            own = (_reference(self.items[number][0]) for number in group)
            graph[key] = Task(key, _join, join, *own)
        return Partitions([(_as_delayed(key, graph),) for key in keys], members=members)

    def keep(self) -> Partitions:
        """Compute the partitions and keep them on the workers."""
        flat = [task for item in self.items for task in item]
        with warnings.catch_warnings():
            # a table of many bags is a large graph, sent once
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            kept = iter(load_dask().persist(*flat))
        return replace(self, items=[tuple(next(kept) for _ in item) for item in self.items])

    def _compute(self, keys: list[Any], graph: dict[Any, Any]) -> tuple[Any, ...]:
        try:
            return load_dask().compute(*[_as_delayed(key, graph) for key in keys])
        except (PartitionError, PartitionValueError):
            raise
        except Exception as error:
            self._name_the_one_that_fails(error)
            raise

    def _name_the_one_that_fails(self, error: Exception) -> None:
        """Look for the partition that cannot be read, after something failed outside of ours."""
        for number, item in enumerate(self.items):
            try:
                load_dask().compute(*item)
            except Exception as again:
                raise PartitionError(
                    f"{self._name(number)} cannot be read: {type(again).__name__}: {again}"
                ) from error


def _as_delayed(key: Any, graph: dict[Any, Any]) -> Any:
    from dask.delayed import Delayed

    return Delayed(key, graph)


def _graph_of(item: Any) -> Any:
    return item.__dask_graph__() if hasattr(item, "__dask_graph__") else None


def _reference(item: Any) -> Any:
    """Refer to a Delayed by its key; anything else is taken as it is."""
    from dask.task_spec import TaskRef

    return TaskRef(item.key) if hasattr(item, "__dask_graph__") else item


def _one_key(item: Any) -> Any:
    """Give what all partitions share a key of its own, so that it travels once to each worker."""
    if item is None or callable(item):
        return item
    return load_dask().delayed(item, pure=False, traverse=False)


class Travelling:
    """Arrays that go to workers, as attributes."""

    def __sizeof__(self) -> int:
        # what Dask goes by when it weighs moving this to another worker
        return int(sum(array.nbytes for array in vars(self).values()))

    def __setstate__(self, state: dict[str, NDArray[Any]]) -> None:
        # what has travelled lies at odd addresses, where every access would copy all of it first
        vars(self).update({name: np.require(a, requirements="A") for name, a in state.items()})


def share(item: Any) -> Any:
    """Send a table to where the partitions are, once for many passes over them."""
    return Partitions([(_one_key(item),)]).keep().items[0][0]


def partitions_of(*collections: Any) -> Partitions:
    """Walk through Dask arrays and data frames of the same rows, partition by partition."""
    lists = [_delayed_blocks(data) for data in _align(collections)]
    if len({len(blocks) for blocks in lists}) > 1:
        counts = " and ".join(str(len(blocks)) for blocks in lists)
        raise ValueError(
            f"The collections have {counts} partitions; they must be cut at the same rows."
        )
    return Partitions(list(zip(*lists, strict=True)), [block.key for block in lists[0]])


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


def _delayed_blocks(data: Any) -> list[Any]:
    return list(data.to_delayed()) if is_frame(data) else list(data.to_delayed().ravel())


def find_client() -> Any:
    """Client of a cluster, or None."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def _workers() -> list[dict[str, Any]] | None:
    """What the scheduler knows of its workers; None without a cluster."""
    client = find_client()
    return client and list(client.scheduler_info(n_workers=-1)["workers"].values())


def _holders(keys: list[Any]) -> list[str]:
    """Worker that has each of some results in memory; nobody ("") if none has."""
    client = find_client()
    if client is None:
        return [""] * len(keys)
    known = client.who_has()
    return [min(known.get(key, ()), default="") for key in keys]


def _group(holders: list[str]) -> list[list[int]]:
    """Some partitions of the same holder for each group, as many for one as for another."""
    size = max(1.0, len(holders) / (_GROUPS_PER_THREAD * n_threads()))
    groups = []
    for holder in sorted(set(holders)):
        own = [number for number, name in enumerate(holders) if name == holder]
        ends = np.linspace(0, len(own), round(len(own) / size) or 1, endpoint=False).astype(int)
        groups += [own[start:end] for start, end in pairwise([*ends.tolist(), len(own)])]
    return groups


def n_threads() -> int:
    """Count the threads of all workers together, or of this machine without a cluster."""
    workers = _workers()
    if workers is None:
        return os.cpu_count() or 1
    return max(1, sum(worker["nthreads"] for worker in workers))


def worker_memory() -> float:
    """Bytes of memory of all workers together, or of this machine without a cluster."""
    limits = [worker["memory_limit"] for worker in _workers() or []]
    return float(sum(limits) if limits and all(limits) else physical_memory() or np.inf)


def should_keep(persist: Any, n_bytes: float) -> bool:
    """Whether data are kept by the workers between passes, or read anew in each."""
    if persist == "auto":
        return n_bytes <= _KEPT_SHARE * worker_memory()
    if not isinstance(persist, bool):
        raise ValueError(f"persist must be True, False or 'auto', not {persist!r}.")
    return persist


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
