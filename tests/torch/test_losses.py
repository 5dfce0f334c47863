"""Losses of torch are the objectives of the library, and autograd knows their gradients."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from unbag import bag_target, check_bag_target
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.losses import get_loss
from unbag.paper.proportion_risk import ProportionRisk
from unbag.torch import (
    CountLikelihoodLoss,
    ForwardLoss,
    ProportionLoss,
)

ALL = np.zeros(1, dtype=np.intp)


def make_bags(n_classes, sizes=(3, 20, 7, 20, 5, 1)):
    """Bags of different kinds and sizes, with scores of their rows."""
    rng = np.random.default_rng(n_classes)
    index = np.repeat(np.arange(len(sizes)), sizes)
    labels = rng.integers(n_classes, size=len(index))
    counts = np.zeros((len(sizes), n_classes))
    np.add.at(counts, (index, labels), 1)
    order = rng.permutation(len(index))
    scores = rng.normal(size=(len(index), 1 if n_classes == 2 else n_classes))
    return index[order], counts, scores


class Forward:
    """−(1/T) Σ_j log Σ_c (γ_bc/q_c) p_jc, with the gradient p − ρ, ρ the class given row and bag."""

    def __init__(self, bags):
        self.ratio = (bags.clipped_proportions / bags.class_shares)[bags.index]

    def value_and_gradient(self, scores, _):
        f = scores[0].T
        p = softmax(f if f.shape[1] > 1 else np.hstack([0 * f, f]), axis=1)
        rho = self.ratio * p
        rho = rho / rho.sum(axis=1, keepdims=True)
        slopes = ((p - rho) / len(f))[:, -f.shape[1] :]
        return -np.log((self.ratio * p).sum(axis=1)).mean(keepdims=True), slopes.T[None]


def losses_and_objectives(index, counts):
    reported = counts if counts.shape[1] > 2 else counts[:, 1]
    bags = check_bag_target(bag_target(index, counts=reported[index]))
    each = np.ones(bags.n_bags, dtype=bool)
    parts = np.repeat(bags.sizes[:, None] / bags.n_instances, bags.n_classes, axis=1)
    yield CountLikelihoodLoss(), CountLikelihood(each, bags)
    yield ForwardLoss(bags.class_shares), Forward(bags)
    logistic = get_loss("logistic", bags.n_classes)
    yield ProportionLoss(), ProportionRisk(parts, bags, logistic, "cross_entropy")


def test_given_their_sum_counts_have_the_probabilities_of_all_labellings():
    index, counts, scores = make_bags(2, sizes=(3, 2, 2))
    p = 1 / (1 + np.exp(-scores[:, 0]))
    labellings = np.array(list(product([0, 1], repeat=len(index))))
    probabilities = np.where(labellings == 1, p, 1 - p).prod(axis=1)
    found = np.stack([labellings[:, index == bag].sum(axis=1) for bag in range(3)], axis=1)
    same = (found == counts[:, 1]).all(axis=1)
    same_sum = found.sum(axis=1) == counts[:, 1].sum()
    loss = CountLikelihoodLoss(condition_on_total=1.0)(torch.tensor(scores), (index, counts))
    expected = -np.log(probabilities[same].sum() / probabilities[same_sum].sum()) / len(index)
    np.testing.assert_allclose(loss, expected, rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_given_their_sum_counts_say_nothing_of_an_intercept(n_classes):
    index, counts, scores = make_bags(n_classes, sizes=(40, 25, 30))
    scores = torch.tensor(scores)
    exact = CountLikelihoodLoss(condition_on_total=1.0)
    for module in (CountLikelihoodLoss(condition_on_total=0.6), exact):
        assert torch.autograd.gradcheck(
            lambda f, module=module: module(f, (index, counts)),
            scores.clone().requires_grad_(),
            atol=1e-6,
            fast_mode=True,
        )
    plain = CountLikelihoodLoss().value_and_gradient(scores, (index, counts))[1].sum(dim=0)
    given = exact.value_and_gradient(scores, (index, counts))[1].sum(dim=0)
    # the saddlepoint approximation is a little off
    assert given.abs().max() < 0.02 * plain.abs().max()
    # what is given in part is between
    exact.condition_on_total = 0.25
    part = exact.value_and_gradient(scores, (index, counts))[1].sum(dim=0)
    torch.testing.assert_close(part, 0.75 * plain + 0.25 * given)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_autograd_agrees_with_finite_differences(n_classes):
    index, counts, scores = make_bags(n_classes)
    for module, _ in losses_and_objectives(index, counts):
        tracked = torch.tensor(scores, requires_grad=True)
        assert torch.autograd.gradcheck(
            lambda f, module=module: module(f, (index, counts)), tracked, atol=1e-6, fast_mode=True
        )


def test_two_classes_may_have_one_column_or_two():
    index, counts, scores = make_bags(2)
    one = torch.tensor(scores)
    two = torch.cat([-one / 2, one / 2], dim=1)
    for module, _ in losses_and_objectives(index, counts):
        expected = module(one, (index, counts))
        for given, reported in [(one[:, 0], counts[:, 1]), (two, counts)]:
            torch.testing.assert_close(module(given, (index, reported)), expected)


def test_half_precision_is_taken_to_single():
    index, counts, scores = make_bags(3)
    half = torch.tensor(scores, dtype=torch.bfloat16, requires_grad=True)
    value = CountLikelihoodLoss()(half, (index, counts))
    value.backward()
    assert value.dtype == torch.float32
    assert half.grad.dtype == torch.bfloat16
    exact = CountLikelihoodLoss()(half.detach().double(), (index, counts))
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=0)


def test_noise_of_counts_is_allowed_for():
    index, counts, scores = make_bags(2, sizes=[12] * 4)
    y = bag_target(index, counts=counts[index, 1], noise=1.5)
    objective = CountLikelihood(np.ones(4, dtype=bool), check_bag_target(y))
    covariance = 1.5**2 * np.array([[1.0, -1.0], [-1.0, 1.0]]) * np.ones((4, 1, 1))
    value = CountLikelihoodLoss()(torch.tensor(scores), (index, counts, covariance))
    np.testing.assert_allclose(value, objective.value(scores.T[None], ALL)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ForwardLoss([0.5, 0.0]), "a positive share for each class"),
        (
            lambda: CountLikelihoodLoss(condition_on_total=2),
            r"condition_on_total must lie in \[0, 1\]",
        ),
        (
            lambda: ForwardLoss([0.2, 0.3, 0.5])(torch.zeros(2), ([0, 0], [1])),
            "class_shares must hold one share for each of the 2 classes",
        ),
        (
            lambda: CountLikelihoodLoss()(torch.zeros(2), ([0, 0], [3])),
            "Bag 0 of the batch has 2 rows, and its classes cannot have the counts -1, 3",
        ),
        (
            lambda: ProportionLoss()(torch.zeros(2), ([0, 0], [float("nan")])),
            "The counts of the bags must be numbers, and some are not",
        ),
        (
            lambda: ProportionLoss()(torch.zeros(2), torch.tensor([0, 0])),
            "bags must be a BagBatch, or a pair of the bag of each row",
        ),
        (
            lambda: ProportionLoss()(torch.zeros(2), ([0, -1], [1])),
            "The bags of rows must be whole numbers from 0 on",
        ),
        (
            lambda: ProportionLoss()(torch.zeros(2), ([0.0, 0.0], [1])),
            "The bags of rows must be whole numbers from 0 on",
        ),
        (
            lambda: ProportionLoss()(torch.zeros(3), ([0, 0, 1], [[1, 1], [1, 1]])),
            "Bag 1 of the batch has 1 rows and counts that sum to 2; a loss needs whole bags",
        ),
        (lambda: ProportionLoss()(torch.zeros(3), ([0, 0], [1])), "scores of 3 rows"),
        (lambda: ProportionLoss()(torch.zeros(2), ([0, 1], [1])), "every bag of a batch needs"),
        (lambda: ProportionLoss()(torch.zeros(2, 3), ([0, 0], [[1, 1]])), "hold 2 classes"),
        (lambda: ProportionLoss()(torch.zeros(2, 3, 1), ([0, 0], [1])), "Scores must have the"),
    ],
)
def test_mistakes_get_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_counts_that_no_labels_give_have_the_noise_of_sampling():
    """Half a positive among two rows, summed over the counts that the rows may have."""
    variance = 2 * 0.25 * 0.75
    density = [np.exp(-((m - 0.5) ** 2) / (2 * variance)) for m in range(3)]
    expected = -np.log(np.dot([0.25, 0.5, 0.25], density) / np.sqrt(1 + 2 * np.pi * variance)) / 2
    found = CountLikelihoodLoss()(torch.zeros(2, dtype=torch.float64), ([0, 0], [[1.5, 0.5]]))
    assert float(found) == pytest.approx(expected)


KINDS = {
    "counts": CountLikelihoodLoss,
    "forward": partial(ForwardLoss, [0.4, 0.6]),
    "proportions": ProportionLoss,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
class TestHabitsOfTorch:
    BAGS = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([1, 2])

    def scores(self):
        return torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)

    def test_a_sum_is_so_many_means(self, kind):
        mean, sum_ = (kind(reduction=r).value_and_gradient for r in ("mean", "sum"))
        for one, all_ in zip(
            mean(self.scores(), self.BAGS), sum_(self.scores(), self.BAGS), strict=True
        ):
            torch.testing.assert_close(5 * one, all_)
        with pytest.raises(ValueError, match="reduction must be one of 'mean', 'sum', not 'none'"):
            kind(reduction="none")

    def test_proportions_are_no_counts(self, kind):
        with pytest.raises(ValueError, match=r"between 0 and 1, as proportions do; give counts"):
            kind()(self.scores(), (self.BAGS[0], torch.tensor([0.5, 2 / 3])))

    def test_second_derivatives_are_right_or_refused_in_a_sentence(self, kind):
        if kind is CountLikelihoodLoss:
            scores = self.scores()
            (slopes,) = torch.autograd.grad(kind()(scores, self.BAGS), scores, create_graph=True)
            with pytest.raises(NotImplementedError, match="first derivatives only"):
                slopes.square().sum().backward()
        else:
            assert torch.autograd.gradgradcheck(lambda f: kind()(f, self.BAGS), self.scores())

    def test_compiled_steps(self, kind):
        weight, loss = torch.ones(5, dtype=torch.float64, requires_grad=True), kind()
        start = torch.linspace(-1, 1, 5, dtype=torch.float64)

        def step():
            return loss(weight * start, self.BAGS)

        (expected,) = torch.autograd.grad(step(), weight)
        compiled = torch.compile(step, backend="eager")
        (found,) = torch.autograd.grad(compiled(), weight)
        torch.testing.assert_close(found, expected)

    def test_scores_may_come_from_several_inputs(self, kind):
        """A loss takes scores, whatever the module made them of."""
        image, table = torch.randn(5, 1, 2, 2), torch.randn(5, 3)
        left, right = nn.Linear(4, 1), nn.Linear(3, 1)
        kind()((left(image.flatten(1)) + right(table))[:, 0], self.BAGS).backward()
        assert left.weight.grad.any()
        assert right.weight.grad.any()
