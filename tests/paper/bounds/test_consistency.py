"""Many small bags lead to the least error there can be: a quick form of the benchmark."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from unbag import check_bag_target
from unbag.observations.losses import LOSSES
from unbag.paper.bounds import (
    MultiMCM,
    generalization_bound,
    merged_bound,
    misordering_probability,
    sample_bags,
    unbiased_loss,
)
from unbag.paper.rows import load_rows
from unbag.weights.merging import blockwise_max, blockwise_pairwise
from unbag.weights.pairing import pair_extremes
from unbag_bench.studies import consistency

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows():
    return load_rows(consistency.STUDY.folder / "rows.jsonl")


@pytest.mark.parametrize("model", ["CIIM", "CIBM"])
def test_error_goes_to_the_bayes_error(model):
    few = consistency.run(16, model, repeats=15)["errors"]
    many = consistency.run(2500, model, repeats=4)["errors"]
    for name in consistency.METHODS:
        assert np.mean(few[name]) > 3e-3, name
        assert min(many[name]) >= 0
        # an error falls about as 1/N, which makes 150 times
        assert np.mean(many[name]) < np.mean(few[name]) / 15, name
        assert np.mean(many[name]) < 1e-3, name


def test_bags_are_misordered_as_often_as_computed():
    wrong = consistency.misordered(consistency.draw(20_000, "CIIM", seed=0))
    exact = misordering_probability(0.45, 0.55, 8)
    assert len(wrong) == pytest.approx(10_000, rel=0.05)
    assert wrong.mean() == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / len(wrong)))


def test_merging_costs_what_the_weights_say():
    """Of N(0, 1) proportions, halves differ by 2√(2/π) and the two of a pair by 2/√π."""
    found = consistency.expected_cost(4096, "CIIM")
    np.testing.assert_allclose(found, [2, 1, np.pi, np.pi / 2, 1], rtol=0.08)


def test_error_of_a_plane_is_counted_right():
    data = consistency.draw(2000, "CIIM", seed=0)

    class Plane:
        coef_, intercept_ = np.array([[1.0, 0.5]]), np.array([0.3])

    wrong = (data.X @ [1.0, 0.5] + 0.3 > 0) != data.labels
    counted = np.mean([wrong[data.labels == c].mean() for c in (0, 1)])
    assert consistency.balanced_error(Plane(), data.means) == pytest.approx(counted, abs=0.01)


def test_page_shows_the_figures_of_the_results(rows):
    """Without their intervals, and rounded."""
    means = {
        (row["model"], row["n_pairs"]): [1e4 * np.mean(errors) for errors in row["errors"].values()]
        for row in rows
    }
    assert len(means) == 10
    page = (ROOT / "docs" / "bounds.md").read_text()
    shown = re.findall(r"^\| (CIIM|CIBM) \| ([\d,]+) \| (.*) \|$", page, re.MULTILINE)
    assert len(shown) == 6
    for model, n_pairs, cells in shown:
        N = int(n_pairs.replace(",", ""))
        digits = 0 if N == 16 else 2
        assert [float(cell) for cell in cells.split(" | ")] == [
            round(mean, digits) for mean in means[model, N]
        ]
    for least in consistency.least_pairs():
        assert f"N = {least:,}" in page


def test_picture_is_drawn_from_the_results(rows, tmp_path):
    consistency.draw_figure(rows, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")


# --- what the theorems say about it -------------------------------------------------------------

POINTS = np.linspace(-1, 1, 5)
POSITIVES, NEGATIVES = np.repeat(POINTS, [1, 1, 2, 3, 3]), np.repeat(POINTS, [3, 4, 1, 1, 1])
CLASS = {"loss": "logistic", "A": 1.0, "B": 1.0, "delta": 0.2}


def draw_bags(seed, model, proportions=(0.45, 0.55)):
    """Bags of 8 at .45 or .55, that is often misordered."""
    rng = np.random.RandomState(seed)
    gamma = rng.choice(proportions, 120)
    return sample_bags(gamma, 8, POSITIVES, NEGATIVES, model=model, random_state=rng)


def models_of(merged, bag_model):
    """Contamination models of merged bags, and the bag of each instance (−1: in no pair)."""
    pairs, share = merged.pairing, merged.bags.proportions[:, 1]
    models = MultiMCM.from_pairs(pairs, share, merged.bags.sizes, weights=bag_model)
    number = np.full(merged.bags.n_bags, -1)
    number[pairs.positive] = np.arange(len(pairs))
    number[pairs.negative] = len(pairs) + np.arange(len(pairs))
    return models, number[merged.bags.index]


@pytest.mark.parametrize(("model", "bag_model"), [("CIIM", "IIM"), ("CIBM", "IBM")])
def test_first_theorem_holds_for_observed_proportions_of_small_bags(model, bag_model):
    """K = 1, where a quarter of the pairs is upside down: f(x) = sx with |s| ≤ 1, all at once."""
    loss, slopes = LOSSES["logistic"], np.linspace(-1, 1, 9)
    truth = [
        (loss.value(s * POSITIVES).mean() + loss.value(-s * NEGATIVES).mean()) / 2 for s in slopes
    ]
    beyond, distances = [], []
    for seed in range(60):
        sample = draw_bags(seed, model)
        models, bag = models_of(blockwise_pairwise(check_bag_target(sample.target()), 1), bag_model)
        x, bag = sample.X[bag >= 0], bag[bag >= 0]
        distance = max(
            abs(models.risk(loss, s * x, bag) - t) for s, t in zip(slopes, truth, strict=True)
        )
        bound = generalization_bound(models, **CLASS, model=bag_model)
        beyond.append(distance > bound.value)
        distances.append(distance)
    assert np.mean(beyond) <= CLASS["delta"]
    assert bound.value < 15 * np.quantile(distances, 1 - CLASS["delta"])


@pytest.mark.parametrize("merge_size", [2, 5, 30])
def test_merging_never_makes_that_bound_smaller(merge_size):
    for seed in range(5):
        bags = check_bag_target(draw_bags(seed, "CIIM").target())

        def value(merge, size, bags=bags):
            return generalization_bound(models_of(merge(bags, size), "IIM")[0], **CLASS).value

        neighbours = value(blockwise_pairwise, 1)
        pairing = pair_extremes(bags.proportions[:, 1])
        best = generalization_bound(pairing, **CLASS, bags=bags).value
        assert best < neighbours < value(blockwise_pairwise, merge_size)
        assert best < value(blockwise_max, merge_size) < value(blockwise_pairwise, merge_size)


@pytest.mark.parametrize(("model", "bag_model"), [("CIIM", "IIM"), ("CIBM", "IBM")])
def test_one_block_bounds_pairs_without_merging(model, bag_model):
    """With K = N, Σ Δ̂² ≥ N (mean of Δ̂)² ≥ N ε₀²: the second theorem bounds neighbours at K = 1."""
    stated = merged_bound(
        60, 60, 8, **CLASS, epsilon=0.2, spread=0.8, tau=0.5, model=model
    )  # fmt: skip
    assert stated.probability > 0.75
    held = []
    for seed in range(60):
        bags = check_bag_target(draw_bags(seed, model, (0.1, 0.9)).target())
        merged = blockwise_pairwise(bags, 1)
        bound = generalization_bound(models_of(merged, bag_model)[0], **CLASS, model=bag_model)
        share = bags.proportions[:, 1].reshape(-1, 2)
        reached = np.abs(share[:, 0] - share[:, 1]).mean() >= stated.epsilon0
        assert bound.value <= stated.value or not reached
        held.append(reached)
    assert np.mean(held) >= stated.probability + CLASS["delta"]


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_norm_of_the_minimiser(loss):
    """One bag of one instance each, far apart: Ẽ(f) + λ‖f‖² is a sum over the two scores.

    The paper's ‖f̂‖² ≤ 2|ℓ|₀/(ε₀λ) fails; ‖f̂‖ ≤ |ℓ|b/(ε₀λ) holds, here with b = 1.
    """
    kappa, penalty = 0.25, 1e-4
    contrast = 1 - 2 * kappa
    corrected = unbiased_loss(loss, kappa, kappa)
    scores = np.array(
        [
            minimize_scalar(
                lambda t, sign=sign: corrected(t, sign) / 2 + penalty * t**2, bracket=(0, sign)
            ).x
            for sign in (-1, 1)
        ]
    )
    risk = np.sum(corrected(scores, [-1, 1])) / 2
    at_zero = float(LOSSES[loss].value(np.zeros(1))[0])
    # at f = 0 the corrected risk is the risk
    assert np.sum(corrected(0.0, [-1, 1])) / 2 == pytest.approx(at_zero)
    assert risk < -at_zero / contrast
    norm = np.linalg.norm(scores)
    assert norm**2 > 2 * at_zero / (contrast * penalty)
    assert norm <= LOSSES[loss].lipschitz / (contrast * penalty)
