"""Kernel models by features: with enough of them, they are the exact model."""

import pickle

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from unbag import LLPKernelClassifier, LLPKernelClassifierCV, LLPLinearClassifier
from unbag.datasets import make_gaussian_bags
from unbag.paper import Setting, make_trial

DATA = make_gaussian_bags(n_bags=30, bag_size=20, n_features=3, random_state=0)
NEW = DATA.X[:100] + 0.1
APPROXIMATIONS = ["nystroem", "fourier"]


def close_to_exact(estimator, approximation, **settings):
    settings = {"approximation": approximation, "precision": "double", "tol": 1e-8} | settings
    return estimator(**settings).fit(DATA.X, DATA.y)


@pytest.mark.parametrize("objective", ["likelihood", "forward"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_all_instances_as_landmarks_equal_the_exact_kernel(kernel, objective):
    settings = {"alpha": 0.01, "kernel": kernel, "objective": objective}
    exact = close_to_exact(LLPKernelClassifier, None, **settings)
    approximate = close_to_exact(LLPKernelClassifier, "nystroem", **settings)
    assert exact.approximation_ is None
    assert approximate.approximation_ == "nystroem"
    np.testing.assert_allclose(
        approximate.decision_function(NEW), exact.decision_function(NEW), atol=1e-6
    )


def test_search_with_all_instances_as_landmarks_equals_that_of_the_exact_kernel():
    exact, approximate = (
        close_to_exact(LLPKernelClassifierCV, name, alphas=[0.1, 0.01, 0.001])
        for name in (None, "nystroem")
    )
    assert approximate.alpha_ == exact.alpha_
    np.testing.assert_allclose(approximate.selection_risks_, exact.selection_risks_, atol=1e-7)
    np.testing.assert_allclose(
        approximate.out_of_fold_scores_, exact.out_of_fold_scores_, atol=1e-5
    )


def test_three_classes_with_all_instances_as_landmarks_equal_the_exact_kernel():
    data = make_gaussian_bags(n_bags=30, bag_size=10, n_features=3, n_classes=3, random_state=0)
    exact, approximate = (
        LLPKernelClassifier(0.01, approximation=name, precision="double", tol=1e-8)
        .fit(data.X, data.y)
        .decision_function(data.X)
        for name in (None, "nystroem")
    )
    assert exact.shape == (300, 3)
    np.testing.assert_allclose(approximate, exact, atol=1e-6)


def test_linear_kernel_by_landmarks_equals_the_linear_model():
    kernel = close_to_exact(
        LLPKernelClassifier, "nystroem", alpha=0.01, kernel="linear", n_components=20
    )
    linear = LLPLinearClassifier(0.01, tol=1e-8).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        kernel.decision_function(NEW), linear.decision_function(NEW), atol=1e-6
    )


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_more_components_come_closer(approximation):
    exact = close_to_exact(LLPKernelClassifier, None, alpha=0.1).decision_function(NEW)
    errors = []
    for n_components in (10, 100, 500):
        scores = [
            close_to_exact(
                LLPKernelClassifier,
                approximation,
                alpha=0.1,
                n_components=n_components,
                random_state=seed,
            ).decision_function(NEW)
            for seed in range(3)
        ]
        errors.append(np.mean([np.abs(s - exact).mean() for s in scores]))
    assert errors[0] > 2 * errors[1]
    assert errors[1] > errors[2]
    assert errors[2] < 0.05


@pytest.mark.parametrize("dataset", ["magic", "adult"])
def test_a_thousand_landmarks_rank_as_the_exact_kernel_does(dataset):
    trial = make_trial(Setting(dataset, (0.0, 0.5), 32), seed=100)
    X, y, auc = trial.X[:4096], trial.y[:4096], []
    for approximation in (None, "nystroem"):
        model = LLPKernelClassifier(approximation=approximation)
        scores = model.fit(X, y).decision_function(trial.X_test[:4000])
        auc.append(roc_auc_score(trial.labels_test[:4000], scores))
    assert auc[0] > 0.85
    assert abs(auc[1] - auc[0]) < 0.002


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
class TestEveryApproximation:
    def test_single_precision_scores_are_within_a_thousandth(self, approximation):
        single, double = (
            LLPKernelClassifier(
                approximation=approximation, n_components=200, precision=precision, tol=1e-5
            ).fit(DATA.X, DATA.y)
            for precision in ("single", "double")
        )
        np.testing.assert_allclose(
            single.decision_function(NEW), double.decision_function(NEW), atol=1e-3
        )

    @pytest.mark.parametrize(("precision", "within"), [("single", 1e-3), ("double", 1e-5)])
    def test_torch_on_the_processor_gives_the_same(self, approximation, precision, within):
        pytest.importorskip("torch")
        here, there = (
            LLPKernelClassifierCV(
                alphas=[0.1, 0.01, 0.001],
                approximation=approximation,
                n_components=100,
                precision=precision,
                tol=1e-6,
                device=device,
            ).fit(DATA.X, DATA.y)
            for device in (None, "cpu")
        )
        assert here.alpha_ == there.alpha_
        np.testing.assert_allclose(
            here.decision_function(NEW), there.decision_function(NEW), atol=within
        )
        assert isinstance(there.dual_coef_, np.ndarray)

    def test_same_data_same_model(self, approximation):
        one, same, other = (
            LLPKernelClassifier(
                approximation=approximation, n_components=20, random_state=seed
            ).fit(DATA.X, DATA.y)
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(one.decision_function(NEW), same.decision_function(NEW))
        assert np.abs(one.decision_function(NEW) - other.decision_function(NEW)).max() > 1e-3

    def test_saved_and_loaded(self, approximation, tmp_path):
        from unbag.tables.persistence import load_model, save_model

        pytest.importorskip("skops")
        model = LLPKernelClassifier(approximation=approximation, n_components=20)
        model.fit(DATA.X, DATA.y)
        assert model.dual_coef_.shape == (1, 20)
        loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
        for other in (loaded, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(
                other.decision_function(NEW), model.decision_function(NEW)
            )
        # what is kept does not grow with the number of instances
        assert not any(len(DATA.X) in np.shape(part) for part in vars(model).values())

    def test_learns(self, approximation):
        model = LLPKernelClassifierCV(approximation=approximation, n_components=60)
        model.fit(DATA.X, DATA.y)
        assert (model.predict(DATA.X) == DATA.labels).mean() > 0.78


def test_auto_turns_to_landmarks_when_the_matrix_is_large(monkeypatch):
    exact = LLPKernelClassifier().fit(DATA.X, DATA.y)
    assert exact.approximation_ is None
    monkeypatch.setattr("unbag.kernels.approximations._COMFORTABLE_BYTES", 599**2 * 4)
    landmarks = LLPKernelClassifier(n_components=30).fit(DATA.X, DATA.y)
    assert landmarks.approximation_ == "nystroem"
    assert landmarks.dual_coef_.shape == (1, 30)


def test_auto_leaves_a_precomputed_kernel_as_it_is(monkeypatch):
    monkeypatch.setattr("unbag.kernels.approximations._COMFORTABLE_BYTES", 0)
    model = LLPKernelClassifier(kernel="precomputed").fit(DATA.X @ DATA.X.T, DATA.y)
    assert model.approximation_ is None


def test_refitting_forgets_the_approximation():
    model = LLPKernelClassifier(approximation="fourier", n_components=10).fit(DATA.X, DATA.y)
    model.set_params(approximation=None).fit(DATA.X, DATA.y)
    exact = LLPKernelClassifier(approximation=None).fit(DATA.X, DATA.y)
    np.testing.assert_array_equal(model.decision_function(NEW), exact.decision_function(NEW))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"approximation": "exact"}, "approximation must be None, 'auto'"),
        ({"approximation": "fourier", "kernel": "poly"}, "is for kernel='rbf', not 'poly'"),
        ({"approximation": "nystroem", "n_components": 0}, "n_components must be a whole number"),
    ],
)
def test_wrong_settings_are_named(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        LLPKernelClassifier(**settings).fit(DATA.X, DATA.y)


def test_precomputed_kernel_cannot_be_approximated():
    model = LLPKernelClassifier(kernel="precomputed", approximation="nystroem")
    with pytest.raises(ValueError, match="kernel='precomputed' gives the whole matrix"):
        model.fit(DATA.X @ DATA.X.T, DATA.y)
