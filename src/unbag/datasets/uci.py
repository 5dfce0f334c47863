"""The two data sets of the paper's experiments, shipped with the package.

Both come from the UCI Machine Learning Repository under CC BY 4.0; ``data/LICENSE`` says whom to
name.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from unbag._checks import check_choice
from unbag.datasets.shipped import FrameBackend, load_shipped

Subset = Literal["train", "test", "all"]

_ADULT_FILES = {
    "train": ("adult-train.csv.xz",),
    "test": ("adult-test.csv.xz",),
    "all": ("adult-train.csv.xz", "adult-test.csv.xz"),
}
_ADULT_CATEGORICAL = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)


def load_adult(subset: Subset = "train", backend: FrameBackend = "pandas") -> Bunch:
    """Load Adult: who earns more than 50,000 dollars a year, by the census of 1994.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The 32,561 rows of the original training file, the 16,281 of the test file, or the
        former followed by the latter. Rows keep their original order.
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        The library whose data frame to return.

    Returns
    -------
    adult : Bunch
        ``frame``, the features; ``target``, 1 for an income over 50,000 dollars and 0 otherwise;
        ``target_names``, the names of these two classes; ``categorical`` and ``numerical``, the
        names of the columns of each kind; ``citation``, whom to name. An unknown value is the
        category ``"?"``.

    Examples
    --------
    >>> from unbag.datasets import load_adult
    >>> adult = load_adult("test")
    >>> adult.frame.shape
    (16281, 14)
    >>> adult.numerical
    ['age', 'fnlwgt', 'education-num', 'capital-gain', 'capital-loss', 'hours-per-week']
    >>> print(f"{adult.target.mean():.3f} of them earn {adult.target_names[1]}")
    0.236 of them earn >50K
    """
    check_choice(subset, _ADULT_FILES, "subset")
    return load_shipped(
        _ADULT_FILES[subset],
        backend,
        categorical=_ADULT_CATEGORICAL,
        number=np.int64,
        target_names=("<=50K", ">50K"),
        citation=(
            "Becker, B. and Kohavi, R. (1996). Adult [Dataset]. UCI Machine Learning Repository, "
            "CC BY 4.0. https://doi.org/10.24432/C5XW20"
        ),
    )


def load_magic(backend: FrameBackend = "pandas") -> Bunch:
    """Load MAGIC: showers of gamma rays or of hadrons, from a telescope's images.

    The 19,020 rows are simulated. They come sorted by class and have no test part of their own;
    the paper tests on all rows it did not train on.

    Parameters
    ----------
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        The library whose data frame to return.

    Returns
    -------
    magic : Bunch
        ``frame``, the features; ``target``, 1 for gamma and 0 for hadron; ``target_names``, the
        original names of these two classes; ``categorical`` (none) and ``numerical``, the names
        of the columns of each kind; ``citation``, whom to name.

    Examples
    --------
    >>> from unbag.datasets import load_magic
    >>> magic = load_magic()
    >>> magic.frame.shape
    (19020, 10)
    >>> print(f"{magic.target.mean():.3f} of them are gamma rays")
    0.648 of them are gamma rays
    """
    return load_shipped(
        ("magic.csv.xz",),
        backend,
        categorical=(),
        number=np.float64,
        target_names=("h", "g"),
        citation=(
            "Bock, R. (2004). MAGIC Gamma Telescope [Dataset]. UCI Machine Learning Repository, "
            "CC BY 4.0. https://doi.org/10.24432/C52C8B"
        ),
    )
