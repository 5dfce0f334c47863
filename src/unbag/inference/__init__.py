"""Inference for groups, bags and samples from the posterior of a mixed model."""

from unbag.inference.groups import GroupEstimates, group_estimates
from unbag.inference.posterior import prevalence
from unbag.inference.sensitivity import GroupSensitivity, group_sensitivity

__all__ = [
    "GroupEstimates",
    "GroupSensitivity",
    "group_estimates",
    "group_sensitivity",
    "prevalence",
]
