"""What labels and bags say together of a classifier."""

from __future__ import annotations

from dataclasses import dataclass

from unbag._docstrings import as_in
from unbag._text import aligned
from unbag.evaluation.results import Estimate, find_estimate


@as_in(Estimate)
@dataclass(frozen=True)
class LabelledEstimate(Estimate):
    """An estimate from labels and bags, beside that from the labels alone.

    Attributes
    ----------
    value, standard_error, low, high, level, bounded, basis, verdict : as in Estimate
    alone : Estimate
        What the labels tell by themselves, as if there were no bags and no other scores.
    n_labels : int
        Number of labels.
    uses_bags : bool
        Whether bags made it more precise; if not, it is the estimate from labels alone.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import estimate_with_labels
    >>> data = make_gaussian_bags(n_bags=20, bag_size=20, n_features=1, random_state=0)
    >>> labels = np.full(400, np.nan)
    >>> drawn = np.random.default_rng(0).choice(400, 80, replace=False)
    >>> labels[drawn] = data.labels[drawn]
    >>> auc = estimate_with_labels("roc_auc", data.y, data.X[:, 0], labels)
    >>> auc.n_labels, bool(auc.standard_error <= auc.alone.standard_error)
    (80, True)
    """

    alone: Estimate | None = None
    n_labels: int = 0
    uses_bags: bool = True


@dataclass(frozen=True, eq=False)
class LabelledEvaluation:
    """How good scores are, from bags and from some labels.

    Attributes
    ----------
    estimates : dict of str to LabelledEstimate
        What can be said of each measure.
    n_labels : int
        Number of labels.
    n_instances : int
        Number of instances.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import evaluate_with_labels
    >>> data = make_gaussian_bags(n_bags=20, bag_size=20, n_features=1, random_state=0)
    >>> labels = np.full(400, np.nan)
    >>> drawn = np.random.default_rng(0).choice(400, 80, replace=False)
    >>> labels[drawn] = data.labels[drawn]
    >>> evaluation = evaluate_with_labels(data.y, data.X[:, 0], labels)
    >>> evaluation.n_labels, evaluation.n_instances
    (80, 400)
    """

    estimates: dict[str, LabelledEstimate]
    n_labels: int
    n_instances: int

    def __getitem__(self, measure: str) -> LabelledEstimate:
        return find_estimate(self.estimates, measure)

    def __str__(self) -> str:
        level = next(iter(self.estimates.values())).level
        head = ("", "estimate", f"{100 * level:g}% interval", "from the labels alone")
        rows = [
            (name, f"{e.value:.4f}", _range(e), "" if e.alone is None else _range(e.alone))
            for name, e in self.estimates.items()
        ]
        told = (
            f"Estimated from {self.n_labels} labels and the counts of the bags of "
            f"{self.n_instances} rows, whatever the bags are like."
        )
        return "\n".join([told, *aligned([head, *rows])])


def _range(estimate: Estimate) -> str:
    return f"{estimate.low:.4f} to {estimate.high:.4f}"
