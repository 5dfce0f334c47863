"""What models minimise: the choice of objective, and what it must agree with."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from unbag import KernelMCMClassifier, KernelMCMClassifierCV, LinearMCMClassifier, bag_target
from unbag.bags import check_bag_target
from unbag.datasets import add_count_noise, make_gaussian_bags
from unbag.decontamination import decontamination_weights, pooled_shares, precision
from unbag.information import bag_information
from unbag.likelihood import CountLikelihood

DATA = make_gaussian_bags(n_bags=40, bag_size=8, random_state=0)
THREE = make_gaussian_bags(n_bags=40, bag_size=8, n_classes=3, random_state=0)
ZERO = np.zeros(1, dtype=int)


@pytest.mark.parametrize(
    ("y", "settings", "expected"),
    [
        (DATA.y, {}, "combined"),
        (DATA.labels, {}, "corrected"),
        (DATA.y, {"loss": "squared"}, "corrected"),
        (DATA.y, {"bag_model": "bags"}, "corrected"),
        (add_count_noise(DATA.y, 0.3, random_state=0), {}, "corrected"),
        (DATA.y, {"weights": "pairs"}, "combined"),
        (DATA.y, {"class_prior": (0, 1)}, "corrected"),
    ],
)
def test_counts_are_used_where_they_can_be(y, settings, expected):
    model = KernelMCMClassifier(**settings).fit(DATA.X, y)
    assert model.objective_ == expected


@pytest.mark.parametrize(("size", "expected"), [(8, "combined"), (200, "corrected")])
def test_counts_are_used_where_they_vary_little_more_than_coin_tosses(size, expected):
    data = make_gaussian_bags(n_bags=30, bag_size=size, random_state=1)
    shares = data.y["proportion"][::size]
    dispersion = (
        size * np.mean((shares - shares.mean()) ** 2) / (shares.mean() * (1 - shares.mean()))
    )
    assert (dispersion <= 10) == (expected == "combined")
    assert KernelMCMClassifier().fit(data.X, data.y).objective_ == expected


def test_three_classes_have_counts_too():
    """Shuffled bags of three rings: the counts say more than the proportions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    labels = np.searchsorted([1.0, 2.6], (X**2).sum(axis=1))
    bag = np.repeat(np.arange(100), 5)
    shares = np.stack([np.bincount(bag, labels[:500] == c) / 5 for c in range(3)], axis=1)
    y = bag_target(bag, shares[bag])
    correct = {}
    for objective in ("auto", "corrected"):
        model = KernelMCMClassifierCV(objective=objective).fit(X[:500], y)
        correct[model.objective_] = np.mean(model.predict(X[500:]) == labels[500:])
    assert correct["combined"] > correct["corrected"] + 0.01


@pytest.mark.parametrize(
    ("X", "y", "settings", "sentence"),
    [
        (DATA.X, DATA.y, {"loss": "huber"}, "loss='huber' does not estimate odds"),
        (DATA.X, DATA.labels, {}, "there are labels only"),
        (DATA.X, DATA.y, {"bag_model": "bags"}, "instances that depend on each other"),
        (DATA.X, add_count_noise(DATA.y, 0.3, random_state=0), {}, "not known exactly"),
    ],
)
@pytest.mark.parametrize("objective", ["combined", "likelihood"])
def test_counts_that_cannot_be_used_are_refused(X, y, settings, sentence, objective):
    with pytest.raises(ValueError, match=sentence):
        KernelMCMClassifier(objective=objective, **settings).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"objective": "loss"}, "objective must be one of 'auto', 'combined'"),
        ({"training_prior": "mine"}, "training_prior must be one of 'auto', 'pooled', 'same'"),
        ({"training_prior": "pooled", "loss": "hinge"}, "loss must be 'logistic'"),
        ({"training_prior": "pooled", "class_prior": (0, 1)}, "class_prior positive"),
        ({"likelihood_weight": 0}, "likelihood_weight must be a positive number"),
        ({"likelihood_weight": "much"}, "likelihood_weight must be a positive number"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        KernelMCMClassifier(**settings).fit(DATA.X, DATA.y)


def test_likelihood_counts_for_the_instances_beyond_what_bags_are_worth():
    """The default μ is one over the share of labels that `bag_information` gives."""
    automatic = KernelMCMClassifier(1e-3, tol=1e-8).fit(DATA.X, DATA.y)
    share = bag_information(DATA.y).share_of_labels
    given = KernelMCMClassifier(1e-3, likelihood_weight=1 / share, tol=1e-8).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(automatic.dual_coef_, given.dual_coef_, atol=1e-6)


def test_extreme_weights_lead_to_either_part():
    def scores(**settings):
        model = LinearMCMClassifier(1e-3, tol=1e-9, **settings).fit(DATA.X, DATA.y)
        return model.decision_function(DATA.X)

    little = scores(objective="combined", likelihood_weight=1e-9)
    np.testing.assert_allclose(little, scores(objective="corrected"), atol=1e-4)
    alpha = 1e-3
    much = LinearMCMClassifier(
        alpha * 1e6, objective="combined", likelihood_weight=1e6, tol=1e-9
    ).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        much.decision_function(DATA.X), scores(objective="likelihood"), atol=1e-3
    )


def test_another_class_prior_shifts_the_likelihoods_scores():
    """The same function at other priors: the intercept moves by their log-odds."""
    balanced = LinearMCMClassifier(1e-6, objective="likelihood", tol=1e-9).fit(DATA.X, DATA.y)
    rare = LinearMCMClassifier(1e-6, objective="likelihood", class_prior=(0.9, 0.1), tol=1e-9).fit(
        DATA.X, DATA.y
    )
    np.testing.assert_allclose(rare.coef_, balanced.coef_, atol=1e-5)
    np.testing.assert_allclose(rare.intercept_ - balanced.intercept_, np.log(0.1 / 0.9), atol=1e-5)


def test_likelihood_is_what_its_model_maximises():
    bags = check_bag_target(DATA.y)
    likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)

    def value(model):
        scores = model.fit(DATA.X, DATA.y).decision_function(DATA.X)
        return likelihood.value(scores[None, None], ZERO)[0]

    best = value(LinearMCMClassifier(1e-8, objective="likelihood"))
    assert best < value(LinearMCMClassifier(1e-8, objective="combined"))
    assert best < value(LinearMCMClassifier(1e-8))


def test_counts_of_small_bags_make_better_classifiers():
    """Rings that only kernels tell apart, in shuffled bags of 5, means of five draws."""
    from sklearn.metrics import roc_auc_score

    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(800, 2))
        labels = ((X**2).sum(axis=1) > 1.4).astype(int)
        bag = np.repeat(np.arange(80), 5)
        share = np.bincount(bag, labels[:400]) / 5
        y = bag_target(bag, share[bag])
        auc = [
            roc_auc_score(
                labels[400:],
                KernelMCMClassifierCV(objective=objective)
                .fit(X[:400], y)
                .decision_function(X[400:]),
            )
            for objective in ("corrected", "combined")
        ]
        gains.append(auc[1] - auc[0])
    assert np.mean(gains) > 0.005


@pytest.mark.parametrize("objective", ["corrected", "combined"])
def test_torch_on_the_processor_gives_the_same(objective):
    pytest.importorskip("torch")
    here = KernelMCMClassifierCV(objective=objective, precision="double", tol=1e-6)
    there = KernelMCMClassifierCV(objective=objective, precision="double", tol=1e-6, device="cpu")
    here.fit(DATA.X, DATA.y)
    there.fit(DATA.X, DATA.y)
    assert here.alpha_ == there.alpha_
    np.testing.assert_allclose(
        here.decision_function(DATA.X), there.decision_function(DATA.X), atol=1e-4
    )
    assert isinstance(there.dual_coef_, np.ndarray)


def test_unknown_device_is_refused():
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device='abacus' cannot be used here"):
        KernelMCMClassifier(device="abacus").fit(DATA.X, DATA.y)


@pytest.mark.parametrize(
    ("y", "settings", "expected"),
    [
        (DATA.y, {}, "pooled"),
        (DATA.labels, {}, "same"),
        (DATA.y, {"weights": "pairs"}, "same"),
        (DATA.y, {"loss": "squared"}, "same"),
        (DATA.y, {"training_prior": "same"}, "same"),
        (DATA.labels, {"training_prior": "pooled"}, "pooled"),
    ],
)
def test_pooled_shares_are_trained_at_where_they_help(y, settings, expected):
    assert KernelMCMClassifier(**settings).fit(DATA.X, y).training_prior_ == expected


@pytest.mark.parametrize("bag_model", ["instances", "bags"])
@pytest.mark.parametrize("noise", [None, 0.05])
@pytest.mark.parametrize("data", [DATA, THREE], ids=["two", "three"])
def test_every_bag_has_a_positive_weight_at_the_pooled_shares(data, noise, bag_model):
    """W q = v: what makes the risk convex there."""
    bags = check_bag_target(data.y)
    if noise is not None:
        covariance = noise**2 * (np.eye(bags.n_classes) - 1 / bags.n_classes)
        bags = replace(bags, noise=np.broadcast_to(covariance, (bags.n_bags, *covariance.shape)))
    included = np.arange(bags.n_bags)[None] % np.array([[1000], [3]]) != 1
    for row, shares in zip(included, pooled_shares(bags, bag_model, included), strict=True):
        part, _ = bags.take(row)
        W = decontamination_weights(part, bag_model=bag_model)
        draws = precision(part, bag_model)
        np.testing.assert_allclose(W @ shares, draws / draws.sum(), rtol=1e-9)


def test_pooled_risk_is_logistic_regression_on_stretched_shares():
    """At the pooled shares an instance has the soft label q + μ(γ − q), which may leave [0, 1]."""
    model = LinearMCMClassifier(1e-2, training_prior="pooled", correction="none", tol=1e-9)
    model.fit(DATA.X, DATA.y)
    share = DATA.y["proportion"]
    mean = share.mean()
    stretched = mean + mean * (1 - mean) / share.var() * (share - mean)

    def loss(theta):
        f = DATA.X @ theta[:-1] + theta[-1]
        return np.mean(np.logaddexp(0, f) - stretched * f) + 1e-2 * np.sum(theta[:-1] ** 2)

    best = minimize(loss, np.zeros(DATA.X.shape[1] + 1), tol=1e-12).x
    np.testing.assert_allclose(model.coef_[0], best[:-1], atol=1e-4)
    # moved from the pooled shares to equal ones
    np.testing.assert_allclose(model.intercept_[0], best[-1] - np.log(mean / (1 - mean)), atol=1e-4)


@pytest.mark.parametrize("data", [DATA, THREE], ids=["two", "three"])
def test_at_the_pooled_shares_both_training_priors_are_the_same(data):
    shares = check_bag_target(data.y).class_shares
    scores = [
        LinearMCMClassifier(1e-3, class_prior=shares, training_prior=prior, tol=1e-9)
        .fit(data.X, data.y)
        .decision_function(data.X)
        for prior in ("pooled", "same")
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
