"""Plans against what bags turn out to be worth, and against the metrics they are made for."""

import sys
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from gaussian import gaussian_auc
from unbag import bag_target, effective_sample_size
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import estimate
from unbag.evaluation.measures import Area, make_sample, plain_estimate
from unbag.evaluation.uncertainty import Uncertainty
from unbag.paper.bounds import misordering_probability, required_bags

# --- bags in the wrong order --------------------------------------------------------------------


def test_the_papers_example():
    exact = misordering_probability(0.45, 0.55, 8)
    assert round(exact, 2) == 0.26
    # all 9 × 9 pairs of counts, written out
    low, high = stats.binom.pmf(np.arange(9), 8, [[0.45], [0.55]])
    assert exact == pytest.approx(np.tril(np.outer(low, high), -1).sum())
    rng = np.random.default_rng(0)
    labels = rng.uniform(size=(200_000, 2, 8)) < np.array([[0.45], [0.55]])
    counts = labels.sum(axis=2)
    simulated = np.mean(counts[:, 1] < counts[:, 0])
    assert simulated == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 200_000))


@pytest.mark.parametrize("sizes", [(5, 5), (4, 6), (7, 3), (1, 2)])
def test_wrong_order_of_bags_of_any_size_is_a_double_sum(sizes):
    first, second = (np.arange(n + 1) for n in sizes)
    chance = np.outer(stats.binom.pmf(first, sizes[0], 0.3), stats.binom.pmf(second, sizes[1], 0.4))
    left, right = first[:, None] * sizes[1], second * sizes[0]
    strict, equal = chance[right < left].sum(), chance[right == left].sum()
    assert misordering_probability(0.3, 0.4, *sizes) == pytest.approx(strict)
    assert misordering_probability(0.3, 0.4, *sizes, ties=0.5) == pytest.approx(strict + equal / 2)


def test_large_bags_and_equal_ones():
    assert misordering_probability(0.45, 0.55, 2000) < 1e-6
    assert misordering_probability(0.4, 0.4, 9, ties=0.5) == pytest.approx(0.5)
    assert misordering_probability(0.0, 1.0, 3) == 0


# --- what bags are worth ------------------------------------------------------------------------


@pytest.mark.parametrize(("dependence", "bag_model"), [(0.0, "instances"), (1.0, "bags")])
def test_plan_from_examples_agrees_with_bag_information(dependence, bag_model):
    examples = [0.1, 0.3, 0.3, 0.8]
    plan = required_bags(
        10, examples, 60, precision="labelled_rows", dependence=dependence
    )  # fmt: skip
    repeats = plan.n_bags // 4
    shares = np.repeat(np.tile(examples, repeats), 10)
    bag = np.repeat(np.arange(4 * repeats), 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = effective_sample_size(bag_target(bag, shares), cluster_by_bag=bag_model == "bags")
    scale = 4 * repeats / plan.n_bags
    assert found.n_effective == pytest.approx(scale * plan.labelled_rows)
    assert found.fraction_of_labels == pytest.approx(plan.share_of_labels)
    per_bag = plan.labelled_rows / plan.n_bags
    assert plan.labelled_rows >= 60 > plan.labelled_rows - per_bag


@pytest.mark.parametrize(
    "proportions", [(0.1, 0.6), (0.3, 0.3), stats.beta(2, 5)], ids=["range", "one", "beta"]
)
def test_plan_from_a_distribution_counts_the_labels_drawn(proportions):
    """Also bags of one true proportion differ by chance, and so tell something."""
    plan = required_bags(12, proportions, 400, precision="labelled_rows")
    frozen = stats.uniform(0.1, 0.5) if proportions == (0.1, 0.6) else proportions
    rng = np.random.default_rng(0)
    true = (
        np.full(40_000, 0.3)
        if proportions == (0.3, 0.3)
        else frozen.rvs(size=40_000, random_state=rng)
    )
    counts = rng.binomial(12, true)
    y = bag_target(np.repeat(np.arange(40_000), 12), counts=np.repeat(counts, 12))
    found = effective_sample_size(y)
    # three are lost to chance
    scale = (plan.n_bags - 3) / 40_000
    assert found.n_effective * scale == pytest.approx(plan.labelled_rows, rel=0.03)
    assert np.std(counts / 12) == pytest.approx(plan.spread, rel=0.02)
    assert np.mean(counts / 12) == pytest.approx(plan.mean, rel=0.02)


@pytest.mark.parametrize("measure", ["balanced_accuracy", "roc_auc"])
def test_moments_of_drawn_labels_are_exact(measure):
    """Of three labels, positive with chance ¼, none is in 27 of 64 bags, one in 27, two in 9."""
    options = {"measure": measure, "expected": 0.8}
    drawn = required_bags(3, (0.25, 0.25), 0.01, **options)
    listed = required_bags(3, np.repeat([0, 1, 2, 3], [27, 27, 9, 1]) / 3, 0.01, **options)
    # three bags more make up for chance
    assert drawn.n_bags == listed.n_bags + 3
    assert drawn.standard_error == pytest.approx(listed.standard_error)
    assert drawn.spread == pytest.approx(listed.spread)


def test_labels_are_the_limit_of_pure_bags():
    """Rows of known label: b(1 − b)/4 · (1/m₀ + 1/m₁) for balanced accuracy, and Bamber's AUC."""
    plan = required_bags(10, [0, 0, 1, 1], 0.01, expected=0.8)
    rows = plan.n_instances / 2
    assert plan.standard_error**2 == pytest.approx(0.8 * 0.2 / 4 * 2 / rows)
    assert plan.labelled_rows == pytest.approx(plan.n_instances)
    assert plan.share_of_labels == pytest.approx(1)

    plan = required_bags(10, [0, 0, 1, 1], 0.01, measure="roc_auc", expected=0.8)
    distance = np.sqrt(2) * ndtri(0.8)
    placements = ndtr(np.random.default_rng(0).normal(size=400_000) + distance)
    expected = 2 * placements.var() / (plan.n_instances / 2)
    assert plan.standard_error**2 == pytest.approx(expected, rel=0.01)


# --- what the metrics then say ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "proportions", "target"),
    [(8, (0, 0.5), 0.04), (50, (0, 1), 0.05), (40, stats.beta(2, 2), 0.02)],
    ids=["small bags", "few bags", "beta"],
)
@pytest.mark.parametrize("measure", ["balanced_accuracy", "roc_auc"])
def test_planned_bags_give_the_wanted_standard_error(measure, size, proportions, target):
    separation, n_draws = 1.5, 400
    truth = gaussian_auc(separation) if measure == "roc_auc" else float(ndtr(separation / 2))
    plan = required_bags(size, proportions, target, measure=measure, expected=truth)
    assert 0.85 * target < plan.standard_error <= target
    found, errors = [], []
    for seed in range(n_draws):
        data = make_gaussian_bags(
            plan.n_bags, size, proportions, n_features=1, separation=separation, random_state=seed
        )
        found.append(plain_estimate(measure, data.y, data.X[:, 0]))
        if seed < 20:
            errors.append(estimate(measure, data.y, data.X[:, 0], n_resamples=300).standard_error)
    assert np.std(found) == pytest.approx(plan.standard_error, rel=0.1)
    assert np.mean(errors) == pytest.approx(plan.standard_error, rel=0.1)


def test_dependent_instances_take_more_bags():
    """Classes so close that all predictions of a bag are correlated alike, by (2/π) asin ρ."""
    rho, separation, target = 0.3, 0.2, 0.04
    correlation = 2 / np.pi * np.arcsin(rho)
    truth = float(ndtr(separation / 2))
    plan = required_bags(10, (0, 1), target, expected=truth, dependence=correlation)
    assert plan.n_bags > 2 * required_bags(10, (0, 1), target, expected=truth).n_bags
    found = []
    for seed in range(400):
        data = make_gaussian_bags(
            plan.n_bags,
            10,
            n_features=1,
            separation=separation,
            dependence=rho,
            random_state=seed,
        )
        found.append(plain_estimate("balanced_accuracy", data.y, data.X[:, 0]))
    assert np.std(found) == pytest.approx(target, rel=0.1)


def test_half_width_is_that_of_the_interval():
    narrow = required_bags(30, (0, 1), 0.05, precision="half_width", level=0.9)
    assert narrow.half_width <= 0.05
    spare = narrow.n_bags - 2
    reach = stats.t.ppf(0.95, spare) * np.sqrt(narrow.n_bags / spare)
    assert narrow.half_width == pytest.approx(reach * narrow.standard_error)
    # one bag fewer would not do
    before = narrow.standard_error * np.sqrt((narrow.n_bags - 3) / (narrow.n_bags - 4))
    assert stats.t.ppf(0.95, spare - 1) * np.sqrt((spare + 1) / (spare - 1)) * before > 0.05


@pytest.mark.parametrize(("size", "span", "target"), [(100, (0.1, 0.9), 0.06), (50, (0, 0.5), 0.1)])
def test_users_get_the_interval_that_was_planned(size, span, target):
    plan = required_bags(
        size, span, target, precision="half_width", measure="roc_auc", expected=0.92
    )
    assert plan.n_bags >= 10
    widths = []
    for seed in range(30):
        data = make_gaussian_bags(
            n_bags=plan.n_bags, bag_size=size, n_features=1, proportions=span, random_state=seed
        )
        found = Uncertainty(n_resamples=300).of(Area(), make_sample(data.y, data.X[:, 0]))
        widths.append((found.high - found.low) / 2)
    assert np.mean(widths) == pytest.approx(plan.half_width, rel=0.2)


def test_more_spread_size_and_quality_take_fewer_bags():
    def bags(*arguments, **options):
        return required_bags(*arguments, **options).n_bags

    assert bags(20, (0.4, 0.6), 0.02) > bags(20, (0.2, 0.8), 0.02) > bags(20, (0, 1), 0.02)
    plan = required_bags(20, (0.2, 0.8), 0.02)
    assert list(plan.by_size["bag_size"]) == [5, 10, 20, 40, 80]
    assert (np.diff(plan.by_size["n_bags"]) < 0).all()
    assert (np.diff(plan.by_size["n_instances"]) > 0).all()
    assert plan.by_size["n_bags"][2] == plan.n_bags
    for measure in ("balanced_accuracy", "roc_auc"):
        better = bags(20, (0, 1), 0.02, measure=measure, expected=0.9)
        assert better < bags(20, (0, 1), 0.02, measure=measure)
    assert bags(10, [0, 0, 1, 1], 10, precision="labelled_rows") == 3


def test_plan_gives_its_table_as_a_frame(monkeypatch):
    plan = required_bags(20, (0.2, 0.8), 0.02)
    frame = plan.frame()
    assert list(frame) == ["bag_size", "n_bags", "n_instances"]
    assert frame.set_index("bag_size").loc[20, "n_bags"] == plan.n_bags
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="frame\\(\\) needs pandas"):
        plan.frame()


def test_plan_says_it_in_words():
    text = str(required_bags(1000, (0.2, 0.8), 0.01, measure="roc_auc", expected=0.9))
    assert "bags of 1,000 instances" in text.replace("\n", " ")
    assert "label-free AUC" in text.replace("\n", " ")
    assert "4,000" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: required_bags(0, (0, 1), 0.1), "bag_size must be a whole number of at least 1"),
        (lambda: required_bags(2.5, (0, 1), 0.1), "bag_size must be a whole number of at least 1"),
        (lambda: required_bags(5, (0.6, 0.4), 0.1), "0 <= low <= high <= 1"),
        (lambda: required_bags(5, stats.norm(), 0.1), "from -inf to inf"),
        (lambda: required_bags(5, [0.5, 1.5], 0.1), "0 <= low <= high <= 1"),
        (lambda: required_bags(5, stats.dirichlet([1, 1]), 0.1), "Plans are for two classes"),
        (lambda: required_bags(5, [0.5], 0.1), "three or more observed proportions"),
        (lambda: required_bags(5, [0.5, 0.7, 1.5], 0.1), "between 0 and 1"),
        (lambda: required_bags(5, [0.5, 0.5, 0.5], 0.1), "same proportion"),
        (lambda: required_bags(5, (1, 1), 0.1), "same proportion"),
        (lambda: required_bags(5, (0, 1), 0), "target must be a positive number"),
        (lambda: required_bags(5, (0, 1), np.nan), "target must be a positive number"),
        (lambda: required_bags(5, (0, 1), 0.1, precision="variance"), "precision must be one of"),
        (lambda: required_bags(5, (0, 1), 0.1, measure="f1"), "measure must be one of"),
        (lambda: required_bags(5, (0, 1), 0.1, expected=1), "expected must lie between 0"),
        (lambda: required_bags(5, (0, 1), 0.1, level=95), "level must lie between 0"),
        (lambda: required_bags(5, (0, 1), 0.1, dependence=-1), "dependence must lie"),
        (lambda: misordering_probability(0.6, 0.5, 8), "low <= high <= 1 fails"),
        (lambda: misordering_probability(0.4, 0.5, 8, 0), "whole number of at least 1, not 0"),
        (lambda: misordering_probability(0.4, 0.5, 8, ties=2), "ties must lie"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
