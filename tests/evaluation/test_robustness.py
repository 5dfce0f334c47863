"""How strong a confounder must be, and intervals by draws from the posterior."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_val_evaluate, evaluate
from unbag.evaluation.held_out import posterior_draws
from unbag.evaluation.sensitivity import spread_of_bags


def shifted(seed=0, n_bags=60, size=60, correlation=0.0, sd=0.0):
    """Covariate shift of one of two columns, with bag effects."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    shift = 0.8 * rng.normal(size=n_bags)
    X = rng.normal(size=(len(bag), 2))
    X[:, 0] += shift[bag]
    log_odds = 1.2 * X[:, 0] + (correlation * shift + sd * rng.normal(size=n_bags))[bag]
    labels = (rng.uniform(size=len(bag)) < expit(log_odds)).astype(int)
    return X, labels, bag_target(bag, counts=np.bincount(bag, labels)[bag])


X, LABELS, Y = shifted()
FOUND = evaluate(Y, 1.2 * X[:, 0], X=X, n_resamples=50)


def test_the_confounder_found_moves_the_measure_to_the_value_named():
    robustness = FOUND.robustness_value(below=0.7)
    assert FOUND.by_factor(factors=[robustness.factor])[robustness.factor] == pytest.approx(
        0.7, abs=0.005
    )
    assert robustness.column == "column 0"
    assert robustness.value == pytest.approx(robustness.bag_effect / robustness.column_effect)
    # the one column that shifts explains nearly all of the mean log-odds of bags
    assert robustness.column_effect == pytest.approx(spread_of_bags(FOUND.rows.log_odds), rel=0.05)
    for fact in ("0.7", f"{robustness.value:.2f}", f"{robustness.bag_effect:.2f}", "AUC"):
        assert fact in str(robustness)


def test_lower_values_take_stronger_confounders():
    values = [FOUND.robustness_value(below=auc).value for auc in (0.99, 0.75, 0.7, 0.65, 0.05)]
    assert values[0] == 0
    assert values[-1] == np.inf
    assert (np.diff(values) > 0).all()
    assert "already" in str(FOUND.robustness_value(below=0.99))
    assert "reversed" in str(FOUND.robustness_value(below=0.05))


def test_an_interval_that_is_below_without_a_confounder_is_said():
    low, _ = FOUND.by_assumption["covariate_shift"]["roc_auc"].shown_limits
    assert f"begins at {low:.2f}" in str(FOUND.robustness_value(below=low + 0.01))
    assert "begins" not in str(FOUND.robustness_value(below=low - 0.01))


def test_of_several_classes_it_is_about_the_balanced_accuracy():
    data = make_gaussian_bags(20, 30, n_classes=3, n_features=2, random_state=0)
    found = cross_val_evaluate(LLPClassifier(kernel=None), data.X, data.y, n_resamples=20)
    robustness = found.robustness_value(below=found["balanced_accuracy"].value - 0.2)
    assert "balanced accuracy" in str(robustness)
    assert robustness.value > 0
    assert found.by_factor(factors=[0])[0] < found.by_factor(factors=[1])[1]


def test_a_confounder_of_known_strength_is_measured():
    """Bag effects of half the slope: log-odds within bags are wrong by the factor 1/1.5."""
    found, strength = [], []
    for seed in range(4):
        rows, labels, y = shifted(seed, correlation=0.6, n_bags=150)
        said = evaluate(y, 1.8 * rows[:, 0], X=rows, n_resamples=20)
        truth = roc_auc_score(labels, rows[:, 0])
        robustness = said.robustness_value(below=truth)
        found.append(robustness.factor)
        strength.append(robustness.bag_effect)
    assert np.mean(found) == pytest.approx(1 / 1.5, abs=0.12)
    assert np.mean(strength) == pytest.approx(0.6 * 0.8, abs=0.12)


def test_measures_by_factor_rise_and_agree_with_covariate_shift():
    values = FOUND.by_factor(factors=(-1, 0, 0.5, 1, 2))
    assert (np.diff(list(values.values())) > 0).all()
    assert values[1.0] == pytest.approx(roc_auc_score(LABELS, X[:, 0]), abs=0.03)
    with pytest.raises(KeyError, match="no 'gain'"):
        FOUND.by_factor("gain")
    with pytest.raises(ValueError, match="log-odds of rows in bags"):
        evaluate(LABELS, X[:, 0], n_resamples=20).robustness_value(0.7)


def test_draws_of_the_model_widen_the_interval_and_centre_it():
    model = LLPClassifier(kernel=None)
    found = cross_val_evaluate(model, X, Y, n_resamples=50)
    draws = posterior_draws(model.fit(X, Y), X)
    assert draws.shape == (40, len(Y))
    held = found.rows.log_odds
    values = [
        roc_auc_score(
            np.repeat([0, 1], len(Y)), np.tile(found.rows.ranks.scores, 2), sample_weight=p.ravel()
        )
        for p in list(held.drawn_posteriors())[:10]
    ]
    estimate = found.by_assumption["covariate_shift"]["roc_auc"]
    assert estimate.value == pytest.approx(np.mean(values), abs=0.01)
    assert estimate.low < min(values) < max(values) < estimate.high
    # the same model sure of itself
    sure = evaluate(Y, draws[0], X=X, draws=np.repeat(draws[:1], 20, axis=0), n_resamples=50)
    unsure = evaluate(Y, draws[0], X=X, draws=draws, n_resamples=50)
    sure, unsure = (e.by_assumption["covariate_shift"]["accuracy"] for e in (sure, unsure))
    assert unsure.standard_error > sure.standard_error


def test_models_without_a_posterior_have_no_draws():
    assert posterior_draws(object(), X) is None


def test_bag_effects_reject_covariate_shift():
    rows, labels, y = shifted(1, sd=0.7)
    found = evaluate(y, 1.2 * rows[:, 0], n_resamples=50)
    verdict = found.verdicts["covariate_shift"]
    assert verdict.name == "rejected"
    assert "correlated with the scores" in str(verdict).replace("\n ", "")
    assert found["roc_auc"].low < roc_auc_score(labels, rows[:, 0]) < found["roc_auc"].high
