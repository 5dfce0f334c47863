"""Kernels from a dozen bags: rules to choose by, averages and other models.

A row is one set of bags: those of the paper's second table in kind and number (shares from 0 to ½
or from ½ to 1, 12 or 16 bags of 8, 32 or 128 rows), and shuffled and clustered ones as well, drawn
from the fourteen tables, none of which is Adult or MAGIC. All searches have the default grid of
eleven penalties and five folds. Labels of test rows score, and choose nothing. Rules were looked
for on seven of the tables, in these sets and others, and are reported on the other seven.

**Rules that choose a penalty.** Ranks of held-out G and F (the default of more bags); G alone;
ranks of G, F and the corrected risk; one standard error of G; and a **prior**. A penalty stands for
a spread of scores before any data: functions are drawn with covariance k/(2Nα), so that over the
rows they vary by τ² = V/(2Nα), V the mean of k(x, x) less the mean of k. Log-odds vary by about
one. So the prior says that log₁₀ τ² lies around that of τ = 1.2, with a standard deviation of ¼,
and what is minimised is ½(N·G + N·F) on bags held out less its logarithm. "Prior alone" asks no
bags.

**Rules that average.** The models of the five folds; penalties by e^{−L/T} for L the mean of N·G
and N·F held out, at T = 1 and, with scores of each penalty brought to one spread, at T = 16;
penalties by how often they rank first when bags are weighed at random.

**Other models.** A kernel of a quarter of the default's γ, or twice its γ; linear; the corrected
risk and the forward likelihood with the default's kernel; and means of two or three of them, of
scores brought to one spread.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from unbag import LLPKernelClassifierCV, LLPLinearClassifierCV
from unbag._arrays import Floats
from unbag.kernels.matrices import Kernel
from unbag.models.checks import DEFAULT_ALPHAS
from unbag.models.training import choose
from unbag.observations.corrected_risk import CorrectedRisk
from unbag.observations.losses import get_loss
from unbag.paper.trials import N_BAGS, Setting, make_trial
from unbag.weights.decontamination import decontamination_weights
from unbag_bench.studies.choosing_rules import losses_by_bag, resampled, within
from unbag_bench.studies.selection import search_all
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import TABLES, draw_bags, load_table

TRIED, OTHERS, PAPER = TABLES[::2], TABLES[1::2], ("adult", "magic")
KINDS, SIZES = ("low", "high", "shuffled", "clustered"), (8, 32, 128)

# Numbers of bags that are studied, and those that tell where few bags end, in sizes that are not
# the largest.
FEW, MORE = (12, 16), (24, 48)
ALPHAS = np.array(DEFAULT_ALPHAS)

# So many rows are scored, at most.
MOST_TESTED = 3_000

# Spread of scores before any data, and how many units of log-likelihood a decade of its square
# away from that costs, twice.
SPREAD, STRENGTH = 1.2, 16.0

DEFAULT, PRIOR, WIDER = "ranks of G and F", "prior", "wider, prior"


# --- one model ----------------------------------------------------------------------------------


class Fitted:
    """A search: what rules need of it.

    Attributes
    ----------
    scores, of_folds : ndarrays of shape (n_alphas, n_test)
        Of test rows, by the fits on all bags, and the mean over those of the folds.
    losses : list of two ndarrays of shape (n_alphas, n_bags)
        N·G and N·F of bags held out.
    corrected : ndarray of shape (n_alphas,)
        The corrected risk of all bags held out.
    best : int
        What the search itself chose.
    deviation : ndarray of shape (n_alphas, 1)
        Of the scores of training rows by models that did not see them.
    spread : ndarray of shape (n_alphas,)
        τ², which each penalty stands for.
    """

    def __init__(self, model: Any, X: Floats, y: Any, X_test: Floats, cv: Any) -> None:
        found, goal, bags, basis = search_all(model, X, y, ALPHAS, cv)
        theta = found.solved.fits.theta.astype(float)
        coef, constants = basis.read(theta.ravel(), len(theta))
        if basis.kernel is None:
            on_test = X_test @ coef.T
            variance = float(X.var(axis=0).sum())
        else:
            on_test = basis.kernel.expand(X_test, basis.points, coef).T
            variance = variance_of(basis.kernel, X)
        on_test = (on_test + constants).T.reshape(len(ALPHAS), -1, len(X_test))
        self.scores, self.of_folds = on_test[:, 0], on_test[:, 1:].mean(axis=1)
        held_out = np.stack([found.solved.out_of_fold_scores(p) for p in range(len(ALPHAS))])
        offset = goal.offsets(np.ones((1, bags.n_bags), dtype=bool), bags)[0, 0]
        self.losses = losses_by_bag(held_out + offset, bags)
        risk = CorrectedRisk(
            decontamination_weights(bags), bags.membership, get_loss("logistic"), goal.class_prior
        )
        self.corrected = risk.value(held_out[:, None], np.zeros(len(ALPHAS), dtype=np.intp))
        self.best = found.best
        deviation = held_out.std(axis=1, keepdims=True)
        self.deviation = np.maximum(deviation, 1e-3 * deviation.max() + 1e-12)
        self.spread = variance / (2 * len(X) * ALPHAS)

    @property
    def criteria(self) -> Floats:
        """N·G and N·F of all bags held out: (2, n_alphas)."""
        return np.stack([losses.sum(axis=1) for losses in self.losses])

    @property
    def prior(self) -> Floats:
        """−log of what is known of spreads beforehand, up to a constant."""
        return STRENGTH / 2 * np.log10(self.spread / SPREAD**2) ** 2

    @property
    def by_prior(self) -> int:
        """The penalty that the prior and bags held out choose."""
        return int((self.criteria.mean(axis=0) + self.prior).argmin())

    def chosen(self, which: int, folds: bool = False) -> Floats:
        """Scores of test rows for one penalty, brought to the spread of one."""
        scores = self.of_folds if folds else self.scores
        return scores[which] / self.deviation[which]


def variance_of(kernel: Kernel, X: Floats) -> float:
    """Mean of k(x, x) less the mean of k: how much functions of the kernel vary over rows."""
    K = kernel.matrix(X, np.float64)
    return float(np.diag(K).mean() - K.mean())


def models_of(X: Floats) -> dict[str, Any]:
    """The default kernel model, and those that are tried beside it."""
    wide = 0.5 / (X.shape[1] * X.var())
    return {
        "kernel": LLPKernelClassifierCV(),
        "wider": LLPKernelClassifierCV(gamma=wide / 4),
        "narrower": LLPKernelClassifierCV(gamma=2 * wide),
        "linear": LLPLinearClassifierCV(),
        "forward": LLPKernelClassifierCV(objective="forward"),
        "corrected": LLPKernelClassifierCV(objective="corrected"),
    }


# --- one set of bags ----------------------------------------------------------------------------


def try_one(table: str, kind: Any, size: int, n_bags: int, seed: int) -> Row | list[Row]:
    """One row; none where bags cannot be filled, or where nearly all are alike."""
    if table in PAPER:
        span = (0.0, 0.5) if kind == "low" else (0.5, 1.0)
        trial = make_trial(Setting(table, span, size, 2), seed)
        X, y, X_test, labels = trial.X, trial.y, trial.X_test, trial.labels_test
    else:
        X, y, X_test, labels = draw_bags(*load_table(table), kind, size, n_bags * size, seed)
    if len(np.unique(y["bag"])) < n_bags or len(np.unique(y["proportion"])) < 3:
        return []
    X_test, labels = X_test[:MOST_TESTED], labels[:MOST_TESTED]
    every = n_bags in FEW and table not in PAPER
    models = models_of(X) if every else dict(list(models_of(X).items())[:2])
    fitted = {name: Fitted(model, X, y, X_test, 5) for name, model in models.items()}
    on_test = {
        name: [float(roc_auc_score(labels, scores)) for scores in fits.scores]
        for name, fits in fitted.items()
    }
    own = on_test["kernel"]
    auc = {rule: own[which] for rule, which in choices(fitted["kernel"]).items()}
    wider = fitted["wider"]
    found = averages(fitted["kernel"]) | {WIDER: wider.chosen(wider.by_prior)}
    found |= mixtures(fitted) if every else {}
    for rule, scores in found.items():
        auc[rule] = float(roc_auc_score(labels, scores))
    half = np.random.default_rng(seed).permutation(len(labels)) % 2
    return {
        "n_test": len(labels),
        "auc": auc,
        "test_auc": on_test,
        "half_auc": [
            [float(roc_auc_score(labels[half == h], s[half == h])) for s in fitted["kernel"].scores]
            for h in range(2)
        ],
        "held_out": {name: fits.criteria.round(4).tolist() for name, fits in fitted.items()},
        "spread": {name: float(fits.spread[0]) for name, fits in fitted.items()},
    }


def choices(fits: Fitted) -> dict[str, int]:
    """Which penalty of the kernel model each rule takes."""
    G, F = fits.criteria
    return {
        DEFAULT: fits.best,
        "G": int(G.argmin()),
        "ranks of G, F and the corrected risk": choose(np.stack([G, F, fits.corrected])),
        "one standard error": int(within(fits.losses[0], fits.best, 1.0).argmax()),
        PRIOR: fits.by_prior,
        "prior alone": int(fits.prior.argmin()),
    }


def averages(fits: Fitted) -> dict[str, Floats]:
    """Scores of test rows by averages of the kernel model."""
    loss = fits.criteria.mean(axis=0)
    often = resampled(fits.losses)
    alike = fits.scores / fits.deviation
    return {
        "models of folds": fits.of_folds[fits.best],
        "average, T = 1": softmax(-loss) @ fits.scores,
        "average of equal spreads, T = 16": softmax(-loss / 16) @ alike,
        "average by resampling": often @ fits.scores,
        "average by resampling, models of folds": often @ fits.of_folds,
        "prior, models of folds": fits.of_folds[fits.by_prior],
    }


def mixtures(fitted: dict[str, Fitted]) -> dict[str, Floats]:
    """Scores of test rows by other models, and by means of several."""
    own = {name: fits.chosen(fits.best) for name, fits in fitted.items()}
    prior = {name: fits.chosen(fits.by_prior) for name, fits in fitted.items()}
    folds = {name: fits.chosen(fits.by_prior, folds=True) for name, fits in fitted.items()}
    widths = ("kernel", "wider", "narrower")
    return {
        **{f"{name}": own[name] for name in fitted if name != "kernel"},
        "three widths": sum(own[name] for name in widths),
        "kernel + linear": own["kernel"] + own["linear"],
        "kernel + forward": own["kernel"] + own["forward"],
        "kernel + corrected": own["kernel"] + own["corrected"],
        "linear, prior": prior["linear"],
        "kernel + wider, prior": prior["kernel"] + prior["wider"],
        "kernel + linear, prior": prior["kernel"] + prior["linear"],
        "kernel + wider, prior, models of folds": folds["kernel"] + folds["wider"],
        "kernel + linear, prior, models of folds": folds["kernel"] + folds["linear"],
    }


def tasks(options: Any) -> list[dict[str, Any]]:
    if options.tables == "paper":
        return [
            dict(zip(KEYS, (*cell, N_BAGS[cell[0]], seed), strict=True))
            for seed in seeds_of(options.seeds)
            for cell in product(PAPER, KINDS[:2], SIZES)
        ]
    names = {"tried": TRIED, "others": OTHERS}[options.tables]
    numbers, sizes = (MORE, SIZES[:2]) if options.more else (FEW, SIZES)
    cells = list(product(names, options.kinds, sizes))
    return [
        dict(zip(KEYS, (*cell, number, seed), strict=True))
        for seed in seeds_of(options.seeds)
        for place, cell in enumerate(cells)
        for number in (numbers if options.more else [numbers[(place + seed) % 2]])
    ]


KEYS = ("table", "kind", "size", "n_bags", "seed")


# --- the page -----------------------------------------------------------------------------------


RULES = {
    "Rules that choose": (
        DEFAULT,
        "G",
        "ranks of G, F and the corrected risk",
        "one standard error",
        PRIOR,
        "prior alone",
    ),
    "Rules that average": (
        "models of folds",
        "average, T = 1",
        "average of equal spreads, T = 16",
        "average by resampling",
        "average by resampling, models of folds",
        "prior, models of folds",
    ),
    "Other models": (
        "wider",
        "narrower",
        "linear",
        "forward",
        "corrected",
        "three widths",
        "kernel + linear",
        "kernel + forward",
        "kernel + corrected",
        WIDER,
        "linear, prior",
        "kernel + wider, prior",
        "kernel + linear, prior",
        "kernel + wider, prior, models of folds",
        "kernel + linear, prior, models of folds",
    ),
}


def gains(rows: list[Row], rule: str) -> list[float]:
    """What a rule gains on the former default, where it was tried."""
    return [row["auc"][rule] - row["auc"][DEFAULT] for row in rows if rule in row["auc"]]


def by_table(rows: list[Row], rule: str) -> str:
    """The same gain, tables counting as one each, and on how many there is one."""
    told = [row for row in rows if rule in row["auc"]]
    names = dict.fromkeys(row["table"] for row in told)
    means = [np.mean(gains([row for row in told if row["table"] == t], rule)) for t in names]
    return f"{plus_minus(means)}, {sum(mean > 0 for mean in means)} of {len(means)}"


def regret(row: Row) -> float:
    """How far the best penalty in hindsight is ahead of the former default."""
    return float(max(row["test_auc"]["kernel"]) - row["auc"][DEFAULT])


def lead_of_labels(row: Row) -> float:
    """How far what labels of half of the test rows choose is ahead on the other half."""
    halves = np.array(row["half_auc"])
    own = row["test_auc"]["kernel"].index(row["auc"][DEFAULT])
    ahead = [other[one.argmax()] - other[own] for one, other in (halves, halves[::-1])]
    return float(np.mean(ahead))


def told_elsewhere(rows: list[Row], same_table: bool) -> list[float]:
    """What labels of other draws, of the same kind and size, would gain by choosing beforehand."""
    found = []
    for row in rows:
        cell = row["kind"], row["size"]
        lacks = [
            np.array(other["test_auc"]["kernel"]) - max(other["test_auc"]["kernel"])
            for other in rows
            if other is not row and (other["kind"], other["size"]) == cell
            if (other["table"] == row["table"]) == same_table
        ]
        if lacks:
            known = int(np.mean(lacks, axis=0).argmax())
            found.append(row["test_auc"]["kernel"][known] - row["auc"][DEFAULT])
    return found


def page(rows: list[Row]) -> list[str]:
    few = [row for row in rows if row["n_bags"] in FEW]
    groups = {
        name: [row for row in few if row["table"] in tables]
        for name, tables in (("looked for on", TRIED), ("other tables", OTHERS))
    }
    headings = [
        heading
        for name, group in groups.items()
        for heading in (f"{name} ({len(group)} sets)", "by tables")
    ]
    lines = []
    for part, rules in RULES.items():
        lines += [[f"**{part}**", "", "", "", ""], *(_rule_line(rule, groups) for rule in rules)]
    others = groups["other tables"]
    return [
        "\n".join(__doc__.splitlines()[2:]).strip(),
        "",
        "## Rules",
        "",
        f"Gain in test AUC on {DEFAULT}, with its standard error over sets; then over tables, and",
        "on how many of them there is one.",
        "",
        *table(["rule", *headings], lines),
        "",
        "## In which bags",
        "",
        "Other tables: how far the best penalty in hindsight is ahead of the former default, how",
        "far one that labels of half of the test rows choose is ahead on the other half, and what",
        "the prior gains, alone and with a wider kernel.",
        "",
        *table(["bags", "sets", "hindsight", "labels", PRIOR, WIDER], _bag_lines(others)),
        "",
        "Who knows which penalty was best in other draws of the same table, kind and size gains",
        f"{plus_minus(told_elsewhere(others, True))}; who knows it of the other tables, in bags of",
        f"the same kind and size, {plus_minus(told_elsewhere(others, False))}.",
        "",
        "## Adult and MAGIC",
        "",
        "The second table of the paper, looked at when all rules had been fixed; five trials.",
        "",
        *table(
            ["bags", "sets", "hindsight", "labels", PRIOR, WIDER],
            [
                [f"{name}, {line[0]}", *line[1:]]
                for name in PAPER
                for line in _bag_lines([row for row in rows if row["table"] == name])
            ],
        ),
        "",
        "## How many bags are few",
        "",
        "Gain of the prior, all kinds of bags of 8 and 32 rows together.",
        "",
        *table(
            ["bags", *(f"{name}, {s}" for name in groups for s in ("sets", "gain"))],
            _number_lines(rows),
        ),
    ]


def _rule_line(rule: str, groups: dict[str, list[Row]]) -> list[str]:
    if rule == DEFAULT:
        means = [f"{np.mean([row['auc'][rule] for row in g]):.4f}" for g in groups.values()]
        return [f"{rule}: AUC", means[0], "", means[1], ""]
    cells = []
    for group in groups.values():
        found = gains(group, rule)
        cells += [plus_minus(found), by_table(group, rule)] if found else ["–", ""]
    return [rule, *cells]


def _bag_lines(rows: list[Row]) -> list[list[str]]:
    lines = []
    for kind, size in [("all", 0), *product(KINDS, SIZES)]:
        every = kind == "all"
        group = [row for row in rows if every or (row["kind"], row["size"]) == (kind, size)]
        if group:
            cells = [f"{np.mean([regret(row) for row in group]):.4f}"]
            cells += [plus_minus([lead_of_labels(row) for row in group])]
            cells += [plus_minus(gains(group, rule)) for rule in (PRIOR, WIDER)]
            lines.append([kind if every else f"{kind}, {size}", str(len(group)), *cells])
    return lines


def _number_lines(rows: list[Row]) -> list[list[str]]:
    lines = []
    for numbers in (FEW, *((number,) for number in MORE)):
        cells = []
        for tables in (TRIED, OTHERS):
            group = [
                row
                for row in rows
                if row["n_bags"] in numbers and row["table"] in tables and row["size"] < SIZES[-1]
            ]
            cells += [str(len(group)), plus_minus(gains(group, PRIOR)) if group else "–"]
        lines.append([" or ".join(map(str, numbers)), *cells])
    return lines


STUDY = Study(
    name="few_bags",
    title="Kernels from a dozen bags",
    keys=KEYS,
    tasks=tasks,
    measure=try_one,
    page=page,
    options={
        "--tables": {"default": "others", "choices": ["tried", "others", "paper"]},
        "--seeds": {"default": "1000-1001", "help": "first and last"},
        "--kinds": {"nargs": "+", "default": KINDS, "choices": KINDS},
        "--more": {"action": "store_true", "help": "24 and 48 bags in place of 12 or 16"},
    },
)

if __name__ == "__main__":
    STUDY.main()
