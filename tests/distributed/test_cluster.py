"""A cluster of separate processes: workers that die, are slow or come late, and tight memory."""

import os
import signal
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from dask.distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from unbag import LLPClassifier
from unbag import evaluation as local
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedClassifier
from unbag.distributed.likelihood import DistributedLikelihood

# one cluster, not one in every parallel test process
pytestmark = pytest.mark.xdist_group("cluster")

MEMORY = 600_000_000
DATA = make_gaussian_bags(n_bags=24, bag_size=25, n_features=3, random_state=0)
WHOLE = np.arange(len(DATA.y))
# every bag spans partitions
SCATTERED = np.random.default_rng(0).permutation(len(DATA.y))
N_PARTITIONS = 6
ROWS = len(DATA.y) // N_PARTITIONS
ESTIMATOR = LLPClassifier(kernel=None)


@pytest.fixture(scope="module")
def cluster():
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": MEMORY}
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set(
            {
                # a cluster without workers would wait for some forever
                "distributed.scheduler.no-workers-timeout": "60s",
                # a worker that starts again takes a second, not five
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


def dies_later(number, time_read, folder):  # noqa: ARG001
    if number == 2 and time_read == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def dies_in_the_exchange(number, time_read, folder):  # noqa: ARG001
    if number == 2 and time_read == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def is_slow(number, time_read, folder):
    if number == 0:
        others = range(1, N_PARTITIONS)
        wait_until(
            lambda: all(any(folder.glob(f"{n}-{time_read}-*")) for n in others),
            "all other partitions were read as often",
        )


def collections(folder, order=SCATTERED, happening=nothing):
    task = dask.delayed(read)
    blocks = [
        task(n, str(folder), happening, DATA.X[order[n * ROWS : (n + 1) * ROWS]])
        for n in range(N_PARTITIONS)
    ]
    parts = [da.from_delayed(block, (ROWS, 3), dtype=float) for block in blocks]
    return da.concatenate(parts), da.from_array(DATA.y[order], chunks=ROWS)


def assert_same(model):
    expected = ESTIMATOR.fit(DATA.X, DATA.y)
    np.testing.assert_allclose(model.to_local().coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(model.to_local().intercept_, expected.intercept_, atol=1e-6)


def readers(folder):
    return {int(path.name.split("-")[2]) for path in Path(folder).iterdir()}


def happens_in_mid_fit(monkeypatch, action):
    """Act once, here on the driver, between two evaluations."""
    evaluate_here = DistributedLikelihood.derivatives
    calls = []

    def counted(self, *inputs):
        calls.append(1)
        if len(calls) == 3:
            action()
        return evaluate_here(self, *inputs)

    monkeypatch.setattr(DistributedLikelihood, "derivatives", counted)
    return calls


@pytest.mark.usefixtures("client")
class TestTheFitEndsWithTheSameModel:
    def test_without_incidents(self, tmp_path):
        parts = collections(tmp_path)
        model = DistributedClassifier(ESTIMATOR).fit(*parts)
        assert_same(model)
        # to find their bags, and to bring these together
        assert len(list(tmp_path.iterdir())) == 2 * N_PARTITIONS
        found = local.evaluate(*dask.compute(parts[1], model.decision_function(parts[0])))[
            "roc_auc"
        ].value
        expected = local.evaluate(DATA.y, ESTIMATOR.fit(DATA.X, DATA.y).decision_function(DATA.X))
        assert found == pytest.approx(expected["roc_auc"].value, abs=1e-9)

    def test_with_a_kernel(self, tmp_path):
        estimator = LLPClassifier(n_landmarks=20)
        model = DistributedClassifier(estimator).fit(*collections(tmp_path)).to_local()
        expected = estimator.fit(DATA.X[SCATTERED], DATA.y[SCATTERED])
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)

    @pytest.mark.parametrize("order", [WHOLE, SCATTERED], ids=["whole", "scattered"])
    def test_a_worker_dies_while_it_reads(self, tmp_path, order):
        happening = dies_later if order is WHOLE else dies_in_the_exchange
        parts = collections(tmp_path, order, happening)
        assert_same(DistributedClassifier(ESTIMATOR, persist=False).fit(*parts))
        assert any(tmp_path.glob(f"2-{5 if order is WHOLE else 2}-*"))  # read again

    def test_a_worker_dies_with_what_it_keeps(self, client, tmp_path, monkeypatch):
        number_of = client.run(os.getpid)

        def kill_the_keepers_of_a_partition():
            # of small data the other worker may have a copy
            keepers = next(
                workers
                for key, workers in client.who_has().items()
                if "make_likelihood" in str(key)
            )
            assert keepers
            for worker in keepers:
                os.kill(number_of[worker], signal.SIGKILL)

        calls = happens_in_mid_fit(monkeypatch, kill_the_keepers_of_a_partition)
        model = DistributedClassifier(ESTIMATOR, persist=True).fit(*collections(tmp_path))
        assert_same(model)
        assert len(calls) > 3
        assert len(list(tmp_path.iterdir())) > 2 * N_PARTITIONS  # some were read again

    def test_a_slow_worker(self, tmp_path):
        parts = collections(tmp_path, WHOLE, is_slow)
        assert_same(DistributedClassifier(ESTIMATOR, persist=False).fit(*parts))

    def test_a_worker_that_joins_late(self, cluster, client, tmp_path, monkeypatch):
        before = set(client.run(os.getpid).values())

        def join():
            cluster.scale(3)
            client.wait_for_workers(3, timeout=60)

        happens_in_mid_fit(monkeypatch, join)
        parts = collections(tmp_path, WHOLE)
        assert_same(DistributedClassifier(ESTIMATOR, persist=False).fit(*parts))
        assert readers(tmp_path) - before  # it took its part


def base_rows(d):
    return np.random.default_rng(0).normal(size=(len(DATA.y), d)) + DATA.X[:, :1]


def many_bags(number, copies):
    y = np.tile(DATA.y, copies)
    y["bag"] += 24 * (number * copies + np.repeat(np.arange(copies), len(DATA.y)))
    return y


@pytest.mark.usefixtures("client")
def test_more_data_than_the_memory_of_a_worker():
    # copies of the same bags weigh as much as so many times the variance
    d, n_partitions, copies = 100, 24, 54
    rows, base = len(DATA.y) * copies, dask.delayed(base_rows)(d)
    X, y = [], []
    for number in range(n_partitions):
        block = dask.delayed(np.tile)(base, (copies, 1))
        X.append(da.from_delayed(block, (rows, d), dtype=float))
        target = dask.delayed(many_bags)(number, copies)
        y.append(da.from_delayed(target, (rows,), dtype=DATA.y.dtype))
    large = da.concatenate(X)
    assert large.nbytes > MEMORY
    settings = {"kernel": None, "bag_effect": 1.0}
    estimator = LLPClassifier(variances={"numbers": 1e-5}, tol=0.3, **settings)
    model = DistributedClassifier(estimator).fit(large, da.concatenate(y)).to_local()
    # every step is the same, and its expected gain so many times as large
    n_times = copies * n_partitions
    variances, tol = {"numbers": 1e-5 * n_times}, 0.3 / n_times**0.5
    expected = LLPClassifier(variances=variances, tol=tol, **settings).fit(base_rows(d), DATA.y)
    assert model.n_iter_ == expected.n_iter_
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


@pytest.mark.usefixtures("client")
def test_an_error_names_its_partition():
    wrong = DATA.X.copy()
    wrong[3 * ROWS + 5, 1] = np.inf
    parts = da.from_array(wrong, chunks=(ROWS, -1)), da.from_array(DATA.y, chunks=ROWS)
    with pytest.raises(ValueError, match=r"^Partition 3: Input X contains infinity"):
        DistributedClassifier(ESTIMATOR).fit(*parts)
