"""The memory of L-BFGS, for many columns at once.

The direction −Hg of L-BFGS is a combination of the gradient g, the past steps s and the past
changes y of the gradient, and its coefficients depend on inner products only. These are kept as
small Gram matrices. With y = g_new − g_old, the products ⟨s_i, y⟩ and ⟨y_i, y⟩ of a new y are
differences of ⟨s_i, g⟩ and ⟨y_i, g⟩, which are needed anyway. So an iteration reads the long
vectors three times, however many there are: for the inner products with g, to combine the
direction, and to combine its dual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from unbag.arrays import Array, beside, to_host
from unbag.solvers.columns import Numbers, Rows, select


@dataclass
class History:
    """Steps s and gradient changes y with their duals, and the inner products between them.

    Attributes
    ----------
    vectors, images : arrays of shape (columns, 2·memory, coefficients)
        All s, then all y, in a ring; and their duals (the same array if the space is self-dual).
    sy, yy : ndarrays of shape (columns, memory, memory)
        ⟨s_i, y_j⟩, valid wherever s_i is not newer than y_j, and ⟨y_i, y_j⟩.
    sg, yg : ndarrays of shape (columns, memory)
        ⟨s_i, g⟩ and ⟨y_i, g⟩ with the current gradient.
    used, slot : int
        How many slots of the ring are filled, and which comes next.
    """

    vectors: Array
    images: Array
    sy: Numbers
    yy: Numbers
    sg: Numbers
    yg: Numbers
    used: int = 0
    slot: int = 0

    @classmethod
    def empty(cls, theta: Array, memory: int, self_dual: bool) -> Self:
        """Start without any memory."""
        xp, (n, d) = array_namespace(theta), theta.shape
        vectors = xp.zeros((n, 2 * memory, d), dtype=theta.dtype, device=device(theta))
        return cls(
            vectors=vectors,
            images=vectors if self_dual else xp.zeros_like(vectors),
            sy=np.zeros((n, memory, memory)),
            yy=np.zeros((n, memory, memory)),
            sg=np.zeros((n, memory)),
            yg=np.zeros((n, memory)),
        )

    @property
    def self_dual(self) -> bool:
        """Whether vectors are their own duals."""
        return self.images is self.vectors

    def keep(self, rows: Rows) -> Self:
        """Go on with some of the columns."""
        vectors = select(self.vectors, rows)
        return replace(
            self,
            vectors=vectors,
            images=vectors if self.self_dual else select(self.images, rows),
            sy=self.sy[rows],
            yy=self.yy[rows],
            sg=self.sg[rows],
            yg=self.yg[rows],
        )

    def forget(self, columns: NDArray[np.bool_]) -> None:
        """Start some columns afresh, with the direction of steepest descent."""
        for products in (self.sy, self.yy, self.sg, self.yg):
            products[columns] = 0

    def direction(self, gradient: Array, gradient_image: Array) -> tuple[Array, Array]:
        """−Hg and its dual, by the two-loop recursion on coefficients."""
        if self.used == 0:
            return -gradient, -gradient_image
        a, c, scale = self._coefficients()
        # −Hg = −scale·g + Σ scale·a_i y_i − Σ c_i s_i
        numbers = np.concatenate([-c, scale[:, None] * a, scale[:, None]], axis=1)
        sent = beside(numbers[:, None, :], gradient)
        weights, shrink = sent[:, :, :-1], sent[:, 0, -1:]
        direction = (weights @ self.vectors)[:, 0, :] - shrink * gradient
        if self.self_dual:
            return direction, direction
        return direction, (weights @ self.images)[:, 0, :] - shrink * gradient_image

    def _coefficients(self) -> tuple[Numbers, Numbers, Numbers]:
        n, memory = self.sg.shape
        newest_first = [(self.slot - 1 - i) % memory for i in range(self.used)]
        newest = newest_first[0]
        curvature = np.einsum("nii->ni", self.sy)
        # a pair whose curvature rounding has spoilt is passed over
        usable = curvature > 0
        inverse = np.where(usable, 1 / np.where(usable, curvature, 1.0), 0.0)
        a, c = np.zeros((n, memory)), np.zeros((n, memory))
        start, newer = inverse * self.sg, inverse[:, :, None] * self.sy
        for i in newest_first:
            a[:, i] = start[:, i] - np.einsum("nj,nj->n", a, newer[:, i, :])
        square = self.yy[:, newest, newest]
        good = usable[:, newest] & (square > 0)
        scale = np.where(good, curvature[:, newest] / np.where(good, square, 1.0), 1.0)
        along = self.yg - np.einsum("nj,nij->ni", a, self.yy)
        start, older = a - inverse * scale[:, None] * along, inverse[:, None, :] * self.sy
        for i in reversed(newest_first):
            c[:, i] = start[:, i] - np.einsum("nj,nj->n", c, older[:, :, i])
        return a, c, scale

    def add(
        self,
        step: tuple[Array, Array],
        change: tuple[Array, Array],
        gradient_image: Array,
        step_slopes: tuple[Numbers, Numbers],
        squares: tuple[Numbers, Numbers, Numbers],
    ) -> None:
        """Take up a step, and bring all inner products up to the new gradient.

        Parameters
        ----------
        step, change : pairs of arrays
            s and y, each with its dual.
        gradient_image : array
            Dual of the new gradient.
        step_slopes : pair of ndarrays
            ⟨s, g⟩ with the old and the new gradient.
        squares : triple of ndarrays
            ⟨g, g⟩ of old with old, old with new and new with new.
        """
        k, m = self.slot, self.sg.shape[1]
        self.vectors[:, k, :], self.vectors[:, m + k, :] = step[0], change[0]
        if not self.self_dual:
            self.images[:, k, :], self.images[:, m + k, :] = step[1], change[1]
        old_square, cross, new_square = squares
        sg_old, yg_old = self.sg, self.yg
        sg_old[:, k], yg_old[:, k] = step_slopes[0], cross - old_square
        products = (self.vectors @ gradient_image[:, :, None])[:, :, 0]
        products = to_host(products).astype(np.float64)
        self.sg, self.yg = products[:, :m], products[:, m:]
        self.sg[:, k], self.yg[:, k] = step_slopes[1], new_square - cross
        self.sy[:, :, k] = self.sg - sg_old
        self.yy[:, :, k] = self.yg - yg_old
        self.yy[:, k, :] = self.yy[:, :, k]
        self.slot, self.used = (k + 1) % m, min(self.used + 1, m)
