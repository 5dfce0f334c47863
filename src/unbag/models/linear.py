"""Linear classifiers trained from bags, for many rows."""

from __future__ import annotations

from typing import Any

from unbag._docstrings import as_in
from unbag.models.bag_goal import make_bag_goal
from unbag.models.minimising import LinearClassifier
from unbag.models.training import fit_alpha, search_alphas


class LLPLinearClassifier(LinearClassifier):
    """Linear classifier trained from the class proportions of bags.

    Minimises G(w, b) + α‖w‖², with G the negative log-likelihood of the counts of the bags per
    instance (:mod:`unbag.observations.count_likelihood`) or another objective; the intercept is not
    penalised. On labels this is ``LogisticRegression(C=1/(2αn))``, its intercept moved to
    ``class_prior``. X may be sparse, and may be in single precision, which saves time and memory;
    sums are in double precision always.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the penalty.
    fit_intercept : bool, default=True
        Whether to fit b, without which likelihoods are not what they should be.
    objective : {"auto", "likelihood", "forward"}, default="auto"
        What is minimised. "likelihood": that of the counts, G. "forward": that of single rows
        whose labels were drawn with the shares of their bags as chances
        (:mod:`unbag.observations.forward`), which rests on label shift. "auto" is "likelihood",
        but "forward" if shares are not those of whole counts.
    bag_effect : "auto" or float, default="auto"
        Variance τ² of what the shares of bags differ by beyond their rows, in units of q(1 − q)
        with q the share of a class in all bags; for the objective "likelihood". "auto" estimates
        it from bags held out, and fits again with it if there are more than 32 bags, it is there
        beyond doubt and rows seem to keep their odds (:mod:`unbag.evaluation.bag_effects`). 0
        takes it that there is none.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts: equally (balanced error), by its share (accuracy), or given.
    device : str, optional
        Where to train: None for NumPy, else a device of torch such as "cuda" or "cpu", which X,
        then dense, must fit. Predictions are always made by NumPy.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at zero.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        Coefficients of the features: one row for two classes, one per class for more.
    intercept_ : ndarray of shape (n_outputs,)
        Constant of each row of ``coef_``; 0 without an intercept.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in the order of columns of chances.
    class_prior_ : ndarray of shape (n_classes,)
        The prior the model was trained for.
    objective_ : {"likelihood", "forward"}
        What was minimised.
    bag_effect_ : float
        The variance of bag effects that was used.
    bag_effect_interval_ : ndarray of shape (2,)
        95% interval of the estimate; NaN if there was none.
    looks_ : float
        1 if the likelihood of noisy counts is that of classes that keep their look, 0 otherwise.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.
    empirical_prior_ : ndarray of shape (n_classes,)
        Share of each class among all instances of training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any that are texts.

    Examples
    --------
    >>> from unbag import LLPLinearClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LLPLinearClassifier().fit(data.X, data.y)
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
        class_prior: Any = "balanced",
        device: str | None = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.objective = objective
        self.bag_effect = bag_effect
        self.class_prior = class_prior
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


@as_in(LLPLinearClassifier)
class LLPLinearClassifierCV(LinearClassifier):
    """`LLPLinearClassifier` that chooses its penalty from the bags.

    Up to 32 bags of two classes tell little of a penalty. By the likelihood of counts, one is then
    chosen that also gives scores a spread such as log-odds usually have (docs/how-it-works.md).
    That asks for columns of about the same scale.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1 to 1e-5.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        "pooled" chooses by what the objective is for all out-of-fold scores together; "folds" by
        its mean over folds, as the paper does. For the objective "likelihood" there are two
        criteria, itself and the forward likelihood, and the sum of their ranks decides, or in few
        bags their mean and the usual spread.
    store_folds : bool, default=False
        Whether to keep ``folds_``, by which `unbag.evaluation.evaluate_cv` tells how good the
        model is without fitting anything again.
    fit_intercept, objective, bag_effect : as in LLPLinearClassifier
    class_prior, device : as in LLPLinearClassifier
    tol, max_iter, verbose : as in LLPLinearClassifier

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
    folds_ : SearchFolds or None
        Scores of all rows by the model of every fold, its penalty chosen by the other folds; only
        with ``store_folds``, and not saved with the model.
    coef_, intercept_, classes_, class_prior_, objective_, bag_effect_ : as in LLPLinearClassifier
    bag_effect_interval_, looks_, n_iter_, converged_, empirical_prior_ : as in LLPLinearClassifier
    n_features_in_, feature_names_in_ : as in LLPLinearClassifier

    Examples
    --------
    >>> from unbag import LLPLinearClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LLPLinearClassifierCV().fit(data.X, data.y)
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
        class_prior: Any = "balanced",
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
        self.class_prior = class_prior
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
