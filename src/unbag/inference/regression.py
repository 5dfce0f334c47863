"""Ecological regression (Goodman), and groups that bags cannot separate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats, Ints
from unbag._text import percent, shown
from unbag.inference.contrasts import interval

# Two groups are hard to separate if their shares are so correlated in the posterior, and each is
# so many times as uncertain as that of both together.
_CORRELATION, _TIMES = -0.7, 2.0


class Goodman(NamedTuple):
    """Shares by regression of proportions of bags on shares of groups.

    Attributes
    ----------
    share : ndarray of shape (n_groups, n_classes)
        Coefficients, which may lie outside of 0 and 1.
    error : ndarray of shape (n_groups, n_classes)
        Standard errors that allow for unequal variances (HC1).
    """

    share: Floats
    error: Floats


def goodman_regression(inside: Ints, proportions: Floats) -> Goodman:
    """Regress proportions (n_bags, n_classes) on shares of groups, weighted by sizes of bags."""
    n_bags, n_groups = inside.shape
    sizes = inside.sum(axis=1)
    share = inside / sizes[:, None]
    weighted = share * sizes[:, None]
    inverse = np.linalg.pinv(weighted.T @ share)
    found = inverse @ (weighted.T @ proportions)
    residual = proportions - share @ found
    few = n_bags / max(n_bags - n_groups, 1)
    pulls = np.einsum("gh,bh,bc->cbg", inverse, weighted, residual)
    return Goodman(found, np.sqrt(few * (pulls**2).sum(axis=1)).T)


def indistinct_groups(
    groups: NDArray[Any],
    classes: NDArray[Any],
    draws: Floats,
    sizes: Floats,
    confidence_level: float,
) -> list[str]:
    """One sentence for each pair of groups whose shares bags cannot separate."""
    notes = []
    for g in range(len(groups)):
        for h in range(g):
            pair, weight = draws[:, [h, g]], sizes[[h, g]] / max(sizes[[h, g]].sum(), 1e-12)
            both = np.einsum("sgc,g->sc", pair, weight)
            sd = np.maximum(pair.std(axis=0), 1e-12)
            centred = pair - pair.mean(axis=0)
            correlation = (centred[:, 0] * centred[:, 1]).mean(axis=0) / (sd[0] * sd[1])
            times = sd.min(axis=0) / np.maximum(both.std(axis=0), 1e-12)
            c = int(correlation.argmin())
            if correlation[c] < _CORRELATION and times[c] > _TIMES:
                low, high = interval(both[:, c], confidence_level)
                names = f"{shown(groups[h], 24)} and {shown(groups[g], 24)}"
                notes.append(
                    f"Bags hardly separate {names} (posterior correlation {correlation[c]:.2f} for "
                    f"{shown(classes[c], 24)}): merge them; together they have "
                    f"{percent(float(both[:, c].mean()), 1)} "
                    f"({percent(float(low), 1)} to {percent(float(high), 1)})."
                )
    return notes
