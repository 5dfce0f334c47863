"""The page on whether a model still holds."""

import numpy as np
import pytest

from unbag import LLPClassifier, LLPEnsembleClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import make_monitoring_reference, monitor
from unbag.reports.monitoring import MonitoringDisplay, monitoring_page

pytest.importorskip("matplotlib")
NASTY = "<script>alert(1)</script>$x_1$"


@pytest.fixture(scope="module")
def found():
    april, may = (make_gaussian_bags(30, 40, random_state=seed) for seed in (0, 1))
    learner = LLPClassifier(kernel=None, class_prior="empirical")
    model = LLPEnsembleClassifier([("linear", learner)], cv=3).fit(april.X, april.y)
    names = np.array([NASTY, *(f"bag {k}" for k in range(1, 30))], object)
    # one bag is far from its promise
    share = np.where(may.y["bag"] == 0, np.round(may.y["proportion"]) == 0, may.y["proportion"])
    y = bag_target(names[may.y["bag"]], share.astype(float))
    return monitor(
        model,
        may.X,
        y,
        reference=make_monitoring_reference(model, april.X, april.y),
    )


def test_the_page_says_what_was_found(found, tmp_path):
    made = monitoring_page(found, title=NASTY, remarks=["Seen: green."])
    page = made.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<img") == 1
    assert f"<strong>{found.verdict.replace('_', ' ')}</strong>" in page
    assert "Seen: green." in page
    for part in ("totals", "bags", "rows"):
        assert f'<section id="{part}">' in page


def test_the_picture_has_every_bag_and_marks_those_that_stand_out(found):
    display = MonitoringDisplay(found)
    axes = display.plot()
    n_out = int((np.abs(found.bags["z"]) > 3).sum())
    assert n_out >= 1
    assert [len(dots.get_offsets()) for dots in axes.collections] == [30 - n_out, n_out]
    assert len(display.frame()) == 30
    assert "Worst bag" in repr(display)
