"""
A few labels settle what counts cannot
======================================

Flights of a day share the weather, so counts of days alone cannot show how accurate a classifier
is. A few labelled flights can, without an assumption about days. The counts reduce the error
(prediction-powered inference): the model's scores, shifted in every day until they add up to its
count, predict each label, and the labels estimate only how far off these predictions are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bags_from_frame
from unbag.datasets import load_flights
from unbag.evaluation import evaluate, sample_rows_to_label
from unbag.tables.features import make_features

flights = load_flights()
of_march = flights.frame["date"].str.startswith("2013-03").to_numpy()
columns = {"on": "date", "positives": "late", "unmatched": "drop"}
X, y = bags_from_frame(flights.frame[of_march].drop(columns="dest"), flights.days, **columns)
X = make_features().fit_transform(X)
scores = LLPClassifier(kernel=None).fit(X, y).decision_function(X)
truth = flights.target[of_march]

# %%
# ``sample_rows_to_label`` chooses the most informative flights; their labels are looked up.

asked = [50, 100, 200, 400]
found = []
for n_rows in asked:
    rows, weights = sample_rows_to_label(n_rows, y, scores, random_state=0)
    labels, weight = np.full((2, len(y)), np.nan)
    labels[rows], weight[rows] = truth[rows], weights
    found.append(evaluate(y, scores, labels=labels, weights=weight)["roc_auc"])

axes = plt.figure().gca()
kinds = {"labels and counts": found, "labels alone": [estimate.alone for estimate in found]}
for shift, (name, estimates) in zip((0.95, 1.05), kinds.items(), strict=True):
    values = np.array([e.value for e in estimates])
    bars = [values - [e.low for e in estimates], [e.high for e in estimates] - values]
    axes.errorbar(np.array(asked) * shift, values, yerr=bars, fmt="o", capsize=3, label=name)
axes.axhline(roc_auc_score(truth, scores), color="black", lw=1, ls="--", label="truth")
axes.set(xscale="log", xticks=asked, xticklabels=asked, xlabel="labels", ylabel="AUC")
axes.minorticks_off()
axes.set_title("3,100 flights in 31 days: how accurate is the model?")
axes.legend(loc="lower right")
plt.show()
