"""Shares of bags beside what models that did not see them say: what effects are estimated from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Bools, Floats
from unbag.bags.bags import Bags
from unbag.bags.priors import chances_of
from unbag.weights.decontamination import pooled_shares

# Estimates settle within a few rounds; a variance changes by less than this share of chance.
MOST_ROUNDS = 50
SETTLED = 1e-6

# Variances below are rounding.
ROUNDING = 1e-12

# Shares of classes that bags do not hold at all.
_LEAST_SHARE = 1e-9

# Of many rows there is no room for the chances of all.
_ROWS_AT_A_TIME = 2**18


@dataclass(frozen=True, eq=False)
class SeenBags:
    """Shares of bags and what is said of them, as if all classes had variance one.

    Attributes
    ----------
    sizes : ndarray of shape (n_bags,)
    apart, explained : ndarrays of shape (n_bags, n_classes)
        γ_b and p̂_b less the means of all.
    chance, noise : ndarrays of shape (n_bags,)
        Variances of a share by chance, if the slope is 1, and by known noise.
    """

    sizes: NDArray[np.int64]
    apart: Floats
    explained: Floats
    chance: Floats
    noise: Floats

    def slope(self, weights: Floats) -> float:
        """β of least squares."""
        along = weights @ (self.explained**2).sum(axis=1)
        return float(weights @ (self.apart * self.explained).sum(axis=1) / max(along, ROUNDING))

    def squares(self, slope: float) -> Floats:
        """d_b."""
        found: Floats = ((self.apart - slope * self.explained) ** 2).sum(axis=1)
        return found

    def by_chance(self, slope: float) -> Floats:
        """e_b."""
        return slope * self.chance + self.noise


def see_bags(
    bags: Bags, means: Floats, variances: Floats, used: Bools | slice = slice(None)
) -> SeenBags:
    """Compare shares with means of p and p(1 − p), for the bags that are used."""
    sizes = bags.sizes[used]
    q = np.clip(bags.class_shares, 1e-6, None)
    scale = np.sqrt(q * (len(q) - 1))
    centre, noise = q, np.zeros(len(sizes))
    if bags.noise is not None:
        # of noisy counts alone, the mean of chances is known less well than q
        centre = sizes @ means[used] / sizes.sum()
        noise = (np.einsum("bcc->bc", bags.noise[used]) / scale**2).sum(axis=1)
    return SeenBags(
        sizes=sizes,
        apart=(bags.proportions[used] - q) / scale,
        explained=(means[used] - centre) / scale,
        chance=(variances[used] / scale**2).sum(axis=1) / sizes,
        noise=noise,
    )


def _offset_to_shares(bags: Bags, class_prior: Floats, n_outputs: int) -> Floats:
    """What takes scores (n_outputs, n_instances) to where classes are as common as in all bags."""
    shares = pooled_shares(bags, "instances", np.ones((1, bags.n_bags), dtype=bool))[0]
    offset = np.log(np.maximum(shares, _LEAST_SHARE)) - np.log(class_prior)
    return (offset[1:] - offset[:1] if n_outputs == 1 else offset)[:, None]


def means_at_shares(bags: Bags, scores: Floats, class_prior: Floats) -> tuple[Floats, Floats]:
    """Means over bags of p and p(1 − p) there, (n_bags, n_classes), some rows at a time."""
    offset = _offset_to_shares(bags, class_prior, len(scores))
    means, variances = np.zeros((2, bags.n_bags, bags.n_classes))
    for start in range(0, bags.n_instances, _ROWS_AT_A_TIME):
        some = slice(start, start + _ROWS_AT_A_TIME)
        index = bags.index[some]
        for c, p in enumerate(chances_of(scores[:, some] + offset)):
            means[:, c] += np.bincount(index, p, bags.n_bags)
            variances[:, c] += np.bincount(index, p * (1 - p), bags.n_bags)
    return means / bags.sizes[:, None], variances / bags.sizes[:, None]
