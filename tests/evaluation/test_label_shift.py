"""The test of the assumption: uniform p-values where it holds, and the right bags where not."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats

from unbag import bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.label_shift import label_shift_test

REPEATS = 120
SIZES = {
    "bags of 8": np.full(200, 8),
    "bags of 2": np.full(300, 2),
    "few bags": np.full(12, 64),
    "mixed sizes": np.tile([2, 3, 5, 8, 13, 21, 34, 55, 200, 900], 4),
}
COLUMNS = {
    "normal": lambda rng, p: rng.normal(size=(len(p), REPEATS)) + 2 * p,
    "unequal variances": lambda rng, p: rng.normal(size=(len(p), REPEATS)) * (1 + 4 * p) + p,
    "heavy tails": lambda rng, p: rng.standard_t(1, size=(len(p), REPEATS)) + p,
    "skewed": lambda rng, p: rng.lognormal(0, 3, size=(len(p), REPEATS)) * (1 + p),
    "0/1": lambda rng, p: rng.uniform(size=(len(p), REPEATS)) < 0.1 + 0.6 * p,
}


def make_target(rng, sizes, low=0.0, high=1.0):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    positive = rng.uniform(size=len(bag)) < rng.uniform(low, high, len(sizes))[bag]
    y = bag_target(bag, counts=np.bincount(bag, positive)[bag])
    return bag, positive[:, None].astype(float), y


def small(seed=0, n_features=3):
    rng = np.random.default_rng(seed)
    bag, positive, y = make_target(rng, np.full(30, 20))
    return bag, rng.normal(size=(len(bag), n_features)) + 2 * positive, y


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_p_values_are_uniform_where_the_assumption_holds(columns, sizes):
    rng = np.random.default_rng(0)
    _, positive, y = make_target(rng, sizes)
    # columns are independent given the classes, so that one call is many repetitions
    found = label_shift_test(columns(rng, positive).astype(float), y)
    p = found.features["p_value"]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert np.mean(p <= 0.05) <= 0.05 + 3.3 * np.sqrt(0.05 * 0.95 / REPEATS)
    assert found.p_value > 1e-3
    ratio = found.features["statistic"] / found.features["df"]
    assert ratio.mean() == pytest.approx(1, abs=4 * ratio.std() / np.sqrt(REPEATS) + 0.02)


def test_p_values_are_uniform_with_three_classes():
    rng = np.random.default_rng(1)
    bag = np.repeat(np.arange(100), 15)
    classes = (rng.uniform(size=1500)[:, None] > rng.dirichlet([1, 1, 1], 100).cumsum(1)[bag]).sum(
        1
    )
    classes = np.minimum(classes, 2)
    counts = np.stack([np.bincount(bag, classes == c) for c in range(3)], axis=1)
    X = rng.normal(size=(1500, REPEATS)) * (1 + classes[:, None]) + 3 * (classes[:, None] == 1)
    found = label_shift_test(X, bag_target(bag, counts=counts[bag]))
    assert found.features["df"][0] == 97
    assert stats.kstest(found.features["p_value"], "uniform").pvalue > 1e-3


def test_rare_values_raise_no_alarm():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        _, positive, y = make_target(rng, np.full(1024, 8))
        X = rng.uniform(size=(8192, 40)) < 5 / 8192 * (0.5 + positive)
        assert not label_shift_test(X, y).reject


def test_pure_bags_give_the_analysis_of_variance():
    rng = np.random.default_rng(2)
    bag = np.repeat(np.arange(40), 50)
    shares = (bag % 2).astype(float)
    for _ in range(5):
        x = rng.normal(size=2000) + 0.1 * rng.normal(size=40)[bag]
        found = label_shift_test(x, bag_target(bag, shares))
        ranks = stats.rankdata(x).reshape(40, 50)
        means = ranks.mean(axis=1)
        off = means - np.where(np.arange(40) % 2, means[1::2].mean(), means[::2].mean())
        F = 50 * np.sum(off**2) / 38 / (np.sum(ranks.var(axis=1, ddof=1)) / 40)
        assert found.features["statistic"][0] / 38 == pytest.approx(F, rel=0.02)
        expected = stats.f.sf(F, 38, 40 * 49)
        assert found.features["p_value"][0] == pytest.approx(expected, rel=0.3, abs=1e-6)


@pytest.mark.parametrize(("n_bags", "size"), [(20, 200), (100, 50), (400, 8)])
def test_drift_of_some_bags_is_seen_and_they_are_named(n_bags, size):
    rng = np.random.default_rng(3)
    bag, positive, y = make_target(rng, np.full(n_bags, size))
    X = rng.normal(size=(len(bag), 10)) + positive
    drifting = rng.permutation(n_bags)[: n_bags // 10]
    X[np.isin(bag, drifting), 4] += 3
    found = label_shift_test(X, y)
    assert found.reject
    assert found.features["feature"][np.argmin(found.features["p_value"])] == "column 4"
    out = found.bags["adjusted_p_value"] <= 0.05
    named = found.bags["bag"][out]
    assert np.isin(named, drifting).all()
    assert len(named) >= 0.8 * len(drifting)
    assert (found.bags["feature"][out] == "column 4").all()
    assert (found.bags["z"][out] > 0).all()
    assert "1 of 10 columns" in found.summary
    assert repr(int(named[0])) in found.summary


@pytest.mark.parametrize("delta", [0.3, 2, 20])
def test_drift_of_all_bags_is_seen(delta):
    rng = np.random.default_rng(4)
    bag, positive, y = make_target(rng, np.full(20, 200))
    x = rng.normal(size=len(bag)) + positive[:, 0] + delta * rng.choice([-1, 1], 20)[bag]
    assert label_shift_test(x, y).p_value < 1e-3


def drifting_bags(where, share, count):
    """Zeros and ones: the bags of lowest or highest share, or every other one of the upper."""
    rank = np.argsort(np.argsort(share))
    if where == "low":
        return (rank < count).astype(float)
    if where == "high":
        return (rank >= len(share) - count).astype(float)
    return ((rank >= len(share) - 2 * count) & (rank % 2 == 0)).astype(float)


@pytest.mark.parametrize("where", ["low", "high", "some of the upper"])
@pytest.mark.parametrize("delta", [3, -3, 10, -10])
@pytest.mark.parametrize(("n_bags", "size"), [(10, 50), (50, 8), (50, 50)])
def test_gross_drift_is_seen_however_it_tilts_the_line(n_bags, size, delta, where):
    for separation in (0, 1, 3):
        rng = np.random.default_rng(n_bags)
        bag, positive, y = make_target(rng, np.full(n_bags, size), high=0.7)
        share = np.bincount(bag, positive[:, 0]) / size
        shift = delta * drifting_bags(where, share, max(3, n_bags // 5))
        x = rng.normal(size=len(bag)) + separation * positive[:, 0] + shift[bag]
        assert label_shift_test(x, y).reject


@pytest.mark.parametrize("where", ["low", "high"])
def test_drift_of_one_standard_deviation_is_seen(where):
    seen = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bag, positive, y = make_target(rng, np.full(50, 50), high=0.7)
        shift = drifting_bags(where, np.bincount(bag, positive[:, 0]), 10)
        x = rng.normal(size=len(bag)) + positive[:, 0] + shift[bag]
        seen.append(label_shift_test(x, y).reject)
    assert np.mean(seen) >= 0.9


def test_drift_that_leaves_classes_further_apart_than_values_in_bags_is_seen():
    rng = np.random.default_rng(0)
    rng.integers(2, 200, 10000)
    sizes = rng.integers(20, 90, 10)
    data = make_gaussian_bags(
        n_bags=10, bag_size=sizes, n_features=2, separation=1.0, random_state=1
    )
    data.X[np.isin(data.y["bag"], (0, 1, 9))] += 3
    found = label_shift_test(data.X, data.y)
    assert found.features["p_value"].max() < 1e-6
    # standard errors of a bag's mean that the spread in the bag allows for
    assert 3 < np.abs(found.bags["z"]).max() < 30


def test_drift_along_the_line_is_seen_only_if_too_steep_for_a_mixture():
    rng = np.random.default_rng(10)
    bag, positive, y = make_target(rng, np.full(40, 100), low=0.3, high=0.6)
    share = (np.bincount(bag, positive[:, 0]) / 100)[bag]
    noise = rng.normal(size=len(bag))
    like_a_class = label_shift_test(noise + 0.5 * positive[:, 0] + 0.3 * share, y)
    assert not like_a_class.reject
    steep = label_shift_test(noise + 0.5 * positive[:, 0] + 20 * share, y)
    assert steep.reject
    assert "change more with the proportions" in steep.notes[0]


def test_classes_far_apart_in_bags_of_mixed_sizes_raise_no_more_alarms():
    # bags that are few but large and mixed make the column look more skewed than classes are
    alarms = []
    for seed in (105, 111, 133):
        rng = np.random.default_rng(seed)
        _, positive, y = make_target(rng, SIZES["mixed sizes"])
        X = rng.normal(size=(len(positive), 60)) + 4 * positive
        alarms.append(np.mean(label_shift_test(X, y).features["p_value"] <= 0.05))
    assert max(alarms) <= 0.05 + 3.3 * np.sqrt(0.05 * 0.95 / 60)
    assert np.mean(alarms) <= 0.09


def test_detectable_deviation_is_detected_in_four_of_five_cases():
    rng = np.random.default_rng(5)
    bag, positive, y = make_target(rng, np.full(60, 40))
    X = rng.normal(size=(len(bag), 100)) + positive
    drift = np.median(label_shift_test(X, y).features["detectable_deviation"])
    X += drift * rng.normal(size=(60, 100))[bag]
    seen = label_shift_test(X, y).features["p_value"] <= 0.05 / 200
    assert 0.6 < seen.mean() < 0.95


def test_only_the_order_of_values_matters():
    _, X, y = small()
    one, other = label_shift_test(X, y), label_shift_test(np.exp(X), y)
    np.testing.assert_array_equal(one.features["p_value"], other.features["p_value"])


def test_order_of_rows_does_not_matter():
    _, X, y = small()
    rows = np.random.default_rng(0).permutation(len(y))
    one, other = label_shift_test(X, y), label_shift_test(X[rows], y[rows])
    np.testing.assert_allclose(one.features["p_value"], other.features["p_value"], rtol=1e-9)
    np.testing.assert_array_equal(one.bags["bag"], other.bags["bag"])


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        lambda d: pl.DataFrame(d),
        lambda d: sparse.csr_array(pd.DataFrame(d).to_numpy()),
    ],
    ids=["pandas", "polars", "sparse"],
)
def test_frames_and_sparse_tables(convert):
    _, X, y = small()
    given = convert({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    found = label_shift_test(given, y)
    np.testing.assert_array_equal(
        found.features["p_value"], label_shift_test(X, y).features["p_value"]
    )
    if not sparse.issparse(given):
        assert list(found.features["feature"]) == ["a", "b", "c"]
    assert label_shift_test(pd.Series(X[:, 0], name="age"), y).features["feature"] == ["age"]


def test_labelled_rows_take_part():
    rng = np.random.default_rng(6)
    bag = np.repeat(np.arange(20), 30)
    positive = rng.uniform(size=600) < rng.uniform(size=20)[bag]
    labels = np.where(np.arange(600) % 10 == 0, positive, np.nan)
    y = bag_target(bag, counts=np.bincount(bag, positive)[bag], labels=labels)
    x = rng.normal(size=600) + 2 * positive
    assert not label_shift_test(x, y).reject
    x[labels == 1] += 5
    assert "rows labelled 1" in list(label_shift_test(x, y).bags["bag"][:1])


def test_single_rows_with_a_probability_for_a_share():
    rng = np.random.default_rng(7)
    probability = np.append(rng.uniform(0.1, 0.9, 300), rng.uniform(0.1, 0.9, 20))
    bag = np.repeat(np.arange(320), np.append(np.ones(300, int), np.full(20, 50)))
    positive = rng.uniform(size=len(bag)) < probability[bag]
    shares = np.where(
        bag < 300, probability[bag], (np.bincount(bag, positive) / np.bincount(bag))[bag]
    )
    X = rng.normal(size=(len(bag), REPEATS)) + 3 * positive[:, None]
    ratio = label_shift_test(X, bag_target(bag, shares)).features["statistic"] / 318
    assert ratio.mean() == pytest.approx(1, abs=0.15)


def test_noise_in_the_proportions_is_reckoned_with():
    rng = np.random.default_rng(9)
    bag, positive, y = make_target(rng, np.full(100, 100))
    noisy = y["proportion"] + 0.05 * rng.normal(size=100)[bag]
    x = rng.normal(size=len(bag)) + 2 * positive[:, 0]
    assert label_shift_test(x, bag_target(bag, np.clip(noisy, 0, 1))).p_value < 1e-3
    assert not label_shift_test(x, bag_target(bag, noisy, noise=0.05)).reject
    x[bag == 3] += 3
    assert label_shift_test(x, bag_target(bag, noisy, noise=0.05)).bags["bag"][0] == 3
    with pytest.raises(ValueError, match="noise in the proportions is as large"):
        label_shift_test(x, bag_target(bag, noisy, noise=0.5))


def test_constant_columns_are_left_out():
    _, X, y = small()
    X[:, 1] = 7
    found = label_shift_test(X, y, feature_names=["a", "b", "c"])
    assert np.isnan(found.features["p_value"]).tolist() == [False, True, False]
    assert found.notes == ("Constant and left out: b.",)
    with pytest.raises(ValueError, match="Every column is constant"):
        label_shift_test(X[:, 1], y)


def test_a_column_that_is_the_class_follows_the_proportions():
    rng = np.random.default_rng(8)
    _, positive, y = make_target(rng, np.full(30, 20))
    assert label_shift_test(positive[:, 0], y).p_value == 1


def test_what_is_printed():
    _, X, y = small()
    found = label_shift_test(X, y, feature_names=["a", "b", "c"])
    assert found.summary.startswith("No conflict with label shift found")
    assert repr(found) == str(found)
    for word in ("statistic", "detectable_deviation", "adjusted_p_value", "bag"):
        assert word in str(found)
    assert list(found.features["feature"]) == ["a", "b", "c"]
    assert len(found.bags["bag"]) == 30


def test_mistakes_are_named():
    bag, X, y = small()
    with pytest.raises(ValueError, match="There are 600 instances, but X has the shape"):
        label_shift_test(X[:5], y)
    with pytest.raises(ValueError, match="3 columns, but there are 1 feature_names"):
        label_shift_test(X, y, feature_names=["a"])
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
        label_shift_test(X, y, alpha=5)
    with pytest.raises(ValueError, match="testing takes more bags than classes"):
        label_shift_test(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(ValueError, match="same class proportions"):
        label_shift_test(X, bag_target(bag, np.full(600, 0.5)))


def test_text_and_missing_values_are_columns_of_their_own():
    rng = np.random.default_rng(0)
    _, X, y = small()
    X[3::7, 1] = np.nan
    table = pd.DataFrame({"a": X[:, 1], "place": rng.choice(["north", "south"], size=len(y))})
    assert list(label_shift_test(table, y).features["feature"]) == [
        "a",
        "a is missing",
        "place_north",
        "place_south",
    ]


def test_sparse_columns_are_tested_as_dense_ones_are():
    rng = np.random.default_rng(0)
    bag, _, y = small()
    dense = (rng.uniform(size=(len(bag), 4)) < [0.02, 0.1, 0.5, 0.9]) * [1.0, 1.0, 2.0, 0.5]
    expected = label_shift_test(dense, y)
    found = label_shift_test(sparse.csr_array(dense), y)
    for name in ("statistic", "p_value", "adjusted_p_value", "detectable_deviation"):
        np.testing.assert_allclose(found.features[name], expected.features[name], rtol=1e-6)
    by_size = (np.sort(np.abs(one.bags["z"])) for one in (found, expected))
    np.testing.assert_allclose(*by_size, rtol=1e-6)


def test_columns_tested_together_say_what_each_says_alone(monkeypatch):
    rng = np.random.default_rng(12)
    bag, positive, y = make_target(rng, np.tile([1, 2, 5, 40], 10))
    shape = (len(bag), 5)
    X = np.hstack(
        [
            rng.normal(size=shape) + 2 * positive,
            rng.uniform(size=shape) < 0.02 + 0.5 * positive,
            rng.lognormal(0, 3, shape) * (1 + bag[:, None] % 5),
            np.ones(shape),
            (rng.uniform(size=shape) < 0.3) & (bag[:, None] % 3 == 1),
        ]
    )
    together = label_shift_test(X, y)
    monkeypatch.setattr("unbag.evaluation.label_shift._TOGETHER", 1)
    alone = label_shift_test(X, y)
    assert alone.notes == together.notes
    for table in ("features", "bags"):
        for name, values in getattr(alone, table).items():
            same = getattr(together, table)[name]
            if values.dtype.kind == "f":
                np.testing.assert_allclose(same, values, rtol=1e-10)
            else:
                np.testing.assert_array_equal(same, values)


@pytest.mark.parametrize("size", [2, 7])
def test_a_column_that_tells_bags_apart_breaks_the_assumption(size):
    bag = np.repeat(np.arange(30), size)
    y = bag_target(bag, counts=(bag % 3 > 0) * 1.0)
    X = np.column_stack([np.random.default_rng(13).normal(size=30)[bag], bag % 2])
    found = label_shift_test(X, y)
    assert (found.features["p_value"] < 1e-6).all()


def test_a_test_that_could_not_fail_says_so():
    data = make_gaussian_bags(n_bags=6, bag_size=4, random_state=0)
    found = label_shift_test(data.X, data.y)
    assert not found.reject
    assert found.typical_deviation > 0.5
    assert not found.has_power
    assert "would not have been detected" in found.summary
