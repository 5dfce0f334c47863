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
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse import csr_array, hstack

from unbag._arrays import Floats
from unbag._checks import check_count, check_nonnegative, check_positive
from unbag.bags.bags import Bags
from unbag.models.base import LogOddsClassifier, row_blocks
from unbag.models.checks import check_grid
from unbag.paper.kernel_machine import Fold, KernelMachine, KernelMachineCV
from unbag.paper.kernels import Kernel, make_kernel
from unbag.paper.minimisation import warn_not_converged


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


class InvCalModel(KernelMachine, LogOddsClassifier):
    """f(x) = Σ_k β_k · (mean of k(x, ·) over bag k) + b."""

    def _check_Xy(self, X: Any, y: Any) -> tuple[Any, Bags]:
        X, bags = super()._check_Xy(X, y)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        return X, bags

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

    def _refit(self, X: Any, bags: Bags, kernel: Kernel, C: float, epsilon: float) -> None:
        """Fit to all bags, and keep what prediction needs."""
        to_bags = mean_kernel(kernel, X, _mean_of(bags, np.arange(len(X)), len(X)))
        (fit,) = self._solve(to_bags, bags, [(C, epsilon)])
        self.class_prior_ = bags.class_shares
        self.bag_coef_ = fit.coef
        self.intercept_ = np.array([fit.intercept])
        self.n_iter_ = max(1, fit.n_iter)
        self.converged_ = fit.converged
        by_instance = (self.bag_coef_ / bags.sizes)[bags.index]
        self.kernel_ = kernel
        if kernel.name == "precomputed":
            self.points_, self.dual_coef_ = None, by_instance[None]
        else:
            support = np.flatnonzero(by_instance)
            self.points_, self.dual_coef_ = X[support], by_instance[None, support]
        if not self.bag_coef_.any():
            warnings.warn(
                "Every bag lies within its tube, so all instances get the same score; use a "
                "smaller epsilon.",
                UserWarning,
                stacklevel=3,
            )


class InvCalClassifier(InvCalModel):
    """Inverse calibration: support vector regression from bags to the log-odds of proportions.

    Finds a score f = ⟨w, φ(x)⟩ + b, whose mean over bag k, f̄_k, is near y_k = −log(1/p_k − 1):

        min  ½‖w‖² + C Σ_k max(0, |f̄_k − y_k| − ε_k),    ε_k = ε/(p_k(1 − p_k)),

    with the proportions p_k kept within [1/T, 1 − 1/T] for T instances (Rüping, *SVM classifier
    estimation from group probabilities*, ICML 2010). Each bag counts the same, whatever its size.

    Parameters
    ----------
    C : float, default=1.0
        Weight of each bag's error against the penalty, C_p in the paper of LMMCM.
    epsilon : float, default=0.0
        Error of a proportion that is not punished. Near 0 and 1 the tube is wide: for a pure bag
        ε_k is about ε·T, so even a small ε leaves pure bags without influence.
    kernel : {"rbf", "linear", "precomputed"}, default="rbf"
        Kernel of the instances; with "precomputed", X is their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf": "scale" is 1/(d·Var(X)), "auto" 1/d.
    tol : float, default=1e-6
        Converged when the optimality conditions hold up to this much, in log-odds.
    max_iter : int, default=100
        Iterations after which the fit is given up, with a ConvergenceWarning.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes.
    bag_coef_ : ndarray of shape (n_bags,)
        β: what each bag contributes to the score.
    kernel_, points_, dual_coef_ : as in `LMMCMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`
    class_prior_ : ndarray of shape (n_classes,)
        Shares of the classes in all bags together, to which the probabilities belong.
    intercept_ : ndarray of shape (1,)
        b; where it is not unique, the middle of its interval.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.

    Examples
    --------
    >>> from unbag.paper import InvCalClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = InvCalClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.0,
        *,
        kernel: str = "rbf",
        gamma: str | float = "scale",
        tol: float = 1e-6,
        max_iter: int = 100,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        C, epsilon = check_positive(self.C, "C"), check_nonnegative(self.epsilon, "epsilon")
        kernel = make_kernel(self.kernel, self.gamma, X)
        self._refit(X, bags, kernel, C, epsilon)
        warn_not_converged(int(not self.converged_), 1, self.max_iter, self._steps)
        return self


class InvCalClassifierCV(InvCalModel, KernelMachineCV):
    """`InvCalClassifier` that chooses its parameters by the error on held-out bags.

    The error of a bag is |predicted − given proportion|, where the predicted proportion is the
    share of its instances with f(x) > 0; held-out bags count by their size, those of all folds
    together. This is how the authors of ∝SVM (Yu et al., 2013) tune InvCal, and their grid is
    the default.

    Parameters
    ----------
    Cs : array-like, default=(0.1, 1, 10)
        Values of C to choose from.
    epsilons : array-like, default=(0, 0.01, 0.1)
        Values of epsilon to choose from.
    gammas : array-like, default=(0.01, 0.1, 1)
        Values of gamma to choose from, numbers or "scale" and "auto"; of no effect for kernels
        that have no gamma.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    kernel, tol, max_iter : as in `InvCalClassifier`

    Attributes
    ----------
    C_, epsilon_, gamma_ : float
        The chosen values: of the least error, of equals the smallest C and gamma and the largest
        epsilon. ``gamma_`` is None for a kernel without one.
    Cs_, epsilons_, gammas_ : ndarray
        Values there were to choose from; C and gamma rise, epsilon falls.
    bag_errors_ : ndarray of shape (n_Cs, n_epsilons, n_gammas)
        Mean error of the held-out bags.
    out_of_fold_scores_ : ndarray of shape (n_instances,)
        Scores of each instance by the model that did not see its bag, at the chosen parameters.
        None if the folds do not hold out every bag exactly once.
    classes_, class_prior_, bag_coef_ : as in `InvCalClassifier`
    kernel_, points_, dual_coef_, intercept_, n_iter_, converged_ : as in `InvCalClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`

    Examples
    --------
    >>> from unbag.paper import InvCalClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = InvCalClassifierCV().fit(data.X, data.y)
    >>> model.bag_errors_.shape
    (3, 3, 3)
    """

    def __init__(
        self,
        Cs: Any = (0.1, 1, 10),
        epsilons: Any = (0, 0.01, 0.1),
        *,
        gammas: Any = (0.01, 0.1, 1),
        cv: Any = 5,
        kernel: str = "rbf",
        tol: float = 1e-6,
        max_iter: int = 100,
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
        self.Cs_ = check_grid(self.Cs, "Cs")
        self.epsilons_ = check_grid(self.epsilons, "epsilons", zero_is_fine=True)[::-1]
        kernels = self._make_kernels(X)
        shape = (len(self.Cs_), len(self.epsilons_))
        errors, scores, n_failed, n_fits = self._search(
            self._fit_folds, kernels, X, np.asarray(y), bags, shape
        )
        self.bag_errors_ = np.moveaxis(errors, 0, -1)
        c, e, k = np.unravel_index(self.bag_errors_.argmin(), self.bag_errors_.shape)
        self.C_, self.epsilon_ = float(self.Cs_[c]), float(self.epsilons_[e])
        self._keep_widths(kernels, int(k))
        self.out_of_fold_scores_ = None if scores is None else scores[k, c, e]
        self._refit(X, bags, kernels[k], self.C_, self.epsilon_)
        warn_not_converged(n_failed + (not self.converged_), n_fits + 1, self.max_iter, self._steps)
        return self

    def _fit_folds(self, kernel: Kernel, X: Any, folds: list[Fold]) -> Iterator[tuple[Floats, int]]:
        means = [_mean_of(fold.train, fold.rows, len(X)) for fold in folds]
        ends = np.cumsum([mean.shape[1] for mean in means])[:-1]
        to_bags = mean_kernel(kernel, X, hstack(means, format="csr"))
        for fold, part in zip(folds, np.split(to_bags, ends, axis=1), strict=True):
            fits = self._solve(part[fold.rows], fold.train, product(self.Cs_, self.epsilons_))
            scores = np.array([part[fold.out_rows] @ fit.coef + fit.intercept for fit in fits])
            n_failed = sum(not fit.converged for fit in fits)
            yield scores.reshape(len(self.Cs_), len(self.epsilons_), -1), n_failed


# --- support vector regression ----------------------------------------------------------------------

# Added to the diagonal in the linear systems, relative to the largest kernel value.
_RIDGE = 1e-14

# Relative error of a product with the kernel matrix.
_ROUNDING = 4 * float(np.finfo(float).eps)

# How far, relative to its entries, the sum of β may be from zero.
_SUM_TOLERANCE = 1e-10

# How far towards the nearest bound a step of the interior-point method goes.
_STEP = 0.995

# Signs of α and α* in β = α − α*.
_SIGN = np.array([[1.0], [-1.0]])


class BagRegression(NamedTuple):
    """β, exactly 0 or ±C where a bag lies within its tube or beyond it, and b."""

    coef: Floats
    intercept: float
    converged: bool
    n_iter: int


def solve_bag_regression(
    K: Floats, y: Floats, tube: Floats, C: float, *, tol: float = 1e-6, max_iter: int = 100
) -> BagRegression:
    """Support vector regression with a tube of its own for every bag.

        min_β  ½ βᵀKβ − yᵀβ + Σ_k ε_k|β_k|    with Σ_k β_k = 0 and |β_k| ≤ C.

    With r = y − Kβ, β is optimal if some b satisfies

        r_k − b ≥ ε_k if β_k = C,     r_k − b = ε_k if 0 < β_k < C,     |r_k − b| ≤ ε_k if β_k = 0,

    and likewise for negative β_k. These give b a lower and an upper limit; the fit has converged
    when the former exceeds the latter by no more than ``tol`` and the rounding of Kβ.

    Mehrotra's interior-point method works on α/C and α*/C, which lie in [0, 1], with a multiplier
    for each of these bounds; every iterate is rounded to its bounds before the conditions are checked.

    >>> import numpy as np
    >>> from unbag.paper.invcal import solve_bag_regression
    >>> fit = solve_bag_regression(np.eye(2), np.array([-2.0, 2.0]), np.array([0.5, 0.5]), C=10.0)
    >>> fit.coef.round(6)
    array([-1.5,  1.5])
    """
    state = _InteriorPoint(K, y, tube, C)
    best, lowest, allowed = (np.zeros(len(y)), 0.0), np.inf, tol
    for iteration in range(max_iter + 1):
        beta = state.rounded()
        violation, intercept = _optimality(beta, y - C * (K @ beta), tube)
        if violation < lowest:
            best, lowest = (C * beta, intercept), violation
        allowed = tol + _ROUNDING * state.largest * float(np.abs(best[0]).sum())
        if lowest <= allowed or iteration == max_iter or not state.advance():
            break
    return BagRegression(*best, bool(lowest <= allowed), iteration)


def _optimality(beta: Floats, residual: Floats, tube: Floats) -> tuple[float, float]:
    """How far the limits of b cross, and their middle."""
    below, above = residual - tube, residual + tube
    lower = np.where(beta < 1, np.where(beta >= 0, below, above), -np.inf).max()
    upper = np.where(beta > -1, np.where(beta <= 0, above, below), np.inf).min()
    return float(lower - upper), float((lower + upper) / 2)


class _InteriorPoint:
    """An iterate. Axes of ``slack`` and ``multiplier``: α or α*, lower or upper bound, bag."""

    def __init__(self, K: Floats, y: Floats, tube: Floats, C: float) -> None:
        self.K, self.y, self.tube, self.C = K, y, tube, C
        self.largest = float(np.abs(K).max())
        # β = 0 in the middle of the box, and multipliers that balance the gradient there
        self.beta, self.intercept = np.zeros(len(y)), float(np.median(y))
        gradient = _SIGN * (self.intercept - y) + tube
        self.multiplier = 1 + np.stack([np.maximum(gradient, 0), np.maximum(-gradient, 0)], axis=1)
        self.slack = np.full_like(self.multiplier, 0.5)

    def rounded(self) -> Floats:
        """β/C with entries that are about to reach 0 or ±1 put there, if its sum allows.

        A variable goes to the bound if that changes its own residual by less than its multiplier.
        """
        below = (1 + self.C * np.diagonal(self.K)) * self.slack < self.multiplier
        lower_is_stronger = self.multiplier[:, 0] >= self.multiplier[:, 1]
        at_lower = below[:, 0] & lower_is_stronger
        at_upper = below[:, 1] & ~lower_is_stronger
        free = ~(at_lower | at_upper).all(axis=0)
        beta = np.where(free, self.beta, at_upper[0].astype(float) - at_upper[1])
        excess = beta.sum() / max(free.sum(), 1)
        beta = np.where(free, np.clip(beta - excess, -1.0, 1.0), beta)
        return self.beta if abs(beta.sum()) > _SUM_TOLERANCE * np.abs(beta).sum() else beta

    def advance(self) -> bool:
        """Take one step, and return whether it is finite."""
        slack, multiplier = self.slack, self.multiplier
        curvature = (multiplier / slack).sum(axis=1)
        diagonal = 1 / (1 / curvature).sum(axis=0)
        fit = self.C * (self.K @ self.beta) + self.intercept - self.y
        gradient = _SIGN * fit + self.tube - multiplier[:, 0] + multiplier[:, 1]
        factor = self._factor(diagonal)
        ones = dpotrs(factor, np.ones(len(self.y)), lower=1)[0]

        def direction(target: Floats) -> tuple[Floats, Floats, Floats, float]:
            """Newton's direction in which slack·multiplier changes by ``target``."""
            pull = target / slack
            force = pull[:, 0] - pull[:, 1] - gradient
            right = diagonal * (_SIGN * force / curvature).sum(axis=0)
            moved = dpotrs(factor, right, lower=1)[0]
            d_intercept = (moved.sum() + self.beta.sum()) / ones.sum()
            d_beta = moved - d_intercept * ones
            d_sides = (force - _SIGN * (right - diagonal * d_beta)) / curvature
            d_slack = np.stack([d_sides, -d_sides], axis=1)
            return d_slack, (target - multiplier * d_slack) / slack, d_beta, d_intercept

        product = slack * multiplier
        mean = product.mean()
        d_slack, d_multiplier, _, _ = direction(-product)
        length = self._longest_step(d_slack, d_multiplier, 1.0)
        ahead = (slack + length * d_slack) * (multiplier + length * d_multiplier)
        centre = mean * np.clip(ahead.mean() / mean, 0, 1) ** 3
        d_slack, d_multiplier, d_beta, d_intercept = direction(
            centre - product - d_slack * d_multiplier
        )
        length = self._longest_step(d_slack, d_multiplier, _STEP)
        # products below this would round to zero
        tiny = np.finfo(float).tiny ** 0.25
        self.slack = np.maximum(slack + length * d_slack, tiny)
        self.multiplier = np.maximum(multiplier + length * d_multiplier, tiny)
        self.beta = self.beta + length * d_beta
        self.intercept = self.intercept + length * d_intercept
        return bool(np.isfinite(self.intercept) and np.isfinite(self.beta).all())

    def _longest_step(self, d_slack: Floats, d_multiplier: Floats, share: float) -> float:
        """Share of the way to the nearest bound, at most 1."""
        speed = max((-d_slack / self.slack).max(), (-d_multiplier / self.multiplier).max())
        return float(share / max(speed, share))

    def _factor(self, diagonal: Floats) -> Floats:
        """Cholesky factor of C·K + diagonal, with as small a ridge as rounding asks for."""
        ridge = _RIDGE * self.C * self.largest
        while True:
            matrix = self.C * self.K
            matrix.flat[:: len(matrix) + 1] += diagonal + ridge
            factor, failed = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
            if not failed:
                return factor
            ridge *= 100
