"""From an ordinary estimator and instances in partitions to its fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from sklearn.base import clone

from unbag._progress import column_progress
from unbag.bags.bags import Bags
from unbag.diagnostics.bag_effects import BagEffect, effect_of_means
from unbag.distributed.counts import make_count_table
from unbag.distributed.forward import held_out_chances, make_forward_table
from unbag.distributed.instances import RemoteRows
from unbag.distributed.partitions import Partitions
from unbag.distributed.risk import DistributedData, DistributedRisk, Model
from unbag.distributed.search import selection_risks
from unbag.distributed.table import BagTable
from unbag.kernels.approximations import choose_approximation, make_kernel_features
from unbag.kernels.matrices import make_kernel
from unbag.models.base import (
    EFFECT_FOLDS,
    SearchMixin,
    check_alphas,
    check_positive,
    warn_not_converged,
)
from unbag.models.corrected import CorrectedRiskClassifier
from unbag.models.kernel import KernelModel
from unbag.models.linear import LinearMCMClassifier, LinearModel
from unbag.models.search import (
    Problems,
    Selection,
    Training,
    check_selection,
    choose,
    fold_problems,
    telling_folds,
)
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
    if estimator.device is not None:
        raise ValueError(
            f"device={estimator.device!r} is for data in memory; on Dask collections use "
            "device=None."
        )
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
    estimator: Any, instances: Partitions, rows: RemoteRows, n_outputs: int, kept: bool
) -> tuple[DistributedData, ParameterSpace]:
    """Make what an estimator's functions are evaluated by, and the space they are searched in."""
    loss = estimator._loss
    if isinstance(estimator, LinearModel):
        intercept, d = bool(estimator.fit_intercept), rows.shape[1]
        model = Model(loss, intercept=intercept)
        penalised = np.tile(np.arange(d + intercept) < d, n_outputs)
        data = DistributedData(instances, model, n_outputs, kept=kept)
        return data, ParameterSpace(penalised)
    estimator.approximation_ = choose_approximation(
        estimator.approximation, estimator.kernel, len(rows), 8, np.empty(0)
    )
    # these see of X its shape, its variance and the landmarks, which is all that rows gives
    X: Any = rows
    kernel = make_kernel(estimator.kernel, estimator.gamma, estimator.degree, estimator.coef0, X)
    features = make_kernel_features(
        estimator.approximation_, kernel, X, estimator.n_components, estimator.random_state
    )
    estimator._features = features
    estimator._kernel, estimator._instances = features.basis, features.points
    free, m = estimator._free_intercept, features.n_features
    transform = features.transform
    if free and transform is not None:
        # the intercept is a function of its own
        transform = block_diag(transform, np.ones((1, 1)))
    model = Model(loss, features.basis, features.points, intercept=free)
    data = DistributedData(instances, model, n_outputs, transform, kept)
    return data, ParameterSpace(np.tile(np.arange(m + free) < m, n_outputs))


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
        estimator, bags = self.estimator, self.table.bags
        check_positive(estimator.alpha, "alpha")
        penalties = np.array([float(estimator.alpha)])
        problems = self.training.whole(bags)
        solution = self._solve(self.table, problems, penalties)
        everyone = np.ones((1, bags.n_bags), dtype=bool)
        # scores of rows that the model saw only raise the suspicion
        doubtful = estimator._wants_looks or self._finds_bag_effect(bags, everyone, solution.theta)
        if doubtful and self._learns_from_folds(penalties):
            solution = self._solve(self.table, problems, penalties)
        self._store(solution, 0)

    def _learns_from_folds(self, penalties: NDArray[np.float64]) -> bool:
        """Whether bags held out show what the fit should have known."""
        estimator = self.estimator
        table, held = self.table.fold(min(EFFECT_FOLDS, self.table.bags.n_bags))
        problems = self._of_folds(table, held)
        if estimator._wants_bag_effect:
            estimator.bag_effect_ = 0.0
        of_folds = self._solve(table, problems, penalties).theta[1:]
        looks = self._finds_looks(table.bags, held, of_folds)
        if looks and estimator._wants_bag_effect:
            of_folds = self._solve(table, problems, penalties).theta[1:]
        return self._finds_bag_effect(table.bags, held, of_folds) or looks

    def _search(self) -> None:
        """Fit for all penalties, on all bags and on each fold, and choose."""
        estimator = self.estimator
        penalties = check_alphas(estimator.alphas)
        table, held = self.table.fold(estimator.cv)
        solution, risks = self._search_once(table, held, penalties)
        for finds in (self._finds_looks, self._finds_bag_effect):
            of_folds = solution.theta.reshape(len(held) + 1, len(penalties), -1)[1:]
            if finds(table.bags, held, of_folds[:, choose(risks)]):
                solution, risks = self._search_once(table, held, penalties)
        best = choose(risks)
        estimator.alphas_, estimator.alpha_ = penalties, float(penalties[best])
        estimator.selection_risks_ = risks if len(risks) > 1 else risks[0]
        estimator.out_of_fold_scores_ = None
        self._store(solution, best)

    def _search_once(
        self, table: BagTable, held: NDArray[np.bool_], penalties: NDArray[np.float64]
    ) -> tuple[Solution, NDArray[np.float64]]:
        solution = self._solve(table, self._of_folds(table, held), penalties)
        of_folds, selection = solution.theta[len(penalties) :], self.estimator.selection
        if self.estimator.objective_ != "corrected":
            return solution, self._likelihoods(of_folds, selection, table, held)
        risks = selection_risks(of_folds, selection, table.bags, held, self.data, self.training)
        return solution, risks[None]

    def _of_folds(self, table: BagTable, held: NDArray[np.bool_]) -> Problems:
        return fold_problems(table.bags, held, self.training)

    def _likelihoods(
        self,
        theta: NDArray[np.float64],
        selection: Selection,
        table: BagTable,
        held: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Likelihoods of held-out bags, pooled or by fold, for each criterion."""
        check_selection(selection)
        bags, folds = table.bags, np.arange(len(held))
        if selection == "folds":
            folds = np.array(list(telling_folds(bags, held, self.training)))
            alone = [self._tables(table, out[None]) for out in held]
        else:
            whole = self._tables(table, np.ones((1, bags.n_bags), dtype=bool))
            alone = [[part.of(out[bags.index]) for part in whole] for out in held]
        problem = np.repeat(np.arange(len(held)), len(theta) // len(held))
        found = []
        for tables in zip(*alone, strict=True):
            objective = tables[0].join(tables).on(self.data)
            values = objective.value(theta[:, None, :], problem).reshape(len(held), -1)[folds]
            found.append(values if selection == "folds" else values.sum(axis=0))
        return np.stack(found)

    def _tables(self, table: BagTable, included: NDArray[np.bool_]) -> list[Any]:
        """What workers need for each likelihood, of the counts first if that is minimised."""
        estimator, bags = self.estimator, table.bags
        offsets = estimator._offsets(estimator._shares(included, bags))
        forward = make_forward_table(included, bags, offsets)
        if estimator.objective_ == "forward":
            return [forward]
        known = estimator.bag_effect_, estimator.looks_
        return [make_count_table(bags, table.rows, included, offsets, *known), forward]

    def _finds_looks(self, bags: Bags, held: NDArray[np.bool_], theta: NDArray[np.float64]) -> bool:
        """Whether classes keep their look, by one model for each fold."""
        estimator = self.estimator
        return bool(
            estimator._wants_looks and estimator._takes_looks(self._effect(bags, held, theta))
        )

    def _finds_bag_effect(
        self, bags: Bags, held: NDArray[np.bool_], theta: NDArray[np.float64]
    ) -> bool:
        """Whether bags show effects, scored by one model for each fold."""
        estimator = self.estimator
        return bool(
            estimator._wants_bag_effect
            and estimator._takes_bag_effect(self._effect(bags, held, theta))
        )

    def _effect(self, bags: Bags, held: NDArray[np.bool_], theta: NDArray[np.float64]) -> BagEffect:
        estimator = self.estimator
        shares = estimator._shares(np.ones((1, bags.n_bags), dtype=bool), bags)
        offsets = np.repeat(estimator._offsets(shares), len(held), axis=0)
        fold = held.argmax(axis=0)[bags.index]
        means, variances = held_out_chances(theta, bags, fold, offsets, self.data)
        return effect_of_means(bags, means, variances)

    def _objective(self, table: BagTable, problems: Problems) -> Any:
        """What is minimised, as a function of coefficients."""
        estimator, bags = self.estimator, table.bags
        if estimator.objective_ == "corrected":
            return DistributedRisk(self.training.make_objective(problems, bags, None), self.data)
        return self._tables(table, problems.included)[0].on(self.data)

    def _solve(
        self, table: BagTable, problems: Problems, penalties: NDArray[np.float64]
    ) -> Solution:
        """Minimise every penalty on every problem: each evaluation is a pass over the data."""
        training = self.training
        n_problems, n_penalties = len(problems.weights), len(penalties)
        n_columns = n_problems * n_penalties
        with column_progress(n_columns, training.verbose) as progress:
            solution = minimise(
                self._objective(table, problems),
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
