"""Bags drawn by a recipe and a seed, and rows to test on that are in no bag.

Every draw is known by its recipe, its seed and a digest of which row is in which bag: two runs with
the same digest compare methods on the same bags.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from unbag._arrays import Floats, Ints
from unbag.bags import bag_target
from unbag.datasets import make_bags, make_random_bags

Labels = NDArray[np.int64]
BagKind = Literal["low", "high", "shuffled", "feature", "clustered"]
KINDS: tuple[BagKind, ...] = ("low", "high", "shuffled", "feature", "clustered")

# Columns by which feature-made bags are sorted.
_SORTED_BY = 3


class Picked(NamedTuple):
    """Which rows are trained on, the bag of each, and which rows are for testing."""

    train: Ints
    bag: Ints
    test: Ints

    @property
    def digest(self) -> str:
        """Identifies the draw."""
        numbers = [np.asarray(part, dtype="<i8").tobytes() for part in self]
        return sha256(b"|".join(numbers)).hexdigest()[:16]


def pick_rows(
    X: Floats,
    labels: Labels,
    kind: BagKind,
    size: int,
    n_rows: int,
    seed: int,
    *,
    unequal: bool = False,
) -> Picked:
    """Put rows of known label into bags, and hold out rows to test on.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
        Features.
    labels : ndarray of shape (n,)
        Zeros and ones.
    kind : {"low", "high", "shuffled", "feature", "clustered"}
        Proportions uniform on [0, 1/2] or on [1/2, 1]; random bags; rows sorted by three columns
        that the seed chooses, and cut; or rows of one cluster, found by k-means with a cluster for
        about four bags. In the last two a row's odds are the same in every bag.
    size : int
        Rows in a bag.
    n_rows : int
        Rows to train on. There are fewer if not all bags can be filled: with few positives in
        the table, say.
    seed : int
        Same seed, same rows.
    unequal : bool, default=False
        Whether sizes are spread between half and twice ``size``, evenly on the scale of logarithms.

    Returns
    -------
    picked : Picked
        A quarter of the rows, or 2,000 if that is more, are for testing.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites.draws import pick_rows
    >>> labels = np.arange(9000) % 3 // 2
    >>> picked = pick_rows(np.zeros((9000, 1)), labels, "low", 32, 1024, seed=0)
    >>> len(picked.train), int(picked.bag.max()) + 1, len(picked.test)
    (1024, 32, 2250)
    """
    if kind not in KINDS:
        raise ValueError(f"The kinds of bags are {', '.join(KINDS)}, not {kind!r}.")
    rng = check_random_state(seed)
    order = rng.permutation(len(labels))
    n_test = max(2_000, len(labels) // 4)
    test, pool = order[:n_test], order[n_test:]
    n_rows = min(n_rows, len(pool))
    if n_rows < 2 * size:
        raise ValueError(f"{n_rows} rows to train on are too few for two bags of {size}.")
    sizes = _sizes(size, n_rows, unequal, rng)
    if kind in ("low", "high"):
        span = (0.0, 0.5) if kind == "low" else (0.5, 1.0)
        index, bag = _mixed(labels[pool], sizes, span, unequal, rng)
    elif kind == "shuffled":
        index, y = make_random_bags(labels[pool], sizes, random_state=rng)
        bag = y["bag"]
    elif kind == "feature":
        index, bag = _sorted_by_columns(X[pool], sizes, rng)
    else:
        index, bag = _clustered(X[pool], sizes, rng)
    return Picked(pool[index], bag, test)


def pick_split(
    labels: Labels, bag: NDArray[Any], n_rows: int | None, seed: int, *, share: float = 0.75
) -> Picked:
    """Train on a share of the rows of every bag, or fewer, and test on the others.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Zeros and ones.
    bag : ndarray of shape (n,)
        The bag of each row.
    n_rows : int or None
        Rows to train on, at most; each bag gives the same share of its rows, and at least two. None
        takes all.
    seed : int
        Same seed, same rows.
    share : float, default=0.75
        Of the rows of a bag that are not for testing.

    Returns
    -------
    picked : Picked
        Which rows are trained on, the bag of each, and which rows are for testing.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites import pick_split
    >>> bag = np.repeat([0, 1], 8)
    >>> picked = pick_split(bag % 2, bag, None, seed=0)
    >>> len(picked.train), len(picked.test)
    (12, 4)
    """
    rng = check_random_state(seed)
    shuffled = rng.permutation(len(labels))
    _, codes, sizes = np.unique(bag, return_inverse=True, return_counts=True)
    by_bag = shuffled[np.argsort(codes[shuffled], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    limits = np.floor(share * sizes)
    test = by_bag[place >= np.repeat(limits, sizes)]
    if n_rows is not None:
        limits = np.minimum(limits, np.maximum(2, np.floor(limits * n_rows / limits.sum())))
    train = by_bag[place < np.repeat(limits, sizes)]
    return Picked(train, codes[train], test)


def pick_shuffled(labels: Labels, size: int, n_train: int, n_rows: int, seed: int) -> Picked:
    """Make random bags of one size, and test on rows that are set apart.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Numbers of the classes.
    size : int
        Rows in a bag.
    n_train : int
        The first so many rows are to learn from, the others for testing.
    n_rows : int
        Rows to train on and rows to test on, at most.
    seed : int
        Same seed, same rows; the first ones are tested on, whatever the seed.

    Returns
    -------
    picked : Picked
        Which rows are trained on, the bag of each, and which rows are for testing.
    """
    index, y = make_random_bags(
        labels[:n_train], size, n_bags=min(n_rows, n_train) // size, random_state=seed
    )
    return Picked(index, y["bag"], np.arange(n_train, min(len(labels), n_train + n_rows)))


def draw_bags(
    X: Floats, labels: Labels, kind: BagKind, size: int, n_rows: int, seed: int
) -> tuple[Floats, NDArray[np.void], Floats, Labels]:
    """Give features and target of what `pick_rows` draws, and features and labels to test on.

    Parameters
    ----------
    X, labels, kind, size, n_rows, seed : as in pick_rows

    Returns
    -------
    X_train : ndarray of shape (n_train, n_columns)
        Features to train on.
    y : structured ndarray of shape (n_train,)
        Their bags, as made by `unbag.bag_target`.
    X_test : ndarray of shape (n_test, n_columns)
        Features to test on.
    labels_test : ndarray of shape (n_test,)
        Their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites import draw_bags
    >>> labels = np.arange(9000) % 3 // 2
    >>> X, y, X_test, labels_test = draw_bags(np.zeros((9000, 1)), labels, "low", 32, 1024, seed=0)
    >>> X.shape, X_test.shape
    ((1024, 1), (2250, 1))
    """
    return _arrays_of(X, labels, pick_rows(X, labels, kind, size, n_rows, seed))


def split_bags(
    X: Floats, labels: Labels, bag: NDArray[Any], n_rows: int | None, seed: int
) -> tuple[Floats, NDArray[np.void], Floats, Labels]:
    """Give features and target of what `pick_split` picks, and features and labels to test on.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
        Features.
    labels, bag, n_rows, seed : as in pick_split

    Returns
    -------
    X_train, y, X_test, labels_test : as in draw_bags

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites import split_bags
    >>> bag = np.repeat([0, 1], 8)
    >>> X, y, X_test, labels_test = split_bags(np.eye(16), np.arange(16) % 2, bag, None, seed=0)
    >>> X.shape, X_test.shape
    ((12, 16), (4, 16))
    """
    return _arrays_of(X, labels, pick_split(labels, bag, n_rows, seed))


def count_target(bag: NDArray[Any], labels: Labels) -> NDArray[np.void]:
    """Make the target of bags from the labels of their rows.

    Parameters
    ----------
    bag : ndarray of shape (n,)
        The bag of each row.
    labels : ndarray of shape (n,)
        Numbers of the classes, from 0.

    Returns
    -------
    y : structured ndarray of shape (n,)
        The target, as made by `unbag.bag_target`.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites import count_target
    >>> count_target(np.array(["a", "a", "b"]), np.array([0, 1, 1]))["proportion"]
    array([0.5, 0.5, 1. ])
    """
    _, codes = np.unique(bag, return_inverse=True)
    classes = range(1, 2) if labels.max() < 2 else range(labels.max() + 1)
    counts = np.column_stack([np.bincount(codes, labels == c) for c in classes])
    return bag_target(codes, counts=(counts if len(classes) > 1 else counts[:, 0])[codes])


def _arrays_of(
    X: Floats, labels: Labels, picked: Picked
) -> tuple[Floats, NDArray[np.void], Floats, Labels]:
    train, bag, test = picked
    return X[train], count_target(bag, labels[train]), X[test], labels[test]


def _sizes(size: int, n_rows: int, unequal: bool, rng: Any) -> Ints:
    """As many bags as the rows suffice for."""
    if not unequal:
        return np.full(n_rows // size, size)
    drawn = np.round(size * 2.0 ** rng.uniform(-1, 1, 4 * n_rows // size)).astype(np.intp)
    return drawn[drawn.cumsum() <= n_rows]


def _mixed(
    labels: Labels, sizes: Ints, span: tuple[float, float], unequal: bool, rng: Any
) -> tuple[Ints, Ints]:
    """Bags of drawn proportions, as many as there are rows of both classes for."""
    if not unequal:
        index, y = make_bags(labels, int(sizes[0]), span, random_state=rng)
        return index[: sizes.sum()], y["bag"][: sizes.sum()]
    positives = rng.binomial(sizes, rng.uniform(*span, len(sizes)))
    counts = np.column_stack([sizes - positives, positives])
    available = np.bincount(labels, minlength=2)
    counts = counts[(counts.cumsum(axis=0) <= available).all(axis=1)]
    bags = np.arange(len(counts))
    drawn = [rng.permutation(np.flatnonzero(labels == c))[: counts[:, c].sum()] for c in range(2)]
    return np.concatenate(drawn), np.concatenate([np.repeat(bags, of) for of in counts.T])


def _sorted_by_columns(X: Floats, sizes: Ints, rng: Any) -> tuple[Ints, Ints]:
    """Rows with like values of some columns, those that have more values first."""
    columns = rng.permutation(X.shape[1])[:_SORTED_BY]
    ties = rng.permutation(len(X))
    by_values = sorted(columns, key=lambda c: len(np.unique(X[:, c])))
    order = np.lexsort([ties, *(X[:, c] for c in by_values)])
    # the rows left out lie here and there, so that bags come from all over the order
    spare = np.sort(rng.randint(len(X) - sizes.sum() + 1, size=len(sizes)))
    starts = spare + np.cumsum(sizes) - sizes
    rows = [order[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    return np.concatenate(rows), np.repeat(np.arange(len(sizes)), sizes)


def _clustered(X: Floats, sizes: Ints, rng: Any) -> tuple[Ints, Ints]:
    """Positions of rows and their bags, each of rows of one cluster."""
    n_bags = len(sizes)
    n_clusters = max(4, n_bags // 4)
    # more rows than needed, since what is left of a cluster fills no bag
    rows = np.arange(min(len(X), 2 * int(sizes.sum())))
    seed = rng.randint(2**31 - 1)
    cluster = KMeans(n_clusters, n_init=1, max_iter=50, random_state=seed).fit(X[rows]).labels_
    bags: list[Ints] = []
    for c in range(n_clusters):
        members = rng.permutation(rows[cluster == c])
        ends = np.cumsum(np.resize(sizes, len(members)))
        ends = ends[ends <= len(members)]
        bags += np.split(members[: ends[-1]], ends[:-1]) if len(ends) else []
    chosen = [bags[b] for b in rng.permutation(len(bags))[:n_bags]]
    lengths = np.array([len(bag) for bag in chosen])
    lengths = lengths[lengths.cumsum() <= sizes.sum()]
    return np.concatenate(chosen[: len(lengths)]), np.repeat(np.arange(len(lengths)), lengths)
