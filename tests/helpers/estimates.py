"""Single measures without the checks and the choice that an evaluation makes."""

from unbag.evaluation.labelled import estimates_from_labels
from unbag.evaluation.measures import get_measure, make_sample


def plain_estimate(measure, y, scores, **options):
    return get_measure(measure, options).value(make_sample(y, scores))


def estimate_with_labels(measure, y, scores, labels=None, *, weights=None, level=0.95, **options):
    of_rows = {measure: (get_measure(measure, options), make_sample(y, scores))}
    return estimates_from_labels(of_rows, level, labels, weights)[measure]
