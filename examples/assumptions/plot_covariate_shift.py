"""
Covariate shift: which objective is valid?
==========================================

Districts differ in *who* lives there: the probability of a vote given the features of a voter is
the same in all of them. The count likelihood, the default, is valid under this covariate shift.
Scott and Zhang's corrected risk assumes label shift, and learns what separates districts.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from unbag import LLPClassifier, bag_target
from unbag.evaluation import evaluate
from unbag.paper import LMMCMClassifier

# %%
# Voters have two features. The first differs a lot between districts and hardly predicts the vote;
# the second predicts it, and differs little.

rng = np.random.default_rng(0)
district = np.repeat(np.arange(80), 100)
X = rng.normal(size=(8000, 2)) + (rng.normal(size=(80, 2)) * [1.5, 0.3])[district]
truth = np.array([0.3, 1.5])
votes = rng.random(8000) < 1 / (1 + np.exp(-X @ truth))
y = bag_target(district, counts=np.bincount(district, votes)[district])

directions = {
    "the truth": truth,
    "labels": LogisticRegression().fit(X, votes).coef_[0],
    "count likelihood": LLPClassifier(kernel=None).fit(X, y).coef_[0],
    "corrected risk": LMMCMClassifier(1e-4, kernel="linear").fit(X, y).coef_[0],
}

# %%
# An evaluation rejects label shift, and gives its estimates under covariate shift.

model = LLPClassifier(kernel=None).fit(X, y)
verdicts = evaluate(y, model.decision_function(X)).verdicts
print(*(f"{name}: {verdict.name}" for name, verdict in verdicts.items()), sep="\n")

# %%
# The direction of the coefficients: the steeper an arrow, the larger that of the second column.

axes = plt.figure().gca()
for i, (name, (first, second)) in enumerate(directions.items()):
    length = np.hypot(first, second)
    arrow = {"width": 0.04 / 2**i, "length_includes_head": True, "color": f"C{i}"}
    axes.arrow(0, 0, first / length, second / length, label=name, **arrow)
axes.set(xlim=(-0.2, 1.1), ylim=(0, 1.1), aspect="equal")
axes.set(xlabel="first column: where people live", ylabel="second column: how they vote")
axes.legend(loc="upper right")
axes.set_title("The likelihood finds the direction that labels find")
plt.show()
