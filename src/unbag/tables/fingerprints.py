"""Fingerprints of bags, by which a model file knows those that it was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag.bags.bags import check_bag_target

# Of more bags, those with the smallest fingerprints are kept: the same ones, whatever the order.
_MOST = 1000


def make_fingerprints(X: Any, y: Any) -> dict[str, Any]:
    """Fingerprints of bags as a model file keeps them: some kilobytes.

    A bag is known again by its rows, in any order, and not by its name: the same districts come
    again each month with other people.

    Parameters
    ----------
    X : pandas DataFrame
        Features, as a schema has them.
    y : structured array from `unbag.bag_target`
        The bag of each row.

    Returns
    -------
    dict
        With the keys ``version``, ``n_bags`` and ``bags``, the smallest fingerprints.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import bag_target
    >>> from unbag.tables.fingerprints import count_seen, make_fingerprints
    >>> X = pd.DataFrame({"age": [31, 47, 64, 52]})
    >>> y = bag_target(["north", "north", "south", "south"], [0.5, 0.5, 0.0, 0.0])
    >>> kept = make_fingerprints(X, y)
    >>> count_seen(kept, X[::-1], y[::-1]), count_seen(kept, X + 1, y)
    (2, 0)
    """
    found = sorted(_fingerprints(X, y))
    return {"version": 1, "n_bags": len(found), "bags": found[:_MOST]}


def count_seen(kept: dict[str, Any], X: Any, y: Any) -> int:
    """Number of bags whose fingerprints are kept.

    Parameters
    ----------
    kept : dict
        From `make_fingerprints`.
    X : pandas DataFrame
        Features, as a schema has them.
    y : structured array from `unbag.bag_target`
        The bag of each row.

    Returns
    -------
    int
        The number; of more than 1000 training bags not all are kept, and it is a lower bound.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import bag_target
    >>> from unbag.tables.fingerprints import count_seen, make_fingerprints
    >>> X, y = pd.DataFrame({"age": [31, 47]}), bag_target(["north", "south"], [0.0, 1.0])
    >>> count_seen(make_fingerprints(X, y), X, y)
    2
    """
    return len(set(kept["bags"]) & set(_fingerprints(X, y)))


def _fingerprints(X: Any, y: Any) -> list[str]:
    """One for each bag: the sum of what its rows are hashed to, which has no order."""
    from pandas.util import hash_pandas_object

    # text that is missing is None in one file format and NaN in another
    text = X.select_dtypes(exclude=["number", "bool", "datetime"])
    X = X.assign(**{name: text[name].astype(object).where(text[name].notna(), "") for name in text})
    rows = hash_pandas_object(X, index=False).to_numpy()
    bags = check_bag_target(y)
    sums = np.zeros(bags.n_bags, np.uint64)
    np.add.at(sums, bags.index, rows)
    return [f"{total:016x}-{size}" for total, size in zip(sums, bags.sizes, strict=True)]
