"""Ranks and tests against cases by hand, and against SciPy."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, friedmanchisquare, wilcoxon

from unbag_bench.suites.ranks import Ranking, cliques, compare, holm, rank_methods


def test_ranks_by_hand():
    ranking = rank_methods(
        {"a": [0.9, 0.8, 0.7, 0.9], "b": [0.8, 0.9, 0.7, 0.8], "c": [0.1, 0.1, 0.1, np.nan]}
    )
    # a: 1, 2, 1.5, 1; b: 2, 1, 1.5, 2; c: 3, 3, 3, 3
    assert ranking.methods == ("a", "b", "c")
    np.testing.assert_allclose(ranking.ranks, [1.375, 1.625, 3])
    deviation = np.std([1, 2, 1.5, 1], ddof=1)
    np.testing.assert_allclose(ranking.errors, [deviation / 2, deviation / 2, 0])
    assert ranking.first_within("a")
    assert not ranking.first_within("c")
    # .25 behind the first, with a standard error of .24
    assert not ranking.first_within("b")


def test_a_single_set_has_no_standard_error():
    ranking = rank_methods({"a": [0.9], "b": [0.8]})
    assert np.isnan(ranking.errors).all()
    assert np.isnan(ranking.p_value)
    assert ranking.first_within("a")
    assert not ranking.first_within("b")


def test_friedman_is_that_of_scipy():
    scores = np.random.default_rng(0).normal([0, 0.3, 0.6, 1.5], size=(12, 4))
    ranking = rank_methods(dict(zip("abcd", scores.T, strict=True)))
    assert ranking.methods[0] == "d"
    assert ranking.p_value == pytest.approx(friedmanchisquare(*scores.T).pvalue)


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_by_the_table_of_demsar(k, q):
    ranking = Ranking(tuple(map(str, range(k))), np.arange(k), np.zeros(k), 14, 0.0)
    expected = q * np.sqrt(k * (k + 1) / (6 * 14))
    assert ranking.critical_difference == pytest.approx(expected, rel=5e-4)


def test_cliques_are_the_longest_runs():
    ranks = np.array([1.0, 1.5, 2.2, 3.9, 4.0])
    ranking = Ranking(tuple("abcde"), ranks, np.zeros(5), 60, 0.0)
    width = ranking.critical_difference
    assert 0.7 < width < 1.2
    assert cliques(ranking) == [(0, 1), (1, 2), (3, 4)]
    assert cliques(Ranking(("a", "b"), np.array([1.0, 2.0]), np.zeros(2), 60, 0.0)) == []


def test_comparisons_by_hand_and_by_scipy():
    rng = np.random.default_rng(1)
    own = rng.normal(size=10)
    scores = {"own": own, "worse": own - rng.uniform(0.1, 1, 10), "same": own.copy()}
    scores["better"] = own + np.array([*rng.uniform(0, 1, 9), -0.05])
    found = {one.other: one for one in compare(scores, "own")}
    assert list(found) == ["better", "same", "worse"]
    assert (found["same"].above, found["same"].level, found["same"].below) == (0, 10, 0)
    assert (found["better"].above, found["better"].below) == (1, 9)
    raw = [wilcoxon(own - scores[name]).pvalue for name in ("better", "worse")]
    # of three p-values, one of them 1, the smallest counts three times
    smallest, second = sorted(raw)
    assert sorted(one.p_value for one in found.values()) == pytest.approx(
        [3 * smallest, max(3 * smallest, 2 * second), 1.0]
    )


def test_level_sets_say_nothing():
    gains = np.array([0, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    (one,) = compare({"a": gains, "b": np.zeros(8)}, "a")
    assert one.p_value == pytest.approx(2 / 2**6)
    assert (one.above, one.level) == (6, 2)


def test_sets_without_a_score_do_not_count():
    (one,) = compare({"a": [1.0, 1.0, np.nan], "b": [0.0, 0.5, 0.0]}, "a")
    assert (one.gain, one.above, one.below) == (0.75, 2, 0)
    assert np.isnan(one.p_value)


def test_holm_lies_between_none_and_bonferroni():
    p = np.random.default_rng(2).uniform(0, 0.2, 8)
    corrected = holm(np.append(p, np.nan))
    assert np.isnan(corrected[-1])
    assert (corrected[:-1] >= false_discovery_control(p) - 1e-12).all()
    assert (corrected[:-1] <= np.minimum(8 * p, 1) + 1e-12).all()
    order = np.argsort(p)
    assert corrected[order[0]] == pytest.approx(8 * p[order[0]])
    assert (np.diff(corrected[order]) >= 0).all()
