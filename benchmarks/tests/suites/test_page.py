"""The page says what the rows say, and losses first."""

import numpy as np
import pytest

from unbag_bench.suites.against import against_published, best_published
from unbag_bench.suites.figures import draw_figure
from unbag_bench.suites.files import TABLES
from unbag_bench.suites.landscape import LABEL_FREE, LANDSCAPE, PUBLISHED, RULES, published
from unbag_bench.suites.page import page_lines
from unbag_bench.suites.rankings import suite_rankings
from unbag_bench.suites.scores import full_tables, make_scores, of_suite


def row(name, method, accuracy, seed=0, suite="tables", **more):
    measured = {"accuracy": accuracy, "f1": accuracy, "auc": accuracy, "predicted": 0.2}
    spent = {"seconds": 1.0, "core_seconds": 0.5, "peak_mb": 100, "bags": f"{name} {seed}"}
    known = {"suite": suite, "name": name, "seed": seed, "method": method}
    return known | measured | spent | more


def some_rows(gain):
    """Linear against EPR on six tables of two kinds, ahead by so much in the first kind."""
    names = [f"{t} {k} 8" for k in ("low", "high") for t in TABLES[:6]]
    found = []
    for number, name in enumerate(names):
        ahead = gain if "low" in name else 0.02
        found.append(row(name, "mixed-linear", 0.7 + ahead + number / 1000))
        found.append(row(name, "epr", 0.7))
    return found


def test_losses_come_first():
    page = "\n".join(page_lines(some_rows(-0.1)))
    losses = page.split("## ")[1]
    assert losses.startswith("Where our default loses")
    assert "tables, low (shares in [0, 1/2]): `mixed-linear` has mean rank 2.00 ± 0.00" in losses
    assert "behind `epr` with 1.00 ± 0.00: -0.0975 over 6 sets, above it in 0, below in 6" in losses
    assert "tables, high" not in losses
    assert (
        "`mixed-linear` is below `epr` on average: -0.0345 over 12 sets, above it in 6, below in 6"
        in losses
    )


def test_where_nothing_is_lost_the_page_says_so():
    page = "\n".join(page_lines(some_rows(0.1)))
    assert "Nowhere in these rows" in page
    assert "| `mixed-linear` | **1.00 ± 0.00** | **1.00 ± 0.00** | **1.00 ± 0.00** |" in page
    # six sets ahead by different amounts: 2/2⁶, and twelve: 2/2¹²
    assert "above it in 12, below in 0, Wilcoxon–Holm p < 0.001" in page


def test_methods_that_refuse_rank_last_and_are_counted():
    rows = some_rows(0.1)
    refused = rows[0]
    for measure in ("accuracy", "f1", "auc"):
        del refused[measure]
    refused["failed"] = "All bags are alike."
    page = "\n".join(page_lines(rows))
    assert "Methods refused the bags in 1 rows, and rank last there." in page
    (found,) = suite_rankings(rows)
    assert found.by_kind["low"].ranks[0] == pytest.approx((2 + 5) / 6)


def test_methods_are_compared_on_the_same_draws():
    rows = [row("hi low 8", "mixed-linear", 0.8, seed) for seed in (0, 1)]
    rows += [row("hi low 8", "epr", 0.6, seed=1), row("compas low 8", "mixed-linear", 0.5)]
    (table,) = full_tables(rows, "tables")
    assert table.methods == ["mixed-linear"]
    scores = make_scores(of_suite(rows, "tables"), "auc", ["mixed-linear", "epr"])
    assert scores.names == ("hi low 8",)
    assert scores.seeds == {"hi low 8": (1,)}
    page = "\n".join(page_lines(rows))
    assert "`epr` and `mixed-linear` on 1 set, 1 draw: accuracy 0.600 and 0.800" in page
    assert "by AUC -0.2000 over 1 set, above it in 0, below in 1." in page


def test_sets_that_some_methods_lack_make_a_table_of_their_own():
    rows = [row for row in some_rows(0.1) if "low" in row["name"]]
    rows += [row(r["name"], "mm", 0.6) for r in rows[::2]]
    rows += [
        row("hi low 2048", method, auc) for method, auc in (("mixed-linear", 0.6), ("epr", 0.8))
    ]
    first, second = full_tables(rows, "tables")
    assert first.methods == ["mixed-linear", "epr", "mm"]
    assert (second.title, second.methods) == ("tables, further sets", ["mixed-linear", "epr"])
    page = "\n".join(page_lines(rows))
    assert (
        "- tables, further sets, low (shares in [0, 1/2]): `mixed-linear` has mean rank 2.00"
        in page
    )
    assert "The sets: hi low 2048." in page


def test_methods_with_fewer_draws_of_every_set_are_ranked_on_these():
    names = ("hi low 8", "compas low 8")
    rows = [row(name, "mixed-linear", 0.8, seed) for name in names for seed in range(9)]
    rows += [row(name, "epr", 0.7 + seed, seed) for name in names for seed in (0, 1)]
    rows += [row(name, "mixed", 0.9, seed) for name in names for seed in (1, 2)]
    rows += [row(names[0], "mm", 0.5, 1)]
    (table,) = full_tables(rows, "tables")
    assert table.methods == ["mixed-linear"]
    (wider,) = suite_rankings(rows)
    assert wider.table.title == "tables, more methods"
    assert wider.table.methods == ["mixed", "mixed-linear", "epr"]
    assert wider.scores.seeds == dict.fromkeys(("compas low 8", "hi low 8"), (1,))
    assert wider.default == "mixed"
    assert "Draws of a set: 1. low" in "\n".join(page_lines(rows))


def test_every_kind_has_its_paired_test():
    page = "\n".join(page_lines(some_rows(-0.1)))
    losses = page.split("`mixed-linear` against the best other method of each kind, by rank:")[1]
    assert "- low: against `epr` -0.0975 over 6 sets, above it in 0, below in 6" in losses
    assert "- high: against `epr` +0.0285 over 6 sets, above it in 6, below in 0" in losses


def test_times_on_a_device_are_told_apart():
    rows = [
        row("hi low 8", "mixed-linear", 0.8),
        row("hi low 8", "mixed-linear", 0.8, 1, device="cuda"),
    ]
    page = "\n".join(page_lines(rows))
    assert "| tables | `mixed-linear` | 1 |" in page
    assert "| tables | `mixed-linear` on cuda | 1 |" in page


def test_rows_of_different_bags_are_refused():
    rows = [row("hi low 8", "mixed-linear", 0.8), row("hi low 8", "epr", 0.8, bags="others")]
    with pytest.raises(ValueError, match="hi low 8, draw 0, were made with different bags; delete"):
        of_suite(rows, "tables")


def test_ours_stand_beside_the_best_of_theirs():
    name = LANDSCAPE[10]
    pairs = [(m, r) for m in PUBLISHED for r in LABEL_FREE]
    best = max(pairs, key=lambda pair: published(name, *pair).accuracy.mean())
    theirs = published(name, *best).accuracy
    assert best_published(name) == best
    rows = [row(name, "mixed-linear", theirs[s] + 0.01 * s, s, "landscape") for s in (3, 4, 5)]
    (one,) = against_published([*rows, row(name, "mm", 0.9, 3, "landscape")])
    assert one.gain == pytest.approx(0.04)
    # gains of .03, .04 and .05
    assert one.error == pytest.approx(0.01 / np.sqrt(3))
    page = "\n".join(page_lines(rows))
    assert "| 1 | 0 | 0 | 1, 0 | +0.0400 |  |" in page
    oracle = max(published(name, m, r).accuracy.mean() for m in PUBLISHED for r in RULES)
    (beside_labels,) = against_published(rows, RULES)
    assert published(name, *beside_labels.best.split(" by ")).accuracy.mean() == oracle
    above = int(beside_labels.gain > 0)
    assert (
        f"If published methods may also choose by labels, unbag is above in {above} of them."
        in page
    )
    # s² times 1/3 + 12,211/36,631, nearly two thirds
    assert one.cautious_error == pytest.approx(0.01 * np.sqrt(2 / 3), rel=1e-4)
    assert "(Nadeau and Bengio 2003), 1 of 1 set are above by two, and 0 below." in page
    (ranking,) = suite_rankings(rows)
    assert len(ranking.whole.methods) == 9
    assert ranking.whole.methods[0] == "mixed-linear"


def test_the_picture_is_drawn(tmp_path):
    rows = some_rows(0.1)
    rows += [row(name, "mixed-linear", 0.85, 0, "landscape") for name in LANDSCAPE[::9]]
    draw_figure(rows, tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").read_bytes()[1:4] == b"PNG"
    with pytest.raises(ValueError, match="There are no rows to draw"):
        draw_figure([row("hi low 8", "labels", 0.9)], tmp_path / "none.png")


def test_means_are_those_of_the_rows():
    page = "\n".join(page_lines(some_rows(0.1)))
    mean = np.mean([0.8 + n / 1000 for n in range(6)])
    assert f"| `mixed-linear` | 1 | {mean:.3f} {mean:.3f} {mean:.3f} |" in page
