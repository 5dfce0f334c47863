"""What the best classifier of `unbag.datasets.make_gaussian_bags` reaches, of two classes."""

from math import sqrt

from scipy.special import ndtr


def gaussian_bayes_ber(separation):
    """Least balanced error rate."""
    return float(ndtr(-separation / 2))


def gaussian_auc(separation):
    """Largest AUC."""
    return float(ndtr(separation / sqrt(2)))
