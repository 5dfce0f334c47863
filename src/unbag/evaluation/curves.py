"""Curves without labels: ROC with its band, and calibration.

An instance of bag i stands for class c with the weight π_c W[i, c]/n_i, of either sign. Summed
over instances of similar predicted probability these weights give the share of the class there,
which a calibrated classifier predicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from sklearn.utils import check_random_state

from unbag._arrays import Floats
from unbag._checks import check_count
from unbag.bags.bags import check_bag_target
from unbag.evaluation.labelled import Draw
from unbag.evaluation.measures import Sample, count_in_cells
from unbag.evaluation.sensitivity import HeldOutLogOdds, Slopes
from unbag.evaluation.uncertainty import Uncertainty
from unbag.weights import decontamination_weights


@dataclass(frozen=True, eq=False)
class RocBand:
    """A ROC curve without labels: rates of true positives, rising, at even rates of false ones."""

    fpr: Floats
    tpr: Floats
    low: Floats  # limits at each point by itself
    high: Floats
    confidence_level: float


_GRID = np.linspace(0, 1, 101)


def make_roc_band(sample: Sample, uncertainty: Uncertainty) -> RocBand:
    """Estimate the ROC curve of a sample with its band, under label shift."""
    curve = _tpr_at_grid(*roc_rates(sample)[0])
    sample = sample.with_labelled_rows_apart()
    # from the highest scores down
    _, shares = count_in_cells(sample.bags, -sample.scores)
    rates = np.cumsum(uncertainty.draw_class_means(sample, shares), axis=-1)
    rates = np.concatenate([np.zeros((*rates.shape[:-1], 1)), rates], axis=-1)
    low, high = uncertainty.limits(np.stack([_tpr_at_grid(*pair) for pair in rates]), sample)
    low, high = np.clip([low, high], 0, 1)
    return RocBand(_GRID, curve, low, high, uncertainty.confidence_level)


def posterior_roc_band(
    sample: Sample, held_out: HeldOutLogOdds, kappas: Slopes, confidence_level: float
) -> RocBand:
    """Estimate the ROC curve for a range of κ (`unbag.evaluation.sensitivity`)."""
    weighed = [replace(sample, posterior=held_out.posteriors(kappa)) for kappa in kappas]
    curves = [_tpr_at_grid(*roc_rates(one)[0]) for one in weighed]
    low, high = np.min(curves, axis=0), np.max(curves, axis=0)
    return RocBand(_GRID, curves[1], low, high, confidence_level)


def labelled_roc_band(sample: Sample, drawn: Draw, uncertainty: Uncertainty) -> RocBand:
    """Estimate the ROC curve from labelled rows alone, its band by resampling them."""
    rng, n = check_random_state(uncertainty.random_state), len(drawn.rows)
    mass = drawn.of_class * drawn.weights
    times = rng.multinomial(n, np.full(n, 1 / n), uncertainty.n_resamples)
    # a resample without one of the classes has no curve
    kept = times[(times @ drawn.of_class.T > 0).all(axis=1)]
    rows = Sample(drawn.bags, sample.scores[drawn.rows], sample.kind)
    curve, *draws = (
        _tpr_at_grid(*roc_rates(replace(rows, posterior=mass * one))[0])
        for one in (np.ones(n), *kept)
    )
    tail = (1 - uncertainty.confidence_level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return RocBand(_GRID, curve, low, high, uncertainty.confidence_level)


def _tpr_at_grid(fpr: Floats, tpr: Floats) -> Floats:
    """TPR at even FPR, of the nearest curve that rises steadily from 0 to 1."""
    x, y = (np.clip(isotonic_regression(rate).x, 0, 1) for rate in (fpr, tpr))
    return np.interp(_GRID, x, y)


def roc_rates(sample: Sample) -> tuple[Floats, Floats]:
    """Rates at or above every distinct score, which need not rise steadily, and these scores."""
    sample.check_order()
    order = np.argsort(-sample.scores, kind="stable")
    ordered = sample.scores[order]
    last_of_tie = np.append(ordered[1:] != ordered[:-1], True)
    sums = (np.cumsum(row[order])[last_of_tie] for row in sample.row_weights())
    rates = np.stack([np.append(0.0, own) for own in sums])
    return rates, np.append(np.inf, ordered[last_of_tie])


# --- calibration ----------------------------------------------------------------------------------

# A bag that alone decides some class mean leaves no residual to estimate its noise from.
_NO_RESIDUAL = 1e-9

# Probabilities in single precision do not sum to exactly one.
_SUM_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Predicted probabilities and estimated shares of a class, in bins of similar probability."""

    predicted: Floats
    observed: Floats  # unbiased, and so it may leave [0, 1]
    standard_error: Floats  # of observed − predicted; NaN where too few bags leave it unknown
    count: NDArray[np.int64]


def calibration_curve(
    y: Any,
    probabilities: ArrayLike,
    *,
    n_bins: int = 10,
    pos_label: Any = None,
) -> CalibrationCurve:
    """Compare predicted probabilities with the proportions of a class that bags show.

    With B a bin and π the class proportions, the observed share estimates P(c | p(X) in B) by

        O = Σ_i π_c W[i, c] m_i / M,    M = Σ_i Σ_k π_k W[i, k] m_i,

    where m_i is the share of bag i that falls into B: M is the share of all instances in B, and O
    the mean of their unbiased labels. As W is a least-squares fit of m_i
    to the proportions γ_i, the residuals of that fit show how much each bag scatters, and their
    weighted squares (divided by 1 − leverage) sum to the squared standard error.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    probabilities : array-like of shape (n_instances,) or (n_instances, n_classes)
        Probabilities of the class ``pos_label``, or of every class, at the class prior of the
        bags. They should come from a model that was not trained on these.
    n_bins : int, default=10
        Number of bins with about equally many instances; empty ones are left out.
    pos_label : label, optional
        The class that the curve is about; by default the second of two.

    Returns
    -------
    curve : CalibrationCurve
        With ``predicted`` and ``observed`` of each bin.

    Examples
    --------
    >>> from unbag.evaluation import calibration_curve
    >>> curve = calibration_curve([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> curve.predicted, curve.observed
    (array([0.2, 0.7]), array([0., 1.]))
    """
    bags, predicted_p = check_bag_target(y), np.asarray(probabilities, dtype=float)
    if predicted_p.shape not in ((bags.n_instances,), (bags.n_instances, bags.n_classes)):
        raise ValueError(
            f"There are {bags.n_instances} instances of {bags.n_classes} classes, but "
            f"probabilities of shape {predicted_p.shape}."
        )
    if not ((predicted_p >= 0) & (predicted_p <= 1)).all():
        raise ValueError("Probabilities must lie between 0 and 1.")
    if predicted_p.ndim == 2 and np.abs(predicted_p.sum(axis=1) - 1).max() > _SUM_TOLERANCE:
        raise ValueError("The probabilities of all classes must sum to 1 in every row.")
    if pos_label is None and bags.n_classes != 2:
        raise ValueError(f"There are {bags.n_classes} classes; name one with pos_label.")
    if pos_label is not None and pos_label not in bags.classes:
        raise ValueError(f"pos_label {pos_label!r} is none of the classes {list(bags.classes)}.")
    c = 1 if pos_label is None else int(np.flatnonzero(bags.classes == pos_label)[0])
    predicted_p = predicted_p if predicted_p.ndim == 1 else predicted_p[:, c]
    # rows of known label scatter one by one
    bags = bags.with_labelled_rows_apart()[0]
    W = decontamination_weights(bags)
    signed = bags.class_shares * W
    total = signed.sum(axis=1)
    check_count(n_bins, "n_bins")
    edges = np.quantile(predicted_p, np.linspace(0, 1, n_bins + 1)[1:-1])
    bin_of = np.searchsorted(edges, predicted_p)
    filled, bin_of, count = np.unique(bin_of, return_inverse=True, return_counts=True)
    inside = (bin_of == np.arange(len(filled))[:, None]).astype(float)
    m, q = bags.means(inside), bags.means(inside * predicted_p)
    share = m @ total
    if (share <= 0).any():
        raise ValueError(
            f"The estimated share of bin {int((share <= 0).argmax())} is not positive, since the "
            "proportions are noisy; take fewer bins."
        )
    observed, predicted = m @ signed[:, c] / share, q @ total / share

    # O − P = Σ_i (signed_i m_i − total_i q_i) / Σ_i total_i m_i, to first order in m and q
    noise_m, noise_q = (h - h @ W @ bags.proportions.T for h in (m, q))
    gap = (observed - predicted)[:, None]
    scatter = (signed[:, c] * noise_m - total * (noise_q + gap * noise_m)) / share[:, None]
    spare = 1 - np.sum(W * bags.proportions, axis=1)
    spare[spare < _NO_RESIDUAL] = np.nan
    error = np.sqrt(np.sum(scatter**2 / spare, axis=1))
    return CalibrationCurve(predicted, observed, error, count)
