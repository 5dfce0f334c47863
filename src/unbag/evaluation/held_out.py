r"""Rows as models saw them that were trained without their bags, and how steady these models are.

A bag is scored by a model that did not see it, but not by one that is independent of the other
bags: what one model learned from bag j enters its scores of bag i, and what another learned from bag i
its scores of bag j. Where scores are all noise these two are the same product, and what bags add to an
estimate is correlated in pairs: its variance is twice what bags seem to show. Where they are all
signal, nothing of the kind happens. In between the variance is 1 + u times as large, with u the
share of noise in scores. Models of two of K folds have K − 2 of K − 1 parts of their bags in
common, so that their noise is correlated by (K − 2)/(K − 1) and their scores by 1 − u/(K − 1): that
gives u.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.evaluation.checks import Check, check_scores
from unbag.evaluation.measures import Sample, make_sample
from unbag.evaluation.sensitivity import HeldOutLogOdds
from unbag.model_selection.fitted import decision_scores, last_step, log_odds_of
from unbag.model_selection.splitters import map_folds

# Draws from the posterior of a model: at most, at least, and numbers in all of them.
_DRAWS, _FEWEST_DRAWS, _DRAWN_NUMBERS = 40, 20, 2**23

# Rows by which models of different folds are compared.
_COMMON_ROWS = 2000


class FoldScores(NamedTuple):
    """Scores of the rows that a fold holds out; of several classes a column for each."""

    scores: Floats
    places: Floats  # their ranks among all rows
    log_odds: Floats  # NaN for a model without probabilities
    common: Floats  # scores of rows that all folds are compared by


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Scores of all rows by models that were trained without their bags."""

    parts: list[FoldScores]  # of each fold, the rows that it held out
    fold: Ints  # the fold that held each row out

    @property
    def scores(self) -> Floats:
        """Scores of all rows: (n_instances,) or (n_instances, n_classes)."""
        return self.gather("scores")

    @property
    def log_odds(self) -> Floats:
        """Log-odds of all rows, NaN for models without probabilities."""
        return self.gather("log_odds")

    def gather(self, name: str) -> Floats:
        """One field of all folds, each row in its place."""
        parts = [getattr(part, name) for part in self.parts]
        found = np.empty((len(self.fold), *parts[0].shape[1:]))
        for number, part in enumerate(parts):
            found[self.fold == number] = part
        return found

    def spread_by_training(self) -> float:
        """By which factor estimates spread more than bags show, from scores of the same rows."""
        centred = [part.common - part.common.mean(axis=0) for part in self.parts]
        if not all(each.any() for each in centred):
            return float(np.sqrt(2))
        unit = np.stack([each.ravel() / np.linalg.norm(each) for each in centred])
        alike = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
        noise = np.clip((1 - np.mean(alike)) * (len(unit) - 1), 0, 1)
        return float(np.sqrt(1 + noise))


def cross_fit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    warm_start: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> OutOfFold:
    """Score every bag by a model that was trained without it.

    Parameters
    ----------
    estimator : classifier or pipeline
        It is cloned for every fold.
    X : array, sparse matrix or data frame with n_instances rows
        The instances.
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions.
    cv : int, splitter or iterable, default=5
        Folds of whole bags, each bag held out once; a number stands for `unbag.BagKFold`.
    warm_start : bool, default=False
        Whether an `LLPClassifier` that is fitted to these rows, alone or at the end of a pipeline, is trained
        again by its ``refit``: features and terms, which depend on no counts, stay as they are.
    n_jobs : int, optional
        Folds fitted at the same time.
    verbose : int, default=0
        Whether to show a progress bar.

    Returns
    -------
    out_of_fold : OutOfFold
        For `cross_val_evaluate` and `make_monitoring_reference`, without fitting again.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import cross_fit
    >>> data = make_gaussian_bags(n_bags=20, bag_size=10, random_state=0)
    >>> cross_fit(LLPClassifier(kernel=None), data.X, data.y, cv=4).scores.shape
    (200,)
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        given = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(
            f"The estimator comes first, then X and y: an object such as unbag.LLPClassifier(), not {given}."
        )
    score_fold = partial(_score_fold, X)
    how = {"cv": cv, "warm_start": warm_start, "n_jobs": n_jobs, "verbose": verbose}
    return OutOfFold(*map_folds(estimator, X, y, score_fold, **how))


def _score_fold(everyone: Any, model: Any, X: Any) -> FoldScores:
    """Score what a fold holds out by the model of the others, and rank it among all.

    Models of different folds score on scales of their own: the ROC curve of all folds together
    compares instances by where their own model sees them among all instances.
    """
    scores, of_all = (_one_column(decision_scores(model, rows)) for rows in (X, everyone))
    log_odds = np.full_like(scores, np.nan)
    if hasattr(model, "predict_proba"):
        log_odds = log_odds_of(model.predict_proba(X))
    common = np.random.default_rng(0).permutation(len(of_all))[:_COMMON_ROWS]
    return FoldScores(scores, _places(scores, of_all), log_odds, of_all[common])


def _places(scores: Floats, everyone: Floats) -> Floats:
    """Share of all scores that lie below each, those that are equal by halves."""
    if scores.ndim == 2:
        return np.stack([_places(*pair) for pair in zip(scores.T, everyone.T, strict=True)], axis=1)
    everyone = np.sort(everyone)
    places = [np.searchsorted(everyone, scores, side) for side in ("left", "right")]
    return np.mean(places, axis=0) / len(everyone)


def posterior_draws(model: Any, X: Any) -> Floats | None:
    """Draws of the log-odds of rows from the posterior of a model, if it has one.

    Their number is limited by memory: 40 for up to 200,000 rows and none for more than 400,000.
    """
    last, n_rows = last_step(model), X.shape[0] if hasattr(X, "shape") else len(X)
    n_draws = min(_DRAWS, _DRAWN_NUMBERS // max(n_rows, 1))
    if getattr(last, "covariance_", None) is None or n_draws < _FEWEST_DRAWS:
        return None
    rows = X if last is model else model[:-1].transform(X)
    found: Floats = last.sample_decision_function(rows, n_draws, 0)
    return found


def _one_column(scores: Floats) -> Floats:
    """Scores of two classes as one number each, of more as they are."""
    if scores.ndim == 1 or scores.shape[1] > 2:
        return scores
    return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """What an evaluation is based on."""

    sample: Sample
    ranks: Sample
    log_odds: HeldOutLogOdds  # log-odds of the same rows
    checks: tuple[Check, ...]
    more_spread: float = 1.0
    labels: Any = None  # of some rows
    label_weights: Any = None  # one over the probability that each row was drawn to be labelled
    fold: Ints | None = None

    @classmethod
    def from_folds(
        cls, y: Any, found: OutOfFold, features: Check, draws: Floats | None = None
    ) -> Self:
        """Take the scores of all folds, the check of the features, and draws of log-odds."""
        sample = make_sample(y, found.scores, trusted=True)
        # ranks can be compared between folds
        ranks = replace(sample, scores=found.gather("places"))
        log_odds = found.log_odds
        scaled = bool(np.isfinite(log_odds).all())
        held_out = HeldOutLogOdds(sample.bags, log_odds if scaled else sample.scores, scaled, draws)
        checks = (check_scores(y, ranks.scores), features)
        return cls(sample, ranks, held_out, checks, found.spread_by_training(), fold=found.fold)

    def of(self, measure: str) -> Sample:
        """Scores that a measure is of."""
        return self.ranks if measure == "roc_auc" else self.sample
