"""Shipped data sets, and bags drawn from labelled or simulated rows."""

from unbag.datasets.bagging import (
    add_count_noise,
    make_bags,
    make_gaussian_bags,
    make_random_bags,
)
from unbag.datasets.shipped import load_adult, load_flights, load_magic, load_visits

__all__ = [
    "add_count_noise",
    "load_adult",
    "load_flights",
    "load_magic",
    "load_visits",
    "make_bags",
    "make_gaussian_bags",
    "make_random_bags",
]
