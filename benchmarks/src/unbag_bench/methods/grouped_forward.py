"""Forward correction in groups of bags (LLPFC), as it should be and as it was released.

LLPFC puts bags into groups of as many as there are classes. In a group with the proportions Γ
(bags, classes), a row is taken to have the *noisy label* i if it is in the i-th bag. Let α be the
prior of these labels; then

    T_ic = P(bag i | class c) = Γ_ic α_i / (Γᵀα)_c

and the loss of a row is −log Σ_c T_ic p_c(x). The classes then have the prior Γᵀα, which should be
their prior q in all bags, or else p is not what it is taken to be. So α is to minimise |Γᵀα − q|.
The code that was released minimises |Γα − q| instead, which for balanced classes α = 1/C solves
exactly, whatever Γ is. Rows are weighed so that a group has the labels in the shares α.

Forward correction needs no groups: `unbag_bench.methods.forward` takes all bags for one, with α_b the
shares of the bags in all rows, and Γᵀα = q by itself.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import nnls

from unbag._arrays import Bools, Floats, Ints
from unbag._text import counted
from unbag.bags.bags import Bags
from unbag.observations.count_likelihood import check_included
from unbag.weights import pooled_shares
from unbag_bench.methods.forward import LEAST_RATIO, ForwardLikelihood

BagPrior = Literal["fixed", "released", "uniform"]

# What α must sum to one by, against what it misses q by.
_SUM_WEIGHT = 1e3


class GroupedForward(ForwardLikelihood):
    """Mean loss of LLPFC, for one way to put bags into groups; in score space.

        −Σ_j ω_j log Σ_c T_ic p_jc,    ω_j = (N_g/N) α_i/n_i,

    with i the bag of j, n_i its rows and N_g those of its group. Bags that are left over count for
    nothing.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from.
    bags : Bags
    order : ndarray of int, shape (n_bags,)
        Bags that follow each other make a group, of as many as there are classes.
    prior : {"fixed", "released", "uniform"}
        How α is found: as it should be, by the problem that the released code solves, or all alike.
    """

    def __init__(
        self,
        included: Bools,
        bags: Bags,
        order: Ints,
        prior: BagPrior = "fixed",
    ) -> None:
        self.n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
        tables = [_tables(bags, order[own[order]], prior) for own in check_included(included, bags)]
        self._ratio, self._weight = (np.stack(part) for part in zip(*tables, strict=True))
        self._index = bags.index


def _tables(bags: Bags, order: Ints, prior: BagPrior) -> tuple[Floats, Floats]:
    """T (classes, bags) and what a row of each bag weighs (1, bags), for some bags in order."""
    C = bags.n_classes
    mine = np.zeros((1, bags.n_bags), dtype=bool)
    mine[0, order] = True
    q = pooled_shares(bags, "instances", mine)[0]
    groups = order[: len(order) // C * C].reshape(-1, C)
    if len(groups) == 0:
        few = counted(len(order), "bag")
        raise ValueError(f"Groups of {C} bags, one for each class, need more than {few}.")
    T, weight = np.ones((C, bags.n_bags)), np.zeros(bags.n_bags)
    for group in groups:
        shares, sizes = bags.clipped_proportions[group], bags.sizes[group]
        alpha = bag_prior(shares, q, prior)
        T[:, group] = transition(shares, alpha).T
        weight[group] = sizes.sum() * alpha / sizes
    return np.maximum(T, LEAST_RATIO), (weight / (weight @ bags.sizes))[None]


def transition(shares: Floats, alpha: Floats) -> Floats:
    """T_ic = Γ_ic α_i / (Γᵀα)_c; of a class that the group does not hold it says nothing."""
    joint = shares * alpha[:, None]
    total = joint.sum(axis=0)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), alpha[:, None])


def bag_prior(shares: Floats, q: Floats, prior: BagPrior) -> Floats:
    """Shares α of the bags of a group (n_bags, n_classes) that has as many as there are classes.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.methods.grouped_forward import bag_prior
    >>> shares, q = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0.7, 0.3])
    >>> alpha = bag_prior(shares, q, "fixed")
    >>> (shares.T @ alpha).round(3)
    array([0.7, 0.3])
    >>> (shares.T @ bag_prior(shares, q, "released")).round(3)
    array([0.797, 0.203])
    """
    C = len(q)
    if prior == "uniform":
        return np.full(C, 1 / C)
    matrix = {"fixed": shares.T, "released": shares}[prior]
    rows = np.vstack([matrix, np.full((1, C), _SUM_WEIGHT)])
    alpha: Floats = nnls(rows, np.append(q, _SUM_WEIGHT))[0]
    return alpha / alpha.sum()
