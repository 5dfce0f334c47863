"""Evaluations that ask nothing on their way, and recordings of them on a GPU."""

import numpy as np
import pytest

from unbag import bag_target, check_bag_target
from unbag.observations import CountLikelihood
from unbag.observations.weighed_bags import WeighedBags

torch = pytest.importorskip("torch")

ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZES = {
    "small": [8] * 12,
    "large": [40] * 6,
    "of all kinds": [3, 40, 8, 1, 25, 60, 8, 17, 5],
}


def draw(sizes, seed=0):
    """Bags of rows in any order, some of them pure, and scores of four columns."""
    rng = np.random.default_rng(seed)
    index = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    counts = rng.integers(0, np.array(sizes) + 1)
    scores = rng.normal(0, 2, (4, 1, len(index)))
    return check_bag_target(bag_target(index, counts=counts[index])), scores


def weighed_bags(bags, like, seed=1):
    weights = np.random.default_rng(seed).uniform(0, 1, (2, bags.n_bags))
    weights[1, 0] = 0
    return WeighedBags(bags, weights, np.zeros((bags.n_bags, 2, 2)), 16, like)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("like", [np.empty(0), torch.empty(0)], ids=["numpy", "torch"])
def test_blind_evaluation_equals_the_one_step_by_step(sizes, like):
    bags, scores = draw(sizes)
    problem = np.array([0, 1, 0, 1])
    weighed = weighed_bags(bags, like)
    scores = scores if isinstance(like, np.ndarray) else torch.as_tensor(scores)
    value, gradient = weighed.evaluate(scores, problem, gradient=True)
    evaluate, tilts = weighed.blind_evaluation(problem), weighed.no_tilts(scores)
    for _ in range(3):
        found, slopes, right, tilts = evaluate(scores, tilts)
        if right:
            break
    assert right
    np.testing.assert_allclose(found, value, rtol=1e-9)
    np.testing.assert_allclose(slopes, gradient, atol=1e-8)


@pytest.mark.parametrize("sizes", [SIZES["small"], SIZES["large"]], ids=["small", "large"])
def test_blind_evaluation_says_where_scores_are_too_large_for_it(sizes):
    bags, scores = draw(sizes)
    weighed, problem = weighed_bags(bags, scores), np.array([0, 1, 0, 1])
    scores[2] *= 1e4
    with np.errstate(all="ignore"):
        *_, right, _ = weighed.blind_evaluation(problem)(scores, weighed.no_tilts(scores))
    assert not right


@ON_A_GPU
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("largest", [2.0, 400.0])
def test_recordings_equal_the_processor(sizes, largest):
    bags, _ = draw(sizes)
    problem, rng = np.array([0, 1, 0, 1, 1, 0]), np.random.default_rng(5)
    folds = np.ones((2, bags.n_bags), dtype=bool)
    folds[1, 0] = False
    here = CountLikelihood(folds, bags)
    there = CountLikelihood(folds, bags, torch.empty(0, device="cuda", dtype=torch.float64))
    for number in range(12):
        # columns leave on the way, and scores may jump
        columns = problem if number < 8 else problem[:3]
        scores = rng.normal(
            0, largest if number % 4 == 3 else 1.0, (len(columns), 1, len(bags.index))
        )
        value, gradient = here.value_and_gradient(scores, columns)
        found, slopes = there.value_and_gradient(torch.as_tensor(scores, device="cuda"), columns)
        np.testing.assert_allclose(found, value, rtol=1e-8)
        np.testing.assert_allclose(slopes.cpu(), gradient, atol=1e-8)
