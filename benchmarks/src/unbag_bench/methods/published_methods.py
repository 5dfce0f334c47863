"""The published methods that are an objective in score space, each with its settings.

A method says what is minimised, given the bags that each problem includes; `settings` are the forms
of it among which held-out bags choose. ``docs/explanation/published-methods.md`` has papers, formulas and settings as
published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_array

from unbag._arrays import Array, Bools, Floats, Ints
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.losses import get_loss
from unbag.paper.corrected_risk import CorrectedRisk, Correction
from unbag.paper.lbfgs import Objective
from unbag.paper.proportion_risk import ProportionRisk
from unbag_bench.methods.assignment import Assignment, AssignmentRisk
from unbag_bench.methods.count_moments import CountMoments
from unbag_bench.methods.forward import ForwardLikelihood
from unbag_bench.methods.grouped_forward import BagPrior, GroupedForward
from unbag_bench.methods.mean_map import laplacian_weights, mean_map_weights
from unbag_bench.methods.residual_spread import ResidualSpread

# Whole decades, as published grids have them.
ALPHAS = tuple(10.0**-k for k in range(6))

# Differences of means are small, and so must their penalty be.
SMALL_ALPHAS = tuple(10.0**-k for k in range(2, 8))

# Targets far beyond 0 and 1 must be held back.
LARGE_ALPHAS = tuple(10.0**-k for k in range(-2, 4))

BagSize = Literal["bag_size"]


class Mixed:
    """A weighed sum of objectives of the same scores.

    Parameters
    ----------
    parts : list of (float, Objective)
        What each counts.
    """

    def __init__(self, parts: list[tuple[float, Objective]]) -> None:
        self.n_outputs = parts[0][1].n_outputs
        self.parts = parts

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Weighed sum of the values, per column."""
        values = [factor * part.value(scores, problem) for factor, part in self.parts]
        total: Floats = np.sum(values, axis=0)
        return total

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Weighed sums of values and gradients, per column."""
        (factor, first), *others = self.parts
        value, slopes = first.value_and_gradient(scores, problem)
        total, gradient = factor * value, factor * slopes
        for factor, part in others:
            value, slopes = part.value_and_gradient(scores, problem)
            total, gradient = total + factor * value, gradient + factor * slopes
        return total, gradient


@dataclass(frozen=True, eq=False)
class BagTask:
    """Several problems on the same bags.

    Attributes
    ----------
    included : ndarray of bool, shape (n_problems, n_bags)
        The bags that each problem learns from.
    bags : Bags
    X : array or sparse matrix of shape (n_instances, n_features)
    """

    included: Bools
    bags: Bags
    X: Any

    def bag_means(self) -> Floats:
        """Mean row of each bag."""
        n = self.bags.n_instances
        member = csr_array((np.ones(n), (self.bags.index, np.arange(n))))
        sums = member @ self.X
        dense = sums.toarray() if hasattr(sums, "toarray") else sums
        return dense / self.bags.sizes[:, None]

    def weighed_losses(
        self,
        weights: Callable[[Bags, Bools], Floats],
        loss: str = "logistic",
        correction: Correction = "none",
    ) -> CorrectedRisk:
        """Σ_i Σ_c U_ic (mean of ℓ_c over bag i), with U from the bags of each problem."""
        table = np.zeros((*self.included.shape, self.bags.n_classes))
        for row, own in zip(table, self.included, strict=True):
            row[own] = weights(self.bags.take(own)[0], own)
        once = np.ones(self.bags.n_classes)
        found = get_loss(loss, self.bags.n_classes)
        return CorrectedRisk(table, self.bags, found, once, correction)

    def proportion_risk(self, divergence: str) -> ProportionRisk:
        """Mean divergence of bags that count alike, as single labelled rows do."""
        parts = self.included * self.bags.draws("bags")
        parts = parts / parts.sum(axis=1, keepdims=True)
        table = np.repeat(parts[:, :, None], self.bags.n_classes, axis=2)
        link = get_loss("logistic", self.bags.n_classes)
        return ProportionRisk(table, self.bags, link, divergence)


class PublishedMethod(ABC):
    """What a published method minimises.

    Attributes
    ----------
    loss : str
        The link between scores and probabilities.
    alphas : tuple of float
        Penalties to choose from.
    """

    loss: str = "logistic"
    alphas: ClassVar[tuple[float, ...]] = ALPHAS

    @abstractmethod
    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""

    def start(self) -> PublishedMethod | None:
        """The method from whose solution it starts, if not from zero."""
        return None

    def settings(self) -> list[Self]:
        """Forms of the method that held-out bags choose among."""
        return [self]


@dataclass(frozen=True)
class DLLP(PublishedMethod):
    """Cross-entropy of the mean probabilities of bags: −(1/B) Σ_b Σ_c γ_bc log p̂_bc."""

    alphas = SMALL_ALPHAS

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return task.proportion_risk("cross_entropy")


@dataclass(frozen=True)
class ResidualMethod(PublishedMethod):
    """J_a, see `unbag_bench.methods.residual_spread`; divided by a, which leaves its minimum.

    Attributes
    ----------
    factor : float or "bag_size"
        a; the mean size of the bags gives DSQ.
    """

    factor: float | BagSize = 1.0
    alphas = SMALL_ALPHAS

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        units = task.bags.with_labelled_rows_apart()[0]
        a = float(units.sizes.mean()) if self.factor == "bag_size" else float(self.factor)
        return Mixed([(1 / a, ResidualSpread(task.included, task.bags, a))])


@dataclass(frozen=True)
class EasyLLP(PublishedMethod):
    """Σ_c (n_bγ_bc − (n_b − 1)q_c) ℓ_c of single rows: targets stretched by the size of the bag.

    Bags count alike. Then the mean of all targets is q, whatever the sizes; were it not a share,
    the logistic loss would fall without end.

    Attributes
    ----------
    loss : {"logistic", "squared"}
    stretch : "bag_size" or float
        s in the targets q + s(γ_b − q). With 1 they are soft labels.
    correction : {"none", "nonnegative"}
        Whether the loss of each class is kept from going below zero.
    """

    loss: str = "logistic"
    stretch: float | BagSize = "bag_size"
    correction: Correction = "none"
    alphas = LARGE_ALPHAS

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return task.weighed_losses(self._weights, self.loss, self.correction)

    def _weights(self, bags: Bags, own: Bools) -> Floats:  # noqa: ARG002
        q, gamma = bags.class_shares, bags.clipped_proportions
        # a labelled row is a bag of one
        sizes = np.where(bags.labelled, 1, bags.sizes)
        s = sizes if self.stretch == "bag_size" else np.full(bags.n_bags, float(self.stretch))
        target = q + s[:, None] * (gamma - q)
        parts = bags.draws("bags")
        return target * (parts / parts.sum())[:, None]


@dataclass(frozen=True)
class MeanMap(PublishedMethod):
    """Logistic loss whose class means are those of least squares over bags."""

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return task.weighed_losses(lambda bags, own: mean_map_weights(bags))  # noqa: ARG005


@dataclass(frozen=True)
class LaplacianMeanMap(PublishedMethod):
    """Mean map whose class means differ smoothly between bags.

    Attributes
    ----------
    smoothness, width : tuple of float
        g and σ to choose from: those published.
    """

    smoothness: tuple[float, ...] = (0.01, 0.1, 1.0)
    width: tuple[float, ...] = (0.25, 0.5, 1.0)
    alphas = ALPHAS[2:]

    def settings(self) -> list[Self]:
        """Every pair of a smoothness and a width."""
        pairs = product(self.smoothness, self.width)
        return [replace(self, smoothness=(g,), width=(width,)) for g, width in pairs]

    def objective(self, task: BagTask) -> Objective:
        """What is minimised, with the first smoothness and width."""
        means, g, width = task.bag_means(), self.smoothness[0], self.width[0]
        return task.weighed_losses(lambda bags, own: laplacian_weights(bags, means[own], g, width))


@dataclass(frozen=True)
class AlternatingMeanMap(PublishedMethod):
    """Labels that have the counts of bags, and the function that fits them, found together.

    Published as turns: the labels that fit a function best (or worst), then the function that fits
    these labels. Turns go downhill on one objective, which is minimised here as it is, "min" from
    the solution of the mean map on; "max" is convex.

    Attributes
    ----------
    assignment : {"exact", "worst"}
        The labels that fit best (AMM^min) or worst (AMM^max).
    """

    assignment: Assignment = "exact"
    alphas = ALPHAS[2:]

    def start(self) -> PublishedMethod | None:
        """Mean map, from which the turns start."""
        return MeanMap() if self.assignment == "exact" else None

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return AssignmentRisk(task.included, task.bags, self.assignment)


@dataclass(frozen=True)
class PseudoLabels(PublishedMethod):
    """DLLP and the loss of pseudo-labels that have the counts of bags: ROT and LLP-DC.

    Attributes
    ----------
    assignment : {"transport", "exact"}
        How labels are found: relaxed optimal transport, or the exact assignment.
    part_of_bags, part_of_labels : float
        What the two losses count. As published they are .6 and .4 for ROT, 1 and .5 for LLP-DC.
    """

    assignment: Assignment
    part_of_bags: float
    part_of_labels: float
    alphas = ALPHAS[2:]

    def start(self) -> PublishedMethod:
        """DLLP, by which pseudo-labels are known to begin with."""
        return DLLP()

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        labels = AssignmentRisk(task.included, task.bags, self.assignment)
        return Mixed([(self.part_of_bags, DLLP().objective(task)), (self.part_of_labels, labels)])


@dataclass(frozen=True)
class Forward(PublishedMethod):
    """Forward correction with all bags as one group."""

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return ForwardLikelihood(task.included, task.bags)


@dataclass(frozen=True)
class LLPFC(PublishedMethod):
    """Forward correction in groups of as many bags as there are classes.

    Attributes
    ----------
    prior : {"fixed", "released", "uniform"}
        See `unbag_bench.methods.grouped_forward`.
    n_groupings : int
        Ways to put bags into groups, over which the loss is averaged; as published, bags are put
        into other groups every 20 epochs.
    random_state : int
    """

    prior: BagPrior = "fixed"
    n_groupings: int = 5
    random_state: int = 0

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        rng = np.random.default_rng(self.random_state)
        orders = [rng.permutation(task.bags.n_bags) for _ in range(self.n_groupings)]
        parts = [GroupedForward(task.included, task.bags, order, self.prior) for order in orders]
        return Mixed([(1 / self.n_groupings, part) for part in parts])


@dataclass(frozen=True)
class CountLoss(PublishedMethod):
    """−log Pr(K_b = k_b), K_b a sum of independent draws."""

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return CountLikelihood(task.included, task.bags)


@dataclass(frozen=True)
class FactorialMoments(PublishedMethod):
    """Cross-entropies of the factorial moments of counts (LLP-MM).

    Attributes
    ----------
    order : int
        The largest order.
    smoothing : float
        Added to every moment.
    """

    order: int = 8
    smoothing: float = 1e-4
    alphas = SMALL_ALPHAS

    def objective(self, task: BagTask) -> Objective:
        """What is minimised."""
        return CountMoments(task.included, task.bags, self.order, self.smoothing)


@dataclass(frozen=True)
class AggregateResponses(PublishedMethod):
    """ρ times the loss of bags plus 1 − ρ times that of rows, against the shares of their bags.

    Attributes
    ----------
    shares_of_bags : tuple of float
        ρ to choose from. With 1 it is DLLP, with 0 soft labels.
    """

    shares_of_bags: tuple[float, ...] = (0.25, 0.5, 0.75)
    alphas = ALPHAS[2:]

    def settings(self) -> list[Self]:
        """Every ρ."""
        return [replace(self, shares_of_bags=(rho,)) for rho in self.shares_of_bags]

    def objective(self, task: BagTask) -> Objective:
        """What is minimised, with the first ρ."""
        rho = self.shares_of_bags[0]
        soft = EasyLLP(stretch=1.0).objective(task)
        return Mixed([(rho, DLLP().objective(task)), (1 - rho, soft)])


PUBLISHED: dict[str, PublishedMethod] = {
    "aggregate": AggregateResponses(),
    "amm_max": AlternatingMeanMap("worst"),
    "amm_min": AlternatingMeanMap("exact"),
    "count_loss": CountLoss(),
    "dllp": DLLP(),
    "dllp_mse": ResidualMethod(1.0),
    "dsq": ResidualMethod("bag_size"),
    "easyllp": EasyLLP(),
    "easyllp_squared": EasyLLP(loss="squared"),
    "forward": Forward(),
    "genbags": ResidualMethod(91.0),
    "llp_dc": PseudoLabels("exact", 1.0, 0.5),
    "llp_mm": FactorialMoments(),
    "llpfc": LLPFC(),
    "llpfc_released": LLPFC("released"),
    "lmm": LaplacianMeanMap(),
    "mm": MeanMap(),
    "rot": PseudoLabels("transport", 0.6, 0.4),
}


def get_method(method: str | PublishedMethod) -> PublishedMethod:
    """Look a method up by its name, or take one as it is."""
    if isinstance(method, PublishedMethod):
        return method
    check_choice(method, PUBLISHED, "method")
    return PUBLISHED[method]
