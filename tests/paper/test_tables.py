"""Tables: figures, bold and brackets in the right places."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from unbag._text import p_text
from unbag.paper.experiments import make_tasks
from unbag.paper.tables import (
    comparisons,
    markdown_tables,
    published_auc,
    summarise,
)

SIZES = (8, 32, 128, 512)


def row(method, auc, bag_size=8, seed=0, **change):
    return {
        "dataset": "magic",
        "bag_size": bag_size,
        "table": 1,
        "sampling": "paper",
        "standardize_all": False,
        "low": 0.0,
        "high": 0.5,
        "n_bags": 768,
        "method": method,
        "seed": seed,
        "auc": auc,
        "ber": 0.2,
        "chosen": {"alpha": 0.001},
        "seconds": 1.0,
        "date": "2026-01-01",
        **change,
    }


def test_mean_and_deviation_over_trials():
    rows = [row("lmmcm", auc, seed=seed) for seed, auc in enumerate([0.8, 0.9, 0.85])]
    ((_, summary),) = summarise(rows).items()
    assert summary.mean == pytest.approx(0.85)
    assert summary.deviation == pytest.approx(np.std([0.8, 0.9, 0.85], ddof=1))
    assert str(summary) == "0.8500 ± 0.0500"


def test_the_best_method_without_labels_is_bold_and_the_paper_stands_beside():
    rows = [row("lmmcm", 0.89), row("invcal", 0.88), row("labels", 0.92), row("lmmcm", 0.7, 32)]
    text = markdown_tables(rows)
    assert "### Table 1 (number of instances fixed): MAGIC, proportions in [0, 0.5]" in text
    assert "| lmmcm | 1 | **0.8900** (paper 0.8909) | **0.7000** (paper 0.8799) |" in text
    assert "| invcal | 1 | 0.8800 (paper 0.8918) |  |" in text
    assert "| labels | 1 | 0.9200 |  |" in text


def test_trials_of_a_method_that_is_no_more_are_still_shown():
    rows = [row("lmmcm", 0.89), row("combined", 0.9), row("labels", 0.92)]
    text = markdown_tables(rows)
    assert "| combined | 1 | **0.9000** (paper 0.8909) |" in text
    assert any(s.startswith("lmmcm against combined: -0.0100") for s in comparisons(rows))
    with pytest.raises(ValueError, match="There is no method 'combined'; the methods are"):
        make_tasks(methods=["combined"])


def test_shuffled_bags_have_no_counterpart_in_the_paper():
    text = markdown_tables([row("lmmcm", 0.89, sampling="iid", high=1.0)])
    assert "random bags" in text
    assert "paper" not in text


def test_comparison_is_wilcoxons_over_cells():
    gains = [0.01, 0.02, -0.005, 0.03, 0.015, 0.001, 0.04, 0.012]
    rows = []
    for number, gain in enumerate(gains):
        place = {"bag_size": SIZES[number % 4], "dataset": ["adult", "magic"][number // 4]}
        rows += [row("lmmcm", 0.85 + gain, **place), row("invcal", 0.85, **place)]
    sentence = next(s for s in comparisons(rows) if "against invcal" in s)
    assert f"{np.mean(gains):+.4f} on average over 8 settings" in sentence
    assert "above it in 7, at worst -0.0050" in sentence
    assert p_text(wilcoxon(gains).pvalue) in sentence
    paper = next(s for s in comparisons(rows) if "the paper's lmmcm" in s)
    reported = [
        published_auc(1, d, (0.0, 0.5), n, "lmmcm").mean for d in ("adult", "magic") for n in SIZES
    ]
    assert f"{np.mean(np.array(gains) + 0.85 - reported):+.4f}" in paper


def test_settings_that_both_tables_have_count_once():
    """Adult has 16 bags of 512 in either table, so that 32 cells are 28 settings."""
    rows = []
    for number in range(32):
        table, rest = number % 2 + 1, number // 2
        place = {"dataset": ["adult", "magic"][rest % 2], "low": [0.0, 0.5][rest // 2 % 2]}
        place |= {"high": place["low"] + 0.5, "table": table, "bag_size": SIZES[rest // 4]}
        gain = 0.01 * (number + 1)
        rows += [row("lmmcm", 0.5 + gain, **place), row("invcal", 0.5, **place)]
    sentence = next(s for s in comparisons(rows) if "against invcal" in s)
    assert "over 28 settings, at or above it in 28" in sentence
    alone = [0.01 * (n + 1) for n in range(24)]
    both = [0.01 * (n + 1.5) for n in range(24, 32, 2)]
    assert f"{np.mean(alone + both):+.4f} on average" in sentence
    assert p_text(wilcoxon(alone + both).pvalue) in sentence
