"""Boosted trees on a cluster of separate processes, of which some are killed.

They take a minute, and are a command of their own: ``UNBAG_CLUSTER=1 pytest`` with this file.
"""

import os
import signal
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xgboost
from dask.distributed import Client, LocalCluster

from unbag import LLPBoostingClassifier
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedBoostedClassifier
from unbag.distributed.together import Group, LostWorkerError, present_workers, run_together

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(os.environ.get("UNBAG_CLUSTER") != "1", reason="UNBAG_CLUSTER is not 1"),
]

DATA = make_gaussian_bags(n_bags=24, bag_size=25, n_features=3, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
# few values have bins of their own
X, y = DATA.X[ORDER].round(2), DATA.y[ORDER]
N_WORKERS = 3


def trees(**options):
    settings = {"n_estimators": 20, "cv": 3, "n_jobs": 1, "start": "zero", **options}
    return LLPBoostingClassifier((2, 4), estimator=xgboost.XGBClassifier(), **settings)


def collections():
    return da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)


@pytest.fixture(scope="module")
def cluster():
    options = {"threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set({"distributed.scheduler.no-workers-timeout": "60s"}),
    ):
        # workers import this file for what it defines, by the name that pytest gave it
        patch.syspath_prepend(Path(__file__).parents[__name__.count(".")])
        with LocalCluster(n_workers=N_WORKERS, **options) as cluster, Client(cluster):
            yield cluster


@pytest.fixture
def client(cluster):  # noqa: ARG001
    client = Client.current()
    client.wait_for_workers(N_WORKERS, timeout=60)
    return client


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("objective", ["likelihood", "forward"])
def test_equals_the_same_in_memory(objective):
    model = DistributedBoostedClassifier(trees(objective=objective)).fit(*collections())
    expected = trees(objective=objective).fit(X, y)
    assert model.to_local().n_estimators_ == expected.n_estimators_
    scores = model.decision_function(collections()[0]).compute()
    np.testing.assert_allclose(scores, expected.decision_function(X), atol=1e-5)


def kill_one_in_mid_fit(client, killed):
    """Kill a worker once all of them grow trees."""
    pids = client.run(os.getpid)

    def growing():
        return [
            worker
            for worker, keys in client.processing().items()
            if any("_join_in" in str(key) for key in keys)
        ]

    while len(growing()) < N_WORKERS:
        time.sleep(0.01)
    time.sleep(1)
    worker = growing()[-1]
    os.kill(pids[worker], signal.SIGKILL)
    killed.append(worker)


def test_a_killed_worker_is_survived(client, caplog):
    long = trees(n_estimators=200, early_stopping_rounds=200, cv=5, bag_effect=0)
    killed = []
    killer = threading.Thread(target=kill_one_in_mid_fit, args=(client, killed))
    killer.start()
    model = DistributedBoostedClassifier(long).fit(*collections()).to_local()
    killer.join()
    assert len(killed) == 1
    assert "Training begins anew, as workers were lost" in caplog.text
    expected = long.fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-5)


def add_up_but_one(data, rank_of):  # noqa: ARG001
    rank = xgboost.collective.get_rank()
    if rank == rank_of:
        raise OverflowError(f"no more, says {rank}")
    return xgboost.collective.allreduce(np.ones(1), xgboost.collective.Op.SUM)


def test_an_error_of_one_is_what_is_told(client):
    def task(group):
        pieces = [[dask.delayed(1)] for _ in group.workers]
        return group.run(add_up_but_one, pieces, sum, 1)

    with pytest.raises(OverflowError, match="no more, says 1"):
        run_together(task)
    assert len(present_workers(client)) == N_WORKERS


@pytest.mark.usefixtures("client")
def test_what_xgboost_does_not_take_is_told_once(caplog):
    odd = trees(params={"monotone_constraints": "(5,5,5,5,5)"})
    with pytest.raises(ValueError, match="monotone"):
        DistributedBoostedClassifier(odd).fit(*collections())
    assert "anew" not in caplog.text


def test_a_group_that_is_always_lost_is_given_up():
    tries = []

    def task(group):
        tries.append(group)
        raise LostWorkerError("away")

    with pytest.raises(LostWorkerError, match="away"):
        run_together(task)
    assert len(tries) == 4
    assert all(isinstance(group, Group) for group in tries)
