"""Trees of XGBoost as text, checked and written anew before XGBoost gets to see them.

XGBoost believes what a text says: a forged one can end the process. So trees are read as plain
arrays, each node is followed, and XGBoost is given a text made of these arrays and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.models.boosted_library import TreeShape, damage_told

# How XGBoost writes the parent of a root.
_NOBODY = 2**31 - 1

# Numbers of a node that tell how it came about, and may be any.
_FREE = ("base_weights", "loss_changes", "sum_hessian")


def rebuild_trees(text: str, shape: TreeShape) -> tuple[str, list[str]]:
    """Refuse trees that could not have been grown on such a table; write others anew.

    Parameters
    ----------
    text : str
        As `unbag.models.boosted_xgboost.Booster.text` gives it.
    shape : TreeShape

    Returns
    -------
    text : str
        The same trees, in the form of XGBoost 2.1, which later ones read as well.
    kinds : list of str
        Of columns: numbers ("q") or categories ("c").
    """
    with damage_told():
        learner = json.loads(text)["learner"]
        kinds, model = learner["feature_types"], learner["gradient_booster"]["model"]
        if len(kinds) != shape.n_features or not set(kinds) <= {"q", "c"}:
            raise ValueError(f"it is not about {shape.n_features} columns")
        trees = [_check_tree(tree, kinds, shape.n_categories) for tree in model["trees"]]
        outputs = np.arange(len(trees)) % shape.n_outputs
        if not trees or len(trees) % shape.n_outputs or model["tree_info"] != outputs.tolist():
            raise ValueError(f"its trees are not for {shape.n_outputs} scores")
    written = [
        {**tree, "id": i, "tree_param": _tree_param(tree, shape)} for i, tree in enumerate(trees)
    ]
    return _write(written, outputs.tolist(), kinds, shape), kinds


def scale_leaves(text: str, factors: list[float]) -> str:
    """Multiply what the trees of every round say by a factor.

    Parameters
    ----------
    text : str
        As XGBoost writes it.
    factors : list of float
        One for each round.
    """
    found = json.loads(text)
    model = found["learner"]["gradient_booster"]["model"]
    per_round = len(model["trees"]) // len(factors)
    for number, tree in enumerate(model["trees"]):
        factor = factors[number // per_round]
        # what a leaf says stands where others have what they split by
        for node, left in enumerate(tree["left_children"]):
            if left == -1:
                tree["split_conditions"][node] *= factor
        tree["base_weights"] = [factor * weight for weight in tree["base_weights"]]
    return json.dumps(found)


def _check_tree(tree: dict[str, Any], kinds: list[str], n_categories: int) -> dict[str, Any]:
    """Arrays of a tree, of which nothing leads outside."""
    left = _integers(tree, "left_children")
    n_nodes = len(left)
    right = _integers(tree, "right_children", n_nodes)
    inner = np.flatnonzero(left != -1)
    children = np.concatenate([left[inner], right[inner]])
    # every node but the root is the child of one that comes before it
    complete = np.array_equal(np.sort(children), np.arange(1, n_nodes))
    if not n_nodes or not complete or (right[left == -1] != -1).any():
        raise ValueError("a branch leads nowhere")
    if (children <= np.tile(inner, 2)).any():
        raise ValueError("a branch leads back")
    parents = np.full(n_nodes, _NOBODY)
    parents[children] = np.tile(inner, 2)
    columns = _integers(tree, "split_indices", n_nodes, lambda i: i < len(kinds), "column")
    by_sets = _integers(tree, "split_type", n_nodes, lambda i: i < 2, "kind of split")
    sets = (left != -1) & (np.array(kinds)[columns] == "c")
    if (by_sets != sets).any():
        raise ValueError("a split is not of the kind of its column")
    arrays = {
        "left_children": left,
        "right_children": right,
        "parents": parents,
        "split_indices": columns,
        "split_type": by_sets,
        "default_left": _integers(tree, "default_left", n_nodes, lambda i: i < 2, "side"),
        # where there is a set of categories, XGBoost writes anything
        "split_conditions": _numbers(tree, "split_conditions", n_nodes, ~sets),
        **{name: _numbers(tree, name, n_nodes) for name in _FREE},
        **_check_sets(tree, np.flatnonzero(sets), n_categories),
    }
    return {name: values.tolist() for name, values in arrays.items()}


def _check_sets(
    tree: dict[str, Any], nodes: NDArray[np.intp], n_categories: int
) -> dict[str, NDArray[Any]]:
    """Sets of categories, one after the other, each of one node."""
    sets = _integers(tree, "categories", None, lambda i: i < n_categories, "category")
    sizes = _integers(tree, "categories_sizes", len(nodes), lambda i: i > 0, "size")
    begins = np.cumsum(sizes) - sizes
    owners = _integers(tree, "categories_nodes", len(nodes))
    if sizes.sum() != len(sets) or not np.array_equal(owners, nodes):
        raise ValueError("there is no such set of categories")
    return {
        "categories": sets,
        "categories_sizes": sizes,
        "categories_segments": begins,
        "categories_nodes": nodes,
    }


def _integers(
    tree: dict[str, Any],
    name: str,
    length: int | None = None,
    inside: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
    what: str = "",
) -> NDArray[np.int64]:
    """Whole numbers of a tree: any, or such as are not negative and inside some bound."""
    values = tree[name]
    if not all(type(value) is int for value in values):
        raise ValueError(f"its {name} are not whole numbers")
    found = np.array(values, dtype=np.int64)
    _check_length(found, name, length)
    if inside is not None and not (inside(found) & (found >= 0)).all():
        raise ValueError(f"there is no such {what}")
    return found


def _numbers(
    tree: dict[str, Any], name: str, length: int, told: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Numbers of a tree, zero where they tell nothing."""
    found = np.array(tree[name], dtype=float)
    _check_length(found, name, length)
    found = found if told is None else np.where(told, found, 0.0)
    if not (np.abs(found) <= np.finfo(np.float32).max).all():
        raise ValueError(f"its {name} are not finite")
    return found


def _check_length(found: NDArray[Any], name: str, length: int | None) -> None:
    if found.ndim != 1 or length not in (None, len(found)):
        raise ValueError(f"its {name} has not {length} entries")


def _tree_param(tree: dict[str, Any], shape: TreeShape) -> dict[str, str]:
    return {
        "num_deleted": "0",
        "num_feature": str(shape.n_features),
        "num_nodes": str(len(tree["parents"])),
        "size_leaf_vector": "1",
    }


def _write(
    trees: list[dict[str, Any]], outputs: list[int], kinds: list[str], shape: TreeShape
) -> str:
    """The text of checked trees."""
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, shape.n_outputs)),
        "tree_info": outputs,
        "trees": trees,
    }
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": kinds,
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": str(shape.n_outputs if shape.n_outputs > 1 else 0),
            "num_feature": str(shape.n_features),
            "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    return json.dumps({"learner": learner, "version": [2, 1, 0]})
