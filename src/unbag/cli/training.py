"""The fit of ``unbag fit``: its options, and what was chosen, in words."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unbag._text import aligned, percent, table_lines
from unbag.bags.bags import check_bag_target
from unbag.cli.data import BagData
from unbag.cli.options import add_seed, positive_number, whole_number
from unbag.cli.output import need, say
from unbag.evaluation.held_out import OutOfFold, cross_fit
from unbag.evaluation.sample_size import effective_sample_size
from unbag.models.summary import term_table
from unbag.tables.pipeline import ModelName, make_classifier
from unbag.tables.scoring import MOST_PROBABLE, Rule, RuleName, make_rule

# Names of the options of a fit.
FITTING = ("model", "folds", "threshold_metric", "costs", "seed")

# Rows of known label that bags must be worth.
_FEWEST_ROWS = 5

_EXTRAS = {
    "boosted": ("lightgbm", "boosting"),
    "ensemble": ("lightgbm", "boosting"),
    "neural": ("torch", "torch"),
}


@dataclass(frozen=True, eq=False)
class TrainedPipeline:
    """A fitted pipeline, and the rule by which its probabilities become classes."""

    pipeline: Any
    rule: Rule | None
    out_of_fold: OutOfFold | None = None

    @property
    def score_threshold(self) -> float:
        """Score above which a row counts as positive."""
        return 0.0 if self.rule is None else self.rule.score_threshold

    @property
    def lines(self) -> list[str]:
        """The terms of the mixed model or the models of an ensemble, and the rule."""
        model = self.pipeline[-1]
        compared = [
            (
                row["learner"],
                "" if row["loss"] is None else f"{row['loss']:.5f}",
                percent(row["weight"]),
                f"{row['seconds']:.1f}",
                row["note"],
            )
            for row in getattr(model, "leaderboard_", [])
        ]
        heads = ("model", "held-out loss", "weight", "seconds", "")
        lines = table_lines(heads, compared) if compared else []
        terms = getattr(getattr(model, "best_estimator_", model), "terms_", [])
        return [
            *lines,
            *(aligned(term_table(terms)) if terms else []),
            f"Predicted class: {self.rule or MOST_PROBABLE}.",
        ]


def add_fitting(parser: argparse.ArgumentParser) -> None:
    """Add the options of a fit and its evaluation."""
    group = parser.add_argument_group("model and evaluation")
    add = group.add_argument
    words = (
        "auto: the mixed model; linear: the mixed model without a kernel; boosted: trees; neural: a "
        "network; ensemble: a weighted average of the mixed model and trees. Trees need "
        "unbag[boosting], networks unbag[torch]"
    )
    add("--model", choices=get_args(ModelName), default="auto", help=words)
    words = (
        "metric that the threshold on probabilities optimises: balanced accuracy (default), accuracy, "
        "F1, or the cost of errors (--costs); with more than two classes, the most probable class "
        "is predicted"
    )
    add("--threshold-metric", choices=get_args(RuleName), help=words)
    words = "with --threshold-metric cost: costs of a false positive and a false negative"
    add("--costs", nargs=2, type=positive_number, metavar=("FP", "FN"), help=words)
    words = "folds of bags for the evaluation and for the settings of trees; 0: no evaluation"
    add("--folds", type=whole_number(0), default=5, metavar="N", help=words)
    add_seed(group)


def check_fitting(options: argparse.Namespace) -> None:
    """Refuse what contradicts itself, and say what is to be installed."""
    if options.folds == 1:
        options.parser.error("argument --folds: one fold holds out everything; use 2 or more, or 0")
    several = len(options.positives or options.proportion) > 2
    if several and options.threshold_metric not in (None, "accuracy"):
        options.parser.error(
            f"--threshold-metric {options.threshold_metric} is for two classes; with more, the "
            "most probable class is predicted"
        )
    options.threshold_metric = options.threshold_metric or ("accuracy" if several else "balanced")
    if (options.costs is None) == (options.threshold_metric == "cost"):
        options.parser.error("--threshold-metric cost and --costs FP FN go together")
    if options.model in _EXTRAS:
        module, extra = _EXTRAS[options.model]
        need(module, extra=extra)


def check_worth(options: argparse.Namespace, *targets: NDArray[np.void]) -> None:
    """Refuse bags that carry almost no information, and warn of those that carry little.

    The information of several targets of the same rows is added up.
    """
    with warnings.catch_warnings():
        # said below
        warnings.simplefilter("ignore", UserWarning)
        try:
            worths = [effective_sample_size(y) for y in targets]
        except ValueError as error:
            raise ValueError(f"{error}{_percent_hint(options, targets)}") from None
    rows = sum(worth.n_effective for worth in worths)
    best = max(worths, key=lambda worth: worth.n_effective)
    if rows < _FEWEST_ROWS:
        raise ValueError(
            f"these bags carry no more information than {rows:.1f} labelled rows, too little to learn "
            f"from. {best.warning or best.summary}{_percent_hint(options, targets)}"
        )
    if best.warning is not None:
        say(best.warning)


def _percent_hint(options: argparse.Namespace, targets: tuple[NDArray[np.void], ...]) -> str:
    """Suggest that percentages are proportions, if none of them is above one percent."""
    if not options.percent or max(y["proportion"].max() for y in targets) > 0.01:
        return ""
    return " No value is above 1%: if the column holds proportions, leave --percent out."


def train_pipeline(options: argparse.Namespace, data: BagData) -> TrainedPipeline:
    """Fit the model that the options name, and make its rule."""
    plain = has_known_counts(data.y)
    names = data.y.dtype.names or ()
    if "low" not in names:
        check_worth(options, data.y)
    pipeline = make_classifier(
        options.model,
        cv=options.folds or 5,
        random_state=options.seed,
        verbose=1,
    )
    pipeline.fit(data.X, data.y)
    if "model__verbose" in pipeline.get_params():
        pipeline.set_params(model__verbose=0)
    n_folds = min(options.folds, _n_units(data)) if plain else 0
    out_of_fold = cross_fit(pipeline, data.X, data.y, cv=n_folds) if n_folds > 1 else None
    rule = None
    if len(pipeline.classes_) == 2:
        # without folds, by the probabilities of the training rows
        if out_of_fold is None:
            probabilities = pipeline.predict_proba(data.X)[:, 1]
        else:
            probabilities = expit(out_of_fold.log_odds)
        times = data.y["multiplicity"] if "multiplicity" in names else None
        rule = make_rule(options.threshold_metric, probabilities, options.costs or (1, 1), times)
    return TrainedPipeline(pipeline, rule, out_of_fold)


def has_known_counts(y: NDArray[np.void]) -> bool:
    """Whether counts of all bags are known, of rows that stand for one instance each."""
    return not {"low", "multiplicity"} & set(y.dtype.names or ())


def n_instances(data: BagData) -> int:
    """How many instances there are, rows counted by their multiplicities."""
    if "multiplicity" not in (data.y.dtype.names or ()):
        return len(data.X)
    return int(data.y["multiplicity"].sum())


def _n_units(data: BagData) -> int:
    """How many can be held out: bags, and rows of known label one by one."""
    bags = check_bag_target(data.y)
    return int((~bags.labelled).sum() + bags.sizes[bags.labelled].sum())
