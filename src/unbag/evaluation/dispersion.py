"""Dispersion: how much more than by chance counts vary around what a model says, in one number.

With d_b and e_b of `unbag.evaluation.bag_effects`, that is

    φ̂ = B/(B − 2) · Σ_b n_b d_b / Σ_b n_b (e_b + τ²),

for B bags and a τ² that is allowed for already. It is about 1 in both worlds if there is chance
alone. A likelihood of counts takes rows for independent, and so says φ times too much. Few bags
tell φ badly: `largest_dispersion` gives (B − 2)(C − 1) φ̂ / χ², the largest φ that they do not rule
out, with the 5% quantile of χ² with (B − 2)(C − 1) degrees of freedom.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.evaluation.seen_bags import MOST_ROUNDS, ROUNDING, SETTLED, means_at_shares, see_bags


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
    >>> from unbag.evaluation.dispersion import largest_dispersion
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
