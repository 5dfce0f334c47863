"""Published methods of learning from label proportions, by name.

`unbag_bench.methods.published_methods` says what each minimises. Here it is minimised over linear
functions or those of a kernel, and what a method leaves open is chosen by the error of bags held
out, Σ_b (n_b/N) |p̂_b − γ_b|, which means the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbag._arrays import Array, Floats, Ints
from unbag._docstrings import as_in
from unbag.bags.bags import Bags
from unbag.models.checks import check_alphas
from unbag.models.goals import Goal, Problems
from unbag.models.kernel import LLPKernelClassifier
from unbag.models.linear import LLPLinearClassifier, LLPLinearClassifierCV
from unbag.models.minimising import KernelClassifier, LinearClassifier, MinimisingClassifier
from unbag.models.training import TrainingResult, search, tell_search
from unbag.observations.base import Objective
from unbag.observations.losses import get_loss
from unbag.weights.decontamination import check_contrast
from unbag_bench.methods.published_methods import BagTask, PublishedMethod, get_method


class BagError:
    """Error of the shares that scores predict, ½ Σ_c |p̂_bc − γ_bc|, in the mean over all rows.

    Parameters
    ----------
    bags : Bags
    loss : ClassLoss
        The link between scores and chances.
    """

    def __init__(self, bags: Bags, loss: Any) -> None:
        self._bags, self._loss = bags, loss

    def value(self, scores: Array, problem: Ints) -> Floats:  # noqa: ARG002
        """Error per column."""
        means = self._bags.means(self._loss.probability(scores))
        shares = self._bags.clipped_proportions.T
        shares = shares[1:] if means.shape[1] == 1 else shares
        off = np.abs(means - shares).sum(axis=1) * (1.0 if len(shares) == 1 else 0.5)
        return off @ self._bags.sizes / self._bags.sizes.sum()


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedGoal(Goal):
    """What a published method minimises; the error of bags held out chooses.

    Attributes
    ----------
    method : PublishedMethod
    X : array or sparse matrix of shape (n_instances, n_features)
    """

    method: PublishedMethod
    X: Any = None

    def weights(self, bags: Bags) -> Floats:
        """Weights, which methods find themselves."""
        check_contrast(bags)
        return np.zeros((bags.n_bags, bags.n_classes))

    def objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        """What the method minimises."""
        return self.method.objective(BagTask(problems.included, bags, self.X, like))

    def criteria(self, problems: Problems, bags: Bags, like: Any) -> list[BagError]:  # noqa: ARG002
        """Error of the shares in bags held out."""
        return [BagError(bags, self.loss)]

    def attributes(self) -> dict[str, Any]:
        """What a fitted model says of its goal."""
        return {"class_prior_": self.class_prior, "method_": self.method}


class PublishedClassifier(MinimisingClassifier):
    """A published method over a family of functions; a concrete one adds these."""

    method: Any
    alphas: Any
    cv: Any
    selection: Any

    @property
    def loss(self) -> str:
        """The link between scores and chances, on which the method decides."""
        return get_method(self.method).loss

    def _make_goal(self, bags: Bags) -> PublishedGoal:
        method = get_method(self.method)
        return PublishedGoal(
            loss=get_loss(method.loss, bags.n_classes),
            class_prior=bags.class_shares,
            free_intercept=True,
            method=method,
        )

    def _train(self, backend: Any, goal: Any) -> TrainingResult:
        alphas = check_alphas(goal.method.alphas if self.alphas is None else self.alphas)
        folded = backend.folded(self.cv)
        goal = replace(goal, X=backend.X)
        first, found = goal.method.start(), []
        if first is not None:
            solved = folded.solve(replace(goal, method=first), alphas)
            goal = replace(goal, start=solved.fits.theta)
        for setting in goal.method.settings():
            goal = replace(goal, method=setting)
            found.append(search(folded, goal, alphas, self.selection))
            # from one setting it is not far to the next
            goal = replace(goal, start=found[-1].solved.fits.theta)
        best = min(found, key=_error)
        tell_search(self, alphas, best)
        return best


def _error(found: TrainingResult) -> float:
    """Error of the penalty that was chosen."""
    risks: Any = found.risks
    return float(risks[..., found.best].mean())


@as_in(LLPLinearClassifierCV, LLPLinearClassifier)
class LinearPublishedClassifierCV(PublishedClassifier, LinearClassifier):
    """A published method with a linear function, its settings chosen by bags held out.

    Minimises what the method says (:mod:`unbag_bench.methods.published_methods`) plus α‖w‖², over
    f(x) = xᵀw + b with b free. ``docs/methods.md`` has the paper, the formula and the settings of
    each method.

    Parameters
    ----------
    method : str or PublishedMethod, default="dllp"
        One of ``unbag_bench.methods.PUBLISHED`` by its name, or one with other settings, such as
        ``EasyLLP(loss="squared")`` of :mod:`unbag_bench.methods.published_methods`.
    alphas : array-like, optional
        Penalties to choose from; by default half decades, as small as the method wants them.
    cv : as in LLPLinearClassifierCV
    selection : {"pooled", "folds"}, default="pooled"
        "pooled" chooses by the error Σ_b (n_b/N) |p̂_b − γ_b| of all bags held out together, "folds"
        by its mean over folds.
    fit_intercept : bool, default=True
        Whether to fit b.
    tol, max_iter, verbose : as in LLPLinearClassifier

    Attributes
    ----------
    method_ : PublishedMethod
        The method with the settings that were chosen.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    alpha_, alphas_ : as in LLPLinearClassifierCV
    selection_risks_ : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        The error by which it was chosen.
    out_of_fold_scores_, classes_, coef_, intercept_, n_iter_ : as in LLPLinearClassifierCV
    converged_, empirical_prior_, n_features_in_, feature_names_in_ : as in LLPLinearClassifierCV

    Examples
    --------
    >>> from unbag_bench.methods import LinearPublishedClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearPublishedClassifierCV("mm").fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        method: Any = "dllp",
        *,
        alphas: Any = None,
        cv: Any = 5,
        selection: str = "pooled",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


@as_in(LinearPublishedClassifierCV, LLPKernelClassifier)
class KernelPublishedClassifierCV(PublishedClassifier, KernelClassifier):
    """A published method with a function of a kernel, its settings chosen by bags held out.

    As `LinearPublishedClassifierCV`, over f(x) = Σ_j α_j k(x, x_j) + b.

    Parameters
    ----------
    method, alphas, cv, selection : as in LinearPublishedClassifierCV
    kernel, gamma, degree, coef0, precision, approximation, n_components : as in LLPKernelClassifier
    tol, max_iter : as in LinearPublishedClassifierCV
    random_state, verbose : as in LLPKernelClassifier

    Attributes
    ----------
    method_, class_prior_, alpha_, alphas_, selection_risks_ : as in LinearPublishedClassifierCV
    out_of_fold_scores_, classes_ : as in LinearPublishedClassifierCV
    dual_coef_ : as in LLPKernelClassifier
    intercept_ : ndarray of shape (n_outputs,)
        b.
    n_iter_, converged_, approximation_, kernel_, points_, empirical_prior_ : as in LLPKernelClassifier
    n_features_in_, feature_names_in_ : as in LLPKernelClassifier

    Examples
    --------
    >>> from unbag_bench.methods import KernelPublishedClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = KernelPublishedClassifierCV("mm").fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        method: Any = "dllp",
        *,
        alphas: Any = None,
        cv: Any = 5,
        selection: str = "pooled",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        approximation: str | None = "auto",
        n_components: int = 1000,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.approximation = approximation
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
