"""Data for benchmarks: tables of two classes, bags that the world made, and Franco's Adult bags.

`fetch` gets the tables; they lie in the folder that the environment variable
UNBAG_BENCHMARK_DATA names, or else in ``benchmarks/data``.

    >>> X, labels = load_table("smoke_ban")
    >>> X_train, y, X_test, labels_test = draw_bags(X, labels, "low", 32, 3072, seed=0)
    >>> X, labels, bag = load_natural("votes")
    >>> X, labels, bag = load_landscape(LANDSCAPE[0])
    >>> X_train, y, X_test, labels_test = split_bags(X, labels, bag, n_rows=8000, seed=0)
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_random_state

from unbag import bag_target
from unbag.datasets import make_bags, shuffle_bags

Labels = NDArray[np.int64]
Features = NDArray[np.float64]
Kind = Literal["low", "high", "shuffled", "clustered"]

TABLES = (
    "arrests",
    "caravan",
    "census_income",
    "compas",
    "fertility",
    "flchain",
    "health_insurance",
    "hi",
    "k401ksubs",
    "lending_club",
    "nass_cds",
    "smoke_ban",
    "stackoverflow",
    "wa_churn",
)

NATURAL = ("votes", "demographics", "flights", "flights-carrier", "stops", "stops-precinct")

# Parts of the names of Franco's sets: how bags were made, how many there are (5, 10, 20, 25 or
# 30), and which sizes and proportions they have.
_SPANS = ("close-global-cluster", "far-global-cluster", "mixed-cluster")
_MANY = {"extra-large": 20, "extra-extra-large": 25, "massive": 30}


def _landscape_names() -> tuple[str, ...]:
    names = []
    for kind in ("naive", "simple", "intermediate", "hard"):
        clusters = "kmeans-5" if kind in ("intermediate", "hard") else "None-None"
        spans = ("None-cluster",) if kind == "naive" else _SPANS
        names += [
            f"{kind}-{number}-{sizes}-{span}-{clusters}"
            for number in ("small", "large")
            for sizes in ("equal", "not-equal")
            for span in spans
        ]
        span = "None-cluster" if kind == "naive" else "fol-clust-cluster"
        names += [f"{kind}-{many}-fol-clust-{span}-kmeans-{k}" for many, k in _MANY.items()]
    return tuple(names)


# By the kind of bags: "naive" ones are rows at random; in "simple" ones rows depend on their bag
# through their class only; in "intermediate" ones labels depend on their bag through the features
# only; in "hard" ones on both.
LANDSCAPE = _landscape_names()

_VOTES_AS_NUMBERS = ("age", "female", "collegeed")
_ATTITUDES = ("ideo", "pid7na", "angryracism", "whiteadv", "fearraces", "racerare")
_STOPS_FEATURES = ("MDC", "citationIssued", "personSearch", "vehicleSearch", "race", "gender")
_FLIGHTS_FEATURES = ("sched_dep_time", "dep_delay", "carrier", "origin", "dest", "air_time")
_N_FLIGHTS = 60_000


def data_folder() -> Path:
    """Where the data are."""
    beside = Path(__file__).parent / "data"
    return Path(os.environ.get("UNBAG_BENCHMARK_DATA", beside))


def load_table(name: str) -> tuple[Features, Labels]:
    """Load a table that `fetch` made.

    Parameters
    ----------
    name : str
        One of TABLES.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        Numbers standardised, categories as columns of zeros and ones.
    labels : ndarray of shape (n_rows,)
        Zeros and ones; ones are rarer.
    """
    _check_name(name, TABLES)
    frame = pd.read_parquet(_find(f"tables/{name}.parquet"))
    labels = frame.pop("label").to_numpy(dtype=np.int64)
    return encode(frame), labels


def load_natural(task: str) -> tuple[Features, Labels, NDArray[Any]]:
    """Load rows whose bags are a column of the data.

    Parameters
    ----------
    task : str
        "votes": who voted for Trump in 2016, in bags by state; "demographics": the same without
        what voters think, but with their religion; "flights": which of 60,000 flights from New
        York were more than 15 minutes late, by day; "flights-carrier": the same by airline and
        airport; "stops": which stops by the police of Minneapolis were for traffic, by
        neighbourhood; "stops-precinct": the same by precinct. What makes the bags is no feature,
        but for the airlines and airports of "flights".

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        Numbers standardised, categories as columns of zeros and ones.
    labels : ndarray of shape (n_rows,)
        Zeros and ones.
    bag : ndarray of shape (n_rows,)
        The bag of each row.
    """
    features, labels, bag = natural_frame(task)
    if task in ("votes", "demographics"):
        # answers on scales of a few steps: an unknown one is one more answer
        scales = features.columns.difference(_VOTES_AS_NUMBERS)
        features = features.astype(dict.fromkeys(scales, str))
    return encode(features), labels, bag


def natural_frame(task: str) -> tuple[pd.DataFrame, Labels, NDArray[Any]]:
    """Load the same with its columns as they are: features, labels and bags."""
    _check_name(task, NATURAL)
    source = {"demographics": "votes"}.get(task, task.split("-")[0])
    frame = pd.read_csv(_find(f"natural/{source}.csv.xz"))
    if source == "flights":
        frame = frame.sample(_N_FLIGHTS, random_state=0).reset_index(drop=True)
        features = frame[[*_FLIGHTS_FEATURES, "distance"]]
        if task == "flights-carrier":
            features = features.drop(columns=["carrier", "origin"])
        labels, bag = frame["arr_delay"] > 15, _join(frame, "month", "day")
        if task == "flights-carrier":
            bag = _join(frame, "carrier", "origin")
    elif source == "stops":
        hour = pd.to_datetime(frame["date"]).dt.hour.astype(str)
        features = frame[list(_STOPS_FEATURES)].assign(hour=hour)
        labels = frame["problem"] == "traffic"
        bag = _join(frame, "policePrecinct" if task == "stops-precinct" else "neighborhood")
    else:
        labels, bag = frame["votetrump"] == 1, _join(frame, "state")
        features = frame.drop(columns=["state", "votetrump"])
        if task == "demographics":
            features = features.drop(columns=list(_ATTITUDES))
    return features, labels.to_numpy(dtype=np.int64), np.asarray(bag)


def load_landscape(name: str) -> tuple[Features, Labels, NDArray[np.int64]]:
    """Load Adult in bags of Franco et al., *The complex landscape of LLP evaluation*.

    Parameters
    ----------
    name : str
        One of LANDSCAPE.

    Returns
    -------
    X : ndarray of shape (48842, 179)
        Features as published, between 0 and 1, standardised where they are not zeros and ones.
    labels : ndarray of shape (48842,)
        One for an income of more than 50,000 dollars.
    bag : ndarray of shape (48842,)
        The bag of each row.
    """
    _check_name(name, LANDSCAPE)
    X, labels = _adult()
    bag = pd.read_parquet(_find(f"landscape/datasets-ci_adult-{name}.parquet"))["bag"]
    return X.copy(), labels.copy(), bag.to_numpy(dtype=np.int64)


def draw_bags(
    X: Features, labels: Labels, kind: Kind, size: int, n_rows: int, seed: int
) -> tuple[Features, NDArray[np.void], Features, Labels]:
    """Put rows of known label into bags of equal size, and hold out rows to test on.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
    labels : ndarray of shape (n,)
        Zeros and ones.
    kind : {"low", "high", "shuffled", "clustered"}
        Proportions uniform on [0, 1/2] or on [1/2, 1]; rows at random; or rows of one cluster,
        found by k-means with a cluster for about four bags, so that a row's odds are the same in
        every bag. Proportions are counts of the rows in a bag over its size.
    size : int
        Rows in a bag.
    n_rows : int
        Rows to train on. There are fewer if not all bags can be filled: with few positives in
        the table, say.
    seed : int

    Returns
    -------
    X_train, y : ndarray and structured array from `unbag.bag_target`
    X_test, labels_test : ndarrays
        A quarter of the rows, or 2,000 if that is more, at the shares they have in the table;
        none of them is in a bag.
    """
    rng = check_random_state(seed)
    order = rng.permutation(len(labels))
    n_test = max(2_000, len(labels) // 4)
    if len(labels) - n_test < 2 * size:
        raise ValueError(f"{len(labels)} rows are too few for bags of {size} and a test.")
    test, pool = order[:n_test], order[n_test:]
    n_bags = n_rows // size
    if kind in ("low", "high"):
        span = (0.0, 0.5) if kind == "low" else (0.5, 1.0)
        index, y = make_bags(labels[pool], size, span, random_state=rng)
        index, y = index[: n_bags * size], y[: n_bags * size]
    elif kind == "shuffled":
        n_bags = min(n_bags, len(pool) // size)
        index, y = shuffle_bags(labels[pool], size, n_bags=n_bags, random_state=rng)
    elif kind == "clustered":
        index, bag = _clustered(X[pool], size, n_bags, rng)
        y = count_target(bag, labels[pool][index])
    else:
        raise ValueError(f"kind must be 'low', 'high', 'shuffled' or 'clustered', not {kind!r}.")
    return X[pool[index]], y, X[test], labels[test]


def split_bags(
    X: Features, labels: Labels, bag: NDArray[Any], n_rows: int | None, seed: int
) -> tuple[Features, NDArray[np.void], Features, Labels]:
    """Train on three quarters of the rows of every bag, or fewer, and test on the others.

    Parameters
    ----------
    X, labels, bag : ndarrays
        As `load_natural` and `load_landscape` give them.
    n_rows : int, optional
        Rows to train on, at most; each bag gives the same share of its rows, and at least two.
    seed : int

    Returns
    -------
    X_train, y : ndarray and structured array from `unbag.bag_target`
        With the proportions of the rows that are trained on.
    X_test, labels_test : ndarrays
        A quarter of the rows of every bag, whatever ``n_rows`` is.
    """
    rng = check_random_state(seed)
    shuffled = rng.permutation(len(labels))
    _, codes, sizes = np.unique(bag, return_inverse=True, return_counts=True)
    by_bag = shuffled[np.argsort(codes[shuffled], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    limits = np.floor(0.75 * sizes)
    test = by_bag[place >= np.repeat(limits, sizes)]
    if n_rows is not None:
        limits = np.minimum(limits, np.maximum(2, np.floor(limits * n_rows / limits.sum())))
    train = by_bag[place < np.repeat(limits, sizes)]
    return X[train], count_target(codes[train], labels[train]), X[test], labels[test]


def count_target(bag: NDArray[Any], labels: Labels) -> NDArray[np.void]:
    """Make the target of bags from the labels of their rows."""
    _, codes = np.unique(bag, return_inverse=True)
    return bag_target(codes, counts=np.bincount(codes, weights=labels)[codes])


def encode(frame: pd.DataFrame) -> Features:
    """Standardise numbers, and turn categories into columns of zeros and ones.

    An unknown number becomes the median, with a column that says so; an unknown category is one
    more category. Categories of fewer than 20 rows share a column.
    """
    numbers = [c for c in frame if pd.api.types.is_numeric_dtype(frame[c])]
    others = [c for c in frame if c not in numbers]
    impute = SimpleImputer(strategy="median", add_indicator=True)
    columns = ColumnTransformer(
        [
            ("numerical", make_pipeline(impute, StandardScaler()), numbers),
            ("categorical", OneHotEncoder(min_frequency=20, sparse_output=False), others),
        ]
    )
    frame = frame.assign(**{c: frame[c].astype(object).fillna("?").astype(str) for c in others})
    return np.ascontiguousarray(columns.fit_transform(frame), dtype=np.float64)


def _clustered(
    X: Features, size: int, n_bags: int, rng: Any
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Positions of rows and their bags, each of rows of one cluster."""
    n_clusters = max(4, n_bags // 4)
    # more rows than needed, since what is left of a cluster fills no bag
    rows = np.arange(min(len(X), 2 * n_bags * size))
    seed = rng.randint(2**31 - 1)
    cluster = KMeans(n_clusters, n_init=1, max_iter=50, random_state=seed).fit(X[rows]).labels_
    bags = []
    for c in range(n_clusters):
        members = rng.permutation(rows[cluster == c])
        bags += [members[i : i + size] for i in range(0, len(members) - size + 1, size)]
    chosen = rng.permutation(len(bags))[:n_bags]
    index = np.concatenate([bags[b] for b in chosen])
    return index, np.repeat(np.arange(len(chosen)), size)


@cache
def _adult() -> tuple[Features, Labels]:
    frame = pd.read_parquet(_find("landscape/datasets-ci_adult.parquet"))
    labels = frame.pop("y").to_numpy(dtype=np.int64)
    X = frame.to_numpy(dtype=np.float64, copy=True)
    scaled = ~((X == 0) | (X == 1)).all(axis=0)
    X[:, scaled] = StandardScaler().fit_transform(X[:, scaled])
    return X, labels


def _join(frame: pd.DataFrame, *names: str) -> NDArray[Any]:
    """Columns as one text for each row."""
    text = frame[names[0]].astype(str)
    for name in names[1:]:
        text = text + " " + frame[name].astype(str)
    return text.to_numpy(dtype=str)


def _find(path: str) -> Path:
    found = data_folder() / path
    if not found.exists():
        raise FileNotFoundError(
            f"There is no {found}; run python benchmarks/fetch.py, which also says where the "
            "landscape sets come from, or set UNBAG_BENCHMARK_DATA to the folder of the data."
        )
    return found


def _check_name(name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise ValueError(f"There is no {name!r}; there are {', '.join(names)}.")
