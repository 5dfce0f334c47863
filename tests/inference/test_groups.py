"""Shares by group: totals and bounds against enumeration, estimates against simulated truth."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import LLPBoostingClassifier, LLPClassifier, bag_target, check_bag_target
from unbag.inference import group_estimates
from unbag.inference.grouped_rows import (
    GroupedRows,
    duncan_davis_bounds,
    goodman_regression,
    read_groups_by,
)

KINDS = np.array(["black", "latino", "white"])
NAMES = ["Ann", "Bob", "Cy"]


def precincts(seed, n_bags=40, size=30):
    """Voters of three groups and three candidates, with the same log-odds in all precincts."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    mix = rng.dirichlet([1.2, 1.2, 0.8], n_bags)[bag].cumsum(axis=1)
    group = (mix < rng.uniform(size=len(bag))[:, None]).sum(axis=1)
    age = rng.normal(size=len(bag))
    odds = np.array([[0.0, -0.2, -1.4], [0.0, 0.5, -1.1], [-1.2, -0.6, 0.5]])[group]
    odds = np.exp(odds + np.outer(age, [0, 0.4, -0.3]))
    edges = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
    vote = (edges < rng.uniform(size=len(bag))[:, None]).sum(axis=1)
    counts = np.stack([np.bincount(bag, vote == c, n_bags) for c in range(3)], axis=1)
    y = bag_target(bag, counts=counts[bag], class_names=NAMES)
    X = pd.DataFrame({"age": age, "race": KINDS[group]})
    truth = np.array([[np.mean(vote[group == g] == c) for c in range(3)] for g in range(3)])
    return X, y, truth


@pytest.fixture(scope="module")
def fitted():
    X, y, truth = precincts(0)
    model = LLPClassifier(kernel=None).fit(X, y)
    return model, X, y, truth, group_estimates(model, X, y, "race")


def test_shares_add_up_to_the_totals_in_every_draw(fitted):
    *_, y, _, found = fitted
    total = np.einsum("g,sgc->sc", found.sizes, found.draws) / found.sizes.sum()
    np.testing.assert_allclose(total, np.tile(check_bag_target(y).class_shares, (200, 1)))
    of_bags = np.einsum("bg,bgc->bc", found.bag_sizes, np.nan_to_num(found.bag_draws[0]))
    np.testing.assert_allclose(of_bags, found.bag_counts, atol=1e-4)


def test_bags_that_are_drawn_some_at_a_time_keep_to_their_totals(fitted, monkeypatch):
    model, X, y, _, whole = fitted
    monkeypatch.setattr("unbag.inference.grouped_rows.ROWS_AT_A_TIME", 300)
    found = group_estimates(model, X, y, "race")
    of_bags = np.einsum("bg,bgc->bc", found.bag_sizes, np.nan_to_num(found.bag_draws[0]))
    np.testing.assert_allclose(of_bags, found.bag_counts, atol=1e-4)
    np.testing.assert_allclose(found.share, whole.share, atol=0.02)


def test_intervals_hold_the_truth_and_lie_within_bounds(fitted):
    *_, truth, found = fitted
    assert ((found.low <= truth) & (truth <= found.high)).sum() >= 7  # of 9
    for share in (found.low, found.share, found.high, truth):
        assert ((found.least <= share) & (share <= found.most)).all()
    _, low, high, least, most = found.bag_draws
    there = found.bag_sizes > 0
    assert (least[there] <= low[there] + 1e-6).all()
    assert (high[there] <= most[there] + 1e-6).all()
    assert np.isnan(low[~there]).all()


def test_bounds_are_those_of_all_labels_that_agree_with_the_counts():
    bag, group = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 1, 2])
    counts = np.array([[1, 1, 1], [3, 0, 1]])
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0])
    labels = np.array(list(product(range(3), repeat=len(bag))))
    of_class = labels[:, :, None] == np.arange(3)
    agree = np.all([(of_class[:, bag == b].sum(axis=1) == counts[b]).all(1) for b in (0, 1)], 0)
    y = bag_target(bag, counts=counts[bag])
    for w in (np.ones(7), weights):
        shares = [
            np.average(of_class[agree][:, group == g], axis=1, weights=w[group == g])
            for g in range(3)
        ]
        least, most = duncan_davis_bounds(GroupedRows.read(np.zeros((7, 1)), y, group, w))
        np.testing.assert_allclose(least, np.min(shares, axis=1))
        np.testing.assert_allclose(most, np.max(shares, axis=1))


def test_rows_that_stand_for_several_give_what_repeated_rows_give():
    X, y, _ = precincts(1, n_bags=30)
    X = X[["race"]]
    cells = X.assign(bag=y["bag"]).value_counts(sort=False).reset_index()
    counts = dict(zip(y["bag"].tolist(), np.round(y["proportion"] * 30), strict=True))
    short = bag_target(
        cells["bag"].to_numpy(), counts=counts, multiplicity=cells["count"], class_names=NAMES
    )
    margins = cells[["race"]]
    long, few = (
        group_estimates(LLPClassifier(kernel=None).fit(*one), *one, "race")
        for one in ((X, y), (margins, short))
    )
    np.testing.assert_array_equal(few.sizes, long.sizes)
    np.testing.assert_allclose(few.least, long.least)
    np.testing.assert_allclose(few.goodman.share, long.goodman.share)
    # Monte-Carlo errors are at most .004 each
    np.testing.assert_allclose(few.share, long.share, atol=0.012)
    np.testing.assert_allclose(few.high - few.low, long.high - long.low, rtol=0.3)


def test_ecological_regression_is_weighted_least_squares():
    rng = np.random.default_rng(0)
    inside = rng.integers(1, 20, size=(15, 3))
    truth = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    share = inside / inside.sum(axis=1, keepdims=True)
    exact = goodman_regression(inside, share @ truth)
    np.testing.assert_allclose(exact.share, truth)
    np.testing.assert_allclose(exact.error, 0, atol=1e-8)
    noisy = share @ truth + 0.05 * rng.normal(size=(15, 2))
    root = np.sqrt(inside.sum(axis=1))[:, None]
    wanted = np.linalg.lstsq(share * root, noisy * root, rcond=None)[0]
    np.testing.assert_allclose(goodman_regression(inside, noisy).share, wanted)


def test_contrasts_are_those_of_draws(fitted):
    found = fitted[-1]
    one = found.contrast("black", "white", of="Ann")
    assert one.estimate == pytest.approx(found.share[0, 0] - found.share[2, 0])
    assert (one.least, one.most) == pytest.approx(
        (found.least[0, 0] - found.most[2, 0], found.most[0, 0] - found.least[2, 0])
    )
    assert one.probability == np.mean(found.draws[:, 0, 0] > found.draws[:, 2, 0])
    ratio = found.contrast(("black", "Ann"), ("black", "Cy"), kind="ratio")
    assert ratio.estimate == pytest.approx(np.median(found.draws[:, 0, 0] / found.draws[:, 0, 2]))
    assert "black (Ann) − white (Ann)" in str(one)


def test_the_preferred_class_has_a_probability(fitted):
    found = fitted[-1].polarisation()
    assert found["preferred"][1:].tolist() == ["Bob", "Cy"]
    assert (found["probability"][1:] > 0.95).all()
    assert found["differs"][0] > 0.99


def test_maps_get_the_estimates_of_their_bags(fitted):
    found = fitted[-1]
    places = [{"type": "Feature", "properties": {"id": name}} for name in ("3", "nowhere")]
    joined = found.to_geojson({"type": "FeatureCollection", "features": places}, "id")
    first, second = (each["properties"] for each in joined["features"])
    assert first["black: Ann"] == pytest.approx(found.bag_draws[0, 3, 0, 0])
    assert second == {"id": "nowhere"}
    assert places[0]["properties"] == {"id": "3"}


def test_a_population_of_the_rows_themselves_has_their_shares(fitted):
    model, X, y, _, found = fitted
    other = group_estimates(model, X, y, "race", population=(X, np.full(len(X), 2.0)))
    np.testing.assert_allclose(other.sizes, 2 * found.sizes)
    np.testing.assert_allclose(other.share, found.share, atol=0.03)
    assert (other.least == 0).all()
    strange = X.assign(race="martian")
    with pytest.raises(ValueError, match="'martian', which X has not"):
        group_estimates(model, X, y, "race", population=(strange, np.ones(len(X))))


def test_weights_of_rows_that_are_equal_change_nothing(fitted):
    model, X, y, _, found = fitted
    other = group_estimates(model, X, y, X["race"], weights=np.full(len(X), 0.5))
    np.testing.assert_allclose(other.share, found.share)
    np.testing.assert_allclose(other.most, found.most)


def test_noisy_counts_have_no_sure_bounds_and_wider_intervals(fitted):
    _, X, y, _, found = fitted
    noisy = bag_target(y["bag"], y["proportion"], noise=0.08)
    other = group_estimates(LLPClassifier(kernel=None).fit(X, noisy), X, noisy, "race", n_draws=80)
    assert (other.least == 0).all()
    assert (other.most == 1).all()
    assert np.mean(other.high - other.low) > np.mean(found.high - found.low)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_draws_keep_to_counts_that_are_known_as_sets(fitted, n_classes):
    _, X, y, truth, exact = fitted
    counts = np.round(30 * y["proportion"]).astype(int)
    if n_classes == 2:
        counts = counts[:, 0]
    low, high = np.maximum(counts - 2, 0), np.minimum(counts + 2, 30)
    sets = bag_target(y["bag"], low=low, high=high)
    model = LLPClassifier(kernel=None).fit(X, sets)
    found = group_estimates(model, X, sets, "race", n_draws=60)
    share, _, _, least, most = np.nan_to_num(found.bag_draws)
    total = np.einsum("bg,bgc->bc", found.bag_sizes, share).reshape(40, -1)[:, -n_classes:]
    known = [np.stack([one[sets["bag"] == b][0] for b in range(40)]) for one in (low, high)]
    if n_classes == 2:
        total, truth, exact_width = total[:, 1], truth[:, 0], (exact.high - exact.low)[:, 0]
        width, share_of = (found.high - found.low)[:, 1], found.share[:, 1]
    else:
        width, exact_width, share_of = found.high - found.low, exact.high - exact.low, found.share
    assert ((known[0] - 1e-4 <= total) & (total <= known[1] + 1e-4)).all()
    assert (least <= share + 1e-6).all()
    assert (share <= most + 1e-6).all()
    assert np.abs(share_of - truth).max() < 0.15
    assert width.mean() > exact_width.mean()


def test_groups_of_which_counts_show_little_are_merged_on_advice(fitted):
    rng = np.random.default_rng(0)
    shift = 0.1 * rng.normal(size=(300, 1))
    both = 0.5 + shift * [1, -1] + 0.01 * rng.normal(size=(300, 2))
    white = 0.3 + 0.01 * rng.normal(size=(300, 1))
    inseparable = np.concatenate([both, white], axis=1)
    # few, so that the share of another group hardly depends on theirs
    rare = np.concatenate([both[:, :1], white, 1 - white - 0.02 * both[:, :1]], axis=1)
    cases = (
        (inseparable, (0.2, 0.8), [("black", "latino", "50")]),
        (inseparable, (0.0, 1.0), []),
        (rare, (0.2, 0.8), [("black", "white")]),
    )
    for yes, bounds, expected in cases:
        draws = np.stack([1 - yes, yes], axis=2)
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        least, most = (np.full((3, 2), bound) for bound in bounds)
        known = {"draws": draws, "share": draws.mean(axis=0), "low": low, "high": high}
        limits = {"least": least, "most": most, "classes": np.array(["no", "yes"])}
        notes = replace(fitted[-1], **known, **limits).notes
        assert "aggregation bias" in notes[0]
        assert len(notes) == 1 + len(expected)
        for names, note in zip(expected, notes[1:], strict=True):
            assert all(name in note for name in names)


@pytest.mark.parametrize("dtype", ["object", "string", "Int64", "category"])
def test_missing_groups_are_a_group_of_that_name(dtype):
    X = pd.DataFrame({"ward": pd.Series([1, 2, None, 1], dtype="Int64").astype(dtype)})
    names, code = read_groups_by(X, ["ward"], 4)
    assert names.tolist() == ["1", "2", "missing"]
    assert code.tolist() == [0, 1, 2, 0]


def test_what_is_printed(fitted):
    found = fitted[-1]
    words = str(found)
    assert "aggregation bias" in words.replace("\n", " ")
    row = found.table.iloc[1]
    assert (row["group"], row["class"]) == ("black", "Bob")
    assert f"{row['share']:.3f}  {row['low']:.3f} to {row['high']:.3f}" in words
    bags = found.bags
    assert set(bags["group"]) == set(KINDS)
    assert len(bags) == 3 * np.count_nonzero(found.bag_sizes)


def test_what_is_refused(fitted):
    model, X, y, _, found = fitted
    with pytest.raises(ValueError, match="one group for each of the 1200 instances"):
        group_estimates(model, X, y, X["race"][1:])
    with pytest.raises(ValueError, match="by names 'sex', which is not a column"):
        group_estimates(model, X, y, ["sex"])
    with pytest.raises(ValueError, match="confidence_level must lie between 0 and 1"):
        group_estimates(model, X, y, "race", confidence_level=95)
    with pytest.raises(ValueError, match="no group 'martian'; there are 'black'"):
        found.contrast("martian", "white", of="Ann")
    with pytest.raises(ValueError, match="of must name a class: one of 'Ann'"):
        found.contrast("black", "white")
    other = make_pipeline(StandardScaler(), LLPBoostingClassifier())
    with pytest.raises(ValueError, match="LLPBoostingClassifier has no posterior"):
        group_estimates(other, X, y, "race")


def test_groups_of_a_bag_have_random_effects_of_their_own():
    """Intervals of bags hold the shares where each group of a bag has its own log-odds."""
    rng, n_bags = np.random.default_rng(0), 80
    first = rng.integers(30, 270, n_bags)
    inside = np.column_stack([first, 300 - first])
    probability = expit(np.array([-0.5, 0.7]) + 0.5 * rng.normal(size=(n_bags, 2)))
    votes = rng.binomial(inside, probability)
    bag, group = np.indices((n_bags, 2)).reshape(2, -1)
    y = bag_target(bag, counts=votes.sum(axis=1)[bag], multiplicity=inside.ravel())
    X = pd.DataFrame({"group": KINDS[group]})
    found = group_estimates(LLPClassifier(kernel=None).fit(X, y), X, y, "group")
    _, low, high, _, _ = found.bag_draws[..., 1]
    held = np.mean((low <= votes / inside) & (votes / inside <= high))
    # 160 shares of 80 bags, which depend on each other in pairs: a standard error of .025 at most
    assert 0.87 < held <= 1


def test_groups_of_three_classes_that_differ_between_bags_are_covered():
    rng, covered = np.random.default_rng(0), []
    for _ in range(6):
        sizes = rng.integers(200, 2000, 80)
        inside = np.array([rng.multinomial(n, rng.dirichlet([2, 1, 3])) for n in sizes])
        odds = np.array([[1.5, -0.5, -1.0], [-0.5, 0.8, -0.3], [0.0, 0.3, -0.3]])
        p = softmax(odds + 0.35 * rng.normal(size=(80, 3, 3)), axis=2)
        table = np.array(
            [list(map(rng.multinomial, *each)) for each in zip(inside, p, strict=True)]
        )
        bag, group = np.nonzero(inside)
        counts = table.sum(axis=1)
        y = bag_target(bag, counts=counts[bag], multiplicity=inside[bag, group])
        X = pd.DataFrame({"group": group.astype(str)})
        model = LLPClassifier(kernel=None).fit(X, y)
        found = group_estimates(model, X, y, "group", n_draws=100)
        truth = table.sum(axis=0) / inside.sum(axis=0)[:, None]
        covered.append((found.low <= truth) & (truth <= found.high))
    # without random intercepts, in 0.76
    assert np.mean(covered) > 0.85
