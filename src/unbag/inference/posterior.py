"""Draws from the posterior of a model: scores of rows, shares of groups, shares in a new sample."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, softmax
from sklearn.utils import _safe_indexing, gen_batches

from unbag._arrays import Floats, Ints
from unbag._checks import check_count, check_inside, check_one_each
from unbag.bags.bags import Bags
from unbag.bags.priors import prior_offset
from unbag.inference.grouped_rows import ROWS_AT_A_TIME, GroupedRows, count_limits
from unbag.inference.label_draws import LabelSampler, draw_bag_counts
from unbag.model_selection.fitted import last_step
from unbag.observations.count_likelihood import count_covariance


def interval(draws: NDArray[Any], confidence_level: float) -> Any:
    """Limits of central intervals over the first axis."""
    tails = [(1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0]
    return np.quantile(draws, tails, axis=0, method="hazen")


class PosteriorScores:
    """Scores of rows by draws of a model's coefficients, at the class prior of bags or of its own."""

    def __init__(self, model: Any, bags: Bags | None, n_draws: int, seed: int) -> None:
        self._steps, self.seed = getattr(model, "steps", [])[:-1], seed
        self.n_draws, self.model = n_draws, last_step(model)
        if not hasattr(self.model, "sample_decision_function"):
            raise ValueError(f"{type(self.model).__name__} has no posterior: fit an LLPClassifier.")
        shares = self.model.empirical_prior_ if bags is None else bags.class_shares
        self._offset = prior_offset(self.model.class_prior_, np.maximum(shares, 1e-12))

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
        found = self.model.sample_decision_function(self.transform(X), self.n_draws, self.seed)
        if found.ndim == 2:
            return np.stack([np.zeros_like(found), found + self._offset], axis=1)
        return np.swapaxes(found, 1, 2) + self._offset[:, None]

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
    bags, rng, inside = rows.bags, np.random.default_rng(posterior.seed), rows.inside
    S, G, C = posterior.n_draws, len(rows.names), bags.n_classes
    known = bags.counts, count_covariance(bags), *count_limits(bags)
    effect = random_intercept_variance(posterior.model, bags)
    totals, by_bag = np.zeros((S, G, C)), []
    for some, part in rows.blocks():
        n_rows, n_bags = part.stop - part.start, some.stop - some.start
        bag = bags.index[part] - some.start
        scores = posterior(_safe_indexing(rows.X, np.arange(part.start, part.stop)))
        if offset is not None:
            scores += offset[:, part]
        shares = np.zeros((S, n_bags, G, C), dtype=np.float32)
        for draws in np.array_split(np.arange(S), min(S, -(-S * n_rows // ROWS_AT_A_TIME))):
            # several draws at once, bags of one after those of the other
            n = len(draws)
            lengths, number = np.tile(bags.lengths[some], n), np.tile(rows.multiplicity[part], n)
            weight, code = np.tile(rows.weights[part], n), np.tile(rows.code[part], n)
            cell = ((np.arange(n)[:, None] * n_bags + bag) * G).ravel() + code
            own = np.concatenate(list(scores[draws]), axis=1)
            count, noise, low, high = (np.concatenate([one[some]] * n) for one in known)
            counts = draw_bag_counts(own, lengths, number, count, noise, (low, high), effect, rng)
            if effect > 0:
                add_group_effects(own, cell, number, G, counts, effect, rng)
            table = LabelSampler(lengths, number, rng).draw(own, counts)
            for c in range(C):
                found = np.bincount(cell, table[c], n * n_bags * G).reshape(n, n_bags, G)
                shares[draws, :, :, c] = found
                weighed = np.bincount(cell, weight * table[c], found.size).reshape(found.shape)
                totals[draws, :, c] += weighed.sum(axis=1)
        shares /= np.maximum(inside[some], 1)[None, :, :, None]
        limits = np.stack([shares.mean(axis=0), *interval(shares, confidence_level)])
        by_bag.append(np.where((inside[some] > 0)[:, :, None], limits, np.nan))
    return totals / rows.sizes[:, None], np.concatenate(by_bag, axis=1)


def random_intercept_variance(model: Any, bags: Bags) -> float:
    """Variance of random intercepts of the scores of a class; of several, that which gives φ."""
    C, p = bags.n_classes, bags.class_shares
    if C == 2 or model.bag_effect_ > 0:
        return float(model.bag_effect_) * (1.0 if C == 2 else 0.5)
    variance = float(bags.sizes[~bags.labelled].mean() * np.mean(p * (1.0 - p)))
    # the log-odds of a class against the others vary by its own score and theirs
    return (model.dispersion_ - 1.0) / max(variance, 1e-12) * (C - 1) / C


def add_group_effects(
    scores: Floats,
    cell: Ints,
    multiplicity: Ints,
    n_groups: int,
    counts: Ints,
    effect: float,
    rng: np.random.Generator,
) -> None:
    """Add to scores (n_classes, n_rows) random effects of groups in bags, given the counts.

    Counts show τ²V² of random intercepts, and not whether groups share them, so that they cancel: each
    is taken to have its own, of ω² = τ²V²/Σ_g V_g². With K − Σp = Σ_g V_g u_g + e and e of variance
    V, these are drawn from their normal posterior.
    """
    n_bags, p = len(counts), softmax(scores, axis=0)
    for c in range(len(scores) == 2, len(scores)):
        sums = [
            np.bincount(cell, each * multiplicity, n_bags * n_groups).reshape(n_bags, n_groups)
            for each in (p[c], p[c] * (1.0 - p[c]))
        ]
        V, squares = sums[1].sum(axis=1), (sums[1] ** 2).sum(axis=1)
        omega = effect * V**2 / np.maximum(squares, 1e-12)
        u = np.sqrt(omega)[:, None] * rng.normal(size=(n_bags, n_groups))
        gap = counts[:, c] - sums[0].sum(axis=1) - np.sqrt(V) * rng.normal(size=n_bags)
        gain = omega / np.maximum(omega * squares + V, 1e-12)
        u += sums[1] * (gain * (gap - (sums[1] * u).sum(axis=1)))[:, None]
        scores[c] += u.ravel()[cell]


class Prevalence(NamedTuple):
    """Shares of the classes: posterior means, and limits of intervals."""

    classes: NDArray[Any]
    share: Floats
    low: Floats
    high: Floats


def prevalence(
    model: Any,
    X: Any,
    *,
    bag: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    n_draws: int = 200,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> Prevalence:
    """Estimate the share of each class in a new sample, under covariate shift.

    Intervals allow for the uncertainty of coefficients, the random intercepts of new bags (of two
    classes; not for the dispersion of several), and labels given their probabilities.

    Parameters
    ----------
    model : LLPClassifier, or a pipeline that ends with one
        Fitted.
    X : array or data frame with n_instances rows
        The sample.
    bag : array-like of shape (n_instances,), optional
        The bag of each row; by default the sample is one bag.
    weights : array-like of shape (n_instances,), optional
        Weights of the rows.
    n_draws, confidence_level, random_state : as in `group_estimates`

    Returns
    -------
    prevalence : Prevalence
        Shares and intervals.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.inference import prevalence
    >>> data = make_gaussian_bags(n_bags=60, bag_size=50, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> found = prevalence(model, data.X)
    >>> bool(found.low[1] < data.labels.mean() < found.high[1])
    True
    """
    check_inside(confidence_level, "confidence_level")
    check_count(n_draws, "n_draws", 10)
    n = X.shape[0]
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    check_one_each(weight, n, "weights", "instances")
    code = np.zeros(n, dtype=np.intp)
    if bag is not None:
        check_one_each(np.asarray(bag), n, "bag", "instances", "bag")
        code = np.unique(np.asarray(bag), return_inverse=True)[1]
    posterior = PosteriorScores(model, None, n_draws, random_state)
    rng = np.random.default_rng(random_state)
    effect = float(posterior.model.bag_effect_)
    shift = np.sqrt(effect) * rng.normal(size=(n_draws, int(code.max()) + 1))
    totals = np.zeros((n_draws, len(posterior.model.classes_)))
    for part in gen_batches(n, ROWS_AT_A_TIME):
        scores = posterior(_safe_indexing(X, part))
        scores[:, -1] += shift[:, code[part]]
        edges = softmax(scores, axis=1).cumsum(axis=1)[:, :-1]
        label = (edges < rng.random((n_draws, 1, part.stop - part.start))).sum(axis=1)
        for c in range(totals.shape[1]):
            totals[:, c] += (label == c) @ weight[part]
    shares = totals / weight.sum()
    low, high = interval(shares, confidence_level)
    return Prevalence(posterior.model.classes_, shares.mean(axis=0), low, high)
