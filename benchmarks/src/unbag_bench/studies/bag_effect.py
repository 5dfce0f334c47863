"""What an effect of bags does to the likelihood of counts, if it is left out and if it is put in.

Covariate shift, and an effect of the bag: the log-odds are x − ½ plus u_b, normal with
deviation t. Half the bags are small and half are large. The slope by G without an effect and with
the estimated one, and its deviation beside what the formulas of docs/likelihood.md say: what G
believes, what is true, and what the best weights could reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag import LLPLinearClassifier, bag_target
from unbag_bench.study import Row, Study, table

N_BAGS = 120
SIZES = {"all bags of 64": (64, 64), "bags of 16 and 512": (16, 512)}
EFFECTS = (0.0, 0.5, 1.0)
# a normal effect of deviation t on the log-odds makes those over all bags flatter, by about this
FLATTER = 16 * np.sqrt(3) / (15 * np.pi)


def draw(rng: Any, sizes: tuple[int, int], effect: float) -> tuple[Any, Any, Any]:
    """Features, labels and the bag of each row."""
    bag = np.repeat(np.arange(N_BAGS), np.tile(sizes, N_BAGS // 2))
    x = rng.normal(size=len(bag)) + rng.normal(size=N_BAGS)[bag]
    odds = x - 0.5 + effect * rng.normal(size=N_BAGS)[bag]
    return x, rng.random(len(bag)) < 1 / (1 + np.exp(-odds)), bag


def deviations(x: Any, bag: Any, slope: float, effect: float) -> dict[str, float]:
    """Deviation of the slope: by the curvature of G, in truth, and by the best weights."""
    basis = np.stack([np.ones_like(x), x])
    chance = 1 / (1 + np.exp(-slope * (x - 0.5)))
    bend = chance * (1 - chance)
    n = np.bincount(bag)
    v = np.bincount(bag, bend) / n
    d = np.stack([np.bincount(bag, bend * row) / n for row in basis])
    noise = v / n
    spread = noise + (effect * v) ** 2
    believed = np.linalg.inv((d / noise) @ d.T)
    true = believed @ ((d * spread / noise**2) @ d.T) @ believed
    best = np.linalg.inv((d / spread) @ d.T)
    return {
        name: float(np.sqrt(matrix[1, 1]))
        for name, matrix in (("believed", believed), ("true", true), ("best", best))
    }


def run_one(kind: str, effect: float, repeats: int) -> Row:
    rng = np.random.default_rng([len(kind), int(10 * effect)])
    slope = 1 / np.sqrt(1 + (FLATTER * effect) ** 2)
    found: dict[str, list[float]] = {"without": [], "with": []}
    formulas = []
    for _ in range(repeats):
        x, labels, bag = draw(rng, SIZES[kind], effect)
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        formulas.append(deviations(x, bag, slope, effect))
        for name, given in (("without", 0.0), ("with", "auto")):
            model = LLPLinearClassifier(1e-9, objective="likelihood", bag_effect=given, tol=1e-6)
            found[name].append(round(float(model.fit(x[:, None], y).coef_[0, 0]), 5))
    return {
        "slope": round(slope, 4),
        "formula": {k: round(float(np.mean([f[k] for f in formulas])), 4) for k in formulas[0]},
        "slopes": found,
    }


def page(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        found = [
            f"{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}"
            for v in (row["slopes"]["without"], row["slopes"]["with"])
        ]
        formula = [f"{row['formula'][name]:.3f}" for name in ("believed", "true", "best")]
        lines.append([row["kind"], f"{row['effect']:g}", f"{row['slope']:.3f}", *found, *formula])
    header = ["bags", "effect", "slope", "without", "with", "believed", "true", "best"]
    return [
        "Slopes by G, mean ± deviation over draws, without an effect and with the estimated one.",
        "The slope over all bags is flatter than in one bag. Deviations by formula: what the",
        "curvature of G says (without an effect in it), what is true of it, and what the best",
        "weights could reach.",
        "",
        *table(header, lines),
    ]


STUDY = Study(
    name="bag_effect",
    title="What an effect of bags does",
    keys=["kind", "effect"],
    tasks=lambda options: [
        {"kind": kind, "effect": effect, "repeats": options.repeats}
        for kind in SIZES
        for effect in EFFECTS
    ],
    measure=run_one,
    page=page,
    options={"--repeats": {"type": int, "default": 100, "help": "draws of each"}},
)
