"""
On a cluster: the same model from Dask
======================================

Dask brings the rows of a bag together on one worker, and workers sum what their bags contribute. The
model equals the one fitted in memory, up to rounding. With ``dask.distributed.Client`` the same lines
run on a cluster; here they run on threads.
"""

import dask.array as da
import matplotlib.pyplot as plt

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.distributed import DistributedClassifier

visits = make_gaussian_bags(n_bags=100, bag_size=100, n_features=5, random_state=0)
X = da.from_array(visits.X, chunks=(2500, -1))
y = da.from_array(visits.y, chunks=2500)

remote = DistributedClassifier(LLPClassifier(kernel=None)).fit(X, y)
local = LLPClassifier(kernel=None).fit(visits.X, visits.y)

# %%
# Scores of both, and their largest difference.

here, there = local.decision_function(visits.X), remote.decision_function(X).compute()
axes = plt.figure(figsize=(4.8, 4.4)).gca()
axes.scatter(here, there, s=3)
axes.axline((0, 0), slope=1, color="black", lw=0.5)
axes.set(xlabel="score, in memory", ylabel="score, on Dask", aspect="equal")
axes.set_title(f"{X.npartitions} partitions, largest difference {abs(here - there).max():.0e}")
plt.show()
