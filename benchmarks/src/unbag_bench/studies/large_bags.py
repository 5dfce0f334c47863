"""Which penalty a linear model takes from few large bags.

Tables of two classes, all of whose rows to learn from are dealt out to a few large bags, as in
`dispersion`: by their class, by the cluster that they are in, by both, or at random. A linear model
is searched once over the default penalties; rules then choose by what bags held out say of each.
Labels of test rows score, and choose nothing.

Held-out likelihoods are N·G of counts and N·F of single rows. Both take rows of a bag for
independent, so that a bag of thousands outweighs whatever is known beforehand, even where it
differs from the others by more than chance. The **prior** is that of `few_bags`: a penalty stands
for a spread of scores, τ² = V/(2Nα) with V the sum of the variances of columns, and log₁₀ τ² lies
around that of τ = 1.2, with a standard deviation of ¼. It is added to ½(N·G + N·F), as it is or
over the dispersion φ̂ of the counts (`unbag.evaluation.bag_effects`) around what the penalty of the
ranks says.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import accuracy_score, roc_auc_score

from unbag import LLPLinearClassifierCV
from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.bags.priors import chances_of
from unbag.evaluation.bag_effects import dispersion_of_scores
from unbag.models.checks import DEFAULT_ALPHAS
from unbag.models.training import choose
from unbag_bench.studies.choosing_rules import losses_by_bag
from unbag_bench.studies.dispersion import KINDS, split
from unbag_bench.studies.selection import search_all
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import TABLES, count_target, load_table

N_BAGS, N_ROWS = (5, 10, 20, 30), 8_000

# A table that is made anew for every set, with rows to train and to test on, and columns of numbers
# and of categories.
MADE, MANY_ROWS, N_TESTED, N_NUMBERS, N_CATEGORIES = "made", 36_000, 10_000, 8, 6
ALPHAS = np.array(DEFAULT_ALPHAS)
CHOSEN_ON = TABLES[::2]

# Spread of scores before any data, and units of log-likelihood that a decade of its square costs.
SPREAD, STRENGTH = 1.2, 8.0

RANKS, HINDSIGHT = "ranks of G and F", "best in hindsight"


def choices(held_out: Floats, bags: Bags, shares: Floats, variance: float) -> dict[str, int]:
    """Which penalty each rule takes.

    Parameters
    ----------
    held_out : ndarray of shape (n_alphas, n_instances)
        Log-odds at the shares of the classes, by models that did not see the row's bag.
    bags : Bags
    shares : ndarray of shape (2,)
        Of the classes.
    variance : float
        V.
    """
    G, F = (losses.sum(axis=1) for losses in losses_by_bag(held_out, bags))
    predicted = np.stack([bags.means(chances_of(one[None]))[1] for one in held_out])
    error = np.abs(predicted - bags.proportions[:, 1]) @ bags.sizes
    by_ranks = choose(np.stack([G, F]))
    dispersion = max(1.0, dispersion_of_scores(bags, held_out[by_ranks][None], shares))
    spread = variance / (2 * bags.n_instances * ALPHAS)
    prior = STRENGTH * np.log10(spread / SPREAD**2) ** 2
    found = {
        "G": G,
        "F": F,
        "errors of shares": error,
        "prior": (G + F) / 2 + prior,
        "prior, over dispersion": (G + F) / 2 / dispersion + prior,
        "prior alone": prior,
    }
    return {RANKS: by_ranks} | {rule: int(values.argmin()) for rule, values in found.items()}


def make_table(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Numbers and categories that depend on each other, and labels whose log-odds depend on them.

    Log-odds have a spread of .6 to 2.5, three quarters of it linear in the columns and the rest
    products of two, and a tenth to a half of the labels are ones.
    """
    n = MANY_ROWS + N_TESTED
    hidden = rng.normal(size=(n, N_NUMBERS + N_CATEGORIES))
    mixed = hidden @ rng.normal(size=(hidden.shape[1],) * 2) / np.sqrt(hidden.shape[1])
    numbers, columns = mixed[:, :N_NUMBERS], []
    for values in mixed[:, N_NUMBERS:].T:
        edges = np.sort(rng.normal(size=rng.integers(2, 10)))
        columns.append(np.eye(len(edges) + 1)[np.searchsorted(edges, values)])
    X = np.column_stack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), *columns])
    linear = X @ rng.normal(size=X.shape[1])
    i, j = rng.integers(N_NUMBERS, size=(2, 10))
    crossed = (X[:, i] * X[:, j]) @ rng.normal(size=10)
    odds = np.sqrt(0.75) * linear / linear.std() + np.sqrt(0.25) * crossed / crossed.std()
    odds *= np.exp(rng.uniform(np.log(0.6), np.log(2.5)))
    odds -= np.quantile(odds, rng.uniform(0.5, 0.9))
    return X, (rng.random(n) < expit(odds)).astype(np.int64)


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    names = (MADE,) if options.made else TABLES
    cells = product(seeds_of(options.seeds), N_BAGS, KINDS, names)
    return [
        {"table": name, "kind": kind, "bags": n_bags, "seed": seed}
        for seed, n_bags, kind, name in cells
    ]


def run_one(table: str, kind: str, bags: int, seed: int) -> Row:
    rng = np.random.default_rng([seed, bags, KINDS.index(kind)])
    X, labels = make_table(rng) if table == MADE else load_table(table)
    n_rows, n_test = (MANY_ROWS, N_TESTED) if table == MADE else (N_ROWS, None)
    rows, bag, test = split(X, labels, kind, bags, rng, n_rows, n_test)
    model = LLPLinearClassifierCV(class_prior="empirical", bag_effect=0)
    y = count_target(bag, labels[rows])
    found, goal, known, basis = search_all(model, X[rows], y, ALPHAS, 5)
    theta = found.fits.theta.astype(float)
    coef, constants = basis.read(theta.ravel(), len(ALPHAS))
    on_test = coef @ X[test].T + constants[:, None]
    held_out = np.stack([found.solved.out_of_fold_scores(p) for p in range(len(ALPHAS))])
    variance = float(X[rows].var(axis=0).sum())
    chosen = choices(held_out, known, goal.class_prior, variance)
    accuracy = [float(accuracy_score(labels[test], scores > 0)) for scores in on_test]
    auc = [float(roc_auc_score(labels[test], scores)) for scores in on_test]
    chosen[HINDSIGHT] = int(np.argmax(auc))
    return {
        "n_bags": known.n_bags,
        "n_rows": len(rows),
        "alpha": {rule: float(ALPHAS[which]) for rule, which in chosen.items()},
        "accuracy": {rule: accuracy[which] for rule, which in chosen.items()},
        "auc": {rule: auc[which] for rule, which in chosen.items()},
    }


def page(rows: list[Row]) -> list[str]:
    groups = {name: [row for row in rows if group_of(row) == name] for name in GROUPS}
    return [
        "Gains on ranks of G and F, with standard errors over sets. The prior was chosen on "
        "tables of the first half, with kernels and small bags ([few bags](few_bags.md)).",
        "",
        *rules(groups),
        "",
        "**In which bags**: the prior over dispersion, gains in accuracy and AUC, and how far the "
        "best penalty in hindsight is ahead in AUC.",
        "",
        *by_bags(groups),
    ]


GROUPS = ("tables, first half", "tables, second half", "made tables")
MEASURES = {"accuracy": "accuracy", "AUC": "auc"}


def group_of(row: Row) -> str:
    if row["table"] == MADE:
        return GROUPS[2]
    return GROUPS[0] if row["table"] in CHOSEN_ON else GROUPS[1]


def rules(groups: dict[str, list[Row]]) -> list[str]:
    lines = []
    for rule in groups[GROUPS[0]][0]["auc"]:
        cells = [gain(own, of, rule) for own in groups.values() for of in MEASURES.values()]
        lines.append([rule, *cells])
    heads = [f"{name} ({len(own)}): {of}" for name, own in groups.items() for of in MEASURES]
    return table(["rule", *heads], lines)


def by_bags(groups: dict[str, list[Row]]) -> list[str]:
    chosen = "prior, over dispersion"
    lines = []
    for name, rows in (
        ("tables", groups[GROUPS[0]] + groups[GROUPS[1]]),
        ("made", groups[GROUPS[2]]),
    ):
        for key, values in (("bags", N_BAGS), ("kind", KINDS)):
            for value in values:
                own = [row for row in rows if row[key] == value]
                what = f"{value} bags" if key == "bags" else f"dealt by {value}"
                cells = [gain(own, of, chosen) for of in MEASURES.values()]
                lines.append([name, what, str(len(own)), *cells, gain(own, "auc", HINDSIGHT)])
    return table(["tables", "bags", "sets", *MEASURES, f"AUC, {HINDSIGHT}"], lines)


def gain(rows: list[Row], of: str, rule: str) -> str:
    return plus_minus([row[of][rule] - row[of][RANKS] for row in rows])


STUDY = Study(
    name="large_bags",
    title="The penalty of a linear model in few large bags",
    keys=["table", "kind", "bags", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "700-705", "help": "such as 700-705"},
        "--made": {"action": "store_true", "help": "tables that are made, with many rows"},
    },
)

if __name__ == "__main__":
    STUDY.main()
