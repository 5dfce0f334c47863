"""Work in threads."""

import threading

import pytest
from threadpoolctl import threadpool_limits

from unbag._threads import allowed_threads, for_each


@pytest.mark.parametrize("threads", [1, 3])
def test_every_unit_is_worked_on_once(threads):
    done = []
    for_each(done.append, range(20), threads)
    assert sorted(done) == list(range(20))


def test_units_are_worked_on_side_by_side():
    # it would break if one of them had to end before the other
    meeting = threading.Barrier(2, timeout=30)
    for_each(lambda _: meeting.wait(), range(2), 2)


@pytest.mark.parametrize("threads", [1, 3])
def test_errors_come_through(threads):
    with pytest.raises(ZeroDivisionError):
        for_each(lambda unit: 1 / unit, range(3), threads)


def test_limits_of_libraries_are_kept():
    with threadpool_limits(1):
        assert allowed_threads() == 1
