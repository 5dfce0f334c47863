"""Bags of instances and the class proportions known about them.

`check_bag_target` turns the target `y` into `Bags`, the frozen view that the rest of the library
works with. Nothing behind `Bags` sees `y`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import truncnorm

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_choice
from unbag._text import quoted
from unbag.bags.count_sets import CountWeights
from unbag.bags.labels import check_labels, fields_of
from unbag.bags.shares import check_multiplicity, one_row_each, read_known

# What `check_bag_target` can be asked to accept beyond known counts of single rows.
ANYTHING = ("multiplicity", "sets")

BagModel = Literal["instances", "bags"]

# Where a target keeps the names of its classes: in the metadata of its dtype.
CLASS_NAMES = "class_names"

_NO_MULTIPLICITY = (
    "The target has multiplicities, which this cannot use: fit unbag.LLPClassifier, or repeat the "
    "rows (numpy.repeat) and call bag_target without multiplicity."
)

_NO_SETS = (
    "The counts of some bags are known as sets (low, high), which this cannot use: fit "
    "unbag.LLPClassifier, or leave these bags out."
)

# Proportions closer together than this differ by rounding only.
SAME_PROPORTION = 1e-9


@dataclass(frozen=True, eq=False)
class Bags:
    """The bags of a target: rows, sizes and class proportions of each.

    Attributes
    ----------
    index : ndarray of shape (n_rows,)
        Position of each row's bag in the arrays below.
    ids : ndarray of shape (n_bags,)
        The user's names of the bags, for messages and tables.
    sizes : ndarray of shape (n_bags,)
        Number of instances in each bag, n_i in the paper; rows counted by their multiplicities.
    proportions : ndarray of shape (n_bags, n_classes)
        Share of each class in each bag; with two classes the columns are 1 − γ_i and γ_i.
    classes : ndarray of shape (n_classes,)
        Labels of the classes, in the order of the columns.
    labelled : ndarray of bool, shape (n_bags,)
        Bags gathered from single rows of known label. They are pure and may be divided at will,
        since every part of them is just as pure.
    noise : ndarray of shape (n_bags, n_classes, n_classes), optional
        Covariance of the noise in each bag's proportions, whose rows sum to zero; None where
        proportions are exact. Noisy proportions sum to one but may lie outside [0, 1].
    names : tuple of str, optional
        Names of the classes in messages and tables; by default their labels.
    multiplicity : ndarray of int, shape (n_rows,), optional
        How many identical instances each row stands for; None if each is one.
    limits : ndarray of shape (n_bags, 2) or (n_bags, n_classes, 2), optional
        Lowest and highest count of the second of two classes, or of each of several, where counts are
        known as sets; ``proportions`` are then those to be expected.
    count_weights : CountWeights, optional
        Of the counts in sets; by default all the same.
    """

    index: Ints
    ids: NDArray[Any]
    sizes: NDArray[np.int64]
    proportions: Floats
    classes: NDArray[Any]
    labelled: Bools
    noise: Floats | None = None
    names: tuple[str, ...] | None = None
    multiplicity: NDArray[np.int64] | None = None
    limits: Floats | None = None
    count_weights: CountWeights | None = None

    @property
    def is_set(self) -> Bools:
        """Which bags have a count that is known as a set."""
        if self.limits is None:
            return np.zeros(self.n_bags, dtype=bool)
        wide = self.limits[..., 0] < self.limits[..., 1]
        return np.asarray(wide.reshape(self.n_bags, -1).any(axis=1))

    @property
    def n_bags(self) -> int:
        """Number of bags, L in the paper."""
        return len(self.sizes)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.proportions.shape[1]

    @property
    def class_names(self) -> NDArray[Any]:
        """What to call the classes."""
        return self.classes if self.names is None else np.array(self.names, dtype=object)

    @property
    def n_instances(self) -> int:
        """Number of rows in all bags together."""
        return len(self.index)

    @property
    def lengths(self) -> Ints:
        """Number of rows of each bag, whatever their multiplicities."""
        return np.bincount(self.index, minlength=self.n_bags)

    @property
    def class_shares(self) -> Floats:
        """Share of each class among all instances; with noise, that to be expected in [0, 1]."""
        shares = self.sizes @ self.proportions / self.sizes.sum()
        return expected_shares_of(shares, self._class_share_deviations)

    @property
    def _class_share_deviations(self) -> Floats:
        if self.noise is None:
            return np.zeros(self.n_classes)
        variances = np.diagonal(self.noise, axis1=1, axis2=2)
        return np.sqrt(self.sizes.astype(float) ** 2 @ variances) / self.sizes.sum()

    def warn_of_noise(self) -> None:
        """Warn if the share of a class in all bags together could as well be zero."""
        shares, deviations = self.class_shares, self._class_share_deviations
        if (deviations > shares).any():
            rarest = int(np.argmax(deviations / shares))
            warnings.warn(
                "The noise of the counts leaves little to learn: of all rows, a share of "
                f"{shares[rarest]:.2g} ± {deviations[rarest]:.2g} is of class "
                f"{self.class_names[rarest]}; probabilities cannot be trusted.",
                UserWarning,
                stacklevel=4,
            )

    @property
    def counts(self) -> Floats:
        """How many rows of each class the bags hold, by their proportions."""
        return self.sizes[:, None] * self.proportions

    @property
    def clipped_proportions(self) -> Floats:
        """Proportions clipped to [0, 1], for methods that need that; noisy ones are then biased."""
        return self.proportions if self.noise is None else _clip(self.proportions)

    def means(self, values: NDArray[Any]) -> Floats:
        """Mean of ``values`` over each bag.

        Parameters
        ----------
        values : ndarray of shape (..., n_instances)
            Values of the instances.

        Returns
        -------
        means : ndarray of shape (..., n_bags)
            Their means.
        """
        flat = values.reshape(-1, self.n_instances)
        if self.multiplicity is not None:
            flat = flat * self.multiplicity
        sums = np.stack([np.bincount(self.index, row, self.n_bags) for row in flat])
        return (sums / self.sizes).reshape(*values.shape[:-1], self.n_bags)

    def tally(self, kind: Ints, n_kinds: int) -> Ints:
        """Count the rows of each kind in every bag.

        Parameters
        ----------
        kind : ndarray of int, shape (n_instances,)
            Number of the kind of each row, from 0.
        n_kinds : int
            How many kinds there are.

        Returns
        -------
        rows : ndarray of int, shape (n_bags, n_kinds)
            How many rows there are of each.
        """
        rows = _sizes(self.index * n_kinds + kind, self.multiplicity, self.n_bags * n_kinds)
        return rows.reshape(self.n_bags, n_kinds)

    def draws(self, bag_model: BagModel) -> Floats:
        """Count the independent draws in each bag under one of the paper's two bag models.

        Parameters
        ----------
        bag_model : {"instances", "bags"}
            What is independent (IIM, IBM). With ``"bags"`` each counts once, however large; rows of
            known label still count one by one.

        Returns
        -------
        draws : ndarray of shape (n_bags,)
            Number of independent draws.
        """
        check_choice(bag_model, get_args(BagModel), "bag_model")
        if bag_model == "instances":
            return self.sizes.astype(float)
        return np.where(self.labelled, self.sizes, 1).astype(float)

    def reordered(self, order: Ints) -> Bags:
        """Give the same bags, of instances in another order.

        Parameters
        ----------
        order : ndarray of int, shape (n_instances,)
            The instance that each place gets.

        Returns
        -------
        bags : Bags
            The same bags.
        """
        times = None if self.multiplicity is None else self.multiplicity[order]
        return replace(self, index=self.index[order], multiplicity=times)

    def divide(self, part: Ints) -> tuple[Bags, Ints]:
        """Cut bags where their rows have different part numbers, which is right for labelled rows only.

        Parameters
        ----------
        part : ndarray of int, shape (n_instances,)
            Number of the part that each row goes to, from 0.

        Returns
        -------
        pieces : Bags
            The pieces, as bags.
        first : ndarray of int, shape (n_pieces,)
            The first row of each.
        """
        key = self.index * (int(part.max()) + 1) + part
        _, first, index = np.unique(key, return_index=True, return_inverse=True)
        whole = self.index[first]
        sizes = _sizes(index, self.multiplicity)
        return replace(self._picked(whole), index=index, sizes=sizes), first

    def with_labelled_rows_apart(self) -> tuple[Bags, Ints]:
        """Make every labelled row a bag of its own."""
        rows = np.arange(self.n_instances)
        if self.labelled.any():
            return self.divide(np.where(self.labelled[self.index], rows, 0))
        first = np.empty(self.n_bags, dtype=np.intp)
        # of what is written to one place, the last stays
        first[self.index[::-1]] = rows[::-1]
        return self, first

    def take(self, bags: NDArray[Any]) -> tuple[Bags, Ints]:
        """Keep some whole bags.

        Parameters
        ----------
        bags : ndarray
            Positions of bags, none of them twice, or a mask of all.

        Returns
        -------
        kept : Bags
            These bags.
        rows : ndarray of int
            Their rows.
        """
        chosen = np.arange(self.n_bags)[bags]
        if len(np.unique(chosen)) < len(chosen):
            raise ValueError("A bag cannot be taken twice.")
        position = np.full(self.n_bags, -1)
        position[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(position[self.index] >= 0)
        times = None if self.multiplicity is None else self.multiplicity[rows]
        kept = self._picked(chosen)
        return replace(kept, index=position[self.index[rows]], multiplicity=times), rows

    def blocks(self, length: int) -> Iterator[tuple[Bags, slice]]:
        """Cut bags whose rows follow each other into blocks of whole bags.

        Parameters
        ----------
        length : int
            Rows of a block at most, unless a single bag has more.

        Yields
        ------
        some : Bags
            Neighbouring bags.
        rows : slice
            Their rows.
        """
        ends, first = np.cumsum(self.lengths), 0
        while first < self.n_bags:
            start = int(ends[first - 1]) if first else 0
            stop = max(int(np.searchsorted(ends, start + length, side="right")), first + 1)
            rows = slice(start, int(ends[stop - 1]))
            times = None if self.multiplicity is None else self.multiplicity[rows]
            some = self._picked(slice(first, stop))
            yield replace(some, index=self.index[rows] - first, multiplicity=times), rows
            first = stop

    def _picked(self, bags: Ints | slice) -> Bags:
        """These bags, with the rows of all."""
        return replace(
            self,
            ids=self.ids[bags],
            sizes=self.sizes[bags],
            proportions=self.proportions[bags],
            labelled=self.labelled[bags],
            noise=None if self.noise is None else self.noise[bags],
            limits=None if self.limits is None else self.limits[bags],
        )


def check_bag_target(y: Any, accept: Collection[str] = ()) -> Bags:
    """Read a target as `Bags`: one made by `bag_target`, or plain labels.

    Plain labels are pure bags, one per class. A bag of one instance whose proportion is 0 or 1
    is a labelled row; such rows are gathered into one pure bag per class as well.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The target, of whole bags.
    accept : collection of str, default=()
        What the caller can deal with beyond counts of single rows: "multiplicity", "sets".

    Returns
    -------
    bags : Bags
        The bags of the target.

    Examples
    --------
    >>> from unbag import check_bag_target
    >>> bags = check_bag_target(["no", "yes", "yes"])
    >>> bags.classes.tolist(), bags.sizes.tolist()
    (['no', 'yes'], [1, 2])
    """
    y = one_target(y)
    names = fields_of(y)
    if not names:
        classes, index = check_labels(y)
        pure, labelled = np.eye(len(classes)), np.ones(len(classes), dtype=bool)
        return Bags(index, classes, np.bincount(index), pure, classes, labelled)
    missing = [name for name in ("bag", "proportion", "size") if name not in names]
    if missing and all(y.dtype[name].names for name in names):
        raise ValueError(
            f"The target has several groupings ({quoted(names)}), whose cells share "
            f"rows: use unbag.LLPClassifier, or one of them alone, y[{names[0]!r}]."
        )
    if missing:
        raise ValueError(f"The target has no field {missing[0]!r}; make it with unbag.bag_target.")
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"The target must have one dimension and some rows, not shape {y.shape}.")
    each, _, codes = one_row_each(y)
    times = limits = None
    if "multiplicity" in names:
        if "multiplicity" not in accept:
            raise ValueError(_NO_MULTIPLICITY)
        times = check_multiplicity(y["multiplicity"], len(y))
    sizes = _sizes(codes, times)
    bags, single = bags_of_each(each, codes, sizes)
    if "low" in names and (each["low"] != each["high"]).any():
        if "sets" not in accept:
            raise ValueError(_NO_SETS)
        limits = np.stack([each["low"], each["high"]], axis=-1)
        single &= (limits[..., 0] == limits[..., 1]).reshape(len(each), -1).all(axis=1)
    bags = replace(bags, multiplicity=times, limits=limits)
    return gather_labelled_rows(bags, single) if single.any() else bags


def bags_of_each(each: Any, index: Ints, sizes: NDArray[np.int64]) -> tuple[Bags, Bools]:
    """Bags by one row of a target for each, and which of them are a row of known label."""
    proportions, noise, single = read_known(each, sizes)
    classes, names = np.arange(proportions.shape[1]), (each.dtype.metadata or {}).get(CLASS_NAMES)
    labelled = np.zeros(len(each), dtype=bool)
    return Bags(index, each["bag"], sizes, proportions, classes, labelled, noise, names), single


def one_target(y: Any) -> Any:
    """Take a list of the rows of a target for one; refuse several targets."""
    parts = y if isinstance(y, list | tuple) else ()
    several = any(isinstance(one, np.ndarray) and one.dtype.names is not None for one in parts)
    if several or isinstance(y, Mapping):
        raise ValueError(
            "y holds several targets; those of several groupings of the same rows become one by "
            "unbag.multi_grouping_target."
        )
    return np.asarray(y) if isinstance(y, list) else y


def gather_labelled_rows(bags: Bags, single: Bools) -> Bags:
    """Join all bags marked ``single`` into one bag per class, behind the others."""
    others, own = np.flatnonzero(~single), np.flatnonzero(single)
    classes = bags.proportions[own].argmax(axis=1)
    present, first, place = np.unique(classes, return_index=True, return_inverse=True)
    position = np.empty(bags.n_bags, dtype=np.intp)
    position[others], position[own] = np.arange(len(others)), len(others) + place
    kept, index = bags.take(np.append(others, own[first]))[0], position[bags.index]
    names = [f"rows labelled {bags.class_names[c]}" for c in present]
    return replace(
        kept,
        index=index,
        ids=np.array([*bags.ids[others], *names], dtype=object),
        sizes=_sizes(index, bags.multiplicity),
        labelled=np.arange(kept.n_bags) >= len(others),
        multiplicity=bags.multiplicity,
    )


def _sizes(index: Ints, multiplicity: NDArray[np.int64] | None, minlength: int = 0) -> Ints:
    """Number of instances of each index, rows counted by their multiplicities."""
    found = np.bincount(index, multiplicity, minlength)
    return np.round(found).astype(np.intp)


def expected_shares_of(shares: Floats, deviations: Floats) -> Floats:
    """Means, given shares with noise, of true ones that could be any in [0, 1]."""
    if not deviations.any():
        return shares
    deviations = np.maximum(deviations, 1e-9)
    ends = -shares / deviations, (1.0 - shares) / deviations
    return _clip(np.asarray(truncnorm.mean(*ends, shares, deviations)))


def _clip(shares: Floats) -> Floats:
    """Leave out negative shares, and make the others sum to one."""
    kept = np.clip(shares, 0, None)
    return kept / kept.sum(axis=-1, keepdims=True)
