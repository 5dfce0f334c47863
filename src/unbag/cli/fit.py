"""``unbag fit``: from two tables to a model file."""

from __future__ import annotations

import argparse
from typing import Any

from unbag._files import check_place
from unbag._memory import give_back
from unbag._text import counted, listing, sentence
from unbag.bags.bags import check_bag_target
from unbag.cli.data import BagData, read_bags
from unbag.cli.groupings import (
    NOT_EVALUATED,
    add_grouping,
    check_groupings,
    read_groupings,
    tables_of,
    train_groupings,
)
from unbag.cli.options import add_json, add_page, add_quiet, add_tables, check_page, file_place
from unbag.cli.output import need, plain, records, say, show, show_json
from unbag.cli.parser import add_parser
from unbag.cli.records import evaluation_record
from unbag.cli.training import (
    FITTING,
    TrainedPipeline,
    add_fitting,
    check_fitting,
    reference_record,
    train_pipeline,
)
from unbag.evaluation import Evaluation, evaluate_cv, group_proportions
from unbag.evaluation.checks import check_features
from unbag.tables.persistence import save_model
from unbag.tables.pipeline import training_record
from unbag.tables.rules import Rule
from unbag.tables.schema import make_fingerprints

# Groups that make a table one can read.
_MOST_GROUPS = 50

_EXAMPLES = """examples:
  unbag fit visits.parquet regions.csv --bag region --positives conversions -o model.unbag

  proportions with privacy noise instead of counts; names and ids are not features:
  unbag fit visits.csv.gz regions.csv --bag region,month --proportion rate --noise 0.02 \\
      --exclude name,visit_id --types postcode=category -o model.unbag --report page.html

  totals by day and by carrier of the same flights:
  unbag fit flights.csv days.csv --bag date --positives late --grouping carrier=carriers.csv \\
      -o model.unbag

  how each group voted, by precincts and a voter file:
  unbag fit voters.csv results.csv --bag precinct --positives ann,bob,cy --group-by race -o m.unbag
"""


def add_command(commands: Any) -> None:
    """Add ``unbag fit``."""
    parser = add_parser(
        commands,
        "fit",
        "ROWS BAGS --bag COLUMN (--positives COLUMN | --proportion COLUMN)\n"
        "                 -o MODEL [options]",
        description="Train a model for single instances from two tables: one of instances, which "
        "says what bag each\nis in, and one of bags, which says how many of each are positive. "
        "Columns may hold numbers,\ncategories, times or sentences, with gaps. At the end, how "
        "good the model is on bags that it did\nnot see is estimated, without any label.",
        epilog=_EXAMPLES,
    )
    add_tables(parser)
    add_grouping(parser)
    add_fitting(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=file_place,
        required=True,
        metavar="MODEL",
        help="model file to write",
    )
    add_page(parser)
    parser.add_argument("--title", help="heading of that page")
    parser.add_argument(
        "--group-by",
        metavar="COLUMN",
        help="feature whose values make groups: print the proportion of each class in each of them, "
        "with intervals, for which the model is fitted ten times more",
    )
    add_json(parser)
    add_quiet(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Read, fit, evaluate, save."""
    if options.report is not None and not options.folds:
        options.parser.error("--report needs --folds, since it shows how good the model is")
    if options.title is not None and options.report is None:
        options.parser.error("--title is that of the page: --report PAGE")
    if options.grouping:
        check_groupings(options)
    check_fitting(options)
    need("pandas", "skops", extra="files")
    check_place(options.output)
    if options.grouping:
        return _fit_groupings(options)
    check_page(options)

    data = read_bags(options, keep_names=options.report is not None)
    give_back()
    groups = None if options.group_by is None else _groups(options, data)
    n_rows, n_columns = data.X.shape
    say(f"Read {counted(n_rows, 'instance')} with {counted(n_columns, 'column')}.")
    trained = train_pipeline(options, data)
    give_back()
    pipeline, training = trained.pipeline, training_record(trained.pipeline[-1], data.y)
    say(*trained.lines, sentence(training["summary"]))
    evaluation = None
    if options.folds:
        evaluation = _evaluate(trained, data, options)
    record = {} if evaluation is None else evaluation_record(evaluation)
    metadata = _metadata(options, data, pipeline, trained.rule) | {
        "n_bags": int(check_bag_target(data.y).n_bags),
        "training": training,
        "leaderboard": pipeline[-1].leaderboard_,
        "evaluation": record or None,
        "reference": reference_record(pipeline, data),
        "training_bags": make_fingerprints(data.X, data.y),
    }
    table = None
    if groups is not None:
        table = group_proportions(pipeline, data.X, data.y, groups)
        metadata["groups"] = records(table.columns())
    save_model(pipeline, options.output, schema=data.schema.to_dict(), metadata=plain(metadata))
    say(f"Model: {options.output}")
    if options.report is not None:
        say(f"Page:  {options.report}")
    if options.json:
        show_json(
            {"output": options.output, "columns": data.schema.to_dict()["columns"]} | metadata
        )
    elif evaluation is not None:
        show(str(evaluation))
    else:
        about = check_features(data.y, data.X, pipeline, fitted=True)
        show(f"{about.what}: {about.test if isinstance(about.test, str) else about.test.summary}")
    if table is not None and not options.json:
        show(f"\nProportions by {options.group_by}:\n{table}")
    return 0


def _fit_groupings(options: argparse.Namespace) -> int:
    """Read, fit and save a model of several tables of the same rows."""
    data, y = read_groupings(options)
    say(f"Read {counted(len(data.X), 'instance')} with {counted(data.X.shape[1], 'column')}.")
    pipeline, rule, record = train_groupings(options, data, y)
    first = next(tables_of(options))
    metadata = _metadata(first, data, pipeline, rule) | record
    further = [f"{','.join(keys)}={place}" for keys, place in options.grouping]
    metadata["fitted_with"] |= {"grouping": further}
    save_model(pipeline, options.output, schema=data.schema.to_dict(), metadata=plain(metadata))
    say(f"Model: {options.output}")
    if options.json:
        columns = data.schema.to_dict()["columns"]
        show_json({"output": options.output, "columns": columns} | metadata)
    else:
        show(NOT_EVALUATED)
    return 0


def _metadata(
    options: argparse.Namespace, data: BagData, pipeline: Any, rule: Rule | None
) -> dict[str, Any]:
    """What every model file says."""
    return {
        "model": type(pipeline[-1]).__name__,
        "fitted_with": _given(options),
        "n_instances": len(data.X),
        "class_names": data.class_names,
        "rule": None if rule is None else rule.to_dict(),
    }


def _groups(options: argparse.Namespace, data: BagData) -> Any:
    """The group of each row, where a column makes groups of rows and not of one row each."""
    if options.group_by not in data.X:
        raise ValueError(
            f"--group-by {options.group_by} is not a feature; the features are {listing(map(str, data.X.columns))}"
        )
    column = data.X[options.group_by]
    if column.nunique() > _MOST_GROUPS:
        raise ValueError(
            f"--group-by {options.group_by} would make {column.nunique():,} groups, and more than "
            f"{_MOST_GROUPS} make no table; give a column of fewer values"
        )
    return column.astype(object).where(column.notna(), "missing").to_numpy()


def _evaluate(trained: TrainedPipeline, data: BagData, options: argparse.Namespace) -> Evaluation:
    if options.report is not None:
        return trained.report(data, options, options.report).evaluation
    return evaluate_cv(
        trained.pipeline,
        data.X,
        data.y,
        threshold=trained.score_threshold,
        random_state=options.seed,
    )


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What the model was fitted to and how, as the options say."""
    names = "instances aggregates bag positives proportion bag_size noise exclude types unmatched"
    names += " percent ignore label_column query aggregates_query encoding na_values"
    given = {name: getattr(options, name) for name in (*names.split(), *FITTING)}
    # what text is taken for that is not UTF-8 says nothing of these tables unless it was given
    usual = given["encoding"] == options.parser.get_default("encoding")
    return given | {"encoding": None if usual else given["encoding"]}
