"""Whether the figures of a page can be believed: what a reader should see first."""

from __future__ import annotations

from unbag._text import percent
from unbag.evaluation import Estimate, Evaluation
from unbag.reports.content import Finding, FindingKind, NumberTable, Section, Tile
from unbag.reports.wording import digits_of, interval_text, measure_name

_KINDS: dict[str, FindingKind] = {
    "not_rejected": "good",
    "inconclusive": "note",
    "rejected": "warning",
}

_TOLD = {
    "not_rejected": "nothing speaks against it",
    "inconclusive": "figures span both cases",
    "rejected": "figures are wide ranges",
}

# Measures that are compared between the kinds of bags.
_COMPARED = ("roc_auc", "balanced_accuracy", "accuracy")


def verdict_section(evaluation: Evaluation) -> Section:
    """Tell whether bags bear out what estimates without labels assume, and what follows."""
    verdict = evaluation.verdict
    findings = [Finding(f"{verdict.lead} {_consequence(evaluation)}", _KINDS[verdict.name])]
    findings += [Finding(text) for text in verdict.reasons]
    findings += [Finding(text, "note") for text in verdict.advice]
    tables = (_table(evaluation),) if len(evaluation.by_assumption) > 1 else ()
    return Section("verdict", "Can the figures be believed?", tuple(findings), tables=tables)


def verdict_tile(evaluation: Evaluation) -> Tile:
    """Give the verdict in a word."""
    name = evaluation.verdict.name
    return Tile("the assumption is", name, _TOLD[name], _KINDS[name])


def _consequence(evaluation: Evaluation) -> str:
    if evaluation.verdict.name == "not_rejected":
        return ""
    if evaluation.verdict.name == "rejected":
        return (
            "So the figures below are ranges that hold if scores tell rows of a bag apart up to "
            "three times better or worse than bags suggest."
        )
    return "So the intervals below are wide enough for the case that the assumption is wrong."


def _table(evaluation: Evaluation) -> NumberTable:
    by_assumption = evaluation.by_assumption
    rows = tuple(
        (
            measure_name(name),
            *(
                _cell(by_assumption[key][name])
                for key in ("label_shift", "covariate_shift", "sensitivity")
            ),
        )
        for name in _COMPARED
        if name in by_assumption["label_shift"]
    )
    header = (
        "Measure",
        "If a class looks the same in all bags",
        "If rows of the same look have the same odds",
        "Whatever the bags are, within reason",
    )
    return NumberTable("What the figures would be, by what makes bags differ", header, rows)


def _cell(found: Estimate) -> str:
    impossible = found.bounded and not 0 <= found.value <= 1
    mark = " (impossible)" if impossible else ""
    return f"{percent(found.value, digits_of(found))}{mark}, {interval_text(found)}"
