"""Workers that compute together: each has its share of the data, and they add things up.

This is what XGBoost grows trees by. If a worker is lost, the others of its group cannot go on: they
are let go, and a new group begins with the workers that there are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from unbag.distributed.partitions import find_client, load_dask
from unbag.models.boosted_xgboost import xgboost

# Groups that are begun at most, before lost workers are taken for the rule.
_TRIES = 4

# Seconds between two looks at who is there, and until one is waited for in vain.
_LOOK, _PATIENCE = 0.1, 120.0

_LOGGER = logging.getLogger(__name__)


class LostWorkerError(RuntimeError):
    """A worker of a group is gone, or cannot be reached by another."""


@dataclass(frozen=True)
class Group:
    """Who computes together.

    Attributes
    ----------
    client : distributed.Client, optional
        None stands for this process, alone.
    workers : tuple of str
        Addresses.
    """

    client: Any = None
    workers: tuple[str, ...] = ("",)

    @property
    def n_threads(self) -> int | None:
        """Threads that each of them has at least; None if that is for others to say."""
        if self.client is None:
            return None
        return min(self.client.nthreads(self.workers).values(), default=1)

    def run(
        self,
        function: Callable[..., Any],
        pieces: list[list[Any]],
        join: Callable[[list[Any]], Any],
        *common: Any,
    ) -> Any:
        """Call a function on every worker at once; what it gives must be the same for all.

        Parameters
        ----------
        function : callable
            Takes what a worker has, and ``common``.
        pieces : list of list of Delayed
            The data of each worker, as they come.
        join : callable
            Makes one of the pieces of a worker.
        common
            What all of them need.
        """
        dask = load_dask()
        if self.client is None:
            return function(join(list(dask.compute(*pieces[0]))), *common)
        from distributed import MultiLock

        # two groups that have some of each other's workers would wait for ever
        with MultiLock(list(self.workers), client=self.client), self._tracker() as link:
            # first where they are, then where they belong: only what is needed travels
            (kept,) = dask.persist(pieces)
            told = self.client.scatter(list(common), workers=list(self.workers), broadcast=True)
            futures = []
            for worker, own in zip(self.workers, kept, strict=True):
                here = {"workers": [worker], "allow_other_workers": False}
                mine = self.client.compute(dask.delayed(join)(own), **here)
                call = (_join_in, function, link, mine, *told)
                futures.append(self.client.submit(*call, pure=False, **here))
            try:
                self._watch(futures)
                answers = self.client.gather(futures)
            finally:
                self.client.cancel(futures)
        return next(answer for answer in answers if answer is not None)

    @contextmanager
    def _tracker(self) -> Iterator[dict[str, Any]]:
        """What brings workers together, on this machine; at the end, those that wait are let go."""
        from distributed.comm.addressing import get_address_host
        from distributed.utils import get_ip

        library = xgboost()
        own = get_ip(get_address_host(self.client.scheduler.address))
        tracker = library.tracker.RabitTracker(len(self.workers), str(own))
        tracker.start()
        try:
            yield tracker.worker_args()
        finally:
            # it complains if workers did not take their leave
            with suppress(library.core.XGBoostError):
                tracker.free()

    def _watch(self, futures: list[Any]) -> None:
        """Wait for all, unless one is lost; an error goes before what it did to other workers."""
        while any(future.status == "pending" for future in futures):
            lost = set(self.workers) - set(present_workers(self.client))
            if lost:
                raise LostWorkerError(f"Lost while they computed together: {', '.join(lost)}.")
            time.sleep(_LOOK)
        errors = [future.exception() for future in futures if future.status == "error"]
        for error in sorted(errors, key=lambda error: isinstance(error, LostWorkerError)):
            raise error
        if any(future.status != "finished" for future in futures):
            raise LostWorkerError("Something that workers need was lost with one of them.")


def _join_in(function: Callable[..., Any], link: dict[str, Any], share: Any, *common: Any) -> Any:
    """Call a function as one of a group, and answer if this is the first of them."""
    library = xgboost()
    try:
        with library.config_context(verbosity=0), library.collective.CommunicatorContext(**link):
            answer = function(share, *common)
            return answer if library.collective.get_rank() == 0 else None
    except library.core.XGBoostError as error:
        # the only way to tell: where in XGBoost it comes from
        if "/collective/" not in str(error):
            raise
        raise LostWorkerError(f"Others of the group cannot be reached: {error}") from None


def present_workers(client: Any) -> list[str]:
    """Addresses of the workers that there are.

    What ``scheduler_info`` gives may be cut short by the client itself, which asks as well.
    """
    return sorted(client.nthreads())


def run_together(task: Callable[[Group], Any]) -> Any:
    """Do something in a group of all workers, and anew in another one if some of them are lost."""
    client = find_client()
    if client is None:
        return task(Group())
    for left in reversed(range(_TRIES)):
        client.wait_for_workers(1, timeout=_PATIENCE)
        try:
            return task(Group(client, tuple(present_workers(client))))
        except LostWorkerError as error:
            if not left:
                raise
            _LOGGER.warning("Training begins anew, as workers were lost: %s", error)
    return None
