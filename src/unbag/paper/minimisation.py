"""Penalised minimisation of a risk of bags over linear functions or those of a kernel.

    R(f) + α‖f‖²

is minimised for every penalty α of a grid, on all bags and without those of each fold, as columns
of one batch (`unbag.paper.lbfgs.minimise`): a held-out bag is a bag of weight zero. The penalty is
chosen by the risk of the held-out bags.

A classifier says what is minimised (`RiskClassifier._objective`); `RiskClassifierCV` chooses α.
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
from sklearn.utils.metaestimators import available_if
from threadpoolctl import threadpool_limits

from unbag._arrays import FEW_NUMBERS, Bools, Floats
from unbag._checks import check_choice, check_count, check_grid, check_positive
from unbag._outputs import by_instance
from unbag._text import plural
from unbag.bags.bags import Bags
from unbag.model_selection.splitters import check_cv, cut_by_folds, naming_fold
from unbag.models.base import BagClassifier, linear_scores
from unbag.observations.losses import ClassLoss, get_loss
from unbag.paper.kernels import Kernel, check_kernel_memory, make_kernel, warn_not_converged
from unbag.paper.lbfgs import (
    Criterion,
    FunctionSpace,
    KernelSpace,
    LinearSpace,
    Objective,
    minimise,
)

Selection = Literal["pooled", "folds"]

# Fits that take steps together, as they share products with the kernel matrix.
_COLUMNS = 24

# Criteria count as equal if they differ by less than so many times the solver's tolerance.
_EQUAL = 10.0

# Half decades from 1 to 1e-5: the paper's grid, twice as fine.
DEFAULT_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(11))


# --- fits of a grid of penalties ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PenaltyFits:
    """Fits for every penalty, on all bags and without those of each fold.

    ``theta``, ``n_iter`` and ``converged`` run over penalties and problems, of which that on all
    bags comes first. ``held`` (n_folds, n_bags) has the bags that each fold holds out, ``held_out``
    the scores (n_penalties, n_outputs, n_held_out) of their instances, fold by fold.
    """

    bags: Bags
    held: Bools
    theta: NDArray[Any]
    n_iter: NDArray[np.int64]
    converged: Bools
    held_out: list[NDArray[Any]]

    def risks(self, criterion: Callable[[Bags], Criterion], selection: str) -> Floats:
        """Risk of held-out bags by penalty, over all folds together or (folds, penalties).

        The criterion raises a ValueError for bags from which it cannot be estimated.
        """
        if selection == "pooled":
            risk, scores = criterion(self.bags), map(self.pooled, range(len(self.theta)))
            return np.concatenate([_values(risk, found[None]) for found in scores])
        found, silent = [], []
        for number, (out, held_out) in enumerate(zip(self.held, self.held_out, strict=True)):
            try:
                risk = criterion(self.bags.take(out)[0])
            except ValueError:
                silent.append(number + 1)
            else:
                found.append(_values(risk, held_out))
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
    start: NDArray[Any] | None = None,
) -> PenaltyFits:
    """Minimise an objective of all bags and of those without each fold, for every penalty.

    Its problems are all bags, then those without each fold. ``start`` has the shape of
    `PenaltyFits.theta`; left out, it is zero.
    """
    n_problems = len(held) + 1
    groups = np.array_split(np.arange(len(penalties)), -(-len(penalties) * n_problems // _COLUMNS))
    # threads wait for each other longer than products of a small table take
    few = bags.n_instances * space.n_coefficients < FEW_NUMBERS
    with threadpool_limits(1 if few else None, user_api="blas"):
        ends = [
            minimise(
                objective,
                space,
                np.repeat(penalties[group], n_problems),
                np.tile(np.arange(n_problems), len(group)),
                tol=tol,
                max_iter=max_iter,
                start=None if start is None else np.concatenate(start[group]),
            )
            for group in groups
            if len(group)
        ]

    def of_all(name: str) -> NDArray[Any]:
        found = np.concatenate([getattr(end, name) for end in ends])
        return found.reshape(len(penalties), n_problems, *found.shape[1:])

    scores = of_all("scores")
    held_out = [scores[:, fold][:, :, out[bags.index]] for fold, out in enumerate(held, start=1)]
    return PenaltyFits(bags, held, of_all("theta"), of_all("n_iter"), of_all("converged"), held_out)


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

    The risks of held-out bags run over penalties, the strongest first, or over folds and penalties.
    """
    mean = risks if risks.ndim == 1 else risks.mean(axis=0)
    if not np.isfinite(mean).all():
        raise FloatingPointError("The selection criterion is not finite for every alpha.")
    margin = _EQUAL * tol * (mean[0] - mean.min())
    return int(np.argmax(mean <= mean.min() + margin))


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
    tol: Any
    max_iter: Any

    kernel_: Kernel
    points_: NDArray[Any]
    class_prior_: Floats
    _loss: ClassLoss

    @abstractmethod
    def _prepare(self, X: Any, bags: Bags) -> None:
        """Check the settings, and set ``_loss`` and ``class_prior_``."""

    @abstractmethod
    def _objective(self, bags: Bags, included: Bools) -> Objective:
        """The risk of each problem's bags, ``included`` (n_problems, n_bags) of all."""

    def _criterion(self, bags: Bags) -> Criterion:
        """The risk of held-out bags, by which a penalty is chosen."""
        return self._objective(bags, np.ones((1, bags.n_bags), dtype=bool))

    @property
    def _accept_sparse(self) -> bool | str:  # type: ignore[override]
        return "csr" if self.kernel == "linear" else False

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        self._prepare(X, bags)
        n_outputs = self._loss.n_outputs(bags.n_classes)
        fits, best = self._train(self._space(X, n_outputs), X, np.asarray(y), bags)
        self._store(fits.theta[best, 0].reshape(n_outputs, -1))
        self.n_iter_ = int(max(1, fits.n_iter[best, 0]))
        self.converged_ = bool(fits.converged[best, 0])
        n_failed = int((~fits.converged).sum())
        warn_not_converged(n_failed, fits.converged.size, self.max_iter)
        return self

    def _space(self, X: Any, n_outputs: int) -> FunctionSpace:
        """The functions to choose from; a kernel and its points are kept for predictions."""
        if self.kernel == "linear":
            return LinearSpace(X, n_outputs)
        self.kernel_ = make_kernel(self.kernel, self.gamma, X)
        self.points_ = X
        check_kernel_memory(X.shape[0])
        return KernelSpace(self.kernel_.matrix(X), n_outputs)

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
        return fit_penalties(
            self._objective(bags, included),
            space,
            bags,
            held,
            penalties,
            tol=self.tol,
            max_iter=int(self.max_iter),
        )

    def _store(self, theta: NDArray[Any]) -> None:
        """Keep what prediction needs of a solution (n_outputs, coefficients of an output)."""
        if self.kernel == "linear":
            self.coef_, self.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()
        else:
            self.dual_coef_, self.intercept_ = theta, np.zeros(len(theta))

    def _scores(self, X: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            return linear_scores(X, self.coef_, self.intercept_)
        return self.kernel_.expand(X, self.points_, self.dual_coef_) + self.intercept_[:, None]

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
        return self._at_prior(self._loss.class_probabilities(scores), class_prior)


class RiskClassifierCV(RiskClassifier):
    """A classifier that minimises a risk of bags, its α chosen by the risk of held-out bags."""

    alphas: Any
    cv: Any
    selection: Any

    _default_alphas = DEFAULT_ALPHAS

    def _train(
        self, space: FunctionSpace, X: Any, y: NDArray[Any], bags: Bags
    ) -> tuple[PenaltyFits, int]:
        # falling, so that of equals the strongest is chosen
        alphas = self._default_alphas if self.alphas is None else self.alphas
        self.alphas_ = check_grid(alphas, "alphas")[::-1]
        pieces, held = cut_by_folds(bags, check_cv(self.cv, X, y))
        check_selection(self.selection, held)
        fits = self._fit_penalties(space, pieces, held, self.alphas_)
        self.selection_risks_ = fits.risks(self._criterion, self.selection)
        best = choose_penalty(self.selection_risks_, self.tol)
        self.alpha_ = float(self.alphas_[best])
        self.out_of_fold_scores_ = fits.out_of_fold_scores(best)
        return fits, best
