"""Alternating between a support vector machine and the labels of its instances.

    minimise ½‖w‖² + C Σ_j hinge(y_j, f_j) + C_bag Σ_k n_k |p̃_k(y) − p_k|

over w and the latent labels y: with y fixed it is a support vector machine, with w fixed the best
labels of each bag are found exactly by sorting. C is annealed from a small value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from unbag._arrays import Bools, Floats, Ints
from unbag._progress import progress_bar
from unbag.bags.bags import Bags
from unbag.paper.support_vectors import Machine, train_machine

# C* starts at this share of C, and grows by this factor.
_ANNEALING_START = 1e-4
_ANNEALING_FACTOR = 1.5

# What LIBSVM may keep of the matrix; the early machines it is asked for need few rows.
_CACHE_MEGABYTES = 200


class Machines:
    """Support vector machines on one kernel matrix.

    Minimises ½‖w‖² + C Σ_j hinge(y_j, f_j) for given labels: the first one by LIBSVM, each other
    from the one before it. Labels of one class only have the solution w = 0, f = b = ±1, which
    is returned without asking a solver.

    ``accuracy`` is by how much the optimality conditions may be violated: LIBSVM's criterion, here in
    units of what one instance can contribute to f, C·k(x, x), where that is less than one. For the
    small C of early annealing, LIBSVM's usual 1e-3 would be as coarse as f itself, and the
    alternation would set out from noise and end in clearly higher minima. All machines are kept if
    they are to ``remember``, for searches that begin alike.
    """

    def __init__(self, K: Floats, *, accuracy: float = 1e-3, remember: bool = False) -> None:
        self._K = K
        self._accuracy = accuracy
        self._unit = float(np.trace(K)) / len(K)
        self._solved: dict[tuple[int, float, bytes], Machine] | None = {} if remember else None

    def solve(self, labels: Bools, C: float, near: Machine | None) -> Machine:
        """Train a machine, from ``near``, the one before it, if there is one."""
        if self._solved is None:
            return self._solve(labels, C, near)
        # the same predecessor too: then the answer is to the last bit what it would be alone
        key = (id(near), C, np.packbits(labels).tobytes())
        if key not in self._solved:
            self._solved[key] = self._solve(labels, C, near)
        return self._solved[key]

    def _solve(self, labels: Bools, C: float, near: Machine | None) -> Machine:
        if labels.all() or not labels.any():
            nothing = np.zeros(len(labels))
            return Machine(labels, C, nothing, nothing, 1.0 if labels[0] else -1.0)
        if near is not None and np.array_equal(labels, near.labels):
            scaled = self._scale(near, C)
            if scaled is not None:
                return scaled
        return self._train(labels, C, near)

    def _train(self, labels: Bools, C: float, near: Machine | None) -> Machine:
        """Train one: by LIBSVM, which is faster, unless there is a close one to start from."""
        if near is not None:
            return train_machine(self._K, labels, C, self._tolerance(C), near)
        svc = SVC(C=C, kernel="precomputed", tol=self._tolerance(C), cache_size=_CACHE_MEGABYTES)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            svc.fit(self._K, labels)
        coef = np.zeros(len(labels))
        coef[svc.support_] = svc.dual_coef_[0]
        return Machine(labels, C, coef, self._K @ coef, float(svc.intercept_[0]))

    def _tolerance(self, C: float) -> float:
        # not below what the solver's sums in double precision can tell apart
        return max(1e-12, self._accuracy * min(1.0, C * self._unit))

    def _scale(self, near: Machine, C: float) -> Machine | None:
        """A machine's coefficients times C/C_near, if they pass the solver's own test for C.

        While C is so small that all instances of one class are at the bound, they do.
        """
        coef, expansion = near.coef * (C / near.C), near.expansion * (C / near.C)
        sign = np.where(near.labels, 1.0, -1.0)
        gap, size = sign - expansion, sign * coef
        may_grow, may_shrink = size < C * (1 - 1e-9), size > C * 1e-9
        highest = gap[np.where(near.labels, may_grow, may_shrink)].max(initial=-np.inf)
        lowest = gap[np.where(near.labels, may_shrink, may_grow)].min(initial=np.inf)
        if not highest - lowest < self._tolerance(C):
            return None
        free = may_grow & may_shrink
        intercept = gap[free].mean() if free.any() else (highest + lowest) / 2
        return Machine(near.labels, C, coef, expansion, float(intercept))


def closest_labels(scores: Floats, bags: Bags, C: float, C_bag: float) -> Bools:
    """Labels that are best for given scores: the exact minimum over all labelings.

    In bag k, m positives cost C Σ hinge(y_j, f_j) + C_bag |m − n_k p_k|. They are best taken
    where δ_j = hinge(+1, f_j) − hinge(−1, f_j) is smallest, so that sorting δ and trying every
    m finds the minimum. Of equal numbers the smallest is taken, of equal δ the first instance.
    """
    change = C * (_hinge(1.0, scores) - _hinge(-1.0, scores))
    order = np.lexsort((change, bags.index))
    total = np.concatenate([[0.0], np.cumsum(change[order])])
    # bag k has n_k + 1 neighbouring places, one for each number of positives from 0 to n_k
    place = np.cumsum(bags.sizes + 1) - bags.sizes - 1
    bag = np.repeat(np.arange(bags.n_bags), bags.sizes + 1)
    n_positive = np.arange(len(bag)) - place[bag]
    first = place - np.arange(bags.n_bags)
    cost = total[first[bag] + n_positive] - total[first[bag]]
    cost += C_bag * np.abs(n_positive - expected_positives(bags)[bag])
    is_best = cost == np.minimum.reduceat(cost, place)[bag]
    best = np.minimum.reduceat(np.where(is_best, n_positive, bags.n_instances), place)
    return _mark_first(order, bags, best)


def start_labels(bags: Bags, random: np.random.RandomState) -> Bools:
    """Random labels with the right number of positives, rounded, in every bag."""
    order = np.lexsort((random.random_sample(bags.n_instances), bags.index))
    return _mark_first(order, bags, np.rint(expected_positives(bags)).astype(np.intp))


def _mark_first(order: Ints, bags: Bags, counts: Ints) -> Bools:
    """Mark the first few rows of every bag, ``order`` going through one bag after the other."""
    first = np.cumsum(bags.sizes) - bags.sizes
    labels = np.empty(bags.n_instances, dtype=bool)
    bag = bags.index[order]
    labels[order] = np.arange(bags.n_instances) - first[bag] < counts[bag]
    return labels


def _hinge(sign: Any, scores: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - sign * scores)


def expected_positives(bags: Bags) -> Floats:
    """Give the number of positives that each bag's proportion stands for."""
    return bags.sizes * bags.proportions[:, 1]


def count_positives(labels: Bools, bags: Bags) -> NDArray[Any]:
    """Count the instances labelled positive in each bag."""
    return np.bincount(bags.index, labels, bags.n_bags)


def objective(machine: Machine, labels: Bools, bags: Bags, C: float, C_bag: float) -> float:
    """½‖w‖² + C Σ_j hinge(y_j, f_j) + C_bag Σ_k n_k |p̃_k(y) − p_k|."""
    hinge = _hinge(np.where(labels, 1.0, -1.0), machine.scores).sum()
    off = np.abs(count_positives(labels, bags) - expected_positives(bags)).sum()
    return float(0.5 * (machine.coef @ machine.expansion) + C * hinge + C_bag * off)


@dataclass(frozen=True, eq=False)
class Alternation:
    """Where an alternation ended."""

    machine: Machine
    labels: Bools
    objectives: tuple[float, ...]
    converged: bool
    n_iter: int


@dataclass(frozen=True)
class Schedule:
    """How to go about the minimisation; see `AlternatingSVMClassifier`."""

    tol: float
    max_iter: int
    n_init: int
    seed: int

    def alternate(
        self,
        machines: Machines,
        bags: Bags,
        labels: Bools,
        C: float,
        C_bag: float,
        machine: Machine | None = None,
    ) -> Alternation:
        """Alternate between machine and labels at a fixed C until the objective settles."""
        objectives: list[float] = []
        while True:
            machine = machines.solve(labels, C, machine)
            before, labels = labels, closest_labels(machine.scores, bags, C, C_bag)
            objectives.append(objective(machine, labels, bags, C, C_bag))
            settled = len(objectives) > 1 and abs(objectives[-1] - objectives[-2]) < self.tol
            # with the same labels the next machine would be the same, too
            settled = settled or np.array_equal(labels, before)
            if settled or len(objectives) == self.max_iter:
                return Alternation(machine, labels, tuple(objectives), settled, len(objectives))

    def anneal(
        self,
        machines: Machines,
        bags: Bags,
        labels: Bools,
        C: float,
        C_bag: float,
        verbose: int = 0,
    ) -> Alternation:
        """Alternate at every C*, each time from where the one before it ended."""
        machine, n_iter = None, 0
        for level in progress_bar(annealing(C), verbose=verbose, desc="annealing", unit="step"):
            end = self.alternate(machines, bags, labels, level, C_bag, machine)
            machine, labels, n_iter = end.machine, end.labels, n_iter + end.n_iter
        return replace(end, n_iter=n_iter)

    def minimise(
        self, machines: Machines, bags: Bags, C: float, C_bag: float, verbose: int = 0
    ) -> Alternation:
        """Anneal from ``n_init`` random labelings and keep the lowest end."""
        random = check_random_state(self.seed)
        starts = [start_labels(bags, random) for _ in range(self.n_init)]
        ends = [self.anneal(machines, bags, labels, C, C_bag, verbose) for labels in starts]
        return min(ends, key=lambda end: end.objectives[-1])


def annealing(C: float) -> list[float]:
    """Values of C*: from 1.5e-4·C up by factors of 1.5, and C at last."""
    levels = [_ANNEALING_START * C]
    while levels[-1] < C:
        levels.append(min(_ANNEALING_FACTOR * levels[-1], C))
    return levels[1:]
