"""Inverse calibration (InvCal): support vector regression on the bags.

Rüping, *SVM classifier estimation from group probabilities*, ICML 2010. A score f is calibrated
if 1/(1 + e^{−f}) is the probability of the positive class. InvCal turns this around: the mean score
of a bag of proportion p_k should be near the log-odds

    y_k = −log(1/p_k − 1),    up to    ε_k = ε/(p_k(1 − p_k)),

which is what an error of ε in p_k amounts to. A bag is represented by the mean of its instances in
the RKHS, so the kernel of two bags is the mean of the kernel over their instances.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array, hstack

from unbag._arrays import Floats
from unbag._checks import check_count, check_positive
from unbag.bags.bags import Bags
from unbag.models.base import LogOddsClassifier, row_blocks
from unbag.paper.kernel_machine import Fold, KernelMachine
from unbag.paper.kernels import Kernel
from unbag.paper.minimisation import check_grid
from unbag.paper.support_vectors import DualProblem

# Relative error of a product with the kernel matrix.
_ROUNDING = 4 * float(np.finfo(float).eps)


def log_odds_targets(proportion: Floats, n_instances: int) -> tuple[Floats, Floats]:
    """Targets y_k = −log(1/p_k − 1), and 1/(p_k(1 − p_k)), by which ε is widened.

    Proportions are first brought into [1/T, 1 − 1/T], T being the number of instances.
    """
    p = np.clip(proportion, 1 / n_instances, 1 - 1 / n_instances)
    return -np.log(1 / p - 1), 1 / (p * (1 - p))


def mean_kernel(kernel: Kernel, X: Floats, mean: Any) -> Floats:
    """Kernel from instances to means of instances, which the columns of a sparse matrix average."""
    return np.concatenate([kernel.block(X[rows], X) @ mean for rows in row_blocks(len(X))])


def _mean_of(bags: Bags, rows: Any, n: int) -> Any:
    """Matrix (n, n_bags) that takes the mean of each bag, whose instances are rows among n."""
    return csr_array((1 / bags.sizes[bags.index], (rows, bags.index)), shape=(n, bags.n_bags))


class BagRegression(NamedTuple):
    """β and b, and whether they were found in so many steps."""

    coef: Floats
    intercept: float
    converged: bool
    n_iter: int


def solve_bag_regression(
    K: Floats, y: Floats, tube: Floats, C: float, *, tol: float = 1e-6, max_iter: int = 1_000_000
) -> BagRegression:
    """Support vector regression with a tube of its own for every bag.

        min_β  ½ βᵀKβ − yᵀβ + Σ_k ε_k|β_k|    with Σ_k β_k = 0 and |β_k| ≤ C.

    With β = α − α*, where 0 ≤ α, α* ≤ C, this is a `DualProblem` in α and −α*, of targets y − ε and
    y + ε. Its optimality conditions may be violated by ``tol`` and the rounding of Kβ.

    >>> import numpy as np
    >>> from unbag.paper.invcal import solve_bag_regression
    >>> fit = solve_bag_regression(np.eye(2), np.array([-2.0, 2.0]), np.array([0.5, 0.5]), C=10.0)
    >>> fit.coef.round(6)
    array([-1.5,  1.5])
    """
    n = len(y)
    tol += _ROUNDING * float(np.abs(K).max()) * C * n
    target = np.concatenate([y - tube, y + tube])
    lower, upper = np.repeat([0.0, -C], n), np.repeat([C, 0.0], n)
    problem = DualProblem(np.tile(K, (2, 2)), target, lower, upper, tol)
    n_steps, violation = problem.maximise(max_iter)
    coef = problem.coef[:n] + problem.coef[n:]
    return BagRegression(coef, problem.intercept, violation < tol, n_steps)


class InvCalClassifier(KernelMachine, LogOddsClassifier):
    """Inverse calibration: support vector regression from bags to the log-odds of proportions.

    Finds a score f = ⟨w, φ(x)⟩ + b, whose mean over bag k, f̄_k, is near y_k = −log(1/p_k − 1):

        min  ½‖w‖² + C Σ_k max(0, |f̄_k − y_k| − ε_k),    ε_k = ε/(p_k(1 − p_k)),

    with the proportions p_k kept within [1/T, 1 − 1/T] for T instances (Rüping, *SVM classifier
    estimation from group probabilities*, ICML 2010). Each bag counts the same, whatever its size.

    Of several settings it takes those with the smallest error |predicted − given proportion| of
    held-out bags, weighed by size; the predicted proportion is the share of f(x) > 0. This is how the
    authors of ∝SVM (Yu et al., 2013) tune InvCal, and their grid is the default.

    Parameters
    ----------
    Cs : array-like, default=(0.1, 1, 10)
        Weights of each bag's error against the penalty, C_p in the paper of LMMCM, to choose from.
    epsilons : array-like, default=(0, 0.01, 0.1)
        Errors of a proportion that are not punished, to choose from. Near 0 and 1 the tube is
        wide: for a pure bag ε_k is about ε·T, so even a small ε leaves pure bags without influence.
    gammas : array-like, default=(0.01, 0.1, 1)
        Widths of "rbf" to choose from: numbers, "scale" for 1/(d·Var(X)), or "auto" for 1/d.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error. Nothing is held out if there is nothing to choose.
    kernel : {"rbf", "linear"}, default="rbf"
        Kernel of the instances.
    tol : float, default=1e-6
        Converged when the optimality conditions hold up to this much, in log-odds.
    max_iter : int, default=1_000_000
        Steps after which a fit is given up, with a ConvergenceWarning.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes.
    C_, epsilon_, gamma_ : float
        The chosen values: of the least error, of equals the smallest C, then the largest epsilon,
        then the smallest gamma. ``gamma_`` is None for a kernel without one.
    Cs_, epsilons_, gammas_ : ndarray
        Values there were to choose from; C and gamma rise, epsilon falls.
    bag_errors_ : ndarray of shape (n_Cs, n_epsilons, n_gammas) or None
        Mean error of the held-out bags; None if there was one setting only.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or None
        Scores of each instance by the model that did not see its bag, at the chosen settings.
        None if the folds do not hold out every bag exactly once.
    bag_coef_ : ndarray of shape (n_bags,)
        β: what each bag contributes to the score.
    class_prior_ : ndarray of shape (n_classes,)
        Shares of the classes in all bags together, to which the probabilities belong.
    intercept_ : ndarray of shape (1,)
        b; where it is not unique, the middle of its interval.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the fit converged within ``max_iter`` steps.
    kernel_, points_, dual_coef_ : as in `LMMCMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`

    Examples
    --------
    >>> from unbag.paper import InvCalClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = InvCalClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _steps = "steps"

    def __init__(
        self,
        Cs: Any = (0.1, 1, 10),
        epsilons: Any = (0, 0.01, 0.1),
        *,
        gammas: Any = (0.01, 0.1, 1),
        cv: Any = 5,
        kernel: str = "rbf",
        tol: float = 1e-6,
        max_iter: int = 1_000_000,
    ) -> None:
        self.Cs = Cs
        self.epsilons = epsilons
        self.gammas = gammas
        self.cv = cv
        self.kernel = kernel
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        self.epsilons_ = check_grid(self.epsilons, "epsilons", zero_is_fine=True)[::-1]
        kernel, self.epsilon_, *fits = self._search(
            self._fit_folds, X, y, bags, self.epsilons_, (1, 2, 0)
        )
        to_bags = mean_kernel(kernel, X, _mean_of(bags, np.arange(len(X)), len(X)))
        (fit,) = self._solve(to_bags, bags, [(self.C_, self.epsilon_)])
        self.class_prior_ = bags.class_shares
        self.bag_coef_, self.intercept_ = fit.coef, np.array([fit.intercept])
        self.n_iter_, self.converged_ = max(1, fit.n_iter), fit.converged
        by_instance = (self.bag_coef_ / bags.sizes)[bags.index]
        self.kernel_ = kernel
        support = np.flatnonzero(by_instance)
        self.points_, self.dual_coef_ = X[support], by_instance[None, support]
        if not self.bag_coef_.any():
            warnings.warn(
                "Every bag lies within its tube, so all instances get the same score; use a "
                "smaller epsilon.",
                UserWarning,
                stacklevel=2,
            )
        self._warn(*fits)
        return self

    def _solve(
        self, to_bags: Floats, bags: Bags, grid: Iterable[tuple[float, float]]
    ) -> list[BagRegression]:
        """Fit to bags for each C and ε, given the kernel between their rows and themselves."""
        K = _mean_of(bags, np.arange(len(to_bags)), len(to_bags)).T @ to_bags
        if not np.isfinite(K).all():
            raise ValueError("The kernel is too large for floating-point numbers; scale X.")
        K = (K + K.T) / 2
        y, widening = log_odds_targets(bags.clipped_proportions[:, 1], bags.n_instances)
        solver = {"tol": self.tol, "max_iter": int(self.max_iter)}
        return [solve_bag_regression(K, y, e * widening, C, **solver) for C, e in grid]

    def _fit_folds(self, kernel: Kernel, X: Any, folds: list[Fold]) -> Iterator[tuple[Floats, int]]:
        means = [_mean_of(fold.train, fold.rows, len(X)) for fold in folds]
        ends = np.cumsum([mean.shape[1] for mean in means])[:-1]
        to_bags = mean_kernel(kernel, X, hstack(means, format="csr"))
        for fold, part in zip(folds, np.split(to_bags, ends, axis=1), strict=True):
            fits = self._solve(part[fold.rows], fold.train, product(self.Cs_, self.epsilons_))
            scores = np.array([part[fold.out_rows] @ fit.coef + fit.intercept for fit in fits])
            n_failed = sum(not fit.converged for fit in fits)
            yield scores.reshape(len(self.Cs_), len(self.epsilons_), -1), n_failed
