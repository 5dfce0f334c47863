"""Progress bars, for people who watch: on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm


def progress_bar(steps: Any = None, *, verbose: Any = True, **how: Any) -> tqdm:
    """Make a bar of tqdm, over ``steps`` or to be moved; it shows if ``verbose`` is not 0.

    What is piped into a file or another program has no bars in it.
    """
    shown = verbose and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    return tqdm(steps, disable=not shown, **how)


class ColumnProgress:
    """Counts the fits that have converged."""

    def __init__(self, bar: tqdm) -> None:
        self._bar = bar

    def of_batch(self, n_columns: int) -> Callable[[int, int], None]:
        """Make the callback for one batch: it receives iterations and columns left."""
        left_before = n_columns

        def advance(iteration: int, n_left: int) -> None:
            nonlocal left_before
            self._bar.set_postfix(iteration=iteration, refresh=False)
            self._bar.update(left_before - n_left)
            left_before = n_left

        return advance


@contextmanager
def column_progress(n_columns: int, verbose: int) -> Iterator[ColumnProgress]:
    """Show a bar over ``n_columns`` fits if ``verbose`` is not 0."""
    with progress_bar(total=n_columns, verbose=verbose, desc="fitting", unit="fit") as bar:
        yield ColumnProgress(bar)
        bar.update(n_columns - bar.n)
