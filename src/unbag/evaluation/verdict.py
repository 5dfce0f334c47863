"""Whether estimates without labels are to be believed: a verdict before a number.

Estimates by the weights W hold where classes keep their look. Four witnesses say whether they do:

- the scores: do their bag means follow the proportions (`unbag.evaluation.label_shift`)?
- the features: do theirs?
- the estimates: do they leave what is possible by more than their error?
- the promise: do shares of held-out bags follow mean chances as they would if classes kept their
  look, or as if rows kept their odds (`unbag.evaluation.bag_effects`)?

The last one knows which of the worlds it is, the others only that it is not the first. Rows of a
bag that are alike for reasons of their own (one household, one shift) make bag means scatter and
the tests reject, and do no harm to estimates; that is why a clear answer of the last one turns
*refuted* into *doubtful*. How often a verdict is wrong was simulated (results/evaluation.md).
"""

from __future__ import annotations

import numpy as np

from unbag.evaluation.bag_effects import NORMAL_95, BagEffect
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.results import Estimate, Verdict, VerdictName

# P-values below which tests raise a doubt, below which they do so against a clear hint that
# classes keep their look, and below which they refute.
_DOUBT, _CLEAR_DOUBT, _REFUTE = 0.05, 0.01, 0.001

# Standard errors by which an estimate must leave what is possible.
_OUT_IN_DOUBT, _OUT = 1.7, 2.5

Reason = tuple[VerdictName, str]


_LABELS = (
    "Labels of a few hundred rows drawn at random would give an answer whatever the bags are "
    "(unbag label-plan; in Python unbag.evaluation.sample_rows_to_label)."
)


def labels_verdict() -> Verdict:
    """Give the verdict on estimates from labels."""
    return Verdict("supported", ("All rows have labels, so that no proportion enters.",), ())


def judge(
    estimates: dict[str, Estimate],
    tests: dict[str, LabelShiftTest | str],
    effect: BagEffect | None,
) -> Verdict:
    """Weigh what the witnesses say.

    Parameters
    ----------
    estimates : dict of str to Estimate
        By W.
    tests : dict of str to LabelShiftTest or str
        Of the scores and, where they are at hand, of the features; or why there is none.
    effect : BagEffect or None
        Of the shares of held-out bags on their mean chances, if scores are log-odds.
    """
    world = None if effect is None else effect.world
    findings = [*_of_tests(tests, world), *_of_range(estimates), *_of_slope(effect)]
    names = {name for name, _ in findings}
    reasons = tuple(text for _, text in findings)
    if "refuted" in names:
        return Verdict("refuted", reasons, (_LABELS,))
    if "doubtful" in names:
        return Verdict("doubtful", reasons, (_LABELS,))
    silent = not any(_could_fail(test) for test in tests.values()) and world is None
    if silent:
        text = "There are too few bags, or too similar ones, to check the assumption."
        return Verdict("doubtful", (text, *reasons), (_LABELS,))
    return Verdict("supported", reasons, ())


def _could_fail(test: LabelShiftTest | str) -> bool:
    return not isinstance(test, str) and test.could_fail


def _of_tests(tests: dict[str, LabelShiftTest | str], world: str | None) -> list[Reason]:
    """What every test says, whether it speaks against the assumption or not."""
    found: list[Reason] = []
    doubt = _CLEAR_DOUBT if world == "looks" else _DOUBT
    for what, test in tests.items():
        if isinstance(test, str):
            found.append(("supported", f"{what} could not be tested: {test}"))
            continue
        name: VerdictName = "supported"
        if test.p_value < doubt:
            name = "refuted" if test.p_value < _REFUTE and world != "looks" else "doubtful"
        text = f"{what}: {test.brief}."
        if test.reject and world == "looks":
            text += " Rows of a bag that are alike for reasons of their own would do this, too."
        found.append((name, text))
    return found


def _of_range(estimates: dict[str, Estimate]) -> list[Reason]:
    """Estimates that leave [0, 1] by more than their error."""
    out = {
        name: max(e.value - 1, -e.value) / e.standard_error
        for name, e in estimates.items()
        if e.bounded and e.standard_error > 0 and np.isfinite(e.value)
    }
    if not out or max(out.values()) <= _OUT_IN_DOUBT:
        return []
    name = max(out, key=lambda key: out[key])
    found = estimates[name]
    text = (
        f"If a class looked the same in all bags, {name} would be {found.value:.2f} ± "
        f"{found.standard_error:.2f}, which is impossible."
    )
    return [("refuted" if out[name] > _OUT else "doubtful", text)]


def _of_slope(effect: BagEffect | None) -> list[Reason]:
    if effect is None or effect.world is None:
        return []
    if effect.world == "looks":
        text = "Bags differ in how many of each class they hold, as assumed"
    else:
        text = "Bags seem to differ in who is in them, not in how many of each class they hold"
    margin = NORMAL_95 * effect.slope_error
    text += (
        f" (shares follow mean chances with the slope {effect.slope:.2f} ± {margin:.2f}; "
        f"expected are 1 in the one case and {effect.slope_of_looks:.2f} in the other)."
        if effect.world == "odds"
        else "."
    )
    return [("refuted" if effect.world == "odds" else "supported", text)]
