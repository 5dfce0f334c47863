"""How much the likelihoods and the corrected risk make of the same bags: variances, two ways.

Label shift: x is normal around ±d/2 given the class, so that the log-odds have the
slope d. Bags hold n rows, and their shares are drawn. For the likelihood of counts G, the forward
one F, the corrected risk R (at the overall class prior, by least squares) and labels, the variance of the
slope times the number of rows: by the formulas of docs/theory/count-likelihood.md, and over fits of drawn bags.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from unbag import LLPClassifier, bag_target
from unbag.paper import LMMCMClassifier
from unbag_bench.methods import PublishedClassifierCV
from unbag_bench.study import Row, Study, table

METHODS = ("G", "F", "R", "labels")
# Fits without a penalty; of labels every objective is their cross-entropy.
MODELS: dict[str, Any] = {
    "G": lambda: LLPClassifier(kernel=None, bag_effect=0.0, variances={"numbers": 1e6}, tol=1e-5),
    "F": lambda: PublishedClassifierCV("forward", alphas=(1e-9,), cv=2, tol=1e-7),
    "R": lambda: LMMCMClassifier(1e-9, kernel="linear", training_prior="pooled", tol=1e-7),
}
MODELS["labels"] = MODELS["R"]
SHARES: dict[str, Any] = {
    "uniform on [0, ½]": np.linspace(0, 0.5, 257)[1::2],
    ".1 or .9": np.array([0.1, 0.9]),
    "0 or .4": np.array([0.0, 0.4]),
}
SIZES = (16, 128)
SEPARATIONS = (1.0, 2.0)
N_ROWS = 8192

GRID = np.linspace(-10, 10, 1601)
BASIS = np.stack([np.ones_like(GRID), GRID])


# --- formulas -----------------------------------------------------------------------------------


def observed_shares(shares: Any, size: int) -> tuple[Any, Any]:
    """Shares of bags of that size whose labels were drawn, and the probability of each."""
    counts = np.arange(size + 1)
    return counts / size, binom.pmf(counts, size, shares[:, None]).mean(axis=0)


def class_densities(separation: float) -> Any:
    """Probability of every point of the grid in the two classes."""
    means = np.array([[-0.5], [0.5]]) * separation
    return norm.pdf(GRID, means) * (GRID[1] - GRID[0])


def outer(weights: Any, basis: Any = BASIS) -> Any:
    """Σ weights · z zᵀ over the grid."""
    return (basis * weights) @ basis.T


def spread(score: Any, share: float, densities: Any) -> Any:
    """Variance of a row's score given its class, averaged over a bag."""
    total = 0.0
    for probability, density in zip((1 - share, share), densities, strict=True):
        mean = score @ density
        total = total + probability * (outer(density, score) - np.outer(mean, mean))
    return total


def variances(shares: Any, size: int, separation: float) -> dict[str, float]:
    """N times the variance of the slope: H⁻¹JH⁻¹ of the estimating functions."""
    negative, positive = densities = class_densities(separation)
    seen, probability = observed_shares(shares, size)
    q = float(probability @ seen)
    stretch = q * (1 - q) / float(probability @ (seen - q) ** 2)
    every = (1 - q) * negative + q * positive
    p = q * positive / every
    curvature = outer(every * p * (1 - p))
    H = {name: np.zeros((2, 2)) for name in METHODS}
    J = {name: np.zeros((2, 2)) for name in METHODS}
    for share, weight in zip(seen, probability, strict=True):
        mixture = (1 - share) * negative + share * positive
        posterior = share * positive / mixture
        unsure = mixture * posterior * (1 - posterior)
        centre = BASIS @ unsure / max(unsure.sum(), 1e-300)
        moved = BASIS - centre[:, None]
        scores = {
            "G": p * BASIS - posterior * moved,
            "F": (p - posterior) * BASIS,
            "R": (p - q - stretch * (share - q)) * BASIS,
        }
        H["G"] += weight * (curvature - outer(unsure, moved))
        H["F"] += weight * (curvature - outer(unsure))
        H["R"] += weight * curvature
        for name, score in scores.items():
            J[name] += weight * spread(score, share, densities)
    H["labels"], J["labels"] = curvature, curvature
    found = {}
    for name in METHODS:
        inverse = np.linalg.inv(H[name])
        found[name] = float((inverse @ J[name] @ inverse)[1, 1])
    return found


# --- simulation ---------------------------------------------------------------------------------


def slopes(rng: Any, shares: Any, size: int, separation: float) -> dict[str, float]:
    bag = np.repeat(np.arange(N_ROWS // size), size)
    labels = rng.random(len(bag)) < rng.choice(shares, bag[-1] + 1)[bag]
    x = (rng.normal(size=len(bag)) + separation * (labels - 0.5))[:, None]
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    found = {}
    for name in METHODS:
        model = MODELS[name]().fit(x, labels if name == "labels" else y)
        found[name] = float(model.coef_[0, 0])
    return found


def run_one(shares: str, size: int, separation: float, repeats: int) -> Row:
    values = SHARES[shares]
    rng = np.random.default_rng([len(shares), size, int(separation)])
    found = [slopes(rng, values, size, separation) for _ in range(repeats)]
    seen, probability = observed_shares(values, size)
    q = float(probability @ seen)
    return {
        "overdispersion": round(size * float(probability @ (seen - q) ** 2) / (q * (1 - q)), 3),
        "formula": {n: round(v, 3) for n, v in variances(values, size, separation).items()},
        "slopes": {name: [round(row[name], 5) for row in found] for name in METHODS},
        "rows": N_ROWS,
    }


def page(rows: list[Row]) -> list[str]:
    error = np.sqrt(2 / len(rows[0]["slopes"]["G"]))
    lines = []
    for row in rows:
        formula = row["formula"]
        found = {name: row["rows"] * np.var(row["slopes"][name], ddof=1) for name in METHODS}
        true = (f"{formula['labels'] / formula[name]:.3f}" for name in ("R", "G"))
        lines.append(
            [
                f"{row['separation']:g}",
                row["shares"],
                str(row["size"]),
                f"{row['overdispersion']:.3g}",
                *(f"{formula[name]:.3g} ({found[name]:.3g})" for name in METHODS),
                f"{formula['R'] / formula['G']:.2f}",
                ", ".join([f"{row['overdispersion'] / row['size']:.3f}", *true]),
            ]
        )
    return [
        "Variance of the slope times the number of rows, by formula and (in brackets) over fits,",
        f"whose standard error is {error:.0%} of it. d: how far the classes are apart. D: how many",
        "times as much as coin tosses counts vary. Last, the effective sample size of the bags in labels: by",
        "`effective_sample_size`, D/n, and for the slope by R and by G.",
        "",
        *table(["d", "shares", "n", "D", *METHODS, "R/G", "worth: said, R, G"], lines),
    ]


STUDY = Study(
    name="efficiency",
    title="Precision of slopes by three objectives",
    keys=["shares", "size", "separation"],
    tasks=lambda options: [
        {"shares": shares, "size": size, "separation": separation, "repeats": options.repeats}
        for separation, shares, size in product(SEPARATIONS, SHARES, SIZES)
    ],
    measure=run_one,
    page=page,
    options={"--repeats": {"type": int, "default": 200, "help": "fits of each"}},
)
