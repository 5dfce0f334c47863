"""``unbag fit --grouping``: one model from several tables of totals of the same rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from unbag._text import listing, sentence
from unbag.bags.groupings import check_groupings_target, multi_grouping_target
from unbag.cli.data import (
    BagData,
    join_files,
    match_files,
    match_frames,
    naming,
    open_aggregates,
    say_notes,
)
from unbag.cli.options import by_commas, number_or_name, table_place
from unbag.cli.output import say
from unbag.cli.training import check_worth
from unbag.models.mixed import LLPClassifier
from unbag.tables.features import make_features
from unbag.tables.rules import Rule, make_rule
from unbag.tables.schema import make_fingerprints

# Options that have no meaning here, and why.
_NOT_HERE = {
    "report": "a page shows how good the model is, which several tables of the same rows cannot",
    "group_by": "proportions of groups are of one table of bags",
    "label_column": "labels of some rows are for one table of bags",
    "time_limit": "there is one learner",
    "aggregates_query": "every --grouping is a table of its own; give files",
}

# What is said where a figure would stand.
NOT_EVALUATED = (
    "How good the model is cannot be estimated from these tables: every row is counted in all of them, "
    "so that no bag can be held out. 'unbag evaluate' estimates it from rows and totals of another time, "
    "or by labels of some rows ('unbag sample-labels'); without --grouping, 'unbag fit' estimates how "
    "good a model of --bag alone is."
)


def add_grouping(parser: argparse.ArgumentParser) -> None:
    """Add further tables."""
    parser.add_argument(
        "--grouping",
        action="append",
        type=_grouping,
        default=[],
        metavar="COLUMN[,COLUMN]=TABLE",
        help="a further table, of totals of the same rows by other columns, such as "
        "day=days.csv; may be given several times, and the model, a linear one, is trained on all "
        "tables. Its columns are called as in BAGS; --noise day=3,region=2 is that of each. "
        "COLUMN is a feature, too, unless --exclude says otherwise",
    )


def _grouping(text: str) -> tuple[list[str], Any]:
    names, found, place = text.partition("=")
    if not (found and names and place):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form COLUMN=TABLE")
    return by_commas(names), table_place(place)


def check_groupings(options: argparse.Namespace) -> None:
    """Refuse what several groupings cannot have."""
    for name, why in _NOT_HERE.items():
        if getattr(options, name) is not None:
            option = "--labels" if name == "label_column" else f"--{name.replace('_', '-')}"
            options.parser.error(f"{option} does not go with --grouping: {why}")
    if options.model not in ("auto", "linear"):
        options.parser.error(f"--grouping trains a linear model, and no {options.model} one")
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


def tables_of(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
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


def read_groupings(options: argparse.Namespace) -> tuple[BagData, NDArray[np.void]]:
    """Read all tables: the features, and what is known of each grouping."""
    first, *others = tables_of(options)
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


def train_groupings(
    options: argparse.Namespace, data: BagData, y: NDArray[np.void]
) -> tuple[Any, Rule, dict[str, Any]]:
    """Fit the model and make the rule that the options ask for; and what its file says of it."""
    check_worth(options, *(y[name] for name in y.dtype.names or ()))
    groupings = check_groupings_target(y)
    pipeline = make_pipeline(make_features(), LLPClassifier(None)).fit(data.X, y)
    cells = [
        f"{bags.n_bags} by {name}"
        for name, bags in zip(groupings.names, groupings.bags, strict=True)
    ]
    summary = f"trained on the joint likelihood of counts: {listing(cells)}"
    kept = [make_fingerprints(data.X, y[name]) for name in groupings.names]
    record = {
        "n_bags": groupings.n_cells,
        "training": {"objective": "likelihood", "summary": summary},
        "training_bags": {
            "version": kept[0]["version"],
            "n_bags": sum(one["n_bags"] for one in kept),
            "bags": sorted(bag for one in kept for bag in one["bags"]),
        },
    }
    chances = pipeline.predict_proba(data.X)[:, 1]
    rule = make_rule(options.threshold_metric, chances, options.costs or (1, 1))
    say(sentence(summary), f"Class: {rule}.")
    return pipeline, rule, record
