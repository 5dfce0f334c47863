"""Empirical proportion risk (EPR): predict the right share of every class in every bag.

With p̂_i[c] the mean chance of class c that a classifier gives to the instances of bag i, and γ_i
the known proportions, the empirical proportion risk is

    Σ_i (n_i/T) · d(p̂_i, γ_i),    T = Σ_i n_i,

where the divergence d is one of

    squared          ½ Σ_c (p̂[c] − γ[c])²,
    absolute         ½ Σ_c |p̂[c] − γ[c]|,
    cross-entropy    −Σ_c γ[c] log p̂[c].

For two classes the first two are (p̂ − γ)² and |p̂ − γ| of the positive class. On bags of one
instance the cross-entropy is the loss of logistic regression and the squared divergence the
Brier score.

A classifier can get all shares right and single instances wrong: the paper's appendix has an
example, and ``examples/proportion_risk_fails.py`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from unbag._arrays import Array, index_beside, take, to_host
from unbag.bags.bags import Bags
from unbag.models.goals import Goal, Problems
from unbag.models.minimising import KernelClassifier, LinearClassifier
from unbag.models.training import fit_alpha, search_alphas
from unbag.objectives.losses import ClassLoss, get_loss
from unbag.weights.decontamination import check_contrast

# Half decades from 1e-2 to 1e-7: differences of means are small, and so must their penalty be.
DEFAULT_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(4, 15))

# From log p̂ and γ, of shape (columns, classes, bags) or what broadcasts to it: d, summed over
# classes, and its derivative with respect to log p̂.
Divergence = Callable[[Array, Array], tuple[Array, Array]]


def _squared(log_share: Array, proportions: Array) -> tuple[Array, Array]:
    xp = array_namespace(log_share)
    share = xp.exp(log_share)
    gap = share - proportions
    return xp.sum(gap**2, axis=1) / 2, gap * share


def _absolute(log_share: Array, proportions: Array) -> tuple[Array, Array]:
    xp = array_namespace(log_share)
    share = xp.exp(log_share)
    gap = share - proportions
    return xp.sum(xp.abs(gap), axis=1) / 2, xp.sign(gap) * share / 2


def _cross_entropy(log_share: Array, proportions: Array) -> tuple[Array, Array]:
    xp = array_namespace(log_share)
    return -xp.sum(proportions * log_share, axis=1), -proportions


DIVERGENCES: dict[str, Divergence] = {
    "squared": _squared,
    "absolute": _absolute,
    "cross_entropy": _cross_entropy,
}


class ProportionRisk:
    """Empirical proportion risk in score space, for one or several sets of weights.

    With ℓ_c the logistic loss, e^{−ℓ_c(f)} is the chance of class c. So log p̂ comes from losses
    alone, and neither large scores nor shares of 0 and 1 do harm:

        log p̂_i[c] = log (1/n_i) Σ_{x in bag i} e^{−ℓ_c(f(x))},
        ∂ log p̂_i[c] / ∂ℓ_c(f(x)) = −e^{−ℓ_c(f(x))} / (n_i p̂_i[c]).

    Parameters
    ----------
    weights : ndarray of shape (n_bags, n_classes) or (n_problems, n_bags, n_classes)
        How much each bag counts, the same for all classes; a bag of weight zero is held out.
    bags : Bags
        Who is in which bag. Rows of known label are bags of one instance.
    loss : ClassLoss
        `LogisticLoss` or `SoftmaxLoss`, the link between scores and chances.
    divergence : {"squared", "absolute", "cross_entropy"}
        How the mean chances of a bag are compared with its proportions.
    like : array, optional
        Array whose namespace, type and device the computation should have.
    """

    def __init__(
        self,
        weights: NDArray[np.float64],
        bags: Bags,
        loss: ClassLoss,
        divergence: str = "squared",
        like: Array | None = None,
    ) -> None:
        self._divergence = get_divergence(divergence)
        self._loss = loss
        self.n_outputs = loss.n_outputs(bags.n_classes)
        like = np.empty(0) if like is None else like
        xp, where = array_namespace(like), device(like)
        units, first = bags.with_labelled_rows_apart()
        whole = bags.index[first]
        by_size = np.argsort(units.sizes, kind="stable")
        table = (weights[None] if weights.ndim == 2 else weights)[:, :, 0]
        table = table[:, whole] * (units.sizes / bags.sizes[whole])
        position = np.argsort(by_size)
        order = np.argsort(position[units.index], kind="stable")
        self._order = xp.asarray(order, device=where)
        self._back = xp.asarray(np.argsort(order), device=where)
        self._weights = xp.asarray(table[:, by_size], dtype=xp.float64, device=where)
        self._proportions = xp.asarray(
            units.clipped_proportions[by_size].T[None], dtype=xp.float64, device=where
        )
        self._blocks = list(_equal_sizes(units.sizes[by_size]))

    def value(self, scores: Array, problem: NDArray[np.intp]) -> NDArray[np.float64]:
        """Empirical proportion risk per column."""
        return self.value_and_gradient(scores, problem)[0]

    def value_and_gradient(
        self, scores: Array, problem: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], Array]:
        """Empirical proportion risk per column and its gradient with respect to the scores."""
        xp = array_namespace(scores)
        ordered = take(scores, self._order, axis=2)
        weights = take(self._weights, index_beside(problem, scores), axis=0)
        total, gradients = np.zeros(scores.shape[0]), []
        for block in self._blocks:
            value, gradient = self._of_block(
                ordered[:, :, block.rows],
                weights[:, block.bags],
                self._proportions[:, :, block.bags],
                block.size,
            )
            total += value
            gradients.append(gradient)
        return total, take(xp.concat(gradients, axis=2), self._back, axis=2)

    def _of_block(
        self, scores: Array, weights: Array, proportions: Array, size: int
    ) -> tuple[NDArray[np.float64], Array]:
        """Give the part of value and gradient that bags of one size contribute."""
        xp = array_namespace(scores)
        losses = self._loss.losses(scores)
        logs = xp.reshape(-losses, (*losses.shape[:2], -1, size))
        largest = xp.max(logs, axis=3, keepdims=True)
        chances = xp.exp(logs - largest)
        mean = xp.sum(chances, axis=3, dtype=xp.float64) / size
        log_share = xp.astype(largest[:, :, :, 0], xp.float64) + xp.log(mean)
        divergence, slope = self._divergence(log_share, proportions)
        pull = -weights[:, None, :] * slope / (size * mean)
        pulled = chances * xp.astype(pull, scores.dtype)[:, :, :, None]
        value = to_host(xp.sum(weights * divergence, axis=1))
        return value, self._loss.pull_back(scores, xp.reshape(pulled, losses.shape))


@dataclass(frozen=True)
class _Block:
    """A run of bags of one size, and of their instances."""

    size: int
    bags: slice
    rows: slice


def _equal_sizes(sizes: NDArray[np.int64]) -> Iterator[_Block]:
    """Cut rising sizes into runs, inside which an array needs no padding."""
    values, starts, counts = np.unique(sizes, return_index=True, return_counts=True)
    row = 0
    for size, start, count in zip(values.tolist(), starts.tolist(), counts.tolist(), strict=True):
        end = row + size * count
        yield _Block(size, slice(start, start + count), slice(row, end))
        row = end


def get_divergence(divergence: str) -> Divergence:
    """Look a divergence up by its name."""
    if not isinstance(divergence, str) or divergence not in DIVERGENCES:
        names = ", ".join(map(repr, DIVERGENCES))
        raise ValueError(f"divergence must be one of {names}, not {divergence!r}.")
    return DIVERGENCES[divergence]


@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionGoal(Goal):
    """The empirical proportion risk."""

    divergence: str

    def weights(self, bags: Bags) -> NDArray[np.float64]:
        """Each bag by its size."""
        check_contrast(bags)
        return np.repeat((bags.sizes / bags.sizes.sum())[:, None], bags.n_classes, axis=1)

    def objective(self, problems: Problems, bags: Bags, like: Any) -> ProportionRisk:
        """The risk of all problems."""
        return ProportionRisk(problems.weights, bags, self.loss, self.divergence, like)


def make_proportion_goal(settings: Any, bags: Bags) -> ProportionGoal:
    """Make the goal of an estimator from its settings."""
    get_divergence(settings.divergence)
    return ProportionGoal(
        loss=get_loss(settings.loss, bags.n_classes),
        class_prior=bags.class_shares,
        divergence=settings.divergence,
    )


class ProportionRiskClassifier(KernelClassifier):
    """Kernel classifier that gets the proportions of bags right: empirical proportion risk.

    Minimises, over the RKHS of the kernel,

        Σ_i (n_i/T) · d(p̂_i, γ_i) + α‖f‖²

    with p̂_i the mean chance of each class in bag i and γ_i its proportions; see
    :mod:`unbag.baselines.proportion_risk` for the divergences d. The risk is not convex; the
    search starts at f = 0, so that the same data give the same model.

    Parameters
    ----------
    alpha : float, default=1e-5
        Strength of the penalty.
    divergence : {"squared", "absolute", "cross_entropy"}, default="squared"
        How the mean chances in a bag are compared with its proportions. "absolute" has kinks,
        and takes many more iterations where the penalty is weak.
    kernel, gamma, degree, coef0, precision, max_iter, verbose
        As in `unbag.KernelMCMClassifier`.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at f = 0. Most of the
        latter says how common the classes are, so that 1e-3 is often too early to stop.

    Attributes
    ----------
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    classes_, dual_coef_, n_iter_, converged_
        As in `unbag.KernelMCMClassifier`.

    Examples
    --------
    >>> from unbag.baselines import ProportionRiskClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = fit_alpha

    def __init__(
        self,
        alpha: float = 1e-5,
        *,
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.divergence = divergence
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class ProportionRiskClassifierCV(KernelClassifier):
    """`ProportionRiskClassifier` that chooses its penalty by the risk of bags held out.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1e-2 to 1e-7.
    cv
        As in `unbag.KernelMCMClassifierCV`.
    divergence, kernel, gamma, degree, coef0, precision, tol, max_iter, verbose
        As in `ProportionRiskClassifier`.
    selection : {"pooled", "folds"}, default="pooled"
        Whether the risk of bags held out is taken over all of them together, or as the mean
        over folds of that of each fold.

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_
        As in `unbag.KernelMCMClassifierCV`.

    Examples
    --------
    >>> from unbag.baselines import ProportionRiskClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = search_alphas

    def __init__(
        self,
        alphas: Any = DEFAULT_ALPHAS,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        degree: int = 3,
        coef0: float = 1.0,
        precision: str = "single",
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.divergence = divergence
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.precision = precision
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class LinearProportionRiskClassifier(LinearClassifier):
    """Linear classifier that gets the proportions of bags right: empirical proportion risk.

    `ProportionRiskClassifier` with f(x) = xᵀw + b, for many rows and for sparse X. The penalty
    α‖w‖² leaves the intercept b free.

    Parameters
    ----------
    alpha, divergence
        As in `ProportionRiskClassifier`.
    fit_intercept, tol, max_iter, verbose
        As in `unbag.LinearMCMClassifier`.

    Attributes
    ----------
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    classes_, coef_, intercept_, n_iter_, converged_
        As in `unbag.LinearMCMClassifier`.

    Examples
    --------
    >>> from unbag.baselines import LinearProportionRiskClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearProportionRiskClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = fit_alpha

    def __init__(
        self,
        alpha: float = 1e-5,
        *,
        divergence: str = "squared",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.divergence = divergence
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose


class LinearProportionRiskClassifierCV(LinearClassifier):
    """`LinearProportionRiskClassifier` that chooses its penalty by the risk of bags held out.

    Parameters
    ----------
    alphas, cv, selection
        As in `ProportionRiskClassifierCV`.
    divergence, fit_intercept, tol, max_iter, verbose
        As in `LinearProportionRiskClassifier`.

    Attributes
    ----------
    alpha_, alphas_, selection_risks_, out_of_fold_scores_
        As in `unbag.KernelMCMClassifierCV`.

    Examples
    --------
    >>> from unbag.baselines import LinearProportionRiskClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = LinearProportionRiskClassifierCV().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _make_goal = make_proportion_goal
    _train = search_alphas

    def __init__(
        self,
        alphas: Any = DEFAULT_ALPHAS,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        divergence: str = "squared",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.divergence = divergence
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
