"""
An ensemble of models
=====================

``LLPEnsembleClassifier`` trains base models of your choice, by default the mixed model and boosted
trees, on the same folds of bags. ``make_classifier("ensemble")`` does this for tables with columns of
any type. The likelihood of held-out bags sets the weights, without a label.
"""

import matplotlib.pyplot as plt

from unbag import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
)
from unbag.datasets import load_magic, make_bags
from unbag.tables.features import make_features

magic = load_magic()
rows, y = make_bags(magic.target, [16] * 30, (0, 0.5), random_state=0)
X = make_features().fit_transform(magic.frame.iloc[rows])
models = [
    ("linear", LLPClassifier(kernel=None)),
    ("kernel", LLPClassifier()),
    ("boosted trees", LLPBoostingClassifier(num_leaves=4, n_estimators=50)),
]
model = LLPEnsembleClassifier(models, cv=3).fit(X, y)
for line in model.leaderboard_:
    print(f"{line['learner']}: loss {line['loss']:.4f}, weight {line['weight']:.2f}")

# %%
# Loss on held-out bags, without a label, and the weight in the ensemble.

figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
names = [line["learner"] for line in model.leaderboard_]
for axis, column in zip(axes, ("loss", "weight"), strict=True):
    axis.barh(names, [line[column] for line in model.leaderboard_], height=0.5)
    axis.bar_label(axis.containers[0], fmt="%.3f", padding=4)
    axis.set_xlabel(f"{column} on held-out bags" if column == "loss" else "weight in the ensemble")
    axis.margins(x=0.2)
axes[0].invert_yaxis()
figure.suptitle("Gamma rays or hadrons, from 30 bags of 16")
plt.show()
