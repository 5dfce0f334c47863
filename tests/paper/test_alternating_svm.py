"""Alternating support vector machines against exhaustive search, SVC and themselves."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from unbag import BagKFold, BagShuffleSplit, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.paper import AlternatingSVMClassifier, Setting, make_trial
from unbag.paper.alternating_svm import (
    Machines,
    Schedule,
    annealing,
    closest_labels,
    objective,
    start_labels,
)

DATA = make_gaussian_bags(n_bags=20, bag_size=10, n_features=3, random_state=0)
BAGS = check_bag_target(DATA.y)
K = rbf_kernel(DATA.X, gamma=0.3)
PLAN = Schedule(tol=1e-9, max_iter=50, n_init=1, seed=0)


def plain(C=1.0, C_bag=10.0, gamma="scale", **settings):
    """One setting, so that nothing is held out."""
    return AlternatingSVMClassifier([C], [C_bag], gammas=[gamma], **settings)


def some_bags(sizes, shares):
    return check_bag_target(
        bag_target(np.repeat(np.arange(len(sizes)), sizes), np.repeat(shares, sizes))
    )


def cost(labels, scores, bags, C, C_bag):
    """The part of the objective that depends on labels, bag by bag as it is written down."""
    total = C * np.maximum(0, 1 - np.where(labels, 1, -1) * scores).sum(axis=-1)
    for bag in range(bags.n_bags):
        share = labels[..., bags.index == bag].mean(axis=-1)
        total = total + C_bag * bags.sizes[bag] * abs(share - bags.proportions[bag, 1])
    return total


def written_down(model, X, y):
    """The objective of a fitted model (rbf kernel), from its public attributes."""
    support = X[model.support_]
    norm = model.dual_coef_ @ rbf_kernel(support, gamma=model.gamma_) @ model.dual_coef_.T
    bags = check_bag_target(y)
    labels = model.labels_ == model.classes_[1]
    return norm.item() / 2 + cost(labels, model.decision_function(X), bags, model.C_, model.C_bag_)


shares = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
scores = st.one_of(st.floats(-4, 4), st.sampled_from([-1.0, 0.0, 1.0]))


@settings(deadline=None, max_examples=150)
@given(data=st.data(), C=st.floats(1e-3, 1e2), C_bag=st.floats(1e-3, 1e2))
def test_imputed_labels_are_the_best_of_all(data, C, C_bag):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    bags = some_bags(sizes, data.draw(st.lists(shares, min_size=len(sizes), max_size=len(sizes))))
    n = bags.n_instances
    f = np.array(data.draw(st.lists(scores, min_size=n, max_size=n)))
    rows = np.array(data.draw(st.permutations(range(n))))
    bags, f = check_bag_target(_target(bags)[rows]), f[rows]  # bags need not lie together
    every = np.array(list(product([False, True], repeat=n)))
    best = cost(every, f, bags, C, C_bag).min()
    labels = closest_labels(f, bags, C, C_bag)
    assert cost(labels, f, bags, C, C_bag) == pytest.approx(best, rel=1e-9, abs=1e-9)


def _target(bags):
    return bag_target(bags.index, bags.proportions[bags.index, 1])


def test_start_has_the_right_number_of_positives():
    bags = some_bags([10, 7, 4], [0.33, 0.5, 1.0])
    labels = start_labels(bags, np.random.RandomState(0))
    np.testing.assert_array_equal(np.bincount(bags.index, labels), [3, 4, 4])
    other = start_labels(bags, np.random.RandomState(1))
    assert (labels != other).any()


def test_annealing_ends_at_C():
    levels = np.array(annealing(2.0))
    assert levels[0] == pytest.approx(3e-4)
    assert levels[-1] == 2.0
    np.testing.assert_allclose(levels[1:-1] / levels[:-2], 1.5)
    assert (np.diff(levels) > 0).all()


@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("C_bag", [0.5, 10.0])
@pytest.mark.parametrize("seed", range(5))
def test_objective_never_increases_at_fixed_C(C, C_bag, seed):
    start = start_labels(BAGS, np.random.RandomState(seed))
    end = PLAN.alternate(Machines(K, accuracy=1e-6), BAGS, start, C, C_bag)
    assert end.converged
    values = np.array(end.objectives)
    assert (np.diff(values) <= 1e-7 * values[0]).all()
    # and each of the two steps by itself is a descent
    first = Machines(K, accuracy=1e-6).solve(start, C)
    assert values[0] <= objective(first, start, BAGS, C, C_bag) + 1e-9


def test_machines_are_those_of_SVC_and_kept():
    labels = start_labels(BAGS, np.random.RandomState(0))
    machines = Machines(K, accuracy=1e-6)
    for level in annealing(1.0):
        machine = machines.solve(labels, level)
        assert machines.solve(labels.copy(), level) is machine
        svc = SVC(C=level, kernel="precomputed", tol=1e-9).fit(K, labels)
        np.testing.assert_allclose(machine.scores, svc.decision_function(K), atol=1e-4)


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1e-2, 1.0])
def test_machines_are_as_accurate_for_small_C(C):
    labels = start_labels(BAGS, np.random.RandomState(0))
    usual, precise = (Machines(K, accuracy=a).solve(labels, C) for a in (1e-3, 1e-6))
    np.testing.assert_allclose(usual.expansion / C, precise.expansion / C, atol=0.01)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_pure_bags_equal_SVC(C):
    model = plain(C, 1e4, gamma=0.3).fit(DATA.X, DATA.labels)
    svc = SVC(C=C, gamma=0.3).fit(DATA.X, DATA.labels)
    new = DATA.X + 0.1
    np.testing.assert_allclose(model.decision_function(new), svc.decision_function(new), atol=5e-3)
    np.testing.assert_array_equal(model.labels_, DATA.labels)
    assert model.converged_


def test_rows_of_known_label_keep_it():
    labels = np.where(np.arange(len(DATA.labels)) % 3 == 0, DATA.labels, np.nan)
    y = bag_target(DATA.y["bag"], DATA.y["proportion"], labels=labels)
    model = plain(C_bag=100.0).fit(DATA.X, y)
    known = np.isfinite(labels)
    np.testing.assert_array_equal(model.labels_[known], DATA.labels[known])


@pytest.mark.parametrize(("C", "C_bag"), [(0.1, 1.0), (1.0, 10.0), (10.0, 1.0)])
def test_objective_is_what_is_written_down(C, C_bag):
    model = plain(C, C_bag, gamma=0.3).fit(DATA.X, DATA.y)
    assert model.objective_value_ == pytest.approx(written_down(model, DATA.X, DATA.y), rel=1e-9)


def test_heavy_proportions_are_met_and_heavier_ones_change_nothing():
    one, other = (plain(1.0, c).fit(DATA.X, DATA.y) for c in (100.0, 1e4))
    positives = np.bincount(BAGS.index, one.labels_ == 1)
    np.testing.assert_allclose(positives, BAGS.sizes * BAGS.proportions[:, 1], atol=0.5 + 1e-9)
    np.testing.assert_array_equal(one.decision_function(DATA.X), other.decision_function(DATA.X))


def test_best_of_several_starts_is_kept():
    model = plain(n_init=4, gamma=0.3, random_state=3).fit(DATA.X, DATA.y)
    first = plain(gamma=0.3, random_state=3).fit(DATA.X, DATA.y)
    assert model.objective_value_ <= first.objective_value_
    assert model.objective_value_ == pytest.approx(written_down(model, DATA.X, DATA.y), rel=1e-9)


def test_learns_from_small_bags_of_real_data():
    trial = make_trial(Setting("magic", (0.0, 0.5), 8), seed=0)
    rows = trial.y["bag"] < 100
    model = plain(gamma=0.01).fit(trial.X[rows], trial.y[rows])
    auc = roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))
    assert auc > 0.7


class TestSameInputSameModel:
    def test_order_of_rows_does_not_matter_at_all(self):
        rows = np.random.default_rng(0).permutation(len(DATA.y))
        one = plain().fit(DATA.X, DATA.y)
        other = plain().fit(DATA.X[rows], DATA.y[rows])
        np.testing.assert_array_equal(one.labels_[rows], other.labels_)
        np.testing.assert_allclose(
            one.decision_function(DATA.X), other.decision_function(DATA.X), atol=1e-9
        )

    def test_no_seed_is_allowed(self):
        model = plain(random_state=None).fit(DATA.X, DATA.y)
        assert model.n_iter_ >= len(annealing(1.0))


class TestKernels:
    def test_linear(self):
        model = plain(kernel="linear").fit(DATA.X, DATA.y)
        assert (model.predict(DATA.X) == DATA.labels).mean() > 0.8

    def test_too_large_a_matrix_is_refused_first(self, monkeypatch):
        monkeypatch.setattr("unbag.paper.kernels.physical_memory", lambda: 1000)
        for model in (plain(), AlternatingSVMClassifier()):
            with pytest.raises(MemoryError, match="kernel matrix"):
                model.fit(DATA.X, DATA.y)


def one_by_one(X, y, params, cv):
    """Bag error and out-of-fold scores of one set of parameters, fold by fold."""
    off, n, scores = 0.0, 0, np.empty(len(X))
    for train, test in cv.split(X, y):
        model = plain(**params).fit(X[train], y[train])
        scores[test] = model.decision_function(X[test])
        out = check_bag_target(y[test])
        share = np.bincount(out.index, scores[test] > 0) / out.sizes
        off += (out.sizes * np.abs(share - out.proportions[:, 1])).sum()
        n += len(test)
    return off / n, scores


class TestSearch:
    @pytest.mark.parametrize("labelled", [False, True])
    def test_equals_fits_one_by_one(self, labelled):
        y = DATA.y
        if labelled:
            labels = np.where(np.arange(len(y)) % 4 == 0, DATA.labels, np.nan)
            y = bag_target(y["bag"], y["proportion"], labels=labels)
        X = DATA.X + 0.5 * np.random.default_rng(0).normal(size=DATA.X.shape)  # less easy
        Cs, C_bags, gammas = [0.1, 3], [0.5, 50], [0.05, 1]
        search = AlternatingSVMClassifier(Cs, C_bags, gammas=gammas, cv=3).fit(X, y)
        errors = np.empty((2, 2, 2))
        for i, j, k in np.ndindex(errors.shape):
            params = {"C": Cs[i], "C_bag": C_bags[j], "gamma": gammas[k]}
            errors[i, j, k], scores = one_by_one(X, y, params, BagKFold(3))
            if (search.C_, search.C_bag_, search.gamma_) == (Cs[i], C_bags[j], gammas[k]):
                # kernels computed for fewer rows differ by rounding, machines by their accuracy
                np.testing.assert_allclose(search.out_of_fold_scores_, scores, atol=2e-3)
        np.testing.assert_allclose(search.bag_errors_, errors, atol=1e-9)
        assert np.ptp(errors) > 0
        assert search.bag_errors_.min() == pytest.approx(
            search.bag_errors_[
                list(search.Cs_).index(search.C_),
                list(search.C_bags_).index(search.C_bag_),
                list(search.gammas_).index(search.gamma_),
            ]
        )
        alone = plain(search.C_, search.C_bag_, gamma=search.gamma_).fit(X, y)
        np.testing.assert_array_equal(search.decision_function(X), alone.decision_function(X))
        assert search.objective_value_ == alone.objective_value_
        assert search.n_iter_ == alone.n_iter_

    def test_machines_are_shared_while_labels_agree(self):
        alone, together = [], Machines(K)
        for C_bag in (10.0, 100.0, 1000.0):
            alone.append(Machines(K))
            ends = [PLAN.minimise(m, BAGS, 1.0, C_bag) for m in (alone[-1], together)]
            np.testing.assert_array_equal(ends[0].coef, ends[1].coef)
            assert ends[0].n_iter == ends[1].n_iter
        assert len(together._solved) == len(alone[0]._solved) > 0

    def test_of_equals_the_smallest(self):
        model = AlternatingSVMClassifier([0.1], [1000, 100, 10], gammas=[0.3]).fit(DATA.X, DATA.y)
        assert np.ptp(model.bag_errors_) == 0
        assert model.C_bag_ == 10.0

    def test_gamma_by_name(self):
        model = AlternatingSVMClassifier([1], [10], gammas=["scale", 2.0]).fit(DATA.X, DATA.y)
        np.testing.assert_allclose(model.gammas_, sorted([1 / (3 * DATA.X.var()), 2.0]))

    def test_random_splits_have_errors_but_no_out_of_fold_scores(self):
        cv = BagShuffleSplit(3, random_state=0)
        model = AlternatingSVMClassifier([1], [1, 10], gammas=[0.3], cv=cv).fit(DATA.X, DATA.y)
        assert model.out_of_fold_scores_ is None
        for C_bag, error in zip([1, 10], model.bag_errors_[0, :, 0], strict=True):
            params = {"C": 1, "C_bag": C_bag, "gamma": 0.3}
            assert error == pytest.approx(one_by_one(DATA.X, DATA.y, params, cv)[0])

    def test_a_fold_that_cannot_be_trained(self):
        y = bag_target(np.repeat([1, 2, 3], 4), np.repeat([0.2, 0.2, 0.7], 4))
        with pytest.raises(ValueError, match=r"Fold \d of 3 cannot be trained: .* Use fewer folds"):
            AlternatingSVMClassifier(cv=3).fit(DATA.X[:12], y)

    def test_part_of_a_bag_held_out(self):
        splits = [(np.arange(100, 200), np.arange(100)), (np.arange(95), np.arange(95, 200))]
        with pytest.raises(ValueError, match="part of bag 9 only"):
            AlternatingSVMClassifier(cv=splits).fit(DATA.X, DATA.y)


class TestDegenerate:
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    @pytest.mark.parametrize(("low", "high", "sign"), [(0.01, 0.04, -1.0), (0.97, 0.99, 1.0)])
    def test_all_labels_equal_give_a_constant_score(self, kernel, low, high, sign):
        bag = DATA.y["bag"]
        y = bag_target(bag, np.where(bag < 10, low, high))
        X = DATA.X
        model = plain(kernel=kernel).fit(X, y)
        np.testing.assert_array_equal(model.decision_function(X), sign)
        np.testing.assert_array_equal(model.predict(X), int(sign > 0))
        assert len(model.support_) == 0
        assert model.dual_coef_.shape == (1, 0)
        search = AlternatingSVMClassifier(kernel=kernel, cv=2).fit(X, y)
        np.testing.assert_array_equal(search.out_of_fold_scores_, sign)

    def test_collapse_where_proportions_weigh_little(self):
        X = np.random.default_rng(0).normal(size=(200, 3))
        y = bag_target(DATA.y["bag"], np.where(DATA.y["bag"] < 10, 0.1, 0.2))
        model = plain(10.0, 1e-3).fit(X, y)
        assert np.isfinite(model.decision_function(X)).all()
        assert model.objective_value_ == pytest.approx(1e-3 * 200 * 0.15)  # no hinge, all negative

    def test_instances_that_are_all_the_same(self):
        model = plain().fit(np.ones((200, 3)), DATA.y)
        assert len(np.unique(model.decision_function(DATA.X * 0 + 1))) == 1

    def test_labels_of_other_types(self):
        names = np.where(DATA.labels == 1, "yes", "no")
        model = plain().fit(DATA.X, names)
        assert set(model.labels_) == {"yes", "no"}
        assert (model.predict(DATA.X) == names).mean() > 0.8


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (plain(C=0), "Cs must be a list of positive numbers"),
        (plain(C_bag=-1.0), "C_bags must be a list of positive numbers"),
        (plain(tol=0), "tol must be a positive number"),
        (plain(max_iter=0), "max_iter must be a whole number of at least 1"),
        (plain(n_init=1.5), "n_init must be a whole number of at least 1"),
        (plain(kernel="rbff"), "kernel must be one of"),
        (
            plain(gamma="skale"),
            "gamma must be 'wide', 'scale', 'auto' or a number",
        ),
        (AlternatingSVMClassifier(Cs=[]), "Cs must be a list of positive numbers"),
        (AlternatingSVMClassifier(Cs="many"), "Cs must be a list of positive numbers"),
        (AlternatingSVMClassifier(C_bags=[1, 0]), "C_bags must be a list of positive numbers"),
        (AlternatingSVMClassifier(gammas="scale"), "gammas must be a list"),
        (AlternatingSVMClassifier(gammas=[]), "gammas must be a list"),
        (
            AlternatingSVMClassifier(gammas=[None]),
            "gamma must be 'wide', 'scale', 'auto' or a number",
        ),
        (AlternatingSVMClassifier(gammas=[1, -1]), "gamma must be positive"),
        (AlternatingSVMClassifier(cv=None), "cv must be a whole number"),
    ],
)
def test_bad_settings_get_one_sentence(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(DATA.X, DATA.y)


@pytest.mark.parametrize("model", [plain(), AlternatingSVMClassifier()])
def test_three_classes_get_one_sentence(model):
    data = make_gaussian_bags(n_bags=20, bag_size=10, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match=r"Only binary .* there are 3; LMMCM"):
        model.fit(data.X, data.y)


def test_too_few_alternations_are_told():
    hard = DATA.X + np.random.default_rng(1).normal(size=DATA.X.shape)
    with pytest.warns(ConvergenceWarning, match="1 of 1 .* max_iter=1 alternations"):
        model = plain(10.0, 1.0, max_iter=1, tol=1e-9).fit(hard, DATA.y)
    assert not model.converged_
