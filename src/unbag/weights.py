"""Decontamination weights: the small table W that turns bag averages into class averages.

W has one row per bag and one column per class, with

    Σ_i W[i, c] · γ_i[c'] = 1 if c = c' else 0,

so for any function h, Σ_i W[i, c] · (mean of h over bag i) is an unbiased estimate of
E[h(X) | class c] under label shift. Here W is that of least squares over all bags, for any number
of classes, which also corrects for noise in the proportions. The weights of pairs and of merged
bags, as Scott and Zhang have them, are in `unbag.paper.weights`.
"""

from __future__ import annotations

import numpy as np

from unbag._arrays import Bools, Floats
from unbag._text import counted
from unbag.bags.bags import SAME_PROPORTION, BagModel, Bags

__all__ = ["decontamination_weights"]


def decontamination_weights(bags: Bags, bag_model: BagModel = "instances") -> Floats:
    """W = N G (Gᵀ N G)⁻¹, the unbiased linear weights of least Σ W²/n.

    G holds the proportions, N = diag(n_i) the number of independent draws in each bag (1 for
    every bag under the independent-bag model). Given the labels, Σ W²/n is the variance of the
    class means of a function that varies alike inside all classes. Of one that does not, another
    table may have less.

    Noise of covariance V_i in the proportions adds Σ_i N_i V_i to the mean of GᵀNG and nothing
    to that of GᵀNm, for m the means over bags. So it is taken off again (errors in variables):

        W = N G (GᵀNG − Σ_i N_i f_i V_i)⁻¹,    N_i = 1/(1/n_i + 4v_i),    v_i = trace(V_i)/2.

    These N_i are right for a function between 0 and 1, whose variance inside a class is at most
    ¼: a mean over bag i then strays by ¼/n_i + v_i from what the noisy proportions expect. The
    factor f_i, which goes to 1 with the number of bags, keeps the inverse from being too large on
    average, see `_noise_to_take_off`.

    Parameters
    ----------
    bags : Bags
        At least two bags whose proportions differ.
    bag_model : {"instances", "bags"}, default="instances"
        Whether the instances of a bag are independent, so that large bags have more weight, or
        may depend on each other, so that every bag has the same.

    Returns
    -------
    W : ndarray of shape (n_bags, n_classes)
        Weights with Wᵀ times the proportions the identity, up to noise.

    Examples
    --------
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.weights import decontamination_weights
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> W = decontamination_weights(bags)
    >>> (W.T @ bags.proportions).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    check_contrast(bags)
    root = np.sqrt(precision(bags, bag_model))[:, None]
    q, r = np.linalg.qr(root * bags.proportions)
    inverse = np.linalg.inv(r)
    if bags.noise is None:
        return root * (q @ inverse.T)
    _check_beyond_noise(bags.noise, root, inverse)
    noise = inverse.T @ _noise_to_take_off(bags.noise, root, q, inverse).sum(axis=0) @ inverse
    return root * (q @ np.linalg.solve(np.eye(bags.n_classes) - noise, inverse.T))


def moment_terms(bags: Bags) -> tuple[Floats, Floats]:
    """What each bag adds to the two sides of the least-squares problem, A θ = Σ_i n_i γ_i m_iᵀ.

    Returns n_i γ_i γ_iᵀ, whose sum is A, of shape (n_bags, n_classes, n_classes), and n_i γ_i.
    Of noisy proportions the noise is taken off, as in `decontamination_weights`.
    """
    draws = precision(bags, "instances")[:, None]
    instrument = draws * bags.proportions
    normal = instrument[:, :, None] * bags.proportions[:, None, :]
    if bags.noise is not None:
        root = np.sqrt(draws)
        q, r = np.linalg.qr(root * bags.proportions)
        normal = normal - _noise_to_take_off(bags.noise, root, q, np.linalg.inv(r))
    return normal, instrument


def precision(bags: Bags, bag_model: BagModel) -> Floats:
    """N_i = 1/(1/n_i + 4v_i): the draws in each bag, fewer where its proportions are noisy."""
    draws = bags.draws(bag_model)
    if bags.noise is None:
        return draws
    variance = np.trace(bags.noise, axis1=1, axis2=2) / 2
    return draws / (1 + 4 * draws * variance)


def pooled_shares(bags: Bags, bag_model: BagModel, included: Bools) -> Floats:
    """Shares q = Gᵀv of the classes in all bags together, where v_i = N_i / Σ_j N_j.

    With the weights W of `decontamination_weights`, Wq = v: at these class priors, every bag has a
    positive weight in the risk, and under the independent-instance model every instance the same.
    ``included`` (n_problems, n_bags) says which bags each problem takes.
    """
    parts = included * precision(bags, bag_model)
    shares = parts @ bags.proportions / parts.sum(axis=1, keepdims=True)
    # noisy proportions of a rare class may have a negative mean
    return shares if bags.noise is None else np.clip(shares, 1e-6, 1.0)


def _noise_to_take_off(noise: Floats, root: Floats, q: Floats, inverse: Floats) -> Floats:
    """N_i f_i V_i for every bag, f_i = 1 − h_i (C + 1)/C − ρ_i C/(C − 1), or 0 if that is negative.

    With A what GᵀNG would be without noise, let h_i be the leverages, which sum to the number of
    classes C, and ρ_i = N_i trace(A⁻¹V_i) the same of the noise. What noise in GᵀNG and in GᵀNm
    does to the product of the inverse of one with the other is, up to order 1/n_bags², as if
    Σ_i (1 − f_i) N_i V_i were taken off too much, for Gaussian noise, bags that are alike and V_i
    that keep the shape of A (as they do for two classes). ``docs/explanation/training.md`` has the proof;
    compare Fuller's modified estimator in *Measurement Error Models*.
    """
    n_classes = q.shape[1]
    weighted = root[:, :, None] ** 2 * noise
    of_noise = inverse.T @ weighted @ inverse
    # GᵀNG is the identity in these coordinates; what is beyond noise stays above rounding
    without = np.eye(n_classes) - of_noise.sum(axis=0)
    ratio = np.trace(np.linalg.solve(without, of_noise), axis1=1, axis2=2)
    leverage = np.sum(q**2, axis=1)
    factor = 1 - leverage * (n_classes + 1) / n_classes - ratio * n_classes / (n_classes - 1)
    return np.maximum(factor, 0)[:, None, None] * weighted


def _check_beyond_noise(noise: Floats, root: Floats, inverse: Floats) -> None:
    """Refuse proportions whose spread in some direction may well be noise and nothing else.

    If x is the direction where noise has the largest part ρ in the spread, then ρ would be about
    1 without any true spread, with standard error √(2 Σ_i (N_i xᵀV_i x)²) for Gaussian noise.
    """
    weighted = root[:, :, None] ** 2 * noise
    parts, directions = np.linalg.eigh(inverse.T @ weighted.sum(axis=0) @ inverse)
    direction = inverse @ directions[:, -1]
    by_bag = np.einsum("a,iab,b->i", direction, weighted, direction)
    if 1 - parts[-1] > np.sqrt(2 * np.sum(by_bag**2)):
        return
    # in units of a share: what the class at one end has more than that at the other
    spread = 1 / (np.ptp(direction) * np.sqrt(np.sum(root**2)))
    raise ValueError(
        f"The proportions of the {len(noise)} bags vary (standard deviation {spread:.2g}) hardly "
        f"more than noise alone would make them ({np.sqrt(parts[-1]) * spread:.2g}), so the "
        "classes cannot be separated; use more or larger bags, or less noise."
    )


def check_contrast(bags: Bags) -> None:
    """No method can learn from bags that are all alike.

    Whether noisy proportions differ by more than their noise depends on how bags are weighed, and
    is checked by `decontamination_weights`.
    """
    if bags.n_classes < 2:
        raise ValueError(
            f"There is only one class, {bags.classes[0]!r}: there is nothing to separate."
        )
    if bags.n_bags < 2:
        raise ValueError("There is only one bag; no method can learn from fewer than two.")
    spread = np.linalg.svd(bags.proportions - bags.proportions.mean(axis=0), compute_uv=False)
    # shares sum to one, so that of C directions at most C − 1 can vary
    varying = int((spread > SAME_PROPORTION * np.sqrt(bags.n_bags)).sum())
    if varying == 0:
        share = ", ".join(f"{p:.4g}" for p in bags.proportions[0])
        raise ValueError(
            f"All {bags.n_bags} bags have the same class proportions ({share}); no method can "
            "learn from these, because the bags must differ to separate the classes."
        )
    if varying < bags.n_classes - 1:
        raise ValueError(
            f"The proportions of the bags vary in {counted(varying, 'direction')} only, but "
            f"{bags.n_classes} classes need {bags.n_classes - 1}: no method can separate all of them "
            "apart from these bags."
        )
