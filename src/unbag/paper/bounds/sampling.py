"""Draw bags under each of the paper's five models of how instances may depend on each other.

Bag i has a true proportion γ_i. Given these, bags are independent in every model, labels and
instances together: what happens in one bag says nothing about another, nor about any two others.
That is more than the paper prints, which asks that an instance of one bag and one of another be
independent and says nothing of labels of different bags; but its proofs need it, and fail without
(``docs/theory/bounds.md``). Inside a bag:

* IIM, the independent instance model: all instances are drawn one by one from the mixture
  γ_i P₊ + (1 − γ_i) P₋.
* IBM, the independent bag model: every single instance comes from that mixture, but those of a
  bag may depend on each other in any way.
* CIIM, given γ: labels are independent, positive with chance γ_i; given the labels, instances are
  independent, each from the distribution of its class. For fixed γ this is the same as IIM.
* CIBM', given γ: every single label is positive with chance γ_i; given all labels of the bag,
  every single instance comes from the distribution of its class. It implies IBM.
* CIBM, given γ: the same, but labels need the chance γ_i on average over the bag only, not one by
  one. It does not imply IBM, and yet estimates of the risk remain unbiased.

IIM and CIIM are single models. The other three are families, and `sample_bags` draws from one
member of each, whose instances do depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_choice, check_share
from unbag.bags.targets import bag_target
from unbag.paper.bounds.checks import check_proportions, check_sizes

# The first theorem is for known proportions, the second for observed ones; bags can be drawn
# under all five models.
PairModel = Literal["IIM", "IBM"]
ConditionalModel = Literal["CIIM", "CIBM"]
SamplingModel = Literal["IIM", "IBM", "CIIM", "CIBM", "CIBM'"]
RowSource = ArrayLike | Callable[[int, RandomState], Any]


@dataclass(frozen=True, eq=False)
class BagSample:
    """Instances drawn by `sample_bags`, bag after bag.

    Attributes
    ----------
    X : ndarray of shape (n_instances, ...)
        The instances.
    bag : ndarray of shape (n_instances,)
        Bags are numbered from 0.
    labels : ndarray of shape (n_instances,)
        The class that each instance was drawn from, 0 or 1. A learner does not see it.
    true_proportions : ndarray of shape (n_bags,)
        γ_i.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from unbag.paper.bounds import sample_bags
    >>> sample = sample_bags([0.2, 0.7], 5, norm(1).rvs, norm(-1).rvs, random_state=0)
    >>> sample.X.shape, sample.bag.tolist()
    ((10,), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    >>> sample.target("true")["proportion"][[0, 5]]
    array([0.2, 0.7])
    """

    X: NDArray[Any]
    bag: Ints
    labels: NDArray[np.int64]
    true_proportions: Floats

    @property
    def observed_proportions(self) -> Floats:
        """Share of positives among the instances of each bag, γ̂_i."""
        return np.bincount(self.bag, self.labels) / np.bincount(self.bag)

    def target(self, proportions: Literal["observed", "true"] = "observed") -> NDArray[np.void]:
        """Make the target `y` of these bags from their observed or their true proportions.

        Parameters
        ----------
        proportions : {"observed", "true"}, default="observed"
            Which of them the learner is told.

        Returns
        -------
        y : structured ndarray of shape (n_instances,)
            The target, as made by `unbag.bag_target`.
        """
        check_choice(proportions, ("observed", "true"), "proportions")
        known = self.true_proportions if proportions == "true" else self.observed_proportions
        return bag_target(self.bag, known[self.bag])


def sample_bags(
    proportions: ArrayLike,
    sizes: ArrayLike,
    positives: RowSource,
    negatives: RowSource,
    *,
    model: SamplingModel = "CIIM",
    dependence: float | None = None,
    random_state: int | RandomState | None = None,
) -> BagSample:
    """Draw bags of given true proportions under one of the paper's sampling models.

    Parameters
    ----------
    proportions : array-like of shape (n_bags,)
        True proportions γ_i. The conditional models let them be random: draw them first.
    sizes : int or array-like of shape (n_bags,)
        Number of instances in every bag, or in each.
    positives : array-like or callable
        The distribution of the positive class: rows to draw from, with replacement, or a function
        that is given a number and a RandomState and draws so many instances, such as
        ``scipy.stats.norm(1).rvs``.
    negatives : array-like or callable
        That of the negative class.
    model : {"IIM", "IBM", "CIIM", "CIBM", "CIBM'"}, default="CIIM"
        What may depend on what:

        - "IIM" and "CIIM": each label is positive with chance γ_i, each instance drawn from its
          class, all independently.
        - "IBM": one instance is drawn from the mixture for the whole bag, and each instance is a
          copy of it with chance √r, else a draw of its own.
        - "CIBM'": each label is with chance √r a copy of one label drawn for the whole bag. Given
          the labels, each instance is with chance √r a copy of the one that was drawn for its bag
          and class.
        - "CIBM": the same, but the labels of each bag are sorted, positives first, before
          instances are drawn. So the first are positive more often than γ_i, the last less often,
          and their average is right.
    dependence : float in [0, 1], optional
        r, by default 0.5: the correlation of two labels of a bag (of two instances under "IBM"). At
        1 and under "IBM" a bag is one instance many times. Not for "IIM" and "CIIM".
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable.

    Returns
    -------
    sample : BagSample

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from unbag.paper.bounds import sample_bags
    >>> sample = sample_bags([0.2, 0.7], 5, norm(1).rvs, norm(-1).rvs, model="CIBM", random_state=0)
    >>> sample.labels.reshape(2, 5)
    array([[0, 0, 0, 0, 0],
           [1, 1, 1, 0, 0]])
    >>> sample.observed_proportions
    array([0. , 0.6])
    """
    gamma = check_proportions(proportions)
    n = check_sizes(sizes, len(gamma), "sizes", of="bag")
    rng = check_random_state(random_state)
    copies = sqrt(_check_dependence(model, dependence))
    bag = np.repeat(np.arange(len(gamma)), n)
    labels = rng.uniform(size=len(bag)) < gamma[bag]
    if model not in ("IIM", "CIIM"):
        shared = rng.uniform(size=len(gamma)) < gamma
        copied = rng.uniform(size=len(bag)) < copies
        labels = np.where(copied, shared[bag], labels)
    if model == "CIBM":
        labels = labels[np.lexsort((~labels, bag))]
    X = _draw(labels, positives, negatives, rng)
    if model == "IBM":
        X[copied] = _draw(shared, positives, negatives, rng)[bag[copied]]
    elif model in ("CIBM", "CIBM'"):
        # one instance for each bag from the negatives, then one for each from the positives
        of_class = np.repeat([False, True], len(gamma))
        one = _draw(of_class, positives, negatives, rng)
        copied = rng.uniform(size=len(bag)) < copies
        X[copied] = one[bag[copied] + len(gamma) * labels[copied]]
    return BagSample(X, bag, labels.astype(np.int64), gamma)


def _check_dependence(model: str, dependence: float | None) -> float:
    check_choice(model, get_args(SamplingModel), "model")
    if model in ("IIM", "CIIM"):
        if dependence is not None:
            raise ValueError(f"Instances are independent under model={model!r}: no dependence.")
        return 0.0
    return check_share(0.5 if dependence is None else dependence, "dependence")


def _draw(
    labels: Bools, positives: RowSource, negatives: RowSource, rng: RandomState
) -> NDArray[Any]:
    """One instance for each label, from the distribution of its class."""
    n_positive = int(labels.sum())
    above = _draw_class(positives, n_positive, "positives", rng)
    below = _draw_class(negatives, len(labels) - n_positive, "negatives", rng)
    if above.shape[1:] != below.shape[1:]:
        raise ValueError(
            "positives and negatives must have the same features; an instance has the shape "
            f"{above.shape[1:]} in one and {below.shape[1:]} in the other."
        )
    X = np.empty((len(labels), *above.shape[1:]), dtype=np.result_type(above, below))
    X[labels], X[~labels] = above, below
    return X


def _draw_class(source: RowSource, size: int, name: str, rng: RandomState) -> NDArray[Any]:
    if callable(source):
        drawn = np.asarray(source(size, rng))
        if drawn.shape[:1] != (size,):
            raise ValueError(
                f"{name} was asked for {size} instances and gave the shape {drawn.shape}."
            )
        return drawn
    rows = np.asarray(source)
    if rows.ndim == 0 or len(rows) == 0:
        raise ValueError(f"{name} must hold at least one row to draw from.")
    return rows[rng.randint(len(rows), size=size)]
