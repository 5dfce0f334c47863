"""Class priors, and probabilities adjusted from one prior to another."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from unbag._arrays import Floats
from unbag._checks import check_one_each

# Offsets of log-odds settle within a few dozen steps.
_STEPS = 50
_SETTLED = 1e-10
# Class priors may be rounded.
_SUM_TOLERANCE = 1e-3
# Of a class that is left out, whose log-odds are then about -700: still a number when exponentiated.
_LEAST_PRIOR = 1e-304


def resolve_class_prior(class_prior: Any, class_shares: Floats) -> Floats:
    """Turn ``"balanced"``, ``"empirical"`` or given numbers into one prior per class."""
    n_classes = len(class_shares)
    if isinstance(class_prior, str):
        if class_prior == "balanced":
            return np.full(n_classes, 1 / n_classes)
        if class_prior == "empirical":
            return class_shares
        raise ValueError(
            f"class_prior must be 'balanced', 'empirical' or one number per class, not {class_prior!r}."
        )
    prior = np.asarray(class_prior, dtype=float)
    check_one_each(prior, n_classes, "class_prior", "classes")
    if not np.isfinite(prior).all() or (prior < 0).any() or prior.sum() <= 0:
        raise ValueError("class_prior must hold finite numbers, none negative and not all 0.")
    if abs(prior.sum() - 1) > _SUM_TOLERANCE:
        raise ValueError(f"class_prior must add up to 1, and {class_prior!r} to {prior.sum():g}.")
    return prior / prior.sum()


def adjust_probabilities(probabilities: Floats, prior: Floats, wanted: Floats) -> Floats:
    """Return probabilities at another class prior, under label shift."""
    weights = probabilities * (wanted / prior)
    total = weights.sum(axis=1, keepdims=True)
    # a row of zeros says nothing
    return np.where(total > 0, weights / np.where(total > 0, total, 1), wanted)


def log_prior(prior: Floats) -> Floats:
    """Log-odds (..., outputs) of class priors (..., classes); of several classes, logarithms."""
    logs: Floats = np.log(np.maximum(prior, _LEAST_PRIOR))
    return logs[..., 1:] - logs[..., :1] if logs.shape[-1] == 2 else logs


def prior_offset(prior: Floats, wanted: Floats) -> Floats:
    """Return what log-odds at a class prior change by (..., outputs) at another, under label shift."""
    return log_prior(wanted) - log_prior(prior)


def probabilities_of(log_odds: Floats) -> Floats:
    """Probabilities of all classes (n_classes, n_rows) from log-odds (n_outputs, n_rows)."""
    if len(log_odds) == 1:
        return np.stack([expit(-log_odds[0]), expit(log_odds[0])])
    return np.exp(log_odds - logsumexp(log_odds, axis=0))


def offset_for_shares(log_odds: Floats, shares: Floats) -> Floats:
    """Return the offset of log-odds (n_outputs, n_rows) for which mean probabilities are the shares."""
    shares = np.clip(shares, 1e-6, None)
    if len(log_odds) == 1:
        scores, share = log_odds[0], shares[1] / shares.sum()
        reach = np.abs(scores).max() + 40.0
        # the mean probability rises with the offset
        return np.array([brentq(lambda c: expit(scores + c).mean() - share, -reach, reach)])
    offset = np.zeros(len(log_odds))
    for _ in range(_STEPS):
        # rows and shares scaled in turn
        means = probabilities_of(log_odds + offset[:, None]).mean(axis=1)
        step = np.log(shares) - np.log(means + 1e-300)
        offset = offset + step
        if np.abs(step).max() < _SETTLED:
            break
    return offset
