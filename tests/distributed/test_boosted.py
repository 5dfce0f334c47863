"""Boosted trees on Dask collections: those of the same rows in memory."""

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xgboost

import unbag.distributed.boosted as boosted
from unbag import LLPBoostingClassifier, LLPLinearClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedBoostedClassifier
from unbag.distributed.instances import Instances

pytestmark = pytest.mark.usefixtures("in_this_thread")

DATA = make_gaussian_bags(n_bags=24, bag_size=25, n_features=3, random_state=0)
# bags span partitions; few values have bins of their own
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
X, y = DATA.X[ORDER].round(2), DATA.y[ORDER]


def trees(num_leaves=(2, 4), **options):
    settings = {"n_estimators": 15, "cv": 3, "n_jobs": 1, "start": "zero", **options}
    return LLPBoostingClassifier(num_leaves, estimator=xgboost.XGBClassifier(), **settings)


def collections(X=X, y=y, rows=110):
    return da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)


def three_classes():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 20)
    labels = np.concatenate([rng.choice(3, 12, p=share) for share in shares])
    bag = np.repeat(np.arange(20), 12)
    counts = np.stack([np.bincount(bag, labels == c) for c in range(3)], axis=1)
    order = rng.permutation(len(bag))
    X = (rng.normal(size=(len(bag), 3)) + 2 * np.eye(3)[labels]).round(2)
    return X[order], bag_target(bag, counts=counts[bag])[order]


def with_noise():
    rng = np.random.default_rng(1)
    noisy = DATA.y["proportion"][::25] + rng.normal(scale=0.02, size=24)
    bag = y["bag"]
    return X, bag_target(bag, noisy[bag], noise=np.full(len(bag), 0.02))


def with_effects():
    rng = np.random.default_rng(2)
    bag = np.repeat(np.arange(40), 30)
    X = (rng.normal(size=(len(bag), 2)) + rng.normal(size=(40, 2))[bag]).round(2)
    odds = X[:, 0] + 1.5 * rng.normal(size=40)[bag]
    labels = rng.random(len(bag)) < 1 / (1 + np.exp(-odds))
    order = rng.permutation(len(bag))
    return X[order], bag_target(bag, counts=np.bincount(bag, labels)[bag])[order]


def with_labels():
    bag = np.where(y["bag"] < 4, 100 + np.arange(len(y)), y["bag"])
    share = np.where(y["bag"] < 4, DATA.labels[ORDER], y["proportion"])
    return X, bag_target(bag, share)


CASES = {
    "likelihood": ((X, y), {}),
    "forward": ((X, y), {"objective": "forward"}),
    "refit": ((X, y), {"refit": True}),
    "no choice": ((X, y), {"num_leaves": 3, "cv": None}),
    "three classes": (three_classes(), {"num_leaves": 3, "n_estimators": 5}),
    "noise": (with_noise(), {"num_leaves": 3}),
    "noise, forward": (with_noise(), {"num_leaves": 3, "objective": "forward"}),
    "effects": (with_effects(), {"num_leaves": 3}),
    "labels": (with_labels(), {"num_leaves": 3}),
}


def assert_same(found, expected):
    assert found.n_estimators_ == expected.n_estimators_
    assert found.num_leaves_ == expected.num_leaves_
    assert found.objective_ == expected.objective_
    assert found.looks_ == expected.looks_
    assert found.bag_effect_ == pytest.approx(expected.bag_effect_, rel=1e-6)
    for one, other in zip(found.selection_path_, expected.selection_path_, strict=True):
        np.testing.assert_allclose(one[2], other[2], rtol=1e-5)
    np.testing.assert_allclose(found.feature_importances_, expected.feature_importances_, 1e-4)


@pytest.mark.parametrize("case", ["likelihood", "forward", "no choice", "three classes"])
def test_equals_the_same_in_memory(case):
    (rows, target), options = CASES[case]
    found = DistributedBoostedClassifier(trees(**options)).fit(*collections(rows, target))
    expected = trees(**options).fit(rows, target)
    assert_same(found.to_local(), expected)
    scores = found.decision_function(da.from_array(rows, chunks=(200, -1))).compute()
    np.testing.assert_allclose(scores, expected.decision_function(rows), atol=1e-5)


def grow_in_threads(estimator, rows, target, n_workers):
    """What several workers find together; each thread is one, and they add things up."""

    def train(*given):
        job = given[-1]
        tracker = xgboost.tracker.RabitTracker(n_workers=n_workers, host_ip="127.0.0.1")
        tracker.start()
        link = tracker.worker_args()
        places = boosted.deal_rows(job, [len(rows)], n_workers)
        entry = job.table.find(target["bag"])
        whose = places.of_entries
        whose = np.arange(len(rows)) % n_workers if whose is None else whose[entry]

        def work(k):
            own = Instances(rows[whose == k].astype(np.float32), entry[whose == k])
            with (
                xgboost.config_context(verbosity=0),
                xgboost.collective.CommunicatorContext(**link),
            ):
                return boosted._grow(own, job)

        with ThreadPoolExecutor(n_workers) as pool:
            found = list(pool.map(work, range(n_workers)))
        tracker.wait_for()
        assert all(one.texts == found[0].texts for one in found)
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosted, "_train", train)
        return DistributedBoostedClassifier(estimator).fit(*collections(rows, target)).to_local()


@pytest.mark.parametrize("case", CASES)
def test_workers_together_equal_one(case):
    (rows, target), options = CASES[case]
    found = grow_in_threads(trees(**options), rows, target, 3)
    expected = trees(**options).fit(rows, target)
    assert_same(found, expected)
    assert (expected.bag_effect_ > 0) == (case == "effects")
    np.testing.assert_allclose(
        found.decision_function(rows), expected.decision_function(rows), atol=1e-5
    )


def test_columns_of_many_values_are_cut_nearly_the_same():
    rows, options = DATA.X[ORDER], {"num_leaves": 4, "n_estimators": 30, "cv": None}
    found = grow_in_threads(trees(**options), rows, y, 2).decision_function(rows)
    expected = trees(**options).fit(rows, y).decision_function(rows)
    assert np.corrcoef(found, expected)[0, 1] > 0.98


def test_a_column_may_be_constant_for_every_worker():
    rows = np.zeros((len(y), 1))
    job_of = partial(grow_in_threads, trees(2, cv=None, objective="forward"))
    with pytest.raises(ValueError, match="No column of X has values that differ"):
        job_of(rows, y, 2)
    # rows are dealt out in turn
    rows[::2] = 1.0
    assert np.isfinite(job_of(rows, y, 2).decision_function(rows)).all()


@pytest.mark.parametrize(
    ("sizes", "n_workers", "expected"),
    [
        ([1, 1, 1, 1], 2, [0, 0, 1, 1]),
        ([9, 1, 1, 1], 3, [0, 1, 1, 1]),
        ([1, 1], 5, [0, 1]),
        ([0, 5, 0], 4, [0, 0, 0]),
    ],
)
def test_every_worker_gets_rows(sizes, n_workers, expected):
    assert boosted._deal(np.array(sizes), n_workers).tolist() == expected


def test_frames_with_categories_and_gaps():
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(np.array(list("abc"))[np.arange(len(y)) % 3]),
            "number": np.where(X[:, 0] > 1, np.nan, X[:, 0]),
        }
    )
    frame.loc[DATA.labels[ORDER] == 1, "kind"] = "c"
    parts = dd.from_pandas(frame, npartitions=4, sort=False)
    sizes = tuple(parts.map_partitions(len).compute())
    model = DistributedBoostedClassifier(trees()).fit(parts, da.from_array(y, chunks=(sizes,)))
    expected = trees().fit(frame, y)
    assert model.to_local().categories_ == expected.categories_
    np.testing.assert_allclose(
        model.decision_function(parts).compute(), expected.decision_function(frame), atol=1e-5
    )
    unknown = parts.assign(kind=parts["kind"].cat.as_unknown())
    with pytest.raises(ValueError, match=r"^The categories of column 'kind' are not known before"):
        DistributedBoostedClassifier(trees()).fit(unknown, da.from_array(y, chunks=(sizes,)))


def test_what_users_get_back():
    estimator = trees(2)
    before = copy(vars(estimator))
    model = DistributedBoostedClassifier(estimator).fit(*collections())
    assert vars(estimator) == before
    assert model.to_local().out_of_fold_scores_ is None
    assert model.predict(collections()[0]).numblocks == (6,)
    assert repr(model).startswith("DistributedBoostedClassifier(LLPBoostingClassifier(")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LLPBoostingClassifier(), "^On Dask trees are grown by XGBoost: give BoostedMCMClassif"),
        (LLPLinearClassifier(), r"^estimator must be a LLPBoostingClassifier, not LinearMCMC"),
        (trees(early_stopping_rounds=0), "early_stopping_rounds must be a whole number"),
        (trees(class_prior=[0, 1]), "class_prior leaves a class out"),
        (trees(cv=[(0, 1)]), "cv must be a whole number or an unbag.BagKFold"),
        (trees(cv=None), "With cv=None nothing is chosen"),
        (trees(start="linear"), "^On Dask trees start from nothing: give start='zero', or leave"),
    ],
)
def test_mistakes_get_one_sentence(estimator, message):
    with pytest.raises(ValueError, match=message):
        DistributedBoostedClassifier(estimator).fit(*collections())


def test_an_old_xgboost_is_refused(monkeypatch):
    monkeypatch.setattr(xgboost, "__version__", "2.1.4")
    with pytest.raises(ImportError, match=r"^On Dask XGBoost 3 or later is needed, not 2.1.4"):
        DistributedBoostedClassifier().fit(*collections())


def test_mistakes_in_the_data_name_their_partition():
    wrong = X.copy()
    wrong[250, 1] = np.inf
    with pytest.raises(ValueError, match=r"^Partition 2: X holds infinity"):
        DistributedBoostedClassifier(trees()).fit(*collections(wrong))
    with pytest.raises(ValueError, match=r"^Partition .: X holds numbers beyond"):
        DistributedBoostedClassifier(trees()).fit(*collections(1e60 * X))
    odd = bag_target(y["bag"], np.clip(y["proportion"] + 0.013, 0, 1))
    with pytest.raises(ValueError, match="which no labels can give"):
        DistributedBoostedClassifier(trees(objective="likelihood")).fit(*collections(X, odd))
