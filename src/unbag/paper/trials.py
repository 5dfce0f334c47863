"""Settings of the paper's experiments, and the data of a trial.

Each experiment takes a data set, a range from which the proportions of bags are drawn uniformly
and a bag size; the number of training instances is fixed (8,192 for Adult, 6,144 for MAGIC).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import Bunch, check_random_state

from unbag.datasets import load_adult, load_magic, make_bags

Dataset = Literal["adult", "magic"]

N_INSTANCES: dict[str, int] = {"adult": 8192, "magic": 6144}

# Mean test AUC of LMMCM over five trials in the paper's first table.
PAPER_AUC: dict[tuple[str, tuple[float, float], int], float] = {
    ("adult", (0.0, 0.5), 8): 0.8728,
    ("adult", (0.0, 0.5), 32): 0.8693,
    ("adult", (0.0, 0.5), 128): 0.8669,
    ("adult", (0.0, 0.5), 512): 0.8674,
    ("adult", (0.5, 1.0), 8): 0.8584,
    ("adult", (0.5, 1.0), 32): 0.8644,
    ("adult", (0.5, 1.0), 128): 0.8601,
    ("adult", (0.5, 1.0), 512): 0.8500,
    ("magic", (0.0, 0.5), 8): 0.8909,
    ("magic", (0.0, 0.5), 32): 0.8799,
    ("magic", (0.0, 0.5), 128): 0.8753,
    ("magic", (0.0, 0.5), 512): 0.8734,
    ("magic", (0.5, 1.0), 8): 0.8911,
    ("magic", (0.5, 1.0), 32): 0.8790,
    ("magic", (0.5, 1.0), 128): 0.8684,
    ("magic", (0.5, 1.0), 512): 0.8567,
}


@dataclass(frozen=True)
class Setting:
    """One cell of the paper's first table."""

    dataset: Dataset
    proportions: tuple[float, float]
    bag_size: int

    def __post_init__(self) -> None:
        if self.dataset not in N_INSTANCES:
            raise ValueError(f"dataset must be 'adult' or 'magic', not {self.dataset!r}.")
        low, high = self.proportions
        if not 0 <= low < high <= 1:
            raise ValueError(f"proportions must satisfy 0 <= low < high <= 1, not {low}, {high}.")

    @property
    def n_bags(self) -> int:
        """Number of bags that make up the fixed number of instances."""
        return N_INSTANCES[self.dataset] // self.bag_size


@dataclass(frozen=True, eq=False)
class Trial:
    """Data of one trial: bags to train on; labels are there for scoring only."""

    X: NDArray[np.float64]
    y: NDArray[np.void]
    labels: NDArray[np.int64]
    X_test: NDArray[np.float64]
    labels_test: NDArray[np.int64]


def make_trial(setting: Setting, seed: int) -> Trial:
    """Draw the bags of one trial and encode the features.

    Adult has a test file of its own; of MAGIC a random fifth is held out. Numerical columns are
    standardised with mean and deviation of the training instances, categorical ones one-hot
    encoded.
    """
    rng = check_random_state(seed)
    train, test = _split(setting.dataset, rng)
    index, y = make_bags(
        train.target,
        setting.bag_size,
        setting.proportions,
        n_bags=setting.n_bags,
        random_state=rng,
    )
    encoder = make_encoder(train)
    X = encoder.fit_transform(train.frame.iloc[index])
    return Trial(X, y, train.target[index], encoder.transform(test.frame), test.target)


def make_encoder(data: Bunch) -> ColumnTransformer:
    """Standardise the numerical columns of a data set and one-hot encode the others."""
    return ColumnTransformer(
        [
            ("numerical", StandardScaler(), data.numerical),
            (
                "categorical",
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                data.categorical,
            ),
        ]
    )


def _split(dataset: Dataset, rng: Any) -> tuple[Bunch, Bunch]:
    if dataset == "adult":
        return load_adult("train"), load_adult("test")
    data = load_magic()
    rows = rng.permutation(len(data.target))
    cut = len(rows) // 5
    return _rows(data, rows[cut:]), _rows(data, rows[:cut])


def _rows(data: Bunch, rows: NDArray[np.intp]) -> Bunch:
    return Bunch(**{**data, "frame": data.frame.iloc[rows], "target": data.target[rows]})
