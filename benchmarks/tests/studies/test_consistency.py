"""Many small bags lead to the least error there can be: a quick form of the study."""

import re
from pathlib import Path

import numpy as np
import pytest

from unbag.paper.bounds import misordering_probability
from unbag.paper.rows import load_rows
from unbag_bench.studies import consistency

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rows():
    return load_rows(consistency.STUDY.folder / "rows.jsonl")


@pytest.mark.parametrize("model", ["CIIM", "CIBM"])
def test_error_goes_to_the_bayes_error(model):
    few = consistency.run(16, model, repeats=15)["errors"]
    many = consistency.run(2500, model, repeats=4)["errors"]
    for name in consistency.METHODS:
        assert np.mean(few[name]) > 3e-3, name
        assert min(many[name]) >= 0
        # an error falls about as 1/N, which makes 150 times
        assert np.mean(many[name]) < np.mean(few[name]) / 15, name
        assert np.mean(many[name]) < 1e-3, name


def test_bags_are_misordered_as_often_as_computed():
    wrong = consistency.misordered(consistency.draw(20_000, "CIIM", seed=0))
    exact = misordering_probability(0.45, 0.55, 8)
    assert len(wrong) == pytest.approx(10_000, rel=0.05)
    assert wrong.mean() == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / len(wrong)))


def test_merging_costs_what_the_weights_say():
    """Of N(0, 1) proportions, halves differ by 2√(2/π) and the two of a pair by 2/√π."""
    found = consistency.expected_cost(4096, "CIIM")
    np.testing.assert_allclose(found, [2, 1, np.pi, np.pi / 2, 1], rtol=0.08)


def test_error_of_a_plane_is_counted_right():
    data = consistency.draw(2000, "CIIM", seed=0)

    class Plane:
        coef_, intercept_ = np.array([[1.0, 0.5]]), np.array([0.3])

    wrong = (data.X @ [1.0, 0.5] + 0.3 > 0) != data.labels
    counted = np.mean([wrong[data.labels == c].mean() for c in (0, 1)])
    assert consistency.balanced_error(Plane(), data.means) == pytest.approx(counted, abs=0.01)


def test_page_shows_the_figures_of_the_results(rows):
    """Without their intervals, and rounded."""
    means = {
        (row["model"], row["n_pairs"]): [1e4 * np.mean(errors) for errors in row["errors"].values()]
        for row in rows
    }
    assert len(means) == 10
    page = (ROOT / "docs" / "theory" / "bounds.md").read_text()
    shown = re.findall(r"^\| (CIIM|CIBM) \| ([\d,]+) \| (.*) \|$", page, re.MULTILINE)
    assert len(shown) == 6
    for model, n_pairs, cells in shown:
        N = int(n_pairs.replace(",", ""))
        digits = 0 if N == 16 else 2
        assert [float(cell) for cell in cells.split(" | ")] == [
            round(mean, digits) for mean in means[model, N]
        ]
    for least in consistency.least_pairs():
        assert f"N = {least:,}" in page


def test_picture_is_drawn_from_the_results(rows, tmp_path):
    consistency.draw_figure(rows, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
