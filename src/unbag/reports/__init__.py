"""Pictures with their numbers, and a report of a whole fit as one HTML page.

Each display holds the numbers of one picture: ``plot()`` draws them, ``frame()`` gives them as a
table and printing shows them in brief. `model_report` makes all that apply to a classifier and puts
them on a page, with sentences that say what they mean. Drawing needs matplotlib, tables need
pandas; both come with ``pip install unbag[report]``.
"""

from unbag.reports.bags import BagsDisplay, LabelShiftDisplay
from unbag.reports.columns import EffectsDisplay, ImportanceDisplay
from unbag.reports.curves import CalibrationDisplay, RocDisplay
from unbag.reports.groups import GroupsDisplay, GroupSensitivityDisplay
from unbag.reports.report import Report, model_report

__all__ = [
    "BagsDisplay",
    "CalibrationDisplay",
    "EffectsDisplay",
    "GroupSensitivityDisplay",
    "GroupsDisplay",
    "ImportanceDisplay",
    "LabelShiftDisplay",
    "Report",
    "RocDisplay",
    "model_report",
]
