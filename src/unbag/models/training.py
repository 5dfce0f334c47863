"""One fit or a whole search, wherever the instances are.

`fit` and `search` ask a `Backend` to solve all columns, a penalty and a problem each, and to say
what bags held out make of them. One backend has the instances in memory (`unbag.models.local`),
another in partitions (`unbag.distributed`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unbag._arrays import Bools, Floats
from unbag._checks import check_choice, check_positive
from unbag._text import counted
from unbag.bags.bags import Bags
from unbag.evaluation.bag_effects import BagEffect
from unbag.model_selection.folds import SearchFolds
from unbag.models.checks import check_alphas
from unbag.models.goals import Goal

Selection = Literal["pooled", "folds"]

# Folds in which effects of bags are looked for by a fit without a search.
EFFECT_FOLDS = 5

# So many times what a solver leaves undone, criteria of penalties count as equal.
_CAREFUL = 10.0


@dataclass(frozen=True, eq=False)
class Fits:
    """What is kept of solved columns.

    Attributes
    ----------
    theta : ndarray of shape (columns, coefficients)
    n_iter : ndarray of int, shape (columns,)
    converged : ndarray of bool, shape (columns,)
    """

    theta: NDArray[Any]
    n_iter: NDArray[np.int64]
    converged: Bools

    @property
    def failures(self) -> tuple[int, int]:
        """How many did not converge, and of how many."""
        return int((~self.converged).sum()), len(self.converged)

    def on_all_bags(self, n_penalties: int) -> Fits:
        """Fits of the first problem, which come first for each penalty."""
        every = slice(None, None, len(self.n_iter) // n_penalties)
        return Fits(self.theta[every], self.n_iter[every], self.converged[every])


class Solved(Protocol):
    """All penalties, solved on all bags and without those of each fold."""

    @property
    def fits(self) -> Fits:
        """All columns: for each penalty the fit on all bags, then those of the folds."""
        ...

    def risks(self, selection: Selection) -> Floats:
        """Criteria on bags held out: (criteria, penalties), or with folds in between."""
        ...

    def effect(self, penalty: int) -> BagEffect | None:
        """What bags leave unexplained by the models that did not see them, if all are held out.

        Without folds: by the model that saw them.
        """
        ...

    def dispersion(self, penalty: int) -> float:
        """How much more than by chance counts vary around what those models say, as a factor.

        Effects of bags, which some likelihoods allow for and others do not, are a part of that.
        """
        ...

    def out_of_fold_scores(self, penalty: int) -> Floats | None:
        """Scores of all instances by models that did not see their bag, where these are at hand."""
        ...

    def folds(self) -> SearchFolds | None:
        """What the model of every fold says, its penalty chosen by the others, if that can be."""
        ...


class Backend(Protocol):
    """Where the instances are.

    Attributes
    ----------
    bags : Bags
    held : ndarray of bool, shape (n_folds, n_bags)
        Bags that each fold holds out; at first there are no folds.
    tol : float
        Of the solver.
    """

    @property
    def bags(self) -> Bags:  # noqa: D102
        ...

    @property
    def held(self) -> Bools:  # noqa: D102
        ...

    @property
    def tol(self) -> float:  # noqa: D102
        ...

    def folded(self, cv: Any) -> Self:
        """Deal the bags out to folds."""
        ...

    def solve(self, goal: Goal, penalties: Floats) -> Solved:
        """Minimise the goal for every penalty, on all bags and without those of each fold."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What a fit or a search came to.

    Attributes
    ----------
    goal : Goal
        What was minimised in the end.
    solved : Solved
    fits : Fits
        On all bags, one for each penalty.
    best : int
        The penalty that was chosen.
    risks : ndarray or None
        The criteria it was chosen by.
    """

    goal: Goal
    solved: Solved
    fits: Fits
    best: int = 0
    risks: Floats | None = None


def fit(backend: Backend, goal: Goal, alpha: float) -> TrainingResult:
    """Fit one penalty; folds are looked at only if there is something to be learned from them."""
    penalty = np.array([float(alpha)])
    solved = backend.solve(goal, penalty)
    told, effect = goal, None
    if goal.asks_for_effect and not goal.asks_for_looks:
        # rows that the model saw only raise the suspicion
        effect = solved.effect(0)
        told = goal if effect is None else goal.told_of_effect(effect)
    only_told = effect is not None and effect.significant and effect.few_bags
    if goal.asks_for_looks or only_told or _differ(told, goal):
        folds = min(EFFECT_FOLDS, backend.bags.n_bags)
        told = _ask_folds(backend.folded(folds), goal, penalty, "pooled")[0]
        if _differ(told, goal):
            solved = backend.solve(told, penalty)
    return TrainingResult(told, solved, solved.fits)


def search(backend: Backend, goal: Goal, penalties: Floats, selection: Selection) -> TrainingResult:
    """Fit every penalty on all bags and on every fold, and choose.

    Parameters
    ----------
    selection : {"pooled", "folds"}
        Whether a criterion is that of all out-of-fold scores together, with the weights of all
        bags, or the mean over folds of that of each fold's bags alone.
    """
    check_choice(selection, get_args(Selection), "selection")
    if selection == "pooled" and not (backend.held.sum(axis=0) == 1).all():
        raise ValueError(
            "selection='pooled' needs a cv that holds out every bag exactly once, such as "
            "unbag.BagKFold; with other splitters use selection='folds'."
        )
    told, found = _ask_folds(backend, goal, penalties, selection)
    return _choose_once(backend, told, penalties, selection) if _differ(told, found.goal) else found


def _ask_folds(
    backend: Backend, goal: Goal, penalties: Floats, selection: Selection
) -> tuple[Goal, TrainingResult]:
    """Ask bags held out what the goal leaves open.

    The goal that they tell of may differ from that of what was found, which then is out of date.
    """
    found = _choose_once(backend, goal, penalties, selection)
    if goal.asks_for_looks:
        goal = goal.told_of_looks(found.solved.effect(found.best))
        if goal.asks_for_effect and _differ(goal, found.goal):
            found = _choose_once(backend, goal, penalties, selection)
    if goal.asks_for_effect:
        goal = _told_of_effect(goal, found.solved, found.best)
    if not _differ(goal, found.goal):
        found = TrainingResult(goal, found.solved, found.fits, found.best, found.risks)
    return goal, found


def _told_of_effect(goal: Goal, solved: Solved, penalty: int) -> Goal:
    effect = solved.effect(penalty)
    return goal if effect is None else goal.told_of_effect(effect)


def _differ(one: Goal, other: Goal) -> bool:
    """Whether something else is minimised."""
    return (one.bag_effect, one.looks) != (other.bag_effect, other.looks)


def _choose_once(
    backend: Backend, goal: Goal, penalties: Floats, selection: Selection
) -> TrainingResult:
    solved = backend.solve(goal, penalties)
    risks = solved.risks(selection)
    best = choose(risks, backend.tol)
    prior = goal.prior_of(penalties, backend.bags)
    if prior is not None:
        best = choose_with_prior(risks, prior, solved.dispersion(best))
    return TrainingResult(goal, solved, solved.fits.on_all_bags(len(penalties)), best, risks)


def choose(risks: Floats, tol: float = 0.0) -> int:
    """Choose the penalty that criteria rank best together, and of equals the strongest.

    The rank of a penalty is the number of those that are better, by more than a solver with such a
    tolerance may be off: ten times as large a share of what the best gains over the strongest.

    Parameters
    ----------
    risks : ndarray of shape (n_criteria, n_penalties) or (n_criteria, n_folds, n_penalties)
        The strongest penalty comes first.
    tol : float, default=0.0
    """
    criteria = _over_folds(risks)
    margin = _CAREFUL * tol * (criteria[:, 0] - criteria.min(axis=1))
    better = criteria[:, None, :] < (criteria - margin[:, None])[:, :, None]
    return int(np.argmin(better.sum(axis=(0, 2))))


def choose_with_prior(risks: Floats, prior: Floats, dispersion: float) -> int:
    """Choose the penalty that is likeliest by bags held out and by what is known beforehand.

    Rows of a bag are not independent where counts vary more than by chance. So the log-likelihood,
    the mean of those that penalties are ranked by, is divided by the dispersion.

    Parameters
    ----------
    risks : as in choose
        Negative log-likelihoods per instance.
    prior : ndarray of shape (n_penalties,)
        −log of what is known of penalties beforehand, per instance.
    dispersion : float
        Less than one counts as one.
    """
    return int(np.argmin(_over_folds(risks).mean(axis=0) / max(dispersion, 1.0) + prior))


def _over_folds(risks: Floats) -> Floats:
    """Criteria (n_criteria, n_penalties), which must be finite."""
    criteria = risks if risks.ndim == 2 else risks.mean(axis=1)
    if not np.isfinite(criteria).all():
        raise FloatingPointError("The selection criterion is not finite for every alpha.")
    return criteria


def fit_alpha(estimator: Any, backend: Backend, goal: Goal) -> TrainingResult:
    """Train an estimator that has one penalty, ``alpha``."""
    check_positive(estimator.alpha, "alpha")
    return fit(backend, goal, estimator.alpha)


def search_alphas(estimator: Any, backend: Backend, goal: Goal) -> TrainingResult:
    """Train an estimator that chooses among ``alphas``, and tell what it chose by."""
    penalties = check_alphas(estimator.alphas)
    found = search(backend.folded(estimator.cv), goal, penalties, estimator.selection)
    tell_search(estimator, penalties, found)
    return found


def tell_search(estimator: Any, penalties: Floats, found: TrainingResult) -> None:
    """Keep what an estimator chose, and what by."""
    estimator.alphas_, estimator.alpha_ = penalties, float(penalties[found.best])
    risks = found.risks
    estimator.selection_risks_ = risks[0] if risks is not None and len(risks) == 1 else risks
    estimator.out_of_fold_scores_ = found.solved.out_of_fold_scores(found.best)
    if getattr(estimator, "store_folds", False):
        estimator.folds_ = found.solved.folds()


def warn_not_converged(
    n_failed: int, n_fits: int, max_iter: int, steps: str = "iterations"
) -> None:
    """Say that fits were given up after so many steps."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of {counted(n_fits, 'fit')} did not converge within max_iter={max_iter} "
            f"{steps}; raise max_iter or tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=3,
        )
