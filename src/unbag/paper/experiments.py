"""The paper's experiments: their settings, the data of a trial, and what each method makes of it.

Each experiment takes a data set, a range from which the proportions of bags are drawn uniformly
and a bag size. In the first table the number of training instances is fixed (8,192 for Adult,
6,144 for MAGIC), in the second the number of bags (16 and 12).

A folder of results holds a line for every trial in ``rows.jsonl``. So a run that was killed goes on
where it was, and two runs on the same folder do not spoil each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import Bunch, check_random_state
from threadpoolctl import threadpool_limits

from unbag._arrays import Floats, Ints
from unbag._checks import check_choice
from unbag._provenance import provenance
from unbag.datasets import load_adult, load_magic, make_bags, make_random_bags
from unbag.models import LLPClassifier
from unbag.paper.alternating_svm import AlternatingSVMClassifier
from unbag.paper.invcal import InvCalClassifier
from unbag.paper.lmmcm import LMMCMClassifierCV
from unbag.paper.proportion_risk import ProportionRiskClassifier
from unbag.paper.rows import Row, load_rows, run_and_keep

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


# --- methods and their trials -----------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """An estimator, which settings it chooses itself, and what it is fitted to."""

    estimator: Any
    chosen: tuple[str, ...]
    sees_labels: bool = False


_AS_PUBLISHED = LMMCMClassifierCV(
    10.0 ** -np.arange(6), selection="folds", gamma="scale", weights="pairs"
)

METHODS: dict[str, Method] = {
    "lmmcm-paper": Method(_AS_PUBLISHED, ("alpha_",)),
    "lmmcm": Method(LMMCMClassifierCV(correction="nonnegative"), ("alpha_",)),
    "likelihood": Method(LLPClassifier(), ()),
    "invcal": Method(InvCalClassifier(), ("C_", "epsilon_", "gamma_")),
    "alter-psvm": Method(AlternatingSVMClassifier(), ("C_", "C_bag_", "gamma_")),
    "epr": Method(ProportionRiskClassifier(), ("alpha_",)),
    "labels": Method(LLPClassifier(), (), sees_labels=True),
}


@dataclass(frozen=True)
class Task:
    """One trial (number ``seed``) of one method, by its name in `METHODS`."""

    setting: Setting
    method: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its file, which says all about it."""
        s = self.setting
        share = "iid" if s.sampling == "iid" else f"{s.proportions[0]:g}-{s.proportions[1]:g}"
        encoded = "-standardized" if s.standardize_all else ""
        return f"table{s.table}_{s.dataset}{encoded}_{share}_{s.bag_size}_{self.method}_{self.seed}"


def make_tasks(
    *,
    tables: Sequence[int] = (1,),
    datasets: Sequence[str] = ("adult", "magic"),
    ranges: Sequence[tuple[float, float]] = ((0.0, 0.5), (0.5, 1.0)),
    bag_sizes: Sequence[int] = (8, 32, 128, 512),
    methods: Sequence[str] = ("lmmcm",),
    trials: int = 5,
    sampling: Sampling = "paper",
    standardize_all: bool = False,
) -> list[Task]:
    """List the trials of all combinations; the first trial of everything comes first.

    Methods are names in `METHODS`; random bags have no ``ranges`` of the true proportions.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        known = ", ".join(METHODS)
        raise ValueError(f"There is no method {unknown[0]!r}; the methods are {known}.")
    if trials < 1:
        raise ValueError(f"The number of trials must be at least 1, not {trials}.")
    shares = [(0.0, 1.0)] if sampling == "iid" else ranges
    return [
        Task(Setting(dataset, share, size, table, sampling, standardize_all), method, seed)
        for seed, table, dataset, share, size, method in product(
            range(trials), tables, datasets, shares, bag_sizes, methods
        )
    ]


def run_task(task: Task) -> Row:
    """Fit one method to one trial, and score it with the labels that it did not see.

    One thread each: trials run side by side, and their seconds are core-seconds.
    """
    method = METHODS[task.method]
    model = clone(method.estimator)
    with threadpool_limits(1), parallel_config("sequential"):
        trial = make_trial(task.setting, task.seed)
        start = time.perf_counter()
        model = model.fit(trial.X, trial.labels if method.sees_labels else trial.y)
        seconds = time.perf_counter() - start
        scores = model.decision_function(trial.X_test)
    setting = asdict(task.setting)
    low, high = setting.pop("proportions")
    return {
        "task": task.name,
        **setting,
        "low": low,
        "high": high,
        "n_bags": task.setting.n_bags,
        "method": task.method,
        "seed": task.seed,
        "auc": float(roc_auc_score(trial.labels_test, scores)),
        "ber": float(1 - balanced_accuracy_score(trial.labels_test, scores > 0)),
        "chosen": {name.rstrip("_"): float(getattr(model, name)) for name in method.chosen},
        "seconds": round(seconds, 3),
        **provenance(),
    }


def run_tasks(
    tasks: Iterable[Task],
    folder: Path,
    jobs: int = 1,
    command: str | None = None,
) -> Iterator[Row]:
    """Run what the folder does not hold yet, and yield each row when it is written.

    So many ``jobs`` run at a time; rows say that they come from ``command``.
    """
    left = [{"task": task} for task in pending(tasks, folder)]
    for rows in run_and_keep(_rows_of, left, folder / "rows.jsonl", jobs, command):
        yield from rows


def _rows_of(task: Task) -> list[Row]:
    return [run_task(task)]


def pending(tasks: Iterable[Task], folder: Path) -> list[Task]:
    """List the tasks that the folder does not hold yet."""
    done = {row["task"] for row in read_rows(folder)}
    return [task for task in tasks if task.name not in done]


def read_rows(folder: Path) -> list[Row]:
    """Read all finished trials of a folder where `run_tasks` wrote, in the order of their names."""
    found = {row["task"]: row for row in load_rows(folder / "rows.jsonl")}
    return [found[name] for name in sorted(found)]
