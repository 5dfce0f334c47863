"""
Several tables at once: by campaign and by day
==============================================

Conversions are reported by campaign and by day, each with its own noise. Every visit belongs to one
row of each table. Training on both tables is better than training on either.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target, multi_grouping_target

rng = np.random.default_rng(0)
campaign, day = rng.integers(0, 40, 2000), rng.integers(0, 30, 2000)
X = rng.normal(size=(2000, 8))
X += 0.3 * rng.normal(size=(40, 8))[campaign] + 0.3 * rng.normal(size=(30, 8))[day]
odds = X[:, 0] - X[:, 1] - 1
sold = rng.random(2000) < 1 / (1 + np.exp(-odds))  # not known in practice


def table(cell):
    """Publish the counts of a grouping, with Laplace noise of scale 3."""
    counts = np.bincount(cell, sold) + rng.laplace(scale=3, size=cell.max() + 1)
    return bag_target(cell, counts=counts[cell], noise=3 * np.sqrt(2))


tables = {"campaign": table(campaign), "day": table(day)}
models = {f"by {name} alone": LLPClassifier(kernel=None).fit(X, y) for name, y in tables.items()}
models["by both"] = LLPClassifier(kernel=None).fit(X, multi_grouping_target(tables))

# %%
# The true AUC of each.

aucs = {name: roc_auc_score(sold, model.decision_function(X)) for name, model in models.items()}
axes = plt.figure(figsize=(6, 2.6)).gca()
axes.barh(list(aucs), list(aucs.values()), height=0.6)
axes.bar_label(axes.containers[0], fmt="%.3f", label_type="center", color="white")
best = roc_auc_score(sold, odds)
axes.axvline(best, color="black", lw=1, ls="--", label="true probabilities")
axes.set(xlim=(0.5, 0.95), xlabel="AUC")
axes.legend(loc="upper right")
axes.set_title("Two noisy tables of the same visits")
plt.show()
