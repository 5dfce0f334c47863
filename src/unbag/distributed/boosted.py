"""Boosted trees on Dask collections, by the distributed training of XGBoost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unbag.distributed.boosted_goal import GoalTogether, effect_together
from unbag.distributed.classifier import DistributedClassifier, example_of, read_collections
from unbag.distributed.instances import CheckX, Instances
from unbag.distributed.partitions import Partitions, is_frame, load_dask, share
from unbag.distributed.table import BagsById
from unbag.distributed.together import Group, run_together
from unbag.models.bag_goal import BagGoal
from unbag.models.boosted import LLPBoostingClassifier, check_goal, keep_trees, no_more_folds
from unbag.models.boosted_settings import Plan, make_plan
from unbag.models.boosted_training import Trained, Trainer
from unbag.models.boosted_xgboost import single_precision, xgboost
from unbag.observations.count_likelihood import check_possible_counts

# Of XGBoost.
_FIRST_VERSION = 3

# Parameters by which a classifier is known to grow trees on bags.
_OF_TREES = {"num_leaves", "early_stopping_rounds", "bag_effect", "refit"}


class DistributedBoostedClassifier(DistributedClassifier):
    """Trains boosted trees on Dask arrays and data frames.

    Trees are grown by XGBoost on all workers of a Dask cluster at once: each has some of the rows,
    and they add up histograms. For the likelihood of counts the rows of a bag are brought together
    on one worker, once; otherwise rows stay in their partitions. Leaves and rounds are chosen on
    bags held out, as by the same classifier in memory. Trees start from nothing, and the result is
    that of ``start="zero"`` with the same rows there, up to rounding and to where XGBoost cuts the
    columns of more than ``max_bin`` values, which it does by quantiles that workers estimate.
    If workers are lost, training begins anew with those that are left.

    Workers hold their rows in single precision, and need XGBoost 3 or later.
    Without a cluster all rows come to this process.

    Parameters
    ----------
    estimator : LLPBoostingClassifier, optional
        With ``estimator=XGBClassifier(...)``, which is the default. ``cv`` is None, a whole number
        or a `unbag.BagKFold`; there is no progress bar.

    Attributes
    ----------
    estimator_ : LLPBoostingClassifier
        The fitted classifier. ``out_of_fold_scores_`` is None.

    Examples
    --------
    >>> import dask.array as da
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.distributed import DistributedBoostedClassifier
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> X, y = da.from_array(data.X, chunks=(400, -1)), da.from_array(data.y, chunks=400)
    >>> model = DistributedBoostedClassifier().fit(X, y)
    >>> bool((model.predict(X).compute() == data.labels).mean() > 0.8)
    True
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def __repr__(self) -> str:
        return f"DistributedBoostedClassifier({self.estimator!r})"

    def fit(self, X: Any, y: Any) -> Self:
        """Choose rounds and leaves on bags held out, and grow the trees.

        Parameters
        ----------
        X : Dask array or data frame of n_instances rows
            Categories of a frame must be known, as after ``X.categorize()``.
        y : Dask array of shape (n_instances,)
            In partitions of the same rows, as in `unbag.distributed.DistributedClassifier`.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        model, plan = _check_estimator(self.estimator)
        collections, check, description, table = read_collections(model, X, y, _example_of(X))
        bags = table.bags
        goal, held = check_goal(model, bags), None
        if goal.name == "likelihood":
            check_possible_counts(table.with_labelled_rows_apart().bags)
        if model.cv is not None:
            table, held = table.fold(no_more_folds(model.cv, bags))
        job = Job(table, held, goal, plan, list(model.categories_), model.refit)
        keep_trees(model, plan.name, _train(collections, check, description.n_rows, job))
        self.estimator_ = model
        return self


@dataclass(frozen=True, eq=False)
class Job:
    """What workers are to do with their rows.

    Attributes
    ----------
    table : BagsById
        Of all bags.
    held : ndarray of bool, shape (n_folds, n_bags), optional
        Bags that each fold holds out.
    goal : BagGoal
    plan : Plan
    categorical : list of int
        Columns that hold codes of categories.
    refit : bool
    """

    table: BagsById
    held: NDArray[np.bool_] | None
    goal: BagGoal
    plan: Plan
    categorical: list[int]
    refit: bool

    def on_threads(self, n_threads: int | None) -> Self:
        """The same with a number of threads, if it was not given."""
        settings = self.plan.settings
        if settings["n_jobs"] is None:
            settings = {**settings, "n_jobs": n_threads}
        return replace(self, plan=replace(self.plan, settings=settings))


@dataclass(frozen=True, eq=False)
class Places:
    """Who gets which rows.

    Attributes
    ----------
    n_workers : int
        Every one of them gets some.
    of_partitions : ndarray of shape (n_partitions,)
    of_entries : ndarray of shape (n_entries,), optional
        If bags are brought together, whoever gets them.
    """

    n_workers: int
    of_partitions: NDArray[np.intp]
    of_entries: NDArray[np.intp] | None = None


def deal_rows(job: Job, n_rows: Sequence[int], n_workers: int) -> Places:
    """Deal rows out to at most so many workers, about as many to one as to another.

    Parameters
    ----------
    n_rows : list of int
        Rows of each partition.
    """
    if job.goal.name != "likelihood":
        places = _deal(np.asarray(n_rows), n_workers)
        return Places(int(places.max()) + 1, places)
    places = _deal(job.table.rows, n_workers)
    return Places(int(places.max()) + 1, np.zeros(len(n_rows), dtype=np.intp), places)


def _deal(sizes: NDArray[Any], n_workers: int) -> NDArray[np.intp]:
    """Neighbours go to the same worker; one whom nothing would fall to is left out."""
    middle = np.cumsum(sizes) - sizes / 2
    wanted = np.minimum(middle * n_workers / sizes.sum(), n_workers - 1).astype(np.intp)
    taken = np.unique(wanted[sizes > 0])
    return np.minimum(np.searchsorted(taken, wanted), len(taken) - 1)


def _check_estimator(estimator: Any) -> tuple[LLPBoostingClassifier, Plan]:
    version = xgboost().__version__
    if int(version.partition(".")[0]) < _FIRST_VERSION:
        raise ImportError(
            f"On Dask XGBoost {_FIRST_VERSION} or later is needed, not {version}: workers of "
            "earlier ones wait for ever if one of them fails."
        )
    if estimator is None:
        estimator = LLPBoostingClassifier(estimator=xgboost().XGBClassifier())
    if not getattr(estimator, "get_params", dict)().keys() >= _OF_TREES:
        raise ValueError(f"estimator must be a LLPBoostingClassifier, not {estimator!r}.")
    plan = make_plan(estimator)
    if plan.name != "xgboost":
        raise ValueError(
            "On Dask trees are grown by XGBoost: give "
            "LLPBoostingClassifier(estimator=xgboost.XGBClassifier())."
        )
    if estimator.start == "linear":
        raise ValueError("On Dask trees start from nothing: give start='zero', or leave it out.")
    return clone(estimator), replace(plan, start="zero")


def _example_of(X: Any) -> Any:
    """A few rows with the columns of a Dask collection, and all categories that it has."""
    if not is_frame(X) or not any(dtype == "category" for dtype in X.dtypes):
        return example_of(X)
    columns = {name: X[name] for name in X.columns}
    categories = {name: c.cat for name, c in columns.items() if c.dtype == "category"}
    unknown = [name for name, found in categories.items() if not found.known]
    if unknown:
        raise ValueError(
            f"The categories of column {unknown[0]!r} are not known before the data are read; use "
            "X.categorize() first."
        )
    import pandas as pd

    n_rows = max(len(found.categories) for found in categories.values())
    return pd.DataFrame(
        {
            name: pd.Categorical(np.resize(categories[name].categories, n_rows))
            if name in categories
            else np.zeros(n_rows)
            for name in columns
        }
    )


def _train(collections: Partitions, check: CheckX, n_rows: Sequence[int], job: Job) -> Trained:
    """Bring the rows to the workers of a group, and grow trees there."""
    table = share(job.table)

    def train(group: Group) -> Trained:
        places = deal_rows(job, n_rows, len(group.workers))
        group = replace(group, workers=group.workers[: places.n_workers])
        cut = collections.along(places.of_partitions.tolist()).map(
            _cut, check, table, places.of_entries, places.n_workers
        )
        pick = load_dask().delayed(_pick)
        pieces = [[pick(rows, k) for (rows,) in cut.items] for k in range(places.n_workers)]
        return group.run(_grow, pieces, _join, job.on_threads(group.n_threads))

    return run_together(train)


def _cut(
    X: Any,
    y: Any,
    place: int,
    check: CheckX,
    table: BagsById,
    of_entries: NDArray[np.intp] | None,
    n_workers: int,
) -> list[Instances]:
    """Rows of a partition for each worker."""
    if len(X) == 0:
        return []
    rows, entry = single_precision(check(X)), table.find(y["bag"])
    whose = np.full(len(entry), place) if of_entries is None else of_entries[entry]
    return [Instances(rows[whose == k], entry[whose == k]) for k in range(n_workers)]


def _pick(pieces: list[Instances], k: int) -> list[Instances]:
    return pieces[k : k + 1]


def _join(pieces: list[list[Instances]]) -> Instances:
    parts = [part for some in pieces for part in some]
    names = ("X", "entry")
    return Instances(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _grow(rows: Instances, job: Job) -> Trained:
    """Train on the rows of one worker, together with the others."""
    table, plan = job.table, job.plan
    bags = replace(table.bags, index=table.bags.index[rows.entry])
    own = {field.name: getattr(job.goal, field.name) for field in fields(BagGoal)}
    goal = GoalTogether(**own, table=table, entry=rows.entry)
    everyone = np.ones((1, bags.n_bags), dtype=bool)
    find_effect = partial(effect_together, goal.offsets(everyone, bags))
    binned = plan.library.rows(rows.X, job.categorical, plan.settings)
    trainer = Trainer(rows.X, binned, bags, plan, job.categorical, verbose=0)
    trained = trainer.run(goal, job.held, job.refit, find_effect)
    told = {name: getattr(trained.goal, name) for name in own}
    return replace(trained, goal=BagGoal(**told), held_out=None)
