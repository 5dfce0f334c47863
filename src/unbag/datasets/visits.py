"""Visitors of a shop by region: census data in the part of customers, with the totals of regions."""

from __future__ import annotations

from typing import Literal

import narwhals as nw
import numpy as np
from sklearn.utils import Bunch

from unbag._checks import check_choice
from unbag.datasets.bagging import make_bags
from unbag.datasets.shipped import FrameBackend
from unbag.datasets.uci import load_adult

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


def load_visits(month: Month = "may", backend: FrameBackend = "pandas") -> Bunch:
    """Load visitors of a shop one by one, and how many of each region bought.

    The visitors are people of the Adult census data, and an income of more than 50,000 dollars
    plays the purchase. Regions are drawn (with a fixed seed) so that they differ only in how many
    of their visitors buy: label shift holds. `load_flights` has bags that nobody drew.

    Parameters
    ----------
    month : {"may", "june"}, default="may"
        Which month: no visitor of one is in the other. Each has 120 regions of 60 visitors.
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        The library whose data frames to return.

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
    adult = load_adult(subset, backend=backend)
    rows, y = make_bags(adult.target, 60, _BOUGHT_BETWEEN, n_bags=120, random_state=seed)
    people = nw.from_native(adult.frame, eager_only=True)[rows.tolist()].select(
        nw.col(old).alias(new) for old, new in _COLUMNS.items()
    )
    region = np.array([f"R{bag:03}" for bag in range(120)])
    bought = adult.target[rows]
    columns = {"region": region[y["bag"]].tolist()} | {
        name: people[name].to_list() for name in people.columns
    }
    totals = {
        "region": region.tolist(),
        "visitors": np.bincount(y["bag"]),
        "purchases": np.bincount(y["bag"], bought).astype(np.int64),
    }
    return Bunch(
        frame=nw.from_dict(columns, backend=backend).to_native(),
        regions=nw.from_dict(totals, backend=backend).to_native(),
        target=bought,
        target_names=np.array(["visited", "bought"]),
        categorical=["marital_status", "occupation"],
        numerical=["age", "education_years", "capital_gain", "hours_per_week"],
        citation=adult.citation,
    )
