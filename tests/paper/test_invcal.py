"""Inverse calibration against general solvers, scikit-learn and fits one by one."""

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR

from unbag import BagKFold, BagShuffleSplit, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.models import base
from unbag.paper import InvCalClassifier
from unbag.paper.invcal import log_odds_targets, mean_kernel, solve_bag_regression
from unbag.paper.kernels import Kernel

SIZES = np.tile([5, 9, 14], 8)
DATA = make_gaussian_bags(bag_size=SIZES, n_features=3, random_state=0)


def problem(seed, n=20, rank=30, size=1.0):
    """Random kernel, targets and widths, with some bags twice and some pure."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, rank)) * np.sqrt(size / rank)
    features[: n // 5] = features[n // 5 : 2 * (n // 5)]
    y, widening = log_odds_targets(rng.integers(0, 11, n) / 10, 10 * n)
    return features @ features.T, y, widening


def solve_one(K, y, tube, C, **kwargs):
    fit = solve_bag_regression(K, y, np.asarray(tube), float(C), **kwargs)
    return fit.coef, fit.intercept, fit


def objective(K, y, tube, beta):
    return 0.5 * beta @ K @ beta - y @ beta + tube @ np.abs(beta)


def violation_of_optimality(K, y, tube, C, beta, b):
    """Largest violation over bags, each condition written out."""
    residual = y - K @ beta - b
    worst = [abs(beta.sum()), (np.abs(beta) - C).max()]
    for r, e, value in zip(residual, tube, beta, strict=True):
        if value == C:
            worst.append(e - r)
        elif value > 0:
            worst.append(abs(r - e))
        elif value == 0:
            worst.append(abs(r) - e)
        elif value > -C:
            worst.append(abs(r + e))
        else:
            worst.append(r + e)
    return max(worst)


def clarabel_solution(K, y, tube, C):
    """The same problem in α and α*, by a general interior-point solver."""
    n = len(y)
    P = np.block([[K, -K], [-K, K]])
    A = sparse.vstack(
        [np.r_[np.ones(n), -np.ones(n)][None], -np.eye(2 * n), np.eye(2 * n)], format="csc"
    )
    options = clarabel.DefaultSettings()
    options.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(options, name, 1e-10)
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(4 * n)]
    right = np.r_[0.0, np.zeros(2 * n), np.full(2 * n, C)]
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(P)), np.r_[tube - y, tube + y], A, right, cones, options
    ).solve()
    both = np.asarray(found.x)
    return both[:n] - both[n:]


class TestSolver:
    @pytest.mark.parametrize("epsilon", [0, 0.01, 0.1])
    @pytest.mark.parametrize("C", [0.1, 1, 10])
    @pytest.mark.parametrize(("n", "rank"), [(20, 30), (60, 8)])
    def test_agrees_with_a_general_solver(self, n, rank, C, epsilon):
        K, y, widening = problem(n, n, rank)
        tube = epsilon * widening
        beta, b, fit = solve_one(K, y, tube, C)
        assert fit.converged
        expected = clarabel_solution(K, y, tube, C)
        # several β may be best, but they give all bags the same scores
        np.testing.assert_allclose(K @ beta, K @ expected, atol=1e-4)
        assert objective(K, y, tube, beta) == pytest.approx(
            objective(K, y, tube, expected), abs=1e-6
        )
        assert violation_of_optimality(K, y, tube, C, beta, b) < 2e-6

    @pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5])
    @pytest.mark.parametrize("C", [0.1, 3, 100])
    def test_equal_tubes_are_scikit_learns_regression(self, C, epsilon):
        K, y, _ = problem(5, 40)
        beta, b, _ = solve_one(K, y, np.full(40, epsilon), C)
        svr = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-8).fit(K, y)
        np.testing.assert_allclose(K @ beta + b, svr.predict(K), atol=1e-4)

    @settings(deadline=None, max_examples=150)
    @given(
        seed=st.integers(0, 2**31),
        n=st.integers(2, 25),
        rank=st.integers(1, 30),
        size=st.sampled_from([0.0, 1e-4, 1.0]),
        C=st.sampled_from([1e-6, 0.01, 1.0, 10.0]),
        epsilon=st.sampled_from([0.0, 1e-9, 0.01, 0.3]),
    )
    def test_optimality(self, seed, n, rank, size, C, epsilon):
        K, y, widening = problem(seed, n, rank, size)
        beta, b, fit = solve_one(K, y, epsilon * widening, C)
        assert fit.converged
        assert np.abs(beta).max() <= C
        assert np.isfinite(b)
        # LIBSVM holds K in single precision
        rounding = np.finfo(np.float32).eps * np.abs(K).max() * np.abs(beta).sum()
        assert violation_of_optimality(K, y, epsilon * widening, C, beta, b) < 2e-6 + rounding

    def test_bounds_are_reached_exactly(self):
        K, y, widening = problem(1, 40)
        beta, _, _ = solve_one(K, y, 0.05 * widening, 0.3)
        assert (beta == 0).any()
        assert (beta == 0.3).any()
        assert (beta == -0.3).any()

    def test_middle_of_an_interval_of_intercepts(self):
        y = np.array([-1.0, 0.5, 2.0])
        beta, b, _ = solve_one(np.eye(3), y, np.array([2.0, 9.0, 2.5]), 1.0)
        assert not beta.any()
        # within all tubes: -0.5 <= b <= 1
        assert b == pytest.approx(0.25)
        # so strong a penalty that the outer two bags reach their bounds
        beta, b, _ = solve_one(np.eye(2), np.array([-3.0, 1.0]), np.zeros(2), 0.5)
        np.testing.assert_array_equal(beta, [-0.5, 0.5])
        # -3 + 0.5 <= b <= 1 - 0.5
        assert b == pytest.approx(-1.0)

    def test_a_matrix_that_is_no_kernel_ends(self):
        K = np.array([[0.0, 1.0], [1.0, 0.0]])
        beta, b, _ = solve_one(K, np.array([-1.0, 1.0]), np.zeros(2), 1.0)
        assert np.isfinite(beta).all()
        assert np.isfinite(b)


class TestKernelMeans:
    @pytest.mark.parametrize("name", ["rbf", "linear"])
    @pytest.mark.parametrize("block", [7, 1024])
    def test_naive_means(self, name, block, monkeypatch):
        monkeypatch.setattr(base, "_ROWS", block)
        X, bags = DATA.X, check_bag_target(DATA.y)
        full = {"rbf": rbf_kernel(X, gamma=0.5), "linear": X @ X.T}[name]
        kernel = Kernel(name, 0.5)
        members = [bags.index == k for k in range(bags.n_bags)]
        mean = sparse.csr_array(np.column_stack([m / m.sum() for m in members]))
        naive = np.column_stack([full[:, m].mean(axis=1) for m in members])
        np.testing.assert_allclose(mean_kernel(kernel, X, mean), naive, atol=1e-12)


def plain(C=1.0, epsilon=0.0, gamma="scale", **settings):
    """One setting, so that nothing is held out."""
    return InvCalClassifier([C], [epsilon], gammas=[gamma], **settings)


class TestOneSetting:
    def test_targets(self):
        y, widening = log_odds_targets(np.array([0.0, 0.2, 1.0]), 10)
        np.testing.assert_allclose(y, logit([0.1, 0.2, 0.9]))
        np.testing.assert_allclose(widening, [1 / 0.09, 1 / 0.16, 1 / 0.09])

    def test_definition(self):
        model = plain(2.0, 0.02, gamma=0.3).fit(DATA.X, DATA.y)
        bags = check_bag_target(DATA.y)
        K = rbf_kernel(DATA.X, gamma=0.3)
        to_bags = np.column_stack([K[:, bags.index == k].mean(axis=1) for k in range(bags.n_bags)])
        scores = to_bags @ model.bag_coef_ + model.intercept_
        np.testing.assert_allclose(model.decision_function(DATA.X), scores, atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(DATA.X)[:, 1], expit(scores), atol=1e-12)
        y, widening = log_odds_targets(bags.proportions[:, 1], bags.n_instances)
        violation = violation_of_optimality(
            bags.means(to_bags.T), y, 0.02 * widening, 2.0, model.bag_coef_, model.intercept_[0]
        )
        assert violation < 2e-6
        assert model.converged_
        assert model.n_iter_ >= 1

    def test_proportions_of_bags_are_fitted(self):
        model = plain(1e4, kernel="rbf", gamma=1.0).fit(DATA.X, DATA.y)
        bags = check_bag_target(DATA.y)
        y, _ = log_odds_targets(bags.proportions[:, 1], bags.n_instances)
        np.testing.assert_allclose(bags.means(model.decision_function(DATA.X)), y, atol=1e-5)

    def test_constant_model_is_said(self):
        with pytest.warns(UserWarning, match="Every bag lies within its tube"):
            model = plain(epsilon=10.0).fit(DATA.X, DATA.y)
        assert len(np.unique(model.decision_function(DATA.X))) == 1

    def test_no_convergence_is_said(self):
        with pytest.warns(ConvergenceWarning, match=r"1 of 1 fit.*max_iter=1 "):
            model = plain(10.0, gamma=1.0, max_iter=1).fit(DATA.X, DATA.y)
        assert not model.converged_
        assert model.bag_coef_.any()

    def test_three_classes_are_refused(self):
        data = make_gaussian_bags(n_bags=12, bag_size=10, n_classes=3, random_state=0)
        with pytest.raises(ValueError, match="is for two classes, and there are 3"):
            plain().fit(data.X, data.y)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"C": 0}, "Cs must be a list of positive numbers, not"),
            ({"C": "x"}, "Cs must be a list of positive numbers, not"),
            ({"epsilon": -0.1}, "epsilons must be a list of numbers of zero or more, not"),
            ({"tol": 0}, "tol must be a positive number"),
            ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
            ({"kernel": "sigmoid"}, "kernel must be one of"),
            ({"gamma": -1.0}, "gamma must be positive"),
        ],
    )
    def test_wrong_settings_get_one_sentence(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            plain(**wrong).fit(DATA.X, DATA.y)

    def test_kernel_that_overflows(self):
        with pytest.raises(ValueError, match="too large"), np.errstate(all="ignore"):
            plain(kernel="linear").fit(1e200 * DATA.X, DATA.y)


def some_labelled_rows():
    labels = np.full(len(DATA.labels), np.nan)
    labels[::8] = DATA.labels[::8]
    return bag_target(DATA.y["bag"], DATA.y["proportion"], labels=labels)


class TestSearch:
    @pytest.mark.parametrize(
        ("y", "kernel"),
        [(DATA.y, "rbf"), (some_labelled_rows(), "rbf"), (DATA.labels, "rbf")],
    )
    def test_fits_one_by_one(self, y, kernel):
        grid = ([0.1, 10], [0, 0.02], [0.1, 1.0])
        model = InvCalClassifier(grid[0], grid[1], gammas=grid[2], cv=4, kernel=kernel)
        model.fit(DATA.X, y)
        assert model.bag_errors_.shape == (2, 2, 2)
        folds = list(BagKFold(4).split(DATA.X, y))
        for place in np.ndindex(2, 2, 2):
            single = plain(
                model.Cs_[place[0]],
                model.epsilons_[place[1]],
                gamma=model.gammas_[place[2]],
                kernel=kernel,
            )
            scores, error = np.empty(len(y)), 0.0
            for train, test in folds:
                single.fit(DATA.X[train], y[train])
                scores[test] = single.decision_function(DATA.X[test])
                part = check_bag_target(y[test])
                share = part.means((scores[test] > 0).astype(float))
                error += part.sizes @ np.abs(share - part.proportions[:, 1])
            assert model.bag_errors_[place] == pytest.approx(error / len(y), abs=1e-9)
            if (single.C_, single.epsilon_, single.gamma_) == (
                model.C_,
                model.epsilon_,
                model.gamma_,
            ):
                np.testing.assert_allclose(model.out_of_fold_scores_, scores, atol=1e-4)
                assert model.bag_errors_[place] == model.bag_errors_.min()
                single.fit(DATA.X, y)
                np.testing.assert_allclose(
                    model.decision_function(DATA.X), single.decision_function(DATA.X), atol=1e-5
                )
                np.testing.assert_allclose(model.bag_coef_.shape, single.bag_coef_.shape)

    def test_of_equals_the_strongest_penalty(self):
        far = np.where(DATA.labels[:, None] == 1, 100.0, -100.0) + DATA.X
        pure = bag_target(DATA.labels * 12 + np.arange(len(DATA.labels)) % 12, DATA.labels)
        model = InvCalClassifier([10, 0.1, 1], [0, 1e-6], gammas=[1e-4, 1e-5], cv=3)
        model.fit(far, pure)
        assert not model.bag_errors_.any()
        assert (model.C_, model.epsilon_, model.gamma_) == (0.1, 1e-6, 1e-5)
        np.testing.assert_array_equal(model.Cs_, [0.1, 1, 10])
        np.testing.assert_array_equal(model.epsilons_, [1e-6, 0])
        np.testing.assert_array_equal(model.gammas_, [1e-5, 1e-4])

    def test_the_papers_grid_ranks_instances(self):
        model = InvCalClassifier().fit(DATA.X, DATA.y)
        assert model.bag_errors_.shape == (3, 3, 3)
        assert roc_auc_score(DATA.labels, model.decision_function(DATA.X)) > 0.9

    def test_kernel_without_gamma(self):
        model = InvCalClassifier(kernel="linear").fit(DATA.X, DATA.y)
        assert model.gamma_ is None
        assert model.gammas_ is None
        assert model.bag_errors_.shape == (3, 3, 1)

    def test_named_gammas(self):
        model = InvCalClassifier(gammas=["scale", "auto", 1 / 3]).fit(DATA.X, DATA.y)
        np.testing.assert_allclose(model.gammas_, sorted([1 / (3 * DATA.X.var()), 1 / 3]))

    def test_bags_held_out_more_than_once(self):
        cv = BagShuffleSplit(3, random_state=0)
        model = InvCalClassifier(cv=cv).fit(DATA.X, DATA.y)
        assert model.out_of_fold_scores_ is None
        assert ((model.bag_errors_ >= 0) & (model.bag_errors_ <= 1)).all()

    def test_no_convergence_is_said(self):
        with pytest.warns(ConvergenceWarning, match=r"of 136 fit"):
            InvCalClassifier(max_iter=1).fit(DATA.X, DATA.y)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"Cs": [1, 0]}, "Cs must be a list of positive numbers"),
            ({"Cs": []}, "Cs must be a list of positive numbers"),
            ({"Cs": 1.0}, "Cs must be a list of positive numbers"),
            ({"epsilons": [-1]}, "epsilons must be a list of numbers of zero or more"),
            ({"epsilons": ["a"]}, "epsilons must be a list of numbers of zero or more"),
            ({"gammas": 0.1}, "gammas must be a list of widths, not 0.1"),
            ({"gammas": None}, "gammas must be a list of widths, not None"),
            ({"gammas": []}, "gammas must be a list of widths"),
            ({"gammas": [0.1, "narrow"]}, "gamma must be 'wide', 'scale', 'auto' or a number"),
            ({"cv": 1}, "at least 2"),
            ({"kernel": "sigmoid"}, "kernel must be one of"),
        ],
    )
    def test_wrong_settings_get_one_sentence(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            InvCalClassifier(**wrong).fit(DATA.X, DATA.y)

    def test_fold_without_contrast(self):
        two = np.repeat([0, 1], 10)
        y = bag_target(two, np.where(two == 1, 0.9, 0.1))
        with pytest.raises(ValueError, match="Fold 1 of 2 cannot be trained"):
            InvCalClassifier(cv=2).fit(DATA.X[:20], y)
