"""A progress bar for fits that take a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


class ColumnProgress:
    """Counts the fits that have converged."""

    def __init__(self, bar: tqdm | None) -> None:
        self._bar = bar

    def of_batch(self, n_columns: int) -> Callable[[int, int], None]:
        """Make the callback for one batch: it hears of iterations and of columns left."""
        left_before = n_columns

        def advance(iteration: int, n_left: int) -> None:
            nonlocal left_before
            if self._bar is None:
                return
            self._bar.set_postfix(iteration=iteration, refresh=False)
            self._bar.update(left_before - n_left)
            left_before = n_left

        return advance


@contextmanager
def column_progress(n_columns: int, verbose: int) -> Iterator[ColumnProgress]:
    """Show a bar over ``n_columns`` fits if ``verbose`` is not 0."""
    if not verbose:
        yield ColumnProgress(None)
        return
    with tqdm(total=n_columns, desc="fitting", unit="fit") as bar:
        yield ColumnProgress(bar)
        bar.update(n_columns - bar.n)
