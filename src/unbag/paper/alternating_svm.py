"""Alternating support vector machines (alter-∝SVM): labels imputed bag by bag.

F. X. Yu, D. Liu, S. Kumar, T. Jebara and S.-F. Chang (2013), "∝SVM for learning with label
proportions", ICML. One of the two methods that the paper compares itself with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from unbag._arrays import Floats, Ints
from unbag._checks import check_count, check_positive
from unbag._progress import progress_bar
from unbag.bags.bags import Bags
from unbag.model_selection.splitters import check_cv
from unbag.models.checks import check_grid
from unbag.paper.alternating import Machines, Schedule, count_positives, expected_positives
from unbag.paper.kernel_machine import KernelMachine, cut_by_trainable_folds
from unbag.paper.kernels import Kernel, check_kernel_memory
from unbag.paper.minimisation import warn_not_converged

# Bytes per entry of the kernel matrix itself.
_MATRIX_BYTES = 8


class AlternatingModel(KernelMachine):
    """Fits and predictions for given parameters; a choice among several comes on top."""

    n_init: Any
    random_state: Any

    _steps = "alternations"

    def _schedule(self) -> Schedule:
        check_positive(self.tol, "tol")
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        max_iter = check_count(self.max_iter, "max_iter")
        n_init = check_count(self.n_init, "n_init")
        return Schedule(float(self.tol), max_iter, n_init, int(seed))

    def _order(self, X: NDArray[Any], bags: Bags) -> Ints:
        """Order of rows that does not depend on the one they came in: by bag, then by feature."""
        if self.kernel == "precomputed":
            return np.arange(bags.n_instances)
        return np.lexsort((*X.T[::-1], bags.index))

    def _refit(
        self, X: NDArray[Any], bags: Bags, kernel: Kernel, C: float, C_bag: float, plan: Schedule
    ) -> None:
        order = self._order(X, bags)
        K = _matrix(kernel, X, order)
        sorted_bags = replace(bags, index=bags.index[order])
        end = plan.minimise(Machines(K), sorted_bags, C, C_bag, self.verbose)
        coef, labels = np.zeros(len(order)), np.zeros(len(order), dtype=bool)
        coef[order], labels[order] = end.machine.coef, end.labels
        self.kernel_ = kernel
        self.support_ = np.flatnonzero(coef)
        self.points_ = None if self.kernel == "precomputed" else X[self.support_]
        self.dual_coef_ = coef[None, self.support_]
        self.intercept_ = np.array([end.machine.intercept])
        self.labels_ = self.classes_[labels.astype(np.intp)]
        self.objective_value_ = end.objectives[-1]
        self.n_iter_ = end.n_iter
        self.converged_ = end.converged

    def _scores(self, X: NDArray[Any]) -> NDArray[Any]:
        if self.kernel == "precomputed":
            X = X[:, self.support_]
        return super()._scores(X)


def _matrix(kernel: Kernel, X: NDArray[Any], order: Ints) -> Floats:
    if kernel.name == "precomputed":
        return np.ascontiguousarray(X, dtype=np.float64)
    return kernel.matrix(X[order], np.float64)


class AlternatingSVMClassifier(AlternatingModel):
    r"""Support vector machine whose labels are imputed: alter-∝SVM.

    Minimises over the classifier f = ⟨w, φ(x)⟩ + b and the unknown labels y

        ½‖w‖² + C Σ_j hinge(y_j, f_j) + C_bag Σ_k n_k |p̃_k(y) − p_k|,

    where p_k is the known proportion of bag k and p̃_k(y) that of the labels. It alternates
    between a support vector machine for given labels and the best labels for given scores, both
    exact; but the problem is not convex, and where it ends depends on the random labels it
    starts from. C is annealed: C* goes from 1.5e-4·C up to C by factors of 1.5, each from where
    the one before it ended. This is a published method to compare with [1]_;
    `LMMCMClassifier` needs no luck.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge loss.
    C_bag : float, default=10.0
        Weight of the proportions, C_p in the paper. Once it exceeds C(1 + max|f|), every bag
        gets the known number of positives, and a larger value changes nothing.
    kernel : {"rbf", "linear", "precomputed"}, default="rbf"
        Kernel; with "precomputed", X is the kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf": "scale" is 1/(d·Var(X)), "auto" 1/d.
    n_init : int, default=1
        Number of random starts, of which the lowest objective is kept. Yu et al. took ten, the
        paper one.
    random_state : int, RandomState or None, default=0
        Of the starts. The order of rows does not matter, except for a precomputed kernel.
    tol : float, default=1e-2
        Alternation at one C* ends when the objective moves by less.
    max_iter : int, default=100
        Alternations at one C* after which it is left, with a ConvergenceWarning at the last.
    verbose : int, default=0
        Whether to show a progress bar over the C* of each start.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes.
    labels_ : ndarray of shape (n_instances,)
        The imputed labels: the best ones for the final scores.
    objective_value_ : float
        What was minimised, at these labels and scores.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors. There are none if all labels came out equal: the score is
        then constant, with the sign of that class.
    kernel_, points_, dual_coef_ : as in `LMMCMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`
    intercept_ : ndarray of shape (1,)
        b.
    n_iter_ : int
        Alternations at all C* together.
    converged_ : bool
        Whether the objective settled at C* = C.

    Notes
    -----
    The authors' program starts from labels of which half are positive, whatever the proportions;
    here every bag starts with the known number of positives. It also leaves LIBSVM's precision
    at 1e-3 for all C*, which is coarser than the scores themselves while C* is small; here the
    precision follows C*, which takes fewer alternations and ends in lower minima.

    References
    ----------
    .. [1] F. X. Yu, D. Liu, S. Kumar, T. Jebara and S.-F. Chang (2013). ∝SVM for learning with
       label proportions. ICML.

    Examples
    --------
    >>> from unbag.paper import AlternatingSVMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=20, random_state=0)
    >>> model = AlternatingSVMClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        C_bag: float = 10.0,
        *,
        kernel: str = "rbf",
        gamma: str | float = "scale",
        n_init: int = 1,
        random_state: Any = 0,
        tol: float = 1e-2,
        max_iter: int = 100,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.C_bag = C_bag
        self.kernel = kernel
        self.gamma = gamma
        self.n_init = n_init
        self.random_state = random_state
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        check_positive(self.C, "C")
        check_positive(self.C_bag, "C_bag")
        plan = self._schedule()
        kernel = self._make_kernel(self.gamma, X)
        check_kernel_memory(bags.n_instances, _MATRIX_BYTES)
        self._refit(X, bags, kernel, float(self.C), float(self.C_bag), plan)
        warn_not_converged(int(not self.converged_), 1, self.max_iter, self._steps)
        return self


class AlternatingSVMClassifierCV(AlternatingModel):
    """`AlternatingSVMClassifier` that chooses C, C_bag and gamma from the bags.

    The choice has the smallest error of the proportions of held-out bags,

        Σ_k n_k |share of f > 0 in bag k − p_k| / Σ_k n_k

    over the bags k of all folds, each with the f that did not see it. Of equal errors the
    smallest gamma is taken, then the smallest C, then the smallest C_bag. The kernel matrix of
    a gamma is shared by all folds, and fits that differ in C_bag alone share their machines for
    as long as their labels agree.

    Parameters
    ----------
    Cs : array-like, default=(0.1, 1, 10)
        Values of C to choose from; the default is the paper's grid.
    C_bags : array-like, default=(1, 10, 100)
        Values of C_bag to choose from.
    gammas : array-like, default=(0.01, 0.1, 1)
        Values of gamma to choose from, numbers or "scale" and "auto". The kernels "linear" and
        "precomputed" have none, and are tried once.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    kernel, n_init, random_state, tol, max_iter, verbose : as in `AlternatingSVMClassifier`

    Attributes
    ----------
    C_, C_bag_, gamma_ : float
        The chosen values; ``gamma_`` is None for a kernel without one.
    Cs_, C_bags_, gammas_ : ndarray
        Values there were to choose from, in rising order.
    bag_errors_ : ndarray of shape (n_Cs, n_C_bags, n_gammas)
        The errors, in the order of ``Cs_``, ``C_bags_`` and ``gammas_``.
    out_of_fold_scores_ : ndarray of shape (n_instances,)
        Scores of each instance by the model that did not see its bag, for the chosen ones. None
        if the folds do not hold out every bag exactly once.
    classes_, labels_, objective_value_, support_, kernel_, points_ : as in `AlternatingSVMClassifier`
    dual_coef_, intercept_, n_iter_, converged_ : as in `AlternatingSVMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`

    Examples
    --------
    >>> from unbag.paper import AlternatingSVMClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=20, bag_size=10, random_state=0)
    >>> model = AlternatingSVMClassifierCV([0.1, 1], [10], gammas=[0.1, 1]).fit(data.X, data.y)
    >>> model.bag_errors_.shape
    (2, 1, 2)
    """

    def __init__(
        self,
        Cs: Any = (0.1, 1, 10),
        C_bags: Any = (1, 10, 100),
        *,
        gammas: Any = (0.01, 0.1, 1),
        cv: Any = 5,
        kernel: str = "rbf",
        n_init: int = 1,
        random_state: Any = 0,
        tol: float = 1e-2,
        max_iter: int = 100,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.C_bags = C_bags
        self.gammas = gammas
        self.cv = cv
        self.kernel = kernel
        self.n_init = n_init
        self.random_state = random_state
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        self.Cs_, self.C_bags_ = check_grid(self.Cs, "Cs"), check_grid(self.C_bags, "C_bags")
        kernels = self._make_kernels(self.gammas, X)
        plan = self._schedule()
        pieces, held = cut_by_trainable_folds(bags, check_cv(self.cv, X, np.asarray(y)))
        order = self._order(X, bags)
        pieces = replace(pieces, index=pieces.index[order])
        folds = [_Fold(*pieces.take(~out), *pieces.take(out)) for out in held]
        # of all instances and of a fold
        check_kernel_memory(bags.n_instances, 2 * _MATRIX_BYTES)

        shape = (len(kernels), len(self.Cs_), len(folds), len(self.C_bags_))
        results = np.empty(shape, dtype=object)
        size = int(np.prod(shape))
        with progress_bar(total=size, desc="fitting", unit="fit", verbose=self.verbose) as bar:
            for k, kernel in enumerate(kernels):
                K = _matrix(kernel, X, order)
                for place in np.ndindex(shape[1:3]):
                    C, fold = float(self.Cs_[place[0]]), folds[place[1]]
                    results[k, *place] = _fit_fold(K, fold, C, self.C_bags_, plan)
                    bar.update(shape[-1])
        off = np.vectorize(lambda fit: fit.off, otypes=[float])(results)
        n_held = sum(len(fold.out_rows) for fold in folds)
        errors = off.sum(axis=2) / n_held
        # sums of the same numbers may differ by rounding, which should not decide
        width, of_C, of_bag = np.unravel_index(np.round(errors, 12).argmin(), errors.shape)
        self.bag_errors_ = np.moveaxis(errors, 0, -1)
        kernel = kernels[width]
        self._keep_widths(kernels, int(width))
        self.C_, self.C_bag_ = float(self.Cs_[of_C]), float(self.C_bags_[of_bag])
        self.out_of_fold_scores_ = None
        if (held.sum(axis=0) == 1).all():
            self.out_of_fold_scores_ = np.empty(bags.n_instances)
            for fold, fit in zip(folds, results[width, of_C, :, of_bag], strict=True):
                self.out_of_fold_scores_[order[fold.out_rows]] = fit.scores
        self._refit(X, bags, kernel, self.C_, self.C_bag_, plan)
        n_failed = sum(not fit.converged for fit in results.flat) + (not self.converged_)
        warn_not_converged(n_failed, results.size + 1, self.max_iter, self._steps)
        return self


@dataclass(frozen=True, eq=False)
class _Fold:
    """Bags to train on and bags held out, with their rows."""

    bags: Bags
    rows: Ints
    out_bags: Bags
    out_rows: Ints


@dataclass(frozen=True, eq=False)
class _FoldFit:
    """Scores of held-out instances, and Σ n_k |predicted − given proportion| of their bags."""

    scores: Floats
    off: float
    converged: bool


def _fit_fold(K: Floats, fold: _Fold, C: float, C_bags: Floats, plan: Schedule) -> list[_FoldFit]:
    """Fit all C_bags on one fold."""
    machines = Machines(K[np.ix_(fold.rows, fold.rows)], remember=len(C_bags) > 1)
    fits = []
    for C_bag in C_bags:
        end = plan.minimise(machines, fold.bags, float(C), float(C_bag))
        coef = end.machine.coef
        support = np.flatnonzero(coef)
        scores = K[np.ix_(fold.out_rows, fold.rows[support])] @ coef[support]
        scores += end.machine.intercept
        predicted = count_positives(scores > 0, fold.out_bags)
        off = float(np.abs(predicted - expected_positives(fold.out_bags)).sum())
        fits.append(_FoldFit(scores, off, end.converged))
    return fits
