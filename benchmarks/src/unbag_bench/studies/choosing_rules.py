"""What the rules of `choosing` need of a search, and the rules: which choose, and which average."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

from unbag import LLPLinearClassifierCV
from unbag._arrays import Bools, Floats, Ints, Segments
from unbag.bags.bags import Bags
from unbag.models.training import choose
from unbag.observations.forward import forward_losses, forward_tables
from unbag.observations.saddlepoint import TiltSearch, tilted_chances, two_class_loss
from unbag_bench.studies.selection import search_all

DEFAULT = "ranks of G and F"

# Weights of bags that are drawn to see how sure a choice is.
DRAWS = 200


class Fits:
    """A search, and what rules need of it.

    Attributes
    ----------
    found : TrainingResult
    bags : Bags
    coef, of_folds : ndarrays of shape (n_alphas, n_columns)
        Coefficients of the fits on all bags, and the mean over those of the folds.
    losses : list of two ndarrays of shape (n_alphas, n_bags)
        N·G and N·F of bags held out, bag by bag.
    evidence : ndarray of shape (n_alphas,)
        −log evidence.
    """

    def __init__(self, X: Floats, y: Any, alphas: Floats, cv: int) -> None:
        estimator = LLPLinearClassifierCV(alphas, bag_effect=0)
        self.found, goal, bags, _ = search_all(estimator, X, y, alphas, cv)
        self.bags = bags
        theta = self.found.solved.fits.theta.reshape(len(alphas), cv + 1, -1)
        self.coef, self.of_folds = theta[:, 0, :-1], theta[:, 1:, :-1].mean(axis=1)
        offset = goal.offsets(np.ones((1, bags.n_bags), dtype=bool), bags)[0, 0]
        held_out = [self.found.solved.out_of_fold_scores(p) for p in range(len(alphas))]
        self.losses = losses_by_bag(np.stack(held_out) + offset, bags)
        scores = self.coef @ X.T + theta[:, 0, -1:] + offset
        values = goal.objective(goal.whole(bags), bags, None).value(
            (scores - offset)[:, None], np.zeros(len(alphas), dtype=np.intp)
        )
        self.evidence = minus_log_evidence(X, scores, values, self.coef, alphas, bags)


def by_bag(bags: Bags) -> tuple[Ints, Segments]:
    """Rows, one bag after the other, and which belong together."""
    return np.argsort(bags.index, kind="stable"), Segments(bags.sizes, np.empty(0))


def losses_by_bag(scores: Floats, bags: Bags) -> list[Floats]:
    """−log Pr(K = k) of every bag, and Σ −log Σ_c (γ_c/q_c) p_c over its rows: (columns, bags)."""
    rows, segments = by_bag(bags)
    f = scores[:, rows]
    n, k = bags.sizes.astype(float), np.rint(bags.sizes * bags.proportions[:, 1])
    pure = (k == 0) | (k == n)
    known = np.where(pure, 0.5 * n, k)
    counts = two_class_loss(np.exp(np.clip(f, -300, 300)), segments, known, n, 0 * n, False)[0]
    sign = np.where(k == n, -1.0, 1.0)
    labels = segments.sum(np.logaddexp(0, f * segments.spread(sign)))
    ratio, weight = forward_tables(np.ones((1, bags.n_bags), dtype=bool), bags)
    of_rows = (part[:, :, bags.index[rows]] for part in (ratio, np.ones_like(weight)))
    forward = forward_losses(f[:, None], *of_rows)[0]
    return [np.where(pure, labels, counts), segments.sum(forward)]


def minus_log_evidence(
    X: Floats, scores: Floats, values: Floats, coef: Floats, alphas: Floats, bags: Bags
) -> Floats:
    """−log of the chance of the counts under the prior of each penalty, up to a constant."""
    N = len(X)
    prior = 2 * N * alphas
    found = N * values + 0.5 * prior * (coef**2).sum(axis=1)
    for number, M in enumerate(curvatures(X, scores, bags)):
        inside = M[:-1, :-1] - np.outer(M[:-1, -1], M[-1, :-1]) / max(M[-1, -1], 1e-9)
        # away from a minimum without penalty, and by the covariance, some may come out negative
        gains = np.maximum(np.linalg.eigvalsh(inside), 0)
        found[number] += 0.5 * np.log1p(gains / prior[number]).sum()
    return found


def curvatures(X: Floats, scores: Floats, bags: Bags) -> Iterator[Floats]:
    """M of every column, with the intercept last."""
    rows, segments = by_bag(bags)
    Z, f = np.column_stack([X, np.ones(len(X))])[rows], scores[:, rows]
    n, k = bags.sizes.astype(float), np.rint(bags.sizes * bags.proportions[:, 1])
    pure = (k == 0) | (k == n)
    search = TiltSearch(np.where(pure, 0.5 * n, k), n, 0 * n, len(f))
    odds = np.exp(np.clip(f, -300, 300))
    found = False
    while not found:
        q, left = tilted_chances(odds, segments, search.tilt)
        found = search.found(segments.sum(q), segments.sum(q * left), 1e-6)
    v = np.where(segments.spread(pure), 0.0, q * left)
    total = np.maximum(segments.sum(v), 1e-12)
    p = expit(f)
    starts = np.cumsum(bags.sizes) - bags.sizes
    for column, own in enumerate(p * (1 - p) - v):
        sums = np.add.reduceat(Z * v[column][:, None], starts, axis=0)
        yield (Z * own[:, None]).T @ Z + (sums / total[column][:, None]).T @ sums


# --- rules --------------------------------------------------------------------------------------


def choices(fits: Fits) -> dict[str, int]:
    """Which penalty each rule takes."""
    G, F = (loss.sum(axis=1) for loss in fits.losses)
    own = fits.found.best
    return {
        DEFAULT: own,
        "evidence": int(fits.evidence.argmin()),
        "ranks of G, F and evidence": choose(np.stack([G, F, fits.evidence])),
        "one standard error": int(within(fits.losses[0], own, 1.0).argmax()),
    }


def averages(fits: Fits) -> dict[str, Floats]:
    """Coefficients that each rule comes to."""
    weights = resampled(fits.losses)
    return {
        "models of folds": fits.of_folds[fits.found.best],
        "average by G": softmin(fits.losses[0].sum(axis=1)) @ fits.coef,
        "average by evidence": softmin(fits.evidence) @ fits.coef,
        "average by resampling": weights @ fits.coef,
        "the same, models of folds": weights @ fits.of_folds,
    }


def softmin(values: Floats) -> Floats:
    weights: Floats = np.exp(values.min() - values)
    return weights / weights.sum()


def resampled(losses: list[Floats]) -> Floats:
    """How often each penalty has the least sum of ranks, with random weights of bags."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(losses[0].shape[1]), DRAWS)
    ranks = sum(rankdata(weights @ loss.T, method="min", axis=1) for loss in losses)
    return np.bincount(ranks.argmin(axis=1), minlength=len(losses[0])) / DRAWS


def within(losses: Floats, own: int, errors: float) -> Bools:
    """Penalties whose loss is above that of one by at most so many standard errors; itself too."""
    more = losses - losses[own]
    n_bags = more.shape[1]
    error = np.sqrt(n_bags) * more.std(axis=1, ddof=1)
    return more.sum(axis=1) <= errors * error + 1e-12
