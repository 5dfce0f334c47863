"""Models on a device of torch, of which every machine has the processor."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import rbf_kernel

from unbag import LLPKernelClassifier, LLPLinearClassifier, LLPLinearClassifierCV
from unbag.datasets import make_gaussian_bags

pytest.importorskip("torch")

DATA = make_gaussian_bags(n_bags=24, bag_size=20, n_features=4, random_state=0)
WITHIN = {np.float32: 1e-3, np.float64: 1e-5}


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("objective", ["likelihood", "forward"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_model_in_torch_equals_numpy(fit_intercept, objective, dtype):
    X = DATA.X.astype(dtype)
    here, there = (
        LLPLinearClassifier(
            fit_intercept=fit_intercept, objective=objective, tol=1e-6, device=device
        ).fit(X, DATA.y)
        for device in (None, "cpu")
    )
    np.testing.assert_allclose(
        there.decision_function(X), here.decision_function(X), atol=WITHIN[dtype]
    )
    assert isinstance(there.coef_, np.ndarray)
    assert there.coef_.dtype == there.intercept_.dtype == dtype


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_search_in_torch_equals_numpy(n_classes, dtype):
    data = make_gaussian_bags(
        n_bags=24, bag_size=20, n_features=4, n_classes=n_classes, random_state=0
    )
    X = data.X.astype(dtype)
    here, there = (
        LLPLinearClassifierCV(alphas=[0.1, 0.01, 0.001], tol=1e-6, device=device).fit(X, data.y)
        for device in (None, "cpu")
    )
    assert there.alpha_ == here.alpha_
    for name in ("selection_risks_", "out_of_fold_scores_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), atol=WITHIN[dtype])


@pytest.mark.parametrize("size", [8, 20])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_default_fit_in_single_precision_gives_the_scores_of_double(n_classes, size):
    data = make_gaussian_bags(
        n_bags=20, bag_size=size, n_features=4, n_classes=n_classes, random_state=1
    )
    double = LLPLinearClassifierCV().fit(data.X, data.y)
    single = LLPLinearClassifierCV(device="cpu").fit(data.X.astype(np.float32), data.y)
    assert single.alpha_ == double.alpha_
    expected = double.decision_function(data.X)
    found = single.decision_function(data.X.astype(np.float32))
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=0.01 * np.abs(expected).max())


@pytest.mark.parametrize("estimator", [LLPLinearClassifier, LLPLinearClassifierCV])
def test_sparse_data_are_refused_on_a_device(estimator):
    with pytest.raises(ValueError, match="device='cpu' takes dense X only; use device=None for"):
        estimator(device="cpu").fit(csr_array(DATA.X), DATA.y)


def test_model_trained_on_a_device_predicts_for_sparse_data():
    model = LLPLinearClassifier(device="cpu").fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        model.decision_function(csr_array(DATA.X)), model.decision_function(DATA.X)
    )


def test_linear_model_names_an_unknown_device():
    with pytest.raises(ValueError, match="device='abacus' cannot be used here"):
        LLPLinearClassifier(device="abacus").fit(DATA.X, DATA.y)


def test_precomputed_kernel_in_torch_equals_its_name():
    named = LLPKernelClassifier(gamma=0.5, precision="double", tol=1e-8).fit(DATA.X, DATA.y)
    given = LLPKernelClassifier(kernel="precomputed", precision="double", tol=1e-8, device="cpu")
    given.fit(rbf_kernel(DATA.X, gamma=0.5), DATA.y)
    np.testing.assert_allclose(
        given.decision_function(rbf_kernel(DATA.X[:50], DATA.X, gamma=0.5)),
        named.decision_function(DATA.X[:50]),
        atol=1e-6,
    )
