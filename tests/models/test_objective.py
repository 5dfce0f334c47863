"""What models minimise: the choice of objective, and what it must agree with."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from unbag import (
    LLPEMClassifier,
    LLPKernelClassifier,
    LLPKernelClassifierCV,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
)
from unbag.bags.bags import check_bag_target
from unbag.datasets import add_count_noise, make_gaussian_bags
from unbag.evaluation.bag_effects import effect_of_scores
from unbag.observations.count_likelihood import CountLikelihood

DATA = make_gaussian_bags(n_bags=40, bag_size=8, random_state=0)
THREE = make_gaussian_bags(n_bags=40, bag_size=8, n_classes=3, random_state=0)
ONE = np.zeros(1, dtype=int)
MODELS = [LLPKernelClassifier, LLPKernelClassifierCV, LLPLinearClassifier, LLPLinearClassifierCV]
both = pytest.mark.parametrize("data", [DATA, THREE], ids=["two", "three"])

# shares that no counts have in bags of eight
DRAWN = bag_target(DATA.y["bag"], np.where(DATA.y["bag"] % 2, 0.3, 0.55))
SPARE = {"alpha": 1e-8, "tol": 1e-8}


# --- the choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "settings", "expected"),
    [
        (DATA.y, {}, "likelihood"),
        (THREE.y, {}, "likelihood"),
        (DATA.labels, {}, "likelihood"),
        (add_count_noise(DATA.y, 0.3, random_state=0), {}, "likelihood"),
        (DRAWN, {}, "forward"),
        (DATA.y, {"objective": "forward"}, "forward"),
    ],
)
def test_likelihood_is_used_unless_something_else_is_asked_for(y, settings, expected):
    for model in (LLPLinearClassifier(**settings), LLPKernelClassifier(**settings)):
        assert model.fit(DATA.X, y).objective_ == expected


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"objective": "combined"},
            "objective must be one of 'auto', 'likelihood', 'forward', not 'combined'",
        ),
        ({"class_prior": (0, 1)}, "class_prior must be positive for every class"),
        ({"bag_effect": -0.1}, "bag_effect must be 'auto' or a variance"),
        ({"bag_effect": np.nan}, "bag_effect must be 'auto' or a variance"),
        ({"bag_effect": "some"}, "bag_effect must be 'auto' or a variance, .* not 'some'"),
    ],
)
def test_settings_that_are_refused(make, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**settings).fit(DATA.X, DATA.y)


def test_counts_that_no_labels_give_are_refused():
    with pytest.raises(ValueError, match=r"which no labels can give\. If labels were drawn"):
        LLPLinearClassifier(objective="likelihood").fit(DATA.X, DRAWN)


# --- what it must agree with --------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["likelihood", "forward"])
@pytest.mark.parametrize("kind", ["labels", "pure bags"])
def test_pure_bags_are_logistic_regression(kind, objective):
    y = DATA.labels if kind == "labels" else bag_target(DATA.labels, DATA.labels.astype(float))
    model = LLPLinearClassifier(
        objective=objective, class_prior="empirical", bag_effect=0, **SPARE
    ).fit(DATA.X, y)
    # without a penalty
    direct = LogisticRegression(C=np.inf, tol=1e-10).fit(DATA.X, DATA.labels)
    # to the forward likelihood no bag is quite without a class
    atol = 1e-4 if objective == "likelihood" else 5e-3
    np.testing.assert_allclose(model.coef_, direct.coef_, atol=atol)
    np.testing.assert_allclose(model.intercept_, direct.intercept_, atol=atol)


@both
@pytest.mark.parametrize("objective", ["likelihood", "forward"])
def test_a_linear_kernel_is_the_linear_model(data, objective):
    linear = LLPLinearClassifier(1e-2, objective=objective, tol=1e-9).fit(data.X, data.y)
    kernel = LLPKernelClassifier(
        1e-2, kernel="linear", objective=objective, precision="double", tol=1e-9
    ).fit(data.X, data.y)
    np.testing.assert_allclose(
        kernel.decision_function(data.X), linear.decision_function(data.X), atol=1e-5
    )
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, atol=1e-5)


@both
@pytest.mark.parametrize(
    "model",
    [
        LLPLinearClassifier(1e-3, bag_effect=0, tol=1e-9),
        LLPKernelClassifier(1e-3, bag_effect=0, tol=1e-9, precision="double"),
        LLPKernelClassifier(
            1e-3,
            bag_effect=0,
            tol=1e-9,
            precision="double",
            approximation="nystroem",
            n_components=30,
        ),
    ],
    ids=["linear", "kernel", "nystroem"],
)
def test_mean_chances_at_the_pooled_shares_are_these_shares(model, data):
    """So that they are chances of densities, as the likelihood of rows needs; see its module."""
    q = check_bag_target(data.y).class_shares
    chances = model.fit(data.X, data.y).predict_proba(data.X, class_prior=q)
    assert chances.std(axis=0).min() > 0.1
    np.testing.assert_allclose(chances.mean(axis=0), q, atol=1e-6)


def test_em_ends_where_the_likelihood_is_largest():
    linear = LLPLinearClassifier(bag_effect=0, **SPARE).fit(DATA.X, DATA.y)
    em = LLPEMClassifier(
        LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000),
        class_prior="balanced",
        cv=None,
        tol=1e-11,
        max_iter=5000,
    ).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        em.decision_function(DATA.X), linear.decision_function(DATA.X), atol=1e-3
    )


def test_likelihood_is_what_its_model_maximises():
    bags = check_bag_target(DATA.y)
    likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)

    def value(objective):
        model = LLPLinearClassifier(
            objective=objective, class_prior="empirical", bag_effect=0, **SPARE
        )
        scores = model.fit(DATA.X, DATA.y).decision_function(DATA.X)
        return likelihood.value(scores[None, None], ONE)[0]

    assert value("likelihood") < value("forward") - 1e-4


@both
@pytest.mark.parametrize("objective", ["likelihood", "forward"])
def test_another_class_prior_shifts_the_scores(data, objective):
    """The same function at other priors: intercepts move by their log-odds."""
    prior = np.array([0.7, 0.1, 0.2])[: len(data.means)]
    prior /= prior.sum()
    balanced, other = (
        LLPLinearClassifier(objective=objective, class_prior=given, **SPARE).fit(data.X, data.y)
        for given in ("balanced", prior)
    )
    np.testing.assert_allclose(other.coef_, balanced.coef_, atol=1e-4)
    moved = other.intercept_ - balanced.intercept_
    if len(prior) == 2:
        np.testing.assert_allclose(moved, logit(prior[1]), atol=1e-4)
    else:
        np.testing.assert_allclose(moved - moved[0], np.log(prior / prior[0]), atol=1e-3)


# --- what it finds ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_bags", "size", "draw"),
    [
        (60, 32, lambda rng, n: rng.choice([0, 0.4], size=n)),
        (200, 8, lambda rng, n: rng.choice([0.1, 0.9], size=n)),
        (250, 8, lambda rng, n: rng.uniform(0, 0.5, size=n)),
        (500, 4, lambda _, n: np.full(n, 0.4)),
    ],
    ids=["none or some", "few or most", "any up to half", "shuffled"],
)
def test_slopes_are_right_on_average_whatever_the_shares(n_bags, size, draw):
    """Gaussians at ±0.75 have the log-odds 1.5 x; the second feature says nothing."""
    slopes = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        labels = rng.uniform(size=(n_bags, size)) < draw(rng, n_bags)[:, None]
        X = rng.normal(size=(n_bags * size, 2))
        X[:, 0] += 0.75 * (2 * labels.reshape(-1) - 1)
        bag = np.repeat(np.arange(n_bags), size)
        model = LLPLinearClassifier(1e-8, bag_effect=0, tol=1e-6)
        model.fit(X, bag_target(bag, counts=labels.sum(axis=1)[bag]))
        slopes.append(model.coef_[0] / [1.5, 1.0])
    error = np.std(slopes, axis=0, ddof=1) / np.sqrt(len(slopes))
    assert error.max() < 0.05
    assert (np.abs(np.mean(slopes, axis=0) - [1, 0]) < 2.5 * error).all()


def test_slopes_of_three_classes_are_nearly_right():
    """Their saddle point is of the first order: slopes were off by 3% in bags of 6."""
    slopes = []
    for seed in range(8):
        data = make_gaussian_bags(n_bags=200, bag_size=6, n_classes=3, random_state=seed)
        model = LLPLinearClassifier(1e-8, bag_effect=0, tol=1e-5).fit(data.X, data.y)
        # log-odds of Gaussians of variance one go with their means
        truth = data.means - data.means.mean(axis=0)
        slopes.append(np.sum(model.coef_ * truth) / np.sum(truth**2))
    assert np.mean(slopes) == pytest.approx(1, abs=0.08)


def votes(seed, effect=0.5, n_bags=60, size=200):
    """Rows whose odds go with x, in bags with an effect of their own on these odds."""
    rng = np.random.default_rng(seed)
    x = 0.5 * rng.normal(size=(n_bags, 1)) + rng.normal(size=(n_bags, size))
    p = expit(x - 0.5 + effect * rng.normal(size=(n_bags, 1)))
    counts = (rng.uniform(size=p.shape) < p).sum(axis=1)
    bag = np.repeat(np.arange(n_bags), size)
    return x.reshape(-1, 1), bag_target(bag, counts=counts[bag])


def test_effects_of_bags_are_found_and_improve_slopes():
    slopes = {"auto": [], 0: []}
    for seed in range(6):
        X, y = votes(seed)
        for setting, found in slopes.items():
            model = LLPLinearClassifier(1e-8, bag_effect=setting, tol=1e-6).fit(X, y)
            found.append(model.coef_[0, 0])
            if setting == "auto":
                # 0.5² in log-odds is about this in shares
                low, high = model.bag_effect_interval_
                assert 0 < low < model.bag_effect_ < high
                assert model.bag_effect_ == pytest.approx(0.04, abs=0.03)
            else:
                assert model.bag_effect_ == 0
                assert np.isnan(model.bag_effect_interval_).all()
    off = {setting: np.sqrt(np.mean((np.array(s) - 1) ** 2)) for setting, s in slopes.items()}
    assert off["auto"] < 0.75 * off[0]
    assert np.mean(slopes["auto"]) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("make", MODELS)
def test_every_model_finds_effects_where_there_are_any(make):
    X, y = votes(3, effect=0.6, n_bags=120, size=40)
    few = {"alphas": (1e-2, 1e-4), "cv": 3} if make.__name__.endswith("CV") else {}
    model = make(**few).fit(X, y)
    assert 0 < model.bag_effect_interval_[0] < model.bag_effect_
    given = make(bag_effect=model.bag_effect_, **few).fit(X, y)
    np.testing.assert_allclose(given.decision_function(X), model.decision_function(X), atol=0.02)
    without = make(bag_effect=0, **few).fit(X, y)
    assert np.abs(without.decision_function(X) - model.decision_function(X)).max() > 0.05


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(("n_bags", "trained_with"), [(32, False), (33, True)])
def test_effects_of_few_bags_are_told_but_not_trained_with(make, n_bags, trained_with):
    X, y = votes(3, effect=0.6, n_bags=n_bags, size=100)
    few = {"alphas": (1e-2, 1e-4), "cv": 3} if make.__name__.endswith("CV") else {}
    model = make(**few).fit(X, y)
    assert model.bag_effect_interval_[0] > 0
    assert (model.bag_effect_ > 0) == trained_with
    if not trained_with:
        without = make(bag_effect=0, **few).fit(X, y)
        np.testing.assert_array_equal(without.decision_function(X), model.decision_function(X))
        # what is told is what bags held out say, not those that the model saw
        scores, prior = model.decision_function(X), model.class_prior_
        seen = effect_of_scores(check_bag_target(y), scores, prior)
        assert np.abs(model.bag_effect_interval_ - [seen.low, seen.high]).max() > 1e-6


@pytest.mark.parametrize("make", MODELS)
def test_no_model_finds_effects_where_classes_keep_their_look(make):
    data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=1)
    model = make().fit(data.X, data.y)
    assert model.objective_ == "likelihood"
    assert model.bag_effect_ == 0
    low, high = model.bag_effect_interval_
    assert low == 0 < high < 0.1


@pytest.mark.parametrize("objective", ["forward"])
def test_other_objectives_look_for_no_effect(objective):
    X, y = votes(0, n_bags=20, size=50)
    model = LLPLinearClassifierCV(objective=objective).fit(X, y)
    assert model.bag_effect_ == 0
    assert np.isnan(model.bag_effect_interval_).all()


@pytest.mark.parametrize(("n_classes", "n_draws"), [(2, 4), (3, 2)])
def test_counts_of_small_bags_make_better_classifiers(n_classes, n_draws):
    """Rings that only kernels tell apart, in shuffled bags of 5, means of several draws."""
    radii, gains = ([1.4], [1.0, 2.6])[n_classes - 2], []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(800, 2))
        labels = np.searchsorted(radii, (X**2).sum(axis=1))
        bag = np.repeat(np.arange(80), 5)
        shares = np.stack([np.bincount(bag, labels[:400] == c) / 5 for c in range(n_classes)])
        y = bag_target(bag, shares.T[bag] if n_classes > 2 else shares[1, bag])
        found = []
        for objective in ("forward", "likelihood"):
            model = LLPKernelClassifierCV((1e-2, 1e-3, 1e-4), cv=3, objective=objective)
            model.fit(X[:400], y)
            found.append(
                roc_auc_score(
                    labels[400:],
                    model.predict_proba(X[400:])[:, 1 if n_classes == 2 else slice(None)],
                    multi_class="ovr",
                )
            )
        gains.append(found[1] - found[0])
    assert np.mean(gains) > 0.005


# --- devices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["likelihood", "forward"])
def test_torch_on_the_processor_gives_the_same(objective):
    pytest.importorskip("torch")
    here, there = (
        LLPKernelClassifierCV(
            (1e-2, 1e-4), cv=3, objective=objective, precision="double", tol=1e-6, device=device
        )
        for device in (None, "cpu")
    )
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
        LLPKernelClassifier(device="abacus").fit(DATA.X, DATA.y)
