"""Kernel classifiers trained on the corrected risk: the paper's method, batched."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from sklearn.utils import Tags

from unbag.arrays import on_device, to_host
from unbag.kernel_features import KernelFeatures, choose_approximation, make_features
from unbag.kernels import check_kernel_memory, make_kernel
from unbag.models.base import FitMixin, ObjectiveClassifier, SearchMixin
from unbag.models.corrected import CorrectedRiskClassifier
from unbag.solvers import FunctionSpace, KernelSpace, LinearSpace

_PRECISIONS = {"single": np.float32, "double": np.float64}


class KernelModel(ObjectiveClassifier):
    """f(x) = Σ_j α_j k(x, x_j) over the training instances, or an approximation with fewer terms.

    An approximation is trained as a linear model on features (`unbag.kernel_features`).
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    precision: Any
    device: Any = None
    approximation: Any = None
    n_components: Any = None
    random_state: Any = None

    # what theta are coefficients of, while a fit is under way
    _features: KernelFeatures | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _make_space(self, X: NDArray[Any], n_outputs: int) -> FunctionSpace:
        if self.precision not in _PRECISIONS:
            raise ValueError(f"precision must be 'single' or 'double', not {self.precision!r}.")
        dtype = np.dtype(_PRECISIONS[self.precision])
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
        n, there = X.shape[0], on_device(X[:0], self.device)
        self.approximation_ = choose_approximation(
            self.approximation, self.kernel, n, dtype.itemsize, there
        )
        if self.approximation_ is None:
            check_kernel_memory(n, dtype.itemsize, there)
            self._features, self._kernel = None, kernel
            self._instances = None if self.kernel == "precomputed" else X
            rows = on_device(X, self.device)
            return KernelSpace(
                kernel.matrix(rows, getattr(array_namespace(rows), dtype.name)), n_outputs
            )
        features = make_features(
            self.approximation_, kernel, X, self.n_components, self.random_state
        )
        self._features, self._kernel, self._instances = features, features.basis, features.points
        return LinearSpace(features.matrix(X, dtype, self.device), n_outputs, fit_intercept=False)

    def _store(self, theta: NDArray[Any], n_outputs: int) -> None:
        coef = theta.astype(np.float64).reshape(n_outputs, -1)
        self.dual_coef_ = coef if self._features is None else self._features.coefficients(coef)
        del self._features

    def _scores(self, X: NDArray[Any]) -> NDArray[Any]:
        instances = self._instances
        if instances is not None:
            instances = on_device(instances, self.device)
        X, coef = on_device(X, self.device), on_device(self.dual_coef_, self.device)
        return to_host(self._kernel.expand(X, instances, coef))


class KernelMCMClassifier(KernelModel, CorrectedRiskClassifier, FitMixin):
    r"""Kernel classifier trained from the class proportions of bags.

    Minimises over the RKHS of the kernel

        R(f) + μL(f) + α‖f‖²,

    where R is the corrected risk, an unbiased estimate, from bags alone, of the risk that labels
    would give (:mod:`unbag.risk`), and L the negative log-likelihood of the counts of the bags
    per instance (:mod:`unbag.likelihood`), which tells more about small bags. The search starts
    at f = 0: the same data give the same model.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the penalty, λ in the paper.
    kernel : {"rbf", "linear", "poly", "precomputed"}, default="rbf"
        Kernel; with "precomputed", X is the kernel matrix.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)) as in the paper, "wide" half
        of that, which was more accurate (docs/beyond-the-paper.md), and "auto" 1/d.
    degree, coef0 : int, default=3, and float, default=1.0
        Of the polynomial kernel.
    objective : {"auto", "combined", "corrected", "likelihood"}, default="auto"
        R + μL, R alone (the paper's) or L alone. "auto" is "combined" if the counts vary at most
        ten times as much as coin tosses would, for two classes, exact proportions and the logistic
        loss; otherwise "corrected", since L needs these and says little beyond R in large bags of
        very different proportions.
    likelihood_weight : "auto" or float, default="auto"
        μ; by default the number of instances for each labelled row that their bags are worth.
    weights : {"least_squares", "pairs"}, default="least_squares"
        How bags are weighed: by least squares over all of them, or in the paper's pairs.
    bag_model : {"instances", "bags"}, default="instances"
        Whether instances of a bag are independent (a large bag tells more) or may depend on
        each other (each bag counts the same).
    merge : {None, "blockwise_pairwise", "blockwise_max"}, default=None
        Whether small bags are merged into large ones first.
    merge_size : int, optional
        How many bags make a large one.
    loss : str, default="logistic"
        A name in `unbag.losses.LOSSES`.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts: equally (balanced error), by its share (accuracy), or given.
    training_prior : {"auto", "pooled", "same"}, default="auto"
        Class shares at which R is minimised: those of all bags together, from which scores are
        then moved to ``class_prior`` by the log-odds, or ``class_prior`` itself. "pooled" makes R
        convex, is faster and was more accurate; "auto" takes it for the logistic loss and the
        weights of least squares, unless there are labels only.
    correction : {"nonnegative", "none"}, default="nonnegative"
        Whether class risks are kept from turning negative, which is how flexible models overfit.
    approximation : {"auto", "nystroem", "fourier"} or None, default="auto"
        None computes the whole kernel matrix, with time and memory that grow with the square of
        the number of instances. "nystroem" takes the functions that some instances span,
        landmarks chosen by k-means++, and "fourier" random waves (for "rbf" only, and less
        accurate): time and memory are linear. "auto" is None while the matrix takes at most a
        quarter of the memory and, but on a GPU, at most 1.6 GB (20,000 instances in single
        precision); then "nystroem".
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
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        The prior the model was trained for.
    objective_ : str
        What was minimised.
    approximation_ : {"nystroem", "fourier"} or None
        What was used.
    dual_coef_ : ndarray of shape (n_outputs, n_instances) or (n_outputs, n_components)
        One row of coefficients for two classes, one per class for more; of the instances, the
        landmarks, or the waves.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> from unbag import KernelMCMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = KernelMCMClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        objective: str = "auto",
        likelihood_weight: str | float = "auto",
        weights: str = "least_squares",
        bag_model: str = "instances",
        merge: str | None = None,
        merge_size: int | None = None,
        loss: str = "logistic",
        class_prior: Any = "balanced",
        training_prior: str = "auto",
        correction: str = "nonnegative",
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
        self.likelihood_weight = likelihood_weight
        self.weights = weights
        self.bag_model = bag_model
        self.merge = merge
        self.merge_size = merge_size
        self.loss = loss
        self.class_prior = class_prior
        self.training_prior = training_prior
        self.correction = correction
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state
        self.precision = precision
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class KernelMCMClassifierCV(KernelModel, CorrectedRiskClassifier, SearchMixin):
    """`KernelMCMClassifier` that chooses its penalty from the bags.

    All penalties on all folds, and on all bags, are fitted together: one kernel matrix (or one
    table of features), one product per iteration for all of them.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1 to 1e-5.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        "pooled" chooses by the corrected risk of all out-of-fold scores together, with the
        weights of all bags; "folds" by its mean over folds, as the paper does. (For the objective
        "likelihood" it is the likelihood instead.)
    kernel, gamma, degree, coef0, objective, likelihood_weight, weights, bag_model, merge, \
merge_size, loss, class_prior, training_prior, correction, approximation, n_components, \
random_state, precision, device, tol, max_iter, verbose
        As in `KernelMCMClassifier`.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray of shape (n_alphas,)
        All of them, in falling order.
    selection_risks_ : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        The criterion that was minimised.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each instance by the model that did not see its bag, at the chosen penalty.
        None if the folds do not hold out every bag exactly once.
    approximation_, dual_coef_, classes_, class_prior_, objective_, n_iter_, converged_
        As in `KernelMCMClassifier`.

    Examples
    --------
    >>> from unbag import KernelMCMClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.metrics import roc_auc_score
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = KernelMCMClassifierCV().fit(data.X, data.y)
    >>> label_free = roc_auc_score(data.y, model.out_of_fold_scores_)
    >>> bool(0.8 < label_free < 1.0)
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
        degree: int = 3,
        coef0: float = 1.0,
        objective: str = "auto",
        likelihood_weight: str | float = "auto",
        weights: str = "least_squares",
        bag_model: str = "instances",
        merge: str | None = None,
        merge_size: int | None = None,
        loss: str = "logistic",
        class_prior: Any = "balanced",
        training_prior: str = "auto",
        correction: str = "nonnegative",
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.objective = objective
        self.likelihood_weight = likelihood_weight
        self.weights = weights
        self.bag_model = bag_model
        self.merge = merge
        self.merge_size = merge_size
        self.loss = loss
        self.class_prior = class_prior
        self.training_prior = training_prior
        self.correction = correction
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state
        self.precision = precision
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
