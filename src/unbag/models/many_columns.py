"""The mixed model of very many columns: nothing is as large as their number squared.

Instead of H, products Hx are used (`unbag.models.newton.Curvature`), each of which costs about as
much as a gradient. In coefficients divided by their σ the matrix of a Newton step is I + M with
M = S^{−½}HS^{−½}, which has about as many large eigenvalues as bags tell of directions. So

- Newton steps come from conjugate gradients, cut short where the likelihood is convex;
- effective degrees of freedom are edf_k = E[z_kᵀ(z − (I + M)⁻¹z)_k] over random signs z, with a
  variance of at most 2 edf for each z (Hutchinson);
- log |I + M| comes from the same conjugate gradients, by the tridiagonal matrices that their
  coefficients make (stochastic Lanczos quadrature).

The dispersion is taken to be 1 and, where variances of bags are estimated, bags to have no leverage:
both would need covariances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbag._arrays import Floats
from unbag.models.bag_variance import estimate_bag_variance
from unbag.models.newton import SMALL_EFFECT, Likelihood, MixedFit, line_search
from unbag.models.variances import Posterior, VarianceComponents

# Random signs by which traces are estimated.
_PROBES = 6

# Conjugate gradients end at this share of the first residual, or after so many steps.
_PRECISION = 1e-3
_MOST_STEPS = 100


class Solved(NamedTuple):
    """Solutions of (I + M)x = b for some b (n_vectors, n), and log |I + M| by each of them."""

    x: Floats
    log_determinants: Floats


def maximise_by_products(
    likelihood: Likelihood,
    theta: Floats,
    components: VarianceComponents,
    *,
    bag_effect: float | None = None,
    label_shift: float = 0.0,
    tol: float = 1e-2,
    max_iter: int = 100,
) -> MixedFit:
    """Maximise as `unbag.models.newton.maximise` does, by products with H alone.

    Parameters
    ----------
    likelihood, theta, components, bag_effect, tol, max_iter
        As there; derivatives of the marginal likelihood are as exact as random signs allow, which
        are the same in each step.
    """
    effect, shape = bag_effect or 0.0, theta.shape
    likelihood = likelihood.with_bag_effect(effect)
    if label_shift:
        likelihood = likelihood.with_label_shift(label_shift)
    at = likelihood.derivatives(theta, False)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, theta.size))
    converged, n_iter = False, 0
    while True:
        S = np.tile(components.precision, len(theta))
        curvature = likelihood.curvature(theta)
        scale, constants = _scales(curvature.times, S, shape)

        def matrix(x: Floats, scale: Floats = scale, constants: Floats = constants) -> Floats:
            product = curvature.times((x * scale).reshape(-1, *shape)).reshape(len(x), -1) * scale  # noqa: B023
            # what softmax leaves free, a constant added to all scores
            free = x[:, constants > 0]
            product[:, constants > 0] += free.mean(axis=1, keepdims=True) * (shape[0] > 1)
            return product + x * (constants == 0)

        slope = at.gradient.ravel() - S * theta.ravel()
        solved = conjugate_gradients(matrix, np.vstack([slope * scale, signs]))
        step = solved.x[0] * scale
        promised = float(slope @ step)
        used = (signs * (signs - solved.x[1:])).mean(axis=0)
        edf = np.array([max(float(used[own].sum()), 0.0) for own in components.places])
        posterior = Posterior(np.empty((0, 0)), edf, float(solved.log_determinants[1:].mean()))
        shift = np.abs(components.gradient(theta, posterior)).max(initial=0.0)
        change = turn = 0.0
        if bag_effect is None:
            table = likelihood.bag_table(theta, None)
            if table is not None:
                found = estimate_bag_variance(table, effect)
                change, turn = found.effect - effect, found.label_shift - label_shift
        moved = max(shift, abs(change) / (effect + SMALL_EFFECT), abs(turn))
        if promised < 2 * tol**2 and moved < 5 * tol:
            converged = True
            break
        if n_iter == max_iter:
            break
        n_iter += 1
        if abs(change) > tol * (effect + SMALL_EFFECT):
            effect += change if n_iter < max_iter // 4 else 0.5 * change
            likelihood = likelihood.with_bag_effect(effect)
            at = at._replace(value=likelihood.value(theta))
        if abs(turn) > tol:
            label_shift += turn if n_iter < max_iter // 4 else 0.5 * turn
            likelihood = likelihood.with_label_shift(label_shift)
            at = at._replace(value=likelihood.value(theta))
        theta, at = line_search(likelihood, theta, at, step.reshape(shape), promised, S, 1.0, None)
        components = components.updated(theta, posterior)
    if not converged:
        warnings.warn(
            f"The fit has not converged in {max_iter} iterations; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    penalty = 0.5 * float(S @ theta.ravel() ** 2)
    return MixedFit(
        theta=theta,
        posterior=posterior,
        covariance=None,
        components=components,
        dispersion=1.0,
        bag_effect=effect,
        label_shift=label_shift,
        n_informative_bags=float(likelihood.n_bags),
        log_marginal_likelihood=at.value - penalty - 0.5 * posterior.log_determinant,
        n_iter=n_iter,
        converged=converged,
    )


def conjugate_gradients(matrix: Callable[[Floats], Floats], b: Floats) -> Solved:
    """Solve (I + M)x = b for some vectors at once, as far as the matrix is positive.

    Parameters
    ----------
    matrix : callable
        Products of vectors (n_vectors, n) with I + M.
    b : ndarray of shape (n_vectors, n)

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.models.many_columns import conjugate_gradients
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> solved = conjugate_gradients(lambda x: x @ A, np.ones((1, 3)))
    >>> solved.x.round(3), solved.log_determinants.round(3)
    (array([[1.  , 0.5 , 0.25]]), array([2.079]))
    """
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    square = (r**2).sum(axis=1)
    least = _PRECISION**2 * square
    going = square > 0
    lengths: list[list[float]] = [[] for _ in b]
    ratios: list[list[float]] = [[] for _ in b]
    for number in range(min(_MOST_STEPS, 2 * b.shape[1])):
        if not going.any():
            break
        product = matrix(p)
        along = (p * product).sum(axis=1)
        convex = going & (along <= 1e-10 * (p**2).sum(axis=1))
        if number == 0:
            x[convex] = b[convex]
        going = going & ~convex
        length = np.where(going, square / np.where(going, along, 1.0), 0.0)
        x += length[:, None] * p
        r -= length[:, None] * product
        new = (r**2).sum(axis=1)
        ratio = np.where(going, new / np.where(square > 0, square, 1.0), 0.0)
        for i in np.flatnonzero(going):
            lengths[i].append(float(length[i]))
            ratios[i].append(float(ratio[i]))
        going = going & (new > least)
        p = np.where(going[:, None], r + ratio[:, None] * p, p)
        square = np.where(going, new, square)
    found = [_log_determinant(a, c, b.shape[1]) for a, c in zip(lengths, ratios, strict=True)]
    return Solved(x, np.array(found))


def _log_determinant(lengths: list[float], ratios: list[float], n: int) -> float:
    """N times the first entry of log T, for the tridiagonal T of conjugate gradients."""
    if not lengths:
        return 0.0
    a, c = 1.0 / np.array(lengths), np.array(ratios[:-1])
    diagonal = a.copy()
    diagonal[1:] += c * a[:-1]
    beside = np.sqrt(c) * a[:-1]
    T = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, vectors = np.linalg.eigh(T)
    return n * float(vectors[0] ** 2 @ np.log(np.maximum(values, 1e-12)))


def _scales(
    times: Callable[[Floats], Floats], S: Floats, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Standard deviations of coefficients, of constants by what the data say, and which these are."""
    directions = np.zeros((shape[0], *shape))
    for a in range(shape[0]):
        directions[a, a, 0] = 1.0
    own = np.array([product[a, 0] for a, product in enumerate(times(directions))])
    constants = np.zeros(shape)
    constants[:, 0] = 1.0
    scale = np.zeros(shape)
    scale[:, 0] = 1.0 / np.sqrt(np.maximum(own, 1e-12))
    flat = constants.ravel()
    scale = np.where(flat > 0, scale.ravel(), 1.0 / np.sqrt(np.where(flat > 0, 1.0, S)))
    return scale, flat
