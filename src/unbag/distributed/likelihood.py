"""What the solver of the mixed model needs, as sums over partitions of whole bags.

Each partition has the terms' columns of its own rows and what is known of its own bags. Coefficients
go to the workers; values, gradients, cross products and one entry for every bag come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from unbag._arrays import Floats, Ints
from unbag.bags.bags import Bags, check_bag_target
from unbag.distributed.partitions import Partitions, share
from unbag.distributed.whole_bags import BagSummary, Part, n_bytes_of, take_rows
from unbag.models.bag_variance import BagPredictions
from unbag.models.blocks import BlockLikelihood
from unbag.models.mixed import by_bag
from unbag.models.newton import Derivatives, Products, add_derivatives, join_tables
from unbag.terms.columns import Term
from unbag.terms.encoding import EncodedRows, Moments, TableEncoder

CheckX = Callable[[Any], Any]

# Rows of whole bags that are evaluated at the same time. On workers, Dask has the system give memory
# back at once, so that every larger array costs more in fresh pages than in arithmetic.
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """Rows of a partition as arrays, in the order of their bags."""

    rows: EncodedRows
    bags: Bags

    def __sizeof__(self) -> int:
        # what Dask uses when it weighs moving this, or putting it on disk
        numbers = n_bytes_of(self.rows.numbers)
        return numbers + self.rows.codes.nbytes + self.bags.index.nbytes


@dataclass(frozen=True, eq=False)
class PartLikelihood:
    """The likelihood of the bags of a partition, and what it takes in memory."""

    of_bags: BlockLikelihood
    n_bytes: int

    def __sizeof__(self) -> int:
        return self.n_bytes


def fit_encoder(part: Part, check: CheckX) -> TableEncoder:
    """Learn what each column of a partition holds."""
    return TableEncoder().fit(check(part.X))


def encode_part(part: Part, check: CheckX, encoder: TableEncoder) -> EncodedPart:
    """Turn the columns of a partition into arrays."""
    return EncodedPart(*by_bag(encoder.encode(check(part.X)), check_bag_target(part.y)))


def make_likelihood(part: EncodedPart, terms: list[Term]) -> PartLikelihood:
    """The likelihood of the coefficients of fitted terms, of the bags of a partition."""
    found = BlockLikelihood(terms, part.rows, part.bags, block=_BLOCK, threads=1)
    return PartLikelihood(found, part.__sizeof__() + found.n_bytes)


@dataclass(frozen=True, eq=False)
class DistributedRows:
    """The rows that terms are fitted to (`unbag.terms.encoding.TrainingRows`), in partitions."""

    parts: Partitions
    encoded: Partitions
    check: CheckX
    encoder: TableEncoder
    summary: BagSummary
    bags: Bags

    @property
    def n_instances(self) -> int:
        """Number of rows."""
        return sum(self.summary.n_rows)

    @property
    def is_sparse(self) -> bool:
        """Whether numbers are a sparse matrix."""
        return bool(self.encoded.reduce(_rows_of, any, "is_sparse"))

    def moments(self, places: Ints) -> Moments:
        """Moments of some columns of numbers."""
        return self.encoded.reduce(_rows_of, Moments.join, "moments", places)

    def sum_of_squares(self) -> float:
        """Sum of the squares of all entries of a sparse matrix."""
        return float(self.encoded.reduce(_rows_of, sum, "sum_of_squares"))

    def instances(self, positions: Ints) -> EncodedRows:
        """Bring a few rows here, by their positions, in rising order, if sorted by bag."""
        # as `unbag.models.mixed.by_bag` has them: bags, then rows of known label by class
        order = np.lexsort((self.summary.first, self.bags.index))
        starts = np.empty(len(order), dtype=np.int64)
        starts[order] = np.cumsum(self.summary.rows[order]) - self.summary.rows[order]
        wanted = share((self.summary.target["bag"], starts, positions))
        parts = self.parts.gather(_take, self.check, self.encoder, wanted)
        found = [part for part in parts if part is not None]
        order = np.argsort(np.concatenate([where for where, _ in found]))
        numbers = [rows.numbers for _, rows in found]
        stack = vstack if issparse(numbers[0]) else np.concatenate
        codes = np.concatenate([rows.codes for _, rows in found])
        return EncodedRows(stack(numbers), codes)[order]


class DistributedLikelihood:
    """A likelihood (`unbag.models.newton.Likelihood`) that is summed over partitions."""

    def __init__(self, parts: Partitions, n_bags: int, keep: bool) -> None:
        self._parts = parts.keep() if keep else parts
        self.n_bags, self._keep = n_bags, keep
        self._ends = np.cumsum([n or 0 for n in self._parts.gather(_n_bags_of)])[:-1]
        self._with_effects = self._beside(np.zeros(n_bags))

    def value(self, theta: Floats) -> float:
        """ℓ(θ)."""
        return float(self._sum(sum, "value", theta))

    def derivatives(self, theta: Floats, information: bool = True) -> Derivatives:
        """ℓ(θ), its gradient and, if it is wanted, H."""
        return self._sum(add_derivatives, "derivatives", theta, information)

    def bag_products(self, theta: Floats) -> Floats:
        """J."""
        return self._sum(sum, "bag_products", theta)

    def bag_tables(self, theta: Floats, covariance: Floats | None) -> list[BagPredictions]:
        """What is known and predicted of bags: of the second of two classes, or of each class."""
        return self._sum(join_tables, "bag_tables", theta, covariance)

    def products(self, theta: Floats) -> Products:
        """Products with H at θ, without a matrix."""
        parts = self._with_effects.map(_evaluate, "products", share(theta))
        kept = parts.keep() if self._keep else parts
        return lambda directions: kept.reduce(_times, sum, directions)

    def with_bag_effects(self, variances: Floats) -> DistributedLikelihood:
        """The same with random intercepts of variances, one for each bag."""
        other = copy(self)
        other._with_effects = self._beside(variances)
        return other

    def _beside(self, variances: Floats) -> Partitions:
        """Partitions, and the variances of the bags of each."""
        pieces = np.split(variances, self._ends)
        return Partitions(
            [(*item, own) for item, own in zip(self._parts.items, pieces, strict=True)]
        )

    def with_label_shift(self, weight: float) -> DistributedLikelihood:  # noqa: ARG002
        """Sets of counts have the likelihood of covariate shift."""
        return self

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        return self._sum(Moments.join, "score_moments", theta, list(columns))

    def _sum(self, join: Callable[[list[Any]], Any], method: str, *inputs: Any) -> Any:
        return self._with_effects.reduce(_evaluate, join, method, *inputs)


def _n_bags_of(part: PartLikelihood) -> int:
    return part.of_bags.n_bags


def _times(products: Products, directions: Floats) -> Floats:
    return products(directions)


def _rows_of(part: EncodedPart, name: str, *inputs: Any) -> Any:
    found = getattr(part.rows, name)
    return found(*inputs) if callable(found) else found


def _take(
    part: Part,
    check: CheckX,
    encoder: TableEncoder,
    wanted: tuple[NDArray[Any], NDArray[np.int64], Ints],
) -> tuple[Ints, EncodedRows] | None:
    """Rows of a partition that are wanted, and the positions of these among all."""
    ids, starts, positions = wanted
    own, first, sizes = np.unique(part.y["bag"], return_index=True, return_counts=True)
    where = np.repeat(starts[np.searchsorted(ids, own)] - first, sizes) + np.arange(len(part.y))
    chosen = np.flatnonzero(np.isin(where, positions))
    if not len(chosen):
        return None
    return where[chosen], encoder.encode(check(take_rows(part.X, chosen)))


def _evaluate(part: PartLikelihood, bag_effects: Floats, method: str, *inputs: Any) -> Any:
    return getattr(part.of_bags.with_bag_effects(bag_effects), method)(*inputs)
