"""From an ordinary estimator and instances in partitions to its fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unbag.distributed.instances import RemoteRows
from unbag.distributed.partitions import Partitions
from unbag.distributed.risk import DistributedData, DistributedRisk, Model
from unbag.distributed.search import selection_risks
from unbag.distributed.table import BagTable
from unbag.kernel_features import choose_approximation, make_features
from unbag.kernels import make_kernel
from unbag.models.base import SearchMixin, check_alphas, check_positive, warn_not_converged
from unbag.models.corrected import CorrectedRiskClassifier
from unbag.models.kernel import KernelModel
from unbag.models.linear import LinearMCMClassifier, LinearModel
from unbag.models.search import Problems, Training, fold_problems
from unbag.progress import column_progress
from unbag.solvers import Solution, minimise
from unbag.solvers.parameters import ParameterSpace


def check_distributable(estimator: Any) -> Any:
    """Copy an estimator that can be trained on partitions, with what "auto" stands for there."""
    if estimator is None:
        estimator = LinearMCMClassifier()
    if not isinstance(estimator, CorrectedRiskClassifier) or not isinstance(
        estimator, LinearModel | KernelModel
    ):
        raise ValueError(
            "DistributedClassifier trains LinearMCMClassifier, KernelMCMClassifier and their CV "
            f"forms, not {type(estimator).__name__}."
        )
    estimator = clone(estimator)
    if estimator.objective not in ("auto", "corrected"):
        raise ValueError(
            f"objective={estimator.objective!r} needs all instances of a bag in one place; on Dask "
            "collections use objective='corrected'."
        )
    if estimator.device is not None:
        raise ValueError(
            f"device={estimator.device!r} is for data in memory; on Dask collections use "
            "device=None."
        )
    estimator.objective = "corrected"
    if isinstance(estimator, KernelModel):
        if estimator.kernel == "precomputed" or estimator.approximation is None:
            raise ValueError(
                "A whole kernel matrix is for data in memory; on Dask collections use "
                "approximation='nystroem' or 'fourier' and a kernel such as 'rbf'."
            )
        if estimator.approximation == "auto":
            estimator.approximation = "nystroem"
    return estimator


def make_data(
    estimator: Any, instances: Partitions, rows: RemoteRows, n_outputs: int
) -> tuple[DistributedData, ParameterSpace]:
    """Make what an estimator's functions are evaluated by, and the space they are searched in."""
    loss = estimator._loss
    if isinstance(estimator, LinearModel):
        intercept, d = bool(estimator.fit_intercept), rows.shape[1]
        model = Model(loss, intercept=intercept)
        penalised = np.tile(np.arange(d + intercept) < d, n_outputs)
        return DistributedData(instances, model, n_outputs), ParameterSpace(penalised)
    estimator.approximation_ = choose_approximation(
        estimator.approximation, estimator.kernel, len(rows), 8, np.empty(0)
    )
    # these see of X its shape, its variance and the landmarks, which is all that rows gives
    X: Any = rows
    kernel = make_kernel(estimator.kernel, estimator.gamma, estimator.degree, estimator.coef0, X)
    features = make_features(
        estimator.approximation_, kernel, X, estimator.n_components, estimator.random_state
    )
    estimator._features = features
    estimator._kernel, estimator._instances = features.basis, features.points
    model = Model(loss, features.basis, features.points)
    data = DistributedData(instances, model, n_outputs, features.transform)
    return data, ParameterSpace(np.ones(n_outputs * features.n_features, dtype=bool))


@dataclass(frozen=True, eq=False)
class DistributedFit:
    """An estimator, and all that fitting it to instances in partitions needs."""

    estimator: Any
    data: DistributedData
    space: ParameterSpace
    table: BagTable
    training: Training

    def run(self) -> None:
        """Fit the estimator, as its kind does."""
        if isinstance(self.estimator, SearchMixin):
            self._search()
        else:
            self._fit_one()

    def _fit_one(self) -> None:
        estimator = self.estimator
        check_positive(estimator.alpha, "alpha")
        problems = self.training.whole(self.table.bags)
        solution = self._solve(self.table, problems, np.array([float(estimator.alpha)]))
        self._store(solution, 0)

    def _search(self) -> None:
        """Fit for all penalties, on all bags and on each fold, and choose."""
        estimator, training = self.estimator, self.training
        penalties = check_alphas(estimator.alphas)
        table, held = self.table.fold(estimator.cv)
        problems = fold_problems(table.bags, held, training)
        solution = self._solve(table, problems, penalties)
        of_folds = solution.theta[len(penalties) :]
        risks = selection_risks(
            of_folds, estimator.selection, table.bags, held, self.data, training
        )
        best = int(np.argmin(risks if risks.ndim == 1 else risks.mean(axis=0)))
        estimator.alphas_, estimator.alpha_ = penalties, float(penalties[best])
        estimator.selection_risks_, estimator.out_of_fold_scores_ = risks, None
        self._store(solution, best)

    def _solve(
        self, table: BagTable, problems: Problems, penalties: NDArray[np.float64]
    ) -> Solution:
        """Minimise every penalty on every problem: each evaluation is one pass over the data."""
        training = self.training
        n_problems, n_penalties = len(problems.weights), len(penalties)
        n_columns = n_problems * n_penalties
        risk = training.make_objective(problems, table.bags, None)
        with column_progress(n_columns, training.verbose) as progress:
            solution = minimise(
                DistributedRisk(risk, self.data),
                self.space,
                np.tile(penalties, n_problems),
                np.repeat(np.arange(n_problems), n_penalties),
                tol=training.tol,
                max_iter=training.max_iter,
                callback=progress.of_batch(n_columns),
            )
        failed = int((~solution.converged).sum())
        if failed:
            warn_not_converged(failed, n_columns, training.max_iter)
        return solution

    def _store(self, solution: Solution, column: int) -> None:
        self.estimator._store(solution.theta[column], self.data.n_outputs)
        self.estimator.n_iter_ = int(max(1, solution.n_iter[column]))
        self.estimator.converged_ = bool(solution.converged[column])
