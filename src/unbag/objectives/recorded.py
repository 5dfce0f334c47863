"""The likelihood of large bags of two classes on a GPU, started as one step.

An evaluation looks for tilts four times, and all of it comes to some two hundred steps of the
device, each of which takes the host longer to start than the card to do. Recorded once for a number
of columns, as a CUDA graph, they are started together. What is not found within the recorded looks,
which start where the last evaluation ended, is looked for step by step.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from unbag._arrays import Array, Segments
from unbag.objectives.saddle_point import two_class_loss, two_class_loss_in_looks

_LOOKS = 5

# Of more scores than this, work takes the card longer than the host needs to start it, and what
# a recording keeps would fill the memory.
_MOST_SCORES = 2**21


@dataclass(frozen=True, eq=False)
class _Recording:
    """A graph, the array it reads scores from, and those it leaves its results in."""

    graph: Any
    scores: Array
    tilt: Array
    value: Array
    gradient: Array
    found: Array


class RecordedLosses:
    """Losses of the same bags for scores that change, with their gradients.

    Parameters
    ----------
    rows : Segments
        The rows of each bag.
    k, n, S : arrays of shape (bags,)
        As in `unbag.objectives.saddle_point.TiltSearch`.
    """

    def __init__(self, rows: Segments, k: Array, n: Array, S: Array) -> None:
        self._bags = rows, k, n, S
        self._recordings: dict[int, _Recording | None] = {}
        self._pool: Any = None

    @staticmethod
    def serve(f: Array) -> bool:
        """Whether these scores are on a GPU of torch, and not too many."""
        return getattr(f, "is_cuda", False) and f.shape[0] * f.shape[1] <= _MOST_SCORES

    def __call__(self, f: Array) -> tuple[Array, Array]:
        """Loss (columns, bags) and gradient (columns, rows) at scores (columns, rows)."""
        columns = f.shape[0]
        if columns not in self._recordings:
            # what is needed once is not worth a recording, and a first time warms up
            self._recordings[columns] = None
            return two_class_loss(f.exp(), *self._bags)
        recording = self._recordings[columns]
        if recording is None:
            recording = self._recordings[columns] = self._record(f)
        recording.scores.copy_(f)
        recording.graph.replay()
        if bool(recording.found):
            return recording.value.clone(), recording.gradient.clone()
        recording.tilt.zero_()
        return two_class_loss(f.exp(), *self._bags)

    def _record(self, f: Array) -> _Recording:
        import torch

        rows, k, n, S = self._bags
        scores, tilt = f.clone(), f.new_zeros((f.shape[0], k.shape[0]))
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with _recording_to(graph, self._pool):
            value, gradient, found, ended = two_class_loss_in_looks(
                scores.exp(), rows, k, n, S, tilt, _LOOKS
            )
            tilt.copy_(ended)
        return _Recording(graph, scores, tilt, value, gradient, found)


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
