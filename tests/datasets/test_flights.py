import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest

from unbag import bags_from_frame, check_bag_target
from unbag.datasets import load_flights

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_datasets.py"


@pytest.fixture(scope="module")
def flights():
    return load_flights()


def test_every_day_has_its_flights(flights):
    assert flights.frame.shape == (36_500, 7)
    assert flights.target.shape == (36_500,)
    assert flights.days["date"].tolist() == sorted(set(flights.frame["date"]))
    assert len(flights.days) == 365
    assert (flights.days["flights"] == 100).all()
    assert flights.target_names.tolist() == ["on time", "late"]
    assert "public domain" in flights.citation.lower()


def test_counts_of_days_are_those_of_their_flights(flights):
    late = flights.frame.assign(late=flights.target).groupby("date")["late"].sum()
    assert flights.days.set_index("date")["late"].to_dict() == late.to_dict()
    X, y = bags_from_frame(flights.frame, flights.days, on="date", positives="late")
    assert list(X.columns) == [c for c in flights.frame.columns if c != "date"]
    bags = check_bag_target(y)
    assert bags.n_bags == 365
    assert bags.proportions[:, 1].mean() == pytest.approx(flights.target.mean())


def test_columns_are_of_their_kinds(flights):
    assert sorted(["date", *flights.categorical, *flights.numerical]) == sorted(flights.frame)
    assert flights.numerical == ["hour", "distance", "dep_delay"]
    assert all(flights.frame[name].dtype == np.int64 for name in flights.numerical)
    assert flights.frame["hour"].between(0, 23).all()
    assert set(flights.frame["origin"]) == {"EWR", "JFK", "LGA"}


# --- how the file is made -----------------------------------------------------------------------


def original(n_flights):
    lines = ["month,day,sched_dep_time,dep_delay,arr_delay,carrier,origin,dest,distance"]
    for day in (2, 1):
        lines += [f"1,{day},{500 + i},{i}.0,{i}.0,AA,JFK,LAX,2475" for i in range(n_flights)]
    # neither of these arrived
    return io.StringIO(
        "\n".join([*lines, "1,1,900,NA,NA,AA,JFK,LAX,2475", "1,1,901,3,,AA,JFK,LAX,1"])
    )


def test_flights_are_drawn_day_by_day_in_their_order():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    header, *rows = (line.split(",") for line in module.draw_flights(original(150)).splitlines())
    assert tuple(header) == module.FLIGHTS_COLUMNS
    assert [row[0] for row in rows] == ["2013-01-01"] * 100 + ["2013-01-02"] * 100
    delays = np.array([int(row[6]) for row in rows]).reshape(2, 100)
    assert (np.diff(delays) > 0).all()
    assert [row[1] for row in rows] == [str((500 + int(row[6])) // 100) for row in rows]
    assert [row[-1] for row in rows] == ["late" if d > 15 else "on time" for d in delays.ravel()]
    assert module.draw_flights(original(150)) == module.draw_flights(original(150))
