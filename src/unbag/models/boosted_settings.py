"""How trees are grown: the library, its settings, and what is chosen among.

An estimator of the library may be given. What it sets, that is, what differs from what its class
has by default, goes before what `unbag.LLPBoostingClassifier` has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag._checks import check_choice, check_count, check_nonnegative, check_positive
from unbag.models.boosted_library import Library
from unbag.models.boosted_lightgbm import LIGHTGBM
from unbag.models.boosted_xgboost import XGBOOST

LIBRARIES: Mapping[str, Library] = {"lightgbm": LIGHTGBM, "xgboost": XGBOOST}

# Parameters of `unbag.LLPBoostingClassifier` that an estimator may set as well.
_OF_TREES = ("learning_rate", "min_child_weight", "reg_lambda", "colsample_bytree", "random_state")
_OWN = (*_OF_TREES, "n_jobs", "num_leaves", "n_estimators")


@dataclass(frozen=True)
class Plan:
    """How trees are grown.

    Attributes
    ----------
    name : {"lightgbm", "xgboost"}
        The library.
    settings : dict
        Its parameters.
    leaves : list of int
        Numbers of leaves to choose from, in rising order.
    n_rounds : int
        The most rounds.
    patience : int
        Rounds within which bags held out must gain.
    start : {"auto", "linear", "zero"}
        What trees are added to.
    temperature : float
        By which numbers of rounds and leaves are weighed; 0 takes the best alone.
    """

    name: str
    settings: dict[str, Any]
    leaves: list[int]
    n_rounds: int
    patience: int
    start: str
    temperature: float

    @property
    def library(self) -> Library:
        """The library."""
        return LIBRARIES[self.name]


def takes_sparse(estimator: Any) -> bool:
    """Whether the library of an estimator, or of none, takes sparse matrices."""
    name = _find_library(estimator)
    return name is not None and LIBRARIES[name].sparse


def make_plan(model: Any) -> Plan:
    """Check the parameters of a classifier that are about trees."""
    name = _find_library(model.estimator)
    if name is None:
        names = " or ".join(f"an unfitted {library.estimator}" for library in LIBRARIES.values())
        raise ValueError(f"estimator must be None, {names}, not {model.estimator!r}.")
    library = LIBRARIES[name]
    further = {} if model.params is None else dict(model.params)
    for setting in sorted(further):
        if setting in library.refused or library.own_name(setting) in _OWN:
            raise ValueError(
                f"params may not hold {setting!r}, which LLPBoostingClassifier sets by itself or by "
                "a parameter of its own."
            )
    given = {} if model.estimator is None else _given(model.estimator, library)
    own = {setting: getattr(model, setting) for setting in _OWN}
    settings = {**own, **given, **further}
    _check(settings)
    check_count(model.early_stopping_rounds, "early_stopping_rounds")
    leaves = _check_leaves(settings.pop("num_leaves"))
    n_rounds = int(settings.pop("n_estimators"))
    patience, start = int(model.early_stopping_rounds), _check_start(model)
    temperature = check_nonnegative(model.temperature, "temperature")
    return Plan(name, settings, leaves, n_rounds, patience, start, temperature)


def _check_start(model: Any) -> Any:
    check_choice(model.start, ("auto", "linear", "zero"), "start")
    if model.start == "linear" and model.cv is None:
        raise ValueError(
            "start='linear' chooses a penalty on bags held out, and with cv=None there are none; "
            "give cv, or use start='zero'."
        )
    return model.start


def _find_library(estimator: Any) -> str | None:
    """Which library an estimator is of; None if it is of no known one."""
    if estimator is None:
        return "lightgbm"
    kind = type(estimator)
    full = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return next((name for name, one in LIBRARIES.items() if one.estimator == full), None)


def _given(estimator: Any, library: Library) -> dict[str, Any]:
    """What an estimator sets, by the names of this package where it has any."""
    usual = {name: repr(value) for name, value in type(estimator)().get_params().items()}
    found = {
        library.own_name(name): value
        for name, value in estimator.get_params().items()
        if usual.get(name) != repr(value)
    }
    for name in sorted(library.refused & set(found)):
        raise ValueError(
            f"estimator may not set {name!r}, which LLPBoostingClassifier sets by itself or has no "
            "use for."
        )
    return found


def _check(settings: Mapping[str, Any]) -> None:
    for name in ("learning_rate", "min_child_weight", "colsample_bytree"):
        check_positive(settings[name], name)
    for name in ("learning_rate", "colsample_bytree"):
        if settings[name] > 1:
            raise ValueError(f"{name} must be at most 1, not {settings[name]!r}.")
    check_nonnegative(settings["reg_lambda"], "reg_lambda")
    check_count(settings["n_estimators"], "n_estimators")
    check_count(settings["random_state"], "random_state", least=0)
    n_jobs = settings["n_jobs"]
    if n_jobs is not None and n_jobs != -1:
        check_count(n_jobs, "n_jobs, if not None or -1,")


def _check_leaves(num_leaves: Any) -> list[int]:
    found = np.unique(np.atleast_1d(np.asarray(num_leaves)))
    if len(found) == 0 or found.dtype.kind not in "iu" or found[0] < 2:
        raise ValueError(
            "num_leaves must be a whole number of at least 2, or a list of such numbers, not "
            f"{num_leaves!r}."
        )
    return [int(n) for n in found]
