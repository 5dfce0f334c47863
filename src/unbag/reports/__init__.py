"""Pictures with their numbers, and a report of a whole fit as one HTML page.

Each display holds the numbers of one picture: ``plot()`` draws them, ``frame()`` gives them as a
table and printing shows them in brief. `fit_report` makes all that apply to a classifier and puts
them on a page, with sentences that say what they mean. Drawing needs matplotlib, tables need
pandas; both come with ``pip install unbag[report]``.
"""

from unbag.reports.assumption import AssumptionDisplay
from unbag.reports.bags import BagsDisplay
from unbag.reports.drivers import DriversDisplay
from unbag.reports.pairing import PairingDisplay
from unbag.reports.path import PathDisplay
from unbag.reports.reliability import ReliabilityDisplay
from unbag.reports.report import Report, fit_report
from unbag.reports.roc import RocDisplay
from unbag.reports.rounds import RoundsDisplay

__all__ = [
    "AssumptionDisplay",
    "BagsDisplay",
    "DriversDisplay",
    "PairingDisplay",
    "PathDisplay",
    "ReliabilityDisplay",
    "Report",
    "RocDisplay",
    "RoundsDisplay",
    "fit_report",
]
