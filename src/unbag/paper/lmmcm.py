"""LMMCM, the algorithm of Scott and Zhang: a classifier from an unbiased estimate of its risk.

*Learning from Label Proportions: A Mutual Contamination Framework* (2020), Algorithm 1: bags are
paired, small ones after they are merged into large ones; each pair is a mutual contamination model,
whose proportions turn bag averages into class averages (`unbag.paper.weights`). So the risk of a
classifier is estimated without bias (`unbag.paper.corrected_risk`), and minimised over the RKHS of
a kernel with a penalty α‖f‖².
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from unbag._arrays import Bools, Floats
from unbag._checks import check_choice
from unbag.bags.bags import BagModel, Bags
from unbag.bags.priors import prior_offset, resolve_class_prior
from unbag.observations.losses import get_loss
from unbag.paper.corrected_risk import CorrectedRisk, Correction
from unbag.paper.lbfgs import Criterion, Objective
from unbag.paper.minimisation import RiskClassifier, RiskClassifierCV, weights_by_problem
from unbag.paper.weights import WeightMethod, bag_weights
from unbag.weights import pooled_shares

_TRAINING_PRIORS = ("auto", "pooled", "same")


class LMMCMClassifier(RiskClassifier):
    """Classifier that minimises an unbiased estimate of its risk: LMMCM, for one penalty.

    Algorithm 1 of Scott and Zhang (2020). Minimises, over linear functions or those of a kernel,

        Σ_c π_c Σ_i W[i, c] · (mean of ℓ_c(f(x)) over bag i) + α‖f‖²

    with weights W for which each sum over bags is an unbiased estimate of the risk on class c if
    bags differ only in how many of each class they contain (label shift). `unbag.LLPClassifier`
    and its kin, which use the likelihood of the counts, are more accurate; this is the method as
    published, with its settings.

    Parameters
    ----------
    alpha : float, default=1e-3
        Regularisation strength, λ in the paper.
    kernel : {"rbf", "linear"}, default="rbf"
        Kernel of f. "linear" fits f(x) = xᵀw + b with an intercept b that is not penalised, for
        many rows and for sparse X. Functions of the
        other kernels have no intercept, as in the paper.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf": "scale" is 1/(d·Var(X)) as in the paper, "wide" half of that, which was more
        accurate, and "auto" 1/d.
    weights : {"least_squares", "pairs"}, default="least_squares"
        Weights of least variance over all bags, for any number of classes, or those of the
        paper's pairs, for two.
    bag_model : {"instances", "bags"}, default="instances"
        Whether instances of a bag are independent (IIM), so that large bags have more weight, or
        may depend on each other (IBM), so that every bag has the same.
    merge : {None, "blockwise_pairwise", "blockwise_max"}, default=None
        How small bags are merged into large ones first.
    merge_size : int, optional
        K, how many small bags make a large one; by default it grows like the square root of the
        number of bags.
    loss : {"logistic", "squared", "huber", "hinge", "sigmoid", "ramp"}, default="logistic"
        ℓ. Only the first three give probabilities.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        π, how much each class counts: equally (balanced error, as in the paper), by its share
        (accuracy), or given.
    training_prior : {"auto", "same", "pooled"}, default="auto"
        Class prior at which the risk is minimised; scores are then moved to ``class_prior`` by
        the log-odds. "same" is ``class_prior`` itself, as in the paper. "pooled" are the shares
        of the classes in all bags, at which the risk is convex for weights of least squares.
        "auto" is "pooled" for a kernel with weights of least squares and the logistic loss, and
        "same" otherwise.
    correction : {"none", "nonnegative"}, default="none"
        Whether estimated class risks are kept from turning negative, as no mean of losses is.
    tol : float, default=1e-3
        Converged when the gradient's norm is below this share of that at f = 0.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    class_prior_ : ndarray of shape (n_classes,)
        Class prior to which scores and probabilities belong.
    training_prior_ : {"same", "pooled"}
        The class prior at which the risk was minimised.
    coef_ : ndarray of shape (n_outputs, n_features)
        w, for ``kernel="linear"`` only: one row for two classes, one per class for more.
    kernel_ : Kernel
        k, with its width; not for ``kernel="linear"``.
    points_ : ndarray of shape (n_points, n_features)
        The z_j of f(x) = Σ_j α_j k(x, z_j), the instances; not for ``kernel="linear"``.
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

    References
    ----------
    .. [1] C. Scott and J. Zhang (2020). Learning from Label Proportions: A Mutual Contamination
       Framework. NeurIPS.

    Examples
    --------
    >>> from unbag.paper import LMMCMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LMMCMClassifier(weights="pairs", gamma="scale").fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        kernel: str = "rbf",
        gamma: str | float = "wide",
        weights: WeightMethod = "least_squares",
        bag_model: BagModel = "instances",
        merge: str | None = None,
        merge_size: int | None = None,
        loss: str = "logistic",
        class_prior: Any = "balanced",
        training_prior: str = "auto",
        correction: Correction = "none",
        tol: float = 1e-3,
        max_iter: int = 1000,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.weights = weights
        self.bag_model = bag_model
        self.merge = merge
        self.merge_size = merge_size
        self.loss = loss
        self.class_prior = class_prior
        self.training_prior = training_prior
        self.correction = correction
        self.tol = tol
        self.max_iter = max_iter

    def _prepare(self, X: Any, bags: Bags) -> None:  # noqa: ARG002
        check_choice(self.weights, get_args(WeightMethod), "weights")
        check_choice(self.bag_model, get_args(BagModel), "bag_model")
        check_choice(self.correction, get_args(Correction), "correction")
        check_choice(self.training_prior, _TRAINING_PRIORS, "training_prior")
        self._loss = get_loss(self.loss, bags.n_classes)
        if not self._loss.trainable:
            raise ValueError(f"loss={self.loss!r} measures a classifier but cannot train one.")
        self.class_prior_ = resolve_class_prior(self.class_prior, bags.class_shares)
        self.training_prior_ = self._resolve_training_prior(bags)

    def _resolve_training_prior(self, bags: Bags) -> str:
        log_odds = self._loss.name == "logistic" and (self.class_prior_ > 0).all()
        if self.training_prior == "pooled" and not log_odds:
            raise ValueError(
                "training_prior='pooled' moves scores by log-odds, for which loss must be "
                "'logistic' and class_prior positive for every class; use training_prior='same'."
            )
        if self.training_prior != "auto":
            return str(self.training_prior)
        # labels alone make R convex at any prior, and pairs stay as they were published
        flexible = self.kernel != "linear" and self.weights == "least_squares"
        return "pooled" if log_odds and flexible and not bags.labelled.all() else "same"

    def _objective(self, bags: Bags, included: Bools) -> Objective:
        return self._risk(bags, included, self.correction)

    def _criterion(self, bags: Bags) -> Criterion:
        # of all held-out bags together, a risk that is unbounded below would choose what fits the
        # noise of its weights best
        pooled = getattr(self, "selection", "pooled") == "pooled"
        whole = np.ones((1, bags.n_bags), dtype=bool)
        return self._risk(bags, whole, "nonnegative" if pooled else self.correction)

    def _risk(self, bags: Bags, included: Bools, correction: Correction) -> Objective:
        """The corrected risk at the training prior, of scores at ``class_prior_``."""
        W = weights_by_problem(bags, included, self._weights)
        if self.training_prior_ == "same":
            return CorrectedRisk(W, bags, self._loss, self.class_prior_, correction)
        prior = pooled_shares(bags, self.bag_model, included)
        offsets = prior_offset(self.class_prior_, prior)
        return CorrectedRisk(W, bags, self._loss, prior, correction, offsets)

    def _weights(self, bags: Bags) -> Floats:
        return bag_weights(
            bags,
            method=self.weights,
            bag_model=self.bag_model,
            merge=self.merge,
            merge_size=self.merge_size,
        )


class LMMCMClassifierCV(RiskClassifierCV, LMMCMClassifier):
    """`LMMCMClassifier` that chooses its penalty by the corrected risk of held-out bags.

    All penalties on all folds, and on all bags, are fitted together. As published, the method is
    ``LMMCMClassifierCV(10.0 ** -np.arange(6), selection="folds", gamma="scale",
    weights="pairs")``.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1 to 1e-5.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`, or fewer if there are fewer bags. A
        fold that holds out part of a bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        Whether the criterion is the risk of all out-of-fold scores together, always with the
        correction "nonnegative", or its mean over folds, as in the paper.
    kernel, gamma : as in `LMMCMClassifier`
    weights, bag_model, merge, merge_size : as in `LMMCMClassifier`
    loss, class_prior, training_prior, correction : as in `LMMCMClassifier`
    tol, max_iter : as in `LMMCMClassifier`

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
    classes_, class_prior_, training_prior_, n_iter_, converged_ : as in `LMMCMClassifier`
    coef_, kernel_, points_, dual_coef_, intercept_ : as in `LMMCMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`

    Examples
    --------
    >>> from unbag.paper import LMMCMClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> from sklearn.metrics import roc_auc_score
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LMMCMClassifierCV().fit(data.X, data.y)
    >>> auc = roc_auc_score(data.labels, model.out_of_fold_scores_)
    >>> bool(0.8 < auc < 1.0)
    True
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        weights: WeightMethod = "least_squares",
        bag_model: BagModel = "instances",
        merge: str | None = None,
        merge_size: int | None = None,
        loss: str = "logistic",
        class_prior: Any = "balanced",
        training_prior: str = "auto",
        correction: Correction = "none",
        tol: float = 1e-3,
        max_iter: int = 1000,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.kernel = kernel
        self.gamma = gamma
        self.weights = weights
        self.bag_model = bag_model
        self.merge = merge
        self.merge_size = merge_size
        self.loss = loss
        self.class_prior = class_prior
        self.training_prior = training_prior
        self.correction = correction
        self.tol = tol
        self.max_iter = max_iter
