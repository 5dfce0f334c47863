"""Alternating support vector machines (alter-∝SVM): labels imputed bag by bag.

F. X. Yu, D. Liu, S. Kumar, T. Jebara and S.-F. Chang (2013), "∝SVM for learning with label
proportions", ICML. One of the two methods that the paper compares itself with.

    minimise ½‖w‖² + C Σ_j hinge(y_j, f_j) + C_bag Σ_k n_k |p̃_k(y) − p_k|

over w and the latent labels y: with y fixed it is a support vector machine, with w fixed the best
labels of each bag are found exactly by sorting. C is annealed from a small value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn import config_context
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_count, check_grid, check_positive
from unbag.bags.bags import Bags
from unbag.paper.kernels import Kernel, KernelMachine, check_kernel_memory

# C* starts at this share of C, and grows by this factor.
_ANNEALING_START = 1e-4
_ANNEALING_FACTOR = 1.5

# By how much the optimality conditions of a machine may be violated, see `Machines`.
_ACCURACY = 1e-3

# --- machines for given labels --------------------------------------------------------------------


class Machine(NamedTuple):
    """f = Ka + b on the training instances, with ``expansion`` Ka."""

    coef: Floats
    expansion: Floats
    intercept: float

    @property
    def scores(self) -> Floats:
        """Scores of the training instances."""
        return self.expansion + self.intercept


class Machines:
    """Support vector machines on one kernel matrix, kept for searches that begin alike.

    ``accuracy`` is in units of what one instance can contribute to f, C·k(x, x), where that is less
    than one: for the small C of early annealing, LIBSVM's usual 1e-3 would be as coarse as f itself.
    """

    def __init__(self, K: Floats, accuracy: float = _ACCURACY) -> None:
        self._K, self._accuracy = K, accuracy
        self._unit = float(np.trace(K)) / len(K)
        self._solved: dict[tuple[float, bytes], Machine] = {}

    def solve(self, labels: Bools, C: float) -> Machine:
        """Minimise ½‖w‖² + C Σ_j hinge(y_j, f_j) for given labels."""
        key = C, np.packbits(labels).tobytes()
        if key not in self._solved:
            self._solved[key] = self._train(labels, C)
        return self._solved[key]

    def _train(self, labels: Bools, C: float) -> Machine:
        coef = np.zeros(len(labels))
        if labels.all() or not labels.any():
            return Machine(coef, coef, 1.0 if labels[0] else -1.0)
        # not below the precision of the solver's sums
        tol = max(1e-12, self._accuracy * min(1.0, C * self._unit))
        svc = SVC(C=C, kernel="precomputed", tol=tol)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            svc.fit(self._K, labels)
        coef[svc.support_] = svc.dual_coef_[0]
        return Machine(coef, self._K @ coef, float(svc.intercept_[0]))


# --- labels for given scores ----------------------------------------------------------------------


def closest_labels(scores: Floats, bags: Bags, C: float, C_bag: float) -> Bools:
    """Labels that are best for given scores: the exact minimum over all labelings.

    In bag k, m positives cost C Σ hinge(y_j, f_j) + C_bag |m − n_k p_k|. They are best taken
    where δ_j = hinge(+1, f_j) − hinge(−1, f_j) is smallest, so sorting δ and trying every
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
    cost += C_bag * np.abs(n_positive - _expected_positives(bags)[bag])
    is_best = cost == np.minimum.reduceat(cost, place)[bag]
    best = np.minimum.reduceat(np.where(is_best, n_positive, bags.n_instances), place)
    return _mark_first(order, bags, best)


def start_labels(bags: Bags, random: np.random.RandomState) -> Bools:
    """Random labels with the right number of positives, rounded, in every bag."""
    order = np.lexsort((random.random_sample(bags.n_instances), bags.index))
    return _mark_first(order, bags, np.rint(_expected_positives(bags)).astype(np.intp))


def _mark_first(order: Ints, bags: Bags, counts: Ints) -> Bools:
    """Mark the first few rows of every bag, ``order`` going through one bag after the other."""
    first = np.cumsum(bags.sizes) - bags.sizes
    labels = np.empty(bags.n_instances, dtype=bool)
    bag = bags.index[order]
    labels[order] = np.arange(bags.n_instances) - first[bag] < counts[bag]
    return labels


def _hinge(sign: Any, scores: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - sign * scores)


def _expected_positives(bags: Bags) -> Floats:
    """The number of positives that each bag's proportion stands for."""
    return bags.sizes * bags.proportions[:, 1]


def objective(machine: Machine, labels: Bools, bags: Bags, C: float, C_bag: float) -> float:
    """½‖w‖² + C Σ_j hinge(y_j, f_j) + C_bag Σ_k n_k |p̃_k(y) − p_k|."""
    hinge = _hinge(np.where(labels, 1.0, -1.0), machine.scores).sum()
    counts = np.bincount(bags.index, labels, bags.n_bags)
    off = np.abs(counts - _expected_positives(bags)).sum()
    return float(0.5 * (machine.coef @ machine.expansion) + C * hinge + C_bag * off)


# --- alternation ----------------------------------------------------------------------------------


class Alternation(NamedTuple):
    """Where an alternation ended."""

    coef: Floats
    intercept: float
    labels: Bools
    objectives: tuple[float, ...]
    converged: bool
    n_iter: int


@dataclass(frozen=True)
class Schedule:
    """How to minimise; see `AlternatingSVMClassifier`."""

    tol: float
    max_iter: int
    n_init: int
    seed: int

    def alternate(
        self, machines: Machines, bags: Bags, labels: Bools, C: float, C_bag: float
    ) -> Alternation:
        """Alternate between machine and labels at a fixed C until the objective settles."""
        objectives: list[float] = []
        while True:
            machine = machines.solve(labels, C)
            before, labels = labels, closest_labels(machine.scores, bags, C, C_bag)
            objectives.append(objective(machine, labels, bags, C, C_bag))
            settled = len(objectives) > 1 and abs(objectives[-1] - objectives[-2]) < self.tol
            # with the same labels the next machine would be the same, too
            settled = settled or np.array_equal(labels, before)
            if settled or len(objectives) == self.max_iter:
                found = machine.coef, machine.intercept, labels
                return Alternation(*found, tuple(objectives), settled, len(objectives))

    def minimise(self, machines: Machines, bags: Bags, C: float, C_bag: float) -> Alternation:
        """Anneal from ``n_init`` random labelings and keep the lowest end."""
        random, ends = check_random_state(self.seed), []
        starts = [start_labels(bags, random) for _ in range(self.n_init)]
        for labels in starts:
            n_iter = 0
            for level in annealing(C):
                end = self.alternate(machines, bags, labels, level, C_bag)
                labels, n_iter = end.labels, n_iter + end.n_iter
            ends.append(end._replace(n_iter=n_iter))
        return min(ends, key=lambda end: end.objectives[-1])


def annealing(C: float) -> list[float]:
    """Values of C*: from 1.5e-4·C up by factors of 1.5, and C at last."""
    levels = [_ANNEALING_START * C]
    while levels[-1] < C:
        levels.append(min(_ANNEALING_FACTOR * levels[-1], C))
    return levels[1:]


# --- classifier -----------------------------------------------------------------------------------


class AlternatingSVMClassifier(KernelMachine):
    r"""Support vector machine whose labels are imputed: alter-∝SVM.

    Minimises over the classifier f = ⟨w, φ(x)⟩ + b and the unknown labels y

        ½‖w‖² + C Σ_j hinge(y_j, f_j) + C_bag Σ_k n_k |p̃_k(y) − p_k|,

    where p_k is the known proportion of bag k and p̃_k(y) that of the labels. It alternates
    between a support vector machine for given labels and the best labels for given scores, both
    exact; but the problem is not convex, and where it ends depends on the random labels it
    starts from. C is annealed: C* goes from 1.5e-4·C up to C by factors of 1.5, each from where
    the one before it ended. This is a published method to compare with [1]_;
    `LMMCMClassifier` does not depend on its start.

    Of several settings it takes those with the smallest error of the proportions of held-out
    bags, Σ_k n_k |share of f > 0 in bag k − p_k| / Σ_k n_k over the bags k of all folds.

    Parameters
    ----------
    Cs : array-like, default=(0.1, 1, 10)
        Weights C of the hinge loss to choose from; the default is the paper's grid.
    C_bags : array-like, default=(1, 10, 100)
        Weights of the proportions to choose from, C_p in the paper. Once it exceeds
        C(1 + max|f|), every bag gets the known number of positives, and a larger one changes
        nothing.
    gammas : array-like, default=(0.01, 0.1, 1)
        Widths of "rbf" to choose from: numbers, "scale" for 1/(d·Var(X)), or "auto" for 1/d.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error. Nothing is held out if there is nothing to choose.
    kernel : {"rbf", "linear"}, default="rbf"
        Kernel of f.
    n_init : int, default=1
        Number of random starts, of which the lowest objective is kept. Yu et al. took ten, the
        paper one.
    random_state : int, RandomState or None, default=0
        Of the starts. The order of rows does not matter.
    tol : float, default=1e-2
        Alternation at one C* ends when the objective moves by less.
    max_iter : int, default=100
        Alternations at one C* after which it is left, with a ConvergenceWarning at the last.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes.
    C_, C_bag_, gamma_ : float
        The chosen values: of the least error, of equals the smallest gamma, then C, then C_bag.
        ``gamma_`` is None for a kernel without one.
    Cs_, C_bags_, gammas_ : ndarray
        Values there were to choose from, in rising order.
    bag_errors_ : ndarray of shape (n_Cs, n_C_bags, n_gammas) or None
        The errors, in the order of ``Cs_``, ``C_bags_`` and ``gammas_``; None if there was one
        setting only.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or None
        Scores of each instance by the model that did not see its bag, for the chosen settings.
        None if the folds do not hold out every bag exactly once.
    labels_ : ndarray of shape (n_instances,)
        The imputed labels: the best ones for the final scores.
    objective_value_ : float
        What was minimised, at these labels and scores.
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors. There are none if all labels came out equal: the score is
        then constant, with the sign of that class.
    intercept_ : ndarray of shape (1,)
        b.
    n_iter_ : int
        Alternations at all C* together.
    converged_ : bool
        Whether the objective settled at C* = C.
    kernel_, points_, dual_coef_ : as in `LMMCMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`

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
    >>> data = make_gaussian_bags(n_bags=20, bag_size=10, random_state=0)
    >>> model = AlternatingSVMClassifier([0.1, 1], [10], gammas=[0.1, 1]).fit(data.X, data.y)
    >>> model.bag_errors_.shape
    (2, 1, 2)
    """

    _steps = "alternations"

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

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        self.C_bags_ = check_grid(self.C_bags, "C_bags")
        fit_grid = partial(_fit_grid, self._schedule())
        check_kernel_memory(bags.n_instances)
        end, self.C_bag_ = self._choose_and_fit(fit_grid, X, y, bags, self.C_bags_, (0, 1, 2))
        self.support_ = np.flatnonzero(end.coef)
        self.labels_ = self.classes_[end.labels.astype(np.intp)]
        self.objective_value_ = end.objectives[-1]
        return self

    def _schedule(self) -> Schedule:
        check_positive(self.tol, "tol")
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        max_iter = check_count(self.max_iter, "max_iter")
        n_init = check_count(self.n_init, "n_init")
        return Schedule(float(self.tol), max_iter, n_init, int(seed))


def _fit_grid(
    plan: Schedule, kernel: Kernel, X: Any, bags: Bags, Cs: Floats, C_bags: Floats
) -> list[Alternation]:
    # an order of rows that does not depend on the one they came in: by bag, then by feature
    order = np.lexsort((*X.T[::-1], bags.index))
    place = np.argsort(order)
    K, bags = kernel.matrix(X[order]), replace(bags, index=bags.index[order])
    ends = []
    for C in Cs:
        machines = Machines(K)
        ends += [plan.minimise(machines, bags, float(C), float(C_bag)) for C_bag in C_bags]
    return [end._replace(coef=end.coef[place], labels=end.labels[place]) for end in ends]
