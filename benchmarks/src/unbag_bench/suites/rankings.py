"""Methods ranked suite by suite, on the draws that all of them had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unbag.paper.rows import Row
from unbag_bench.suites.ranks import Ranking, rank_methods
from unbag_bench.suites.scores import (
    FullTable,
    Scores,
    add_published,
    default_of,
    full_tables,
    make_scores,
    with_more_methods,
)
from unbag_bench.suites.tasks import SUITES

# What methods are ranked by: accuracy is what was published of the landscape.
RANKED_BY = {"landscape": "accuracy", "natural": "auc", "tables": "auc", "images": "accuracy"}


class SuiteRanking(NamedTuple):
    """Everything that the page says of the ranks in a table of methods and draws."""

    table: FullTable
    scores: Scores
    whole: Ranking
    by_kind: dict[str, Ranking]
    default: str

    @property
    def suite(self) -> str:
        """Whose sets these are."""
        return self.table.suite


def suite_rankings(rows: Sequence[Row]) -> list[SuiteRanking]:
    """Rank the methods of all tables without a gap that have our default and others."""
    tables = [table for suite in SUITES for table in full_tables(rows, suite)]
    every = [one for table in tables for one in (table, with_more_methods(table))]
    found = [_ranking(table, RANKED_BY[table.suite]) for table in every if table is not None]
    return [ranking for ranking in found if ranking is not None]


def _ranking(table: FullTable, metric: str) -> SuiteRanking | None:
    default = default_of(table.methods)
    scores = make_scores(table.rows, metric, table.methods)
    if table.suite == "landscape":
        scores = add_published(scores, metric)
    if default is None or len(scores.by_method) < 2:
        return None
    kinds = dict.fromkeys(scores.kinds)
    by_kind = {kind: rank_methods(scores.of_kind(kind).by_method) for kind in kinds}
    return SuiteRanking(table, scores, rank_methods(scores.by_method), by_kind, default)
