"""What holds for every model whose objective is a likelihood of bags or the corrected risk."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from estimator_checks import all_estimators
from unbag.datasets import make_gaussian_bags

ESTIMATORS = [estimator for _, estimator in all_estimators() if "merge" in estimator().get_params()]
BINARY = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
class TestEveryBagGoal:
    def test_three_classes(self, estimator):
        data = make_gaussian_bags(
            n_bags=30, bag_size=8, n_classes=3, separation=4.0, random_state=0
        )
        model = estimator().fit(data.X, data.y)
        assert model.decision_function(data.X).shape == (240, 3)
        assert (model.predict(data.X) == data.labels).mean() > 0.9
        np.testing.assert_allclose(model.predict_proba(data.X).sum(axis=1), 1)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"loss": "zero_one"}, "cannot train"),
            ({"loss": "log"}, "loss must be one of"),
            ({"weights": "best"}, "weights must be"),
            ({"merge": "all"}, "merge must be"),
            ({"merge": "blockwise_max", "merge_size": 0}, "merge_size must be"),
            ({"bag_model": "iid"}, "bag_model must be"),
            ({"class_prior": "uniform"}, "class_prior must be"),
            ({"class_prior": [1, 2, 3]}, "class_prior must hold"),
            ({"correction": "relu"}, "correction must be"),
            ({"tol": 0}, "tol must be"),
            ({"max_iter": 0}, "max_iter must be"),
        ],
    )
    def test_unknown_options_are_named(self, estimator, settings, message):
        with pytest.raises(ValueError, match=message):
            estimator(**settings).fit(BINARY.X, BINARY.y)

    def test_losses_without_probabilities_say_so(self, estimator):
        model = estimator(loss="sigmoid").fit(BINARY.X, BINARY.y)
        assert not hasattr(model, "predict_proba")
        assert (model.predict(BINARY.X) == BINARY.labels).mean() > 0.8

    def test_probabilities_at_another_prior(self, estimator):
        model = estimator().fit(BINARY.X, BINARY.y)
        even, rare = model.predict_proba(BINARY.X), model.predict_proba(BINARY.X, [0.9, 0.1])
        np.testing.assert_allclose(rare[:, 1] / rare[:, 0], even[:, 1] / even[:, 0] / 9)

    def test_not_converged_is_said(self, estimator):
        with pytest.warns(ConvergenceWarning, match="did not converge within max_iter=1"):
            model = estimator(max_iter=1, tol=1e-9).fit(BINARY.X, BINARY.y)
        assert not model.converged_
