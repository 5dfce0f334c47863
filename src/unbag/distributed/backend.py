"""Training on instances in partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from unbag._arrays import Floats
from unbag._progress import column_progress
from unbag.bags.bags import Bags
from unbag.distributed.criteria import make_objective, selection_risks
from unbag.distributed.forward import held_out_moments
from unbag.distributed.partitions import Partitions
from unbag.distributed.risk import DistributedData, Model
from unbag.distributed.table import BagsById
from unbag.evaluation.bag_effects import BagEffect, dispersion_of_means, effect_of_means
from unbag.models.functions import Basis
from unbag.models.training import Fits, Selection
from unbag.observations.losses import ClassLoss
from unbag.solvers import minimise
from unbag.solvers.parameters import ParameterSpace


def make_data(
    instances: Partitions, basis: Basis, loss: ClassLoss, n_outputs: int, kept: bool
) -> tuple[DistributedData, ParameterSpace]:
    """Make what evaluates functions where the instances are, and the space to search."""
    transform = basis.transform
    if basis.intercept and transform is not None:
        # the intercept is a function of its own
        transform = block_diag(transform, np.ones((1, 1)))
    model = Model(loss, basis.kernel, basis.points, basis.intercept)
    m = basis.n_coefficients
    penalised = np.tile(np.arange(m + basis.intercept) < m, n_outputs)
    return DistributedData(instances, model, n_outputs, transform, kept), ParameterSpace(penalised)


@dataclass(frozen=True, eq=False)
class DistributedBackend:
    """Instances in partitions, and the table of their bags.

    Attributes
    ----------
    data : DistributedData
    space : ParameterSpace
    table : BagsById
    held : ndarray of bool, shape (n_folds, n_bags)
    tol, max_iter, verbose
        Of the solver.
    """

    data: DistributedData
    space: ParameterSpace
    table: BagsById
    held: NDArray[np.bool_]
    tol: float
    max_iter: int
    verbose: int

    @property
    def bags(self) -> Bags:
        """Bags with entries in place of instances."""
        return self.table.bags

    def folded(self, cv: Any) -> Self:
        """Deal the bags out to folds."""
        table, held = self.table.fold(cv)
        return replace(self, table=table, held=held)

    def solve(self, goal: Any, penalties: Floats) -> RemotelySolved:
        """Minimise every penalty on every problem: each evaluation is a pass over the data."""
        problems = goal.of_folds(self.bags, self.held)
        n_problems = len(problems.weights)
        n_columns = n_problems * len(penalties)
        with column_progress(n_columns, self.verbose) as progress:
            solution = minimise(
                make_objective(goal, problems, self.table, self.data),
                self.space,
                np.repeat(penalties, n_problems),
                np.tile(np.arange(n_problems), len(penalties)),
                tol=self.tol,
                max_iter=self.max_iter,
                callback=progress.of_batch(n_columns),
            )
        fits = Fits(solution.theta, solution.n_iter, solution.converged)
        return RemotelySolved(goal, self, fits)


@dataclass(frozen=True, eq=False)
class RemotelySolved:
    """What was solved on partitions; what bags held out make of it takes passes of its own."""

    goal: Any
    backend: DistributedBackend
    fits: Fits

    def risks(self, selection: Selection) -> Floats:
        """Criteria on bags held out: (criteria, penalties), or with folds in between."""
        backend = self.backend
        theta = self._of_problems()[1:]
        return selection_risks(
            self.goal, theta, selection, backend.table, backend.held, backend.data
        )

    def effect(self, penalty: int) -> BagEffect | None:
        """What bags leave unexplained by models that did not see them, or without folds did."""
        return effect_of_means(self.backend.bags, *self._moments(penalty))

    def dispersion(self, penalty: int) -> float:
        """How much more than by chance counts vary around what those models say."""
        return dispersion_of_means(self.backend.bags, *self._moments(penalty))

    def out_of_fold_scores(self, penalty: int) -> None:
        """Scores of instances stay where these are."""

    def folds(self) -> None:
        """Scores of instances stay where these are."""

    def _moments(self, penalty: int) -> tuple[Floats, Floats]:
        """Means over bags of p and p(1 − p)."""
        bags, held, of_problems = self.backend.bags, self.backend.held, self._of_problems()
        scored = held if len(held) else np.ones((1, bags.n_bags), dtype=bool)
        theta = of_problems[1:, penalty] if len(held) else of_problems[:, penalty]
        everyone = np.ones((1, bags.n_bags), dtype=bool)
        offsets = np.repeat(self.goal.offsets(everyone, bags), len(scored), axis=0)
        fold = scored.argmax(axis=0)[bags.index]
        return held_out_moments(theta, bags, fold, offsets, self.backend.data)

    def _of_problems(self) -> Floats:
        """Coefficients (problems, penalties, coefficients)."""
        n_problems = len(self.backend.held) + 1
        theta = self.fits.theta
        return np.swapaxes(theta.reshape(-1, n_problems, theta.shape[1]), 0, 1)
