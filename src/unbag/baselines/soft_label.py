"""Soft labels: every instance takes the proportions of its bag for its own.

The logistic loss of instances whose labels are uncertain in this way,

    (1/T) Σ_j Σ_c γ_{bag of j}[c] · ℓ_c(f(x_j)),

is Σ_c π_c Σ_i W[i, c] · (mean of ℓ_c over bag i) with W[i, c] = n_i γ_i[c] / Σ_k n_k γ_k[c] and π
the shares of the classes in all bags. So it has the form of the corrected risk, with weights that
correct nothing, and π may be another prior.

What such a classifier learns is E[γ | x], the mean proportion of the bags that an instance may
come from. For two classes with densities p₊ and p₋ it rises with p₊/p₋ and equals the mean of γ
where p₊ = p₋. So a flexible model ranks instances well, and under the balanced prior gets the
sign of the score right, but its chances stay between the smallest and the largest proportion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.models.goals import Goal, Problems
from unbag.models.minimising import KernelClassifier, LinearClassifier
from unbag.models.training import fit_alpha, search_alphas
from unbag.objectives.corrected_risk import CorrectedRisk
from unbag.objectives.losses import get_loss
from unbag.weights.decontamination import check_contrast


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftLabelGoal(Goal):
    """The loss of instances that take the proportions of their bags for labels.

    Attributes
    ----------
    class_prior_setting
        How the prior follows from bags, which differ from fold to fold.
    """

    class_prior_setting: Any

    def weights(self, bags: Bags) -> Floats:
        """What each class of each bag counts; these correct nothing."""
        check_contrast(bags)
        prior = resolve_class_prior(self.class_prior_setting, bags.class_shares)
        expected = bags.sizes[:, None] * bags.clipped_proportions
        return expected / expected.sum(axis=0) * prior

    def objective(self, problems: Problems, bags: Bags, like: Any) -> CorrectedRisk:
        """The loss, which has the form of the corrected risk."""
        # the weights say how much each class counts, since shares differ from fold to fold
        once = np.ones(bags.n_classes)
        return CorrectedRisk(problems.weights, bags.membership, self.loss, once, "none", like)


def make_soft_label_goal(settings: Any, bags: Bags) -> SoftLabelGoal:
    """Make the goal of an estimator from its settings."""
    return SoftLabelGoal(
        loss=get_loss(settings.loss, bags.n_classes),
        class_prior=resolve_class_prior(settings.class_prior, bags.class_shares),
        class_prior_setting=settings.class_prior,
    )


class SoftLabelClassifier(KernelClassifier):
    """Kernel logistic regression on the proportions of bags as soft labels.

    Minimises, over the RKHS of the kernel,

        Σ_c π_c · (Σ_j γ_{bag of j}[c] · ℓ_c(f(x_j))) / (Σ_j γ_{bag of j}[c]) + α‖f‖²

    with ℓ the logistic loss and π the class prior. Chances of classes are those of the mixture
    that an instance comes from, and so less extreme than those of the instance.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the penalty.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts. "empirical" counts all instances alike: the plain loss of
        soft labels, under which few bags with mostly positives mean few positive predictions.
    kernel : {"rbf", "linear", "poly", "precomputed"}, default="rbf"
        Kernel; with "precomputed", X is the kernel matrix.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)) as in the paper, "wide" half
        of that, which was more accurate (docs/beyond-the-paper.md), and "auto" 1/d.
    degree : int, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1.0
        Constant of the kernel "poly".
    precision : {"single", "double"}, default="single"
        Of the kernel matrix or features in training and their products; sums, and all of
        prediction, are in double precision always.
    tol : float, default=1e-3
        Converged when the gradient's norm is below this share of that at f = 0.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    class_prior_ : ndarray of shape (n_classes,)
        The prior the model was trained for.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in the order of columns of chances.
    dual_coef_ : ndarray of shape (n_outputs, n_instances)
        The α_j of f(x) = Σ_j α_j k(x, x_j): one row for two classes, one per class for more.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.
    approximation_ : None
        The kernel matrix is exact.
    kernel_ : Kernel
        k, with its width.
    points_ : ndarray of shape (n_instances, n_features) or None
        The instances; None for a kernel matrix that was given.
    intercept_ : ndarray of shape (n_outputs,)
        Zeros: f is in the RKHS.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among all instances of training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any that are texts.

    See Also
    --------
    unbag.baselines.LinearSoftLabelClassifier : Logistic regression on the proportions of bags as
        soft labels.
    unbag.baselines.SoftLabelClassifierCV : `SoftLabelClassifier` that chooses its penalty by the
        soft-label loss of bags held out.

    Examples
    --------
    >>> from unbag.baselines import SoftLabelClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = SoftLabelClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_soft_label_goal
    _train = fit_alpha

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        class_prior: Any = "balanced",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.class_prior = class_prior
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class SoftLabelClassifierCV(KernelClassifier):
    """`SoftLabelClassifier` that chooses its penalty by the soft-label loss of bags held out.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1 to 1e-5.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        Whether the loss of bags held out is taken over all of them together, or as the mean
        over folds of that of each fold.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts. "empirical" counts all instances alike: the plain loss of
        soft labels, under which few bags with mostly positives mean few positive predictions.
    kernel : {"rbf", "linear", "poly", "precomputed"}, default="rbf"
        Kernel; with "precomputed", X is the kernel matrix.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)) as in the paper, "wide" half
        of that, which was more accurate (docs/beyond-the-paper.md), and "auto" 1/d.
    degree : int, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1.0
        Constant of the kernel "poly".
    precision : {"single", "double"}, default="single"
        Of the kernel matrix or features in training and their products; sums, and all of
        prediction, are in double precision always.
    tol : float, default=1e-3
        Converged when the gradient's norm is below this share of that at f = 0.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (n_alphas,)
        All of them, in falling order.
    selection_risks_ : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        The criterion by which it was chosen; of two criteria, both, along a first axis.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each instance by the model that did not see its bag, at the chosen penalty.
        None if the folds do not hold out every bag exactly once.
    class_prior_ : ndarray of shape (n_classes,)
        The prior the model was trained for.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in the order of columns of chances.
    dual_coef_ : ndarray of shape (n_outputs, n_instances)
        The α_j of f(x) = Σ_j α_j k(x, x_j): one row for two classes, one per class for more.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.
    approximation_ : None
        The kernel matrix is exact.
    kernel_ : Kernel
        k, with its width.
    points_ : ndarray of shape (n_instances, n_features) or None
        The instances; None for a kernel matrix that was given.
    intercept_ : ndarray of shape (n_outputs,)
        Zeros: f is in the RKHS.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among all instances of training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any that are texts.

    See Also
    --------
    unbag.baselines.SoftLabelClassifier : Kernel logistic regression on the proportions of bags as
        soft labels.

    Examples
    --------
    >>> from unbag.baselines import SoftLabelClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = SoftLabelClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_soft_label_goal
    _train = search_alphas

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        class_prior: Any = "balanced",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.class_prior = class_prior
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class LinearSoftLabelClassifier(LinearClassifier):
    """Logistic regression on the proportions of bags as soft labels.

    `SoftLabelClassifier` with f(x) = xᵀw + b, for many rows and for sparse X. The penalty α‖w‖²
    leaves the intercept b free. On plain labels and with ``class_prior="empirical"``
    this is ``LogisticRegression(C=1/(2αn))``.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the penalty.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts. "empirical" counts all instances alike: the plain loss of
        soft labels, under which few bags with mostly positives mean few positive predictions.
    fit_intercept : bool, default=True
        Whether to fit b.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at zero.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    class_prior_ : ndarray of shape (n_classes,)
        The prior the model was trained for.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in the order of columns of chances.
    coef_ : ndarray of shape (n_outputs, n_features)
        Coefficients of the features: one row for two classes, one per class for more.
    intercept_ : ndarray of shape (n_outputs,)
        Constant of each row of ``coef_``; 0 without an intercept.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among all instances of training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any that are texts.

    See Also
    --------
    unbag.baselines.LinearProportionRiskClassifier : Linear classifier that gets the proportions of
        bags right.
    unbag.baselines.LinearSoftLabelClassifierCV : `LinearSoftLabelClassifier` that chooses its
        penalty by the loss of bags held out.
    unbag.baselines.SoftLabelClassifier : Kernel logistic regression on the proportions of bags as
        soft labels.

    Examples
    --------
    >>> from unbag.baselines import LinearSoftLabelClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearSoftLabelClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_soft_label_goal
    _train = fit_alpha

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        class_prior: Any = "balanced",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.class_prior = class_prior
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class LinearSoftLabelClassifierCV(LinearClassifier):
    """`LinearSoftLabelClassifier` that chooses its penalty by the loss of bags held out.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1 to 1e-5.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        Whether the loss of bags held out is taken over all of them together, or as the mean
        over folds of that of each fold.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts. "empirical" counts all instances alike: the plain loss of
        soft labels, under which few bags with mostly positives mean few positive predictions.
    fit_intercept : bool, default=True
        Whether to fit b.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at zero.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (n_alphas,)
        All of them, in falling order.
    selection_risks_ : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        The criterion by which it was chosen; of two criteria, both, along a first axis.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each instance by the model that did not see its bag, at the chosen penalty.
        None if the folds do not hold out every bag exactly once.
    class_prior_ : ndarray of shape (n_classes,)
        The prior the model was trained for.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in the order of columns of chances.
    coef_ : ndarray of shape (n_outputs, n_features)
        Coefficients of the features: one row for two classes, one per class for more.
    intercept_ : ndarray of shape (n_outputs,)
        Constant of each row of ``coef_``; 0 without an intercept.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among all instances of training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any that are texts.

    See Also
    --------
    unbag.baselines.LinearSoftLabelClassifier : Logistic regression on the proportions of bags as
        soft labels.

    Examples
    --------
    >>> from unbag.baselines import LinearSoftLabelClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearSoftLabelClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_soft_label_goal
    _train = search_alphas

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        class_prior: Any = "balanced",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.class_prior = class_prior
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
