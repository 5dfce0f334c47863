"""Every example runs, and prints its message."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

EXAMPLES = Path(__file__).parent.parent / "examples"
PICTURES = sorted(EXAMPLES.glob("*/plot_*.py"))
# What a picture's script prints, where that is more than remarks.
SAYS = {
    "plot_text": r"AUC without a label: 0\.9\d+ \(0\.8.* to .*\)\nTrue AUC: +0\.9\d+\n",
    "plot_label_shift": r"^No conflict with label shift",
    "plot_covariate_shift": r"label_shift: rejected\ncovariate_shift: not_rejected",
    "plot_images": r"^9\d% of 997 new images",
    "plot_network": r"did not use: (8|9)\d\.\d%",
}


def run(example, *arguments, cwd, monkeypatch):
    """Run a script as if it were called, in this process: imports take longer than most of them."""
    monkeypatch.setattr(sys, "argv", [str(example), *arguments])
    monkeypatch.chdir(cwd)
    runpy.run_path(str(example), run_name="__main__")


def groups(examples):
    """Those that need torch or Dask go to the same process, which then imports it once."""
    for path in examples:
        heavy = re.search(r"^(?:from|import) (torch|dask)", path.read_text(), flags=re.MULTILINE)
        marks = [pytest.mark.xdist_group("heavy examples")] if heavy else []
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", list(groups(PICTURES)))
def test_every_picture_is_drawn(example, tmp_path, monkeypatch, capsys):
    plt.switch_backend("agg")
    run(example, cwd=tmp_path, monkeypatch=monkeypatch)
    (number,) = plt.get_fignums()
    assert any(axes.has_data() for axes in plt.figure(number).axes)
    plt.close("all")
    assert re.search(SAYS.get(example.stem, r""), capsys.readouterr().out)


def test_the_gallery_is_complete():
    assert len(PICTURES) >= 15
    for path in PICTURES:
        title, underline, empty, text = path.read_text(encoding="utf-8").splitlines()[1:5]
        assert underline == "=" * len(title)
        assert (empty, bool(text)) == ("", True)


@pytest.mark.parametrize("name", ["pairing_errs", "proportion_risk_fails"])
def test_every_other_example_runs(name, tmp_path, monkeypatch, capsys):
    run(EXAMPLES / f"{name}.py", cwd=tmp_path, monkeypatch=monkeypatch)
    assert capsys.readouterr().out


# --- where the empirical proportion risk fails --------------------------------------------------


@pytest.fixture(scope="module")
def fails():
    path = EXAMPLES / "proportion_risk_fails.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def smallest_at(risk):
    return minimize_scalar(risk, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x


@pytest.mark.parametrize("power", [1, 2])
def test_one_bag_gives_the_median_of_the_mixture(fails, power):
    assert smallest_at(lambda t: fails.epr_of_one_bag(t, power)) == pytest.approx(
        (5**0.5 - 1) / 2, abs=1e-4
    )
    assert pytest.approx((5**0.5 - 1) / 2) == fails.GOLDEN
    assert smallest_at(fails.balanced_error) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("power", [1, 2])
def test_closed_form_for_many_bags_is_the_integral_over_proportions(fails, power):
    for t in (0.0, 0.3, 0.5, fails.GOLDEN, 0.9, 1.0):

        def difference(gamma, t=t):
            return abs(gamma * (1 - t**2) + (1 - gamma) * (1 - t) - gamma) ** power

        kink = (1 - t) / (1 - t + t**2)
        expected = quad(difference, 0, kink)[0] + quad(difference, kink, 1)[0]
        assert fails.epr_of_many_bags(t, power) == pytest.approx(expected)
    expected = {2: 0.6070, 1: 0.6022}[power]
    found = smallest_at(lambda t: fails.epr_of_many_bags(t, power))
    assert found == pytest.approx(expected, abs=1e-4)


def test_large_bags_come_to_the_closed_forms(fails):
    x, y = fails.draw_bags(2000, 100, np.random.default_rng(0))
    assert fails.fit_by_epr(x, y, 2) == pytest.approx(0.607, abs=0.02)
    assert fails.fit_by_epr(x, y, 1) == pytest.approx(0.602, abs=0.02)
    t = 0.4
    risk = fails.Risk("zero_one").value(fails.make_sample(y, x - t))
    assert risk == pytest.approx(fails.balanced_error(t), abs=0.01)


def test_corrected_risk_chooses_better_than_epr(fails):
    found = fails.thresholds(n_draws=5, n_bags=300, bag_size=100, seed=0)
    error = {name: fails.balanced_error(drawn).mean() for name, drawn in found.items()}
    assert min(error, key=error.get) == "corrected risk"
    assert found["EPR, squared"].min() > 0.55
    assert abs(found["corrected risk"].mean() - 0.5) < 0.05


def test_picture_is_saved(tmp_path, monkeypatch):
    run(
        EXAMPLES / "proportion_risk_fails.py",
        "--draws=1",
        "--bags=20",
        "--figure=risks.png",
        cwd=tmp_path,
        monkeypatch=monkeypatch,
    )
    assert (tmp_path / "risks.png").read_bytes().startswith(b"\x89PNG")
