"""Saddlepoint approximation for bags of several classes.

With tilt θ, covariance V and h as in `unbag.observations.saddlepoint`: of h there is the first
order,

    h = ½ log det(I + aV),    a = 2π m^{−1/(m−1)},

for the m classes that the bag has, by which it is the same as the first order for two. Classes of
count zero are left out. In small bags whose counts are known, h is summed exactly at the tilt
(`unbag.observations.exact`).
"""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import numpy as np

from unbag._arrays import Array, Floats
from unbag.observations.exact import factors_at, posteriors_at
from unbag.observations.saddlepoint import LONGEST_STEP, MOST_STEPS, TINY


def several_class_loss(
    f: Floats, k: Floats, real: Floats, S: Floats, gradient: bool = True
) -> tuple[Floats, Any]:
    """−log Pr(K = k) of bags of several classes, and its gradient with respect to their scores.

    ``f`` are scores (columns, bags, classes, slots), ``k`` counts (bags, classes) that sum to the number of
    rows, ``real`` (bags, 1, slots) the instances of each row, 0 where a slot only fills up, and ``S`` (bags,
    classes, classes) the covariance of the counts, whose rows sum to zero.
    """
    lse, start = softmax(f)
    tilted = find_tilts(f, k, real, S)
    present, q = tilted.present, tilted.q
    m = present.sum(axis=-1)
    a = (2 * pi * m ** (-1.0 / np.maximum(m - 1.0, 1.0)))[:, None, None]
    inflated = np.eye(k.shape[1]) + a * tilted.V
    value = np.sum(real[..., 0, :] * lse, axis=-1) - tilted.height
    value = value + 0.5 * np.linalg.slogdet(inflated)[1]
    if not gradient:
        return value, None
    # derivatives of tr(H Cov_j) by the scores of each row, H those of h by V
    H = 0.5 * a * np.linalg.inv(inflated)
    diagonal = np.diagonal(H, axis1=-2, axis2=-1)
    bent = real * _pull_back(q, diagonal[..., None] - 2.0 * (H @ q))
    moving = _solve(_regular(tilted.V, present), np.sum(bent, axis=-1))
    return value, real * (start - q - _pull_back(q, moving[..., None])) + bent


def exact_class_loss(
    f: Floats, k: Floats, roots: Array, turn: Array, gradient: bool = True
) -> tuple[Floats, Any]:
    """The same exactly, for small bags of equal size whose counts are known, by `turned_roots`."""
    lse, start = softmax(f)
    n_classes = k.shape[1]
    none = np.zeros((len(k), n_classes, n_classes))
    tilted = find_tilts(f, k, np.ones_like(f[0, :, :1, :]), none)
    factors = factors_at(tilted.q, roots)
    shares = turn * np.prod(factors, axis=-1)
    probability = np.sum(np.real(shares), axis=-1)
    value = np.sum(lse, axis=-1) - tilted.height - np.log(probability)
    if not gradient:
        return value, None
    return value, start - posteriors_at(tilted.q, factors, roots, shares / probability[..., None])


class TiltedClasses(NamedTuple):
    """Tilts θ (columns, bags, classes), Σ_j lse(f_j + θ) + ½ θᵀSθ − θᵀk, V and q there.

    ``present`` (bags, classes) is 1 for classes that a bag has, or may have by noise.
    """

    tilt: Floats
    height: Floats
    V: Floats
    q: Floats
    present: Floats


def find_tilts(f: Floats, k: Floats, real: Floats, S: Floats) -> TiltedClasses:
    """Tilts that make Σ_j lse(f_j + θ) + ½ θᵀSθ − θᵀk least, by damped Newton steps downhill."""
    present = ((k > 0) | (S != 0).any(axis=-1)).astype(float)
    absent = -1e30 * (1.0 - present)
    tilt = np.zeros((len(f), *k.shape))
    trial, step, decrease = tilt, tilt, tilt[..., 0]
    height, length = np.full(tilt.shape[:-1], np.inf), np.ones_like(tilt[..., :1])
    for left in range(MOST_STEPS - 1, -1, -1):
        lse, q = softmax(f + (trial + absent)[..., None])
        own = real * q
        mean = np.sum(own, axis=-1)
        found = np.sum(real[..., 0, :] * lse, axis=-1)
        found = found + np.sum(trial * (0.5 * _times(S, trial) - k), axis=-1)
        slack = 1e-12 * (1.0 + np.abs(height))
        good = found <= height - 1e-4 * length[..., 0] * decrease + slack
        if not good.all() and left > 0:
            length = np.where(good[..., None], length, 0.5 * length)
            trial = tilt + length * step
            continue
        tilt, height = trial, found
        V = mean[..., None] * np.eye(k.shape[1]) - own @ np.swapaxes(q, -1, -2) + S
        gap = (k - mean - _times(S, tilt)) * present
        if (np.max(np.abs(gap), axis=-1) <= 1e-9 * (np.sum(k, axis=-1) + 1.0)).all():
            break
        step = _solve(_regular(V, present), gap)
        largest = np.max(np.abs(step), axis=-1, keepdims=True)
        # further and further, where scores are far apart
        limit = LONGEST_STEP + np.max(np.abs(tilt), axis=-1, keepdims=True)
        step = step * np.minimum(limit / (largest + TINY), 1.0)
        decrease, length = np.sum(step * gap, axis=-1), np.ones_like(length)
        trial = tilt + step
    return TiltedClasses(tilt, height, V, q, present)


def softmax(f: Floats) -> tuple[Floats, Floats]:
    """Logarithm of the sum of powers over the classes, and the share of each."""
    largest = np.max(f, axis=-2, keepdims=True)
    powers = np.exp(f - largest)
    total = np.sum(powers, axis=-2, keepdims=True)
    return (largest + np.log(total))[..., 0, :], powers / total


def _regular(V: Floats, present: Floats) -> Floats:
    """V with something along the directions in which nothing varies."""
    identity = np.eye(V.shape[-1])
    trace = np.trace(V, axis1=-2, axis2=-1)[..., None, None]
    along = present[..., :, None] * present[..., None, :]
    return V + along * (trace + 1e-9) + (1.0 - present + 1e-12)[..., None] * identity


def _times(S: Floats, vector: Floats) -> Floats:
    return (S @ vector[..., None])[..., 0]


def _solve(matrix: Floats, vector: Floats) -> Any:
    return np.linalg.solve(matrix, vector[..., None])[..., 0]


def _pull_back(q: Floats, by_probability: Floats) -> Floats:
    """Derivatives by scores from those by probabilities: q ∘ (h − qᵀh)."""
    return q * (by_probability - np.sum(q * by_probability, axis=-2, keepdims=True))
