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

**Computation.** Pure bags need no sum. Bags of two or three classes and at most 16 rows, and of four and at
most 6, are summed exactly, counts of several classes that are known as sets by Fourier sums, and all others
by a saddlepoint approximation (`unbag.observations.bag_losses`, `unbag.observations.several_classes`).
Bags of one kind, and of one size where the kind asks for that, make a part; parts fit the cache of a
processor, and threads share them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from unbag._arrays import Array, Bools, Floats, Ints
from unbag._outputs import scores_of_all
from unbag._threads import allowed_threads, for_each
from unbag.bags.bags import Bags
from unbag.bags.priors import prior_offset
from unbag.defaults import EXACT_SIZE
from unbag.observations.bag_losses import (
    BagLosses,
    BagTable,
    LargeBags,
    PureBags,
    SetBags,
    SmallBags,
    scores_together,
)
from unbag.observations.several_classes import (
    PureClasses,
    SetClasses,
    SeveralClasses,
    SmallClasses,
    largest_exact_bag,
)

# Fewer rows are done before threads would have started.
_MANY_ROWS = 50_000

# Shares that two printed digits explain give counts as near to whole ones as this, in bags of at
# most so many rows; in larger ones a fraction of a row makes no difference.
_NEARLY_WHOLE = 0.25
_FEW_ROWS = 50

# Least class prior: of a class that the bags of a fold do not hold.
_LEAST_PRIOR = 1e-9


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
        self._bag_of_piece, self._n_bags = bags.index[first], bags.n_bags
        self._weights = (table / (table @ bags.sizes)[:, None])[:, self._bag_of_piece]
        self._bags = WeighedBags(pieces, count_covariance(pieces), exact_size)

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column, for scores (columns, outputs, rows)."""
        return self._bags.evaluate(scores, False, self._weights_of(problem))[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """The same with its gradient by the scores."""
        return self._bags.evaluate(scores, True, self._weights_of(problem))

    def _weights_of(self, problem: Ints) -> Floats:
        return self._weights if len(self._weights) == 1 else self._weights[problem]

    def bag_losses(self, scores: Array) -> Floats:
        """Negative log-likelihood of every bag (columns, bags), whatever problems include."""
        pieces = self._bags.losses(scores)
        return np.stack([np.bincount(self._bag_of_piece, one, self._n_bags) for one in pieces])


class BagObjective(CountLikelihood):
    """The same, of scores that are log-odds at the class prior of all bags for every problem.

    The bags that a problem includes have a class prior of their own, and likelihoods are about log-odds
    at that prior: ``offsets`` (n_problems, n_outputs) are added to scores. By default there is one
    problem, of all bags.

    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.count_likelihood import BagObjective
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> BagObjective(bags).bag_losses(np.zeros((1, 1, 4))).round(2)  # log 2 and log 4
    array([[0.69, 1.39]])
    """

    def __init__(self, bags: Bags, included: Bools | None = None) -> None:
        if included is None:
            included = np.ones((1, bags.n_bags), dtype=bool)
        super().__init__(included, bags)
        rows = included * bags.sizes
        priors = rows @ bags.proportions / rows.sum(axis=1, keepdims=True)
        at_least = (np.maximum(prior, _LEAST_PRIOR) for prior in (bags.class_shares, priors))
        self.offsets = prior_offset(*at_least)

    def value(self, scores: Array, problem: Ints) -> Floats:  # noqa: D102
        return super().value(scores + self.offsets[problem][:, :, None], problem)

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:  # noqa: D102
        return super().value_and_gradient(scores + self.offsets[problem][:, :, None], problem)


def label_posteriors(scores: Array, bags: Bags, bag_effect: float = 0.0) -> Array:
    """Probability of each class of every instance, given the rows and the counts of its bag.

    It is p_j less the gradient dG/df_j, for scores (columns, outputs, instances) at the overall class prior;
    of two classes that of the second. A random intercept per bag, of variance τ² = ``bag_effect``, matters
    for noisy counts alone: with V the variance of the count by sampling, that of the intercept is τ²V² to
    first order, and a count of noise N says as much of its bag as one of noise N/(1 + τ²V) without intercepts.
    V is that of the first column of scores; of several classes, the mean over classes.
    """
    if bag_effect > 0 and bags.noise is not None:
        p = softmax(scores_of_all(scores[0]), axis=0)
        V = np.bincount(bags.index, (p * (1.0 - p)).sum(axis=0) / 2.0, bags.n_bags)
        bags = replace(bags, noise=bags.noise / (1.0 + bag_effect * V)[:, None, None])
    return LabelPosteriors(bags)(scores)


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
        return found if scores.shape[1] == 1 else found / np.sum(found, axis=1, keepdims=True)


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


def count_covariance(bags: Bags) -> Floats:
    """Covariance S of the noise of the counts (bags, classes, classes), that of sampling included.

    Sampling probabilities are exact proportions that are not those of whole counts, nor nearly so.
    """
    n, shares = bags.sizes[:, None, None].astype(float), bags.proportions
    S = np.zeros((*shares.shape, shares.shape[1])) if bags.noise is None else n**2 * bags.noise
    off = np.abs(bags.counts - np.round(bags.counts)).max(axis=1)
    sampled = (off > _NEARLY_WHOLE) & (bags.sizes <= _FEW_ROWS) & ~bags.is_set
    sampled &= ~S.any(axis=(1, 2))
    gamma = shares[sampled]
    own = gamma[:, :, None] * (np.eye(shares.shape[1]) - gamma[:, None, :])
    S[sampled] = n[sampled] * own
    return S


class WeighedBags:
    """Weighed sum of the losses of bags, in score space, each by the method that suits its kind.

    ``bags`` have labelled rows apart, and ``covariance`` (n_bags, n_classes, n_classes) is S; bags of at
    most ``exact_size`` rows of two classes are summed exactly.
    """

    def __init__(self, bags: Bags, covariance: Floats, exact_size: int) -> None:
        parts = list(_make_parts(bags, covariance, exact_size))
        self._parts = [part for part, _ in parts]
        self._members = [members for _, members in parts]
        self._threads = allowed_threads() if bags.n_instances >= _MANY_ROWS else 1

    def evaluate(
        self, scores: Array, gradient: bool = True, weights: Floats | None = None
    ) -> tuple[Floats, Any]:
        """Sum per column (columns, outputs, rows), and its gradient if asked.

        ``weights`` (columns, bags), or one line for all columns, are 1 by default.
        """
        n_columns, largest = len(scores), _largest(scores)
        totals = np.zeros((len(self._parts), n_columns))
        slopes = np.empty_like(scores) if gradient else None

        def work(unit: tuple[int, slice]) -> None:
            number, some = unit
            part, own = self._parts[number], weights
            if own is not None:
                own = (own if len(own) == 1 else own[some])[:, self._members[number]]
            totals[number, some], slope = part.evaluate(scores[some], own, largest, gradient)
            if slopes is not None:
                slopes[some, :, part.rows] = slope

        units = [
            (number, slice(start, start + part.step))
            for number, part in enumerate(self._parts)
            for start in range(0, n_columns, part.step)
        ]
        # each writes to places of its own, so that sums are the same whatever their order
        for_each(work, units, self._threads)
        return np.sum(totals, axis=0), slopes

    def losses(self, scores: Array) -> Floats:
        """Losses (columns, bags) of all bags, without weights."""
        largest = _largest(scores)
        found = np.empty((len(scores), sum(map(len, self._members))))
        for part, members in zip(self._parts, self._members, strict=True):
            found[:, members] = part.loss(part.gather(scores), largest, False)[0]
        return found


def _make_parts(
    bags: Bags, covariance: Floats, exact_size: int
) -> Iterator[tuple[BagLosses, Ints]]:
    """Losses of the bags that are treated together, and which bags these are."""
    counts, lengths = bags.counts, bags.lengths
    kinds, kind = _choose_kinds(bags, covariance, exact_size)
    order, start = np.argsort(bags.index, kind="stable"), np.cumsum(lengths) - lengths
    for members in _groups(kinds, kind, bags, covariance):
        own_kind = kinds[kind[members[0]]]
        if own_kind is SmallBags:
            # those that need about as many states come together
            members = members[np.argsort(counts[members].min(axis=1), kind="stable")]
        ends = np.cumsum(lengths[members])
        full = np.diff((ends - 1) // scores_together(own_kind.bulk)) != 0
        for own in np.split(members, np.flatnonzero(full) + 1):
            before = np.cumsum(lengths[own]) - lengths[own]
            rows = order[
                np.arange(lengths[own].sum()) + np.repeat(start[own] - before, lengths[own])
            ]
            table = BagTable(
                rows,
                lengths[own],
                None if bags.multiplicity is None else bags.multiplicity[rows],
                bags.sizes[own],
                counts[own],
                covariance[own],
                bags.limits[own] if bags.limits is not None and bags.is_set[own[0]] else None,
                bags.count_weights,
            )
            yield own_kind(table), own


def _choose_kinds(
    bags: Bags, covariance: Floats, exact_size: int
) -> tuple[list[type[BagLosses]], Ints]:
    """Kinds of losses, and which of them each bag has."""
    pure, known = bags.proportions.max(axis=1) == 1, ~covariance.any(axis=(1, 2))
    if bags.n_classes > 2:
        small = bags.sizes <= min(largest_exact_bag(bags.n_classes), exact_size)
        small &= (np.round(bags.counts).sum(axis=1) == bags.sizes) & known
        kind = np.where(pure & known, 0, np.where(small, 2, 1))
        kinds = [PureClasses, SeveralClasses, SmallClasses, SetClasses]
        return kinds, np.where(bags.is_set, 3, kind)
    small = bags.sizes <= exact_size
    pure = (pure | (small & (np.round(bags.counts).min(axis=1) == 0))) & known & ~bags.is_set
    large = np.where(bags.is_set, 3, 2)
    return [PureBags, SmallBags, LargeBags, SetBags], np.where(pure, 0, np.where(small, 1, large))


def _groups(kinds: list[type[BagLosses]], kind: Ints, bags: Bags, covariance: Floats) -> list[Ints]:
    """Bags to be treated together: of one kind, with or without S, and of equal or any size."""
    size = np.where(np.array([k.same_size for k in kinds])[kind], bags.sizes, 0.0)
    if SeveralClasses in kinds:
        # lines are filled up by an eighth at most
        step = 2.0 ** np.maximum(0, np.floor(np.log2(np.maximum(bags.lengths - 1, 1))) - 3)
        filled = np.ceil(bags.lengths / step) * step
        size = np.where(kind == kinds.index(SeveralClasses), filled, size)
    keys = np.stack([kind, covariance.any(axis=(1, 2)), bags.is_set, size])
    _, group_of = np.unique(keys, axis=1, return_inverse=True)
    return [np.flatnonzero(group_of.reshape(-1) == g) for g in range(group_of.max() + 1)]


def _largest(scores: Array) -> float:
    return float(max(np.max(scores), -np.min(scores)))
