"""Shares of the classes in groups of rows, from the posterior of a mixed model: `group_estimates`.

Groups are made by a column, such as race; bags, such as precincts, hold several of them. Each draw
takes coefficients from their posterior, and then labels of all rows given these and what is known
of the counts (`unbag.inference.label_draws`). Shares of a draw are those of a finite population: over
the groups of a bag they add up to its counts. Random intercepts of bags cancel given exact counts,
and noisy counts are drawn with them. No model is fitted again.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils import _safe_indexing, gen_batches

from unbag._arrays import Floats, Ints
from unbag._checks import check_choice, check_count, check_inside
from unbag._optional import make_frame
from unbag._text import WIDTH, percent, shown, table_lines
from unbag.inference.grouped_rows import (
    ROWS_AT_A_TIME,
    Goodman,
    GroupedRows,
    duncan_davis_bounds,
    duncan_davis_counts,
    find_class,
    find_name,
    goodman_regression,
    read_groups_by,
)
from unbag.inference.posterior import PosteriorScores, draw_shares, interval

# Groups are merged on advice if an interval is as wide as so large a part of its bounds.
_PART = 0.5

_WARNING = (
    "Shares and intervals are valid if rows with the same features have the same log-odds in all bags, "
    "up to a random intercept. If a group differs between bags for other reasons (aggregation bias), "
    "they are wrong, and counts cannot show it: see group_sensitivity (unbag groups --contrast). "
    "Bounds always hold."
)


@dataclass(frozen=True, eq=False)
class Contrast:
    """A difference (its posterior mean) or ratio (its median) of two shares."""

    first: str
    second: str
    kind: str
    estimate: float
    low: float
    high: float
    probability: float  # that the first share is larger
    least: float  # what it can be whatever the model
    most: float
    confidence_level: float

    @property
    def name(self) -> str:
        """Both shares, and the sign between them."""
        sign = "−" if self.kind == "difference" else "/"
        return f"{shown(self.first)} {sign} {shown(self.second)}"

    def __str__(self) -> str:
        form = "+.3f" if self.kind == "difference" else ".3f"
        ends = (self.estimate, self.low, self.high, self.least, self.most)
        value, low, high, least, most = (f"{end:{form}}" for end in ends)
        return (
            f"{self.name}: {value} ({100 * self.confidence_level:g}% interval {low} to {high}), "
            f"larger with probability {self.probability:.3f}; bounds {least} to {most}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class GroupEstimates:
    """Shares of the classes in groups of rows; printing it shows the table.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        The groups.
    classes : ndarray of shape (n_classes,)
        Names of the classes.
    sizes : ndarray of shape (n_groups,)
        Instances of each group, by their weights; or counts of the population.
    draws : ndarray of shape (n_draws, n_groups, n_classes)
        Shares, by draws from the posterior.
    share, low, high : ndarrays of shape (n_groups, n_classes)
        Their means, and limits of intervals.
    least, most : ndarrays of shape (n_groups, n_classes)
        Bounds of the shares whatever the model (Duncan and Davis).
    bag_ids : ndarray of shape (n_bags,)
        Names of the bags.
    bag_sizes : ndarray of shape (n_bags, n_groups)
        Instances of each group in each bag.
    bag_counts : ndarray of shape (n_bags, n_classes)
        What is known of each bag.
    bag_draws : ndarray of shape (5, n_bags, n_groups, n_classes)
        Of each bag: mean share, lower and upper limit, and bounds; NaN where a group is not in it.
    goodman : Goodman
        The same shares by ecological regression, for comparison.
    confidence_level : float
        Posterior probability of intervals.
    """

    groups: NDArray[Any]
    classes: NDArray[Any]
    sizes: Floats
    draws: Floats
    share: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats
    bag_ids: NDArray[Any]
    bag_sizes: Ints
    bag_counts: Floats
    bag_draws: Floats
    goodman: Goodman
    confidence_level: float

    @property
    def table(self) -> Any:
        """One row for each group and class, as a pandas DataFrame."""
        n = len(self.classes)
        names = ("share", "low", "high", "least", "most")
        return make_frame(
            {
                "group": np.repeat(self.groups, n),
                "class": np.tile(self.classes, len(self.groups)),
                "size": np.repeat(self.sizes, n),
                **{name: getattr(self, name).ravel() for name in names},
                "goodman": self.goodman.share.ravel(),
                "goodman_error": self.goodman.error.ravel(),
            }
        )

    @property
    def bags(self) -> Any:
        """One row for each bag, group in it and class, as a pandas DataFrame."""
        bag, group, of = np.nonzero(np.isfinite(self.bag_draws[0]))
        columns = {
            "bag": self.bag_ids[bag],
            "group": self.groups[group],
            "class": self.classes[of],
            "size": self.bag_sizes[bag, group],
        }
        names = ("share", "low", "high", "least", "most")
        found = self.bag_draws[:, bag, group, of]
        return make_frame(columns | dict(zip(names, found, strict=True)))

    def contrast(
        self, first: Any, second: Any, of: Any = None, kind: str = "difference"
    ) -> Contrast:
        """Difference or ratio of two shares, with an interval and a probability.

        Parameters
        ----------
        first, second : group, or (group, class)
            The shares that are compared.
        of : class, optional
            The class, where groups are given alone; by default the second of two.
        kind : {"difference", "ratio"}, default="difference"
            First minus second, or first divided by second.

        Returns
        -------
        contrast : Contrast
            Print it, or read its attributes.
        """
        check_choice(kind, ("difference", "ratio"), "kind")
        (g, c), (h, d) = (self._place(name, of) for name in (first, second))
        one, other = self.draws[:, g, c], self.draws[:, h, d]
        least, most = (self.least[g, c], self.most[h, d]), (self.most[g, c], self.least[h, d])
        with np.errstate(divide="ignore", invalid="ignore"):
            if kind == "difference":
                found, ends = one - other, [np.subtract(*end) for end in (least, most)]
            else:
                found, ends = one / other, [np.divide(*end) for end in (least, most)]
        found = np.nan_to_num(found, nan=1.0)
        low, high = interval(found, self.confidence_level)
        return Contrast(
            first=f"{self.groups[g]} ({self.classes[c]})",
            second=f"{self.groups[h]} ({self.classes[d]})",
            kind=kind,
            estimate=float(found.mean() if kind == "difference" else np.median(found)),
            low=float(low),
            high=float(high),
            probability=float(np.mean(one > other) + 0.5 * np.mean(one == other)),
            least=float(ends[0]),
            most=float(ends[1]),
            confidence_level=self.confidence_level,
        )

    def polarisation(self) -> dict[str, NDArray[Any]]:
        """The class that each group prefers, with its probability.

        Returns
        -------
        columns : dict of ndarray
            "group", "preferred" class, its "probability", and "differs", the probability that all
            groups do not prefer the same class.
        """
        best = self.draws.argmax(axis=2)
        votes = np.stack([(best == c).mean(axis=0) for c in range(len(self.classes))])
        differs = float((best != best[:, :1]).any(axis=1).mean())
        return {
            "group": self.groups,
            "preferred": self.classes[votes.argmax(axis=0)],
            "probability": votes.max(axis=0),
            "differs": np.full(len(self.groups), differs),
        }

    def to_geojson(self, collection: dict[str, Any], key: str) -> dict[str, Any]:
        """Join estimates of bags to the features of a map, as properties.

        Parameters
        ----------
        collection : dict
            GeoJSON FeatureCollection, as ``json.load`` gives it.
        key : str
            Property that names the bag.

        Returns
        -------
        collection : dict
            A copy with properties such as "black: yes", "black: yes, low" and "black: yes, high"
            for features whose bag has estimates.
        """
        found: dict[str, dict[str, float]] = {}
        for b, g in np.argwhere(self.bag_sizes > 0):
            own = found.setdefault(str(self.bag_ids[b]), {})
            for c, of in enumerate(self.classes):
                name = f"{self.groups[g]}: {of}"
                names = (name, f"{name}, low", f"{name}, high")
                own.update(zip(names, self.bag_draws[:3, b, g, c].tolist(), strict=True))
        features = []
        for each in collection["features"]:
            known = each.get("properties") or {}
            features.append({**each, "properties": known | found.get(str(known.get(key)), {})})
        return {**collection, "features": features}

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What to be wary of: the model, and groups of which the counts show little."""
        part = (self.high - self.low) / np.maximum(self.most - self.least, 1e-12)
        centred = self.draws - self.share
        notes, pairs = [_WARNING], set()
        wide = np.flatnonzero(part.max(axis=1) > _PART).tolist()
        for g in wide if len(self.groups) > 1 else []:
            c = int(part[g].argmax())
            # the group with which it shares what the bags show
            covariance = centred[:, g, c] @ centred[:, :, c]
            correlation = covariance / np.maximum(np.linalg.norm(centred[:, :, c], axis=0), 1e-12)
            correlation[g] = np.inf
            h = int(correlation.argmin())
            if {g, h} in pairs:
                continue
            pairs.add(frozenset((g, h)))
            sizes = np.maximum(self.sizes[[g, h]], 1e-12)
            merged = np.average(self.draws[:, [g, h], c], axis=1, weights=sizes)
            ends = (*interval(merged, self.confidence_level), merged.mean())
            low, high, mean = (percent(float(end), 1) for end in ends)
            notes.append(
                f"The counts show little of {shown(self.groups[g], 24)}: its interval for "
                f"{shown(self.classes[c], 24)} is {percent(float(part[g, c]))} of its bounds. Merge it "
                f"with {shown(self.groups[h], 24)}; together they have {mean} ({low} to {high})."
            )
        return tuple(notes)

    def _place(self, name: Any, of: Any) -> tuple[int, int]:
        if isinstance(name, tuple) and len(name) == 2 and name not in self.groups.tolist():
            name, of = name
        return find_name(name, self.groups, "group"), find_class(of, self.classes)

    def as_text(self) -> list[tuple[str, ...]]:
        """The table in words, the names of the columns first."""
        level = f"{100 * self.confidence_level:g}% interval"
        rows: list[tuple[str, ...]]
        rows = [("group", "size", "class", "share", level, "bounds", "Goodman")]
        for g, c in np.ndindex(self.share.shape):
            group, of = shown(self.groups[g], 24), shown(self.classes[c], 24)
            numbers = (self.share, self.low, self.high, self.least, self.most, self.goodman.share)
            share, low, high, least, most, goodman = (f"{one[g, c]:.3f}" for one in numbers)
            ranges = f"{low} to {high}", f"{least} to {most}"
            rows.append((group, f"{self.sizes[g]:,.0f}", of, share, *ranges, goodman))
        return rows

    def __str__(self) -> str:
        heads, *rows = self.as_text()
        # the name and size of a group once
        rows = [("", "", *row[2:]) if k % len(self.classes) else row for k, row in enumerate(rows)]
        notes = [textwrap.fill(note, WIDTH) for note in self.notes]
        return "\n".join([*table_lines(heads, rows), "", *notes])

    __repr__ = __str__


def group_estimates(
    model: Any,
    X: Any,
    y: Any,
    by: Any,
    *,
    weights: ArrayLike | None = None,
    population: tuple[Any, ArrayLike] | None = None,
    n_draws: int = 200,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> GroupEstimates:
    """Estimate the share of each class in groups of rows, overall and in each bag.

    Parameters
    ----------
    model : LLPClassifier, or a pipeline that ends with one
        Fitted to ``X`` and ``y``.
    X : array or data frame with n_instances rows
        What says which group a row is in should be among its columns.
    y : structured array from `unbag.bag_target`
        The bag of each row and its counts; rows may stand for several by a multiplicity.
    by : str, list of str, or array-like of shape (n_instances,)
        Columns of ``X`` that make the groups, or the group of each row.
    weights : array-like of shape (n_instances,), optional
        Weights of the rows in shares over all bags, such as survey weights.
    population : (X, counts), optional
        Cells of a population, with the columns of ``X``, and how many people each holds: shares over
        all bags are then those of the population (poststratification). ``by`` must name columns.
    n_draws : int, default=200
        Draws from the posterior.
    confidence_level : float, default=0.95
        Posterior probability of intervals.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    estimates : GroupEstimates
        Print it, or take ``estimates.table``, ``.bags`` and ``.contrast(...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import LLPClassifier, bag_target
    >>> from unbag.inference import group_estimates
    >>> rng = np.random.default_rng(0)
    >>> precinct = np.repeat(np.arange(60), 50)
    >>> old = rng.uniform(size=3000) < rng.uniform(0.1, 0.9, size=60)[precinct]
    >>> vote = rng.uniform(size=3000) < np.where(old, 0.7, 0.3)
    >>> y = bag_target(precinct, counts=np.bincount(precinct, vote)[precinct])
    >>> X = old[:, None].astype(float)
    >>> model = LLPClassifier(kernel=None).fit(X, y)
    >>> estimates = group_estimates(model, X, y, np.where(old, "old", "young"))
    >>> estimates.share[:, 1].round(1)
    array([0.7, 0.3])
    >>> estimates.contrast("old", "young").probability
    1.0
    """
    check_inside(confidence_level, "confidence_level")
    check_count(n_draws, "n_draws", 10)
    rows = GroupedRows.read(X, y, by, weights)
    posterior = PosteriorScores(model, rows.bags, n_draws, random_state)
    draws, bag_draws = draw_shares(rows, posterior, confidence_level)
    bounds = duncan_davis_bounds(rows)
    inside = np.where(rows.inside > 0, rows.inside, np.nan)[:, :, None]
    sharp = [one / inside for one in duncan_davis_counts(rows)]
    sizes = rows.sizes
    if population is not None:
        draws, sizes = _of_population(rows, posterior, population, by)
        bounds = np.zeros_like(draws[0]), np.ones_like(draws[0])
    low, high = interval(draws, confidence_level)
    return GroupEstimates(
        groups=rows.names,
        classes=rows.bags.class_names,
        sizes=sizes,
        draws=draws,
        share=draws.mean(axis=0),
        low=low,
        high=high,
        least=bounds[0],
        most=bounds[1],
        bag_ids=rows.bags.ids,
        bag_sizes=rows.inside,
        bag_counts=rows.bags.counts,
        bag_draws=np.stack([*bag_draws, *sharp]),
        goodman=goodman_regression(rows.inside, rows.bags.proportions),
        confidence_level=confidence_level,
    )


def _of_population(
    rows: GroupedRows, posterior: PosteriorScores, population: tuple[Any, ArrayLike], by: Any
) -> tuple[Floats, Floats]:
    """Draws of shares of the groups of a population, and their sizes."""
    cells, counts = population
    number = np.asarray(counts, dtype=float)
    names, code = read_groups_by(cells, by, len(number))
    place = {name: g for g, name in enumerate(rows.names.tolist())}
    strange = [name for name in names.tolist() if name not in place]
    if strange:
        raise ValueError(f"The population has the group {strange[0]!r}, which X has not.")
    code = np.array([place[name] for name in names.tolist()])[code]
    sizes, total = np.zeros(len(rows.names)), 0.0
    for part in gen_batches(len(number), ROWS_AT_A_TIME):
        scores = posterior(_safe_indexing(cells, part))
        # averaged over random intercepts of bags (probit approximation)
        effect = getattr(posterior.model, "bag_effect_", 0.0)
        p = softmax(scores / np.sqrt(1.0 + np.pi * effect / 8.0), axis=1) * number[part]
        member = code[part] == np.arange(len(sizes))[:, None]
        total = total + np.einsum("scj,gj->sgc", p, member, optimize=True)
        sizes = sizes + member @ number[part]
    return total / np.maximum(sizes, 1e-12)[:, None], sizes
