"""The runner: every trial once, nothing lost, nothing half written."""

import json
import subprocess
import sys

import pytest
from joblib import parallel_config

from distributed import Client, LocalCluster
from unbag.paper import Setting
from unbag.paper.runner import METHODS, Task, make_tasks, pending, read_rows, run_task, run_tasks

SMALL = Setting("magic", (0.0, 0.5), 32, table=2)


def small_tasks(methods=("labels", "lmmcm"), trials=2):
    return make_tasks(
        tables=[2],
        datasets=["magic"],
        ranges=[(0.0, 0.5)],
        bag_sizes=[32],
        methods=methods,
        trials=trials,
    )


def test_tasks_are_all_combinations_with_the_first_trials_first():
    tasks = make_tasks(methods=["lmmcm", "labels"], tables=[1, 2], trials=3)
    assert len(tasks) == len({task.name for task in tasks}) == 2 * 2 * 2 * 4 * 2 * 3
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)


def test_shuffled_bags_have_one_range():
    tasks = make_tasks(methods=["lmmcm"], sampling="iid", trials=1)
    assert len(tasks) == 8
    assert "iid" in tasks[0].name


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_row(method):
    row = run_task(Task(SMALL, method, 0))
    assert 0.4 < row["auc"] < 0.95
    assert 0.1 < row["ber"] < 0.6
    assert set(row["chosen"]) == {name.rstrip("_") for name in METHODS[method].chosen}
    assert row["seconds"] > 0
    assert row["scikit-learn"]


def test_a_second_run_has_nothing_to_do_and_a_broken_one_goes_on(tmp_path):
    tasks = small_tasks()
    runs = run_tasks(tasks, tmp_path)
    first = next(runs)
    runs.close()
    assert len(read_rows(tmp_path)) == 1
    assert len(pending(tasks, tmp_path)) == 3
    rest = list(run_tasks(tasks, tmp_path, jobs=2))
    assert len(rest) == 3
    assert list(run_tasks(tasks, tmp_path)) == []
    rows = read_rows(tmp_path)
    assert first in rows
    assert len(rows) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_two_runs_on_one_folder_do_not_spoil_each_other(tmp_path):
    call = [sys.executable, "-m", "unbag", "paper", "--table", "2", "--datasets", "magic"]
    call += ["--ranges", "0-0.5", "--bag-sizes", "32", "--methods", "labels"]
    call += ["--trials", "2", "--jobs", "1", "-o", str(tmp_path)]
    runs = [
        subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [run.wait() for run in runs] == [0, 0]
    rows = read_rows(tmp_path)
    assert sorted(row["seed"] for row in rows) == [0, 1]


def test_the_same_task_gives_the_same_figures():
    one, other = (run_task(Task(SMALL, "lmmcm", 1)) for _ in range(2))
    assert one["auc"] == other["auc"]
    assert one["chosen"] == other["chosen"]


def test_rows_are_plain_json(tmp_path):
    list(run_tasks(small_tasks(methods=["labels"], trials=1), tmp_path))
    (line,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert row["task"] == "table2_magic_0-0.5_32_labels_0"
    assert row["n_bags"] == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["svm"]}, "There is no method 'svm'; the methods are lmmcm-paper, lmmcm"),
        ({"trials": 0}, "number of trials must be at least 1"),
        ({"datasets": ["iris"]}, "dataset must be"),
    ],
)
def test_wrong_tasks_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        make_tasks(**change)


def test_a_dask_cluster_takes_the_trials_over(tmp_path):
    tasks = small_tasks(trials=1)
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as cluster,
        Client(cluster),
        parallel_config(backend="dask"),
    ):
        rows = list(run_tasks(tasks, tmp_path, jobs=2))
    local = [run_task(task) for task in tasks]
    assert {row["method"]: row["auc"] for row in rows} == {r["method"]: r["auc"] for r in local}
    assert len(read_rows(tmp_path)) == 2
