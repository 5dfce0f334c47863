"""``unbag fit``: from two tables to a model file."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unbag._files import check_place
from unbag._text import aligned, counted, listing, percent, sentence, table_lines
from unbag.bags.bags import ANYTHING, check_bag_target
from unbag.bags.groupings import check_groupings_target, multi_grouping_target
from unbag.bags.labels import fields_of
from unbag.cli.data import (
    BagData,
    evaluation_record,
    join_files,
    match_files,
    match_frames,
    naming,
    open_aggregates,
    read_bags,
    say_notes,
)
from unbag.cli.options import (
    add_output,
    add_shared,
    add_tables,
    by_commas,
    number_or_name,
    positive_number,
    table_place,
    whole_number,
)
from unbag.cli.output import need, plain, say, show_result
from unbag.cli.parser import add_parser
from unbag.defaults import FEWEST_BAGS
from unbag.evaluation import cross_val_evaluate
from unbag.evaluation.checks import check_features
from unbag.evaluation.drift import make_monitoring_reference
from unbag.evaluation.held_out import OutOfFold, cross_fit, posterior_draws
from unbag.evaluation.sample_size import effective_sample_size
from unbag.models.summary import term_table
from unbag.reports import model_report
from unbag.tables.persistence import save_model
from unbag.tables.pipeline import ModelName, make_classifier, training_record
from unbag.tables.schema import make_fingerprints
from unbag.tables.scoring import MOST_PROBABLE, Rule, RuleName, make_rule

# Options that a model file keeps.
_KEPT = (
    *("instances", "aggregates", "bag", "positives", "proportion", "bag_size", "noise", "exclude"),
    *("types", "unmatched", "percent", "hidden", "multiplicity", "margins", "ignore"),
    *("label_column", "query", "bags_query", "encoding", "na_values"),
    *("model", "folds", "threshold_metric", "costs", "seed"),
)
# Options that do not go with --grouping, and why.
_ONE_TABLE_ONLY = {
    "report": "the accuracy cannot be estimated from several tables of the same rows",
    "label_column": "labels of some rows need a single table of bags",
    "bags_query": "every --grouping is a table; give files",
}
# What some models need: a module, and the extra that brings it.
_EXTRAS = {
    "boosted": ("lightgbm", "boosting"),
    "ensemble": ("lightgbm", "boosting"),
    "neural": ("torch", "torch"),
}
# Rows of known label that bags must be worth.
_FEWEST_ROWS = 5

_NOT_EVALUATED = (
    "The accuracy cannot be estimated from these tables: every row is counted in all of them, so no bag "
    "can be held out. Use unbag evaluate with rows and totals of another period, or with labels of some "
    "rows (unbag sample-labels)."
)
_COUNTS_NOT_KNOWN = (
    "The accuracy is not estimated: this needs bags with known counts, and rows without multiplicities. "
    "Use unbag evaluate with such bags of another period or place."
)

_EXAMPLES = """examples:
  unbag fit visits.parquet regions.csv --bag region --positives conversions -o model.unbag

  proportions with privacy noise instead of counts; names and ids are not features:
  unbag fit visits.csv.gz regions.csv --bag region,month --proportion rate --noise 0.02 \\
      --exclude name,visit_id --types postcode=category -o model.unbag --report page.html

  totals by day and by carrier of the same flights:
  unbag fit flights.csv days.csv --bag date --positives late --grouping carrier=carriers.csv \\
      -o model.unbag
"""


def add_command(commands: Any) -> None:
    """Add ``unbag fit``."""
    parser = add_parser(
        commands,
        "fit",
        "ROWS BAGS --bag COLUMN (--positives COLUMN | --proportion COLUMN)\n"
        "                 -o MODEL [options]",
        description="Train a model from two tables: ROWS, with the bag of each row, and BAGS, with the total of\n"
        "each bag. Columns may be numbers, categories, times or free text, with missing values. The\n"
        "accuracy is estimated on held-out bags, without labels.",
        epilog=_EXAMPLES,
    )
    add_tables(parser)
    words = (
        "a further table with totals of the same rows by other columns, such as day=days.csv, with the "
        "column names of BAGS; repeat for more. The model is then linear. --noise day=3,region=2 "
        "declares the noise of each table. COLUMN is also a feature, unless you exclude it"
    )
    metavar = "COLUMN[,COLUMN]=TABLE"
    parser.add_argument(
        "--grouping", action="append", type=_grouping, default=[], metavar=metavar, help=words
    )
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
    add_shared(group, "--seed")
    add_output(parser, "MODEL", "model file to write", required=True)
    add_shared(parser, "--report", "--json")


def run(options: argparse.Namespace) -> int:
    """Read, fit, evaluate, save."""
    _check_options(options)
    need("pandas", "skops", extra="files")
    check_place(options.output)
    return _fit_groupings(options) if options.grouping else _fit_bags(options)


def _check_options(options: argparse.Namespace) -> None:
    """Refuse what contradicts itself, and say what is to be installed."""
    refuse = options.parser.error
    if options.report is not None and not options.folds:
        refuse("--report needs --folds, since it shows the accuracy")
    if options.grouping:
        _check_groupings(options)
    if options.bins is not None and not options.group_rows:
        refuse("--bins goes with --group-rows")
    if options.group_rows and (options.multiplicity or options.margins or options.grouping):
        refuse(
            "--group-rows counts rows itself: leave --multiplicity, --margins and --grouping out"
        )
    if options.folds == 1:
        refuse("argument --folds: one fold holds out everything; use 2 or more, or 0")
    several = len(options.positives or options.proportion) > 2
    if several and options.threshold_metric not in (None, "accuracy"):
        refuse(
            f"--threshold-metric {options.threshold_metric} is for two classes; with more, the "
            "most probable class is predicted"
        )
    options.threshold_metric = options.threshold_metric or ("accuracy" if several else "balanced")
    if (options.costs is None) == (options.threshold_metric == "cost"):
        refuse("--threshold-metric cost and --costs FP FN go together")
    if options.model in _EXTRAS:
        module, extra = _EXTRAS[options.model]
        need(module, extra=extra)


# --- one table of bags --------------------------------------------------------------------------


def _fit_bags(options: argparse.Namespace) -> int:
    """Read, fit, evaluate and save a model of one table of bags."""
    data = read_bags(options, keep_names=options.report is not None)
    fields = fields_of(data.y)
    counts_known = not {"low", "multiplicity"} & set(fields)
    if options.report is not None and not counts_known:
        options.parser.error("--report shows the accuracy, which needs known counts")
    _say_read(data)
    if "low" not in fields:
        _check_worth(options, data.y)
    trained = _train(options, data, counts_known)
    pipeline, training = trained.pipeline, training_record(trained.pipeline[-1])
    say(*_model_lines(pipeline[-1], trained.rule), sentence(training["summary"]))
    evaluation = None
    if options.folds and counts_known:
        how: dict[str, Any] = {
            "out_of_fold": trained.out_of_fold,
            "draws": posterior_draws(pipeline, data.X),
            "threshold": 0.0 if trained.rule is None else trained.rule.score_threshold,
            "random_state": options.seed,
        }
        if options.report is None:
            evaluation = cross_val_evaluate(pipeline, data.X, data.y, **how)
        else:
            known = listing(options.positives or options.proportion)
            title = f"{known} from {PurePath(str(options.aggregates)).name}"
            how |= {"path": options.report, "command": options.command, "title": title}
            evaluation = model_report(pipeline, data.X, data.y, **how).evaluation
    record = {
        "n_bags": int(check_bag_target(data.y, accept=ANYTHING).n_bags),
        "training": training,
        "leaderboard": getattr(pipeline[-1], "leaderboard_", None),
        "evaluation": None if evaluation is None else evaluation_record(evaluation),
        "reference": _reference(trained, data),
        "training_bags": make_fingerprints(data.X, data.y),
    }
    metadata = _save(options, data, pipeline, trained.rule, record)
    if options.report is not None:
        say(f"Page:  {options.report}")
    text = str(evaluation) if counts_known else _COUNTS_NOT_KNOWN
    if counts_known and evaluation is None and not options.json:
        about = check_features(data.y, data.X, pipeline, fitted=True)
        text = f"{about.what}: {about.test if isinstance(about.test, str) else about.test.summary}"
    show_result(options, text, metadata)
    return 0


class _Trained(NamedTuple):
    """A fitted pipeline, and the rule by which its probabilities become classes."""

    pipeline: Any
    rule: Rule | None
    out_of_fold: OutOfFold | None


def _train(options: argparse.Namespace, data: BagData, counts_known: bool) -> _Trained:
    """Fit the model that the options name, and make its rule from held-out bags."""
    pipeline = make_classifier(
        options.model, cv=options.folds or 5, random_state=options.seed, verbose=1
    )
    pipeline.fit(data.X, data.y)
    if "model__verbose" in pipeline.get_params():
        pipeline.set_params(model__verbose=0)
    out_of_fold = None
    if counts_known:
        bags = check_bag_target(data.y)
        # what can be held out: bags, and rows of known label one by one
        n_units = (~bags.labelled).sum() + bags.sizes[bags.labelled].sum()
        n_folds = min(options.folds, int(n_units))
        if n_folds > 1:
            out_of_fold = cross_fit(pipeline, data.X, data.y, cv=n_folds, warm_start=True)
    if len(pipeline.classes_) > 2:
        return _Trained(pipeline, None, out_of_fold)
    # without folds, by the probabilities of the training rows
    if out_of_fold is None:
        probabilities = pipeline.predict_proba(data.X)[:, 1]
    else:
        probabilities = expit(out_of_fold.log_odds)
    times = data.y["multiplicity"] if "multiplicity" in fields_of(data.y) else None
    rule = make_rule(options.threshold_metric, probabilities, options.costs or (1, 1), times)
    return _Trained(pipeline, rule, out_of_fold)


def _check_worth(options: argparse.Namespace, *targets: NDArray[np.void]) -> None:
    """Refuse bags that carry almost no information, and warn of those that carry little.

    The information of several targets of the same rows is added up.
    """
    hint = ""
    if options.percent and max(y["proportion"].max() for y in targets) <= 0.01:
        hint = " No value is above 1%: if the column holds proportions, leave --percent out."
    with warnings.catch_warnings():
        # said below
        warnings.simplefilter("ignore", UserWarning)
        try:
            worths = [effective_sample_size(y) for y in targets]
        except ValueError as error:
            raise ValueError(f"{error}{hint}") from None
    rows = sum(worth.n_effective for worth in worths)
    best = max(worths, key=lambda worth: worth.n_effective)
    if rows < _FEWEST_ROWS:
        raise ValueError(
            f"these bags carry no more information than {rows:.1f} labelled rows, too little to learn "
            f"from. {best.warning or best.summary}{hint}"
        )
    if best.warning is not None:
        say(best.warning)


def _reference(trained: _Trained, data: BagData) -> dict[str, Any] | None:
    """What ``unbag monitor`` needs of the training bags; None where they are too few."""
    pipeline, _, held_out = trained
    if held_out is None or (~check_bag_target(data.y).labelled).sum() < FEWEST_BAGS:
        return None
    return make_monitoring_reference(pipeline, data.X, data.y, out_of_fold=held_out).to_dict()


# --- what is said and saved ---------------------------------------------------------------------


def _n_instances(data: BagData) -> int:
    """How many instances there are, rows counted by their multiplicities."""
    many = "multiplicity" in fields_of(data.y)
    return int(data.y["multiplicity"].sum()) if many else len(data.X)


def _say_read(data: BagData) -> None:
    columns = counted(data.X.shape[1], "column")
    say(f"Read {counted(_n_instances(data), 'row')} with {columns}.")


def _model_lines(model: Any, rule: Rule | None) -> list[str]:
    """The models of an ensemble, the terms of the mixed model, and the rule."""
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
    lines += aligned(term_table(terms)) if terms else []
    return [*lines, f"Predicted class: {rule or MOST_PROBABLE}."]


def _save(
    options: argparse.Namespace,
    data: BagData,
    pipeline: Any,
    rule: Rule | None,
    record: dict[str, Any],
) -> dict[str, Any]:
    """Save the model with what every model file says; return that for --json."""
    given = {name: getattr(options, name) for name in _KEPT}
    if given["encoding"] == options.parser.get_default("encoding"):
        given["encoding"] = None  # which says nothing of these tables
    if options.grouping:
        given["grouping"] = [f"{','.join(keys)}={place}" for keys, place in options.grouping]
    metadata = {
        "model": type(pipeline[-1]).__name__,
        "fitted_with": given,
        "n_instances": _n_instances(data),
        "class_names": data.class_names,
        "rule": None if rule is None else asdict(rule),
    } | record
    schema = data.schema.to_dict()
    save_model(pipeline, options.output, schema=schema, metadata=plain(metadata))
    say(f"Model: {options.output}")
    return {"output": options.output, "columns": schema["columns"]} | metadata


# --- several tables of totals of the same rows --------------------------------------------------


def _grouping(text: str) -> tuple[list[str], Any]:
    names, _, place = text.partition("=")
    if not (names and place):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form COLUMN=TABLE")
    return by_commas(names), table_place(place)


def _check_groupings(options: argparse.Namespace) -> None:
    """Refuse what several groupings cannot have."""
    refuse = options.parser.error
    for name, why in _ONE_TABLE_ONLY.items():
        if getattr(options, name) is not None:
            option = "labels" if name == "label_column" else name.replace("_", "-")
            refuse(f"--{option} does not go with --grouping: {why}")
    if options.model not in ("auto", "linear"):
        refuse(f"--grouping trains a linear model, not --model {options.model}")
    if options.unmatched == "drop":
        refuse(
            "--unmatched drop does not go with --grouping: rows that one table lacks are counted "
            "in others"
        )
    names = [",".join(keys) for keys in (options.bag, *(keys for keys, _ in options.grouping))]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        refuse(f"two tables are by {twice[0]!r}; every grouping has one")


def _fit_groupings(options: argparse.Namespace) -> int:
    """Read, fit and save a model of several tables of the same rows."""
    data, y = _read_groupings(options)
    _say_read(data)
    _check_worth(options, *(y[name] for name in fields_of(y)))
    groupings = check_groupings_target(y)
    pipeline = make_classifier("linear", random_state=options.seed).fit(data.X, y)
    cells = [
        f"{bags.n_bags} by {name}"
        for name, bags in zip(groupings.names, groupings.bags, strict=True)
    ]
    training = training_record(pipeline[-1])
    training["summary"] = f"trained on the joint likelihood of counts: {listing(cells)}"
    probabilities = pipeline.predict_proba(data.X)[:, 1]
    rule = make_rule(options.threshold_metric, probabilities, options.costs or (1, 1))
    say(sentence(training["summary"]), *_model_lines(pipeline[-1], rule))
    record = {
        "n_bags": groupings.n_cells,
        "training": training,
        "training_bags": make_fingerprints(data.X, *(y[name] for name in groupings.names)),
    }
    metadata = _save(next(_tables_of(options)), data, pipeline, rule, record)
    show_result(options, _NOT_EVALUATED, metadata)
    return 0


def _tables_of(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options of each table, as if it were the only one."""
    tables = {",".join(options.bag): (options.bag, options.aggregates)}
    tables |= {",".join(keys): (keys, place) for keys, place in options.grouping}
    noises = _noises(options, list(tables))
    for name, (keys, place) in tables.items():
        own = {"bag": keys, "aggregates": place, "noise": noises[name], "noise_of": name}
        yield argparse.Namespace(**vars(options) | own)


def _noises(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """Noise of each table: the same for all, or NAME=NOISE for some of them."""
    if not isinstance(options.noise, str) or "=" not in options.noise:
        return dict.fromkeys(names, options.noise)
    found: dict[str, Any] = dict.fromkeys(names)
    rest = options.noise
    while rest:
        name = next((name for name in names if rest.startswith(f"{name}=")), "")
        if not name:
            options.parser.error(f"argument --noise: {rest!r} names none of {listing(names)}")
        value, _, rest = rest[len(name) + 1 :].partition(",")
        found[name] = number_or_name(value)
    return found


def _read_groupings(options: argparse.Namespace) -> tuple[BagData, NDArray[np.void]]:
    """Read all tables: the features, and what is known of each grouping."""
    first, *others = _tables_of(options)
    keys = [name for own in others for name in own.bag]
    # what is not a feature is read where it names the groups of a row
    first.exclude = [name for name in options.exclude if name not in keys]
    tables, _ = match_files(first)
    rows = tables.instances
    no_feature = [name for name in options.exclude if name in rows.columns]
    data = join_files(first, replace(tables, instances=rows.drop(no_feature)))
    targets = {",".join(first.bag): data.y}
    for own in others:
        bags = open_aggregates(own).read(types=own.types)
        matched = match_frames(own, rows.to_native(), bags)
        with naming(own):
            targets[",".join(own.bag)] = matched.join("error")[1]
        say_notes(matched, own)
    with naming(options):
        return data, multi_grouping_target(targets)
