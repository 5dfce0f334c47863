"""
Images: digits from the counts of their bags
============================================

Bags hold twelve images each. For each bag we know how often every digit occurs, but not which image
shows which. A kernel model of the pixels learns to read them. Its variances are given here:
estimating them for ten classes takes minutes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from unbag import LLPClassifier
from unbag.datasets import make_random_bags

digits = load_digits()
rows, y = make_random_bags(digits.target[:800], 12, random_state=0)
model = LLPClassifier(variances={"numbers": 1.0, "kernel": 1.0})
model.fit(digits.data[rows] / 16, y)

new = digits.data[800:] / 16
read = model.predict(new)
right = read == digits.target[800:]
print(f"{right.mean():.0%} of {len(new)} new images are read right.")

# %%
# The first images. Wrong predictions have a red title.

figure, axes = plt.subplots(4, 10, figsize=(8, 4))
for axis, image, digit, fine in zip(axes.flat, digits.images[800:], read, right, strict=False):
    axis.imshow(image, cmap="gray_r")
    axis.set_title(digit, color="black" if fine else "red", fontsize=10)
    axis.axis("off")
figure.suptitle("What the model reads, without having seen a labelled image")
plt.show()
