"""Rules for classes: each threshold against all others."""

import numpy as np
import pytest
from scipy.special import expit, logit

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.tables.scoring import Rule, Scorer, make_rule

RNG = np.random.default_rng(0)
PROBABILITIES = RNG.beta(1, 6, 4000)
LABELS = RNG.random((400, 4000)) < PROBABILITIES


def rates(threshold):
    chosen = threshold < PROBABILITIES
    hits = (LABELS & chosen).sum(axis=1)
    return hits, chosen.sum() - hits, LABELS.sum(axis=1)


def worth(name, threshold, costs=(1.0, 1.0)):
    """How good a threshold is, over labels drawn from the probabilities."""
    hits, alarms, positives = rates(threshold)
    negatives = LABELS.shape[1] - positives
    if name == "balanced":
        return np.mean(hits / positives - alarms / negatives)
    if name == "f1":
        return np.mean(2 * hits / (hits + alarms + positives))
    return -np.mean(costs[0] * alarms + costs[1] * (positives - hits))


@pytest.mark.parametrize("name", ["balanced", "accuracy", "f1", "cost"])
def test_no_other_threshold_is_better(name):
    costs = (1.0, 5.0) if name == "cost" else (1.0, 1.0)
    rule = make_rule(name, PROBABILITIES, costs)
    others = np.quantile(PROBABILITIES, np.linspace(0.01, 0.99, 60))
    best = max(worth(name, other, costs) for other in others)
    assert worth(name, rule.threshold, costs) > best - 0.002 * abs(best)


def test_a_threshold_for_scores_decides_as_that_for_probabilities():
    rule = make_rule("f1", PROBABILITIES)
    np.testing.assert_array_equal(
        logit(PROBABILITIES) > rule.score_threshold, rule.threshold < PROBABILITIES
    )


def test_in_another_population_rules_go_along():
    share = PROBABILITIES.mean()
    moved = expit(logit(PROBABILITIES) + logit(0.5) - logit(share))
    for name in ("balanced", "f1"):
        rule = make_rule(name, PROBABILITIES)
        chosen = moved > rule.at(0.5).threshold
        np.testing.assert_array_equal(chosen, rule.threshold < PROBABILITIES)
    assert make_rule("accuracy", PROBABILITIES).at(0.5).threshold == 0.5
    assert Rule("given", 0.3, 0.3).at(0.5).threshold == 0.3


def test_mistakes_get_one_sentence():
    with pytest.raises(ValueError, match="rules are balanced, accuracy, f1, cost, not 'best'"):
        make_rule("best", PROBABILITIES)
    with pytest.raises(ValueError, match="costs must be two positive numbers, not 1 and 0"):
        make_rule("cost", PROBABILITIES, (1, 0))


def test_a_rounded_class_prior_is_taken_as_by_the_model():
    data = make_gaussian_bags(n_bags=10, bag_size=20, n_classes=3, random_state=0)
    model, rounded = LLPClassifier(kernel=None).fit(data.X, data.y), [0.333, 0.333, 0.333]
    found = Scorer(model, ["a", "b", "c"], rounded, None).score(data.X)
    expected = model.predict_proba(data.X, class_prior=rounded)
    np.testing.assert_allclose(found["probability_b"], expected[:, 1])
