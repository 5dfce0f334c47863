"""Checks of the assumptions that accuracy without labels rests on, and the verdict on each.

Label shift (bags differ only in how many of each class they contain) is checked by

- the scores: under label shift the bag mean of *every* function of the scores is linear in the
  proportions (`unbag.evaluation.label_shift`); tested are their ranks, their distribution at several
  thresholds, and their squares;
- the features, in the same way;
- the signal within bags: if classes are δ apart, the variance within bag b is
  Σ_c γ_bc σ_c² + Σ_c γ_bc (δ_c − δ̄_b)². The second term is what rows of one bag differ by because
  of their classes. `signal_within_bags` estimates by which factor it is there: 1 under label shift, 0
  if bag means follow the proportions but rows of a bag carry no signal (Simpson's paradox). Only
  its curvature in the proportions identifies it, so it takes bags of different proportions;
- the slope of observed on predicted bag proportions (`unbag.evaluation.bag_effects`), which also
  checks covariate shift (bags differ only in who is in them).

An assumption is *not_rejected* if a deviation that matters would have been detected, *rejected*, or
*inconclusive*. Correlated rows in a bag (one household, one shift) scatter bag means, so that
tests reject, and do not harm estimates that are clustered by bag; a slope that agrees with label
shift therefore turns such a rejection into *inconclusive*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.base import clone

from unbag._arrays import Floats
from unbag._text import listing
from unbag.bags.bags import Bags, check_bag_target
from unbag.defaults import DOUBTED, EFFECT_DOUBTED, REJECTED, SEPARATED
from unbag.evaluation.bag_effects import DETECTED, NORMAL_95, BagEffect
from unbag.evaluation.label_shift import Columns, LabelShiftTest, columns_test, read_columns
from unbag.evaluation.sensitivity import SignalName
from unbag.evaluation.uncertainty import Assumption, Verdict, VerdictName
from unbag.model_selection.fitted import names_behind
from unbag.model_selection.splitters import rows_of_some_bags
from unbag.weights import decontamination_weights

# Of more columns than this only the scores are tested.
MOST_COLUMNS = 5000

# Numbers of the columns that are tested; of more rows some bags are taken.
_MOST_NUMBERS = 2**26

# Thresholds at which the distribution of a score is tested: quantiles.
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)

# Standard errors above 0 from which on there is a signal within bags (5%, one-sided).
_SIGNAL = 1.645

Reason = tuple[VerdictName, str]

_FLAT = (
    "Proportions differ between bags, but scores do not differ with them: bags cannot show how well "
    "scores separate the classes."
)
_CORRELATED = "Counts cannot show whether such effects are correlated with the scores."
_PERFECTLY = (
    "Counts cannot rule out effects that follow the bag means of scores or columns; the sensitivity "
    "range allows for them."
)
_LABELS = (
    "Labels of a few hundred rows drawn at random give an estimate without an assumption on bags "
    "(unbag sample-labels; in Python unbag.evaluation.sample_rows_to_label)."
)
_FINER = (
    "Smaller bags, or a column that differs between bags as their proportions do, would show it, "
    "too."
)


@dataclass(frozen=True, eq=False)
class Check:
    """Test of one kind of column."""

    what: str  # such as "The scores"
    test: LabelShiftTest | str  # or why there is none
    worst_column: Columns | None = None
    notes: tuple[str, ...] = ()  # what was left out
    columns: Columns | None = None  # all that was tested, of features


def check_scores(y: Any, scores: Floats) -> Check:
    """Test the distribution of the scores; of several classes, of each column of them."""
    classes = check_bag_target(y).class_names
    names = ["score"] if scores.ndim == 1 else [f"score of class {name}" for name in classes]
    table = scores.reshape(len(scores), -1)
    columns = dict(zip(names, table.T, strict=True))
    for name, values in list(columns.items()):
        ranks = (stats.rankdata(values) - 0.5) / len(values)
        for at in _QUANTILES:
            above = ranks > at
            if 0 < above.mean() < 1:
                columns[f"{name} above its {at:.0%} quantile"] = above.astype(float)
        columns[f"{name}, squared"] = (ranks - 0.5) ** 2
    found = read_columns(np.column_stack(list(columns.values())), list(columns))
    check = _check("The scores", y, found)
    if isinstance(check.test, str) or check.test.reject:
        return check
    return replace(check, worst_column=Columns(table[:, :1], np.array(names[:1])))


def check_columns(y: Any, X: Any, feature_names: ArrayLike | None = None) -> Check:
    """Test the columns of X, as numbers."""
    what, columns = "The features", read_columns(X, feature_names)
    notes: tuple[str, ...] = ()
    if columns.left_out:
        listed = listing(columns.left_out)
        notes = (f"Not tested, since hardly any rows share a value: {listed}.",)
    n_columns = len(columns.names)
    if n_columns == 0:
        return Check(what, "none of them has values that rows share.", notes=notes)
    if n_columns > MOST_COLUMNS:
        text = f"there are {n_columns:,}; unbag.label_shift_test tests them one by one."
        return Check(what, text, notes=notes)
    return replace(_check(what, y, columns, notes), columns=columns)


def check_features(
    y: Any, X: Any, estimator: Any, feature_names: ArrayLike | None = None, *, fitted: bool = False
) -> Check:
    """Test the features of a model: X itself, or what the steps of a pipeline make of X."""
    if len(getattr(estimator, "steps", ())) < 2:
        return check_columns(y, X, feature_names)
    before = estimator[:-1] if fitted else clone(estimator[:-1]).fit(X, y)
    features = before.transform(X)
    if feature_names is None:
        feature_names = names_behind(before)
    return check_columns(y, features, feature_names)


def _check(what: str, y: Any, columns: Columns, notes: tuple[str, ...] = ()) -> Check:
    some, most = columns, _MOST_NUMBERS * len(y) // int(columns.values.size)
    if len(y) > most:
        rows = rows_of_some_bags(y, most, 20, np.random.default_rng(0))
        notes = (*notes, f"Tested on {len(rows):,} rows of some of the bags.")
        some, y = replace(columns, values=columns.values[rows]), y[rows]
    try:
        test = columns_test(some, check_bag_target(y))
    except ValueError as error:
        return Check(what, str(error), notes=notes)
    worst, name = columns, test.worst_feature
    if len(columns.names) > 1:
        worst = Columns(columns.column(name)[:, None], np.array([name]))
    return Check(what, test, worst, notes)


# --- signal within bags ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Signal:
    """How far scores separate the classes between bags, and within them."""

    separation: float
    ratio: float
    error: float  # standard error of the ratio; infinite if bags are too few or too alike

    @property
    def name(self) -> SignalName:
        """Whether scores follow the proportions, and rows of a bag carry signal beyond doubt."""
        if not self.separation >= SEPARATED:
            return "none"
        return "found" if self.ratio > _SIGNAL * self.error and self.has_power else "unknown"

    @property
    def has_power(self) -> bool:
        """Whether the absence of any signal would have been detected in half of the cases."""
        return bool(_SIGNAL * self.error <= 1)


def signal_within_bags(bags: Bags, scores: Floats) -> Signal:
    """Estimate how much of the separation between bags there is within them.

    With the class means θ by unmixing weights, the unbiased variances within bags are regressed on
    the proportions and on θᵀK_bθ, the variance between classes in bag b. Scores are replaced by
    normal scores; of several classes, those of the column that separates best.
    """
    table = scores[None] if scores.ndim == 1 else scores.T
    found = [_signal(bags, stats.norm.ppf((stats.rankdata(s) - 0.5) / len(s))) for s in table]
    return max(found, key=lambda one: one.separation)


def _signal(bags: Bags, h: Floats) -> Signal:
    n, G = bags.sizes, bags.proportions
    n_classes, used = bags.n_classes, ~bags.labelled & (n > 1)
    mean, within = bags.means(h), np.maximum(n - 1, 1)
    if used.sum() <= n_classes + 2 or np.ptp(h) == 0:
        return Signal(0.0, np.nan, np.inf)
    variance = (bags.means(h * h) - mean**2) * n / within
    W = decontamination_weights(bags)
    theta = W.T @ mean
    residual = (mean - G @ theta) / np.maximum(1 - np.sum(W * G, axis=1), 1e-6)
    covariance = (W * residual[:, None] ** 2).T @ W
    V = np.zeros((len(n), n_classes, n_classes)) if bags.noise is None else bags.noise
    D = G[:, :, None] * np.eye(n_classes) - G[:, :, None] * G[:, None, :]
    # noise V makes D too small by V, and leaves the variances within bags as they are
    K = (n / within)[:, None, None] * (D + V)
    between = np.einsum("c,bcd,d->b", theta, K, theta) - np.einsum("bcd,dc->b", K, covariance)
    average = np.average(K[used], axis=0, weights=n[used])
    amount = max(float(theta @ average @ theta), 1e-12)
    spread = np.sqrt(max(float(theta @ average @ covariance @ average @ theta), 0.0)) / amount
    root = np.sqrt(within[used])
    design = np.column_stack([G, between])[used] * root[:, None]
    wrong = _error_covariance(G, V, n / within, theta)[used] * within[used, None, None]
    moments = design.T @ design
    plain = np.linalg.pinv(moments, hermitian=True)
    inverse = np.linalg.pinv(moments - wrong.sum(axis=0), hermitian=True)
    if not inverse[-1, -1] > 0:
        return Signal(float(1 / max(spread, 1e-12)), np.nan, np.inf)
    slope = inverse @ design.T @ (variance[used] * root)
    spare = np.maximum(1 - np.sum((design @ plain) * design, axis=1), 1e-3)
    rest = design * ((variance[used] * root - design @ slope) / spare)[:, None] + wrong @ slope
    error = np.sqrt(max(float((inverse @ (rest.T @ rest) @ inverse)[-1, -1]), 1e-12))
    return Signal(
        float(1 / max(spread, 1e-12)), float(slope[-1]), float(np.hypot(error, 2 * spread))
    )


def _error_covariance(G: Floats, V: Floats, scale: Floats, theta: Floats) -> Floats:
    """Covariance of the errors of (G, θᵀKθ) by normal noise V in G, of each bag."""
    size = np.einsum("c,bcd,d->b", theta, V, theta)
    a = theta**2 - 2 * (G @ theta)[:, None] * theta
    with_a = np.einsum("bcd,bd->bc", V, a)
    joint = (scale[:, None] * with_a)[:, :, None]
    corner = scale**2 * (np.sum(a * with_a, axis=1) - 2 * size**2)
    return np.block([[V, joint], [joint.transpose(0, 2, 1), corner[:, None, None]]])


# --- verdicts -------------------------------------------------------------------------------------


def judge_label_shift(
    tests: dict[str, LabelShiftTest | str],
    effect: BagEffect | None,
    signal: Signal | None = None,
) -> Verdict:
    """Combine the checks of label shift."""
    agrees = effect is not None and effect.shift_type == "label_shift"
    findings = [_of_test(what, test, agrees) for what, test in tests.items()]
    flat = signal is not None and signal.separation < SEPARATED
    if signal is not None and not flat:
        findings.append(_of_signal(signal))
    if effect is not None and effect.shift_type is not None:
        findings.append(("not_rejected" if agrees else "rejected", effect.slope_text))
    has_power = any(not isinstance(test, str) and test.has_power for test in tests.values())
    if not has_power and not agrees:
        text = "There are too few bags, or too similar ones, to check label shift."
        findings.insert(0, ("inconclusive", text))
    if flat:
        # what bags cannot show comes first
        findings.insert(0, ("inconclusive", _FLAT))
    return _verdict("label_shift", findings)


def judge_covariate_shift(effect: BagEffect | None, signal: Signal | None = None) -> Verdict:
    """Judge covariate shift by the slope of observed on predicted bag proportions."""
    if effect is None or not np.isfinite(effect.slope_error):
        text = "Scores are not log-odds, or there are too few bags, so that there is no slope."
        return _verdict("covariate_shift", [("inconclusive", text)])
    if signal is not None and signal.separation < SEPARATED:
        return _verdict("covariate_shift", [("inconclusive", _FLAT)])
    name: VerdictName = "inconclusive"
    if effect.shift_type is not None:
        name = "not_rejected" if effect.shift_type == "covariate_shift" else "rejected"
    findings = [(name, effect.slope_text)]
    # scores that are reversed, or too sure, lie off a slope of 1 without a bag effect
    on_scale = effect.slope_unconstrained + NORMAL_95 * effect.slope_error > 1
    if effect.z_value > EFFECT_DOUBTED and on_scale:
        name = "rejected" if effect.z_value > NORMAL_95 else "inconclusive"
        findings.append((name, f"Bags differ beyond their features: {effect}. {_CORRELATED}"))
    elif effect.shift_type == "covariate_shift":
        # with another slope than 1, what is left between bags is not that of an effect
        found = f"Bag effects: {effect}. {_PERFECTLY}" if on_scale else _PERFECTLY
        findings.append(("not_rejected", found))
    return _verdict("covariate_shift", findings)


def _verdict(assumption: Assumption, findings: list[Reason]) -> Verdict:
    names = [name for name, _ in findings]
    reasons = tuple(text for _, text in findings)
    for name in ("rejected", "inconclusive"):
        if name in names:
            return Verdict(name, assumption, reasons, (_LABELS,))
    return Verdict("not_rejected", assumption, reasons)


def overall_verdict(label_shift: Verdict, covariate_shift: Verdict) -> Verdict:
    """Choose the assumption that estimates are reported under: one that is not rejected.

    A range over both where label shift is inconclusive; the sensitivity range where it is rejected
    and covariate shift does not agree with the bags either.
    """
    reasons = label_shift.reasons
    if label_shift.name == "not_rejected":
        return label_shift
    if covariate_shift.name == "not_rejected":
        return replace(covariate_shift, advice=(_LABELS,))
    advice = (_LABELS, _FINER) if _FLAT in reasons else (_LABELS,)
    if label_shift.name == "inconclusive":
        return Verdict("inconclusive", "either", reasons, advice)
    name: VerdictName = "rejected" if covariate_shift.name == "rejected" else "inconclusive"
    return Verdict("rejected", "sensitivity", reasons, advice, other=name)


def _of_test(what: str, test: LabelShiftTest | str, agrees: bool) -> Reason:
    if isinstance(test, str):
        return "not_rejected", f"{what} could not be tested: {test}"
    name: VerdictName = "not_rejected"
    if test.p_value < DOUBTED:
        name = "rejected" if test.p_value < REJECTED and not agrees else "inconclusive"
    text = f"{what}: {test.summary}"
    if test.reject and agrees:
        text += " Correlated rows within bags would do this, too."
    return name, text


def signal_for_range(signal: Signal, label_shift: Verdict) -> SignalName:
    """Whether rows of a bag carry the signal that bag means show, and in the same direction.

    Variances have no sign: they conflict with a reversed relation only if they are those that label
    shift needs, and nothing else rejects it.
    """
    agrees = label_shift.name != "rejected" and 1 - signal.ratio <= NORMAL_95 * signal.error
    return signal.name if agrees or signal.name == "none" else "unknown"


def _of_signal(signal: Signal) -> Reason:
    if not np.isfinite(signal.error):
        return "inconclusive", "There are too few bags to compare variances within bags."
    below, above = (1 - signal.ratio) / signal.error, signal.ratio / signal.error
    text = (
        "Signal within bags: classes differ within bags by "
        f"{signal.ratio:.2f} ± {NORMAL_95 * signal.error:.2f} times the variance that label shift "
        "needs"
    )
    if -below > NORMAL_95 and signal.has_power:
        return "inconclusive", f"{text}."
    if below > NORMAL_95:
        far = 2 * stats.norm.sf(below) < REJECTED
        return "rejected" if far else "inconclusive", f"{text}."
    if above < _SIGNAL or not signal.has_power:
        unknown = "these bags cannot show whether rows of a bag carry any signal"
        return "inconclusive", f"{text}; {unknown}."
    deviation = f"a deviation of {DETECTED * signal.error:.2f} would have been detected"
    return "not_rejected", f"{text} ({deviation})."
