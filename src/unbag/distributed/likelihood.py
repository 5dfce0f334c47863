"""What the solver of the mixed model needs, as sums over partitions of whole bags.

Each partition has the terms' columns of its own rows and what is known of its own bags. Coefficients
go to the workers; values, gradients, cross products and numbers of rows come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from unbag._arrays import Floats, Ints
from unbag.bags.bags import Bags, check_bag_target
from unbag.distributed.partitions import Partitions, share
from unbag.distributed.whole_bags import BagSummary, Part, take_rows
from unbag.models.bag_variance import BagTable
from unbag.models.mixed import by_bag
from unbag.models.newton import BagLikelihood, Derivatives
from unbag.observations.information import CountObservation
from unbag.terms import Design, EncodedRows, TableEncoder, Term
from unbag.terms.encoding import Moments

CheckX = Callable[[Any], Any]


class BagRows(NamedTuple):
    """Rows of a partition as arrays, in the order of their bags."""

    rows: EncodedRows
    bags: Bags

    def __sizeof__(self) -> int:
        # what Dask goes by when it weighs moving this to another worker
        numbers = self.rows.numbers
        return int(getattr(numbers, "data", numbers).nbytes + self.rows.codes.nbytes)


def join_encoders(parts: Partitions, check: CheckX) -> TableEncoder:
    """Learn what each column holds, from all partitions."""
    found: TableEncoder = parts.reduce(_fit_encoder, TableEncoder.join, check)
    return found


def encode(parts: Partitions, check: CheckX, encoder: TableEncoder) -> Partitions:
    """`BagRows` of every partition."""
    return parts.map(_encode, check, share(encoder))


class DistributedRows:
    """What terms ask of `EncodedRows`, of rows in partitions.

    Parameters
    ----------
    parts : Partitions
        Of `Part`.
    encoded : Partitions
        Of `BagRows`.
    check : callable
        By which workers check rows.
    encoder : TableEncoder
    summary : BagSummary
    bags : Bags
        Of this summary.
    """

    def __init__(
        self,
        parts: Partitions,
        encoded: Partitions,
        check: CheckX,
        encoder: TableEncoder,
        summary: BagSummary,
        bags: Bags,
    ) -> None:
        self._parts, self._encoded, self._check, self._encoder = parts, encoded, check, encoder
        self._summary, self._bags = summary, bags

    def __len__(self) -> int:
        return sum(self._summary.n_rows)

    @property
    def is_sparse(self) -> bool:
        """Whether numbers are a sparse matrix."""
        return bool(self._encoded.reduce(_is_sparse, any))

    def moments(self, places: Ints) -> Moments:
        """Moments of some columns of numbers."""
        found: Moments = self._encoded.reduce(_moments, Moments.join, places)
        return found

    def sum_of_squares(self) -> float:
        """Sum of the squares of all entries of a sparse matrix."""
        return float(self._encoded.reduce(_sum_of_squares, sum))

    def __getitem__(self, positions: Ints) -> EncodedRows:
        """Bring a few rows here, by their positions, in rising order, if sorted by bag."""
        # as `unbag.models.mixed.by_bag` has them: bags, then rows of known label by class
        order = np.lexsort((self._summary.first, self._bags.index))
        starts = np.empty(len(order), dtype=np.int64)
        starts[order] = np.cumsum(self._summary.rows[order]) - self._summary.rows[order]
        wanted = share((self._summary.target["bag"], starts, positions))
        parts = self._parts.gather(_take, self._check, self._encoder, wanted)
        found = [part for part in parts if part is not None]
        order = np.argsort(np.concatenate([where for where, _ in found]))
        numbers = [rows.numbers for _, rows in found]
        stack = np.concatenate if isinstance(numbers[0], np.ndarray) else vstack
        codes = np.concatenate([rows.codes for _, rows in found])
        return EncodedRows(stack(numbers), codes)[order]


class DistributedLikelihood:
    """A likelihood (`unbag.models.newton.Likelihood`) that is summed over partitions.

    Parameters
    ----------
    parts : Partitions
        Of `BagLikelihood`.
    n_bags : int
        Number of bags, rows of known label not counted.
    bag_effect : float
        Variance of the random intercepts of bags.
    """

    def __init__(self, parts: Partitions, n_bags: int, bag_effect: float = 0.0) -> None:
        self._parts, self.n_bags, self._bag_effect = parts, n_bags, bag_effect

    def value(self, theta: Floats) -> float:
        """ℓ(θ)."""
        return float(self._sum(sum, "value", theta))

    def derivatives(self, theta: Floats) -> Derivatives:
        """ℓ(θ), its gradient and H."""
        found: Derivatives = self._sum(_add, "derivatives", theta)
        return found

    def bag_products(self, theta: Floats) -> Floats:
        """J."""
        found: Floats = self._sum(sum, "bag_products", theta)
        return found

    def bag_table(self, theta: Floats, covariance: Floats) -> BagTable | None:
        """What is known and predicted of bags of two classes; None where there are none."""
        found: BagTable | None = self._sum(_join_tables, "bag_table", theta, covariance)
        return found

    def with_bag_effect(self, variance: float) -> DistributedLikelihood:
        """The same with random intercepts of a variance."""
        return DistributedLikelihood(self._parts, self.n_bags, variance)

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        found: Moments = self._sum(Moments.join, "score_moments", theta, list(columns))
        return found

    def _sum(self, join: Callable[[list[Any]], Any], method: str, *inputs: Any) -> Any:
        return self._parts.reduce(_evaluate, join, method, self._bag_effect, *inputs)


def make_likelihood(encoded: Partitions, terms: list[Term]) -> Partitions:
    """`BagLikelihood` of every partition."""
    return encoded.map(_make_likelihood, share(terms))


def _fit_encoder(part: Part | None, check: CheckX) -> TableEncoder | None:
    return None if part is None else TableEncoder().fit(check(part.X))


def _encode(part: Part | None, check: CheckX, encoder: TableEncoder) -> BagRows | None:
    if part is None:
        return None
    return BagRows(*by_bag(encoder.encode(check(part.X)), check_bag_target(part.y)))


def _is_sparse(found: BagRows | None) -> bool | None:
    return None if found is None else found.rows.is_sparse


def _moments(found: BagRows | None, places: Ints) -> Moments | None:
    return None if found is None else found.rows.moments(places)


def _sum_of_squares(found: BagRows | None) -> float | None:
    return None if found is None else found.rows.sum_of_squares()


def _take(
    part: Part | None,
    check: CheckX,
    encoder: TableEncoder,
    wanted: tuple[NDArray[Any], NDArray[np.int64], Ints],
) -> tuple[Ints, EncodedRows] | None:
    """Rows of a partition that are wanted, and the positions of these among all."""
    if part is None:
        return None
    ids, starts, positions = wanted
    own, first, sizes = np.unique(part.y["bag"], return_index=True, return_counts=True)
    where = np.repeat(starts[np.searchsorted(ids, own)] - first, sizes) + np.arange(len(part.y))
    chosen = np.flatnonzero(np.isin(where, positions))
    if not len(chosen):
        return None
    return where[chosen], encoder.encode(check(take_rows(part.X, chosen)))


def _make_likelihood(found: BagRows | None, terms: list[Term]) -> BagLikelihood | None:
    if found is None:
        return None
    rows, bags = found
    return BagLikelihood(Design(terms, rows, bags.sizes), CountObservation(bags))


def _evaluate(part: BagLikelihood | None, method: str, bag_effect: float, *inputs: Any) -> Any:
    return None if part is None else getattr(part.with_bag_effect(bag_effect), method)(*inputs)


def _add(parts: list[Derivatives]) -> Derivatives:
    return Derivatives(*(sum(each[1:], start=each[0]) for each in zip(*parts, strict=True)))


def _join_tables(parts: list[BagTable]) -> BagTable:
    return BagTable(*map(np.concatenate, zip(*parts, strict=True)))
