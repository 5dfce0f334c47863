"""The likelihood of the counts of bags, given their rows.

Let p_j be the class chances of row j at the shares q of the classes in all bags together, and K_b
the sum of independent draws with these chances over the rows of bag b. Then

    G(f) = −(1/N) Σ_b log Pr(K_b = k_b)

is what there is to minimise, in two worlds:

- If rows keep their odds (the class depends on the row alone, whatever its bag), it is the
  likelihood of the counts given the rows, by its definition.
- If classes keep their look (the row depends on its class alone), it is the likelihood of the rows
  given the counts, up to a constant, whatever shares the bags have. With g_c the density of class c
  and m = Σ_c q_c g_c that of all rows, p_c = q_c g_c / m. The rows of a bag with the counts k have
  the density Σ_y Π_j g_{y_j}(x_j) · Π_c k_c! / n!, over the labels y that give these counts, or

      Σ_y Π_j p_{y_j}(x_j) · Π_j m(x_j) · Π_c k_c! q_c^{−k_c} / n! = Pr(K = k) · (what f is not in).

  For p to come from densities at all, its mean must be q; where the intercept is free, the minimum
  of G has this property by itself, as the gradient p_j − P(class of j | counts) then sums to zero.

Where counts carry noise of a known covariance, or bags an effect that the rows do not explain, the
count may be off by as much: S = noise + n²τ²(diag q − qqᵀ), with τ² the `bag_effect`. Where classes
keep their look, a noisy bag has another target and another S: `unbag.observations.noise`.

How it is computed: `unbag.observations.exact` (exactly) for bags of two or three classes and at
most 16 rows and of four and at most 6, `unbag.observations.saddlepoint` for all others, at a cost
that is linear in the number of rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from array_api_compat import array_namespace
from scipy.special import softmax

from unbag._arrays import Array, Bools, Floats, Ints, to_host
from unbag.bags.bags import Bags
from unbag.bags.shares import bag_name
from unbag.observations.losses import SoftmaxLoss
from unbag.observations.noise import allow_for_looks
from unbag.observations.weighed_bags import WeighedBags

# Bags of two classes and at most so many rows are summed exactly: docs/likelihood.md.
EXACT_SIZE = 16

# Shares that two printed digits explain give counts as near to whole ones as this, in bags of at
# most so many rows; in larger ones a fraction of a row makes no difference.
_NEARLY_WHOLE = 0.25
_FEW_ROWS = 50


class CountLikelihood:
    """Mean negative log-likelihood of the counts of bags, in score space.

        G(f) = −(1/T) Σ_b log Pr(K_b = k_b),    K_b the sum of draws with chances p_j = softmax f_j,
        dG/df_j = (1/T) (p_j − P(class of j | rows and counts of its bag)),

    with T the number of instances in the bags that a problem includes. Scores are log-odds (or
    those of softmax, for more than two classes) at the shares of the classes in all bags together.
    Rows of known label count as bags of one instance.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
        Who is in which bag. Counts need not be known exactly: see ``Bags.noise``.
    like : array, optional
        Array whose namespace and device the scores will have.
    bag_effect : float, default=0
        τ², the variance of what bags differ by beyond their rows, as a share of q(1 − q).
    exact_size : int, default=16
        Bags of two classes and at most so many rows are summed exactly, which takes a time that
        grows with the square of the size; those of three and four as well, if they are small.
    looks : float, default=0
        How far classes keep their look, from 0 (rows keep their odds) to 1. It makes a difference
        for noisy counts only: see `unbag.observations.noise`.

    Examples
    --------
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

    def __init__(
        self,
        included: Bools,
        bags: Bags,
        like: Array | None = None,
        bag_effect: float = 0.0,
        exact_size: int = EXACT_SIZE,
        looks: float = 0.0,
    ) -> None:
        table = check_included(included, bags)
        pieces, first = bags.with_labelled_rows_apart()
        check_possible_counts(pieces)
        like = np.empty(0) if like is None else like
        self.n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
        weights = (table / (table @ bags.sizes)[:, None])[:, bags.index[first]]
        told, covariance = what_counts_tell(pieces, bag_effect, looks)
        self._bags = WeighedBags(told, weights, covariance, exact_size, like)
        self._bag_of_piece, self._n_bags = bags.index[first], bags.n_bags

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column."""
        return to_host(self._bags.evaluate(scores, problem, gradient=False)[0])

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Mean negative log-likelihood per column and its gradient with respect to the scores."""
        value, gradient = self._bags.evaluate(scores, problem, gradient=True)
        return to_host(value), gradient

    def bag_losses(self, scores: Array) -> Floats:
        """Negative log-likelihood of every bag, whatever problems include.

        Parameters
        ----------
        scores : array of shape (columns, outputs, instances)
            Scores of the instances, for each column.

        Returns
        -------
        losses : ndarray of shape (columns, bags)
            Negative log-likelihoods.
        """
        pieces = self._bags.losses(scores)
        return np.stack([np.bincount(self._bag_of_piece, one, self._n_bags) for one in pieces])


def label_posteriors(
    scores: Array, bags: Bags, bag_effect: float = 0.0, looks: float = 0.0
) -> Array:
    """Chance of each class of every instance, given the rows and the counts of its bag.

    By dG/df_j, which is the chance whatever the counts, less the same given the counts.

    Parameters
    ----------
    scores : array of shape (columns, outputs, instances)
        At the shares of the classes in all bags together.
    bags : Bags
        Who is in which bag, and the counts.
    bag_effect : float, default=0.0
        τ², the variance of what bags differ by beyond their rows, as a share of q(1 − q).
    looks : float, default=0.0
        How far classes keep their look, from 0 (rows keep their odds) to 1; for noisy counts.

    Returns
    -------
    chances : array of shape (columns, outputs, instances)
        For two classes, those of the second.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations import label_posteriors
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> label_posteriors(np.array([[[-1.0, 1.0, 0.0, 0.0]]]), bags).round(2)
    array([[[0.12, 0.88, 1.  , 1.  ]]])
    """
    return LabelPosteriors(bags, bag_effect, looks, scores)(scores)


def known_bag_posteriors(scores: Floats, bags: Bags, bag_effect: float = 0.0) -> Floats:
    """Chance of each class of every row, for use: chances add up to counts that are exact.

    What moves the odds of all rows of a bag moves its count as well, so that given an exact count
    it is of no matter. Of a noisy one, V + E of the variance V + E + N is news, with V that of
    chance, E of the effect and N of the noise: as if there were no effect and noise of N V/(V + E).

    Parameters
    ----------
    scores, bags, bag_effect : as in label_posteriors
    """
    if bags.noise is not None and bag_effect > 0:
        raw = scores[0]
        chances = softmax(np.concatenate([0 * raw, raw]) if len(raw) == 1 else raw, axis=0)
        by_chance = np.bincount(bags.index, (chances * (1 - chances)).sum(axis=0), bags.n_bags)
        q = bags.class_shares
        by_effect = bag_effect * bags.sizes.astype(float) ** 2 * (1 - q @ q)
        weight = by_chance / (by_chance + by_effect)
        bags = replace(bags, noise=bags.noise * weight[:, None, None])
    found: Floats = label_posteriors(scores, bags)
    return found


class LabelPosteriors:
    """What `label_posteriors` gives, for scores that come one after the other.

    Parameters
    ----------
    bags, bag_effect, looks : as in label_posteriors
    like : array, optional
        Array whose namespace and device the scores will have.
    """

    def __init__(
        self,
        bags: Bags,
        bag_effect: float = 0.0,
        looks: float = 0.0,
        like: Array | None = None,
    ) -> None:
        pieces, _ = bags.with_labelled_rows_apart()
        each = np.ones((1, pieces.n_bags))
        told, covariance = what_counts_tell(pieces, bag_effect, looks)
        like = np.empty(0) if like is None else like
        self._weighed = WeighedBags(told, each, covariance, EXACT_SIZE, like)

    def __call__(self, scores: Array) -> Array:
        """Chances for scores of shape (columns, outputs, instances)."""
        xp = array_namespace(scores)
        problem = np.zeros(scores.shape[0], dtype=np.intp)
        slopes = self._weighed.evaluate(scores, problem, gradient=True)[1]
        if scores.shape[1] == 1:
            small = xp.exp(-xp.abs(scores))
            chances = xp.where(scores > 0, xp.ones_like(scores), small) / (1.0 + small)
        else:
            chances = SoftmaxLoss().probability(scores)
        # the saddle point may lead a little beyond
        chances = xp.clip(chances - slopes, min=0.0, max=1.0)
        if scores.shape[1] == 1:
            return chances
        return chances / xp.sum(chances, axis=1, keepdims=True)


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


def check_possible_counts(bags: Bags) -> None:
    """Refuse counts that no labels can give."""
    wrong = impossible_counts(bags)
    if wrong.any():
        bag = int(wrong.argmax())
        n, share = int(bags.sizes[bag]), float(bags.proportions[bag, -1])
        raise ValueError(
            f"Bag {bag_name(bags.ids[bag])} of {n} rows has the share {share:g} of class "
            f"{bags.class_names[-1]}: that would be {n * share:g} rows, which no labels can give. "
            "If labels were drawn with this chance, use objective='forward'; if the share is known "
            "up to some error, say so by bag_target(noise=...)."
        )


def impossible_counts(bags: Bags) -> Bools:
    """Mark the bags whose exact shares are not those of whole counts, nor nearly so."""
    counts = bags.sizes[:, None] * bags.proportions
    off = np.abs(counts - np.round(counts)).max(axis=1)
    wrong: Bools = (off > _NEARLY_WHOLE) & (bags.sizes <= _FEW_ROWS)
    return wrong if bags.noise is None else wrong & ~bags.noise.any(axis=(1, 2))


def what_counts_tell(bags: Bags, bag_effect: float, looks: float) -> tuple[Bags, Floats]:
    """Bags with the counts to aim at, and S of each: noise, and n²τ²(diag q − qqᵀ).

    Rows of known label have no effect.
    """
    if not 0 <= bag_effect < np.inf:
        raise ValueError(
            f"bag_effect is a variance, which must be finite and not negative: {bag_effect!r}."
        )
    q = bags.class_shares
    effect = bag_effect * (np.diag(q) - np.outer(q, q))
    S = np.where(bags.labelled[:, None, None], 0.0, effect)
    told = allow_for_looks(bags, looks)
    if told.noise is not None:
        S = S + told.noise
    return told, S * bags.sizes[:, None, None].astype(float) ** 2
