"""
Label shift: a ROC curve without a label
========================================

Wards differ in *how many* of their patients are infected, and infected patients have the same
distribution in all of them. Under this label shift the counts of wards show how accurate a classifier
is. The curve estimated from counts follows the true one.
"""

import matplotlib.pyplot as plt

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_fit, evaluate
from unbag.reports import RocDisplay

wards = make_gaussian_bags(n_bags=100, bag_size=60, proportions=(0, 0.5), random_state=0)

# %%
# Each ward is scored by a model that did not see it. The verdict says whether label shift is
# rejected.

scores = cross_fit(LLPClassifier(kernel=None), wards.X, wards.y).scores
evaluation = evaluate(wards.y, scores)
print(evaluation.verdict)

# %%
# At each false positive rate, the band covers the true recall with a probability of 95%.

RocDisplay.from_evaluation(evaluation, wards.labels).plot(plt.figure().gca())
plt.title("From 100 counts: estimated, and true")
plt.show()
