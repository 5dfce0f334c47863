"""Logistic regression without labels, exact from the rows and the sums Xᵀy.

The logistic likelihood is Σ_j log(1 + e^{f_j}) − Σ_j y_j f_j, and with f = Xw + b its second part
is wᵀ(Xᵀy) + b Σ_j y_j: of the labels it needs the sum of each column over the positive rows, and
their number. If columns are indicators (campaign = a, campaign = b, ..., day = 1, ...), these sums
are the tables of positives by campaign, by day and so on. So where such tables are published, for
every column that the model has, nothing is lost by not having the labels, and nothing is assumed.

Noise in the sums moves the solution. With e of the covariance N added to the sums t, the solution
of Xᵀσ(f) + w/C = t has to first order the covariance

    H⁻¹ (XᵀWX + N) H⁻¹,    H = XᵀWX + I/C,  W = diag p(1 − p)

(with the intercept among the columns, which is not penalised): random labels, and noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, norm
from scipy.optimize import minimize
from scipy.sparse import csr_array, diags_array, hstack, issparse
from scipy.sparse.linalg import lsmr
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array

from unbag._arrays import Floats
from unbag._checks import check_one_each
from unbag._text import listing

# What sums may exceed the possible ones by, for rounding, and contradict each other by.
_ROUNDING = 1e-9
_AGREE = 1e-6


@dataclass(frozen=True, eq=False)
class SumsFit:
    """Result of `logistic_from_sufficient_statistics`.

    Attributes
    ----------
    model : LogisticRegression
        Fitted, of the classes 0 and 1; for predictions, pipelines and files.
    covariance : ndarray of shape (n_coefficients, n_coefficients)
        Of the coefficients and the intercept behind them, by random labels and noise in the sums.
    standard_errors : ndarray of shape (n_coefficients,)
        Of the same.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import logistic_from_sufficient_statistics
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = logistic_from_sufficient_statistics(X, sums=[5.0], total=2)
    >>> fit.model.predict(X), fit.standard_errors.shape
    (array([0, 0, 1, 1]), (2,))
    """

    model: LogisticRegression
    _rows: Any = field(repr=False)
    _noise: Floats = field(repr=False)
    _penalty: Floats = field(repr=False)

    @cached_property
    def covariance(self) -> Floats:  # noqa: D102
        theta = np.append(self.model.coef_[0], self.model.intercept_)[: self._rows.shape[1]]
        p = expit(self._rows @ theta)
        H: Any = self._rows.T @ (diags_array(p * (1.0 - p)) @ self._rows)
        H = H if isinstance(H, np.ndarray) else H.toarray()
        factor = cho_factor(H + np.diag(self._penalty))
        return cho_solve(factor, cho_solve(factor, H + self._noise).T)

    @property
    def standard_errors(self) -> Floats:  # noqa: D102
        return np.sqrt(np.diag(self.covariance))


def logistic_from_sufficient_statistics(
    X: Any,
    sums: Any,
    total: float | None = None,
    *,
    C: float = 1.0,
    fit_intercept: bool = True,
    noise: ArrayLike | None = None,
    total_noise: float = 0.0,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> SumsFit:
    """Logistic regression from sufficient statistics, without labels.

    With exact sums the model is the one that ``LogisticRegression(C=C).fit(X, labels)`` finds.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_instances, n_features)
        All rows, positive or not.
    sums : array-like of shape (n_features,), mapping or Series
        Xᵀy: the sum of each column over all positive rows. For an indicator it is the number of
        positives that it holds for. By name of the column, if X is a DataFrame.
    total : float, optional
        Number of positive rows; without it there can be no intercept.
    C : float, default=1.0
        Inverse strength of the penalty, as in `LogisticRegression`; ``np.inf`` for none.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which needs ``total``.
    noise : number or array-like, optional
        Standard deviation of the noise in the sums, one for all or one for each; or its covariance,
        in all sums and, behind them, in the total.
    total_noise : float, default=0
        Standard deviation of the noise in the total, unless ``noise`` is a covariance.
    tol : float, default=1e-8
        Converged when no part of the gradient per instance is larger.
    max_iter : int, default=200
        Iterations after which the fit is given up, with a ConvergenceWarning.

    Returns
    -------
    fit : SumsFit

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from unbag import logistic_from_sufficient_statistics
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(500, 3))
    >>> labels = rng.random(500) < 0.2 + 0.3 * X[:, 0]
    >>> fit = logistic_from_sufficient_statistics(X, X.T @ labels, labels.sum())
    >>> reference = LogisticRegression(tol=1e-8).fit(X, labels)
    >>> bool(np.allclose(fit.model.coef_, reference.coef_, atol=1e-5))
    True
    >>> fit.standard_errors.shape  # of three coefficients and the intercept
    (4,)
    """
    names = list(X.columns) if hasattr(X, "columns") else None
    rows: Any = check_array(X, accept_sparse="csr", dtype=np.float64)
    sparse = bool(issparse(rows))
    rows = csr_array(rows) if sparse else rows
    n, d = rows.shape
    if not isinstance(C, Real) or not float(C) > 0:
        raise ValueError(f"C must be a positive number, or np.inf for no penalty, not {C!r}.")
    target, words = _read_sums(sums, names, d), [repr(name) for name in names or range(d)]
    if fit_intercept:
        if total is None:
            raise ValueError(
                "total, the number of positive rows, is needed for the intercept; without it use "
                "fit_intercept=False."
            )
        target, words = np.append(target, float(total)), [*words, "the total"]
        ones = np.ones((n, 1))
        rows = csr_array(hstack([rows, ones])) if sparse else np.hstack([rows, ones])
    covariance = _read_noise(noise, total_noise, d, fit_intercept)
    _check_possible(rows, target, covariance, words)
    penalty = np.full(len(target), 1 / float(C))
    penalty[d:] = 0.0
    model = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter)
    theta, model.n_iter_ = _solve(rows, target, penalty, tol, max_iter)
    model.classes_, model.n_features_in_ = np.array([0, 1]), d
    model.coef_ = theta[None, :d].copy()
    model.intercept_ = theta[d:].copy() if fit_intercept else np.zeros(1)
    if names is not None:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    return SumsFit(model, rows, covariance, penalty)


def _solve(rows: Any, target: Floats, penalty: Floats, tol: float, max_iter: int) -> Any:
    """Newton's method with conjugate gradients, which needs products with X only."""
    n = rows.shape[0]

    def value(theta: Floats) -> tuple[float, Floats]:
        scores = rows @ theta
        loss = np.logaddexp(0, scores).sum() - target @ theta + 0.5 * penalty @ theta**2
        return loss / n, (rows.T @ expit(scores) - target + penalty * theta) / n

    def curve(theta: Floats, direction: Floats) -> Floats:
        scores = rows @ theta
        w = expit(scores) * expit(-scores)
        return (rows.T @ (w * (rows @ direction)) + penalty * direction) / n

    found = minimize(
        value,
        np.zeros(len(target)),
        jac=True,
        hessp=curve,
        method="trust-ncg",
        options={"gtol": tol, "maxiter": int(max_iter)},
    )
    if np.abs(found.jac).max() > tol:
        warnings.warn(
            f"No coefficients were found within max_iter={max_iter} steps that give these sums; "
            "without a penalty there may be none, so use a smaller C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return found.x, np.array([max(1, int(found.nit))])


def _read_sums(sums: Any, names: list[Any] | None, d: int) -> Floats:
    if names is not None and hasattr(sums, "to_dict"):
        sums = sums.to_dict()
    if isinstance(sums, Mapping):
        if names is None:
            raise ValueError("sums by the names of columns need X to be a DataFrame.")
        absent = [name for name in names if name not in sums]
        if absent:
            raise ValueError(f"There is no sum for the column {absent[0]!r} of X.")
        sums = [sums[name] for name in names]
    values = np.asarray(sums)
    if values.dtype.kind == "b":
        raise ValueError(
            "sums are true or false, as NumPy and pandas make products of truth values; use "
            "X.astype(float).T @ y."
        )
    try:
        values = values.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sums must be numbers: {error}.") from None
    check_one_each(values, d, "sums", "columns of X")
    if not np.isfinite(values).all():
        raise ValueError("sums must be finite numbers.")
    return values


def _read_noise(noise: Any, total_noise: float, d: int, fit_intercept: bool) -> Floats:
    """Covariance of the noise in the sums and in the total."""
    size = d + fit_intercept
    given = np.zeros(d) if noise is None else np.asarray(noise, dtype=float)
    if given.ndim == 2:
        if given.shape != (size, size):
            raise ValueError(
                f"The covariance of the noise must be of shape {(size, size)}, for all sums"
                f"{' and the total' if fit_intercept else ''}, not {given.shape}."
            )
        return given
    if given.ndim == 1:
        check_one_each(given, d, "noise", "sums")
    deviations = np.append(np.broadcast_to(given, (d,)), [float(total_noise)] * fit_intercept)
    if not (np.isfinite(deviations) & (deviations >= 0)).all():
        raise ValueError("noise holds standard deviations: they must be finite and not negative.")
    return np.diag(deviations**2)


def _check_possible(rows: Any, target: Floats, covariance: Floats, words: list[str]) -> None:
    """Refuse exact sums that no labels give, alone or together.

    What Xᵀy of no y comes near to is a combination of columns that is 0 in every row. If it is more
    in the sums than labels of 0 and 1 could make it, there are no such labels.
    """
    most = np.asarray((rows * (rows > 0)).sum(axis=0)).ravel()
    least = np.asarray(rows.sum(axis=0)).ravel() - most
    slack = _ROUNDING * (most - least + 1)
    wrong = ((target < least - slack) | (target > most + slack)) & (np.diag(covariance) == 0)
    if wrong.any():
        j = int(wrong.argmax())
        what = "The total" if words[j] == "the total" else f"The sum of column {words[j]}"
        raise ValueError(
            f"{what} is {target[j]:g}, and labels of these rows give {least[j]:g} to "
            f"{most[j]:g}; if it is noisy, say how much by noise=..."
        )
    if covariance.any():
        return
    left: Floats = target - rows.T @ lsmr(rows.T, target, atol=1e-10, btol=1e-10)[0]
    gap = target @ left - np.maximum(rows @ left, 0).sum()
    if gap > _AGREE * max(1.0, norm(target)) * norm(left):
        concerned = np.flatnonzero(np.abs(left) > 1e-3 * np.abs(left).max())
        raise ValueError(
            "The sums contradict each other: columns of X add up to others, and their sums do not "
            f"({listing(words[j] for j in concerned)}); if they are noisy or rounded, say how much "
            "by noise=..."
        )
