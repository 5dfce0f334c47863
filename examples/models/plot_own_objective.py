"""
An objective of your own
========================

Solvers minimise in *score space*: an objective returns its value and its gradient with respect to the
scores of all rows, and does not depend on the model. So a new objective is a class of a few lines. The
one here pulls the mean probability of each bag to its proportion, and limits the influence of a bag
that is far off.
"""

import matplotlib.pyplot as plt
import numpy as np

from unbag import bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.paper.lbfgs import LinearSpace, minimise


class ForgivingRisk:
    """Sum over bags of log(1 + (d/s)²), d the mean predicted probability less the proportion of the bag."""

    n_outputs = 1

    def __init__(self, bags, scale):
        self.bags, self.scale = bags, scale

    def value(self, scores, problem):
        """Value of each column of scores."""
        return self.value_and_gradient(scores, problem)[0]

    def value_and_gradient(self, scores, _):
        """Value of each column, and its gradient by the scores."""
        probability = 1 / (1 + np.exp(-scores[:, 0]))
        means = np.stack([self.bags.means(column) for column in probability])
        off = (means - self.bags.proportions[:, 1]) / self.scale
        by_bag = 2 * off / (1 + off**2) / (self.scale * self.bags.sizes)
        gradient = by_bag[:, self.bags.index] * probability * (1 - probability)
        return np.log1p(off**2).sum(axis=1), gradient[:, None]


# %%
# Ten of forty bags were not counted, and the table says 0.

data = make_gaussian_bags(n_bags=40, bag_size=50, proportions=(0, 1), random_state=0)
share = np.where(data.y["bag"] < 10, 0, data.y["proportion"])
bags = check_bag_target(bag_target(data.y["bag"], share))

# %%
# A scale of .1 limits their influence. A scale of 10 does not: it amounts to the sum of squares.

lines = {}
for name, scale in {"forgiving": 0.1, "squared": 10.0}.items():
    risk = ForgivingRisk(bags, scale)
    penalty, problem = np.array([1e-3 / scale**2]), np.array([0])
    lines[name] = minimise(risk, LinearSpace(data.X, 1), penalty, problem).theta[0]

axes = plt.figure().gca()
for label in (0, 1):
    axes.scatter(*data.X[data.labels == label].T, s=6, label=f"class {label}")
for (name, (a, b, c)), style in zip(lines.items(), ("-", "--"), strict=True):
    right = ((data.X @ [a, b] + c > 0) == data.labels).mean()
    axes.axline((0, -c / b), slope=-a / b, color="black", ls=style, label=f"{name}: {right:.0%}")
axes.set(aspect="equal", xlim=(-4, 4), ylim=(-4, 4))
axes.set_title("Forty bags, ten of them with a wrong count of 0")
axes.legend(loc="upper left")
plt.show()
