"""Steps of a device: what a search on a GPU starts, each of which takes time whatever its size."""

from collections import Counter

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from unbag import _arrays as arrays
from unbag import check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.observations.base import OffsetObjective
from unbag.observations.losses import get_loss
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.solvers.lbfgs import minimise
from unbag.solvers.spaces import KernelSpace
from unbag.weights import decontamination_weights

torch = pytest.importorskip("torch")
modes = pytest.importorskip("torch.utils._python_dispatch")

DATA = make_gaussian_bags(n_bags=48, bag_size=16, n_features=6, random_state=0)
HALF = np.arange(48) % 2 == 0


class Steps(modes.TorchDispatchMode):
    """Counts what torch computes, writes or moves, by kind; views of memory are free."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.kinds = Counter()
        send, cpu = arrays._send, torch.Tensor.cpu

        def counted_send(*args):
            self.kinds["up"] += 1
            with modes._disable_current_modes():
                return send(*args)

        def counted_cpu(tensor):
            self.kinds["down"] += 1
            return cpu(tensor)

        monkeypatch.setattr(arrays, "_send", counted_send)
        monkeypatch.setattr(torch.Tensor, "cpu", counted_cpu)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {_place(a) for a in args if isinstance(a, torch.Tensor)}
        is_view = isinstance(result, torch.Tensor) and _place(result) in given
        if func._schema.is_mutable or not is_view:
            self.kinds[str(func)] += 1
        if func is torch.ops.aten.sum.dim_IntList and result.dtype != args[0].dtype:
            self.kinds["conversion"] += 1  # which a GPU makes a step of its own
        return result


def _place(tensor):
    return tensor.untyped_storage().data_ptr()


class Evaluations:
    """Counts the evaluations of an objective."""

    def __init__(self, objective):
        self.n_outputs, self.objective, self.calls = objective.n_outputs, objective, 0

    def value_and_gradient(self, scores, problem):
        self.calls += 1
        return self.objective.value_and_gradient(scores, problem)


@pytest.fixture
def search():
    """A search as a classifier poses it: the penalties and problems of a batch, on torch."""
    bags = check_bag_target(DATA.y)
    tables = [decontamination_weights(bags), np.zeros((48, 2))]
    tables[1][HALF] = decontamination_weights(bags.take(HALF)[0])
    K = torch.asarray(rbf_kernel(DATA.X, gamma=0.1), dtype=torch.float32)
    prior = np.array([0.4, 0.6])
    risk = CorrectedRisk(np.stack(tables), bags.membership, get_loss("logistic"), prior, like=K)
    objective = Evaluations(OffsetObjective(risk, np.array([[0.1], [0.2]])))
    penalty = np.repeat(10.0 ** -np.arange(5), 2)
    return objective, KernelSpace(K, 1), penalty, np.tile([0, 1], 5)


def test_a_search_takes_few_steps_an_iteration(monkeypatch, search):
    with Steps(monkeypatch) as steps:
        solution = minimise(*search)
    iterations = int(solution.n_iter.max())
    assert iterations > 20
    assert steps.kinds.total() <= 48 * iterations


def test_numbers_are_brought_back_twice_an_evaluation_and_twice_an_iteration(monkeypatch, search):
    with Steps(monkeypatch) as steps:
        solution = minimise(*search)
    iterations, evaluations = int(solution.n_iter.max()), search[0].calls
    assert steps.kinds["down"] == 2 * (evaluations - 1) + 2 * iterations + 2


def test_steps_of_an_iteration_with_one_evaluation(monkeypatch, search):
    objective, *others = search
    counts = []
    for limit in range(8):
        objective.calls = 0
        with Steps(monkeypatch) as steps:
            minimise(objective, *others, tol=0, max_iter=limit)
        monkeypatch.undo()
        counts.append((objective.calls, steps.kinds.total()))
    evaluations, steps = np.diff(counts, axis=0).T
    assert (evaluations == 1).sum() > 3
    assert steps[evaluations == 1].max() <= 38
