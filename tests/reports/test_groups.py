"""Pictures of shares by group show the numbers of the estimates."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.inference import group_estimates, group_sensitivity
from unbag.reports import GroupsDisplay, GroupSensitivityDisplay
from unbag.reports.drawing import BLUE


@pytest.fixture(scope="module")
def fitted():
    data = make_gaussian_bags(n_bags=30, bag_size=40, n_features=2, random_state=0)
    model = LLPClassifier(kernel=None).fit(data.X, data.y)
    return model, data, np.where(data.X[:, 0] > 0, "high", "low")


@pytest.fixture(scope="module")
def estimates(fitted):
    model, data, group = fitted
    return group_estimates(model, data.X, data.y, group, n_draws=40)


def points(ax, marker):
    return next(line for line in ax.lines if line.get_marker() == marker)


def test_forests_show_shares_and_bounds(estimates):
    ax = GroupsDisplay(estimates).plot()
    dots = points(ax, "o")
    np.testing.assert_allclose(dots.get_xdata(), estimates.share[:, 1])
    assert to_hex(dots.get_color()) == BLUE
    bounds = ax.collections[0].get_segments()
    np.testing.assert_allclose([one[0, 0] for one in bounds], estimates.least[:, 1])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["high", "low"]


def test_estimates_of_bags_lie_on_their_lines(estimates):
    ax = GroupsDisplay(estimates, "tomography").plot()
    lines = [line for line in ax.lines if line.get_marker() == "None"]
    assert len(lines) == 30
    inside = estimates.bag_sizes
    for b in range(30):
        share = estimates.bag_draws[0, b, :, 1]
        for x, y in (*lines[b].get_xydata(), share):
            total = inside[b] @ np.nan_to_num([x, y])
            assert total == pytest.approx(estimates.bag_counts[b, 1], abs=1e-3)


def test_densities_integrate_to_about_one(estimates):
    ax = GroupsDisplay(estimates, "density").plot()
    for line in ax.lines:
        assert 0.6 < np.trapezoid(line.get_ydata(), line.get_xdata()) < 1.02


def test_the_sensitivity_picture_shows_its_table(fitted):
    model, data, group = fitted
    found = group_sensitivity(model, data.X, data.y, group, "high", n_draws=10)
    display = GroupSensitivityDisplay(found)
    lines = [line for line in display.plot().lines if line.get_marker() == "o"]
    for line, effect in zip(lines, found.effects, strict=True):
        np.testing.assert_allclose(line.get_ydata(), effect.estimate)
    assert display.frame().shape == (22, 7)
