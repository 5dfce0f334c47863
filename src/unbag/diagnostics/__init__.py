"""What bags are worth, which world they live in, and what a model leaves unexplained."""

from unbag.diagnostics.assumption import AssumptionTest, assumption_test
from unbag.diagnostics.bag_effects import BagEffect, estimate_bag_effect
from unbag.diagnostics.information import bag_information
from unbag.diagnostics.information_results import BagInformation
from unbag.diagnostics.monitoring import Reference, make_reference, monitor
from unbag.diagnostics.monitoring_results import Monitoring

__all__ = [
    "AssumptionTest",
    "BagEffect",
    "BagInformation",
    "Monitoring",
    "Reference",
    "assumption_test",
    "bag_information",
    "estimate_bag_effect",
    "make_reference",
    "monitor",
]
