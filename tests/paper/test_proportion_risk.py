"""Models that get the proportions of bags right."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from unbag import BagKFold, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.observations.losses import get_loss
from unbag.paper import ProportionRiskClassifier
from unbag.paper.proportion_risk import DIVERGENCES, ProportionRisk

LinearProportionRiskClassifier = partial(ProportionRiskClassifier, kernel="linear")

every_divergence = pytest.mark.parametrize("divergence", DIVERGENCES)
DATA = make_gaussian_bags(n_bags=25, bag_size=20, n_features=3, random_state=0)
every_model = pytest.mark.parametrize(
    "estimator", [ProportionRiskClassifier, LinearProportionRiskClassifier]
)


@every_divergence
@every_model
def test_every_divergence_learns(estimator, divergence):
    # the kinks of the absolute value take long where the penalty is weak
    model = estimator([1e-2, 1e-3, 1e-4], divergence=divergence).fit(DATA.X, DATA.y)
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.83
    np.testing.assert_allclose(model.class_prior_, [1 - DATA.labels.mean(), DATA.labels.mean()])


@every_model
def test_three_classes(estimator):
    data = make_gaussian_bags(n_bags=60, bag_size=15, n_classes=3, separation=4.0, random_state=0)
    model = estimator().fit(data.X, data.y)
    assert model.decision_function(data.X).shape == (900, 3)
    assert (model.predict(data.X) == data.labels).mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(data.X).sum(axis=1), 1)


@every_divergence
def test_bags_of_one_instance_give_logistic_regression(divergence):
    target = bag_target(np.arange(500), DATA.labels.astype(float))
    alpha = 1e-3
    ours, plain = (
        LinearProportionRiskClassifier([alpha], divergence=divergence, tol=1e-9).fit(DATA.X, y)
        for y in (target, DATA.labels)
    )
    np.testing.assert_allclose(ours.coef_, plain.coef_, atol=1e-9)
    theirs = LogisticRegression(C=1 / (2 * alpha * 500), tol=1e-12, max_iter=10_000)
    theirs.fit(DATA.X, DATA.labels)
    if divergence == "cross_entropy":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
        np.testing.assert_allclose(
            ours.predict_proba(DATA.X), theirs.predict_proba(DATA.X), atol=1e-6
        )
    else:
        assert (ours.predict(DATA.X) == theirs.predict(DATA.X)).mean() > 0.97


@pytest.mark.parametrize("divergence", ["squared", "cross_entropy"])
# "scale" would differ from fold to fold
@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"gamma": 0.3}])
def test_batched_search_equals_fits_one_by_one(settings, divergence):
    alphas = [1e-2, 1e-3, 1e-4]
    settings = {**settings, "divergence": divergence, "tol": 1e-9}
    model = ProportionRiskClassifier(alphas, **settings).fit(DATA.X, DATA.y)
    held_out = np.empty((3, len(DATA.y)))
    for train, test in BagKFold(5).split(DATA.X, DATA.y):
        for number, alpha in enumerate(alphas):
            fold = ProportionRiskClassifier([alpha], **settings).fit(DATA.X[train], DATA.y[train])
            held_out[number, test] = fold.decision_function(DATA.X[test])
    bags = check_bag_target(DATA.y)
    weights = np.repeat((bags.sizes / 500)[:, None], 2, axis=1)
    scores = np.array(held_out)[:, None, :]
    on_all = np.zeros(len(scores), dtype=np.intp)
    risks = ProportionRisk(weights, bags, get_loss("logistic"), divergence).value(scores, on_all)
    np.testing.assert_allclose(model.selection_risks_, risks, atol=1e-6)
    best = int(np.argmin(risks))
    assert model.alpha_ == alphas[best]
    np.testing.assert_allclose(model.out_of_fold_scores_, held_out[best], atol=1e-5)
    again = ProportionRiskClassifier([model.alpha_], **settings).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        model.decision_function(DATA.X), again.decision_function(DATA.X), atol=1e-5
    )


@every_divergence
@every_model
def test_solver_leaves_zero_where_everything_is_symmetric(estimator, divergence):
    """For every bag there is its mirror image: at zero, the constant part of the gradient is 0."""
    X = np.concatenate([DATA.X, -DATA.X]) - 0.0
    y = bag_target(
        np.concatenate([DATA.y["bag"], DATA.y["bag"] + 25]),
        np.concatenate([DATA.y["proportion"], 1 - DATA.y["proportion"]]),
    )
    model = estimator([1e-4], divergence=divergence).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores[500:], -scores[:500], atol=0.05 * np.abs(scores).max())
    assert ((scores > 0) == np.concatenate([DATA.labels, 1 - DATA.labels])).mean() > 0.83


@every_model
def test_unknown_divergence_is_named(estimator):
    for wrong in ("hinge", None):
        with pytest.raises(ValueError, match="divergence must be one of 'squared', 'absolute'"):
            estimator(divergence=wrong).fit(DATA.X, DATA.y)


def test_folds_that_cannot_be_trained_are_named():
    few = DATA.y["bag"] < 2
    with pytest.raises(ValueError, match="Fold 1 of 2 cannot be trained: There is only one bag"):
        LinearProportionRiskClassifier(cv=2).fit(DATA.X[few], DATA.y[few])
