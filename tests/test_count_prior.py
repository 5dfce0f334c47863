"""The distribution of counts: its quadrature and its fit."""

from math import inf

import numpy as np
import pytest
from scipy.stats import betabinom

from unbag.count_prior import CountPrior, fit_count_prior

PRIORS = [
    CountPrior(0.5, 2.0),
    CountPrior(0.3, 0.4),
    CountPrior(0.07, 30.0),
    CountPrior(0.8, 1e4),
    CountPrior(0.25, inf),
    CountPrior(0.001, 0.01),
    CountPrior(0.5, 0.01),
]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("size", [1, 2, 9, 64, 500, 3000])
def test_quadrature_is_exact_for_every_count(prior, size):
    p, log_w = prior.nodes(size)
    m = np.arange(size + 1)[:, None]
    terms = np.exp(m * np.log(p) + (size - m) * np.log1p(-p) + log_w - prior.log_weight(m, size))
    np.testing.assert_allclose(terms.sum(axis=1), 1, atol=1e-8)
    assert len(p) <= max(size // 2 + 1, 1)
    assert size < 500 or len(p) < 5 * np.sqrt(size) or not 0.1 < prior.concentration < 100


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1, 3), (6, 2), (20, 60)])
def test_fitted_prior_recovers_the_truth(a, b):
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 60, size=4000)
    prior = fit_count_prior(rng.binomial(sizes, rng.beta(a, b, size=4000)), sizes)
    assert prior.mean == pytest.approx(a / (a + b), rel=0.05)
    assert prior.concentration == pytest.approx(a + b, rel=0.3)


def test_no_other_parameters_are_more_likely():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 20, size=60)
    counts = rng.binomial(sizes, rng.beta(2, 3, size=60))
    prior = fit_count_prior(counts, sizes)

    def fit(mean, c):
        return betabinom.logpmf(counts, sizes, c * mean, c * (1 - mean)).sum()

    best = fit(prior.mean, prior.concentration)
    for mean in prior.mean * np.array([0.99, 1, 1.01]):
        for c in prior.concentration * np.array([0.9, 0.99, 1, 1.01, 1.1]):
            assert fit(mean, c) <= best + 1e-9


def test_counts_of_shuffled_labels_are_nearly_binomial():
    sizes = np.full(2000, 30)
    prior = fit_count_prior(np.random.default_rng(0).binomial(30, 0.2, size=2000), sizes)
    assert prior.mean == pytest.approx(0.2, rel=0.03)
    assert prior.concentration > 500


@pytest.mark.parametrize(
    ("counts", "sizes", "mean"),
    [
        ([3] * 9, [10] * 9, 0.3),
        ([4], [16], 0.25),
        ([0, 1, 1, 1], [1] * 4, 0.75),
        ([0] * 5, [9] * 5, 0.5 / 46),
        ([9] * 5, [9] * 5, 1 - 0.5 / 46),
        ([1, 2, 2, 1, 2, 1], [3] * 6, 0.5),
    ],
)
def test_counts_that_vary_little_are_binomial(counts, sizes, mean):
    prior = fit_count_prior(counts, sizes)
    assert prior.mean == pytest.approx(mean)
    assert prior.concentration == inf


def test_pure_bags_only_give_the_smallest_concentration():
    prior = fit_count_prior([0, 8, 8, 0, 8], [8] * 5)
    assert prior.mean == pytest.approx(0.6, abs=0.01)
    assert 0 < prior.concentration < 0.1


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="one count and one size"):
        fit_count_prior([1, 2], [3])
    with pytest.raises(ValueError, match="between 0 and its size"):
        fit_count_prior([4], [3])
