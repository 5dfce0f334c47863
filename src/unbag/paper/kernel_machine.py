"""What the two competitors of the paper share: a kernel classifier and the search of its settings.

Both are support vector machines of some kind, for two classes, and both choose their settings by
how far the predicted proportions of held-out bags are from the known ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from unbag._arrays import Bools, Floats, Ints
from unbag.bags.bags import Bags, check_bag_target
from unbag.model_selection.splitters import check_cv, cut_by_folds, naming_fold
from unbag.models.base import BagClassifier
from unbag.paper.kernels import Kernel, make_kernel
from unbag.paper.minimisation import check_grid, warn_not_converged
from unbag.weights import check_contrast


@dataclass(frozen=True, eq=False)
class Fold:
    """Bags to train on and held-out bags, each with its rows of X."""

    train: Bags
    rows: Ints
    out: Bags
    out_rows: Ints


# For each fold, scores (n_Cs, n_others, n_held_out) of its held-out rows for each C and each value of
# the other setting, and how many fits did not converge.
FitFolds = Callable[[Kernel, Any, list[Fold]], Iterator[tuple[Floats, int]]]


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

    def _search(
        self,
        fit_folds: FitFolds,
        X: Any,
        y: Any,
        bags: Bags,
        others: Floats,
        order: tuple[int, int, int],
    ) -> tuple[Kernel, float, int, int]:
        """Choose among all kernels, Cs and values of the other setting by held-out bags.

        Of equal errors the first is taken, going through the three in this order. Returns the
        kernel, the other setting and how many fits did not converge of how many.
        """
        y, kernels = np.asarray(y), self._make_kernels(X)
        errors = np.zeros((len(kernels), len(self.Cs_), len(others)))
        self.bag_errors_ = self.out_of_fold_scores_ = None
        place, n_failed, n_fits = [0, 0, 0], 0, 0
        if errors.size > 1:
            folds = _make_folds(y, bags, check_cv(self.cv, X, y))
            scores = np.full((*errors.shape, len(y)), np.nan)
            for k, kernel in enumerate(kernels):
                for fold, (found, failed) in zip(folds, fit_folds(kernel, X, folds), strict=True):
                    share = fold.out.means((found > 0).astype(float))
                    off = np.abs(share - fold.out.clipped_proportions[:, 1])
                    errors[k] += off @ fold.out.sizes
                    scores[k][..., fold.out_rows] = found
                    n_failed += failed
            n_fits = errors.size * len(folds)
            held = np.concatenate([fold.out_rows for fold in folds])
            # sums of the same numbers may differ by rounding, which should not decide
            errors = (errors / len(held)).round(12)
            ordered = errors.transpose(order)
            first = np.unravel_index(ordered.argmin(), ordered.shape)
            place = [int(first[order.index(axis)]) for axis in range(3)]
            self.bag_errors_ = np.moveaxis(errors, 0, -1)
            if np.array_equal(np.sort(held), np.arange(len(y))):
                self.out_of_fold_scores_ = scores[tuple(place)]
        k, c, o = place
        self.C_ = float(self.Cs_[c])
        has_gamma = self.kernel == "rbf"
        self.gamma_ = kernels[k].gamma if has_gamma else None
        self.gammas_ = np.array([kernel.gamma for kernel in kernels]) if has_gamma else None
        return kernels[k], float(others[o]), n_failed, n_fits

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

    def _warn(self, n_failed: int, n_fits: int) -> None:
        """Warn of fits that did not converge, the last one included."""
        n_failed += not self.converged_
        warn_not_converged(n_failed, n_fits + 1, self.max_iter, self._steps)


def _make_folds(y: NDArray[Any], bags: Bags, held_rows: Bools) -> list[Fold]:
    """Folds of whole bags, each of which can be trained; those of labelled rows are cut."""
    pieces, held = cut_by_folds(bags, held_rows)
    folds = []
    for number, out in enumerate(held):
        part, out_rows = pieces.take(out)
        rows = pieces.take(~out)[1]
        with naming_fold(number, len(held)):
            train = check_bag_target(y[rows])
            check_contrast(train)
        folds.append(Fold(train, rows, part, out_rows))
    return folds
