"""The plain version that the batched search is measured against.

What one writes first from the paper: the weighted empirical risk of paired bags with the
logistic loss, minimised over the coefficients α of f = Kα with SciPy's L-BFGS-B in double
precision, one fit for each λ and fold, 100 iterations each.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics.pairwise import rbf_kernel

from unbag import BagKFold, check_bag_target
from unbag.paper.weights import bag_weights

ALPHAS = 10.0 ** -np.arange(6)


def instance_weights(y):
    """Weights of ℓ₋ and ℓ₊ of every instance."""
    bags = check_bag_target(y)
    W = bag_weights(bags, method="pairs")
    return (W / 2 / bags.sizes[:, None])[bags.index].T


def fit(K, y, alpha, max_iter=100):
    """Minimise Ê_w(Kα) + λ αᵀKα."""
    minus, plus = instance_weights(y)

    def objective(coef):
        f = K @ coef
        value = minus @ np.logaddexp(0, f) + plus @ np.logaddexp(0, -f) + alpha * coef @ f
        slope = minus * expit(f) - plus * expit(-f)
        return value, K @ (slope + 2 * alpha * coef)

    start = np.zeros(len(K))
    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})


def risk(y, f):
    minus, plus = instance_weights(y)
    return minus @ np.logaddexp(0, f) + plus @ np.logaddexp(0, -f)


def search(X, y, X_test, alphas=ALPHAS, n_splits=5, max_iter=100):
    """Choose λ by the mean risk over folds, refit, and score the test instances."""
    gamma = 1 / (X.shape[1] * X.var())
    K = rbf_kernel(X, gamma=gamma)
    risks = np.zeros((n_splits, len(alphas)))
    stopped = 0
    for i, (train, test) in enumerate(BagKFold(n_splits).split(X, y)):
        K_train, K_test = K[np.ix_(train, train)], K[np.ix_(test, train)]
        for j, alpha in enumerate(alphas):
            result = fit(K_train, y[train], alpha, max_iter)
            stopped += result.status == 1
            risks[i, j] = risk(y[test], K_test @ result.x)
    best = alphas[risks.mean(axis=0).argmin()]
    coef = fit(K, y, best, max_iter).x
    return rbf_kernel(X_test, X, gamma=gamma) @ coef, best, stopped
