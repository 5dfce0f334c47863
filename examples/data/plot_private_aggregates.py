"""
Private aggregates: declare the noise
=====================================

Systems that protect privacy add noise to counts before they publish them. Taking such counts as exact
biases every estimate, and more bags do not help. ``noise`` declares the standard deviation; training
and evaluation then correct for it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import estimate

regions = make_gaussian_bags(
    n_bags=250, bag_size=40, proportions=(0.2, 0.6), separation=1.2, random_state=1
)
bag = regions.y["bag"]
counts = np.bincount(bag, regions.labels)
rng = np.random.default_rng(0)
scales = np.array([0, 1, 2, 4])
found = {"noise declared": [], "noise ignored": []}
truth = []
for scale in scales:
    # Laplace noise of this scale is what differential privacy with ε = 1/scale asks for
    noisy = counts + rng.laplace(scale=scale, size=counts.shape)
    declared = bag_target(bag, counts=noisy[bag], noise=np.sqrt(2) * scale)
    ignored = bag_target(bag, proportion=np.clip(noisy / 40, 0, 1)[bag])
    scores = LLPClassifier(kernel=None).fit(regions.X, declared).decision_function(regions.X)
    truth.append(roc_auc_score(regions.labels, scores))
    for name, y in zip(found, (declared, ignored), strict=True):
        found[name].append(estimate("roc_auc", y, scores))

# %%
# The AUC of the same scores, estimated from noisy counts without labels, with 95% intervals.

axes = plt.figure().gca()
for shift, (name, estimates) in zip((-0.05, 0.05), found.items(), strict=True):
    values = np.array([e.value for e in estimates])
    bars = [values - [e.low for e in estimates], [e.high for e in estimates] - values]
    axes.errorbar(scales + shift, values, yerr=bars, fmt="o-", capsize=3, label=name)
axes.plot(scales, truth, color="black", lw=1, ls="--", label="truth")
axes.set(xlabel="scale of the Laplace noise in a count of about 16 of 40", ylabel="AUC")
axes.set_title("Undeclared noise makes a good model look poor")
axes.legend()
plt.show()
