"""Kernels between bags: a bag stands for the mean of its instances in the RKHS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag._arrays import Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.kernels.matrices import Kernel, row_blocks
from unbag.paper.kernel_machine import cut_by_trainable_folds


def mean_kernel(kernel: Kernel, X: Floats, bags: Bags) -> Iterator[tuple[Ints, Floats]]:
    """Mean of the kernel from instances to bags, a block of instances after the other.

    Yields rows of X, bag after bag, and their means, of shape (n_rows, n_bags). Of the instance
    kernel, only one block is held at a time.
    """
    order = np.argsort(bags.index, kind="stable")
    blocks = [order[rows] for rows in row_blocks(len(order))]
    for rows in blocks:
        sums = np.zeros((len(rows), bags.n_bags))
        for columns in blocks:
            if kernel.name == "precomputed":
                block = kernel.block(X[np.ix_(rows, columns)], None, np.float64)
            else:
                block = kernel.block(X[rows], X[columns], np.float64)
            present, starts = np.unique(bags.index[columns], return_index=True)
            sums[:, present] += np.add.reduceat(block, starts, axis=1)
        yield rows, sums / bags.sizes


def bag_kernel(kernel: Kernel, X: Floats, bags: Bags) -> Floats:
    """Mean of the kernel over all pairs of instances of two bags, for any two bags."""
    K = np.zeros((bags.n_bags, bags.n_bags))
    for rows, means in mean_kernel(kernel, X, bags):
        present, starts = np.unique(bags.index[rows], return_index=True)
        K[present] += np.add.reduceat(means, starts, axis=0)
    K /= bags.sizes[:, None]
    return (K + K.T) / 2


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
