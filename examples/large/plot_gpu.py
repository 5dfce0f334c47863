"""
On a GPU: one more argument
===========================

``device="cuda"`` trains linear and kernel models on a graphics card. Without one, this page was made
with ``device="cpu"``, which runs torch on the processor. Either way the scores equal those of NumPy
up to rounding.
"""

import matplotlib.pyplot as plt
import torch

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags

device = "cuda" if torch.cuda.is_available() else "cpu"
print({"cuda": "Trained on the GPU.", "cpu": "There is no GPU here: trained on the CPU."}[device])

data = make_gaussian_bags(n_bags=40, bag_size=25, random_state=0)
with_torch = LLPClassifier().fit(data.X, data.y)
with_numpy = LLPClassifier().fit(data.X, data.y)

# %%
# Scores of both, in double precision as the data are.

here, there = with_numpy.decision_function(data.X), with_torch.decision_function(data.X)
axes = plt.figure(figsize=(4.8, 4.4)).gca()
axes.scatter(here, there, s=5)
axes.axline((0, 0), slope=1, color="black", lw=0.5)
axes.set(xlabel="score, by NumPy", ylabel=f"score, by torch on {device}", aspect="equal")
axes.set_title(f"Largest difference {abs(here - there).max():.0e}")
plt.show()
