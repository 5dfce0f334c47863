"""The forward likelihood: how probable rows are where their labels were drawn from known shares.

If every row of bag b is of class c with chance γ_bc, drawn for itself, and looks as its class does,
then with p the class chances at the shares q of the classes in all bags together a row has the
density m(x) Σ_c (γ_bc/q_c) p_c(x), where m is that of all rows, and

    F(f) = −(1/N) Σ_j log Σ_c (γ_bc/q_c) p_c(x_j),    b the bag of j,

is the likelihood of all rows up to a constant: forward correction with all bags as one group. It is
a sum over single rows, so that mini-batches and partitions can use it without seeing whole bags.
Its gradient with respect to f_j is p_j − ρ_j, with ρ_jc ∝ γ_bc p_jc/q_c the chance of the class
given row *and* bag. In large bags the likelihood of the counts
(`unbag.observations.count_likelihood`) comes near.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, is_numpy_array

from unbag._arrays import Array, Bools, Floats, Ints, Latest, beside, index_beside, take, to_host
from unbag.bags.bags import Bags
from unbag.observations.count_likelihood import check_included
from unbag.observations.noise import shrunken_shares
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
    like : array, optional
        Array whose namespace, type and device the scores will have.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.forward import ForwardLikelihood
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.2, 0.2, 0.8, 0.8]))
    >>> forward = ForwardLikelihood(np.array([True, True]), bags)
    >>> scores, problem = np.array([[[-1.0, 1.0, 1.0, 1.0]]]), np.zeros(1, dtype=int)
    >>> value, gradient = forward.value_and_gradient(scores, problem)
    >>> float(value[0].round(3))
    -0.102
    >>> gradient.round(3)
    array([[[ 0.046,  0.082, -0.046, -0.046]]])
    """

    def __init__(
        self,
        included: Bools,
        bags: Bags,
        like: Array | None = None,
    ) -> None:
        like = np.empty(0) if like is None else like
        self.n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
        ratio, weight = forward_tables(included, bags)
        self._ratio, self._weight = beside(ratio, like), beside(weight, like)
        self._index = index_beside(bags.index, like)
        self._bags, self._like = bags, like
        self._tables_of = Latest(self._choose)

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column."""
        xp, tables = array_namespace(scores), self._tables_of(problem)
        value = np.zeros(scores.shape[0])
        for here in _blocks(scores):
            losses = forward_losses(scores[:, :, here], *self._in(here, tables))[0]
            value += to_host(xp.sum(losses, axis=-1, dtype=xp.float64))
        return value

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Mean negative log-likelihood per column and its gradient with respect to the scores."""
        xp, tables = array_namespace(scores), self._tables_of(problem)
        value, gradient = np.zeros(scores.shape[0]), xp.empty_like(scores)
        for here in _blocks(scores):
            losses, slopes = forward_losses(scores[:, :, here], *self._in(here, tables))
            value += to_host(xp.sum(losses, axis=-1, dtype=xp.float64))
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
        each = beside(ratio[:, :, self._bags.index], self._like)
        losses = to_host(forward_losses(scores, each, beside(np.ones((1, 1, 1)), self._like))[0])
        index = self._bags.index
        return np.stack([np.bincount(index, one, self._bags.n_bags) for one in losses])

    def _choose(self, problem: Ints) -> tuple[Array, Array]:
        """Ratios and weights of the bags for every column, or for one if all are the same."""
        tables = self._ratio, self._weight
        if self._ratio.shape[0] == 1:
            return tables
        rows = index_beside(problem, self._ratio)
        return take(tables[0], rows, axis=0), take(tables[1], rows, axis=0)

    def _in(self, here: slice, tables: tuple[Array, Array]) -> tuple[Array, Array]:
        """The same for some instances."""
        index = self._index[here]
        return take(tables[0], index, axis=2), take(tables[1], index, axis=2)


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
    xp = array_namespace(scores)
    if scores.shape[1] == 1:
        size = xp.abs(scores)
        small = xp.exp(-size)
        positive = scores > 0
        # p and 1 − p, times 1 + e^{−|f|}
        up = xp.where(positive, xp.ones_like(small), small)
        down = xp.where(positive, small, xp.ones_like(small))
        whole = 1.0 + small
        mixed_up = ratio[:, 1:, :] * up
        mixed = mixed_up + ratio[:, :1, :] * down
        return (weight * xp.log(whole / mixed))[:, 0, :], weight * (up / whole - mixed_up / mixed)
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    whole = xp.sum(powers, axis=1, keepdims=True)
    mixed_powers = ratio * powers
    mixed = xp.sum(mixed_powers, axis=1, keepdims=True)
    slopes = weight * (powers / whole - mixed_powers / mixed)
    return (weight * xp.log(whole / mixed))[:, 0, :], slopes


def _blocks(scores: Array) -> list[slice]:
    """Instances to be worked on together."""
    columns, outputs, n = scores.shape
    size = max(1, _BLOCK_SCORES // (columns * outputs)) if is_numpy_array(scores) else n
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
