"""Bags of given class counts."""

import numpy as np

from unbag import bag_target, check_bag_target


def make_bags(counts):
    """Bags of these class counts, their rows in random order; pure bags of one are labels."""
    counts = np.asarray(counts)
    bag = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    bag = np.random.default_rng(1).permutation(bag)
    per_bag = counts[:, 1] if counts.shape[1] == 2 else counts
    return check_bag_target(bag_target(bag, counts=per_bag[bag]))
