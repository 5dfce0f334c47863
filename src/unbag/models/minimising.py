"""Classifiers that minimise a goal over a family of functions.

A concrete estimator has its parameters and says three things: its family of functions (by its base,
`LinearClassifier` or `KernelClassifier`), its goal, and how it is trained, for one penalty or by a
search. `MinimisingClassifier.fit` puts them together.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from unbag._arrays import Floats, on_device, to_host
from unbag._checks import check_count, check_positive
from unbag._docstrings import as_in
from unbag.bags.bags import Bags
from unbag.kernels.matrices import row_blocks
from unbag.kernels.rows import as_dense
from unbag.models.base import BagClassifier, LogOddsClassifier, linear_scores
from unbag.models.functions import Basis, Functions, KernelFunctions, LinearFunctions
from unbag.models.goals import Goal
from unbag.models.local import LocalBackend
from unbag.models.row_order import RowOrder, order_by_bag
from unbag.models.training import Backend, TrainingResult, warn_not_converged
from unbag.observations.losses import LOSSES, ClassLoss


def _gives_probabilities(estimator: Any) -> bool:
    loss = LOSSES.get(estimator.loss) if isinstance(estimator.loss, str) else estimator.loss
    if loss is not None and not loss.gives_probabilities:
        raise AttributeError(
            f"loss={estimator.loss!r} gives scores but no probabilities; use loss='logistic'."
        )
    return True


class MinimisingClassifier(BagClassifier):
    """A classifier that minimises a goal over a family of functions."""

    loss: Any = "logistic"
    tol: Any
    max_iter: Any
    verbose: Any

    # whether `unbag.distributed` can train it
    _trains_on_partitions: bool = False

    class_prior_: Floats
    _loss: ClassLoss

    @abstractmethod
    def _make_functions(self) -> Functions:
        """The family of functions."""

    @abstractmethod
    def _make_goal(self, bags: Bags) -> Goal:
        """What is minimised, and what penalties are chosen by."""

    @abstractmethod
    def _train(self, backend: Backend, goal: Goal) -> TrainingResult:
        """Fit one penalty, or search."""

    @abstractmethod
    def _store(self, basis: Basis, theta: NDArray[Any], n_outputs: int) -> None:
        """Keep what prediction needs of a solution."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model."""
        X, bags = self._check_Xy(X, y)
        goal = make_goal(self, bags)
        order = self._row_order(X, bags)
        rows, bags = order.arrange(X), bags.reordered(order.arrange)
        functions = functions_for(self, goal, bags)
        space, basis = functions.space(rows, goal.n_outputs(bags), goal.free_intercept)
        nobody = np.zeros((0, bags.n_bags), dtype=bool)
        solver = (self.tol, int(self.max_iter), self.verbose)
        backend = LocalBackend(space, X, np.asarray(y), bags, nobody, *solver, order)
        train(self, backend, goal, basis)
        return self

    def _row_order(self, X: Any, bags: Bags) -> RowOrder:  # noqa: ARG002
        """The order of rows in which a fit is fastest, if it may be taken."""
        return RowOrder()

    @available_if(_gives_probabilities)
    @as_in(LogOddsClassifier.predict_proba)
    def predict_proba(self, X: Any, class_prior: Any = None) -> Floats:
        """Chance of each class.

        Parameters
        ----------
        X, class_prior : as in predict_proba

        Returns
        -------
        chances : as in predict_proba
        """
        scores = self.decision_function(X).astype(float)
        chances = self._loss.class_probabilities(scores)
        return self._chances_at(chances, class_prior)


def make_goal(estimator: MinimisingClassifier, bags: Bags) -> Goal:
    """Check the parameters of an estimator, and make its goal."""
    check_positive(estimator.tol, "tol")
    check_count(estimator.max_iter, "max_iter")
    return estimator._make_goal(bags)


def functions_for(estimator: MinimisingClassifier, goal: Goal, bags: Bags) -> Functions:
    """Family of functions of an estimator, which tells what its goal wants to know."""
    functions = estimator._make_functions()
    return functions.with_variance(bags) if goal.asks_for_variance else functions


def check_on_partitions(estimator: Any) -> None:
    """Refuse an estimator that cannot be trained on instances in partitions."""
    if not getattr(estimator, "_trains_on_partitions", False):
        raise ValueError(
            "DistributedClassifier trains LLPLinearClassifier, LLPKernelClassifier and their CV "
            f"forms, not {type(estimator).__name__}."
        )
    estimator._make_functions().on_partitions()


def train(estimator: MinimisingClassifier, backend: Backend, goal: Goal, basis: Basis) -> None:
    """Train an estimator where the instances are, and keep what was found."""
    found = estimator._train(backend, replace(goal, variance=basis.variance))
    for name, value in found.goal.attributes().items():
        setattr(estimator, name, value)
    estimator._loss = goal.loss
    estimator._store(basis, found.fits.theta[found.best], goal.n_outputs(backend.bags))
    estimator.n_iter_ = int(max(1, found.fits.n_iter[found.best]))
    estimator.converged_ = bool(found.fits.converged[found.best])
    warn_not_converged(*found.solved.fits.failures, estimator.max_iter)


class LinearClassifier(MinimisingClassifier):
    """f(x) = xᵀw + b."""

    fit_intercept: Any
    device: Any = None

    _accept_sparse = "csr"

    def _make_functions(self) -> Functions:
        return LinearFunctions(bool(self.fit_intercept), self.device)

    def _row_order(self, X: Any, bags: Bags) -> RowOrder:
        return RowOrder() if self.device is not None else order_by_bag(X, bags)

    def _store(self, basis: Basis, theta: NDArray[Any], n_outputs: int) -> None:
        self.coef_, self.intercept_ = basis.read(theta, n_outputs)

    def _scores(self, X: Any) -> NDArray[Any]:
        # one product with few columns: to bring X to a device would take longer
        return linear_scores(X, self.coef_, self.intercept_)


class KernelClassifier(MinimisingClassifier):
    """f(x) = Σ_j α_j k(x, z_j) + b."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    precision: Any
    device: Any = None
    approximation: Any = None
    n_components: Any = 1000
    random_state: Any = None

    @property
    def _accept_sparse(self) -> bool | str:  # type: ignore[override]
        exact = self.approximation is None or self.kernel == "precomputed"
        return False if exact else "csr"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _make_functions(self) -> Functions:
        return KernelFunctions(
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            precision=self.precision,
            device=self.device,
            approximation=self.approximation,
            n_components=self.n_components,
            random_state=self.random_state,
        )

    def _store(self, basis: Basis, theta: NDArray[Any], n_outputs: int) -> None:
        self.kernel_: Any = basis.kernel
        self.points_ = basis.points
        self.approximation_ = basis.approximation
        self.dual_coef_, self.intercept_ = basis.read(theta.astype(np.float64), n_outputs)

    def _scores(self, X: Any) -> NDArray[Any]:
        sparse = bool(issparse(X))
        if sparse:
            blocks = [self._scores(as_dense(X[rows])) for rows in row_blocks(X.shape[0])]
            return np.concatenate(blocks, axis=1)
        points = None if self.points_ is None else on_device(self.points_, self.device)
        X, coef = on_device(X, self.device), on_device(self.dual_coef_, self.device)
        return to_host(self.kernel_.expand(X, points, coef)) + self.intercept_[:, None]
