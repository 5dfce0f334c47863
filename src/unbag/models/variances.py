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

    σ_k² ← (|β̂_k|² + a s²) / (edf_k + a),

keeps terms that bags say little of from vanishing or growing, and fades as bags come.

H is the *observed* information: it is the variance of the score under label shift and covariate
shift alike (Bartlett's second identity), which the expected information of the counts is under
covariate shift only.

References
----------
Wood, S. N. and Fasiolo, M. (2017). A generalized Fellner–Schall method for smoothing parameter
optimization with application to Tweedie location, scale and shape models. Biometrics 73.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from unbag._arrays import Floats

_LEAST, _MOST = 1e-8, 1e4

# Eigenvalues of H + S are at least this share of the largest.
_FLOOR = 1e-10


class VariancePrior(NamedTuple):
    """The weak prior of σ²: so many coefficients, of this standard deviation."""

    weight: float = 0.5
    sd: float = 0.5


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
    priors : list of VariancePrior
    fixed : bool
        Whether variances stay as they are.
    """

    groups: list[slice]
    variances: Floats
    n_outputs: int
    n_columns: int
    priors: list[VariancePrior]
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

    def degrees_of_freedom(self, covariance: Floats) -> Floats:
        """Effective numbers of parameters, by the posterior covariance."""
        diagonal = np.diagonal(covariance).reshape(self.n_outputs, -1)
        return np.array(
            [
                diagonal[:, columns].size - diagonal[:, columns].sum() / variance
                for columns, variance in zip(self.groups, self.variances, strict=True)
            ]
        )

    def gradient(self, theta: Floats, covariance: Floats) -> Floats:
        """Derivatives of log L and the log prior by log σ_k²."""
        if self.fixed or not self.groups:
            return np.zeros(len(self.groups))
        weight, square = self._prior()
        edf = np.maximum(self.degrees_of_freedom(covariance), 0.0) + weight
        return 0.5 * ((self.squares(theta) + square) / self.variances - edf)

    def updated(self, theta: Floats, covariance: Floats) -> VarianceComponents:
        """Fellner–Schall, faster where steps go the same way again and again."""
        if self.fixed or not self.groups:
            return self
        weight, square = self._prior()
        edf = np.maximum(self.degrees_of_freedom(covariance), 0.0)
        step = np.log((self.squares(theta) + square) / (edf + weight) / self.variances)
        if len(self._rates):
            same = step * self._last > 0
            rates = np.where(same, np.minimum(1.5 * self._rates, 8.0), 1.0)
        else:
            rates = np.ones_like(step)
        variances = self.variances * np.exp(np.clip(rates * step, -3.0, 3.0))
        variances = np.clip(variances, _LEAST, _MOST)
        return replace(self, variances=variances, _rates=rates, _last=step)

    def log_determinant(self) -> float:
        """Log |S|₊."""
        sizes = [columns.stop - columns.start for columns in self.groups]
        return -self.n_outputs * float(np.array(sizes, dtype=float) @ np.log(self.variances))

    def _prior(self) -> tuple[Floats, Floats]:
        table = np.array(self.priors, dtype=float)
        return table[:, 0], table[:, 0] * table[:, 1] ** 2


def positive_inverse(A: Floats) -> tuple[Floats, float]:
    """Inverse and log-determinant of a symmetric matrix, made positive definite if it is not.

    Negative eigenvalues change their sign: along such directions a Newton step then climbs.
    """
    try:
        root = cholesky(A, lower=True, check_finite=False)
        inverse = cho_solve((root, True), np.eye(len(A)), check_finite=False)
        return inverse, 2.0 * float(np.log(np.diagonal(root)).sum())
    except LinAlgError:
        values, vectors = np.linalg.eigh(A)
        values = np.maximum(np.abs(values), _FLOOR * np.abs(values).max())
        return (vectors / values) @ vectors.T, float(np.log(values).sum())
