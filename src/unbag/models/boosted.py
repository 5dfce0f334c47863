"""Boosted trees trained from bags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from unbag._docstrings import as_in
from unbag._outputs import by_instance
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.model_selection.folds import collect_folds
from unbag.model_selection.splitters import check_cv, cut_by_folds
from unbag.models.bag_goal import BagGoal
from unbag.models.base import LogOddsClassifier
from unbag.models.boosted_goal import make_goal_at_equal_shares
from unbag.models.boosted_library import TreeShape
from unbag.models.boosted_search import Look
from unbag.models.boosted_settings import LIBRARIES, make_plan, takes_sparse
from unbag.models.boosted_start import fill_gaps
from unbag.models.boosted_training import Trained, Trainer, effect_here
from unbag.models.categories import encode_categories, find_categories
from unbag.models.linear import LLPLinearClassifier
from unbag.models.row_order import RowOrder, order_by_bag

# Leaves to choose from: stumps for effects that add up, more for those that depend on each other.
DEFAULT_LEAVES = (2, 4, 8, 16)


@as_in(LLPLinearClassifier)
class LLPBoostingClassifier(LogOddsClassifier):
    """Boosted trees trained from the class proportions of bags.

    Trees of LightGBM or XGBoost, grown by the gradient of the negative log-likelihood of the counts
    of bags (:mod:`unbag.observations.count_likelihood`): each round asks anew how probable the
    classes of a row are, given its score and the counts of its bag, and the next tree brings the
    scores nearer. How many leaves a tree has and how many rounds there are is chosen on bags held
    out, without a label. Columns need not be scaled, values may be missing, and categories of a
    data frame are taken as such.

    Parameters
    ----------
    num_leaves : int or list of int, default=(2, 4, 8, 16)
        Leaves of a tree, or numbers of them to choose from.
    n_estimators : int, default=300
        Number of rounds at most, or exactly so many with ``cv=None``. Every round grows one tree,
        or one for every class if there are more than two.
    learning_rate : float, default=0.4
        How far each tree leads, at most 1.
    early_stopping_rounds : int, default=20
        Trees of a kind are given up if bags held out gained nothing in so many rounds, or too
        little to come up with others.
    min_child_weight : float, default=5.0
        Least curvature in a leaf, which is p(1 − p) summed over its rows: of rows that could be
        either, four to a unit.
    reg_lambda : float, default=10.0
        Added to the curvature of every leaf: the larger, the smaller the steps of small leaves.
    colsample_bytree : float, default=1.0
        Share of the columns that each tree may use.
    start : {"auto", "linear", "zero"}, default="auto"
        What trees are added to: a linear function of the numbers in X, fitted to the same bags with
        a penalty chosen on bags held out, or nothing. "auto" is "linear" with up to 4,096 rows,
        or up to 16,384 in bags that are worth at most 128 labelled ones (`unbag.effective_sample_size`),
        which teach a linear function sooner than trees (benchmarks/results/boosted_choices.md), and "zero"
        with more or with ``cv=None``.
    objective : {"auto", "likelihood", "forward"}, default="auto"
        What is minimised: the likelihood of the counts, or that of single rows. "auto" is
        "likelihood", but "forward" if shares are not those of whole counts.
    bag_effect : "auto" or float, default="auto"
        Variance of what bags differ by beyond their rows, as in `unbag.LLPKernelClassifier`.
        "auto" estimates it from bags held out, and is 0 with ``cv=None``.
    class_prior : as in LLPLinearClassifier
    cv : int, splitter, iterable of splits or None, default=10
        Folds that hold out every bag exactly once; an integer means so many of `unbag.BagKFold`,
        or as many as there are bags. With None nothing is chosen, and trees are grown on all bags
        once.
    temperature : float, default=0.0
        Where it is not 0, scores are a mean over numbers of leaves and rounds, each of which counts
        by the likelihood of bags held out: by so many units of log-likelihood one must lead to
        count e times as much as another. 0 takes the best alone. With ``start="zero"`` 1 was better
        in bags whose shares differ, by little; with a linear start there was nothing gained
        (benchmarks/results/boosted_choices.md).
    store_folds : bool, default=False
        Whether to keep ``folds_``, by which `unbag.evaluation.evaluate_cv` tells how good the
        model is without fitting anything again.
    refit : bool, default=False
        Whether to grow trees on all bags once more, with the leaves and rounds that were best. By
        default scores are the mean of those by the trees of all folds, which was more accurate
        (benchmarks/results/boosted_choices.md) and takes longer to predict.
    estimator : classifier, optional
        An unfitted ``xgboost.XGBClassifier`` or ``lightgbm.LGBMClassifier``, whose library and
        settings are used to grow trees; by default LightGBM. What it sets otherwise than its class
        does by default goes before the parameters here: its number of rounds is the most there may
        be, its leaves are the only ones. XGBoost takes no sparse matrices here.
    params : dict, optional
        Further parameters of the library, such as ``{"max_bin": 63}``.
    n_jobs : int, optional
        Number of threads, −1 for all; by default all if the table is large. The model is the same
        whatever it is.
    random_state : int, default=0
        Seed of the library, for ``colsample_bytree``.
    verbose : as in LLPLinearClassifier

    Attributes
    ----------
    classes_, class_prior_ : as in LLPLinearClassifier
    library_ : {"lightgbm", "xgboost"}
        What grew the trees.
    num_leaves_ : int
        The number of leaves that was best.
    n_estimators_ : int
        The number of rounds that was best; 0 if trees added nothing to what they start from.
    start_coef_ : ndarray of shape (n_outputs, n_features)
        Coefficients of the linear function that trees are added to: zero where they start from
        nothing, and for categories. There is one output for two classes, else one for each.
    start_intercept_ : ndarray of shape (n_outputs,)
        Its constant, at equal class shares.
    start_fill_ : ndarray of shape (n_features,)
        What it takes for values that are missing: the mean of a column, or 0 in a sparse matrix.
    selection_path_ : list of tuple (num_leaves, rounds, criteria)
        What was looked at: numbers of rounds, and by line the criteria on bags held out, of which
        the sum of ranks says what is best. Empty with ``cv=None``.
    out_of_fold_scores_ : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each instance by the trees that did not see its bag. None with ``cv=None``.
    folds_ : SearchFolds
        Scores of all rows by the trees of every fold, leaves and rounds weighed by the other folds;
        only with ``store_folds``, and not saved with the model.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in all that splits gained, beyond what trees were added to.
    categories_ : dict
        Categories of the columns that hold any, by the position of the column.
    objective_, bag_effect_, bag_effect_interval_, looks_ : as in LLPLinearClassifier
    model_texts_ : list of str
        The trees as their library writes them: ``lightgbm.Booster(model_str=...)`` reads them, or
        ``load_model(bytearray(..., "utf-8"))`` of an ``xgboost.Booster``. There is one text for
        each fold and number of leaves that counts, or one in all; leaves of trees are multiplied
        by what their round counts. The mean of their scores, and what they are added to, is
        log-odds at equal class shares.
    empirical_prior_, n_features_in_, feature_names_in_ : as in LLPLinearClassifier

    Examples
    --------
    >>> from unbag import LLPBoostingClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, bag_size=8, random_state=0)
    >>> model = LLPBoostingClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _accept_sparse = "csr"

    library_: str
    model_texts_: list[str]
    num_leaves_: int
    n_estimators_: int
    start_coef_: NDArray[np.float64]
    start_intercept_: NDArray[np.float64]
    start_fill_: NDArray[np.float64]
    feature_importances_: NDArray[np.float64]
    selection_path_: list[Look]
    objective_: str
    bag_effect_: float
    bag_effect_interval_: NDArray[np.float64]
    looks_: float
    out_of_fold_scores_: NDArray[np.float64] | None

    def __init__(
        self,
        num_leaves: Any = DEFAULT_LEAVES,
        *,
        n_estimators: int = 300,
        learning_rate: float = 0.4,
        early_stopping_rounds: int = 20,
        min_child_weight: float = 5.0,
        reg_lambda: float = 10.0,
        colsample_bytree: float = 1.0,
        start: str = "auto",
        objective: Any = "auto",
        bag_effect: str | float = "auto",
        class_prior: Any = "balanced",
        cv: Any = 10,
        temperature: float = 0.0,
        store_folds: bool = False,
        refit: bool = False,
        estimator: Any = None,
        params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.num_leaves = num_leaves
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.early_stopping_rounds = early_stopping_rounds
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.colsample_bytree = colsample_bytree
        self.start = start
        self.objective = objective
        self.bag_effect = bag_effect
        self.class_prior = class_prior
        self.cv = cv
        self.temperature = temperature
        self.store_folds = store_folds
        self.refit = refit
        self.estimator = estimator
        self.params = params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = takes_sparse(self.estimator)
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Choose rounds and leaves on bags held out, and grow the trees."""
        X, bags = self._check_Xy(X, y)
        plan = make_plan(self)
        goal, held = check_goal(self, bags), None
        order = order_by_bag(X, bags)
        bags = bags.reordered(order.arrange)
        if self.cv is not None:
            unseen = check_cv(no_more_folds(self.cv, bags), X, np.asarray(y))
            bags, held = cut_by_folds(bags, order.arrange(unseen.T).T)
        X = order.arrange(X)
        categorical = list(self.categories_)
        rows = plan.library.rows(X, categorical, plan.settings)
        trainer = Trainer(X, rows, bags, plan, categorical, self.verbose, self.store_folds)
        trained = trainer.run(goal, held, self.refit, effect_here)
        keep_trees(self, plan.name, trained, order)
        return self

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        if reset:
            self.categories_ = find_categories(X)
        if not self.categories_:
            found: Any = super()._check_X(X, reset=reset)
            # the libraries know SciPy's matrices, and not yet its arrays
            sparse = bool(issparse(found))
            return csr_matrix(found) if sparse else found
        table = encode_categories(X, self.categories_)
        validate_data(self, X, reset=reset, skip_check_array=True)
        self._check_finite(table)
        return table

    def _check_finite(self, X: Any) -> None:
        values: NDArray[Any] = X.data if issparse(X) else X  # type: ignore[attr-defined]
        if np.isinf(values).any():
            raise ValueError(
                "X holds infinity, which trees cannot split by; put a finite number or NaN, for a "
                "value that is missing, in its place."
            )

    def _scores(self, X: Any) -> NDArray[Any]:
        n_categories = max(map(len, self.categories_.values()), default=0)
        shape = TreeShape(self.n_features_in_, self._n_outputs, n_categories)
        read = LIBRARIES[self.library_].read
        start: NDArray[Any] = (fill_gaps(X, self.start_fill_) @ self.start_coef_.T).T
        start = start + (self.start_intercept_ + _prior_scores(self.class_prior_))[:, None]
        parts = [read(text, shape)(X) for text in self.model_texts_]
        return np.mean(parts, axis=0) + start if parts else start

    @property
    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)


def check_goal(model: LLPBoostingClassifier, bags: Bags) -> BagGoal:
    """What is to be minimised, as far as it is known before anything is fitted."""
    model.class_prior_ = resolve_class_prior(model.class_prior, bags.class_shares)
    if (model.class_prior_ == 0).any():
        raise ValueError(
            "class_prior leaves a class out, and log-odds need all of them; give each class a "
            "positive share."
        )
    return make_goal_at_equal_shares(model.objective, model.bag_effect, bags)


def no_more_folds(cv: Any, bags: Bags) -> Any:
    """No more folds than there are bags, where rows of known label are bags of their own."""
    if not isinstance(cv, int | np.integer):
        return cv
    return min(cv, int((~bags.labelled).sum() + bags.sizes[bags.labelled].sum()))


def keep_trees(
    model: LLPBoostingClassifier, library: str, trained: Trained, order: RowOrder | None = None
) -> None:
    """Store what training came to, on rows in the order given."""
    order = order or RowOrder()
    goal = trained.goal
    model.library_, model.model_texts_ = library, trained.texts
    model.num_leaves_, model.n_estimators_ = trained.num_leaves, trained.n_rounds
    model.feature_importances_ = trained.gains / (trained.gains.sum() or 1.0)
    model.selection_path_ = trained.path
    start = trained.start
    model.start_coef_, model.start_intercept_ = start.coef[0], start.intercept[0]
    model.start_fill_ = start.fill
    model.objective_, model.bag_effect_, model.looks_ = goal.name, goal.bag_effect, goal.looks
    model.bag_effect_interval_ = goal.effect_interval
    model.out_of_fold_scores_ = None
    if trained.held_out is not None:
        prior = _prior_scores(model.class_prior_)[:, None]
        model.out_of_fold_scores_ = order.restore(by_instance(trained.held_out + prior))
        if trained.folds is not None:
            fold, scores = order.restore(trained.folds.fold), trained.folds.scores + prior
            model.folds_ = collect_folds(fold, (order.restore(own.T).T for own in scores), True)


def _prior_scores(class_prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is added to log-odds at equal shares to have those at a class prior."""
    logs = np.log(class_prior)
    return logs[1:] - logs[:1] if len(logs) == 2 else logs
