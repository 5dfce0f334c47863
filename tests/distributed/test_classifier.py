"""Training on Dask collections gives the model of the same rows in memory."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from unbag import (
    BagKFold,
    BagShuffleSplit,
    LLPEMClassifier,
    LLPKernelClassifier,
    LLPKernelClassifierCV,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedClassifier
from unbag.distributed.risk import RowWeights
from unbag.tables.persistence import load_model, save_model

pytestmark = pytest.mark.usefixtures("in_this_thread")

DATA = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
# rows at random, so that every bag spans partitions
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
X, y = DATA.X[ORDER], DATA.y[ORDER]

# every step is that of the fit in memory, so that few of them show as much as many
TOL = 1e-4
LINEAR = LLPLinearClassifier(tol=TOL)
SEARCH = LLPLinearClassifierCV(alphas=[1e-1, 1e-2, 1e-3], cv=3, tol=TOL)
KERNEL = {"precision": "double", "n_components": 20, "tol": TOL}


def partitioned(X, y, rows=100):
    return da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)


def fitted(estimator, X=X, y=y, rows=100, **options):
    return DistributedClassifier(estimator, **options).fit(*partitioned(X, y, rows)).to_local()


def assert_same_model(distributed, local, X=X):
    scores = local.decision_function(X)
    np.testing.assert_allclose(distributed.decision_function(X), scores, atol=1e-6)
    np.testing.assert_array_equal(distributed.classes_, local.classes_)
    np.testing.assert_allclose(distributed.class_prior_, local.class_prior_)
    assert distributed.converged_


class TestEqualToTheLocalModel:
    @pytest.mark.parametrize(
        "estimator",
        [
            LINEAR,
            LLPLinearClassifier(tol=TOL, fit_intercept=False),
            LLPLinearClassifier(tol=TOL, class_prior=[0.3, 0.7]),
            SEARCH,
            LLPLinearClassifierCV(alphas=[1e-1, 1e-3], cv=3, selection="folds", tol=TOL),
            LLPLinearClassifierCV(
                alphas=[1e-1, 1e-3],
                cv=BagKFold(4, shuffle=True, random_state=1),
                tol=TOL,
            ),
            LLPKernelClassifier(approximation="nystroem", **KERNEL),
            LLPKernelClassifier(approximation="fourier", gamma=0.5, **KERNEL),
            LLPKernelClassifierCV(
                alphas=[1e-1, 1e-2], cv=3, approximation="nystroem", kernel="poly", **KERNEL
            ),
        ],
        ids=lambda estimator: repr(estimator).replace("\n", "")[:60],
    )
    def test_every_setting(self, estimator):
        local = estimator.fit(X, y)
        distributed = fitted(estimator)
        assert_same_model(distributed, local)
        if hasattr(local, "alpha_"):
            assert distributed.alpha_ == local.alpha_
            np.testing.assert_allclose(distributed.selection_risks_, local.selection_risks_)

    @pytest.mark.parametrize("rows", [240, 7])
    @pytest.mark.parametrize("kind", ["kernel", "linear"])
    def test_few_bags_choose_by_the_usual_spread_of_scores_too(self, rows, kind):
        few = y["bag"] < 12
        settings = KERNEL | {"objective": "likelihood", "approximation": "nystroem"}
        estimator = {
            "kernel": LLPKernelClassifierCV([1e-1, 1e-2, 1e-3], cv=3, **settings),
            "linear": LLPLinearClassifierCV(cv=3, tol=TOL),
        }[kind]
        local = estimator.fit(X[few], y[few])
        distributed = fitted(estimator, X[few], y[few], rows)
        assert_same_model(distributed, local, X[few])
        assert distributed.alpha_ == local.alpha_

    @pytest.mark.parametrize("rows", [480, 7])
    def test_any_partitioning(self, rows):
        assert_same_model(fitted(LINEAR, rows=rows), LINEAR.fit(X, y))

    @pytest.mark.parametrize("rows", [480, 7])
    def test_rows_bag_by_bag(self, rows):
        order = np.argsort(y["bag"], kind="stable")
        assert_same_model(fitted(LINEAR, X[order], y[order], rows), LINEAR.fit(X, y))

    def test_landmarks_are_those_of_the_local_model(self):
        estimator = LLPKernelClassifier(approximation="nystroem", **KERNEL)
        np.testing.assert_array_equal(fitted(estimator).points_, estimator.fit(X, y).points_)

    def test_rows_of_known_label(self):
        labels = np.full(len(y), np.nan)
        labels[::7] = DATA.labels[ORDER][::7]
        some = bag_target(y["bag"], y["proportion"], labels=labels)
        for estimator in (LINEAR, SEARCH):
            assert_same_model(fitted(estimator, y=some), estimator.fit(X, some))

    def test_noisy_proportions(self):
        noisy = bag_target(y["bag"], y["proportion"], noise=0.05)
        assert_same_model(fitted(SEARCH, y=noisy), SEARCH.fit(X, noisy))

    def test_three_classes(self):
        rng = np.random.default_rng(0)
        bag = np.repeat(np.arange(20), 30)
        shares = rng.dirichlet(np.ones(3), 20)
        labels = np.array([rng.choice(3, p=shares[b]) for b in bag])
        counts = np.stack([np.bincount(labels[bag == b], minlength=3) for b in range(20)])
        many = rng.normal(size=(600, 2)) + 2 * np.eye(3)[labels][:, :2]
        target = bag_target(bag, counts=counts[bag])
        rows = rng.permutation(600)
        search = LLPLinearClassifierCV([1e-1, 1e-2], cv=3, tol=TOL)
        for estimator in (LINEAR, search):
            local = estimator.fit(many[rows], target[rows])
            assert_same_model(fitted(estimator, many[rows], target[rows]), local, many)

    def test_single_precision_data(self):
        single = X.astype(np.float32)
        local = LINEAR.fit(single.astype(float), y)
        assert_same_model(fitted(LINEAR, single), local)

    def test_empty_partitions(self):
        rows = (0, 200, 0, 280)
        chunked = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=(rows,))
        model = DistributedClassifier(LINEAR).fit(*chunked)
        assert_same_model(model.to_local(), LINEAR.fit(X, y))
        assert model.predict(chunked[0]).compute().shape == (480,)

    def test_the_variance_of_a_kernel_with_empty_partitions(self):
        # so many that some are joined with no other
        rows = (0,) * 9 + (480,)
        chunked = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=(rows,))
        estimator = LLPKernelClassifier(approximation="nystroem", **KERNEL)
        model = DistributedClassifier(estimator).fit(*chunked).to_local()
        assert_same_model(model, estimator.fit(X, y))

    @pytest.mark.parametrize("persist", [True, False, "auto"])
    def test_kept_or_read_anew(self, persist):
        assert_same_model(fitted(LINEAR, persist=persist), LINEAR.fit(X, y))

    def test_chunks_of_columns_and_other_chunks_of_y(self):
        parts = da.from_array(X, chunks=(100, 1)), da.from_array(y, chunks=130)
        assert_same_model(DistributedClassifier(LINEAR).fit(*parts).to_local(), LINEAR.fit(X, y))

    def test_linear_by_default(self):
        assert_same_model(fitted(None), LLPLinearClassifier().fit(X, y))


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

    def test_frames(self):
        table = pd.DataFrame(X, columns=["a", "b", "c"])
        frame = dd.from_pandas(table, npartitions=3)
        target = da.from_array(y, chunks=(tuple(len(part) for part in frame.partitions),))
        model = DistributedClassifier(LINEAR).fit(frame, target)
        local = LINEAR.fit(table, y)
        assert list(model.to_local().feature_names_in_) == ["a", "b", "c"]
        np.testing.assert_allclose(
            model.decision_function(frame).compute(), local.decision_function(table), atol=1e-6
        )
        assert model.predict_proba(frame).compute().shape == (480, 2)

    def test_saved_as_an_ordinary_model(self, tmp_path):
        model = fitted(SEARCH)
        loaded = load_model(save_model(model, tmp_path / "m.unbag")).model
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        assert type(model) is LLPLinearClassifierCV

    def test_before_a_fit(self):
        with pytest.raises(NotFittedError, match="call fit first"):
            DistributedClassifier().predict(X)


class TestMistakes:
    @pytest.mark.parametrize(
        ("estimator", "message"),
        [
            (LLPEMClassifier(), "not LLPEMClassifier"),
            (LLPLinearClassifier(objective="combined"), "objective must be one of 'auto'"),
            (LLPLinearClassifier(device="cpu"), "use device=None"),
            (LLPKernelClassifier(approximation=None), "use approximation='nystroem'"),
            (LLPKernelClassifier(kernel="precomputed"), "whole kernel matrix"),
            (LLPKernelClassifier(kernel="poly", approximation="fourier"), "is for kernel='rbf'"),
            (LLPLinearClassifier(alpha=-1), "alpha must be a positive number"),
            (LLPLinearClassifierCV(selection="best"), "selection must be one of 'pooled', 'folds'"),
            (LLPLinearClassifierCV(cv=BagShuffleSplit(3)), "a whole number or an unbag.BagKFold"),
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
                lambda X, y: (da.where(DATA.X[ORDER[123], 1] == X, np.nan, X), y),
                "^Partition 1: X holds NaN or infinity, first in row 24, column 1",
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

    def test_a_partition_that_cannot_be_read_is_named(self):
        def read(block, block_info=None):
            if block_info[0]["chunk-location"][0] == 2:
                raise OSError("the disk is gone")
            return block

        chunked, target = partitioned(X, y)
        chunked = chunked.map_blocks(read, dtype=float, meta=np.empty((0, 0)))
        with pytest.raises(RuntimeError, match=r"^Partition 2 cannot be read: OSError: the disk"):
            DistributedClassifier(LINEAR).fit(chunked, target)

    def test_partitions_of_unlike_length(self):
        frame = dd.from_pandas(pd.DataFrame(X), npartitions=4)
        with pytest.raises(ValueError, match="have 4 and 5 partitions"):
            DistributedClassifier(LINEAR).fit(frame, da.from_array(y, chunks=100))

    def test_no_convergence_is_told(self):
        with pytest.warns(ConvergenceWarning, match="1 of 1 fit"):
            fitted(LLPLinearClassifier(max_iter=1))


def test_weights_that_have_travelled_lie_at_even_addresses():
    table = RowWeights(np.ones((1, 2, 5)), np.zeros((1, 1)))
    # as a message of Dask may bring them
    room = np.empty(200, dtype=np.uint8)
    start = 1 + (-room.ctypes.data) % 8
    buffers = []
    body = pickle.dumps(table, protocol=5, buffer_callback=buffers.append)
    odd = []
    for buffer in buffers:
        raw = buffer.raw()
        room[start : start + len(raw)] = np.frombuffer(raw, np.uint8)
        odd.append(room[start : start + len(raw)])
        start += 8 * -(-len(raw) // 8)
    arrived = pickle.loads(body, buffers=odd)
    assert not np.frombuffer(odd[0], float).flags.aligned
    assert arrived.weights.flags.aligned
    np.testing.assert_array_equal(arrived.weights, table.weights)
