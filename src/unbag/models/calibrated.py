"""Calibrated probabilities from bags alone.

With W the least-squares decontamination weights, N instances in all and π the shares of the
classes among them, give every instance of bag i the *unbiased label*

    u_i[c] = N π_c W[i, c] / n_i.

It is the same for all instances of a bag and no 0 or 1, and may even be negative. But for any
function h, (1/N) Σ_j u_j[c] h(x_j) = π_c Σ_i W[i, c] · (mean of h over bag i) is an unbiased
estimate of π_c E[h(X) | c]; in other words E[u[c] | x] = P(c | x) for classes in the shares π.
So u can stand wherever a label enters linearly:

* a monotone map from scores to probabilities is the isotonic regression of u on the score,
* Platt's sigmoid minimises the log loss with u for the label.

How well calibrated probabilities are is told by `unbag.evaluation.calibration_curve`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_is_fitted

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag._docstrings import as_in
from unbag.bags.bags import Bags
from unbag.bags.priors import log_odds_shift, move_chances, normalise, resolve_class_prior
from unbag.model_selection.out_of_fold import out_of_fold_scores
from unbag.models.base import BagClassifier, LogOddsClassifier
from unbag.models.linear import LLPLinearClassifierCV
from unbag.weights.decontamination import decontamination_weights

CalibrationMethod = Literal["sigmoid", "isotonic"]


def unbiased_labels(bags: Bags) -> Floats:
    """Label every instance by u_i[c] = N π_c W[i, c] / n_i of its bag i; shape (N, n_classes).

    Each row sums to one if the proportions are exact. Let G hold the proportions, n the sizes,
    D = diag(n), and 1 be a vector of ones. Then G1 = 1, so that n = DG1 and π = Gᵀn/N = GᵀDG1/N,
    and W = DG(GᵀDG)⁻¹ gives Wπ = DG1/N = n/N.
    """
    W = decontamination_weights(bags)
    per_bag = bags.n_instances * bags.class_shares * W / bags.sizes[:, None]
    return per_bag[bags.index]


class ScoreMap(ABC):
    """A monotone map from scores to probabilities."""

    @abstractmethod
    def predict(self, scores: Floats) -> Floats:
        """Probability for each score."""

    @abstractmethod
    def log_odds(self, scores: Floats) -> Floats:
        """Log-odds of that probability, finite always."""


@dataclass(frozen=True)
class SigmoidMap(ScoreMap):
    """Platt's map from scores to probabilities, 1/(1 + e^{−(slope · score + intercept)})."""

    slope: float
    intercept: float

    def predict(self, scores: Floats) -> Floats:
        """Probability for each score."""
        return expit(self.log_odds(scores))

    def log_odds(self, scores: Floats) -> Floats:
        """What the sigmoid is taken of."""
        return self.slope * scores + self.intercept


@dataclass(frozen=True)
class IsotonicMap(ScoreMap):
    """A map in steps, joined by lines."""

    regression: IsotonicRegression

    def predict(self, scores: Floats) -> Floats:
        """Probability for each score."""
        return self.regression.predict(scores)

    def log_odds(self, scores: Floats) -> Floats:
        """Log-odds, of which probabilities of exactly 0 and 1 have the largest."""
        least = np.finfo(float).eps
        return logit(np.clip(self.predict(scores), least, 1 - least))


def fit_sigmoid(scores: Floats, labels: Floats) -> SigmoidMap:
    """Fit Platt's sigmoid to unbiased labels u of one class.

    With f the scores in standard units and z = a f + b, minimises over a ≥ 0 and b

        (1/N) Σ [u softplus(−z) + (1 − u) softplus(z)] + a²/(2n)
            = (1/N) Σ [softplus(z) − u z] + a²/(2n),

    the log loss with u for the label. Although u may leave [0, 1], the problem is convex, since
    u multiplies a linear function only. But the log loss alone may fall without end, where noise
    makes the classes look more than perfectly separated. The last term, a standard normal prior
    on the slope, keeps the map finite. It weighs little if the bags are worth many labels: n is

        n = N π(1 − π) / mean of (u − π)²,    π the mean of u,

    the number of labelled rows whose labels together scatter like u does, which for plain labels
    is N.
    """
    centre, scale = scores.mean(), scores.std() or 1.0
    f = (scores - centre) / scale
    share = labels.mean()
    penalty = np.mean((labels - share) ** 2) / (len(labels) * share * (1 - share))

    def value_and_gradient(theta: Floats) -> tuple[float, Floats]:
        a, b = theta
        z = a * f + b
        residual = expit(z) - labels
        value = np.mean(np.logaddexp(0, z) - labels * z) + penalty * a**2 / 2
        return float(value), np.array([np.mean(residual * f) + penalty * a, np.mean(residual)])

    found = minimize(
        value_and_gradient,
        np.array([1.0, logit(share)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None), (None, None)],
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000},
    )
    slope = float(found.x[0] / scale)
    return SigmoidMap(slope, float(found.x[1] - slope * centre))


def fit_isotonic(scores: Floats, labels: Floats) -> IsotonicMap:
    """Fit the monotone map with values in [0, 1] that is nearest to unbiased labels."""
    regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    return IsotonicMap(regression.fit(scores, labels))


_FITS = {"sigmoid": fit_sigmoid, "isotonic": fit_isotonic}


@dataclass(frozen=True, eq=False)
class Calibrator:
    """Probabilities of all classes from the scores of a classifier.

    Attributes
    ----------
    maps : tuple
        A single one for two classes, to the probability of the second; else one for each class
        against the rest, whose results are divided by their sum.
    class_shares : ndarray of shape (n_classes,)
        Shares of the classes for which the probabilities hold.
    """

    maps: tuple[ScoreMap, ...]
    class_shares: Floats

    def predict_proba(self, scores: Floats) -> Floats:
        """Probability of every class for scores (n_instances,) or (n_instances, n_classes)."""
        columns = scores.reshape(len(scores), -1)
        chance = [m.predict(columns[:, k]) for k, m in enumerate(self.maps)]
        if len(chance) == 1:
            return np.column_stack([1 - chance[0], chance[0]])
        return normalise(np.column_stack(chance), self.class_shares)


def fit_calibrator(scores: Floats, bags: Bags, method: CalibrationMethod = "sigmoid") -> Calibrator:
    """Fit the maps from scores to probabilities, on bags that the scoring model never saw."""
    labels, fit = unbiased_labels(bags), _FITS[method]
    if scores.ndim == 1:
        return Calibrator((fit(scores, labels[:, 1]),), bags.class_shares)
    maps = tuple(fit(scores[:, c], labels[:, c]) for c in range(bags.n_classes))
    return Calibrator(maps, bags.class_shares)


@as_in(LLPLinearClassifierCV)
class BagCalibratedClassifier(MetaEstimatorMixin, BagClassifier):
    """Classifier whose probabilities are calibrated from the class proportions of bags.

    The inner classifier is fitted to all bags. Its scores are turned into probabilities by a
    monotone map that is fitted to *out-of-fold* scores: those of bags on which the scoring model
    was not trained. No label is needed; each instance enters with the unbiased label of its bag,
    see `unbag.models.calibrated.unbiased_labels`. ``decision_function`` gives the log-odds of
    these probabilities at the class prior, of more than two classes their logarithms.

    Parameters
    ----------
    estimator : classifier, default=None
        Anything that can be fitted to the target of `unbag.bag_target` and has
        ``decision_function`` or ``predict_proba``; by default `unbag.LLPLinearClassifierCV()`.
        A classifier that is fitted already, wrapped in ``sklearn.frozen.FrozenEstimator``, stays
        as it is and is calibrated on all bags given, which should not be those it was fitted to.
    method : {"sigmoid", "isotonic"}, default="sigmoid"
        Platt's sigmoid has two parameters and is the safe choice. Isotonic regression bends to
        any monotone map, but needs many bags, and may give probabilities of exactly 0 or 1.
    cv : int, splitter or iterable of splits, default=5
        Folds of whole bags, each bag held out once. An integer stands for `unbag.BagKFold`.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Shares of the classes where the classifier is used; "empirical" are those among all
        training instances. It is applied to the odds after calibration.

    Attributes
    ----------
    estimator_ : classifier
        The inner classifier, fitted to all bags.
    calibrator_ : Calibrator
        The map from scores to probabilities at the shares ``empirical_prior_``.
    classes_ : as in LLPLinearClassifierCV
    empirical_prior_ : ndarray of shape (n_classes,)
        Shares of the classes among the training instances.
    class_prior_ : ndarray of shape (n_classes,)
        The shares for which probabilities are given by default.
    n_features_in_, feature_names_in_ : as in LLPLinearClassifierCV

    Notes
    -----
    With more than two classes, each class is calibrated against the rest and the results are
    divided by their sum. The score for this is f_c − log Σ_{k≠c} e^{f_k}, which unlike f_c alone
    tells how far c is ahead of the others.

    Examples
    --------
    >>> from unbag.models.calibrated import BagCalibratedClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = BagCalibratedClassifier().fit(data.X, data.y)
    >>> chance = model.predict_proba(data.X)[:, 1]
    >>> bool(abs(chance.mean() - data.labels.mean()) < 0.03)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: CalibrationMethod = "sigmoid",
        cv: Any = 5,
        class_prior: Any = "empirical",
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.class_prior = class_prior

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._template()).input_tags
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the inner classifier and the map from its scores to probabilities."""
        X, bags = self._check_Xy(X, y)
        check_choice(self.method, _FITS, "method")
        self.class_prior_ = resolve_class_prior(self.class_prior, bags.class_shares)
        template = self._template()
        self.estimator_ = clone(template).fit(X, y)
        self.classes_ = _check_classes(self.estimator_, bags)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if self.estimator_ is template:  # frozen
            scores = _inner_scores(self.estimator_, X)
        else:

            def score(model: Any, X: Any) -> Floats:
                _check_classes(model, bags)
                return _inner_scores(model, X)

            scores, _ = out_of_fold_scores(template, X, np.asarray(y), cv=self.cv, score=score)
        self.calibrator_ = fit_calibrator(scores, bags, self.method)
        return self

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        """Anything with rows: the inner classifier says what it takes."""
        (X,) = indexable(X)
        if reset and _num_samples(X) == 0:
            raise ValueError("X has no rows.")
        return X

    def _scores(self, X: Any) -> Floats:
        if len(self.classes_) > 2:
            return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny)).T
        log_odds = self.calibrator_.maps[0].log_odds(_inner_scores(self.estimator_, X))
        return (log_odds + log_odds_shift(self.empirical_prior_, self.class_prior_))[None]

    @as_in(LogOddsClassifier.predict_proba)
    def predict_proba(self, X: Any, class_prior: Any = None) -> Floats:
        """Calibrated probability of each class.

        Parameters
        ----------
        X, class_prior : as in predict_proba

        Returns
        -------
        chances : as in predict_proba
        """
        check_is_fitted(self)
        chances = self.calibrator_.predict_proba(_inner_scores(self.estimator_, X))
        wanted = self.class_prior_
        if class_prior is not None:
            wanted = resolve_class_prior(class_prior, self.empirical_prior_)
        return move_chances(chances, self.empirical_prior_, wanted)

    def _template(self) -> Any:
        return LLPLinearClassifierCV() if self.estimator is None else self.estimator


def _check_classes(estimator: Any, bags: Bags) -> NDArray[Any]:
    """Classes of the estimator, to which the columns of proportions must belong."""
    classes = estimator.classes_
    named = bags.labelled.all()
    if len(classes) != bags.n_classes or (named and not np.array_equal(classes, bags.classes)):
        raise ValueError(
            f"The classifier knows the classes {list(classes)}, but the target has "
            f"{list(bags.classes)}; each fold must have some of all classes to train on."
        )
    return np.asarray(classes)


def _inner_scores(estimator: Any, X: Any) -> Floats:
    """Scores that rise with the chance of the second class, or in each column of its class."""
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=float)
        if scores.ndim == 2 and scores.shape[1] > 2:
            others = [np.delete(scores, c, axis=1) for c in range(scores.shape[1])]
            scores = scores - np.column_stack([logsumexp(rest, axis=1) for rest in others])
    elif hasattr(estimator, "predict_proba"):
        scores = np.asarray(estimator.predict_proba(X), dtype=float)
    else:
        raise ValueError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba, so that "
            "there are no scores to calibrate."
        )
    if scores.ndim == 2 and scores.shape[1] <= 2:
        return scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0)
    return scores
