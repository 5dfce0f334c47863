"""The memory of L-BFGS, for many columns at once.

The direction −Hg of L-BFGS is a combination of the gradient g, the past steps s and the past
changes y of the gradient, and its coefficients depend on inner products only. With the triangle
R_ij = ⟨s_i, y_j⟩, s_i not newer than y_j, its diagonal D and Y_ij = ⟨y_i, y_j⟩, the two-loop
recursion comes to

    −Hg = −γg + Σ γa_i y_i − Σ c_i s_i,    a = R⁻¹⟨s, g⟩,    c = R⁻ᵀ(Da − γ(⟨y, g⟩ − Ya))

(Byrd, Nocedal and Schnabel 1994), where R⁻¹ grows by a column with every pair. With
y = g_new − g_old, the products ⟨s_i, y⟩ and ⟨y_i, y⟩ of a new y are differences of ⟨s_i, g⟩ and
⟨y_i, g⟩, which are needed anyway. So an iteration reads the long vectors twice, however many there
are: for the inner products with g, and to combine the direction and its dual.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Bools, Floats, Ints

# Pairs that there is room for at first.
_FIRST_ROOM = 6


def inner(u: NDArray[Any], v: NDArray[Any]) -> Floats:
    """Σ u·v per column, summed in double precision."""
    return np.sum((u * v).reshape(len(u), -1), axis=1, dtype=np.float64)


def stacked_product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Products a @ b of stacked matrices."""
    # "invalid" was flagged here in single precision, now and then and for reasons not found;
    # the solver looks whether values are finite
    with np.errstate(invalid="ignore"):
        return a @ b


@dataclass
class History:
    """The gradient g, steps s and gradient changes y, and the inner products between them.

    A vector comes with its dual: an array of shape (columns, 2, coefficients), or (columns, 1,
    coefficients) if it is its own dual. ``vectors`` holds g, then s and y by turns, in a ring of at
    most ``memory`` pairs of which ``slot`` comes next. There is room for a few at first, then for
    twice as many each time: many columns leave before they need more. ``inverse`` is R⁻¹, zero where a
    pair is passed over, ``yy`` ⟨y_i, y_j⟩, ``curvature`` ⟨s_i, y_i⟩, ``sg`` and ``yg`` ⟨s_i, g⟩ and
    ⟨y_i, g⟩ with the current gradient, and ``square`` ⟨g, g⟩.
    """

    memory: int
    vectors: NDArray[Any]
    inverse: Floats
    yy: Floats
    curvature: Floats
    sg: Floats
    yg: Floats
    square: Floats
    slot: int = 0

    @classmethod
    def start(cls, gradient: NDArray[Any], memory: int) -> Self:
        """Start with a gradient and without any memory."""
        n, room = gradient.shape[0], min(_FIRST_ROOM, memory)
        return cls(
            memory=memory,
            vectors=_with_room(gradient[:, None, :, :], room),
            inverse=np.zeros((n, room, room)),
            yy=np.zeros((n, room, room)),
            curvature=np.zeros((n, room)),
            sg=np.zeros((n, 0)),
            yg=np.zeros((n, 0)),
            square=inner(gradient[:, 0, :], gradient[:, -1, :]),
        )

    @property
    def used(self) -> int:
        """How many pairs of the ring are filled."""
        return self.sg.shape[1]

    @property
    def gradient(self) -> NDArray[Any]:
        """The current gradient, without its dual."""
        return self.vectors[:, 0, 0, :]

    def keep(self, rows: Ints) -> Self:
        """Go on with some of the columns."""
        arrays = [field.name for field in fields(self) if field.name not in ("memory", "slot")]
        return replace(self, **{name: getattr(self, name)[rows] for name in arrays})

    def forget(self, columns: Bools) -> None:
        """Start some columns afresh, with the direction of steepest descent."""
        for products in (self.inverse, self.yy, self.curvature):
            products[columns] = 0

    def direction(self) -> NDArray[Any]:
        """−Hg with its dual."""
        n, _, duals, d = self.vectors.shape
        a, c, scale = self._coefficients()
        numbers = np.empty((n, 1 + 2 * self.used))
        numbers[:, :1], numbers[:, 1::2], numbers[:, 2::2] = -scale, -c, scale * a
        filled = self._filled(self.used).reshape(n, -1, duals * d)
        weights = numbers[:, None, :].astype(self.vectors.dtype)
        return stacked_product(weights, filled).reshape(n, duals, d)

    def _filled(self, used: int) -> NDArray[Any]:
        return self.vectors[:, : 1 + 2 * used, :, :]

    def _coefficients(self) -> tuple[Floats, Floats, Floats]:
        used, newest = self.used, self.slot - 1
        rise, square = self.curvature[:, newest], self.yy[:, newest, newest]
        good = (rise > 0) & (square > 0)
        scale = np.where(good, rise / np.where(good, square, 1.0), 1.0)[:, None]
        inverse = self.inverse[:, :used, :used]
        a = _times(inverse, self.sg)
        along = self.yg - _times(self.yy[:, :used, :used], a)
        c = _times(inverse.swapaxes(1, 2), self.curvature[:, :used] * a - scale * along)
        return a, c, scale

    def add(
        self, step: NDArray[Any], gradient: NDArray[Any], step_slopes: tuple[Floats, Floats]
    ) -> None:
        """Take up s and the new g, each with its dual, given ⟨s, g⟩ with the old and the new g."""
        k, memory = self.slot, self.memory
        used, known = min(self.used + 1, memory), self.used
        if used > self.yy.shape[1]:
            self._make_room(min(2 * used, memory))
        change = gradient - self.vectors[:, 0, :, :]
        self.vectors[:, 0, :, :] = gradient
        self.vectors[:, 1 + 2 * k, :, :] = step
        self.vectors[:, 2 + 2 * k, :, :] = change
        products = stacked_product(self._filled(used)[:, :, 0, :], gradient[:, -1, :, None])
        # as a difference of products with g it would be lost where g has hardly changed
        change_square = stacked_product(change[:, :1, :], change[:, -1, :, None])
        numbers = np.concatenate([products, change_square], axis=1)[:, :, 0].astype(np.float64)
        sg, yg = numbers[:, 1:-1:2], numbers[:, 2:-1:2]
        sg[:, k] = step_slopes[1]
        sy, yy = sg.copy(), yg.copy()
        sy[:, :known] -= self.sg
        yy[:, :known] -= self.yg
        sy[:, k], yy[:, k] = step_slopes[1] - step_slopes[0], numbers[:, -1]
        self.square, self.sg, self.yg, self.slot = numbers[:, 0], sg, yg, (k + 1) % memory
        self.yy[:, :used, k], self.yy[:, k, :used] = yy, yy
        self._replace(k, sy)

    def _make_room(self, room: int) -> None:
        """Have room for so many pairs, which are more than there was room for."""
        self.vectors = _with_room(self.vectors, room)
        more = (0, room - self.yy.shape[1])
        self.inverse = np.pad(self.inverse, ((0, 0), more, more))
        self.yy = np.pad(self.yy, ((0, 0), more, more))
        self.curvature = np.pad(self.curvature, ((0, 0), more))

    def _replace(self, k: int, sy: Floats) -> None:
        """Let a new column of R take the place of an old pair."""
        # a pair whose curvature rounding has spoilt is passed over
        usable = sy[:, k] > 0
        rise = np.where(usable, sy[:, k], 1.0)
        self.curvature[:, k] = np.where(usable, rise, 0.0)
        inverse = self.inverse[:, : self.used, : self.used]
        inverse[:, k, :], inverse[:, :, k] = 0, 0
        column = _times(inverse, sy)
        column[:, k] = -1
        inverse[:, :, k] = np.where(usable[:, None], column / -rise[:, None], 0.0)


def _with_room(vectors: NDArray[Any], room: int) -> NDArray[Any]:
    """Vectors of some pairs, with room for others behind them."""
    n, filled, duals, d = vectors.shape
    roomy = np.empty((n, 1 + 2 * room, duals, d), dtype=vectors.dtype)
    roomy[:, :filled, :, :] = vectors
    return roomy


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return (matrices @ vectors[:, :, None])[:, :, 0]
