"""Linear classifiers trained from bags, for many rows."""

from __future__ import annotations

from typing import Any

from unbag.models.bag_goal import make_bag_goal
from unbag.models.minimising import LinearClassifier
from unbag.models.training import fit_alpha, search_alphas


class LinearMCMClassifier(LinearClassifier):
    """Linear classifier trained from the class proportions of bags.

    Minimises G(w, b) + α‖w‖², with G the negative log-likelihood of the counts of the bags per
    instance (:mod:`unbag.objectives.count_likelihood`) or another objective; the intercept is not
    penalised. On labels this is ``LogisticRegression(C=1/(2αn))``, its intercept moved to
    ``class_prior``. X may be sparse, and may be in single precision, which saves time and memory;
    sums are in double precision always.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the penalty.
    fit_intercept : bool, default=True
        Whether to fit b, without which likelihoods are not what they should be.
    objective : {"auto", "likelihood", "forward", "corrected"}, default="auto"
        As in `KernelMCMClassifier`. With "corrected", on labels, the model is
        ``LogisticRegression(class_weight="balanced", C=1/(2αn))``.
    bag_effect, weights, bag_model, merge, merge_size, loss, class_prior, correction, verbose
        As in `KernelMCMClassifier`.
    training_prior : {"same", "auto", "pooled", "convex"}, default="same"
        As in `KernelMCMClassifier`, whose default is "auto". A linear function that is best for R
        at the pooled shares need not be best at ``class_prior`` as well, wherever it is moved.
    device : str, optional
        Where to train: None for NumPy, else a device of torch such as "cuda" or "cpu", which X,
        then dense, must fit. Predictions are always made by NumPy.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at zero.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
    intercept_ : ndarray of shape (n_outputs,)
    classes_, class_prior_, objective_, bag_effect_, bag_effect_interval_, looks_, n_iter_, \
converged_
        As in `KernelMCMClassifier`.

    Examples
    --------
    >>> from unbag import LinearMCMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearMCMClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_bag_goal
    _train = fit_alpha
    _trains_on_partitions = True

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        fit_intercept: bool = True,
        objective: str = "auto",
        bag_effect: str | float = "auto",
        weights: str = "least_squares",
        bag_model: str = "instances",
        merge: str | None = None,
        merge_size: int | None = None,
        loss: str = "logistic",
        class_prior: Any = "balanced",
        training_prior: str = "same",
        correction: str = "none",
        device: str | None = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.objective = objective
        self.bag_effect = bag_effect
        self.weights = weights
        self.bag_model = bag_model
        self.merge = merge
        self.merge_size = merge_size
        self.loss = loss
        self.class_prior = class_prior
        self.training_prior = training_prior
        self.correction = correction
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class LinearMCMClassifierCV(LinearClassifier):
    """`LinearMCMClassifier` that chooses its penalty from the bags.

    Parameters
    ----------
    alphas, cv, selection, store_folds
        As in `KernelMCMClassifierCV`.
    fit_intercept, objective, bag_effect, weights, bag_model, merge, merge_size, loss, \
class_prior, training_prior, correction, device, tol, max_iter, verbose
        As in `LinearMCMClassifier`.

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_, folds_
        As in `KernelMCMClassifierCV`.
    coef_, intercept_, classes_, class_prior_, objective_, bag_effect_, bag_effect_interval_, \
looks_, n_iter_, converged_
        As in `LinearMCMClassifier`.

    Examples
    --------
    >>> from unbag import LinearMCMClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearMCMClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_bag_goal
    _train = search_alphas
    _trains_on_partitions = True

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        store_folds: bool = False,
        fit_intercept: bool = True,
        objective: str = "auto",
        bag_effect: str | float = "auto",
        weights: str = "least_squares",
        bag_model: str = "instances",
        merge: str | None = None,
        merge_size: int | None = None,
        loss: str = "logistic",
        class_prior: Any = "balanced",
        training_prior: str = "same",
        correction: str = "none",
        device: str | None = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.store_folds = store_folds
        self.fit_intercept = fit_intercept
        self.objective = objective
        self.bag_effect = bag_effect
        self.weights = weights
        self.bag_model = bag_model
        self.merge = merge
        self.merge_size = merge_size
        self.loss = loss
        self.class_prior = class_prior
        self.training_prior = training_prior
        self.correction = correction
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
