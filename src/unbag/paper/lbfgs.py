"""L-BFGS for many columns at once, in the geometry of a space of functions.

Minimises F(θ) = φ(scores(θ)) + λ⟨θ, Pθ⟩: each column has its own λ and its own problem (a fold,
say), and all share the space. In the inner product of the space, ⟨u, v⟩ = Σ u·dual(v), an iteration
takes one product with the kernel matrix for all columns together. A line search takes none: scores
are linear in θ and the penalty is quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.paper.objectives import Objective

# --- spaces of functions --------------------------------------------------------------------------


class FunctionSpace(Protocol):
    """Functions that the solver can search; a row of coefficients θ is a function.

    ``n_coefficients`` is their number, ``like`` an array of the type that coefficients and scores
    have, ``self_dual`` whether the dual of θ is θ.
    """

    n_coefficients: int
    like: Array
    self_dual: bool

    def dual(self, theta: Array) -> Array:
        """Image of θ under the inner product: ⟨u, θ⟩ = Σ u · dual(θ)."""
        ...

    def scores(self, theta: Array, image: Array) -> Array:
        """Scores (columns, outputs, instances) of θ, whose dual is ``image``."""
        ...

    def gradient(self, score_gradient: Array) -> Array:
        """Gradient in this geometry of a function with the given gradient in the scores."""
        ...

    def penalised(self, theta: Array) -> Array:
        """Pθ: zeros for what is not penalised."""
        ...


class KernelSpace:
    """f = Σ_j α_j k(·, x_j) with ⟨u, v⟩ = uᵀKv: scores are the dual Kα, and gradients have no K."""

    self_dual = False

    def __init__(self, K: Array, n_outputs: int) -> None:
        self.like, self._n, self._outputs = K, len(K), n_outputs
        self.n_coefficients = n_outputs * len(K)

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return (theta.reshape(-1, self._n) @ self.like).reshape(theta.shape)

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        return image.reshape(-1, self._outputs, self._n)

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        return score_gradient.reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return theta


class LinearSpace:
    """f = Xw + b with the plain inner product; b is not penalised. X may be a sparse matrix."""

    self_dual = True

    def __init__(self, X: Any, n_outputs: int) -> None:
        self._X, self._outputs = X, n_outputs
        self._n, self._d = X.shape
        self.n_coefficients = n_outputs * (self._d + 1)
        self.like: Array = getattr(X, "data", X) if issparse(X) else X

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return theta

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        rows = theta.reshape(-1, self._d + 1)
        # of a sparse X the product comes column by column, and what is done to scores runs along rows
        product = np.ascontiguousarray(rows[:, : self._d] @ self._X.T)
        product += rows[:, self._d :]
        return product.reshape(-1, self._outputs, self._n)

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        rows = score_gradient.reshape(-1, self._n)
        total = np.sum(rows, axis=1, keepdims=True, dtype=np.float64)
        both = np.concatenate([rows @ self._X, total], axis=1)
        return both.astype(rows.dtype, copy=False).reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        kept = theta.copy()
        kept[:, self._d :: self._d + 1] = 0
        return kept


# --- memory ---------------------------------------------------------------------------------------

# So many steps are remembered, fewer if all columns together would keep more numbers than this.
_MEMORY, _LEAST_MEMORY, _MOST_NUMBERS = 50, 10, 2**27


class _Memory:
    """The gradient g, and the last steps s and changes y of the gradient, for many columns.

    ``basis`` (columns, vectors, duals, coefficients) holds g, then s and y of each pair, each with its
    dual unless it is its own; ``gram`` has their inner products. The two-loop recursion then works
    on coefficients in this basis (Chen, Wang and Zhou 2014), and an iteration reads the long vectors
    twice, however many there are.
    """

    def __init__(self, gradient: Array, size: int) -> None:
        n, duals, d = gradient.shape
        self._size, self._count = size, 0
        self.basis = np.zeros((n, 1 + 2 * size, duals, d), dtype=gradient.dtype)
        self.gram = np.zeros((n, 1 + 2 * size, 1 + 2 * size))
        self.basis[:, 0] = gradient
        self._multiply([0])

    @property
    def gradient(self) -> Array:
        """The current gradient, without its dual."""
        return self.basis[:, 0, 0]

    @property
    def square(self) -> Floats:
        """⟨g, g⟩."""
        return self.gram[:, 0, 0]

    @property
    def _used(self) -> int:
        return 1 + 2 * min(self._count, self._size)

    def keep(self, rows: Ints) -> None:
        """Go on with some of the columns; room that was never used is not copied."""
        basis = np.zeros((len(rows), *self.basis.shape[1:]), dtype=self.basis.dtype)
        basis[:, : self._used] = self.basis[rows, : self._used]
        self.basis, self.gram = basis, self.gram[rows]

    def forget(self, columns: Bools) -> None:
        """Pass over all pairs of some columns, whose next direction is that of steepest descent."""
        self.gram[columns, 1:, 1:] = 0

    def direction(self) -> Array:
        """−Hg of L-BFGS, with its dual."""
        n, _, duals, d = self.basis.shape
        used, gram = self._used, self.gram[:, : self._used, : self._used]
        weights = np.zeros((n, used))
        weights[:, 0] = 1
        first = max(self._count - self._size, 0)
        # places of s and y in the basis, oldest pair first
        pairs = [
            (1 + 2 * (i % self._size), 2 + 2 * (i % self._size)) for i in range(first, self._count)
        ]
        inverse = {s: _inverse(gram[:, s, y]) for s, y in pairs}
        shrunk = {}
        for s, y in reversed(pairs):
            shrunk[s] = inverse[s] * np.sum(gram[:, s] * weights, axis=1)
            weights[:, y] -= shrunk[s]
        if pairs:
            s, y = pairs[-1]
            scale = gram[:, s, y] * _inverse(gram[:, y, y])
            weights *= np.where(scale > 0, scale, 1.0)[:, None]
        for s, y in pairs:
            weights[:, s] += shrunk[s] - inverse[s] * np.sum(gram[:, y] * weights, axis=1)
        combined = _product(
            -weights[:, None].astype(self.basis.dtype),
            self.basis[:, :used].reshape(n, used, duals * d),
        )
        return combined.reshape(n, duals, d)

    def add(self, step: Array, gradient: Array) -> None:
        """Take up s and the new g, each with its dual."""
        s = 1 + 2 * (self._count % self._size)
        self._count += 1
        self.basis[:, s], self.basis[:, s + 1] = step, gradient - self.basis[:, 0]
        self.basis[:, 0] = gradient
        self._multiply([0, s, s + 1])

    def _multiply(self, new: list[int]) -> None:
        products = _product(
            self.basis[:, : self._used, 0], self.basis[:, new, -1].swapaxes(1, 2)
        ).astype(np.float64)
        self.gram[:, : self._used, new] = products
        self.gram[:, new, : self._used] = products.swapaxes(1, 2)


def _inverse(numbers: Floats) -> Floats:
    """1/x of positive numbers and 0 of others: pairs that rounding has spoilt are passed over."""
    return np.where(numbers > 0, 1 / np.where(numbers > 0, numbers, 1.0), 0.0)


def _product(a: Array, b: Array) -> Array:
    # BLAS flags "invalid" in single precision now and then; the solver looks at the values
    with np.errstate(invalid="ignore"):
        return a @ b


# --- line search ----------------------------------------------------------------------------------

_ARMIJO, _WOLFE = 1e-4, 0.9
_MOST_TRIALS = 40

# The first trials follow the slopes: to where they would cross zero, if that leaves at least a tenth
# of what is between two steps on either side, or else ten times as far. Later ones halve and double.
_BOLD_TRIALS = 3
_LEAST_SHARE = 0.1


def _next_length(low: Floats, high: Floats, falls: Floats, rises: Floats, bold: bool) -> Floats:
    """Lengths to try next, between steps too short and too long with slopes ``falls`` and ``rises``."""
    crosses = (falls < 0) & (rises > 0) & bold
    share = np.where(crosses, falls / np.where(crosses, falls - rises, 1.0), 0.5)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    further = low / _LEAST_SHARE if bold else 2 * low
    return np.where(np.isinf(high), further, low + share * (high - low))


def _rounding(values: Floats, like: Array) -> Floats:
    """Differences of values up to this size are rounding, for scores of the given type."""
    return float(np.finfo(like.dtype).eps) * np.maximum(np.abs(values), 1e-3)


def _inner(u: Array, v: Array) -> Floats:
    """Σ u·v per column, in double precision."""
    return np.sum((u * v).reshape(len(u), -1), axis=1, dtype=np.float64)


def _times(numbers: Floats, like: Array) -> Array:
    """One number per column times an array of columns; zero where the number is zero."""
    factor = numbers.reshape((-1,) + (1,) * (like.ndim - 1)).astype(like.dtype)
    return np.where(factor == 0, np.zeros_like(like), factor * like)


# --- iterations -----------------------------------------------------------------------------------

# This many steps in a row without visible progress end a column. A value averages the rounding
# of many scores, so that progress shows below the resolution of a single one.
_PATIENCE = 5
_VISIBLE = 0.01


class Solution(NamedTuple):
    """Minimisers of all columns, their scores and values, and whether each column converged."""

    theta: Array
    scores: Array
    value: Floats
    n_iter: NDArray[np.int64]
    converged: Bools


@dataclass
class _Columns:
    """Where the columns are that have not ended yet."""

    number: Ints
    problem: Ints
    penalty: Floats
    theta: Array
    scores: Array
    value: Floats
    squared_norm: Floats
    score_gradient: Array
    first_square: Floats
    lowest: Floats
    idle: Ints
    fresh: Bools  # its memory is empty
    stuck: Bools
    ill_posed: Bools

    def keep(self, rows: Ints) -> Self:
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def search(self, objective: Objective, direction: Array, products: Floats) -> Floats:
        """Move along a direction of the scores to where the weak Wolfe conditions hold.

        ``products`` are ⟨d, ∇F⟩, ⟨d, Pθ⟩ and ⟨d, Pd⟩. A step that no length makes good has the
        length 0; ``ill_posed`` says that F falls without end or is not finite.
        """
        slope, linear, quadratic = products
        n = len(self.number)
        start, value, norm = self.scores, self.value, self.squared_norm
        scores, score_gradient = start.copy(), self.score_gradient.copy()
        here = {"value": value.copy(), "norm": norm.copy()}
        length, here_slope = np.ones(n), np.zeros(n)
        low, high, falls, rises = np.zeros(n), np.full(n, np.inf), slope.copy(), np.full(n, np.inf)

        def move(rows: Ints) -> None:
            t, along = length[rows], direction[rows]
            scores[rows] = start[rows] + _times(t, along)
            found, score_gradient[rows] = objective.value_and_gradient(
                scores[rows], self.problem[rows]
            )
            here["norm"][rows] = norm[rows] + 2 * t * linear[rows] + t**2 * quadratic[rows]
            here["value"][rows] = found + self.penalty[rows] * here["norm"][rows]
            pull = 2 * self.penalty[rows] * (linear[rows] + t * quadratic[rows])
            here_slope[rows] = _inner(score_gradient[rows], along) + pull

        left = np.arange(n)
        for trial in range(_MOST_TRIALS):
            move(left)
            # sufficient decrease, judged by slopes where values differ by rounding only
            armijo = here["value"] <= value + _ARMIJO * length * slope
            close = here["value"] <= value + _rounding(value, start)
            fell = armijo | (close & (here_slope <= (2 * _ARMIJO - 1) * slope))
            fell &= np.isfinite(here["value"])
            left = left[~(fell & (here_slope >= _WOLFE * slope))[left]]
            if not len(left):
                break
            short, long = left[fell[left]], left[~fell[left]]
            low[short], falls[short] = length[short], here_slope[short]
            high[long], rises[long] = length[long], here_slope[long]
            length[left] = _next_length(low, high, falls, rises, trial < _BOLD_TRIALS)[left]
        else:
            # the longest step that went down far enough, where there is one
            endless = np.isinf(high[left]) | ~np.isfinite(here["value"][left])
            length[left] = np.where(endless, 0.0, low[left])
            move(left)
            self.ill_posed[left] = endless
        self.scores, self.score_gradient = scores, score_gradient
        self.value, self.squared_norm = here["value"], here["norm"]
        return length


def minimise(
    objective: Objective,
    space: FunctionSpace,
    penalty: Floats,
    problem: Ints,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callable[[int, int], None] | None = None,
    start: Array | None = None,
) -> Solution:
    """Minimise the penalised objective, for all columns together: penalties λ, each with its problem.

    A column has converged when the norm of its gradient is below ``tol`` times that at zero, when its
    value has stopped to fall, or when not even steepest descent finds a lower point (at a kink, or at
    the end of the precision). The callback gets the number of each iteration and how many columns are
    left. The search starts from the coefficients ``start``, by default zero.
    """
    n = len(penalty)
    theta = np.zeros((n, space.n_coefficients), dtype=space.like.dtype)
    columns, memory = _start(objective, space, penalty, problem, theta)
    if start is not None:
        first_square = columns.first_square
        columns, memory = _start(objective, space, penalty, problem, start)
        columns.first_square = first_square
    end = Solution(
        theta=theta,
        scores=np.zeros_like(columns.scores),
        value=np.zeros(n),
        n_iter=np.zeros(n, dtype=np.int64),
        converged=np.zeros(n, dtype=bool),
    )
    for iteration in range(max_iter + 1):
        flat = memory.square <= tol**2 * columns.first_square
        converged = flat | (columns.idle >= _PATIENCE) | columns.stuck
        ending = converged | columns.ill_posed | (iteration == max_iter)
        if ending.any():
            number = columns.number[ending]
            end.n_iter[number], end.converged[number] = iteration, converged[ending]
            end.theta[number], end.scores[number] = columns.theta[ending], columns.scores[ending]
            end.value[number] = columns.value[ending]
            if ending.all():
                break
            rows = np.flatnonzero(~ending)
            columns = columns.keep(rows)
            memory.keep(rows)
        _iterate(objective, space, columns, memory)
        if callback is not None:
            callback(iteration + 1, len(columns.number))
    return end


def _start(
    objective: Objective, space: FunctionSpace, penalty: Floats, problem: Ints, theta: Array
) -> tuple[_Columns, _Memory]:
    n = len(penalty)
    image, penalised = space.dual(theta), space.penalised(theta)
    scores = space.scores(theta, image)
    value, score_gradient = objective.value_and_gradient(scores, problem)
    norm = _inner(penalised, image)
    value = value + penalty * norm
    gradient = space.gradient(score_gradient) + _times(2 * penalty, penalised)
    duals = 1 if space.self_dual else 2
    room = _MOST_NUMBERS // max(2 * n * duals * space.n_coefficients, 1)
    size = min(max(room, _LEAST_MEMORY), _MEMORY)
    memory = _Memory(_with_dual(gradient, space), size)
    columns = _Columns(
        number=np.arange(n),
        problem=problem,
        penalty=penalty,
        theta=theta.copy(),
        scores=scores,
        value=value,
        squared_norm=norm,
        score_gradient=score_gradient,
        first_square=memory.square.copy(),
        lowest=value,
        idle=np.zeros(n, dtype=np.intp),
        fresh=np.ones(n, dtype=bool),
        stuck=np.zeros(n, dtype=bool),
        ill_posed=np.zeros(n, dtype=bool),
    )
    return columns, memory


def _iterate(
    objective: Objective, space: FunctionSpace, columns: _Columns, memory: _Memory
) -> None:
    """One iteration of L-BFGS for all columns."""
    direction = memory.direction()
    along, image = direction[:, 0], direction[:, -1]
    others = (memory.gradient, space.penalised(columns.theta), space.penalised(along))
    products = np.stack([_inner(other, image) for other in others])
    length = columns.search(objective, space.scores(along, image), products)
    failed = (length == 0) & ~columns.ill_posed
    # a failed step is tried once more along steepest descent
    columns.stuck, columns.fresh = failed & columns.fresh, failed
    progress = columns.lowest - columns.value
    columns.lowest = np.minimum(columns.lowest, columns.value)
    invisible = progress <= _VISIBLE * _rounding(columns.value, columns.scores)
    columns.idle = np.where(invisible, columns.idle + 1, 0)
    step = _times(length, direction)
    columns.theta = columns.theta + step[:, 0]
    gradient = space.gradient(columns.score_gradient)
    gradient = gradient + _times(2 * columns.penalty, space.penalised(columns.theta))
    memory.add(step, _with_dual(gradient, space))
    if failed.any():
        memory.forget(failed)


def _with_dual(vectors: Array, space: FunctionSpace) -> Array:
    """Vectors, and their duals if these are something else: (columns, 1 or 2, coefficients)."""
    if space.self_dual:
        return vectors[:, None, :]
    return np.stack([vectors, space.dual(vectors)], axis=1)
