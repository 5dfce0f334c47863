"""One bag more changes scores as much as its data do, and no rule on numbers of bags adds a jump."""

import numpy as np
import pytest

from unbag import LLPBoostingClassifier, LLPClassifier
from unbag.datasets import make_gaussian_bags

DATA = make_gaussian_bags(n_bags=61, bag_size=12, n_features=3, random_state=3)
FRESH = 1.5 * np.random.default_rng(1).normal(size=(300, 3))
# penalties that are known: a smooth function of the counts, whatever their number
SMOOTH = LLPClassifier(kernel=None, variances={"numbers": 1.0}, bag_effect=0.0)


def changes(model, numbers):
    """Root mean squares of what one bag more changes of the probabilities of fresh rows."""
    found = []
    for n in numbers:
        kept = DATA.y["bag"] < n
        found.append(model.fit(DATA.X[kept], DATA.y[kept]).predict_proba(FRESH)[:, 1])
    return np.sqrt((np.diff(found, axis=0) ** 2).mean(axis=1))


@pytest.mark.parametrize(
    ("model", "numbers"),
    [
        (LLPClassifier(kernel=None), range(8, 62)),
        (LLPClassifier(n_landmarks=30), range(8, 62)),
        (LLPBoostingClassifier((4,), n_estimators=30, cv=None, n_jobs=1), range(8, 40)),
    ],
    ids=["linear", "kernel", "boosted"],
)
def test_one_bag_more(model, numbers):
    # variances that are estimated from some ten bags still move by themselves
    ratio = changes(model, numbers) / changes(SMOOTH, numbers)
    assert ratio.max() < 5 * np.median(ratio)
