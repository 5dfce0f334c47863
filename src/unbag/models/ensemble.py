"""Several learners on the same bags, and the mixture of them that bags held out bear out best."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from unbag._checks import check_positive
from unbag._deadlines import OutOfTimeError, deadline
from unbag._optional import install_command
from unbag._outputs import by_instance, by_output
from unbag.bags.bags import Bags
from unbag.evaluation.bag_effects import are_few, effect_of_scores
from unbag.model_selection.folds import SearchFolds, collect_folds
from unbag.model_selection.out_of_fold import look_at_folds
from unbag.model_selection.splitters import KnownFolds, check_cv, cut_by_folds
from unbag.models.bag_goal import make_bag_goal
from unbag.models.base import LogOddsClassifier
from unbag.models.boosted import DEFAULT_LEAVES, LLPBoostingClassifier
from unbag.models.goals import Goal
from unbag.models.kernel import LLPKernelClassifierCV
from unbag.models.linear import LLPLinearClassifier, LLPLinearClassifierCV
from unbag.models.mixing import TEMPERATURE, Mixture, fit_mixture

# Rows up to which the kernel matrix is computed whole, and beyond which even its approximation
# takes longer than people wait.
_WHOLE_KERNEL, _MOST_FOR_KERNEL = 5_000, 60_000
_LANDMARKS = 500

# Trees of so many leaves are compared where there are as many rows: half of the usual numbers.
_FEW_LEAVES = (4, 16)

# Rows that tell mean chances of the mixture, to a third of a point.
_ROWS_FOR_MEANS = 20_000

# With fewer, there are no two bags to learn from while another one is held out.
_FEWEST_BAGS = 3

# With fewer, there are no two folds of two bags, which differ.
_FEWEST_FOR_SEVERAL = 4

# With fewer, the likelihood of bags held out tells too little of learners (docs/which-model.md).
_FEWEST_TO_COMPARE = 10

LEARNERS = ("linear", "kernel", "boosted", "neural")


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A learner that was trained on all bags and without those of each fold."""

    name: str
    model: Any
    folds: SearchFolds
    seconds: float


class LLPEnsembleClassifier(LogOddsClassifier):
    """Linear, kernel and boosted models on the same bags, mixed by what held-out bags say of them.

    All learners choose their settings on the same folds of whole bags. Each then counts by the
    likelihood of the counts of bags that it did not see (:mod:`unbag.models.mixing`), and the
    chances of the mixture are calibrated on the same bags, so that ``predict_proba`` gives
    probabilities for the population of the training bags. No label is needed for any of it.

    Parameters
    ----------
    learners : "auto", str, list of str or dict, default="auto"
        ``"linear"``, ``"kernel"``, ``"boosted"`` (LightGBM, the extra ``boosting``) and
        ``"neural"`` (torch, the extra ``torch``). ``"auto"`` takes the first three: the kernel up
        to 60,000 rows, from 5,000 on by 500 landmarks, and trees where LightGBM is installed, of 4
        or 16 leaves where there are more rows. A dict gives names to classifiers of your own, whose
        ``decision_function`` must be log-odds at ``class_prior``. With fewer than ten bags
        ``"auto"`` is the linear model alone: so few do not tell which is better, nor how loud it
        should be. So it is with up to 32 bags of two classes that differ in who is in them. One
        learner needs three bags, several need four.
    temperature : float, default=16.0
        By how many units of log-likelihood a learner must lead to count e times as much as
        another. The smaller, the nearer to the best one alone.
    cv : int, splitter or iterable, default=5
        Folds of whole bags that hold out every bag exactly once, the same for all learners; a
        number is reduced to half that of the bags, or to that of the bags for one learner alone.
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Shares of the classes that scores, predictions and probabilities are for: those of the
        training bags, unlike in single learners, equal ones, or others.
    time_limit : float, optional
        Seconds for the learners together: after so many, the one that is being trained is left out,
        and so are those to come. The first is trained in any case, and a classifier that is not of
        this package, once begun, to its end.
    random_state : int, default=0
        Of the learners.
    n_jobs : int, optional
        Threads of the trees.
    verbose : int, default=0
        Whether to show progress bars.

    Attributes
    ----------
    leaderboard_ : list of dict
        What was compared, best first: ``learner``, ``loss`` (negative log-likelihood of held-out
        counts per row), ``weight`` in the mixture, ``seconds``, and a ``note`` on those that were
        left out. ``pandas.DataFrame(model.leaderboard_)`` is a table of it.
    models_ : list of classifier
        The fitted learners that count, the best first.
    mixture_ : Mixture
        How they are put together.
    best_estimator_ : classifier
        The first of ``models_``.
    objective_ : {"likelihood", "forward"}
        What the best learner minimised.
    bag_effect_ : float
        The variance of bag effects that the best learner used.
    bag_effect_interval_ : ndarray of shape (2,)
        95% interval of its estimate; NaN if there was none.
    looks_ : float
        1 if its likelihood of noisy counts is that of classes that keep their look, 0 otherwise.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each row by learners that did not see its bag, mixed by what the others say.
    folds_ : SearchFolds
        The same for all folds, by which `unbag.evaluation.evaluate_cv` tells how good the model
        is; not saved with the model.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in the order of columns of chances.
    class_prior_ : ndarray of shape (n_classes,)
        Shares of the classes that the model was trained for.
    empirical_prior_ : ndarray of shape (n_classes,)
        Share of each class among all instances of training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any that are texts.

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=20, random_state=0)
    >>> model = LLPEnsembleClassifier(learners=["linear", "kernel"]).fit(data.X, data.y)
    >>> sorted(row["learner"] for row in model.leaderboard_)
    ['kernel', 'linear']
    >>> bool(abs(model.predict_proba(data.X)[:, 1].mean() - data.labels.mean()) < 0.05)
    True
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        learners: Any = "auto",
        *,
        temperature: float = TEMPERATURE,
        cv: Any = 5,
        class_prior: Any = "empirical",
        time_limit: float | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.learners = learners
        self.temperature = temperature
        self.cv = cv
        self.class_prior = class_prior
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train all learners on the same folds, and mix them."""
        X, bags = self._check_Xy(X, y)
        n_units = _n_units(bags)
        if n_units < _FEWEST_BAGS:
            raise ValueError(
                f"a model needs three bags to choose its settings by, and there are {n_units}"
            )
        check_positive(self.temperature, "temperature")
        if self.time_limit is not None:
            check_positive(self.time_limit, "time_limit")
        learners, notes = self._learners(X.shape[0], n_units)
        if len(learners) > 1 and n_units < _FEWEST_FOR_SEVERAL:
            raise ValueError(
                f"{', '.join(learners)} need four bags to be compared by, and there are {n_units}; "
                "name one of them."
            )
        # where learners are compared, no more folds than pairs of bags: those held out can differ
        most = n_units if len(learners) == 1 else n_units // 2
        cv = min(self.cv, most) if isinstance(self.cv, int) else self.cv
        rows_held = check_cv(cv, X, np.asarray(y))
        bags, held = cut_by_folds(bags, rows_held)
        found, late = self._train_all(learners, X, np.asarray(y), rows_held, bags)
        notes |= late
        goal = self._goal(bags, found)
        self.class_prior_ = goal.class_prior
        self._keep(goal, bags, held, found, notes, _safe_indexing(X, _some_rows(X.shape[0])))
        return self

    def _learners(self, n_rows: int, n_units: int) -> tuple[dict[str, Any], dict[str, str]]:
        """Estimators by name, and why others are left out."""
        if not isinstance(self.learners, str):
            names = list(self.learners)
            if not names:
                raise ValueError("learners is empty; name one at least, such as 'linear'.")
            if isinstance(self.learners, Mapping):
                return dict(self.learners), {}
            return {name: self._learner(name, n_rows) for name in names}, {}
        if self.learners != "auto":
            return {self.learners: self._learner(self.learners, n_rows)}, {}
        if n_units < _FEWEST_TO_COMPARE:
            reason = f"{n_units} bags do not tell which learner is better"
            return {"linear": self._learner("linear", n_rows)}, dict.fromkeys(
                ("kernel", "boosted"), reason
            )
        notes = {}
        if n_rows > _MOST_FOR_KERNEL:
            notes["kernel"] = f"takes too long for more than {_MOST_FOR_KERNEL:,} rows"
        if find_spec("lightgbm") is None:
            notes["boosted"] = f"needs LightGBM: {install_command('boosting')}"
        names = [name for name in ("linear", "kernel", "boosted") if name not in notes]
        return {name: self._learner(name, n_rows) for name in names}, notes

    def _learner(self, name: str, n_rows: int) -> Any:
        shared = {"class_prior": self.class_prior}
        if name == "linear":
            return LLPLinearClassifierCV(store_folds=True, **shared)
        if name == "kernel":
            whole = n_rows <= _WHOLE_KERNEL
            return LLPKernelClassifierCV(
                store_folds=True,
                approximation="auto" if whole else "nystroem",
                n_components=_LANDMARKS,
                random_state=self.random_state,
                **shared,
            )
        if name == "boosted":
            leaves = DEFAULT_LEAVES if n_rows <= _MOST_FOR_KERNEL else _FEW_LEAVES
            return LLPBoostingClassifier(
                num_leaves=leaves,
                store_folds=True,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
                **shared,
            )
        if name == "neural":
            from unbag.models.neural import LLPNeuralClassifier

            return LLPNeuralClassifier(random_state=self.random_state, **shared)
        raise ValueError(f"learners has {name!r}; known are 'auto' and {', '.join(LEARNERS)}.")

    def _train_all(
        self, learners: dict[str, Any], X: Any, y: NDArray[Any], held: NDArray[np.bool_], bags: Bags
    ) -> tuple[list[_Candidate], dict[str, str]]:
        """Train one learner after the other while there is time, and the bags ask for more."""
        found: list[_Candidate] = []
        notes: dict[str, str] = {}
        end = time.monotonic() + (self.time_limit or math.inf)
        for name, learner in learners.items():
            start = time.monotonic()
            if len(found) == 1 and self.learners == "auto" and _suit_linear(found[0], bags):
                notes[name] = "few bags that differ in who is in them are left to the linear model"
                continue
            if found and start > end:
                notes[name] = f"not begun within the time limit of {self.time_limit:g} s"
                continue
            try:
                with deadline(end if found else math.inf):
                    model, folds = _train(learner, X, y, held, self.verbose)
            except OutOfTimeError:
                notes[name] = f"stopped at the time limit of {self.time_limit:g} s"
                continue
            found.append(_Candidate(name, model, folds, time.monotonic() - start))
        return found, notes

    def _goal(self, bags: Bags, found: list[_Candidate]) -> Goal:
        """The likelihood by which all are judged, with the least effect of bags that one found."""
        goal = make_bag_goal(LLPLinearClassifier(class_prior=self.class_prior), bags)
        effect = min(getattr(one.model, "bag_effect_", 0.0) for one in found)
        looks = getattr(found[0].model, "looks_", 0.0)
        return replace(
            goal, bag_effect=effect, looks=looks, asks_for_effect=False, asks_for_looks=False
        )

    def _keep(
        self,
        goal: Goal,
        bags: Bags,
        held: NDArray[np.bool_],
        found: list[_Candidate],
        notes: dict[str, str],
        some: Any,
    ) -> None:
        """Mix on all bags, and for every fold on the others; `some` rows tell mean chances."""
        held_out = [one.folds.held_out for one in found]
        enough = _n_units(bags) >= _FEWEST_TO_COMPARE
        mixture = fit_mixture(goal, bags, held_out, self.temperature, stretched=enough)
        order = np.argsort(mixture.losses, kind="stable")
        self.leaderboard_: list[dict[str, Any]] = [
            {
                "learner": found[i].name,
                "loss": float(mixture.losses[i]),
                "weight": float(mixture.weights[i]),
                "seconds": round(found[i].seconds, 2),
                "note": "",
            }
            for i in order
        ]
        self.leaderboard_ += [
            {"learner": name, "loss": None, "weight": 0.0, "seconds": 0.0, "note": note}
            for name, note in notes.items()
        ]
        self.models_ = [found[i].model for i in order]
        self.mixture_ = Mixture(
            mixture.losses[order],
            mixture.weights[order],
            mixture.slopes[order],
            mixture.intercepts,
        ).at_shares(self._scores_of_models(some), bags.class_shares, goal.class_prior)
        self.best_estimator_ = self.models_[0]
        for name in ("objective_", "bag_effect_", "bag_effect_interval_", "looks_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))

        def scores_of_fold(number: int) -> NDArray[np.float64]:
            part, rows = bags.take(~held[number])
            others = [one[:, rows] for one in held_out]
            own = fit_mixture(goal, part, others, self.temperature, stretched=enough)
            scores = [one.folds.scores[number] for one in found]
            seen = [one[:, rows] for one in scores]
            return own.at_shares(seen, part.class_shares, goal.class_prior)(scores)

        fold = found[0].folds.fold
        self.folds_ = collect_folds(fold, map(scores_of_fold, range(len(held))), True)

    @property
    def out_of_fold_scores_(self) -> NDArray[np.float64]:
        """Scores of each row by learners that did not see its bag, mixed by the other folds."""
        return by_instance(self.folds_.held_out)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        return self.mixture_(self._scores_of_models(X))

    def _scores_of_models(self, X: Any) -> list[NDArray[np.float64]]:
        return [by_output(model.decision_function(X)) for model in self.models_]


def _suit_linear(linear: _Candidate, bags: Bags) -> bool:
    """Whether the linear model learns most: few bags tell that rows keep their odds.

    That is how it was in ten to thirty bags of two classes (results/mixing_odds.md).
    """
    if bags.n_classes > 2 or bags.labelled.any() or not are_few(bags):
        return False
    scores = by_instance(linear.folds.held_out)
    return effect_of_scores(bags, scores, linear.model.class_prior_).shift_type == "covariate_shift"


def _n_units(bags: Bags) -> int:
    """How many can be held out: bags, and rows of known label one by one."""
    return int((~bags.labelled).sum() + bags.sizes[bags.labelled].sum())


def _some_rows(n: int) -> NDArray[np.intp]:
    """Rows that tell mean chances."""
    return np.sort(np.random.default_rng(0).permutation(n)[:_ROWS_FOR_MEANS])


def _train(
    learner: Any, X: Any, y: NDArray[Any], held: NDArray[np.bool_], verbose: int
) -> tuple[Any, SearchFolds]:
    """A learner of all bags, and what it says of each when it did not see it."""
    model = _fit(learner, X, y, held, verbose)
    # of every row: mixed with those of others, and no part of the model
    folds = vars(model).pop("folds_", None)
    vars(model).pop("out_of_fold_scores_", None)
    return model, _cross_fit(learner, X, y, held, verbose) if folds is None else folds


def _fit(learner: Any, X: Any, y: NDArray[Any], held: NDArray[np.bool_], verbose: int) -> Any:
    model = clone(learner)
    parameters = model.get_params(deep=False)
    settings: dict[str, Any] = {"verbose": verbose} if "verbose" in parameters else {}
    if "store_folds" not in parameters:
        return model.set_params(**settings).fit(X, y)
    model.set_params(**settings, cv=KnownFolds(held)).fit(X, y)
    # kept in the model, folds of all rows would make its file as large as the table
    return model.set_params(cv=parameters["cv"])


def _cross_fit(
    learner: Any, X: Any, y: NDArray[Any], held: NDArray[np.bool_], verbose: int
) -> SearchFolds:
    """What a learner without folds of its own says, trained once more for each."""

    def look(model: Any, _: Any) -> NDArray[Any]:
        return by_output(model.decision_function(X))

    scores, fold = look_at_folds(learner, X, y, look, cv=KnownFolds(held), verbose=verbose)
    return collect_folds(fold, scores, True)
