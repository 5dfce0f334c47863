"""What published support vector methods have in common: two classes, one kernel or several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from unbag._arrays import Bools, Floats
from unbag.bags.bags import Bags
from unbag.kernels.matrices import WITH_GAMMA, Kernel, make_kernel
from unbag.kernels.rows import RowsInMemory
from unbag.model_selection.splitters import cut_by_folds, naming_fold
from unbag.models.base import BagClassifier
from unbag.weights import check_contrast


class KernelMachine(BagClassifier):
    """f(x) = Σ_j α_j k(x, z_j) + b, for two classes."""

    kernel: Any
    degree: Any
    coef0: Any
    tol: Any
    max_iter: Any
    verbose: Any

    # what max_iter counts
    _steps: str = "iterations"

    kernel_: Kernel
    points_: NDArray[Any] | None
    dual_coef_: Floats
    intercept_: Floats

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _check_Xy(self, X: Any, y: Any) -> tuple[Any, Bags]:
        X, bags = super()._check_Xy(X, y)
        if bags.n_classes > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{type(self).__name__} is for two classes, and there are {bags.n_classes}; "
                "LLPKernelClassifier takes any number."
            )
        return X, bags

    def _make_kernel(self, gamma: Any, X: NDArray[Any]) -> Kernel:
        return make_kernel(self.kernel, gamma, self.degree, self.coef0, RowsInMemory(X))

    def _make_kernels(self, gammas: Any, X: NDArray[Any]) -> list[Kernel]:
        """One kernel for each gamma, in rising order; one in all if gamma plays no role in it."""
        if self.kernel not in WITH_GAMMA:
            return [self._make_kernel(1.0, X)]
        listed = isinstance(gammas, Iterable) and not isinstance(gammas, str)
        widths = list(gammas) if listed else []
        if not widths:
            raise ValueError(f"gammas must be a list of widths, not {gammas!r}.")
        kernels = {kernel.gamma: kernel for kernel in (self._make_kernel(g, X) for g in widths)}
        return [kernels[gamma] for gamma in sorted(kernels)]

    def _keep_widths(self, kernels: list[Kernel], best: int) -> None:
        """Keep the gammas of a search, and the one that was chosen; None if there are none."""
        has_gamma = self.kernel in WITH_GAMMA
        self.gamma_ = kernels[best].gamma if has_gamma else None
        self.gammas_ = np.array([kernel.gamma for kernel in kernels]) if has_gamma else None

    def _scores(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.kernel_.expand(X, self.points_, self.dual_coef_) + self.intercept_


def cut_by_trainable_folds(bags: Bags, held_rows: Bools) -> tuple[Bags, Bools]:
    """As `cut_by_folds`, and refuse folds without which all bags are alike."""
    pieces, held = cut_by_folds(bags, held_rows)
    for number, out in enumerate(held):
        with naming_fold(number, len(held)):
            check_contrast(pieces.take(~out)[0])
    return pieces, held
