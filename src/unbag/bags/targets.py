"""The structured target `y`: a bag id per row and the class proportions of its bag.

`bag_target` makes it from whatever form the user has: proportions or counts, per row or per bag,
with or without some known labels. `unbag.bags.bags.check_bag_target` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_choice
from unbag.bags.bags import CLASS_NAMES
from unbag.bags.count_sets import check_sets, expected_shares
from unbag.bags.labels import row_type
from unbag.bags.shares import (
    bag_name,
    check_constant,
    check_multiplicity,
    check_noise,
    check_shares,
    exact_bags,
    refuse,
)

# Counts may be off whole numbers by what computing with them does.
_ROUNDING = 1e-6


def bag_target(
    bag: ArrayLike,
    proportion: Any = None,
    *,
    counts: Any = None,
    labels: ArrayLike | None = None,
    noise: Any = None,
    class_names: Sequence[Any] | None = None,
    multiplicity: ArrayLike | None = None,
    low: Any = None,
    high: Any = None,
    limits: Literal["counts", "shares"] = "counts",
) -> NDArray[np.void]:
    """Make the target `y` that every estimator of this package is fitted to.

    Parameters
    ----------
    bag : array-like of shape (n_instances,)
        The bag of each instance: integers or strings, in any order. May be missing (None or NaN)
        for rows whose label is known.
    proportion : array-like, mapping or Series, optional
        Share of the positive class: one value per instance (equal within a bag), or one per bag
        as a mapping or a Series indexed by bag. For more than two classes, one column or one
        sequence entry per class.
    counts : array-like, mapping or Series, optional
        Instead of ``proportion``: the number of positive instances in each bag (or, with several
        columns, of instances of every class).
    labels : array-like of shape (n_instances,), optional
        Known labels as class numbers 0, 1, ..., missing (None or NaN) where unknown. These rows
        leave their bag, whose proportion is then that of its other rows, and count as pure
        bags of one instance.
    noise : number, array-like, mapping or Series, optional
        Standard deviation of the noise that was added to the proportions or counts, in their unit
        (Laplace noise of scale b has √2·b): one number for all bags, or in the forms of
        ``proportion``. Noisy shares may lie outside [0, 1], and must not be clipped, which would
        bias them. With one column per class, noise may be given per class; it is independent between
        classes, and shares that do not sum to one are corrected in proportion to its variance.
    class_names : sequence, optional
        Names of the classes in messages and tables, in the order of the columns; with two classes,
        the negative one first. Models use the numbers 0, 1, ... in any case.
    multiplicity : array-like of int, shape (n_instances,), optional
        How many identical instances each row stands for; counts and sizes are those of instances.
    low, high : number, array-like, mapping or Series, optional
        Instead of ``counts``, where these are hidden or coarse: the lowest and the highest number of
        positive instances that a bag may have, NaN or None where there is no limit; or a column
        for each class. With ``noise``, for two classes, limits are those of the noisy count.
    limits : {"counts", "shares"}, default="counts"
        Whether ``low`` and ``high`` are counts or shares of the bag.

    Returns
    -------
    y : structured ndarray of shape (n_instances,)
        With the fields ``bag``, ``proportion`` and ``size`` (the rows of the whole bag, which shows
        whether part of it is missing), and ``noise`` (the standard deviation of the proportions) and
        ``multiplicity`` if they were given. With limits, also ``low`` and ``high``; the proportion is
        then the expected one between them. Read the fields by name.

    Examples
    --------
    >>> from unbag import bag_target
    >>> y = bag_target(["north", "south", "north"], {"north": 0.5, "south": 1.0})
    >>> y["proportion"]
    array([0.5, 1. , 0.5])
    >>> bag_target([7, 7, 9, 9], counts={7: 1, 9: 2})["proportion"]
    array([0.5, 0.5, 1. , 1. ])

    Counts published with Gaussian noise of standard deviation 0.5:

    >>> y = bag_target([7, 7, 9, 9], counts={7: 0.6, 9: 2.2}, noise=0.5)
    >>> y["proportion"]
    array([0.3, 0.3, 1.1, 1.1])
    >>> y["noise"]
    array([0.25, 0.25, 0.25, 0.25])

    Counts below 10 hidden, and only "at least one" known:

    >>> y = bag_target(["a"] * 30 + ["b"] * 20, low={"a": 12, "b": 1}, high={"a": 12, "b": 9})
    >>> y[["low", "high"]][[0, 30]].tolist()
    [(12.0, 12.0), (1.0, 9.0)]
    >>> bag_target([1, 1, 1, 2, 2], low={1: 1, 2: 0}, high={1: None, 2: 0})["high"]
    array([3., 3., 3., 0., 0.])
    """
    known = None if labels is None else read_labels(labels)
    values = _as_ids(bag)
    if known is not None and len(known) != len(values):
        raise ValueError(f"There are {len(values)} bag ids but {len(known)} labels.")
    codes, ids = _encode_bag_ids(
        values, np.zeros(len(values), dtype=bool) if known is None else known >= 0
    )
    is_set = low is not None or high is not None
    if (proportion is not None) + (counts is not None) + is_set != 1:
        raise ValueError("Give either proportion, or counts, or low and high, and no two of these.")
    check_choice(limits, ("counts", "shares"), "limits")
    times = None if multiplicity is None else check_multiplicity(multiplicity, len(codes))
    inside = codes >= 0
    own = None if times is None else times[inside]
    sizes = np.bincount(codes[inside], own, len(ids)).astype(np.int64)
    ends: list[Floats] | None = None
    shares = None
    if is_set:
        given = {"low": low, "high": high}.items()
        ends = list(np.broadcast_arrays(*(_per_bag(v, codes, ids, n, True) for n, v in given)))
        ends = [end * _aligned(sizes, end) for end in ends] if limits == "shares" else ends
        deviation = _noise_per_bag(noise, np.zeros(len(ids)), codes, ids)
    elif counts is None:
        shares = _per_bag(proportion, codes, ids, "proportion")
        deviation = _noise_per_bag(noise, shares, codes, ids)
    else:
        numbers = _per_bag(counts, codes, ids, "counts")
        deviation = _noise_per_bag(noise, numbers, codes, ids)
        _check_counts(numbers, sizes, ids, deviation)
        size = _aligned(sizes, numbers)
        shares, deviation = numbers / size, None if deviation is None else deviation / size
    return make_target(codes, ids, sizes, shares, deviation, ends, known, times, class_names)


def make_target(
    codes: Ints,
    ids: NDArray[Any],
    sizes: NDArray[np.int64],
    shares: Floats | None,
    deviation: Floats | None = None,
    limits: list[Floats] | None = None,
    known: NDArray[np.int64] | None = None,
    times: NDArray[np.int64] | None = None,
    class_names: Sequence[Any] | None = None,
) -> NDArray[np.void]:
    """The target of rows in the bags ``codes``, by the shares or limits of counts of each bag."""
    if deviation is not None:
        check_noise(deviation, ids)
    low = high = None
    if limits is not None:
        noisy = np.zeros(len(ids), dtype=bool) if deviation is None else deviation > 0
        low, high = check_sets(limits[0], limits[1], sizes, ids, noisy)
        if known is not None:
            raise ValueError("labels cannot be given together with low and high.")
        shares = expected_shares(low, high, sizes)
        deviation = None if deviation is None else deviation / sizes
    assert shares is not None
    shares = check_shares(shares, ids, deviation)
    metadata, n_classes = {}, 2 if shares.ndim == 1 else shares.shape[1]
    if class_names is not None:
        metadata[CLASS_NAMES] = texts = tuple(map(str, class_names))
        if len(set(texts)) != n_classes or len(texts) != n_classes:
            raise ValueError(
                f"class_names must be {n_classes} different names, one for each class, not "
                f"{class_names!r}."
            )
    if known is None:
        each = (ids, shares, sizes, deviation, low, high)
        columns = [None if values is None else values[codes] for values in each]
    else:
        own = _with_labels(codes, ids, sizes, shares, known, deviation, times)
        columns = [*own, None, None]
    names = ("bag", "proportion", "size", "noise", "low", "high", "multiplicity")
    given = {n: v for n, v in zip(names, [*columns, times], strict=True) if v is not None}
    fields = [(name, values.dtype, values.shape[1:]) for name, values in given.items()]
    y = np.empty(len(codes), dtype=row_type(fields, **metadata))
    for name, values in given.items():
        y[name] = values
    return y


def _aligned(sizes: Any, values: NDArray[Any]) -> Any:
    """Sizes of bags in the shape of values that have a column for each class, or none."""
    return sizes.reshape(-1, *[1] * (values.ndim - 1))


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    equal = value == value
    # pandas' NA compares to NA, which is neither true nor false
    return not equal if isinstance(equal, bool | np.bool_) else True


def _as_ids(bag: ArrayLike) -> NDArray[Any]:
    values = np.asarray(bag)
    if values.ndim != 1 or len(values) == 0:
        several = (
            "; columns that name a bag together are for unbag.bags_from_frame, and several "
            "groupings of the same rows for unbag.multi_grouping_target"
        )
        raise ValueError(
            f"bag must hold one id per instance; its shape is {values.shape}"
            f"{several if values.ndim == 2 else ''}."
        )
    if values.dtype.kind == "T" or (values.dtype.kind == "U" and not hasattr(bag, "dtype")):
        # NumPy writes the NaN or the 1 in a list of strings as text
        return np.asarray(bag, dtype=object)
    if values.dtype.kind == "M":
        # nanoseconds would come out of tolist as plain integers
        micro = values.astype("datetime64[us]")
        return micro if ((micro == values) | np.isnat(values)).all() else values
    return values


def _encode_bag_ids(values: NDArray[Any], may_miss: Bools) -> tuple[Ints, NDArray[Any]]:
    """Number the bags 0, 1, ... in the order of their ids; −1 where the id is missing."""
    # what is missing is not equal to itself
    missing = values != values
    if values.dtype.kind == "O":
        missing = np.fromiter((_is_missing(v) for v in values), bool, len(values))
    unexcused = missing & ~may_miss
    if unexcused.any():
        raise ValueError(
            f"Row {int(unexcused.argmax()) + 1} has no bag id; only labelled rows may lack one."
        )
    present, kind = values[~missing], values.dtype.kind
    if kind == "O":
        texts = all(isinstance(v, str) for v in present)
        if not texts and not all(isinstance(v, int | np.integer) for v in present):
            raise ValueError("Bag ids must be all integers or all strings.")
        present = present.astype(str if texts else np.int64)
    elif kind in "fb":
        if not (np.isfinite(present) & (present == np.round(present))).all():
            raise ValueError("Bag ids must be integers or strings, not fractions.")
        present = present.astype(np.int64)
    elif kind not in "iuUSM":
        raise ValueError(f"Bag ids must be integers or strings, not {present.dtype}.")
    ids, inverse = np.unique(present, return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.intp)
    codes[~missing] = inverse
    return codes, ids


def _per_bag(
    given: Any, codes: Ints, ids: NDArray[Any], what: str, may_be_one: bool = False
) -> Floats:
    """One entry (a number, or one per class) for every bag, from whichever form was given."""
    if may_be_one and (given is None or isinstance(given, Real)):
        return np.full(len(ids), given, dtype=float)
    has_index = hasattr(given, "to_dict") and hasattr(given, "index")
    if has_index:
        _check_unambiguous(given, codes, ids, what)
    if has_index and len(given) != len(codes):
        if not given.index.is_unique:
            twice = given.index[given.index.duplicated()][0]
            raise ValueError(f"The {what} of bag {bag_name(twice)} is given twice.")
        given = dict(zip(given.index.tolist(), given.to_numpy(), strict=True))
    if isinstance(given, Mapping):
        absent = [i for i in ids.tolist() if i not in given]
        if absent:
            raise ValueError(f"Bag {absent[0]!r} has instances but no {what}.")
        return _as_numbers([given[i] for i in ids.tolist()], what)
    values = _as_numbers(given, what)
    n_given = 1 if values.ndim == 0 else len(values)
    if values.ndim == 0 or n_given != len(codes):
        raise ValueError(
            f"There are {len(codes)} bag ids but {n_given} values of {what}; give one per instance, "
            "or one per bag as a mapping or Series."
        )
    inside = codes >= 0
    values, codes = values[inside], codes[inside]
    first = np.empty(len(ids), dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    check_constant(values, values[first], codes, ids, what)
    return values[first]


def _check_unambiguous(series: Any, codes: Ints, ids: NDArray[Any], what: str) -> None:
    """Refuse a Series that could be meant per row and per bag, where the two differ."""
    if len(series) != len(codes) or len(ids) != len(codes) or not series.index.is_unique:
        return
    by_bag = dict(zip(series.index.tolist(), series.to_numpy(), strict=True))
    names = ids[codes].tolist()
    if all(name in by_bag for name in names) and not np.array_equal(
        _as_numbers([by_bag[name] for name in names], what), _as_numbers(series, what)
    ):
        raise ValueError(
            f"The {what} Series is as long as there are rows, each its own bag, and could be meant "
            "in the order of the rows or by its index; give an array or a mapping instead."
        )


def _as_numbers(values: Any, what: str) -> Floats:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The {what} values must be numbers: {error}.") from None


def _noise_per_bag(noise: Any, values: Floats, codes: Ints, ids: NDArray[Any]) -> Floats | None:
    """Standard deviation of the noise in the values of each bag, in the shape of these."""
    if noise is None:
        return None
    deviation = _per_bag(noise, codes, ids, "noise", True)
    if deviation.ndim < values.ndim:
        deviation = np.repeat(deviation[:, None], values.shape[1], axis=1)
    if deviation.shape != values.shape:
        raise ValueError(
            "noise must hold one number per bag, or one for each class that has a column; it is "
            f"of shape {deviation.shape[1:]} where a bag's proportion or counts are of shape "
            f"{values.shape[1:]}."
        )
    return deviation


def _check_counts(
    counts: Floats, sizes: NDArray[np.int64], ids: NDArray[Any], noise: Floats | None
) -> None:
    table, exact = counts.reshape(len(ids), -1), exact_bags(noise, len(ids))
    total = table.sum(axis=1)
    wrong = ~np.isfinite(total) | ((table < 0).any(axis=1) & exact)
    if wrong.any():
        unless = "finite and not negative" if exact[wrong][0] else "finite"
        raise ValueError(f"The counts of bag {bag_name(ids[wrong][0])} must be {unless}.")
    refuse(
        (np.abs(table - np.round(table)) > _ROUNDING) & exact[:, None],
        ids,
        "The counts of bag {} hold {:g}, which is not a whole number: if noise was added to them, "
        "give its standard deviation by noise=...; if they are shares, use proportion.",
        table,
    )
    wrong = (total > sizes if counts.ndim == 1 else total != sizes) & exact
    positives = "positives" if counts.ndim == 1 else "counted instances"
    refuse(wrong, ids, f"Bag {{}} has {{:g}} {positives} but {{}} instances.", total, sizes)


def read_labels(labels: ArrayLike) -> NDArray[np.int64]:
    """Read class numbers, −1 where the label is missing."""
    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"labels must hold one entry per instance; the shape is {values.shape}.")
    if values.dtype.kind == "O":
        values = np.array([np.nan if _is_missing(v) else v for v in values])
    if values.dtype.kind not in "biuf":
        raise ValueError("labels must be class numbers 0, 1, ... or missing.")
    missing = np.isnan(values.astype(float))
    numbers = np.where(missing, -1, values.astype(float))
    wrong = ~missing & ((numbers < 0) | (numbers != np.round(numbers)) | np.isinf(numbers))
    if wrong.any():
        raise ValueError(
            f"Label {values[wrong][0]} is not a class number: use 0, 1, ... and NaN for unknown."
        )
    return numbers.astype(np.int64)


def _with_labels(
    codes: Ints,
    ids: NDArray[Any],
    sizes: NDArray[np.int64],
    shares: Floats,
    known: NDArray[np.int64],
    noise: Floats | None,
    times: NDArray[np.int64] | None,
) -> list[Any]:
    """Bag, proportion, size and noise of rows, those of known label as pure bags of their own.

    The noise in the number of instances stays what it was, and so grows as a share of the rest.
    """
    n_classes = 2 if shares.ndim == 1 else shares.shape[1]
    if known.max() >= n_classes:
        raise ValueError(f"Label {known.max()} does not fit proportions of {n_classes} classes.")
    per_class = np.column_stack([1 - shares, shares]) if shares.ndim == 1 else shares.copy()
    labelled = known >= 0
    inside = labelled & (codes >= 0)
    taken = np.zeros((len(ids), n_classes))
    np.add.at(taken, (codes[inside], known[inside]), 1 if times is None else times[inside])
    left, held = sizes - taken.sum(axis=1), per_class * sizes[:, None]
    whole = np.round(held)
    rest = np.where(np.abs(held - whole) < 1e-9 * sizes[:, None], whole, held) - taken
    exact = exact_bags(noise, len(ids))
    # a share rounded in print is off by less than half an instance
    refuse(
        (rest < -0.5).any(axis=1) & exact,
        ids,
        "The labels of bag {} contradict its proportion: more rows of one class are labelled than it "
        "can hold.",
    )
    rest[exact] = np.clip(rest[exact], 0, None)
    touched = (left < sizes) & (left > 0)
    per_class[touched] = rest[touched] / rest[touched].sum(axis=1, keepdims=True)
    others = codes[~labelled]
    proportion = np.eye(n_classes)[known]
    proportion[~labelled] = per_class[others]
    if shares.ndim == 1:
        proportion = proportion[:, 1]
    size = np.ones(len(codes), dtype=np.int64)
    size[~labelled] = left[others]
    bag_of_row = _own_ids(codes, ids, labelled)
    deviation = None
    if noise is not None:
        deviation = np.zeros_like(proportion)
        deviation[~labelled] = (noise * _aligned(sizes / np.maximum(left, 1), noise))[others]
    return [bag_of_row, proportion, size, deviation]


def _own_ids(codes: Ints, ids: NDArray[Any], labelled: Bools) -> NDArray[Any]:
    """Bag ids with a new one for every labelled row."""
    number = np.flatnonzero(labelled)
    if ids.dtype.kind == "M":
        ids = ids.astype(str)
    if ids.dtype.kind in "iu":
        start = int(ids.max()) + 1
        stop = start + len(number)
        new = np.arange(start, stop, dtype=np.int64 if stop < 2**63 else np.uint64)
        ids = ids.astype(new.dtype)
    else:
        prefix = "labelled row "
        while any(str(i).startswith(prefix) for i in ids):
            prefix = "_" + prefix
        new = np.array([f"{prefix}{i}" for i in number])
    bag = np.empty(len(codes), dtype=np.result_type(ids.dtype, new.dtype))
    bag[~labelled] = ids[codes[~labelled]]
    bag[labelled] = new
    return bag
