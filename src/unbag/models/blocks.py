"""The log-likelihood of bags in memory, block by block of whole bags.

Numbers of a block fit the cache of a processor, its columns of Φ are made once for all that is asked
at some coefficients, and threads share blocks out. Sums are the same whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from unbag._arrays import Floats
from unbag._threads import allowed_threads, for_each
from unbag.bags.bags import Bags
from unbag.bags.count_sets import CountWeights
from unbag.models.bag_variance import BagPredictions
from unbag.models.base import row_blocks
from unbag.models.newton import (
    Derivatives,
    DesignLikelihood,
    Products,
    add_derivatives,
    join_tables,
)
from unbag.observations.information import CountObservation
from unbag.terms.columns import Term
from unbag.terms.design import MOST_KEPT, Design, layout, n_dense_columns
from unbag.terms.encoding import EncodedRows, Moments

# Rows of a block, unless there are more sparse columns: its sums are as long as these.
_BLOCK = 2**15

# Fewer rows are done before threads would have started.
_MANY_ROWS = 50_000


class _Block(NamedTuple):
    """Some whole bags."""

    rows: slice
    bags: Bags
    observation: CountObservation
    design: Design | None  # if it is kept


class BlockLikelihood:
    """A likelihood (`unbag.models.newton.Likelihood`) that is summed over blocks of rows in memory.

    Parameters
    ----------
    terms : list of Term
        Fitted.
    rows : EncodedRows
        In the order of their bags.
    bags : Bags
        With rows of known label apart.
    offset : ndarray of shape (n_outputs, n_rows), optional
        Added to the scores.
    block : int
        About so many rows are worked on at the same time.
    threads : int, optional
        By default as many as libraries may use.

    Attributes
    ----------
    n_bytes : int
        Bytes of the columns that are kept.
    """

    def __init__(
        self,
        terms: list[Term],
        rows: EncodedRows,
        bags: Bags,
        offset: Floats | float = 0.0,
        *,
        block: int = _BLOCK,
        threads: int | None = None,
    ) -> None:
        self._terms, self._rows, self._bags, self._offset = terms, rows, bags, offset
        n_columns, of_row = layout(terms)[1], 8 * n_dense_columns(terms)
        length = block if n_columns == n_dense_columns(terms) else max(block, n_columns)
        self._blocks, self.n_bytes = [], 0
        for some, own in bags.blocks(length):
            size = of_row * (own.stop - own.start)
            keep = self.n_bytes + size <= MOST_KEPT
            design = Design(terms, rows[own], some.lengths) if keep else None
            self.n_bytes += size if keep else 0
            self._blocks.append(_Block(own, some, CountObservation(some), design))
        self.n_bags = sum(own.observation.n_bags_aggregated for own in self._blocks)
        self._has_effects = all(own.observation.has_bag_effects for own in self._blocks)
        if threads is None:
            threads = allowed_threads() if len(rows) >= _MANY_ROWS else 1
        self._threads = max(1, min(threads, len(self._blocks)))

    def value(self, theta: Floats) -> float:
        """ℓ(θ)."""
        return float(sum(self._each("value", theta)))

    def derivatives(self, theta: Floats, information: bool = True) -> Derivatives:
        """ℓ(θ), its gradient and, if it is wanted, H."""
        return add_derivatives(self._each("derivatives", theta, information))

    def bag_products(self, theta: Floats) -> Floats:
        """J."""
        return sum(self._each("bag_products", theta))

    def bag_tables(self, theta: Floats, covariance: Floats | None) -> list[BagPredictions]:
        """What is known and predicted of bags: of the second of two classes, or of each class."""
        return join_tables(self._each("bag_tables", theta, covariance)) if self._has_effects else []

    def products(self, theta: Floats) -> Products:
        """Products with H at θ, without a matrix."""
        found = list(self._each("row_information", theta))
        return lambda directions: sum(self._each("times", directions, own=found))

    def with_bag_effects(self, variances: Floats) -> BlockLikelihood:
        """The same with random intercepts of variances, one for each bag."""
        if not self._has_effects:
            return self
        ends = np.cumsum([own.observation.n_bags_aggregated for own in self._blocks])[:-1]
        pieces = iter(np.split(variances, ends))
        return self._with(lambda observation: observation.with_bag_effects(next(pieces)))

    def with_label_shift(self, weight: float) -> BlockLikelihood:
        """The same with weights of label shift for counts that are known as sets."""
        if not self._bags.is_set.any():
            return self
        weights = CountWeights(self._bags, weight)
        return self._with(lambda observation: observation.with_count_weights(weights))

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        return Moments.join(list(self._each("score_moments", theta, columns)))

    def _with(self, change: Callable[[CountObservation], CountObservation]) -> BlockLikelihood:
        other = copy(self)
        other._blocks = [own._replace(observation=change(own.observation)) for own in self._blocks]
        return other

    def _each(self, method: str, *inputs: Any, own: list[Any] | None = None) -> Iterator[Any]:
        """What a method of the likelihood of each block gives, of something of its own and inputs.

        In the order of blocks and few at a time, so that sums never wait for all of them.
        """
        n = len(self._blocks)
        found: dict[int, Any] = {}

        def work(number: int) -> None:
            first = () if own is None else (own[number],)
            found[number] = getattr(self._likelihood(number), method)(*first, *inputs)

        for some in row_blocks(n, self._threads):
            with threadpool_limits(1) if self._threads > 1 else nullcontext():
                for_each(work, range(n)[some], self._threads)
            yield from (found.pop(number) for number in range(n)[some])

    def _likelihood(self, number: int) -> DesignLikelihood:
        rows, bags, observation, design = self._blocks[number]
        if design is None:
            design = Design(self._terms, self._rows[rows], bags.lengths)
        offset = self._offset
        if isinstance(offset, np.ndarray):
            offset = offset[:, rows]
        return DesignLikelihood(design, observation, offset)
