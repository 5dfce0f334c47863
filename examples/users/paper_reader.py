"""A reader of the paper: its pairs, its corrected risk, and whether they keep what they promise.

Run it with ``python examples/users/paper_reader.py [--bags 200] [--draws 200]``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from trial import Trial

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_val_evaluate
from unbag.evaluation.measures import plain_estimate
from unbag.paper import LMMCMClassifier


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what theorems say on bags whose labels are known; 1 if they are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args(arguments)
    trial = Trial()

    # the corrected risk is unbiased: its mean over bags drawn again is the balanced error
    found, truth = [], []
    for seed in range(options.draws):
        data = make_gaussian_bags(n_bags=20, bag_size=20, random_state=seed)
        score = data.X[:, 0]
        found.append(plain_estimate("corrected_risk", data.y, score, loss="zero_one"))
        truth.append(1 - balanced_accuracy_score(data.labels, score > 0))
    mean, error = np.mean(found), 2 * np.std(found) / np.sqrt(options.draws)
    trial.check("corrected risk", mean, float(np.mean(truth)), (mean - error, mean + error))

    data = make_gaussian_bags(n_bags=options.bags, bag_size=20, random_state=1)
    new = make_gaussian_bags(n_bags=100, bag_size=50, random_state=2)
    for what, model in {
        "pairs, corrected risk": LMMCMClassifier(kernel="linear", weights="pairs"),
        "least-squares weights": LMMCMClassifier(kernel="linear"),
        "likelihood of counts": LLPClassifier(kernel=None),
    }.items():
        evaluation = cross_val_evaluate(model, data.X, data.y, cv=3, n_resamples=200)
        fitted = model.fit(data.X, data.y)
        auc = roc_auc_score(new.labels, fitted.decision_function(new.X))
        one = evaluation["roc_auc"]
        trial.check(f"AUC, {what}", one.value, auc, (one.low, one.high))
        right = balanced_accuracy_score(new.labels, fitted.predict(new.X))
        one = evaluation["balanced_accuracy"]
        trial.check(f"balanced accuracy, {what}", one.value, right, (one.low, one.high))
    return trial.end()


if __name__ == "__main__":
    raise SystemExit(main())
