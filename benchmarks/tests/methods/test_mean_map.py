"""Mean maps: what they are, and what they become."""

import numpy as np
import pytest

from unbag import bag_target, check_bag_target
from unbag.observations.losses import get_loss
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.weights import decontamination_weights, pooled_shares
from unbag_bench.methods.mean_map import laplacian_weights, mean_map_weights, similarities

ONE = np.zeros(1, dtype=np.intp)
two_or_three = pytest.mark.parametrize("n_classes", [2, 3])


def draw_bags(n_classes, sizes, seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(n_classes), size=len(sizes))
    bag = np.repeat(np.arange(len(sizes)), sizes)
    target = shares[:, 1] if n_classes == 2 else shares
    return check_bag_target(bag_target(bag, target[bag]))


@two_or_three
@pytest.mark.parametrize("sizes", [[5] * 6, [3, 9, 4, 5, 12, 2]])
def test_risk_is_that_of_class_means(n_classes, sizes):
    """(1/N) Σ_j lse f(x_j) − Σ_c q_c f_c(μ_c) for linear f, with μ by least squares over bags."""
    bags = draw_bags(n_classes, sizes)
    rng = np.random.default_rng(1)
    X, theta = rng.normal(size=(bags.n_instances, 4)), rng.normal(size=(n_classes, 4))
    f = theta @ X.T
    q = bags.class_shares
    means = np.linalg.lstsq(bags.proportions, bags.means(X.T).T, rcond=None)[0]
    expected = np.mean(np.log(np.exp(f).sum(axis=0))) - q @ np.sum(theta * means, axis=1)
    if n_classes > 2 or len(set(sizes)) > 1:
        # scores are up to a function of the row; spread what it adds over the classes
        expected += (q @ means - X.mean(axis=0)) @ theta.mean(axis=0)
    scores = (f[1:] - f[:1])[None] if n_classes == 2 else f[None]
    loss, once = get_loss("logistic", n_classes), np.ones(n_classes)
    risk = CorrectedRisk(mean_map_weights(bags), bags, loss, once, "none")
    np.testing.assert_allclose(risk.value(scores, ONE)[0], expected)


@two_or_three
def test_of_equal_bags_it_is_the_corrected_risk_at_the_pooled_shares(n_classes):
    bags = draw_bags(n_classes, [5] * 8)
    q = pooled_shares(bags, "instances", np.ones((1, 8), dtype=bool))[0]
    np.testing.assert_allclose(mean_map_weights(bags), decontamination_weights(bags) * q)


def test_of_unequal_bags_it_weighs_them_alike_where_the_risk_goes_by_size():
    bags = draw_bags(2, [3, 9, 4, 5, 12, 2])
    q = bags.class_shares
    U = mean_map_weights(bags)
    np.testing.assert_allclose(U.sum(axis=1), bags.sizes / bags.sizes.sum())
    np.testing.assert_allclose(U.sum(axis=0), q)
    contrast = U[:, 1] - U[:, 0]
    by_bag, by_size = (decontamination_weights(bags, m) * q for m in ("bags", "instances"))
    np.testing.assert_allclose(contrast, by_bag[:, 1] - by_bag[:, 0])
    assert np.abs(contrast - (by_size[:, 1] - by_size[:, 0])).max() > 0.01


@two_or_three
def test_laplacian_of_great_smoothness_is_the_mean_map(n_classes):
    bags = draw_bags(n_classes, [3, 9, 4, 5, 12, 2])
    means = np.random.default_rng(2).normal(size=(6, 3))
    found = laplacian_weights(bags, means, 1e6, 1.0)
    np.testing.assert_allclose(found, mean_map_weights(bags), atol=1e-3)


@two_or_three
def test_laplacian_class_means_are_those_of_a_general_solver(n_classes):
    """Minimise the sum of squares that defines them, by least squares over all unknowns."""
    bags = draw_bags(n_classes, [3, 9, 4, 5, 12, 2])
    means, g = np.random.default_rng(2).normal(size=(6, 3)), 0.3
    v = similarities(means, 0.7)
    lines, aims = [], []
    for i in range(6):
        line = np.zeros((n_classes, 6))
        line[:, i] = bags.proportions[i]
        lines.append(line.ravel())
        aims.append(means[i])
        for k in range(i):
            for c in range(n_classes):
                line = np.zeros((n_classes, 6))
                line[c, i], line[c, k] = np.sqrt(g * v[i, k]), -np.sqrt(g * v[i, k])
                lines.append(line.ravel())
                aims.append(np.zeros(3))
    own = np.linalg.lstsq(np.array(lines), np.array(aims), rcond=None)[0]
    own = own.reshape(n_classes, 6, 3)
    rows = bags.sizes / bags.sizes.sum()
    expected = np.einsum("k,kc,ckd->cd", rows, bags.proportions, own)
    U = laplacian_weights(bags, means, g, 0.7)
    # what spreads over classes is the same for all of them
    spread = rows @ means - expected.sum(axis=0)
    np.testing.assert_allclose(U.T @ means, expected + spread / n_classes, atol=1e-7)


def test_similarity_falls_with_distance():
    found = similarities(np.array([[0.0, 0.0], [3.0, 4.0]]), 2.0)
    np.testing.assert_allclose(found, [[1, np.exp(-2.5)], [np.exp(-2.5), 1]])
