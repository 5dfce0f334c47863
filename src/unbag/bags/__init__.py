"""Targets of bags, from arrays and tables, with checks."""

from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.frames import bags_from_frame
from unbag.bags.groupings import multi_grouping_target
from unbag.bags.margins import bags_from_margins
from unbag.bags.targets import bag_target

__all__ = [
    "Bags",
    "bag_target",
    "bags_from_frame",
    "bags_from_margins",
    "check_bag_target",
    "multi_grouping_target",
]
