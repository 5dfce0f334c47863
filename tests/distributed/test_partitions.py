"""Partitions come together in groups where they are."""

import numpy as np
import pytest

from unbag.distributed import partitions
from unbag.distributed.partitions import _group


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(partitions, "n_threads", lambda: 2)


@pytest.mark.usefixtures("two_threads")
class TestGroups:
    def test_neighbours_come_together(self):
        groups = _group([""] * 80)
        assert groups == [list(range(start, start + 10)) for start in range(0, 80, 10)]

    def test_fewer_partitions_than_tasks_stay_alone(self):
        assert _group([""] * 5) == [[0], [1], [2], [3], [4]]

    def test_none_is_split_between_holders_or_left_out(self):
        holders = np.random.default_rng(0).choice(["a", "b", "b", "c"], size=97).tolist()
        groups = _group(holders)
        assert all(len({holders[number] for number in group}) == 1 for group in groups)
        assert sorted(number for group in groups for number in group) == list(range(97))
        assert max(map(len, groups)) <= 18
        assert len(groups) <= 10

    def test_a_holder_of_few_has_a_group(self):
        assert _group(["a"] * 40 + ["b"])[-1] == [40]
