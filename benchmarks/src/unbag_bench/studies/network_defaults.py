"""What a network of the library starts from, and whether counts are taken given their sum.

Tables of two classes in bags of three kinds, where networks begin with even probabilities or with the
class prior, and tables of several classes in random bags. ``unbag-bench fetch`` gets them;
digits come with scikit-learn. They are what two defaults of `LLPNeuralClassifier` were chosen on:
no images that are reported elsewhere are among them. Labels of test rows score.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from unbag import bag_target
from unbag.models import LLPNeuralClassifier
from unbag.torch.networks import TableNetwork
from unbag_bench.study import Row, Study, plus_minus, table
from unbag_bench.suites import TABLES, data_folder, draw_bags, load_table

METHODS: dict[str, dict[str, Any]] = {
    "proportions": {"objective": "proportion"},
    "counts": {"objective": "likelihood", "condition_on_total": False},
    "given their sum": {"objective": "likelihood", "condition_on_total": True},
}
STARTS = ("even", "shares")
SEVERAL = ("letters", "satellite", "shuttle", "dna", "digits")
KINDS = ("shuffled", "low", "clustered")
SIZES = {"several": (16, 64, 256, 512), "two": (64, 256, 512)}
SEEDS = {"several": (1, 2), "two": (1000,)}
TABLE_ROWS, MOST_ROWS, FEWEST_BAGS = 6144, 20_000, 10


class EvenTableNetwork(TableNetwork):
    """Begins with all classes as common."""

    def start_at(self, shares: Any) -> None:
        """Begin with even probabilities, whatever the shares."""
        super().start_at(np.full(len(shares), 1 / len(shares)))


def even_network(shape: tuple[int, ...], n_outputs: int) -> TableNetwork:
    return EvenTableNetwork(shape[0], n_outputs, (64, 64))


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    names = {
        "several": list(SEVERAL),
        # half of the tables, as for other defaults
        "two": [f"{name} {kind}" for name in TABLES[::2] for kind in KINDS],
    }
    return [
        {"classes": classes, "name": name, "bag_size": size, "seed": seed}
        for classes in options.classes.split(",")
        for seed in SEEDS[classes]
        for size in SIZES[classes]
        for name in names[classes]
    ]


def run_one(classes: str, name: str, bag_size: int, seed: int) -> list[Row]:
    """Train all methods on one draw."""
    try:
        X, y, X_test, labels_test = (shuffled if classes == "several" else drawn)(
            name, bag_size, seed
        )
    except ValueError as refused:
        return [{"skipped": str(refused)}]
    rows = []
    for start in STARTS if classes == "two" else STARTS[1:]:
        for method, settings in METHODS.items():
            module: Any = "mlp" if start == "shares" else even_network
            model = LLPNeuralClassifier(
                module,
                class_prior="empirical",
                **settings,
            )
            begun = time.process_time()
            model.fit(X, y)
            row: Row = {"method": method, "start": start, "n_bags": len(np.unique(y["bag"]))}
            row["core_seconds"] = round(time.process_time() - begun, 1)
            row["accuracy"] = float((model.predict(X_test) == labels_test).mean())
            if classes == "two":
                row["auc"] = float(roc_auc_score(labels_test, model.decision_function(X_test)))
            rows.append(row | {"epochs": model.n_iter_})
    return rows


def drawn(name: str, bag_size: int, seed: int) -> tuple[Any, Any, Any, Any]:
    of, kind = name.split()
    return draw_bags(*load_table(of), kind, bag_size, TABLE_ROWS, seed=seed)  # type: ignore[arg-type]


def shuffled(name: str, bag_size: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Random bags of four fifths of the rows, and the others to test on."""
    X, labels = load_classes(name)
    rng = np.random.default_rng([seed, bag_size])
    order = rng.permutation(len(labels))[:MOST_ROWS]
    n_test = -(-len(order) // 5)
    rows, test = order[:-n_test], order[-n_test:]
    n_bags = len(rows) // bag_size
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"{n_bags} bags of {bag_size} are too few")
    rows, bag = rows[: n_bags * bag_size], np.repeat(np.arange(n_bags), bag_size)
    counts = np.zeros((n_bags, labels.max() + 1), dtype=int)
    np.add.at(counts, (bag, labels[rows]), 1)
    return X[rows], bag_target(bag, counts=counts[bag]), X[test], labels[test]


@cache
def load_classes(name: str) -> tuple[Any, Any]:
    if name == "digits":
        X, labels = load_digits(return_X_y=True)
        return X, labels
    with np.load(data_folder() / "classes" / f"{name}.npz") as found:
        return found["X"], found["labels"]


def page(rows: list[Row]) -> list[str]:
    rows = [row for row in rows if "skipped" not in row]
    several = [row for row in rows if row["classes"] == "several"]
    two = [row for row in rows if row["classes"] == "two"]
    return [
        "## Several classes in random bags",
        "",
        "Test accuracy, mean of the seeds; differences with standard errors over sets and seeds.",
        "",
        *accuracy_table(several),
        "",
        f"Counts given their sum, less counts as they are: "
        f"{plus_minus(gaps(several, 'accuracy', 'given their sum', 'counts'))}; less proportions: "
        f"{plus_minus(gaps(several, 'accuracy', 'given their sum', 'proportions'))}.",
        "",
        "## Two classes",
        "",
        "Test AUC from even probabilities and, behind the arrow, from the class prior: means over",
        "tables, one draw of each.",
        "",
        *auc_table(two),
        "",
        "From the class prior, minus from even probabilities: "
        + ", ".join(
            f"{method} {plus_minus(gain_of_start(two, 'auc', method))}" for method in METHODS
        )
        + ".",
        "Counts given their sum, less counts as they are, from the shares: AUC "
        f"{plus_minus(gaps(two, 'auc', 'given their sum', 'counts'))}, accuracy "
        f"{plus_minus(gaps(two, 'accuracy', 'given their sum', 'counts'))}.",
    ]


def accuracy_table(rows: list[Row]) -> list[str]:
    kinds = sorted({(row["bag_size"], row["name"]) for row in rows})
    lines = []
    for size, name in kinds:
        own = [row for row in rows if (row["bag_size"], row["name"]) == (size, name)]
        means = [mean_of(own, "accuracy", method, "shares") for method in METHODS]
        epochs = [mean_of(own, "epochs", method, "shares") for method in METHODS]
        cells = [f"{m:.4f} ({e:.0f})" for m, e in zip(means, epochs, strict=True)]
        lines.append([f"{size}", name, f"{own[0]['n_bags']}", *cells])
    heads = [f"{method} (epochs)" for method in METHODS]
    return table(["bags of", "table", "bags", *heads], lines)


def auc_table(rows: list[Row]) -> list[str]:
    lines = []
    for kind in KINDS:
        for size in SIZES["two"]:
            own = [r for r in rows if r["name"].split()[1] == kind and r["bag_size"] == size]
            pairs = [[mean_of(own, "auc", method, start) for start in STARTS] for method in METHODS]
            cells = [f"{even:.4f} → {shares:.4f}" for even, shares in pairs]
            lines.append([kind, f"{size}", str(len({row["name"] for row in own})), *cells])
    return table(["bags", "of", "tables", *METHODS], lines)


def mean_of(rows: list[Row], what: str, method: str, start: str) -> float:
    own = [r[what] for r in rows if r["method"] == method and r["start"] == start]
    return float(np.mean(own))


def gaps(rows: list[Row], what: str, one: str, other: str) -> list[float]:
    """By how much a method is above another on the same draws, from the shares."""
    return paired(rows, what, lambda row: row["method"], one, other, "start", "shares")


def gain_of_start(rows: list[Row], what: str, method: str) -> list[float]:
    return paired(rows, what, lambda row: row["start"], "shares", "even", "method", method)


def paired(
    rows: list[Row],
    what: str,
    side: Callable[[Row], str],
    one: str,
    other: str,
    fixed: str,
    value: str,
) -> list[float]:
    found: dict[str, dict[Any, float]] = {one: {}, other: {}}
    for row in rows:
        if row[fixed] == value and side(row) in found:
            found[side(row)][row["name"], row["bag_size"], row["seed"]] = row[what]
    return [found[one][draw] - found[other][draw] for draw in found[one]]


STUDY = Study(
    name="network_defaults",
    title="Initial bias and conditional likelihood of networks",
    keys=["classes", "name", "bag_size", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={"--classes": {"default": "several,two", "help": "by commas"}},
    packages=["torch"],
)
