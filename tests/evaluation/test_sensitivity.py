"""Class probabilities that agree with the counts, and estimates by them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_val_evaluate, estimate, evaluate
from unbag.evaluation.evaluation import evaluate_rows, usual_measures
from unbag.evaluation.held_out import ScoredRows
from unbag.evaluation.measures import Area, Cost, Sample, make_sample
from unbag.evaluation.sensitivity import (
    SORTED,
    HeldOutLogOdds,
    estimates_by_slope,
)
from unbag.evaluation.uncertainty import Uncertainty


def covariate_shift_rows(seed=0, n_bags=60, size=60, effect=0.0, correlation=0.0):
    """Covariate shift, with bag effects."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    shift = 0.8 * rng.normal(size=n_bags)
    x = rng.normal(size=len(bag)) + shift[bag]
    odds = 1.5 * x + (effect * rng.normal(size=n_bags) + correlation * shift)[bag]
    labels = (rng.uniform(size=len(bag)) < expit(odds)).astype(int)
    return x[:, None], labels, bag_target(bag, counts=np.bincount(bag, labels)[bag])


X, LABELS, Y = covariate_shift_rows()
BAGS = check_bag_target(Y)
KAPPAS = np.array([-1.0, 0.0, 0.5, 1.0, 3.0, SORTED])


def test_posteriors_add_up_to_the_counts_for_every_kappa():
    held_out = HeldOutLogOdds(BAGS, 1.5 * X[:, 0])
    found = np.stack([held_out.posteriors(kappa) for kappa in KAPPAS])
    assert found.shape == (6, 2, len(X))
    counts = BAGS.sizes * BAGS.proportions[:, 1]
    for posterior in found:
        np.testing.assert_allclose(posterior.sum(axis=0), 1)
        np.testing.assert_allclose(BAGS.means(posterior[1]) * BAGS.sizes, counts, atol=0.05)
    # scores carry no information within bags
    np.testing.assert_allclose(found[1, 1], BAGS.proportions[BAGS.index, 1], atol=1e-3)


def test_posteriors_of_three_classes_add_up_as_well():
    data = make_gaussian_bags(n_bags=20, bag_size=25, n_classes=3, random_state=0)
    bags = check_bag_target(data.y)
    scores = np.random.default_rng(0).normal(size=(500, 3))
    for posterior in map(HeldOutLogOdds(bags, scores).posteriors, [0.0, 1.0, 2.0]):
        np.testing.assert_allclose(bags.means(posterior).T, bags.proportions, atol=0.02)


def test_certain_posteriors_give_the_measures_of_labels():
    sample = make_sample(Y, X[:, 0])
    soft = Sample(BAGS, X[:, 0], posterior=np.stack([1 - LABELS, LABELS]).astype(float))
    assert Area().value(soft) == pytest.approx(roc_auc_score(LABELS, X[:, 0]))
    truth = balanced_accuracy_score(LABELS, X[:, 0] > 0)
    assert Cost(complement=True).value(soft) == pytest.approx(truth)
    assert Area().value(sample) != pytest.approx(truth, abs=0.1)


def test_the_most_that_counts_allow_is_reached_by_sorting():
    order = np.lexsort((X[:, 0], BAGS.index))
    place = np.empty(len(X), dtype=int)
    place[order] = np.arange(len(X)) % 60
    counts = np.round(BAGS.sizes * BAGS.proportions[:, 1]).astype(int)
    best = place >= (60 - counts)[BAGS.index]
    posterior = HeldOutLogOdds(BAGS, 1.5 * X[:, 0]).posteriors(SORTED)
    soft = Sample(BAGS, X[:, 0], posterior=posterior)
    assert Area().value(soft) == pytest.approx(roc_auc_score(best, X[:, 0]), abs=0.002)


def test_measures_rise_with_kappa():
    held_out = HeldOutLogOdds(BAGS, 1.5 * X[:, 0])
    samples = [Sample(BAGS, X[:, 0], posterior=held_out.posteriors(kappa)) for kappa in KAPPAS]
    areas = [Area().value(sample) for sample in samples]
    assert (np.diff(areas) > 0).all()


def test_log_odds_are_shifted_to_the_overall_class_prior():
    held_out = HeldOutLogOdds(BAGS, 1.5 * X[:, 0] + 7)
    assert expit(held_out.at_overall_prior[0]).mean() == pytest.approx(BAGS.class_shares[1])
    data = make_gaussian_bags(n_bags=20, bag_size=25, n_classes=3, random_state=0)
    bags = check_bag_target(data.y)
    table = HeldOutLogOdds(bags, np.random.default_rng(0).normal(size=(500, 3))).at_overall_prior
    means = (np.exp(table) / np.exp(table).sum(axis=0)).mean(axis=1)
    np.testing.assert_allclose(means, bags.class_shares, atol=1e-8)


def test_labels_that_are_known_are_kept():
    labels = np.where(np.arange(len(X)) % 7 == 0, LABELS, np.nan)
    y = bag_target(Y["bag"], Y["proportion"], labels=labels)
    posterior = HeldOutLogOdds(check_bag_target(y), 1.5 * X[:, 0]).posteriors(1.0)[1]
    known = np.isfinite(labels)
    np.testing.assert_allclose(posterior[known], LABELS[known], atol=1e-9)


def test_the_range_holds_at_any_kappa_in_it():
    held_out, sample = HeldOutLogOdds(BAGS, 1.5 * X[:, 0]), make_sample(Y, X[:, 0])
    narrow, wide = held_out.covariate_shift_slopes, held_out.sensitivity_slopes()
    assert wide[0] < narrow[0] < 1 < narrow[2] < wide[2]
    uncertainty = Uncertainty(n_resamples=200)
    inner, outer = (
        estimates_by_slope(held_out, kappas, {"auc": (Area(), sample)}, uncertainty)["auc"]
        for kappas in (narrow, wide)
    )
    assert outer.low < inner.low < inner.value < inner.high < outer.high <= 1
    assert inner.low < roc_auc_score(LABELS, X[:, 0]) < inner.high


def test_scores_of_an_unknown_scale_allow_any_slope():
    low, _, high = HeldOutLogOdds(BAGS, X[:, 0], scaled=False).sensitivity_slopes()
    assert (low, high) == (-SORTED, SORTED)


# --- evaluations -------------------------------------------------------------------------------


def test_covariate_shift_is_not_rejected_and_label_shift_is():
    evaluation = cross_val_evaluate(LLPClassifier(kernel=None), X, Y, n_resamples=200)
    truth = roc_auc_score(LABELS, evaluation.scores)
    assert evaluation.by_assumption["label_shift"]["roc_auc"].low > 1  # surely wrong
    assert {key: one.name for key, one in evaluation.verdicts.items()} == {
        "label_shift": "rejected",
        "covariate_shift": "not_rejected",
    }
    assert evaluation.effect.shift_type == "covariate_shift"
    assert evaluation["roc_auc"].assumption == "covariate_shift"
    assert evaluation["roc_auc"].low < truth < evaluation["roc_auc"].high
    assert evaluation["roc_auc"].high - evaluation["roc_auc"].low < 0.1
    wide = evaluation.by_assumption["sensitivity"]["roc_auc"]
    assert wide.low < evaluation["roc_auc"].low < evaluation["roc_auc"].high < wide.high < 1
    words = str(evaluation)
    assert f"{wide.low:.4f} to {wide.high:.4f}" in words
    assert "sample_rows_to_label" in words
    band = evaluation.roc
    assert (band.low <= band.tpr + 1e-9).all()
    assert (band.tpr <= band.high + 1e-9).all()


def test_label_shift_is_not_rejected_and_estimates_rest_on_it():
    data = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
    evaluation = cross_val_evaluate(LLPClassifier(kernel=None), data.X, data.y, n_resamples=200)
    assert evaluation.verdict.name == "not_rejected"
    for name, found in evaluation.estimates.items():
        before = evaluation.by_assumption["label_shift"][name]
        assert (found.value, found.low, found.high) == (before.value, before.low, before.high)
        assert found.verdict is evaluation.verdict


def test_a_single_estimate_has_the_verdict():
    found = estimate("roc_auc", Y, 1.5 * X[:, 0], n_resamples=200)
    assert (found.verdict.assumption, found.assumption) == ("covariate_shift",) * 2
    assert found.low < roc_auc_score(LABELS, X[:, 0]) < found.high < 1


def test_an_inconclusive_evaluation_spans_both():
    data = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
    # correlated rows within bags
    alike = 0.25 * np.random.default_rng(1).normal(size=(40, data.X.shape[1]))
    evaluation = cross_val_evaluate(
        LLPClassifier(kernel=None), data.X + alike[data.y["bag"]], data.y, n_resamples=200
    )
    assert evaluation.verdict.name == "inconclusive"
    assert evaluation["roc_auc"].assumption == "either"
    for assumption in ("label_shift", "sensitivity"):
        assert evaluation["roc_auc"].low <= evaluation.by_assumption[assumption]["roc_auc"].low
        assert evaluation["roc_auc"].high >= evaluation.by_assumption[assumption]["roc_auc"].high


def test_three_classes_under_covariate_shift():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), 60)
    rows = rng.normal(size=(3600, 2)) + 0.8 * rng.normal(size=(60, 2))[bag]
    odds = np.column_stack([np.zeros(3600), 1.5 * rows[:, 0], 1.5 * rows[:, 1]])
    labels = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
    shares = np.stack([np.bincount(bag, labels == c) / 60 for c in range(3)], axis=1)
    evaluation = evaluate(bag_target(bag, shares[bag]), odds, X=rows, n_resamples=200)
    assert evaluation.verdicts["label_shift"].name == "rejected"
    truth = balanced_accuracy_score(labels, odds.argmax(axis=1))
    found = evaluation["balanced_accuracy"]
    assert found.low < truth < found.high
    likely = evaluation.by_assumption["covariate_shift"]["balanced_accuracy"]
    assert likely.value == pytest.approx(truth, abs=0.05)


def test_labels_need_no_verdict():
    evaluation = evaluate(LABELS, X[:, 0])
    assert evaluation.verdict.name == "not_rejected"
    assert evaluation["roc_auc"].value == pytest.approx(roc_auc_score(LABELS, X[:, 0]))
    assert evaluation["roc_auc"].assumption == "labels"


# --- the curve ----------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", [0.0, 0.5])
def test_the_slope_under_covariate_shift_is_found(effect):
    slopes, errors = [], []
    for seed in range(12):
        rows, _, y = covariate_shift_rows(seed, effect=effect)
        curve = HeldOutLogOdds(check_bag_target(y), 1.5 * rows[:, 0]).curve
        slopes.append(curve.slope)
        errors.append(curve.error)
    assert abs(np.mean(slopes) - 1) < 3 * np.std(slopes) / np.sqrt(12)
    assert 0.5 < np.std(slopes) / np.mean(errors) < 1.6


def test_bag_effects_correlated_with_scores_make_the_curve_too_steep():
    rows, labels, y = covariate_shift_rows(correlation=1.5)
    held_out = HeldOutLogOdds(check_bag_target(y), 1.5 * rows[:, 0])
    assert held_out.curve.slope > 1.5
    measures = {"auc": (Area(), make_sample(y, rows[:, 0]))}
    kappas = held_out.sensitivity_slopes()
    wide = estimates_by_slope(held_out, kappas, measures, Uncertainty())["auc"]
    assert wide.low < roc_auc_score(labels, rows[:, 0]) < wide.high


def test_few_bags_determine_no_slope():
    few = BAGS.index < 2
    y = bag_target(Y["bag"][few], Y["proportion"][few])
    assert HeldOutLogOdds(check_bag_target(y), X[few, 0]).curve.error == np.inf


def test_without_a_predicted_positive_there_is_no_precision_and_no_warning():
    # of few bags too, as halves of real sets are
    few = BAGS.index < 6
    for scores, y in ((X[:, 0] - 20, Y), (X[few, 0] - 20, Y[few])):
        found = evaluate(y, scores, n_resamples=50)
        for assumption in found.by_assumption.values():
            precision = assumption["precision"]
            assert np.isnan([precision.value, precision.low, precision.high]).all()
            assert assumption["f1"].value == assumption["true_positive_rate"].value == 0


def test_uncertain_training_widens_intervals_under_either_assumption():
    sample = make_sample(Y, X[:, 0])
    steady = ScoredRows(sample, sample, HeldOutLogOdds(BAGS, 1.5 * X[:, 0]), ())
    shaky = replace(steady, more_spread=1.2)
    measures = usual_measures(BAGS, 0.0, "empirical")
    one, other = (
        evaluate_rows(rows, measures, Uncertainty(n_resamples=100)).by_assumption
        for rows in (steady, shaky)
    )
    for assumption, factor in (
        ("label_shift", 1.2),
        ("covariate_shift", 1.2),
        ("sensitivity", 1.0),
    ):
        narrow, wide = one[assumption]["balanced_accuracy"], other[assumption]["balanced_accuracy"]
        assert wide.high - wide.value == pytest.approx(factor * (narrow.high - narrow.value))
        assert wide.value - wide.low == pytest.approx(factor * (narrow.value - narrow.low))
