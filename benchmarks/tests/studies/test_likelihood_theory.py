"""What docs/theory/count-likelihood.md says of variances and of the error of the saddlepoint approximation."""

from pathlib import Path

import numpy as np
import pytest

from unbag.paper.rows import load_rows
from unbag_bench.studies import efficiency
from unbag_bench.study import results_folder

ROOT = Path(__file__).parents[3]


def rows_of(study):
    return load_rows(results_folder() / study / "rows.jsonl")


# --- variances ----------------------------------------------------------------------------------


def test_formulas_are_those_of_the_rows():
    for row in rows_of("efficiency"):
        shares = efficiency.SHARES[row["shares"]]
        found = efficiency.variances(shares, row["size"], row["separation"])
        for name, value in row["formula"].items():
            assert found[name] == pytest.approx(value, rel=1e-3)


def test_formulas_agree_with_fits():
    """In large bags; over all settings together closer than one by one."""
    ratios = {name: [] for name in ("G", "F", "R", "labels")}
    for row in rows_of("efficiency"):
        if row["size"] < 100:
            continue
        for name, slopes in row["slopes"].items():
            variance = row["rows"] * np.var(slopes, ddof=1)
            ratios[name].append(variance / row["formula"][name])
    for name, values in ratios.items():
        assert len(values) == 6
        assert np.mean(values) == pytest.approx(1, abs=0.2), name
        assert (np.abs(np.log(values)) < 0.45).all(), name


def test_likelihood_of_counts_is_never_behind():
    for separation in (0.5, 1.0, 2.0):
        for shares in efficiency.SHARES.values():
            found = efficiency.variances(shares, 128, separation)
            assert found["labels"] < found["G"] <= found["F"] * (1 + 1e-9)
            assert found["F"] < found["R"]


def test_pure_bags_are_labels():
    """And G, F and R of them have the variance of slopes by labels."""
    found = efficiency.variances(np.array([0.0, 1.0]), 50, 1.0)
    for name in ("G", "F", "R"):
        assert found[name] == pytest.approx(found["labels"], rel=1e-6)


def test_figures_of_the_page():
    """Shares uniform on [0, ½] in bags of 128, D = 15."""
    page = (ROOT / "docs" / "theory" / "count-likelihood.md").read_text()
    shares = efficiency.SHARES["uniform on [0, ½]"]
    near, far = (efficiency.variances(shares, 128, d) for d in (1.0, 2.0))
    ratios = [found["R"] / found["G"] for found in (near, far)]
    assert f"its variance is {ratios[0]:.2f} and {ratios[1]:.2f} times that of G" in " ".join(
        page.split()
    )
    for name in ("R", "G"):
        for found in (near, far):
            assert f"{found['labels'] / found[name]:.3f}".lstrip("0") in page
    for row in rows_of("efficiency"):
        if row["size"] == 128:
            assert f"{row['formula']['R']:.3g} (" in page


# --- the saddlepoint approximation --------------------------------------------------------------


def exact_probability(probabilities, count):
    """Pr(K = count) by convolution."""
    table = np.zeros(len(probabilities) + 1)
    table[0] = 1.0
    for j, probability in enumerate(probabilities):
        table[1 : j + 2] = table[1 : j + 2] * (1 - probability) + table[: j + 1] * probability
        table[0] *= 1 - probability
    return table[count]


def tilted(scores, count):
    """Probabilities of the scores after the shift that makes them add up to the count."""
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        total = np.sum(1 / (1 + np.exp(-scores - middle)))
        low, high = (middle, high) if total < count else (low, middle)
    return 1 / (1 + np.exp(-scores - low))


@pytest.mark.parametrize("n", [32, 128, 512])
def test_error_of_the_saddle_point_falls_as_stated(n):
    """About .04/V to first order and .0013/V² to second."""
    rng = np.random.default_rng(n)
    first, second = [], []
    for _ in range(40):
        count = int(rng.integers(n // 8 + 1, n - n // 8))
        q = tilted(rng.normal(size=n) + rng.normal(), count)
        w = q * (1 - q)
        V, third, fourth = w.sum(), (w * (1 - 2 * q)).sum(), (w * (1 - 6 * w)).sum()
        exact = -np.log(exact_probability(q, count))
        crude = 0.5 * np.log(2 * np.pi * V)
        finer = crude - fourth / (8 * V**2) + 5 * third**2 / (24 * V**3)
        first.append(abs(crude - exact) * V)
        second.append(abs(finer - exact) * V**2)
    assert np.median(first) == pytest.approx(0.042, abs=0.006)
    assert np.median(second) == pytest.approx(0.0014, abs=0.0005)
