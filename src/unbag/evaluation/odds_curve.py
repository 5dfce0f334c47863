"""The share of each class at each score, from bags alone, if rows keep their odds.

The curve is softmax(a + κf) of given log-odds f: as many numbers as there are classes, fitted to
the shares of bags by least squares. With p̂_b the mean of the curve over bag b and V_b the
variance of its share around that, chance and an effect of the bag,

    Σ_b |γ_b − p̂_b|²/V_b,      V_b = (mean of Σ_c p_c(1 − p_c)/q_c over b)/n_b + τ² (C − 1),

in the metric Σ_c (·)²/q_c. Rounds of Gauss and Newton's, in which V is made anew and τ² is set to
what is left beyond chance, settle within a few dozen steps. The error of κ is the sandwich's, with
bags as its units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbag._arrays import Floats
from unbag.bags.bags import Bags

_ROUNDS = 60
_SETTLED = 1e-6
# No step is longer, and no slope larger: rows are as good as sorted there.
_LONGEST, _STEEPEST = 1.0, 64.0
_LEAST_VARIANCE = 1e-9
# Rows that are looked at together, so that what is made of them takes little memory.
_BLOCK = 2**18


@dataclass(frozen=True)
class OddsCurve:
    """A fitted curve.

    Attributes
    ----------
    slope : float
        κ.
    error : float
        Its standard error; infinite if bags do not tell.
    effect : float
        τ², left between bags.
    """

    slope: float
    error: float
    effect: float


def fit_odds_curve(bags: Bags, log_odds: Floats) -> OddsCurve:
    """Fit the curve to the bags that hold rows without labels.

    Parameters
    ----------
    bags : Bags
    log_odds : ndarray of shape (n_classes, n_instances)
        At the shares of the classes in all bags together.
    """
    used = ~bags.labelled
    shares, sizes = bags.proportions[used], bags.sizes[used]
    q = np.clip(bags.class_shares, 1e-6, None)
    n_classes = len(q)
    if len(sizes) <= n_classes:
        return OddsCurve(1.0, np.inf, 0.0)
    at, effect = np.zeros(n_classes), 0.0
    at[-1] = 1.0
    for _ in range(_ROUNDS):
        means, slopes, chance = _moments(bags, log_odds, at, q)
        means, slopes, chance = means[used], slopes[used], chance[used] / sizes
        weights = 1 / (chance + effect * (n_classes - 1) + _LEAST_VARIANCE)
        residual = shares - means
        pulls = np.einsum("bcp,bc,c->bp", slopes, residual, 1 / q)
        normal = np.einsum("b,bcp,bcr,c->pr", weights, slopes, slopes, 1 / q)
        inverse = np.linalg.pinv(normal, hermitian=True)
        step = inverse @ (weights @ pulls)
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), _LEAST_VARIANCE))
        at = np.clip(at + step, -_STEEPEST, _STEEPEST)
        excess = (residual**2 / q).sum(axis=1) - chance
        effect = max(0.0, float(weights**2 @ excess / (weights @ weights)) / (n_classes - 1))
        if np.abs(step).max() < _SETTLED:
            break
    scatter = (weights[:, None] * pulls).T @ (weights[:, None] * pulls)
    spare = len(sizes) / (len(sizes) - n_classes)
    variance = spare * (inverse @ scatter @ inverse)[-1, -1]
    settled = np.abs(at[-1]) < _STEEPEST and normal[-1, -1] > 0
    return OddsCurve(float(at[-1]), float(np.sqrt(variance)) if settled else np.inf, effect)


def _moments(bags: Bags, log_odds: Floats, at: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
    """Means over bags of the curve, of its derivatives, and its variance by chance for one row.

    Shapes (n_bags, n_classes), (n_bags, n_classes, n_classes) and (n_bags,); of the offsets all
    but the first are free, and κ is the last parameter.
    """
    n_classes = len(q)
    totals = np.zeros((n_classes + n_classes**2 + 1, bags.n_bags))
    for start in range(0, bags.n_instances, _BLOCK):
        here = slice(start, start + _BLOCK)
        for total, row in zip(totals, _statistics(log_odds[:, here], at, q), strict=True):
            total += np.bincount(bags.index[here], row, bags.n_bags)
    means = totals / bags.sizes
    slopes = means[n_classes:-1].reshape(n_classes, n_classes, -1)
    return means[:n_classes].T, slopes.transpose(2, 1, 0), means[-1]


def _statistics(log_odds: Floats, at: Floats, q: Floats) -> Floats:
    """The same of single rows, one below the other: (n_classes + n_classes² + 1, n_rows)."""
    offsets = np.concatenate([[0.0], at[:-1]])
    table = offsets[:, None] + at[-1] * log_odds
    table -= table.max(axis=0)
    p = np.exp(table)
    p /= p.sum(axis=0)
    centred = log_odds - (p * log_odds).sum(axis=0)
    by_class = [p * ((np.arange(len(q)) == d)[:, None] - p[d]) for d in range(1, len(q))]
    chance = ((p * (1 - p)) / q[:, None]).sum(axis=0)
    return np.vstack([p, *by_class, p * centred, chance])
