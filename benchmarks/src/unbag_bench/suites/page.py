"""The page: which method for which bags, from rows alone, and first of all where ours lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unbag._text import markdown_table, p_text, plural
from unbag.paper.rows import Row
from unbag_bench.suites.against import against_published
from unbag_bench.suites.landscape import PUBLISHED, RULES
from unbag_bench.suites.methods import METHODS
from unbag_bench.suites.rankings import RANKED_BY, SuiteRanking, suite_rankings
from unbag_bench.suites.ranks import Comparison, Ranking, compare, signed_rank
from unbag_bench.suites.scores import (
    FullTable,
    Scores,
    add_published,
    default_of,
    full_tables,
    make_scores,
    of_suite,
    published_name,
)
from unbag_bench.suites.tasks import IMAGE_SIZES, SUITES

SHOWN = {"accuracy": "accuracy", "f1": "F1", "auc": "AUC"}

KIND_WORDS = {
    "naive": "random bags, 5 to 30",
    "simple": "label shift",
    "intermediate": "covariate shift",
    "hard": "neither",
    "low": "shares in [0, 1/2]",
    "high": "shares in [1/2, 1]",
    "shuffled": "random bags",
    "feature": "rows alike in some columns",
    "clustered": "rows of one cluster",
    "real": "natural bags",
    **{str(size): "random bags" for size in IMAGE_SIZES},
}


def page_lines(rows: Sequence[Row], picture: str | None = None) -> list[str]:
    """Write the page, in Markdown, without a heading; ``picture`` is the name of its file."""
    rankings = suite_rankings(rows)
    return [
        *_lead(rows),
        *_losses(rows, rankings),
        *_which(rankings, picture),
        *_published_sets(rows),
        *_scores(rows),
        *_costs(rows),
        *_methods(rows),
    ]


def _lead(rows: Sequence[Row]) -> list[str]:
    done = [row for row in rows if "skipped" not in row]
    refused = sum("failed" in row for row in done)
    skipped = len(rows) - len(done)
    lines = []
    for suite, about in SUITES.items():
        own = of_suite(rows, suite)
        if own:
            sets, draws = {r["name"] for r in own}, {(r["name"], r["seed"]) for r in own}
            methods = {r["method"] for r in own}
            lines.append(
                f"- **{suite}**: {about.title}: {_count(len(sets), 'set')}, "
                f"{_count(len(draws), 'draw')} of bags, {_count(len(methods), 'method')}, ranked "
                f"by {SHOWN[RANKED_BY[suite]]}."
            )
    left = [f"Methods refused the bags in {refused} rows, and rank last there."] * (refused > 0)
    left += [f"{skipped} draws were not to be had: too few rows of a class."] * (skipped > 0)
    return [
        *lines,
        "",
        " ".join(
            [
                "Settings are chosen without labels; labels of test rows score. Ranks: the best "
                "method of a set has rank 1, and a mean over sets has its standard error. Sets of "
                "a suite share rows, so that p-values over sets are somewhat too small.",
                *left,
            ]
        ),
        "",
    ]


# --- where we lose --------------------------------------------------------------------------------


def _losses(rows: Sequence[Row], rankings: Sequence[SuiteRanking]) -> list[str]:
    """Where our default is behind, before anything else."""
    lines = []
    for found in rankings:
        for kind, ranking in found.by_kind.items():
            if not ranking.first_within(found.default):
                place = ranking.methods.index(found.default)
                lines.append(
                    f"- {found.table.title}, {kind} ({KIND_WORDS[kind]}): `{found.default}` has "
                    f"mean rank {_rank(ranking, place)}, behind `{ranking.methods[0]}` with "
                    f"{_rank(ranking, 0)}: {_difference(_against_best(found, kind))}."
                )
        lines += [
            f"- {found.table.title}: `{found.default}` is below `{one.other}` on average: "
            f"{_difference(one)}."
            for one in compare(found.scores.by_method, found.default)
            if one.gain < 0
        ]
    lines += [
        f"- landscape, {one.name}: {one.ours.mean():.4f} against {one.theirs.mean():.4f} of "
        f"{one.best} ({one.gain:+.4f}{_plus_minus(one.error)}, {_count(len(one.ours), 'split')})."
        for one in against_published(rows)
        if one.gain < 0
    ]
    lines += [line for found in rankings for line in _losses_by_f1(found)]
    if not lines:
        lines = ["Nowhere in these rows: it is first, or within one standard error of it."]
    return ["## Where our default loses", "", *lines, ""]


def _losses_by_f1(found: SuiteRanking) -> list[str]:
    """Kinds of the landscape where another method has a higher mean F1, which was published too."""
    if found.suite != "landscape":
        return []
    scores = add_published(make_scores(found.table.rows, "f1", found.table.methods), "f1")
    lines = []
    for kind in dict.fromkeys(scores.kinds):
        one = compare(scores.of_kind(kind).by_method, found.default)[0]
        if one.gain < 0:
            lines.append(
                f"- {found.table.title}, {kind}, F1: `{found.default}` is below `{one.other}` on "
                f"average: {_difference(one)}."
            )
    return lines


def _against_best(found: SuiteRanking, kind: str) -> Comparison:
    """Our default beside the best other method by mean rank in bags of one kind."""
    best = next(m for m in found.by_kind[kind].methods if m != found.default)
    pairs = compare(found.scores.of_kind(kind).by_method, found.default)
    return next(one for one in pairs if one.other == best)


def _difference(one: Comparison) -> str:
    tested = "" if np.isnan(one.p_value) else f", Wilcoxon–Holm {p_text(one.p_value)}"
    sets = one.above + one.level + one.below
    return (
        f"{one.gain:+.4f} over {_count(sets, 'set')}, above it in {one.above}, below in "
        f"{one.below}{tested}"
    )


def _rank(ranking: Ranking, place: int) -> str:
    return f"{ranking.ranks[place]:.2f}{_plus_minus(ranking.errors[place], 2)}"


def _plus_minus(error: float, digits: int = 4) -> str:
    return "" if np.isnan(error) else f" ± {error:.{digits}f}"


def _count(number: int, what: str) -> str:
    return f"{number} {plural(number, what)}"


# --- which method ---------------------------------------------------------------------------------


def _which(rankings: Sequence[SuiteRanking], picture: str | None) -> list[str]:
    """Mean ranks by suite and kind, and the tests over all sets of a suite."""
    lines = ["## Which method for which bags", ""]
    if picture is not None:
        lines += [f"![Mean ranks by kind of bags, and critical differences]({picture})", ""]
    for found in rankings:
        kinds = found.by_kind
        methods = found.whole.methods
        header = ["method", "all", *kinds]
        body = [["sets", str(found.whole.n_sets), *(str(r.n_sets) for r in kinds.values())]]
        for method in methods:
            cells = [_cell(ranking, method) for ranking in (found.whole, *kinds.values())]
            body.append([f"`{method}`", *cells])
        what = ", ".join(f"{kind}: {KIND_WORDS[kind]}" for kind in kinds)
        if found.table.number:
            what += f". The sets: {', '.join(found.scores.names)}"
        lines += [
            f"### {found.table.title}",
            "",
            f"Mean rank by {SHOWN[RANKED_BY[found.suite]]}, with its standard error over sets; "
            "bold: first, or behind the first by one standard error of its own at most. Draws of a "
            f"set: {_splits(found.scores)}. {what}.",
            "",
            *markdown_table(header, body),
            "",
            *_tests(found),
        ]
    return lines


def _cell(ranking: Ranking, method: str) -> str:
    text = _rank(ranking, ranking.methods.index(method))
    return f"**{text}**" if ranking.first_within(method) else text


def _tests(found: SuiteRanking) -> list[str]:
    lines = []
    whole = found.whole
    if not np.isnan(whole.p_value):
        lines.append(
            f"Friedman's test: {p_text(whole.p_value)}; mean ranks that differ by more than "
            f"{whole.critical_difference:.2f} differ beyond random variation (Nemenyi, 95%)."
        )
    lines += [
        f"- `{found.default}` against `{one.other}`: {_difference(one)}."
        for one in compare(found.scores.by_method, found.default)
    ]
    if len(found.by_kind) > 1:
        pairs = {kind: _against_best(found, kind) for kind in found.by_kind}
        lines += ["", f"`{found.default}` against the best other method of each kind, by rank:", ""]
        lines += [
            f"- {kind}: against `{one.other}` {_difference(one)}." for kind, one in pairs.items()
        ]
    return [*lines, ""]


# --- the published results ------------------------------------------------------------------------


def _published_sets(rows: Sequence[Row]) -> list[str]:
    found = against_published(rows)
    if not found:
        return []
    kinds = dict.fromkeys(one.kind for one in found)
    body = []
    for kind in (*kinds, "all"):
        own = [one for one in found if kind in (one.kind, "all")]
        gains = np.array([one.gain for one in own])
        beyond = gains / np.array([one.error for one in own])
        p_value = signed_rank(gains)
        body.append(
            [
                kind,
                str(len(own)),
                f"{np.mean([one.ours.mean() for one in own]):.4f}",
                f"{np.mean([one.theirs.mean() for one in own]):.4f}",
                *(str(int(n)) for n in ((gains > 0).sum(), (gains == 0).sum(), (gains < 0).sum())),
                f"{(beyond > 2).sum()}, {(beyond < -2).sum()}",
                f"{gains.min():+.4f}",
                "" if np.isnan(p_value) else f"{p_value:.2g}",
            ]
        )
    header = ["bags", "sets", "unbag", "best published", "above", "level", "below"]
    header += ["above, below by two standard errors", "at worst", "Wilcoxon p over sets"]
    splits = sorted({len(one.ours) for one in found})
    return [
        "### unbag beside the best published accuracy",
        "",
        "For every set the best of what was published, eight methods by two rules of selection "
        "without labels, chosen by the results of all thirty splits; both in the same "
        f"{' to '.join(dict.fromkeys(map(str, (splits[0], splits[-1]))))} of them. unbag is the one "
        "model that is judged above. Standard errors are those of paired differences over splits, "
        f"which share rows; corrected for that (Nadeau and Bengio 2003), "
        f"{sum(one.gain > 2 * one.cautious_error for one in found)} of "
        f"{_count(len(found), 'set')} are above by two, and "
        f"{sum(one.gain < -2 * one.cautious_error for one in found)} below. If published methods may also "
        "choose by labels, unbag is above in "
        f"{sum(one.gain > 0 for one in against_published(rows, RULES))} of them.",
        "",
        *markdown_table(header, body),
        "",
    ]


# --- scores and costs ------------------------------------------------------------------------


def _scores(rows: Sequence[Row]) -> list[str]:
    """Means by kind: accuracy, F1 and AUC."""
    lines = ["## Scores", ""]
    for table in (table for suite in SUITES for table in full_tables(rows, suite)):
        names = {row["name"] for row in table.rows}
        covered = {m: {r["name"] for r in table.rows if r["method"] == m} for m in METHODS}
        body = []
        kinds: list[str] = []
        for method in (method for method in METHODS if covered[method] == names):
            parts = {metric: make_scores(table.rows, metric, [method]) for metric in SHOWN}
            kinds = list(dict.fromkeys(parts["auc"].kinds))
            body.append([f"`{method}`", _splits(parts["auc"]), *_means(parts, kinds, method)])
        if table.suite == "landscape":
            seeds = make_scores(table.rows, "accuracy", table.methods)
            theirs = {metric: add_published(seeds, metric) for metric in ("accuracy", "f1")}
            body += [
                [f"`{name}`", _splits(seeds), *_means(theirs, kinds, name)]
                for name in map(published_name, PUBLISHED)
            ]
        lines += [
            f"### {table.title}: {', '.join(SHOWN.values())}, means over sets",
            "",
            *markdown_table(["method", "draws of a set", *kinds], body),
            "",
            *_partial(table),
        ]
    return lines


def _splits(scores: Scores) -> str:
    counts = sorted({len(seeds) for seeds in scores.seeds.values()})
    return " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))


def _means(tables: Mapping[str, Scores], kinds: Sequence[str], method: str) -> list[str]:
    by_kind = [{m: t.of_kind(kind).by_method for m, t in tables.items()} for kind in kinds]
    return [
        " ".join(f"{np.nanmean(own[m][method]):.3f}" if m in own else "–" for m in SHOWN)
        for own in by_kind
    ]


def _partial(table: FullTable) -> list[str]:
    """Methods that were not run on all of these draws, each beside our default on its own."""
    by, default = RANKED_BY[table.suite], default_of(table.methods)
    if default is None:
        return []
    whole = make_scores(table.rows, by, table.methods).seeds
    lines = []
    for method in dict.fromkeys(row["method"] for row in table.rows):
        scores = {m: make_scores(table.rows, m, [default, method]) for m in SHOWN}
        seeds = scores[by].seeds
        if method == default or not seeds or seeds == whole:
            continue
        means = ", ".join(
            f"{SHOWN[m]} {np.nanmean(t.by_method[method]):.3f} and "
            f"{np.nanmean(t.by_method[default]):.3f}"
            for m, t in scores.items()
        )
        (paired,) = compare(scores[by].by_method, method)
        lines.append(
            f"- `{method}` and `{default}` on {_count(len(seeds), 'set')}, "
            f"{_count(sum(map(len, seeds.values())), 'draw')}: {means}; by {SHOWN[by]} "
            f"{_difference(paired)}."
        )
    return [*lines, ""] if lines else []


def _costs(rows: Sequence[Row]) -> list[str]:
    body = []
    for suite in SUITES:
        own = [row for row in of_suite(rows, suite) if "failed" not in row]
        for method, device in dict.fromkeys((row["method"], row.get("device")) for row in own):
            found = [r for r in own if (r["method"], r.get("device")) == (method, device)]
            core = [row["core_seconds"] for row in found]
            body.append(
                [
                    suite,
                    f"`{method}`" + (f" on {device}" if device else ""),
                    str(len(found)),
                    f"{np.median(core):.1f}",
                    f"{np.max(core):.1f}",
                    f"{np.median([row['seconds'] for row in found]):.1f}",
                    f"{max(row['peak_mb'] for row in found)}",
                ]
            )
    header = ["suite", "method", "fits", "core-seconds, median", "most", "seconds, median"]
    return [
        "## Time and memory of a fit",
        "",
        *markdown_table([*header, "peak of the process, MB"], body),
        "",
    ]


def _methods(rows: Sequence[Row]) -> list[str]:
    present = {row["method"] for row in rows}
    body = [[f"`{name}`", METHODS[name].description] for name in METHODS if name in present]
    if any(row["suite"] == "landscape" for row in rows):
        names = ", ".join(f"`{published_name(method)}`" for method in PUBLISHED)
        body.append([names, "as published by Franco et al., selected by the error of shares"])
    return ["## Methods", "", *markdown_table(["method", "what it is"], body)]
