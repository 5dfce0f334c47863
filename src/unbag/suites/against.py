"""Our default beside the best of what was published of the landscape, set by set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unbag.paper.rows import Row
from unbag.suites.landscape import LABEL_FREE, PUBLISHED, published
from unbag.suites.scores import blind, default_of, make_scores, methods_on_every_set, of_suite


class Against(NamedTuple):
    """Our default beside the best published method of a set."""

    name: str
    kind: str
    ours: float
    theirs: float
    best: str
    n_splits: int

    @property
    def gain(self) -> float:
        """By how much ours is above."""
        return self.ours - self.theirs


def against_published(rows: Sequence[Row]) -> list[Against]:
    """Compare our default with the best of theirs, in the same splits of every set.

    Which of their sixteen, eight methods by two rules of selection without labels, is the best is
    known from all thirty splits.
    """
    own = blind(of_suite(rows, "landscape"))
    default = default_of(methods_on_every_set(own))
    if default is None:
        return []
    scores = make_scores(own, "accuracy", [default])
    found = []
    for place, name in enumerate(scores.names):
        seeds = scores.seeds[name]
        method, rule, theirs = best_published(name, seeds)
        ours = float(scores.by_method[default][place])
        kind = scores.kinds[place]
        found.append(Against(name, kind, ours, theirs, f"{method} by {rule}", len(seeds)))
    return found


def best_published(name: str, seeds: Sequence[int]) -> tuple[str, str, float]:
    """Find the method and label-free rule with the best mean accuracy over all splits of a set.

    Returns
    -------
    method, rule : str
    accuracy : float
        Its mean over some splits.
    """
    pairs = [(method, rule) for method in PUBLISHED for rule in LABEL_FREE]
    found = {pair: published(name, *pair).accuracy for pair in pairs}
    best = max(pairs, key=lambda pair: float(found[pair].mean()))
    return *best, float(found[best][list(seeds)].mean())
