"""Whether the probabilities of a model can be taken at their word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import softmax

from unbag._text import percent
from unbag.bags.bags import check_bag_target
from unbag.bags.priors import adjust_probabilities
from unbag.evaluation import Evaluation
from unbag.model_selection.fitted import last_step
from unbag.reports.calibration import CalibrationDisplay
from unbag.reports.content import Finding, Picture, Section

# Share of intervals of two standard errors, from few bags, that miss the truth.
_MISSES = 0.07
# Chances of so many misses below which probabilities are wrong, and below which all is not well.
_RARE, _UNUSUAL = 0.01, 0.1

_TITLE = "Are its probabilities right?"


def held_out_chances(y: Any, evaluation: Evaluation, model: Any) -> NDArray[np.float64]:
    """Probabilities of every row by a model that did not see its bag, for these very bags."""
    last = last_step(model)
    if evaluation.log_odds is None:
        raise ValueError(
            f"{type(last).__name__} gives scores and no probabilities; a classifier whose scores are "
            "log-odds, such as LLPClassifier, gives both."
        )
    scores = evaluation.log_odds
    table = scores[:, None] * [0.0, 1.0] if scores.ndim == 1 else scores
    chances: NDArray[np.float64] = softmax(table, axis=1)
    prior = getattr(last, "class_prior_", None)
    shares = check_bag_target(y).class_shares
    return chances if prior is None else adjust_probabilities(chances, prior, shares)


def show_reliability(y: Any, evaluation: Evaluation, model: Any) -> CalibrationDisplay | str:
    """Compare probabilities with what bags say of them, or say why that cannot be."""
    if evaluation.verdict.name == "rejected":
        return (
            "which rows of a bag are of a class is estimated by what these bags refute, namely "
            "that a class looks the same in all of them."
        )
    try:
        return CalibrationDisplay.from_data(y, held_out_chances(y, evaluation, model))
    except ValueError as error:
        return str(error)


def reliability_section(display: CalibrationDisplay | str) -> Section:
    """Tell whether probabilities can be taken at their word; a str says why that is not known."""
    if isinstance(display, str):
        return Section(
            "probabilities", _TITLE, (Finding(f"This cannot be told: {display}", "note"),)
        )
    curve = next(iter(display.curves.values()))
    top = int(np.argmax(curve.predicted))
    what = "positive" if len(display.curves) == 1 else f"of class {next(iter(display.curves))}"
    within = 2 * curve.standard_error[top]
    margin = f" (give or take {100 * within:.0f} points)" if np.isfinite(within) else ""
    observed = float(np.clip(curve.observed[top], 0, 1))
    text = (
        f"Of the instances with the highest probabilities, {percent(observed)} are estimated to "
        f"be {what}{margin}; predicted are {percent(curve.predicted[top])}. Probabilities are "
        "those of the model itself, of bags that it did not see."
    )
    findings = [Finding(text), *_agreement(display)]
    picture = Picture(
        display.plot,
        "Predicted probabilities and the shares estimated from bags. Points on the dotted line "
        "are as predicted.",
        f"Reliability curve; at the top, {percent(curve.predicted[top])} predicted and "
        f"{percent(observed)} observed.",
    )
    return Section("probabilities", _TITLE, tuple(findings), (picture,))


def _agreement(display: CalibrationDisplay) -> list[Finding]:
    """In how many groups shares are as predicted, and whether they could have been otherwise."""
    agree, n_bins = display.agreeing
    if n_bins == 0:
        return []
    bars = f"±{100 * display.typical_bar:.0f} points"
    text = (
        f"In {agree} of {n_bins} groups of similar probability, the predicted and the estimated "
        f"share agree within two standard errors, which are typically {bars}."
    )
    chance = _chance_of_misses(n_bins - agree, n_bins)
    if chance < _RARE or 2 * agree < n_bins:
        return [Finding(text, "warning")]
    if _chance_of_misses(n_bins - display.agreeing_if_all_alike, n_bins) >= _RARE:
        text += (
            " These bags could not show anything else: they would agree as well with one and the "
            "same probability for all rows."
        )
        return [Finding(text, "note")]
    return [Finding(text, "good" if chance >= _UNUSUAL else "plain")]


def _chance_of_misses(misses: int, n_bins: int) -> float:
    """Chance of so many misses, or more, if probabilities are right."""
    return float(stats.binom.sf(misses - 1, n_bins, _MISSES))
