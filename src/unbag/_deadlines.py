"""A time by which work must end, which long loops check."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTimeError(Exception):
    """Work was stopped, since its time is over."""


@contextmanager
def deadline(end: float) -> Iterator[None]:
    """Let loops within stop by an error once `time.monotonic` is past ``end``.

    Examples
    --------
    >>> import time
    >>> from unbag._deadlines import OutOfTimeError, check_time, deadline
    >>> try:
    ...     with deadline(time.monotonic() + 0.01):
    ...         while True:
    ...             check_time()
    ... except OutOfTimeError:
    ...     print("stopped")
    stopped
    """
    token = _END.set(min(end, _END.get()))
    try:
        yield
    finally:
        _END.reset(token)


def check_time() -> None:
    """Stop if the time is over; to be called once in every step of a long loop."""
    if time.monotonic() > _END.get():
        raise OutOfTimeError
