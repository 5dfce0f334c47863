"""``unbag fit``: from two tables to a model file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._files import check_place
from unbag._text import aligned, counted, listing, sentence
from unbag.bags.bags import ANYTHING, check_bag_target
from unbag.bags.groupings import check_groupings_target, multi_grouping_target
from unbag.cli.data import (
    BagData,
    join_files,
    match_files,
    match_frames,
    naming,
    open_aggregates,
    read_bags,
    say_notes,
)
from unbag.cli.models import evaluation_record
from unbag.cli.options import (
    add_json,
    add_output,
    add_page,
    add_tables,
    by_commas,
    number_or_name,
    table_place,
)
from unbag.cli.output import need, plain, say, show_result
from unbag.cli.parser import add_parser
from unbag.cli.training import (
    FITTING,
    TrainedPipeline,
    add_fitting,
    check_fitting,
    check_worth,
    has_known_counts,
    n_instances,
    train_pipeline,
)
from unbag.defaults import FEWEST_BAGS
from unbag.evaluation import Evaluation, cross_val_evaluate
from unbag.evaluation.checks import check_features
from unbag.evaluation.drift import make_monitoring_reference
from unbag.models.summary import term_table
from unbag.reports import model_report
from unbag.tables.persistence import save_model
from unbag.tables.pipeline import make_classifier, training_record
from unbag.tables.schema import make_fingerprints
from unbag.tables.scoring import Rule, make_rule

# Options that do not go with --grouping, and why.
_ONE_TABLE_ONLY = {
    "report": "the accuracy cannot be estimated from several tables of the same rows",
    "label_column": "labels of some rows need a single table of bags",
    "bags_query": "every --grouping is a table; give files",
}

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
    add_fitting(parser)
    add_output(parser, "MODEL", "model file to write", required=True)
    add_page(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Read, fit, evaluate, save."""
    if options.report is not None and not options.folds:
        options.parser.error("--report needs --folds, since it shows the accuracy")
    if options.grouping:
        _check_groupings(options)
    if options.bins is not None and not options.group_rows:
        options.parser.error("--bins goes with --group-rows")
    if options.group_rows and (options.multiplicity or options.margins or options.grouping):
        options.parser.error(
            "--group-rows counts rows itself: leave --multiplicity, --margins and --grouping out"
        )
    check_fitting(options)
    need("pandas", "skops", extra="files")
    check_place(options.output)
    if options.grouping:
        return _fit_groupings(options)

    data = read_bags(options, keep_names=options.report is not None)
    if options.report is not None and not has_known_counts(data.y):
        options.parser.error("--report shows the accuracy, which needs known counts")
    n_columns = data.X.shape[1]
    say(f"Read {counted(n_instances(data), 'row')} with {counted(n_columns, 'column')}.")
    trained = train_pipeline(options, data)
    pipeline, training = trained.pipeline, training_record(trained.pipeline[-1])
    say(*trained.lines, sentence(training["summary"]))
    evaluation, evaluated = None, has_known_counts(data.y)
    if options.folds and evaluated:
        evaluation = _evaluate(trained, data, options)
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
    text = str(evaluation) if evaluated else _COUNTS_NOT_KNOWN
    if evaluated and evaluation is None and not options.json:
        about = check_features(data.y, data.X, pipeline, fitted=True)
        text = f"{about.what}: {about.test if isinstance(about.test, str) else about.test.summary}"
    show_result(options, text, metadata)
    return 0


def _save(
    options: argparse.Namespace,
    data: BagData,
    pipeline: Any,
    rule: Rule | None,
    record: dict[str, Any],
) -> dict[str, Any]:
    """Save the model with what every model file says; return that for --json."""
    names = "instances aggregates bag positives proportion bag_size noise exclude types unmatched"
    names += " percent hidden multiplicity margins ignore label_column query bags_query encoding na_values"
    given = {name: getattr(options, name) for name in (*names.split(), *FITTING)}
    if given["encoding"] == options.parser.get_default("encoding"):
        given["encoding"] = None  # which says nothing of these tables
    if options.grouping:
        given["grouping"] = [f"{','.join(keys)}={place}" for keys, place in options.grouping]
    metadata = {
        "model": type(pipeline[-1]).__name__,
        "fitted_with": given,
        "n_instances": n_instances(data),
        "class_names": data.class_names,
        "rule": None if rule is None else rule.to_dict(),
    } | record
    schema = data.schema.to_dict()
    save_model(pipeline, options.output, schema=schema, metadata=plain(metadata))
    say(f"Model: {options.output}")
    return {"output": options.output, "columns": schema["columns"]} | metadata


def _fit_groupings(options: argparse.Namespace) -> int:
    """Read, fit and save a model of several tables of the same rows."""
    data, y = _read_groupings(options)
    say(f"Read {counted(len(data.X), 'row')} with {counted(data.X.shape[1], 'column')}.")
    check_worth(options, *(y[name] for name in y.dtype.names or ()))
    groupings = check_groupings_target(y)
    pipeline = make_classifier("linear", random_state=options.seed).fit(data.X, y)
    cells = [
        f"{bags.n_bags} by {name}"
        for name, bags in zip(groupings.names, groupings.bags, strict=True)
    ]
    training = training_record(pipeline[-1])
    training["summary"] = f"trained on the joint likelihood of counts: {listing(cells)}"
    kept = [make_fingerprints(data.X, y[name]) for name in groupings.names]
    bags = {
        "version": kept[0]["version"],
        "n_bags": sum(one["n_bags"] for one in kept),
        "bags": sorted(bag for one in kept for bag in one["bags"]),
    }
    probabilities = pipeline.predict_proba(data.X)[:, 1]
    rule = make_rule(options.threshold_metric, probabilities, options.costs or (1, 1))
    terms = aligned(term_table(pipeline[-1].terms_))
    say(sentence(training["summary"]), *terms, f"Predicted class: {rule}.")
    record = {"n_bags": groupings.n_cells, "training": training, "training_bags": bags}
    metadata = _save(next(_tables_of(options)), data, pipeline, rule, record)
    show_result(options, _NOT_EVALUATED, metadata)
    return 0


def _reference(trained: TrainedPipeline, data: BagData) -> dict[str, Any] | None:
    """What ``unbag monitor`` needs of the training bags; None where they are too few."""
    if trained.out_of_fold is None or (~check_bag_target(data.y).labelled).sum() < FEWEST_BAGS:
        return None
    reference = make_monitoring_reference(
        trained.pipeline, data.X, data.y, out_of_fold=trained.out_of_fold
    )
    return reference.to_dict()


def _evaluate(trained: TrainedPipeline, data: BagData, options: argparse.Namespace) -> Evaluation:
    how: dict[str, Any] = {
        "out_of_fold": trained.out_of_fold,
        "threshold": trained.score_threshold,
        "random_state": options.seed,
    }
    if options.report is None:
        return cross_val_evaluate(trained.pipeline, data.X, data.y, **how)
    known = listing(options.positives or options.proportion)
    title = f"{known} from {PurePath(str(options.aggregates)).name}"
    how |= {"path": options.report, "command": options.command, "title": title}
    return model_report(trained.pipeline, data.X, data.y, **how).evaluation


# --- several tables of totals of the same rows --------------------------------------------------


def _grouping(text: str) -> tuple[list[str], Any]:
    names, found, place = text.partition("=")
    if not (found and names and place):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form COLUMN=TABLE")
    return by_commas(names), table_place(place)


def _check_groupings(options: argparse.Namespace) -> None:
    """Refuse what several groupings cannot have."""
    for name, why in _ONE_TABLE_ONLY.items():
        if getattr(options, name) is not None:
            option = "--labels" if name == "label_column" else f"--{name.replace('_', '-')}"
            options.parser.error(f"{option} does not go with --grouping: {why}")
    if options.model not in ("auto", "linear"):
        options.parser.error(f"--grouping trains a linear model, not --model {options.model}")
    if options.unmatched == "drop":
        options.parser.error(
            "--unmatched drop does not go with --grouping: rows that one table lacks are counted "
            "in others"
        )
    names = [",".join(keys) for keys, _ in _keys_and_places(options)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        options.parser.error(f"two tables are by {twice[0]!r}; every grouping has one")


def _keys_and_places(options: argparse.Namespace) -> list[tuple[list[str], Any]]:
    return [(options.bag, options.aggregates), *options.grouping]


def _tables_of(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options of each table, as if it were the only one."""
    noises = _noises(options)
    for keys, place in _keys_and_places(options):
        name = ",".join(keys)
        own = {"bag": keys, "aggregates": place, "noise": noises[name], "noise_of": name}
        yield argparse.Namespace(**vars(options) | own)


def _noises(options: argparse.Namespace) -> dict[str, Any]:
    """Noise of each table: the same for all, or NAME=NOISE for some of them."""
    names = [",".join(keys) for keys, _ in _keys_and_places(options)]
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
