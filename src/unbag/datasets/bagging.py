"""Bags drawn from rows of known label, or simulated, to try methods where the truth can be looked up.

`make_bags` is the paper's sampling scheme (section "Experiments"), `make_random_bags` that of most
other papers, and `make_gaussian_bags` simulates rows; `add_count_noise` makes counts noisy, as privacy demands.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import helmert
from sklearn.utils import Bunch, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from unbag._arrays import Floats, Ints
from unbag._checks import check_choice, check_count, check_nonnegative
from unbag.bags.bags import check_bag_target
from unbag.bags.labels import fields_of
from unbag.bags.shares import check_range, check_support
from unbag.bags.targets import bag_target

# (low, high), or a frozen distribution of `scipy.stats`.
Proportions = Any
Seed = int | RandomState | None

# Shares drawn from a distribution over mixtures sum to one up to rounding.
_SUM_TOLERANCE = 1e-9


def make_bags(
    labels: ArrayLike,
    bag_size: int | ArrayLike,
    proportions: Proportions = (0, 1),
    *,
    n_bags: int | None = None,
    random_state: Seed = None,
) -> tuple[Ints, NDArray[np.void]]:
    """Draw bags with different proportions from labelled rows.

    Each bag's true proportion γ_i is drawn independently, its labels are independent draws from
    that mixture (CIIM in the paper), so that the number of positives is Binomial(n_i, γ_i), and
    it is filled with rows of these labels. No row is drawn twice. The proportion in `y` is the
    observed one, which is the share of positives among the rows of the bag.

    Parameters
    ----------
    labels : array-like of shape (n_rows,)
        The class of each row: any two values, of which the larger is the positive one, or more.
    bag_size : int or array-like of shape (n_bags,)
        Number of rows in every bag, or in each.
    proportions : (low, high) or frozen scipy.stats distribution, default=(0, 1)
        Of true proportions: uniform between two numbers, or any distribution inside [0, 1], such as
        ``scipy.stats.beta(2, 5)``. For more than two classes one over mixtures, such as
        ``scipy.stats.dirichlet([1, 1, 1])``; with (0, 1) all mixtures are equally likely.
    n_bags : int, optional
        How many bags to draw. By default one for each entry of ``bag_size``; if that is a single
        number, bags are drawn until the next lacks rows of one of its classes.
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable.

    Returns
    -------
    index : ndarray of shape (n_instances,)
        Positions of the drawn rows in ``labels``, bag after bag, in random order within a bag.
    y : structured ndarray of shape (n_instances,)
        Their bags and proportions, as `unbag.bag_target` makes it. Bags are numbered from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_bags
    >>> labels = np.array([0, 1] * 50)
    >>> index, y = make_bags(labels, bag_size=10, proportions=(0, 0.5), n_bags=4, random_state=0)
    >>> y["proportion"][::10]
    array([0.2, 0.4, 0.3, 0.4])
    >>> labels[index].reshape(4, 10).mean(axis=1)
    array([0.2, 0.4, 0.3, 0.4])
    """
    classes, codes = _check_labels(labels)
    rng = check_random_state(random_state)
    available = np.bincount(codes)
    sizes = resolve_sizes(bag_size, n_bags, n_rows=len(codes))
    shares = draw_proportions(proportions, len(sizes), len(classes), rng)
    counts = draw_counts(sizes, shares, rng)
    if n_bags is None and np.ndim(bag_size) == 0:
        fits = (counts.cumsum(axis=0) <= available).all(axis=1)
        # not even the first bag fits: keep it, for the message below
        counts = counts[: max(int(fits.sum()), 1)]
        sizes = sizes[: len(counts)]
    needed = counts.sum(axis=0)
    if (needed > available).any():
        short = int(np.argmax(needed - available))
        raise ValueError(
            f"These bags need {needed[short]} rows of class {classes[short]}, "
            f"but labels has only {available[short]}."
        )
    drawn = [rng.permutation(np.flatnonzero(codes == c))[:total] for c, total in enumerate(needed)]
    bag = np.concatenate([np.repeat(np.arange(len(sizes)), of_class) for of_class in counts.T])
    shuffled = rng.permutation(len(bag))
    order = shuffled[np.argsort(bag[shuffled], kind="stable")]
    index = np.concatenate(drawn)[order]
    return index, observed_target(sizes, codes[index], len(classes))


def make_random_bags(
    labels: ArrayLike,
    bag_size: int | ArrayLike,
    *,
    n_bags: int | None = None,
    random_state: Seed = None,
) -> tuple[Ints, NDArray[np.void]]:
    """Cut shuffled labelled rows into random bags.

    This is how bags are made in most of the literature. All proportions are close to that of all
    rows, so there is little to learn from; see `make_bags` for bags that differ.

    Parameters
    ----------
    labels, bag_size : as in `make_bags`
    n_bags : int, optional
        How many bags to make. By default one for each entry of ``bag_size``, or, if that is a
        single number, as many as there are rows for. Rows that fill no bag are left out.
    random_state : as in `make_bags`

    Returns
    -------
    index, y : ndarray of shape (n_instances,)
        As `make_bags` returns them.

    Examples
    --------
    >>> from unbag.datasets import make_random_bags
    >>> index, y = make_random_bags(["no", "yes"] * 20, bag_size=16, random_state=0)
    >>> y["proportion"][[0, 16]]
    array([0.5   , 0.4375])
    >>> len(index)
    32
    """
    classes, codes = _check_labels(labels)
    rng = check_random_state(random_state)
    sizes = resolve_sizes(bag_size, n_bags, n_rows=len(codes))
    n_drawn = int(sizes.sum())
    if n_drawn > len(codes):
        raise ValueError(f"These bags need {n_drawn} rows, but labels has only {len(codes)}.")
    index = rng.permutation(len(codes))[:n_drawn]
    return index, observed_target(sizes, codes[index], len(classes))


def add_count_noise(
    y: NDArray[np.void],
    scale: float,
    *,
    distribution: Literal["laplace", "gaussian"] = "laplace",
    random_state: Seed = None,
) -> NDArray[np.void]:
    """Add noise to the counts of every bag, as privacy systems do.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`
        With exact proportions. Rows of known label, which are bags of one row, stay exact.
    scale : float
        Parameter b of the Laplace distribution (1/ε for counts that are to be ε-differentially
        private), or the standard deviation of the Gaussian one.
    distribution : {"laplace", "gaussian"}, default="laplace"
        Of the noise. Several classes get independent noise.
    random_state : int, RandomState or None, default=None
        Makes the noise repeatable. Do not give the seed that made the bags: the same random
        numbers would make their shares, and noise that depends on the shares is another thing.

    Returns
    -------
    y : structured ndarray of shape (n_instances,)
        The same bags with noisy proportions, not clipped, and the field ``noise``.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.datasets import add_count_noise
    >>> y = bag_target([1] * 50 + [2] * 50, counts={1: 10, 2: 40})
    >>> noisy = add_count_noise(y, scale=2, random_state=0)
    >>> noisy["proportion"][[0, 50]].round(3)
    array([0.204, 0.823])
    >>> noisy["noise"][[0, 50]].round(3)
    array([0.057, 0.057])
    """
    check_choice(distribution, ("laplace", "gaussian"), "distribution")
    check_nonnegative(scale, "scale")
    if not fields_of(y):
        raise ValueError("Plain labels have no counts; make the target with unbag.bag_target.")
    check_bag_target(y)
    if "noise" in fields_of(y):
        raise ValueError("The proportions of this target are noisy already.")
    rng = check_random_state(random_state)
    _, first, codes = np.unique(y["bag"], return_index=True, return_inverse=True)
    shares, sizes = y["proportion"][first], y["size"][first]
    draw, sd = (rng.laplace, np.sqrt(2)) if distribution == "laplace" else (rng.normal, 1.0)
    noise = draw(scale=scale, size=shares.shape)
    known = (sizes == 1) & np.isin(shares, (0, 1)).reshape(len(first), -1).all(axis=1)
    noise[known] = 0
    deviation = np.where(known, 0, scale * sd)
    counts = (shares.T * sizes).T + noise
    return bag_target(y["bag"], counts=counts[codes], noise=deviation[codes])


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


# --- sizes, proportions and counts ----------------------------------------------------------------


def resolve_sizes(
    bag_size: int | ArrayLike, n_bags: int | None, n_rows: int = 0
) -> NDArray[np.int64]:
    """Size of each bag; if nothing says how many, there are as many as ``n_rows`` can fill."""
    sizes = np.asarray(bag_size)
    if sizes.dtype.kind not in "iu" or sizes.ndim > 1 or sizes.size == 0 or sizes.min() < 1:
        raise ValueError(
            f"bag_size must be a whole number above 0, or one for each bag, not {bag_size!r}."
        )
    if n_bags is not None:
        check_count(n_bags, "n_bags")
    if sizes.ndim == 0:
        repeats = max(n_rows // int(sizes), 1) if n_bags is None else n_bags
        return np.full(repeats, sizes, dtype=np.int64)
    if n_bags is not None and n_bags != len(sizes):
        raise ValueError(f"There are {len(sizes)} bag sizes, but n_bags is {n_bags}.")
    return sizes.astype(np.int64)


def draw_proportions(
    proportions: Proportions, n_bags: int, n_classes: int, rng: RandomState
) -> Floats:
    """Draw the true share of every class (columns) in every bag (rows)."""
    drawn: Floats
    if hasattr(proportions, "rvs"):
        # distributions over mixtures have no such method; their draws are checked below
        if hasattr(proportions, "support"):
            check_support(*proportions.support())
        drawn = np.asarray(proportions.rvs(size=n_bags, random_state=rng), dtype=np.float64)
    else:
        try:
            low, high = map(float, proportions)
        except (TypeError, ValueError):
            raise ValueError(
                "proportions must be two numbers (low, high) or a frozen scipy.stats distribution, "
                f"not {proportions!r}."
            ) from None
        check_range(low, high)
        if n_classes > 2 and (low, high) == (0, 1):
            # what the uniform distribution on [0, 1] is for two classes
            return rng.dirichlet(np.ones(n_classes), size=n_bags)
        drawn = rng.uniform(low, high, size=n_bags)
    if drawn.shape == (n_bags,) and n_classes == 2:
        return np.column_stack([1 - drawn, drawn])
    if drawn.shape != (n_bags, n_classes):
        n_shares = 2 if drawn.ndim == 1 else drawn.shape[-1]
        raise ValueError(
            f"There are {n_classes} classes, but proportions are given for {n_shares}; use a "
            f"distribution over mixtures such as scipy.stats.dirichlet({[1] * n_classes})."
        )
    if (drawn < 0).any() or (np.abs(drawn.sum(axis=1) - 1) > _SUM_TOLERANCE).any():
        raise ValueError("The distribution of proportions must give shares that sum to 1.")
    return drawn


def draw_counts(sizes: NDArray[np.int64], shares: Floats, rng: RandomState) -> NDArray[np.int64]:
    """Draw how many instances of every class (columns) are in every bag: multinomial."""
    counts, left, rest = np.zeros(shares.shape, np.int64), sizes.copy(), shares.cumsum(axis=1)
    # one binomial after the other, as RandomState.multinomial takes one bag at a time only;
    # from the last class on, so that with two classes the positives are Binomial(n_i, γ_i)
    for c in range(shares.shape[1] - 1, 0, -1):
        probability = np.clip(shares[:, c] / np.maximum(rest[:, c], 1e-300), 0, 1)
        counts[:, c] = rng.binomial(left, probability)
        left -= counts[:, c]
    counts[:, 0] = left
    return counts


def observed_target(sizes: NDArray[np.int64], codes: Ints, n_classes: int) -> NDArray[np.void]:
    """Make the target of bags that lie one behind the other, of rows of these classes."""
    bag = np.repeat(np.arange(len(sizes)), sizes)
    cells = np.bincount(bag * n_classes + codes, minlength=len(sizes) * n_classes)
    counts = cells.reshape(len(sizes), n_classes)
    return bag_target(bag, counts=(counts[:, 1] if n_classes == 2 else counts)[bag])


def _check_labels(labels: ArrayLike) -> tuple[NDArray[Any], Ints]:
    """Sorted classes, and the place of each row's class among them."""
    values = column_or_1d(labels)
    check_classification_targets(values)
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise ValueError("labels must hold at least two classes; bags of one class are all alike.")
    return classes, codes


def _draw_labels(bag: Ints, shares: Floats, label_dependence: float, rng: RandomState) -> Ints:
    """Draw a label for each instance; two of a bag are both copies with probability r."""
    steps = shares.cumsum(axis=1)[:, :-1]
    shared = (rng.uniform(size=(len(shares), 1)) >= steps).sum(axis=1)
    own = (rng.uniform(size=(len(bag), 1)) >= steps[bag]).sum(axis=1)
    copies = rng.uniform(size=len(bag)) < sqrt(label_dependence)
    return np.where(copies, shared[bag], own)
