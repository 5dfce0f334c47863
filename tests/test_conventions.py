"""What users of scikit-learn, pandas and SHAP expect, of every learner."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from unbag import (
    BagKFold,
    LLPBoostingClassifier,
    LLPClassifier,
    LLPNeuralClassifier,
    bag_target,
    check_bag_target,
)
from unbag.bags.frames import bags_from_frame
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import SCORERS
from unbag.observations.count_likelihood import CountLikelihood
from unbag.tables import make_classifier

DATA = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)
X, Y = DATA.X, DATA.y
THREE = make_gaussian_bags(24, 15, n_classes=3, n_features=3, random_state=0)
LEARNERS = {
    "mixed": LLPClassifier(n_landmarks=20),
    "boosted": LLPBoostingClassifier((2, 4), n_estimators=20, cv=2),
    "neural": LLPNeuralClassifier(hidden=(8,), max_epochs=10),
}
learners = pytest.mark.parametrize("model", LEARNERS.values(), ids=LEARNERS)


def table():
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["red", "blue", "small", "fast", "old"], 5)) for _ in X]
    days = pd.date_range("2020-01-01", periods=len(X))
    kind = rng.choice(["u", "v", "w"], len(X))
    return pd.DataFrame({"number": X[:, 0], "day": days, "kind": kind, "note": words})


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["auto", "boosted"])
def test_ready_made_models_under_any_output_of_transformers(name, output):
    frame = table() if output == "pandas" else pl.from_pandas(table())
    expected = make_classifier(name, cv=2).fit(frame, Y).predict_proba(frame)
    with config_context(transform_output=output):
        found = make_classifier(name, cv=2).fit(frame, Y).predict_proba(frame)
    np.testing.assert_allclose(found, expected)


def test_unknown_ready_made_model():
    with pytest.raises(ValueError, match=r"^model must be one of .*'boosted'.* not 'lightgbm'\.$"):
        make_classifier("lightgbm")


@learners
def test_class_prior_adds_up_to_one(model):
    wrong = type(model)(class_prior=[0.3, 0.3])
    with pytest.raises(ValueError, match=r"^class_prior must add up to 1, .* 0\.6\.$"):
        wrong.fit(X, Y)


@learners
def test_random_state_may_be_of_any_kind(model):
    def scores(random_state):
        own = type(model)(**{**model.get_params(), "random_state": random_state})
        return own.fit(X, Y).decision_function(X)

    np.testing.assert_array_equal(scores(3), scores(3))
    by_object = [scores(np.random.RandomState(3)) for _ in range(2)]
    np.testing.assert_array_equal(*by_object)
    assert np.isfinite(scores(None)).all()


@learners
def test_logarithms_of_probabilities(model):
    model.fit(X, Y)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(X))
    np.testing.assert_allclose(logsumexp(logs, axis=1), 0.0, atol=1e-9)
    even = model.predict_log_proba(X, class_prior="balanced")
    np.testing.assert_allclose(np.exp(even), model.predict_proba(X, class_prior="balanced"))


@learners
def test_class_names_are_predicted(model):
    named = bag_target(Y["bag"], Y["proportion"], class_names=["no", "yes"])
    found = model.fit(X, named).predict(X)
    assert model.classes_.tolist() == ["no", "yes"]
    numbers = model.fit(X, Y).predict(X)
    np.testing.assert_array_equal(found, np.array(["no", "yes"])[numbers])


class TestScore:
    @pytest.mark.parametrize("class_prior", ["empirical", "balanced"])
    @learners
    def test_is_the_log_likelihood_of_counts(self, model, class_prior):
        own = type(model)(**{**model.get_params(), "class_prior": class_prior}).fit(X, Y)
        p = own.predict_proba(X, class_prior="empirical")[:, 1]
        bags = check_bag_target(Y)
        likelihood = CountLikelihood(np.ones((1, bags.n_bags), dtype=bool), bags)
        losses = likelihood.bag_losses((np.log(p) - np.log1p(-p))[None, None])
        assert own.score(X, Y) == pytest.approx(-losses.sum() / len(X))
        assert SCORERS["log_likelihood"](own, X, Y) == pytest.approx(own.score(X, Y))

    def test_of_bags_of_one_row_is_that_of_their_labels(self):
        single = bag_target(range(len(X)), DATA.labels)
        model = LLPClassifier(kernel=None).fit(X, Y)
        p = model.predict_proba(X)[np.arange(len(X)), DATA.labels]
        assert model.score(X, single) == pytest.approx(np.log(p).mean())

    def test_of_labels_is_the_accuracy(self):
        model = LLPClassifier(kernel=None).fit(X, Y)
        expected = accuracy_score(DATA.labels, model.predict(X))
        assert model.score(X, DATA.labels) == pytest.approx(expected)

    def test_chooses_well_where_bags_differ_in_their_rows(self):
        # covariate shift: scorers that assume label shift take what distinguishes bags for the class
        rng = np.random.default_rng(0)
        bag = np.arange(2400) // 40
        rows = (
            rng.normal(size=(2400, 2)) + np.column_stack([np.zeros(60), rng.normal(size=60)])[bag]
        )
        labels = (rng.random(2400) < 1 / (1 + np.exp(1 - 2 * rows[:, 0] - rows[:, 1]))).astype(int)
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        grid = {"variances": [{"numbers": v} for v in (1e-6, 1e-3, 1.0)]}
        search = GridSearchCV(LLPClassifier(kernel=None), grid, cv=BagKFold(4)).fit(rows, y)
        assert search.best_params_ == {"variances": {"numbers": 1.0}}

    def test_area_of_several_classes_is_that_of_each_against_the_rest(self):
        model = LLPClassifier(kernel=None).fit(THREE.X, THREE.y)
        logs = model.predict_log_proba(THREE.X)
        rest = np.stack([np.logaddexp(logs[:, c - 1], logs[:, c - 2]) for c in range(3)], axis=1)
        expected = np.mean(
            [roc_auc_score(THREE.labels == c, logs[:, c] - rest[:, c]) for c in range(3)]
        )
        pure = bag_target(range(len(THREE.X)), np.eye(3)[THREE.labels])
        assert SCORERS["roc_auc"](model, THREE.X, pure) == pytest.approx(expected)
        assert abs(SCORERS["roc_auc"](model, THREE.X, THREE.y) - expected) < 0.1
        search = GridSearchCV(
            LLPClassifier(kernel=None),
            {"tol": [1e-2, 1e-3]},
            cv=BagKFold(3),
            scoring="roc_auc",
            error_score="raise",
        )
        with pytest.raises(ValueError, match="SCORERS"):
            search.fit(THREE.X, THREE.y)

    def test_of_models_that_know_no_bags(self):
        model = LogisticRegression().fit(X, DATA.labels)
        assert (
            SCORERS["log_likelihood"](model, X, Y)
            > LLPClassifier(kernel=None).fit(X, Y).score(X, Y) - 0.1
        )


def test_trees_are_at_hand_for_shap():
    model = LLPBoostingClassifier((4,), n_estimators=20, cv=2).fit(X, Y)
    contributions = model.booster_.predict(X, pred_contrib=True)
    start = X @ model.start_coef_[0] + model.start_intercept_[0]
    np.testing.assert_allclose(contributions.sum(axis=1) + start, model.decision_function(X))


def test_bags_without_a_count_may_be_bags_without_positives():
    rows = pd.DataFrame({"key": list("aabbc"), "x": range(5)})
    counts = {"key": ["a", "b"], "clicks": [1, 2]}
    how = {"on": "key", "positives": "clicks", "unmatched": "drop"}
    with pytest.warns(UserWarning, match=r"^1 bag without .* selects rows .* count of 0\.$"):
        bags_from_frame(rows, pd.DataFrame(counts), **how)
    bags_from_frame(rows, pd.DataFrame({**counts, "clicks": [1, 0]}), **how)  # zeros are listed
