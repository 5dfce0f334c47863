"""The methods that the tables compare, each under the name that commands and files use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag.models import LLPKernelClassifierCV
from unbag.paper.alternating_svm import AlternatingSVMClassifierCV
from unbag.paper.invcal import InvCalClassifierCV
from unbag.paper.lmmcm import LMMCMClassifierCV
from unbag.paper.proportion_risk import ProportionRiskClassifierCV


@dataclass(frozen=True)
class Method:
    """How to make an estimator, what it is fitted to and which settings it chooses itself."""

    make: Callable[[], Any]
    chosen: tuple[str, ...]
    sees_labels: bool = False


def _as_published() -> LMMCMClassifierCV:
    return LMMCMClassifierCV(
        10.0 ** -np.arange(6), selection="folds", gamma="scale", weights="pairs"
    )


def _corrected() -> LMMCMClassifierCV:
    return LMMCMClassifierCV(correction="nonnegative")


METHODS: dict[str, Method] = {
    "lmmcm-paper": Method(_as_published, ("alpha_",)),
    "lmmcm": Method(_corrected, ("alpha_",)),
    "likelihood": Method(LLPKernelClassifierCV, ("alpha_",)),
    "invcal": Method(InvCalClassifierCV, ("C_", "epsilon_", "gamma_")),
    "alter-psvm": Method(AlternatingSVMClassifierCV, ("C_", "C_bag_", "gamma_")),
    "epr": Method(ProportionRiskClassifierCV, ("alpha_",)),
    "labels": Method(LLPKernelClassifierCV, ("alpha_",), sees_labels=True),
}

# Methods that are no more, whose finished trials are still shown. "combined" was the default at
# first: the corrected risk, with another likelihood added where bags are small.
FORMER_METHODS = ("combined", "soft-label")
