"""Visitors of a shop by region: census data in the part of customers, with the totals of regions.

`load_visits` has exact totals; `conversion_tables`, which the tutorials use, noise and missing values.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from unbag._checks import check_choice
from unbag.datasets.bagging import add_count_noise, make_bags
from unbag.datasets.shipped import frame, load_adult

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
