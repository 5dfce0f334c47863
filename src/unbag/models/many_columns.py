"""The mixed model of very many columns: nothing is as large as their number squared.

Instead of H, products Hx are used (`unbag.models.newton.Products`), each of which costs about as
much as a gradient. In coefficients divided by their σ, information is M = S^{−½}HS^{−½} and that of
the prior the identity. Lanczos' method gives an orthonormal basis Q of products of M with a vector
b, in which M is a small tridiagonal T = QᵀMQ, so that for any function

    f(M) b ≈ |b| Q f(T) e₁,    bᵀ f(M) b ≈ |b|² e₁ᵀ f(T) e₁.

With λ₊ = max(λ, 0), since directions in which the likelihood is convex count as unknown,

- a Newton step is f(M) times the gradient, f(λ) = 1/(1 + λ₊);
- effective degrees of freedom are edf_k = E[z_kᵀ(f(M)z)_k] over random signs z, f(λ) = λ₊/(1 + λ₊),
  with a variance of at most 2 edf for each z (Hutchinson);
- log |I + M| = E[zᵀf(M)z], f(λ) = log(1 + λ₊).

The dispersion is taken to be 1 and, where variances of bags are estimated, bags to have no leverage:
both would need covariances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unbag._arrays import Floats
from unbag.models.bag_variance import estimate_bag_variance
from unbag.models.newton import SMALL_EFFECT, Likelihood, MixedFit, line_search, warn_of_convergence
from unbag.models.variances import Posterior, VarianceComponents

# Random signs by which traces are estimated.
_PROBES = 6

# A basis ends where the residual of (I + M)x = b is this share of b and one vector more changes traces
# by no more than so much, relatively, or at so many vectors.
_PRECISION, _TRACES = 0.02, 0.001
_MOST_VECTORS = 60

# Information of constants over that of their prior, which is flat.
_FLAT = 1e4


class Krylov(NamedTuple):
    """A basis for functions of M times each of some vectors.

    Attributes
    ----------
    norms : ndarray of shape (n_vectors,)
    basis : ndarray of shape (n_basis, n_vectors, n)
    values : ndarray of shape (n_vectors, n_basis)
        Eigenvalues of T, negative ones as zero.
    vectors : ndarray of shape (n_vectors, n_basis, n_basis)
        Eigenvectors of T, in columns.
    """

    norms: Floats
    basis: Floats
    values: Floats
    vectors: Floats

    def apply(self, function: Callable[[Floats], Floats]) -> Floats:
        """f(M)b: (n_vectors, n)."""
        first = self.vectors[:, 0] * function(self.values)
        weights = np.einsum("mij,mj->im", self.vectors, first) * self.norms
        return np.einsum("im,imn->mn", weights, self.basis, optimize=True)

    def form(self, function: Callable[[Floats], Floats]) -> Floats:
        """bᵀf(M)b: (n_vectors,)."""
        return self.norms**2 * (self.vectors[:, 0] ** 2 * function(self.values)).sum(axis=1)


def maximise_by_products(
    likelihood: Likelihood,
    theta: Floats,
    components: VarianceComponents,
    *,
    bag_effect: float | None = None,
    label_shift: float = 0.0,
    start: tuple[float, float, float] | None = None,
    tol: float = 1e-2,
    max_iter: int = 100,
) -> MixedFit:
    """Maximise as `unbag.models.newton.maximise` does, by products with H alone.

    Parameters
    ----------
    likelihood, theta, components, bag_effect, label_shift, start, tol, max_iter
        As there; derivatives of the marginal likelihood are as exact as random signs allow, which
        are the same in each step.
    """
    _, effect, label_shift = start or (1.0, bag_effect or 0.0, label_shift)
    effects, shape = np.full(likelihood.n_bags, effect), theta.shape
    likelihood = likelihood.with_bag_effects(effects)
    if label_shift:
        likelihood = likelihood.with_label_shift(label_shift)
    at = likelihood.derivatives(theta, False)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, theta.size))
    converged, n_iter, least = False, 0, 0
    while True:
        S = np.tile(components.precision, len(theta))
        times = likelihood.products(theta)
        scale = _scales(times, S, shape)

        def matrix(x: Floats, scale: Floats = scale, times: Any = times) -> Floats:
            return times((x * scale).reshape(-1, *shape)).reshape(len(x), -1) * scale

        slope = at.gradient.ravel() - S * theta.ravel()
        # a basis never gets smaller, so that traces move as smoothly as variances
        krylov = lanczos(matrix, np.vstack([slope * scale, signs]), least=least)
        least = len(krylov.basis)
        step = krylov.apply(lambda values: 1.0 / (1.0 + values))[0] * scale
        gain = float(slope @ step)
        used = (signs * krylov.apply(lambda values: values / (1.0 + values))[1:]).mean(axis=0)
        edf = np.array([max(float(used[own].sum()), 0.0) for own in components.places])
        log_det = float(krylov.form(np.log1p)[1:].mean()) - 2.0 * float(np.log(scale[S == 0]).sum())
        posterior = Posterior(np.empty((0, 0)), edf, log_det)
        shift = np.abs(components.gradient(theta, posterior)).max(initial=0.0)
        rise, change, turn = 0.0, np.zeros_like(effects), 0.0
        if bag_effect is None:
            tables = likelihood.bag_tables(theta, None)
            if tables:
                found = estimate_bag_variance(tables, effects, 0.01 * tol)
                change, turn = found.effects - effects, found.label_shift - label_shift
                rise = np.abs(change).max() / (effects.mean() + SMALL_EFFECT)
        moved = max(shift, rise, abs(turn))
        if gain < 2 * tol**2 and moved < 5 * tol:
            converged = True
            break
        if n_iter == max_iter:
            break
        n_iter += 1
        if rise > tol:
            effects = effects + (change if n_iter < max_iter // 4 else 0.5 * change)
            likelihood = likelihood.with_bag_effects(effects)
            at = at._replace(value=likelihood.value(theta))
        if abs(turn) > tol:
            label_shift += turn if n_iter < max_iter // 4 else 0.5 * turn
            likelihood = likelihood.with_label_shift(label_shift)
            at = at._replace(value=likelihood.value(theta))
        theta, at = line_search(likelihood, theta, at, step.reshape(shape), gain, S, 1.0, None)
        components = components.updated(theta, posterior)
    if not converged:
        warn_of_convergence(max_iter)
    penalty = 0.5 * float(S @ theta.ravel() ** 2)
    return MixedFit(
        theta=theta,
        posterior=posterior,
        covariance=None,
        components=components,
        dispersion=1.0,
        bag_effects=effects,
        label_shift=label_shift,
        n_informative_bags=float(likelihood.n_bags),
        log_marginal_likelihood=at.value - penalty - 0.5 * posterior.log_determinant,
        n_iter=n_iter,
        converged=converged,
    )


def lanczos(
    matrix: Callable[[Floats], Floats], b: Floats, precision: float = _PRECISION, least: int = 0
) -> Krylov:
    """A basis for functions of a symmetric matrix M times some vectors.

    Parameters
    ----------
    matrix : callable
        Products of vectors (n_vectors, n) with M.
    b : ndarray of shape (n_vectors, n)
    precision : float
        Norm of the residual of (I + M)x = b over that of b at the end.
    least : int
        Fewest vectors of the basis.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.models.many_columns import lanczos
    >>> M = np.diag([0.0, 1.0, 3.0])
    >>> krylov = lanczos(lambda x: x @ M, np.ones((1, 3)))
    >>> krylov.apply(lambda values: 1 / (1 + values)).round(3)
    array([[1.  , 0.5 , 0.25]])
    >>> krylov.form(np.log1p).round(3)  # log |I + M|
    array([2.079])
    """
    norms = np.linalg.norm(b, axis=1)
    q, before = b / np.maximum(norms, 1e-300)[:, None], np.zeros_like(b)
    most = min(_MOST_VECTORS, b.shape[1])
    T = np.zeros((len(b), most, most))
    basis, link, trace = [], np.zeros(len(b)), 0.0
    for i in range(most):
        basis.append(q)
        rest = matrix(q) - link[:, None] * before
        T[:, i, i] = (rest * q).sum(axis=1)
        rest -= T[:, i, i, None] * q
        link, before = np.linalg.norm(rest, axis=1), q
        values, vectors = np.linalg.eigh(T[:, : i + 1, : i + 1])
        values = np.maximum(values, 0.0)
        last = np.abs((vectors[:, i] * vectors[:, 0] / (1.0 + values)).sum(axis=1))
        found = float((vectors[:, 0] ** 2 * values / (1.0 + values)).sum())
        close = abs(found - trace) <= _TRACES * found and (link * last <= precision).all()
        trace = found
        if i + 1 == most or (i + 1 >= least and close):
            break
        # a basis that is complete goes on with zeros
        link = np.where(link > 1e-10 * (1.0 + np.abs(values).max(axis=1)), link, 0.0)
        T[:, i, i + 1] = T[:, i + 1, i] = link
        q = np.where(link[:, None] > 0, rest / np.where(link > 0, link, 1.0)[:, None], 0.0)
    return Krylov(norms, np.array(basis), values, vectors)


def _scales(times: Callable[[Floats], Floats], S: Floats, shape: tuple[int, int]) -> Floats:
    """Standard deviations of coefficients; of constants by what the data say."""
    directions = np.zeros((shape[0], *shape))
    for a in range(shape[0]):
        directions[a, a, 0] = 1.0
    own = np.array([product[a, 0] for a, product in enumerate(times(directions))])
    free = np.repeat(np.maximum(own, 1e-12) / _FLAT, shape[1])
    return 1.0 / np.sqrt(np.where(S == 0, free, S))
