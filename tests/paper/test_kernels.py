"""Kernel matrices against scikit-learn's pairwise functions."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC

from unbag import _threads
from unbag.models import base
from unbag.paper import kernels
from unbag.paper.kernels import Kernel, check_kernel_memory, make_kernel

GAMMA = 0.3

# every kernel that is computed, and the same by scikit-learn
COMPUTED = {
    "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA),
    "linear": linear_kernel,
}


def kernel_of(name):
    return Kernel(name, GAMMA)


def instances(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("name", COMPUTED)
def test_block_equals_scikit_learn_in_double_precision(name):
    X, Z = instances(40), instances(30, seed=1)
    np.testing.assert_allclose(
        kernel_of(name).block(X, Z), COMPUTED[name](X, Z), rtol=1e-12, atol=1e-12
    )


def test_single_precision_data_far_from_the_origin_keep_their_distances():
    X = (instances(40) + 100).astype(np.float32)
    exact = COMPUTED["rbf"](X.astype(float), X.astype(float))
    np.testing.assert_allclose(kernel_of("rbf").matrix(X), exact, atol=1e-5)


def test_rbf_of_an_instance_with_itself_never_exceeds_one():
    X = 100 * instances(200) + 1000
    K = kernel_of("rbf").matrix(X)
    assert K.max() <= 1
    np.testing.assert_allclose(np.diag(K), 1, atol=1e-6)


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("n", [1, 8, 21])
def test_expansion_equals_the_matrix_product(monkeypatch, name, n):
    monkeypatch.setattr(base, "_ROWS", 8)
    X, Z = instances(n), instances(30, seed=1)
    coef = np.random.default_rng(2).normal(size=(3, 30))
    values = kernel_of(name).expand(X, Z, coef)
    assert values.shape == (3, n)
    np.testing.assert_allclose(values, coef @ COMPUTED[name](X, Z).T, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
def test_gamma_is_that_of_a_support_vector_machine(gamma):
    X = 3 * instances(40) + 1
    machine = SVC(gamma=gamma).fit(X, X[:, 0] > 1)
    kernel = make_kernel("rbf", gamma, X)
    assert kernel.gamma == pytest.approx(machine._gamma, rel=1e-14)


def test_gamma_of_constant_data_is_that_of_a_support_vector_machine():
    X = np.full((6, 3), 2.0)
    machine = SVC(gamma="scale").fit(X, [0, 1, 0, 1, 0, 1])
    assert make_kernel("rbf", "scale", X).gamma == machine._gamma == 1.0


@pytest.mark.parametrize(
    ("name", "gamma", "sentence"),
    [
        ("gauss", 1.0, "kernel must be one of 'rbf', 'linear', not 'gauss'"),
        ("rbf", "narrow", "gamma must be 'wide', 'scale', 'auto' or a number, not 'narrow'"),
        ("rbf", 0.0, "gamma must be positive and finite, not 0.0"),
        ("rbf", -1.0, "gamma must be positive and finite, not -1.0"),
        ("rbf", np.inf, "gamma must be positive and finite, not inf"),
        ("rbf", np.nan, "gamma must be positive and finite, not nan"),
    ],
)
def test_settings_that_are_refused(name, gamma, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_kernel(name, gamma, instances(6, 4))


def test_matrix_beyond_memory_is_refused_with_what_to_use_instead(monkeypatch):
    monkeypatch.setattr(kernels, "physical_memory", lambda: 16 * 10**9)
    check_kernel_memory(40_000)  # 12.8 GB, exactly the share that is allowed
    check_kernel_memory(28_000, copies=2)
    with pytest.raises(
        MemoryError,
        match=r"kernel matrix of 100,000 instances would take 80 GB and this machine has 16 GB; "
        r"use unbag.LLPClassifier",
    ):
        check_kernel_memory(100_000)
    with pytest.raises(MemoryError):
        check_kernel_memory(40_001)


def test_no_machine_holds_the_matrix_of_a_hundred_million_instances():
    with pytest.raises(MemoryError):
        check_kernel_memory(10**8)


def test_unknown_memory_refuses_nothing(monkeypatch):
    def silent(name):
        raise ValueError(name)

    monkeypatch.setattr(_threads.os, "sysconf", silent, raising=False)
    assert kernels.physical_memory() is None
    check_kernel_memory(10**9, 8)
