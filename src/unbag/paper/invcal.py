"""Inverse calibration (InvCal): support vector regression on the bags.

Rüping, *SVM classifier estimation from group probabilities*, ICML 2010. A score f is calibrated
if 1/(1 + e^{−f}) is the chance of the positive class. InvCal turns this around: the mean score
of a bag of proportion p_k should be near the log-odds

    y_k = −log(1/p_k − 1),    up to    ε_k = ε/(p_k(1 − p_k)),

which is what an error of ε in p_k amounts to. Proportions are kept within [1/T, 1 − 1/T], T being
the number of instances. A bag is represented by the mean of its instances in the RKHS, so the
kernel of two bags is the mean of the kernel over their instances.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from tqdm import tqdm

from unbag._arrays import Floats
from unbag._checks import check_count, check_nonnegative, check_positive
from unbag._progress import progress_bar
from unbag.bags.bags import Bags
from unbag.model_selection.splitters import check_cv
from unbag.models.base import LogOddsClassifier
from unbag.models.checks import check_grid
from unbag.paper.kernel_machine import BagFolds, KernelMachine
from unbag.paper.kernels import Kernel, bag_kernel, mean_kernel
from unbag.paper.minimisation import warn_not_converged
from unbag.paper.tube_regression import BagRegression, solve_bag_regression


def log_odds_targets(proportion: Floats, n_instances: int) -> tuple[Floats, Floats]:
    """Targets y_k = −log(1/p_k − 1), and 1/(p_k(1 − p_k)), by which ε is widened.

    Proportions are first brought into [1/T, 1 − 1/T], T being the number of instances.
    """
    p = np.clip(proportion, 1 / n_instances, 1 - 1 / n_instances)
    return -np.log(1 / p - 1), 1 / (p * (1 - p))


class InvCalModel(KernelMachine, LogOddsClassifier):
    """f(x) = Σ_k β_k · (mean of k(x, ·) over bag k) + b."""

    def _check_Xy(self, X: Any, y: Any) -> tuple[Any, Bags]:
        X, bags = super()._check_Xy(X, y)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        return X, bags

    def _solve(
        self, K: Floats, proportion: Floats, n_instances: int, C: Floats, epsilon: Floats
    ) -> BagRegression:
        if not np.isfinite(K).all():
            raise ValueError("The kernel is too large for floating-point numbers; scale X.")
        y, widening = log_odds_targets(proportion, n_instances)
        tubes = epsilon[:, None] * widening
        return solve_bag_regression(K, y, tubes, C, tol=self.tol, max_iter=int(self.max_iter))

    def _store(self, fit: BagRegression, kernel: Kernel, X: Floats, bags: Bags) -> None:
        """Keep a single solution and what prediction needs of it."""
        self.class_prior_ = bags.class_shares
        self.bag_coef_ = fit.coef[0]
        self.intercept_ = fit.intercept[:1].astype(float)
        self.n_iter_ = int(max(1, fit.n_iter[0]))
        self.converged_ = bool(fit.converged[0])
        by_instance = (self.bag_coef_ / bags.sizes)[bags.index]
        self.kernel_ = kernel
        if kernel.name == "precomputed":
            self.points_, self.dual_coef_ = None, by_instance[None]
        else:
            support = np.flatnonzero(by_instance)
            self.points_, self.dual_coef_ = X[support], by_instance[None, support]
        if not self.bag_coef_.any():
            warnings.warn(
                "Every bag lies within its tube, so that all instances get the same score; use a "
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
        ε_k is about ε·T, so that even a small ε leaves pure bags without influence.
    kernel : {"rbf", "linear", "precomputed"}, default="rbf"
        Kernel of the instances; with "precomputed", X is their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf": "scale" is 1/(d·Var(X)), "auto" 1/d.
    tol : float, default=1e-6
        Converged when the optimality conditions hold up to this much, in log-odds.
    max_iter : int, default=100
        Iterations after which the fit is given up, with a ConvergenceWarning.
    verbose : int, default=0
        Whether to show a progress bar.

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
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        check_positive(self.C, "C")
        check_nonnegative(self.epsilon, "epsilon")
        C, epsilon = np.array([float(self.C)]), np.array([float(self.epsilon)])
        kernel = self._make_kernel(self.gamma, X)
        with progress_bar(total=1, verbose=self.verbose, desc="fitting", unit="fit") as bar:
            K = bag_kernel(kernel, X, bags)
            fit = self._solve(K, bags.clipped_proportions[:, 1], bags.n_instances, C, epsilon)
            bar.update()
        self._store(fit, kernel, X, bags)
        warn_not_converged(int(not self.converged_), 1, self.max_iter, self._steps)
        return self


class InvCalClassifierCV(InvCalModel):
    """`InvCalClassifier` that chooses its parameters by the error on held-out bags.

    The error of a bag is |predicted − given proportion|, where the predicted proportion is the
    share of its instances with f(x) > 0; held-out bags count by their size, those of all folds
    together. This is how the authors of ∝SVM (Yu et al., 2013) tune InvCal, and their grid is
    the default.

    For each kernel width, the kernel means are computed once and serve all folds and all pairs
    of C and ε; the pairs are solved together.

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
    kernel, tol, max_iter, verbose : as in `InvCalClassifier`

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
    >>> from sklearn.metrics import roc_auc_score
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = InvCalClassifierCV().fit(data.X, data.y)
    >>> model.bag_errors_.shape
    (3, 3, 3)
    >>> bool(0.8 < roc_auc_score(data.labels, model.out_of_fold_scores_) < 1.0)
    True
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
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.epsilons = epsilons
        self.gammas = gammas
        self.cv = cv
        self.kernel = kernel
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        Cs = check_grid(self.Cs, "Cs")
        epsilons = check_grid(self.epsilons, "epsilons", zero_is_fine=True)[::-1]
        kernels = self._make_kernels(self.gammas, X)
        C, epsilon = (a.ravel() for a in np.meshgrid(Cs, epsilons, indexing="ij"))
        folds = BagFolds(bags, check_cv(self.cv, X, np.asarray(y)))
        n_fits = len(kernels) * len(folds.held) * len(C) + 1
        with progress_bar(total=n_fits, verbose=self.verbose, desc="fitting", unit="fit") as bar:
            tried = [self._try(kernel, X, folds, C, epsilon, bar) for kernel in kernels]
            errors = np.stack([trial.errors for trial in tried], axis=1)
            # errors that are equal but for rounding are equal
            pair, width = np.unravel_index(np.argmin(errors.round(12)), errors.shape)
            best, kernel = tried[width], kernels[width]
            on_all = folds.training()
            fit = self._solve(
                on_all.kernel(best.piece_kernel),
                on_all.proportion,
                on_all.n_instances,
                C[[pair]],
                epsilon[[pair]],
            )
            bar.update()
        self._store(fit, kernel, X, bags)
        self.C_, self.epsilon_ = float(C[pair]), float(epsilon[pair])
        self.Cs_, self.epsilons_ = Cs, epsilons
        self._keep_widths(kernels, int(width))
        self.bag_errors_ = errors.reshape(len(Cs), len(epsilons), len(kernels))
        self.out_of_fold_scores_ = best.scores[pair] if folds.each_once else None
        n_failed = sum(trial.n_failed for trial in tried) + (not self.converged_)
        warn_not_converged(n_failed, n_fits, self.max_iter, self._steps)
        return self

    def _try(
        self, kernel: Kernel, X: Floats, folds: BagFolds, C: Floats, epsilon: Floats, bar: tqdm
    ) -> _Trial:
        """Fit all pairs of C and ε on each fold, with one kernel."""
        pieces = folds.pieces
        to_pieces = np.empty((pieces.n_instances, pieces.n_bags))
        for rows, means in mean_kernel(kernel, X, pieces):
            to_pieces[rows] = means
        between = pieces.means(to_pieces.T)
        between = (between + between.T) / 2
        errors, n_held = np.zeros(len(C)), 0
        scores = np.empty((len(C), pieces.n_instances))
        n_failed = 0
        for out in folds.held:
            training = folds.training(~out)
            fit = self._solve(
                training.kernel(between), training.proportion, training.n_instances, C, epsilon
            )
            n_failed += int((~fit.converged).sum())
            part, rows = pieces.take(out)
            found = fit.coef @ training.join(to_pieces[rows]).T + fit.intercept[:, None]
            wrong = np.abs(part.means((found > 0).astype(float)) - part.clipped_proportions[:, 1])
            errors += wrong @ part.sizes
            n_held += len(rows)
            scores[:, rows] = found
            bar.update(len(C))
        return _Trial(errors / n_held, scores, between, n_failed)


@dataclass(frozen=True, eq=False)
class _Trial:
    """What cross-validation with one kernel found, for each pair of C and ε."""

    errors: Floats
    scores: Floats
    piece_kernel: Floats
    n_failed: int
