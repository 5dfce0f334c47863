"""Types that a model file may hold: those that do no harm whatever a forged file gives them.

Beside what skops trusts, these are the classes of this package that a fitted model is made of. A
file can give their attributes any values that are trusted, but what it is built of runs no code.
"""

from __future__ import annotations

import importlib

from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator

from unbag.kernels.matrices import Kernel
from unbag.models.mixed import TermSummary
from unbag.models.mixing import Mixture
from unbag.observations.losses import ClassLoss
from unbag.terms import TableEncoder, Term

# Types that skops leaves out because scikit-learn does not check the node numbers in them: those
# of a forged file can crash the process at the first prediction. For files of known origin.
TREES = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
)

# Parts of pipelines and searches that skops does not know, and that do no harm whatever they are
# given; the functions only look at the columns of a table. Of the classifiers of boosting
# libraries, settings can come back, but no trees: these are of types that are not here.
_PARTS = {
    "lightgbm.sklearn.LGBMClassifier",
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.metrics._scorer._PassthroughScorer",
    "unbag.tables.features.category_columns",
    "unbag.tables.features.number_columns",
    "unbag.tables.prose.prose_columns",
    "unbag.tables.times.time_columns",
    "xgboost.sklearn.XGBClassifier",
}

# What a fitted model of this package is made of, and where such classes live.
_FAMILIES = (
    BaseEstimator,
    BaseCrossValidator,
    ClassLoss,
    Kernel,
    Mixture,
    TableEncoder,
    Term,
    TermSummary,
)
_HOMES = ("kernels", "model_selection", "models", "observations", "paper", "tables", "terms")


def is_ours(name: str) -> bool:
    """Whether this is the full name of a class that a fitted model may hold, and no function."""
    if name in _PARTS:
        return True
    module, _, attribute = name.rpartition(".")
    package, _, home = module.partition(".")
    if package != "unbag" or home.split(".")[0] not in _HOMES:
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    if not isinstance(found, type) or found.__module__ != module:
        return False
    return issubclass(found, _FAMILIES)
