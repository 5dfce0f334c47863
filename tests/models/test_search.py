"""The batched search against the same problems solved one by one."""

import numpy as np
import pytest

from unbag import (
    BagKFold,
    BagShuffleSplit,
    LLPKernelClassifier,
    LLPKernelClassifierCV,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
    check_bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.bag_effects import dispersion_of_scores
from unbag.models.training import choose, choose_with_prior
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.forward import ForwardLikelihood

# more than a few bags
DATA = make_gaussian_bags(n_bags=40, bag_size=20, n_features=3, random_state=0)
ALPHAS = [1.0, 0.1, 0.01, 0.001]
EXACT_KERNEL = {"precision": "double", "gamma": 0.3}  # "scale" would differ from fold to fold
PAIRS_OF_MODELS = [
    (LLPLinearClassifierCV, LLPLinearClassifier, {}),
    (LLPLinearClassifierCV, LLPLinearClassifier, {"objective": "forward"}),
    (LLPKernelClassifierCV, LLPKernelClassifier, EXACT_KERNEL),
]


def criteria(model, y, scores):
    """What a model's search goes by, from scratch."""
    bags = check_bag_target(y)
    shares = bags.sizes @ bags.proportions / bags.n_instances
    at_shares = scores + np.log(shares[1] / shares[0])
    included, zero = np.ones(bags.n_bags, dtype=bool), np.zeros(1, dtype=int)
    used = [CountLikelihood, ForwardLikelihood][model.objective_ == "forward" :]
    return [kind(included, bags).value(at_shares[None, None], zero)[0] for kind in used]


def best_of(risks):
    """Number of the penalty (the columns) of which fewest others are better, over all criteria."""
    better = [[sum(other < own for other in line) for own in line] for line in risks]
    return int(np.argmin(np.sum(better, axis=0)))


@pytest.mark.parametrize(("search", "single", "settings"), PAIRS_OF_MODELS)
def test_batched_search_equals_fits_one_by_one(search, single, settings):
    settings = {**settings, "bag_effect": 0, "tol": 1e-9}
    model = search(ALPHAS, **settings).fit(DATA.X, DATA.y)
    held_out = np.empty((len(ALPHAS), len(DATA.y)))
    for train, test in BagKFold(5).split(DATA.X, DATA.y):
        for number, alpha in enumerate(ALPHAS):
            fold = single(alpha, **settings).fit(DATA.X[train], DATA.y[train])
            held_out[number, test] = fold.decision_function(DATA.X[test])
    best = ALPHAS.index(model.alpha_)
    np.testing.assert_allclose(model.out_of_fold_scores_, held_out[best], atol=1e-6)
    again = single(model.alpha_, **settings).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        model.decision_function(DATA.X), again.decision_function(DATA.X), atol=1e-6
    )
    risks = np.transpose([criteria(model, DATA.y, scores) for scores in held_out])
    assert best == best_of(risks)
    np.testing.assert_allclose(model.selection_risks_, np.squeeze(risks), atol=1e-6)


@pytest.mark.parametrize(("search", "single", "settings"), PAIRS_OF_MODELS)
def test_selection_by_folds_is_the_mean_over_folds(search, single, settings):
    settings = {**settings, "tol": 1e-9, "bag_effect": 0}
    model = search(ALPHAS, selection="folds", **settings).fit(DATA.X, DATA.y)
    risks = []
    for train, test in BagKFold(5).split(DATA.X, DATA.y):
        fits = [single(alpha, **settings).fit(DATA.X[train], DATA.y[train]) for alpha in ALPHAS]
        found = [criteria(model, DATA.y[test], m.decision_function(DATA.X[test])) for m in fits]
        risks.append(np.transpose(found))
    risks = np.swapaxes(risks, 0, 1)
    np.testing.assert_allclose(model.selection_risks_, np.squeeze(risks), atol=1e-6)
    assert model.alpha_ == ALPHAS[best_of(risks.mean(axis=1))]


@pytest.mark.parametrize(
    ("risks", "best"),
    [
        ([[3.0, 1.0, 2.0]], 1),
        ([[1.0, 1.0, 2.0]], 0),
        # third and first, second and third, first and second
        ([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]], 2),
        # first and second, second and first: the stronger one
        ([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]], 0),
        # by the means over two folds, (2, 1.5) and (2, 3)
        ([[[3.0, 1.0], [1.0, 2.0]], [[2.0, 3.0], [2.0, 3.0]]], 0),
        ([[[3.0, 1.0], [1.0, 2.0]]], 1),
    ],
)
def test_criteria_choose_by_the_sum_of_their_ranks(risks, best):
    assert choose(np.array(risks)) == best


def test_of_penalties_that_a_solver_may_confuse_the_strongest_is_chosen():
    """Ten times its tolerance is what it may be off, as a share of the gain over the strongest."""
    risks = np.array([[3.0, 1.05, 1.0, 1.2], [2.0, 1.0, 1.04, 1.0]])
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, size=(50, 2, 4))
    assert {choose(risks + one, tol=0.008) for one in noise} == {1}
    assert {choose(risks[:1] + 5 * one[:1]) for one in noise} == {1, 2}
    assert choose(risks[:1], tol=0.002) == 2
    # nothing is gained over the strongest
    assert choose(risks[:, ::-1][:, :2], tol=1.0) == 0


def test_a_search_knows_the_tolerance_of_its_solver():
    """A careless one leaves it at a penalty that is worse by both criteria, by a little."""
    careful, careless = (
        LLPLinearClassifierCV(ALPHAS, tol=tol).fit(DATA.X, DATA.y) for tol in (1e-4, 0.05)
    )
    assert (careful.alpha_, careless.alpha_) == (0.001, 0.01)
    risks = careless.selection_risks_
    assert (risks[:, 3] < risks[:, 2]).all()
    assert (risks[:, 2] - risks[:, 3] < 0.5 * (risks[:, 0] - risks[:, 3])).all()


FEW = make_gaussian_bags(n_bags=12, bag_size=20, n_features=3, random_state=1)


def likely_spread(alphas, n, variance):
    """Half the square of how far log₁₀ τ² is from that of τ = 1.2, in quarters of a decade."""
    return 0.5 * (4 * np.log10(variance / (2 * n * np.asarray(alphas)) / 1.44)) ** 2


def kernel_variance(X, gamma):
    return 1 - np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2)).mean()


def test_what_is_known_beforehand_outweighs_what_varies_more_than_by_chance():
    risks = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 6.0]])
    prior = np.array([0.0, 3.0, 1.0])
    # means of 2, 1 and 4 with 0, 3 and 1
    assert choose_with_prior(risks / 0.1, prior, 1.0) == 1
    assert choose_with_prior(risks / 0.1, prior, 10.0) == 0
    # counts that vary less than by chance tell no more for that
    assert choose_with_prior(risks, prior, 0.1) == choose_with_prior(risks, prior, 1.0) == 0
    with pytest.raises(FloatingPointError, match="not finite"):
        choose_with_prior(risks * np.inf, prior, 1.0)


def unlike_bags(n_bags, size):
    """Bags whose shares differ by more than chance, and features that tell little of it."""
    rng = np.random.default_rng(3)
    share = np.repeat(rng.uniform(0.2, 0.8, n_bags), size)
    labels = rng.random(n_bags * size) < share
    X = rng.normal(size=(n_bags * size, 3)) + labels[:, None] * [0.6, 0.0, 0.0]
    X += np.repeat(rng.normal(size=(n_bags, 3)), size, axis=0)
    bag = np.repeat(np.arange(n_bags), size)
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag].astype(int))


CASES = {
    "kernel": (LLPKernelClassifierCV, EXACT_KERNEL, (FEW.X, FEW.y)),
    "linear": (LLPLinearClassifierCV, {}, (FEW.X, FEW.y)),
    "linear, large bags": (LLPLinearClassifierCV, {}, unlike_bags(6, 400)),
}


@pytest.mark.parametrize("selection", ["pooled", "folds"])
@pytest.mark.parametrize("case", CASES)
def test_few_bags_choose_by_likelihood_and_the_usual_spread_of_scores(case, selection):
    search, settings, (X, y) = CASES[case]
    folds = 3 if selection == "folds" else 4
    settings = {**settings, "selection": selection, "cv": folds, "bag_effect": 0, "tol": 1e-6}
    alphas = np.logspace(0, -5, 21)
    model = search(alphas, **settings).fit(X, y)
    risks = model.selection_risks_
    variance = kernel_variance(X, 0.3) if case == "kernel" else X.var(axis=0).sum()
    known = likely_spread(alphas, len(X), variance)
    by_ranks = search([alphas[choose(risks, model.tol)]], **settings).fit(X, y)
    bags, scores = check_bag_target(y), by_ranks.out_of_fold_scores_[None]
    dispersion = max(1.0, dispersion_of_scores(bags, scores, model.class_prior_))
    likelihood = (risks if selection == "pooled" else risks.mean(axis=1)).mean(axis=0)
    total = len(X) * likelihood / dispersion + known
    assert model.alpha_ == pytest.approx(alphas[total.argmin()])
    # neither of the two alone would choose the same
    assert alphas[likelihood.argmin()] != pytest.approx(model.alpha_)
    assert alphas[known.argmin()] != pytest.approx(model.alpha_)
    assert (dispersion > 5) == (case == "linear, large bags")


def test_many_bags_choose_by_what_is_held_out():
    many = LLPLinearClassifierCV().fit(*unlike_bags(33, 20))
    assert many.alpha_ == many.alphas_[choose(many.selection_risks_, many.tol)]


@pytest.mark.parametrize("scale", [1e-4, 1e4, [30, 1, 1], [0, 0, 0]])
def test_few_bags_of_features_on_another_scale_choose_by_what_is_held_out(scale):
    """No penalty is near the one that the usual spread of scores belongs to, or it is one column's.

    Nor do functions vary of columns that do not.
    """
    model = LLPLinearClassifierCV().fit(np.multiply(FEW.X, scale), FEW.y)
    assert model.alpha_ == model.alphas_[choose(model.selection_risks_, model.tol)]


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "precomputed", "precision": "double"},
        {**EXACT_KERNEL, "approximation": "nystroem", "n_components": 240},
    ],
)
def test_few_bags_choose_the_same_however_the_kernel_is_given(settings):
    model = LLPKernelClassifierCV(**EXACT_KERNEL).fit(FEW.X, FEW.y)
    X = model.kernel_.matrix(FEW.X, np.float64) if "kernel" in settings else FEW.X
    assert LLPKernelClassifierCV(**settings).fit(X, FEW.y).alpha_ == model.alpha_


def test_folds_of_few_bags_know_the_usual_spread_of_scores():
    """The penalty of a fold is chosen by the bags of the others, and the same prior."""
    model = LLPKernelClassifierCV(store_folds=True, cv=4, bag_effect=0, **EXACT_KERNEL)
    model.fit(FEW.X, FEW.y)
    first = model.folds_.fold == 0
    every = [
        LLPKernelClassifier(alpha, bag_effect=0, **EXACT_KERNEL).fit(FEW.X[~first], FEW.y[~first])
        for alpha in model.alphas_
    ]
    apart = [np.abs(fit.decision_function(FEW.X) - model.folds_.scores[0]).max() for fit in every]
    known = likely_spread(model.alphas_, len(FEW.X), kernel_variance(FEW.X, 0.3))
    assert min(apart) < 0.01
    assert known[int(np.argmin(apart))] < 8


@pytest.mark.parametrize("objective", ["forward"])
def test_other_objectives_of_few_bags_choose_by_what_is_held_out(objective):
    model = LLPKernelClassifierCV(objective=objective, **EXACT_KERNEL).fit(FEW.X, FEW.y)
    assert model.alpha_ == model.alphas_[model.selection_risks_.argmin()]


def test_few_bags_of_equal_rows_choose_by_what_is_held_out():
    """Functions do not vary over such rows, whatever the penalty."""
    model = LLPKernelClassifierCV(**EXACT_KERNEL).fit(np.ones_like(FEW.X), FEW.y)
    assert model.alpha_ == model.alphas_[choose(model.selection_risks_, model.tol)]


def test_a_criterion_that_is_not_finite_is_said():
    with pytest.raises(FloatingPointError, match="not finite for every alpha"):
        choose(np.array([[1.0, np.nan]]))


def test_a_fold_of_equal_proportions_is_said_and_left_out_for_every_alpha():
    bag = np.repeat(np.arange(12), 10)
    proportion = np.repeat([0.2] * 6 + [0.8] * 6, 10)
    y = bag_target(bag, proportion)
    X = np.random.default_rng(0).normal(size=(120, 2)) + proportion[:, None]
    fold = [[0, 1], [2, 6], [3, 7], [4, 8, 10], [5, 9, 11]]
    splits = [(np.flatnonzero(~np.isin(bag, f)), np.flatnonzero(np.isin(bag, f))) for f in fold]
    with pytest.warns(UserWarning, match=r"of fold \[1\] all"):
        model = LLPLinearClassifierCV(cv=splits, selection="folds").fit(X, y)
    # by the count and the forward likelihood
    assert model.selection_risks_.shape == (2, 4, 11)
    pooled = LLPLinearClassifierCV(cv=splits).fit(X, y)
    assert np.isfinite(pooled.selection_risks_).all()


def test_shuffle_split_goes_with_folds_only():
    cv = BagShuffleSplit(4, random_state=0)
    model = LLPLinearClassifierCV(cv=cv, selection="folds").fit(DATA.X, DATA.y)
    assert model.out_of_fold_scores_ is None
    with pytest.raises(ValueError, match="every bag exactly once"):
        LLPLinearClassifierCV(cv=cv).fit(DATA.X, DATA.y)


def test_a_cv_that_cuts_bags_is_refused():
    from sklearn.model_selection import KFold

    with pytest.raises(ValueError, match="holds out part of bag"):
        LLPLinearClassifierCV(cv=KFold(5, shuffle=True, random_state=0)).fit(DATA.X, DATA.y)


def test_too_few_bags_for_the_folds_is_said():
    few = DATA.y["bag"] < 2
    with pytest.raises(ValueError, match="Fold 1 of 2 cannot be trained: There is only one bag"):
        LLPLinearClassifierCV(cv=2).fit(DATA.X[few], DATA.y[few])


@pytest.mark.parametrize("alphas", [[], [0.1, 0.0], [np.nan], "many"])
def test_wrong_alphas_are_named(alphas):
    with pytest.raises(ValueError, match="alphas must be a list of positive numbers"):
        LLPLinearClassifierCV(alphas).fit(DATA.X, DATA.y)


def test_unknown_selection_is_named():
    with pytest.raises(ValueError, match="selection must be"):
        LLPLinearClassifierCV(selection="best").fit(DATA.X, DATA.y)


def test_plain_labels_are_searched_over_stratified_rows():
    model = LLPLinearClassifierCV().fit(DATA.X, DATA.labels)
    assert model.out_of_fold_scores_.shape == (800,)
    assert ((model.out_of_fold_scores_ > 0) == DATA.labels).mean() > 0.8


def test_progress_bar_goes_to_standard_error(terminal):
    LLPLinearClassifierCV(verbose=1).fit(DATA.X, DATA.y)
    captured = terminal.readouterr()
    assert captured.out == ""
    assert "66/66" in captured.err
