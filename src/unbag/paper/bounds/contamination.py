"""Mutual contamination models, many at once, and the loss that undoes them (section 2).

A pair of bags is two mixtures of the same two class-conditional distributions,

    P₊^κ = (1 − κ⁺) P₊ + κ⁺ P₋,    P₋^κ = (1 − κ⁻) P₋ + κ⁻ P₊,    κ⁺ + κ⁻ < 1,

with κ⁺ = 1 − γ⁺ and κ⁻ = γ⁻ for proportions γ⁺ > γ⁻. For any loss ℓ, the loss

    ℓ₊^κ = ((1 − κ⁻) ℓ₊ − κ⁻ ℓ₋) / (1 − κ⁺ − κ⁻),
    ℓ₋^κ = ((1 − κ⁺) ℓ₋ − κ⁺ ℓ₊) / (1 − κ⁺ − κ⁻)

has the same balanced risk on the contaminated distributions as ℓ has on the clean ones, whatever
these are and for every score (Proposition 1). No other loss does, up to a constant that one side
gains and the other loses, as point masses for P₊ and P₋ show.
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
from unbag._checks import check_choice, check_one_each, check_share
from unbag.bags.targets import bag_target
from unbag.observations.losses import Loss, get_loss
from unbag.paper.weights import Pairing

# The first theorem is for known proportions, the second for observed ones; bags can be drawn
# under all five models.
PairModel = Literal["IIM", "IBM"]
ConditionalModel = Literal["CIIM", "CIBM"]
SamplingModel = Literal["IIM", "IBM", "CIIM", "CIBM", "CIBM'"]
RowSource = ArrayLike | Callable[[int, RandomState], Any]
PairWeights = Literal["IIM", "IBM", "uniform"]


def unbiased_coefficients(kappa_plus: ArrayLike, kappa_minus: ArrayLike) -> Floats:
    """Coefficients of ℓ₋ and ℓ₊ (last axis) in ℓ₋^κ and ℓ₊^κ (last axis but one)."""
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

    Model i is a pair of bags: in samples, its positive bag has the number i and its negative bag the
    number N + i. ``weights`` are w, not negative and with sum 1, or a name: the paper's best ones are
    w_i ∝ n̄_i (1 − κ_i⁺ − κ_i⁻)² for independent instances ("IIM"), n̄ being the harmonic mean of the
    two sizes, and the same without n̄ for independent bags ("IBM").
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
        n_plus = _check_sizes(sizes_plus, len(plus), "sizes_plus", of="pair")
        n_minus = _check_sizes(sizes_minus, len(plus), "sizes_minus", of="pair")
        self.kappa_plus, self.kappa_minus = plus, minus
        # γ and sizes of all positive bags, then of all negative ones
        self.proportions = np.concatenate([1 - plus, minus])
        self.sizes = np.concatenate([n_plus, n_minus])
        self.contrast = 1 - plus - minus  # γ⁺ − γ⁻ of each pair
        self.harmonic_sizes = 2 / (1 / n_plus + 1 / n_minus)  # n̄ of each pair
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
        """Make the models of paired bags (`unbag.paper.pair_bags`): κ⁺ = 1 − γ⁺ and κ⁻ = γ⁻."""
        gamma = np.asarray(proportions, dtype=float)
        n = np.broadcast_to(np.asarray(sizes), gamma.shape)
        return cls(
            1 - gamma[pairing.positive],
            gamma[pairing.negative],
            sizes_plus=n[pairing.positive],
            sizes_minus=n[pairing.negative],
            weights=weights,
        )

    def risk(self, loss: str | Loss, scores: ArrayLike, bag: ArrayLike) -> float:
        """Ê_w(f) = Σ_i w_i Ê_i(f), an unbiased estimate of the clean balanced risk; it may be negative.

        It takes f(x) of each instance, and the bag of each: i for the positive one of pair i, N + i for
        the negative one.
        """
        return float(self.weights @ self.pair_risks(loss, scores, bag))

    def pair_risks(self, loss: str | Loss, scores: ArrayLike, bag: ArrayLike) -> Floats:
        """Ê_i(f) of each pair: half the mean of ℓ₊^κ over the one bag, half that of ℓ₋^κ."""
        index = np.asarray(bag)
        counts = np.bincount(index, minlength=len(self.sizes))
        if (counts != self.sizes).any():
            wrong = int(np.flatnonzero(counts != self.sizes)[0])
            raise ValueError(
                f"Bag {wrong} should have {self.sizes[wrong]} instances and has {counts[wrong]}."
            )
        pair, n_pairs = index % len(self.contrast), len(self.contrast)
        corrected = unbiased_loss(loss, self.kappa_plus[pair], self.kappa_minus[pair])
        losses = corrected(scores, np.where(index < n_pairs, 1, -1))
        means = np.bincount(index, losses) / counts
        return (means[:n_pairs] + means[n_pairs:]) / 2

    def _find_weights(self, weights: Any) -> Floats:
        if not isinstance(weights, str):
            w = np.asarray(weights, dtype=float)
            check_one_each(w, len(self.contrast), "weights", "pairs")
            refuse_first(~(w >= 0), w, "w ≥ 0 fails: the weight is")
            # weights that were divided by their sum rarely sum to exactly one
            if not abs(w.sum() - 1) <= 1e-9:
                raise ValueError(f"Σ w = 1 fails: the weights sum to {w.sum():g}.")
            return w
        choices = {
            "IIM": self.harmonic_sizes * self.contrast**2,
            "IBM": self.contrast**2,
            "uniform": np.ones(len(self.contrast)),
        }
        check_choice(weights, tuple(choices), "weights")
        return choices[weights] / choices[weights].sum()


# --- samples --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BagSample:
    """Instances drawn by `sample_bags`, bag after bag: their bags are numbered from 0, their classes 0 or 1."""

    X: NDArray[Any]
    bag: Ints
    labels: NDArray[np.int64]
    true_proportions: Floats

    @property
    def observed_proportions(self) -> Floats:
        """Share of positives among the instances of each bag, γ̂_i."""
        return np.bincount(self.bag, self.labels) / np.bincount(self.bag)

    def target(self) -> NDArray[np.void]:
        """Make the target `y` of these bags from their observed proportions."""
        return bag_target(self.bag, self.observed_proportions[self.bag])


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

        - "IIM" and "CIIM": each label is positive with probability γ_i, each instance drawn from its
          class, all independently.
        - "IBM": one instance is drawn from the mixture for the whole bag, and each instance is a
          copy of it with probability √r, else a draw of its own.
        - "CIBM'": each label is with probability √r a copy of one label drawn for the whole bag. Given
          the labels, each instance is with probability √r a copy of the one that was drawn for its bag
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
    n = _check_sizes(sizes, len(gamma), "sizes", of="bag")
    rng = check_random_state(random_state)
    check_choice(model, get_args(SamplingModel), "model")
    independent = model in ("IIM", "CIIM")
    if independent and dependence is not None:
        raise ValueError(f"Instances are independent under model={model!r}: no dependence.")
    copies = sqrt(check_share(0.5 if dependence is None else dependence, "dependence"))
    bag = np.repeat(np.arange(len(gamma)), n)
    labels = rng.uniform(size=len(bag)) < gamma[bag]
    if not independent:
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


# --- conditions of the theorems: what fails is named ----------------------------------------------


def check_contamination(kappa_plus: ArrayLike, kappa_minus: ArrayLike) -> tuple[Floats, Floats]:
    """Two arrays of one shape with κ⁺, κ⁻ ≥ 0 and κ⁺ + κ⁻ < 1."""
    plus, minus = np.broadcast_arrays(
        np.asarray(kappa_plus, dtype=float), np.asarray(kappa_minus, dtype=float)
    )
    for name, kappa in (("κ⁺", plus), ("κ⁻", minus)):
        refuse_first(~(kappa >= 0), kappa, f"{name} ≥ 0 fails: {name} is")
    refuse_first(~(plus + minus < 1), plus + minus, "κ⁺ + κ⁻ < 1 fails: the sum is")
    return plus, minus


def check_proportions(proportions: ArrayLike) -> Floats:
    """One number between 0 and 1 for each bag."""
    gamma = np.atleast_1d(np.asarray(proportions, dtype=float))
    if gamma.ndim != 1:
        raise ValueError(
            f"proportions must be one number for each bag, not an array of shape {gamma.shape}."
        )
    refuse_first(
        ~((gamma >= 0) & (gamma <= 1)), gamma, "0 ≤ γ ≤ 1 fails: the proportion is", of="bag"
    )
    return gamma


def _check_sizes(sizes: ArrayLike, n: int, name: str, of: str) -> NDArray[np.int64]:
    """Whole numbers above 0, one for all or one for each."""
    found = np.asarray(sizes)
    if found.dtype.kind not in "iu" or found.shape not in ((), (n,)) or not (found > 0).all():
        raise ValueError(
            f"{name} must be whole numbers above 0, one for all {of}s or one for each."
        )
    return np.broadcast_to(found, n).astype(np.int64)


def find_loss(loss: str | Loss) -> Loss:
    """Look a two-class loss up by its name."""
    found = get_loss(loss)
    if not isinstance(found, Loss):
        raise ValueError("Contamination models are for losses of two classes.")
    return found


def refuse_first(wrong: Bools, values: Floats, words: str, of: str = "pair") -> None:
    """Name the first wrong value, and which pair or bag it is of; NaN should count as wrong."""
    if wrong.any():
        first = int(wrong.argmax())
        where = f" for {of} {first}" if wrong.ndim else ""
        raise ValueError(f"{words} {values.ravel()[first]:g}{where}.")
