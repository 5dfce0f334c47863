"""Categories of a data frame as codes, for learners that split by sets of categories."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from unbag._arrays import Floats
from unbag.terms.encoding import as_frame

_KINDS = (nw.Categorical, nw.Enum)


def find_categories(X: Any) -> dict[int, list[Any]]:
    """Which columns of a frame hold categories, and which these are; none in other tables.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.models.categories import find_categories
    >>> find_categories(pd.DataFrame({"age": [31, 45], "sex": pd.Categorical(["f", "m"])}))
    {1: ['f', 'm']}
    """
    frame = as_frame(X)
    if frame is None:
        return {}
    return {
        position: sorted(frame[name].drop_nulls().unique().to_list(), key=str)
        for position, (name, kind) in enumerate(frame.schema.items())
        if isinstance(kind, _KINDS)
    }


def encode_categories(X: Any, categories: dict[int, list[Any]]) -> Floats:
    """Numbers of a frame, with the place of each category in its list; NaN if it is not there.

    Parameters
    ----------
    X : data frame
    categories : dict
        As `find_categories` found them in the frame that was trained on.
    """
    frame = as_frame(X)
    if frame is None:
        raise ValueError(
            "The model was trained on a data frame with categories and can read them from a data "
            f"frame only, not from a {type(X).__name__}."
        )
    table = np.empty(frame.shape)
    for position, name in enumerate(frame.columns):
        column = frame[name]
        if position in categories:
            code = {category: i for i, category in enumerate(categories[position])}
            table[:, position] = [code.get(value, np.nan) for value in column.to_list()]
        else:
            table[:, position] = _numbers(column)
    return table


def _numbers(column: nw.Series[Any]) -> Floats:
    try:
        return column.cast(nw.Float64()).to_numpy()
    except Exception:  # every library of frames has an error of its own
        raise ValueError(
            f"Column {column.name!r} holds neither numbers nor categories; turn its values into "
            "one or the other, say by .astype('category')."
        ) from None
