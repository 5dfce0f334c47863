"""Reports that several files of tests look at."""

import numpy as np
import pandas as pd
import pytest

from unbag import LLPClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.reports import model_report

NASTY = (
    "<script>alert(1)</script>",
    "$x_1$",
    "a&b",
    '"quo\'te"',
    "\u202eevil",
    "be\x07ll\nline",
    "</text></svg><img src=x onerror=alert(1)>",
    "$\\frac{",
    "סניף",
    "one name without any end " * 10,
)
TITLE = "<script>alert(2)</script> & $t$ \u2067"


def nasty_data(n_bags=20):
    """Bags, classes and columns of nasty names; three bags deviate."""
    data = make_gaussian_bags(n_bags=n_bags, bag_size=60, random_state=3)
    names = np.array([NASTY[k] if k < len(NASTY) else f"bag {k}" for k in range(n_bags)], object)
    X = pd.DataFrame(data.X, columns=["<b>h</b>", "$y^2$"])
    X[np.isin(data.y["bag"], (0, 1, 6))] += 3
    return X, bag_target(names[data.y["bag"]], data.y["proportion"]), data.labels


@pytest.fixture(scope="package")
def nasty_report():
    X, y, labels = nasty_data()
    model = LLPClassifier(kernel=None)
    return model_report(model, X, y, cv=3, n_resamples=50, title=TITLE, labels=labels)
