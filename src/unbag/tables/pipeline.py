"""The ready-made classifier for a table, and what exports and model files say of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from sklearn.pipeline import Pipeline

from unbag._checks import check_choice
from unbag._text import listing
from unbag.evaluation.bag_effects import describe_effect
from unbag.model_selection.fitted import last_step
from unbag.models import LLPBoostingClassifier, LLPClassifier, LLPEnsembleClassifier
from unbag.tables.features import make_features
from unbag.tables.mixed_features import MixedFeatures, text_groups

ModelName = Literal["auto", "linear", "boosted", "neural", "ensemble"]


def make_classifier(
    model: ModelName = "auto",
    *,
    cv: Any = 5,
    class_prior: Any = "empirical",
    random_state: int = 0,
    verbose: int = 0,
) -> Pipeline:
    """Make the pipeline that ``unbag fit`` trains, for tables with any columns.

    Parameters
    ----------
    model : {"auto", "linear", "boosted", "neural", "ensemble"}, default="auto"
        "auto" is the mixed model `unbag.LLPClassifier`, with a variance for numbers, each category,
        each column of free text and a kernel; "linear" is the same without the kernel. "boosted" is
        `unbag.LLPBoostingClassifier`, which needs LightGBM, the extra ``boosting``; "neural" is
        `unbag.LLPNeuralClassifier`, which needs torch, the extra ``torch``; "ensemble" is
        `unbag.LLPEnsembleClassifier`, a weighted average of the mixed model and boosted trees.
    cv : int, splitter or iterable, default=5
        Folds of whole bags by which boosted trees and ensembles choose; other models have none.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Class prior that scores, predictions and probabilities are for: that of all training bags
        together, equal shares, or a share for each class.
    random_state : int, default=0
        Of the model.
    verbose : int, default=0
        Whether to show progress bars.

    Returns
    -------
    Pipeline
        With the steps ``"features"`` (`unbag.tables.mixed_features.MixedFeatures` for the mixed
        model, `unbag.tables.features.make_features` for others) and ``"model"``, to be fitted to a
        table and the target of `unbag.bag_target`.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import bag_target
    >>> from unbag.tables import make_classifier
    >>> X = pd.DataFrame({"age": range(60), "colour": ["red", "blue"] * 30})
    >>> y = bag_target([i // 10 for i in range(60)], counts=[i // 10 for i in range(60)])
    >>> model = make_classifier("linear").fit(X, y)
    >>> [term.term for term in model[-1].terms_]
    ['numbers', 'colour']
    >>> float(model.predict_proba(X)[:, 1].mean().round(2))
    0.25
    """
    check_choice(model, get_args(ModelName), "model")
    settings = {"class_prior": class_prior, "random_state": random_state}
    found: Any
    if model in ("auto", "linear"):
        kernel: Any = "auto" if model == "auto" else None
        found = LLPClassifier(kernel=kernel, groups=text_groups, **settings)
        return Pipeline([("features", MixedFeatures()), ("model", found)])
    if model == "boosted":
        found = LLPBoostingClassifier(cv=cv, verbose=verbose, **settings)
    elif model == "ensemble":
        found = LLPEnsembleClassifier(cv=cv, verbose=verbose, **settings)
    else:
        from unbag.models.neural import LLPNeuralClassifier

        found = LLPNeuralClassifier(**settings)
    return Pipeline([("features", make_features("float32")), ("model", found)])


def split_pipeline(model: Any) -> tuple[Any, Any]:
    """Give the steps that make features, or None, and the model behind them."""
    features = model[:-1] if len(getattr(model, "steps", ())) > 1 else None
    return features, last_step(model)


def refuse_text(names: Sequence[Any]) -> None:
    """Refuse columns of free text, which become weights of words."""
    if len(names):
        found = listing(map(repr, names))
        raise ValueError(f"Free text, here {found}, cannot be exported: train without.")


def trees_of(model: Any) -> list[Any]:
    """The roots of boosted trees, as LightGBM writes them."""
    if model.categories_:
        raise ValueError(
            "Boosted trees that split by categories of a data frame cannot be exported; encode "
            "them before, by unbag.tables.make_classifier('boosted')."
        )
    found = [] if model.booster_ is None else model.booster_.dump_model()["tree_info"]
    return [tree["tree_structure"] for tree in found]


def gap_goes_left(node: Any) -> bool:
    """Where a missing value goes at a split, which must be one of numbers."""
    kind, missing = node["decision_type"], node["missing_type"]
    if kind != "<=" or missing not in ("NaN", "None"):
        raise ValueError(
            f"Trees with splits of the kind {kind!r} and missing values as {missing!r} cannot be "
            "exported."
        )
    # where training had no missing values, LightGBM takes them for zero
    return bool(node["default_left"]) if missing == "NaN" else bool(node["threshold"] >= 0)


def training_record(model: Any) -> dict[str, Any]:
    """What a fitted model maximised and what it found, in numbers and words.

    Of an ensemble, what its best base model did.
    """
    model = getattr(model, "best_estimator_", model)
    record: dict[str, Any] = {"objective": "likelihood"}
    facts = ["trained by the count likelihood"]
    if hasattr(model, "terms_"):
        record["terms"] = [term._asdict() for term in model.terms_]
        for name in ("bag_effect", "dispersion", "log_marginal_likelihood"):
            record[name] = float(getattr(model, f"{name}_"))
    effect = describe_effect(model)
    return record | {"summary": "; ".join(facts if effect is None else [*facts, effect])}
