"""The saddle point of bags of several classes.

With tilt θ, covariance V and h as in `unbag.observations.saddlepoint`: of h there is the first
order,

    h = ½ log det(I + aV),    a = 2π m^{−1/(m−1)},

for the m classes that the bag has, by which it is the same as the first order for two. Classes of
count zero are left out. In small bags whose counts are known, h is summed exactly at the tilt
(`unbag.observations.exact`).
"""

from __future__ import annotations

from math import pi
from typing import Any

from array_api_compat import array_namespace, device

from unbag._arrays import Array
from unbag.observations.exact import factors_at, posteriors_at
from unbag.observations.saddlepoint import LONGEST_STEP, MOST_STEPS, TINY


def several_class_loss(
    f: Array, k: Array, real: Array, S: Array, gradient: bool = True
) -> tuple[Array, Any]:
    """−log Pr(K = k) of bags of several classes, and its gradient with respect to their scores.

    Parameters
    ----------
    f : array of shape (columns, bags, classes, slots)
        Scores.
    k : array of shape (bags, classes)
        Counts, which sum to the number of rows.
    real : array of shape (bags, 1, slots)
        How many instances a row stands for; 0 where a slot only fills up.
    S : array of shape (bags, classes, classes)
        Covariance of the counts, whose rows sum to zero.

    Returns
    -------
    value, gradient : arrays of shape (columns, bags) and (columns, bags, classes, slots)
    """
    xp, present = array_namespace(f), classes_present(k, S)
    lse, start = softmax(f)
    search, q = _find_tilts(f, k, real, S, present)
    value = search.level(xp.sum(real[..., 0, :] * lse, axis=-1))
    h, H = class_miss(search.V, present)
    if not gradient:
        return value + h, None
    bent = real * bend(q, H)
    moving = search.settle(xp.sum(bent, axis=-1))
    return value + h, real * (start - q - pull_back(q, moving[..., None])) + bent


def exact_class_loss(
    f: Array, k: Array, S: Array, roots: Array, turn: Array, gradient: bool = True
) -> tuple[Array, Any]:
    """The same exactly, for small bags of equal size whose counts are known.

    Parameters
    ----------
    f, k, S
        As in `several_class_loss`; S is zero.
    roots, turn : arrays of shape (roots, classes) and (bags, roots)
        From `unbag.observations.exact.turned_roots`.
    """
    xp = array_namespace(f)
    lse, start = softmax(f)
    search, q = _find_tilts(f, k, xp.ones_like(f[0, :, :1, :]), S, classes_present(k, S))
    factors = factors_at(q, roots)
    shares = turn * xp.prod(factors, axis=-1)
    chance = xp.sum(xp.real(shares), axis=-1)
    value = search.level(xp.sum(lse, axis=-1)) - xp.log(chance)
    if not gradient:
        return value, None
    return value, start - posteriors_at(q, factors, roots, shares / chance[..., None])


def _find_tilts(
    f: Array, k: Array, real: Array, S: Array, present: Array
) -> tuple[ClassTiltSearch, Array]:
    """The search that has come to its end, and the tilted chances there."""
    search = ClassTiltSearch(k, S, present, f.shape[0])
    while not search.done:
        own, q = tilted_classes(f, real, search.trial, present)
        search.look(own, *class_moments(q, real))
    return search, q


def classes_present(k: Array, S: Array) -> Array:
    """Mark classes that a bag has, or may have by noise, with 1: shape (bags, classes)."""
    xp = array_namespace(k)
    return xp.astype((k > 0) | xp.any(S != 0, axis=-1), k.dtype)


class ClassTiltSearch:
    """The tilts of bags of several classes, on their way: damped Newton steps downhill.

    The tilt makes Σ_j lse(f_j + θ) + ½ θᵀSθ − θᵀk least, a convex function.

    Parameters
    ----------
    k, S, present : arrays of shape (bags, classes), (bags, classes, classes), (bags, classes)
    n_columns : int

    Attributes
    ----------
    trial : array of shape (columns, bags, classes)
        Where to look next.
    tilt, V : arrays
        The lowest place so far, and the covariance there.
    done : bool
    """

    def __init__(self, k: Array, S: Array, present: Array, n_columns: int) -> None:
        xp = array_namespace(k)
        self._k, self._S, self._present = k, S, present
        self.trial = xp.zeros((n_columns, *k.shape), dtype=k.dtype, device=device(k))
        self._length = xp.ones_like(self.trial[..., :1])
        self._height: Array = None
        self.tilt = self._step = self._promised = self.trial
        self._left = MOST_STEPS
        self.done = False

    def look(self, own: Array, mean: Array, covariance: Array) -> None:
        """Take in Σ_j lse(f_j + θ), Σ_j q_j and its covariance at the trial, and move on."""
        xp, tilt = array_namespace(own), self.trial
        linear = 0.5 * _times(self._S, tilt) - self._k
        height = own + xp.sum(tilt * linear, axis=-1)
        self._left -= 1
        if self._height is not None:
            allowed = self._height - 1e-4 * self._length[..., 0] * self._promised
            good = height <= allowed + 1e-12 * (1.0 + xp.abs(self._height))
            if not bool(xp.all(good)) and self._left > 0:
                self._length = xp.where(good[..., None], self._length, 0.5 * self._length)
                self.trial = self.tilt + self._length * self._step
                return
        self.tilt, self._height = tilt, height
        self.V = covariance + self._S
        gap = (self._k - mean - _times(self._S, tilt)) * self._present
        n = xp.sum(self._k, axis=-1)
        found = xp.max(xp.abs(gap), axis=-1) <= 1e-9 * (n + 1.0)
        self.done = bool(xp.all(found)) or self._left <= 0
        step = _solve(_regular(self.V, self._present), gap)
        largest = xp.max(xp.abs(step), axis=-1, keepdims=True)
        # further and further, where scores are far apart
        limit = LONGEST_STEP + xp.max(xp.abs(tilt), axis=-1, keepdims=True)
        self._step = step * xp.minimum(limit / (largest + TINY), xp.ones_like(largest))
        self._promised = xp.sum(self._step * gap, axis=-1)
        self._length = xp.ones_like(self._length)
        self.trial = tilt if self.done else tilt + self._step

    def level(self, before: Array) -> Array:
        """Σ_j [lse f_j − lse(f_j + θ)] + θᵀk − ½ θᵀSθ, from the sum of lse f_j."""
        return before - self._height

    def settle(self, bent: Array) -> Array:
        """V⁻¹ times a sum over rows: how the tilt moves along."""
        return _solve(_regular(self.V, self._present), bent)


def tilted_classes(f: Array, real: Array, tilt: Array, present: Array) -> tuple[Array, Array]:
    """Σ_j lse(f_j + θ) over the rows of each bag, and the chances q of all rows."""
    lse, q = softmax(f + (tilt - 1e30 * (1.0 - present))[..., None])
    return array_namespace(f).sum(real[..., 0, :] * lse, axis=-1), q


def class_moments(q: Array, real: Array) -> tuple[Array, Array]:
    """Σ_j q_j and Σ_j (diag q_j − q_j q_jᵀ) of each bag."""
    xp = array_namespace(q)
    own = real * q
    mean = xp.sum(own, axis=-1)
    identity = xp.eye(q.shape[-2], dtype=q.dtype, device=device(q))
    return mean, mean[..., None] * identity - own @ xp.matrix_transpose(q)


def class_miss(V: Array, present: Array) -> tuple[Array, Array]:
    """h, and its derivative by V."""
    xp = array_namespace(V)
    m = xp.sum(present, axis=-1)
    a = (2 * pi * m ** (-1.0 / xp.maximum(m - 1.0, xp.ones_like(m))))[:, None, None]
    inflated = xp.eye(V.shape[-1], dtype=V.dtype, device=device(V)) + a * V
    return 0.5 * xp.linalg.slogdet(inflated)[1], 0.5 * a * xp.linalg.inv(inflated)


def bend(q: Array, H: Array) -> Array:
    """Derivatives of tr(H Cov_j) by the scores of each row."""
    xp = array_namespace(q)
    diagonal = xp.sum(H * xp.eye(H.shape[-1], dtype=H.dtype, device=device(H)), axis=-1)
    return pull_back(q, diagonal[..., None] - 2.0 * (H @ q))


def softmax(f: Array) -> tuple[Array, Array]:
    """Logarithm of the sum of powers over the classes, and the share of each."""
    xp = array_namespace(f)
    largest = xp.max(f, axis=-2, keepdims=True)
    powers = xp.exp(f - largest)
    total = xp.sum(powers, axis=-2, keepdims=True)
    return (largest + xp.log(total))[..., 0, :], powers / total


def _regular(V: Array, present: Array) -> Array:
    """V with something along the directions in which nothing varies."""
    xp = array_namespace(V)
    identity = xp.eye(V.shape[-1], dtype=V.dtype, device=device(V))
    trace = xp.sum(V * identity, axis=(-2, -1))[..., None, None]
    apart = (1.0 - present)[..., None] * identity
    along = present[..., :, None] * present[..., None, :]
    return V + along * (trace + 1e-9) + apart + 1e-12 * identity


def _times(S: Array, vector: Array) -> Array:
    return (S @ vector[..., None])[..., 0]


def _solve(matrix: Array, vector: Array) -> Array:
    solved: Array = array_namespace(matrix).linalg.solve(matrix, vector[..., None])[..., 0]
    return solved


def pull_back(q: Array, by_chance: Array) -> Array:
    """Derivatives by scores from those by chances: q ∘ (h − qᵀh)."""
    xp = array_namespace(q)
    return q * (by_chance - xp.sum(q * by_chance, axis=-2, keepdims=True))
