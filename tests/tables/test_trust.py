"""Which types a model file may hold."""

import pytest

from unbag.tables.persistence import _is_trusted
from unbag.testing import all_estimators


@pytest.mark.parametrize(
    "name",
    [
        "unbag.observations.losses.get_loss",  # a function
        "unbag.observations.losses.np",  # a module
        "unbag.models.mixed.BaseEstimator",  # not here
        "unbag.models.LLPClassifier",  # not its own name
        "unbag.models.nowhere.Model",
        "unbag.cli.main",
        "unbag.models.newton.BagLikelihood",  # ours, but no part of a fitted model
        "unbag_bench.methods.published.PublishedClassifierCV",  # another package
        "unbagged.models.Model",
        "unbag",
        "",
    ],
)
def test_what_is_not_ours(name):
    assert not _is_trusted(name)


def test_every_estimator__is_trusted():
    types = [estimator for _, estimator in all_estimators()]
    assert all(_is_trusted(f"{found.__module__}.{found.__name__}") for found in types)
