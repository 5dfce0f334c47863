"""Synthetic bags with known labels: Gaussian classes, independent or dependent within bags."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from sklearn.utils import Bunch, check_random_state

from unbag._arrays import Floats, Ints
from unbag._checks import check_count, check_nonnegative
from unbag.datasets.bagging import (
    Proportions,
    Seed,
    draw_proportions,
    observed_target,
    resolve_sizes,
)


def make_gaussian_bags(
    n_bags: int | None = None,
    bag_size: int | ArrayLike = 50,
    proportions: Proportions = (0, 1),
    *,
    n_classes: int = 2,
    n_features: int = 2,
    separation: float = 2.0,
    dependence: float = 0.0,
    label_dependence: float = 0.0,
    random_state: Seed = None,
) -> Bunch:
    """Draw bags from Gaussian classes, with independent or dependent instances.

    Given its label y, every instance is N(μ_y, I) in every bag, and any two of the means μ are
    ``separation`` apart. Within a bag the instances share a component,

        X_ij = μ_y + √ρ Z_i + √(1 − ρ) ε_ij,   Z_i, ε_ij ~ N(0, I),

    and each label is with probability √r a copy of one label drawn for the whole bag, otherwise
    a draw of its own from the bag's mixture γ_i. With ρ = r = 0 instances are independent (CIIM
    in the paper); otherwise only bags are (CIBM).

    Parameters
    ----------
    n_bags : int, optional
        Number of bags; by default one for each entry of ``bag_size``, or 100.
    bag_size : int or array-like of shape (n_bags,), default=50
        Number of instances in every bag, or in each.
    proportions : (low, high) or frozen scipy.stats distribution, default=(0, 1)
        Of true proportions, as for `make_bags`.
    n_classes : int, default=2
        Number of classes.
    n_features : int, default=2
        Number of features, at least ``n_classes - 1``.
    separation : float, default=2.0
        Distance between the means of any two classes.
    dependence : float in [0, 1), default=0.0
        ρ, the correlation of a feature in two instances of a bag, given their labels.
    label_dependence : float in [0, 1), default=0.0
        r, the correlation of two labels of a bag, given its true proportion.
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable. The same number gives the same labels, whatever ``dependence``
        and ``separation`` are.

    Returns
    -------
    bags : Bunch
        ``X``, the instances, bag after bag; ``y``, their bags and observed proportions as
        `unbag.bag_target` makes it; ``labels``, the true class of each instance;
        ``true_proportions``, γ_i of each bag, with a column per class if there are more than
        two; ``means``, μ of each class.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> bags = make_gaussian_bags(n_bags=3, bag_size=4, dependence=0.5, random_state=0)
    >>> bags.X.shape
    (12, 2)
    >>> bags.y["proportion"][::4]
    array([0.5 , 1.  , 0.25])
    >>> bags.means
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    check_count(n_classes, "n_classes", least=2)
    if n_features < n_classes - 1:
        raise ValueError(
            f"{n_classes} means at equal distances need at least {n_classes - 1} features, "
            f"not {n_features}."
        )
    check_nonnegative(separation, "separation")
    for name, value in (("dependence", dependence), ("label_dependence", label_dependence)):
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, not {value}.")
    rng = check_random_state(random_state)
    if n_bags is None and np.ndim(bag_size) == 0:
        n_bags = 100
    sizes = resolve_sizes(bag_size, n_bags)
    shares = draw_proportions(proportions, len(sizes), n_classes, rng)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    labels = _draw_labels(bag, shares, label_dependence, rng)
    means = np.zeros((n_classes, n_features))
    means[:, : n_classes - 1] = -separation / sqrt(2) * helmert(n_classes).T
    shared = rng.standard_normal((len(sizes), n_features))
    own = rng.standard_normal((len(bag), n_features))
    return Bunch(
        X=means[labels] + sqrt(dependence) * shared[bag] + sqrt(1 - dependence) * own,
        y=observed_target(sizes, labels, n_classes),
        labels=labels,
        true_proportions=shares[:, 1] if n_classes == 2 else shares,
        means=means,
    )


def _draw_labels(bag: Ints, shares: Floats, label_dependence: float, rng: RandomState) -> Ints:
    """Draw a label for each instance; two of a bag are both copies with probability r."""
    steps = shares.cumsum(axis=1)[:, :-1]
    shared = (rng.uniform(size=(len(shares), 1)) >= steps).sum(axis=1)
    own = (rng.uniform(size=(len(bag), 1)) >= steps[bag]).sum(axis=1)
    copies = rng.uniform(size=len(bag)) < sqrt(label_dependence)
    return np.where(copies, shared[bag], own)
