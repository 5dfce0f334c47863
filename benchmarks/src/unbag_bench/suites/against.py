"""Our default beside the best of what was published of the landscape, set by set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag._arrays import Floats
from unbag.paper.rows import Row
from unbag_bench.suites.landscape import LABEL_FREE, N_TEST, N_TRAIN, PUBLISHED, kind_of, published
from unbag_bench.suites.scores import default_of, of_suite


@dataclass(frozen=True, eq=False)
class Against:
    """Our default beside the best published method of a set, split by split.

    Attributes
    ----------
    name : str
    best : str
        The published method and its rule of selection.
    ours, theirs : ndarray of shape (n_splits,)
        Accuracies.
    """

    name: str
    best: str
    ours: Floats
    theirs: Floats

    @property
    def kind(self) -> str:
        """How the bags were made."""
        return kind_of(self.name)

    @property
    def gain(self) -> float:
        """By how much ours is above on average."""
        return float((self.ours - self.theirs).mean())

    @property
    def error(self) -> float:
        """Standard error of the gain over splits; not a number for one split."""
        return self._deviation * float(np.sqrt(1 / len(self.ours)))

    @property
    def cautious_error(self) -> float:
        """The same if splits that share rows tell less than as many that do not.

        C. Nadeau and Y. Bengio (2003), "Inference for the generalization error": not s²/n, but
        s²(1/n + the rows to test on over those to train on).
        """
        return self._deviation * float(np.sqrt(1 / len(self.ours) + N_TEST / N_TRAIN))

    @property
    def _deviation(self) -> float:
        gains = self.ours - self.theirs
        return float(gains.std(ddof=1)) if len(gains) > 1 else np.nan


def against_published(rows: Sequence[Row], rules: Sequence[str] = LABEL_FREE) -> list[Against]:
    """Compare our default with the best of theirs, in the same splits of every set.

    Which of their sixteen, eight methods by two rules of selection without labels, is the best is
    known from all thirty splits. ``rules`` names others.
    """
    known = of_suite(rows, "landscape")
    default = default_of({row["method"] for row in known})
    own = [row for row in known if row["method"] == default and "accuracy" in row]
    found = []
    for name in dict.fromkeys(row["name"] for row in own):
        ours = {row["seed"]: row["accuracy"] for row in own if row["name"] == name}
        method, rule = best_published(name, rules)
        theirs = published(name, method, rule).accuracy[list(ours)]
        found.append(Against(name, f"{method} by {rule}", np.array(list(ours.values())), theirs))
    return found


def best_published(name: str, rules: Sequence[str] = LABEL_FREE) -> tuple[str, str]:
    """Find the method and the rule with the best mean accuracy over all splits of a set."""
    pairs = [(method, rule) for method in PUBLISHED for rule in rules]
    return max(pairs, key=lambda pair: float(published(name, *pair).accuracy.mean()))
