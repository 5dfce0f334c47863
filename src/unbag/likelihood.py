"""The count likelihood: how probable the counts of the bags are, given their instances.

Let f(x) be the log-odds of the positive class at equal class priors, r = e^f, and π_k the chance
that a bag of n holds k positives. Given its instances, a bag has the count k with probability

    P(k | x_1, ..., x_n) = b_k e_k(r) / Σ_m b_m e_m(r),    b_k = π_k / (n choose k),

where e_k is the elementary symmetric polynomial, the sum over all ways to choose the k positives.
With a beta-binomial π of parameters a and b (see `unbag.count_prior`), b_m = E[p^m (1 − p)^{n−m}]
for p ~ Beta(a, b), so that the sum needs no e_m at all:

    Σ_m b_m e_m(r) = E[Π_j (1 − p + p r_j)],

a polynomial of p, for which Gauss–Jacobi quadrature is exact. For e_k itself, tilt the odds: with
q_j = σ(f_j + θ), where Σ_j q_j is about k, and z running over the M-th roots of unity,

    e_k(r) = e^{−θk} Π_j (1 + e^{f_j+θ}) · (1/M) Σ_z z^{−k} Π_j (1 − q_j + q_j z),

a Cauchy integral through the saddle point, without cancellation; some 8 √(Σ_j q_j (1 − q_j))
roots make it exact to rounding. The gradient of −log P with respect to f_j is the chance that j
is positive whatever the count, less the same chance given the count; both are sums over the same
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray

from unbag.arrays import Array, beside, take, to_host
from unbag.bags import Bags
from unbag.count_prior import CountPrior, fit_count_prior

# The Cauchy integral leaves out what lies beyond a tail of e^−34.
_TAIL = 34.0

# Numbers in a temporary array: it should stay in the cache of a processor, or fill a GPU.
_CHUNK = 2**15, 2**22

# Fewest columns of a temporary array, however large the bags are.
_FEWEST_ROWS = 16

# More than enough: halving the interval that often leaves nothing of it.
_MOST_STEPS = 100

# Score of a row that only fills up a bag: e^f = 0, and no arithmetic makes it NaN.
_NOBODY = -1e30


class CountLikelihood:
    """Mean negative log-likelihood of the counts of bags, in score space.

    With T the number of instances in the bags that a problem includes, and k_i the counts,

        L(f) = −(1/T) Σ_i log P(k_i | instances of bag i),
        dL/df_j = (1/T) (P(y_j = 1 | instances) − P(y_j = 1 | instances, k_i)).

    Each problem has its own `CountPrior`, fitted to the counts of the bags it includes. Rows of
    known label count as bags of one instance; since they are often chosen by their label, they
    have no say in the prior unless there is nothing else. Scores are log-odds at equal class
    priors.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
        Who is in which bag. There must be two classes. Shares that do not give whole counts are
        rounded to the nearest count.
    like : array, optional
        Array whose namespace and device the scores will have.
    prior : CountPrior, optional
        Distribution of the counts, for all problems, instead of a fitted one.

    Attributes
    ----------
    priors : list of CountPrior
        One for each problem.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.likelihood import CountLikelihood
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> likelihood = CountLikelihood(np.array([True, True]), bags)
    >>> scores, problem = np.zeros((1, 1, 4)), np.zeros(1, dtype=int)
    >>> float(likelihood.value(scores, problem)[0].round(3))
    0.389
    >>> likelihood.label_posteriors(scores)
    array([[[0.5, 0.5, 1. , 1. ]]])
    """

    n_outputs = 1

    def __init__(
        self,
        included: NDArray[np.bool_],
        bags: Bags,
        like: Array | None = None,
        prior: CountPrior | None = None,
    ) -> None:
        if bags.n_classes != 2:
            raise ValueError(
                f"The count likelihood is for two classes and there are {bags.n_classes}."
            )
        table = np.atleast_2d(np.asarray(included, dtype=bool))
        if table.ndim != 2 or table.shape[1] != bags.n_bags:
            raise ValueError(
                f"included must say yes or no to each of the {bags.n_bags} bags; its shape is "
                f"{np.shape(included)}."
            )
        if not table.any(axis=1).all():
            raise ValueError("A problem holds out every bag and leaves none to learn from.")
        like = np.empty(0) if like is None else like
        pieces, first = bags.with_labelled_rows_apart()
        table = table[:, bags.index[first]]
        sizes = pieces.sizes
        counts = np.clip(np.round(sizes * pieces.proportions[:, 1]), 0, sizes).astype(np.int64)
        self.priors = [
            _fit_prior(counts, sizes, row, pieces.labelled) if prior is None else prior
            for row in table
        ]
        self._weights: NDArray[np.float64] = table / (table @ sizes)[:, None]
        self._log_weights = np.stack([prior.log_weight(counts, sizes) for prior in self.priors])
        self._groups = _group_bags(pieces.index, counts, sizes)
        self._nodes = [_tabulate_nodes(self.priors, group.n_slots) for group in self._groups]
        slots = np.empty(bags.n_instances, dtype=np.int64)
        start = 0
        for group in self._groups:
            slots[group.rows[group.real]] = start + np.flatnonzero(group.real)
            start += group.rows.size
        xp, place = array_namespace(like), device(like)
        self._slots = xp.asarray(slots, device=place)
        self._groups = [
            replace(
                group,
                rows=xp.asarray(group.rows, device=place),
                real=xp.asarray(group.real, device=place),
            )
            for group in self._groups
        ]

    def value(self, scores: Array, problem: NDArray[np.intp]) -> NDArray[np.float64]:
        """Mean negative log-likelihood per column."""
        return self._evaluate(scores, problem, gradient=False)[0]

    def value_and_gradient(
        self, scores: Array, problem: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], Array]:
        """Mean negative log-likelihood per column and its gradient with respect to the scores."""
        return self._evaluate(scores, problem, gradient=True)

    def label_posteriors(self, scores: Array) -> Array:
        """Chance that each instance is positive, given the instances and the count of its bag.

        Parameters
        ----------
        scores : array of shape (columns, 1, instances)

        Returns
        -------
        chances : array of shape (columns, 1, instances)
        """
        found = [
            _over_chunks(scores, group, lambda f, part, _: _given_count(f, part)[1])
            for group in self._groups
        ]
        # rounding may lead a little beyond
        return array_namespace(scores).clip(self._in_order(found), min=0.0, max=1.0)

    def _evaluate(
        self, scores: Array, problem: NDArray[np.intp], gradient: bool
    ) -> tuple[NDArray[np.float64], Array]:
        problem = np.zeros_like(problem) if len(self.priors) == 1 else problem
        value = np.zeros(len(problem))
        found = []
        for group, nodes in zip(self._groups, self._nodes, strict=True):

            def evaluate(f: Array, part: _Group, columns: slice, nodes: Any = nodes) -> Array:
                chosen = np.ix_(problem[columns], part.bags)
                weights, log_weights = self._weights[chosen], self._log_weights[chosen]
                p, log_w = (beside(_per_row(t[problem[columns]].T, part), f) for t in nodes)
                log_all, chance = _whatever_the_count(f, part, p, log_w, gradient)
                log_one, chance_given = _given_count(f, part, gradient)
                losses = to_host(log_all - log_one).reshape(weights.shape) - log_weights
                value[columns] += np.sum(weights * losses, axis=1)
                if not gradient:
                    return f
                return (chance - chance_given) * beside(weights.reshape(-1), f)

            found.append(_over_chunks(scores, group, evaluate))
        return value, self._in_order(found) if gradient else None

    def _in_order(self, found: list[Array]) -> Array:
        """Join what was found for the groups, in the order of the instances."""
        xp = array_namespace(found[0])
        joined = xp.concat(found, axis=1)
        return take(joined, self._slots, axis=1)[:, None, :]


def _fit_prior(
    counts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    included: NDArray[np.bool_],
    labelled: NDArray[np.bool_],
) -> CountPrior:
    """Fit the prior to bags whose labels are unknown, or to labelled rows where these are all."""
    unknown = included & ~labelled
    used = unknown if unknown.any() else included
    return fit_count_prior(counts[used], sizes[used])


@dataclass(frozen=True, eq=False)
class _Group:
    """Bags to be treated together: of about the same size, all pure or all mixed.

    Attributes
    ----------
    bags, counts, sizes : ndarrays of shape (n_bags,)
    rows, real : arrays of shape (n_bags, n_slots)
        Instances of each bag, and which of them are not there just to fill up.
    pure : bool
        Whether all counts are 0 or the size.
    """

    bags: NDArray[np.intp]
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: Array
    real: Array
    pure: bool

    @property
    def n_slots(self) -> int:
        return self.rows.shape[1]

    def take(self, some: slice) -> _Group:
        """Keep some of the bags."""
        return _Group(
            bags=self.bags[some],
            counts=self.counts[some],
            sizes=self.sizes[some],
            rows=self.rows[some, :],
            real=self.real[some, :],
            pure=self.pure,
        )


def _group_bags(
    index: NDArray[np.intp], counts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> list[_Group]:
    """Sizes up to 16 are kept apart; larger ones are filled up by an eighth at most."""
    order, start = np.argsort(index, kind="stable"), np.cumsum(sizes) - sizes
    step = 2.0 ** np.maximum(0, np.floor(np.log2(np.maximum(sizes - 1, 1))) - 3)
    pure = (counts == 0) | (counts == sizes)
    keys = np.stack([np.ceil(sizes / step) * step, pure])
    _, group_of = np.unique(keys, axis=1, return_inverse=True)
    # bags that need about the same number of nodes come together
    reach = np.maximum(counts, sizes - counts)
    groups = []
    for g in range(group_of.max() + 1):
        bags = np.flatnonzero(group_of.reshape(-1) == g)
        bags = bags[np.argsort(reach[bags], kind="stable")]
        slot = np.arange(sizes[bags].max())
        real = slot < sizes[bags, None]
        rows = order[np.where(real, start[bags, None] + slot, 0)]
        groups.append(_Group(bags, counts[bags], sizes[bags], rows, real, bool(pure[bags[0]])))
    return groups


def _tabulate_nodes(
    priors: list[CountPrior], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and log-weights of all problems, with weight zero where some need fewer nodes."""
    per_problem = [prior.nodes(size) for prior in priors]
    shape = len(priors), max(len(p) for p, _ in per_problem)
    nodes, log_weights = np.full(shape, 0.5), np.full(shape, -np.inf)
    for i, (p, log_w) in enumerate(per_problem):
        nodes[i, : len(p)], log_weights[i, : len(p)] = p, log_w
    return nodes, log_weights


def _per_row(table: NDArray[Any], part: _Group) -> NDArray[Any]:
    """Repeat (..., columns) for every bag: shape (..., columns · bags)."""
    return np.repeat(table, len(part.bags), axis=-1)


def _over_chunks(
    scores: Array, group: _Group, work: Callable[[Array, _Group, slice], Array]
) -> Array:
    """Call ``work`` on scores of shape (slots, columns · bags), a few columns and bags at a time.

    Returns what it found as (columns, bags · slots), in the type of the scores.
    """
    xp = array_namespace(scores)
    n_columns, n_bags, n_slots = scores.shape[0], len(group.bags), group.n_slots
    limit = _CHUNK[0] if is_numpy_array(scores) else _CHUNK[1]
    n_rows = max(_FEWEST_ROWS, limit // n_slots)
    bag_step = max(1, n_rows // n_columns)
    column_step = max(1, n_rows // bag_step)
    found = []
    for b in range(0, n_bags, bag_step):
        part = group.take(slice(b, min(b + bag_step, n_bags)))
        rows, real = xp.reshape(part.rows, (-1,)), xp.reshape(part.real, (-1,))
        shape = -1, len(part.bags), n_slots
        blocks = []
        for c in range(0, n_columns, column_step):
            columns = slice(c, min(c + column_step, n_columns))
            f = xp.astype(take(scores[columns, 0, :], rows, axis=1), xp.float64)
            f = xp.where(real, f, xp.asarray(_NOBODY, dtype=xp.float64, device=device(f)))
            f = xp.permute_dims(xp.reshape(f, shape), (2, 0, 1))
            result = work(xp.reshape(f, (n_slots, -1)), part, columns)
            result = xp.reshape(result, (result.shape[0], -1, len(part.bags)))
            result = xp.permute_dims(result, (1, 2, 0))
            result = xp.reshape(result, (result.shape[0], -1))
            blocks.append(xp.astype(result, scores.dtype))
        found.append(xp.concat(blocks, axis=0))
    return xp.concat(found, axis=1)


def _blocks(n_nodes: int, f: Array) -> Iterator[slice]:
    """Slices of nodes, as many at a time as fit."""
    limit = _CHUNK[0] if is_numpy_array(f) else _CHUNK[1]
    step = max(1, limit // max(1, f.shape[0] * f.shape[1]))
    return (slice(i, min(i + step, n_nodes)) for i in range(0, n_nodes, step))


def _whatever_the_count(
    f: Array, part: _Group, p: Array, log_w: Array, posterior: bool
) -> tuple[Array, Array]:
    """Logarithm of E[Π_j (1 − p + p r_j)] for each column of f, and the chances to be positive.

    The nodes p and their log-weights have the shape (nodes, columns of f). With the odds
    o = p/(1 − p) the product is (1 − p)^n Π_j max(1, r_j) Π_j (x_j + o y_j), where x_j and y_j
    are 1 and r_j divided by the larger of both; a row that only fills up has the factor 1.
    """
    xp = array_namespace(f)
    positive = 0.5 * (f + xp.abs(f))
    x, y = xp.exp(-positive), xp.exp(f - positive)
    sizes = np.tile(part.sizes.astype(float), f.shape[1] // len(part.bags))
    # the product of sixteen factors neither underflows nor overflows
    n_products = -(-f.shape[0] // 16)
    shape = n_products, -(-f.shape[0] // n_products), f.shape[1]
    missing = shape[0] * shape[1] - f.shape[0]
    x = xp.reshape(xp.concat([x, xp.ones_like(x[:missing, :])], axis=0), shape)
    y = xp.reshape(xp.concat([y, xp.zeros_like(y[:missing, :])], axis=0), shape)
    odds = (p / (1.0 - p))[:, None, None, :]
    logs = []
    for block in _blocks(p.shape[0], f):
        factors = odds[block, ...] * y
        factors += x
        logs.append(xp.sum(xp.log(xp.prod(factors, axis=2)), axis=1))
    total = log_w + xp.log1p(-p) * beside(sizes, f) + xp.concat(logs, axis=0)
    largest = xp.max(total, axis=0)
    powers = xp.exp(total - largest)
    scale = xp.sum(powers, axis=0)
    log_sum = xp.sum(positive, axis=0) + largest + xp.log(scale)
    chances = xp.zeros_like(y)
    if posterior:
        weights = (powers / scale)[:, None, None, :] * odds
        for block in _blocks(p.shape[0], f):
            factors = odds[block, ...] * y
            factors += x
            chances += xp.sum(weights[block, ...] / factors, axis=0)
    chances = xp.reshape(chances * y, (-1, f.shape[1]))
    return log_sum, chances[: f.shape[0], :]


def _given_count(f: Array, part: _Group, posterior: bool = True) -> tuple[Array, Array]:
    """Logarithm of e_k(r) for each column of f, and the chances to be positive given k."""
    xp = array_namespace(f)
    repeats = f.shape[1] // len(part.bags)
    k = xp.asarray(np.tile(part.counts, repeats), device=device(f))
    if part.pure:
        chosen = (k > 0) & (f > _NOBODY)
        nothing = xp.zeros_like(f)
        return xp.sum(xp.where(chosen, f, nothing), axis=0), xp.astype(chosen, xp.float64)
    tilt = _saddle_point(f, k)
    tilted, k = f + tilt, xp.astype(k, xp.float64)
    size = xp.abs(tilted)
    positive, small = 0.5 * (tilted + size), xp.exp(-size)
    q = xp.exp(tilted - positive) / (1.0 + small)
    doubled = 2.0 * small / (1.0 + small) ** 2  # 2 q (1 − q), without cancellation
    log_scale = xp.sum(positive + xp.log1p(small), axis=0) - k * tilt
    # the sum over M roots of unity holds the counts k, k ± M, ... of the tilted bag
    spread = float(xp.max(xp.sum(doubled, axis=0))) / 2
    tail = _TAIL / 3 + np.sqrt(_TAIL**2 / 9 + 2 * _TAIL * spread)
    reach = int(np.maximum(part.counts, part.sizes - part.counts).max())
    n_pairs = (min(reach, int(tail)) + 1) // 2
    n_roots = 2 * n_pairs + 1
    # the root 1 first, then one of every conjugate pair
    angles = 2 * np.pi / n_roots * np.arange(1, n_pairs + 1)[:, None]
    angles = beside(angles, f)
    cos, sin = xp.cos(angles), xp.sin(angles)
    chance, chances = xp.ones_like(tilt), xp.ones_like(f)
    # two factors at a time: (1 + q w)(1 + q' w) = 1 + (q + q') w + q q' w²
    half = f.shape[0] // 2
    odd_one = q[2 * half :, :]
    sums = xp.concat([q[:half, :] + q[half : 2 * half, :], odd_one], axis=0)
    products = xp.concat([q[:half, :] * q[half : 2 * half, :], 0.0 * odd_one], axis=0)
    complex_a, complex_b = xp.astype(sums, xp.complex128), xp.astype(products, xp.complex128)
    for block in _blocks(n_pairs, f):
        c, s = cos[block, :], sin[block, :]
        step = (c + 1j * s - 1.0)[:, :, None]
        turned = angles[block, :] * k
        factors = (complex_b * step + complex_a) * step
        factors += 1.0
        product = xp.prod(factors, axis=1)
        re, im = xp.real(product), xp.imag(product)
        back_re, back_im = xp.cos(turned), xp.sin(turned)
        one, other = 2.0 * (re * back_re + im * back_im), 2.0 * (im * back_re - re * back_im)
        chance += xp.sum(one, axis=0)
        if posterior:
            # without j, one turn further if j is positive
            further = (one * c - other * s)[:, None, :]
            top = (one[:, None, :] - further) * q + further
            chances += xp.sum(top / (1.0 - doubled * (1.0 - c)[:, :, None]), axis=0)
    return log_scale + xp.log(chance / n_roots), q * chances / chance


def _saddle_point(f: Array, k: Array) -> Array:
    """Tilt θ with Σ_j σ(f_j + θ) near k, for 0 < k < n, by bracketed Newton steps.

    It need not be exact, as e_k is the same for every θ: a mean within a fifth of the standard
    deviation of k avoids cancellation.
    """
    xp = array_namespace(f)
    n, n_rows = f.shape
    ordered = xp.reshape(xp.sort(f, axis=0, descending=True), (-1,))
    below = k * n_rows + xp.arange(n_rows, dtype=k.dtype, device=device(f))
    last_in, first_out = take(ordered, below - n_rows, 0), take(ordered, below, 0)
    # with k + 1 chances above n/(n + 1), or n − k + 1 below 1/(n + 1), the mean is beyond k
    low, high = -last_in - log(n), -first_out + log(n)
    tilt = -0.5 * (last_in + first_out)
    target = xp.astype(k, xp.float64)
    for _ in range(_MOST_STEPS):
        tilted = f + tilt
        size = xp.abs(tilted)
        small = xp.exp(-size)
        upper = 1.0 / (1.0 + small)
        gap = target - xp.sum(xp.exp(0.5 * (tilted - size)) * upper, axis=0)
        variance = xp.sum(small * upper**2, axis=0)
        if bool(xp.all(gap**2 <= 0.04 * variance + 1e-4)):
            break
        low, high = xp.where(gap > 0, tilt, low), xp.where(gap > 0, high, tilt)
        tilt = tilt + gap / xp.clip(variance, min=1e-12)
        tilt = xp.where((tilt > low) & (tilt < high), tilt, 0.5 * (low + high))
    return tilt
