"""Bags that are cut come together, whole ones stay where they are."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import unbag.distributed.whole_bags as module
from unbag import bag_target, check_bag_target
from unbag.distributed.partitions import partitions_of
from unbag.distributed.whole_bags import bags_of, bring_some_bags, bring_together

pytestmark = pytest.mark.usefixtures("in_this_thread")

SIZES = [3, 1, 8, 2, 5, 1, 4, 6]
BAG = np.repeat(np.arange(8), SIZES)
POSITIVES = np.array([1, 1, 4, 0, 2, 0, 4, 3])
Y = bag_target(BAG, counts=POSITIVES[BAG])
# the position of each row, by which it is known again
X = np.arange(30.0)[:, None]
SCATTERED = np.random.default_rng(0).permutation(30)


def bring(order, chunks):
    collections = (
        da.from_array(X[order], chunks=(chunks, -1)),
        da.from_array(Y[order], chunks=(chunks,)),
    )
    parts, summary = bring_together(partitions_of(*collections))
    return parts.gather(lambda part: part), summary


@pytest.mark.parametrize("chunks", [(30,), (7, 7, 7, 9), (1,) * 30, (0, 12, 0, 18), (29, 1)])
@pytest.mark.parametrize("order", [np.arange(30), np.arange(30)[::-1], SCATTERED])
def test_every_row_is_in_one_place_with_its_bag(order, chunks):
    found, summary = bring(order, chunks)
    parts = [part for part in found if part is not None]
    ids = [np.unique(part.y["bag"]) for part in parts]
    assert sorted(np.concatenate(ids).tolist()) == list(range(8))
    rows = np.concatenate([part.X[:, 0] for part in parts]).astype(int)
    assert sorted(rows.tolist()) == list(range(30))
    for part in parts:
        # bags in order, and their rows in the order in which they came
        place = np.argsort(order)[part.X[:, 0].astype(int)]
        np.testing.assert_array_equal(np.lexsort((place, part.y["bag"])), np.arange(len(place)))
        np.testing.assert_array_equal(part.y, Y[part.X[:, 0].astype(int)])
    assert summary.rows.tolist() == SIZES
    assert summary.n_rows == chunks


def test_whole_bags_stay_where_they_are():
    # bags 0 to 3, 4 and 5, 6 and 7, each in an order of their own
    chunks = (14, 6, 10)
    rng = np.random.default_rng(1)
    order = np.concatenate([rng.permutation(14), 14 + rng.permutation(6), 20 + rng.permutation(10)])
    data = partitions_of(
        da.from_array(X[order], chunks=(chunks, -1)), da.from_array(Y[order], chunks=(chunks,))
    )
    tasks = bring_together(data)[0].items
    assert not any("piece" in str(key) for (task,) in tasks for key in task.__dask_graph__())
    found, _ = bring(order, chunks)
    assert [sorted(set(part.y["bag"].tolist())) for part in found] == [[0, 1, 2, 3], [4, 5], [6, 7]]


def test_rows_in_the_order_of_bags_move_between_neighbours_only():
    bag = np.repeat(np.arange(100), 10)
    y = bag_target(bag, np.full(1000, 0.5))
    data = partitions_of(
        da.from_array(np.zeros((1000, 1)), chunks=(133, -1)), da.from_array(y, chunks=133)
    )
    summary = data.reduce(module._summarise, module._merge)
    ends = np.cumsum(summary.n_rows)
    spans = [np.searchsorted(ends, at, side="right") for at in (summary.first, summary.last)]
    sources = module._sources(*spans, module._deal(summary, ends), len(ends), len(data))
    assert all(max(own) - min(own) <= 2 for own in sources)
    assert sum(map(len, sources)) < 3 * len(data)


def test_many_partitions_become_fewer(monkeypatch):
    monkeypatch.setattr(module, "_PIECES", 60)
    found, _ = bring(SCATTERED, (1,) * 30)
    assert len(found) == 2
    assert min(len(part.y) for part in found) >= 8


def test_a_bag_that_no_worker_can_hold_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(module, "memory_limits", lambda: [1e9, 120.0])
    with pytest.raises(
        ValueError, match=r"^Bag 2 takes .* 8 rows of several.* 1.2e-07 GB"
    ) as reported:
        bring(SCATTERED, (15, 15))
    assert str(reported.value).count(". ") == 0
    # where bags are whole nothing comes together
    assert len(bring(np.arange(30), (14, 16))[0]) == 2


def test_frames_and_sparse_blocks():
    frame = pd.DataFrame({"x": X[SCATTERED, 0], "c": pd.Categorical(["a", "b", "c"] * 10)})
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    chunks = tuple(len(part) for part in lazy.partitions)
    data = partitions_of(lazy, da.from_array(Y[SCATTERED], chunks=(chunks,)))
    parts = bring_together(data)[0].gather(lambda part: part)
    together = pd.concat([part.X for part in parts])
    expected = frame.set_index("x").loc[together["x"], "c"]
    assert together["c"].tolist() == expected.tolist()
    blocks = da.from_array(X[SCATTERED], chunks=(9, -1)).map_blocks(csr_array)
    target = da.from_array(Y[SCATTERED], chunks=9)
    parts = bring_together(partitions_of(blocks, target))[0].gather(lambda part: part)
    for part in parts:
        np.testing.assert_array_equal(part.y, Y[part.X.toarray()[:, 0].astype(int)])


def test_bags_are_those_of_the_target_in_memory():
    labels = np.full(30, np.nan)
    labels[[5, 6, 20]] = [0, 1, 1]
    noisy = bag_target(BAG, POSITIVES[BAG] / np.array(SIZES)[BAG], labels=labels)
    data = partitions_of(da.from_array(X, chunks=(7, -1)), da.from_array(noisy, chunks=7))
    found, expected = bags_of(bring_together(data)[1]), check_bag_target(noisy)
    for name in ("ids", "sizes", "proportions", "labelled", "class_shares"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_some_bags_come_whole():
    data = partitions_of(da.from_array(X, chunks=(7, -1)), da.from_array(Y, chunks=7))
    rows, target = bring_some_bags(data, 15, 0)
    np.testing.assert_array_equal(target, Y[rows[:, 0].astype(int)])
    bags = check_bag_target(target)
    assert 2 <= bags.n_bags < 8
    assert len(rows) <= 15
