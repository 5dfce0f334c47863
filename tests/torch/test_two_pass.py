"""Bags in chunks have the gradient of whole bags."""

import copy

import pytest
import torch
from torch import nn

from unbag.torch import CountLikelihoodLoss, ForwardLoss, ProportionLoss, two_pass_backward

LOSSES = [CountLikelihoodLoss(), CountLikelihoodLoss(condition_on_total=0.5), ProportionLoss()]


def make_batch(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 4, generator=generator, dtype=dtype)
    index = torch.repeat_interleave(torch.arange(3), torch.tensor([40, 13, 7]))
    counts = torch.tensor([[10.0, 20.0, 10.0], [13.0, 0.0, 0.0], [2.0, 2.0, 3.0]])
    return X, (index[torch.randperm(60, generator=generator)], counts)


def gradients(module):
    return [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("chunk_size", [1, 7, 1000])
@pytest.mark.parametrize("loss", [*LOSSES, ForwardLoss([0.3, 0.3, 0.4])])
def test_gradient_is_that_of_whole_bags(loss, chunk_size):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    whole = copy.deepcopy(module)
    X, bags = make_batch()
    expected = loss(whole(X), bags)
    expected.backward()
    value = two_pass_backward(module, X, bags, loss, chunk_size)
    torch.testing.assert_close(value, expected.detach())
    for found, exact in zip(gradients(module), gradients(whole), strict=True):
        assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_dropout_and_batch_norm_are_the_same_in_both_passes():
    torch.manual_seed(0)
    layers = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    module = nn.Sequential(*layers).double()
    together = copy.deepcopy(module)
    X, bags = make_batch(torch.float64)
    loss = CountLikelihoodLoss()
    torch.manual_seed(1)
    value = two_pass_backward(module, X, bags, loss, chunk_size=20)
    torch.manual_seed(1)
    expected = loss(torch.cat([together(part) for part in X.split(20)]), bags)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for found, exact in zip(gradients(module), gradients(together), strict=True):
        torch.testing.assert_close(found, exact)
    # running means have moved once, not twice
    for found, exact in zip(module.buffers(), together.buffers(), strict=True):
        torch.testing.assert_close(found, exact)


def test_gradients_add_up_as_those_of_backward_do():
    module = nn.Linear(4, 3)
    X, bags = make_batch()
    two_pass_backward(module, X, bags, LOSSES[0], 16)
    once = module.weight.grad.clone()
    two_pass_backward(module, X, bags, LOSSES[0], 16)
    torch.testing.assert_close(module.weight.grad, 2 * once)


def test_chunks_have_rows():
    with pytest.raises(ValueError, match="chunk_size must be a whole number of at least 1, not 0"):
        two_pass_backward(nn.Linear(4, 3), *make_batch(), LOSSES[0], 0)
