"""Penalised minimisation of a risk of bags over linear functions or those of a kernel.

    R(f) + α‖f‖²

is minimised for every penalty α of a grid, on all bags and without those of each fold, as columns
of one batch (`unbag.solvers.minimise`): a held-out bag is a bag of weight zero. The penalty is
chosen by the risk of the held-out bags.

A classifier says what is minimised (`RiskClassifier._objective`); the search of a ``...CV`` form is
`RiskClassifierCV`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from unbag._arrays import Bools, Floats, to_host
from unbag._checks import check_choice, check_count, check_positive
from unbag._outputs import by_instance
from unbag._progress import column_progress
from unbag._text import counted, plural
from unbag.bags.bags import Bags
from unbag.kernels.approximations import choose_approximation, make_kernel_features
from unbag.kernels.matrices import Kernel, check_kernel_memory, make_kernel, row_blocks
from unbag.kernels.rows import RowsInMemory, SparseRows, as_dense
from unbag.model_selection.splitters import check_cv, cut_by_folds, naming_fold
from unbag.models.base import BagClassifier, linear_scores
from unbag.models.checks import check_alphas
from unbag.models.threads import few_blas_threads
from unbag.observations.base import Criterion, Objective
from unbag.observations.losses import ClassLoss, get_loss
from unbag.solvers.centred import CentredSpace
from unbag.solvers.lbfgs import minimise
from unbag.solvers.spaces import FunctionSpace, KernelSpace, LinearSpace

Selection = Literal["pooled", "folds"]

_PRECISIONS = {"single": np.float32, "double": np.float64}

# Landmarks where the kernel matrix would be too large and none are asked for.
_LANDMARKS = 1000

# Scores of one batch: of more, one group of penalties is solved after the other.
_BATCH_SCORES = 2**22

# Criteria count as equal if they differ by less than so many times the solver's tolerance.
_EQUAL = 10.0


# --- functions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelParams:
    """Settings of a kernel that are seldom changed.

    Attributes
    ----------
    degree : int
        Degree of the kernel "poly".
    coef0 : float
        Constant of the kernel "poly".
    n_landmarks : int, None or "auto"
        Nyström landmarks; None for the exact kernel matrix; "auto" for the exact matrix up to
        1.6 GB and 1,000 landmarks beyond.
    random_state : int, RandomState or None
        Draws the landmarks.
    precision : {"single", "double"}
        Of the kernel matrix in training.
    """

    degree: int = 3
    coef0: float = 1.0
    n_landmarks: Any = "auto"
    random_state: Any = 0
    precision: str = "single"

    @classmethod
    def of(cls, settings: Any) -> Self:
        """Read a dictionary, or None for the defaults."""
        try:
            found = cls(**(settings or {}))
        except TypeError:
            names = ", ".join(cls.__dataclass_fields__)
            raise ValueError(
                f"kernel_params must be a dictionary of {names}, not {settings!r}."
            ) from None
        check_choice(found.precision, _PRECISIONS, "precision")
        return found


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions f(x) = Σ_j c_j b_j(x) + a, with c = Tw for the coefficients w of ``space``.

    Attributes
    ----------
    space : FunctionSpace
        The functions on the training instances.
    intercept : bool
        Whether a is a coefficient, the last one of each output; it is not penalised.
    kernel : Kernel or None
        b_j(x) = k(x, z_j); None stands for the features themselves.
    points : ndarray of shape (n_points, n_features) or None
        The z_j; None for a kernel matrix that was given.
    transform : ndarray of shape (n_points, n_coefficients) or None
        T; None stands for the identity.
    shift : ndarray of shape (n_coefficients + 1,) or None
        How a depends on the coefficients of a centred space.
    """

    space: FunctionSpace
    intercept: bool
    kernel: Kernel | None = None
    points: NDArray[Any] | None = None
    transform: Floats | None = None
    shift: Floats | None = None

    def read(self, theta: NDArray[Any], n_outputs: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Coefficients c (outputs, points) and intercepts a (outputs,)."""
        rows = theta.reshape(n_outputs, -1)
        if not self.intercept:
            w, constant = rows, np.zeros(n_outputs, dtype=rows.dtype)
        else:
            w, constant = rows[:, :-1], rows[:, -1].copy()
            if self.shift is not None:
                constant = (constant + rows @ self.shift).astype(rows.dtype)
        return w.copy() if self.transform is None else w @ self.transform.T, constant


def linear_functions(X: Any, n_outputs: int) -> Functions:
    """f(x) = xᵀw + a."""
    return Functions(LinearSpace(X, n_outputs, fit_intercept=True), intercept=True)


def kernel_functions(
    X: Any, n_outputs: int, kernel: str, gamma: Any, params: KernelParams, intercept: bool
) -> Functions:
    """Functions of the RKHS of a kernel, or those that landmarks span; with or without a."""
    dtype = np.dtype(_PRECISIONS[params.precision])
    rows = SparseRows(X) if issparse(X) else RowsInMemory(X)
    k = make_kernel(kernel, gamma, params.degree, params.coef0, rows)
    landmarks, wanted = params.n_landmarks, params.n_landmarks
    if landmarks is not None:
        wanted = "auto" if landmarks == "auto" else "nystroem"
    approximation = choose_approximation(wanted, kernel, X.shape[0], dtype.itemsize, np.empty(0))
    if approximation is None and not issparse(X):
        check_kernel_memory(X.shape[0], dtype.itemsize)
        space = KernelSpace(k.matrix(X, dtype.type), n_outputs, intercept)
        points = None if kernel == "precomputed" else X
        if not intercept:
            return Functions(space, intercept, k, points)
        centred = CentredSpace(space)
        return Functions(centred, intercept, k, points, shift=centred.shift)
    m = _LANDMARKS if landmarks == "auto" else landmarks
    features = make_kernel_features("nystroem", k, rows, m, params.random_state)
    linear = LinearSpace(features.matrix(X, dtype), n_outputs, intercept)
    return Functions(linear, intercept, k, features.points, features.transform)


# --- fits of a grid of penalties ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PenaltyFits:
    """Fits for every penalty, on all bags and without those of each fold.

    Attributes
    ----------
    bags : Bags
    held : ndarray of bool, shape (n_folds, n_bags)
        Bags that each fold holds out.
    theta : ndarray of shape (n_penalties, n_folds + 1, n_coefficients)
        Solutions; those on all bags come first.
    n_iter, converged : ndarray of shape (n_penalties, n_folds + 1)
    held_out : list of ndarray of shape (n_penalties, n_outputs, n_held_out)
        Scores of the instances that each fold holds out.
    """

    bags: Bags
    held: Bools
    theta: NDArray[Any]
    n_iter: NDArray[np.int64]
    converged: Bools
    held_out: list[NDArray[Any]]

    def risks(self, criterion: Callable[[Bags], Criterion], selection: str) -> Floats:
        """Risk of held-out bags by penalty, over all folds together or (folds, penalties).

        Parameters
        ----------
        criterion : callable
            From bags to their risk; a ValueError for bags from which it cannot be estimated.
        selection : {"pooled", "folds"}
        """
        if selection == "pooled":
            risk = criterion(self.bags)
            return np.concatenate(
                [_values(risk, self.pooled(p)[None]) for p in range(len(self.theta))]
            )
        found, silent = [], []
        for number, (out, scores) in enumerate(zip(self.held, self.held_out, strict=True)):
            try:
                risk = criterion(self.bags.take(out)[0])
            except ValueError:
                silent.append(number + 1)
            else:
                found.append(_values(risk, scores.astype(float)))
        if not found:
            raise ValueError(
                "In no fold do the held-out bags differ in proportion, so selection='folds' has no "
                "criterion; use selection='pooled' or fewer folds."
            )
        if silent:
            warnings.warn(
                f"The held-out bags of {plural(len(silent), 'fold')} {silent} all have the same "
                "proportion and say nothing about any alpha; the choice rests on the other folds. "
                "selection='pooled' uses all.",
                UserWarning,
                stacklevel=2,
            )
        return np.array(found)

    def pooled(self, penalty: int) -> Floats:
        """Out-of-fold scores (outputs, instances), if each bag is held out once."""
        scores = np.empty((self.held_out[0].shape[1], self.bags.n_instances))
        for out, found in zip(self.held, self.held_out, strict=True):
            scores[:, out[self.bags.index]] = found[penalty]
        return scores

    def out_of_fold_scores(self, penalty: int) -> Floats | None:
        """Scores by instance of the models that did not see its bag; None if there are several."""
        once = bool((self.held.sum(axis=0) == 1).all())
        return by_instance(self.pooled(penalty)) if once else None


def fit_penalties(
    objective: Objective,
    space: FunctionSpace,
    bags: Bags,
    held: Bools,
    penalties: Floats,
    *,
    tol: float,
    max_iter: int,
    verbose: int = 0,
    start: NDArray[Any] | None = None,
) -> PenaltyFits:
    """Minimise an objective of all bags and of those without each fold, for every penalty.

    Parameters
    ----------
    objective : Objective
        Its problems are all bags, then those without each fold.
    space : FunctionSpace
    bags : Bags
    held : ndarray of bool, shape (n_folds, n_bags)
        Bags that each fold holds out.
    penalties : ndarray of shape (n_penalties,)
    tol, max_iter, verbose
        Of the solver.
    start : ndarray of shape (n_penalties, n_folds + 1, n_coefficients), optional
        Where to start from, by default zero.
    """
    n_problems = len(held) + 1
    rows = [np.flatnonzero(out[bags.index]) for out in held]
    size = max(1, _BATCH_SCORES // (bags.n_instances * objective.n_outputs * n_problems))
    theta, n_iter, converged = [], [], []
    held_out: list[list[NDArray[Any]]] = [[] for _ in held]
    n_columns = len(penalties) * n_problems
    threads = few_blas_threads(bags.n_instances, space.n_coefficients)
    with threads, column_progress(n_columns, verbose) as progress:
        for first in range(0, len(penalties), size):
            batch = slice(first, first + size)
            penalty = np.repeat(penalties[batch], n_problems)
            part = minimise(
                objective,
                space,
                penalty,
                np.tile(np.arange(n_problems), len(penalty) // n_problems),
                tol=tol,
                max_iter=max_iter,
                callback=progress.of_batch(len(penalty)),
                start=None if start is None else start[batch].reshape(len(penalty), -1),
            )
            theta.append(part.theta)
            n_iter.append(part.n_iter)
            converged.append(part.converged)
            for fold, out in enumerate(rows):
                held_out[fold].append(part.scores[fold + 1 :: n_problems][:, :, out])
    shape = (len(penalties), n_problems)
    return PenaltyFits(
        bags,
        held,
        np.concatenate(theta).reshape(*shape, -1),
        np.concatenate(n_iter).reshape(shape),
        np.concatenate(converged).reshape(shape),
        [np.concatenate(parts) for parts in held_out],
    )


def weights_by_problem(bags: Bags, included: Bools, weights: Callable[[Bags], Floats]) -> Floats:
    """Weights (n_problems, n_bags, n_classes), each problem's from its own bags, zero elsewhere.

    The first problem has all bags, or is the only one; the others are folds, which an error names.
    """
    table = np.zeros((*included.shape, bags.n_classes))
    n_folds = len(included) - 1
    for number, (row, own) in enumerate(zip(table, included, strict=True)):
        with naming_fold(number - 1, n_folds) if number else nullcontext():
            row[own] = weights(bags if own.all() else bags.take(own)[0])
    return table


def _values(criterion: Criterion, scores: Floats) -> Floats:
    return criterion.value(scores, np.zeros(len(scores), dtype=np.intp))


def check_selection(selection: str, held: Bools) -> None:
    """Check the criterion by which penalties are chosen, and that these folds allow it."""
    check_choice(selection, get_args(Selection), "selection")
    if selection == "pooled" and not (held.sum(axis=0) == 1).all():
        raise ValueError(
            "selection='pooled' needs a cv that holds out every bag exactly once, such as "
            "unbag.BagKFold; with other splitters use selection='folds'."
        )


def choose_penalty(risks: Floats, tol: float) -> int:
    """Number of the strongest penalty whose risk is the lowest up to the solver's tolerance.

    Parameters
    ----------
    risks : ndarray of shape (n_penalties,) or (n_folds, n_penalties)
        Risk of held-out bags; the strongest penalty comes first.
    tol : float
        Tolerance of the solver.
    """
    mean = risks if risks.ndim == 1 else risks.mean(axis=0)
    if not np.isfinite(mean).all():
        raise FloatingPointError("The selection criterion is not finite for every alpha.")
    margin = _EQUAL * tol * (mean[0] - mean.min())
    return int(np.argmax(mean <= mean.min() + margin))


def warn_not_converged(
    n_failed: int, n_fits: int, max_iter: int, steps: str = "iterations"
) -> None:
    """Warn that some fits were given up after so many steps."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of {counted(n_fits, 'fit')} did not converge within max_iter={max_iter} "
            f"{steps}; raise max_iter or tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=3,
        )


# --- classifiers --------------------------------------------------------------------------------


def _gives_probabilities(estimator: Any) -> bool:
    if not get_loss(getattr(estimator, "loss", "logistic")).gives_probabilities:
        raise AttributeError(
            f"loss={estimator.loss!r} gives scores but no probabilities; use loss='logistic'."
        )
    return True


class RiskClassifier(BagClassifier):
    """A classifier that minimises a risk of bags plus α‖f‖², for one α."""

    alpha: Any
    kernel: Any
    gamma: Any
    kernel_params: Any
    tol: Any
    max_iter: Any
    verbose: Any

    # whether functions of a kernel have an intercept; linear ones always do
    _kernel_intercept: bool = False

    class_prior_: Floats
    _loss: ClassLoss

    @abstractmethod
    def _prepare(self, X: Any, bags: Bags) -> None:
        """Check the settings, and set ``_loss`` and ``class_prior_``."""

    @abstractmethod
    def _objective(self, bags: Bags, included: Bools, like: Any) -> Objective:
        """The risk of each problem's bags, ``included`` (n_problems, n_bags) of all."""

    def _criterion(self, bags: Bags) -> Criterion:
        """The risk of held-out bags, by which a penalty is chosen."""
        return self._objective(bags, np.ones((1, bags.n_bags), dtype=bool), None)

    @property
    def _accept_sparse(self) -> bool | str:  # type: ignore[override]
        exact = self.kernel == "precomputed" or (
            self.kernel != "linear" and KernelParams.of(self.kernel_params).n_landmarks is None
        )
        return False if exact else "csr"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_instances, n_features)
            Instances, one per row; sparse only if the model takes that.
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions; plain labels are pure bags.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        X, bags = self._check_Xy(X, y)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        self._prepare(X, bags)
        functions = self._functions(X, bags.n_classes)
        fits, best = self._train(functions.space, X, np.asarray(y), bags)
        self._store(functions, fits.theta[best, 0], bags.n_classes)
        self.n_iter_ = int(max(1, fits.n_iter[best, 0]))
        self.converged_ = bool(fits.converged[best, 0])
        n_failed = int((~fits.converged).sum())
        warn_not_converged(n_failed, fits.converged.size, self.max_iter)
        return self

    def _functions(self, X: Any, n_classes: int) -> Functions:
        n_outputs = self._loss.n_outputs(n_classes)
        if self.kernel == "linear":
            return linear_functions(X, n_outputs)
        params = KernelParams.of(self.kernel_params)
        intercept = self._kernel_intercept
        return kernel_functions(X, n_outputs, self.kernel, self.gamma, params, intercept)

    def _train(
        self, space: FunctionSpace, X: Any, y: NDArray[Any], bags: Bags
    ) -> tuple[PenaltyFits, int]:
        """Fit, and say which of the penalties is the model's."""
        del X, y
        alpha = np.array([check_positive(self.alpha, "alpha")])
        return self._fit_penalties(space, bags, np.zeros((0, bags.n_bags), dtype=bool), alpha), 0

    def _fit_penalties(
        self, space: FunctionSpace, bags: Bags, held: Bools, penalties: Floats
    ) -> PenaltyFits:
        included = np.vstack([np.ones((1, bags.n_bags), dtype=bool), ~held])
        objective = self._objective(bags, included, space.like)
        solver = {"tol": self.tol, "max_iter": int(self.max_iter), "verbose": self.verbose}
        return fit_penalties(objective, space, bags, held, penalties, **solver)

    def _store(self, functions: Functions, theta: NDArray[Any], n_classes: int) -> None:
        """Keep what prediction needs of a solution."""
        n_outputs = self._loss.n_outputs(n_classes)
        if functions.kernel is None:
            self.coef_, self.intercept_ = functions.read(theta, n_outputs)
            return
        self.kernel_, self.points_ = functions.kernel, functions.points
        self.dual_coef_, self.intercept_ = functions.read(theta.astype(np.float64), n_outputs)

    def _scores(self, X: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            return linear_scores(X, self.coef_, self.intercept_)
        sparse = bool(issparse(X))
        if sparse:
            blocks = [self._scores(as_dense(X[rows])) for rows in row_blocks(X.shape[0])]
            return np.concatenate(blocks, axis=1)
        scores = to_host(self.kernel_.expand(X, self.points_, self.dual_coef_))
        return scores + self.intercept_[:, None]

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any, class_prior: Any = None) -> Floats:
        """Probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances, one per row; a sparse matrix if the model is fitted to one.
        class_prior : {"empirical", "balanced"} or array-like, optional
            Class prior where the model is used; by default the one it was trained for,
            ``class_prior_``.

        Returns
        -------
        probabilities : ndarray of shape (n_instances, n_classes)
            Probability of each class, in the order of ``classes_``.
        """
        scores = self.decision_function(X).astype(float)
        return self._chances_at(self._loss.class_probabilities(scores), class_prior)


class RiskClassifierCV(RiskClassifier):
    """A classifier that minimises a risk of bags, its α chosen by the risk of held-out bags."""

    alphas: Any
    cv: Any
    selection: Any

    _default_alphas: Any = None

    def _train(
        self, space: FunctionSpace, X: Any, y: NDArray[Any], bags: Bags
    ) -> tuple[PenaltyFits, int]:
        self.alphas_ = check_alphas(self._default_alphas if self.alphas is None else self.alphas)
        pieces, held = cut_by_folds(bags, check_cv(self.cv, X, y))
        check_selection(self.selection, held)
        fits = self._fit_penalties(space, pieces, held, self.alphas_)
        self.selection_risks_ = fits.risks(self._criterion, self.selection)
        best = choose_penalty(self.selection_risks_, self.tol)
        self.alpha_ = float(self.alphas_[best])
        self.out_of_fold_scores_ = fits.out_of_fold_scores(best)
        return fits, best
