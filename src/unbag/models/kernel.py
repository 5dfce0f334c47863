"""Kernel classifiers trained from bags, batched."""

from __future__ import annotations

from typing import Any

from unbag._docstrings import as_in
from unbag.models.bag_goal import make_bag_goal
from unbag.models.linear import LLPLinearClassifier, LLPLinearClassifierCV
from unbag.models.minimising import KernelClassifier
from unbag.models.training import fit_alpha, search_alphas


@as_in(LLPLinearClassifier)
class LLPKernelClassifier(KernelClassifier):
    r"""Kernel classifier trained from the class proportions of bags.

    Minimises over functions f = g + b, with g in the RKHS of the kernel and b a constant,

        G(f) + α‖g‖²,

    where G is the negative log-likelihood of the counts of the bags per instance
    (:mod:`unbag.observations.count_likelihood`). It is right where classes keep their look, so that
    bags differ in how many of each class they hold, and where rows keep their odds, so that bags
    differ in who is in them; what bags differ by beyond that is a variance, ``bag_effect``. Other
    objectives take its place on request. The search starts at f = 0: the same data give the same
    model.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the penalty, λ in the paper.
    kernel : {"rbf", "linear", "poly", "precomputed"}, default="rbf"
        Kernel; with "precomputed", X is the kernel matrix.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)) as in the paper, "wide" half
        of that, which was more accurate (docs/beyond-the-paper.md), and "auto" 1/d.
    degree : int, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1.0
        Constant of the kernel "poly".
    objective : {"auto", "likelihood", "forward"}, default="auto"
        What is minimised. "likelihood": that of the counts, G. "forward": that of single rows
        whose labels were drawn with the shares of their bags as chances
        (:mod:`unbag.observations.forward`), which rests on label shift. "auto" is "likelihood",
        but "forward" if shares are not those of whole counts.
    bag_effect, class_prior : as in LLPLinearClassifier
    approximation : {"auto", "nystroem", "fourier"} or None, default="auto"
        None computes the whole kernel matrix, with time and memory that grow with the square of
        the number of instances. "nystroem" takes the functions that some instances span,
        landmarks chosen by k-means++, and "fourier" random waves (for "rbf" only, and less
        accurate): time and memory are linear. "auto" is None while the matrix takes at most a
        quarter of the memory and, but on a GPU, at most 1.6 GB (20,000 instances in single
        precision); then "nystroem", as for sparse X at any size.
    n_components : int, default=1000
        Number of landmarks or of random features. Not used by the exact kernel.
    random_state : int, RandomState or None, default=0
        Draws landmarks or waves; the default draws the same for the same data.
    precision : {"single", "double"}, default="single"
        Of the kernel matrix or features in training and their products; sums, and all of
        prediction, are in double precision always.
    device : str, optional
        Where to compute: None for NumPy, else a device of torch such as "cuda" or "cpu".
    tol : float, default=1e-3
        Converged when the gradient's norm is below this share of that at f = 0.
    max_iter, verbose : as in LLPLinearClassifier

    Attributes
    ----------
    classes_, class_prior_, objective_, bag_effect_ : as in LLPLinearClassifier
    bag_effect_interval_, looks_ : as in LLPLinearClassifier
    approximation_ : {"nystroem", "fourier"} or None
        What was used.
    kernel_ : Kernel
        k, with its width.
    points_ : ndarray of shape (n_points, n_features) or None
        The z_j of f(x) = Σ_j α_j k(x, z_j) + b: instances, landmarks or frequencies; None for a
        kernel matrix that was given.
    dual_coef_ : ndarray of shape (n_outputs, n_points)
        The α_j: one row for two classes, one per class for more. A frequency has two, of its
        cosine and its sine.
    intercept_ : ndarray of shape (n_outputs,)
        b.
    n_iter_, converged_, empirical_prior_, n_features_in_ : as in LLPLinearClassifier
    feature_names_in_ : as in LLPLinearClassifier

    Examples
    --------
    >>> from unbag import LLPKernelClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LLPKernelClassifier().fit(data.X, data.y)
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
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        objective: str = "auto",
        bag_effect: str | float = "auto",
        class_prior: Any = "balanced",
        approximation: str | None = "auto",
        n_components: int = 1000,
        random_state: Any = 0,
        precision: str = "single",
        device: str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.objective = objective
        self.bag_effect = bag_effect
        self.class_prior = class_prior
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state
        self.precision = precision
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


@as_in(LLPKernelClassifier, LLPLinearClassifierCV)
class LLPKernelClassifierCV(KernelClassifier):
    """`LLPKernelClassifier` that chooses its penalty from the bags.

    All penalties on all folds, and on all bags, are fitted together: one kernel matrix (or one
    table of features), one product per iteration for all of them.

    Up to 16 bags, of two classes and at most 4,096 instances in all, tell little of a penalty. By
    the likelihood of counts, one is then chosen that also gives scores a spread such as log-odds
    usually have, as linear models do (docs/how-it-works.md).

    Parameters
    ----------
    alphas, cv, selection, store_folds : as in LLPLinearClassifierCV
    kernel, gamma, degree, coef0, objective, bag_effect : as in LLPKernelClassifier
    class_prior : as in LLPKernelClassifier
    approximation, n_components, random_state, precision : as in LLPKernelClassifier
    device, tol, max_iter, verbose : as in LLPKernelClassifier

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_, folds_ : as in LLPLinearClassifierCV
    approximation_, kernel_, points_, dual_coef_, intercept_, classes_ : as in LLPKernelClassifier
    class_prior_, objective_, bag_effect_, bag_effect_interval_, looks_ : as in LLPKernelClassifier
    n_iter_, converged_, empirical_prior_, n_features_in_ : as in LLPKernelClassifier
    feature_names_in_ : as in LLPKernelClassifier

    Examples
    --------
    >>> from unbag import LLPKernelClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> from sklearn.metrics import roc_auc_score
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LLPKernelClassifierCV().fit(data.X, data.y)
    >>> auc = roc_auc_score(data.labels, model.out_of_fold_scores_)
    >>> bool(0.8 < auc < 1.0)
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
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        objective: str = "auto",
        bag_effect: str | float = "auto",
        class_prior: Any = "balanced",
        approximation: str | None = "auto",
        n_components: int = 1000,
        random_state: Any = 0,
        precision: str = "single",
        device: str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.store_folds = store_folds
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.objective = objective
        self.bag_effect = bag_effect
        self.class_prior = class_prior
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state
        self.precision = precision
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
