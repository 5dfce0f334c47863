"""Whether every bound holds as often as it says, in draws of which the truth is known.

Instances are one of five numbers between −1 and 1. Functions are f(x) = sx with |s| ≤ 1, for
several classes a vector s of norm 1 at most: a ball of the linear kernel, of which a grid is looked
at. "networks" are f(x) = s·max(0, ±x), two-layer networks of one unit. Labels are drawn in every
draw, weights made from observed proportions, and the largest distance between corrected and true
risk set beside the bound. "bags" means that all instances of one class in a bag are the same, the
worst dependence there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unbag import bag_target, check_bag_target
from unbag.bags.priors import resolve_class_prior
from unbag.observations.losses import LOSSES, get_loss
from unbag.paper.bounds import (
    RKHSBall,
    TwoLayerReLU,
    generalization_bound,
    merged_bound,
    weights_bound,
)
from unbag.paper.bounds.complexity import rademacher_complexity
from unbag.paper.bounds.contamination import MultiMCM
from unbag.paper.bounds.losses import excess_error, prior_shifted_error
from unbag.paper.bounds.merged import expected_contrasts, neighbour_condition, required_epsilon
from unbag.paper.kernels import Kernel
from unbag.paper.weights import bag_weights, pair_bags
from unbag_bench.study import Row, Study, table

VALUES = np.linspace(-1, 1, 5)
# how often each class has each value
CLASSES = np.array([[3, 4, 1, 1, 1], [1, 1, 2, 3, 3], [1, 2, 4, 2, 1]]) / 10
BALL = RKHSBall(Kernel("linear"), radius=1.0, kernel_bound=1.0)
NETWORKS = TwoLayerReLU([1.0], [1.0], data_bound=1.0)
DELTA = 0.2


class Finding(NamedTuple):
    """How far the risk was off in every draw, and the bound of that draw."""

    stated: float
    distance: Any
    bound: Any


# --- drawing ------------------------------------------------------------------------------------


def draw_counts(rng: Any, shares: Any, sizes: Any, dependence: str) -> tuple[Any, Any]:
    """Class counts of every bag, and how many of its instances have each value."""
    counts = rng.multinomial(sizes, shares)
    values = np.zeros((len(sizes), len(VALUES)))
    for k in range(shares.shape[1]):
        if dependence == "instances":
            values += rng.multinomial(counts[:, k], CLASSES[k])
        else:
            one = rng.choice(len(VALUES), len(sizes), p=CLASSES[k])
            values[np.arange(len(sizes)), one] += counts[:, k]
    return counts, values


def scores_of(n_classes: int, networks: bool = False) -> Any:
    """Scores of all values by all functions looked at: (functions, outputs, values)."""
    if n_classes == 2:
        slopes = np.linspace(-1, 1, 41)[:, None]
        if networks:
            units = [slopes[:, :, None] * np.maximum(sign * VALUES, 0) for sign in (-1, 1)]
            return np.concatenate(units)
    else:
        slopes = np.random.default_rng(0).normal(size=(200, n_classes))
        slopes /= np.linalg.norm(slopes, axis=1, keepdims=True)
    return slopes[:, :, None] * VALUES


def largest_distance(W: Any, prior: Any, sizes: Any, values: Any, loss: Any, scores: Any) -> float:
    """sup_f |Ê(f) − E(f)|."""
    losses = loss.losses(scores)
    means = values / sizes[:, None]
    estimate = np.einsum("ic,c,iv,fcv->f", W, prior, means, losses)
    truth = np.einsum("c,cv,fcv->f", prior, CLASSES[: len(prior)], losses)
    return float(np.abs(estimate - truth).max())


def empty_bags(sizes: Any, n_classes: int) -> Any:
    """Bags of these sizes whose proportions are still to be put in."""
    bag = np.repeat(np.arange(len(sizes)), sizes)
    some = np.full((len(bag), n_classes), 1 / n_classes)
    return check_bag_target(bag_target(bag, some if n_classes > 2 else some[:, 1]))


# --- the bounds ---------------------------------------------------------------------------------


def of_table(
    rng: Any,
    draws: int,
    *,
    weights: str = "least_squares",
    prior: str = "balanced",
    n_classes: int = 2,
    dependence: str = "instances",
    loss: str = "logistic",
    merge: str | None = None,
    networks: bool = False,
) -> Finding:
    """The bound for a table, or that of the first theorem where it comes from pairs."""
    sizes = rng.integers(3, 60, 40)
    shares = rng.dirichlet(np.ones(n_classes), 40)
    if n_classes == 2:
        shares = np.column_stack([1 - shares[:, 0] / 2, shares[:, 0] / 2])
    base = empty_bags(sizes, n_classes)
    A, B = BALL.constants(n_outputs=1 if n_classes == 2 else n_classes)
    if networks:
        A, B = NETWORKS.constants(VALUES[:, None])
    model = "IIM" if dependence == "instances" else "IBM"
    found, scores = get_loss(loss, n_classes), scores_of(n_classes, networks)
    distances, bounds = [], []
    for _ in range(draws):
        counts, values = draw_counts(rng, shares, sizes, dependence)
        bags = replace(base, proportions=counts / sizes[:, None])
        W = bag_weights(bags, method=weights, bag_model=dependence, merge=merge)
        bound = weights_bound(W, bags, loss, A, B, DELTA, class_prior=prior, model=model)
        if weights == "pairs" and merge is None:
            pairing = pair_bags(bags.proportions[:, 1], bags.draws(dependence))
            pairs = MultiMCM.from_pairs(pairing, bags.proportions[:, 1], sizes, weights=model)
            first = generalization_bound(pairs, loss, A, B, DELTA, model)
            assert abs(first.value - bound.value) < 1e-9
        pi = resolve_class_prior(prior, bags.class_shares)
        distances.append(largest_distance(W, pi, sizes, values, found, scores))
        bounds.append(bound.value)
    return Finding(1 - DELTA, distances, bounds)


def of_complexity(rng: Any, draws: int) -> Finding:
    """The first theorem with the complexity of the data instead of B."""
    sizes = rng.integers(3, 20, 20)
    shares = np.column_stack([1 - rng.random(20), np.zeros(20)])
    shares[:, 1] = 1 - shares[:, 0]
    base, scores = empty_bags(sizes, 2), scores_of(2)
    distances, bounds = [], []
    for _ in range(draws):
        counts, values = draw_counts(rng, shares, sizes, "instances")
        bags = replace(base, proportions=counts / sizes[:, None])
        pairing = pair_bags(bags.proportions[:, 1], sizes)
        pairs = MultiMCM.from_pairs(pairing, bags.proportions[:, 1], sizes)
        plain = generalization_bound(pairs, "logistic", 1.0, 1.0, DELTA)
        x = np.concatenate([np.repeat(VALUES, n) for n in values.astype(int)])[:, None]
        estimate = rademacher_complexity(BALL, x, bags, pairing, plain.coefficients, n_draws=100)
        bound = generalization_bound(pairs, "logistic", 1.0, None, DELTA, complexity=estimate.value)
        W = bag_weights(bags, method="pairs")
        half, loss = np.full(2, 0.5), LOSSES["logistic"]
        distances.append(largest_distance(W, half, sizes, values, loss, scores))
        bounds.append(bound.value)
    return Finding(1 - DELTA, distances, bounds)


def of_merged(
    rng: Any, draws: int, *, scheme: str, dependence: str = "instances", known: bool = True
) -> Finding:
    """The second theorem, for bags of 4 at 0 or .9, whose contrasts may be known."""
    n_pairs, K, n, spread = 400, 100, 4, 0.9
    model = "CIIM" if dependence == "instances" else "CIBM"
    base = empty_bags(np.full(2 * n_pairs, n), 2)
    epsilon = required_epsilon(0.2, n_pairs, K, scheme if known else "dominating")
    distances, bounds = [], []
    for _ in range(draws):
        gamma = rng.choice([0.0, spread], 2 * n_pairs)
        shares = np.column_stack([1 - gamma, gamma])
        counts, values = draw_counts(rng, shares, base.sizes, dependence)
        bags = replace(base, proportions=counts / n)
        W = bag_weights(bags, method="pairs", bag_model=dependence, merge=scheme, merge_size=K)
        contrasts = expected_contrasts(gamma, K, n, model, scheme) if known else None
        if known and contrasts.min() < spread / 2 - spread * epsilon:
            # (LP) has let a block down: the theorem counts that as a failure
            distances.append(1.0)
            bounds.append(0.0)
            continue
        bound = merged_bound(
            n_pairs, K, n, "logistic", 1.0, 1.0, DELTA, epsilon, spread=spread, tau=0.5,
            contrasts=contrasts, model=model, scheme=scheme,
        )  # fmt: skip
        half = np.full(2, 0.5)
        distances.append(
            largest_distance(W, half, base.sizes, values, LOSSES["logistic"], scores_of(2))
        )
        bounds.append(bound.value)
    return Finding(bound.probability, distances, bounds)


def of_contrast(rng: Any, draws: int, *, K: int, epsilon: float, n: int = 8) -> Finding:
    """Blockwise-max: how far a block of bags at .45 and .55 falls short of its mean contrast."""
    gamma = np.tile([0.45, 0.55], K)
    mean = expected_contrasts(gamma, K, n, scheme="blockwise_max")[0]
    shares = np.sort(rng.binomial(n, gamma, (draws, 2 * K)) / n, axis=1)
    contrast = (shares[:, K:] - shares[:, :K]).mean(axis=1)
    stated = 1 - np.exp(-K * epsilon**2)
    return Finding(float(stated), mean - contrast, np.full(draws, epsilon))


def of_neighbours(rng: Any, draws: int, *, bag_size: int | None) -> Finding:
    """τ(Δ) of condition (LP) from 200 bags: uniform on [0, 1], Δ = .1, so that τ = 1 − .9²."""
    spread, truth, bounds = 0.1, 1 - 0.9**2, []
    for _ in range(draws):
        gamma = rng.random(200)
        seen = gamma if bag_size is None else rng.binomial(bag_size, gamma) / bag_size
        found = neighbour_condition(seen, spread, bag_size=bag_size, delta=DELTA)
        bounds.append(found.tau)
    return Finding(1 - DELTA, np.full(draws, truth), bounds)


def of_surrogate(rng: Any, draws: int, *, loss: str, moved: bool = False) -> Finding:
    """Error of random scores of ten points beyond the least, and what their risk says of it."""
    distances, bounds = [], []
    prior = np.array([0.5, 0.5])
    phi, grid = LOSSES[loss], np.linspace(-30, 30, 6001)[:, None]
    for _ in range(draws):
        P = rng.dirichlet(np.ones(10), 2)
        q = np.array([0.8, 0.2]) if moved else prior
        odds = np.log(q[1] * P[1] / (q[0] * P[0]))
        score = odds + rng.normal(size=10) * rng.choice([0.01, 0.1, 1.0])
        mass, least = q[:, None] * P, (prior[:, None] * P).min(axis=0).sum()
        # the log-odds themselves are among the scores that may be best
        every = np.concatenate([grid + np.zeros(10), [odds, score]])
        risks = mass[0] * phi.value(-every) + mass[1] * phi.value(every)
        excess = float((risks[-1] - risks.min(axis=0)).sum())
        final = score - np.log(q[1] / q[0])
        error = 0.5 * (P[0] @ (final > 0) + P[1] @ (final <= 0))
        distances.append(error - least)
        bounds.append(
            prior_shifted_error(excess, q, prior) if moved else excess_error(loss, excess)
        )
    return Finding(1.0, distances, bounds)


STUDIES: dict[str, tuple[Callable[..., Finding], dict[str, Any]]] = {
    "pairs": (of_table, {"weights": "pairs"}),
    "pairs, bags": (of_table, {"weights": "pairs", "dependence": "bags"}),
    "pairs, hinge": (of_table, {"weights": "pairs", "loss": "hinge"}),
    "pairs, complexity of the data": (of_complexity, {}),
    "blockwise-max merging as a table": (of_table, {"weights": "pairs", "merge": "blockwise_max"}),
    "least squares": (of_table, {}),
    "least squares, bags": (of_table, {"dependence": "bags"}),
    "least squares, hinge": (of_table, {"loss": "hinge"}),
    "least squares, overall prior": (of_table, {"prior": "empirical"}),
    "least squares, overall prior, bags": (
        of_table,
        {"prior": "empirical", "dependence": "bags"},
    ),
    "least squares, networks": (of_table, {"networks": True}),
    "least squares, three classes": (of_table, {"n_classes": 3}),
    "least squares, three classes, overall prior": (
        of_table,
        {"n_classes": 3, "prior": "empirical"},
    ),
    "merged, blockwise-pairwise": (of_merged, {"scheme": "blockwise_pairwise"}),
    "merged, blockwise-pairwise, bags": (
        of_merged,
        {"scheme": "blockwise_pairwise", "dependence": "bags"},
    ),
    "merged, blockwise-max, contrasts unknown": (
        of_merged,
        {"scheme": "blockwise_max", "known": False},
    ),
    "merged, blockwise-max, its own contrasts": (of_merged, {"scheme": "blockwise_max"}),
    "merged, blockwise-max, its own contrasts, bags": (
        of_merged,
        {"scheme": "blockwise_max", "dependence": "bags"},
    ),
    "contrast of blockwise-max, K = 20": (of_contrast, {"K": 20, "epsilon": 0.2}),
    "contrast of blockwise-max, K = 200": (of_contrast, {"K": 200, "epsilon": 0.05}),
    "contrast of blockwise-max, labels": (of_contrast, {"K": 20, "epsilon": 0.2, "n": 1}),
    "(LP) from true proportions": (of_neighbours, {"bag_size": None}),
    "(LP) from bags of 400": (of_neighbours, {"bag_size": 400}),
    "calibration, logistic": (of_surrogate, {"loss": "logistic"}),
    "calibration, hinge": (of_surrogate, {"loss": "hinge"}),
    "calibration, huber": (of_surrogate, {"loss": "huber"}),
    "calibration, scores moved from q": (of_surrogate, {"loss": "logistic", "moved": True}),
}


def run_one(bound: str, draws: int, seed: int = 0) -> Row:
    study, options = STUDIES[bound]
    rng = np.random.default_rng([seed, list(STUDIES).index(bound)])
    found = study(rng, draws, **options)
    distance, limit = np.asarray(found.distance), np.asarray(found.bound)
    quantile = float(np.quantile(distance, min(found.stated, 0.999)))
    return {
        "stated": round(found.stated, 4),
        "draws": draws,
        "held": float(np.mean(distance <= limit)),
        "median bound": round(float(np.median(limit)), 4),
        "quantile of distance": round(quantile, 4),
        "seed": seed,
    }


def page(rows: list[Row]) -> list[str]:
    return [
        "Bags, functions and losses of [`bounds.py`](../src/unbag_bench/studies/bounds.py). The last",
        "column is the quantile of the distance that the bound stands for, at the stated probability.",
        "",
        *table(
            ["bound", "stated", "draws", "held", "median bound", "quantile of distance"],
            [
                [
                    row["bound"],
                    f"{row['stated']:.3f}",
                    f"{row['draws']:,}",
                    f"{row['held']:.3f}",
                    f"{row['median bound']:.3g}",
                    f"{row['quantile of distance']:.3g}",
                ]
                for row in rows
            ],
        ),
    ]


STUDY = Study(
    name="bounds",
    title="Coverage of generalisation bounds",
    keys=["bound"],
    tasks=lambda options: [{"bound": bound, "draws": options.draws} for bound in STUDIES],
    measure=run_one,
    page=page,
    options={"--draws": {"type": int, "default": 1000, "help": "draws of each"}},
)
