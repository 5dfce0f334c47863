"""Visitors by region: consistent totals, noise and missing values."""

import numpy as np
import pytest

from unbag import bags_from_frame
from unbag.datasets import load_visits
from unbag.datasets.shipped import conversion_tables


@pytest.mark.parametrize("month", ["may", "june"])
def test_totals_are_those_of_the_visitors(month):
    visits = load_visits(month)
    bought = visits.frame.assign(bought=visits.target).groupby("region")["bought"]
    np.testing.assert_array_equal(visits.regions["visitors"], bought.size())
    np.testing.assert_array_equal(visits.regions["purchases"], bought.sum())
    X, y = bags_from_frame(visits.frame, visits.regions, on="region", positives="purchases")
    assert list(X) == [name for name in visits.frame if name != "region"]
    assert set(X) == {*visits.categorical, *visits.numerical}
    assert y["proportion"].mean() == pytest.approx(visits.target.mean())


def test_an_unknown_month_is_named():
    with pytest.raises(ValueError, match="month must be"):
        load_visits("july")


def test_conversions_are_noisy_and_have_gaps():
    tables = conversion_tables("may")
    truth = tables["truth"]["converted"].groupby(tables["visits"]["region"].to_numpy()).sum()
    noise = tables["regions"]["conversions"].to_numpy() - truth.to_numpy()
    # a Laplace distribution of scale 3 has a standard deviation of 4.24
    assert np.std(noise) == pytest.approx(3 * np.sqrt(2), rel=0.25)
    assert 0 < tables["visits"]["hours-per-week"].isna().mean() < 0.06
