"""The methods that the suites compare, each under the name that commands and rows use.

All choose their settings without labels. Where a method takes the class prior at which it
decides, it gets the overall class prior, at which accuracy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from unbag.models import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
)
from unbag.paper import InvCalClassifier, ProportionRiskClassifier
from unbag_bench.methods import (
    ClusterClassifier,
    EMClassifier,
    PublishedClassifierCV,
    SoftLabelClassifierCV,
)
from unbag_bench.suites.files import check_name


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


# How often networks see all images, how many at a time at most, and in how many steps at least.
EPOCHS, BATCH, FEWEST_STEPS = 60, 2048, 16


def _network(objective: str, **settings: Any) -> Any:
    from unbag.models.neural import LLPNeuralClassifier
    from unbag_bench.suites.image_network import ImageNetwork

    return LLPNeuralClassifier(
        ImageNetwork,
        objective=objective,
        class_prior="empirical",
        max_epochs=EPOCHS,
        ema_decay=0.99,
        **settings,
    )


def _network_of(objective: str, description: str, **kind: bool) -> SuiteMethod:
    return SuiteMethod(partial(_network, objective), f"four convolutions, {description}", **kind)


def _logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=1000)


def _forest() -> RandomForestClassifier:
    return RandomForestClassifier(50, min_samples_leaf=20, max_samples=0.2, random_state=0)


# Linear, and what they leave open chosen by the error of shares of held-out bags.
_PUBLISHED = {
    "mm": "mean map (Quadrianto et al. 2009)",
    "lmm": "Laplacian mean map (Patrini et al. 2014)",
    "amm_min": "alternating mean map (Patrini et al. 2014)",
    "amm_max": "alternating mean map against the worst labels (Patrini et al. 2014)",
    "dllp": "cross-entropy of mean probabilities (Ardehaly and Culotta 2017)",
    "easyllp": "EasyLLP (Busa-Fekete et al. 2023)",
    "dsq": "debiased squares",
    "genbags": "GenBags (Saket et al. 2022)",
    "llpfc": "forward correction in groups, mended (Zhang et al. 2022)",
    "llpfc_released": "forward correction in groups, as released",
    "forward": "forward correction, all bags one group",
    "count_loss": "likelihood of counts, without our prior and effects",
    "rot": "relaxed optimal transport (Dulac-Arnold et al. 2019)",
    "llp_dc": "exact assignment",
    "llp_mm": "factorial moments",
    "aggregate": "loss of bags and of rows, mixed",
}


def _published(name: str) -> SuiteMethod:
    return SuiteMethod(partial(PublishedClassifierCV, name), f"{_PUBLISHED[name]}, linear")


METHODS: dict[str, SuiteMethod] = {
    "mixed": SuiteMethod(LLPClassifier, "our mixed model, the default", ours=True),
    "mixed-linear": SuiteMethod(
        lambda: LLPClassifier(kernel=None), "our mixed model without a kernel", ours=True
    ),
    "ensemble": SuiteMethod(
        lambda: LLPEnsembleClassifier(n_jobs=1), "our mixed model and boosted trees", ours=True
    ),
    "trees": SuiteMethod(lambda: LLPBoostingClassifier(n_jobs=1), "our boosted trees", ours=True),
    "network": _network_of(
        "likelihood", "likelihood of counts, given what a batch sums to", ours=True
    ),
    "network-counts": SuiteMethod(
        partial(_network, "likelihood", condition_on_total=False),
        "four convolutions, likelihood of counts as they are",
        ours=True,
    ),
    "network-proportion": _network_of(
        "proportion", "cross-entropy of mean probabilities (Ardehaly and Culotta 2017)"
    ),
    "network-forward": _network_of("forward", "forward correction, all bags one group"),
    "epr": SuiteMethod(
        lambda: ProportionRiskClassifier(kernel="linear"), "empirical proportion risk, linear"
    ),
    "soft-label": SuiteMethod(
        lambda: SoftLabelClassifierCV(class_prior="empirical", kernel="linear", tol=1e-4),
        "the bag's proportion as a soft label, linear",
    ),
    "em-lr": SuiteMethod(
        lambda: EMClassifier(_logistic()), "EM with logistic regression and exact counts"
    ),
    "invcal": SuiteMethod(InvCalClassifier, "inverse calibration (Rüping 2010), kernel"),
    **{name.replace("_", "-"): _published(name) for name in _PUBLISHED},
    "cluster": SuiteMethod(
        ClusterClassifier, "clusters whose classes fit the shares (Chen et al. 2009)"
    ),
    "llp-rf": SuiteMethod(lambda: EMClassifier(_forest()), "random forest by EM with exact counts"),
    "labels": SuiteMethod(_logistic, "logistic regression on the labels", sees_labels=True),
    "labels-trees": SuiteMethod(
        lambda: HistGradientBoostingClassifier(random_state=0),
        "boosted trees on the labels",
        sees_labels=True,
    ),
    # on labels that is their cross-entropy
    "labels-network": _network_of("forward", "on the labels", sees_labels=True),
}


def check_methods(names: Sequence[str]) -> None:
    """Say which methods there are, if one of these is none."""
    for name in names:
        check_name(name, METHODS, "method")
