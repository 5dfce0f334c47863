"""Test of label shift: given its class, an instance is distributed alike in every bag.

Columns are read in `unbag.evaluation.columns`, and their statistics are in
`unbag.evaluation.lack_of_fit`; here p-values of all columns and bags are adjusted to each other, and
the finding is put into words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats, Ints
from unbag._checks import check_choice, check_inside
from unbag._optional import make_frame
from unbag._text import aligned, listing, p_text
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.shares import bag_name
from unbag.defaults import LARGE_DRIFT
from unbag.evaluation.columns import Columns, read_columns
from unbag.evaluation.lack_of_fit import InBags, Plane
from unbag.weights import check_contrast

_LISTED = 5

# Numbers in a table of bags and columns that are tested together.
_TOGETHER = 2**17


@dataclass(frozen=True, eq=False, repr=False)
class LabelShiftTest:
    """Result of `label_shift_test`; printing it shows the tables.

    Attributes
    ----------
    p_value : float
        The smallest adjusted p-value in the two tables.
    reject : bool
        Whether it is at most ``alpha``.
    alpha : float
        Probability of a false rejection, over all columns and bags together.
    features : dict of arrays
        In the order of the columns: ``feature``, ``statistic`` (lack of fit, on average about
        ``df`` or less if the assumption holds), ``df``, ``p_value``, ``adjusted_p_value`` and
        ``detectable_drift``: how far, in standard deviations within a class, the means of bags
        must typically drift to be noticed in four of five cases. NaN for skipped columns.
    bags : dict of arrays
        Worst first: ``bag``, ``size``, ``feature`` (in which it stands out most), ``z`` (how many
        standard errors its mean is off there) and ``adjusted_p_value``.
    summary : str
        The finding in words.
    notes : tuple of str
        What was left out, and what to be wary of.
    """

    p_value: float
    reject: bool
    alpha: float
    features: dict[str, NDArray[Any]]
    bags: dict[str, NDArray[Any]]
    summary: str
    notes: tuple[str, ...]

    @property
    def worst_feature(self) -> str:
        """The column with the strongest evidence against label shift, in its means or by one bag."""
        p, first = self.features["adjusted_p_value"], self.bags["adjusted_p_value"]
        if len(first) and first[0] < np.nanmin(p):
            return str(self.bags["feature"][0])
        return str(self.features["feature"][int(np.nanargmin(self.features["p_value"]))])

    @property
    def typical_drift(self) -> float:
        """Deviation in SD that is detected with power 80%: median over columns."""
        return float(np.nanmedian(self.features["detectable_drift"]))

    @property
    def could_fail(self) -> bool:
        """Whether deviations of half a standard deviation would have been detected, or some were."""
        return self.reject or self.typical_drift <= LARGE_DRIFT

    @property
    def brief(self) -> str:
        """The finding in half a sentence."""
        off = self.features["adjusted_p_value"] <= self.alpha
        if not self.reject:
            found = f"bag means are linear in the proportions ({p_text(self.p_value)}, adjusted)"
            seen = f"deviations of {self.typical_drift:.2g} SD"
            if self.could_fail:
                return f"{found}; {seen} would have been detected"
            return f"{found}, but {seen} would not have been detected"
        if not off.any():
            return (
                f"means of single bags are not linear in the proportions ({p_text(self.p_value)})"
            )
        worst = np.argsort(self.features["p_value"], kind="stable")[: off.sum()]
        names = listing(self.features["feature"][worst], 3)
        tested = np.isfinite(self.features["p_value"]).sum()
        which = "" if tested == 1 else f" of {off.sum()} of {tested} ({names})"
        return f"bag means{which} are not linear in the proportions, {p_text(self.p_value)}"

    def frame(self, table: Literal["features", "bags"] = "features") -> Any:
        """Give one of the two tables as a pandas DataFrame.

        Parameters
        ----------
        table : {"features", "bags"}, default="features"
            Which of the two.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """
        check_choice(table, ("features", "bags"), "table")
        return make_frame(getattr(self, table))

    def __str__(self) -> str:
        worst = np.argsort(self.features["p_value"], kind="stable")[:_LISTED]
        first = np.arange(min(_LISTED, len(self.bags["bag"])))
        lines = [self.summary, *self.notes, "", *_table(self.features, worst)]
        return "\n".join([*lines, "", *_table(self.bags, first)])

    __repr__ = __str__


def label_shift_test(
    X: Any,
    y: Any,
    *,
    feature_names: ArrayLike | None = None,
    alpha: float = 0.05,
) -> LabelShiftTest:
    """Test whether instances of a class are distributed alike in all bags.

    Estimates without labels and the corrected risk rest on that. Each column of ``X`` is a
    check: if the means of bags do not follow the proportions, instances of one class differ from
    bag to bag. The converse does not hold; a drift that leaves all tested means in place goes
    unseen.

    Parameters
    ----------
    X : array-like or data frame of shape (n_instances,) or (n_instances, n_features)
        Scores of a classifier, or features. May be sparse. Of text, each frequent value is a column of
        zeros and ones; missing numbers are replaced by the median.
    y : structured array from `unbag.bag_target`
        Proportions are taken for the exact shares in the bag, unless it gives their noise.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the data frame, or 0, 1, ...
    alpha : float, default=0.05
        Probability of a false rejection, over all columns and bags together.

    Returns
    -------
    LabelShiftTest

    Notes
    -----
    Half of the alpha is for features (each one's lack of fit over all bags), half for single
    bags; within either half Holm's correction controls the probability of any false rejection.

    A drift linear in the proportions cannot be seen as such. If the mean rank in bag i shifts by
    a + bᵀγ_i, its mean is Σ_c γ_i[c] (θ_c + a + b_c): just what classes with other means would
    give, and class means are not known. Only where such a line is so steep that the classes would
    lie further apart than the values within bags do is it found out, and then a note says so.

    Instances of a bag that are alike for reasons of their own (one household, one shift) make bag
    means scatter as a drift does, and are found as well: with correlations of .005 to .05 in bags
    of a hundred, in a fifth of cases to nearly all. Estimates by whole bags do not suffer from
    that; the verdict of `unbag.evaluation.evaluate` rests on more than this test.

    Where several bags drift, they also pull at the line or plane that all bags are compared with.
    The test as a whole does not suffer from that, but the bags it names may then be sound ones.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target
    >>> from unbag.evaluation.label_shift import label_shift_test
    >>> rng = np.random.default_rng(0)
    >>> bag = np.repeat(np.arange(40), 50)
    >>> positive = rng.uniform(size=2000) < np.linspace(0.1, 0.9, 40)[bag]
    >>> y = bag_target(bag, counts=np.bincount(bag, positive)[bag])
    >>> score = rng.normal(size=2000) + 2 * positive
    >>> label_shift_test(score, y).reject
    False
    >>> score[bag == 7] += 1
    >>> found = label_shift_test(score, y)
    >>> found.reject, int(found.bags["bag"][0])
    (True, 7)
    """
    check_inside(alpha, "alpha")
    bags, columns = check_bag_target(y), read_columns(X, feature_names)
    if columns.values.shape[0] != bags.n_instances or not len(columns.names):
        raise ValueError(
            f"There are {bags.n_instances} instances, but X has the shape {columns.values.shape}."
        )
    return columns_test(columns, bags, alpha)


def columns_test(columns: Columns, bags: Bags, alpha: float = 0.05) -> LabelShiftTest:
    """Test columns that are numbers already; see `label_shift_test`."""
    if bags.n_bags <= bags.n_classes:
        raise ValueError(
            f"There are {bags.n_bags} bags of {bags.n_classes} classes; testing takes more bags "
            "than classes, because a plane fits as many bags as there are classes."
        )
    check_contrast(bags)
    if not (bags.sizes > 1).any():
        raise ValueError("No bag has more than one row, so that nothing can be tested.")
    names, plane = columns.names, Plane(bags)
    tables = _Tables(len(names), bags.n_bags)
    means = ((place, plane.in_bags(columns.at(place))) for place in range(len(names)))
    varying = ((place, one) for place, one in means if one is not None)
    while block := list(islice(varying, max(1, _TOGETHER // bags.n_bags))):
        tables.add(block, plane, alpha / (2 * len(names)))
    if tables.tested == 0:
        raise ValueError("Every column is constant, so that there is nothing to test.")
    notes = []
    if tables.tested < len(names):
        constant = names[np.isnan(tables.numbers[1])]
        notes.append(f"Constant and left out: {listing(list(constant))}.")
    return tables.result(names, bags, alpha, notes)


class _Tables:
    """Gathers the tests of columns, so that no table of bags times columns is ever held."""

    def __init__(self, n_features: int, n_bags: int) -> None:
        self.numbers = np.full((4, n_features), np.nan)
        self.steep = np.zeros(n_features, dtype=bool)
        self.p_bag = np.full(n_bags, np.inf)
        self.z = np.full(n_bags, np.nan)
        self.worst = np.zeros(n_bags, dtype=np.intp)
        self.tested = 0

    def add(self, block: list[tuple[int, InBags]], plane: Plane, alpha: float) -> None:
        """Test some columns together."""
        positions = np.array([position for position, _ in block])
        one = plane.test([column for _, column in block])
        p_refined, p_plain = one.refined.p_values(), one.plain.p_values()
        alike = (p_plain == p_refined) & (one.plain.ratio < one.refined.ratio)
        ratio = np.where((p_plain < p_refined) | alike, one.plain.ratio, one.refined.ratio)
        p = np.minimum(p_refined, p_plain)
        drift = np.sqrt(one.refined.noticed(alpha) / one.information)
        df = np.full(len(block), float(plane.df))
        self.numbers[:, positions] = (df * ratio, df, np.minimum(p, one.p_steep), drift)
        self.steep[positions] = one.p_steep < p
        self.tested += len(block)
        # the column in which each bag stands out most
        worst, place = one.p_bag.argmin(axis=0), np.arange(one.p_bag.shape[1])
        p_bag = one.p_bag[worst, place]
        better = p_bag < self.p_bag
        self.p_bag[better], self.z[better] = p_bag[better], one.z[worst, place][better]
        self.worst[better] = positions[worst[better]]

    def result(
        self, names: NDArray[Any], bags: Bags, alpha: float, notes: list[str]
    ) -> LabelShiftTest:
        statistic, df, p, drift = self.numbers
        features = {
            "feature": names,
            "statistic": statistic,
            "df": df,
            "p_value": p,
            "adjusted_p_value": np.minimum(2 * _holm(p), 1.0),
            "detectable_drift": drift,
        }
        judged = np.isfinite(self.p_bag)
        adjusted = np.minimum(2 * _holm(np.where(judged, self.tested * self.p_bag, np.nan)), 1.0)
        order = np.lexsort([-np.abs(self.z), self.p_bag])[: judged.sum()]
        table = {
            "bag": bags.ids[order],
            "size": bags.sizes[order],
            "feature": names[self.worst[order]],
            "z": self.z[order],
            "adjusted_p_value": adjusted[order],
        }
        steep = self.steep & (features["adjusted_p_value"] <= alpha)
        if steep.any():
            notes.append(
                "Bag means follow the proportions more steeply than values within bags are apart, "
                f"which a mixture of classes cannot do: {listing(list(names[steep]))}."
            )
        smallest = min(np.nanmin(features["adjusted_p_value"]), np.nanmin(adjusted))
        return LabelShiftTest(
            p_value=float(smallest),
            reject=bool(smallest <= alpha),
            alpha=alpha,
            features=features,
            bags=table,
            summary=_summary(features, table, alpha, float(smallest)),
            notes=tuple(notes),
        )


def _holm(p: Floats) -> Floats:
    """Holm's adjusted p-values; NaN is no test."""
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0)
    return adjusted


def _summary(features: dict[str, Any], bags: dict[str, Any], alpha: float, p_value: float) -> str:
    tested = np.isfinite(features["p_value"])
    p = features["adjusted_p_value"]
    off = np.argsort(np.where(tested, p, np.inf), kind="stable")[: np.sum(p[tested] <= alpha)]
    standing = bags["bag"][bags["adjusted_p_value"] <= alpha]
    worst = [f"{features['feature'][j]} ({p_text(p[j])})" for j in off]
    if len(off) == 0 and len(standing) == 0:
        drift = np.median(features["detectable_drift"][tested])
        found = f"No conflict with label shift found ({p_text(p_value)}, adjusted)"
        if drift > LARGE_DRIFT:
            return f"{found}, but deviations below {drift:.2g} SD would not have been detected."
        return f"{found}: deviations above {drift:.2g} SD would have been detected."
    sentence = (
        f"The bag means of {len(off)} of {tested.sum()} columns are not linear in the proportions: "
        f"{listing(worst)}."
        if len(off)
        else "Bag means are linear in the proportions, except for single bags."
    )
    if len(standing) == 0:
        return sentence + " No single bag stands out."
    named = listing([bag_name(bag) for bag in standing])
    return sentence + f" Bags that stand out, the worst first: {named}."


def _table(columns: dict[str, NDArray[Any]], rows: Ints) -> list[str]:
    """Lines of text, one for the names and one for each of some rows."""
    cells = [
        [name, *(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values[rows])]
        for name, values in columns.items()
    ]
    return aligned(list(zip(*cells, strict=True)), ">")
