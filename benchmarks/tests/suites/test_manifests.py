"""Manifests: what was drawn is kept, found again, and held against the data."""

import json
from pathlib import Path

import numpy as np
import pytest

from unbag_bench.suites import Manifest, read_manifest
from unbag_bench.suites.draws import Picked
from unbag_bench.suites.manifests import make_manifest, save_manifest
from unbag_bench.suites.runner import run_suite_task, run_suite_tasks
from unbag_bench.suites.tasks import SuiteTask, load_data, make_suite_tasks

NAME = "compas clustered 32 unequal"
FILE = "tables-compas-clustered-32-unequal-0.npz"
RESULTS = Path(__file__).parents[2] / "results" / "landscape"


@pytest.fixture
def data(folder, tmp_path):
    load_data.cache_clear()
    return load_data("tables", NAME, 0, folder, tmp_path)


def test_a_draw_is_written_and_read_back(data, tmp_path):
    (path,) = tmp_path.iterdir()
    assert path.name == FILE
    kept = read_manifest(path)
    assert (kept.suite, kept.name, kept.seed) == ("tables", NAME, 0)
    assert kept.picked.digest == data.digest
    np.testing.assert_array_equal(kept.picked.bag, data.y["bag"])
    np.testing.assert_array_equal(kept.counts.sum(axis=1), np.bincount(data.y["bag"]))
    shares = kept.counts[:, 1] / kept.counts.sum(axis=1)
    np.testing.assert_allclose(shares[kept.picked.bag], data.y["proportion"])


def test_files_hold_no_label_and_little_else(data, tmp_path):
    with np.load(tmp_path / FILE) as found:
        rows = {"train", "bag", "test"}
        assert set(found) == rows | {"counts", "suite", "name", "seed", "digest"}
        assert found["bag"].dtype == np.uint8
    assert (tmp_path / FILE).stat().st_size < 2.5 * (len(data.y) * 1.5 + len(data.X_test))


def test_bags_that_are_kept_are_used(data, folder, tmp_path):
    """Where another version of a generator draws otherwise, say."""
    picked = read_manifest(tmp_path / FILE).picked
    other = Picked(picked.train[::-1], picked.bag[::-1], picked.test)
    labels = np.zeros(int(max(picked.train.max(), picked.test.max())) + 1, dtype=np.int64)
    labels[picked.train] = data.labels
    save_manifest(tmp_path, make_manifest("tables", NAME, 0, other, labels))
    load_data.cache_clear()
    row = run_suite_task(SuiteTask("tables", NAME, 0, "soft-label"), folder, bags=tmp_path)
    assert row["bags"] == other.digest != data.digest


def test_runs_keep_a_file_for_each_draw(folder, tmp_path):
    tasks = make_suite_tasks(
        "tables", names=["hi low 32"], methods=["soft-label", "labels"], seeds=(0, 1)
    )
    rows = list(run_suite_tasks(tasks, tmp_path / "rows.jsonl", folder=folder, bags=tmp_path / "b"))
    found = {read_manifest(path).picked.digest for path in (tmp_path / "b").iterdir()}
    assert found == {row["bags"] for row in rows}
    assert len(found) == 2
    assert len(rows) == 4


def _changed(path, **change):
    with np.load(path) as found:
        parts = dict(found) | change
    np.savez_compressed(path, **parts)


def _renamed(path):
    _changed(path, seed=1)


def _moved(path):
    with np.load(path) as found:
        bag = found["bag"].copy()
    bag[:2] = bag[1::-1] + np.array([0, 1], dtype=bag.dtype)
    _changed(path, bag=bag)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-200])


def _other_labels(path):
    kept = read_manifest(path)
    counts = kept.counts[:, ::-1]
    save_manifest(path.parent, Manifest("tables", NAME, 0, kept.picked, counts))


def _other_rows(path):
    kept = read_manifest(path)
    train = kept.picked.train + 10**6
    picked = kept.picked._replace(train=train)
    save_manifest(path.parent, Manifest("tables", NAME, 0, picked, kept.counts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut, "is damaged, or no manifest of bags; delete it."),
        (lambda path: path.write_text("bags"), "is damaged, or no manifest of bags; delete it."),
        (_moved, "do not have the digest"),
        (_renamed, "is not of this draw of these data; delete it."),
        (_other_labels, "is not of this draw of these data; delete it."),
        (_other_rows, "is not of this draw of these data; delete it."),
    ],
)
@pytest.mark.usefixtures("data")
def test_what_does_not_fit_is_told_and_makes_no_row(change, message, folder, tmp_path):
    change(tmp_path / FILE)
    load_data.cache_clear()
    with pytest.raises(OSError, match=message):
        run_suite_task(SuiteTask("tables", NAME, 0, "soft-label"), folder, bags=tmp_path)


def test_draws_of_the_page_are_kept_beside_its_rows():
    lines = (RESULTS / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "bags" in row]
    drawn = {(r["suite"], r["name"], r["seed"]): r["bags"] for r in rows}
    kept = [read_manifest(path) for path in (RESULTS / "bags").iterdir()]
    for one in kept:
        assert one.picked.digest == drawn[one.suite, one.name, one.seed]
    here = {(one.suite, one.name, one.seed) for one in kept}
    assert here == {draw for draw in drawn if draw[0] != "landscape"}
