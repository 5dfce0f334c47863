"""The tables of the tutorial: visitors with gaps, and noisy conversions of regions, by month."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from unbag.datasets.bagging import add_count_noise, make_bags
from unbag.datasets.shipped import FrameBackend
from unbag.datasets.uci import load_adult
from unbag.datasets.visits import Month

_COLUMNS = ["age", "education", "marital-status", "occupation", "capital-gain", "hours-per-week"]
# scale of the Laplace noise in a published number: 1/3 is the epsilon of differential privacy
_NOISE_SCALE = 3.0
_REGIONS: dict[Month, int] = {"may": 120, "june": 60}


def conversion_tables(month: Month, backend: FrameBackend = "pandas") -> dict[str, Any]:
    """Return the tables of visitors and of regions, and the one that nobody has: the truth.

    Regions differ in how many of their visitors convert, and not in what those who do, or do not,
    are like: label shift holds. Only in the column ``shop-km``, the way to the nearest shop, it
    does not: that is for the checks to find.
    """
    seed, n_regions = list(_REGIONS).index(month), _REGIONS[month]
    adult = load_adult("train" if month == "may" else "test", backend=backend)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, 90, n_regions)
    # from one seed, the same random numbers would make the shares and the noise
    of_bags, of_noise = (np.random.RandomState(10 * seed + i) for i in (1, 2))
    rows, y = make_bags(adult.target, sizes, (0.05, 0.65), random_state=of_bags)
    noisy = add_count_noise(y, _NOISE_SCALE, distribution="laplace", random_state=of_noise)

    people = nw.from_native(adult.frame, eager_only=True)[rows.tolist()]
    region = np.array([f"R{bag:03}" for bag in range(n_regions)])
    visits: dict[str, Any] = {
        "visitor": 100_000 * (seed + 1) + np.arange(len(rows)),
        "region": region[y["bag"]].tolist(),
        **{name: people[name].to_list() for name in _COLUMNS},
    }
    visits["occupation"] = [None if value == "?" else value for value in visits["occupation"]]
    unknown = rng.uniform(size=len(rows)) < 0.03
    visits["hours-per-week"] = [
        None if gap else float(value)
        for gap, value in zip(unknown, visits["hours-per-week"], strict=True)
    ]
    nearest = rng.gamma(4.0, 2.0, n_regions)[y["bag"]]
    visits["shop-km"] = (nearest * rng.gamma(4.0, 0.25, len(rows))).round(1)

    first = np.r_[0, np.cumsum(sizes)[:-1]]
    regions = {
        "region": region.tolist(),
        "visitors": sizes,
        "conversions": (noisy["proportion"][first] * sizes).round(2),
    }
    truth = {"visitor": visits["visitor"], "converted": adult.target[rows]}
    return {
        name: nw.from_dict(table, backend=backend).to_native()
        for name, table in (("visits", visits), ("regions", regions), ("truth", truth))
    }
