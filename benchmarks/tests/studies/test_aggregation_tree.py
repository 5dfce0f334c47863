"""The simulated tree of sums against its formula, and against following every message by hand."""

from dataclasses import replace

import numpy as np
import pytest

from unbag_bench.studies import aggregation_tree as tree


@pytest.fixture
def cluster():
    # messages that take about as long as the work does, so that an error in them shows
    return tree.Cluster(
        n_rows=1e4, row_seconds=1e-6, sum_bytes=2e5, coefficient_bytes=1e5, straggling=0.0
    )


def pass_by_hand(cluster, work, fan_in):
    """Follow every message of one pass: each node serves them as they come."""
    parents = [list(range(len(work)))]
    while len(parents[-1]) > 1:
        parents.append(list(range((len(parents[-1]) - 1) // fan_in + 1)))

    def finish(level, node, start):
        if level == 0:
            return start + work[node]
        children = [c for c in parents[level - 1] if c // fan_in == node]
        begin = [start + (i + 1) * cluster.down + cluster.latency for i in range(len(children))]
        ends = [finish(level - 1, c, t) for c, t in zip(children, begin, strict=True)]
        free = -np.inf
        for arrival in sorted(end + cluster.latency for end in ends):
            free = max(free, arrival) + cluster.up
        return free

    return finish(len(parents) - 1, 0, cluster.driver_seconds)


@pytest.mark.parametrize("n_machines", [1, 2, 7, 8, 50])
@pytest.mark.parametrize("fan_in", [2, 3, 8])
def test_simulation_follows_every_message(cluster, n_machines, fan_in):
    uneven = replace(cluster, straggling=0.5)
    work = tree.draw_work(uneven, n_machines, 3, np.random.default_rng(0))
    expected = [pass_by_hand(uneven, row, fan_in) for row in work]
    np.testing.assert_allclose(tree.simulate(uneven, work, fan_in), expected, rtol=1e-12)


@pytest.mark.parametrize("sum_bytes", [1e3, 1e5, 1e6])
@pytest.mark.parametrize(("fan_in", "height"), [(2, 10), (8, 3), (32, 2)])
def test_formula_is_exact_for_full_trees(cluster, sum_bytes, fan_in, height):
    cluster = replace(cluster, sum_bytes=sum_bytes)
    work = tree.draw_work(cluster, fan_in**height, 1, np.random.default_rng(0))
    expected = tree.closed_form(cluster, fan_in**height, fan_in)
    np.testing.assert_allclose(tree.simulate(cluster, work, fan_in), expected, rtol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 66])
def test_formula_holds_for_the_published_table(n_columns):
    cluster = tree.internet_scale(n_columns)
    for n_machines in tree.MACHINES:
        work = tree.draw_work(cluster, n_machines, 1, np.random.default_rng(0))
        for fan_in in tree.FAN_INS:
            expected = tree.closed_form(cluster, n_machines, fan_in)
            np.testing.assert_allclose(tree.simulate(cluster, work, fan_in), expected, rtol=0.03)


def test_slowest_machine_is_the_expected_one(cluster):
    slow = replace(cluster, straggling=0.3)
    work = tree.draw_work(slow, 500, 4_000, np.random.default_rng(0))
    np.testing.assert_allclose(work.mean(), slow.work(500), rtol=0.01)
    np.testing.assert_allclose(work.max(axis=1).mean(), tree.slowest(slow, 500), rtol=0.02)
