"""Rounds of boosting on the likelihood of bags, and the search for leaves and rounds on folds.

In every round the likelihood gives its gradient at the scores of all trees so far, p − P(class | row
and bag): posteriors are those of this round. The curvature is that of labels, p(1 − p), or twice
that where one round moves the scores of several classes. The second derivative of the likelihood is
that of labels less the covariance of the labels given the counts, which is not negative; and
diag(p) − ppᵀ lies below diag 2p(1 − p), by the sum of its rows.

That holds where scores are. On the way of a leaf that moves by d log-odds p(1 − p) grows up to e^d
times, so that the loss changes there by at most Gv + Hv²ψ(d), ψ(d) = (e^d − 1 − d)/d², for G and H
the gradient and curvature of the leaf. At a rate of η the move is v = −ηG/(H + λ): it leads downhill
if ηψ(d) < 1, that is, up to d = 1.79 at a rate of one and 3.6 at 0.4. Further moves only a leaf whose
rows are wrongly taken for certain, if nothing like λ or a least H keeps it.

In the search, trees of every number of leaves are grown on every fold, all of them side by side, and
every few rounds each bag is scored by the trees that did not see it. Growing ends when the likelihood
of held-out bags has not risen for a while, or so little that it will hardly come up with the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax

from unbag._arrays import Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.defaults import MORE_TO_COME
from unbag.models.boosting_lightgbm import BinnedRows, Booster
from unbag.observations.count_likelihood import BagObjective

# Rounds between two evaluations on held-out bags.
STEP = 5

# Scores that are worked on together: what is made of them should stay near the processor.
_SCORES_TOGETHER = 2**19

# Losses that differ by less, relative to their size, are the same: trees may not grow any more.
_ROUNDING = 1e-9


class BoostingProblems:
    """Problems that are boosted side by side: all bags, or those that each fold trains on.

    ``included`` (n_problems, n_bags) are the bags that each learns from; trees are added to ``start``
    (n_problems, n_outputs, n_rows), log-odds at the class prior of all bags together.
    """

    def __init__(self, bags: Bags, included: Bools, start: Floats) -> None:
        self.bags, self.included, self.start = bags, included, start
        self.objective = BagObjective(bags, included)

    def scores(self, boosters: Sequence[Booster], problem: Ints) -> Floats:
        """Scores (boosters, outputs, rows) by the start and the trees so far."""
        return np.stack([booster.scores() for booster in boosters]) + self.start[problem]

    def slopes(self, scores: Floats, problem: Ints) -> tuple[Floats, Floats]:
        """Gradient and curvature of sums over rows, for scores (columns, outputs, rows)."""
        n_rows = self.included @ self.bags.sizes
        gradient = self.objective.value_and_gradient(scores, problem)[1]
        gradient *= n_rows[problem][:, None, None]
        bound = curvature(scores + self.objective.offsets[problem][:, :, None])
        bound *= self.included[problem][:, None, self.bags.index]
        return gradient, bound

    def boost(self, boosters: Sequence[Booster], problem: Ints) -> None:
        """One round of every booster, each on its problem."""
        some = max(1, _SCORES_TOGETHER // self.bags.n_instances)
        for first in range(0, len(boosters), some):
            own, which = boosters[first : first + some], problem[first : first + some]
            slopes = self.slopes(self.scores(own, which), which)
            for booster, gradient, bound in zip(own, *slopes, strict=True):
                booster.grow(gradient, bound)


def curvature(log_odds: Floats) -> Floats:
    """Bound of the second derivative at log-odds (columns, outputs, rows): see above."""
    if log_odds.shape[1] == 1:
        small = np.exp(-np.abs(log_odds))
        whole = 1 + small
        bound: Floats = small / whole / whole
        return bound
    probabilities: Floats = softmax(log_odds, axis=1)
    return 2 * probabilities * (1 - probabilities)


@dataclass(eq=False)
class Path:
    """Trees of one number of leaves, and their losses on held-out bags after some rounds."""

    num_leaves: int
    boosters: list[Booster]  # of each fold
    rounds: list[int] = field(default_factory=list)  # after which they were evaluated
    losses: list[Floats] = field(default_factory=list)  # of the bags that each fold holds out

    @property
    def totals(self) -> Floats:
        """Negative log-likelihood of all bags, at every evaluation."""
        return np.sum(self.losses, axis=1)

    def may_win(self, patience: int, best_of_all: float) -> bool:
        """Whether there was a gain of late, large enough to come up with the best of all paths."""
        early = np.array(self.rounds) <= self.rounds[-1] - patience
        if not early.any():
            return True
        best = self.totals.min()
        gain = self.totals[early].min() - best
        return bool(gain > 0 and best - best_of_all <= MORE_TO_COME * gain)


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found."""

    num_leaves: int
    n_rounds: int
    path: list[tuple[int, Ints, Floats]]  # leaves, rounds, losses per row of held-out bags
    texts: list[str]  # trees of every fold; none if no round is best
    held_out: Floats | None  # scores (n_outputs, n_rows) by trees that did not see the bag


def grow_once(
    binned: BinnedRows,
    bags: Bags,
    start: Floats,
    num_leaves: int,
    n_rounds: int,
    report: Callable[[], object],
) -> Found:
    """Grow trees on all bags, in all rounds."""
    problems = BoostingProblems(bags, np.ones((1, bags.n_bags), dtype=bool), start)
    booster = binned.booster(start.shape[1], num_leaves)
    for _ in range(n_rounds):
        problems.boost([booster], np.zeros(1, dtype=np.intp))
        report()
    return Found(num_leaves, n_rounds, [], [booster.text(n_rounds)], None)


class FoldSearch:
    """The search for the number of leaves and of rounds.

    Of rows ``X`` and the same in bins, ``held`` (n_folds, n_bags) says which bags each fold holds out, and
    ``start`` (n_folds, n_outputs, n_rows) are the scores that its trees are added to.
    """

    def __init__(
        self, X: object, binned: BinnedRows, bags: Bags, held: Bools, start: Floats
    ) -> None:
        self.X, self.bags, self.held, self.start = X, bags, held, start
        self.problems = BoostingProblems(bags, ~held, start)
        self.fold_of_bag = held.argmax(axis=0)
        self.binned, self.parts = binned, [binned.split(out[bags.index]) for out in held]

    def run(
        self, leaves: Sequence[int], max_rounds: int, patience: int, report: Callable[[int], object]
    ) -> Found:
        """Grow trees while held-out bags gain by them, and choose the best of all evaluations.

        There must be a gain within ``patience`` rounds; ``report`` is given how many were done since last.
        """
        n_outputs = self.start.shape[1]
        paths = [
            Path(n, [self.binned.booster(n_outputs, n, part) for part in self.parts])
            for n in leaves
        ]
        self._grow(paths, max_rounds, patience, report)
        rounds = [(path, n) for path in paths for n in path.rounds]
        losses = np.concatenate([path.losses for path in paths])
        totals = losses.sum(axis=1)
        chosen = [rounds[_first_least(totals - own)] for own in losses.T]
        (path, n_rounds) = rounds[_first_least(totals)]
        n_rows = self.bags.n_instances
        return Found(
            path.num_leaves,
            n_rounds,
            [(one.num_leaves, np.array(one.rounds), one.totals / n_rows) for one in paths],
            [booster.text(n_rounds) for booster in path.boosters] if n_rounds else [],
            self._held_out(chosen),
        )

    def _grow(
        self, paths: list[Path], max_rounds: int, patience: int, report: Callable[[int], object]
    ) -> None:
        n_folds, growing, done = len(self.held), paths, 0
        # all paths start from there, so that the first will do
        self._evaluate(paths[0], 0)
        while growing and done < max_rounds:
            # the likelihood takes all of them together
            boosters = [booster for path in growing for booster in path.boosters]
            problem = np.tile(np.arange(n_folds), len(growing))
            n = min(STEP, max_rounds - done)
            for _ in range(n):
                self.problems.boost(boosters, problem)
            done += n
            for path in growing:
                self._evaluate(path, done)
            best = min(path.totals.min() for path in paths)
            growing = [path for path in growing if path.may_win(patience, best)]
            report(n)

    def _evaluate(self, path: Path, rounds: int) -> None:
        """Losses of all bags by the trees of the fold that holds them out."""
        scores = self.problems.scores(path.boosters, np.arange(len(self.held)))
        fold = self.fold_of_bag[self.bags.index]
        held_out = np.take_along_axis(scores, fold[None, None, :], axis=0)
        losses = self.problems.objective.bag_losses(held_out)[0]
        path.rounds.append(rounds)
        path.losses.append(np.bincount(self.fold_of_bag, losses, len(self.held)).astype(float))

    def _held_out(self, chosen: Sequence[tuple[Path, int]]) -> Floats:
        """Scores of each row by the trees of its fold, leaves and rounds chosen by the others."""
        scores = np.empty(self.start.shape[1:])
        for number, (out, (path, n_rounds)) in enumerate(zip(self.held, chosen, strict=True)):
            rows = out[self.bags.index]
            own = path.boosters[number].predict(self.X[rows], n_rounds)  # type: ignore[index]
            scores[:, rows] = self.start[number][:, rows] + own
        return scores


def _first_least(losses: Floats) -> int:
    """Place of the least loss, the first of those that differ by rounding alone."""
    least = losses.min()
    return int(np.flatnonzero(losses <= least + _ROUNDING * abs(least))[0])
