"""Mean maps: what each bag counts for the means of the classes, and so for a logistic loss.

Let q be the shares of the classes in all rows and μ_c the mean of class c. A mean map estimates
q_c μ_c = Σ_i V_ic x̄_i from the means x̄_i of the bags, and minimises

    (1/N) Σ_j lse f(x_j) − Σ_c q_c f_c(μ_c),

the logistic loss, in which labels occur only in these means. As f_c(μ_c) stands for the mean of f_c
over class c, this is Σ_i Σ_c U_ic · (mean over bag i of ℓ_c) with

    U_ic = V_ic + (n_i/N − Σ_k V_ik)/C,

which are weights of the bags like those of a corrected risk, for functions of any kind.

- *Mean map* (Quadrianto et al. 2009): V_ic = q_c W_ic, with W of least squares in which bags count
  alike. If they are of equal size, U_ic = V_ic, and it is the corrected risk at the overall class prior.
- *Laplacian mean map* (Patrini et al. 2014): every bag has its own class means b_ic, near to those
  of bags with a similar mean, v_ik = exp(−|x̄_i − x̄_k|/σ):

      minimise Σ_i |x̄_i − Σ_c γ_ic b_ic|² + (g/2) Σ_c Σ_ik v_ik |b_ic − b_kc|²,

  whose solution is linear in the x̄_i, and V_ic the part of x̄_i in Σ_k (n_k/N) γ_kc b_kc. As g goes
  to infinity this is the mean map. It lets the look of a class change smoothly from bag to bag.
"""

from __future__ import annotations

import numpy as np

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.weights import decontamination_weights

# Keeps bags that resemble no other from having class means at will.
_RIDGE = 1e-9


def mean_map_weights(bags: Bags) -> Floats:
    """U of the mean map, of shape (n_bags, n_classes).

    Examples
    --------
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag_bench.methods.mean_map import mean_map_weights
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> mean_map_weights(bags)
    array([[ 0.75, -0.25],
           [-0.25,  0.75]])
    """
    return _as_weights(decontamination_weights(bags, "bags") * bags.class_shares, bags)


def laplacian_weights(bags: Bags, means: Floats, smoothness: float, width: float) -> Floats:
    """U of the Laplacian mean map, of shape (n_bags, n_classes).

    Parameters
    ----------
    bags : Bags
    means : ndarray of shape (n_bags, n_features)
        x̄_i.
    smoothness : float
        g, what it costs class means to differ between bags that are alike.
    width : float
        σ, the distance over which bags are alike.
    """
    n, C = bags.n_bags, bags.n_classes
    shares = bags.clipped_proportions
    similar = similarities(means, width)
    laplacian = np.diag(similar.sum(axis=1)) - similar
    # classes come one after the other: b = (b_11, …, b_n1, b_12, …)
    mixing = np.hstack([np.diag(share) for share in shares.T])
    normal = mixing.T @ mixing + smoothness * np.kron(np.eye(C), laplacian)
    normal += _RIDGE * np.eye(n * C)
    own = np.linalg.solve(normal, mixing.T).reshape(C, n, n)
    rows = shares * bags.sizes[:, None] / bags.sizes.sum()
    return _as_weights(np.einsum("kc,cki->ic", rows, own), bags)


def similarities(means: Floats, width: float) -> Floats:
    """v_ik = exp(−|x̄_i − x̄_k|/σ)."""
    squares = np.sum(means**2, axis=1)
    distance = squares[:, None] + squares - 2 * means @ means.T
    return np.exp(-np.sqrt(np.maximum(distance, 0.0)) / width)


def _as_weights(V: Floats, bags: Bags) -> Floats:
    missing = bags.sizes / bags.sizes.sum() - V.sum(axis=1)
    return V + missing[:, None] / bags.n_classes
