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
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from unbag._arrays import Floats
from unbag._checks import check_count, check_grid, check_positive
from unbag.bags.bags import Bags
from unbag.models.base import LogOddsClassifier, row_blocks
from unbag.paper.kernels import Kernel, KernelMachine

# The tube of LIBSVM, in units of the largest target and tube of a bag.
_WIDE = 10.0


def log_odds_targets(proportion: Floats, n_instances: int) -> tuple[Floats, Floats]:
    """Targets y_k = −log(1/p_k − 1), and 1/(p_k(1 − p_k)), by which ε is widened.

    Proportions are first brought into [1/T, 1 − 1/T], T being the number of instances.
    """
    p = np.clip(proportion, 1 / n_instances, 1 - 1 / n_instances)
    return -np.log(1 / p - 1), 1 / (p * (1 - p))


def mean_kernel(kernel: Kernel, X: Floats, mean: Any) -> Floats:
    """Kernel from instances to means of instances, which the columns of a sparse matrix average."""
    return np.concatenate([kernel.block(X[rows], X) @ mean for rows in row_blocks(len(X))])


class BagRegression(NamedTuple):
    """β, what it makes of each instance, b, and whether they were found in so many steps."""

    bag_coef: Floats
    coef: Floats
    intercept: float
    converged: bool
    n_iter: int


def solve_bag_regression(
    K: Floats, y: Floats, tube: Floats, C: float, *, tol: float = 1e-6, max_iter: int = 1_000_000
) -> BagRegression:
    """Support vector regression with a tube of its own for every bag.

        min_β  ½ βᵀKβ − yᵀβ + Σ_k ε_k|β_k|    with Σ_k β_k = 0 and |β_k| ≤ C.

    LIBSVM has one tube E for all. So each bag is there twice, with the targets y − ε + E and
    y + ε − E: where E is large, the first can only pull scores up to y − ε, the second only down to
    y + ε. Optimality conditions may be violated by ``tol``, in single precision of K.
    """
    n, wide = len(y), _WIDE * float(np.abs(y).max() + tube.max())
    svr = SVR(kernel="precomputed", C=C, epsilon=wide, tol=tol, max_iter=max_iter)
    with (
        config_context(assume_finite=True, skip_parameter_validation=True),
        warnings.catch_warnings(),
    ):
        # said by `KernelMachine`, once for all fits
        warnings.simplefilter("ignore", ConvergenceWarning)
        svr.fit(np.tile(K, (2, 2)), np.concatenate([y - tube + wide, y + tube - wide]))
    coef = np.zeros(n)
    np.add.at(coef, svr.support_ % n, svr.dual_coef_[0])
    return BagRegression(
        coef, coef, float(svr.intercept_[0]), not svr.fit_status_, int(svr.n_iter_)
    )


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
        fit, self.epsilon_ = self._choose_and_fit(
            self._fit_grid, X, y, bags, self.epsilons_, (1, 2, 0)
        )
        self.class_prior_, self.bag_coef_ = bags.class_shares, fit.bag_coef
        if not self.bag_coef_.any():
            warnings.warn(
                "Every bag lies within its tube, so all instances get the same score; use a "
                "smaller epsilon.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _fit_grid(
        self, kernel: Kernel, X: Any, bags: Bags, Cs: Floats, epsilons: Floats
    ) -> list[BagRegression]:
        mean: Any = csr_array((1 / bags.sizes[bags.index], (np.arange(len(X)), bags.index)))
        K = mean.T @ mean_kernel(kernel, X, mean)
        if not np.isfinite(K).all():
            raise ValueError("The kernel is too large for floating-point numbers; scale X.")
        K = (K + K.T) / 2
        y, widening = log_odds_targets(bags.clipped_proportions[:, 1], bags.n_instances)
        solver = {"tol": self.tol, "max_iter": int(self.max_iter)}
        fits = [
            solve_bag_regression(K, y, epsilon * widening, float(C), **solver)
            for C, epsilon in product(Cs, epsilons)
        ]
        return [fit._replace(coef=mean @ fit.bag_coef) for fit in fits]
