r"""Several models as one: how much each counts, and what its scores say in chances.

All of it goes by what models say of bags that they did not see. A model counts by its likelihood
there, exp(−(L_k − L_min)/T) for L_k the negative log-likelihood of all counts: with T = 1 nearly
always a single one, whether it is better or luckier, and without end all of them alike. Scores are
brought to the same spread before they are added up: by their own, a model that overstates what it
found would drown one that understates it, however much the other counts. The sum is then stretched
and moved, f ↦ af + b, to where the likelihood of the same bags is largest. That is what Platt's
sigmoid does for labels: chances of the mixture are those that bags bear out, whether classes keep
their look or rows their odds.

With few bags a is little better than a guess, so that log a is N(0, ½²) beforehand. The likelihood
takes rows for independent: large bags that differ by more than chance would overrule that, however
few they are, and draw all chances to the shares of the classes or away from them. What is largest
is therefore

    log-likelihood/φ − 2 log² a,

with φ the largest dispersion of counts around the mixture that held-out bags do not rule out
(`unbag.evaluation.bag_effects`): large where bags are few, and about 1 for many that differ by
chance alone. Weights of models do without: there φ was no gain.

Fewer than ten bags do not tell a at all (results/dispersion.md), and leave it at 1.

Few bags leave b to chance, and the models that see them all are others than those that b was fitted
to. The shares of all rows together are known, so that b ends where mean chances are these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from unbag.bags.bags import Bags
from unbag.bags.priors import offset_for_shares
from unbag.evaluation.bag_effects import largest_dispersion
from unbag.models.goals import Goal
from unbag.observations.base import Objective

# T above: units of log-likelihood by which a model must lead to count e times as much.
TEMPERATURE = 16.0

# Standard deviation of log a before anything is seen, which keeps few bags from telling wonders.
_STRETCH = 0.5

# Scores that vary less than this beside the most varied ones say nothing, and are not blown up.
_LEAST_SPREAD = 1e-3
_LEAST_SHARE = 1e-6

_FIRST = np.zeros(1, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Mixture:
    """f = Σ_k a_k f_k + b, with a_k ∝ w_k / (spread of f_k).

    Attributes
    ----------
    losses : ndarray of shape (n_models,)
        Negative log-likelihood of held-out counts by each model, per row.
    weights : ndarray of shape (n_models,)
        How much each model counts, the w_k, which add up to one.
    slopes : ndarray of shape (n_models,)
        By what its scores are multiplied, the a_k.
    intercepts : ndarray of shape (n_outputs,)
        b.
    """

    losses: NDArray[np.float64]
    weights: NDArray[np.float64]
    slopes: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def __call__(self, scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Scores (n_outputs, n_instances) of the mixture from those of its models."""
        return _add(self.slopes, scores) + self.intercepts[:, None]

    def at_shares(
        self,
        scores: Sequence[NDArray[np.float64]],
        shares: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> Mixture:
        """The same with the b at which mean chances are the shares of the rows that scores are of.

        Scores are for classes as common as ``prior`` says.
        """
        found = self(scores)
        move = np.log(np.maximum(shares, _LEAST_SHARE) / np.maximum(prior, _LEAST_SHARE))
        move = move[1:] - move[:1] if len(found) == 1 else move
        missing = offset_for_shares(found + move[:, None], shares)
        return replace(self, intercepts=self.intercepts + missing)


def fit_mixture(
    goal: Goal,
    bags: Bags,
    scores: Sequence[NDArray[np.float64]],
    temperature: float,
    *,
    stretched: bool = True,
) -> Mixture:
    """Weigh models by what they say of bags that they did not see, and calibrate.

    Parameters
    ----------
    goal : Goal
        Whose objective is a negative log-likelihood per row.
    bags : Bags
    scores : sequence of ndarray of shape (n_outputs, n_instances)
        Of the rows of these bags, by every model.
    temperature : float
        T.
    stretched : bool, default=True
        Whether there are bags enough to tell a and b; otherwise a is 1, and b 0.
    """
    objective = goal.objective(goal.whole(bags), bags, None)
    losses = np.array([float(objective.value(one[None], _FIRST)[0]) for one in scores])
    weights = softmax(-(losses - losses.min()) * bags.n_instances / temperature)
    slopes = weights * _equal_spreads(weights, scores)
    if not stretched:
        return Mixture(losses, weights, slopes, np.zeros(len(scores[0])))
    total = _add(slopes, scores)
    stretch, intercepts = _calibrate(objective, total, 1.0)
    dispersion = largest_dispersion(
        bags, stretch * total + intercepts[:, None], goal.class_prior, goal.bag_effect
    )
    stretch, intercepts = _calibrate(objective, total, dispersion)
    return Mixture(losses, weights, stretch * slopes, intercepts)


def _equal_spreads(
    weights: NDArray[np.float64], scores: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """What brings the scores of all models to the weighted mean of their spreads."""
    spreads = np.array([np.sqrt(one.var(axis=1).mean()) for one in scores])
    spreads = np.maximum(spreads, _LEAST_SPREAD * spreads.max())
    return weights @ spreads / spreads if spreads.any() else np.ones_like(spreads)


def _add(slopes: NDArray[np.float64], scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    # one after the other, since of many rows there is no room for all side by side
    total = np.zeros_like(scores[0], dtype=float)
    for slope, one in zip(slopes, scores, strict=True):
        total += slope * one
    return total


def _calibrate(
    objective: Objective, scores: NDArray[np.float64], dispersion: float
) -> tuple[float, NDArray[np.float64]]:
    """The a and b of least loss, with a normal prior on log a that counts φ times."""
    precision = dispersion / (_STRETCH**2 * scores.shape[1])

    def value_and_gradient(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope = np.exp(theta[0])
        moved = slope * scores + theta[1:, None]
        value, gradient = objective.value_and_gradient(moved[None], _FIRST)
        along = slope * np.sum(gradient[0] * scores) + precision * theta[0]
        prior = precision * theta[0] ** 2 / 2
        return float(value[0]) + prior, np.array([along, *gradient[0].sum(axis=1)])

    found = minimize(
        value_and_gradient,
        np.zeros(1 + len(scores)),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-12, "gtol": 1e-8},
    )
    return float(np.exp(found.x[0])), found.x[1:]
