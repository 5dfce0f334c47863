"""Error of the saddle point against the exact sum, by the size of bags: value and gradient.

    python benchmarks/saddle_point.py > results/saddle_point.md

For each size 400 bags: scores normal with a deviation of .3, 1, 3 or 8 around a normal constant,
counts drawn from these scores or at random between 1 and n − 1.
"""

from __future__ import annotations

import numpy as np

from unbag import bag_target, check_bag_target
from unbag._provenance import provenance_line
from unbag.objectives.count_likelihood import CountLikelihood

SIZES = (2, 4, 8, 16, 32, 64, 128)
N_BAGS = 400


def errors(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    spread = np.repeat([0.3, 1.0, 3.0, 8.0], N_BAGS // 4)[:, None]
    f = rng.normal(size=(N_BAGS, size)) * spread + rng.normal(size=(N_BAGS, 1))
    drawn = (rng.random(f.shape) < 1 / (1 + np.exp(-f))).sum(axis=1)
    counts = np.where(rng.random(N_BAGS) < 0.5, drawn, rng.integers(1, size, N_BAGS))
    counts = np.clip(counts, 1, size - 1)
    bag = np.repeat(np.arange(N_BAGS), size)
    bags = check_bag_target(bag_target(bag, counts=counts[bag]))
    each = np.eye(N_BAGS, dtype=bool)
    scores, problem = np.broadcast_to(f.reshape(1, 1, -1), (N_BAGS, 1, f.size)), np.arange(N_BAGS)
    exact, near = (
        CountLikelihood(each, bags, exact_size=limit).value_and_gradient(scores, problem)
        for limit in (size, 0)
    )
    slopes = (near[1] - exact[1])[problem, 0].reshape(N_BAGS, N_BAGS, size)[problem, problem]
    return np.abs(near[0] - exact[0]) * size, np.sqrt(np.mean(slopes**2, axis=1)) * size


def main() -> None:
    print("# The saddle point against the exact sum\n")
    print(f"`python benchmarks/saddle_point.py`: {provenance_line()}\n")
    print("Error of −log Pr(K = k) of a bag, and of its gradient by the score of a row.\n")
    print("| rows | value, mean | value, largest | gradient, mean | gradient, largest |")
    print("| --- | --- | --- | --- | --- |")
    for size in SIZES:
        value, slope = errors(size)
        cells = value.mean(), value.max(), slope.mean(), slope.max()
        print(f"| {size} | " + " | ".join(f"{cell:.5f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
