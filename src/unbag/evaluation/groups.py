"""Shares of the classes in groups of rows: the tables of ecological inference.

Groups are made by a column, such as race; bags, such as precincts, hold several of them. Three
things can be said of the share of class c in group g.

- What the model says. Given the rows and the counts of its bag, row j is of class c with the chance
  π_jc (`unbag.observations.count_likelihood.label_posteriors`); these add up to the counts. Their
  mean over the group is the estimate.
- How sure that is. Bags are left out in ten parts, one after the other, with their counts: with θ_k
  what is then said of all rows, 9/10 Σ_k (θ_k − θ̄)² is the variance (a jackknife of whole bags,
  which any model can afford, where a bootstrap would fit it hundreds of times).
- What is possible at all. Of n_b rows of a bag, n_gb in the group and k_bc of the class, at least
  max(0, k_bc − (n_b − n_gb)) and at most min(k_bc, n_gb) are both (Duncan and Davis, 1953). Summed
  over bags these are the sharpest bounds that counts alone give, whatever the model.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats, Ints
from unbag._checks import check_inside, check_one_each
from unbag._optional import make_frame
from unbag._outputs import by_output, probabilities_of_all, scores_of_all
from unbag._text import WIDTH, sentence, shown, table_lines
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.bag_effects import describe_effect
from unbag.evaluation.held_out import log_odds_at_shares
from unbag.model_selection.fitted import check_gives_chances, last_step
from unbag.observations.count_likelihood import label_posteriors

# Parts that bags are left out in.
_PARTS = 10
_FEWEST_BAGS = 4
_WARNING = (
    "Estimates go by the model: rows that look the same are taken to have the same odds in all "
    "bags, up to a shift of the bag. Where belonging to a group means something else from bag to "
    "bag (aggregation bias), estimates and their intervals are wrong, and counts of bags cannot "
    "show it. Bounds hold in any case."
)


@dataclass(frozen=True, eq=False, repr=False)
class GroupProportions:
    """Shares of the classes in groups of rows; printing it shows the table.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        The groups.
    classes : ndarray of shape (n_classes,)
        Names of the classes.
    sizes : ndarray of shape (n_groups,)
        Rows of each group.
    share : ndarray of shape (n_groups, n_classes)
        Estimated share of each class; those of a group sum to one.
    low : ndarray of shape (n_groups, n_classes)
        Lower limit of an interval of the given confidence_level; NaN if none were asked for.
    high : ndarray of shape (n_groups, n_classes)
        Its upper limit.
    least : ndarray of shape (n_groups, n_classes)
        Lower bound that holds whatever the model; 0 where counts are noisy.
    most : ndarray of shape (n_groups, n_classes)
        Upper bound of that kind; 1 where counts are noisy.
    confidence_level : float
        How often intervals should hold the share.
    notes : tuple of str
        What to be wary of.
    """

    groups: NDArray[Any]
    classes: NDArray[Any]
    sizes: Ints
    share: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats
    confidence_level: float
    notes: tuple[str, ...]

    def frame(self) -> Any:
        """One row for each group and class, as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """
        return make_frame(self.columns())

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of `frame`, by name.

        Returns
        -------
        columns : dict of ndarray
            With the same length.
        """
        n = len(self.classes)
        columns = {
            "group": np.repeat(self.groups, n),
            "class": np.tile(self.classes, len(self.groups)),
            "rows": np.repeat(self.sizes, n),
        }
        names = ("share", "low", "high", "least", "most")
        return {**columns, **{name: getattr(self, name).ravel() for name in names}}

    def __str__(self) -> str:
        heads = (
            "group",
            "rows",
            "class",
            "share",
            f"{100 * self.confidence_level:g}% interval",
            "possible",
        )
        rows = []
        for g, group in enumerate(self.groups):
            for c, name in enumerate(self.classes):
                first = (shown(group, 24), f"{self.sizes[g]:,}") if c == 0 else ("", "")
                interval = _span(self.low[g, c], self.high[g, c])
                possible = _span(self.least[g, c], self.most[g, c])
                share = f"{self.share[g, c]:.3f}"
                rows.append((*first, shown(name, 24), share, interval, possible))
        notes = [textwrap.fill(note, WIDTH) for note in self.notes]
        return "\n".join([*table_lines(heads, rows), "", *notes])

    __repr__ = __str__


def _span(low: float, high: float) -> str:
    return "-" if np.isnan(low) else f"{low:.3f} to {high:.3f}"


def group_proportions(
    model: Any,
    X: Any,
    y: Any,
    groups: ArrayLike,
    *,
    confidence_level: float = 0.95,
    intervals: bool = True,
) -> GroupProportions:
    """Estimate the share of each class in groups of rows, with intervals and sure bounds.

    Parameters
    ----------
    model : classifier or pipeline
        With ``predict_proba``, fitted to ``X`` and ``y``.
    X : array, sparse matrix or data frame with n_instances rows
        What says which group a row is in should be among its columns.
    y : structured array from `unbag.bag_target`
        The bag of each row and its proportions.
    groups : array-like of shape (n_instances,)
        The group of each row.
    confidence_level : float, default=0.95
        How often intervals should hold the share.
    intervals : bool, default=True
        Whether to give intervals, for which clones of the model are fitted ten times: of a search
        at the penalty or the leaves that it chose. They know of chance, and not of what a penalty
        shrinks: of 30 bags they held 80% of the shares of a small group, at a weak penalty 90%, and
        else 90% to 100% (benchmarks/results/group_intervals.md).

    Returns
    -------
    table : GroupProportions
        Print it, or take ``table.frame()``.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import LLPClassifier, bag_target
    >>> from unbag.evaluation import group_proportions
    >>> rng = np.random.default_rng(0)
    >>> precinct = np.repeat(np.arange(60), 50)
    >>> old = rng.uniform(size=3000) < rng.uniform(0.1, 0.9, size=60)[precinct]
    >>> vote = rng.uniform(size=3000) < np.where(old, 0.7, 0.3)
    >>> y = bag_target(precinct, counts=np.bincount(precinct, vote)[precinct])
    >>> X = old[:, None].astype(float)
    >>> model = LLPClassifier(kernel=None).fit(X, y)
    >>> table = group_proportions(model, X, y, np.where(old, "old", "young"))
    >>> table.share[:, 1].round(1)
    array([0.7, 0.3])
    >>> bool(table.least[0, 1] < vote[old].mean() < table.most[0, 1])
    True
    """
    bags = check_bag_target(y)
    names, code = _check_groups(groups, bags)
    check_inside(confidence_level, "confidence_level")
    check_gives_chances(model)
    sizes = np.bincount(code)
    share = _by_group(_chances_given_counts(model, X, bags), code, sizes)
    least, most = duncan_davis_bounds(bags, code, len(names))
    low = high = np.full_like(share, np.nan)
    if intervals:
        error = np.sqrt(_jackknife_variance(model, X, y, bags, code, sizes))
        reach = stats.t.ppf((1 + confidence_level) / 2, _parts(bags) - 1) * error
        low, high = (np.clip(share + sign * reach, least, most) for sign in (-1, 1))
    return GroupProportions(
        groups=names,
        classes=bags.class_names,
        sizes=sizes,
        share=np.clip(share, least, most),
        low=low,
        high=high,
        least=least,
        most=most,
        confidence_level=confidence_level,
        notes=_notes(model),
    )


def duncan_davis_bounds(bags: Bags, group: Ints, n_groups: int) -> tuple[Floats, Floats]:
    """Least and largest share of each class in each group: (n_groups, n_classes).

    Parameters
    ----------
    bags : Bags
    group : ndarray of int, shape (n_instances,)
        Number of the group of each row.
    n_groups : int
    """
    inside = bags.tally(group, n_groups)[:, :, None]
    size = inside.sum(axis=0)
    if bags.noise is not None:
        shape = (n_groups, bags.n_classes)
        return np.zeros(shape), np.ones(shape)
    count = bags.counts[:, None, :]
    outside = bags.sizes[:, None, None] - inside
    least, most = np.maximum(count - outside, 0), np.minimum(count, inside)
    return least.sum(axis=0) / size, most.sum(axis=0) / size


def _check_groups(groups: ArrayLike, bags: Bags) -> tuple[NDArray[Any], Ints]:
    values = np.asarray(groups)
    check_one_each(values, bags.n_instances, "groups", "instances", "group")
    # a column of objects may hold what does not sort
    plain = values.astype(str) if values.dtype == object else values
    names, code = np.unique(plain, return_inverse=True)
    return names, code


def _chances_given_counts(model: Any, X: Any, bags: Bags) -> Floats:
    """Probabilities of the classes (n_rows, n_classes), given rows and counts."""
    scores = log_odds_at_shares(model, X, bags)
    return probabilities_of_all(label_posteriors(by_output(scores)[None], bags)[0]).T


def _chances(model: Any, X: Any, bags: Bags) -> Floats:
    """Probabilities of the classes (n_rows, n_classes), given rows alone."""
    scores = scores_of_all(by_output(log_odds_at_shares(model, X, bags)))
    return np.asarray(softmax(scores, axis=0).T)


def _by_group(values: Floats, group: Ints, sizes: Ints) -> Floats:
    sums = [np.bincount(group, column, len(sizes)) for column in values.T]
    return np.stack(sums, axis=1) / sizes[:, None]


def _parts(bags: Bags) -> int:
    n_bags = int((~bags.labelled).sum())
    if n_bags < _FEWEST_BAGS:
        raise ValueError(
            f"Intervals take at least {_FEWEST_BAGS} bags, and there are {n_bags}; "
            "intervals=False leaves them out."
        )
    return min(_PARTS, n_bags)


def _jackknife_variance(model: Any, X: Any, y: Any, bags: Bags, group: Ints, sizes: Ints) -> Floats:
    """Variance of shares over models that are each fitted without one part of the bags."""
    n_parts = _parts(bags)
    part = np.random.default_rng(0).permutation(np.arange(bags.n_bags) % n_parts)
    # rows of known label are no bag, and stay
    part[bags.labelled] = -1
    y, found = np.asarray(y), []
    for number in range(n_parts):
        kept = np.flatnonzero(part[bags.index] != number)
        fitted = _with_its_settings(model).fit(_safe_indexing(X, kept), y[kept])
        probabilities = _chances_given_counts(fitted, X, bags)
        # of bags left out, counts are not known
        out = part[bags.index] == number
        probabilities[out] = _chances(fitted, X, bags)[out]
        found.append(_by_group(probabilities, group, sizes))
    return (n_parts - 1) * np.stack(found).var(axis=0)


def _with_its_settings(model: Any) -> Any:
    """A model to be fitted again, with the settings that a search has chosen.

    Base models of an ensemble get their own settings, and weights are found again.
    """
    copy, last = clone(model), last_step(model)
    parameters = last.get_params(deep=False)
    if hasattr(last, "alpha_") and "alphas" in parameters:
        last_step(copy).set_params(alphas=[last.alpha_])
    if hasattr(last, "num_leaves_") and "num_leaves" in parameters:
        last_step(copy).set_params(num_leaves=last.num_leaves_)
    if hasattr(last, "leaderboard_") and "estimators" in parameters:
        names = [row["learner"] for row in last.leaderboard_ if row["loss"] is not None]
        models = map(_with_its_settings, last.estimators_)
        last_step(copy).set_params(estimators=list(zip(names, models, strict=True)))
    return copy


def _notes(model: Any) -> tuple[str, ...]:
    effect = describe_effect(last_step(model))
    return (_WARNING, *([] if effect is None else [sentence(effect)]))
