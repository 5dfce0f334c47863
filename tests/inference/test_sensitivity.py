"""Contextual effects: closed forms, and a simulation with an effect of known strength."""

import numpy as np
import pytest
from scipy.special import expit

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.inference import group_estimates, group_sensitivity, prevalence
from unbag.models.mixed import refit_with_offset


def districts(delta, seed=0, n_bags=150, size=60):
    """Two groups; the log-odds of the old change with their share in the bag."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    old = rng.uniform(size=len(bag)) < rng.uniform(0.1, 0.9, n_bags)[bag]
    share = (np.bincount(bag, old) / size)[bag]
    shift = delta * (share - share[old].mean())
    vote = rng.uniform(size=len(bag)) < expit(np.where(old, 0.6 + shift, -0.6))
    y = bag_target(bag, counts=np.bincount(bag, vote)[bag])
    return old[:, None].astype(float), y, np.where(old, "old", "young"), vote


def test_a_constant_offset_moves_the_constant():
    X, y, _, _ = districts(0.0, n_bags=30)
    model = LLPClassifier(kernel=None, tol=1e-5).fit(X, y)
    other = refit_with_offset(model, X, check_bag_target(y), np.full((1, len(X)), 0.7))
    moved = other.decision_function(X) - model.decision_function(X)
    np.testing.assert_allclose(moved, -0.7, atol=1e-3)


def test_the_true_effect_gives_the_true_share():
    X, y, group, vote = districts(3.0)
    truth = vote[group == "old"].mean()
    model = LLPClassifier(kernel=None).fit(X, y)
    found = group_sensitivity(model, X, y, group, "old", n_draws=20)
    old, young = found.effects
    assert (old.shifted, young.shifted) == ("old", "young")
    assert abs(found.estimate - truth) > 0.05
    assert np.interp(3.0, old.delta, old.estimate) == pytest.approx(truth, abs=0.03)
    plain = group_estimates(model, X, y, group)
    assert found.estimate == pytest.approx(plain.share[0, 1], abs=0.015)
    assert (np.diff(old.estimate) < 0).all()
    assert (np.diff(young.estimate) > 0).all()
    least, most = found.bounds
    table = found.table
    assert (table["low"] >= least).all()
    assert (table["high"] <= most).all()
    narrow, wide = found.band(0.2), found.band(3.2)
    assert wide[0] < narrow[0] < found.estimate < narrow[1] < wide[1]
    assert wide == (table["low"].min(), table["high"].max())


def test_what_overturns_a_conclusion():
    X, y, group, _ = districts(0.0, n_bags=60)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=len(X))])
    model = LLPClassifier(kernel=None).fit(X, y)
    found = group_sensitivity(model, X, y, group, "old", "young", threshold=0.1, n_draws=20)
    for one in found.effects:
        value = np.interp(one.overturns, one.delta, one.estimate)
        assert value == pytest.approx(0.1, abs=1e-6)
        assert abs(one.insignificant) < abs(one.overturns)
        assert one.r2_at(one.delta[2]) == pytest.approx(one.partial_r2[2])
        assert list(one.benchmarks) == ["column 1"]
        assert one.benchmarks["column 1"][1] < 0.01
        assert f"{one.overturns:+.2f}" in found.summary
    assert "column 1" in str(found)
    # which group is asked about: the difference the other way round is the same, with its sign
    other = group_sensitivity(model, X, y, group, "young", "old", n_draws=20)
    assert other.estimate == pytest.approx(-found.estimate, abs=0.03)
    below = found.bounds[0] - 0.1
    far = group_sensitivity(model, X, y, group, "old", "young", threshold=below, n_draws=10)
    assert "No effect in old" in far.summary


def test_shares_that_do_not_differ_between_bags_have_no_contextual_effect():
    bag = np.repeat(np.arange(10), 10)
    group = np.tile([0, 1], 50)
    y = bag_target(bag, counts=np.tile([3, 6], 5)[bag])
    model = LLPClassifier(kernel=None).fit(group[:, None].astype(float), y)
    with pytest.raises(ValueError, match="the same in all bags"):
        group_sensitivity(model, group[:, None].astype(float), y, group, 1)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"second": "old"}, "first and second are both old; name two groups"),
        ({"second": "dead"}, "no group 'dead'; there are 'old', 'young'"),
        ({"of": 2}, "no class 2; there are '0', '1'"),
        ({"confidence_level": 95}, "confidence_level must lie between 0 and 1"),
        ({"n_draws": 1}, "n_draws must be"),
    ],
)
def test_what_is_refused(how, message):
    X, y, group, _ = districts(0.0, n_bags=10, size=20)
    model = LLPClassifier(kernel=None).fit(X, y)
    with pytest.raises(ValueError, match=message):
        group_sensitivity(model, X, y, group, "old", **how)


def test_prevalence_of_new_samples_is_held():
    held = 0
    for seed in range(10):
        X, y, _, _ = districts(0.0, seed, n_bags=40)
        new, target, _, vote = districts(0.0, seed + 100, n_bags=10)
        model = LLPClassifier(kernel=None).fit(X, y)
        found = prevalence(model, new, bag=target["bag"])
        held += int(found.low[1] <= vote.mean() <= found.high[1])
        np.testing.assert_allclose(found.share.sum(), 1)
    assert held >= 8
    one = prevalence(model, new[:1])
    assert (one.low[1], one.high[1]) == (0, 1)
