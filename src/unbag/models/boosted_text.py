"""Trees as text, and a check of it: what LightGBM follows at prediction must lie inside the trees.

LightGBM believes what a text says. A forged one could send it to nodes, columns or categories that
do not exist, and read memory that is not its own; so every tree is walked over before.
"""

from __future__ import annotations

from collections.abc import Callable

from unbag.models.boosted_library import damage_told

# The bit of a decision that stands for a split by categories.
_BY_CATEGORIES = 1


def check_trees(text: str, n_features: int, n_outputs: int) -> None:
    """Refuse a text whose trees could not have been grown on so many columns.

    Parameters
    ----------
    text : str
        As `unbag.models.boosted_library.Booster.text` gives it.
    n_features, n_outputs : int
    """
    head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    with damage_told():
        header = _fields(head)
        sizes = [int(size) for size in header["tree_sizes"].split()]
        counts = {"num_class": n_outputs, "num_tree_per_iteration": n_outputs}
        counts["max_feature_idx"] = n_features - 1
        wrong = [name for name, value in counts.items() if int(header[name]) != value]
        if wrong:
            raise ValueError(f"its {wrong[0]} is not {counts[wrong[0]]}")
        if sizes != [_length(tree) for tree in trees]:
            raise ValueError("its trees are not as long as it says")
        for tree in trees:
            _check_tree(_fields(tree), n_features)


def scale_trees(text: str, factors: list[float]) -> str:
    """Multiply what the trees of a text say by one factor each.

    Parameters
    ----------
    text : str
        As LightGBM writes it.
    factors : list of float
        For as many trees as there may be: where nothing was left to split by, none was grown.
    """
    body, end, rest = text.partition("\nend of trees")
    head, *trees = body.split("\nTree=")
    scaled = [_scale(tree, factor) for tree, factor in zip(trees, factors, strict=False)]
    sizes = " ".join(str(_length(tree)) for tree in scaled)
    head = _replace(head, "tree_sizes", lambda _: sizes)
    return "\nTree=".join([head, *scaled]) + end + rest


def _scale(tree: str, factor: float) -> str:
    for name in ("leaf_value", "internal_value"):
        tree = _replace(
            tree, name, lambda values: " ".join(repr(factor * float(v)) for v in values.split())
        )
    return tree


def _replace(lines: str, name: str, change: Callable[[str], str]) -> str:
    """Change what stands behind the name of a line, if there is such a line."""
    before, found, behind = lines.partition(f"\n{name}=")
    value, *others = behind.split("\n", 1)
    return "\n".join([before + found + change(value), *others]) if found else lines


def _length(tree: str) -> int:
    """Every tree comes with "Tree=" before it and a line between it and the next."""
    return len(f"Tree={tree}\n")


def _fields(lines: str) -> dict[str, str]:
    """What stands behind the names of all lines; a name that comes twice is refused."""
    pairs = [line.partition("=")[::2] for line in lines.splitlines() if "=" in line]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a line is there twice")
    return found


def _check_tree(tree: dict[str, str], n_features: int) -> None:
    n_leaves, n_sets = int(tree["num_leaves"]), int(tree["num_cat"])
    _check_length(tree, "leaf_value", n_leaves)
    if int(tree["is_linear"]) != 0:
        raise ValueError("a leaf is no constant")
    n_nodes = n_leaves - 1
    if n_nodes == 0:
        return
    _check_length(tree, "threshold", n_nodes)
    _check_inside(_numbers(tree, "split_feature", n_nodes), 0, n_features, "column")
    for side in ("left_child", "right_child"):
        for node, child in enumerate(_numbers(tree, side, n_nodes)):
            # a leaf is written as −1 less its number, and a node comes after its parent
            inside = node < child < n_nodes if child >= 0 else -child <= n_leaves
            if not inside:
                raise ValueError("a branch leads nowhere")
    decisions = _numbers(tree, "decision_type", n_nodes)
    sets = [
        float(value)
        for value, kind in zip(tree["threshold"].split(), decisions, strict=True)
        if kind & _BY_CATEGORIES
    ]
    if sets or n_sets:
        bounds = _numbers(tree, "cat_boundaries", n_sets + 1)
        _check_length(tree, "cat_threshold", bounds[-1])
        if bounds[0] != 0 or bounds != sorted(bounds):
            raise ValueError("sets of categories overlap")
    _check_inside(sets, 0, n_sets, "set of categories")


def _numbers(tree: dict[str, str], name: str, length: int) -> list[int]:
    _check_length(tree, name, length)
    return [int(value) for value in tree[name].split()]


def _check_length(tree: dict[str, str], name: str, length: int) -> None:
    if length < 1 or len(tree[name].split()) != length:
        raise ValueError(f"its {name} has not {length} entries")


def _check_inside(values: list[int] | list[float], low: int, end: int, what: str) -> None:
    if not all(low <= value < end for value in values):
        raise ValueError(f"there is no such {what}")
