"""Could a penalty be chosen better? Rules beside the default one, and what choosing can gain.

A row is one set of bags, as in `selection`: a search of a linear model by the likelihood of counts,
thirteen penalties and five folds, and the test AUC that every rule ends with. Labels of test rows
score, and choose nothing. Rules were looked for on seven of the tables (TRIED), and are reported on
the other seven, with more seeds. Of the former, census_income, whose searches take ten times as
long, is left out here.

**Rules that choose**: ranks of held-out G and F (the default); the evidence, which needs no folds;
ranks of all three; the strongest penalty within a standard error of held-out G; ten folds in place
of five. The evidence is the chance of the counts if coefficients are drawn from N(0, I/(2Nα)), the
prior that a penalty stands for, by Laplace: with M the curvature of N·G at the fit ŵ and the
intercept profiled out, −log evidence = N·G(ŵ) + Nα‖ŵ‖² + ½ log det(I + M/(2Nα)). Given counts, the
rows of a bag have about the covariance diag(v) − vvᵀ/Σv, v = q(1 − q) at their tilted chances q, so

    M = Σ_j (p_j(1 − p_j) − v_j) x_j x_jᵀ + Σ_b (Σ_j v_j x_j)(Σ_j v_j x_j)ᵀ / Σ_j v_j.

**Rules that average** coefficients, so that one linear model is left: models of the five folds in
place of the one of all bags; all penalties by weights, which are e^{−N·G} on bags held out, the
evidence, or how often a penalty ranks first when bags held out are weighed at random (200 draws of
Dirichlet weights); the last with models of folds.

**What choosing can gain.** *Drawn labels*: those of six tables are drawn anew, with coefficients
from N(0, τ²I), so that the true penalty 1/(2Nτ²) is known, and is the best there is before the data
are seen. *Other draws*: the penalty whose test AUC was highest in other draws of the same table,
kind and size, rows of `selection` among them: what labels would tell beforehand.

**Scalings.** Columns of zeros and ones divided by a power of their standard deviation: 0 leaves
them as they are, as everywhere else, and 1 standardises them, so that rare categories are shrunk no
more than others. Bags held out choose the power as well: the least sum of N·G and N·F.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from unbag._arrays import Floats
from unbag.paper.rows import load_rows
from unbag_bench.studies import selection
from unbag_bench.studies.choosing_rules import DEFAULT, Fits, averages, choices, within
from unbag_bench.study import RESULTS, Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import TABLES, draw_bags, load_table

TRIED = TABLES[::2]
OTHERS = TABLES[1::2]
LEFT_OUT = "census_income"
SIMULATED = ("caravan", "compas", "flchain", "hi", "smoke_ban", "wa_churn")

KINDS, SIZES, N_ROWS = selection.KINDS, selection.SIZES, selection.N_ROWS
STEPS = np.arange(0, 6.5, 0.5)

# Standard deviation of the scores of drawn labels, and the intercept.
SPREAD, INTERCEPT = 1.5, -1.0

# Of the standard deviation, by which columns of zeros and ones are divided.
POWERS = (0.0, 0.5, 1.0)
SCALED_SIZES = (32,)

FEW_BAGS = 40
TRUE = "the true penalty"


# --- one set of bags ----------------------------------------------------------------------------


def try_one(world: str, table: str, kind: Any, size: int, seed: int) -> Row | list[Row]:
    """One row; none where there are too few bags for five folds."""
    if world == "scaled":
        return try_scalings(table, kind, size, seed)
    X, labels = load_table(table)
    alphas = 10.0**-STEPS
    if world == "drawn":
        labels, variance = draw_labels(X, seed)
        alphas = 10.0 ** (3 - STEPS) / (2 * N_ROWS * variance)
    X, y, X_test, labels_test = draw_bags(X, labels, kind, size, N_ROWS, seed)
    if len(np.unique(y["bag"])) < 5:
        return []
    fits = Fits(X, y, alphas, 5)
    auc = {
        name: float(roc_auc_score(labels_test, X_test @ coef))
        for name, coef in averages(fits).items()
    }
    on_test = [float(roc_auc_score(labels_test, X_test @ coef)) for coef in fits.coef]
    auc |= {name: on_test[which] for name, which in choices(fits).items()}
    if fits.bags.n_bags <= FEW_BAGS:
        auc["ten folds"] = on_test[Fits(X, y, alphas, min(10, fits.bags.n_bags)).found.best]
    if world == "drawn":
        auc[TRUE] = on_test[int(np.flatnonzero(STEPS == 3)[0])]
    own = fits.found.best
    alike = within(fits.losses[0], own, 1.0)
    near = np.array(on_test)[alike]
    return {
        "n_bags": fits.bags.n_bags,
        "test_auc": on_test,
        "auc": auc,
        "alike": int(alike.sum()),
        "auc_of_alike": [float(near.min()), float(near.max())],
    }


def try_scalings(table: str, kind: Any, size: int, seed: int) -> Row | list[Row]:
    """Test AUC with columns of zeros and ones divided by powers of their deviation."""
    X, y, X_test, labels_test = draw_bags(*load_table(table), kind, size, N_ROWS, seed)
    if len(np.unique(y["bag"])) < 5:
        return []
    deviation = np.maximum(X.std(axis=0), 1 / np.sqrt(len(X)))
    twofold = np.isin(X, (0, 1)).all(axis=0)
    auc, held_out = [], []
    for power in POWERS:
        scale = np.where(twofold, deviation**power, 1.0)
        found = Fits(X / scale, y, 10.0**-STEPS, 5)
        coef = found.coef[found.found.best] / scale
        auc.append(float(roc_auc_score(labels_test, X_test @ coef)))
        held_out.append(float(sum(losses.sum(axis=1) for losses in found.losses).min()))
    return {"scaled_auc": auc, "scaled_loss": held_out, "n_bags": found.bags.n_bags}


def draw_labels(X: Floats, seed: int) -> tuple[Any, float]:
    """Labels by coefficients from N(0, τ²I), and τ²; chances by log-odds Xw less their mean."""
    rng = np.random.default_rng(seed)
    variance = float(SPREAD**2 / X.var(axis=0).sum())
    scores = X @ rng.normal(scale=np.sqrt(variance), size=X.shape[1])
    chances = expit(scores - scores.mean() + INTERCEPT)
    return (rng.random(len(X)) < chances).astype(int), variance


# --- the page -----------------------------------------------------------------------------------


RULES = (
    DEFAULT,
    "evidence",
    "ranks of G, F and evidence",
    "one standard error",
    "ten folds",
    "models of folds",
    "average by G",
    "average by evidence",
    "average by resampling",
    "the same, models of folds",
)


def regret(row: Row, rule: str) -> float:
    return float(max(row["test_auc"]) - row["auc"][rule])


def compared(rows: list[Row], rule: str) -> str:
    """Mean regret, and behind it what is gained on the default on the same sets."""
    mean = f"{np.mean([regret(row, rule) for row in rows]):.4f}"
    gain = [row["auc"][rule] - row["auc"][DEFAULT] for row in rows]
    return mean if rule == DEFAULT else f"{mean} ({plus_minus(gain)})"


def by_table(rows: list[Row], rule: str) -> str:
    """Gain on the default, tables counting as one each."""
    found = defaultdict(list)
    for row in rows:
        found[row["table"]].append(row["auc"][rule] - row["auc"][DEFAULT])
    means = [np.mean(gains) for gains in found.values()]
    return f"{plus_minus(means)}, {sum(mean > 0 for mean in means)} of {len(means)}"


def page(rows: list[Row]) -> list[str]:
    real = [row for row in rows if row["world"] == "real"]
    groups = {
        "tables they were looked for on": [row for row in real if row["table"] in TRIED],
        "other tables": [row for row in real if row["table"] in OTHERS],
    }
    return [
        "\n".join(__doc__.splitlines()[2:]).strip(),
        "",
        "## Rules",
        "",
        "Mean regret in test AUC against the best penalty in hindsight, and in brackets the gain",
        "on the default on the same sets with its standard error over sets; then this gain over",
        "tables, and on how many of them there is one. Ten folds are for at most 40 bags.",
        "",
        *table(["rule", *_headings(groups)], _rule_lines(groups)),
        "",
        "## What choosing can gain",
        "",
        *_limits([row for row in rows if row["world"] == "drawn"], real),
        "",
        "## What bags tell",
        "",
        "Penalties of thirteen that held-out G puts within one standard error of the chosen one,",
        "and how far the test AUC of these lie apart; means.",
        "",
        *table(["bags", "sets", "penalties", "apart by", "regret"], _alike_lines(real)),
        "",
        "## Scalings",
        "",
        *_scalings([row for row in rows if row["world"] == "scaled"]),
    ]


def _scalings(rows: list[Row]) -> list[str]:
    auc, loss = (np.array([row[name] for row in rows]) for name in ("scaled_auc", "scaled_loss"))
    by_bags = auc[np.arange(len(auc)), loss.argmin(axis=1)]
    lines = [
        [f"to the power {power:g}", f"{column.mean():.4f}", plus_minus(column - auc[:, 0])]
        for power, column in zip(POWERS[1:], auc.T[1:], strict=True)
    ]
    lines.append(
        ["chosen by bags held out", f"{by_bags.mean():.4f}", plus_minus(by_bags - auc[:, 0])]
    )
    return [
        f"Mean test AUC of {len(rows)} sets, which is {auc[:, 0].mean():.4f} with columns as they",
        "are, and the gain on that.",
        "",
        *table(["divided by the deviation", "AUC", "gain"], lines),
    ]


def _headings(groups: dict[str, list[Row]]) -> list[str]:
    return [
        heading
        for name, group in groups.items()
        for heading in (f"{name} ({len(group)} sets)", "by tables")
    ]


def _rule_lines(groups: dict[str, list[Row]]) -> list[list[str]]:
    lines = []
    for rule in RULES:
        cells = []
        for group in groups.values():
            told = [row for row in group if rule in row["auc"]]
            cells += [compared(told, rule), "" if rule == DEFAULT else by_table(told, rule)]
        lines.append([rule, *cells])
    return lines


def _limits(drawn: list[Row], real: list[Row]) -> list[str]:
    names = (DEFAULT, TRUE, "evidence", "average by resampling")
    lines = []
    for kind, size in [("all", 0), *product(KINDS, SIZES)]:
        every = kind == "all"
        group = [row for row in drawn if every or (row["kind"], row["size"]) == (kind, size)]
        if group:
            cells = [f"{np.mean([regret(row, name) for row in group]):.4f}" for name in names]
            lines.append([kind if every else f"{kind}, {size}", str(len(group)), *cells])
    known = [row["auc"][TRUE] - row["auc"][DEFAULT] for row in drawn]
    ours, theirs = np.transpose(other_draws(real))
    return [
        "Labels drawn with coefficients from the prior: mean regret of the default, and of who",
        "knows the true penalty.",
        "",
        *table(["bags", "sets", *names], lines),
        "",
        f"The true penalty gains {plus_minus(known)} on the default.",
        "",
        f"Who knows test AUCs of other draws of the same table, kind and size ({len(ours)} sets)",
        f"regrets {theirs.mean():.4f}; the default, which knows the bags alone, {ours.mean():.4f}:",
        f"a difference of {plus_minus(ours - theirs)}.",
    ]


def other_draws(real: list[Row]) -> list[tuple[float, float]]:
    """Regret of the default, and of the penalty that was best in other draws."""
    cells: dict[Any, dict[int, tuple[Floats, float]]] = defaultdict(dict)
    for row in load_rows(RESULTS / "selection" / "rows.jsonl"):
        if row["model"] == "linear":
            found = np.array(row["test_auc"]), selection.chosen(row, DEFAULT)
            cells[row["table"], row["kind"], row["size"]][row["seed"]] = found
    for row in real:
        found = np.array(row["test_auc"]), row["auc"][DEFAULT]
        cells[row["table"], row["kind"], row["size"]][row["seed"]] = found
    pairs = []
    for cell in (cell for cell in cells.values() if len(cell) > 2):
        for seed, (auc, own) in cell.items():
            lacks = [other - other.max() for s, (other, _) in cell.items() if s != seed]
            known = np.mean(lacks, axis=0).argmax()
            pairs.append((float(auc.max() - own), float(auc.max() - auc[known])))
    return pairs


def _alike_lines(real: list[Row]) -> list[list[str]]:
    lines = []
    for kind, size in product(KINDS, SIZES):
        group = [row for row in real if (row["kind"], row["size"]) == (kind, size)]
        if group:
            apart = np.mean([np.ptp(row["auc_of_alike"]) for row in group])
            alike = np.mean([row["alike"] for row in group])
            lost = np.mean([regret(row, DEFAULT) for row in group])
            cells = [f"{alike:.1f}", f"{apart:.4f}", f"{lost:.4f}"]
            lines.append([f"{kind}, {size}", str(len(group)), *cells])
    return lines


def tasks(options: Any) -> list[dict[str, Any]]:
    names = SIMULATED if options.world == "drawn" else TABLES
    sizes = SCALED_SIZES if options.world == "scaled" else SIZES
    return [
        dict(zip(KEYS, (options.world, *task, seed), strict=True))
        for seed in seeds_of(options.seeds)
        for task in product(options.tables or names, KINDS, sizes)
        if task[0] != LEFT_OUT
    ]


KEYS = ("world", "table", "kind", "size", "seed")
STUDY = Study(
    name="choosing",
    title="Could a penalty be chosen better?",
    keys=KEYS,
    tasks=tasks,
    measure=try_one,
    page=page,
    options={
        "--world": {"default": "real", "choices": ["real", "drawn", "scaled"]},
        "--seeds": {"default": "104-104", "help": "first and last"},
        "--tables": {"nargs": "+", "choices": TABLES, "help": "by default all"},
    },
)

if __name__ == "__main__":
    STUDY.main()
