"""Expectation–maximisation from counts: what each step does, and what it leads to."""

from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

from unbag import BagKFold, bag_target, check_bag_target
from unbag.datasets import make_bags, make_gaussian_bags, make_random_bags
from unbag.observations.count_likelihood import CountLikelihood
from unbag_bench.methods import EMClassifier

BINARY = make_gaussian_bags(n_bags=24, bag_size=10, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=40, bag_size=6, n_classes=3, random_state=0)
EXACT = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000)
FOREST = RandomForestClassifier(15, min_samples_leaf=3)
# few bins, since scikit-learn takes its time to find many in weighted rows
BOOSTED = HistGradientBoostingClassifier(
    learning_rate=0.3, max_iter=8, min_samples_leaf=10, max_bins=32
)


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads of small fits would spend their time waiting for each other."""
    with threadpool_limits(1):
        yield


def make_data(sampling="shuffled", n=900, bag_size=6, random_state=0):
    """Bags of independent labels, or of different proportions."""
    rng = np.random.default_rng(random_state)
    labels = (rng.uniform(size=n) < 0.3).astype(int)
    X = rng.normal(size=(n, 2)) + 1.5 * labels[:, None] * [1, 0]
    if sampling == "shuffled":
        rows, y = make_random_bags(labels, bag_size, random_state=0)
    else:
        rows, y = make_bags(labels, bag_size, (0, 0.6), n_bags=n // bag_size // 2, random_state=0)
    return X[rows], y, labels[rows]


def make_ring_data(n=1200, random_state=0):
    """Positives around negatives, in bags of 8; and as many labelled rows for testing."""
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(2 * n, 3))
    labels = (rng.uniform(size=2 * n) < expit(4 * (X[:, 0] ** 2 + X[:, 1] ** 2 - 1.5))).astype(int)
    rows, y = make_bags(labels[:n], 8, (0, 1), n_bags=n // 8 // 2, random_state=0)
    return X[rows], y, X[n:], labels[n:]


def soft_label_fit(estimator, X, y):
    weights = np.concatenate([1 - y["proportion"], y["proportion"]])
    labels = np.repeat([0, 1], len(X))
    return clone(estimator).fit(np.tile(X, (2, 1)), labels, sample_weight=weights)


# --- what EM does -------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [LogisticRegression(), FOREST, BOOSTED])
def test_pure_bags_give_the_inner_classifier_itself(estimator):
    X, _, labels = make_data()
    estimator = clone(estimator).set_params(random_state=3)
    probability = clone(estimator).fit(X, labels, sample_weight=np.ones(len(X))).predict_proba(X)
    shift = logit(labels.mean())
    names = np.array(["no", "yes"])[labels]
    pure = bag_target(labels, labels)
    for y in (labels, names, pure):
        model = EMClassifier(estimator).fit(X, y)
        assert model.n_iter_ == 1
        assert model.converged_
        np.testing.assert_array_equal(model.estimator_.predict_proba(X), probability)
        expected = logit(np.clip(probability[:, 1], 1e-9, 1 - 1e-9))
        np.testing.assert_allclose(model.decision_function(X), expected)
        balanced = EMClassifier(estimator, class_prior="balanced").fit(X, y)
        np.testing.assert_allclose(balanced.decision_function(X), expected - shift)
        # at the shares it was trained at, the probabilities are those of the inner classifier
        again = model.predict_proba(X, [1 - labels.mean(), labels.mean()])
        np.testing.assert_allclose(again, probability, atol=1e-8)
    assert set(EMClassifier(estimator).fit(X, names).predict(X)) == {"no", "yes"}


def test_pure_bags_of_three_classes_give_the_inner_classifier_itself():
    X, labels = THREE.X, THREE.labels
    inner = LogisticRegression().fit(X, labels, sample_weight=np.ones(len(X)))
    probability, shares = inner.predict_proba(X), np.bincount(labels) / len(labels)
    for y in (labels, bag_target(labels, np.eye(3)[labels])):
        model = EMClassifier().fit(X, y)
        assert model.n_iter_ == 1
        np.testing.assert_allclose(model.estimator_.predict_proba(X), probability, atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(X, shares), probability, atol=1e-6)
        np.testing.assert_array_equal(model.label_posteriors_, np.eye(3)[labels])


@pytest.mark.parametrize("sampling", ["shuffled", "mixed"])
def test_every_step_increases_the_likelihood(sampling):
    X, y, _ = make_data(sampling)
    model = EMClassifier(EXACT, cv=None, tol=1e-6, max_iter=500).fit(X, y)
    assert model.converged_
    assert model.n_iter_ == len(model.log_likelihood_path_) > 10
    assert np.diff(model.log_likelihood_path_).min() > -1e-9


@pytest.mark.parametrize("sampling", ["shuffled", "mixed"])
def test_likelihood_is_that_of_sums_of_independent_labels(sampling):
    X, y, _ = make_data(sampling, n=300)
    model = EMClassifier(EXACT, cv=None).fit(X, y)
    probability = model.estimator_.predict_proba(X)[:, 1]
    total = 0.0
    for bag in np.unique(y["bag"]):
        rows = y["bag"] == bag
        counts = np.ones(1)
        for p in probability[rows]:
            counts = np.convolve(counts, [1 - p, p])
        total += np.log(counts[round(rows.sum() * y["proportion"][rows][0])])
    assert model.log_likelihood_path_.max() == pytest.approx(total / len(y))


def test_densities_of_the_classes_integrate_to_one():
    X, y, _ = make_data("mixed")
    model = EMClassifier(EXACT, cv=None).fit(X, y)
    share = y["proportion"].mean()
    probability = model.estimator_.predict_proba(X)[:, 1]
    assert model.label_posteriors_.mean() == pytest.approx(share, abs=1e-12)
    assert probability.mean() == pytest.approx(share, abs=1e-6)
    np.testing.assert_allclose(model.empirical_prior_, [1 - share, share])


def test_ends_where_the_gradient_of_the_likelihood_vanishes():
    X, y, _ = make_data("mixed")
    model = EMClassifier(EXACT, cv=None, tol=1e-10, max_iter=2000).fit(X, y)
    slope = slope_of_likelihood(y)
    at_end, at_start = slope(model.decision_function(X)[None]), slope(np.zeros((1, len(X))))
    assert np.abs(at_end @ X).max() < 1e-3 * np.abs(at_start @ X).max()
    assert abs(at_end.sum()) < 1e-6


def slope_of_likelihood(y):
    """Gradient of the count likelihood by scores (outputs, instances) at the overall class prior."""
    bags = check_bag_target(y)
    likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
    zero = np.zeros(1, dtype=int)
    return lambda scores: likelihood.value_and_gradient(scores[None], zero)[1][0]


def test_three_classes_end_where_the_gradient_vanishes():
    X, y = THREE.X, THREE.y
    model = EMClassifier(EXACT, cv=None, tol=1e-9, max_iter=2000).fit(X, y)
    slope = slope_of_likelihood(y)
    at_shares = model.decision_function(X).T
    at_end, at_start = slope(at_shares), slope(np.zeros((3, len(X))))
    # nearly, as probabilities by the saddlepoint approximation are brought into [0, 1]
    assert np.abs(at_end @ X).max() < 0.02 * np.abs(at_start @ X).max()
    # and says which class is which, nearly as well as labels would
    by_labels = EMClassifier(EXACT).fit(X, THREE.labels)
    gain = (model.predict(X) == THREE.labels).mean() - (by_labels.predict(X) == THREE.labels).mean()
    assert gain > -0.03


def test_several_classes_have_scores_and_posteriors_of_their_own():
    model = EMClassifier().fit(THREE.X, THREE.y)
    scores = model.decision_function(THREE.X)
    assert scores.shape == model.label_posteriors_.shape == (240, 3)
    np.testing.assert_allclose(model.predict_proba(THREE.X), softmax(scores, axis=1))
    np.testing.assert_allclose(model.label_posteriors_.sum(axis=1), 1, rtol=1e-12)
    assert (model.predict(THREE.X) == THREE.labels).mean() > 0.75
    with pytest.raises(ValueError, match="one number for each of the 3 classes"):
        model.predict_proba(THREE.X, [1, 2])


def test_shares_are_rounded_to_counts():
    X, y = BINARY.X, BINARY.y
    nearly = bag_target(y["bag"], np.clip(y["proportion"] + 0.04 * np.cos(y["bag"]), 0, 1))
    one, other = (EMClassifier(cv=None).fit(X, target) for target in (y, nearly))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("labelled", [False, True])
def test_finds_the_ratio_of_the_densities_whatever_the_proportions(labelled):
    """Gaussians at ±1 have log g₊/g₋ = 2x, without an intercept.

    Rows may even be labelled so that positives are no longer rare.
    """
    data = make_gaussian_bags(
        n_bags=500, bag_size=8, n_features=1, proportions=(0, 0.4), random_state=1
    )
    y, known = data.y, np.full(len(data.y), np.nan)
    if labelled:
        chosen = [np.flatnonzero(data.labels == c)[:500] for c in (0, 1)]
        known[np.concatenate(chosen)] = np.repeat([0, 1], 500)
        y = bag_target(y["bag"], y["proportion"], labels=known)
        assert check_bag_target(y).labelled.any()
    model = EMClassifier(EXACT, class_prior="balanced", cv=None, tol=1e-6, max_iter=500)
    model.fit(data.X, y)
    at_0, at_1 = model.decision_function(np.array([[0.0], [1.0]]))
    assert at_0 == pytest.approx(0, abs=0.2)
    assert at_1 - at_0 == pytest.approx(2, abs=0.4)


def test_noisy_counts_are_weighed_by_their_noise():
    """Covariate shift with log-odds 2x; counts are off by ±2."""
    rng = np.random.default_rng(0)
    x = 0.7 * rng.normal(size=(400, 1)) + rng.normal(size=(400, 10))
    counts = (rng.uniform(size=x.shape) < expit(2 * x - 1)).sum(axis=1)
    bag = np.repeat(np.arange(400), 10)
    noisy = counts + 2 * rng.normal(size=400)
    y = bag_target(bag, counts=noisy[bag], noise=2.0)
    assert (y["proportion"] < 0).any()
    X = x.reshape(-1, 1)
    declared = EMClassifier(EXACT, cv=None, tol=1e-6, max_iter=500).fit(X, y)
    assert declared.estimator_.coef_[0, 0] == pytest.approx(2, abs=0.25)
    assert declared.estimator_.intercept_[0] == pytest.approx(-1, abs=0.25)
    untold = bag_target(bag, counts=np.clip(np.round(noisy), 0, 10)[bag])
    untold = EMClassifier(EXACT, cv=None).fit(X, untold)
    assert abs(untold.estimator_.coef_[0, 0] - 2) > 0.5


@pytest.mark.parametrize("estimator", [FOREST, BOOSTED])
def test_ranks_better_than_soft_labels(estimator):
    X, y, X_test, labels_test = make_ring_data()
    estimator = clone(estimator).set_params(random_state=0)
    soft = soft_label_fit(estimator, X, y).predict_proba(X_test)[:, 1]
    model = EMClassifier(estimator, cv=2, tol=0.05).fit(X, y)
    gain = roc_auc_score(labels_test, model.decision_function(X_test))
    gain -= roc_auc_score(labels_test, soft)
    assert gain > 0.01


def test_ranks_better_than_soft_labels_with_logistic_regression():
    X, y, X_test, labels_test = make_ring_data()
    X, X_test = (np.hstack([x, x**2]) for x in (X, X_test))
    soft = soft_label_fit(EXACT, X, y).predict_proba(X_test)[:, 1]
    model = EMClassifier(EXACT).fit(X, y)
    scores = model.decision_function(X_test)
    assert roc_auc_score(labels_test, scores) > roc_auc_score(labels_test, soft)


# --- cross-fitting ------------------------------------------------------------------------------


class Check(ClassifierMixin, BaseEstimator):
    """Logistic regression that reports which bags, the first feature, it saw and scored."""

    reports: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.seen_ = set(X[:, 0])
        self.model_ = LogisticRegression().fit(X[:, 1:], y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        self.reports.append((self.seen_, set(X[:, 0])))
        return self.model_.predict_proba(X[:, 1:])


@pytest.mark.parametrize("cv", [3, BagKFold(4, shuffle=True, random_state=0), None])
def test_no_bag_is_scored_by_a_model_that_saw_it(cv):
    X = np.column_stack([BINARY.y["bag"], BINARY.X])
    Check.reports.clear()
    model = EMClassifier(Check(), cv=cv).fit(X, BINARY.y)
    everyone = set(range(24))
    assert len(Check.reports) >= model.n_iter_ > 1
    for seen, scored in Check.reports:
        if cv is None:
            assert seen == scored == everyone
        else:
            assert not seen & scored
            assert seen | scored == everyone
    assert model.estimator_.seen_ == everyone


def test_keeps_the_best_step():
    X, y, *_ = make_ring_data(n=400)
    model = EMClassifier(FOREST, cv=2, tol=1e-6, random_state=0).fit(X, y)
    path = model.log_likelihood_path_
    assert model.converged_
    # the likelihood of held-out bags has no need to rise for ever
    assert path[-1] - path[:-1].max() < 1e-6
    capped = EMClassifier(FOREST, cv=2, tol=1e-9, random_state=0)
    with pytest.warns(ConvergenceWarning, match="did not converge within max_iter"):
        capped.set_params(max_iter=int(path.argmax()) + 1).fit(X, y)
    np.testing.assert_array_equal(capped.label_posteriors_, model.label_posteriors_)
    np.testing.assert_array_equal(capped.decision_function(X), model.decision_function(X))


# --- how it is used -----------------------------------------------------------------------------


def test_same_seed_same_model():
    X, y = BINARY.X, BINARY.y
    few_steps = EMClassifier(FOREST, cv=2, tol=0.1)
    first, second, third = (
        few_steps.set_params(random_state=seed).fit(X, y).decision_function(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - third).max() > 0.01
    seeded = clone(FOREST).set_params(random_state=7)
    own = few_steps.set_params(estimator=seeded, random_state=None).fit(X, y)
    assert own.estimator_.random_state == 7


def test_sparse_and_missing_values_are_left_to_the_inner_classifier():
    X, y = BINARY.X, BINARY.y
    dense, sparse = (EMClassifier().fit(x, y).decision_function(x) for x in (X, csr_array(X)))
    np.testing.assert_allclose(dense, sparse, atol=1e-3)
    missing = X.copy()
    missing[::7, 0] = np.nan
    model = EMClassifier(BOOSTED, cv=2, tol=0.1).fit(missing, y)
    assert (model.predict(missing) == BINARY.labels).mean() > 0.7
    with pytest.raises(ValueError, match="X holds NaN"):
        EMClassifier().fit(missing, y)


def test_probabilities_at_another_prior():
    model = EMClassifier().fit(BINARY.X, BINARY.y)
    np.testing.assert_allclose(
        model.predict_proba(BINARY.X)[:, 1], expit(model.decision_function(BINARY.X))
    )
    even, rare = (model.predict_proba(BINARY.X, prior) for prior in ("balanced", [0.9, 0.1]))
    np.testing.assert_allclose(rare[:, 1] / rare[:, 0], even[:, 1] / even[:, 0] / 9)
    with pytest.raises(ValueError, match="one number for each of the 2 classes"):
        model.predict_proba(BINARY.X, [1, 2, 3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": KNeighborsClassifier()}, "KNeighborsClassifier.fit takes no sample_weight"),
        (
            {"estimator": make_pipeline(StandardScaler(), LogisticRegression())},
            "pipeline around EMClassifier",
        ),
        ({"estimator": LinearSVC()}, "LinearSVC gives no probabilities"),
        ({"tol": 0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"cv": BagKFold(25)}, "25 folds need as many bags"),
        ({"cv": "three"}, "cv must be"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        EMClassifier(**settings).fit(BINARY.X, BINARY.y)


def test_wrong_data_are_named():
    X, y = BINARY.X, BINARY.y
    rare = bag_target(y["bag"], np.where(y["bag"] == 0, 0.02, 0.01))
    with pytest.raises(ValueError, match="whole instances, no bag has any of class 1;"):
        EMClassifier().fit(X, rare)
    bag = np.repeat([0, 1, 2], 4)
    few = bag_target(bag, np.where(bag == 2, 0.5, 0.0))
    with pytest.raises(ValueError, match="one fold a class has no instance left; use fewer folds"):
        EMClassifier(cv=3).fit(X[:12], few)
    rows = np.arange(len(y))
    overlapping = [(rows[rows >= 10 * k], rows[rows < 10 * k]) for k in (5, 10)]
    with pytest.raises(ValueError, match="hold out every bag exactly once"):
        EMClassifier(cv=overlapping).fit(X, y)


class _Counting(LogisticRegression):
    """Tells on how many threads it could run."""

    threads: ClassVar[list[int]] = []

    def fit(self, X, y, sample_weight=None):
        self.threads.extend(one["num_threads"] for one in threadpool_info())
        return super().fit(X, y, sample_weight)


def test_learns_on_one_thread():
    data = make_gaussian_bags(n_bags=12, bag_size=10, random_state=0)
    with threadpool_limits(2):
        EMClassifier(_Counting(), max_iter=3, tol=1e9, cv=None).fit(data.X, data.y)
        assert set(_Counting.threads) == {1}
