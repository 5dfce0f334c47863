"""Views, adversarial moves and mixed bags: what they promise."""

import numpy as np
import pytest
import torch
from torch import nn

from unbag import bag_target, check_bag_target
from unbag.observations import label_posteriors
from unbag.torch import CountLikelihoodLoss, count_posteriors, mix_bags, vat_loss, view_loss

INDEX = np.repeat([0, 1, 2], [6, 4, 10])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_posteriors_are_those_of_the_library(n_classes):
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=20)
    counts = np.zeros((3, n_classes))
    np.add.at(counts, (INDEX, labels), 1)
    scores = rng.normal(size=(20, 1 if n_classes == 2 else n_classes))
    told = counts[INDEX] if n_classes > 2 else counts[INDEX, 1]
    expected = label_posteriors(scores.T[None], check_bag_target(bag_target(INDEX, counts=told)))[
        0
    ].T
    found = count_posteriors(torch.tensor(scores), (INDEX, counts))
    np.testing.assert_allclose(found.sum(dim=1), 1, atol=1e-6)
    np.testing.assert_allclose(found[:, -expected.shape[1] :], expected, atol=1e-5)


def test_sure_rows_weigh_one_and_doubtful_ones_nothing():
    posteriors = torch.tensor([[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    scores = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = view_loss(scores, posteriors)
    expected = nn.functional.cross_entropy(scores[:1], torch.tensor([1])) / 2
    torch.testing.assert_close(loss, expected)
    loss.backward()
    torch.testing.assert_close(scores.grad[1], torch.zeros(3), atol=1e-6, rtol=0)


def test_adversarial_moves_change_more_than_others_do():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3))
    X = torch.randn(64, 20)
    running = module[1].running_mean.clone()
    found = vat_loss(module, X, size=0.5)
    torch.testing.assert_close(module[1].running_mean, running)
    random = torch.randn_like(X)
    random = X + 0.5 * random / random.norm(dim=1, keepdim=True)
    before, after = (module(x).log_softmax(dim=1) for x in (X, random))
    other = nn.functional.kl_div(after, before, reduction="batchmean", log_target=True)
    assert found > 2 * other
    found.backward()
    assert module[0].weight.grad.abs().sum() > 0


def test_mixed_bags_have_the_counts_and_the_covariance_that_they_say():
    """By drawing the parts again and again; three classes, bags of unequal size."""
    rng = np.random.default_rng(0)
    index = np.repeat([0, 1], [12, 9])
    labels = np.concatenate([[0] * 6 + [1] * 4 + [2] * 2, [0] * 1 + [1] * 3 + [2] * 5])
    counts = np.stack([np.bincount(labels[index == b], minlength=3) for b in range(2)])
    off = []
    for _ in range(4000):
        rows, bags = mix_bags(torch.arange(21), (index, counts), 1.0, rng)
        assert len(rows) == len(torch.unique(rows[bags.index == 0])) + (bags.index == 1).sum()
        true = np.bincount(labels[rows[bags.index == 0]], minlength=3)
        S = bags.covariance[0].numpy()
        gap = (true - bags.counts[0].numpy())[:2]
        off.append(gap @ np.linalg.solve(S[:2, :2], gap))
    # a squared length in units of the covariance has the mean 2
    assert np.mean(off) == pytest.approx(2, abs=4 * np.std(off) / np.sqrt(len(off)))
    assert torch.isfinite(CountLikelihoodLoss()(torch.randn(len(rows), 3), bags))


def test_bags_that_are_not_mixed_stay_as_they_are():
    counts = [[3, 3], [1, 3], [5, 5]]
    rows, bags = mix_bags(torch.arange(20), (INDEX, counts), 0.0)
    torch.testing.assert_close(rows, torch.arange(20))
    np.testing.assert_allclose(bags.counts, counts)
    assert not bags.covariance.any()
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\]"):
        mix_bags(torch.arange(20), (INDEX, counts), 2.0)
