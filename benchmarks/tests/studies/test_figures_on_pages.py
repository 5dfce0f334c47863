"""Figures on pages of the library are those of the rows."""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from unbag.paper.experiments import read_rows
from unbag.paper.rows import load_rows
from unbag.paper.tables import published_auc
from unbag_bench.studies.six_tables import METHODS
from unbag_bench.study import results_folder
from unbag_bench.suites.against import against_published as of_published_methods

ROOT = Path(__file__).parents[3]


def rows_of(study, **wanted):
    rows = load_rows(results_folder() / study / "rows.jsonl")
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def against_published():
    """Cells of both tables, all of which are above the published AUC, and the mean difference."""
    found = defaultdict(list)
    for row in read_rows(results_folder() / "reproduce"):
        if (row["method"], row["sampling"]) == ("likelihood", "paper"):
            cell = (row["table"], row["dataset"], (row["low"], row["high"]), row["bag_size"])
            found[cell].append(row["auc"])
    gaps = [np.mean(auc) - published_auc(*cell, "lmmcm").mean for cell, auc in found.items()]
    assert min(gaps) > 0
    return len(gaps), np.mean(gaps)


def accuracies(method):
    """Of networks on images that chose nothing."""
    sizes = (16, 64, 256, 1024)
    known = {"dataset": "fashion", "method": method, "split": 11, "batch_rows": 2048}
    found = [rows_of("images", bag_size=size, **known) for size in sizes]
    assert all(len(rows) == 3 for rows in found)
    return [np.mean([row["accuracy"] for row in rows]) for rows in found]


def cells_held(method, tables="pyei"):
    """Cells whose intervals cover the true value, of how many, in tables that a method was run on."""
    tasks = {row["task"] for row in rows_of("group_truth", method=tables)}
    rows = [row for row in rows_of("group_truth", method=method) if row["task"] in tasks]
    # of sensitivity that of the second of three strengths, which it rises with
    held = sum(np.median(row["held"]) * row["cells"] for row in rows)
    return held, sum(row["cells"] for row in rows)


def college():
    """Mean errors of votes by college: from margins, and by PyEI."""
    return [
        rows_of("group_truth", task="college, vote", method=method)[0]["mean_error"]
        for method in ("margins", "pyei")
    ]


def million_rows():
    """Seconds of a fit, and their ratio to logistic regression on labels."""
    known = {"n_rows": 1_000_000, "n_bags": 10_000, "n_columns": 20}
    found = {
        model: rows_of("scaling", model=model, **known)[0]["fit"]["seconds"]
        for model in ("mixed", "labels")
    }
    return found["mixed"], found["mixed"] / found["labels"]


def peaks():
    """Gigabytes of a fit and of a prediction."""
    return [row["peak"] / 1000 for row in rows_of("large_files")]


def coverages(*shifts):
    """Least and largest coverage of log-odds over settings, in percent."""
    found = defaultdict(list)
    for row in rows_of("coverage"):
        if row["shift"] in shifts:
            found[row["shift"], row["sizes"], row["n_bags"]].append(row["log_odds"])
    means = [100 * np.mean(values) for values in found.values()]
    return min(means), max(means)


def hidden_flights(method):
    """Mean AUC over draws."""
    return [np.mean([row["auc"] for row in rows_of("hidden_flights", method=method)])]


def errors_of_sets(setting):
    """Mean error of slopes from sets, relative to that with all counts."""
    sets, known = (
        rows_of("hidden_counts", setting=setting, method=method)[0]["error"]
        for method in ("sets", "all counts")
    )
    return sets / known


def hidden_as_one_to_nine():
    """Least and largest percentage hidden, and errors of slopes relative to all counts known."""
    settings = ("covariate shift", "label shift", "bag effects", "unequal bags", "noise")
    hidden = [
        100 * rows_of("hidden_counts", setting=setting, method="sets")[0]["hidden"]
        for setting in settings
    ]
    errors = [errors_of_sets(setting) for setting in settings]
    return min(hidden), max(hidden), min(errors), max(errors)


def landscape():
    """Sets in which the default is above the best published method, also by two standard errors."""
    found = of_published_methods(rows_of("landscape"))
    assert len(found) == 52
    assert min(one.gain / one.error for one in found) > -2
    return sum(one.gain > 0 for one in found), sum(one.gain > 2 * one.error for one in found)


def calibration_errors():
    """Of the default, and of methods that match proportions."""
    methods = ("unbag", "dllp", "epr")
    return [
        np.mean([row["calibration_error"] for row in rows_of("six_tables", method=method)])
        for method in methods
    ]


def with_any_positive(data, method, scored):
    """Mean AUC of rows or of bags, in bags that are positive if any row is."""
    found = rows_of("multiple_instance", data=data, method=method)
    return [np.mean([row[scored] for row in found])]


def widths_with_labels():
    """Mean widths of intervals of the AUC from 200 labels of bags that are states."""
    known = {"plan": "at random", "measure": "roc_auc"}
    tasks = ("votes", "demographics")
    return [rows_of("labelled", task=task, **known)[0]["width"] for task in tasks]


def natural(name):
    """Mean AUC of the default on bags that are states."""
    known = {"suite": "natural", "name": name, "method": "kernel"}
    return [np.mean([row["auc"] for row in rows_of("mixed_model", **known)])]


NUMBER = r"([\d.]*\d)"
CLAIMS = [
    (
        "docs/benchmarks.md",
        f"in all {NUMBER} cells of their two tables, by {NUMBER} on average",
        against_published,
    ),
    ("docs/benchmarks.md", f"in {NUMBER}, by more than two standard errors in {NUMBER}", landscape),
    (
        "docs/benchmarks.md",
        f"error of {NUMBER}, the methods that match proportions {NUMBER} and {NUMBER}",
        calibration_errors,
    ),
    (
        "docs/benchmarks.md",
        f"With {NUMBER}% to {NUMBER}% of the counts .* are {NUMBER} to {NUMBER} times",
        hidden_as_one_to_nine,
    ),
    (
        "docs/howto/networks.md",
        rf"proportion loss \(DLLP\) \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER}",
        lambda: accuracies("proportion"),
    ),
    (
        "docs/howto/networks.md",
        rf"\(the default\) \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER}",
        lambda: accuracies("conditional"),
    ),
    (
        "docs/explanation/related-software.md",
        rf"both are wrong \({NUMBER} and {NUMBER}\)",
        college,
    ),
    (
        "docs/explanation/related-software.md",
        f"cover {NUMBER} of {NUMBER} cells by `unbag`",
        lambda: cells_held("margins"),
    ),
    (
        "docs/explanation/related-software.md",
        f"{NUMBER} of {NUMBER} by PyEI",
        lambda: cells_held("pyei"),
    ),
    (
        "docs/explanation/ecological-inference.md",
        f"intervals cover {NUMBER} of {NUMBER} cells",
        lambda: cells_held("margins", "margins"),
    ),
    (
        "docs/explanation/ecological-inference.md",
        f"standard deviations {NUMBER}, and bounds all",
        lambda: cells_held("sensitivity", "margins")[:1],
    ),
    (
        "docs/howto/uncertainty.md",
        f"log-odds cover the truth in {NUMBER}% to {NUMBER}% of cases under either",
        lambda: coverages("label", "covariate"),
    ),
    (
        "docs/howto/uncertainty.md",
        f"and in {NUMBER}% to {NUMBER}% with bag effects",
        lambda: coverages("bag effect"),
    ),
    (
        "docs/howto/hidden-counts.md",
        f"the AUC of all counts, {NUMBER}",
        lambda: hidden_flights("all counts"),
    ),
    (
        "docs/howto/hidden-counts.md",
        f"by zeros or by middle values gives {NUMBER}",
        lambda: hidden_flights("zeros"),
    ),
    (
        "docs/howto/hidden-counts.md",
        rf"are {NUMBER} times those from all counts \({NUMBER} with bag effects",
        lambda: [errors_of_sets("covariate shift"), errors_of_sets("bag effects")],
    ),
    (
        "docs/howto/multiple-instances.md",
        f"rows have an AUC of {NUMBER}",
        lambda: with_any_positive("digits", "unbag", "rows"),
    ),
    (
        "docs/howto/multiple-instances.md",
        f"with attention pooling {NUMBER}",
        lambda: with_any_positive("digits", "attention pooling", "rows"),
    ),
    (
        "docs/howto/multiple-instances.md",
        f"and with milwrap {NUMBER}",
        lambda: with_any_positive("digits", "milwrap, random forest", "rows"),
    ),
    (
        "docs/howto/multiple-instances.md",
        rf"\({NUMBER} against {NUMBER}, and",
        lambda: [
            *with_any_positive("musk1", "attention pooling", "bags"),
            *with_any_positive("musk1", "unbag", "bags"),
        ],
    ),
    (
        "docs/howto/multiple-instances.md",
        rf", and {NUMBER} against {NUMBER}\)",
        lambda: [
            *with_any_positive("musk2", "attention pooling", "bags"),
            *with_any_positive("musk2", "unbag", "bags"),
        ],
    ),
    (
        "docs/howto/votes.md",
        f"give intervals of width {NUMBER} and {NUMBER}",
        widths_with_labels,
    ),
    ("docs/howto/votes.md", f"{NUMBER} with opinions as features", lambda: natural("votes")),
    ("docs/howto/votes.md", f"and {NUMBER} with demographics", lambda: natural("demographics")),
    ("docs/howto/large-data.md", rf"fit {NUMBER} s on one core", lambda: million_rows()[:1]),
    ("docs/howto/large-data.md", rf"\(ratio {NUMBER}\)", lambda: million_rows()[1:]),
    (
        "docs/howto/large-data.md",
        f"takes {NUMBER} GB and scoring them {NUMBER} GB",
        peaks,
    ),
]


@pytest.mark.parametrize(("page", "sentence", "measured"), CLAIMS)
def test_figures_are_those_of_the_rows(page, sentence, measured):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    shown = re.search(sentence, text)
    assert shown, sentence
    for number, value in zip(filter(None, shown.groups()), measured(), strict=True):
        decimals = len(number.partition(".")[2])
        assert float(number) == pytest.approx(value, abs=0.51 * 10**-decimals)


def test_the_readme_shows_the_means_of_six_tables():
    rows = rows_of("six_tables")
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("*", "")
    for method, (title, *_) in METHODS.items():
        shown = re.search(
            rf"^\| {re.escape(title)} \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE
        )
        own = [row for row in rows if row["method"] == method]
        for column, value in zip(("auc", "calibration_error"), shown.groups(), strict=True):
            assert np.mean([row[column] for row in own]) == pytest.approx(float(value), abs=6e-4)
