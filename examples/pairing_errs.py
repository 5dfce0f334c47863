"""Small bags are often paired the wrong way round, and it does no harm.

The paper's example: two bags of 8 instances, of true proportion 0.45 and 0.55. With probability 0.26
the one with more positives is the one that should have fewer. Does a classifier then learn from
pairs that are upside down?

It does not, since the observed proportion does not estimate the true one: it is the exact mixture of
the instances in the bag. This example estimates the balanced error of a fixed classifier from
pairs of such bags, as they come and merged into large ones, over and over, and compares with the
truth. All are right on average; merging only makes them less precise.

Run it with ``python examples/pairing_errs.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from unbag import check_bag_target
from unbag.paper import bag_weights
from unbag.paper.bounds import misordering_probability, sample_bags

LOW, HIGH, BAG_SIZE = 0.45, 0.55, 8
CENTRE, THRESHOLD = 1.0, 0.3
WAYS: dict[str, dict[str, Any]] = {
    "neighbours": {"method": "pairs", "merge": "blockwise_pairwise", "merge_size": 1},
    "best pairs": {"method": "pairs"},
    "merged, blockwise-pairwise": {"method": "pairs", "merge": "blockwise_pairwise"},
    "merged, blockwise-max": {"method": "pairs", "merge": "blockwise_max"},
    "least squares": {"method": "least_squares"},
}


def balanced_error() -> float:
    """Error of "positive above THRESHOLD" for classes N(±CENTRE, 1)."""
    return float(ndtr(THRESHOLD - CENTRE) + ndtr(-THRESHOLD - CENTRE)) / 2


def estimates(n_pairs: int, seed: int) -> tuple[list[float], float]:
    """Estimated errors from one draw of bags, and the share of pairs in the wrong order."""
    true = np.tile([LOW, HIGH], n_pairs)
    sample = sample_bags(
        true, BAG_SIZE, norm(CENTRE).rvs, norm(-CENTRE).rvs, model="CIIM", random_state=seed
    )
    shares = sample.observed_proportions.reshape(n_pairs, 2)
    bags = check_bag_target(sample.target())
    above = (sample.X > THRESHOLD).astype(float)
    found = []
    for options in WAYS.values():
        negative, positive = bags.means(above) @ bag_weights(bags, **options)
        found.append(float(negative + 1 - positive) / 2)
    return found, float(np.mean(shares[:, 1] < shares[:, 0]))


def print_table(found: NDArray[np.float64]) -> None:
    """One line per way to use the bags: mean, its standard error, and the spread of estimates."""
    print(f"{'balanced error by':<27} {'mean':>17} {'spread':>7}")
    for name, values in zip(WAYS, found.T, strict=True):
        error = values.std(ddof=1) / np.sqrt(len(values))
        print(f"{name:<27} {values.mean():>8.4f} ± {error:.4f} {values.std(ddof=1):>7.4f}")
    print(f"{'truth':<27} {balanced_error():>8.4f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw bags many times, and say how often they are misordered and what is estimated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200, help="how often bags are drawn")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of bags in a draw")
    options = parser.parse_args(arguments)
    drawn = [estimates(options.pairs, seed) for seed in range(options.draws)]
    exact = misordering_probability(LOW, HIGH, BAG_SIZE)
    wrong = np.mean([share for _, share in drawn])
    print(f"Pairs in the wrong order: {wrong:.4f} of those drawn, {exact:.4f} expected.")
    print_table(np.array([found for found, _ in drawn]))


if __name__ == "__main__":
    main()
