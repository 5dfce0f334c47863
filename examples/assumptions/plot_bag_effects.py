"""
Bag effects: days that differ beyond their flights
==================================================

On a stormy day more flights are late than their features predict. ``bag_effect_`` estimates the
variance of this random effect per day, and the likelihood includes it.
"""

import matplotlib.pyplot as plt
import numpy as np

from unbag import LLPClassifier, bags_from_frame, check_bag_target
from unbag.datasets import load_flights
from unbag.evaluation import cross_fit
from unbag.tables.features import make_features

flights = load_flights()
table = flights.frame[flights.frame["date"] < "2013-03"].drop(columns="dest")
columns = {"on": "date", "positives": "late", "unmatched": "drop"}
X, y = bags_from_frame(table, flights.days, **columns)
X = make_features().fit_transform(X)
model = LLPClassifier(kernel=None).fit(X, y)

# %%
# Predicted proportions, from models that did not see the day, and observed ones.

bags = check_bag_target(y)
q = bags.class_shares[1]
spread = np.sqrt(model.bag_effect_) * q * (1 - q)  # from log-odds to shares
print(f"Days differ by ±{100 * spread:.0f} percentage points that features do not explain.")

scores = cross_fit(model, X, y).scores
expected = bags.means(1 / (1 + np.exp(-scores)))
late = bags.proportions[:, 1]
error = np.sqrt(expected * (1 - expected) / bags.sizes)

axes = plt.figure().gca()
axes.errorbar(expected, late, yerr=2 * error, fmt="o", ms=4, elinewidth=0.7)
axes.axline((0.2, 0.2), slope=1, color="black", lw=1, ls="--")
axes.set(xlabel="proportion late, predicted", ylabel="proportion late, observed")
axes.set_title("Bars show sampling variation: days deviate by more")
plt.show()
