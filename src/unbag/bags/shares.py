"""Checks of what is known of a bag: valid proportions, the size of their noise, whole bags.

Every reader of a target checks it here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Bools, Floats, Ints

# Shares that were divided and printed elsewhere rarely sum to exactly one.
_SUM_TOLERANCE = 1e-6


def bag_name(bag_id: Any) -> str:
    """Write a bag's id as the user wrote it."""
    return repr(bag_id.item() if isinstance(bag_id, np.generic) else bag_id)


def refuse(wrong: Any, ids: Any, text: str, *values: Any) -> None:
    """Raise the text about the first bag that is wrong, if one is: its id and its values."""
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), wrong.shape)
        shown = [value[place if value.ndim == wrong.ndim else place[0]] for value in values]
        raise ValueError(text.format(bag_name(ids[place[0]]), *shown))


def check_shares(shares: Floats, ids: NDArray[Any], noise: Floats | None = None) -> Floats:
    """One valid share per bag, or one per bag and class.

    Noisy shares may lie outside [0, 1]. Those of several classes are made to sum to one by
    spreading what is missing over the classes in proportion to the variance of their noise: the
    linear unbiased estimate of least variance.
    """
    if shares.ndim > 2 or (shares.ndim == 2 and shares.shape[1] < 2):
        raise ValueError(
            "proportion must be the share of the positive class, or one column per class "
            f"(two or more); its shape is {shares.shape}."
        )
    rows = shares.reshape(len(ids), -1 if len(ids) else 1)
    wrong = ~np.isfinite(rows).all(axis=1)
    refuse(wrong, ids, "The proportion of bag {} is not a finite number.")
    exact = exact_bags(noise, len(ids))
    wrong = ((rows < 0) | (rows > 1)).any(axis=1) & exact
    refuse(wrong, ids, "The proportion of bag {} is {}, outside [0, 1].", shares)
    if shares.ndim == 2:
        total = shares.sum(axis=1)
        wrong = (np.abs(total - 1) > _SUM_TOLERANCE) & exact
        refuse(wrong, ids, "The shares of bag {} sum to {:g}, not to 1.", total)
        if noise is None:
            return shares / total[:, None]
        weight = np.where(exact[:, None], shares, noise**2)
        shares = shares + (1 - total)[:, None] * weight / weight.sum(axis=1, keepdims=True)
    return shares


def check_range(low: float, high: float) -> None:
    """Refuse ends between which no shares lie."""
    if not 0 <= low <= high <= 1:
        raise ValueError(
            f"proportions must satisfy 0 <= low <= high <= 1, not ({low:g}, {high:g})."
        )


def check_support(lowest: float, highest: float) -> None:
    """Refuse a distribution that gives values other than proportions."""
    if lowest < 0 or highest > 1:
        raise ValueError(
            f"The distribution of proportions reaches from {lowest:g} to {highest:g}; it must stay "
            "inside [0, 1]."
        )


def one_row_each(y: Any) -> tuple[NDArray[np.void], Ints, Ints]:
    """The first row of a target for each bag, where it stands, and the bag of every row."""
    ids, first, codes = np.unique(y["bag"], return_index=True, return_inverse=True)
    for name in ("proportion", "noise", "size", "low", "high"):
        if name in y.dtype.names and len(y):
            values = np.asarray(y[name], dtype=float)
            check_constant(values, values[first], codes, ids, name)
    return y[first], first, codes


def read_known(y: NDArray[np.void], rows: NDArray[np.int64]) -> tuple[Floats, Floats | None, Bools]:
    """Read what is known of bags, each from one row of a target and with so many rows in all."""
    ids, deviation = y["bag"], None
    if "noise" in (y.dtype.names or ()):
        deviation = np.asarray(y["noise"], dtype=float)
        if deviation.shape != y["proportion"].shape:
            raise ValueError("The fields 'noise' and 'proportion' of the target differ in shape.")
        check_noise(deviation, ids)
    proportions = check_shares(np.asarray(y["proportion"], dtype=float), ids, deviation)
    if proportions.ndim == 1:
        proportions = np.column_stack([1 - proportions, proportions])
    refuse(
        rows % y["size"] != 0,  # a bag drawn several times by a bootstrap is still whole
        ids,
        "Bag {} has {} of its {} instances here: a proportion says nothing about part of a bag. "
        "Split whole bags (unbag.BagKFold, unbag.BagShuffleSplit), or call bag_target again if "
        "these rows are now the bag.",
        rows,
        y["size"],
    )
    single = (y["size"] == 1) & (proportions.max(axis=1) == 1)
    if deviation is None or not deviation.any():
        return proportions, None, single
    return proportions, noise_covariance(deviation), single & exact_bags(deviation, len(deviation))


def check_multiplicity(values: Any, n_rows: int) -> NDArray[np.int64]:
    """Read multiplicities: positive whole numbers, one for each row."""
    try:
        given = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("multiplicity must hold whole numbers, one for each row.") from None
    if given.shape != (n_rows,):
        raise ValueError(f"multiplicity must hold {n_rows} numbers, one for each row.")
    wrong = ~((given >= 1) & (given == np.round(given)) & (given < 2.0**53))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"The multiplicity of row {row + 1} is {given[row]:g}; it must be a whole number, at "
            "least 1."
        )
    return given.astype(np.int64)


def check_noise(noise: Floats, ids: NDArray[Any]) -> None:
    """Refuse what is not a standard deviation."""
    wrong = ~(np.isfinite(noise) & (noise >= 0)).reshape(len(ids), -1).all(axis=1)
    text = "The noise of bag {} is a standard deviation: it must be finite and not negative."
    refuse(wrong, ids, text)


def exact_bags(noise: Floats | None, n_bags: int) -> Bools:
    """Mark the bags without any noise."""
    if noise is None:
        return np.ones(n_bags, dtype=bool)
    return (noise.reshape(n_bags, -1) == 0).all(axis=1)


def noise_covariance(noise: Floats) -> Floats:
    """Covariance V_i of the noise in the shares of each bag, from its standard deviations.

    Two classes, one share known with standard deviation s: V = s² [[1, −1], [−1, 1]]. Several
    classes, with independent noise of variances D = diag(s²) and shares then made to sum to one
    as in `check_shares`: V = D − D11ᵀD/(1ᵀD1). Rows and columns of V sum to zero.
    """
    variance = noise**2
    if noise.ndim == 1:
        return variance[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    total = variance.sum(axis=1)
    part = np.divide(variance, total[:, None], out=np.zeros_like(noise), where=total[:, None] > 0)
    diagonal = variance[:, :, None] * np.eye(noise.shape[1])
    return diagonal - variance[:, :, None] * part[:, None, :]


def check_constant(
    values: Floats, per_bag: Floats, codes: Ints, ids: NDArray[Any], what: str
) -> None:
    """Refuse values that differ between the rows of a bag."""
    differs = values != per_bag[codes]
    both_nan = np.isnan(values) & np.isnan(per_bag[codes])
    differs = (differs & ~both_nan).reshape(len(codes), -1).any(axis=1)
    if differs.any():
        bag = codes[int(differs.argmax())]
        raise ValueError(
            f"The {what} is not the same for all instances of bag {bag_name(ids[bag])}."
        )
