"""
Classes follow label shift: a ROC curve without a label
====================================================

Wards differ in *how many* of their patients are infected, and an infected patient looks the same
in all of them. Then the counts of wards tell how good a classifier is, without a single label: the
curve estimated from counts lies on the true one, which nobody would have.
"""

import matplotlib.pyplot as plt

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_val_evaluate
from unbag.reports import RocDisplay

wards = make_gaussian_bags(n_bags=60, bag_size=40, proportions=(0, 0.5), random_state=0)
model = LLPClassifier(kernel=None).fit(wards.X, wards.y)
print(cross_val_evaluate(model, wards.X, wards.y).verdict)

# %%
# The scores are those of models that did not see the ward. The band holds the whole curve with
# a probability of 95%.

scores = model.out_of_fold_scores_
RocDisplay.from_data(wards.y, scores, labels=wards.labels).plot(plt.figure().gca())
plt.title("From 60 counts: estimated, and true")
plt.show()
