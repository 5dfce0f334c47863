"""A cluster of separate processes: workers that die, are slow or come late, and tight memory."""

import os
import signal
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from dask.distributed import Client, LocalCluster, wait
from distributed.utils import get_mp_context

import unbag.distributed.risk as risk
from unbag import LLPLinearClassifier, LLPLinearClassifierCV, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedClassifier, evaluate
from unbag.distributed.instances import Instances
from unbag.distributed.partitions import partitions_of
from unbag.observations.losses import LogisticLoss

# one cluster, not one in every parallel test process
pytestmark = pytest.mark.xdist_group("cluster")

MEMORY = 600_000_000
DATA = make_gaussian_bags(n_bags=24, bag_size=25, n_features=3, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
X, y = DATA.X[ORDER], DATA.y[ORDER]
N_PARTITIONS = 6
ROWS = len(y) // N_PARTITIONS
# every step is that of the fit in memory, so that few of them show as much as many
ESTIMATOR = LLPLinearClassifier(tol=1e-5)
COUNTS = LLPLinearClassifier(alpha=0.1, tol=1e-4, bag_effect=0)


@pytest.fixture(scope="module")
def cluster():
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": MEMORY}
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set(
            {
                # a cluster without workers would wait for some forever
                "distributed.scheduler.no-workers-timeout": "60s",
                # a worker that starts anew takes a second, not five
                "distributed.worker.multiprocessing-method": "forkserver",
            }
        ),
    ):
        get_mp_context().set_forkserver_preload(["distributed", "dask.array", "unbag.distributed"])
        # workers import this file for what it defines, by the name that pytest gave it
        patch.syspath_prepend(Path(__file__).parents[__name__.count(".")])
        with LocalCluster(n_workers=2, **options) as cluster, Client(cluster):
            yield cluster


@pytest.fixture
def client(cluster):  # noqa: ARG001
    # nannies replace workers that were killed; a cluster that shrinks again may fail to close
    # (distributed 2026.8: KeyError of a worker that it removes twice)
    client = Client.current()
    client.wait_for_workers(2, timeout=60)
    return client


def wait_until(holds, what):
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"Waited in vain until {what}.")
        time.sleep(0.01)


def read(number, folder, happening, block):
    """Read a partition, note it down in a folder, and let something happen before."""
    time_read = sum(1 for _ in Path(folder).glob(f"{number}-*"))
    (Path(folder) / f"{number}-{time_read}-{os.getpid()}").touch()
    happening(number, time_read, Path(folder))
    return block


def nothing(number, time_read, folder):
    pass


def dies(number, time_read, folder):  # noqa: ARG001
    if number == 2 and time_read == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def is_slow(number, time_read, folder):
    if number == 0:
        others = range(1, N_PARTITIONS)
        wait_until(
            lambda: all(any(folder.glob(f"{n}-{time_read}-*")) for n in others),
            "all other partitions were read as often",
        )


def collections(folder, happening=nothing):
    task = dask.delayed(read)
    blocks = [
        task(n, str(folder), happening, X[n * ROWS : (n + 1) * ROWS]) for n in range(N_PARTITIONS)
    ]
    parts = [da.from_delayed(block, (ROWS, X.shape[1]), dtype=float) for block in blocks]
    return da.concatenate(parts), da.from_array(y, chunks=ROWS)


def assert_same(model):
    expected = ESTIMATOR.fit(X, y)
    np.testing.assert_allclose(model.to_local().coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(model.to_local().intercept_, expected.intercept_, atol=1e-6)


def readers(folder):
    return {int(path.name.split("-")[2]) for path in Path(folder).iterdir()}


def happens_in_mid_fit(monkeypatch, action):
    """Act once, here on the driver, between two evaluations."""
    evaluate_risk = risk.DistributedRisk.value_and_gradient
    calls = []

    def counted(self, theta, problem):
        calls.append(1)
        if len(calls) == 4:
            action()
        return evaluate_risk(self, theta, problem)

    monkeypatch.setattr(risk.DistributedRisk, "value_and_gradient", counted)
    return calls


@pytest.mark.usefixtures("client")
class TestTheFitEndsWithTheSameModel:
    def test_without_incidents(self, tmp_path):
        parts = collections(tmp_path)
        model = DistributedClassifier(ESTIMATOR, persist=True).fit(*parts)
        assert_same(model)
        # to describe them, and to keep them
        assert len(list(tmp_path.iterdir())) == 2 * N_PARTITIONS
        scores = model.decision_function(parts[0])
        found = evaluate(parts[1], scores)["balanced_accuracy"].value
        assert found == pytest.approx(ESTIMATOR.fit(X, y).score(X, y), abs=1e-9)

    def test_counts_of_bags_in_pieces(self, tmp_path):
        model = DistributedClassifier(COUNTS, persist=True).fit(*collections(tmp_path)).to_local()
        expected = COUNTS.fit(X, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-6)

    def test_a_search(self, tmp_path):
        estimator = LLPLinearClassifierCV(alphas=[1e-1, 1e-3], cv=3, tol=1e-5)
        model = DistributedClassifier(estimator).fit(*collections(tmp_path)).to_local()
        np.testing.assert_allclose(model.coef_, estimator.fit(X, y).coef_, atol=1e-6)

    def test_a_worker_dies_while_it_reads(self, tmp_path):
        model = DistributedClassifier(ESTIMATOR, persist=False).fit(*collections(tmp_path, dies))
        assert_same(model)
        assert any(tmp_path.glob("2-5-*"))  # read again

    def test_a_worker_dies_with_what_it_keeps(self, client, tmp_path, monkeypatch):
        number_of = client.run(os.getpid)

        def kill_the_keepers_of_a_group():
            # of small data the other worker may have a copy
            keepers = next(
                workers
                for key, workers in client.who_has().items()
                if str(key).startswith("('group-")
            )
            assert keepers
            for worker in keepers:
                os.kill(number_of[worker], signal.SIGKILL)

        calls = happens_in_mid_fit(monkeypatch, kill_the_keepers_of_a_group)
        model = DistributedClassifier(ESTIMATOR, persist=True).fit(*collections(tmp_path))
        assert_same(model)
        assert len(calls) > 4
        assert len(list(tmp_path.iterdir())) > 2 * N_PARTITIONS  # some were read again

    def test_a_slow_worker(self, tmp_path):
        model = DistributedClassifier(ESTIMATOR, persist=False).fit(*collections(tmp_path, is_slow))
        assert_same(model)

    def test_a_worker_that_joins_late(self, cluster, client, tmp_path, monkeypatch):
        before = set(client.run(os.getpid).values())

        def join():
            cluster.scale(3)
            client.wait_for_workers(3, timeout=60)

        happens_in_mid_fit(monkeypatch, join)
        model = DistributedClassifier(ESTIMATOR, persist=False).fit(*collections(tmp_path))
        assert_same(model)
        assert readers(tmp_path) - before  # it took its part


def test_rows_that_workers_have_stay_there(client):
    rows = da.from_array(np.arange(60.0).reshape(30, 2), chunks=(1, -1)).persist()
    wait(rows)
    parts = partitions_of(rows)
    holder = [client.who_has()[key] for key in parts.origins]
    assert len(set(holder)) >= 2
    groups = parts.grouped(np.concatenate)
    assert all(len({holder[number] for number in group}) == 1 for group in groups.members)
    found = dask.compute(*[item for (item,) in groups.items])
    for one, group in zip(found, groups.members, strict=True):
        np.testing.assert_array_equal(one, np.arange(60.0).reshape(30, 2)[group])


COPIES = 25


def many_rows(block):
    return np.tile(block, (COPIES, 1))


@pytest.mark.usefixtures("client")
def test_more_data_than_the_memory_of_a_worker():
    # copies of the same rows give the same model; their bags span all partitions
    d = 200
    base, n_partitions = np.random.default_rng(0).normal(size=(600, d)) + X[:, :1], 26
    rows = 600 * COPIES
    block = dask.delayed(base)
    parts = [
        da.from_delayed(dask.delayed(many_rows)(block), (rows, d), dtype=float)
        for _ in range(n_partitions)
    ]
    one = bag_target(y["bag"], y["proportion"])
    one["size"] *= COPIES * n_partitions
    target = dask.delayed(one)
    targets = [
        da.from_delayed(dask.delayed(np.tile)(target, COPIES), (rows,), dtype=one.dtype)
        for _ in range(n_partitions)
    ]
    large = da.concatenate(parts)
    assert large.nbytes > MEMORY
    estimator = LLPLinearClassifier(1.0, tol=0.1)
    model = DistributedClassifier(estimator).fit(large, da.concatenate(targets)).to_local()
    expected = estimator.fit(base, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


def count_fresh_pages(n_rows, n_functions=4):
    """Pages of memory that the system is asked for in a pass, after a first one."""
    import resource

    rng = np.random.default_rng(0)
    rows = [Instances(rng.normal(size=(n_rows, n_functions)), rng.integers(50, size=n_rows))]
    table = risk.RowWeights(rng.normal(size=(1, 2, 50)), np.zeros((1, 1)))
    request = risk.Request(rng.normal(size=(1, 1, n_functions)), np.zeros(1, dtype=int), True)
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        risk.partial_risks(rows, risk.Model(LogisticLoss()), table, request)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_a_pass_goes_on_in_the_memory_that_it_has(client):
    few, many = (client.submit(count_fresh_pages, n).result() for n in (60_000, 600_000))
    # the arrays of each block, of 6,000 rows, take some hundred pages
    assert many - few < 2 * (600_000 - 60_000) / 6_000


@pytest.mark.usefixtures("client")
def test_an_error_names_its_partition():
    wrong = X.copy()
    wrong[3 * ROWS + 5, 1] = np.nan
    parts = da.from_array(wrong, chunks=(ROWS, -1)), da.from_array(y, chunks=ROWS)
    with pytest.raises(ValueError, match=r"^Partition 3: X holds NaN.* row 6, column 1"):
        DistributedClassifier(ESTIMATOR).fit(*parts)
