"""The methods that the tables compare, each under the name that commands and files use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag.baselines import (
    AlternatingSVMClassifierCV,
    InvCalClassifierCV,
    ProportionRiskClassifierCV,
    SoftLabelClassifierCV,
)
from unbag.models import KernelMCMClassifierCV


@dataclass(frozen=True)
class Method:
    """How to make an estimator, what it is fitted to and which settings it chooses itself."""

    make: Callable[[], Any]
    chosen: tuple[str, ...]
    description: str
    sees_labels: bool = False


def _as_published() -> KernelMCMClassifierCV:
    return KernelMCMClassifierCV(
        alphas=10.0 ** -np.arange(6),
        gamma="scale",
        objective="corrected",
        weights="pairs",
        correction="none",
        selection="folds",
    )


def _corrected() -> KernelMCMClassifierCV:
    return KernelMCMClassifierCV(objective="corrected", correction="nonnegative")


METHODS: dict[str, Method] = {
    "lmmcm-paper": Method(_as_published, ("alpha_",), "the paper's method, as published"),
    "lmmcm": Method(_corrected, ("alpha_",), "the corrected risk, with our defaults"),
    "likelihood": Method(
        KernelMCMClassifierCV, ("alpha_",), "the likelihood of the counts of bags: the default"
    ),
    "invcal": Method(
        InvCalClassifierCV, ("C_", "epsilon_", "gamma_"), "inverse calibration (Rüping 2010)"
    ),
    "alter-psvm": Method(
        AlternatingSVMClassifierCV, ("C_", "C_bag_", "gamma_"), "alter-∝SVM (Yu et al. 2013)"
    ),
    "epr": Method(ProportionRiskClassifierCV, ("alpha_",), "empirical proportion risk"),
    "soft-label": Method(
        SoftLabelClassifierCV, ("alpha_",), "the bag's proportion as a soft label"
    ),
    "labels": Method(
        KernelMCMClassifierCV, ("alpha_",), "trained on the true labels: the ceiling", True
    ),
}

# Methods that are no more, whose finished trials are still shown. "combined" was the default at
# first: the corrected risk, with another likelihood added where bags are small.
FORMER_METHODS = ("combined",)
