"""The ready-made classifier for a table: features, and the learners that suit it."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from unbag._checks import check_choice
from unbag.bags.bags import check_bag_target
from unbag.evaluation.bag_effects import describe_effect
from unbag.model_selection.fitted import last_step
from unbag.models import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
)
from unbag.tables.features import make_features

ModelName = Literal["auto", "linear", "kernel", "boosted", "neural"]

# What models minimise, in words.
_OBJECTIVES = {
    "likelihood": "the likelihood of the counts",
    "forward": "the likelihood of rows whose labels were drawn from the shares",
}


def make_classifier(
    model: ModelName = "auto",
    *,
    cv: Any = 5,
    class_prior: Any = "empirical",
    time_limit: float | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Pipeline:
    """Make the pipeline that ``unbag fit`` trains: from a table of any columns to probabilities.

    Parameters
    ----------
    model : {"auto", "linear", "kernel", "boosted", "neural"}, default="auto"
        "auto" is an ensemble of the mixed model and boosted trees, trained on the same folds of bags
        with weights by the likelihood of held-out bags; the others train one model. "boosted" needs LightGBM, the extra ``boosting``, and "neural" torch,
        the extra ``torch``.
    cv : int, splitter or iterable, default=5
        Folds of whole bags that hold out every bag exactly once, the same for all learners; a
        number is reduced to that of the bags.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Shares of the classes that scores, predictions and probabilities are for: those of the
        training bags, unlike in single learners, equal ones, or others.
    time_limit : float, optional
        Seconds for the learners together: after so many, the one that is being trained is left out,
        and so are those to come. The first is trained in any case.
    random_state : int, default=0
        Of the learners.
    verbose : int, default=0
        Whether to show progress bars.

    Returns
    -------
    Pipeline
        With the steps ``"features"`` (`unbag.tables.features.make_features`) and ``"model"``
        (`unbag.LLPEnsembleClassifier`), to be fitted to a table and the target of `unbag.bag_target`.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import bag_target
    >>> from unbag.tables import make_classifier
    >>> X = pd.DataFrame({"age": range(60), "colour": ["red", "blue"] * 30})
    >>> y = bag_target([i // 10 for i in range(60)], counts=[i // 10 for i in range(60)])
    >>> model = make_classifier("linear").fit(X, y)
    >>> float(model.predict_proba(X)[:, 1].mean().round(2))
    0.25
    """
    learners = LLPEnsembleClassifier(
        None if model == "auto" else [(model, _base_model(model, random_state))],
        cv=cv,
        class_prior=class_prior,
        time_limit=time_limit,
        random_state=random_state,
        verbose=verbose,
    )
    return Pipeline([("features", make_features("float32")), ("model", learners)])


def _base_model(name: str, random_state: int) -> Any:
    """The only base model of an ensemble, by its name on the command line."""
    if name == "linear":
        return LLPClassifier(kernel=None, class_prior="empirical")
    if name == "kernel":
        return LLPClassifier(class_prior="empirical", random_state=random_state)
    if name == "boosted":
        return LLPBoostingClassifier(random_state=random_state)
    check_choice(name, get_args(ModelName), "model")
    from unbag.models.neural import LLPNeuralClassifier

    return LLPNeuralClassifier(random_state=random_state)


def split_pipeline(model: Any) -> tuple[Any, Any]:
    """Give the steps that make features, or None, and the model behind them."""
    features = model[:-1] if len(getattr(model, "steps", ())) > 1 else None
    return features, last_step(model)


def training_record(model: Any, y: NDArray[np.void]) -> dict[str, Any]:
    """What a fitted model minimised and what it found of bag effects, in numbers and words.

    Of an ensemble, what its best base model did.
    """
    model = getattr(model, "best_estimator_", model)
    objective = getattr(model, "objective_", "likelihood")
    effect = describe_effect(model, check_bag_target(y))
    summary = f"trained on {_OBJECTIVES[objective]}"
    return {
        "objective": objective,
        "bag_effect": getattr(model, "bag_effect_", None) if effect else None,
        "bag_effect_interval": getattr(model, "bag_effect_interval_", None) if effect else None,
        "summary": f"{summary}; {effect}" if effect else summary,
    }
