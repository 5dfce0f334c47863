"""Expectation–maximisation: any classifier that takes weighted labels can learn from counts.

Given the number k_i of positives in bag i, its instances are k_i draws from the positive class
and n_i − k_i from the negative one, in unknown order. With g₊ and g₋ the densities of the classes,
r = g₊/g₋ and e_k the elementary symmetric polynomial, the instances of all bags have the
likelihood

    Π_i P(x_i1, ..., x_in | k_i) = Π_i e_k(r(x_i1), ..., r(x_in)) Π_j g₋(x_ij) / (n_i choose k_i).

It conditions on the counts, so that it does not matter where they come from: bags may have any
proportions, and labelled rows may have been chosen by their label. EM takes labels for missing:

E-step: q_j = P(y_j = 1 | instances and count of its bag), which depends on r alone.

M-step: maximise Σ_j q_j log g₊(x_j) + (1 − q_j) log g₋(x_j). Let N₊ = Σ_i k_i be the number of
    positives in all bags, N₋ that of negatives, T = N₊ + N₋, and write the densities as

        g₊ = (T/N₊) p m,    g₋ = (T/N₋) (1 − p) m,

    where m is the density of all instances together and p(x) = P(y = 1 | x) among them. The sum
    falls apart into Σ_j q_j log p(x_j) + (1 − q_j) log(1 − p(x_j)), which is *logistic regression
    on each instance as a positive of weight q_j and a negative of weight 1 − q_j*, and
    Σ_j log m(x_j), largest for the distribution of the data. The densities integrate to one, as
    they must, if p(x_j) has the mean N₊/T; and after logistic regression with a free intercept
    it has, because Σ_j q_j = Σ_i k_i = N₊ in every E-step. (That a model of P(y | x) may be fitted
    to a sample whose numbers of both classes were fixed is a result of Anderson, and of Prentice
    and Pyke, for case-control studies.)

So no bag needs an offset or a weight of its own. With the densities put in, the likelihood is

    Π_i Pr(B_i = k_i) · constant,    B_i a sum of independent Bernoulli draws of chances p(x_ij),

and this is what EM increases: the likelihood of the counts as if labels were independent at the
pooled shares of the classes. If they are so, as in bags of shuffled rows, it is the likelihood of
the counts itself.

Scores are log-odds at equal class priors, f = log p/(1 − p) − log N₊/N₋ = log r.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter
from tqdm import tqdm

from unbag.bags import Bags, bag_name
from unbag.count_prior import CountPrior
from unbag.likelihood import CountLikelihood
from unbag.model_selection import check_cv, cut_by_folds
from unbag.models.base import BagClassifier, check_positive

# The only problem of a likelihood.
_FIRST = np.zeros(1, dtype=np.intp)

# Chances of 0 and 1, as of a forest, have no odds.
_SMALLEST_CHANCE = 1e-9


class CountEMClassifier(MetaEstimatorMixin, BagClassifier):
    """Train any classifier that takes ``sample_weight`` from the counts of bags.

    Expectation–maximisation. The first model is fitted to soft labels: every instance is a
    positive of weight γ and a negative of weight 1 − γ, with γ the proportion of its bag. Then the
    chance that an instance is positive, given the model's scores and *the count of its bag*,
    takes the place of γ, and so on. For logistic regression without penalty this is exact EM:
    each step increases

        log L = Σ_i log Pr(B_i = k_i),    B_i a sum of Bernoulli draws of chances p(x_ij),

    where p is the model's chance at the shares of the classes in all bags together and k_i the
    count of bag i. Up to a constant, log L is the log-likelihood of the instances given the
    counts, whatever proportions the bags have. For other learners it is what steps usually
    increase; the fit ends when they no longer do, and keeps the best. Proportions that do not give
    whole counts are rounded to the nearest.

    Parameters
    ----------
    estimator : classifier, default=None
        Anything with ``predict_proba`` whose ``fit`` takes ``sample_weight``; by default
        ``LogisticRegression()``. It is fitted to the classes 0 and 1. What prepares the features
        belongs in a pipeline around this classifier.
    cross_fit : int, splitter, iterable of splits or None, default=5
        Folds of whole bags. Each bag is scored by a model that was trained on the others, as a
        flexible learner is too sure of instances it was trained on and would only hear its own
        opinion again; log L is then that of bags held out. An integer stands for
        `unbag.BagKFold`. With None every step is one fit, and bags are scored by the model that
        was trained on them: for learners that cannot overfit.
    max_iter : int, default=100
        Most steps.
    tol : float, default=1e-3
        The fit ends with the first step that brings log L less than ``tol`` of its size beyond
        the best so far.
    random_state : int, RandomState or None, default=None
        Seed of the inner classifier, the same in every step, so that steps differ by their
        weights only. None leaves its ``random_state`` as it is.
    verbose : int, default=0
        Whether to show the progress of the fit.

    Attributes
    ----------
    estimator_ : classifier
        The inner classifier, fitted to all bags. Its chances are those at ``class_shares_``.
    class_shares_ : ndarray of shape (2,)
        Shares of the classes among all training instances.
    log_likelihood_path_ : ndarray of shape (n_iter_,)
        log L per instance after each step; its largest entry belongs to ``estimator_``.
    label_posteriors_ : ndarray of shape (n_instances,)
        Weights of the instances as positives to which ``estimator_`` was fitted.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the fit ended before ``max_iter``.
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Labels leave nothing to be guessed: if all bags are pure, the inner classifier is fitted once.

    Under ``cross_fit`` the weights of the other bags come from models that did see a bag, so that
    log L is not quite that of a bag nobody ever saw; to measure the classifier, hold out bags.

    Learners that set rows aside to stop early, as ``HistGradientBoostingClassifier`` does by
    default with over 10,000 rows, see a row's positive copy here and its negative copy there.
    Better switch that off.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from unbag import CountEMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, bag_size=8, random_state=0)
    >>> model = CountEMClassifier(GaussianNB()).fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cross_fit: Any = 5,
        max_iter: int = 100,
        tol: float = 1e-3,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.cross_fit = cross_fit
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    # the inner classifier says no, if it cannot
    _accept_sparse = "csr"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._template()).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        tags.classifier_tags.multi_class = False
        return tags

    def _check_finite(self, X: Any) -> None:
        if not get_tags(self._template()).input_tags.allow_nan:
            super()._check_finite(X)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the inner classifier to the bags, step by step.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
        y : structured array from `unbag.bag_target`, or plain labels (pure bags)
        """
        X, bags = self._check_Xy(X, y)
        bags = _with_whole_counts(bags)
        check_positive(self.tol, "tol")
        if not isinstance(self.max_iter, int | np.integer) or self.max_iter < 1:
            raise ValueError(
                f"max_iter must be a whole number of at least 1, not {self.max_iter!r}."
            )
        learner = _Learner(self._seeded_template())
        self.class_shares_ = bags.class_shares
        labels_known = bool((bags.proportions.max(axis=1) == 1).all())
        held = None
        if self.cross_fit is not None and not labels_known:
            held = _check_folds(self.cross_fit, X, np.asarray(y), bags)
        # independent labels at the pooled shares: the likelihood that EM increases
        pooled = CountPrior(float(bags.class_shares[1]), np.inf)
        likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags, prior=pooled)
        self._climb(X, bags, learner, likelihood, held, 1 if labels_known else int(self.max_iter))
        self.converged_ |= labels_known
        if not self.converged_:
            warnings.warn(
                f"EM did not converge within max_iter={self.max_iter} steps; raise max_iter or "
                "tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _climb(
        self,
        X: Any,
        bags: Bags,
        learner: _Learner,
        likelihood: CountLikelihood,
        held: NDArray[np.bool_] | None,
        max_iter: int,
    ) -> None:
        """Take steps while they lead upwards, and keep the best."""
        chances = bags.proportions[bags.index, 1]
        path: list[float] = []
        best = -np.inf
        self.converged_ = False
        with tqdm(total=max_iter, desc="EM", unit="step", disable=not self.verbose) as bar:
            while len(path) < max_iter and not self.converged_:
                if held is None:
                    model = learner.fit(X, chances)
                    scores = learner.scores(model, X, chances)
                else:
                    model, scores = None, learner.held_out_scores(X, chances, held)
                reached = -float(likelihood.value(scores[None, None], _FIRST)[0])
                path.append(reached)
                self.converged_ = bool(reached - best < self.tol * abs(reached))
                if reached > best:
                    best, self.estimator_, self.label_posteriors_ = reached, model, chances
                chances = likelihood.label_posteriors(scores[None, None])[0, 0]
                bar.set_postfix(log_likelihood=f"{reached:.5f}", refresh=False)
                bar.update()
        if self.estimator_ is None:
            self.estimator_ = learner.fit(X, self.label_posteriors_)
        self.log_likelihood_path_ = np.array(path)
        self.n_iter_ = len(path)

    def _template(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _seeded_template(self) -> Any:
        """A clone of the inner classifier, checked, with the seed in it."""
        template = clone(self._template())
        name = type(template).__name__
        if not has_fit_parameter(template, "sample_weight"):
            raise ValueError(
                f"{name}.fit takes no sample_weight, by which it would learn how likely each label "
                "is; choose another classifier, and put steps before it into a pipeline around "
                "CountEMClassifier."
            )
        if not hasattr(template, "predict_proba"):
            raise ValueError(
                f"{name} gives no probabilities (predict_proba), which CountEMClassifier needs to "
                "compare instances of a bag."
            )
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            names = [n for n in template.get_params() if n.split("__")[-1] == "random_state"]
            template.set_params(**dict.fromkeys(names, seed))
        return template

    def _scores(self, X: Any) -> NDArray[np.float64]:
        negative, positive = self.class_shares_
        return (_log_odds(self.estimator_, X) - np.log(positive / negative))[None]

    def predict_proba(self, X: Any, class_prior: ArrayLike | None = None) -> NDArray[np.float64]:
        """Chance of each class.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
        class_prior : array-like of shape (2,), optional
            Shares of the classes where the model is used; by default equal ones, for which the
            scores are log-odds.
        """
        positive = expit(self.decision_function(X))
        chance = np.column_stack([1 - positive, positive])
        if class_prior is None:
            return chance
        wanted = np.asarray(class_prior, dtype=float)
        if wanted.shape != (2,) or not (wanted >= 0).all() or wanted.sum() <= 0:
            raise ValueError("class_prior must hold one share for each of the 2 classes.")
        weighted = chance * wanted
        return weighted / weighted.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class _Learner:
    """The inner classifier, fitted to chances of labels."""

    template: Any

    def fit(self, X: Any, chances: NDArray[np.float64]) -> Any:
        """M-step: fit to every instance as a positive and a negative, weighted by the chances."""
        weights = np.column_stack([1 - chances, chances]).reshape(-1)
        # a copy of weight zero is left out, so that known labels are fitted as they are
        copies = np.flatnonzero(weights > 0)
        rows, labels = copies // 2, copies % 2
        return clone(self.template).fit(X[rows], labels, sample_weight=weights[copies])

    def scores(self, model: Any, X: Any, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-odds at equal priors from a model fitted to labels of these chances."""
        return _log_odds(model, X) - logit(chances.mean())

    def held_out_scores(
        self, X: Any, chances: NDArray[np.float64], held: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Scores of every bag by a model trained without it."""
        scores = np.empty(len(chances))
        for out in held:
            kept = chances[~out]
            scores[out] = self.scores(self.fit(X[~out], kept), X[out], kept)
        return scores


def _log_odds(model: Any, X: Any) -> NDArray[np.float64]:
    positive = np.asarray(model.predict_proba(X), dtype=float)[:, 1]
    return logit(np.clip(positive, _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE))


def _with_whole_counts(bags: Bags) -> Bags:
    """Round the proportions to those of whole counts, which there must be."""
    if bags.n_classes != 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"CountEMClassifier is for two classes and there are {bags.n_classes}."
        )
    if bags.noise is not None:
        raise ValueError(
            "CountEMClassifier needs the exact counts of bags, and these proportions are noisy; "
            "use a model of the corrected risk, such as LinearMCMClassifierCV."
        )
    positive = np.round(bags.sizes * bags.proportions[:, 1]) / bags.sizes
    whole = replace(bags, proportions=np.column_stack([1 - positive, positive]))
    if whole.class_shares.max() == 1:
        missing = bags.classes[int(whole.class_shares.argmin())]
        raise ValueError(
            f"Rounded to whole instances, no bag has any of class {bag_name(missing)}; use a model "
            "of the corrected risk, such as LinearMCMClassifierCV."
        )
    return whole


def _check_folds(cross_fit: Any, X: Any, y: Any, bags: Bags) -> NDArray[np.bool_]:
    """Rows held out by each fold."""
    held = check_cv(cross_fit, X, y)
    _, held_bags = cut_by_folds(bags, held)
    if not (held_bags.sum(axis=0) == 1).all():
        raise ValueError("cross_fit must hold out every bag exactly once, as unbag.BagKFold does.")
    positive = bags.proportions[bags.index, 1]
    for out in held:
        if not 0 < positive[~out].mean() < 1:
            raise ValueError(
                "Without the bags of one fold there is only one class left; use fewer folds for "
                "cross_fit, or None."
            )
    return held
