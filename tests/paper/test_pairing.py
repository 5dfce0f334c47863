"""Pairings against exhaustive search, against each other and against the assignment bound."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from unbag.paper.weights import (
    Pairing,
    pair_bags,
    pair_extremes,
    pair_matching,
)


def information_table(proportions, sizes):
    """HM(n_i, n_j)(γ_i − γ_j)² for all pairs, written apart from the module."""
    gamma, n = np.asarray(proportions, float), np.asarray(sizes, float)
    return 2 / (1 / n[:, None] + 1 / n) * (gamma[:, None] - gamma) ** 2


def exhaustive_best(table, bags):
    """Largest weight over all ways to pair the bags; any bag may stay alone."""
    if len(bags) < 2:
        return 0.0
    first, rest = bags[0], bags[1:]
    best = exhaustive_best(table, rest)
    for k, other in enumerate(rest):
        others = rest[:k] + rest[k + 1 :]
        best = max(best, table[first, other] + exhaustive_best(table, others))
    return best


def assignment_bound(proportions, sizes):
    """No matching weighs more than half the best assignment, of which it is a special case."""
    table = information_table(proportions, sizes)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return table[rows, columns].sum() / 2


def two_valued(rng, size):
    return rng.choice([0.2, 0.7], size, p=[0.3, 0.7]), np.ceil(rng.lognormal(3, 1, size))


def sizes_follow_proportions(rng, size):
    proportions = rng.random(size)
    return proportions, np.ceil(np.exp(1 + 4 * proportions + 0.5 * rng.standard_normal(size)))


def counted(rng, size):
    sizes = np.ceil(rng.lognormal(3, 0.7, size)).astype(int)
    return rng.binomial(sizes, 0.3) / sizes, sizes


FAMILIES = {
    "uniform": lambda rng, size: (rng.random(size), rng.integers(10, 200, size)),
    "log-normal": lambda rng, size: (rng.random(size), np.ceil(rng.lognormal(3, 1, size))),
    "heavy-tailed": lambda rng, size: (rng.random(size), np.ceil(5 + 5 * rng.pareto(1.1, size))),
    "narrow": lambda rng, size: (rng.uniform(0.4, 0.45, size), np.ceil(rng.lognormal(3, 1, size))),
    "clustered": lambda rng, size: (
        rng.choice([0.1, 0.3, 0.8], size) + rng.uniform(-0.03, 0.03, size),
        np.ceil(rng.lognormal(3, 1, size)),
    ),
    "two values": two_valued,
    "ties": lambda rng, size: (rng.integers(0, 11, size) / 10, rng.choice([5, 10, 20, 50], size)),
    "sizes follow": sizes_follow_proportions,
    "skewed": lambda rng, size: (rng.beta(0.5, 5, size), np.ceil(rng.lognormal(4, 1.5, size))),
    "counted": counted,
}
METHODS = {
    "extremes": lambda proportions, sizes: pair_extremes(proportions),  # noqa: ARG005
    "matching": pair_matching,
}

families = pytest.mark.parametrize("family", FAMILIES)
methods = pytest.mark.parametrize("method", METHODS)

proportion_values = st.one_of(
    st.floats(0, 1, allow_subnormal=False).map(lambda value: round(value, 6)),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
some_bags = st.lists(
    st.tuples(proportion_values, st.one_of(st.integers(1, 10), st.integers(1, 10**6))),
    min_size=2,
    max_size=8,
)


def check_pairing(pairing, proportions):
    """What holds for every pairing."""
    proportions = np.asarray(proportions)
    assert len(pairing) == len(pairing.positive) == len(pairing.negative)
    assert pairing.positive.dtype.kind == pairing.negative.dtype.kind == "i"
    used = np.concatenate([pairing.positive, pairing.negative])
    assert len(np.unique(used)) == len(used)
    difference = proportions[pairing.positive] - proportions[pairing.negative]
    assert (difference > 0).all()
    assert (np.diff(difference) <= 0).all()


@given(some_bags)
@settings(deadline=None, max_examples=200)
def test_matching_equals_exhaustive_search(bags):
    proportions, sizes = zip(*bags, strict=True)
    best = exhaustive_best(information_table(proportions, sizes), tuple(range(len(bags))))
    pairing = pair_matching(proportions, sizes)
    check_pairing(pairing, proportions)
    assert pairing.information(proportions, sizes) == pytest.approx(best, rel=1e-10)


@given(st.lists(proportion_values, min_size=2, max_size=40))
@settings(deadline=None)
def test_extremes_is_the_best_matching_of_equal_sizes(proportions):
    sizes = np.full(len(proportions), 7)
    extremes, matching = pair_extremes(proportions), pair_matching(proportions, sizes)
    check_pairing(extremes, proportions)
    assert extremes.information(proportions, sizes) == pytest.approx(
        matching.information(proportions, sizes), rel=1e-10
    )


@methods
@families
def test_order_of_the_bags_does_not_matter(method, family):
    rng = np.random.default_rng(3)
    proportions, sizes = FAMILIES[family](rng, 81)
    shuffle = rng.permutation(81)
    information = METHODS[method](proportions, sizes).information(proportions, sizes)
    shuffled = METHODS[method](proportions[shuffle], sizes[shuffle])
    if method == "extremes":  # it does not look at the sizes, so ties may be broken differently
        information = METHODS[method](proportions, sizes).information(proportions)
        assert shuffled.information(proportions[shuffle]) == pytest.approx(information, rel=1e-10)
    else:
        assert shuffled.information(proportions[shuffle], sizes[shuffle]) == pytest.approx(
            information, rel=1e-10
        )


@methods
def test_same_input_same_pairs(method):
    proportions, sizes = FAMILIES["ties"](np.random.default_rng(2), 101)
    one, other = (METHODS[method](proportions, sizes) for _ in range(2))
    np.testing.assert_array_equal(one.positive, other.positive)
    np.testing.assert_array_equal(one.negative, other.negative)


@methods
def test_odd_number_leaves_one_out(method):
    proportions, sizes = FAMILIES["uniform"](np.random.default_rng(4), 51)
    assert len(METHODS[method](proportions, sizes)) == 25


def test_the_bag_left_out_is_the_one_that_costs_least():
    proportions, sizes = [0.0, 1.0, 0.5], [1, 50, 50]
    pairing = pair_matching(proportions, sizes)
    assert (pairing.positive.tolist(), pairing.negative.tolist()) == ([1], [2])
    assert pair_extremes(proportions).negative.tolist() == [0]


@methods
@pytest.mark.parametrize("n_bags", [2, 3, 10, 101])
def test_equal_proportions_give_an_empty_pairing(method, n_bags):
    sizes = np.arange(1, n_bags + 1)
    pairing = METHODS[method](np.full(n_bags, 0.3), sizes)
    check_pairing(pairing, np.full(n_bags, 0.3))
    assert len(pairing) == 0
    assert pairing.information(np.full(n_bags, 0.3), sizes) == 0


@methods
def test_pairs_without_information_are_left_out(method):
    proportions, sizes = [0.5, 0.5, 0.5, 0.9], [10, 20, 30, 40]
    pairing = METHODS[method](proportions, sizes)
    check_pairing(pairing, proportions)
    assert len(pairing) == 1
    assert pairing.positive[0] == 3


@methods
def test_unit_of_the_sizes_does_not_matter(method):
    proportions, sizes = FAMILIES["heavy-tailed"](np.random.default_rng(7), 41)
    for factor in (2.0**-900, 2.0**900):
        scaled = METHODS[method](proportions, sizes * factor)
        np.testing.assert_array_equal(scaled.positive, METHODS[method](proportions, sizes).positive)


def test_information_adds_up_over_pairs():
    pairing = Pairing(np.array([1, 3]), np.array([0, 2]))
    proportions, sizes = [0.1, 0.6, 0.0, 1.0], [10, 30, 4, 4]
    assert pairing.information(proportions, sizes) == pytest.approx(15 * 0.25 + 4)
    assert pairing.information(proportions) == pytest.approx(0.25 + 1)


@pytest.mark.parametrize(
    ("proportions", "sizes", "message"),
    [
        ([[0.1, 0.2]], [1, 2], r"proportions must be one-dimensional.*\(1, 2\)"),
        ([0.1], [1], "at least two bags"),
        ([], [], "at least two bags"),
        ([0.1, np.nan], [1, 2], "finite numbers between 0 and 1"),
        ([0.1, 1.1], [1, 2], "finite numbers between 0 and 1"),
        ([-0.1, 1], [1, 2], "finite numbers between 0 and 1"),
        ([0.1, 0.2], [1, 2, 3], r"one number for each of the 2 bags.*\(3,\)"),
        ([0.1, 0.2], [1, 0], "sizes must be positive"),
        ([0.1, 0.2], [1, np.nan], "sizes must be positive"),
        ([0.1, 0.2], [1, np.inf], "sizes must be positive"),
    ],
)
@pytest.mark.parametrize("pair", [pair_bags, pair_matching])
def test_bad_input_gets_one_clear_sentence(pair, proportions, sizes, message):
    with pytest.raises(ValueError, match=message):
        pair(proportions, sizes)


def test_without_rustworkx_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rustworkx", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs rustworkx; install it with: .*\[paper\]"):
        pair_matching([0.1, 0.9, 0.4], [10, 20, 30])
    assert len(pair_extremes([0.1, 0.9])) == 1
