"""The methods that the suites compare, each under the name that commands and rows use.

All choose their settings without labels. Where a method can be told for which shares of the classes
it decides, it is told the pooled ones, at which accuracy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from unbag.baselines import (
    InvCalClassifierCV,
    LinearProportionRiskClassifierCV,
    LinearSoftLabelClassifierCV,
)
from unbag.models import (
    AutoMCMClassifier,
    BoostedMCMClassifier,
    CountEMClassifier,
    KernelMCMClassifierCV,
    LinearMCMClassifierCV,
)
from unbag.suites.files import check_name


@dataclass(frozen=True)
class SuiteMethod:
    """How to make an estimator.

    Attributes
    ----------
    make : callable
    description : str
    ours : bool
        Whether it is a model of this package, not a published competitor.
    sees_labels : bool
        Whether it is trained on labels, as a ceiling.
    """

    make: Callable[[], Any]
    description: str
    ours: bool = False
    sees_labels: bool = False


def _logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=1000)


METHODS: dict[str, SuiteMethod] = {
    "linear": SuiteMethod(
        lambda: LinearMCMClassifierCV(class_prior="empirical"), "our linear model", ours=True
    ),
    "kernel": SuiteMethod(
        lambda: KernelMCMClassifierCV(class_prior="empirical"), "our kernel model", ours=True
    ),
    "boosted": SuiteMethod(
        lambda: BoostedMCMClassifier(class_prior="empirical", n_jobs=1),
        "our boosted trees",
        ours=True,
    ),
    "auto": SuiteMethod(
        lambda: AutoMCMClassifier(n_jobs=1), "these three, mixed by held-out bags", ours=True
    ),
    "epr": SuiteMethod(LinearProportionRiskClassifierCV, "empirical proportion risk, linear"),
    "dllp": SuiteMethod(
        lambda: LinearProportionRiskClassifierCV(divergence="cross_entropy"),
        "cross-entropy of mean chances (Ardehaly and Culotta 2017), linear",
    ),
    "soft-label": SuiteMethod(
        lambda: LinearSoftLabelClassifierCV(class_prior="empirical"),
        "the bag's proportion as a soft label, linear",
    ),
    "em-lr": SuiteMethod(
        lambda: CountEMClassifier(_logistic()), "EM with logistic regression and exact counts"
    ),
    "invcal": SuiteMethod(InvCalClassifierCV, "inverse calibration (Rüping 2010), kernel"),
    "labels": SuiteMethod(_logistic, "logistic regression on the labels", sees_labels=True),
    "labels-trees": SuiteMethod(
        lambda: HistGradientBoostingClassifier(random_state=0),
        "boosted trees on the labels",
        sees_labels=True,
    ),
}


def check_methods(names: Sequence[str]) -> None:
    """Say which methods there are, if one of these is none."""
    for name in names:
        check_name(name, METHODS, "method")
