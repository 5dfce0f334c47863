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
from unbag._docstrings import as_in
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.models.goals import Goal, Problems
from unbag.models.kernel import LLPKernelClassifier, LLPKernelClassifierCV
from unbag.models.linear import LLPLinearClassifier, LLPLinearClassifierCV
from unbag.models.minimising import KernelClassifier, LinearClassifier
from unbag.models.training import fit_alpha, search_alphas
from unbag.observations.corrected_risk import CorrectedRisk
from unbag.observations.losses import get_loss
from unbag.paper.proportion_risk import ProportionRiskClassifier
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


@as_in(LLPKernelClassifier, ProportionRiskClassifier)
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
    kernel, gamma, degree, coef0, precision, tol, max_iter, verbose : as in LLPKernelClassifier

    Attributes
    ----------
    class_prior_, classes_ : as in LLPKernelClassifier
    dual_coef_ : as in ProportionRiskClassifier
    n_iter_, converged_ : as in LLPKernelClassifier
    approximation_ : as in ProportionRiskClassifier
    kernel_ : as in LLPKernelClassifier
    points_, intercept_ : as in ProportionRiskClassifier
    empirical_prior_, n_features_in_, feature_names_in_ : as in LLPKernelClassifier

    Examples
    --------
    >>> from unbag_bench.methods import SoftLabelClassifier
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


@as_in(LLPKernelClassifierCV, SoftLabelClassifier)
class SoftLabelClassifierCV(KernelClassifier):
    """`SoftLabelClassifier` that chooses its penalty by the soft-label loss of bags held out.

    Parameters
    ----------
    alphas, cv : as in LLPKernelClassifierCV
    selection : {"pooled", "folds"}, default="pooled"
        Whether the loss of bags held out is taken over all of them together, or as the mean
        over folds of that of each fold.
    class_prior, kernel, gamma, degree, coef0, precision, tol, max_iter : as in SoftLabelClassifier
    verbose : as in SoftLabelClassifier

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_ : as in LLPKernelClassifierCV
    class_prior_, classes_ : as in LLPKernelClassifierCV
    dual_coef_, n_iter_, converged_, approximation_, kernel_, points_ : as in SoftLabelClassifier
    intercept_, empirical_prior_, n_features_in_, feature_names_in_ : as in SoftLabelClassifier

    Examples
    --------
    >>> from unbag_bench.methods import SoftLabelClassifierCV
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


@as_in(SoftLabelClassifier, LLPLinearClassifier)
class LinearSoftLabelClassifier(LinearClassifier):
    """Logistic regression on the proportions of bags as soft labels.

    `SoftLabelClassifier` with f(x) = xᵀw + b, for many rows and for sparse X. The penalty α‖w‖²
    leaves the intercept b free. On plain labels and with ``class_prior="empirical"``
    this is ``LogisticRegression(C=1/(2αn))``.

    Parameters
    ----------
    alpha, class_prior : as in SoftLabelClassifier
    fit_intercept : bool, default=True
        Whether to fit b.
    tol, max_iter, verbose : as in LLPLinearClassifier

    Attributes
    ----------
    class_prior_, classes_, coef_, intercept_, n_iter_, converged_ : as in LLPLinearClassifier
    empirical_prior_, n_features_in_, feature_names_in_ : as in LLPLinearClassifier

    Examples
    --------
    >>> from unbag_bench.methods import LinearSoftLabelClassifier
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


@as_in(SoftLabelClassifierCV, LinearSoftLabelClassifier, LLPLinearClassifierCV)
class LinearSoftLabelClassifierCV(LinearClassifier):
    """`LinearSoftLabelClassifier` that chooses its penalty by the loss of bags held out.

    Parameters
    ----------
    alphas, cv, selection, class_prior : as in SoftLabelClassifierCV
    fit_intercept, tol, max_iter, verbose : as in LinearSoftLabelClassifier

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_ : as in LLPLinearClassifierCV
    class_prior_, classes_, coef_, intercept_, n_iter_, converged_ : as in LLPLinearClassifierCV
    empirical_prior_, n_features_in_, feature_names_in_ : as in LLPLinearClassifierCV

    Examples
    --------
    >>> from unbag_bench.methods import LinearSoftLabelClassifierCV
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
