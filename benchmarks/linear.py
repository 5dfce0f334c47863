"""The linear model against scikit-learn's logistic regression on the same rows with labels.

python benchmarks/linear.py                  # 1,000,000 × 50, one core, and linear in rows
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from unbag import LinearMCMClassifier, bag_target
from unbag._provenance import provenance_line

ALPHA = 1e-4


def data(n_rows, n_features, bag_size, correlated, seed=0):
    rng = np.random.default_rng(seed)
    bag = np.arange(n_rows) // bag_size
    share = rng.uniform(0, 1, bag[-1] + 1)
    labels = (rng.uniform(size=n_rows) < share[bag]).astype(int)
    direction = rng.normal(size=n_features) / np.sqrt(n_features)
    X = rng.normal(size=(n_rows, n_features))
    X += np.outer(2 * labels - 1, 0.8 * direction)
    if correlated:
        # features of unequal scale that move together, as in real tables
        X = X * np.logspace(0, -1, n_features) + 0.5 * rng.normal(size=(n_rows, 1))
    counts = np.bincount(bag, labels).astype(int)
    return X, labels, bag_target(bag, counts=counts[bag])


def timed(fit):
    start = time.perf_counter()
    model = fit()
    return model, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[125_000, 250_000, 500_000, 1_000_000]
    )
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--bag-size", type=int, default=100)
    parser.add_argument("--correlated", action="store_true", help="a harder problem")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(provenance_line())
    print(
        "| rows | unbag (s) | iterations | µs per row | LogisticRegression (s) | iterations |",
        end="",
    )
    print(
        " ratio | AUC | AUC with labels |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    with threadpool_limits(1):
        for n_rows in options.rows:
            X, labels, y = data(n_rows, options.features, options.bag_size, options.correlated)
            times, their_times = [], []
            for _ in range(options.repeats):
                ours, seconds = timed(lambda X=X, y=y: LinearMCMClassifier(ALPHA).fit(X, y))
                times.append(seconds)
                theirs, seconds = timed(
                    lambda X=X, labels=labels: LogisticRegression(
                        C=1 / (2 * ALPHA * len(labels)), class_weight="balanced", solver="lbfgs"
                    ).fit(X, labels)
                )
                their_times.append(seconds)
            best, their_best = min(times), min(their_times)
            print(
                f"| {n_rows:,} | {best:.2f} | {ours.n_iter_} | {1e6 * best / n_rows:.2f} | "
                f"{their_best:.2f} | {theirs.n_iter_[0]} | {best / their_best:.2f} | "
                f"{roc_auc_score(labels, ours.decision_function(X)):.4f} | "
                f"{roc_auc_score(labels, theirs.decision_function(X)):.4f} |",
                flush=True,
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"Peak RSS {peak:.1f} GB, the data included.")


if __name__ == "__main__":
    main()
