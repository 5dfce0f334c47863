"""The design matrix on a device of torch, such as a GPU.

All columns of Φ stay there, in double precision; what travels in a step are numbers of rows and of
bags, and sums. Probabilities of counts, which take one pass over the rows, are those of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from unbag._arrays import Floats
from unbag._optional import optional
from unbag.terms.columns import Term
from unbag.terms.design import Design
from unbag.terms.encoding import EncodedRows

# Rows that are computed here and sent at the same time.
_SENT = 2**14


class DeviceDesign(Design):
    """`Design` on a device, as torch names it."""

    _block_entries: ClassVar[int] = 2**26
    _most_kept: ClassVar[float] = 0.0

    def __init__(self, terms: Sequence[Term], rows: EncodedRows, sizes: Any, device: str) -> None:
        super().__init__(terms, rows, sizes)
        self._torch: Any = optional("torch", "device=", extra="torch")
        self._device = device
        try:
            self._on_device = [self._send(block.rows) for block in self._blocks]
        except self._torch.OutOfMemoryError:
            size = 8e-9 * self.n_rows * self.n_columns
            raise MemoryError(
                f"The device {device!r} has no room for the design matrix, {size:.1f} GB; with fewer "
                "n_landmarks it is smaller, and without device= it is not kept."
            ) from None
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"device={device!r} cannot be used here: {reason}") from None

    def scores(self, theta: Floats) -> Floats:  # noqa: D102
        there = self._tensor(theta)
        return np.concatenate([self._back(there @ Phi.T) for Phi in self._on_device], axis=1)

    def gradient(self, residual: Floats) -> Floats:  # noqa: D102
        found = np.zeros((len(residual), self.n_columns))
        for block, Phi in zip(self._blocks, self._on_device, strict=True):
            found += self._back(self._tensor(residual[:, block.rows]) @ Phi)
        return found

    def sums(self, gather: Any) -> Floats:  # noqa: D102
        gather, found = gather.tocsc(), np.zeros((gather.shape[0], self.n_columns))
        for block, Phi in zip(self._blocks, self._on_device, strict=True):
            own = gather[:, block.rows].tocoo()
            places = np.stack([own.row, own.col]).astype(np.int64)
            there = self._torch.sparse_coo_tensor(
                self._torch.as_tensor(places).to(self._device),
                self._tensor(own.data),
                own.shape,
                check_invariants=True,
            )
            found += self._back(there @ Phi)
        return found

    def _cross(self, i: int, w: Floats) -> Floats:
        Phi = self._on_device[i]
        return self._back((self._tensor(w)[:, None] * Phi).T @ Phi)

    def _sums_of(self, i: int, factors: Floats) -> Any:
        lengths = np.diff(np.append(self._blocks[i].starts, factors.shape[1]))
        there, Phi = self._torch.as_tensor(lengths).to(self._device), self._on_device[i]
        parts = [
            self._torch.segment_reduce(u[:, None] * Phi, "sum", lengths=there)
            for u in self._tensor(factors)
        ]
        return self._torch.cat(parts, dim=1)

    def _square(self, sums: Any) -> Floats:
        return self._back(sums.T @ sums)

    def _forms(self, sums: Any, P: Floats) -> Floats:
        return self._back(((sums @ self._tensor(P)) * sums).sum(dim=1))

    def _send(self, rows: slice) -> Any:
        """Φ of some rows, computed and sent piece by piece."""
        n = rows.stop - rows.start
        found = self._torch.empty(
            (n, self.n_columns), dtype=self._torch.float64, device=self._device
        )
        for start in range(0, n, _SENT):
            piece = slice(rows.start + start, min(rows.start + start + _SENT, rows.stop))
            columns = [self._compute(piece)]
            if self._sparse is not None:
                columns.append(self._sparse[piece].toarray())
            found[start : start + _SENT] = self._tensor(np.concatenate(columns, axis=1))
        return found

    def _tensor(self, values: Floats) -> Any:
        return self._torch.as_tensor(values, dtype=self._torch.float64, device=self._device)

    def _back(self, values: Any) -> Floats:
        return values.cpu().numpy()
