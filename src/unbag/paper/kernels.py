"""Kernels of instances, and what the two competitors of the paper share: classifiers with a kernel.

InvCal and alter-∝SVM are support vector machines of some kind, for two classes, and choose their
settings by how far the predicted proportions of held-out bags are from the known ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from unbag._arrays import Bools, Floats
from unbag._checks import check_choice, check_grid
from unbag._text import counted
from unbag._threads import physical_memory
from unbag.bags.bags import Bags, check_bag_target
from unbag.model_selection.splitters import check_cv, cut_by_folds, naming_fold
from unbag.models.base import BagClassifier, row_blocks
from unbag.weights import check_contrast


@dataclass(frozen=True)
class Kernel:
    """k(x, z): e^{−γ‖x−z‖²} (rbf) or xᵀz (linear)."""

    name: str
    gamma: float = 1.0

    def block(self, X: NDArray[Any], Z: Any) -> Floats:
        """Kernel (n_rows, n_points) between the rows of X and the points Z."""
        # far from the origin a distance is a small difference of large numbers
        X, Z = X.astype(float, copy=False), Z.astype(float, copy=False)
        product = X @ Z.T
        if self.name == "linear":
            return product
        product *= 2 * self.gamma
        product -= self.gamma * np.sum(X * X, axis=1)[:, None]
        product -= self.gamma * np.sum(Z * Z, axis=1)[None, :]
        # rounding can make a tiny squared distance negative
        return np.exp(np.minimum(product, 0, out=product), out=product)

    def matrix(self, X: NDArray[Any]) -> Floats:
        """Symmetric kernel matrix of the rows of X."""
        return np.concatenate([self.block(X[rows], X) for rows in row_blocks(len(X))])

    def expand(self, X: NDArray[Any], Z: Any, coef: Floats) -> Floats:
        """Σ_j coef[., j] k(x, z_j) for every row x of X, of shape (n_outputs, n_rows)."""
        parts = [coef @ self.block(X[rows], Z).T for rows in row_blocks(len(X))]
        return np.concatenate(parts, axis=1)


def make_kernel(name: str, gamma: str | float, X: NDArray[Any]) -> Kernel:
    """Check the settings of a kernel and fix γ for the instances X.

    ``"scale"`` is 1/(d·Var(X)), as in the paper, ``"wide"`` half of it, which for standardised
    columns is one over the mean squared distance of two rows, and ``"auto"`` is 1/d.
    """
    check_choice(name, ("rbf", "linear"), "kernel")
    if not (isinstance(gamma, Real) or gamma in ("wide", "scale", "auto")):
        raise ValueError(f"gamma must be 'wide', 'scale', 'auto' or a number, not {gamma!r}.")
    if isinstance(gamma, str):
        variance = float(X.var()) if gamma != "auto" and name == "rbf" else 1.0
        scale = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        gamma = scale / 2 if gamma == "wide" else scale
    if not gamma > 0 or not np.isfinite(gamma):
        raise ValueError(f"gamma must be positive and finite, not {gamma!r}.")
    return Kernel(name, float(gamma))


def check_kernel_memory(n: int, copies: int = 1) -> None:
    """Refuse kernel matrices that the machine cannot hold."""
    need, total = 8 * n * n * copies, physical_memory()
    if total is not None and need > 0.8 * total:
        raise MemoryError(
            f"The kernel matrix of {n:,} instances would take {need / 1e9:,.0f} GB and this machine "
            f"has {total / 1e9:,.0f} GB; use unbag.LLPClassifier, whose kernel has landmarks."
        )


def warn_not_converged(
    n_failed: int, n_fits: int, max_iter: int, steps: str = "iterations"
) -> None:
    """Warn that some fits were given up after so many steps."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of {counted(n_fits, 'fit')} did not converge within max_iter={max_iter} "
            f"{steps}; raise max_iter or tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=3,
        )


# --- the two competitors of the paper --------------------------------------------------------------


# Solutions f = Σ_j coef_j k(·, x_j) + intercept for each C and each value of the other setting, on
# some rows and their bags: objects with ``coef``, ``intercept``, ``converged`` and ``n_iter``.
FitGrid = Callable[[Kernel, Any, Bags, Any, Any], list[Any]]


class KernelMachine(BagClassifier):
    """f(x) = Σ_j α_j k(x, z_j) + b, for two classes; C, gamma and one more setting are chosen.

    The choice has the smallest error Σ_k n_k |share of f > 0 in bag k − p_k| / Σ_k n_k over the
    held-out bags k of all folds, each with the f that did not see it.
    """

    Cs: Any
    gammas: Any
    cv: Any
    kernel: Any
    tol: Any
    max_iter: Any

    # what max_iter counts
    _steps: str

    kernel_: Kernel
    points_: NDArray[Any]
    dual_coef_: Floats
    intercept_: Floats
    converged_: bool

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check_Xy(self, X: Any, y: Any) -> tuple[Any, Bags]:
        X, bags = super()._check_Xy(X, y)
        if bags.n_classes > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{type(self).__name__} is for two classes, and there are {bags.n_classes}; "
                "LMMCMClassifier takes any number."
            )
        self.Cs_ = check_grid(self.Cs, "Cs")
        return X, bags

    def _scores(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.kernel_.expand(X, self.points_, self.dual_coef_) + self.intercept_

    def _choose_and_fit(
        self, fit_grid: FitGrid, X: Any, y: Any, bags: Bags, others: Floats, order: tuple[int, ...]
    ) -> tuple[Any, float]:
        """Choose kernel, C and the other setting by held-out bags, and fit to all.

        Of equal errors the first is taken, going through the three in this order.
        """
        kernels = self._make_kernels(X)
        self.bag_errors_ = self.out_of_fold_scores_ = None
        k, c, o, n_failed, n_fits = 0, 0, 0, 0, 1
        if max(len(kernels), len(self.Cs_), len(others)) > 1:
            held = check_cv(self.cv, X, np.asarray(y))
            errors, scores, n_failed = self._hold_out(
                fit_grid, X, np.asarray(y), bags, held, kernels, others
            )
            n_fits += errors.size * len(held)
            ordered = errors.transpose(order)
            first = np.unravel_index(ordered.argmin(), ordered.shape)
            k, c, o = (int(first[order.index(axis)]) for axis in range(3))
            self.bag_errors_ = np.moveaxis(errors, 0, -1)
            if (held.sum(axis=0) == 1).all():
                self.out_of_fold_scores_ = scores[k, c, o]
        kernel, self.C_ = kernels[k], float(self.Cs_[c])
        has_gamma = self.kernel == "rbf"
        self.gamma_ = kernel.gamma if has_gamma else None
        self.gammas_ = np.array([kernel.gamma for kernel in kernels]) if has_gamma else None
        (fit,) = fit_grid(kernel, X, bags, [self.C_], [float(others[o])])
        support = np.flatnonzero(fit.coef)
        self.kernel_, self.points_, self.dual_coef_ = kernel, X[support], fit.coef[None, support]
        self.intercept_ = np.array([fit.intercept])
        self.n_iter_, self.converged_ = max(1, fit.n_iter), fit.converged
        warn_not_converged(n_failed + (not fit.converged), n_fits, self.max_iter, self._steps)
        return fit, float(others[o])

    def _hold_out(
        self,
        fit_grid: FitGrid,
        X: Any,
        y: NDArray[Any],
        bags: Bags,
        held_rows: Bools,
        kernels: list[Kernel],
        others: Floats,
    ) -> tuple[Floats, Floats, int]:
        """Errors by kernel, C and other setting, scores of held-out rows, and failed fits."""
        errors = np.zeros((len(kernels), len(self.Cs_), len(others)))
        scores, n_failed = np.empty((*errors.shape, len(y))), 0
        pieces, held = cut_by_folds(bags, held_rows)
        for number, held_bags in enumerate(held):
            (out, out_rows), rows = pieces.take(held_bags), pieces.take(~held_bags)[1]
            with naming_fold(number, len(held)):
                train = check_bag_target(y[rows])
                check_contrast(train)
            known = out.clipped_proportions[:, 1]
            for k, kernel in enumerate(kernels):
                fits = fit_grid(kernel, X[rows], train, self.Cs_, others)
                found = kernel.expand(X[out_rows], X[rows], np.array([fit.coef for fit in fits]))
                found += np.array([[fit.intercept] for fit in fits])
                off = np.abs(out.means((found > 0).astype(float)) - known)
                errors[k] += (off @ out.sizes).reshape(errors[k].shape)
                scores[k][..., out_rows] = found.reshape(*errors[k].shape, -1)
                n_failed += sum(not fit.converged for fit in fits)
        # sums of the same numbers may differ by rounding, which should not decide
        return (errors / held_rows.sum()).round(12), scores, n_failed

    def _make_kernels(self, X: NDArray[Any]) -> list[Kernel]:
        """One kernel for each gamma, in rising order; one in all if gamma plays no role in it."""
        if self.kernel != "rbf":
            return [make_kernel(self.kernel, 1.0, X)]
        listed = isinstance(self.gammas, Iterable) and not isinstance(self.gammas, str)
        widths = list(self.gammas) if listed else []
        if not widths:
            raise ValueError(f"gammas must be a list of widths, not {self.gammas!r}.")
        kernels = {kernel.gamma: kernel for kernel in (make_kernel("rbf", g, X) for g in widths)}
        return [kernels[gamma] for gamma in sorted(kernels)]
