"""Evaluations of the same bags again and again on a GPU, started as one step.

An evaluation of the likelihood of the counts comes to some two or three hundred steps of the
device, each of which takes the host longer to start than the card to do. Recorded once for a number
of columns, as a CUDA graph, they are started together. Nothing can be asked on the way, so that a
recording looks for tilts a fixed number of times, from where the last evaluation ended, and says at
the end whether that was enough: if not, it is played again, which goes on from there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from unbag._arrays import Array, Floats, Ints, to_host

# Of more scores than this, work takes the card longer than the host needs to start it, and what
# a recording keeps would fill the memory.
_MOST_SCORES = 2**21

# So often a recording is played for the same scores.
_MOST_PLAYS = 3

# From scores and tilts to start from: values of the columns, gradient, whether all of it is right,
# and the tilts found.
Tilts = tuple[Array, ...]
Blind = Callable[[Array, Tilts], tuple[Array, Array, Array, Tilts]]


@dataclass(frozen=True, eq=False)
class _Recording:
    """A graph, what it reads from, and where it leaves its results.

    The last number is 1 if all are right; the others are values of the columns.
    """

    graph: Any
    evaluate: Blind
    scores: Array
    tilts: Tilts
    numbers: Array
    gradient: Array


class Recorder:
    """Records an evaluation for every choice of columns that comes again.

    Parameters
    ----------
    prepare : callable
        From the problem of each column, the evaluation, which asks the device nothing on its way.
    no_tilts : callable
        Tilts to start from, given scores.
    """

    def __init__(
        self, prepare: Callable[[Ints], Blind], no_tilts: Callable[[Array], Tilts]
    ) -> None:
        self._prepare, self._no_tilts = prepare, no_tilts
        self._recordings: dict[bytes, _Recording | None] = {}
        self._pool: Any = None

    @staticmethod
    def serves(scores: Array) -> bool:
        """Whether these scores (columns, 1, rows) are on a GPU of torch, and not too many."""
        return getattr(scores, "is_cuda", False) and scores.numel() <= _MOST_SCORES

    def __call__(self, scores: Array, problem: Ints) -> tuple[Floats, Array] | None:
        """Values on the host and the gradient, or None where they must be had step by step."""
        columns = problem.tobytes()
        if columns not in self._recordings:
            # what is needed once is not worth a recording, and a first time warms up
            self._recordings[columns] = None
            return None
        recording = self._recordings[columns]
        if recording is None:
            recording = self._recordings[columns] = self._record(scores, problem)
        recording.scores.copy_(scores)
        for _ in range(_MOST_PLAYS):
            recording.graph.replay()
            numbers: Floats = to_host(recording.numbers)
            if numbers[-1] == 1:
                return numbers[:-1], recording.gradient.clone()
        for tilt in recording.tilts:
            tilt.zero_()
        return None

    def _record(self, scores: Array, problem: Ints) -> _Recording:
        import torch

        scores, tilts, evaluate = scores.clone(), self._no_tilts(scores), self._prepare(problem)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with _recording_to(graph, self._pool):
            values, gradient, right, ended = evaluate(scores, tilts)
            for tilt, end in zip(tilts, ended, strict=True):
                tilt.copy_(end)
            numbers = torch.cat([values, right.reshape(1).to(values.dtype)])
        return _Recording(graph, evaluate, scores, tilts, numbers, gradient)


@contextmanager
def _recording_to(graph: Any, pool: Any) -> Iterator[None]:
    """As ``torch.cuda.graph``, which empties the cache of the memory first and takes longer.

    Graphs of one pool share memory: results must be copied before another graph runs.
    """
    import torch

    here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(here)
    collecting = gc.isenabled()
    # to free the graphs of an objective that is no longer needed would spoil the recording
    gc.disable()
    try:
        with torch.cuda.stream(aside):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                yield
            finally:
                graph.capture_end()
    finally:
        if collecting:
            gc.enable()
    here.wait_stream(aside)
