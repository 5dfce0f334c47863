"""Training on Dask collections gives the model of the same rows in memory."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from unbag import LLPBoostingClassifier, LLPClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedClassifier

pytestmark = pytest.mark.usefixtures("in_this_thread")

DATA = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
# shuffled rows: every bag spans partitions
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
X, y = DATA.X[ORDER], DATA.y[ORDER]
LINEAR = LLPClassifier(kernel=None)


def partitioned(X, y, rows=100):
    return da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)


def fitted(estimator, X=X, y=y, rows=100, **options):
    return DistributedClassifier(estimator, **options).fit(*partitioned(X, y, rows)).to_local()


def assert_same_model(distributed, local, X=X):
    np.testing.assert_allclose(distributed.coef_, local.coef_, atol=5e-6)
    np.testing.assert_allclose(distributed.intercept_, local.intercept_, atol=5e-6)
    scores = local.decision_function(X)
    np.testing.assert_allclose(distributed.decision_function(X), scores, atol=5e-6)
    np.testing.assert_array_equal(distributed.classes_, local.classes_)
    np.testing.assert_allclose(distributed.class_prior_, local.class_prior_)
    np.testing.assert_allclose(distributed.covariance_, local.covariance_, atol=5e-6)
    assert distributed.coef_names_ == local.coef_names_
    assert distributed.n_iter_ == local.n_iter_
    assert distributed.converged_
    for one, other in zip(distributed.terms_, local.terms_, strict=True):
        assert one[:2] == other[:2]
        np.testing.assert_allclose(one[2:], other[2:], rtol=1e-5)
    for name in ("dispersion_", "log_marginal_likelihood_"):
        assert getattr(distributed, name) == pytest.approx(getattr(local, name), rel=1e-6)


def frame_of(X, partitions=3):
    """A frame with missing values, levels that few rows have and text, and its partitions."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.loc[rng.random(len(frame)) < 0.2, "b"] = np.nan
    frame["place"] = rng.choice(["north", "south", "west"], size=len(frame))
    frame.loc[3, "place"] = "island"
    frame["kind"] = pd.Categorical(rng.choice([1, 2, 3], size=len(frame)))
    lazy = dd.from_pandas(frame, npartitions=partitions, sort=False)
    chunks = tuple(len(part) for part in lazy.partitions)
    return frame, lazy, chunks


class TestEqualToTheLocalModel:
    @pytest.mark.parametrize(
        "estimator",
        [
            LINEAR,
            LLPClassifier(n_landmarks=40),
            LLPClassifier(kernel=None, groups=[[0], [2]], class_prior=[0.3, 0.7]),
            LLPClassifier(kernel=None, bag_effect=1.0, variances={"numbers": 0.5}),
        ],
        ids=["linear", "kernel", "groups", "fixed"],
    )
    @pytest.mark.parametrize("rows", [480, 100, 7])
    def test_scattered_rows(self, estimator, rows):
        assert_same_model(fitted(estimator, rows=rows), estimator.fit(X, y))

    @pytest.mark.parametrize("rows", [480, 100, 60, 7])
    def test_rows_bag_by_bag(self, rows):
        kernel = LLPClassifier(n_landmarks=40)
        expected = kernel.fit(DATA.X, DATA.y)
        assert_same_model(fitted(kernel, DATA.X, DATA.y, rows), expected)

    @pytest.mark.parametrize("kernel", [None, "auto"])
    def test_frames_of_any_columns(self, kernel):
        table, lazy, chunks = frame_of(X)
        model = LLPClassifier(kernel, n_landmarks=40)
        target = da.from_array(y, chunks=(chunks,))
        found = DistributedClassifier(model).fit(lazy, target)
        local = model.fit(table, y)
        assert_same_model(found.to_local(), local, table)
        assert any("island" in name for name in local.coef_names_)
        scores = found.decision_function(lazy).compute()
        np.testing.assert_allclose(scores, local.decision_function(table), atol=1e-7)

    def test_rows_of_known_label(self):
        labels = np.full(len(y), np.nan)
        labels[::7] = DATA.labels[ORDER][::7]
        some = bag_target(y["bag"], y["proportion"], labels=labels)
        kernel = LLPClassifier(n_landmarks=40)
        assert_same_model(fitted(kernel, y=some), kernel.fit(X, some))

    def test_noisy_proportions(self):
        noisy = bag_target(y["bag"], y["proportion"], noise=0.05)
        assert_same_model(fitted(LINEAR, y=noisy), LINEAR.fit(X, noisy))

    def test_three_classes_with_names(self):
        rng = np.random.default_rng(0)
        bag = np.repeat(np.arange(20), 30)
        shares = rng.dirichlet(np.ones(3), 20)
        labels = np.array([rng.choice(3, p=shares[b]) for b in bag])
        counts = np.stack([np.bincount(labels[bag == b], minlength=3) for b in range(20)])
        many = rng.normal(size=(600, 2)) + 2 * np.eye(3)[labels][:, :2]
        target = bag_target(bag, counts=counts[bag], class_names=["no", "yes", "perhaps"])
        rows = rng.permutation(600)
        local = LINEAR.fit(many[rows], target[rows])
        assert_same_model(fitted(LINEAR, many[rows], target[rows]), local, many)

    def test_many_columns(self, monkeypatch):
        monkeypatch.setattr("unbag.models.mixed.MOST_COEFFICIENTS", 2)
        distributed, local = fitted(LINEAR), clone(LINEAR).fit(X, y)
        assert distributed.covariance_ is local.covariance_ is None
        np.testing.assert_allclose(
            distributed.decision_function(X), local.decision_function(X), atol=5e-6
        )

    def test_sparse_rows(self):
        thin = X * (np.abs(X) > 1)
        blocks, target = partitioned(thin, y)
        model = DistributedClassifier().fit(blocks.map_blocks(csr_array), target)
        local = LLPClassifier().fit(csr_array(thin), y)
        assert_same_model(model.to_local(), local, csr_array(thin))

    def test_empty_partitions(self):
        chunks = (0, 200, 0, 280)
        parts = da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=(chunks,))
        model = DistributedClassifier(LINEAR).fit(*parts)
        assert_same_model(model.to_local(), LINEAR.fit(X, y))
        assert model.predict(parts[0]).compute().shape == (480,)

    @pytest.mark.parametrize("persist", [True, False])
    @pytest.mark.parametrize("order", [ORDER, np.arange(480)], ids=["scattered", "whole"])
    def test_kept_or_read_again(self, persist, order):
        kernel = LLPClassifier(n_landmarks=40)
        rows, target = DATA.X[order], DATA.y[order]
        found = fitted(kernel, rows, target, 120, persist=persist)
        assert_same_model(found, kernel.fit(rows, target))

    def test_chunks_of_columns_and_other_chunks_of_y(self):
        parts = da.from_array(X, chunks=(100, 1)), da.from_array(y, chunks=130)
        assert_same_model(DistributedClassifier(LINEAR).fit(*parts).to_local(), LINEAR.fit(X, y))


def test_other_learners_are_trained_on_whole_bags_drawn_at_random():
    trees = LLPBoostingClassifier(n_estimators=10, cv=None, num_leaves=3)
    with pytest.raises(ValueError, match=r"give max_rows=.* to train LLPBoostingClassifier"):
        fitted(trees)
    model = DistributedClassifier(trees, max_rows=200).fit(*partitioned(X, y))
    assert 0.7 < (model.predict(X) == DATA.labels[ORDER]).mean() <= 1
    everything = fitted(trees, max_rows=480)
    expected = trees.fit(X, y).decision_function(X)
    assert np.corrcoef(everything.decision_function(X), expected)[0, 1] > 0.99


class TestPredictions:
    def test_lazy_for_dask_and_at_once_for_numpy(self):
        chunked, target = partitioned(X, y)
        model = DistributedClassifier(LINEAR).fit(chunked, target)
        for method in ("predict", "decision_function", "predict_proba"):
            lazy = getattr(model, method)(chunked)
            direct = getattr(model, method)(X)
            assert isinstance(lazy, da.Array)
            assert isinstance(direct, np.ndarray)
            assert lazy.shape == direct.shape
            assert lazy.dtype == direct.dtype
            np.testing.assert_array_equal(lazy.compute(), direct)
        moved = model.predict_proba(chunked, class_prior=[0.9, 0.1]).compute()
        np.testing.assert_array_equal(
            moved, model.to_local().predict_proba(X, class_prior=[0.9, 0.1])
        )

    def test_an_ordinary_model_comes_out(self):
        model = fitted(LINEAR)
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        assert type(model) is LLPClassifier

    def test_before_a_fit(self):
        with pytest.raises(NotFittedError, match="call fit first"):
            DistributedClassifier().predict(X)


class TestMistakes:
    @pytest.mark.parametrize(
        ("estimator", "message"),
        [
            (LLPClassifier(kernel="poly"), "kernel must be one of 'auto', 'rbf'"),
            (LLPClassifier(variances={"kernel": 1}), "variances must give one number for each"),
        ],
    )
    def test_of_settings(self, estimator, message):
        with pytest.raises(ValueError, match=message):
            fitted(estimator)

    def test_of_persist(self):
        with pytest.raises(ValueError, match="persist must be True, False or 'auto'"):
            fitted(LINEAR, persist="yes")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X, y: (X, y.compute()), "must be Dask arrays or data frames.*not ndarray"),
            (lambda X, y: (X[:, 0], y), "two dimensions"),
            (lambda X, y: (X, y[:100]), "X has 480 rows but y has 100"),
            (lambda X, y: (X, y["bag"]), r"^Partition \d: The target has no field 'bag'"),
            (lambda X, y: (X[1:], y[1:]), "has 19 of its 20 instances here"),
            (
                lambda X, y: (da.where(X[123, 1] == X, np.inf, X), y),
                r"^Partition \d: Input X contains infinity",
            ),
        ],
    )
    def test_of_data(self, change, message):
        with pytest.raises(ValueError, match=message):
            DistributedClassifier(LINEAR).fit(*change(*partitioned(X, y)))

    @pytest.mark.parametrize("wrong", [y, np.sort(y)], ids=["scattered", "bag by bag"])
    @pytest.mark.parametrize("rows", [100, 480], ids=["several partitions", "one partition"])
    def test_other_proportions_in_the_same_bag(self, wrong, rows):
        wrong = wrong.copy()
        wrong["proportion"][-10] = 0.123
        with pytest.raises(ValueError, match=rf"not the same .* of bag {wrong['bag'][-10]}\."):
            fitted(LINEAR, y=wrong, rows=rows)

    def test_partitions_of_unlike_length(self):
        frame = dd.from_pandas(pd.DataFrame(X), npartitions=4)
        with pytest.raises(ValueError, match="have 4 and 5 partitions"):
            DistributedClassifier(LINEAR).fit(frame, da.from_array(y, chunks=100))

    def test_no_convergence_warns(self):
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            fitted(LLPClassifier(kernel=None, max_iter=1))
