"""A weighted average of several base models, weights by the likelihood of held-out bags."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit

from unbag._arrays import Bools, Floats
from unbag._optional import install_command
from unbag._outputs import by_instance, by_output
from unbag.bags.priors import prior_offset, resolve_class_prior
from unbag.model_selection.splitters import map_folds
from unbag.models.base import LogOddsClassifier
from unbag.models.boosting import LLPBoostingClassifier, divide_by_folds
from unbag.models.mixed import LLPClassifier
from unbag.observations.count_likelihood import BagObjective


class LLPEnsembleClassifier(LogOddsClassifier):
    """Weighted average of base models, by default mixed model and boosted trees.

    All base models are trained on the same folds of whole bags. Let d_mb be the log-likelihood of
    held-out bag b by model m less that by the model with the highest total. The weights are

        w_m ∝ exp(z_m),    z_m = Σ_b d_mb / √(1 + Σ_b d_mb²),

    the difference over its standard error, computed as if models were equal, so that |z_m| is at
    most √B with B bags. With few bags weights stay near equal ones, with many the worse models
    fade, and each bag changes them a little. Scores are the weighted average
    of the log-odds of the base models at one class prior. No label is needed for any of it.

    Parameters
    ----------
    estimators : list of (str, classifier), optional
        Names and unfitted base models, whose ``decision_function`` must be log-odds at
        ``class_prior_``. By default ``("mixed", LLPClassifier())`` and, where LightGBM is installed
        (the extra ``boosting``), ``("boosted", LLPBoostingClassifier())``.
    cv : int, splitter or iterable of splits, default=5
        Folds of whole bags that hold out every bag exactly once, the same for all base models; a
        number is reduced to that of the bags.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Class prior that scores and probabilities are for: that of all training bags together,
        equal shares, or a number for each class.
    random_state : int, RandomState or None, default=0
        Of the default base models.
    n_jobs : int, optional
        Threads of the trees of the default base models.
    verbose : int, default=0
        Whether to show progress bars.

    Attributes
    ----------
    estimators_ : list of classifier
        The fitted base models, the one with the highest likelihood first.
    weights_ : ndarray of shape (n_estimators,)
        Their weights.
    best_estimator_ : classifier
        The first of ``estimators_``.
    leaderboard_ : list of dict
        What was compared, best first: ``learner``, ``loss`` (negative log-likelihood of held-out
        bags per row), ``weight``, ``seconds``, and a ``note`` on one that was left out.
        ``pandas.DataFrame(model.leaderboard_)`` is a table of it.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Out-of-fold scores: by base models of other bags, with weights by other folds.
    classes_, class_prior_, empirical_prior_, n_features_in_, feature_names_in_ : as in `LLPClassifier`

    Examples
    --------
    >>> from unbag import LLPClassifier, LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=20, random_state=0)
    >>> models = [("linear", LLPClassifier(kernel=None)), ("kernel", LLPClassifier())]
    >>> model = LLPEnsembleClassifier(models).fit(data.X, data.y)
    >>> sorted(row["learner"] for row in model.leaderboard_)
    ['kernel', 'linear']
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        estimators: Any = None,
        *,
        cv: Any = 5,
        class_prior: Any = "empirical",
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimators = estimators
        self.cv = cv
        self.class_prior = class_prior
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # noqa: D102
        X, bags = self._check_Xy(X, y)
        self.class_prior_ = resolve_class_prior(self.class_prior, bags.class_shares)
        models, left_out = self._base_models()
        y = np.asarray(y)
        rows_held, bags, held = divide_by_folds(self.cv, X, y, bags)
        found = [
            _Trained(name, model, X, y, rows_held, self.verbose) for name, model in models.items()
        ]
        objective = BagObjective(bags)
        moves = [_moved(one.model, bags.class_shares) for one in found]
        held_out = [one.held_out + moved for one, moved in zip(found, moves, strict=True)]
        losses = np.concatenate([objective.bag_losses(scores[None]) for scores in held_out])
        weights = likelihood_weights(losses)
        order = np.argsort(losses.sum(axis=1), kind="stable")
        self.estimators_ = [found[i].model for i in order]
        self.weights_ = weights[order]
        self.best_estimator_ = self.estimators_[0]
        per_row = losses.sum(axis=1) / bags.n_instances
        rows: list[tuple[Any, ...]] = [
            (found[i].name, float(per_row[i]), float(weights[i]), round(found[i].seconds, 2), "")
            for i in order
        ]
        rows += [(name, None, 0.0, 0.0, note) for name, note in left_out.items()]
        names = ("learner", "loss", "weight", "seconds", "note")
        self.leaderboard_ = [dict(zip(names, row, strict=True)) for row in rows]

        scores = np.empty(held_out[0].shape)
        for chosen, out in zip(rows_held, held, strict=True):
            own = likelihood_weights(losses[:, ~out])
            scores[:, chosen] = _average(own, [one[:, chosen] for one in held_out])
        self.out_of_fold_scores_ = by_instance(scores + self._prior_offset[:, None])
        return self

    def _scores(self, X: Any) -> Floats:
        scores = [
            by_output(model.decision_function(X)) + _moved(model, self.empirical_prior_)
            for model in self.estimators_
        ]
        return _average(self.weights_, scores) + self._prior_offset[:, None]

    def _base_models(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Base models by name, and why others are left out."""
        if self.estimators is None:
            models: dict[str, Any] = {"mixed": LLPClassifier(random_state=self.random_state)}
            if find_spec("lightgbm") is None:
                return models, {"boosted": f"needs LightGBM: {install_command('boosting')}"}
            settings = {"random_state": self.random_state, "n_jobs": self.n_jobs}
            return models | {"boosted": LLPBoostingClassifier(**settings)}, {}
        try:
            pairs = [(str(name), model) for name, model in self.estimators]
        except (TypeError, ValueError):
            pairs = []
        if not pairs or len(dict(pairs)) < len(pairs):
            raise ValueError(
                "estimators must be a list of pairs, of different names and classifiers, not "
                f"{self.estimators!r}."
            )
        return dict(pairs), {}


class _Trained:
    """A base model that was trained on all bags, and its scores without those of each fold."""

    def __init__(
        self, name: str, template: Any, X: Any, y: Any, rows_held: Bools, verbose: int
    ) -> None:
        start = time.monotonic()
        self.name, self.model, cv = name, clone(template), PredefinedSplit(rows_held.argmax(axis=0))
        parameters = self.model.get_params(deep=False)
        if "verbose" in parameters:
            self.model.set_params(verbose=verbose)
        # boosted trees have models of every fold
        if isinstance(template, LLPBoostingClassifier):
            self.model.set_params(cv=cv).fit(X, y).set_params(cv=parameters["cv"])
            # of every row, and no part of the model
            self.held_out = by_output(vars(self.model).pop("out_of_fold_scores_"))
        else:
            self.model.fit(X, y)
            prior = self.model.class_prior_

            def scores(model: Any, rows: Any) -> Floats:
                return by_output(model.decision_function(rows)) + _moved(model, prior)

            parts, fold = map_folds(template, X, y, scores, cv=cv, verbose=verbose)
            self.held_out = np.empty((parts[0].shape[0], len(fold)))
            for number, part in enumerate(parts):
                self.held_out[:, fold == number] = part
        self.seconds = time.monotonic() - start


def likelihood_weights(losses: Floats) -> Floats:
    """Weights of models by their losses on held-out bags (n_models, n_bags): see `LLPEnsembleClassifier`."""
    gains = losses[losses.sum(axis=1).argmin()] - losses
    z = gains.sum(axis=1) / np.sqrt(1 + (gains**2).sum(axis=1))
    weights: Floats = softmax(z)
    return weights


def _average(weights: Floats, scores: Sequence[Floats]) -> Floats:
    # one after the other, since of many rows there is no room for all side by side
    total = np.zeros_like(scores[0], dtype=float)
    for weight, one in zip(weights, scores, strict=True):
        total += weight * one
    return total


def _moved(model: Any, shares: Floats) -> Floats:
    """What is added to scores (outputs, rows) of a model to have log-odds at a class prior."""
    return prior_offset(model.class_prior_, shares)[:, None]
