"""The ROC curve and its band."""

import numpy as np
from scipy.stats import norm

from unbag.datasets import make_gaussian_bags
from unbag.evaluation.curves import make_roc_band
from unbag.evaluation.measures import make_sample
from unbag.evaluation.uncertainty import Uncertainty

DATA = make_gaussian_bags(n_bags=80, bag_size=60, n_features=1, separation=2.0, random_state=0)


def test_band_lies_around_the_curve():
    band = make_roc_band(make_sample(DATA.y, DATA.X[:, 0]), Uncertainty())
    truth = norm.sf(norm.isf(band.fpr) - 2.0)
    inside = (band.low <= truth + 1e-9) & (truth <= band.high + 1e-9)
    assert inside.mean() > 0.9
    assert (np.diff(band.tpr) >= 0).all()
    middle = slice(5, 60)
    assert (band.low[middle] <= band.tpr[middle]).all()
    assert (band.tpr[middle] <= band.high[middle]).all()
    assert 0.02 < np.mean(band.high[middle] - band.low[middle]) < 0.3
