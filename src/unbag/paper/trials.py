"""Settings of the paper's experiments, and the data of a trial.

Each experiment takes a data set, a range from which the proportions of bags are drawn uniformly
and a bag size. In the first table the number of training instances is fixed (8,192 for Adult,
6,144 for MAGIC), in the second the number of bags (16 and 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import Bunch, check_random_state

from unbag._arrays import Floats, Ints
from unbag._checks import check_choice
from unbag.datasets import load_adult, load_magic, make_bags, make_random_bags

Sampling = Literal["paper", "iid"]

N_INSTANCES: dict[str, int] = {"adult": 8192, "magic": 6144}
N_BAGS: dict[str, int] = {"adult": 16, "magic": 12}


@dataclass(frozen=True)
class Setting:
    """One cell of the paper's tables.

    Parameters
    ----------
    dataset : {"adult", "magic"}
        The data set.
    proportions : (low, high)
        Range of the bags' true proportions; with ``sampling="iid"`` it has no effect.
    bag_size : int
        Instances in every bag.
    table : {1, 2}, default=1
        Whether the number of instances or the number of bags is fixed.
    sampling : {"paper", "iid"}, default="paper"
        Bags of different mixtures, or rows shuffled at random as in most other papers.
    standardize_all : bool, default=False
        Whether one-hot columns are standardised as well, as the published code does.

    Examples
    --------
    >>> from unbag.paper import Setting
    >>> Setting("magic", (0.0, 0.5), 128).n_bags
    48
    """

    dataset: str
    proportions: tuple[float, float]
    bag_size: int
    table: int = 1
    sampling: Sampling = "paper"
    standardize_all: bool = False

    def __post_init__(self) -> None:
        check_choice(self.dataset, N_INSTANCES, "dataset")
        if self.table not in (1, 2):
            raise ValueError(f"table must be 1 or 2, not {self.table!r}.")
        check_choice(self.sampling, ("paper", "iid"), "sampling")
        low, high = self.proportions
        if not 0 <= low < high <= 1:
            raise ValueError(f"proportions must satisfy 0 <= low < high <= 1, not {low}, {high}.")
        most = N_INSTANCES[self.dataset] // 4
        if not 2 <= self.bag_size <= most:
            raise ValueError(f"The bag size must lie between 2 and {most}, not be {self.bag_size}.")

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        if self.table == 2:
            return N_BAGS[self.dataset]
        return N_INSTANCES[self.dataset] // self.bag_size


@dataclass(frozen=True, eq=False)
class Trial:
    """Data of one trial: instances to train on with their bags y, and instances to score.

    Labels are there for scoring only.
    """

    X: Floats
    y: NDArray[np.void]
    labels: NDArray[np.int64]
    X_test: Floats
    labels_test: NDArray[np.int64]


def make_trial(setting: Setting, seed: int) -> Trial:
    """Draw the bags of one trial and encode the features.

    Adult has a test file of its own; of MAGIC a random fifth is held out. Numerical columns are
    standardised with mean and deviation of the training instances, categorical ones one-hot
    encoded.

    Parameters
    ----------
    setting : Setting
        Data set, proportions and sizes.
    seed : int
        Number of the trial.

    Returns
    -------
    trial : Trial
        Bags to train on, and rows to score.

    Examples
    --------
    >>> from unbag.paper import Setting, make_trial
    >>> trial = make_trial(Setting("magic", (0.0, 0.5), 512), seed=0)
    >>> len(trial.y) == len(trial.labels)
    True
    """
    rng = check_random_state(seed)
    train, test = _split(setting.dataset, rng)
    if setting.sampling == "iid":
        index, y = make_random_bags(
            train.target, setting.bag_size, n_bags=setting.n_bags, random_state=rng
        )
    else:
        index, y = make_bags(
            train.target,
            setting.bag_size,
            setting.proportions,
            n_bags=setting.n_bags,
            random_state=rng,
        )
    encoder = make_encoder(train, setting.standardize_all)
    X = encoder.fit_transform(train.frame.iloc[index])
    return Trial(X, y, train.target[index], encoder.transform(test.frame), test.target)


def make_encoder(data: Bunch, standardize_all: bool = False) -> Pipeline:
    """Standardise the numerical columns of a data set and one-hot encode the others."""
    columns = ColumnTransformer(
        [
            ("numerical", StandardScaler(), data.numerical),
            (
                "categorical",
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                data.categorical,
            ),
        ]
    )
    return make_pipeline(columns, StandardScaler() if standardize_all else "passthrough")


def _split(dataset: str, rng: Any) -> tuple[Bunch, Bunch]:
    if dataset == "adult":
        return load_adult("train"), load_adult("test")
    data = load_magic()
    rows = rng.permutation(len(data.target))
    cut = len(rows) // 5
    return _rows(data, rows[cut:]), _rows(data, rows[:cut])


def _rows(data: Bunch, rows: Ints) -> Bunch:
    return Bunch(**{**data, "frame": data.frame.iloc[rows], "target": data.target[rows]})
