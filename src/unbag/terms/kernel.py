"""A smooth function of all columns: a Gaussian process, by Nyström features.

For landmarks Z, spread over the rows by k-means++, and K_ZZ = UΛUᵀ, the features
Λ^{−1/2}Uᵀk(Z, x) give the kernel of the functions that the landmarks span. They are centred, turned
to their principal axes, of which the last hundredth of a percent of the variance is left out, and
divided by the root of their total variance: so σ is the standard deviation of the term over rows.

Columns of numbers enter standardised. Categories enter by whether two rows have the same level, which
adds 2 to their squared distance if not, as much as a column of numbers does on average. Columns of 0
and 1 enter as they are, so a category that is coded one-hot counts as the category itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from unbag._arrays import Floats
from unbag.defaults import KERNEL_LEFT_OUT, KERNEL_PRIOR_SD, LANDMARK_CANDIDATES
from unbag.terms.columns import NumberTerm, Term
from unbag.terms.encoding import EncodedRows, TrainingRows

_ROUNDING = 1e-10


class KernelTerm(Term):
    """f(x) = Σ_k β_k φ_k(x) with features of the Gaussian kernel.

    Parameters
    ----------
    numbers : list of NumberTerm
        Fitted terms of the columns of numbers.
    categories : list of str
        Columns that are categories.
    n_landmarks : int
    random_state : int, RandomState or None
        Draws the landmarks.
    """

    # of the whole function; for other terms, of each coefficient
    prior_sd = KERNEL_PRIOR_SD

    def __init__(
        self,
        numbers: list[NumberTerm],
        categories: list[str],
        n_landmarks: int,
        random_state: Any,
    ) -> None:
        self.name = "kernel"
        self.columns = [name for term in numbers for name in term.columns] + categories
        self.numbers, self._m, self._random_state = numbers, n_landmarks, random_state

    def fit(self, rows: TrainingRows) -> None:
        """Choose landmarks, and learn the mean and the principal axes of the features."""
        from sklearn.cluster import kmeans_plusplus

        rng, n = check_random_state(self._random_state), rows.n_instances
        few = min(n, LANDMARK_CANDIDATES * self._m)
        some = rows.instances(np.sort(sample_without_replacement(n, few, random_state=rng)))
        points, m = self._points(some), min(self._m, few)
        mixed = np.concatenate([points, *self._one_hot(some)], axis=1)
        _, chosen = kmeans_plusplus(mixed, m, random_state=rng, n_local_trials=1)
        chosen = np.sort(chosen)
        self.landmarks, self.codes = points[chosen], some.codes[chosen]
        squared = 2.0 * mixed.var(axis=0).sum()
        self.gamma = float(1.0 / squared) if squared > 0 else 1.0
        K = self._to_landmarks(some[chosen])
        values, vectors = np.linalg.eigh(K)
        sound = values > _ROUNDING * values[-1]
        root = vectors[:, sound] / np.sqrt(values[sound])
        features = self._to_landmarks(some) @ root
        self.mean = features.mean(axis=0)
        values, axes = np.linalg.eigh(np.cov(features.T, bias=True).reshape(2 * (len(root.T),)))
        values = np.maximum(values, 0.0)
        total = values.sum()
        kept = np.cumsum(values) > KERNEL_LEFT_OUT * total
        if not kept.any():
            kept[-1] = True
        axes = axes[:, kept][:, ::-1] / np.sqrt(total if total > 0 else 1.0)
        self.transform, self.mean = root @ axes, self.mean @ axes
        self.names = [f"kernel_{k}" for k in range(axes.shape[1])]

    def matrix(self, rows: EncodedRows) -> Floats:
        """Features of the rows."""
        return self._to_landmarks(rows) @ self.transform - self.mean

    def _points(self, rows: EncodedRows) -> Floats:
        empty = np.empty((len(rows), 0))
        return np.concatenate([empty, *(term.matrix(rows) for term in self.numbers)], axis=1)

    def _one_hot(self, rows: EncodedRows) -> list[Floats]:
        tables = []
        for column in rows.codes.T:
            levels, place = np.unique(column, return_inverse=True)
            tables.append(np.eye(len(levels))[place])
        return tables

    def _to_landmarks(self, rows: EncodedRows) -> Floats:
        X, Z, gamma = self._points(rows), self.landmarks, self.gamma
        block = X @ Z.T
        block *= 2 * gamma
        block -= gamma * np.sum(X * X, axis=1)[:, None]
        block -= gamma * np.sum(Z * Z, axis=1)
        # rounding can make a tiny squared distance negative
        block = np.exp(np.minimum(block, 0.0))
        same = np.exp(-2.0 * gamma)
        for own, other in zip(rows.codes.T, self.codes.T, strict=True):
            block *= np.where(own[:, None] == other, 1.0, same)
        return block
