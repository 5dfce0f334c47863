"""How many bags a precision takes, against what measures then say; how often bags are misordered."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from estimates import plain_estimate
from gaussian import gaussian_auc
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import estimate
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
    probability = np.outer(
        stats.binom.pmf(first, sizes[0], 0.3), stats.binom.pmf(second, sizes[1], 0.4)
    )
    left, right = first[:, None] * sizes[1], second * sizes[0]
    strict, equal = probability[right < left].sum(), probability[right == left].sum()
    assert misordering_probability(0.3, 0.4, *sizes) == pytest.approx(strict)
    assert misordering_probability(0.3, 0.4, *sizes, ties=0.5) == pytest.approx(strict + equal / 2)


def test_large_bags_and_equal_ones():
    assert misordering_probability(0.45, 0.55, 2000) < 1e-6
    assert misordering_probability(0.4, 0.4, 9, ties=0.5) == pytest.approx(0.5)
    assert misordering_probability(0.0, 1.0, 3) == 0


# --- how many bags ------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["balanced_accuracy", "roc_auc"])
def test_moments_of_drawn_labels_are_exact(measure):
    """Of three labels, positive with probability ¼, none is in 27 of 64 bags, one in 27, two in 9."""
    options = {"measure": measure, "expected": 0.8}
    drawn = required_bags(3, (0.25, 0.25), 0.01, **options)
    listed = required_bags(3, np.repeat([0, 1, 2, 3], [27, 27, 9, 1]) / 3, 0.01, **options)
    # three bags more make up for random variation
    assert drawn == listed + 3


def test_labels_are_the_limit_of_pure_bags():
    """Rows of known label: b(1 − b)/4 · (1/m₀ + 1/m₁) for balanced accuracy."""
    error = np.sqrt(0.8 * 0.2 / 4 * 2 / 500)
    assert required_bags(10, [0, 0, 1, 1], error, expected=0.8) == 100


@pytest.mark.parametrize(
    ("size", "proportions", "target"),
    [(8, (0, 0.5), 0.04), (50, (0, 1), 0.05), (40, (0.2, 0.6), 0.02)],
    ids=["small bags", "few bags", "narrow"],
)
@pytest.mark.parametrize("measure", ["balanced_accuracy", "roc_auc"])
def test_planned_bags_give_the_wanted_standard_error(measure, size, proportions, target):
    separation, n_draws = 1.5, 400
    truth = gaussian_auc(separation) if measure == "roc_auc" else float(ndtr(separation / 2))
    n_bags = required_bags(size, proportions, target, measure=measure, expected=truth)
    found, errors = [], []
    for seed in range(n_draws):
        data = make_gaussian_bags(
            n_bags, size, proportions, n_features=1, separation=separation, random_state=seed
        )
        found.append(plain_estimate(measure, data.y, data.X[:, 0]))
        if seed < 20:
            errors.append(estimate(measure, data.y, data.X[:, 0], n_resamples=300).standard_error)
    # of whole bags, few of which are somewhat better than they need to be
    assert 0.75 * target < np.std(found) < 1.1 * target
    # of fewer than ten bags, what is estimated makes up for their number
    if n_bags >= 10:
        assert np.mean(errors) == pytest.approx(np.std(found), rel=0.15)


def test_more_spread_size_and_quality_take_fewer_bags():
    by_spread = [required_bags(20, span, 0.02) for span in ((0.4, 0.6), (0.2, 0.8), (0, 1))]
    assert by_spread == sorted(by_spread, reverse=True)
    by_size = [required_bags(size, (0.2, 0.8), 0.02) for size in (5, 10, 20, 40, 80)]
    assert by_size == sorted(by_size, reverse=True)
    for measure in ("balanced_accuracy", "roc_auc"):
        better = required_bags(20, (0, 1), 0.02, measure=measure, expected=0.9)
        assert better < required_bags(20, (0, 1), 0.02, measure=measure)
    assert required_bags(10, [0, 0, 1, 1], 10) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: required_bags(0, (0, 1), 0.1), "bag_size must be a whole number of at least 1"),
        (lambda: required_bags(5, (0.6, 0.4), 0.1), "0 <= low <= high <= 1"),
        (lambda: required_bags(5, [0.5], 0.1), "three or more observed proportions"),
        (lambda: required_bags(5, [0.5, 0.7, 1.5], 0.1), "between 0 and 1"),
        (lambda: required_bags(5, [0.5, 0.5, 0.5], 0.1), "same proportion"),
        (lambda: required_bags(5, (1, 1), 0.1), "same proportion"),
        (lambda: required_bags(5, (0, 1), 0), "standard_error must be a positive number"),
        (lambda: required_bags(5, (0, 1), 0.1, measure="f1"), "measure must be one of"),
        (lambda: required_bags(5, (0, 1), 0.1, expected=1), "expected must lie between 0"),
        (lambda: misordering_probability(0.6, 0.5, 8), "low <= high <= 1 fails"),
        (lambda: misordering_probability(0.4, 0.5, 8, 0), "whole number of at least 1, not 0"),
        (lambda: misordering_probability(0.4, 0.5, 8, ties=2), "ties must lie"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
