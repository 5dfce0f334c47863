"""
Several classes: three kinds from mixed samples
===============================================

For each sample we know the proportion of each kind of cell, but not the kind of any cell. The same
call handles any number of classes: give one column of proportions for each.
"""

import matplotlib.pyplot as plt
import numpy as np

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags

samples = make_gaussian_bags(n_bags=50, bag_size=20, n_classes=3, separation=3, random_state=0)
print(samples.y[:2])
model = LLPClassifier().fit(samples.X, samples.y)
print(f"{(model.predict(samples.X) == samples.labels).mean():.0%} of cells are classified right.")

# %%
# The true kind of each cell (colours), and the boundaries of the model.

low, high = samples.X.min() - 0.5, samples.X.max() + 0.5
grid = np.linspace(low, high, 150)
points = np.column_stack([axis.ravel() for axis in np.meshgrid(grid, grid)])
regions = model.predict(points).reshape(150, 150)

axes = plt.figure().gca()
axes.contour(grid, grid, regions, levels=[0.5, 1.5], colors="black", linewidths=1)
for kind in range(3):
    axes.scatter(*samples.X[samples.labels == kind].T, s=8, label=f"kind {kind}")
axes.set(aspect="equal", title="Lines learned from 50 mixtures of 20 cells")
axes.legend()
plt.show()
