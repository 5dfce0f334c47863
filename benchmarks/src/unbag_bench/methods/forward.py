"""The forward likelihood: how probable rows are where their labels were drawn from known shares.

If every row of bag b is of class c with probability γ_bc, drawn for itself, and looks as its class does,
then with p the class probabilities at the overall class prior q a row has the
density m(x) Σ_c (γ_bc/q_c) p_c(x), where m is that of all rows, and

    F(f) = −(1/N) Σ_j log Σ_c (γ_bc/q_c) p_c(x_j),    b the bag of j,

is the likelihood of all rows up to a constant: forward correction with all bags as one group. It is
a sum over single rows, so that mini-batches and partitions can use it without seeing whole bags.
Its gradient with respect to f_j is p_j − ρ_j, with ρ_jc ∝ γ_bc p_jc/q_c the probability of the class
given row *and* bag. In large bags the likelihood of the counts
(`unbag.observations.count_likelihood`) comes near.

Noisy proportions are shrunken towards their mean. Let k be a noisy count, N the variance of its noise, and true counts vary over bags with mean nμ and
covariance n(1 + (n − 1)ρ)(diag μ − μμᵀ), as those of a Dirichlet-multinomial distribution of
overdispersion ρ do. The shrunken count is the mean of the true one given k if both were normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.observations.count_likelihood import check_included
from unbag.weights import pooled_shares

# Least that a share is taken to be, of that in all bags: a class that a bag does not hold is a
# question of rounding for someone, and should not decide on its own.
LEAST_RATIO = 1e-6

# Scores that NumPy works on together, so that what comes between stays in the cache.
_BLOCK_SCORES = 2**15


class ForwardLikelihood:
    """Mean negative log-likelihood of single rows, given the shares of their bags; in score space.

        F(f) = −(1/T) Σ_j log Σ_c (γ_bc/q_c) p_jc,    p_j = softmax f_j,
        dF/df_jc = (1/T) (p_jc − ρ_jc),               ρ_jc ∝ (γ_bc/q_c) p_jc,

    over the T instances of the bags that a problem includes. Scores are log-odds (or those of
    softmax, for more than two classes) at the shares q of the classes in these bags.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
        Who is in which bag. Noisy shares are shrunken to what is to be expected.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag_bench.methods.forward import ForwardLikelihood
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.2, 0.2, 0.8, 0.8]))
    >>> forward = ForwardLikelihood(np.array([True, True]), bags)
    >>> scores, problem = np.array([[[-1.0, 1.0, 1.0, 1.0]]]), np.zeros(1, dtype=int)
    >>> value, gradient = forward.value_and_gradient(scores, problem)
    >>> float(value[0].round(3))
    -0.102
    >>> gradient.round(3)
    array([[[ 0.046,  0.082, -0.046, -0.046]]])
    """

    def __init__(self, included: Bools, bags: Bags) -> None:
        self.n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
        self._ratio, self._weight = forward_tables(included, bags)
        self._index, self._bags = bags.index, bags

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column."""
        tables = self._choose(problem)
        value = np.zeros(scores.shape[0])
        for here in _blocks(scores):
            losses = forward_losses(scores[:, :, here], *self._in(here, tables))[0]
            value += np.sum(losses, axis=-1, dtype=np.float64)
        return value

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Mean negative log-likelihood per column and its gradient with respect to the scores."""
        tables = self._choose(problem)
        value, gradient = np.zeros(scores.shape[0]), np.empty_like(scores)
        for here in _blocks(scores):
            losses, slopes = forward_losses(scores[:, :, here], *self._in(here, tables))
            value += np.sum(losses, axis=-1, dtype=np.float64)
            gradient[:, :, here] = slopes
        return value, gradient

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
        ratio, _ = forward_tables(np.ones(self._bags.n_bags, dtype=bool), self._bags)
        losses = forward_losses(scores, ratio[:, :, self._bags.index], np.ones((1, 1, 1)))[0]
        index = self._bags.index
        return np.stack([np.bincount(index, one, self._bags.n_bags) for one in losses])

    def _choose(self, problem: Ints) -> tuple[Array, Array]:
        """Ratios and weights of the bags for every column, or for one if all are the same."""
        if len(self._ratio) == 1:
            return self._ratio, self._weight
        return self._ratio[problem], self._weight[problem]

    def _in(self, here: slice, tables: tuple[Array, Array]) -> tuple[Array, Array]:
        """The same for some instances."""
        index = self._index[here]
        return tables[0][:, :, index], tables[1][:, :, index]


def forward_tables(included: Bools, bags: Bags) -> tuple[Floats, Floats]:
    """γ_c/q_c (problems, classes, bags), and what an instance weighs (problems, 1, bags)."""
    table = check_included(included, bags)
    q = pooled_shares(bags, "instances", table)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = shrunken_shares(bags).T / q[:, :, None]
    ratio = np.maximum(np.where(q[:, :, None] > 0, ratio, 1.0), LEAST_RATIO)
    weight = table / (table @ bags.sizes)[:, None]
    return ratio, weight[:, None, :]


def forward_losses(scores: Array, ratio: Array, weight: Array) -> tuple[Array, Array]:
    """Weighed losses −log Σ_c (γ_c/q_c) p_c (columns, instances), and their derivatives by scores.

    Parameters
    ----------
    scores : array of shape (columns, outputs, instances)
    ratio : array of shape (columns or 1, classes, instances)
        γ_c/q_c of the bag of each instance.
    weight : array of shape (columns or 1, 1, instances)
    """
    if scores.shape[1] == 1:
        size = np.abs(scores)
        small = np.exp(-size)
        positive = scores > 0
        # p and 1 − p, times 1 + e^{−|f|}
        up = np.where(positive, np.ones_like(small), small)
        down = np.where(positive, small, np.ones_like(small))
        whole = 1.0 + small
        mixed_up = ratio[:, 1:, :] * up
        mixed = mixed_up + ratio[:, :1, :] * down
        return (weight * np.log(whole / mixed))[:, 0, :], weight * (up / whole - mixed_up / mixed)
    powers = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    whole = np.sum(powers, axis=1, keepdims=True)
    mixed_powers = ratio * powers
    mixed = np.sum(mixed_powers, axis=1, keepdims=True)
    slopes = weight * (powers / whole - mixed_powers / mixed)
    return (weight * np.log(whole / mixed))[:, 0, :], slopes


def _blocks(scores: Array) -> list[slice]:
    """Instances to be worked on together."""
    columns, outputs, n = scores.shape
    size = max(1, _BLOCK_SCORES // (columns * outputs))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


# S is at most this many times the noise.
_LARGEST_GAIN = 10.0

# Least number of rows that a class is taken to have in a noisy bag.
_EDGE = 0.5

# Overdispersion of random bags, and of bags of almost one class each.
_LEAST_SPREAD, _MOST_SPREAD = 1e-6, 0.95

# The estimate of the overdispersion settles within a few rounds.
_ROUNDS = 20

_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Shares:
    """How shares vary over bags: their mean μ, and their overdispersion ρ.

    The counts of a bag have the covariance n (1 + (n − 1)ρ) (diag μ − μμᵀ).
    """

    mean: Floats
    spread: float

    @classmethod
    def of(cls, bags: Bags) -> Shares:
        """Estimate them by moments, from all bags but rows of known label.

        d_b = Σ_c (γ_bc − μ_c)²/μ_c/(C − 1) has the mean 1/n_b + ρ(1 − 1/n_b), and what noise adds.
        """
        used = ~bags.labelled
        shares, sizes = bags.proportions[used], bags.sizes[used].astype(float)
        mean = np.clip(sizes @ shares / sizes.sum(), _LEAST_SHARE, None)
        mean = mean / mean.sum()
        scale = mean * (len(mean) - 1)
        sampling = 1 / sizes
        if bags.noise is not None:
            sampling = sampling + (np.einsum("bcc->bc", bags.noise[used]) / scale).sum(axis=1)
        excess = ((shares - mean) ** 2 / scale).sum(axis=1) - sampling
        room = np.maximum(1 - 1 / sizes, _LEAST_SPREAD)
        spread = _LEAST_SPREAD
        for _ in range(_ROUNDS):
            weights = room / (sampling + room * spread) ** 2
            found = float(weights @ excess / (weights @ room))
            spread = min(max(found, _LEAST_SPREAD), _MOST_SPREAD)
        # less than its error cannot be distinguished from zero, and would be taken as exact
        error = float(np.sqrt(weights**2 @ (excess - spread * room) ** 2) / (weights @ room))
        return cls(mean, min(max(spread, error), _MOST_SPREAD))

    def shrink(self, counts: Floats, sizes: Floats, noise: Floats) -> Floats:
        """Means of true counts, given noisy ones (bags, classes) and their covariance."""
        n, mu = sizes[:, None], self.mean
        factor = (n * (1 + (n - 1) * self.spread))[:, :, None]
        own = factor * (np.diag(mu) - np.outer(mu, mu))
        away = np.linalg.pinv(own + noise, hermitian=True) @ (counts - n * mu)[:, :, None]
        found = np.clip(n * mu + (own @ away)[:, :, 0], _EDGE, None)
        return found * (n / found.sum(axis=1, keepdims=True))


def shrunken_shares(bags: Bags) -> Floats:
    """Shares of the classes in every bag, of noisy ones what is to be expected given the others."""
    if bags.noise is None:
        return bags.proportions
    sizes = bags.sizes.astype(float)
    counts, noise = sizes[:, None] * bags.proportions, bags.noise * sizes[:, None, None] ** 2
    shares: Floats = Shares.of(bags).shrink(counts, sizes, noise) / sizes[:, None]
    exact = (bags.noise == 0).reshape(bags.n_bags, -1).all(axis=1)
    shares[exact] = bags.proportions[exact]
    return shares
