"""The likelihood of the counts of bags, given their rows.

Let p_j be the class probabilities of row j at the overall class prior q, and K_b the sum of
independent draws with these probabilities over the rows of bag b. Then

    G(f) = −(1/N) Σ_b log Pr(K_b = k_b)

is the Poisson-binomial (for several classes, Poisson-multinomial) likelihood of the counts, for short
the count likelihood. It is right under either assumption about bags.

- Under covariate shift (the class depends on the row alone, whatever its bag) it is the likelihood
  of the counts given the rows, by definition.
- Under label shift (the row depends on its class alone) it is the likelihood of the rows given the
  counts, up to a constant, whatever proportions the bags have. With g_c the density of class c and
  m = Σ_c q_c g_c that of all rows, p_c = q_c g_c / m. The rows of a bag with the counts k have the
  density Σ_y Π_j g_{y_j}(x_j) · Π_c k_c! / n!, over the labels y that give these counts, or

      Σ_y Π_j p_{y_j}(x_j) · Π_j m(x_j) · Π_c k_c! q_c^{−k_c} / n! = Pr(K = k) · (terms without f).

  For p to come from densities at all, its mean must be q; where the intercept is free, the minimum
  of G has this property by itself, as the gradient p_j − P(class of j | counts) then sums to zero.

A noisy count adds a normal density: Pr(k̃) = Σ_m Pr(K = m) N(k̃ − m; 0, S), S the covariance of the
noise. Proportions that no whole counts give are taken to be sampling probabilities: S is then the
covariance n(diag γ − γγᵀ) of counts that are drawn with them.

How it is computed: exactly (`unbag.observations.exact`) for bags of two or three classes and at most
16 rows and of four and at most 6, by a saddlepoint approximation (`unbag.observations.saddlepoint`)
for all others, at a cost that is linear in the number of rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit, softmax

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.defaults import EXACT_SIZE
from unbag.observations.weighed_bags import WeighedBags

# Shares that two printed digits explain give counts as near to whole ones as this, in bags of at
# most so many rows; in larger ones a fraction of a row makes no difference.
_NEARLY_WHOLE = 0.25
_FEW_ROWS = 50


class CountLikelihood:
    """Mean negative log-likelihood of the counts of bags, in score space.

        G(f) = −(1/T) Σ_b log Pr(K_b = k_b),    K_b the sum of draws with probabilities p_j = softmax f_j,
        dG/df_j = (1/T) (p_j − P(class of j | rows and counts of its bag)),

    with T the number of instances in the bags that a problem includes; the others are held out. Scores are
    log-odds (or those of softmax) at the shares of the classes in all bags together. Rows of known label
    count as bags of one instance. Small bags are summed exactly, in time that grows with the square of the size.

    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.count_likelihood import CountLikelihood, label_posteriors
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> likelihood = CountLikelihood(np.array([True, True]), bags)
    >>> scores, problem = np.zeros((1, 1, 4)), np.zeros(1, dtype=int)
    >>> float(likelihood.value(scores, problem)[0].round(3))  # log 2 and log 4, over four rows
    0.52
    >>> label_posteriors(scores, bags)
    array([[[0.5, 0.5, 1. , 1. ]]])
    """

    def __init__(self, included: Bools, bags: Bags, exact_size: int = EXACT_SIZE) -> None:
        table = check_included(included, bags)
        pieces, first = bags.with_labelled_rows_apart()
        self.n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
        self._weights = (table / (table @ bags.sizes)[:, None])[:, bags.index[first]]
        self._bags = WeighedBags(pieces, count_covariance(pieces), exact_size)
        self._bag_of_piece, self._n_bags = bags.index[first], bags.n_bags

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column."""
        return self._bags.evaluate(scores, False, self._weights_of(problem))[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Mean negative log-likelihood per column and its gradient with respect to the scores."""
        return self._bags.evaluate(scores, True, self._weights_of(problem))

    def _weights_of(self, problem: Ints) -> Floats:
        return self._weights if len(self._weights) == 1 else self._weights[problem]

    def bag_losses(self, scores: Array) -> Floats:
        """Negative log-likelihood of every bag (columns, bags), whatever problems include."""
        pieces = self._bags.losses(scores)
        return np.stack([np.bincount(self._bag_of_piece, one, self._n_bags) for one in pieces])


def label_posteriors(scores: Array, bags: Bags, bag_effect: float = 0.0) -> Array:
    """Probability of each class of every instance, given the rows and the counts of its bag.

    It is p_j less the gradient dG/df_j, for scores (columns, outputs, instances) at the overall class prior;
    of two classes that of the second. A random intercept per bag, of variance τ² = ``bag_effect``, matters
    for noisy counts alone: with V the variance of the count by sampling, that of the intercept is τ²V² to
    first order, and a count of noise N says as much of its bag as one of noise N/(1 + τ²V) without intercepts.
    """
    if bag_effect > 0 and bags.noise is not None:
        bags = replace(bags, noise=bags.noise * _share_of_sampling(scores, bags, bag_effect))
    return LabelPosteriors(bags)(scores)


def _share_of_sampling(scores: Array, bags: Bags, bag_effect: float) -> Floats:
    """1/(1 + τ²V) of each bag (bags, 1, 1), by the probabilities of the first column of scores."""
    raw = scores[0]
    p = softmax(np.concatenate([np.zeros_like(raw), raw]) if len(raw) == 1 else raw, axis=0)
    # of several classes, the mean over classes
    V = np.bincount(bags.index, (p * (1.0 - p)).sum(axis=0) / 2.0, bags.n_bags)
    return (1.0 / (1.0 + bag_effect * V))[:, None, None].astype(float)


class LabelPosteriors:
    """What `label_posteriors` gives, for scores that come one after the other."""

    def __init__(self, bags: Bags) -> None:
        pieces, _ = bags.with_labelled_rows_apart()
        self._weighed = WeighedBags(pieces, count_covariance(pieces), EXACT_SIZE)

    def __call__(self, scores: Array) -> Array:
        """Probabilities for scores of shape (columns, outputs, instances)."""
        slopes = self._weighed.evaluate(scores)[1]
        p = expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1)
        # the saddlepoint approximation may lead a little beyond
        found: Floats = np.clip(p - slopes, 0.0, 1.0)
        if scores.shape[1] == 1:
            return found
        return found / np.sum(found, axis=1, keepdims=True)


def check_included(included: Bools, bags: Bags) -> Bools:
    """Read which bags each problem includes: one line for each, with some bag in it."""
    table = np.atleast_2d(np.asarray(included, dtype=bool))
    if table.ndim != 2 or table.shape[1] != bags.n_bags:
        raise ValueError(
            f"included must say yes or no to each of the {bags.n_bags} bags; its shape is "
            f"{np.shape(included)}."
        )
    if not table.any(axis=1).all():
        raise ValueError("A problem holds out every bag and leaves none to learn from.")
    return table


def are_sampling_probabilities(bags: Bags) -> Bools:
    """Mark the bags whose exact proportions are not those of whole counts, nor nearly so."""
    counts = bags.sizes[:, None] * bags.proportions
    off = np.abs(counts - np.round(counts)).max(axis=1)
    found: Bools = (off > _NEARLY_WHOLE) & (bags.sizes <= _FEW_ROWS)
    found &= ~bags.is_set
    return found if bags.noise is None else found & ~bags.noise.any(axis=(1, 2))


def count_covariance(bags: Bags) -> Floats:
    """Covariance S of the noise of the counts (bags, classes, classes), that of sampling included."""
    n, shares = bags.sizes[:, None, None].astype(float), bags.proportions
    S = np.zeros((*shares.shape, shares.shape[1])) if bags.noise is None else n**2 * bags.noise
    sampled = are_sampling_probabilities(bags)
    if sampled.any():
        gamma = shares[sampled]
        own = gamma[:, :, None] * (np.eye(gamma.shape[1]) - gamma[:, None, :])
        S[sampled] = n[sampled] * own
    return S
