"""The mixed model for bag counts: a sum of terms, each with a variance, and no rule beside it.

Log-odds at the overall class prior are f(x) = b + Σ_k φ_k(x)ᵀβ_k with β_k ~ N(0, σ_k²I), labels are
independent given f, and of each bag their sum is known (`unbag.observations.information`). The
coefficients maximise the penalised count likelihood (`unbag.models.newton`), the variances the
marginal likelihood (`unbag.models.variances`). There are no folds, no grid of penalties and no
cases by the number of bags: a column, a category or a kernel that the bags do not support gets a
small variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.special import expit, softmax, stdtrit
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
)

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count, check_nonnegative, check_positive
from unbag._outputs import by_instance
from unbag.bags.bags import ANYTHING, Bags, check_bag_target
from unbag.bags.groupings import check_groupings_target, grouping_names
from unbag.bags.priors import log_prior, resolve_class_prior
from unbag.defaults import MOST_COEFFICIENTS
from unbag.models.base import LogOddsClassifier, row_blocks
from unbag.models.blocks import BlockLikelihood
from unbag.models.likelihoods import GroupingsLikelihood, check_groupings_contrast, with_class_prior
from unbag.models.many_columns import maximise_by_products
from unbag.models.newton import DesignLikelihood, Likelihood, MixedFit, maximise
from unbag.models.summary import (
    FittedFunction,
    ModelSummary,
    interval_degrees,
    robust_errors,
    summarise_model,
)
from unbag.models.variances import VarianceComponents
from unbag.observations.groupings import GroupingsObservation
from unbag.observations.information import CountObservation
from unbag.terms.columns import Term
from unbag.terms.design import Design, layout
from unbag.terms.device import DeviceDesign
from unbag.terms.encoding import EncodedRows, TableEncoder, TrainingRows, as_frame, is_sparse
from unbag.terms.make import make_terms
from unbag.weights import check_contrast

# Rows that predictions are made for at the same time.
_BLOCK = 2**11

# Of a class that no bag holds, where the fit starts.
_LEAST_SHARE = 1e-6


class TermSummary(NamedTuple):
    """A term of a fitted mixed model.

    Attributes
    ----------
    term : str
    columns : list of str
    standard_deviation : float
        σ of its coefficients: of standardised columns, of levels, of the kernel's function.
    degrees_of_freedom : float
        Effective number of parameters.
    variance_share : float
        Its share of the variance of f over the rows of training.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> numbers = model.terms_[0]
    >>> numbers.columns, round(numbers.degrees_of_freedom, 1)
    (['x0', 'x1'], 2.0)
    """

    term: str
    columns: list[str]
    standard_deviation: float
    degrees_of_freedom: float
    variance_share: float


class LLPClassifier(LogOddsClassifier):
    """Mixed model for the class counts of bags, the default classifier.

    The log-odds are a sum of terms: standardised columns of numbers, "indicators" (columns of 0 and
    1, which are not scaled), one random effect for each level of a category, and a smooth function
    of all columns. Each has a variance, chosen by the marginal likelihood of the counts of all bags;
    a term that the bags do not support shrinks towards zero. Valid under label shift and under
    covariate shift. Tables may have missing values and columns of any type; a sparse matrix is one
    term.

    Parameters
    ----------
    kernel : {"auto", "rbf"} or None, default="auto"
        Gaussian kernel term, or none. "auto" adds one unless X is sparse.
    n_landmarks : int, default=200
        Number of landmarks (rows) of the Nyström approximation of the kernel.
    groups : mapping of str to list, list of list, or callable, optional
        Columns of numbers, by name or place, that are standardised and have a variance of their
        own; by default there are "numbers" and "indicators". A callable makes groups of the names.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Class prior that scores and predictions are for; "empirical" is that of all bags together.
    bag_effect : {"auto"} or float, default="auto"
        Variance τ² of a random intercept per bag, on the scale of log-odds; with several classes, of the
        log-odds of one class against another, if counts are exact. "auto" estimates it, and the
        remaining dispersion; a number fixes it, without dispersion; 0 disables it.
    variances : {"auto"} or mapping of str to float, default="auto"
        "auto" estimates them; a mapping from the names of the terms fixes all of them.
    tol : float, default=1e-2
        The fit has converged when derivatives of the log marginal likelihood with respect to log
        variances are smaller, and a step changes the penalised log-likelihood by less than its square.
    max_iter : int, default=200
        Largest number of iterations; a ConvergenceWarning says that it was reached.
    random_state : int, RandomState or None, default=0
        Seed for the landmarks.
    device : str, optional
        Device of torch that holds the columns of all terms during the fit, such as "cuda".

    Attributes
    ----------
    terms_ : list of TermSummary
        Name, columns, standard deviation, effective degrees of freedom and share of the variance
        of f of each term.
    coef_ : ndarray of shape (n_outputs, n_coefficients)
        Coefficients, in the order of ``coef_names_``; those of numeric columns in units of the table.
    coef_names_ : list of str
        Names of the coefficients: columns, levels, features of the kernel.
    intercept_ : ndarray of shape (n_outputs,)
        Constant of the scores, at ``class_prior_``.
    covariance_ : ndarray of shape (n_outputs · (1 + n_coefficients),) * 2
        Posterior covariance of the constant and the coefficients of standardised columns, with
        the uncertainty of the variances. None if there are more than 1,500 coefficients.
    n_informative_bags_ : float
        Number of equally weighted bags that carry as much information, less what the estimate of bag
        effects takes; degrees of freedom of intervals.
    log_marginal_likelihood_ : float
        Laplace approximation; compares models of the same bags.
    dispersion_ : float
        Dispersion φ: the variance of the scores of bags over that expected by the model; at least 1.
    bag_effect_ : float
        Variance τ² of the random intercepts of bags, on average over bags; with several classes, of the
        log-odds of one class against another.
    function_ : FittedFunction
        The fitted function: its encoder, its terms and their coefficients.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    class_prior_ : ndarray of shape (n_classes,)
        The prior that scores are for.
    empirical_prior_ : ndarray of shape (n_classes,)
        Class proportions in all bags together.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within ``max_iter`` iterations.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Defined only when X has feature names that are all strings.

    See Also
    --------
    unbag.bag_target : Make the target `y` that every estimator of this package is fitted to.
    unbag.models.TermSummary : A term of a fitted mixed model.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag import LLPClassifier
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier().fit(data.X, data.y)
    >>> [term.term for term in model.terms_]
    ['numbers', 'kernel']
    >>> float((model.predict(data.X) == data.labels).mean().round(1))
    0.8
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        kernel: Literal["auto", "rbf"] | None = "auto",
        n_landmarks: int = 200,
        groups: Mapping[str, Sequence[Any]]
        | Sequence[Sequence[Any]]
        | Callable[..., Any]
        | None = None,
        class_prior: Any = "empirical",
        bag_effect: Literal["auto"] | float = "auto",
        variances: Literal["auto"] | Mapping[str, float] = "auto",
        tol: float = 1e-2,
        max_iter: int = 200,
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.groups = groups
        self.class_prior = class_prior
        self.bag_effect = bag_effect
        self.variances = variances
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to instances and the counts of their bags.

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
        if grouping_names(y) is not None:
            return self._fit_groupings(X, y)
        return self._fit(X, y)

    def refit(self, X: Any, y: Any) -> Self:
        """Train a copy of the fitted model on other bags, with its terms and from its coefficients.

        What the terms are, such as landmarks of the kernel, depends on no counts: models of the folds
        of a cross-validation can share it, and need fewer iterations.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_instances, n_features)
            Instances, with the columns that the model is fitted to.
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions.

        Returns
        -------
        model : estimator
            The copy.

        Examples
        --------
        >>> from unbag import LLPClassifier
        >>> from unbag.datasets import make_gaussian_bags
        >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
        >>> model = LLPClassifier().fit(data.X, data.y)
        >>> model.refit(data.X[:1800], data.y[:1800]).n_iter_ < model.n_iter_
        True
        """
        check_is_fitted(self)
        return copy(self)._fit(X, y, self)

    def _fit(self, X: Any, y: Any, start: LLPClassifier | None = None) -> Self:
        self._check_settings()
        read = partial(check_bag_target, accept=ANYTHING)
        X, bags = self._check_both(X, y, read, check_contrast)
        if start is not None and not np.array_equal(start.classes_, self.classes_):
            start = None
        encoder = TableEncoder().fit(X) if start is None else start._encoder
        rows, bags = by_bag(encoder.encode(X), bags)

        def likelihood_of(terms: list[Term]) -> Likelihood:
            if self.device is None:
                return with_class_prior(BlockLikelihood(terms, rows, bags), bags)
            design = DeviceDesign(terms, rows, bags.lengths, self.device)
            return with_class_prior(DesignLikelihood(design, CountObservation(bags)), bags)

        self._train(encoder, rows, likelihood_of, start)
        return self

    def _fit_groupings(self, X: Any, y: Any) -> Self:
        """Fit to the joint likelihood of the counts of several groupings of the same rows."""
        self._check_settings()
        X, groupings = self._check_both(X, y, check_groupings_target, check_groupings_contrast)
        encoder = TableEncoder().fit(X)
        rows = encoder.encode(X)

        def likelihood_of(terms: list[Term]) -> Likelihood:
            design = self._design(terms, rows, np.array([groupings.n_instances]))
            return GroupingsLikelihood(design, GroupingsObservation(groupings))

        self._train(encoder, rows, likelihood_of)
        return self

    def _check_settings(self) -> None:
        if self.kernel is not None:
            check_choice(self.kernel, ("auto", "rbf"), "kernel")
            check_count(self.n_landmarks, "n_landmarks")
        if isinstance(self.bag_effect, str):
            check_choice(self.bag_effect, ("auto",), "bag_effect")
        else:
            check_nonnegative(self.bag_effect, "bag_effect")
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")

    def _design(self, terms: list[Term], rows: EncodedRows, sizes: Any) -> Design:
        if self.device is None:
            return Design(terms, rows, sizes)
        return DeviceDesign(terms, rows, sizes, self.device)

    def _train(
        self,
        encoder: TableEncoder,
        rows: TrainingRows,
        likelihood_of: Callable[[list[Term]], Likelihood],
        start: LLPClassifier | None = None,
    ) -> None:
        self._encoder = encoder
        if start is None:
            n_landmarks = 0 if self.kernel is None else self.n_landmarks
            self._terms = make_terms(encoder, rows, self.groups, n_landmarks, self.random_state)
        self._columns, n_columns = layout(self._terms)
        likelihood = likelihood_of(self._terms)
        components, variation = self._components((self._n_outputs, n_columns)), None
        if start is None:
            theta = np.zeros((self._n_outputs, n_columns))
            prior = log_prior(np.maximum(self.empirical_prior_, _LEAST_SHARE))
            theta[:, 0] = prior if len(prior) == 1 else prior - prior.mean()
        else:
            theta, variances = start._theta, [one.standard_deviation**2 for one in start.terms_]
            components = replace(components, variances=np.array(variances))
            variation = start.dispersion_, start.bag_effect_, start._label_shift
        solve = maximise if theta.size <= MOST_COEFFICIENTS else maximise_by_products
        fit = solve(
            likelihood,
            theta,
            components,
            bag_effect=None if self.bag_effect == "auto" else float(self.bag_effect),
            start=variation,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self._store(fit, likelihood)

    @property
    def function_(self) -> FittedFunction:
        """The fitted function: its encoder, its terms and their coefficients."""
        check_is_fitted(self)
        return FittedFunction(
            self._encoder, self._terms, self._columns, self._theta, self._prior_offset
        )

    def summary(self, confidence_level: float = 0.95) -> ModelSummary:
        """Terms and coefficients, with standard errors by the posterior and by bags.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Posterior probability that intervals cover.

        Returns
        -------
        summary : ModelSummary
            It prints as tables; ``frame()`` gives the coefficients.

        Examples
        --------
        >>> from unbag import LLPClassifier
        >>> from unbag.datasets import make_gaussian_bags
        >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
        >>> summary = LLPClassifier(kernel=None).fit(data.X, data.y).summary()
        >>> summary.frame()["column"].tolist()
        ['(intercept)', 'x0', 'x1']
        """
        check_is_fitted(self)
        return summarise_model(self, confidence_level)

    def predict_interval(self, X: Any, confidence_level: float = 0.95) -> Floats:
        """Interval of the probability of each row, from the posterior of its log-odds.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances, one per row.
        confidence_level : float, default=0.95
            Posterior probability that the interval covers.

        Returns
        -------
        limits : ndarray of shape (n_instances, 2) or (n_instances, n_classes, 2)
            Lower and upper limit of the probability of the second of two classes, or of each of
            several.
        """
        scores, sd = self.decision_function(X, return_std=True)
        reach = float(stdtrit(interval_degrees(self), 0.5 + confidence_level / 2)) * sd
        return expit(np.stack([scores - reach, scores + reach], axis=-1))

    def sample_decision_function(
        self, X: Any, n_samples: int = 100, random_state: Any = 0
    ) -> Floats:
        """Draws of the log-odds of instances from their posterior.

        Draws are from a t distribution with the degrees of freedom of the informative bags.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances, one per row.
        n_samples : int, default=100
            Number of draws.
        random_state : int, RandomState or None, default=0
            The same number gives the same coefficients, whatever the instances.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_instances) or (n_samples, n_instances, n_classes)
            Log-odds at ``class_prior_``.
        """
        check_is_fitted(self)
        theta = self._draw_coefficients(n_samples, check_random_state(random_state))
        rows = self._encoder.encode(self._check_X(X, reset=False))
        scores = np.empty((*theta.shape[:2], len(rows)))
        for block in row_blocks(len(rows), _BLOCK):
            scores[:, :, block] = theta @ self.function_.design_matrix(rows[block]).T
        scores += self._prior_offset[:, None]
        return scores[:, 0] if len(self._theta) == 1 else np.swapaxes(scores, 1, 2)

    def _draw_coefficients(self, n_samples: int, rng: Any) -> Floats:
        """Draws of the coefficients, (n_samples, n_outputs, n_columns)."""
        values, vectors = np.linalg.eigh(self._check_covariance())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = rng.standard_normal((n_samples, len(root)))
        freedom = interval_degrees(self)
        if np.isfinite(freedom):
            normal *= np.sqrt(freedom / rng.chisquare(freedom, size=(n_samples, 1)))
        return self._theta + (normal @ root.T).reshape(n_samples, *self._theta.shape)

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Log-odds at ``class_prior_``, and on request their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances, one per row; a sparse matrix or a frame if the model is fitted to one.
        return_std : bool, default=False
            Whether to give standard deviations as well.

        Returns
        -------
        scores : ndarray of shape (n_instances,) or (n_instances, n_classes)
            For two classes log-odds of the second; for more, one column per class.
        sd : ndarray of the same shape
            Only with ``return_std``; for several classes, of the log-odds of each class against
            all others, which ``scores`` then are as well.
        """
        check_is_fitted(self)
        X = self._check_X(X, reset=False)
        if not return_std:
            return by_instance(self._scores(X))
        return self._scores_and_sd(X)

    def _scores(self, X: Any) -> Floats:
        rows, blocks = self._encoder.encode(X), []
        for block in row_blocks(len(rows), _BLOCK):
            part = rows[block]
            found = np.repeat(self._theta[:, :1] + self._prior_offset[:, None], len(part), axis=1)
            for term, columns in zip(self._terms, self._columns, strict=True):
                found += _product(term.matrix(part), self._theta[:, columns])
            blocks.append(found)
        return np.concatenate(blocks, axis=1)

    def _scores_and_sd(self, X: Any) -> tuple[Floats, Floats]:
        f, K = self.function_, len(self._theta)
        rows, scores, variances = f.encoder.encode(X), self._scores(X), []
        covariance = self._check_covariance().reshape(K, -1, K, self._theta.shape[1])
        # derivatives of the log-odds of each class against all others by the scores
        if K == 1:
            contrasts = np.ones((1, 1, scores.shape[1]))
        else:
            others = softmax(scores, axis=0)[None] * (1.0 - np.eye(K))[:, :, None]
            contrasts = np.eye(K)[:, :, None] - others / others.sum(axis=1, keepdims=True)
            p = softmax(scores, axis=0)
            scores = np.log(p) - np.log1p(-p)
        for part in row_blocks(len(rows), _BLOCK):
            Phi = f.design_matrix(rows[part])
            joint = np.empty((K, K, len(Phi)))
            for a in range(K):
                for c in range(K):
                    joint[a, c] = np.einsum("ij,ij->i", Phi @ covariance[a, :, c, :], Phi)
            own = contrasts[:, :, part]
            variances.append(np.einsum("kaj,acj,kcj->kj", own, joint, own))
        sd = np.sqrt(np.maximum(np.concatenate(variances, axis=1), 0.0))
        return by_instance(scores), by_instance(sd)

    def _check_covariance(self) -> Floats:
        if self.covariance_ is None:
            raise ValueError(
                f"The model has {self._theta.size:,} coefficients, and there are standard "
                f"deviations of at most {MOST_COEFFICIENTS:,}."
            )
        return self.covariance_

    def _components(self, shape: tuple[int, int]) -> VarianceComponents:
        names, sds = [term.name for term in self._terms], [term.prior_sd for term in self._terms]
        values, fixed = np.array(sds) ** 2, isinstance(self.variances, Mapping)
        if isinstance(self.variances, Mapping):
            if set(names) != set(self.variances):
                raise ValueError(
                    f"variances must give one number for each of the terms {names}, not for "
                    f"{list(self.variances)}."
                )
            values = np.array([self.variances[name] for name in names], dtype=float)
        else:
            check_choice(self.variances, ("auto",), "variances")
        return VarianceComponents(self._columns, values, *shape, np.array(sds), fixed)

    def _store(self, fit: MixedFit, likelihood: Likelihood) -> None:
        self._theta, self.covariance_ = fit.theta, fit.covariance
        self.n_informative_bags_ = fit.n_informative_bags
        self.dispersion_, self.bag_effect_ = float(fit.dispersion), fit.bag_effect
        self._label_shift = float(fit.label_shift)
        self.log_marginal_likelihood_ = fit.log_marginal_likelihood
        self.n_iter_, self.converged_ = fit.n_iter, fit.converged
        self.class_prior_ = resolve_class_prior(self.class_prior, self.empirical_prior_)
        self._describe_terms(fit, likelihood)
        parts = [
            term.in_units(fit.theta[:, columns])
            for term, columns in zip(self._terms, self._columns, strict=True)
        ]
        self.coef_ = np.concatenate([coef for coef, _ in parts], axis=1)
        self.coef_names_ = [name for term in self._terms for name in term.names]
        self.intercept_ = fit.theta[:, 0] + self._prior_offset + sum(offset for _, offset in parts)
        self._robust_errors = robust_errors(self.function_, fit, likelihood)

    def _describe_terms(self, fit: MixedFit, likelihood: Likelihood) -> None:
        spread: list[float] = []
        if self._terms:
            moments = likelihood.score_moments(fit.theta, self._columns)
            spread = (moments.squares / moments.counts).sum(axis=1).tolist()
        total = sum(spread) or 1.0
        components = fit.components
        self.terms_ = [
            TermSummary(term.name, term.columns, float(np.sqrt(variance)), float(edf), own / total)
            for term, variance, edf, own in zip(
                self._terms,
                components.variances,
                fit.posterior.degrees_of_freedom,
                spread,
                strict=True,
            )
        ]

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        frame = as_frame(X)
        if frame is not None:
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            if frame.shape[0] == 0:
                raise ValueError(f"Found array with 0 sample(s) (shape={frame.shape}).")
            return X
        if not reset:
            self._encoder.check_array(X)
        return self._validate(X, reset, ensure_all_finite="allow-nan")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def fit_to_rows(
    model: LLPClassifier,
    encoder: TableEncoder,
    rows: TrainingRows,
    likelihood_of: Callable[[list[Term]], Likelihood],
) -> None:
    """Fit a model whose classes and empirical prior are known to rows that may lie elsewhere."""
    model._check_settings()
    model._train(encoder, rows, likelihood_of)


def refit_with_offset(model: LLPClassifier, X: Any, bags: Bags, offset: Floats) -> LLPClassifier:
    """A fitted model with the coefficients that it has where scores get an offset.

    Variances, and the covariance of coefficients, stay as they are. Rows must be in the order of
    their bags; offset has the shape (n_outputs, n_rows).
    """
    rows, bags = by_bag(model._encoder.encode(X), bags)
    # ℓ/φ − ½|β|²/σ² has its maximum where ℓ − ½φ|β|²/σ² has it
    variances = np.array([term.standard_deviation for term in model.terms_]) ** 2
    fixed = VarianceComponents(
        groups=model._columns,
        variances=variances / model.dispersion_,
        n_outputs=model._theta.shape[0],
        n_columns=model._theta.shape[1],
        prior_sds=np.zeros(len(variances)),
        fixed=True,
    )
    fit = maximise(
        with_class_prior(BlockLikelihood(model._terms, rows, bags, offset), bags),
        model._theta,
        fixed,
        bag_effect=model.bag_effect_,
        label_shift=model._label_shift,
        tol=model.tol,
    )
    other = copy(model)
    other._theta = fit.theta
    return other


def by_bag(rows: EncodedRows, bags: Bags) -> tuple[EncodedRows, Bags]:
    """Rows and bags in the order of bags, rows of known label being bags of their own."""
    pieces, _ = bags.with_labelled_rows_apart()
    rows = replace(rows, multiplicity=bags.multiplicity)
    if (np.diff(pieces.index) >= 0).all():
        return rows, pieces
    order = np.argsort(pieces.index, kind="stable")
    return rows[order], pieces.reordered(order)


def _product(matrix: Any, theta: Floats) -> Floats:
    """Scores of a term, row by row, so that they do not depend on the rows that come with them."""
    return (matrix @ theta.T).T if is_sparse(matrix) else np.einsum("ij,kj->ki", matrix, theta)
