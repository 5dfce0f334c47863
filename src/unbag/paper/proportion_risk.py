"""Classifiers that fit the proportions of bags: the empirical proportion risk (EPR).

The risk itself, with its divergences, is `unbag.observations.proportion_risk.ProportionRisk`.

A classifier can fit all proportions and misclassify single instances: the paper's appendix has an
example, and ``examples/proportion_risk_fails.py`` runs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Bools
from unbag.bags.bags import Bags
from unbag.observations.base import Objective
from unbag.observations.losses import get_loss
from unbag.observations.proportion_risk import ProportionRisk, get_divergence
from unbag.paper.minimisation import RiskClassifier, RiskClassifierCV, weights_by_problem
from unbag.weights import check_contrast

# Half decades from 1e-2 to 1e-7: differences of means are small, and so must their penalty be.
_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(4, 15))


class _ProportionRiskModel(RiskClassifier):
    """The empirical proportion risk with the settings of an estimator."""

    divergence: Any

    def _prepare(self, X: Any, bags: Bags) -> None:  # noqa: ARG002
        get_divergence(self.divergence)
        self._loss = get_loss("logistic", bags.n_classes)
        self.class_prior_ = bags.class_shares

    def _objective(self, bags: Bags, included: Bools, like: Any) -> Objective:
        W = weights_by_problem(bags, included, _by_size)
        return ProportionRisk(W, bags, self._loss, self.divergence, like)


def _by_size(bags: Bags) -> Any:
    """Weight of each bag, the same for all classes."""
    check_contrast(bags)
    return np.repeat((bags.sizes / bags.sizes.sum())[:, None], bags.n_classes, axis=1)


class ProportionRiskClassifier(_ProportionRiskModel):
    """Classifier that fits the proportions of bags: empirical proportion risk.

    Minimises, over linear functions or those of the RKHS of a kernel,

        Σ_i (n_i/T) · d(p̂_i, γ_i) + α‖f‖²

    with p̂_i the mean probability of each class in bag i and γ_i its proportions; see
    :mod:`unbag.observations.proportion_risk` for the divergences d. The risk is not convex; the
    search starts at f = 0, so the same data give the same model.

    Parameters
    ----------
    alpha : float, default=1e-5
        Regularisation strength.
    divergence : {"squared", "absolute", "cross_entropy"}, default="squared"
        How the mean probabilities in a bag are compared with its proportions. "absolute" has
        kinks, and takes many more iterations where the penalty is weak.
    kernel : {"rbf", "poly", "linear", "precomputed"}, default="rbf"
        Kernel of f; with "precomputed", X is the kernel matrix. "linear" fits f(x) = xᵀw + b with
        an intercept b that is not penalised, for many rows and for sparse X.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)), "wide" half of that, and
        "auto" 1/d.
    kernel_params : dict, optional
        Further settings of the kernel, as in `LMMCMClassifier`.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at f = 0. Most of the
        latter says how common the classes are, so 1e-3 is often too early to stop.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    coef_ : ndarray of shape (n_outputs, n_features)
        w, for ``kernel="linear"`` only: one row for two classes, one per class for more.
    kernel_ : Kernel
        k, with its width; not for ``kernel="linear"``.
    points_ : ndarray of shape (n_points, n_features) or None
        The z_j of f(x) = Σ_j α_j k(x, z_j), instances or landmarks; None for a precomputed kernel;
        not for ``kernel="linear"``.
    dual_coef_ : ndarray of shape (n_outputs, n_points)
        The α_j; not for ``kernel="linear"``.
    intercept_ : ndarray of shape (n_outputs,)
        b; zeros for other kernels than "linear".
    n_iter_ : int
        Iterations.
    converged_ : bool
        Whether the fit converged.
    empirical_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any.

    Examples
    --------
    >>> from unbag.paper import ProportionRiskClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        alpha: float = 1e-5,
        *,
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        kernel_params: dict[str, Any] | None = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.divergence = divergence
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class ProportionRiskClassifierCV(RiskClassifierCV, _ProportionRiskModel):
    """`ProportionRiskClassifier` that chooses its penalty by the risk of held-out bags.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1e-2 to 1e-7.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`, or fewer if there are fewer bags. A
        fold that holds out part of a bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        Whether the risk of held-out bags is taken over all of them together, or as the mean over
        folds of that of each fold.
    divergence : {"squared", "absolute", "cross_entropy"}, default="squared"
        How the mean probabilities in a bag are compared with its proportions. "absolute" has
        kinks, and takes many more iterations where the penalty is weak.
    kernel : {"rbf", "poly", "linear", "precomputed"}, default="rbf"
        Kernel of f; with "precomputed", X is the kernel matrix. "linear" fits f(x) = xᵀw + b with
        an intercept b that is not penalised, for many rows and for sparse X.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)), "wide" half of that, and
        "auto" 1/d.
    kernel_params : dict, optional
        Further settings of the kernel, as in `LMMCMClassifier`.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at f = 0. Most of the
        latter says how common the classes are, so 1e-3 is often too early to stop.
    max_iter : int, default=1000
        Iterations after which a fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (n_alphas,)
        All of them, in falling order.
    selection_risks_ : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        The criterion by which it was chosen.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each instance by the model that did not see its bag, at the chosen penalty.
        None if the folds do not hold out every bag exactly once.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    coef_ : ndarray of shape (n_outputs, n_features)
        w, for ``kernel="linear"`` only: one row for two classes, one per class for more.
    kernel_ : Kernel
        k, with its width; not for ``kernel="linear"``.
    points_ : ndarray of shape (n_points, n_features) or None
        The z_j of f(x) = Σ_j α_j k(x, z_j), instances or landmarks; None for a precomputed kernel;
        not for ``kernel="linear"``.
    dual_coef_ : ndarray of shape (n_outputs, n_points)
        The α_j; not for ``kernel="linear"``.
    intercept_ : ndarray of shape (n_outputs,)
        b; zeros for other kernels than "linear".
    n_iter_ : int
        Iterations of the final fit.
    converged_ : bool
        Whether it converged.
    empirical_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any.

    Examples
    --------
    >>> from unbag.paper import ProportionRiskClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _default_alphas = _ALPHAS

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        kernel_params: dict[str, Any] | None = None,
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
        self.kernel_params = kernel_params
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
