"""The experiments: data of trials; every trial once, nothing lost, nothing half written."""

import json
import subprocess
import sys

import numpy as np
import pytest
from joblib import parallel_config

from distributed import Client, LocalCluster
from unbag import check_bag_target
from unbag.paper import Setting, make_trial
from unbag.paper.experiments import (
    METHODS,
    Task,
    make_tasks,
    pending,
    read_rows,
    run_task,
    run_tasks,
)
from unbag.paper.tables import BAG_SIZES, published_auc


@pytest.mark.parametrize(("dataset", "low"), [("adult", 0.5), ("magic", 0.0)])
def test_a_trial_has_the_size_and_proportions_of_the_paper(dataset, low):
    setting = Setting(dataset, (low, low + 0.5), 512)
    trial = make_trial(setting, seed=3)
    bags = check_bag_target(trial.y)
    assert bags.n_instances == {"adult": 8192, "magic": 6144}[dataset]
    assert set(bags.sizes) == {512}
    np.testing.assert_allclose(bags.means(trial.labels), bags.proportions[:, 1])
    assert abs(bags.class_shares[1] - (low + 0.25)) < 0.15
    assert len(trial.labels_test) == {"adult": 16281, "magic": 3804}[dataset]
    assert trial.X.shape[1] == trial.X_test.shape[1]


def test_numerical_columns_are_standardised_on_the_training_instances():
    trial = make_trial(Setting("magic", (0.0, 0.5), 128), seed=0)
    np.testing.assert_allclose(trial.X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(trial.X.std(axis=0), 1)


def test_training_and_test_instances_do_not_overlap():
    trial = make_trial(Setting("magic", (0.5, 1.0), 32), seed=1)
    train = {row.tobytes() for row in np.round(trial.X, 6)}
    test = [row.tobytes() in train for row in np.round(trial.X_test, 6)]
    assert np.mean(test) < 0.02  # the data set repeats some rows itself


def test_the_same_seed_gives_the_same_trial_and_another_one_another():
    setting = Setting("magic", (0.0, 0.5), 128)
    one, same, other = (make_trial(setting, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.y, other.y)


@pytest.mark.parametrize("table", [1, 2])
@pytest.mark.parametrize("dataset", ["adult", "magic"])
@pytest.mark.parametrize("share", [(0.0, 0.5), (0.5, 1.0)])
def test_every_setting_has_published_figures(table, dataset, share):
    for size in BAG_SIZES:
        assert Setting(dataset, share, size, table).n_bags >= 12
        for method in ("lmmcm", "invcal", "alter-psvm"):
            assert 0.5 < published_auc(table, dataset, share, size, method).mean < 0.9
    assert published_auc(table, dataset, share, 64, "lmmcm") is None
    assert published_auc(table, dataset, share, 8, "labels") is None


def test_second_table_fixes_the_number_of_bags():
    trial = make_trial(Setting("magic", (0.0, 0.5), 32, table=2), seed=0)
    assert len(trial.y) == 12 * 32


def test_shuffled_bags_are_close_to_the_class_shares():
    trial = make_trial(Setting("adult", (0.0, 1.0), 512, sampling="iid"), seed=0)
    assert np.abs(trial.y["proportion"] - 0.24).max() < 0.08


def test_all_columns_standardised_on_request():
    trial = make_trial(Setting("adult", (0.0, 0.5), 512, standardize_all=True), seed=0)
    np.testing.assert_allclose(trial.X.std(axis=0).round(9), 1)


def test_unknown_data_set():
    with pytest.raises(ValueError, match="dataset must be"):
        Setting("iris", (0, 1), 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": 3}, "table must be 1 or 2"),
        ({"sampling": "random"}, "sampling must be"),
        ({"proportions": (0.5, 0.5)}, "proportions must satisfy"),
        ({"bag_size": 4000}, "bag size must lie between 2 and 2048"),
    ],
)
def test_wrong_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        Setting(**{"dataset": "adult", "proportions": (0.0, 0.5), "bag_size": 8, **change})


# --- methods and runs ----------------------------------------------------------------------------

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
