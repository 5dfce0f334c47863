"""Batches are made of whole bags."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.utils.data import DataLoader

from unbag import bag_target
from unbag.torch import BagBatchSampler, BagDataset

SIZES = np.array([5, 4, 9, 3, 3, 20, 2])
BAG = np.random.default_rng(0).permutation(np.repeat(np.arange(7), SIZES))
Y = bag_target(BAG, counts=dict(enumerate([2, 1, 4, 0, 3, 11, 1])))
X = np.arange(len(BAG), dtype=np.float32)[:, None]


def test_a_batch_holds_its_bags_in_order():
    dataset = BagDataset(X, Y)
    rows, bags = dataset[[5, 0]]
    np.testing.assert_array_equal(np.unique(BAG[rows[:20, 0].long()]), [5])
    np.testing.assert_array_equal(np.unique(BAG[rows[20:, 0].long()]), [0])
    np.testing.assert_array_equal(bags.index, [0] * 20 + [1] * 5)
    np.testing.assert_allclose(bags.counts, [[9, 11], [3, 2]])
    assert len(dataset) == 7
    assert dataset[2][0].shape == (9, 1)


def test_sparse_rows_become_dense_batch_by_batch():
    rows, _ = BagDataset(csr_array(X), Y)[[3, 4]]
    torch.testing.assert_close(rows, BagDataset(X, Y)[[3, 4]][0])


def test_images_keep_their_shape():
    images = np.zeros((len(BAG), 3, 8, 8), dtype=np.uint8)
    assert BagDataset(images, Y)[0][0].shape == (5, 3, 8, 8)


def test_noise_and_labelled_rows_travel_along():
    y = bag_target(BAG, Y["proportion"], noise=0.1)
    covariance = BagDataset(X, y)[[0]][1].covariance
    np.testing.assert_allclose(covariance[0], 0.25 * np.array([[1, -1], [-1, 1]]))
    labels = np.full(len(BAG), np.nan)
    labels[:2] = [0, 1]
    dataset = BagDataset(X, bag_target(BAG, Y["proportion"], labels=labels))
    assert (dataset.bags.sizes == 1).sum() >= 2


@pytest.mark.parametrize("batch_size", [1, 8, 1000])
def test_every_bag_comes_once_and_batches_keep_their_size(batch_size):
    sampler = BagBatchSampler(BagDataset(X, Y), batch_size)
    for _ in range(3):
        announced, batches = len(sampler), list(sampler)
        assert announced == len(batches)
        assert sorted(bag for batch in batches for bag in batch) == list(range(7))
        for batch in batches:
            assert len(batch) == 1 or SIZES[batch].sum() <= batch_size


def test_all_epochs_and_processes_have_as_many_batches():
    sizes = np.random.default_rng(0).integers(1, 30, 60)
    bag = np.repeat(np.arange(60), sizes)
    y = bag_target(bag, proportion=np.full(60, 0.5)[bag])
    dataset = BagDataset(np.zeros((len(bag), 1)), y)
    alone = BagBatchSampler(dataset, 40, seed=1)
    counts = set()
    for epoch in range(40):
        batches = list(alone)
        counts.add(len(batches))
        assert sorted(bag for batch in batches for bag in batch) == list(range(60))
        assert epoch >= 4 or max(sizes[batch].sum() for batch in batches) <= 40
    assert counts == {len(alone)}
    both = [BagBatchSampler(dataset, 40, seed=1, num_replicas=2, rank=rank) for rank in (0, 1)]
    first, second = map(list, both)
    assert len(first) == len(second) == len(both[0]) == -(-len(alone) // 2)
    seen = {bag for batch in first + second for bag in batch}
    assert seen == set(range(60))
    assert first[0] != second[0]
    with pytest.raises(ValueError, match="rank must be below num_replicas=2, not 2"):
        BagBatchSampler(dataset, num_replicas=2, rank=2)


def test_same_seed_same_orders():
    dataset = BagDataset(X, Y)
    one, other = BagBatchSampler(dataset, 8, seed=3), BagBatchSampler(dataset, 8, seed=3)
    first, second = list(one), list(one)
    assert first != second
    assert [list(other), list(other)] == [first, second]
    one.set_epoch(0)
    assert list(one) == first
    assert next(iter(BagBatchSampler(dataset, 8, shuffle=False))) == [0]


def test_a_batch_has_as_many_bags_as_are_asked_for():
    dataset = BagDataset(X, Y)
    batches = list(BagBatchSampler(dataset, 1, seed=3, least_bags=2))
    assert sorted(bag for batch in batches for bag in batch) == list(range(len(dataset)))
    assert [len(batch) for batch in batches[:-1]] == [2] * (len(batches) - 1)
    with pytest.raises(ValueError, match="least_bags must be a whole number of at least 1, not 0"):
        BagBatchSampler(dataset, least_bags=0)


def test_a_loader_of_torch_takes_them():
    dataset = BagDataset(X, Y)
    loader = DataLoader(dataset, sampler=BagBatchSampler(dataset, 8), batch_size=None)
    assert sum(len(rows) for rows, _ in loader) == len(X)


def test_a_schedule_has_as_many_steps_as_epochs_have_batches():
    dataset = BagDataset(X, Y)
    loader = DataLoader(dataset, sampler=BagBatchSampler(dataset, 8), batch_size=None)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=0.1, epochs=3, steps_per_epoch=len(loader)
    )
    for _ in range(3):
        for _ in loader:
            optimiser.step()
            schedule.step()
    assert schedule.last_epoch == 3 * len(loader) == schedule.total_steps


def test_mistakes_get_one_sentence():
    with pytest.raises(ValueError, match="X has 3 rows but y has 46"):
        BagDataset(X[:3], Y)
    with pytest.raises(ValueError, match=r"X must be an array, .* not of the type list"):
        BagDataset(X.tolist(), Y)
    with pytest.raises(ValueError, match=r"not of the type tuple; several inputs .* one array"):
        BagDataset((X, X), Y)
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1, not 0"):
        BagBatchSampler(BagDataset(X, Y), 0)
