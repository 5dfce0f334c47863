"""
Planning a study: how many bags?
================================

Before anything is collected: how many bags of which size does it take to estimate a classifier's
accuracy within ±4 points (two standard errors), without labels? Bags that differ more carry more
information, and small bags carry more information per row.
"""

import matplotlib.pyplot as plt

from unbag.paper.bounds import required_bags

print(required_bags(50, (0.1, 0.6), 0.02, expected=0.8), "bags of 50")

# %%
# The total number of rows, by the size of bags and the range of their proportions.

sizes = [5, 10, 20, 50, 100, 200]
axes = plt.figure().gca()
for low, high in ((0.3, 0.4), (0.2, 0.5), (0.1, 0.6), (0, 1)):
    rows = [size * required_bags(size, (low, high), 0.02, expected=0.8) for size in sizes]
    axes.plot(sizes, rows, "o-", label=f"proportions from {low} to {high}")
axes.set(xscale="log", yscale="log", xticks=sizes, xticklabels=sizes)
axes.minorticks_off()
axes.set(xlabel="rows per bag", ylabel="total number of rows")
axes.legend()
axes.set_title("Balanced accuracy within ±4 points, without labels")
plt.show()
