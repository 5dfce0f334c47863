"""Linear classifiers trained from several groupings of the same rows at once."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.utils import Tags

from unbag._checks import check_count, check_positive
from unbag._docstrings import as_in
from unbag.bags.groupings import Groupings, check_groupings_target
from unbag.bags.priors import resolve_class_prior
from unbag.evaluation.bag_effects import FEWEST_BAGS, effect_of_scores
from unbag.models.base import LogOddsClassifier, linear_scores
from unbag.models.checks import check_alphas
from unbag.models.linear import LLPLinearClassifier
from unbag.models.training import Fits, warn_not_converged
from unbag.observations.base import OffsetObjective
from unbag.observations.grouped_counts import GroupedCounts
from unbag.solvers import LinearSpace, minimise
from unbag.weights.decontamination import check_contrast

# Shares of a class that counts leave nothing of.
_LEAST_SHARE = 1e-9

# Scores of all fits that are solved together: 160 MB.
_BATCH_SCORES = 20_000_000


class LinearGroupingsClassifier(LogOddsClassifier):
    """f(x) = xᵀw + b, by the likelihood of the counts of several groupings."""

    fit_intercept: Any
    covariance: Any
    bag_effect: Any
    looks: Any
    class_prior: Any
    tol: Any
    max_iter: Any

    _accept_sparse = "csr"

    @abstractmethod
    def _train(self, X: Any, groupings: Groupings) -> tuple[Fits, NDArray[np.float64]]:
        """All fits, for the warning about those that were given up, and the one that is kept.

        By ``covariance_`` and ``looks_``.
        """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances, one per row.
        y : structured array from `unbag.multi_grouping_target` or `unbag.bag_target`, or plain labels
            What is known of the cells of each grouping, or of bags.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        X, groupings = self._check_both(X, y, check_groupings_target, _check_some_contrast)
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        self.class_prior_ = resolve_class_prior(self.class_prior, self.empirical_prior_)
        if (self.class_prior_ == 0).any():
            raise ValueError("class_prior leaves a class out, whose odds then are not finite.")
        given = _check_looks(self.looks)
        self.looks_, self.covariance_ = given or 0.0, self.covariance
        fits = self._fit_once(X, groupings)
        if given is None and _is_noisy(groupings) and self._leans_to_looks(X, groupings):
            self.looks_, self.covariance_ = 1.0, "none"
            fits = self._fit_once(X, groupings)
        warn_not_converged(*fits.failures, self.max_iter)
        return self

    def _fit_once(self, X: Any, groupings: Groupings) -> Fits:
        fits, theta = self._train(X, groupings)
        self.coef_ = theta[None, : X.shape[1]].copy()
        self.intercept_ = theta[X.shape[1] :].copy() if self.fit_intercept else np.zeros(1)
        return fits

    def _leans_to_looks(self, X: Any, groupings: Groupings) -> bool:
        """Whether most groupings, of those with enough cells, lean to classes that keep their look.

        As elsewhere, they are taken to if nothing can be told.
        """
        scores = self._scores(X)[0].astype(float)
        leans = [
            effect_of_scores(bags, scores, self.class_prior_).leans_to_looks
            for bags in groupings.bags
            if (~bags.labelled).sum() >= FEWEST_BAGS
        ]
        return not leans or float(np.mean(leans)) > 0.5

    def _scores(self, X: Any) -> NDArray[Any]:
        return linear_scores(X, self.coef_, self.intercept_)

    def _likelihood(self, groupings: Groupings, included: NDArray[np.bool_]) -> GroupedCounts:
        return GroupedCounts(groupings, included, self.covariance_, self.bag_effect, self.looks_)

    def _minimise(
        self,
        X: Any,
        likelihood: GroupedCounts,
        penalty: NDArray[np.float64],
        problem: NDArray[np.intp],
    ) -> tuple[Fits, NDArray[np.float64]]:
        """Fits of penalties to problems, and their scores at the shares of all rows."""
        share = np.clip(self.empirical_prior_[1], _LEAST_SHARE, 1 - _LEAST_SHARE)
        offset = logit(share) - logit(self.class_prior_[1])
        found = minimise(
            OffsetObjective(likelihood, np.full((problem.max() + 1, 1), offset)),
            LinearSpace(X, 1, bool(self.fit_intercept)),
            penalty,
            problem,
            tol=self.tol,
            max_iter=int(self.max_iter),
        )
        return Fits(found.theta, found.n_iter, found.converged), found.scores + offset


@as_in(LLPLinearClassifier)
class MultiGroupingClassifier(LinearGroupingsClassifier):
    """Linear classifier trained from the counts of several groupings of the same rows.

    Rows may be counted by campaign, by day and by region. Minimises L(w, b) + α‖w‖², with L the
    negative log-likelihood of all these counts together per instance
    (:mod:`unbag.observations.grouped_counts`); the intercept is not penalised. L knows which rows
    counts share, and the noise that each of them carries. With one grouping of exact counts this
    is ``LLPLinearClassifier(objective="likelihood", bag_effect=0)``. Two classes.

    Parameters
    ----------
    alpha, fit_intercept : as in LLPLinearClassifier
    covariance : {"shared", "none"}, default="shared"
        "none" adds up the likelihoods of the groupings as if they shared no rows. That is less
        precise (results/groupings.md), and needs less memory where two groupings have thousands
        of cells each.
    bag_effect : float, default=0
        Variance of what cells differ by beyond their rows, as a share of q(1 − q).
    looks : "auto" or float, default="auto"
        For noisy counts: 0 if rows keep their odds, whatever campaign or day they belong to, 1 if
        classes keep their look in all cells, and cells differ in how many of each they hold. 1
        needs ``covariance="none"``. "auto" fits with 0, and again with these two if the cells
        lean that way. Exact counts are the same in both worlds.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        Shares of the classes that scores and probabilities are for.
    tol, max_iter : as in LLPLinearClassifier

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,)
        b; 0 without an intercept.
    classes_ : ndarray of shape (2,)
        Labels of the classes, in the order of columns of chances.
    empirical_prior_ : ndarray of shape (2,)
        Share of each class among all instances.
    class_prior_ : ndarray of shape (2,)
        Shares of the classes that scores are for.
    looks_ : float
        What was used.
    covariance_ : {"shared", "none"}
        What was used.
    n_iter_, converged_, n_features_in_, feature_names_in_ : as in LLPLinearClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import MultiGroupingClassifier, bag_target, multi_grouping_target
    >>> rng = np.random.default_rng(0)
    >>> day, shop = rng.integers(0, 12, 3000), rng.integers(0, 40, 3000)
    >>> x = rng.normal(size=3000) + np.sin(day) + np.cos(shop)
    >>> sold = rng.random(3000) < 1 / (1 + np.exp(1 - 2 * x))
    >>> y = multi_grouping_target(
    ...     {
    ...         "day": bag_target(day, counts=np.bincount(day, sold)[day]),
    ...         "shop": bag_target(shop, counts=np.bincount(shop, sold)[shop]),
    ...     }
    ... )
    >>> model = MultiGroupingClassifier(1e-6, class_prior="empirical").fit(x[:, None], y)
    >>> bool(abs(model.coef_[0, 0] - 2) < 0.2)
    True
    """

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        fit_intercept: bool = True,
        covariance: str = "shared",
        bag_effect: float = 0.0,
        looks: str | float = "auto",
        class_prior: Any = "balanced",
        tol: float = 1e-4,
        max_iter: int = 1000,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.covariance = covariance
        self.bag_effect = bag_effect
        self.looks = looks
        self.class_prior = class_prior
        self.tol = tol
        self.max_iter = max_iter

    def _train(self, X: Any, groupings: Groupings) -> tuple[Fits, NDArray[np.float64]]:
        check_positive(self.alpha, "alpha")
        likelihood = self._likelihood(groupings, np.ones((1, groupings.n_cells), dtype=bool))
        penalty, problem = np.array([float(self.alpha)]), np.zeros(1, dtype=np.intp)
        fits, _ = self._minimise(X, likelihood, penalty, problem)
        self.n_iter_ = int(max(1, fits.n_iter[0]))
        self.converged_ = bool(fits.converged[0])
        return fits, fits.theta[0]


@as_in(MultiGroupingClassifier)
class MultiGroupingClassifierCV(LinearGroupingsClassifier):
    """`MultiGroupingClassifier` that chooses its penalty on counts that were held out.

    A fold holds out some cells of every grouping. Their rows stay, in what other groupings count,
    so that a count held out shares labels with some that were learned from, and a model that fits
    chance would seem good if it were compared with the count alone. What is compared is the chance
    of the counts held out *given those learned from*, L of all less L of these, at which no model
    is better on average than the true one, however cells overlap.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1 to 1e-5.
    cv : int, default=5
        Number of folds.
    fit_intercept, covariance, bag_effect, looks, class_prior : as in MultiGroupingClassifier
    random_state : int, default=0
        Deals out the cells to folds.
    tol, max_iter : as in MultiGroupingClassifier

    Attributes
    ----------
    alpha_ : float
        The penalty that was chosen.
    alphas_ : ndarray of shape (n_alphas,)
        All of them, in falling order.
    selection_risks_ : ndarray of shape (n_alphas,)
        Negative log-likelihood per instance of all counts held out, given those learned from.
    coef_, intercept_, classes_, empirical_prior_, class_prior_, looks_ : as in MultiGroupingClassifier
    covariance_, n_iter_, converged_, n_features_in_, feature_names_in_ : as in MultiGroupingClassifier

    Examples
    --------
    >>> from unbag import MultiGroupingClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = MultiGroupingClassifierCV().fit(data.X, data.y)  # one grouping is enough
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: int = 5,
        fit_intercept: bool = True,
        covariance: str = "shared",
        bag_effect: float = 0.0,
        looks: str | float = "auto",
        class_prior: Any = "balanced",
        random_state: int = 0,
        tol: float = 1e-4,
        max_iter: int = 1000,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.covariance = covariance
        self.bag_effect = bag_effect
        self.looks = looks
        self.class_prior = class_prior
        self.random_state = random_state
        self.tol = tol
        self.max_iter = max_iter

    def _train(self, X: Any, groupings: Groupings) -> tuple[Fits, NDArray[np.float64]]:
        alphas = check_alphas(self.alphas)
        held = deal_out_cells(groupings, self.cv, self.random_state)
        included = np.vstack([np.ones((1, groupings.n_cells), dtype=bool), ~held])
        likelihood = self._likelihood(groupings, included)
        # fits of some penalties together, in bounded memory
        size = max(1, _BATCH_SCORES // (len(included) * groupings.n_instances))
        fits, risks = [], []
        for some in np.split(alphas, np.arange(size, len(alphas), size)):
            found, own = self._search(X, likelihood, some, len(included))
            fits.append(found)
            risks.append(own / groupings.n_instances)
        together = Fits(
            *(
                np.concatenate([getattr(part, name) for part in fits])
                for name in ("theta", "n_iter", "converged")
            )
        )
        self.selection_risks_ = np.concatenate(risks)
        best = int(np.argmin(self.selection_risks_))
        self.alphas_, self.alpha_ = alphas, float(alphas[best])
        kept = together.on_all_bags(len(alphas))
        self.n_iter_ = int(max(1, kept.n_iter[best]))
        self.converged_ = bool(kept.converged[best])
        return together, kept.theta[best]

    def _search(
        self, X: Any, likelihood: GroupedCounts, alphas: NDArray[np.float64], n_problems: int
    ) -> tuple[Fits, NDArray[np.float64]]:
        """Fits to all cells and to those of each fold, and what the counts held out make of them.

        The latter summed over folds: −log Pr of all counts, less that of those learned from.
        """
        problem = np.tile(np.arange(n_problems), len(alphas))
        found, scores = self._minimise(X, likelihood, np.repeat(alphas, n_problems), problem)
        in_fold = problem > 0
        learned = likelihood.totals(scores[in_fold], problem[in_fold])
        everything = likelihood.totals(scores[in_fold], np.zeros_like(problem[in_fold]))
        return found, (everything - learned).reshape(len(alphas), -1).sum(axis=1)


def deal_out_cells(groupings: Groupings, cv: Any, random_state: int) -> NDArray[np.bool_]:
    """Deal out the cells of every grouping to folds: which of them each fold holds out.

    The only cell of a grouping is never held out.
    """
    n_folds = check_count(cv, "cv")
    most = max(bags.n_bags for bags in groupings.bags)
    if not 2 <= n_folds <= most:
        raise ValueError(
            f"cv={cv!r} must be from 2 up to the number of cells of the finest grouping, {most}."
        )
    rng = np.random.default_rng(random_state)
    fold = []
    for bags in groupings.bags:
        dealt = rng.permutation(np.arange(bags.n_bags) % n_folds)
        fold.append(dealt if bags.n_bags > 1 else np.full(1, -1))
    return np.concatenate(fold) == np.arange(n_folds)[:, None]


def _check_looks(looks: Any) -> float | None:
    """How far classes keep their look, or None if that is to be found out."""
    if isinstance(looks, str) and looks == "auto":
        return None
    if not isinstance(looks, Real) or not 0 <= float(looks) <= 1:
        raise ValueError(f"looks must be 'auto' or a number from 0 to 1, not {looks!r}.")
    return float(looks)


def _is_noisy(groupings: Groupings) -> bool:
    return any(bags.noise is not None for bags in groupings.bags)


def _check_some_contrast(groupings: Groupings) -> None:
    """Cells must differ in some grouping."""
    errors = []
    for bags in groupings.bags:
        try:
            check_contrast(bags)
        except ValueError as error:
            errors.append(error)
    if len(errors) == len(groupings.bags):
        raise errors[0]
