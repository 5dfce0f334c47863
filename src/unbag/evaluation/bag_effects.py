"""Bag effects: what bags differ by that their rows do not explain.

Let γ_b be the share of a class in bag b and p̂_b the mean of its chances over the rows of b, by a
model that did not see b. Three things can lie between them.

- Chance: given the rows, γ_b varies around p̂_b with the variance v_b/n_b, v_b the mean of p(1 − p).
- A slope. If rows keep their odds, γ_b is p̂_b on average. If classes keep their look, p̂_b moves by
  s < 1 for every unit that γ_b does, s the difference of the mean chances of the classes, because
  the rows of a bag tell its share only as well as they tell classes apart: γ_b − q = (p̂_b − q)/s.
  (And the variance by chance is that of p̂_b given the labels, over s²: 1/s times the above, if
  chances are calibrated.) Penalised models, whose chances are drawn towards q, have one as well.
  The likelihood of the counts is right in both worlds: a slope β ≥ 1 of all bags is no effect.
- The rest, an effect of the bag: τ² q(1 − q), beyond any slope and all chance.

So, with d_b = (γ_b − q − β(p̂_b − q))²/q(1 − q) and e_b = β v_b/(n_b q(1 − q)),

    τ² = Σ_b w_b² (d_b − e_b) / Σ_b w_b²,    w_b = 1/(e_b + τ²),

where β is that of least squares with the weights w_b, and all of this is repeated until it agrees.
For several classes d_b and e_b are the means over classes, Σ_c (...)_c / q_c / (C − 1). Known noise
of the shares adds to e_b. A 95% interval begins at two standard errors below τ², by the spread of
the terms. Few bags tell little about that, and it ends there only if bags rule out what is larger:
at the τ² where (C − 1) Σ_b d_b/(e_b + τ²) is the 2.5% quantile of χ² with (B − 2)(C − 1) degrees of
freedom, for B bags. No share varies by more than τ² = 1.

**Which world?** The slope is a hint. Where rows keep their odds it is 1. Where classes keep their
look, s is Var(p)/q(1 − q) if chances are calibrated, p̂_b varies by s² Var(γ) + s(1 − s) q(1 − q)/n,
and least squares gives

    β* = s Σ_b w_b (γ_b − q)² / Σ_b w_b [s² (γ_b − q)² + s(1 − s) q(1 − q)/n_b],

near 1/s for large bags of different shares and 1 for shuffled ones, which tell nothing. Chances
that are drawn towards q by a factor a have the slope 1/a in place of 1 in the one world, and in
large bags 1/as in the other, while β* becomes 1/a²s: √β* lies between the two whatever a is, and
that is where the line is drawn.

Shares of bags beside what models that did not see them say: what effects are estimated from.

Dispersion: how much more than by chance counts vary around what a model says, in one number.

With d_b and e_b of `unbag.evaluation.bag_effects`, that is

    φ̂ = B/(B − 2) · Σ_b n_b d_b / Σ_b n_b (e_b + τ²),

for B bags and a τ² that is allowed for already. It is about 1 in both worlds if there is chance
alone. A likelihood of counts takes rows for independent, and so says φ times too much. Few bags
tell φ badly: `largest_dispersion` gives (B − 2)(C − 1) φ̂ / χ², the largest φ that they do not rule
out, with the 5% quantile of χ² with (B − 2)(C − 1) degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtri

from unbag._arrays import Bools, Floats
from unbag._outputs import by_output
from unbag.bags.bags import Bags
from unbag.bags.priors import chances_of
from unbag.weights import pooled_shares

# Estimates settle within a few rounds; a variance changes by less than this share of chance.
MOST_ROUNDS = 50
SETTLED = 1e-6

# Variances below are rounding.
ROUNDING = 1e-12

# Shares of classes that bags do not hold at all.
_LEAST_SHARE = 1e-9

# Of many rows there is no room for the chances of all.
_ROWS_AT_A_TIME = 2**18


@dataclass(frozen=True, eq=False)
class SeenBags:
    """Shares of bags and what is said of them, as if all classes had variance one.

    Attributes
    ----------
    sizes : ndarray of shape (n_bags,)
    apart, explained : ndarrays of shape (n_bags, n_classes)
        γ_b and p̂_b less the means of all.
    chance, noise : ndarrays of shape (n_bags,)
        Variances of a share by chance, if the slope is 1, and by known noise.
    """

    sizes: NDArray[np.int64]
    apart: Floats
    explained: Floats
    chance: Floats
    noise: Floats

    def slope(self, weights: Floats) -> float:
        """β of least squares."""
        along = weights @ (self.explained**2).sum(axis=1)
        return float(weights @ (self.apart * self.explained).sum(axis=1) / max(along, ROUNDING))

    def squares(self, slope: float) -> Floats:
        """d_b."""
        found: Floats = ((self.apart - slope * self.explained) ** 2).sum(axis=1)
        return found

    def by_chance(self, slope: float) -> Floats:
        """e_b."""
        return slope * self.chance + self.noise


def see_bags(
    bags: Bags, means: Floats, variances: Floats, used: Bools | slice = slice(None)
) -> SeenBags:
    """Compare shares with means of p and p(1 − p), for the bags that are used."""
    sizes = bags.sizes[used]
    q = np.clip(bags.class_shares, 1e-6, None)
    scale = np.sqrt(q * (len(q) - 1))
    centre, noise = q, np.zeros(len(sizes))
    if bags.noise is not None:
        # of noisy counts alone, the mean of chances is known less well than q
        centre = sizes @ means[used] / sizes.sum()
        noise = (np.einsum("bcc->bc", bags.noise[used]) / scale**2).sum(axis=1)
    return SeenBags(
        sizes=sizes,
        apart=(bags.proportions[used] - q) / scale,
        explained=(means[used] - centre) / scale,
        chance=(variances[used] / scale**2).sum(axis=1) / sizes,
        noise=noise,
    )


def _offset_to_shares(bags: Bags, class_prior: Floats, n_outputs: int) -> Floats:
    """What takes scores (n_outputs, n_instances) to where classes are as common as in all bags."""
    shares = pooled_shares(bags, "instances", np.ones((1, bags.n_bags), dtype=bool))[0]
    offset = np.log(np.maximum(shares, _LEAST_SHARE)) - np.log(class_prior)
    return (offset[1:] - offset[:1] if n_outputs == 1 else offset)[:, None]


def means_at_shares(bags: Bags, scores: Floats, class_prior: Floats) -> tuple[Floats, Floats]:
    """Means over bags of p and p(1 − p) there, (n_bags, n_classes), some rows at a time."""
    offset = _offset_to_shares(bags, class_prior, len(scores))
    means, variances = np.zeros((2, bags.n_bags, bags.n_classes))
    for start in range(0, bags.n_instances, _ROWS_AT_A_TIME):
        some = slice(start, start + _ROWS_AT_A_TIME)
        index = bags.index[some]
        for c, p in enumerate(chances_of(scores[:, some] + offset)):
            means[:, c] += np.bincount(index, p, bags.n_bags)
            variances[:, c] += np.bincount(index, p * (1 - p), bags.n_bags)
    return means / bags.sizes[:, None], variances / bags.sizes[:, None]


# Bags that an estimate, with its slope, takes at least.
FEWEST_BAGS = 5

# Up to so many bags, effects are told but not trained with (results/effect_rule.md).
FEW_BAGS = 32

# Half the width of a 95% interval, in standard errors, and what lies beyond each of its ends.
NORMAL_95, _TAIL = 1.959964, 0.025

# Slopes of the two worlds that are closer together tell nothing.
_LEAST_CONTRAST = 1.05

World = Literal["odds", "looks"]


@dataclass(frozen=True)
class BagEffect:
    """Estimated variance of bag effects.

    Attributes
    ----------
    variance : float
        τ², as a share of q(1 − q).
    low : float
        Lower end of a 95% interval.
    high : float
        Its upper end.
    slope : float
        β: how much shares of bags differ for every unit that their mean chances do. 1 where rows
        keep their odds, more where classes keep their look.
    share : float
        q, of the second class; of the largest one for several classes.
    slope_error : float
        Standard error of β.
    slope_of_looks : float
        β*, what β would be about if classes kept their look.
    free_slope : float
        β without the bound of 1: less where chances promise more than held-out bags keep.
    few : bool
        Whether it rests on few bags, 32 at most.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import LLPLinearClassifierCV, check_bag_target
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import estimate_bag_effect
    >>> data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=0)
    >>> model = LLPLinearClassifierCV(class_prior="empirical").fit(data.X, data.y)
    >>> chance = 1 / (1 + np.exp(-model.out_of_fold_scores_))
    >>> effect = estimate_bag_effect(check_bag_target(data.y), np.stack([1 - chance, chance]))
    >>> effect.low <= effect.variance <= effect.high
    True
    """

    variance: float
    low: float
    high: float
    slope: float
    share: float
    slope_error: float = np.inf
    slope_of_looks: float = np.nan
    free_slope: float = np.nan
    few: bool = False

    @property
    def present(self) -> bool:
        """Whether there is an effect beyond doubt: 0 lies below the interval."""
        return self.low > ROUNDING

    @property
    def matters(self) -> bool:
        """Whether to train with it: it is there, and many bags say that rows keep their odds.

        Elsewhere counts are not what an effect makes of the chances of rows, and a model that
        takes it in learns less. So it does from few bags (docs/likelihood.md).
        """
        return self.present and not self.few and not self.leans_to_looks

    @property
    def spread(self) -> float:
        """Standard deviation of the shares of bags around what rows explain, in points."""
        return self._points(self.variance)

    @property
    def world(self) -> World | None:
        """Which world the slope hints at: rows keep their odds, or classes their look."""
        if not self.slope_of_looks > _LEAST_CONTRAST:
            return None
        line, margin = np.sqrt(self.slope_of_looks), NORMAL_95 * self.slope_error
        if self.slope + margin < line:
            return "odds"
        return "looks" if self.slope - margin > line else None

    @property
    def leans_to_looks(self) -> bool:
        """Whether to go by classes that keep their look: unless rows seem to keep their odds.

        They seem to if β lies below √β* by a standard error.
        """
        return not self.slope + self.slope_error < np.sqrt(self.slope_of_looks)

    @property
    def hint(self) -> str:
        """The same in words."""
        if not np.isfinite(self.slope_error) or not np.isfinite(self.slope_of_looks):
            return "There are too few bags, or features tell too little, for a hint what they are."
        margin = f"{NORMAL_95 * self.slope_error:.2f}"
        found = (
            "For every point by which bags differ in what features lead one to expect, they differ "
            f"in fact by {self.slope:.2f} ± {margin}. "
        )
        if not self.slope_of_looks > _LEAST_CONTRAST:
            return f"{found}That tells nothing: it would be about 1 for any bags as these."
        found += (
            "It would be 1 if bags differed in who is in them, and about "
            f"{self.slope_of_looks:.2f} if they differed in how many of each class they hold"
        )
        if self.world is None:
            return f"{found}: no hint which of the two it is."
        told = {
            "odds": "who is in them (rows that look the same have about the same odds everywhere). "
            "Estimates without labels assume the other, and then come out too high.",
            "looks": "how many of each class they hold (a class looks about the same everywhere).",
        }
        return f"{found}. A hint, no proof: bags differ in {told[self.world]}"

    def _points(self, variance: float) -> float:
        return float(100 * np.sqrt(variance * self.share * (1 - self.share)))

    def __str__(self) -> str:
        low, high = self._points(self.low), self._points(self.high)
        if not np.isfinite(high):
            return "there are too few bags to tell what features leave unexplained between them"
        if not self.present:
            return (
                "features explain how bags differ, up to chance (a spread of up to "
                f"±{high:.1f} points may be left)"
            )
        return (
            f"features leave a spread of ±{self.spread:.1f} points between bags unexplained "
            f"(95% interval: {low:.1f} to {high:.1f})"
        )


def estimate_bag_effect(bags: Bags, chances: Floats) -> BagEffect:
    """Estimate the variance of bag effects from chances of rows that the model did not see.

    Parameters
    ----------
    bags : Bags
        The bags, as `unbag.check_bag_target` gives them.
    chances : ndarray of shape (n_classes, n_instances)
        Class chances of each row at the shares of the classes in all bags together, by a model
        that was trained without the row's bag.

    Returns
    -------
    effect : BagEffect
        The variance, with its interval and what it rests on.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import LLPLinearClassifierCV, check_bag_target
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import estimate_bag_effect
    >>> data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=0)
    >>> model = LLPLinearClassifierCV(class_prior="empirical").fit(data.X, data.y)
    >>> chance = 1 / (1 + np.exp(-model.out_of_fold_scores_))
    >>> effect = estimate_bag_effect(check_bag_target(data.y), np.stack([1 - chance, chance]))
    >>> bool(effect.variance < 0.1)
    True
    """
    return effect_of_means(bags, bags.means(chances).T, bags.means(chances * (1 - chances)).T)


def effect_of_scores(bags: Bags, scores: Floats, class_prior: Floats) -> BagEffect:
    """Estimate the same from log-odds, such as ``out_of_fold_scores_`` of a search.

    Parameters
    ----------
    bags : Bags
    scores : ndarray of shape (n_instances,) or (n_instances, n_classes)
        By models that were trained without the row's bag.
    class_prior : ndarray of shape (n_classes,)
        The shares of the classes that the scores are for: ``class_prior_`` of the model.

    Examples
    --------
    >>> from unbag import LLPLinearClassifierCV, check_bag_target
    >>> from unbag.evaluation.bag_effects import effect_of_scores
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, bag_size=50, random_state=0)
    >>> model = LLPLinearClassifierCV().fit(data.X, data.y)
    >>> bags = check_bag_target(data.y)
    >>> effect = effect_of_scores(bags, model.out_of_fold_scores_, model.class_prior_)
    >>> effect.present, effect.world
    (False, 'looks')
    """
    return effect_of_means(bags, *means_at_shares(bags, by_output(scores), class_prior))


def describe_effect(model: Any, bags: Bags) -> str | None:
    """Say what a fitted model takes the effects of bags to be; None if it does not know of any.

    Parameters
    ----------
    model : classifier
        With ``bag_effect_``, and ``bag_effect_interval_`` if that was estimated.
    bags : Bags
        What it was fitted to.
    """
    variance = getattr(model, "bag_effect_", None)
    if variance is None or getattr(model, "objective_", "likelihood") != "likelihood":
        return None
    low, high = getattr(model, "bag_effect_interval_", (np.nan, np.nan))
    effect = BagEffect(variance, low, high, np.nan, _focus(bags.class_shares), few=are_few(bags))
    if variance == 0 and effect.present:
        spread = f"{effect._points(low):.1f} to {effect._points(high):.1f} points"
        why = "there are few bags" if effect.few else "rows do not seem to keep their odds"
        return (
            f"features leave a spread of {spread} between bags unexplained, which training does "
            f"not allow for, as {why}"
        )
    if not np.isnan(low):
        return str(effect)
    if variance == 0:
        return "bags are taken to have no effect beyond their features"
    return f"bags are taken to differ by ±{effect.spread:.1f} points beyond their features"


def are_few(bags: Bags) -> bool:
    """Whether effects of these bags are told only: there are 32 at most."""
    return bool((~bags.labelled).sum() <= FEW_BAGS)


def _focus(shares: Floats) -> float:
    """Share of the class whose points are told: the second of two, the largest of several."""
    return float(shares[1] if len(shares) == 2 else shares.max())


def _largest_variance(seen: SeenBags, n_classes: int, slope: float) -> float:
    """Find the largest τ² that bags do not rule out."""
    degrees = (len(seen.sizes) - 2) * (n_classes - 1)
    least = float(chdtri(degrees, 1 - _TAIL)) / (n_classes - 1)

    def excess(variance: float) -> float:
        weights = 1 / (seen.by_chance(slope) + variance + ROUNDING)
        return float(weights @ seen.squares(max(1.0, seen.slope(weights)))) - least

    if excess(0.0) <= 0:
        return 0.0
    return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0))


def effect_of_means(bags: Bags, means: Floats, variances: Floats) -> BagEffect:
    """Estimate the same from the means of p and p(1 − p) over bags: (n_bags, n_classes)."""
    used = ~bags.labelled
    focus = _focus(np.clip(bags.class_shares, 1e-6, None))
    if used.sum() < FEWEST_BAGS:
        return BagEffect(0.0, 0.0, np.inf, 1.0, focus, few=True)
    seen = see_bags(bags, means, variances, used)
    sizes, apart, explained = seen.sizes, seen.apart, seen.explained
    chance, noise = seen.chance, seen.noise
    variance, slope = 0.0, 1.0
    for _ in range(MOST_ROUNDS):
        weights = 1 / (seen.by_chance(slope) + variance + ROUNDING)
        slope = max(1.0, seen.slope(weights))
        excess = seen.squares(slope) - seen.by_chance(slope)
        new = max(0.0, float(weights**2 @ excess / (weights @ weights)))
        settled = abs(new - variance) <= SETTLED * (new + float(chance.mean()))
        variance = new
        if settled:
            break
    few = np.sqrt(len(sizes) / (len(sizes) - 2))
    error = few * np.sqrt(weights**4 @ (excess - variance) ** 2) / (weights @ weights)
    low, high = variance - NORMAL_95 * error, variance + NORMAL_95 * error
    high = max(high, _largest_variance(seen, bags.n_classes, slope))
    square = (explained**2).sum(axis=1)
    free_slope = seen.slope(weights)
    pulls = (apart * explained).sum(axis=1) - free_slope * square
    slope_error = few * np.sqrt(weights**2 @ pulls**2) / max(weights @ square, ROUNDING)
    # how well chances tell classes apart
    told = 1 - float(np.average(chance * sizes, weights=sizes))
    between = told * (weights @ ((apart**2).sum(axis=1) - noise))
    around = told * between + told * (1 - told) * (weights @ (1 / sizes))
    return BagEffect(
        variance=variance,
        low=float(max(low, 0.0)),
        high=float(high),
        slope=slope,
        share=focus,
        slope_error=float(slope_error),
        slope_of_looks=float(between / around) if told > 0 and around > 0 else np.nan,
        free_slope=free_slope,
        few=are_few(bags),
    )


def dispersion_of_scores(bags: Bags, scores: Floats, class_prior: Floats) -> float:
    """Find φ̂ from log-odds (n_outputs, n_instances) of models that did not see the row's bag."""
    return dispersion_of_means(bags, *means_at_shares(bags, scores, class_prior))


def largest_dispersion(
    bags: Bags, scores: Floats, class_prior: Floats, bag_effect: float = 0.0
) -> float:
    """Find the largest φ ≥ 1 that bags do not rule out: how much more than by chance counts vary.

    Parameters
    ----------
    bags : Bags
        Rows of known label count as bags of one.
    scores : ndarray of shape (n_outputs, n_instances)
        By models that were trained without the row's bag.
    class_prior : ndarray of shape (n_classes,)
        The shares of the classes that the scores are for.
    bag_effect : float, default=0.0
        τ², what is allowed for beyond chance.

    Examples
    --------
    >>> from unbag import LLPLinearClassifierCV, check_bag_target
    >>> from unbag.evaluation.bag_effects import largest_dispersion
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, bag_size=50, random_state=0)
    >>> model = LLPLinearClassifierCV().fit(data.X, data.y)
    >>> scores = model.out_of_fold_scores_[None]
    >>> 1 <= largest_dispersion(check_bag_target(data.y), scores, model.class_prior_) < 2
    True
    """
    pieces, _ = bags.with_labelled_rows_apart()
    found = dispersion_of_means(pieces, *means_at_shares(pieces, scores, class_prior), bag_effect)
    degrees = max(pieces.n_bags - 2, 1) * (pieces.n_classes - 1)
    return max(1.0, found * degrees / float(chdtri(degrees, 0.95)))


def dispersion_of_means(
    bags: Bags, means: Floats, variances: Floats, bag_effect: float = 0.0
) -> float:
    """Find φ̂ from the means of p and p(1 − p) over bags: (n_bags, n_classes).

    Parameters
    ----------
    bags : Bags
        Those of one row of known label may be among them.
    means, variances : ndarrays of shape (n_bags, n_classes)
    bag_effect : float, default=0.0
        τ², what is allowed for beyond chance.
    """
    seen = see_bags(bags, means, variances)
    allowed = np.where(bags.labelled, 0.0, bag_effect)
    slope = 1.0
    for _ in range(MOST_ROUNDS):
        before, weights = slope, 1 / (seen.by_chance(slope) + allowed + ROUNDING)
        slope = max(1.0, seen.slope(weights))
        if abs(slope - before) <= SETTLED * slope:
            break
    expected = float(seen.sizes @ (seen.by_chance(slope) + allowed))
    ratio = float(seen.sizes @ seen.squares(slope)) / max(expected, ROUNDING)
    return ratio * bags.n_bags / max(bags.n_bags - 2, 1)
