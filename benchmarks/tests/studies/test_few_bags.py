"""What `benchmarks/few_bags.py` calls the prior is what kernel models choose by, up to chance.

These divide likelihoods by the dispersion of counts, which here is none.
"""

import numpy as np
import pytest

from unbag import LLPKernelClassifierCV
from unbag.datasets import make_gaussian_bags
from unbag.kernels import Kernel
from unbag_bench.studies.few_bags import ALPHAS, Fitted, gains, lead_of_labels, variance_of


@pytest.mark.parametrize("seed", range(3))
def test_prior_of_the_study_is_that_of_the_model(seed):
    data = make_gaussian_bags(n_bags=12, bag_size=8, n_features=4, random_state=seed)
    fits = Fitted(LLPKernelClassifierCV(), data.X, data.y, data.X[:9], 5)
    model = LLPKernelClassifierCV().fit(data.X, data.y)
    assert model.alpha_ == ALPHAS[fits.by_prior]
    np.testing.assert_allclose(
        fits.scores[fits.by_prior], model.decision_function(data.X[:9]), atol=1e-5
    )


def test_linear_functions_vary_as_their_columns_do():
    X = np.random.default_rng(0).normal(size=(40, 3)) + 5
    assert variance_of(Kernel("linear"), X) == pytest.approx(X.var(axis=0).sum())


def test_labels_of_a_half_choose_for_the_other():
    row = {
        "auc": {"ranks of G and F": 0.7, "prior": 0.75},
        "test_auc": {"kernel": [0.6, 0.7, 0.75]},
        "half_auc": [[0.5, 0.7, 0.9], [0.8, 0.7, 0.6]],
    }
    # the first half would take the last (−.1 on the second), the second the first (−.2)
    assert lead_of_labels(row) == pytest.approx(-0.15)
    assert gains([row, {"auc": {"ranks of G and F": 0.7}}], "prior") == pytest.approx([0.05])
