"""
The ready-made model: learners compared and mixed
=================================================

``make_classifier`` turns columns of any kind into features and trains linear, kernel and boosted
models on the same folds of bags: so does ``LLPEnsembleClassifier``, its middle, with learners of your
choice. What bags held out say of each decides how much it counts, without a label.
"""

import matplotlib.pyplot as plt

from unbag import (
    LLPBoostingClassifier,
    LLPEnsembleClassifier,
    LLPKernelClassifierCV,
    LLPLinearClassifierCV,
)
from unbag.datasets import load_magic, make_bags
from unbag.tables.features import make_features

magic = load_magic()
rows, y = make_bags(magic.target, [16] * 30, (0, 0.5), random_state=0)
X = make_features().fit_transform(magic.frame.iloc[rows])
penalties = [1e-4, 1e-3, 1e-2]
learners = {
    "linear": LLPLinearClassifierCV(penalties),
    "kernel": LLPKernelClassifierCV(penalties),
    "boosted trees": LLPBoostingClassifier(num_leaves=4, n_estimators=50),
}
model = LLPEnsembleClassifier(learners, cv=3).fit(X, y)
for line in model.leaderboard_:
    print(f"{line['learner']}: loss {line['loss']:.4f}, weight {line['weight']:.2f}")

# %%
# Loss on bags held out, without a label, and the weight in the mixture.

figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
names = [line["learner"] for line in model.leaderboard_]
for axis, column in zip(axes, ("loss", "weight"), strict=True):
    axis.barh(names, [line[column] for line in model.leaderboard_], height=0.5)
    axis.bar_label(axis.containers[0], fmt="%.3f", padding=4)
    axis.set_xlabel(f"{column} on bags held out" if column == "loss" else "weight in the mixture")
    axis.margins(x=0.2)
axes[0].invert_yaxis()
figure.suptitle("Gamma rays or hadrons, from 30 bags of 16")
plt.show()
