"""Shares by group: bounds against enumeration, estimates and intervals against simulation."""

from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEMClassifier,
    LLPEnsembleClassifier,
    bag_target,
    check_bag_target,
)
from unbag.evaluation import group_proportions
from unbag.evaluation.groups import _with_its_settings, duncan_davis_bounds
from unbag.paper import LMMCMClassifier

KINDS = np.array(["black", "latino", "white"])


def precincts(seed, n_bags=60, size=40):
    """Voters of three groups and three candidates, who keep their odds in all precincts."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), size)
    mix = rng.dirichlet([1.2, 1.2, 0.8], n_bags)[bag].cumsum(axis=1)
    group = (mix < rng.uniform(size=len(bag))[:, None]).sum(axis=1)
    age = rng.normal(size=len(bag))
    odds = np.array([[0.0, -0.2, -1.4], [0.0, 0.5, -1.1], [-1.2, -0.6, 0.5]])[group]
    odds = np.exp(odds + np.outer(age, [0, 0.4, -0.3]))
    chances = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
    vote = (chances < rng.uniform(size=len(bag))[:, None]).sum(axis=1)
    counts = np.stack([np.bincount(bag, vote == c, n_bags) for c in range(3)], axis=1)
    names = ["Ann", "Bob", "Cy"]
    y = bag_target(bag, counts=counts[bag], class_names=names)
    X = np.column_stack([age, group == 1, group == 2]).astype(float)
    truth = np.array([[np.mean(vote[group == g] == c) for c in range(3)] for g in range(3)])
    return X, y, KINDS[group], truth


def test_bounds_are_those_of_all_labels_that_agree_with_the_counts():
    bag, group = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 1, 2])
    counts = np.array([[1, 1, 1], [3, 0, 1]])
    labels = np.array(list(product(range(3), repeat=len(bag))))
    of_class = labels[:, :, None] == np.arange(3)
    agree = (np.stack([of_class[:, bag == b].sum(axis=1) for b in (0, 1)], axis=1) == counts).all(
        axis=(1, 2)
    )
    possible = np.stack([of_class[agree][:, group == g].mean(axis=1) for g in range(3)], axis=1)
    bags = check_bag_target(bag_target(bag, counts=counts[bag]))
    least, most = duncan_davis_bounds(bags, group, 3)
    np.testing.assert_allclose(least, possible.min(axis=0))
    np.testing.assert_allclose(most, possible.max(axis=0))


def test_shares_and_intervals_hold_the_truth():
    held = 0
    for seed in (0, 1):
        X, y, group, truth = precincts(seed, n_bags=40, size=30)
        table = group_proportions(LLPClassifier(kernel=None).fit(X, y), X, y, group)
        held += int(((table.low <= truth) & (truth <= table.high)).sum())
        assert np.abs(table.share - truth).max() < 0.1
        assert ((table.least <= truth) & (truth <= table.most)).all()
    # of 18, which depend on each other
    assert held >= 15
    assert table.groups.tolist() == KINDS.tolist()
    assert table.classes.tolist() == ["Ann", "Bob", "Cy"]
    np.testing.assert_allclose(table.share.sum(axis=1), 1)
    assert (table.least <= table.low).all()
    assert (table.high <= table.most).all()
    # the sum over groups is that of the counts
    total = table.sizes @ table.share / table.sizes.sum()
    np.testing.assert_allclose(total, check_bag_target(y).class_shares, atol=1e-6)


def test_what_a_search_chose_is_not_searched_again():
    X, y, _, _ = precincts(0, n_bags=20, size=20)
    models = [("linear", LLPClassifier(kernel=None)), ("boosted", LLPBoostingClassifier())]
    model = LLPEnsembleClassifier(models).fit(X, y)
    copy = _with_its_settings(make_pipeline(StandardScaler(), model))[-1]
    names = [row["learner"] for row in model.leaderboard_]
    found, again = dict(zip(names, model.estimators_, strict=True)), dict(copy.estimators)
    assert again.keys() == found.keys()
    assert again["boosted"].num_leaves == found["boosted"].num_leaves_
    alone = LLPEnsembleClassifier(models[:1]).fit(X, y)
    again = _with_its_settings(alone).fit(X, y)
    np.testing.assert_allclose(again.predict_proba(X), alone.predict_proba(X), atol=0.02)


def test_the_default_says_what_expectation_maximisation_says():
    X, y, group, truth = precincts(1, n_bags=40, size=30)
    plain = LLPClassifier(kernel=None).fit(X, y)
    em = LLPEMClassifier(LogisticRegression(C=10), cv=None, tol=1e-4).fit(X, y)
    ours, theirs = (group_proportions(m, X, y, group, intervals=False).share for m in (plain, em))
    np.testing.assert_allclose(ours, theirs, atol=0.03)
    corrected = LMMCMClassifier(1e-4, kernel="linear").fit(X, y)
    assumed = group_proportions(corrected, X, y, group, intervals=False).share
    assert np.abs(ours - truth).mean() < np.abs(assumed - truth).mean()


def test_what_is_printed():
    X, y, group, _ = precincts(2, n_bags=20)
    table = group_proportions(LLPClassifier(kernel=None).fit(X, y), X, y, group, intervals=False)
    words = str(table)
    assert "aggregation bias" in words
    first = table.frame().iloc[1]
    assert (first["group"], first["class"]) == ("black", "Bob")
    line = next(line for line in words.splitlines() if line.lstrip().startswith("Bob"))
    possible = f"{first['least']:.3f} to {first['most']:.3f}"
    assert line.split(maxsplit=1)[1] == f"{first['share']:.3f}  -             {possible}"


def test_noisy_counts_have_no_sure_bounds():
    X, y, group, _ = precincts(2, n_bags=20)
    noisy = bag_target(y["bag"], y["proportion"], noise=0.02)
    found = group_proportions(
        LLPClassifier(kernel=None).fit(X, noisy), X, noisy, group, intervals=False
    )
    assert (found.least == 0).all()
    assert (found.most == 1).all()


def test_what_is_refused():
    X, y, group, _ = precincts(3, n_bags=20)
    model = LLPClassifier(kernel=None).fit(X, y)
    with pytest.raises(ValueError, match="one group for each of the 800 instances"):
        group_proportions(model, X, y, group[1:])
    with pytest.raises(ValueError, match="confidence_level must lie between 0 and 1"):
        group_proportions(model, X, y, group, confidence_level=95)
    two = y["bag"] < 3
    few = bag_target(y["bag"][two], y["proportion"][two])
    with pytest.raises(ValueError, match="at least 4 bags, and there are 3"):
        group_proportions(model, X[two], few, group[two])
