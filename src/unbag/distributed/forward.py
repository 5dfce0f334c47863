"""The forward likelihood, and means over bags, of instances that are spread over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbag._arrays import Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.distributed.instances import Instances
from unbag.distributed.partitions import Travelling, share
from unbag.distributed.risk import DistributedData, Model, Request, RowScorer
from unbag.observations.forward import forward_losses, forward_tables

# Scores of rows that are worked on together; less than 2**14, see `unbag.distributed.risk`.
_BLOCK_SCORES = 12_000


@dataclass(frozen=True, eq=False)
class ForwardTable(Travelling):
    """What workers need to know of bags, by their entries.

    Attributes
    ----------
    ratio : ndarray of shape (n_problems, n_classes, n_entries)
        γ_c/q_c.
    weight : ndarray of shape (n_problems, 1, n_entries)
        What an instance weighs.
    offsets : ndarray of shape (n_problems, n_outputs)
        What is added to scores.
    """

    ratio: Floats
    weight: Floats
    offsets: Floats

    def of(self, included: Bools) -> ForwardTable:
        """The same, with weight for some entries only."""
        return replace(self, weight=self.weight * included)

    def join(self, tables: Sequence[ForwardTable]) -> ForwardTable:
        """Take the problems of several tables of the same bags."""
        names = ("ratio", "weight", "offsets")
        return ForwardTable(*(np.concatenate([getattr(t, n) for t in tables]) for n in names))


def make_forward_table(included: Bools, bags: Bags, offsets: Floats) -> ForwardTable:
    """Read a table of bags, whose index runs over entries."""
    ratio, weight = forward_tables(included, bags)
    return ForwardTable(ratio[:, :, bags.index], weight[:, :, bags.index], offsets)


def partial_forward(
    group: list[Instances], model: Model, table: ForwardTable, request: Request
) -> list[Floats]:
    """Sum of losses of some partitions per column, and their gradient."""
    scorer = RowScorer(model, table.offsets, request)
    columns, outputs, _ = request.coefficients.shape
    value, size = np.zeros(columns), max(64, _BLOCK_SCORES // (columns * outputs))
    one = len(table.ratio) == 1
    for instances in group:
        for X, entry in instances.blocks(size):
            scores, values = scorer.scores(X)
            ratio, weight = table.ratio[:, :, entry], table.weight[:, :, entry]
            if not one:
                ratio, weight = ratio[request.problem], weight[request.problem]
            losses, slopes = forward_losses(scores, ratio, weight)
            value += losses.sum(axis=-1)
            if request.gradient:
                scorer.add(slopes, values)
    return [value, scorer.gradient]


class DistributedForward:
    """The forward likelihood as a function of coefficients θ, of shape (columns, 1, coefficients).

    Parameters
    ----------
    table : ForwardTable
    data : DistributedData
    """

    n_outputs = 1

    def __init__(self, table: ForwardTable, data: DistributedData) -> None:
        self._table, self._data = share(table), data

    def value(self, theta: Floats, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column."""
        request = self._data.request(theta[:, 0], problem, gradient=False)
        return self._data.reduce(partial_forward, self._table, request)[0]

    def value_and_gradient(self, theta: Floats, problem: Ints) -> tuple[Floats, Floats]:
        """Mean negative log-likelihood per column and its gradient by the coefficients."""
        request = self._data.request(theta[:, 0], problem, gradient=True)
        value, gradient = self._data.reduce(partial_forward, self._table, request)
        return value, self._data.by_coefficients(gradient)[:, None, :]


def chance_sums(
    group: list[Instances], model: Model, fold: Ints, offsets: Floats, request: Request
) -> list[Floats]:
    """Σ p and Σ p(1 − p) over each entry, by the model of the fold that holds it out.

    Columns are folds; ``fold`` says which holds out each entry.
    """
    scorer = RowScorer(model, offsets, request)
    columns, outputs, _ = request.coefficients.shape
    n_classes = max(outputs, 2)
    sums = np.zeros((2, n_classes, len(fold)))
    for instances in group:
        for X, entry in instances.blocks(max(64, _BLOCK_SCORES // (columns * outputs))):
            scores, _ = scorer.scores(X)
            own = scores[fold[entry], :, np.arange(len(entry))].T
            if outputs == 1:
                own = np.concatenate([np.zeros_like(own), own])
            powers = np.exp(own - own.max(axis=0))
            chances = powers / powers.sum(axis=0)
            for c, row in enumerate(chances):
                sums[0, c] += np.bincount(entry, row, len(fold))
                sums[1, c] += np.bincount(entry, row * (1 - row), len(fold))
    return [sums]


def held_out_moments(
    theta: Floats, bags: Bags, fold: Ints, offsets: Floats, data: DistributedData
) -> tuple[Floats, Floats]:
    """Means of p and p(1 − p) over every bag, by the model (one for each fold) without it.

    Returns
    -------
    means, variances : ndarrays of shape (n_bags, n_classes)
    """
    every: Any = np.arange(len(theta))
    request = data.request(theta, every, gradient=False)
    (sums,) = data.reduce(chance_sums, fold, offsets, request)
    by_bag = np.stack(
        [[np.bincount(bags.index, row, bags.n_bags) for row in table] for table in sums]
    )
    means, variances = by_bag / bags.sizes
    return means.T, variances.T
