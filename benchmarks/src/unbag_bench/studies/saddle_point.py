"""Error of the saddlepoint approximation against the exact sum, by the size of bags: value and gradient.

For each size 400 bags: scores normal with a deviation of .3, 1, 3 or 8 around a normal constant,
counts drawn from these scores or at random between 1 and n − 1.
"""

from __future__ import annotations

import numpy as np

from unbag import bag_target, check_bag_target
from unbag.observations.count_likelihood import CountLikelihood
from unbag_bench.study import Row, Study, table

SIZES = (2, 4, 8, 16, 32, 64, 128)
N_BAGS = 400


def errors(size: int) -> Row:
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
    value = np.abs(near[0] - exact[0]) * size
    slope = np.sqrt(np.mean(slopes**2, axis=1)) * size
    return {
        "value, mean": float(value.mean()),
        "value, largest": float(value.max()),
        "gradient, mean": float(slope.mean()),
        "gradient, largest": float(slope.max()),
    }


def page(rows: list[Row]) -> list[str]:
    shown = ("value, mean", "value, largest", "gradient, mean", "gradient, largest")
    return [
        "Error of −log Pr(K = k) of a bag, and of its gradient by the score of a row.",
        "",
        *table(
            ["rows", *shown],
            [[str(row["size"]), *(f"{row[name]:.5f}" for name in shown)] for row in rows],
        ),
    ]


STUDY = Study(
    name="saddle_point",
    title="The saddlepoint approximation against the exact sum",
    keys=["size"],
    tasks=lambda _: [{"size": size} for size in SIZES],
    measure=errors,
    page=page,
)
