"""Many small bags lead to the least error there can be: a quick form of the benchmark."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from unbag.bounds import misordering_probability

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "consistency.py"


@pytest.fixture(scope="module")
def consistency():
    spec = importlib.util.spec_from_file_location(BENCHMARK.stem, BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("model", ["CIIM", "CIBM"])
def test_error_goes_to_the_bayes_error(consistency, model):
    few, _ = consistency.run(16, model, repeats=15)
    many, _ = consistency.run(2500, model, repeats=4)
    for name in consistency.METHODS:
        assert few[name].mean() > 3e-3, name
        assert many[name].min() >= 0
        # an error falls about as 1/N, which makes 150 times
        assert many[name].mean() < few[name].mean() / 15, name
        assert many[name].mean() < 1e-3, name


def test_bags_are_misordered_as_often_as_computed(consistency):
    wrong = consistency.misordered(consistency.draw(20_000, "CIIM", seed=0))
    exact = misordering_probability(0.45, 0.55, 8)
    assert len(wrong) == pytest.approx(10_000, rel=0.05)
    assert wrong.mean() == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / len(wrong)))


def test_merging_costs_what_the_weights_say(consistency):
    """Of N(0, 1) proportions, halves differ by 2√(2/π) and the two of a pair by 2/√π."""
    found = consistency.expected_cost(4096, "CIIM")
    np.testing.assert_allclose(found, [2, 1, np.pi, np.pi / 2, 1], rtol=0.08)


def test_error_of_a_plane_is_counted_right(consistency):
    data = consistency.draw(2000, "CIIM", seed=0)

    class Plane:
        coef_, intercept_ = np.array([[1.0, 0.5]]), np.array([0.3])

    wrong = (data.X @ [1.0, 0.5] + 0.3 > 0) != data.labels
    counted = np.mean([wrong[data.labels == c].mean() for c in (0, 1)])
    assert consistency.balanced_error(Plane(), data.means) == pytest.approx(counted, abs=0.01)
