"""Expectation–maximisation: any classifier that takes weighted labels can learn from counts.

It was an estimator of the library, and left it: with logistic regression .07 of AUC behind the mixed
model on tables that nothing was chosen on (benchmarks/HISTORY.md), with forests minutes in place of a
second.

Given the counts k_b of bag b, its instances are so many draws from each class, in unknown order.
EM takes labels for missing. With g_c the density of class c:

E-step: q_jc = P(y_j = c | instances and counts of its bag), see
`unbag.observations.count_likelihood`.

M-step: maximise Σ_j Σ_c q_jc log g_c(x_j). Let N_c = Σ_b k_bc be the number of instances of class c
    in all bags, N = Σ_c N_c, and write the densities as

        g_c = (N/N_c) p_c m,

    where m is the density of all instances together and p_c(x) = P(y = c | x) among them. The sum
    falls apart into Σ_j Σ_c q_jc log p_c(x_j), which is *logistic regression on each instance as
    one of every class, of weight q_jc*, and Σ_j log m(x_j), largest for that of the data. The
    densities integrate to one, as they must, if p_c(x_j) has the mean N_c/N; and after logistic
    regression with a free intercept it has, because Σ_j q_jc = Σ_b k_bc = N_c in every E-step.
    (That a model of P(y | x) may be fitted to a sample whose numbers of all classes were fixed is a
    result of Anderson, and of Prentice and Pyke, for case-control studies.)

So no bag needs an offset or a weight of its own, and what EM increases is the likelihood of the
counts at the overall class prior. It conditions on the counts, so that bags may have any
proportions, and labelled rows may have been chosen by their label.

Scores are log-odds at the class prior π asked for, log p_c − log N_c + log π_c up to a constant.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from unbag._arrays import Bools, Floats
from unbag._checks import check_count, check_positive
from unbag._outputs import probabilities_of_all
from unbag._progress import progress_bar
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.bags.shares import bag_name
from unbag.model_selection.splitters import check_cv, check_held_once, cut_by_folds
from unbag.models.base import LogOddsClassifier
from unbag.observations.count_likelihood import CountLikelihood, LabelPosteriors

# The only problem of a likelihood.
_FIRST = np.zeros(1, dtype=np.intp)

# Probabilities of 0 and 1, as of a forest, have no log-odds.
_LEAST_PROBABILITY = 1e-9


class EMClassifier(MetaEstimatorMixin, LogOddsClassifier):
    """Train any classifier that takes ``sample_weight`` from the counts of bags.

    Expectation–maximisation. The first model is fitted to soft labels: every instance is one of
    every class, weighted by the proportions of its bag. Then the probability of each class, given
    the model's scores and *the counts of the bag*, takes the place of the proportion, and so on.
    For logistic regression without penalty this is exact EM: each step increases

        log L = Σ_b log Pr(K_b = k_b),    K_b a sum of draws with the probabilities p(x_bj),

    where p are the model's probabilities at the class prior of all bags together and k_b the counts
    of bag b: the likelihood that linear and kernel models maximise. For other learners it is what
    steps usually increase; the fit ends when they no longer do, and keeps the best. Counts may be
    noisy, and there may be any number of classes.

    Parameters
    ----------
    estimator : classifier, default=None
        Anything with ``predict_proba`` whose ``fit`` takes ``sample_weight``; by default
        ``LogisticRegression()``. It is fitted to the classes 0, 1, ... What prepares the features
        belongs in a pipeline around this classifier.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Class prior that scores and probabilities are for: that of all training bags together,
        equal shares, or a number for each class.
    cv : int, splitter, iterable of splits or None, default=5
        Folds of whole bags. Each bag is scored by a model that was trained on the others, since a
        flexible learner is overconfident on instances that it was trained on; log L is then that of
        held-out bags. An integer stands for `unbag.BagKFold`. With None every step is one fit, and
        bags are scored by the model that was trained on them: for learners that cannot overfit.
    max_iter : int, default=100
        Most steps.
    tol : float, default=1e-3
        The fit ends with the first step that brings log L less than ``tol`` of its size beyond
        the best so far.
    random_state : int, RandomState or None, default=0
        Seed of an inner classifier that has none of its own, the same in every step, so that steps
        differ by their weights only. None leaves it without.
    verbose : int, default=0
        Whether to show the progress of the fit.

    Attributes
    ----------
    estimator_ : classifier
        The inner classifier, fitted to all bags. Its probabilities are those at
        ``empirical_prior_``.
    empirical_prior_ : ndarray of shape (n_classes,)
        Class proportions among all training instances.
    class_prior_ : ndarray of shape (n_classes,)
        Class prior that scores and probabilities are for.
    log_likelihood_path_ : ndarray of shape (n_iter_,)
        log L per instance after each step; its largest entry belongs to ``estimator_``.
    label_posteriors_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Weights of the instances as positives, or as members of every class, to which
        ``estimator_`` was fitted.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the fit ended before ``max_iter``.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Defined only when X has feature names that are all strings.

    Notes
    -----
    If all bags are pure the labels are known, and the inner classifier is fitted once.

    Under ``cv`` the weights of the other bags come from models that did see a bag, so log L is not
    quite that of a bag that no model ever saw; to measure the classifier, hold out bags.

    Learners that set rows aside to stop early, as ``HistGradientBoostingClassifier`` does by
    default with over 10,000 rows, see a row's positive copy here and its negative copy there.
    Switch that off.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from unbag_bench.methods import EMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, bag_size=8, random_state=0)
    >>> model = EMClassifier(GaussianNB()).fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        class_prior: Any = "empirical",
        cv: Any = 5,
        max_iter: int = 100,
        tol: float = 1e-3,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.class_prior = class_prior
        self.cv = cv
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
        return tags

    def _check_finite(self, X: Any) -> None:
        if not get_tags(self._template()).input_tags.allow_nan:
            super()._check_finite(X)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the inner classifier to the bags, step by step.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_instances, n_features)
            Instances, one per row; sparse only if the model takes that.
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions; plain labels are pure bags.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        X, bags = self._check_Xy(X, y)
        bags = _with_whole_counts(bags)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        learner = _Learner(self._seeded_template(), bags.class_shares)
        self.empirical_prior_ = bags.class_shares
        self.class_prior_ = resolve_class_prior(self.class_prior, bags.class_shares)
        labels_known = bool((bags.proportions.max(axis=1) == 1).all())
        held = None
        if self.cv is not None and not labels_known:
            held = _check_folds(self.cv, X, np.asarray(y), bags)
        max_iter = 1 if labels_known else int(self.max_iter)
        self._alternate(X, bags, learner, held, max_iter)
        self.converged_ |= labels_known
        if not self.converged_:
            warnings.warn(
                f"EM did not converge within max_iter={self.max_iter} steps; raise max_iter or "
                "tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _alternate(
        self, X: Any, bags: Bags, learner: _Learner, held: Bools | None, max_iter: int
    ) -> None:
        """Alternate both steps while log L increases, and keep the best."""
        likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
        e_step = LabelPosteriors(bags)
        posteriors = bags.clipped_proportions[bags.index]
        path: list[float] = []
        best, best_posteriors = -np.inf, posteriors
        self.estimator_: Any = None
        self.converged_ = False
        bar = progress_bar(total=max_iter, verbose=self.verbose, desc="EM", unit="step")
        with threadpool_limits(1), bar:
            while len(path) < max_iter and not self.converged_:
                if held is None:
                    model = learner.fit(X, posteriors)
                    scores = learner.scores(model, X, posteriors)
                else:
                    model, scores = None, learner.held_out_scores(X, posteriors, held)
                reached = -float(likelihood.value(_outputs(scores)[None], _FIRST)[0])
                path.append(reached)
                self.converged_ = bool(reached - best < self.tol * abs(reached))
                if reached > best:
                    best, self.estimator_, best_posteriors = reached, model, posteriors
                found = probabilities_of_all(e_step(_outputs(scores)[None])[0])
                posteriors = np.ascontiguousarray(found.T)
                bar.set_postfix(log_likelihood=f"{reached:.5f}", refresh=False)
                bar.update()
            if self.estimator_ is None:
                self.estimator_ = learner.fit(X, best_posteriors)
        self.label_posteriors_ = best_posteriors if bags.n_classes > 2 else best_posteriors[:, 1]
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
                "EMClassifier."
            )
        if not hasattr(template, "predict_proba"):
            raise ValueError(
                f"{name} gives no probabilities (predict_proba), which EMClassifier needs to "
                "compare instances of a bag."
            )
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            given = template.get_params()
            names = [n for n in given if n.split("__")[-1] == "random_state" and given[n] is None]
            template.set_params(**dict.fromkeys(names, seed))
        return template

    def _scores(self, X: Any) -> Floats:
        scores = _log_probabilities(self.estimator_, X, len(self.classes_))
        moved = np.log(self.class_prior_ + 1e-300) - np.log(self.empirical_prior_)
        return _outputs(scores + moved[:, None])


@dataclass(frozen=True)
class _Learner:
    """The inner classifier, fitted to posteriors of labels, and the shares that scores are for."""

    template: Any
    shares: Floats

    def fit(self, X: Any, posteriors: Floats) -> Any:
        """M-step: fit to every instance as one of every class, weighted by its posteriors."""
        weights = posteriors.reshape(-1)
        # a copy of weight zero is left out, so that known labels are fitted as they are
        copies = np.flatnonzero(weights > 0)
        rows, labels = np.divmod(copies, posteriors.shape[1])
        return clone(self.template).fit(X[rows], labels, sample_weight=weights[copies])

    def scores(self, model: Any, X: Any, posteriors: Floats) -> Floats:
        """Scores (classes, instances) at the shares; the model was fitted to these posteriors."""
        moved = np.log(self.shares) - np.log(posteriors.mean(axis=0))
        return _log_probabilities(model, X, len(self.shares)) + moved[:, None]

    def held_out_scores(self, X: Any, posteriors: Floats, held: Bools) -> Floats:
        """Scores of every bag by a model trained without it."""
        scores = np.empty(posteriors.T.shape)
        for out in held:
            kept = posteriors[~out]
            scores[:, out] = self.scores(self.fit(X[~out], kept), X[out], kept)
        return scores


def _outputs(scores: Floats) -> Floats:
    """Scores (outputs, instances): the log-odds of two classes, or those of every class."""
    return scores if len(scores) > 2 else scores[1:] - scores[:1]


def _log_probabilities(model: Any, X: Any, n_classes: int) -> Floats:
    """Logarithms of class probabilities: (classes, instances)."""
    found = np.asarray(model.predict_proba(X), dtype=float)
    probabilities = np.zeros((len(found), n_classes))
    probabilities[:, np.asarray(model.classes_)] = found
    return np.log(np.clip(probabilities, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)).T


def _with_whole_counts(bags: Bags) -> Bags:
    """Round exact proportions to those of whole counts, so that all classes are left."""
    rounded = np.round(bags.counts)
    exact = rounded.sum(axis=1) == bags.sizes
    if bags.noise is not None:
        exact &= ~bags.noise.any(axis=(1, 2))
    proportions = np.where(exact[:, None], rounded / bags.sizes[:, None], bags.proportions)
    whole = replace(bags, proportions=proportions)
    if whole.class_shares.min() <= 0:
        missing = bags.class_names[int(whole.class_shares.argmin())]
        raise ValueError(
            f"Rounded to whole instances, no bag has any of class {bag_name(missing)}; leave the "
            "class out, or use a model that takes proportions which no labels can give, such as "
            "LLPClassifier."
        )
    return whole


def _check_folds(cv: Any, X: Any, y: Any, bags: Bags) -> Bools:
    """Rows held out by each fold."""
    held = check_cv(cv, X, y)
    _, held_bags = cut_by_folds(bags, held)
    check_held_once(held_bags)
    shares = bags.clipped_proportions[bags.index]
    for out in held:
        if shares[~out].mean(axis=0).min() <= 0:
            raise ValueError(
                "Without the bags of one fold a class has no instance left; use fewer folds for "
                "cv, or None."
            )
    return held
