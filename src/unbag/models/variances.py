"""Variances of terms by the marginal likelihood of a mixed model.

Coefficients β_k of term k are N(0, σ_k²I) and the constant has a flat prior. With ℓ the log-likelihood
(divided by the dispersion φ), H its observed information at its penalised maximum β̂, and S the
diagonal matrix of precisions 1/σ_k², Laplace's approximation of the marginal likelihood is

    log L(σ) = ℓ(β̂) − ½ Σ_k |β̂_k|²/σ_k² − ½ log |H + S| + ½ log |S|₊.

Its derivative by log σ_k² is ½(|β̂_k|²/σ_k² − edf_k), where

    edf_k = p_k − tr[(H + S)⁻¹]_kk / σ_k²

is the effective number of parameters of the term, so that the maximum is a fixed point of

    σ_k² ← |β̂_k|² / edf_k,

the generalised Fellner–Schall update (Wood and Fasiolo 2017). A weak prior on σ_k², worth a
coefficients of standard deviation s,

    σ_k² = (|β̂_k|² + a s²) / (edf_k + a),

keeps terms with little information from vanishing or growing, and fades as bags come.

H is the *observed* information: it is the variance of the score under label shift and covariate
shift alike (Bartlett's second identity), which the expected information of the counts is under
covariate shift only.

References
----------
Wood, S. N. and Fasiolo, M. (2017). A generalized Fellner–Schall method for smoothing parameter
optimization with application to Tweedie location, scale and shape models. Biometrics 73.
Wood, S. N., Pya, N. and Säfken, B. (2016). Smoothing parameter and model selection for general
smooth models. JASA 111.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.defaults import PRIOR_WEIGHT

_LEAST, _MOST = 1e-8, 1e4

# Log variances change by at most this much in a step, which is at most this many times as long as
# that of Fellner–Schall.
_LONGEST, _FASTEST = 3.0, 8.0

# Information of the flat prior of constants, as a share of what the data say of them.
_FLAT = 1e-10


class Posterior(NamedTuple):
    """Normal approximation of the posterior of coefficients.

    Attributes
    ----------
    covariance : ndarray
        (H + S)⁻¹.
    degrees_of_freedom : ndarray of shape (n_groups,)
        Effective numbers of parameters, Σ λ/(1 + λ) by the eigenvalues of information over prior.
    log_determinant : float
        log |H + S| − log |S|₊.
    """

    covariance: Floats
    degrees_of_freedom: Floats
    log_determinant: float


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """One variance for each group of coefficients.

    Attributes
    ----------
    groups : list of slice
        Columns of each term; the others are not penalised.
    variances : ndarray of shape (n_groups,)
    n_outputs, n_columns : int
        Coefficients are (n_outputs, n_columns); all outputs share variances.
    prior_sds : ndarray of shape (n_groups,)
        Standard deviations s of the weak prior.
    fixed : bool
        Whether variances stay as they are.
    """

    groups: list[slice]
    variances: Floats
    n_outputs: int
    n_columns: int
    prior_sds: Floats
    fixed: bool = False
    _rates: Floats = field(default_factory=lambda: np.empty(0))
    _last: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def precision(self) -> Floats:
        """Diagonal of S for one output: 1/σ_k², zero where there is no penalty."""
        found = np.zeros(self.n_columns)
        for columns, variance in zip(self.groups, self.variances, strict=True):
            found[columns] = 1.0 / variance
        return found

    def squares(self, theta: Floats) -> Floats:
        """|β_k|² of each term."""
        return np.array([np.sum(theta[:, columns] ** 2) for columns in self.groups])

    def posterior(self, H: Floats) -> Posterior:
        """The posterior of coefficients by the observed information H (divided by φ).

        In coefficients divided by their σ, information is M = S^{−½}HS^{−½} and that of the prior
        the identity. Negative eigenvalues of M, of directions in which the likelihood is convex,
        are taken for zero: what is known of these is the prior.
        """
        precision = np.tile(self.precision, self.n_outputs)
        free = precision == 0
        # a flat prior, compared with what the data say
        least = _FLAT * max(float(np.abs(np.diagonal(H)[free]).max(initial=0.0)), 1e-300)
        scale = 1.0 / np.sqrt(np.where(free, least, precision))
        values, vectors = np.linalg.eigh(H * scale[:, None] * scale)
        values = np.maximum(values, 0.0)
        shrunk = vectors / np.sqrt(1.0 + values)
        covariance = (shrunk @ shrunk.T) * scale[:, None] * scale
        share = ((vectors * np.sqrt(values / (1.0 + values))) ** 2).sum(axis=1)
        share = share.reshape(self.n_outputs, -1)
        edf = np.array([share[:, columns].sum() for columns in self.groups])
        log_det = float(np.log1p(values).sum()) + float(free.sum() * np.log(least))
        return Posterior(covariance, edf, log_det)

    def gradient(self, theta: Floats, posterior: Posterior) -> Floats:
        """Derivatives of log L and the log prior by log σ_k²."""
        if self.fixed or not self.groups:
            return np.zeros(len(self.groups))
        rise = (self.squares(theta) + self._prior_squares) / self.variances
        return 0.5 * (rise - posterior.degrees_of_freedom - PRIOR_WEIGHT)

    def curvature(self, theta: Floats, posterior: Posterior) -> tuple[Floats, Floats]:
        """−∂² log L by log variances, and the derivatives of β̂ by them: (n_coefficients, n_groups).

        With P the posterior covariance,

            ∂β̂/∂log σ_k² = P_·k β_k/σ_k²,
            −∂²/∂log σ_k² ∂log σ_l² = δ_kl (|β_k|² + tr P_kk + a s²)/2σ_k²
                                      − (β_kᵀP_kl β_l + ½ tr P_kl P_lk)/σ_k²σ_l².
        """
        P, flat = posterior.covariance, theta.ravel()
        places = self.places
        moves = np.zeros((len(flat), len(places)))
        found = np.zeros((len(places),) * 2)
        for k, own in enumerate(places):
            moves[:, k] = P[:, own] @ flat[own] / self.variances[k]
            squares = flat[own] @ flat[own] + np.diagonal(P)[own].sum() + self._prior_squares[k]
            found[k, k] = 0.5 * squares / self.variances[k]
            for j, other in enumerate(places[: k + 1]):
                block = P[np.ix_(own, other)]
                cross = flat[own] @ block @ flat[other] + 0.5 * (block**2).sum()
                found[k, j] -= cross / (self.variances[k] * self.variances[j])
                found[j, k] = found[k, j]
        return found, moves

    def updated(self, theta: Floats, posterior: Posterior) -> VarianceComponents:
        """Fellner–Schall, faster where steps go the same way again and again."""
        if self.fixed or not self.groups:
            return self
        fall = posterior.degrees_of_freedom + PRIOR_WEIGHT
        step = np.log((self.squares(theta) + self._prior_squares) / fall / self.variances)
        rates = self._rates
        if len(rates):
            rates = np.where(step * self._last > 0, np.minimum(1.5 * rates, _FASTEST), 1.0)
        else:
            rates = np.ones_like(step)
        variances = self.variances * np.exp(np.clip(rates * step, -_LONGEST, _LONGEST))
        variances = np.clip(variances, _LEAST, _MOST)
        return replace(self, variances=variances, _rates=rates, _last=step)

    def corrected_covariance(self, theta: Floats, posterior: Posterior) -> Floats:
        """P + J V Jᵀ: with the uncertainty V of the log variances (Wood, Pya and Säfken 2016)."""
        if self.fixed or not self.groups:
            return posterior.covariance
        curvature, moves = self.curvature(theta, posterior)
        return posterior.covariance + moves @ self._inverse(curvature) @ moves.T

    @property
    def places(self) -> list[Ints]:
        """Places of the coefficients of each group among those of all outputs."""
        starts = np.arange(self.n_outputs)[:, None] * self.n_columns
        return [(starts + np.arange(own.start, own.stop)).ravel() for own in self.groups]

    def _inverse(self, curvature: Floats) -> Floats:
        values, vectors = np.linalg.eigh(curvature)
        return (vectors / np.maximum(values, 0.5 * PRIOR_WEIGHT)) @ vectors.T

    @property
    def _prior_squares(self) -> Floats:
        """as² of each group."""
        return PRIOR_WEIGHT * self.prior_sds**2
