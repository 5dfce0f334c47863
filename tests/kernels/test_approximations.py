"""Features in place of a kernel: their inner products against the kernel's own."""

import numpy as np
import pytest

from unbag.kernels import approximations as kernel_features
from unbag.kernels import matrices as kernels
from unbag.kernels.approximations import choose_approximation
from unbag.kernels.matrices import Kernel, make_kernel
from unbag.kernels.rows import RowsInMemory

DOUBLE = np.dtype(np.float64)
KERNELS = {
    "rbf": Kernel("rbf", 0.3),
    "linear": Kernel("linear"),
    "poly": Kernel("poly", 0.3, 2, 0.7),
}


def instances(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def make_kernel_features(approximation, kernel, X, *rest, **options):
    rows = RowsInMemory(X)
    return kernel_features.make_kernel_features(approximation, kernel, rows, *rest, **options)


@pytest.mark.parametrize("name", KERNELS)
def test_all_instances_as_landmarks_give_the_kernel(name):
    X, kernel = instances(60), KERNELS[name]
    for n_components in (60, 1000):
        features = make_kernel_features("nystroem", kernel, X, n_components, random_state=0)
        phi = features.matrix(X, DOUBLE)
        assert phi.shape == (60, features.n_features)
        np.testing.assert_allclose(phi @ phi.T, kernel.matrix(X, DOUBLE), rtol=1e-8, atol=1e-8)


def test_nystroem_is_the_projection_on_the_landmarks():
    X, kernel = instances(80), KERNELS["rbf"]
    features = make_kernel_features("nystroem", kernel, X, 12, random_state=3)
    Z = features.points
    assert len({tuple(z) for z in Z} & {tuple(x) for x in X}) == 12
    phi = features.matrix(X, DOUBLE)
    K_xz, K_zz = kernel.block(X, Z, DOUBLE), kernel.matrix(Z, DOUBLE)
    np.testing.assert_allclose(phi @ phi.T, K_xz @ np.linalg.solve(K_zz, K_xz.T), atol=1e-9)


@pytest.mark.parametrize(("name", "rank"), [("linear", 3), ("poly", 10)])
def test_kernels_of_low_rank_need_few_features(name, rank):
    X = instances(200)
    features = make_kernel_features("nystroem", KERNELS[name], X, 50, random_state=0)
    assert features.n_features == rank
    phi = features.matrix(X, DOUBLE)
    np.testing.assert_allclose(phi @ phi.T, KERNELS[name].matrix(X, DOUBLE), rtol=1e-8, atol=1e-8)


def test_landmarks_that_occur_twice_change_nothing():
    X = np.repeat(instances(20), 3, axis=0)
    for n_components in (40, 60):
        phi = make_kernel_features("nystroem", KERNELS["rbf"], X, n_components, 0).matrix(X, DOUBLE)
        np.testing.assert_allclose(phi @ phi.T, KERNELS["rbf"].matrix(X, DOUBLE), atol=1e-6)


def test_landmarks_that_are_spread_lose_less_than_landmarks_at_random():
    # of so few that no two are close, as 50 here, neither choice is better
    kernel, lost = KERNELS["rbf"], []
    for seed in range(5):
        X = instances(2000, d=4, seed=seed)
        spread = make_kernel_features("nystroem", kernel, X, 200, random_state=seed)
        phi = spread.matrix(X, DOUBLE)
        at_random = make_kernel_features("nystroem", kernel, X[:200], 200).matrix(X, DOUBLE)
        # what a projection loses of k(x, x) = 1
        lost.append([1 - (part**2).sum(axis=1).mean() for part in (phi, at_random)])
    assert (np.diff(lost, axis=1) > 0).all()


def test_kernel_that_is_zero_has_a_feature_that_is_zero():
    X = np.zeros((9, 2))
    assert not make_kernel_features("nystroem", KERNELS["linear"], X, 4).matrix(X, DOUBLE).any()


def test_fourier_features_average_to_the_kernel():
    X, kernel = instances(30), KERNELS["rbf"]
    exact = kernel.matrix(X, DOUBLE)
    products = []
    for seed in range(400):
        phi = make_kernel_features("fourier", kernel, X, 20, random_state=seed).matrix(X, DOUBLE)
        np.testing.assert_allclose((phi**2).sum(axis=1), 1)
        products.append(phi @ phi.T)
    error = np.std(products, axis=0) / 20
    assert (np.abs(np.mean(products, axis=0) - exact) <= 5 * error + 1e-12).all()


def test_fourier_features_by_orthogonal_draws_are_closer_than_independent_ones():
    X, kernel = instances(40, d=6), KERNELS["rbf"]
    exact = kernel.matrix(X, DOUBLE)

    def independent(seed):
        waves = np.random.default_rng(seed).normal(size=(30, 6)) * np.sqrt(2 * kernel.gamma)
        angle = X @ waves.T
        phi = np.hstack([np.cos(angle), np.sin(angle)]) / np.sqrt(30)
        return ((phi @ phi.T - exact) ** 2).mean()

    def orthogonal(seed):
        phi = make_kernel_features("fourier", kernel, X, 60, random_state=seed).matrix(X, DOUBLE)
        return ((phi @ phi.T - exact) ** 2).mean()

    seeds = range(30)
    assert np.mean([orthogonal(s) for s in seeds]) < np.mean([independent(s) for s in seeds])


@pytest.mark.parametrize(("asked", "made"), [(1, 2), (7, 8), (8, 8)])
def test_fourier_features_come_in_pairs(asked, made):
    features = make_kernel_features("fourier", KERNELS["rbf"], instances(5), asked)
    assert features.matrix(instances(5), DOUBLE).shape == (5, made) == (5, features.n_features)


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
class TestEveryApproximation:
    def features(self, approximation, seed=0):
        return make_kernel_features(
            approximation, KERNELS["rbf"], instances(50), 16, random_state=seed
        )

    def test_blocks_equal_the_whole(self, approximation, monkeypatch):
        X, features = instances(21, seed=1), self.features(approximation)
        whole = features.matrix(X, DOUBLE)
        monkeypatch.setattr(kernels, "_BLOCK", 8)
        np.testing.assert_allclose(features.matrix(X, DOUBLE), whole, rtol=1e-12, atol=1e-13)

    def test_expansion_in_the_basis_is_the_product_with_features(self, approximation):
        X, features = instances(21, seed=1), self.features(approximation)
        w = np.random.default_rng(2).normal(size=(3, features.n_features))
        c = w if features.transform is None else w @ features.transform.T
        expanded = features.kernel.expand(X, features.points, c)
        np.testing.assert_allclose(expanded, w @ features.matrix(X, DOUBLE).T, atol=1e-9)

    def test_single_precision_is_rounded_at_the_end(self, approximation):
        X, features = instances(21, seed=1), self.features(approximation)
        single = features.matrix(X, np.dtype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, features.matrix(X, DOUBLE).astype(np.float32))

    def test_torch_gives_the_same(self, approximation):
        torch = pytest.importorskip("torch")
        X, features = instances(21, seed=1), self.features(approximation)
        there = features.matrix(X, np.dtype(np.float32), "cpu")
        assert there.dtype == torch.float32
        here = features.matrix(X, np.dtype(np.float32))
        np.testing.assert_allclose(there.numpy(), here, atol=1e-6)

    def test_seed_decides(self, approximation):
        one, same, other = (self.features(approximation, seed).points for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)

    @pytest.mark.parametrize("n_components", [0, -3, 2.5, "many", None])
    def test_number_of_components_is_checked(self, approximation, n_components):
        with pytest.raises(ValueError, match="n_components must be a whole number of at least 1"):
            make_kernel_features(approximation, KERNELS["rbf"], instances(5), n_components)

    def test_features_beyond_memory_are_refused_with_what_to_do(self, approximation, monkeypatch):
        features = self.features(approximation)
        monkeypatch.setattr(kernels, "physical_memory", lambda: 10**4)
        with pytest.raises(MemoryError, match=r"features of 90 instances .* smaller n_components"):
            features.matrix(instances(90), DOUBLE)


def test_landmarks_beyond_memory_are_refused_before_they_are_compared(monkeypatch):
    monkeypatch.setattr(kernels, "physical_memory", lambda: 10**4)
    with pytest.raises(MemoryError, match="use a smaller n_components"):
        make_kernel_features("nystroem", KERNELS["rbf"], instances(50), 40)


def chosen(n, itemsize=4, approximation="auto", kernel="rbf"):
    return choose_approximation(approximation, kernel, n, itemsize, np.empty(0))


def test_auto_is_exact_up_to_twenty_thousand_instances(monkeypatch):
    monkeypatch.setattr(kernels, "physical_memory", lambda: 10**12)
    assert chosen(20_000) is None
    assert chosen(20_001) == "nystroem"
    assert chosen(14_142, itemsize=8) is None
    assert chosen(14_143, itemsize=8) == "nystroem"
    assert chosen(10**6, kernel="precomputed") is None
    assert chosen(10**6, approximation=None) is None
    assert chosen(10, approximation="fourier") == "fourier"


def test_auto_leaves_most_of_a_small_memory_free(monkeypatch):
    monkeypatch.setattr(kernels, "physical_memory", lambda: 16 * 10**8)
    assert chosen(10_000) is None
    assert chosen(10_001) == "nystroem"


def test_auto_uses_the_memory_of_a_gpu(monkeypatch):
    monkeypatch.setattr(kernel_features, "memory_of", lambda _: (64 * 10**9, True))
    assert chosen(63_245) is None
    assert chosen(63_246) == "nystroem"


def test_auto_without_knowledge_of_the_memory(monkeypatch):
    monkeypatch.setattr(kernels, "physical_memory", lambda: None)
    assert chosen(20_000) is None
    assert chosen(20_001) == "nystroem"


@pytest.mark.parametrize(
    ("approximation", "kernel", "sentence"),
    [
        (
            "exact",
            "rbf",
            "approximation must be None, 'auto', 'nystroem' or 'fourier', not 'exact'",
        ),
        ("nystroem", "precomputed", "kernel='precomputed' gives the whole matrix"),
        ("fourier", "precomputed", "kernel='precomputed' gives the whole matrix"),
        ("fourier", "poly", "approximation='fourier' is for kernel='rbf', not 'poly'"),
        ("fourier", "linear", "approximation='fourier' is for kernel='rbf', not 'linear'"),
    ],
)
def test_settings_that_are_refused(approximation, kernel, sentence):
    with pytest.raises(ValueError, match=sentence):
        chosen(10, approximation=approximation, kernel=kernel)


def test_width_is_that_of_the_exact_kernel():
    X = 3 * instances(40)
    kernel = make_kernel("rbf", "scale", 3, 1.0, RowsInMemory(X))
    for approximation in ("nystroem", "fourier"):
        assert make_kernel_features(approximation, kernel, X, 8).kernel.gamma == kernel.gamma
