"""The likelihood of counts of bags whose rows are spread over partitions.

Most bags lie in one partition as a whole, and a worker does with them what is done in memory. Of
the others it knows pieces. Chances of rows add up over pieces, and so does all that the saddle
point needs: the driver keeps one line for each such bag, asks in a few rounds for the sums at a
tilt until the tilt is found, and then sends what turns a score into a gradient.

Small bags are summed exactly in memory. For one in pieces, let φ(z) = Π_j (1 − q_j + q_j z) be the
generating function of its tilted rows. Its logarithm adds up over pieces, and at M > n roots of
unity it gives the chance of every count s, (1/M) Σ_z z^{−s} φ(z): the same numbers, up to rounding,
without cancellation because the tilted rows have the right mean. Small bags of several classes are
summed over roots in memory, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.distributed.count_pieces import (
    ROOTS,
    TWICE,
    Spanning,
    count_instances,
    exact_size,
    find_spanning,
    join_spanning,
    several_class_gradient,
    several_class_sums,
    two_class_gradient,
    two_class_sums,
    whole_losses,
)
from unbag.distributed.count_table import CountTable
from unbag.distributed.partitions import share
from unbag.distributed.risk import DistributedData, Request, sum_tables
from unbag.observations.bag_losses import count_weights
from unbag.observations.class_losses import classes_summable
from unbag.observations.count_likelihood import EXACT_SIZE
from unbag.observations.exact import turned_roots
from unbag.observations.saddlepoint import Sums, TiltSearch
from unbag.observations.several_classes import ClassTiltSearch, class_miss, classes_present

# The driver takes the tilt as it is, without what would be left of the way.
_SHORT_STEP = 1e-9


class DistributedCounts:
    """The likelihood of counts as a function of coefficients θ (columns, 1, coefficients).

    Parameters
    ----------
    table : CountTable
    data : DistributedData
    """

    n_outputs = 1

    def __init__(self, table: CountTable, data: DistributedData) -> None:
        self._data = data
        self._shared = share(table)
        sorted_ = data.instances.map(count_instances, self._shared)
        self._instances = sorted_.keep() if data.kept else sorted_
        self._entries = self._instances.reduce(find_spanning, join_spanning)
        self._weights = table.weights[:, self._entries]
        sizes = table.sizes[self._entries]
        self._n = sizes.astype(float)
        self._k = sizes[:, None] * table.proportions[self._entries]
        self._S = table.covariance[self._entries]
        small = sizes <= EXACT_SIZE
        if data.n_outputs > 1:
            small = classes_summable(sizes, self._k, self._S, EXACT_SIZE)
            self._k[small] = np.round(self._k[small])
        self._small = np.where(small, np.cumsum(small) - 1, -1)
        self._final = count_weights(self._k[small, 1], self._S[small, 1, 1], EXACT_SIZE)
        self._start: tuple[bytes, Floats] | None = None

    def value(self, theta: Floats, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column."""
        return self._evaluate(theta, problem, gradient=False)[0]

    def value_and_gradient(self, theta: Floats, problem: Ints) -> tuple[Floats, Floats]:
        """Mean negative log-likelihood per column and its gradient by the coefficients."""
        return self._evaluate(theta, problem, gradient=True)

    def _evaluate(self, theta: Floats, problem: Ints, gradient: bool) -> tuple[Floats, Floats]:
        request = self._data.request(theta[:, 0], problem, gradient)
        value, slope = self._pass(whole_losses, request)
        if len(self._entries):
            tilted = self._two_classes if self._data.n_outputs == 1 else self._several_classes
            losses, more = tilted(request)
            weights = self._weights if len(self._weights) == 1 else self._weights[problem]
            value = value + np.sum(weights * losses, axis=1)
            slope = slope + more
        return value, self._data.by_coefficients(slope)[:, None, :]

    def _pass(self, function: Any, request: Request, *more: Any) -> Any:
        """One pass over the data."""
        return self._instances.reduce(
            function, sum_tables, self._data.model, self._shared, request, *more
        )

    def _two_classes(self, request: Request) -> tuple[Floats, Any]:
        k, S = self._k[:, 1], self._S[:, 1, 1]
        search = TiltSearch(k, self._n, S, len(request.problem))
        # the solver often comes back with the same columns, a little further on
        key = request.problem.tobytes()
        if self._start is not None and self._start[0] == key:
            search.tilt = self._start[1]
        while True:
            spanning = Spanning(self._entries, search.tilt, self._small)
            found, functions = self._pass(two_class_sums, request, spanning)
            if search.found(found[0], found[2], _SHORT_STEP):
                break
        self._start = key, search.tilt
        sums = Sums(*found[2:])
        h, pull = sums.miss(S)
        losses = found[1] + search.tilt * (k - 0.5 * S * search.tilt) + h
        small = self._small >= 0
        tilt = search.tilt[:, small]
        counts = np.arange(EXACT_SIZE + 1)
        # Σ_s (weight of s) Pr(K = s), from φ at the roots
        apart = counts - k[small, None]
        weights = self._final * np.exp(-tilt[:, :, None] * apart)
        powers = ROOTS[:, None] ** -counts / (EXACT_SIZE + 1)
        turned = (weights @ powers.T) * np.exp(functions)
        total = np.sum(TWICE * turned, axis=-1).real
        losses[:, small] = found[1][:, small] + tilt * k[small] - np.log(total)
        if not request.gradient:
            return losses, 0.0
        (slope,) = self._pass(
            two_class_gradient, request, spanning, pull, turned / total[:, :, None]
        )
        return losses, slope

    def _several_classes(self, request: Request) -> tuple[Floats, Any]:
        present = classes_present(self._k, self._S)
        search = ClassTiltSearch(self._k, self._S, present, len(request.problem))
        while not search.done:
            spanning = Spanning(self._entries, search.trial, self._small)
            before, own, mean, covariance, _, functions = self._pass(
                several_class_sums, request, spanning, None
            )
            search.look(own, mean, covariance)
        spanning = Spanning(self._entries, search.tilt, self._small)
        h, H = class_miss(search.V, present)
        small = self._small >= 0
        turned = np.exp(functions)
        if small.any():
            turned *= turned_roots(self._k[small], exact_size(self._k.shape[1]))[1]
        total = np.sum(turned.real, axis=-1)
        h[:, small] = -np.log(total)
        losses = search.level(before) + h
        if not request.gradient:
            return losses, 0.0
        *_, bent, _ = self._pass(several_class_sums, request, spanning, H)
        moving, turned = search.settle(bent), turned / total[:, :, None]
        (slope,) = self._pass(several_class_gradient, request, spanning, H, moving, turned)
        return losses, slope
