"""What the checks make of each other."""

from dataclasses import replace

import numpy as np
import pytest

from unbag import label_shift_test
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import Estimate
from unbag.evaluation.bag_effects import BagEffect
from unbag.evaluation.checks import judge

DATA = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
SOUND = label_shift_test(DATA.X, DATA.y)
GOOD = {"roc_auc": Estimate(0.8, 0.03, 0.74, 0.86, 0.95)}
UNSURE = BagEffect(0.0, 0.0, 0.1, 1.4, 0.5, 0.3, 1.9, 1.4)
LOOKS = replace(UNSURE, slope=1.9, slope_unconstrained=1.9, slope_error=0.1)
ODDS = replace(UNSURE, slope=1.0, slope_unconstrained=1.0, slope_error=0.1)


def drifting(size):
    X = DATA.X.copy()
    X[:, 0] += size * np.random.default_rng(0).normal(size=40)[DATA.y["bag"]]
    return label_shift_test(X, DATA.y)


GROSS = drifting(3.0)
FEW = make_gaussian_bags(n_bags=6, bag_size=4, random_state=0)
WEAK = label_shift_test(FEW.X, FEW.y)


@pytest.mark.parametrize(
    ("test", "effect", "expected"),
    [
        (SOUND, UNSURE, "not_rejected"),
        (SOUND, LOOKS, "not_rejected"),
        (SOUND, None, "not_rejected"),
        (SOUND, ODDS, "rejected"),
        (GROSS, UNSURE, "rejected"),
        (GROSS, None, "rejected"),
        (GROSS, ODDS, "rejected"),
        # drifts that do not go along with the proportions do no harm
        (GROSS, LOOKS, "inconclusive"),
        (replace(SOUND, p_value=0.02, reject=True), UNSURE, "inconclusive"),
        (replace(SOUND, p_value=0.02, reject=True), LOOKS, "not_rejected"),
        # a test that could not fail is none
        (WEAK, UNSURE, "inconclusive"),
        (WEAK, None, "inconclusive"),
        (WEAK, LOOKS, "not_rejected"),
        ("too few bags", LOOKS, "not_rejected"),
        ("too few bags", UNSURE, "inconclusive"),
        ("too few bags", None, "inconclusive"),
    ],
)
def test_tests_and_slopes(test, effect, expected):
    found = judge(GOOD, {"The scores": test}, effect)
    assert found.name == expected
    assert bool(found.advice) is (expected != "not_rejected")


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (1.02, 0.02, "not_rejected"),
        (1.04, 0.02, "inconclusive"),
        (1.23, 0.05, "rejected"),
        (-0.2, 0.05, "rejected"),
        (1.23, 0.9, "not_rejected"),
    ],
)
def test_what_is_impossible(value, error, expected):
    found = judge({"roc_auc": Estimate(value, error, 0, 0, 0.95)}, {"The scores": SOUND}, UNSURE)
    assert found.name == expected
    assert ("impossible" in str(found)) is (expected != "not_rejected")
    unbounded = Estimate(value, error, 0, 0, 0.95, bounded=False)
    assert judge({"cost": unbounded}, {"The scores": SOUND}, UNSURE).name == "not_rejected"


def test_every_test_is_told_with_what_it_could_have_seen():
    found = judge(GOOD, {"The scores": SOUND, "The features": WEAK, "Others": "no bags."}, LOOKS)
    sound, weak, none, _ = found.reasons
    drift = SOUND.typical_drift
    assert sound.endswith(f"; drifts of {drift:.2g} standard deviations would have been seen.")
    assert "these bags could not show it: drifts of" in weak
    assert weak.endswith("would go unseen.")
    assert none == "Others could not be tested: no bags."
