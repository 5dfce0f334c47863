"""Draws of the scores of rows, and of the shares of groups, from the posterior of a model."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.inference.contrasts import interval
from unbag.inference.grouped_rows import ROWS_AT_A_TIME, GroupedRows
from unbag.inference.label_draws import LabelSampler, draw_noisy_counts, round_counts
from unbag.model_selection.fitted import last_step
from unbag.observations.count_likelihood import count_covariance


class PosteriorScores:
    """Scores of rows by draws of the coefficients of a model.

    They are at the overall class prior of some bags, or of those that the model was fitted to.
    """

    def __init__(self, model: Any, bags: Bags | None, n_draws: int, seed: int) -> None:
        self._steps, self._seed = getattr(model, "steps", [])[:-1], seed
        self.n_draws, self.model = n_draws, last_step(model)
        if not hasattr(self.model, "sample_decision_function"):
            raise ValueError(f"{type(self.model).__name__} has no posterior: fit an LLPClassifier.")
        shares = self.model.empirical_prior_ if bags is None else bags.class_shares
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(shares, 1e-12)) - np.log(self.model.class_prior_)
        self._shift = np.maximum(logs, -700.0)

    def of(self, model: Any) -> PosteriorScores:
        """The same with another model at the end of the pipeline."""
        other = copy(self)
        other.model = model
        return other

    def transform(self, X: Any) -> Any:
        """Features that the model takes."""
        for _, step in self._steps:
            X = step.transform(X)
        return X

    def __call__(self, X: Any) -> Floats:
        """Scores (n_draws, n_classes, n_rows)."""
        found = self.model.sample_decision_function(self.transform(X), self.n_draws, self._seed)
        if found.ndim == 2:
            found = np.stack([np.zeros_like(found), found], axis=2)
        return np.swapaxes(found + self._shift, 1, 2)

    def mean_log_odds(self, X: Any, c: int) -> Floats:
        """Log-odds of a class against all others, at the posterior mean of coefficients."""
        p = self.model.predict_proba(self.transform(X))[:, c]
        return logit(np.clip(p, 1e-12, 1.0 - 1e-12))


def draw_shares(
    rows: GroupedRows,
    posterior: PosteriorScores,
    confidence_level: float,
    offset: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Draws of shares (n_draws, n_groups, n_classes), and means and limits of those of bags."""
    bags, rng, inside = rows.bags, np.random.default_rng(0), rows.inside
    S, G, C = posterior.n_draws, len(rows.names), bags.n_classes
    covariance = count_covariance(bags)
    effect = float(posterior.model.bag_effect_)
    totals, by_bag = np.zeros((S, G, C)), []
    for some, part in rows.blocks():
        n_rows, n_bags = part.stop - part.start, some.stop - some.start
        # several draws at a time, by a chain each
        n_chains = max(1, min(S // 8, ROWS_AT_A_TIME // n_rows))
        chain = np.repeat(np.arange(n_chains), n_rows)
        lengths = np.tile(bags.lengths[some], n_chains)
        number = np.tile(rows.multiplicity[part], n_chains)
        weight = np.tile(rows.weights[part], n_chains)
        group = chain * G + np.tile(rows.code[part], n_chains)
        bag = chain * n_bags + np.tile(bags.index[part] - some.start, n_chains)
        cell = bag * G + group % G
        noise, known = covariance[some], bags.counts[some]
        counts = np.tile(round_counts(known, known.sum(axis=1), rng), (n_chains, 1))
        sampler = LabelSampler(lengths, number, rng)
        scores = posterior(_safe_indexing(rows.X, np.arange(part.start, part.stop)))
        if offset is not None:
            scores += offset[:, part]
        shares = np.zeros((S, n_bags, G, C), dtype=np.float32)
        for start in range(0, S, n_chains):
            draws = np.arange(start, start + n_chains) % S
            own = np.concatenate(list(scores[draws]), axis=1)
            if noise.any():
                tiled = np.tile(known, (n_chains, 1)), np.tile(noise, (n_chains, 1, 1))
                counts = draw_noisy_counts(own, lengths, number, *tiled, effect, rng)
            table = sampler.draw(own, counts)
            for c in range(C):
                sums = np.bincount(group, weight * table[c], n_chains * G)
                # draws beyond the last are those of the start once more
                last = min(n_chains, S - start)
                totals[draws[:last], :, c] += sums.reshape(n_chains, G)[:last]
                found = np.bincount(cell, table[c], n_chains * n_bags * G)
                shares[draws, :, :, c] = found.reshape(n_chains, n_bags, G)
        shares /= np.maximum(inside[some], 1)[None, :, :, None]
        limits = np.stack([shares.mean(axis=0), *interval(shares, confidence_level)])
        by_bag.append(np.where((inside[some] > 0)[:, :, None], limits, np.nan))
    return totals / rows.sizes[:, None], np.concatenate(by_bag, axis=1)
