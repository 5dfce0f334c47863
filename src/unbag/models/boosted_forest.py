"""Trees of several numbers of rounds and leaves as one sum of trees.

Few bags held out do not tell one number of rounds from the next, or of leaves: which is best is a
matter of luck. All that was looked at may count instead, each by its likelihood there, as learners
do in `unbag.models.mixing`: a_k ∝ exp(−(L_k − L_min)/T), L_k the negative log-likelihood of bags.
After n rounds trees say f_n = Σ_{t ≤ n} h_t, so that Σ_k a_k f_{n_k} is a sum of the same trees,
where h_t counts Σ_{k: n_k ≥ t} a_k. It is written into their leaves, and nobody else has to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from unbag._arrays import Floats
from unbag.models.boosted_library import Booster

# What counts for less, beside the best, is left out.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class Forest:
    """Σ_k a_k f_{n_k}: what a booster says after some numbers of rounds, each with its weight.

    Attributes
    ----------
    booster : Booster
    rounds : ndarray of shape (n_looks,)
        The n_k, of which one at least is not 0.
    shares : ndarray of shape (n_looks,)
        The a_k.
    """

    booster: Booster
    rounds: NDArray[np.intp]
    shares: Floats

    @property
    def weights(self) -> Floats:
        """How much each round counts."""
        after = self.rounds[:, None] > np.arange(self.rounds.max())
        return self.shares @ after

    def text(self) -> str:
        """All of it as text, for `Library.read`."""
        return self.booster.text(self.weights)

    def predict(self, X: Any) -> Floats:
        """Scores (outputs, rows) of rows."""
        return self.booster.predict(X, self.weights)

    def gains(self) -> Floats:
        """What splits by each column gained."""
        looks = zip(self.shares, self.rounds, strict=True)
        parts = [share * self.booster.gains(int(n)) for share, n in looks if n]
        return np.sum(parts, axis=0)

    def times(self, factor: float) -> Forest:
        """The same, multiplied."""
        return Forest(self.booster, self.rounds, factor * self.shares)


def all_rounds(booster: Booster, n_rounds: int) -> Forest:
    """Trees of the first rounds as they are."""
    return Forest(booster, np.array([n_rounds]), np.ones(1))


def weigh(risks: Floats, n_rows: int, temperature: float) -> Floats:
    """How much each look counts by criteria per row on bags held out, (looks, criteria)."""
    losses = risks.mean(axis=1) * n_rows
    shares: Floats = softmax(-(losses - losses.min()) / temperature)
    shares[shares < _LEAST_SHARE * shares.max()] = 0.0
    return shares / shares.sum()
