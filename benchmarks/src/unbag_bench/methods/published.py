"""Published methods of learning from label proportions, by name.

`unbag_bench.methods.published_methods` says what each minimises. Here it is minimised over linear
functions, and what a method leaves open is chosen by the error of held-out
bags, Σ_b (n_b/N) |p̂_b − γ_b|, which means the same for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints
from unbag._checks import check_grid
from unbag.bags.bags import Bags
from unbag.model_selection.splitters import check_cv, cut_by_folds, naming_fold
from unbag.observations.losses import get_loss
from unbag.paper.lbfgs import Criterion, FunctionSpace, Objective
from unbag.paper.minimisation import (
    PenaltyFits,
    RiskClassifierCV,
    check_selection,
    choose_penalty,
    fit_penalties,
)
from unbag.weights import check_contrast
from unbag_bench.methods.published_methods import BagTask, PublishedMethod, get_method


class BagError:
    """Error of the shares that scores predict, ½ Σ_c |p̂_bc − γ_bc|, in the mean over all rows.

    Parameters
    ----------
    bags : Bags
    loss : ClassLoss
        The link between scores and probabilities.
    """

    def __init__(self, bags: Bags, loss: Any) -> None:
        self._bags, self._loss = bags, loss
        self.n_outputs = loss.n_outputs(bags.n_classes)

    def value(self, scores: Array, problem: Ints) -> Floats:  # noqa: ARG002
        """Error per column."""
        means = self._bags.means(self._loss.probability(scores))
        shares = self._bags.clipped_proportions.T
        shares = shares[1:] if means.shape[1] == 1 else shares
        off = np.abs(means - shares).sum(axis=1) * (1.0 if len(shares) == 1 else 0.5)
        return off @ self._bags.sizes / self._bags.sizes.sum()


class PublishedClassifierCV(RiskClassifierCV):
    """A published method, its penalty and settings chosen by held-out bags.

    Minimises what the method says (:mod:`unbag_bench.methods.published_methods`) plus α‖w‖², over
    f(x) = xᵀw + b. ``docs/explanation/published-methods.md`` has the paper, the
    formula and the settings of each method.

    Parameters
    ----------
    method : str or PublishedMethod, default="dllp"
        One of ``unbag_bench.methods.PUBLISHED`` by its name, or one with other settings, such as
        ``EasyLLP(loss="squared")`` of :mod:`unbag_bench.methods.published_methods`.
    alphas : array-like, optional
        Penalties to choose from; by default half decades, as small as the method wants them.
    cv : as in `unbag.paper.LMMCMClassifierCV`
    selection : {"pooled", "folds"}, default="pooled"
        "pooled" chooses by the error Σ_b (n_b/N) |p̂_b − γ_b| of all held-out bags together,
        "folds" by its mean over folds.
    tol : float, default=1e-4
        Converged when the gradient's norm is below this share of that at f = 0.
    max_iter : as in `unbag.paper.LMMCMClassifierCV`

    Attributes
    ----------
    method_ : PublishedMethod
        The method with the settings that were chosen.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together, to which the probabilities belong.
    selection_risks_ : ndarray of shape (n_alphas,) or (n_folds, n_alphas)
        The error by which the penalty was chosen.

    Examples
    --------
    >>> from unbag_bench.methods import PublishedClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = PublishedClassifierCV("mm").fit(data.X, data.y)
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
        tol: float = 1e-4,
        max_iter: int = 1000,
    ) -> None:
        self.method = method
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.tol = tol
        self.max_iter = max_iter

    kernel = "linear"

    @property
    def loss(self) -> str:
        """The link between scores and probabilities, on which the method decides."""
        return get_method(self.method).loss

    def _prepare(self, X: Any, bags: Bags) -> None:  # noqa: ARG002
        self._loss = get_loss(self.loss, bags.n_classes)
        self.class_prior_ = bags.class_shares

    def _objective(self, bags: Bags, included: Bools) -> Objective:
        raise NotImplementedError("a published method is minimised by _train")

    def _criterion(self, bags: Bags) -> Criterion:
        check_contrast(bags)
        return BagError(bags, self._loss)

    def _train(
        self, space: FunctionSpace, X: Any, y: NDArray[Any], bags: Bags
    ) -> tuple[PenaltyFits, int]:
        method = get_method(self.method)
        self.alphas_ = check_grid(method.alphas if self.alphas is None else self.alphas, "alphas")[
            ::-1
        ]
        pieces, held = cut_by_folds(bags, check_cv(self.cv, X, y))
        check_selection(self.selection, held)
        for number, out in enumerate(held):
            with naming_fold(number, len(held)):
                check_contrast(pieces.take(~out)[0])
        task = BagTask(np.vstack([np.ones_like(held[:1]), ~held]), pieces, X)
        solver = {"tol": self.tol, "max_iter": int(self.max_iter)}

        def minimise(form: PublishedMethod, start: Any) -> PenaltyFits:
            objective = form.objective(task)
            return fit_penalties(
                objective, space, pieces, held, self.alphas_, start=start, **solver
            )

        first = method.start()
        start = None if first is None else minimise(first, None).theta
        lowest = np.inf
        for form in method.settings():
            fits = minimise(form, start)
            # from one setting it is not far to the next
            start = fits.theta
            risks = fits.risks(self._criterion, self.selection)
            best = choose_penalty(risks, self.tol)
            error = float(risks[..., best].mean())
            if error < lowest:
                lowest, found = error, (fits, best)
                self.method_, self.selection_risks_ = form, risks
        fits, best = found
        self.alpha_ = float(self.alphas_[best])
        self.out_of_fold_scores_ = fits.out_of_fold_scores(best)
        return fits, best
