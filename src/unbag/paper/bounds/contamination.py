"""Mutual contamination models, many at once, and the loss that undoes them (section 2).

A pair of bags is two mixtures of the same two class-conditional distributions,

    P₊^κ = (1 − κ⁺) P₊ + κ⁺ P₋,    P₋^κ = (1 − κ⁻) P₋ + κ⁻ P₊,    κ⁺ + κ⁻ < 1,

with κ⁺ = 1 − γ⁺ and κ⁻ = γ⁻ for proportions γ⁺ > γ⁻. For any loss ℓ, the loss

    ℓ₊^κ = ((1 − κ⁻) ℓ₊ − κ⁻ ℓ₋) / (1 − κ⁺ − κ⁻),
    ℓ₋^κ = ((1 − κ⁺) ℓ₋ − κ⁺ ℓ₊) / (1 − κ⁺ − κ⁻)

has the same balanced risk on the contaminated distributions as ℓ has on the clean ones, whatever
these are and for every score (Proposition 1). No other loss does, up to a constant that one side
gains and the other loses: taking point masses for P₊ and P₋, the risks agree if and only if

    (1 − κ⁺) ℓ̃₊ + κ⁻ ℓ̃₋ = ℓ₊ + c,    κ⁺ ℓ̃₊ + (1 − κ⁻) ℓ̃₋ = ℓ₋ − c

for some number c. The determinant is 1 − κ⁺ − κ⁻ and not 0, so that ℓ̃ = ℓ^κ ± c/(1 − κ⁺ − κ⁻).
If ℓ̃ is to be made of ℓ₊ and ℓ₋ only, as in the paper's proof, then c = 0 and ℓ^κ is unique,
unless some combination of ℓ₊ and ℓ₋ is a constant, as their sum is for symmetric losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag.observations.losses import Loss
from unbag.paper.bounds.checks import check_contamination, check_sizes, check_weights, find_loss
from unbag.paper.bounds.sampling import BagSample, RowSource, SamplingModel, sample_bags
from unbag.paper.pairing import Pairing

PairWeights = Literal["IIM", "IBM", "uniform"]


def unbiased_coefficients(kappa_plus: ArrayLike, kappa_minus: ArrayLike) -> Floats:
    """Coefficients of ℓ₋ and ℓ₊ (last axis) in ℓ₋^κ and ℓ₊^κ (last axis but one).

    Parameters
    ----------
    kappa_plus, kappa_minus : float or array-like
        Contaminations, with κ⁺ + κ⁻ < 1.

    Returns
    -------
    coefficients : ndarray of shape (..., 2, 2)

    Examples
    --------
    >>> from unbag.paper.bounds import unbiased_coefficients
    >>> unbiased_coefficients(0.25, 0.25)
    array([[ 1.5, -0.5],
           [-0.5,  1.5]])
    """
    plus, minus = check_contamination(kappa_plus, kappa_minus)
    rows = np.stack([np.stack([1 - plus, -plus], -1), np.stack([-minus, 1 - minus], -1)], -2)
    return rows / (1 - plus - minus)[..., None, None]


def unbiased_loss(
    loss: str | Loss, kappa_plus: ArrayLike, kappa_minus: ArrayLike
) -> Callable[[ArrayLike, ArrayLike], Floats]:
    """ℓ^κ of Proposition 1: the loss whose contaminated risk is the clean risk of ``loss``.

    Parameters
    ----------
    loss : str or Loss
        ℓ, by its name in `unbag.observations.losses.LOSSES` or itself.
    kappa_plus, kappa_minus : float or array-like
        Contaminations, with κ⁺ + κ⁻ < 1.

    Returns
    -------
    corrected : callable
        ``corrected(score, sign)`` is ℓ^κ(t, σ) for σ = 1 or −1; all arguments broadcast.

    Examples
    --------
    >>> from unbag.paper.bounds import unbiased_loss
    >>> corrected = unbiased_loss("squared", kappa_plus=0.25, kappa_minus=0.25)
    >>> corrected(1.0, [1, -1])
    array([-2.,  6.])
    """
    found = find_loss(loss)
    plus, minus = check_contamination(kappa_plus, kappa_minus)

    def corrected(score: ArrayLike, sign: ArrayLike) -> Floats:
        side = np.asarray(sign)
        if not np.isin(side, (-1, 1)).all():
            raise ValueError("sign must be 1 or −1.")
        margin = side * np.asarray(score, dtype=float)
        other = np.where(side > 0, minus, plus)
        values = (1 - other) * found.value(margin) - other * found.value(-margin)
        return values / (1 - plus - minus)

    return corrected


class MultiMCM:
    """N mutual contamination models with the same two class-conditional distributions.

    Model i is a pair of bags. In samples, its positive bag has the number i and its negative bag
    the number N + i.

    Parameters
    ----------
    kappa_plus : array-like of shape (n_pairs,)
        Contaminations κ_i⁺ ≥ 0 of the positive bags.
    kappa_minus : array-like of shape (n_pairs,)
        Contaminations κ_i⁻ ≥ 0 of the negative bags, with κ_i⁺ + κ_i⁻ < 1.
    sizes_plus : int or array-like of shape (n_pairs,), default=1
        Numbers of instances n_i⁺.
    sizes_minus : int or array-like of shape (n_pairs,), default=1
        Numbers of instances n_i⁻.
    weights : {"IIM", "IBM", "uniform"} or array-like of shape (n_pairs,), default="IIM"
        w, not negative and with sum 1. The paper's best ones are w_i ∝ n̄_i (1 − κ_i⁺ − κ_i⁻)² for
        independent instances, n̄ being the harmonic mean of the two sizes, and the same without n̄
        for independent bags.

    Attributes
    ----------
    kappa_plus, kappa_minus : ndarray of shape (n_pairs,)
        Contaminations.
    sizes_plus, sizes_minus : ndarray of int, shape (n_pairs,)
        Numbers of instances.
    weights : ndarray of shape (n_pairs,)
        w.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from unbag.paper.bounds import MultiMCM
    >>> pairs = MultiMCM([0.1, 0.4], [0.2, 0.5], sizes_plus=1000, sizes_minus=1000)
    >>> pairs.weights.round(2)
    array([0.98, 0.02])
    >>> sample = pairs.sample(norm(1).rvs, norm(-1).rvs, model="IIM", random_state=0)
    >>> clean = norm.cdf(-1)
    >>> bool(abs(pairs.risk("zero_one", sample.X, sample.bag) - clean) < 0.05)
    True
    """

    def __init__(
        self,
        kappa_plus: ArrayLike,
        kappa_minus: ArrayLike,
        *,
        sizes_plus: ArrayLike = 1,
        sizes_minus: ArrayLike = 1,
        weights: PairWeights | ArrayLike = "IIM",
    ) -> None:
        plus, minus = check_contamination(kappa_plus, kappa_minus)
        if plus.ndim != 1 or len(plus) == 0:
            raise ValueError(
                "kappa_plus and kappa_minus must be one-dimensional, one number for each pair."
            )
        self.kappa_plus, self.kappa_minus = plus, minus
        self.sizes_plus = check_sizes(sizes_plus, len(plus), "sizes_plus", of="pair")
        self.sizes_minus = check_sizes(sizes_minus, len(plus), "sizes_minus", of="pair")
        self.weights = self._find_weights(weights)

    @classmethod
    def from_pairs(
        cls,
        pairing: Pairing,
        proportions: ArrayLike,
        sizes: ArrayLike = 1,
        *,
        weights: PairWeights | ArrayLike = "IIM",
    ) -> MultiMCM:
        """Make the models of paired bags: κ⁺ = 1 − γ⁺ and κ⁻ = γ⁻.

        Parameters
        ----------
        pairing : Pairing
            Which bags make a pair, as `unbag.paper.pairing.pair_bags` or a merging scheme found
            it.
        proportions : array-like of shape (n_bags,)
            Proportion of the positive class in each bag.
        sizes : int or array-like of shape (n_bags,), default=1
            Number of instances in every bag, or in each.
        weights : {"IIM", "IBM", "uniform"} or array-like of shape (n_pairs,), default="IIM"
            w, not negative and with sum 1. The paper's best ones are w_i ∝ n̄_i (1 − κ_i⁺ − κ_i⁻)²
            for independent instances, n̄ being the harmonic mean of the two sizes, and the same
            without n̄ for independent bags.

        Returns
        -------
        models : MultiMCM
            One for each pair.

        Examples
        --------
        >>> from unbag.paper.bounds import MultiMCM
        >>> from unbag.paper.pairing import pair_bags
        >>> proportions = [0.3, 0.9, 0.2, 0.5]
        >>> pairs = MultiMCM.from_pairs(pair_bags(proportions), proportions, sizes=10)
        >>> pairs.kappa_plus.round(2), pairs.kappa_minus
        (array([0.1, 0.5]), array([0.2, 0.3]))
        """
        gamma = np.asarray(proportions, dtype=float)
        n = np.broadcast_to(np.asarray(sizes), gamma.shape)
        return cls(
            1 - gamma[pairing.positive],
            gamma[pairing.negative],
            sizes_plus=n[pairing.positive],
            sizes_minus=n[pairing.negative],
            weights=weights,
        )

    @property
    def n_pairs(self) -> int:
        """Number of models, N in the paper."""
        return len(self.kappa_plus)

    @property
    def contrast(self) -> Floats:
        """1 − κ⁺ − κ⁻ = γ⁺ − γ⁻ of each pair."""
        return 1 - self.kappa_plus - self.kappa_minus

    @property
    def harmonic_sizes(self) -> Floats:
        """n̄, the harmonic mean of the two sizes of each pair."""
        return 2 / (1 / self.sizes_plus + 1 / self.sizes_minus)

    @property
    def proportions(self) -> Floats:
        """γ of all positive bags, then of all negative ones."""
        return np.concatenate([1 - self.kappa_plus, self.kappa_minus])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Size of all positive bags, then of all negative ones."""
        return np.concatenate([self.sizes_plus, self.sizes_minus])

    def sample(
        self,
        positives: RowSource,
        negatives: RowSource,
        *,
        model: SamplingModel = "IIM",
        dependence: float | None = None,
        random_state: int | RandomState | None = None,
    ) -> BagSample:
        """Draw all bags under one of the paper's sampling models.

        Parameters
        ----------
        positives : array-like or callable
            The distribution of the positive class: rows to draw from, with replacement, or a
            function that is given a number and a RandomState and draws so many instances, such as
            ``scipy.stats.norm(1).rvs``.
        negatives : array-like or callable
            That of the negative class.
        model : {"IIM", "IBM", "CIIM", "CIBM", "CIBM'"}, default="IIM"
            What may depend on what:

            - "IIM" and "CIIM": each label is positive with chance γ_i, each instance drawn from its
              class, all independently.
            - "IBM": one instance is drawn from the mixture for the whole bag, and each instance is
              a copy of it with chance √r, else a draw of its own.
            - "CIBM'": each label is with chance √r a copy of one label drawn for the whole bag.
              Given the labels, each instance is with chance √r a copy of the one that was drawn for
              its bag and class.
            - "CIBM": the same, but the labels of each bag are sorted, positives first, before
              instances are drawn. So the first are positive more often than γ_i, the last less
              often, and their average is right.
        dependence : float in [0, 1], optional
            r, by default 0.5: the correlation of two labels of a bag (of two instances under
            "IBM"). At 1 and under "IBM" a bag is one instance many times. Not for "IIM" and "CIIM".
        random_state : int, RandomState or None, default=None
            Makes the draw repeatable.

        Returns
        -------
        sample : BagSample
            The instances, and which bag each is in.
        """
        return sample_bags(
            self.proportions,
            self.sizes,
            positives,
            negatives,
            model=model,
            dependence=dependence,
            random_state=random_state,
        )

    def risk(self, loss: str | Loss, scores: ArrayLike, bag: ArrayLike) -> float:
        """Ê_w(f) = Σ_i w_i Ê_i(f), an unbiased estimate of the clean balanced risk.

        Parameters
        ----------
        loss : str or Loss
            A loss, by its name in `unbag.observations.losses.LOSSES` or itself.
        scores : array-like of shape (n_instances,)
            f(x) of each instance.
        bag : array-like of shape (n_instances,)
            The bag of each: i for the positive one of pair i, N + i for the negative one.

        Returns
        -------
        risk : float
            The estimate; it may be negative.
        """
        return float(self.weights @ self.pair_risks(loss, scores, bag))

    def pair_risks(self, loss: str | Loss, scores: ArrayLike, bag: ArrayLike) -> Floats:
        """Ê_i(f) of each pair: half the mean of ℓ₊^κ over the one bag, half that of ℓ₋^κ.

        Parameters
        ----------
        loss : str or Loss
            A loss, by its name in `unbag.observations.losses.LOSSES` or itself.
        scores : array-like of shape (n_instances,)
            f(x) of each instance.
        bag : array-like of shape (n_instances,)
            The bag of each: i for the positive one of pair i, N + i for the negative one.

        Returns
        -------
        risks : ndarray of shape (n_pairs,)
            One for each pair.
        """
        found, index = find_loss(loss), np.asarray(bag)
        margin = np.asarray(scores, dtype=float)
        counts = np.bincount(index, minlength=2 * self.n_pairs)
        if (counts != self.sizes).any():
            wrong = int(np.flatnonzero(counts != self.sizes)[0])
            raise ValueError(
                f"Bag {wrong} should have {self.sizes[wrong]} instances and has {counts[wrong]}."
            )
        # means of ℓ₋ and ℓ₊ (last axis) over the negative and the positive bag of each pair
        sums = np.stack([np.bincount(index, found.value(side * margin)) for side in (-1, 1)], -1)
        above, below = np.split(sums / counts[:, None], 2)
        means = np.stack([below, above], axis=1)
        coefficients = unbiased_coefficients(self.kappa_plus, self.kappa_minus)
        return 0.5 * np.sum(coefficients * means, axis=(1, 2))

    def _find_weights(self, weights: Any) -> Floats:
        if isinstance(weights, str):
            choices = {
                "IIM": self.harmonic_sizes * self.contrast**2,
                "IBM": self.contrast**2,
                "uniform": np.ones(self.n_pairs),
            }
            check_choice(weights, tuple(choices), "weights")
            return choices[weights] / choices[weights].sum()
        return check_weights(weights, self.n_pairs)
