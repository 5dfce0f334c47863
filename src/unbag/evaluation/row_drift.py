"""Whether rows are still those that a model was trained on: their chances, and their columns.

The *population stability index* compares the shares a_k of new rows in the tenths of the training
rows, Σ_k (a_k − e_k) log(a_k/e_k). How large it is when nothing has changed depends on how
different bags are, since the rows of a bag are alike. With Σ the covariance of a − e that bags
show, and D the diagonal of e, the index is about Σ_i λ_i χ²₁ with λ the eigenvalues of D⁻¹Σ: a
chi-square of the same mean and variance gives the p-value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from scipy import stats

from unbag._arrays import Floats
from unbag._text import percent, shown
from unbag.bags.bags import Bags

_TENTHS = np.arange(1, 10) / 10

# Share that a part without rows is taken to have, so that the logarithm exists.
_LEAST = 1e-4

# Rows outside of the range of training that are worth a word.
_WORTH_A_WORD = 0.005


@dataclass(frozen=True)
class Stability:
    """The population stability index of chances, and the p-value of no change."""

    index: float
    p_value: float


def remember_rows(bags: Bags, chances: Floats) -> dict[str, Any]:
    """What is to be kept of the chances of training rows: tenths, shares and their covariance."""
    edges = np.unique(np.quantile(chances, _TENTHS))
    shares, covariance = _parts(bags, chances, edges)
    return {"edges": edges.tolist(), "shares": shares.tolist(), "covariance": covariance.tolist()}


def compare_rows(kept: Mapping[str, Any], bags: Bags, chances: Floats) -> Stability:
    """Hold the chances of new rows against what `remember_rows` kept."""
    before = np.maximum(kept["shares"], _LEAST)
    now, covariance = _parts(bags, chances, np.asarray(kept["edges"]))
    together = (covariance + np.asarray(kept["covariance"])) / np.sqrt(np.outer(before, before))
    mean, square = np.trace(together), np.sum(together**2)
    quadratic = float(np.sum((now - before) ** 2 / before))
    p_value = float(stats.chi2.sf(quadratic * mean / square, mean**2 / square))
    now = np.maximum(now, _LEAST)
    return Stability(float(np.sum((now - before) * np.log(now / before))), p_value)


def _parts(bags: Bags, chances: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Shares of rows between edges, and their covariance with bags as what is independent."""
    part = np.searchsorted(edges, chances, side="left")
    table = bags.tally(part, len(edges) + 1)
    shares = table.sum(axis=0) / bags.n_instances
    apart = (table - bags.sizes[:, None] * shares) / bags.n_instances
    return shares, apart.T @ apart * bags.n_bags / (bags.n_bags - 1)


def remember_columns(X: Any) -> dict[str, list[float]]:
    """Smallest and largest value of every column of numbers, if X is not sparse."""
    return {
        name: [float(values.min()), float(values.max())]
        for name, values in _number_columns(X)
        if len(values)
    }


def outside_of(ranges: Mapping[str, Any], X: Any) -> dict[str, float]:
    """Share of rows outside of the range of training, by column, where it is worth a word."""
    strays = Strays(ranges)
    strays.add(X)
    return strays.shares


class Strays:
    """Counts rows that leave the range of training, chunk by chunk.

    Parameters
    ----------
    ranges : mapping of str to (low, high)
        Of `remember_columns`.
    """

    def __init__(self, ranges: Mapping[str, Any]) -> None:
        self._ranges = ranges
        self._outside: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()

    def add(self, X: Any) -> None:
        """Look at more rows; gaps are none of them."""
        for name, values in _number_columns(X):
            if name in self._ranges:
                low, high = self._ranges[name]
                self._outside[name] += int(np.sum((values < low) | (values > high)))
                self._seen[name] += len(values)

    @property
    def shares(self) -> dict[str, float]:
        """Share of rows outside by column, the largest first, where it is worth a word."""
        found = {name: self._outside[name] / n for name, n in self._seen.items() if n}
        told = {name: share for name, share in found.items() if share > _WORTH_A_WORD}
        return dict(sorted(told.items(), key=lambda item: -item[1]))

    @property
    def words(self) -> list[str]:
        """What is to be said of them."""
        return [
            f"{shown(name, 40)} leaves the range of training ({self._ranges[name][0]:g} to "
            f"{self._ranges[name][1]:g}) in {percent(share)} of rows: what the model says of them "
            "is a guess"
            for name, share in self.shares.items()
        ]


def _number_columns(X: Any) -> Iterator[tuple[str, Floats]]:
    """Name and finite values of every column of numbers, one by one."""
    frame: Any = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        for column in map(frame.get_column, frame.columns):
            if column.dtype.is_numeric():
                values = np.asarray(column.to_numpy(), dtype=float)
                yield str(column.name), values[np.isfinite(values)]
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        for number, values in enumerate(X.T.astype(float, copy=False)):
            yield f"column {number}", values[np.isfinite(values)]
