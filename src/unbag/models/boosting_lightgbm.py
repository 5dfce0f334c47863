"""Trees of LightGBM, grown by gradients from outside over rows that are binned once.

LightGBM takes a gradient and a curvature for every row and score, and grows one tree for each
score. All boosters share one table of bins. A booster that must not see some rows has them as
validation data, so that their scores come with those of the others. (Rows of curvature zero would
not do: LightGBM estimates the rows of a leaf from its share of all curvature, and skips splits where
that says that one side has none.)

Sums over rows are made column by column, so that the number of threads makes no difference.

Fitted trees are kept as the text that LightGBM writes. It does not check the text: a forged one
could send it to nodes, columns or categories that do not exist, and read memory that is not its own.
So every tree of a text is checked before LightGBM reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from math import isfinite, isnan
from typing import Any

import numpy as np

from unbag._arrays import FEW_NUMBERS, Bools, Floats, Ints
from unbag._optional import install_command

# Binned rows, and which of all rows they are.
_Part = tuple[Any, Ints]

# Fitted models whose trees stay at hand.
_MODELS_AT_HAND = 32

# The bit of a decision that stands for a split by categories.
_BY_CATEGORIES = 1
_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?|inf|nan)")
# Lines before the trees and of each, in LightGBM's order; some are there only with certain settings.
_HEAD = (
    "tree version num_class num_tree_per_iteration label_index max_feature_idx feature_names "
    "monotone_constraints feature_infos tree_sizes"
)
_TREE = (
    "num_leaves num_cat split_feature split_gain threshold decision_type left_child right_child "
    "leaf_value leaf_weight leaf_count internal_value internal_weight internal_count cat_boundaries "
    "cat_threshold is_linear shrinkage"
)
_ODD = re.compile(r"[^\n\x20-\x7e]")

# Parameters that `unbag.LLPBoostingClassifier` sets, in LightGBM's words, and those that make no sense here.
_TAKEN = [
    "learning_rate",
    "min_sum_hessian_in_leaf",
    "lambda_l2",
    "seed",
    "num_threads",
    "num_leaves",
    "num_iterations",
    "early_stopping_round",
    "boosting",
    "class_weight",
    "deterministic",
    "is_unbalance",
    "linear_tree",
    "metric",
    "num_class",
    "objective",
    "scale_pos_weight",
]
# Other names that scikit-learn's estimators have for them.
_SPELLINGS = {"n_jobs", "class_weight", "l2_regularization"}


def lightgbm() -> Any:
    """The package, or what to install to have it."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise ImportError(f"Boosted trees need LightGBM: {install_command('boosting')}") from None


def check_params(params: Mapping[str, Any]) -> None:
    """Refuse further parameters that are set elsewhere, and names that LightGBM would ignore."""
    # its own list of what it takes; there is no public way to it
    listed = lightgbm().basic._ConfigAliases._get_all_param_aliases()
    known = set(listed).union(*listed.values())
    taken = _SPELLINGS.union(_TAKEN, *(listed.get(name, ()) for name in _TAKEN))
    for name in sorted(params):
        if name in taken:
            raise ValueError(
                f"params may not hold {name!r}, which LLPBoostingClassifier sets by itself or by a "
                "parameter of its own."
            )
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(f"LightGBM has no parameter {name!r}{hint}")


class BinnedRows:
    """Rows of an array or a sparse matrix in bins, for any number of boosters with the same parameters.

    ``categorical`` are the columns that hold codes of categories. Without ``n_jobs``, there is one thread if
    the table is small; −1 means all.
    """

    def __init__(
        self, X: Any, categorical: list[int], params: Mapping[str, Any], n_jobs: int | None = None
    ) -> None:
        if n_jobs is None:
            n_jobs = 1 if X.shape[0] * X.shape[1] < FEW_NUMBERS else -1
        self._params = {
            "deterministic": True,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "min_child_samples": 1,
            "verbosity": -1,
            **params,
            "objective": "none",
            "metric": "none",
            # to LightGBM, none is all
            "num_threads": max(n_jobs, 0),
        }
        self._data = lightgbm().Dataset(
            X, np.zeros(X.shape[0]), params=self._params, categorical_feature=categorical
        )
        self._data.construct()
        if not any(self._data.feature_num_bin(i) > 1 for i in range(X.shape[1])):
            raise ValueError(
                "No column of X has values that differ, so trees have nothing to split by."
            )
        self._every = np.arange(X.shape[0])

    def booster(
        self, n_outputs: int, num_leaves: int, parts: tuple[_Part, _Part | None] | None = None
    ) -> Booster:
        """A booster for so many scores that learns from all rows, or from the first of two parts."""
        params = {**self._params, "num_leaves": num_leaves, "num_class": n_outputs}
        return Booster(params, len(self._every), *(parts or ((self._data, self._every), None)))

    def split(self, held: Bools) -> tuple[_Part, _Part]:
        """Rows to learn from, and those that are held out."""
        parts = (np.flatnonzero(~held), np.flatnonzero(held))
        seen, unseen = ((self._data.subset(rows.tolist()), rows) for rows in parts)
        return seen, unseen


class Booster:
    """A sum of trees over binned rows, zero at first: of some to learn from, and others to be scored."""

    def __init__(
        self, params: Mapping[str, Any], n_rows: int, seen: _Part, unseen: _Part | None
    ) -> None:
        data, self._seen = seen
        self._booster = lightgbm().Booster(dict(params), data)
        self._shape = int(params["num_class"]), n_rows
        self._unseen = None
        if unseen is not None:
            other, self._unseen = unseen
            self._booster.add_valid(other, "unseen")

    def scores(self) -> Floats:
        """Scores (outputs, rows) of all rows, as LightGBM hands them to an evaluation."""
        found, given = np.empty(self._shape), list[Floats]()

        def keep(scores: Floats, _: Any) -> tuple[str, float, bool]:
            given.append(scores.reshape(-1, self._shape[0]).T)
            return "", 0.0, True

        self._booster.eval_train(keep)
        found[:, self._seen] = given[0]
        if self._unseen is not None:
            self._booster.eval_valid(keep)
            found[:, self._unseen] = given[1]
        return found

    def grow(self, gradient: Floats, curvature: Floats) -> None:
        """Grow one tree for each score, by derivatives of shape (outputs, rows)."""
        slopes = [np.squeeze(values[:, self._seen].T) for values in (gradient, curvature)]
        self._booster.update(fobj=lambda *_: slopes)

    def predict(self, X: Any, n_rounds: int) -> Floats:
        """Scores (outputs, rows) of rows by the trees of the first rounds."""
        if n_rounds == 0:
            return np.zeros((self._shape[0], X.shape[0]))
        return predict_scores(self._booster, X, n_rounds)

    def text(self, n_rounds: int) -> str:
        """Trees of the first rounds, as LightGBM writes them."""
        text: str = self._booster.model_to_string(num_iteration=n_rounds)
        # what follows are settings of the training, such as the number of threads
        return text[: text.index("\nparameters:") + 1]


def predict_scores(booster: Any, X: Any, n_rounds: int | None = None) -> Floats:
    """Scores (outputs, rows) of rows by the trees of a booster of LightGBM."""
    found = booster.predict(X, raw_score=True, num_iteration=n_rounds)
    return np.asarray(found, dtype=float).reshape(X.shape[0], -1).T


def mean_of_trees(texts: Sequence[str]) -> str:
    """One text of trees whose sum is the mean over several texts, as `Booster.text` gives them."""
    parts = [text.partition("\nend of trees")[0].split("\nTree=") for text in texts]
    trees = [_scaled(tree, 1 / len(texts)) for _, *own in parts for tree in own]
    # the first line is the number of the tree
    trees = ["\n".join([str(i), *tree.split("\n")[1:]]) for i, tree in enumerate(trees)]
    sizes = " ".join(str(_length(tree)) for tree in trees)
    head = _replaced(parts[0][0], "tree_sizes", lambda _: sizes)
    return "\nTree=".join([head, *trees]) + "\nend of trees\n"


@lru_cache(maxsize=_MODELS_AT_HAND)
def read_booster(text: str, n_features: int, n_outputs: int) -> Any:
    """Make a booster of LightGBM from the text of its trees, which may be that of a file."""
    check_trees(text, n_features, n_outputs)
    return lightgbm().Booster(model_str=text)


def check_trees(text: str, n_features: int, n_outputs: int) -> None:
    """Refuse a text whose trees could not have been grown on so many columns and for so many scores."""
    before, _, behind = text.partition("\nend of trees")
    head, *trees = before.split("\nTree=")
    try:
        if behind != "\n":  # LightGBM would read it
            raise ValueError("there is more behind their end")
        # other spaces, lines and digits are read by Python in one way and by LightGBM in another
        odd = _ODD.search(text)
        if odd:
            raise ValueError(f"it holds {odd[0]!r}")
        header = _fields(head, _HEAD, () if "\nmonotone" in head else ("monotone_constraints",))
        counts = {"num_class": n_outputs, "num_tree_per_iteration": n_outputs}
        counts["max_feature_idx"] = n_features - 1
        wrong = [name for name, value in counts.items() if _whole(header[name]) != value]
        if wrong:
            raise ValueError(f"its {wrong[0]} is not {counts[wrong[0]]}")
        for name in ("feature_names", "feature_infos"):
            _check_length(header, name, n_features)
        if "monotone_constraints" in header:
            _numbers(header, "monotone_constraints", n_features)
        sizes = [_whole(size) for size in header["tree_sizes"].split()]
        if sizes != [_length(tree) for tree in trees]:
            raise ValueError("its trees are not as long as it says")
        for tree in trees:
            _check_tree(tree, n_features)
    except ValueError as error:
        raise ValueError(f"The text of the trees is damaged: {error}.") from None


def _scaled(tree: str, factor: float) -> str:
    """A tree of which all values are multiplied."""

    def change(values: str) -> str:
        return " ".join(repr(factor * float(value)) for value in values.split())

    return _replaced(_replaced(tree, "leaf_value", change), "internal_value", change)


def _replaced(lines: str, name: str, change: Callable[[str], str]) -> str:
    """Lines with another value of the one that has a name, if there is such a line."""
    before, found, behind = lines.partition(f"\n{name}=")
    value, *others = behind.split("\n", 1)
    return "\n".join([before + found + change(value), *others]) if found else lines


def _length(tree: str) -> int:
    """Every tree comes with "Tree=" before it and a line between it and the next."""
    return len(f"Tree={tree}\n")


def _fields(lines: str, names: str, absent: Collection[str] = ()) -> dict[str, str]:
    """Values of all lines by their names, which must be these and in this order.

    LightGBM ends the process if one is absent, and what it reads of others is not known.
    """
    pairs = [line.partition("=")[::2] for line in lines.rstrip("\n").split("\n")]
    if [name for name, _ in pairs] != [name for name in names.split() if name not in absent]:
        raise ValueError("its lines are not those that LightGBM writes")
    return dict(pairs)


def _check_tree(tree: str, n_features: int) -> None:
    lines = tree.partition("\n")[2]  # the first is the number of the tree
    without = "\nnum_cat=0\n" in lines
    fields = _fields(lines, _TREE, ("cat_boundaries", "cat_threshold") if without else ())
    n_leaves, n_sets = _whole(fields["num_leaves"]), _whole(fields["num_cat"])
    n_nodes = n_leaves - 1
    _check_floats(fields, "leaf_value", n_leaves, isfinite)
    if _whole(fields["is_linear"]) != 0:
        raise ValueError("a leaf is not constant")
    _check_floats(fields, "shrinkage", 1)
    if n_nodes == 0:
        return
    _check_floats(fields, "leaf_weight", n_leaves)
    _check_floats(fields, "leaf_count", n_leaves)
    for name in ("split_gain", "internal_value", "internal_weight", "internal_count"):
        _check_floats(fields, name, n_nodes)
    # splits by whether a value is there have an infinite one
    _check_floats(fields, "threshold", n_nodes, lambda value: not isnan(value))
    _check_inside(_numbers(fields, "split_feature", n_nodes), 0, n_features, "column")
    sides = [_numbers(fields, side, n_nodes) for side in ("left_child", "right_child")]
    for children in sides:
        for node, child in enumerate(children):
            # a leaf is written as −1 less its number, and a node comes after its parent
            inside = node < child < n_nodes if child >= 0 else -child <= n_leaves
            if not inside:
                raise ValueError("a branch leads nowhere")
    if len(set(sides[0] + sides[1])) < 2 * n_nodes:  # walks over both would take for ever
        raise ValueError("two branches lead to one place")
    decisions = _numbers(fields, "decision_type", n_nodes)
    _check_inside(decisions, 0, 16, "decision")
    splits = zip(fields["threshold"].split(), decisions, strict=True)
    sets = [float(value) for value, kind in splits if kind & _BY_CATEGORIES]
    if n_sets:
        bounds = _numbers(fields, "cat_boundaries", n_sets + 1)
        members = _numbers(fields, "cat_threshold", bounds[-1])
        _check_inside(members, 0, 1 << 32, "set of categories")
        if bounds[0] != 0 or bounds != sorted(bounds):
            raise ValueError("sets of categories overlap")
    _check_inside(sets, 0, n_sets, "set of categories")


def _whole(text: str) -> int:
    """A whole number as LightGBM writes it: Python alone would read 1_0 and +1, too."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _numbers(tree: dict[str, str], name: str, length: int) -> list[int]:
    _check_length(tree, name, length)
    return [_whole(value) for value in tree[name].split()]


def _check_length(tree: dict[str, str], name: str, length: int) -> None:
    if length < 1 or len(tree[name].split()) != length:
        raise ValueError(f"its {name} has not {length} entries")


def _check_floats(
    tree: dict[str, str], name: str, length: int, sound: Callable[[float], bool] | None = None
) -> None:
    _check_length(tree, name, length)
    for value in tree[name].split():
        if not _NUMBER.fullmatch(value) or (sound and not sound(float(value))):
            raise ValueError(f"{value!r} in its {name} is not a number of a tree")


def _check_inside(values: list[int] | list[float], low: int, end: int, what: str) -> None:
    if not all(low <= value < end for value in values):
        raise ValueError(f"there is no such {what}")
