"""
Reading the report
==================

``model_report`` trains, evaluates on held-out bags, and writes one page: a verdict on the assumption,
the estimates, and what they rest on. Every picture of the page is available alone, with its
numbers.
"""

import matplotlib.pyplot as plt

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.reports import model_report

wards = make_gaussian_bags(n_bags=100, bag_size=60, proportions=(0, 0.5), random_state=0)
report = model_report(LLPClassifier(kernel=None), wards.X, wards.y, title="Wards", n_resamples=200)
print(report)

# %%
# ``report.save("page.html")`` writes the page. Its pictures:

print(*report.displays)
figure, axes = plt.subplots(1, 2, figsize=(9, 4))
report.displays["bags"].plot(axes[0])
report.displays["roc"].plot(axes[1])
figure.suptitle("What is known, and how good the model is: two pictures of the page")
plt.show()

# %%
# The numbers behind one of them:

print(report.displays["roc"].frame().head())
