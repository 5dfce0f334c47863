"""Soft labels: every instance takes the proportions of its bag for its own.

The logistic loss of instances whose labels are uncertain in this way,

    (1/T) Σ_j Σ_c γ_{bag of j}[c] · ℓ_c(f(x_j)),

is Σ_c π_c Σ_i W[i, c] · (mean of ℓ_c over bag i) with W[i, c] = n_i γ_i[c] / Σ_k n_k γ_k[c] and π
the shares of the classes in all bags. So it has the form of the corrected risk, with weights that
correct nothing, and π may be another prior.

What such a classifier learns is E[γ | x], the mean proportion of the bags that an instance may
come from. For two classes with densities p₊ and p₋ it rises with p₊/p₋ and equals the mean of γ
where p₊ = p₋. So a flexible model ranks instances well, and under the balanced prior gets the
sign of the score right, but its probabilities stay between the smallest and the largest
proportion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Bools, Floats
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.observations.losses import get_loss
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.lbfgs import Objective
from unbag.paper.minimisation import RiskClassifier, RiskClassifierCV, weights_by_problem
from unbag.weights import check_contrast


class _SoftLabelModel(RiskClassifier):
    """The loss of instances that take the proportions of their bags for labels."""

    class_prior: Any

    def _prepare(self, X: Any, bags: Bags) -> None:  # noqa: ARG002
        self._loss = get_loss("logistic", bags.n_classes)
        self.class_prior_ = resolve_class_prior(self.class_prior, bags.class_shares)

    def _objective(self, bags: Bags, included: Bools) -> Objective:
        W = weights_by_problem(bags, included, self._weights)
        # the weights say how much each class counts, since shares differ from fold to fold
        once = np.ones(bags.n_classes)
        return CorrectedRisk(W, bags, self._loss, once, "none")

    def _weights(self, bags: Bags) -> Floats:
        check_contrast(bags)
        prior = resolve_class_prior(self.class_prior, bags.class_shares)
        expected = bags.sizes[:, None] * bags.clipped_proportions
        return expected / expected.sum(axis=0) * prior


class SoftLabelClassifier(_SoftLabelModel):
    """Logistic regression on the proportions of bags as soft labels.

    Minimises, over linear functions or those of the RKHS of a kernel,

        Σ_c π_c · (Σ_j γ_{bag of j}[c] · ℓ_c(f(x_j))) / (Σ_j γ_{bag of j}[c]) + α‖f‖²

    with ℓ the logistic loss and π the class prior. Probabilities are those of the mixture that an
    instance comes from, and so less extreme than those of the instance. On plain labels, with
    ``kernel="linear"`` and ``class_prior="empirical"``, this is ``LogisticRegression(C=1/(2αn))``.

    Parameters
    ----------
    alpha : float, default=1e-3
        Regularisation strength.
    class_prior : {"balanced", "empirical"} or array-like, default="balanced"
        How much each class counts. "empirical" counts all instances alike: the plain loss of
        soft labels, under which few bags with mostly positives mean few positive predictions.
    kernel, gamma : as in `unbag.paper.LMMCMClassifier`
    tol : float, default=1e-3
        Converged when the gradient's norm is below this share of that at f = 0.
    max_iter : int, default=1000
        Iterations after which the fit is given up, with a ConvergenceWarning.

    Examples
    --------
    >>> from unbag_bench.methods import SoftLabelClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = SoftLabelClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        class_prior: Any = "balanced",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        tol: float = 1e-3,
        max_iter: int = 1000,
    ) -> None:
        self.alpha = alpha
        self.class_prior = class_prior
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter


class SoftLabelClassifierCV(RiskClassifierCV, _SoftLabelModel):
    """`SoftLabelClassifier` that chooses its penalty by the soft-label loss of held-out bags.

    Parameters
    ----------
    alphas, cv : as in `unbag.paper.LMMCMClassifierCV`
    selection : {"pooled", "folds"}, default="pooled"
        Whether the loss of held-out bags is taken over all of them together, or as the mean over
        folds of that of each fold.
    class_prior, kernel, gamma, tol, max_iter : as in `SoftLabelClassifier`

    Examples
    --------
    >>> from unbag_bench.methods import SoftLabelClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = SoftLabelClassifierCV(kernel="linear").fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
        cv: Any = 5,
        selection: str = "pooled",
        class_prior: Any = "balanced",
        kernel: str = "rbf",
        gamma: str | float = "wide",
        tol: float = 1e-3,
        max_iter: int = 1000,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.class_prior = class_prior
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
