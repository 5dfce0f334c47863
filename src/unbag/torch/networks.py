"""Small networks for tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from unbag._arrays import Floats
from unbag.bags.priors import log_prior
from unbag.defaults import LARGEST_INPUT

# Rows that quartiles are computed from.
_ROWS = 10_000

# The distance of the quartiles of a normal distribution, in standard deviations.
_QUARTILES_OF_NORMAL = 1.349


class TableNetwork(nn.Module):
    """Numbers of a table, scaled by their quartiles, through layers of rectified units."""

    mean: Tensor
    scale: Tensor

    def __init__(self, n_features: int, n_outputs: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))
        widths = [n_features, *hidden]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], n_outputs))

    def start_at(self, shares: Floats) -> None:
        """Begin with classes as common as the shares say."""
        set_output_bias(self.layers[-1], shares)

    def fit_scaler(self, X: Any) -> None:
        """Learn the middle and the spread of the columns of a table: quartiles, if they differ."""
        scaler = StandardScaler(with_mean=not hasattr(X, "tocsr")).fit(X)
        mean, deviation = scaler.mean_, np.sqrt(scaler.var_)
        some = X[:: max(1, X.shape[0] // _ROWS)]
        some = some.toarray() if hasattr(some, "toarray") else some
        low, median, high = np.quantile(some, [0.25, 0.5, 0.75], axis=0)
        spreads = high > low
        mean = np.where(spreads, median, mean)
        deviation = np.where(spreads, (high - low) / _QUARTILES_OF_NORMAL, deviation)
        # what is the same in all rows is left as it is
        scale = np.where(deviation > 1e-12 * (np.abs(mean) + 1e-300), deviation, 1.0)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))

    def forward(self, x: Tensor) -> Tensor:
        """Scores (rows, outputs)."""
        z = (x - self.mean) / self.scale
        # tails are drawn in smoothly, unless the network is a linear function of the columns
        if len(self.layers) > 1:
            z = z * torch.rsqrt(1 + (z / LARGEST_INPUT) ** 2)
        scores: Tensor = self.layers(z)
        return scores


def set_output_bias(last: Any, shares: Floats) -> None:
    """Let a last layer begin with classes as common as the shares say."""
    odds = log_prior(shares)
    with torch.no_grad():
        last.bias.copy_(torch.from_numpy(odds - odds.mean() * (len(odds) > 1)))
