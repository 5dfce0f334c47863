"""
Networks: a training loop of your own
=====================================

Losses of ``unbag.torch`` take the counts of whole bags instead of labels. Two bags here are too large
for a batch: ``two_pass_backward`` sends them through in chunks, with the exact gradient.
``LLPNeuralClassifier`` does all of this in one call; this page is for loops of your own.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from unbag.datasets import make_gaussian_bags
from unbag.torch import BagBatchSampler, BagDataset, CountLikelihoodLoss, two_pass_backward

BATCH = 512

torch.manual_seed(0)
data = make_gaussian_bags(
    n_bags=60, bag_size=[10] * 58 + [700, 900], n_classes=3, separation=3, random_state=0
)
bags = BagDataset(data.X.astype(np.float32), data.y)
loader = DataLoader(bags, sampler=BagBatchSampler(bags, BATCH), batch_size=None)
module = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
optimiser = torch.optim.AdamW(module.parameters(), lr=0.01)
loss = CountLikelihoodLoss()

for _ in range(20):
    for X, batch in loader:
        optimiser.zero_grad()
        # whole bags, in chunks: the two large ones take several
        two_pass_backward(module, X, batch, loss, chunk_size=BATCH)
        optimiser.step()

with torch.no_grad():
    found = module(torch.tensor(data.X, dtype=torch.float32)).argmax(dim=1).numpy()
print(f"Correct, by labels that training did not use: {(found == data.labels).mean():.1%}")

# %%
# Predicted classes. Wrong predictions are crossed out.

right = found == data.labels
axes = plt.figure().gca()
for kind in range(3):
    axes.scatter(*data.X[found == kind].T, s=6, label=f"class {kind}")
axes.scatter(*data.X[~right].T, s=20, marker="x", color="black", lw=0.8, label="wrong")
axes.set(aspect="equal", title=f"{right.mean():.0%} right, from the counts of 60 bags")
axes.legend()
plt.show()
