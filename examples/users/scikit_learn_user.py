"""A scikit-learn user: pipelines and searches that work, and habits that are refused in words.

Run it with ``python examples/users/scikit_learn_user.py [--bags 60]``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trial import Trial

from unbag import BagKFold, LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import SCORERS, cross_val_evaluate


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what one does with any classifier; 1 if anything that comes out is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=60)
    options = parser.parse_args(arguments)
    trial = Trial()
    data = make_gaussian_bags(n_bags=options.bags, bag_size=40, random_state=0)
    new = make_gaussian_bags(n_bags=100, bag_size=40, random_state=1)
    X, y = data.X, data.y
    model = make_pipeline(StandardScaler(), LLPClassifier(kernel=None))

    search = GridSearchCV(
        model,
        {"llpclassifier__bag_effect": ["auto", 0.0]},
        scoring=SCORERS["roc_auc"],
        cv=BagKFold(3),
        error_score="raise",
    ).fit(X, y)
    auc = roc_auc_score(new.labels, search.decision_function(new.X))
    found = cross_val_evaluate(model, X, y, cv=3, n_resamples=200)["roc_auc"]
    trial.check("AUC", found.value, auc, (found.low, found.high))
    scores = cross_val_score(model, X, y, scoring=SCORERS["roc_auc"], cv=BagKFold(3))
    trial.check("mean of folds", scores.mean(), auc, (found.low, found.high))
    chances = search.predict_proba(new.X)
    trial.expect("probabilities sum to one", bool(np.allclose(chances.sum(axis=1), 1)))
    moved = model.fit(X, y).predict_proba(X, class_prior="empirical")[:, 1].mean()
    trial.check("mean probability", moved, data.labels.mean(), (moved - 0.05, moved + 0.05))

    plain = LLPClassifier(kernel=None)
    two = [("a", plain), ("b", LLPClassifier(kernel=None))]
    refused: dict[str, Callable[[], Any]] = {
        "BaggingClassifier": lambda: BaggingClassifier(plain).fit(X, y),
        "VotingClassifier": lambda: VotingClassifier(two).fit(X, y),
        "StackingClassifier": lambda: StackingClassifier(two).fit(X, y),
        "CalibratedClassifierCV": lambda: CalibratedClassifierCV(plain).fit(X, y),
        "scoring='roc_auc'": lambda: cross_val_score(
            plain, X, y, scoring="roc_auc", cv=BagKFold(3), error_score="raise"
        ),
        "bag ids for a target": lambda: plain.fit(X, y["bag"]),
        "text in X": lambda: plain.fit(np.array([["red"]] * len(y)), y),
        "cv that cuts bags": lambda: cross_val_score(plain, X, y, cv=3, error_score="raise"),
    }
    for what, call in refused.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                call()
            except (TypeError, ValueError, UserWarning) as error:
                print(f"  {what} is refused: {str(error).splitlines()[0]}")
            else:
                trial.expect(f"{what} is refused", False)
    return trial.end()


if __name__ == "__main__":
    raise SystemExit(main())
