"""Regional conversions with privacy noise: the two tables of the tutorial, made from Adult.

A shop knows its visitors one by one, and of the conversions it gets only a number for each region,
to which Laplace noise was added before it was published. Adult plays the visitors; an income of
more than 50,000 dollars plays the conversion. Regions differ in how many of their visitors convert
and not in what those who do, or do not, are like: the one assumption of this package holds. Only
in the column ``shop-km``, the way to the nearest shop, it does not: that is for the test to find.

Run it with ``python examples/regional_conversions.py``; ``docs/tutorial.md`` goes on from there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from unbag.datasets import add_count_noise, load_adult, make_bags
from unbag.tables import write_table

COLUMNS = ["age", "education", "marital-status", "occupation", "capital-gain", "hours-per-week"]
# of the noise in a published number; 1/NOISE_SCALE is the ε of differential privacy
NOISE_SCALE = 3.0


def visits_and_regions(
    subset: Literal["train", "test"], n_regions: int, first_id: int, seed: int
) -> tuple[Any, Any, Any]:
    """Make the tables of visitors and of regions, and the one that nobody has: the truth."""
    adult = load_adult(subset)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, 90, n_regions)
    # from one seed, the same random numbers would make the shares and the noise
    of_bags, of_noise = (np.random.RandomState(10 * seed + i) for i in (1, 2))
    index, y = make_bags(adult.target, sizes, (0.05, 0.65), random_state=of_bags)
    noisy = add_count_noise(y, NOISE_SCALE, distribution="laplace", random_state=of_noise)

    visits = adult.frame.iloc[index][COLUMNS].reset_index(drop=True)
    visits = visits.astype({"hours-per-week": float, "education": str, "marital-status": str})
    visits["occupation"] = visits["occupation"].astype(str).replace("?", None)
    visits.loc[rng.uniform(size=len(visits)) < 0.03, "hours-per-week"] = np.nan
    # what a region gives its visitors, whether they convert or not: against the assumption
    nearest = rng.gamma(4.0, 2.0, n_regions)[y["bag"]]
    visits["shop-km"] = (nearest * rng.gamma(4.0, 0.25, len(visits))).round(1)
    visits.insert(0, "visitor", first_id + np.arange(len(visits)))
    visits.insert(1, "region", [f"R{bag:03}" for bag in y["bag"]])

    firsts = np.r_[0, np.cumsum(sizes)[:-1]]
    regions = pd.DataFrame({"region": visits["region"].to_numpy()[firsts], "visitors": sizes})
    regions["conversions"] = (noisy["proportion"][firsts] * sizes).round(2)
    truth = visits[["visitor"]].assign(converted=adult.target[index])
    return visits, regions, truth


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables of two months into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("conversions"), help="made if needed")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    months: list[tuple[str, Literal["train", "test"], int]]
    months = [("may", "train", 120), ("june", "test", 60)]
    for seed, (month, subset, n_regions) in enumerate(months):
        first_id = 100_000 * (seed + 1)
        visits, regions, truth = visits_and_regions(subset, n_regions, first_id, seed)
        write_table([visits], options.folder / f"{month}-visits.parquet")
        write_table([regions], options.folder / f"{month}-regions.csv")
        write_table([truth], options.folder / f"{month}-truth.csv")
        print(f"{month}: {len(visits):,} visitors of {len(regions)} regions")
    print(f"Tables: {options.folder}")


if __name__ == "__main__":
    main()
