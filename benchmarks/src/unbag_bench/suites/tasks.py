"""The tasks of the suites: a method, the bags it learns from and the rows it is tested on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag_bench.suites import draws, landscape
from unbag_bench.suites.draws import Picked, count_target, pick_rows, pick_shuffled, pick_split
from unbag_bench.suites.files import (
    IMAGES,
    NATURAL,
    TABLES,
    check_name,
    load_images,
    load_natural,
    load_table,
)
from unbag_bench.suites.landscape import LANDSCAPE, load_landscape
from unbag_bench.suites.manifests import keep_manifest, make_manifest
from unbag_bench.suites.methods import check_methods

Labels = NDArray[np.int64]

# Rows to train on, at most, where the rows of a suite are not given.
NATURAL_ROWS, TABLE_ROWS = 8_000, 4_096
SIZES = (8, 32, 128, 512, 2048)

IMAGE_SIZES = (16, 64, 256, 1024)

# Images to train on, and to test on, in a short run, which a processor without a card can do.
SMALL = 2_048

# Bags of these sizes in a short run of the tables.
_SHORT_SIZES = (8, 32, 128, 512)


@dataclass(frozen=True)
class SuiteTask:
    """One method on one draw of bags.

    Attributes
    ----------
    suite : str
        One of SUITES.
    name : str
        Of the set: one of LANDSCAPE, one of NATURAL, a table, a kind, a size and, if sizes
        differ, "unequal", such as "hi low 128 unequal", or images, a size and, if there are few
        of them, "small", such as "mnist 16 small".
    seed : int
        Of the draw; of the landscape the number of the published split.
    method : str
        One of METHODS.

    Examples
    --------
    >>> from unbag_bench.suites import SuiteTask
    >>> SuiteTask("natural", "votes", 0, "mixed").identity
    'natural/votes/0/mixed'
    """

    suite: str
    name: str
    seed: int
    method: str

    @property
    def identity(self) -> str:
        """Identifies the task."""
        return f"{self.suite}/{self.name}/{self.seed}/{self.method}"


@dataclass(frozen=True, eq=False)
class SuiteData:
    """Bags to train on; labels are there for scoring, and for what is trained on labels."""

    X: Floats
    y: NDArray[np.void]
    labels: Labels
    X_test: Floats
    labels_test: Labels
    digest: str


@dataclass(frozen=True)
class Suite:
    """A family of sets.

    Attributes
    ----------
    title : str
    names : callable
        Whether the run is short -> names of the sets.
    kind_of : callable
        Name of a set -> kind of its bags.
    pick : callable
        Name, seed and folder of files -> features, labels and which rows are picked.
    methods : tuple of str
        Those that are compared unless others are asked for.
    most_seeds : int, optional
        How many draws of a set there can be.
    draws : bool
        Whether bags are drawn by a seed; those of the landscape come with the package.
    """

    title: str
    names: Callable[[bool], Sequence[str]]
    kind_of: Callable[[str], str]
    pick: Callable[[str, int, Path | None], tuple[Floats, Labels, Picked]]
    methods: tuple[str, ...]
    most_seeds: int | None = None
    draws: bool = True

    @property
    def all_names(self) -> list[str]:
        """Names of the sets of long runs and short ones."""
        return list(dict.fromkeys([*self.names(False), *self.names(True)]))


def _table_names(short: bool) -> list[str]:
    """All combinations, or every kind in half of the tables, with one size in each."""
    if not short:
        return [
            f"{table} {kind} {size}{sizes}"
            for table, kind, size, sizes in product(TABLES, draws.KINDS, SIZES, ("", " unequal"))
        ]
    places = product(range(len(TABLES)), range(len(draws.KINDS)))
    return [
        f"{TABLES[t]} {draws.KINDS[k]} {_SHORT_SIZES[(t // 2 + k) % 4]}{' unequal' * (t // 4 % 2)}"
        for t, k in places
        if (t + k) % 2 == 0
    ]


def _pick_table(name: str, seed: int, folder: Path | None) -> tuple[Floats, Labels, Picked]:
    table, kind, size, *unequal = name.split()
    X, labels = load_table(table, folder)
    picked = pick_rows(
        X,
        labels,
        kind,  # type: ignore[arg-type] # checked there
        int(size),
        max(TABLE_ROWS, 8 * int(size)),
        seed,
        unequal=bool(unequal),
    )
    return X, labels, picked


def _pick_natural(name: str, seed: int, folder: Path | None) -> tuple[Floats, Labels, Picked]:
    X, labels, bag = load_natural(name, folder)
    return X, labels, pick_split(labels, bag, NATURAL_ROWS, seed)


def _pick_landscape(name: str, seed: int, _: Path | None) -> tuple[Floats, Labels, Picked]:
    X, labels, bag = load_landscape(name)
    train, test = landscape.split_rows(seed)
    return X, labels, Picked(train, bag[train], test)


def _image_names(short: bool) -> list[str]:
    """All combinations, or a few images of each source in bags of one size."""
    if not short:
        return [f"{images} {size}" for images, size in product(IMAGES, IMAGE_SIZES)]
    return [f"{images} {size} small" for images, size in zip(IMAGES, (16, 64, 16), strict=True)]


def _pick_images(name: str, seed: int, folder: Path | None) -> tuple[Floats, Labels, Picked]:
    source, size, *small = name.split()
    images, labels = load_images(source, folder)
    n_train = IMAGES[source]
    picked = pick_shuffled(labels, int(size), n_train, SMALL if small else n_train, seed)
    pixels = images.reshape(len(images), -1).astype(np.float32)
    return pixels / 255, labels, picked


# What takes seconds on some thousands of rows.
_ALL = (
    *("mixed", "mixed-linear", "trees", "ensemble", "epr", "soft-label", "em-lr", "invcal"),
    *("mm", "lmm", "amm-min", "amm-max", "dllp", "easyllp", "dsq", "genbags", "llpfc"),
    *("llpfc-released", "forward", "count-loss", "rot", "llp-dc", "llp-mm", "aggregate"),
    *("cluster", "llp-rf", "labels"),
)

SUITES: dict[str, Suite] = {
    "landscape": Suite(
        "Adult in the 52 bag sets of Franco et al.",
        lambda short: LANDSCAPE[::4] if short else LANDSCAPE,
        landscape.kind_of,
        _pick_landscape,
        ("mixed", "mixed-linear", "forward", "easyllp", "epr", "soft-label", "labels"),
        landscape.N_SPLITS,
        draws=False,
    ),
    "natural": Suite(
        "Natural bags",
        lambda short: NATURAL[::2] if short else NATURAL,
        lambda _: "real",
        _pick_natural,
        _ALL,
    ),
    "tables": Suite(
        "Tables in bags of every kind",
        _table_names,
        lambda name: name.split()[1],
        _pick_table,
        _ALL,
    ),
    "images": Suite(
        "Images of ten classes in random bags",
        _image_names,
        lambda name: name.split()[1],
        _pick_images,
        (
            *("network", "network-proportion", "network-forward"),
            *("mixed-linear", "labels-network"),
        ),
    ),
}


def make_suite_tasks(
    suite: str,
    *,
    methods: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    short: bool = False,
) -> list[SuiteTask]:
    """List the tasks of a suite; the first draw of every set comes first.

    Parameters
    ----------
    suite : {"landscape", "natural", "tables", "images"}
        Which suite.
    methods : sequence of str, optional
        Names in METHODS; those of the suite by default.
    kinds : sequence of str, optional
        Kinds of bags; those of the suite by default.
    names : sequence of str, optional
        Sets; those of the suite by default.
    seeds : sequence of int, default=(0,)
        Of the draws; of the landscape the numbers of the published splits.
    short : bool, default=False
        Whether only some of the sets are meant.

    Returns
    -------
    tasks : list of SuiteTask
        One for each method on each draw.

    Examples
    --------
    >>> from unbag_bench.suites import make_suite_tasks
    >>> len(make_suite_tasks("landscape", methods=["mixed"], seeds=range(30)))
    1560
    """
    check_name(suite, tuple(SUITES), "suite")
    chosen = SUITES[suite]
    methods = chosen.methods if methods is None else methods
    check_methods(methods)
    for name in names or ():
        check_name(name, chosen.all_names)
    sets = chosen.names(short) if names is None else names
    for kind in kinds or ():
        check_name(kind, dict.fromkeys(map(chosen.kind_of, sets)), "kind of bags")
    if not seeds:
        raise ValueError("The number of splits must be at least 1.")
    if chosen.most_seeds is not None and max(seeds) >= chosen.most_seeds:
        raise ValueError(f"The {suite} has {chosen.most_seeds} splits, not {max(seeds) + 1}.")
    return [
        SuiteTask(suite, name, seed, method)
        for seed, name, method in product(seeds, sets, methods)
        if kinds is None or chosen.kind_of(name) in kinds
    ]


# methods of a draw follow each other
@lru_cache(maxsize=1)
def load_data(
    suite: str, name: str, seed: int, folder: Path | None = None, bags: Path | None = None
) -> SuiteData:
    """Load the bags of a task and the rows to test on; draws are kept in the folder ``bags``."""
    X, labels, picked = SUITES[suite].pick(name, seed, folder)
    if bags is not None:
        picked = keep_manifest(bags, make_manifest(suite, name, seed, picked, labels), labels)
    train, bag, test = picked
    y = count_target(bag, labels[train])
    return SuiteData(X[train], y, labels[train], X[test], labels[test], picked.digest)
