"""Calibration from bags: on plain labels it is scikit-learn's, on bags right on average."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from unbag import (
    BagKFold,
    BagShuffleSplit,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
    check_bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.models.calibrated import (
    BagCalibratedClassifier,
    fit_calibrator,
    fit_isotonic,
    fit_sigmoid,
    unbiased_labels,
)

METHODS = pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
INNER = LLPLinearClassifier(1e-3)
BINARY = make_gaussian_bags(n_bags=60, bag_size=50, random_state=0)
THREE = make_gaussian_bags(n_bags=60, bag_size=50, n_classes=3, random_state=0)
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1], [190, 110]))
SCORES = np.random.default_rng(1).normal(size=300) + 1.5 * LABELS
LABELS3 = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], [90, 60, 150]))


def labelled(n_classes=2):
    return make_classification(
        400, 5, n_informative=4, n_redundant=0, n_classes=n_classes, weights=[0.6], random_state=0
    )


# unbiased labels


@pytest.mark.parametrize("n_classes", [2, 3])
def test_unbiased_labels_sum_to_one_and_average_to_the_shares(n_classes):
    sizes = np.random.default_rng(n_classes).integers(1, 30, 20)
    bags = check_bag_target(make_gaussian_bags(bag_size=sizes, n_classes=n_classes).y)
    u = unbiased_labels(bags)
    np.testing.assert_allclose(u.sum(axis=1), 1)
    np.testing.assert_allclose(u.mean(axis=0), bags.class_shares)


def test_unbiased_labels_of_plain_labels_are_these():
    np.testing.assert_allclose(
        unbiased_labels(check_bag_target(LABELS3)), np.eye(3)[LABELS3], atol=1e-12
    )


def test_unbiased_labels_are_labels_on_average():
    rng = np.random.default_rng(0)
    labels = (rng.uniform(size=(30, 12)) < rng.uniform(size=(30, 1))).astype(int).ravel()
    bag = np.repeat(np.arange(30), 12)
    y = bag_target(bag, labels.reshape(30, 12).mean(axis=1)[bag])
    u = unbiased_labels(check_bag_target(y))[:, 1]
    h = np.cos(2 * (2 * labels - 1 + rng.normal(size=(4000, 360))))
    with_bags, with_labels = h @ u / len(u), h @ labels / len(u)
    error = (with_bags - with_labels).std() / np.sqrt(4000)
    assert abs((with_bags - with_labels).mean()) < 4 * error
    assert error < 0.002


# the two maps


def test_sigmoid_of_plain_labels_is_logistic_regression_with_a_unit_normal_prior():
    f = (SCORES - SCORES.mean()) / SCORES.std()
    oracle = LogisticRegression(C=1, tol=1e-10, max_iter=1000).fit(f[:, None], LABELS)
    found = fit_sigmoid(SCORES, LABELS.astype(float))
    np.testing.assert_allclose(
        found.predict(SCORES), oracle.predict_proba(f[:, None])[:, 1], atol=1e-6
    )


def test_sigmoid_minimises_the_log_loss_of_unbiased_labels():
    bags = check_bag_target(BINARY.y)
    u, f = unbiased_labels(bags)[:, 1], BINARY.X[:, 0] + 0.3
    found = fit_sigmoid(f, u)
    pi = bags.class_shares[1]
    n = len(u) * pi * (1 - pi) / np.mean((u - pi) ** 2)

    def risk(theta):
        p = expit(theta[0] * f + theta[1])
        log_loss = -np.mean(u * np.log(p) + (1 - u) * np.log1p(-p))
        return log_loss + (theta[0] * f.std()) ** 2 / (2 * n)

    oracle = minimize(risk, [1, 0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-14})
    np.testing.assert_allclose([found.slope, found.intercept], oracle.x, atol=1e-5)


def test_sigmoid_does_not_depend_on_the_units_of_the_score():
    u = unbiased_labels(check_bag_target(BINARY.y))[:, 1]
    f = BINARY.X[:, 0]
    one, other = fit_sigmoid(f, u), fit_sigmoid(1e4 * f - 7e4, u)
    np.testing.assert_allclose(one.predict(f), other.predict(1e4 * f - 7e4), atol=1e-6)


def test_sigmoid_is_finite_where_the_log_loss_falls_without_end():
    y = bag_target([0, 0, 1, 1], [0.4, 0.4, 0.6, 0.6])
    f = np.array([-1.0, -2.0, 1.0, 2.0])
    u = unbiased_labels(check_bag_target(y))[:, 1]
    assert np.mean(np.maximum(f, 0) - u * f) < 0  # slope of the log loss at infinity
    found = fit_sigmoid(f, u)
    assert 0 < found.slope < 100


@METHODS
def test_scores_that_point_the_wrong_way_or_nowhere_give_the_share(method):
    bags = check_bag_target(BINARY.y)
    for scores in (-BINARY.X[:, 0], np.zeros(len(BINARY.X))):
        chance = fit_calibrator(scores, bags, method).predict_proba(scores)
        if method == "isotonic":  # may follow noise at the ends
            chance = np.quantile(chance, [0.2, 0.5, 0.8], axis=0)
        np.testing.assert_allclose(chance[:, 1], bags.class_shares[1], atol=1e-3)


def test_isotonic_map_is_monotone_and_inside_the_unit_interval():
    u = unbiased_labels(check_bag_target(BINARY.y))[:, 1]
    assert u.min() < 0
    assert u.max() > 1
    values = fit_isotonic(BINARY.X[:, 0], u).predict(np.linspace(-9, 9, 500))
    assert (np.diff(values) >= 0).all()
    assert values.min() >= 0
    assert values.max() <= 1


@METHODS
def test_many_bags_calibrate_any_score_to_the_true_probability(method):
    data = make_gaussian_bags(n_bags=4000, bag_size=10, random_state=1)
    bags = check_bag_target(data.y)
    log_odds = 2 * data.X[:, 0] + logit(bags.class_shares[1])
    scores = log_odds / 7 - 2 if method == "sigmoid" else np.arctan(log_odds)
    chance = fit_calibrator(scores, bags, method).predict_proba(scores)[:, 1]
    assert np.sqrt(np.mean((chance - expit(log_odds)) ** 2)) < 0.03


# the classifier


@pytest.mark.parametrize("cv", [5, 4])
def test_plain_labels_equal_isotonic_calibration_of_scikit_learn(cv):
    X, y = labelled()
    splits = list(BagKFold(cv).split(X, y))
    ours = BagCalibratedClassifier(INNER, method="isotonic", cv=cv).fit(X, y)
    theirs = CalibratedClassifierCV(INNER, method="isotonic", ensemble=False, cv=splits).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_plain_labels_nearly_equal_sigmoid_calibration_of_scikit_learn():
    X, y = labelled()
    splits = list(BagKFold(5).split(X, y))
    ours = BagCalibratedClassifier(INNER).fit(X, y)
    theirs = CalibratedClassifierCV(INNER, ensemble=False, cv=splits).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=0.01)


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers its training rows, and scores nothing that it was trained on."""

    def fit(self, X, y):
        self.rows_ = set(X[:, -1])
        self.classes_ = check_bag_target(y).classes
        return self

    def decision_function(self, X):
        assert self.rows_.isdisjoint(X[:, -1])
        return X[:, 0]


def test_no_bag_is_scored_by_a_model_that_saw_it():
    X = np.column_stack([BINARY.X, np.arange(len(BINARY.X))])
    model = BagCalibratedClassifier(Spy(), cv=BagKFold(3)).fit(X, BINARY.y)
    assert len(model.estimator_.rows_) == len(X)
    oracle = fit_calibrator(X[:, 0], check_bag_target(BINARY.y))
    assert model.calibrator_.maps == oracle.maps


@METHODS
def test_classifier_learns_calibrated_probabilities_from_bags(method):
    model = BagCalibratedClassifier(method=method).fit(BINARY.X, BINARY.y)
    assert isinstance(model.estimator_, LLPLinearClassifierCV)
    new = make_gaussian_bags(n_bags=60, bag_size=50, random_state=5)
    truth = expit(2 * new.X[:, 0] + logit(model.empirical_prior_[1]))
    chance = model.predict_proba(new.X)
    assert np.sqrt(np.mean((chance[:, 1] - truth) ** 2)) < 0.1
    np.testing.assert_array_equal(model.predict(new.X), chance.argmax(axis=1))
    scores = model.decision_function(new.X)
    inner = model.estimator_.decision_function(new.X)
    assert (np.diff(scores[np.argsort(inner)]) >= 0).all()
    assert model.score(new.X, new.y) == pytest.approx(model.score(new.X, new.labels), abs=0.05)


def test_another_prior_multiplies_the_odds():
    model = BagCalibratedClassifier(INNER, class_prior="balanced").fit(BINARY.X, BINARY.y)
    pooled = model.predict_proba(BINARY.X, class_prior="empirical")
    scores = model.estimator_.decision_function(BINARY.X)
    np.testing.assert_allclose(pooled, model.calibrator_.predict_proba(scores))
    shares = model.empirical_prior_
    for prior in ([1, 3], np.array([0.9, 0.1])):
        chance = model.predict_proba(BINARY.X, class_prior=prior)
        np.testing.assert_allclose(
            chance[:, 1] / chance[:, 0],
            pooled[:, 1] / pooled[:, 0] * (prior[1] / prior[0]) / (shares[1] / shares[0]),
        )
    np.testing.assert_array_equal(
        model.predict_proba(BINARY.X), model.predict_proba(BINARY.X, class_prior=[1, 1])
    )
    assert (model.predict_proba(BINARY.X, class_prior=[1, 0]) == [1, 0]).all()


@METHODS
@pytest.mark.parametrize("class_prior", ["empirical", "balanced", [0.02, 0.98]])
def test_decisions_are_log_odds_of_the_probabilities_and_classes_their_signs(method, class_prior):
    model = BagCalibratedClassifier(INNER, method=method, class_prior=class_prior)
    model.fit(BINARY.X, BINARY.y)
    scores, chance = model.decision_function(BINARY.X), model.predict_proba(BINARY.X)
    np.testing.assert_allclose(expit(scores), chance[:, 1], atol=1e-12)
    np.testing.assert_array_equal(model.predict(BINARY.X), scores > 0)
    np.testing.assert_array_equal(model.predict(BINARY.X), chance.argmax(axis=1))


def test_log_odds_are_finite_where_isotonic_probabilities_are_zero_and_one():
    found = fit_isotonic(np.arange(4.0), np.array([0.0, 0.0, 1.0, 1.0]))
    ends = found.log_odds(np.array([0.0, 1.5, 3.0]))
    np.testing.assert_allclose(ends, [-36.04, 0, 36.04], atol=0.01)


@METHODS
def test_three_classes(method):
    model = BagCalibratedClassifier(INNER, method=method).fit(THREE.X, THREE.y)
    new = make_gaussian_bags(n_bags=60, bag_size=50, n_classes=3, random_state=5)
    density = np.exp(new.X @ new.means.T - (new.means**2).sum(axis=1) / 2) * model.empirical_prior_
    truth = density / density.sum(axis=1, keepdims=True)
    chance = model.predict_proba(new.X)
    np.testing.assert_allclose(chance.sum(axis=1), 1)
    assert np.sqrt(np.mean((chance - truth) ** 2)) < 0.1
    np.testing.assert_array_equal(model.predict(new.X), chance.argmax(axis=1))
    scores = model.decision_function(new.X)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores.argmax(axis=1), model.predict(new.X))


def test_scores_that_no_map_likes_get_the_shares():
    bags = check_bag_target(LABELS3)
    calibrator = fit_calibrator(np.eye(3)[LABELS3], bags, "isotonic")
    np.testing.assert_allclose(calibrator.predict_proba(np.zeros((1, 3))), bags.class_shares[None])


@pytest.mark.parametrize("target", ["labels", "bags"])
def test_a_frozen_classifier_is_calibrated_on_all_bags_as_it_is(target):
    X, y = labelled()
    inner = LogisticRegression().fit(X, np.array(["no", "yes"])[y])
    bag = np.arange(len(y)) // 10
    share = np.bincount(bag, y) / 10
    t = np.array(["no", "yes"])[y] if target == "labels" else bag_target(bag, share[bag])
    model = BagCalibratedClassifier(FrozenEstimator(inner)).fit(X, t)
    scores = inner.decision_function(X)
    oracle = fit_calibrator(scores, check_bag_target(t)).predict_proba(scores)
    np.testing.assert_array_equal(model.predict_proba(X), oracle)
    assert set(model.predict(X)) == {"no", "yes"}


class OnlyProbabilities(LLPLinearClassifier):
    @property
    def decision_function(self):
        raise AttributeError

    def predict_proba(self, X):
        p = expit(X @ self.coef_[0] + self.intercept_[0])
        return np.column_stack([1 - p, p])


def test_a_classifier_without_scores_is_calibrated_by_its_probabilities():
    model = BagCalibratedClassifier(OnlyProbabilities(1e-3), method="isotonic")
    chance = model.fit(BINARY.X, BINARY.y).predict_proba(BINARY.X)
    other = BagCalibratedClassifier(INNER, method="isotonic").fit(BINARY.X, BINARY.y)
    assert np.abs(chance - other.predict_proba(BINARY.X)).mean() < 0.01


def test_frames_reach_the_inner_classifier():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(BINARY.X, columns=["height", "width"])
    model = BagCalibratedClassifier(INNER).fit(frame, BINARY.y)
    assert list(model.feature_names_in_) == ["height", "width"]
    plain = BagCalibratedClassifier(INNER).fit(BINARY.X, BINARY.y)
    np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(BINARY.X))


class NoScores(Spy):
    decision_function = property()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "platt"}, "method must be one of 'sigmoid', 'isotonic', not 'platt'"),
        ({"cv": KFold(2)}, "A fold holds out part of bag 29 only"),
        ({"cv": BagShuffleSplit(3)}, "hold out every bag exactly once"),
        ({"cv": BagKFold(100)}, "100 folds need as many bags"),
        ({"class_prior": [1, 2, 3]}, "one number for each of the 2 classes"),
        ({"estimator": NoScores()}, "NoScores has neither decision_function nor predict_proba"),
        (
            {"estimator": FrozenEstimator(LLPLinearClassifier().fit(THREE.X, THREE.y))},
            r"knows the classes \[.*2.*\], but the target has",
        ),
    ],
)
def test_mistakes_get_one_sentence(settings, message):
    rows = slice(None) if "cv" not in settings else slice(None, 59 * 50)
    with pytest.raises(ValueError, match=message):
        BagCalibratedClassifier(**{"estimator": INNER, **settings}).fit(
            BINARY.X[rows], BINARY.y[rows]
        )


def test_a_prior_that_makes_no_sense_is_refused_when_predicting():
    model = BagCalibratedClassifier(INNER).fit(BINARY.X, BINARY.y)
    with pytest.raises(ValueError, match="class_prior must be 'balanced'"):
        model.predict_proba(BINARY.X, class_prior="uniform")
