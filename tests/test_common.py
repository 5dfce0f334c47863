"""What holds for every classifier of the package."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import all_estimators, check_bag_classifier
from unbag import (
    BagKFold,
    LLPBoostingClassifier,
    LLPClassifier,
    bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.scorers import SCORERS

ESTIMATORS = [
    estimator for _, estimator in all_estimators() if issubclass(estimator, ClassifierMixin)
]
# What many settings, folds and rounds show here, a few do as well.
SMALLER = {
    "AlternatingSVMClassifier": {"Cs": (1,), "C_bags": (1, 10), "gammas": (0.1,)},
    # what kernels add is tested for themselves
    "LLPEnsembleClassifier": {
        "estimators": [
            ("mixed", LLPClassifier(kernel=None, tol=1e-6)),
            ("boosted", LLPBoostingClassifier((2, 4), n_estimators=40)),
        ],
        "cv": 2,
    },
    "LLPBoostingClassifier": {"num_leaves": (2, 4), "n_estimators": 40, "cv": 2},
    "ClusterClassifier": {"n_clusters": (5,), "cv": 2},
    "InvCalClassifier": {"Cs": (1,), "epsilons": (0, 0.01), "gammas": (0.1,)},
    "LMMCMClassifierCV": {"alphas": (1e-2, 1e-3), "cv": 3},
    "LLPNeuralClassifier": {"hidden": (16,), "max_epochs": 60},
    "ProportionRiskClassifier": {"alphas": (1e-3, 1e-4), "cv": 3},
}
BINARY = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)


def make(estimator):
    return estimator(**SMALLER.get(estimator.__name__, {}))


@parametrize_with_checks([make(estimator) for estimator in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some checks allow one iteration
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def scores(model, X=BINARY.X):
    return model.decision_function(X)


@cache
def fitted(estimator):
    """A model of the bags that tests only look at."""
    return make(estimator).fit(BINARY.X, BINARY.y)


def with_tolerance(estimator):
    """An estimator whose ``tol``, or that of the one inside it, can be set; and its name."""
    model = make(estimator)
    if "tol" in model.get_params():
        return model, "tol"
    if "learning_rate" in model.get_params():
        # steps of trees have no end that a tolerance could be of
        return model, "reg_lambda"
    if "estimators" in model.get_params():
        # base models that are given have tolerances of their own, and no use for its seed
        return model, "random_state"
    return model.set_params(estimator=LLPClassifier(kernel=None)), "estimator__tol"


@pytest.mark.parametrize("estimator", ESTIMATORS)
class TestEveryEstimator:
    def test_learns_from_bags(self, estimator):
        model = fitted(estimator)
        assert (model.predict(BINARY.X) == BINARY.labels).mean() > 0.8
        if hasattr(model, "predict_proba"):
            probability = model.predict_proba(BINARY.X)
            np.testing.assert_allclose(probability.sum(axis=1), 1)
            np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(BINARY.X))

    def test_attributes_mean_what_they_mean_elsewhere(self, estimator):
        check_bag_classifier(make(estimator))

    def test_same_data_same_model(self, estimator):
        again = make(estimator).fit(BINARY.X, BINARY.y)
        np.testing.assert_array_equal(scores(fitted(estimator)), scores(again))

    def test_order_of_rows_and_names_of_bags_do_not_matter(self, estimator):
        rows = np.random.default_rng(1).permutation(len(BINARY.y))
        # in the same order, by which folds deal out bags of equal proportion
        names = np.array([f"bag {b:03}" for b in range(24)])[BINARY.y["bag"]]
        renamed = bag_target(names, BINARY.y["proportion"])
        model, tol = with_tolerance(estimator)
        model.set_params(**{tol: 1e-6})
        if "precision" in model.get_params():
            model.set_params(precision="double")
        one = clone(model).fit(BINARY.X, BINARY.y)
        other = clone(model).fit(BINARY.X[rows], renamed[rows])
        np.testing.assert_allclose(scores(one), scores(other), atol=2e-5)

    def test_clone_and_pickle(self, estimator):
        model = fitted(estimator)
        assert not hasattr(clone(model), "classes_")
        np.testing.assert_array_equal(scores(pickle.loads(pickle.dumps(model))), scores(model))

    def test_pipeline_grid_search_and_joblib(self, estimator):
        model, tol = with_tolerance(estimator)
        pipeline = make_pipeline(StandardScaler(), model)
        name = f"{pipeline.steps[-1][0]}__{tol}"
        value = pipeline.get_params()[name]
        grid = GridSearchCV(
            pipeline,
            {name: [value / 2]},
            cv=BagKFold(2),
            scoring=SCORERS["corrected_risk"],
            refit=False,
            error_score="raise",
            n_jobs=2,
        )
        with parallel_config("threading"):
            grid.fit(BINARY.X, BINARY.y)
            assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
            fits = Parallel(n_jobs=2)(
                delayed(clone(pipeline).fit)(BINARY.X, BINARY.y) for _ in range(2)
            )
        np.testing.assert_array_equal(scores(fits[0]), scores(fits[1]))

    def test_scorers(self, estimator):
        scorers = dict(SCORERS)
        if not hasattr(estimator, "predict_proba"):
            del scorers["log_likelihood"]
        found = cross_validate(make(estimator), BINARY.X, BINARY.y, cv=BagKFold(3), scoring=scorers)
        for scorer in scorers:
            values = found[f"test_{scorer}"]
            assert np.isfinite(values).all(), scorer
            # per row, a coin has -log 2 at most
            least = {"corrected_risk": -np.inf, "log_likelihood": -0.3}.get(scorer, 0.7)
            assert values.mean() > least, scorer

    def test_some_labels_and_many_bags(self, estimator):
        labels = np.full(len(BINARY.labels), np.nan)
        known = np.arange(0, len(labels), 9)
        labels[known] = BINARY.labels[known]
        y = bag_target(BINARY.y["bag"], BINARY.y["proportion"], labels=labels)
        model = make(estimator).fit(BINARY.X, y)
        assert (model.predict(BINARY.X) == BINARY.labels).mean() > 0.8

    def test_part_of_a_bag_is_refused(self, estimator):
        with pytest.raises(ValueError, match="says nothing about part of a bag"):
            make(estimator).fit(BINARY.X[1:], BINARY.y[1:])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X, y: (X[:-1], y), "inconsistent"),
            (
                lambda X, y: (np.where(X[3, 1] == X, np.nan, X), y),
                "^X holds NaN or infinity, first in row 4, column 1; fill such values in",
            ),
            (lambda X, y: (X[y["bag"] == 0], y[y["bag"] == 0]), "only one bag"),
            (
                lambda X, y: (X, bag_target(y["bag"], np.full(len(y), 0.3))),
                "no method can learn from these",
            ),
            (lambda X, _: (X, None), "target y is None"),
        ],
    )
    def test_bad_data_get_one_sentence(self, estimator, change, message):
        if "NaN" in message and get_tags(estimator()).input_tags.allow_nan:
            pytest.skip("missing values are welcome")
        with pytest.raises(ValueError, match=message):
            make(estimator).fit(*change(BINARY.X, BINARY.y))
