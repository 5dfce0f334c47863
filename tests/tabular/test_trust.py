"""Which types a model file may hold."""

import pytest

from unbag.baselines.published_methods import PUBLISHED
from unbag.tabular.trust import is_ours
from unbag.testing import all_estimators


@pytest.mark.parametrize(
    "name",
    [
        "unbag.objectives.losses.get_loss",  # a function
        "unbag.objectives.losses.np",  # a module
        "unbag.models.linear.BaseEstimator",  # not here
        "unbag.models.LinearMCMClassifier",  # not its own name
        "unbag.models.nowhere.Model",
        "unbag.cli.main",
        "unbag.models.local.LocalBackend",  # ours, but no part of a fitted model
        "unbag.baselines.published.PublishedGoal",
        "unbag.baselines.published_methods.PublishedMethod",  # no method that has a name
        "unbag.baselines.published_methods.Task",
        "unbagged.models.Model",
        "unbag",
        "",
    ],
)
def test_what_is_not_ours(name):
    assert not is_ours(name)


def test_every_estimator_and_every_published_method_is_ours():
    types = [estimator for _, estimator in all_estimators()] + [type(m) for m in PUBLISHED.values()]
    assert all(is_ours(f"{found.__module__}.{found.__name__}") for found in types)
