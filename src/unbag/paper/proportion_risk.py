"""Classifiers that get the proportions of bags right: the empirical proportion risk (EPR).

The risk itself, with its divergences, is `unbag.observations.proportion_risk.ProportionRisk`.

A classifier can get all shares right and single instances wrong: the paper's appendix has an
example, and ``examples/proportion_risk_fails.py`` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag._arrays import Floats
from unbag._docstrings import as_in
from unbag.bags.bags import Bags
from unbag.models.goals import Goal, Problems
from unbag.models.kernel import LLPKernelClassifier, LLPKernelClassifierCV
from unbag.models.linear import LLPLinearClassifier
from unbag.models.minimising import KernelClassifier, LinearClassifier
from unbag.models.training import fit_alpha, search_alphas
from unbag.observations.losses import get_loss
from unbag.observations.proportion_risk import ProportionRisk, get_divergence
from unbag.weights.decontamination import check_contrast

# Half decades from 1e-2 to 1e-7: differences of means are small, and so must their penalty be.
_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(4, 15))


@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionGoal(Goal):
    """The empirical proportion risk."""

    divergence: str

    def weights(self, bags: Bags) -> Floats:
        """Each bag by its size."""
        check_contrast(bags)
        return np.repeat((bags.sizes / bags.sizes.sum())[:, None], bags.n_classes, axis=1)

    def objective(self, problems: Problems, bags: Bags, like: Any) -> ProportionRisk:
        """The risk of all problems."""
        return ProportionRisk(problems.weights, bags, self.loss, self.divergence, like)


def make_proportion_goal(settings: Any, bags: Bags) -> ProportionGoal:
    """Make the goal of an estimator from its settings."""
    get_divergence(settings.divergence)
    return ProportionGoal(
        loss=get_loss(settings.loss, bags.n_classes),
        class_prior=bags.class_shares,
        divergence=settings.divergence,
    )


@as_in(LLPKernelClassifier)
class ProportionRiskClassifier(KernelClassifier):
    """Kernel classifier that gets the proportions of bags right: empirical proportion risk.

    Minimises, over the RKHS of the kernel,

        Σ_i (n_i/T) · d(p̂_i, γ_i) + α‖f‖²

    with p̂_i the mean chance of each class in bag i and γ_i its proportions; see
    :mod:`unbag.observations.proportion_risk` for the divergences d. The risk is not convex; the
    search starts at f = 0, so that the same data give the same model.

    Parameters
    ----------
    alpha : float, default=1e-5
        Strength of the penalty.
    divergence : {"squared", "absolute", "cross_entropy"}, default="squared"
        How the mean chances in a bag are compared with its proportions. "absolute" has kinks,
        and takes many more iterations where the penalty is weak.
    kernel, gamma, degree, coef0, precision : as in LLPKernelClassifier
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at f = 0. Most of the
        latter says how common the classes are, so that 1e-3 is often too early to stop.
    max_iter, verbose : as in LLPKernelClassifier

    Attributes
    ----------
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    classes_ : as in LLPKernelClassifier
    dual_coef_ : ndarray of shape (n_outputs, n_instances)
        The α_j of f(x) = Σ_j α_j k(x, x_j): one row for two classes, one per class for more.
    n_iter_, converged_ : as in LLPKernelClassifier
    approximation_ : None
        The kernel matrix is exact.
    kernel_ : as in LLPKernelClassifier
    points_ : ndarray of shape (n_instances, n_features) or None
        The instances; None for a kernel matrix that was given.
    intercept_ : ndarray of shape (n_outputs,)
        Zeros: f is in the RKHS.
    empirical_prior_, n_features_in_, feature_names_in_ : as in LLPKernelClassifier

    Examples
    --------
    >>> from unbag.paper import ProportionRiskClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = fit_alpha

    def __init__(
        self,
        alpha: float = 1e-5,
        *,
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.divergence = divergence
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


@as_in(LLPKernelClassifierCV, ProportionRiskClassifier)
class ProportionRiskClassifierCV(KernelClassifier):
    """`ProportionRiskClassifier` that chooses its penalty by the risk of bags held out.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1e-2 to 1e-7.
    cv : as in LLPKernelClassifierCV
    selection : {"pooled", "folds"}, default="pooled"
        Whether the risk of bags held out is taken over all of them together, or as the mean
        over folds of that of each fold.
    divergence, kernel, gamma, degree, coef0, precision, tol : as in ProportionRiskClassifier
    max_iter, verbose : as in ProportionRiskClassifier

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_ : as in LLPKernelClassifierCV
    class_prior_, classes_, dual_coef_, n_iter_, converged_ : as in ProportionRiskClassifier
    approximation_, kernel_, points_, intercept_, empirical_prior_ : as in ProportionRiskClassifier
    n_features_in_, feature_names_in_ : as in ProportionRiskClassifier

    Examples
    --------
    >>> from unbag.paper import ProportionRiskClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = search_alphas

    def __init__(
        self,
        alphas: Any = _ALPHAS,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.divergence = divergence
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


@as_in(ProportionRiskClassifier, LLPLinearClassifier)
class LinearProportionRiskClassifier(LinearClassifier):
    """Linear classifier that gets the proportions of bags right: empirical proportion risk.

    `ProportionRiskClassifier` with f(x) = xᵀw + b, for many rows and for sparse X. The penalty
    α‖w‖² leaves the intercept b free.

    Parameters
    ----------
    alpha, divergence : as in ProportionRiskClassifier
    fit_intercept : bool, default=True
        Whether to fit b.
    tol, max_iter, verbose : as in LLPLinearClassifier

    Attributes
    ----------
    class_prior_, classes_ : as in ProportionRiskClassifier
    coef_, intercept_, n_iter_, converged_, empirical_prior_ : as in LLPLinearClassifier
    n_features_in_, feature_names_in_ : as in LLPLinearClassifier

    Examples
    --------
    >>> from unbag.paper import LinearProportionRiskClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearProportionRiskClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = fit_alpha

    def __init__(
        self,
        alpha: float = 1e-5,
        *,
        divergence: str = "squared",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.divergence = divergence
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


@as_in(ProportionRiskClassifierCV, LinearProportionRiskClassifier)
class LinearProportionRiskClassifierCV(LinearClassifier):
    """`LinearProportionRiskClassifier` that chooses its penalty by the risk of bags held out.

    Parameters
    ----------
    alphas, cv, selection, divergence : as in ProportionRiskClassifierCV
    fit_intercept, tol, max_iter, verbose : as in LinearProportionRiskClassifier

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_ : as in ProportionRiskClassifierCV
    class_prior_, classes_ : as in ProportionRiskClassifierCV
    coef_, intercept_, n_iter_, converged_, empirical_prior_ : as in LinearProportionRiskClassifier
    n_features_in_, feature_names_in_ : as in LinearProportionRiskClassifier

    Examples
    --------
    >>> from unbag.paper import LinearProportionRiskClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearProportionRiskClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = search_alphas

    def __init__(
        self,
        alphas: Any = _ALPHAS,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        divergence: str = "squared",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.divergence = divergence
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
