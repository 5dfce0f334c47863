"""Tables of two classes, natural bags, and images, from a folder of files.

``unbag-bench fetch`` fills the folder. It is the one that is given, or that the environment variable
UNBAG_BENCHMARK_DATA names, or else ``benchmarks/data`` of the repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unbag._arrays import Floats

Labels = NDArray[np.int64]

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

# Images to learn from; those behind them are for testing.
IMAGES = {"mnist": 60_000, "fashion": 60_000, "cifar10": 50_000}

_VOTES_AS_NUMBERS = ("age", "female", "collegeed")
_ATTITUDES = ("ideo", "pid7na", "angryracism", "whiteadv", "fearraces", "racerare")
_STOPS_FEATURES = ("MDC", "citationIssued", "personSearch", "vehicleSearch", "race", "gender")
_FLIGHTS_FEATURES = ("sched_dep_time", "dep_delay", "carrier", "origin", "dest", "air_time")
_N_FLIGHTS = 60_000
_DATA = Path(__file__).parents[3] / "data"


def data_folder(folder: Path | None = None) -> Path:
    """Say where the files are that do not come with the package.

    Parameters
    ----------
    folder : Path, optional
        Given back, if there is one.

    Returns
    -------
    folder : Path
        By default the one that the environment variable ``UNBAG_BENCHMARK_DATA`` names, or
        ``benchmarks/data``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from unbag_bench.suites import data_folder
    >>> data_folder(Path("mine")).name
    'mine'
    """
    return folder or Path(os.environ.get("UNBAG_BENCHMARK_DATA", _DATA))


def load_table(name: str, folder: Path | None = None) -> tuple[Floats, Labels]:
    """Load a table of two classes.

    Parameters
    ----------
    name : str
        One of TABLES.
    folder : Path, optional
        Where the files are; by default `data_folder`.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        Numbers standardised, categories as columns of zeros and ones.
    labels : ndarray of shape (n_rows,)
        Zeros and ones; ones are rarer.

    Examples
    --------
    A folder with a table of four rows:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from unbag_bench.suites import load_table
    >>> rows = pd.DataFrame({"age": [31, 64, 50, 43], "label": [0, 1, 0, 0]})
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "tables").mkdir()
    ...     rows.to_parquet(Path(folder, "tables", "hi.parquet"))
    ...     X, labels = load_table("hi", Path(folder))
    >>> X.shape, labels.tolist()
    ((4, 1), [0, 1, 0, 0])
    """
    frame, labels = table_frame(name, folder)
    return encode(frame), labels


def table_frame(name: str, folder: Path | None = None) -> tuple[Any, Labels]:
    """Load a table of two classes with its columns as they are; parameters as in `load_table`."""
    import pandas as pd

    check_name(name, TABLES)
    frame = pd.read_parquet(_find(f"tables/{name}.parquet", folder))
    labels = frame.pop("label").to_numpy(dtype=np.int64)
    return frame, labels


def load_natural(task: str, folder: Path | None = None) -> tuple[Floats, Labels, NDArray[Any]]:
    """Load rows whose bags are a column of the data.

    Parameters
    ----------
    task : str
        "votes": who voted for Trump in 2016, in bags by state; "demographics": the same without
        what voters think, but with their religion; "flights": which of 60,000 flights from New
        York were more than 15 minutes late, by day; "flights-carrier": the same by airline and
        airport; "stops": which stops by the police of Minneapolis were for traffic, by
        neighbourhood; "stops-precinct": the same by precinct. Columns that make the bags are not features,
        except airlines and airports of "flights".
    folder : Path, optional
        Where the files are; by default `data_folder`.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        Numbers standardised, categories as columns of zeros and ones.
    labels : ndarray of shape (n_rows,)
        Zeros and ones.
    bag : ndarray of shape (n_rows,)
        The bag of each row.

    Examples
    --------
    A folder with a file of three voters:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from unbag_bench.suites import load_natural
    >>> votes = {"state": ["OH", "OH", "TX"], "age": [31, 64, 50], "votetrump": [0, 1, 1]}
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "natural").mkdir()
    ...     pd.DataFrame(votes).to_csv(Path(folder, "natural", "votes.csv.xz"), index=False)
    ...     X, labels, bag = load_natural("votes", Path(folder))
    >>> X.shape, labels.tolist(), bag.tolist()
    ((3, 1), [0, 1, 1], ['OH', 'OH', 'TX'])
    """
    features, labels, bag = natural_frame(task, folder)
    if task in ("votes", "demographics"):
        # answers on scales of a few steps: an unknown one is one more answer
        scales = features.columns.difference(_VOTES_AS_NUMBERS)
        features = features.astype(dict.fromkeys(scales, str))
    return encode(features), labels, bag


def natural_frame(task: str, folder: Path | None = None) -> tuple[Any, Labels, NDArray[Any]]:
    """Load rows whose bags are a column of the data, with their columns as they are.

    Parameters
    ----------
    task : str
        One of NATURAL, as in `load_natural`.
    folder : as in load_natural

    Returns
    -------
    features : pandas.DataFrame
        The columns.
    labels, bag : as in load_natural

    Examples
    --------
    A folder with a file of three voters:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from unbag_bench.suites import natural_frame
    >>> votes = {"state": ["OH", "OH", "TX"], "age": [31, 64, 50], "votetrump": [0, 1, 1]}
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "natural").mkdir()
    ...     pd.DataFrame(votes).to_csv(Path(folder, "natural", "votes.csv.xz"), index=False)
    ...     features, labels, bag = natural_frame("votes", Path(folder))
    >>> list(features), labels.tolist(), bag.tolist()
    (['age'], [0, 1, 1], ['OH', 'OH', 'TX'])
    """
    import pandas as pd

    check_name(task, NATURAL)
    source = {"demographics": "votes"}.get(task, task.split("-")[0])
    frame = pd.read_csv(_find(f"natural/{source}.csv.xz", folder))
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
    return features, np.asarray(labels, dtype=np.int64), np.asarray(bag)


def load_images(name: str, folder: Path | None = None) -> tuple[NDArray[np.uint8], Labels]:
    """Load images of ten classes.

    Parameters
    ----------
    name : {"mnist", "fashion", "cifar10"}
        The last 10,000 images of MNIST and CIFAR-10 are their test sets. The file of Fashion-MNIST
        has lost the order of its source, and comes in that of a seed.
    folder : Path, optional
        Where the files are; by default `data_folder`.

    Returns
    -------
    images : ndarray of shape (n_images, n_channels, height, width)
        Bytes; the first ``IMAGES[name]`` are to learn from.
    labels : ndarray of shape (n_images,)
        From 0 to 9.

    Examples
    --------
    Needs files that do not come with the package:

    >>> from unbag_bench.suites import load_images
    >>> images, labels = load_images("fashion")  # doctest: +SKIP
    """
    check_name(name, IMAGES)
    first = _find(f"images/{name}-1.npz", folder, part="images")
    parts = [np.load(file) for file in sorted(first.parent.glob(f"{name}-*.npz"))]
    images, labels = (np.concatenate([part[key] for part in parts]) for key in ("images", "labels"))
    if name == "fashion":
        order = np.random.default_rng(0).permutation(len(labels))
        images, labels = images[order], labels[order]
    return images, labels.astype(np.int64)


def encode(frame: Any) -> Floats:
    """Standardise numbers, and turn categories into columns of zeros and ones.

    An unknown number becomes the median, with a column that says so; an unknown category is one
    more category. Categories of fewer than 20 rows share a column.
    """
    from pandas.api.types import is_numeric_dtype

    numbers = [c for c in frame if is_numeric_dtype(frame[c])]
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


def check_name(name: str, names: Iterable[str], what: str = "set") -> None:
    """Say what there is, if there is nothing of this name."""
    if name not in (known := tuple(names)):
        raise ValueError(f"There is no {what} {name!r}; there are {', '.join(known)}.")


def _join(frame: Any, *names: str) -> NDArray[Any]:
    """Columns as one text for each row."""
    text = frame[names[0]].astype(str)
    for name in names[1:]:
        text = text + " " + frame[name].astype(str)
    joined: NDArray[Any] = text.to_numpy(dtype=str)
    return joined


def _find(path: str, folder: Path | None, part: str = "tables") -> Path:
    found = data_folder(folder) / path
    if not found.exists():
        raise FileNotFoundError(
            f"There is no {found}: fetch the data with unbag-bench fetch {part}, and name "
            "their folder by --data or by the environment variable UNBAG_BENCHMARK_DATA."
        )
    return found
