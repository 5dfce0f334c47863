"""What the two methods that the paper compares with share: a kernel classifier and its search.

Both are support vector machines of some kind, for two classes, and both choose their settings by
how far the predicted proportions of held-out bags are from the known ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from unbag._arrays import Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.model_selection.splitters import cut_by_folds, naming_fold
from unbag.models.base import BagClassifier
from unbag.paper.kernels import Kernel, make_kernel
from unbag.weights import check_contrast


class KernelMachine(BagClassifier):
    """f(x) = Σ_j α_j k(x, z_j) + b, for two classes."""

    kernel: Any
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
                "LMMCMClassifier takes any number."
            )
        return X, bags

    def _make_kernel(self, gamma: Any, X: NDArray[Any]) -> Kernel:
        return make_kernel(self.kernel, gamma, X)

    def _make_kernels(self, gammas: Any, X: NDArray[Any]) -> list[Kernel]:
        """One kernel for each gamma, in rising order; one in all if gamma plays no role in it."""
        if self.kernel != "rbf":
            return [self._make_kernel(1.0, X)]
        listed = isinstance(gammas, Iterable) and not isinstance(gammas, str)
        widths = list(gammas) if listed else []
        if not widths:
            raise ValueError(f"gammas must be a list of widths, not {gammas!r}.")
        kernels = {kernel.gamma: kernel for kernel in (self._make_kernel(g, X) for g in widths)}
        return [kernels[gamma] for gamma in sorted(kernels)]

    def _keep_widths(self, kernels: list[Kernel], best: int) -> None:
        """Keep the gammas of a search, and the one that was chosen; None if there are none."""
        has_gamma = self.kernel == "rbf"
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


@dataclass(frozen=True, eq=False)
class TrainingBags:
    """Bags to train on, each of one or several of the pieces that folds make of it."""

    pieces: Ints
    weights: Floats
    starts: Ints
    proportion: Floats
    n_instances: int

    def join(self, by_piece: Floats) -> Floats:
        """Means over these bags from those over all pieces, along the last axis."""
        return np.add.reduceat(by_piece[..., self.pieces] * self.weights, self.starts, axis=-1)

    def kernel(self, of_pieces: Floats) -> Floats:
        """Kernel of these bags from that of all pieces."""
        return self.join(self.join(of_pieces).T)


class BagFolds:
    """Which bags are held out; those of labelled rows are cut where folds cut them."""

    def __init__(self, bags: Bags, held_rows: Bools) -> None:
        self.pieces, self.held = cut_by_trainable_folds(bags, held_rows)
        self.each_once = bool((self.held.sum(axis=0) == 1).all())
        self._bag = np.empty(self.pieces.n_bags, dtype=np.intp)
        self._bag[self.pieces.index] = bags.index

    def training(self, kept: Any = slice(None)) -> TrainingBags:
        """Bags made of some pieces, by default of all; pieces of a bag follow each other."""
        pieces = np.arange(self.pieces.n_bags)[kept]
        sizes = self.pieces.sizes[pieces]
        _, starts, code = np.unique(self._bag[pieces], return_index=True, return_inverse=True)
        return TrainingBags(
            pieces=pieces,
            weights=sizes / np.bincount(code, sizes)[code],
            starts=starts,
            proportion=self.pieces.clipped_proportions[pieces[starts], 1],
            n_instances=int(sizes.sum()),
        )
