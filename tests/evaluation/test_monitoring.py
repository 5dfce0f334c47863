"""Whether a model still holds: the line of bags, totals, rows, and the verdict."""

import json
import re

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import dirichlet

from unbag import LLPClassifier, LLPEnsembleClassifier, bag_target, check_bag_target
from unbag.bags.priors import adjust_probabilities
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import evaluate, make_monitoring_reference, monitor
from unbag.evaluation.drift import (
    ClassInBags,
    MonitoringReference,
    OutOfRange,
    Stability,
    column_ranges,
    compare_with_line,
    fit_line,
    score_distribution,
    stability_index,
)
from unbag.evaluation.held_out import FoldScores, OutOfFold
from unbag.model_selection.fitted import log_odds_of


class FixedModel:
    """A model whose probabilities are a function of the first column."""

    def __init__(self, probability):
        self.probability = probability

    def predict_proba(self, X):
        p = self.probability(X[:, 0])
        return np.column_stack([1 - p, p])


TRUE = FixedModel(lambda x: expit(x - 1))


def covariate_shift_month(seed, *, more=0.0, slope=1.0, effect=0.0, away=0.0, n_bags=60, noise=0.0):
    """Covariate shift with log-odds x − 1, and the deviations that are given."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), rng.integers(20, 80, n_bags))
    x = rng.normal(size=len(bag)) + rng.normal(size=n_bags)[bag] + away
    odds = slope * x - 1 + more + effect * rng.normal(size=n_bags)[bag]
    share = np.bincount(bag, rng.random(len(bag)) < expit(odds)) / np.bincount(bag)
    if not noise:
        return x[:, None], bag_target(bag, share[bag])
    share = share + noise * rng.normal(size=n_bags)
    return x[:, None], bag_target(bag, share[bag], noise=noise)


def reference_of(X, y, model=TRUE):
    log_odds = log_odds_of(model.predict_proba(X))
    found = OutOfFold(
        [FoldScores(log_odds, log_odds, log_odds, log_odds)], np.zeros(len(y), dtype=int)
    )
    return make_monitoring_reference(model, X, y, out_of_fold=found)


@pytest.fixture(scope="module")
def april():
    return reference_of(*covariate_shift_month(0))


# --- the line -----------------------------------------------------------------------------------


def test_a_line_is_that_of_weighted_least_squares():
    X, y = covariate_shift_month(1, effect=0.7)
    found = ClassInBags.of(check_bag_target(y), TRUE.predict_proba(X)[:, 1], 1)
    line = fit_line(found, "covariate_shift")
    weights = 1 / (
        found.sampling_variance("covariate_shift", line.slope) + line.scatter * line.unit
    )
    slope, intercept = np.polyfit(found.means, found.shares, 1, w=np.sqrt(weights))
    assert line.scatter > 0
    assert line.slope == pytest.approx(slope, rel=1e-4)
    assert line.at(np.zeros(1))[0] == pytest.approx(intercept, abs=1e-4)
    held = compare_with_line(line, found)
    assert held.slope == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("direction", ["covariate_shift", "label_shift"])
def test_sampling_variance_is_what_bags_vary_by(direction):
    """Σ z² over bags has the mean of its number, under the assumption of the line."""
    squares = []
    for seed in range(40):
        if direction == "covariate_shift":
            X, y = covariate_shift_month(seed)
            probability = TRUE.predict_proba(X)[:, 1]
        else:
            data = make_gaussian_bags(60, 50, (0.1, 0.7), n_features=1, random_state=seed)
            y, probability = data.y, expit(2 * data.X[:, 0])
        found = ClassInBags.of(check_bag_target(y), probability, 1)
        line = fit_line(found, direction)
        rest = found.axes(direction)[1] - line.at(found.axes(direction)[0])
        squares.append(np.sum(rest**2 / found.sampling_variance(direction, line.slope)) / 58)
    error = np.std(squares, ddof=1) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - 1) < 4 * error
    assert error < 0.05


# --- the verdict --------------------------------------------------------------------------------


def test_nothing_has_changed(april):
    found = [
        monitor(TRUE, *covariate_shift_month(seed), reference=april) for seed in range(100, 140)
    ]
    assert sum(one.verdict == "ok" for one in found) >= 36
    assert not any(one.rows_changed for one in found)


def test_bags_with_an_effect_are_held_against_bags_with_one():
    usual = reference_of(*covariate_shift_month(0, effect=0.6))
    found = [
        monitor(TRUE, *covariate_shift_month(s, effect=0.6), reference=usual)
        for s in range(100, 140)
    ]
    assert sum(one.verdict == "ok" for one in found) >= 36
    # that is no longer what bags did in training
    assert (
        monitor(TRUE, *covariate_shift_month(7, effect=1.8), reference=usual).verdict == "degraded"
    )


def test_other_totals_are_put_right_by_a_class_prior(april):
    X, y = covariate_shift_month(2, more=0.8)
    found = monitor(TRUE, X, y, reference=april)
    assert found.verdict == "prior_shift"
    assert found.alarms["totals"]
    moved = adjust_probabilities(
        TRUE.predict_proba(X), np.array(april.class_shares), np.array(found.class_prior)
    )
    counts = check_bag_target(y).class_shares * len(X)
    np.testing.assert_allclose(moved.sum(axis=0), counts, rtol=1e-6)
    # what was added to the odds, up to the effect of sampling
    added = logit(found.class_prior[1]) - logit(april.class_shares[1])
    assert added == pytest.approx(0.8, abs=0.2)
    assert f"--class-prior {found.class_prior[1]:.3g}" in str(found)
    (one,) = found.classes
    assert one.ratio == pytest.approx(counts[1] / TRUE.predict_proba(X)[:, 1].sum())


def test_odds_that_follow_rows_less_are_broken(april):
    found = monitor(TRUE, *covariate_shift_month(3, slope=0.3), reference=april)
    assert found.verdict == "degraded"
    assert found.alarms["flatter"]
    assert found.classes[0].slope_ratio < 0.7
    assert "Train it again" in str(found).replace("\n", " ")
    found = monitor(TRUE, *covariate_shift_month(3, slope=-1), reference=april)
    assert "is reversed" in str(found)


def test_odds_that_follow_rows_more_can_be_used_as_they_are(april):
    found = monitor(TRUE, *covariate_shift_month(3, slope=1.7, n_bags=120), reference=april)
    assert found.alarms["steeper"]
    assert found.verdict in ("prior_shift", "degraded")


def test_a_line_that_hardly_rose_in_training_may_rise():
    """Held-out bags make a weak model look weaker than the model of all bags is."""
    weak = reference_of(*covariate_shift_month(0, slope=0.0, n_bags=12))
    assert not weak.classes[0].line.significant
    found = monitor(TRUE, *covariate_shift_month(1), reference=weak)
    assert found.classes[0].change.slope_p < 0.01
    assert not found.alarms["steeper"]


def test_no_conflict_is_no_agreement_where_bags_did_not_follow_the_model():
    weak = reference_of(*covariate_shift_month(0, slope=0.0, n_bags=12))
    found = monitor(TRUE, *covariate_shift_month(2, slope=0.0), reference=weak)
    assert found.verdict == "ok"
    assert "cannot show whether it still holds" in found.lead
    assert "agree" not in found.lead


def test_scatter_is_of_more_than_one_bag(april):
    X, y = covariate_shift_month(1)
    before = monitor(TRUE, X, y, reference=april).classes[0].change
    low = np.argmin(np.bincount(y["bag"], X[:, 0]) / np.bincount(y["bag"]))
    y = bag_target(y["bag"], np.where(y["bag"] == low, 1.0, y["proportion"]))
    found = monitor(TRUE, X, y, reference=april)
    assert found.classes[0].change.chi_square > before.chi_square + 20
    assert abs(found.bags["z"]).max() > 4
    assert not found.alarms["scatter"]


def test_other_rows_of_the_same_odds_do_no_harm(april):
    found = monitor(TRUE, *covariate_shift_month(4, away=1.0), reference=april)
    assert found.rows_changed
    assert "Rows: changed since training" in str(found)
    assert found.verdict == "ok"


@pytest.mark.parametrize(
    ("stability", "words"),
    [
        (Stability(0.2, 1e-4), "changed since training"),
        (Stability(0.04, 1e-4), "hardly changed"),
        (Stability(0.04, 0.3), "no change since training found"),
    ],
)
def test_a_small_p_value_never_stands_next_to_no_change(stability, words):
    assert stability.description.startswith(words)
    assert "p < 0.001" not in stability.description or stability.changed


def test_known_noise_is_allowed_for(april):
    X, y = covariate_shift_month(5, noise=0.15)
    assert monitor(TRUE, X, y, reference=april).verdict == "ok"
    undeclared = bag_target(y["bag"], np.clip(y["proportion"], 0, 1))
    assert monitor(TRUE, X, undeclared, reference=april).alarms["scatter"]


def test_under_label_shift_other_proportions_leave_the_line_where_it_is():
    first, more = (
        make_gaussian_bags(60, 60, shares, random_state=seed)
        for shares, seed in (((0.1, 0.4), 0), ((0.4, 0.8), 1))
    )
    model = LLPEnsembleClassifier([("linear", LLPClassifier(kernel=None))]).fit(first.X, first.y)
    reference = make_monitoring_reference(model, first.X, first.y)
    assert reference.classes[0].line.direction == "label_shift"
    found = monitor(model, more.X, more.y, reference=reference)
    assert found.verdict == "prior_shift"
    assert found.alarms["totals"]
    assert found.class_prior[1] == pytest.approx(more.labels.mean(), abs=0.06)


def test_the_worst_bag_is_named(april):
    X, y = covariate_shift_month(8)
    bag = y["bag"].astype(int)
    share = np.where(bag == 11, 0.95, y["proportion"])
    share = np.round(share * np.bincount(bag)[bag]) / np.bincount(bag)[bag]
    found = monitor(TRUE, X, bag_target(bag, share), reference=april)
    worst = np.argmax(np.abs(found.bags["z"]))
    assert found.bags["bag"][worst] == 11
    assert found.bags["z"][worst] > 5
    assert "Worst bag: 11, 9" in str(found)


def test_bags_without_a_positive_drift():
    data = make_gaussian_bags(30, 30, (0.1, 0.6), random_state=0)
    learner = LLPClassifier(kernel=None, class_prior="empirical")
    model = LLPEnsembleClassifier([("linear", learner)], cv=3).fit(data.X, data.y)
    reference = make_monitoring_reference(model, data.X, data.y)
    lower = make_gaussian_bags(30, 30, (0, 0.01), random_state=1)
    found = monitor(model, lower.X, bag_target(lower.y["bag"], np.zeros(900)), reference=reference)
    assert found.verdict == "prior_shift"
    assert 0 < found.class_prior[1] < 0.01
    assert "too alike" in str(found).replace("\n", " ")


def test_several_classes():
    first, same, more = (
        make_gaussian_bags(30, 30, (0, 1), n_classes=3, random_state=seed) for seed in (0, 1, 2)
    )
    some = make_gaussian_bags(30, 30, dirichlet([8, 1, 1]), n_classes=3, random_state=3)
    learner = LLPClassifier(kernel=None, class_prior="empirical")
    model = LLPEnsembleClassifier([("linear", learner)], cv=3).fit(first.X, first.y)
    reference = make_monitoring_reference(model, first.X, first.y)
    names = ["red", "green", "blue"]
    found = monitor(model, same.X, same.y, reference=reference, class_names=names)
    assert found.verdict == "ok"
    assert [one.name for one in found.classes] == names
    assert "Totals of class green:" in str(found)
    moved = monitor(model, some.X, some.y, reference=reference)
    assert moved.verdict == "prior_shift"
    (given,) = re.findall(r"--class-prior ([\d.,]+)", str(moved))
    assert sum(map(float, given.split(","))) == pytest.approx(1, abs=1e-9)
    noise = np.random.default_rng(0).normal(size=more.X.shape)
    assert monitor(model, noise, more.y, reference=reference).verdict == "degraded"


# --- what is kept -------------------------------------------------------------------------------


def test_a_reference_survives_a_file(april):
    again = MonitoringReference.from_dict(json.loads(json.dumps(april.to_dict())))
    assert again == april
    X, y = covariate_shift_month(9, more=0.4)
    first, second = (monitor(TRUE, X, y, reference=one) for one in (april, again))
    assert str(first) == str(second)


def test_stability_is_zero_for_the_same_rows_and_grows():
    X, y = covariate_shift_month(0)
    bags, probability = check_bag_target(y), TRUE.predict_proba(X)[:, 1]
    kept = score_distribution(bags, probability)
    same = stability_index(kept, bags, probability)
    assert same.index == pytest.approx(0, abs=1e-12)
    assert same.p_value == pytest.approx(1)
    X, y = covariate_shift_month(1, away=0.5)
    some = stability_index(kept, check_bag_target(y), TRUE.predict_proba(X)[:, 1])
    X, y = covariate_shift_month(1, away=1.5)
    many = stability_index(kept, check_bag_target(y), TRUE.predict_proba(X)[:, 1])
    assert 0 < some.index < many.index
    assert many.p_value < 1e-6


def test_columns_that_left_their_range():
    pd = pytest.importorskip("pandas")
    then = pd.DataFrame({"age": [20.0, 60.0], "gap": [np.nan, 1.0], "name": ["a", "b"]})
    kept = column_ranges(then)
    assert kept == {"age": [20.0, 60.0], "gap": [1.0, 1.0]}
    now = pd.DataFrame({"age": [10.0, 30.0, 70.0, 40.0], "new": 1.0})
    assert OutOfRange(kept, now).shares == {"age": 0.5}
    assert column_ranges(np.array([[1.0, 2.0], [3.0, 0.0]])) == {
        "column 0": [1.0, 3.0],
        "column 1": [0.0, 2.0],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tolerance": -1}, "tolerance must not be negative, as -1 is"),
    ],
)
def test_wrong_parameters(april, change, message):
    with pytest.raises(ValueError, match=message):
        monitor(TRUE, *covariate_shift_month(1), reference=april, **change)


def test_mistakes(april):
    X, y = covariate_shift_month(1, n_bags=4)
    with pytest.raises(ValueError, match="takes 5 new bags at least, and there are 4"):
        monitor(TRUE, X, y, reference=april)
    with pytest.raises(ValueError, match="A reference takes 5 bags at least, and there are 4"):
        reference_of(X, y)
    data = make_gaussian_bags(10, 20, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match="is for 2 classes, and the target has 3"):
        monitor(TRUE, data.X, data.y, reference=april)
    with pytest.raises(ValueError, match="object gives no probabilities to hold counts against"):
        monitor(object(), *covariate_shift_month(1), reference=april)


def test_an_evaluation_reports_drift_since_training(april):
    model = TRUE
    for away, words in ((0.0, "no change since training"), (1.5, "Rows: changed since training")):
        X, y = covariate_shift_month(5, away=away)
        p = model.predict_proba(X)
        found = evaluate(y, log_odds_of(p), probabilities=p, reference=april, n_resamples=50)
        assert found.drift[0].startswith("Drift: No conflict found")
        assert words in found.drift[1]
        assert words in str(found)
    X, y = covariate_shift_month(6, more=1.0)
    p = model.predict_proba(X)
    found = evaluate(y, log_odds_of(p), probabilities=p, reference=april, n_resamples=50)
    assert found.drift[0].startswith("Drift: Prior shift")
    assert "--class-prior" in found.drift[1]
    few = np.isin(y["bag"], np.unique(y["bag"])[:4])
    found = evaluate(
        y[few], log_odds_of(p[few]), probabilities=p[few], reference=april, n_resamples=50
    )
    assert found.drift == (
        "Drift is not tested: monitor takes 5 new bags at least, and there are 4.",
    )
