"""Kernel classifiers trained on the corrected risk: the paper's method, batched."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from sklearn.utils import Tags

from unbag.arrays import on_device
from unbag.kernels import check_kernel_memory, make_kernel
from unbag.losses import to_host
from unbag.models.base import FitMixin, ObjectiveClassifier, SearchMixin
from unbag.models.corrected import CorrectedRiskClassifier
from unbag.solvers import FunctionSpace, KernelSpace

_PRECISIONS = {"single": np.float32, "double": np.float64}


class KernelModel(ObjectiveClassifier):
    """f(x) = Σ_j α_j k(x, x_j) over the training instances."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    precision: Any
    device: Any = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _make_space(self, X: NDArray[Any], n_outputs: int) -> FunctionSpace:
        if self.precision not in _PRECISIONS:
            raise ValueError(f"precision must be 'single' or 'double', not {self.precision!r}.")
        dtype = np.dtype(_PRECISIONS[self.precision])
        self._kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
        check_kernel_memory(X.shape[0], dtype.itemsize)
        self._instances = None if self.kernel == "precomputed" else X
        rows = on_device(X, self.device)
        return KernelSpace(
            self._kernel.matrix(rows, getattr(array_namespace(rows), dtype.name)), n_outputs
        )

    def _store(self, theta: NDArray[Any], n_outputs: int) -> None:
        self.dual_coef_ = theta.astype(np.float64).reshape(n_outputs, -1)

    def _scores(self, X: NDArray[Any]) -> NDArray[Any]:
        X, instances, coef = (
            on_device(rows, self.device) for rows in (X, self._instances, self.dual_coef_)
        )
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
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf" and factor of "poly": "scale" is 1/(d·Var(X)) as in the paper, "auto" 1/d.
    degree, coef0 : int, default=3, and float, default=1.0
        Of the polynomial kernel.
    objective : {"auto", "combined", "corrected", "likelihood"}, default="auto"
        R + μL, R alone (the paper's) or L alone. "auto" is "combined" for two classes, exact
        proportions and the logistic loss, otherwise "corrected", since L needs all of these.
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
    correction : {"nonnegative", "none"}, default="nonnegative"
        Whether class risks are kept from turning negative, which is how flexible models overfit.
    precision : {"single", "double"}, default="single"
        Of the kernel matrix in training and its products; sums, and all of prediction, are in
        double precision always.
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
    dual_coef_ : ndarray of shape (n_outputs, n_instances)
        One row of coefficients for two classes, one per class for more.
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
        gamma: str | float = "scale",
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
        correction: str = "nonnegative",
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
        self.correction = correction
        self.precision = precision
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class KernelMCMClassifierCV(KernelModel, CorrectedRiskClassifier, SearchMixin):
    """`KernelMCMClassifier` that chooses its penalty from the bags.

    All penalties on all folds, and on all bags, are fitted together: one kernel matrix, one
    product per iteration for all of them.

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
merge_size, loss, class_prior, correction, precision, device, tol, max_iter, verbose
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
        gamma: str | float = "scale",
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
        correction: str = "nonnegative",
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
        self.correction = correction
        self.precision = precision
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
