"""Splitting data by whole bags.

An integer `cv` in scikit-learn cuts bags to pieces: training and test set then share bags, and
a piece of a bag no longer has the proportion that is known. The splitters here keep bags whole
and spread their proportions over the folds. Rows of known label are dealt out one by one.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit
from sklearn.utils import _safe_indexing, check_random_state

from unbag._arrays import Bools, Ints
from unbag._checks import check_count, check_inside
from unbag._progress import progress_bar
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.shares import bag_name
from unbag.model_selection.fitted import train_again


class _WholeBags(BaseCrossValidator):
    """A splitter that receives bags, where scikit-learn's receive rows."""

    n_splits: int

    @abstractmethod
    def _held_out(self, bags: Bags) -> Iterator[Bools]:
        """Rows that each split holds out."""

    get_n_splits = BaseShuffleSplit.get_n_splits

    def _iter_test_masks(
        self,
        X: Any = None,  # noqa: ARG002
        y: Any = None,
        groups: Any = None,  # noqa: ARG002
    ) -> Iterator[Bools]:
        if y is None:
            raise ValueError("Splitting whole bags needs y, made by unbag.bag_target.")
        # every labelled row by itself
        return self._held_out(check_bag_target(y).with_labelled_rows_apart()[0])


class BagKFold(_WholeBags):
    """K folds of whole bags, each with small and large proportions.

    Bags are sorted by proportion and dealt out in groups of ``n_splits`` neighbours; within a
    group, the largest bag goes to the fold with the fewest instances so far.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of bags.
    shuffle : bool, default=False
        Whether bags of a group are dealt out at random.
    random_state : int, RandomState or None, default=None
        For ``shuffle=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import BagKFold, bag_target
    >>> y = bag_target(np.repeat([1, 2, 3, 4], 2), np.repeat([0.0, 0.1, 0.9, 1.0], 2))
    >>> for train, test in BagKFold(2).split(y, y):
    ...     print(np.unique(y["bag"][test]))
    [1 4]
    [2 3]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def _held_out(self, bags: Bags) -> Iterator[Bools]:
        check_count(self.n_splits, "n_splits", least=2)
        if self.n_splits > bags.n_bags:
            raise ValueError(
                f"{self.n_splits} folds need as many bags, and there are {bags.n_bags}."
            )
        rng = check_random_state(self.random_state) if self.shuffle else None
        order, load = _by_proportion(bags), np.zeros(self.n_splits)
        fold = np.empty(bags.n_bags, dtype=np.intp)
        for number, start in enumerate(range(0, bags.n_bags, self.n_splits)):
            # forth and back, so that no fold gets the smallest of every group
            group = order[start : start + self.n_splits][:: -1 if number % 2 else 1]
            emptiest = np.argsort(load, kind="stable")[: len(group)]
            if rng is not None:
                group = rng.permutation(group)
            else:
                group = group[np.argsort(-bags.sizes[group], kind="stable")]
            fold[group] = emptiest
            load[emptiest] += bags.sizes[group]
        for number in range(self.n_splits):
            yield (fold == number)[bags.index]


class _FoldsOrFewer(BagKFold):
    """As many folds, or where there are fewer bags, one for each."""

    def _held_out(self, bags: Bags) -> Iterator[Bools]:
        if self.n_splits <= bags.n_bags or bags.n_bags < 2:
            return super()._held_out(bags)
        warnings.warn(
            f"{self.n_splits} folds need as many bags, and there are {bags.n_bags}: each of them "
            "is held out once.",
            UserWarning,
            stacklevel=2,
        )
        return BagKFold(bags.n_bags)._held_out(bags)


class BagShuffleSplit(_WholeBags):
    """Random splits into training and test bags, with proportions spread over both.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float, default=0.2
        Proportion of the bags that each split holds out.
    random_state : int, RandomState or None, default=None
        Source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import BagShuffleSplit, bag_target
    >>> y = bag_target(np.repeat([1, 2, 3, 4], 2), np.repeat([0.2, 0.3, 0.6, 0.9], 2))
    >>> for train, test in BagShuffleSplit(2, test_size=0.5, random_state=1).split(y, y):
    ...     print(np.unique(y["bag"][train]), np.unique(y["bag"][test]))
    [1 3] [2 4]
    [2 4] [1 3]
    """

    def __init__(
        self, n_splits: int = 10, *, test_size: float = 0.2, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.test_size = test_size
        self.random_state = random_state

    def _held_out(self, bags: Bags) -> Iterator[Bools]:
        check_inside(self.test_size, "test_size")
        if bags.n_bags < 2:
            raise ValueError("A split needs at least two bags, and there is one.")
        rng = check_random_state(self.random_state)
        order = _by_proportion(bags)
        for _ in range(self.n_splits):
            # systematic sampling: one random start, then equal steps through the sorted bags
            ticks = np.floor(np.arange(bags.n_bags + 1) * self.test_size + rng.uniform())
            chosen = np.flatnonzero(np.diff(ticks) > 0)
            if len(chosen) in (0, bags.n_bags):
                chosen = rng.choice(bags.n_bags, 1)
            held = np.zeros(bags.n_bags, dtype=bool)
            held[order[chosen]] = True
            yield held[bags.index]


def check_cv(cv: Any, X: Any, y: Any) -> Bools:
    """Which rows each fold holds out, for an integer, a splitter or an iterable of splits."""
    if isinstance(cv, int | np.integer):
        cv = _FoldsOrFewer(int(cv))
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise ValueError(f"cv must be a whole number, a splitter or a list of splits, not {cv!r}.")
    held = []
    for train, test in cv.split(X, y) if hasattr(cv, "split") else cv:
        times = np.zeros(len(y), dtype=np.int32)
        np.add.at(times, train, 1)
        mask = times == 0
        np.add.at(times, test, 1)
        if not (times == 1).all() or mask.all() or not mask.any():
            raise ValueError(
                "cv must put every row either into the training or into the test part of a fold, "
                "and leave neither empty."
            )
        held.append(mask)
    if len(held) < 2:
        raise ValueError(f"cv must give at least two folds, not {len(held)}.")
    return np.stack(held)


def cut_by_folds(bags: Bags, held: Bools) -> tuple[Bags, Bools]:
    """Say which bags each fold holds out, dividing rows of known label where folds do."""
    inside = np.stack([np.bincount(bags.index, mask, bags.n_bags) for mask in held])
    # where rows are in partitions, a bag is here with one of its rows, whatever its size
    rows = np.bincount(bags.index, minlength=bags.n_bags)
    cut = ((inside > 0) & (inside < rows)).any(axis=0) & ~bags.labelled
    if cut.any():
        raise ValueError(
            f"A fold holds out part of bag {bag_name(bags.ids[cut][0])} only; split whole bags "
            "with unbag.BagKFold or unbag.BagShuffleSplit."
        )
    if not bags.labelled.any():
        return bags, inside > 0
    pattern = np.zeros(bags.n_instances, dtype=np.intp)
    for mask in held:
        pattern = np.unique(2 * pattern + mask, return_inverse=True)[1]
    refined, first = bags.divide(pattern)
    return refined, held[:, first]


@contextmanager
def naming_fold(number: int, n_folds: int) -> Iterator[None]:
    """Name the fold in errors about its training."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"Fold {number + 1} of {n_folds} cannot be trained: {error} "
            "Use fewer folds, more bags, or a model that chooses nothing."
        ) from None


def _by_proportion(bags: Bags) -> Ints:
    """Order of the bags along the direction in which proportions vary most."""
    centred = bags.proportions - bags.proportions.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    direction *= np.sign(direction[-1]) or 1.0
    return np.lexsort((bags.sizes, np.round(centred @ direction, 12)))


def some_bags(sizes: NDArray[Any], most_rows: float, fewest: int, random: Any) -> Bools:
    """Draw whole bags: of at most this many rows, unless that leaves fewer bags than the fewest."""
    order = random.permutation(len(sizes))
    n_fit = int(np.searchsorted(np.cumsum(sizes[order]), most_rows, side="right"))
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[order[: max(n_fit, fewest)]] = True
    return chosen


def rows_of_some_bags(y: Any, most_rows: float, fewest: int, random: Any) -> Ints:
    """Rows of bags drawn by `some_bags`."""
    bags = check_bag_target(y)
    return np.flatnonzero(some_bags(bags.sizes, most_rows, fewest, random)[bags.index])


def check_held_once(held: Bools) -> None:
    """Refuse folds (rows) that leave a bag out, or hold one out twice."""
    if not (held.sum(axis=0) == 1).all():
        raise ValueError("cv must hold out every bag exactly once, as unbag.BagKFold does.")


def map_folds(
    estimator: Any,
    X: Any,
    y: Any,
    function: Callable[[Any, Any], Any],
    *,
    cv: Any = 5,
    warm_start: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[list[Any], Ints]:
    """Give ``function(model, X)`` of every fold, by one that was trained on the others, and folds."""
    held = check_cv(cv, X, y)
    cut_by_folds(check_bag_target(y), held)
    check_held_once(held)
    jobs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_fit_and_call)(estimator, X, y, out, function, warm_start) for out in held
    )
    found = list(progress_bar(jobs, verbose=verbose, total=len(held), desc="folds", unit="fold"))
    return found, held.argmax(axis=0)


def _fit_and_call(
    estimator: Any,
    X: Any,
    y: Any,
    out: Bools,
    function: Callable[[Any, Any], Any],
    warm_start: bool,
) -> Any:
    train, test = np.flatnonzero(~out), np.flatnonzero(out)
    rows = _safe_indexing(X, train), y[train]
    model = train_again(estimator, *rows) if warm_start else clone(estimator).fit(*rows)
    return function(model, _safe_indexing(X, test))
