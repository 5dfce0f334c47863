"""Empirical proportion risk (EPR): fit the proportion of every class in every bag.

With p̂_i[c] the mean probability of class c that a classifier gives to the instances of bag i, and
γ_i the known proportions, the empirical proportion risk is

    Σ_i (n_i/T) · d(p̂_i, γ_i),    T = Σ_i n_i,

where the divergence d is one of

    squared          ½ Σ_c (p̂[c] − γ[c])²,
    absolute         ½ Σ_c |p̂[c] − γ[c]|,
    cross-entropy    −Σ_c γ[c] log p̂[c].

For two classes the first two are (p̂ − γ)² and |p̂ − γ| of the positive class. On bags of one
instance the cross-entropy is the loss of logistic regression and the squared divergence the
Brier score.

A classifier can fit all proportions and misclassify single instances: the paper's appendix has an
example, and ``examples/proportion_risk_fails.py`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unbag._arrays import Array, Bools, Floats, Ints
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.observations.losses import ClassLoss, get_loss
from unbag.paper.lbfgs import Objective
from unbag.paper.minimisation import RiskClassifierCV, weights_by_problem
from unbag.weights import check_contrast

# Half decades from 1e-2 to 1e-7: differences of means are small, and so must their penalty be.
_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(4, 15))


# From log p̂ and γ, of shape (columns, classes, bags) or what broadcasts to it: d, summed over
# classes, and its derivative with respect to log p̂.
Divergence = Callable[[Floats, Floats], tuple[Floats, Floats]]


def _squared(log_share: Floats, proportions: Floats) -> tuple[Floats, Floats]:
    share = np.exp(log_share)
    gap = share - proportions
    return np.sum(gap**2, axis=1) / 2, gap * share


def _absolute(log_share: Floats, proportions: Floats) -> tuple[Floats, Floats]:
    share = np.exp(log_share)
    gap = share - proportions
    return np.sum(np.abs(gap), axis=1) / 2, np.sign(gap) * share / 2


def _cross_entropy(log_share: Floats, proportions: Floats) -> tuple[Floats, Floats]:
    return -np.sum(proportions * log_share, axis=1), -proportions


DIVERGENCES: dict[str, Divergence] = {
    "squared": _squared,
    "absolute": _absolute,
    "cross_entropy": _cross_entropy,
}


class ProportionRisk:
    """Empirical proportion risk in score space, for one or several sets of weights.

    With ℓ_c the logistic loss, e^{−ℓ_c(f)} is the probability of class c. So log p̂ comes from losses
    alone, and neither large scores nor shares of 0 and 1 do harm:

        log p̂_i[c] = log (1/n_i) Σ_{x in bag i} e^{−ℓ_c(f(x))},
        ∂ log p̂_i[c] / ∂ℓ_c(f(x)) = −e^{−ℓ_c(f(x))} / (n_i p̂_i[c]).

    Weights (n_problems, n_bags, n_classes) are the same for all classes; a bag of weight zero is held
    out. Rows of known label are bags of one instance.
    """

    def __init__(
        self,
        weights: Floats,
        bags: Bags,
        loss: ClassLoss,
        divergence: str = "squared",
    ) -> None:
        check_choice(divergence, DIVERGENCES, "divergence")
        self._divergence = DIVERGENCES[divergence]
        self._loss = loss
        self.n_outputs = loss.n_outputs(bags.n_classes)
        units, first = bags.with_labelled_rows_apart()
        whole = bags.index[first]
        table = (weights[None] if weights.ndim == 2 else weights)[:, :, 0]
        self._weights = table[:, whole] * (units.sizes / bags.sizes[whole])
        self._proportions, self._sizes = units.clipped_proportions.T[None], units.sizes
        # rows bag by bag, so that sums run over neighbours
        self._order = np.argsort(units.index, kind="stable")
        self._back, self._bag = np.argsort(self._order), units.index[self._order]
        self._starts = np.cumsum(units.sizes) - units.sizes

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Empirical proportion risk per column."""
        return self.value_and_gradient(scores, problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Empirical proportion risk per column and its gradient with respect to the scores."""
        scores, weights = scores[:, :, self._order], self._weights[problem]
        logs = -self._loss.losses(scores)
        largest = np.maximum.reduceat(logs, self._starts, axis=2)
        relative = np.exp(logs - largest[:, :, self._bag])
        sums = np.add.reduceat(relative, self._starts, axis=2)
        divergence, slope = self._divergence(
            largest + np.log(sums / self._sizes), self._proportions
        )
        pull = -weights[:, None, :] * slope / sums
        gradient = self._loss.pull_back(scores, relative * pull[:, :, self._bag])
        return np.sum(weights * divergence, axis=1), gradient[:, :, self._back]


def _by_size(bags: Bags) -> Any:
    """Weight of each bag, the same for all classes."""
    check_contrast(bags)
    return np.repeat((bags.sizes / bags.sizes.sum())[:, None], bags.n_classes, axis=1)


class ProportionRiskClassifier(RiskClassifierCV):
    """Classifier that fits the proportions of bags: empirical proportion risk.

    Minimises, over linear functions or those of the RKHS of a kernel,

        Σ_i (n_i/T) · d(p̂_i, γ_i) + α‖f‖²

    with p̂_i the mean probability of each class in bag i and γ_i its proportions; see
    `ProportionRisk` for the divergences d. The risk is not convex; the
    search starts at f = 0, so the same data give the same model. α is chosen by the risk of
    held-out bags.

    Parameters
    ----------
    alphas : array-like, optional
        Penalties to choose from; by default half decades from 1e-2 to 1e-7.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`, or fewer if there are fewer bags. A
        fold that holds out part of a bag is an error.
    selection : {"pooled", "folds"}, default="pooled"
        Whether the risk of held-out bags is taken over all of them together, or as the mean over
        folds of that of each fold.
    divergence : {"squared", "absolute", "cross_entropy"}, default="squared"
        How the mean probabilities in a bag are compared with its proportions. "absolute" has
        kinks, and takes many more iterations where the penalty is weak.
    kernel : {"rbf", "linear"}, default="rbf"
        Kernel of f. "linear" fits f(x) = xᵀw + b with an intercept b that is not penalised, for
        many rows and for sparse X.
    gamma : {"wide", "scale", "auto"} or float, default="wide"
        Width of "rbf": "scale" is 1/(d·Var(X)), "wide" half of that, and "auto" 1/d.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at f = 0. Most of the
        latter says how common the classes are, so 1e-3 is often too early to stop.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.

    Attributes
    ----------
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    alpha_, alphas_, selection_risks_, out_of_fold_scores_ : as in `LMMCMClassifierCV`
    classes_, n_iter_, converged_ : as in `LMMCMClassifier`
    coef_, kernel_, points_, dual_coef_, intercept_ : as in `LMMCMClassifier`
    empirical_prior_, n_features_in_, feature_names_in_ : as in `LMMCMClassifier`

    Examples
    --------
    >>> from unbag.paper import ProportionRiskClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ProportionRiskClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _default_alphas = _ALPHAS

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        divergence: str = "squared",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        tol: float = 1e-4,
        max_iter: int = 1000,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.divergence = divergence
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter

    def _prepare(self, X: Any, bags: Bags) -> None:  # noqa: ARG002
        check_choice(self.divergence, DIVERGENCES, "divergence")
        self._loss = get_loss("logistic", bags.n_classes)
        self.class_prior_ = bags.class_shares

    def _objective(self, bags: Bags, included: Bools) -> Objective:
        W = weights_by_problem(bags, included, _by_size)
        return ProportionRisk(W, bags, self._loss, self.divergence)
