"""Tasks of the suites: every one once, a killed run goes on, rows say what they cost."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from distributed import LocalCluster
from unbag.paper.rows import load_rows
from unbag_bench.suites.cluster import on_cluster
from unbag_bench.suites.methods import METHODS
from unbag_bench.suites.runner import pending_suite_tasks, run_suite_task, run_suite_tasks
from unbag_bench.suites.tasks import SUITES, SuiteTask, load_data, make_suite_tasks

NAMES = ["hi low 32", "compas clustered 128 unequal"]
SLOW = ("ensemble", "trees", "amm-max", "amm-min", "rot", "llp-dc", "lmm")
FORMER = [name for name, method in METHODS.items() if "206f41b" in method.description]
SCORES = ("accuracy", "f1", "auc")


def small_tasks(methods=("soft-label", "labels"), seeds=(0,)):
    return make_suite_tasks("tables", names=NAMES, methods=methods, seeds=seeds)


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m not in (*SLOW, *FORMER) and "network" not in m]
)
def test_every_method_gives_a_row(method, folder):
    row = run_suite_task(SuiteTask("tables", NAMES[0], 0, method), folder)
    assert 0.55 < row["auc"] < 0.95
    assert 0.3 < row["accuracy"] < 0.9
    assert 0 <= row["f1"] < 0.9
    assert row["seconds"] > 0
    assert row["core_seconds"] > 0
    assert row["peak_mb"] > 20
    assert row["n_rows"] == 32 * row["n_bags"] > 500


def test_methods_get_the_same_bags_and_labels_are_the_ceiling(folder):
    methods = ("labels", "mixed-linear", "soft-label")
    tasks = [SuiteTask("tables", NAMES[0], 0, m) for m in methods]
    rows = [run_suite_task(task, folder, device="cpu") for task in tasks]
    assert [row.get("device") for row in rows] == [None, "cpu", None]
    assert rows[0]["auc"] >= max(row["auc"] for row in rows) - 0.02
    assert len({row["bags"] for row in rows}) == 1


def test_methods_get_shares_of_bags_and_no_label(folder):
    data = load_data("tables", NAMES[0], 0, folder)
    assert data.y.dtype.names == ("bag", "proportion", "size")
    sizes = np.bincount(data.y["bag"])
    shares = np.bincount(data.y["bag"], weights=data.labels) / sizes
    np.testing.assert_allclose(data.y["proportion"], shares[data.y["bag"]])
    assert len(np.unique(sizes)) == 1


def test_a_killed_run_goes_on(folder, tmp_path):
    path = tmp_path / "rows.jsonl"
    killed = f"""
import os, signal
from pathlib import Path
from unbag_bench.suites.runner import run_suite_tasks
from unbag_bench.suites.tasks import make_suite_tasks
tasks = make_suite_tasks("tables", names={NAMES!r}, methods=["soft-label", "labels"])
for row in run_suite_tasks(tasks, Path({str(path)!r}), folder=Path({str(folder)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", killed], env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    (first,) = load_rows(path)
    tasks = small_tasks()
    assert len(pending_suite_tasks(tasks, path)) == 3
    rest = list(run_suite_tasks(tasks, path, folder=folder))
    assert len(rest) == 3
    rows = load_rows(path)
    assert rows[0] == first
    assert {(row["name"], row["method"]) for row in rows} == {(t.name, t.method) for t in tasks}
    assert list(run_suite_tasks(tasks, path, folder=folder)) == []


def test_a_dask_cluster_gives_the_same_figures(folder, tmp_path):
    tasks = small_tasks()
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with cluster, on_cluster(cluster.scheduler_address):
        rows = list(run_suite_tasks(tasks, tmp_path / "rows.jsonl", jobs=-1, folder=folder))
    for row in rows:
        task = SuiteTask("tables", row["name"], 0, row["method"])
        local = run_suite_task(task, folder)
        assert [row[s] for s in SCORES] == [local[s] for s in SCORES]
        assert row["bags"] == local["bags"]


def test_bags_that_cannot_be_had_and_methods_that_refuse_say_why(folder):
    skipped = run_suite_task(SuiteTask("tables", "hi low 2048", 0, "mixed"), folder)
    assert skipped["skipped"] == "1000 rows to train on are too few for two bags of 2048."
    assert "auc" not in skipped
    failed = run_suite_task(SuiteTask("tables", "hi low 512", 0, "ensemble"), folder)
    assert "failed" in failed or "skipped" in failed


def test_suites_are_what_they_promise():
    tables = SUITES["tables"]
    every = tables.names(False)
    assert len({name.split()[0] for name in every}) >= 8
    assert {int(name.split()[2]) for name in every} == {8, 32, 128, 512, 2048}
    short = [name.split() for name in tables.names(True)]
    assert set(map(" ".join, short)) <= set(every)
    assert len({(table, kind) for table, kind, *_ in short}) == len(short) == 14 * 5 / 2
    assert len({(kind, size) for _, kind, size, *_ in short}) == 5 * 4
    assert {len(name) for name in short} == {3, 4}
    tasks = make_suite_tasks("landscape", methods=["mixed", "labels"], seeds=range(3))
    assert len({task.identity for task in tasks}) == len(tasks) == 52 * 2 * 3
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)


@pytest.mark.parametrize(
    ("suite", "change", "message"),
    [
        (
            "imagenet",
            {},
            "no suite 'imagenet'; there are landscape, natural, tables, images",
        ),
        (
            "natural",
            {"methods": ["svm"]},
            "There is no method 'svm'; there are mixed, mixed-linear",
        ),
        ("natural", {"kinds": ["low"]}, "There is no kind of bags 'low'; there are real"),
        ("natural", {"names": ["iris"]}, "There is no set 'iris'; there are votes, demographics"),
        ("natural", {"seeds": []}, "number of splits must be at least 1"),
        ("landscape", {"seeds": [30]}, "The landscape has 30 splits, not 31"),
    ],
)
def test_wrong_tasks_are_named(suite, change, message):
    with pytest.raises(ValueError, match=message):
        make_suite_tasks(suite, **change)
