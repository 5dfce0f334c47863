"""
Boosted trees: where a linear model fails
=========================================

Positives lie in two opposite corners, so no linear model separates them. Trees of LightGBM, grown by
the count likelihood, do. Held-out bags choose their number and size. Columns need no scaling, and
values may be missing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPBoostingClassifier, LLPClassifier
from unbag.datasets import make_bags

rng = np.random.default_rng(0)
points = rng.uniform(-1, 1, size=(4000, 2))
corner = (points[:, 0] * points[:, 1] > 0).astype(int)
labels = np.where(rng.random(4000) < 0.1, 1 - corner, corner)
rows, y = make_bags(labels, [30] * 60, (0.1, 0.9), random_state=0)
X = points[rows]

boosted = LLPBoostingClassifier(num_leaves=4, n_estimators=60, cv=5).fit(X, y)
models = {"linear": LLPClassifier(kernel=None).fit(X, y), "boosted trees": boosted}

# %%
# Scores of both over the square, and their true AUC.

grid = np.linspace(-1, 1, 80)
square = np.column_stack([axis.ravel() for axis in np.meshgrid(grid, grid)])
figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    scores = model.decision_function(square)
    limit = np.abs(scores).max()
    axis.imshow(
        scores.reshape(80, 80),
        extent=(-1, 1, -1, 1),
        origin="lower",
        cmap="RdBu",
        vmin=-limit,
        vmax=limit,
    )
    auc = roc_auc_score(labels[rows], model.decision_function(X))
    axis.set_title(f"{name}: AUC {auc:.2f}")
figure.suptitle("Learned from the counts of 60 bags of 30")
plt.show()
