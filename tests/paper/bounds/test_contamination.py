"""Contamination models: exact risks on few points as oracle, and draws under every model."""

import time

import numpy as np
import pytest
from scipy.stats import norm

from unbag import bag_target, check_bag_target
from unbag.observations.losses import LOSSES, SoftmaxLoss
from unbag.paper.bounds import sample_bags, unbiased_loss
from unbag.paper.bounds.contamination import MultiMCM, unbiased_coefficients
from unbag.paper.bounds.generalization import generalization_bound
from unbag.paper.bounds.losses import convexity_condition
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.weights import bag_weights, blockwise_max, blockwise_pairwise, pair_bags

MODELS = ["IIM", "IBM", "CIIM", "CIBM", "CIBM'"]
KAPPAS = [(0.0, 0.0), (0.3, 0.0), (0.1, 0.35), (0.7, 0.1), (0.45, 0.45)]
# scores of a classifier are the instances themselves
POSITIVES = np.array([-1.0, 0.2, 0.7, 1.5, 3.0])
NEGATIVES = np.array([-2.0, -0.4, 0.3, 0.9])

every_loss = pytest.mark.parametrize("loss", LOSSES)
every_model = pytest.mark.parametrize("model", MODELS)


def clean_risk(loss):
    value = LOSSES[loss].value
    return 0.5 * value(POSITIVES).mean() + 0.5 * value(-NEGATIVES).mean()


def contaminated_risk(corrected, plus, minus):
    """½ E[ℓ̃₊] + ½ E[ℓ̃₋] under the contaminated distributions, exactly."""
    above = (1 - plus) * corrected(POSITIVES, 1).mean() + plus * corrected(NEGATIVES, 1).mean()
    below = (1 - minus) * corrected(NEGATIVES, -1).mean() + minus * corrected(POSITIVES, -1).mean()
    return (above + below) / 2


def assert_mean(values, expected, sigmas=4.5):
    """The mean of independent draws is what it should be, up to random variation."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - expected) < sigmas * error


# --- the unbiased loss --------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("kappa", KAPPAS)
def test_unbiased_loss_has_the_clean_risk(loss, kappa):
    corrected = unbiased_loss(loss, *kappa)
    assert contaminated_risk(corrected, *kappa) == pytest.approx(clean_risk(loss))


def system(loss, plus, minus):
    """Linear equations for the coefficients of ℓ₋, ℓ₊ in ℓ̃₋ and ℓ̃₊, from all point masses.

    With P₊ at s and P₋ at t the contaminated risk of ℓ̃ must be ½ ℓ₊(s) + ½ ℓ₋(t).
    """
    grid = np.linspace(-3, 3, 13)
    s, t = (points.ravel() for points in np.meshgrid(grid, grid))
    value = LOSSES[loss].value
    at_s, at_t = (np.column_stack([value(-x), value(x)]) for x in (s, t))
    below = minus * at_s + (1 - minus) * at_t
    above = (1 - plus) * at_s + plus * at_t
    return np.hstack([below, above]), at_s[:, 1] + at_t[:, 0]


@every_loss
@pytest.mark.parametrize("kappa", KAPPAS)
def test_no_other_combination_of_the_two_losses_is_unbiased(loss, kappa):
    equations, right = system(loss, *kappa)
    found = unbiased_coefficients(*kappa).ravel()
    np.testing.assert_allclose(equations @ found, right, atol=1e-9)
    # a symmetric loss can make a constant, and move it from one side to the other
    unique = 3 if LOSSES[loss].symmetric else 4
    assert np.linalg.matrix_rank(equations, tol=1e-8) == unique
    if unique == 4:
        solved = np.linalg.lstsq(equations, right, rcond=None)[0]
        np.testing.assert_allclose(solved, found, atol=1e-7)


@pytest.mark.parametrize("plus", [0.2, 0.5])
def test_without_contrast_there_is_no_unbiased_loss(plus):
    equations, right = system("logistic", plus, 1 - plus)
    assert np.linalg.matrix_rank(equations, tol=1e-8) == 2
    nearest = np.linalg.lstsq(equations, right, rcond=None)[0]
    assert np.abs(equations @ nearest - right).max() > 0.1


def test_any_unbiased_loss_is_that_one_up_to_a_constant():
    """Solve for the values of ℓ̃ at some scores, whatever function it is."""
    t = np.linspace(-2, 2, 6)
    s, u = (grid.ravel() for grid in np.meshgrid(np.arange(6), np.arange(6)))
    one, (plus, minus) = np.eye(6), (0.3, 0.2)
    above = (1 - plus) * one[s] + plus * one[u]
    below = minus * one[s] + (1 - minus) * one[u]
    equations = np.hstack([above, below])
    right = LOSSES["logistic"].value(t[s]) + LOSSES["logistic"].value(-t[u])
    corrected = unbiased_loss("logistic", plus, minus)
    found = np.concatenate([corrected(t, 1), corrected(t, -1)])
    np.testing.assert_allclose(equations @ found, right)
    assert np.linalg.matrix_rank(equations) == 11
    shift = np.repeat([1.0, -1.0], 6)
    np.testing.assert_allclose(equations @ (found + 0.7 * shift), right)


def test_coefficients_and_loss_agree_for_arrays():
    plus, minus = np.transpose(KAPPAS)
    t = np.array([-1.3, 0.0, 0.4, 2.0, 5.0])
    value = LOSSES["logistic"].value
    both = np.stack([value(-t), value(t)])
    expected = np.einsum("isc,ci->si", unbiased_coefficients(plus, minus), both)
    corrected = unbiased_loss("logistic", plus, minus)
    np.testing.assert_allclose(corrected(t, np.array([[-1], [1]])), expected)


# --- many models --------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize(("bag_model", "weights"), [("instances", "IIM"), ("bags", "IBM")])
def test_risk_of_pairs_is_the_corrected_risk(loss, bag_model, weights):
    rng = np.random.RandomState(0)
    sizes = rng.randint(2, 12, 31)
    sample = sample_bags(rng.uniform(size=31), sizes, norm(1).rvs, norm(-1).rvs, random_state=1)
    bags = check_bag_target(bag_target(sample.bag, sample.true_proportions[sample.bag]))
    W = bag_weights(bags, method="pairs", bag_model=bag_model)
    risk = CorrectedRisk(W, bags, LOSSES[loss], np.array([0.5, 0.5]), correction="none")
    expected = risk.value(sample.X[None, None], np.array([0]))[0]

    pairing = pair_bags(sample.true_proportions, bags.draws(bag_model))
    models = MultiMCM.from_pairs(pairing, sample.true_proportions, sizes, weights=weights)
    assert len(models.weights) == 15
    number = np.full(31, -1)
    number[pairing.positive], number[pairing.negative] = np.arange(15), np.arange(15, 30)
    kept = number[sample.bag] >= 0
    found = models.risk(loss, sample.X[kept], number[sample.bag][kept])
    assert found == pytest.approx(expected, rel=1e-9)


def test_risk_is_the_weighted_mean_of_the_unbiased_losses_written_out():
    models = MultiMCM([0.1, 0.4], [0.2, 0.5], sizes_plus=[3, 5], sizes_minus=[4, 2])
    sample = sample_bags(
        models.proportions, models.sizes, norm(1).rvs, norm(-1).rvs, random_state=0
    )
    expected = 0.0
    for i in range(2):
        corrected = unbiased_loss("huber", models.kappa_plus[i], models.kappa_minus[i])
        above = corrected(sample.X[sample.bag == i], 1).mean()
        below = corrected(sample.X[sample.bag == 2 + i], -1).mean()
        expected += models.weights[i] * (above + below) / 2
    assert models.risk("huber", sample.X, sample.bag) == pytest.approx(expected)


def test_weights_are_those_of_the_bound():
    models = MultiMCM([0.1, 0.4], [0.2, 0.3], sizes_plus=[100, 10], sizes_minus=[100, 30])
    np.testing.assert_allclose(models.weights[1] / models.weights[0], 15 * 0.09 / (100 * 0.49))
    bound = generalization_bound(models, "logistic", A=1.0, B=1.0, delta=0.05)
    np.testing.assert_allclose(bound.optimal_weights, models.weights)
    assert bound.with_uniform_weights > bound.value
    uniform = MultiMCM([0.1, 0.4], [0.2, 0.3], weights="uniform")
    np.testing.assert_array_equal(uniform.weights, 0.5)
    by_bags = MultiMCM([0.1, 0.4], [0.2, 0.3], sizes_plus=[100, 10], weights="IBM")
    np.testing.assert_allclose(by_bags.weights, np.array([0.49, 0.09]) / 0.58)


@every_model
def test_estimated_risk_is_unbiased_under_every_model(model):
    n_draws, n_models = 4000, len(KAPPAS)
    plus, minus = np.tile(np.transpose(KAPPAS), n_draws)
    sizes = np.tile([2, 3, 7, 4, 5], n_draws)
    models = MultiMCM(plus, minus, sizes_plus=sizes, sizes_minus=sizes[::-1])
    sample = sample_bags(
        models.proportions, models.sizes, POSITIVES, NEGATIVES, model=model, random_state=0
    )
    risks = models.pair_risks("logistic", sample.X, sample.bag).reshape(n_draws, n_models)
    one = models.weights[:n_models] / models.weights[:n_models].sum()
    expected = clean_risk("logistic")
    assert_mean(risks @ one, expected)
    for risk in risks.T:
        assert_mean(risk, expected)


@every_model
@pytest.mark.parametrize("merge", [blockwise_pairwise, blockwise_max])
def test_merged_risk_with_observed_proportions_is_unbiased(model, merge):
    """Ẽ, with the sums of large bags divided by 2nK (by 2n it would be K times as large).

    IIM and IBM say nothing about labels; those drawn here are such that each instance comes from
    its class given all labels of the bag, which is what it takes.
    """
    n_draws, n_blocks, K, n = 1500, 2, 4, 3
    rng = np.random.RandomState(0)
    gamma = rng.uniform(0.3, 0.6, 2 * K * n_blocks * n_draws)
    sample = sample_bags(gamma, n, POSITIVES, NEGATIVES, model=model, random_state=1)
    merged = merge(check_bag_target(sample.target()), K)
    assert set(merged.bags.sizes) == {n * K}
    pairs, share = merged.pairing, merged.bags.proportions[:, 1]
    models = MultiMCM.from_pairs(pairs, share, merged.bags.sizes)
    number = np.full(merged.bags.n_bags, -1)
    number[pairs.positive] = np.arange(len(pairs))
    number[pairs.negative] = len(pairs) + np.arange(len(pairs))
    bag = number[merged.bags.index]
    risks = models.pair_risks("logistic", sample.X[bag >= 0], bag[bag >= 0])
    # a block without contrast, which has no weight, is left out; others take its place
    use = len(pairs) // n_blocks * n_blocks
    assert use > 0.9 * n_draws * n_blocks
    weights = (models.contrast[:use] ** 2).reshape(-1, n_blocks)
    merged_risk = np.sum(weights * risks[:use].reshape(-1, n_blocks), axis=1) / weights.sum(axis=1)
    assert_mean(merged_risk, clean_risk("logistic"))


def test_hundred_thousand_pairs_take_little_time():
    rng = np.random.RandomState(0)
    minus = rng.uniform(0, 0.5, 100_000)
    begin = time.process_time()
    models = MultiMCM(rng.uniform(0, 0.49, 100_000), minus, sizes_plus=2, sizes_minus=2)
    sample = sample_bags(
        models.proportions, models.sizes, norm(1).rvs, norm(-1).rvs, model="CIBM", random_state=0
    )
    models.risk("logistic", sample.X, sample.bag)
    convexity_condition("logistic", models.kappa_plus, models.kappa_minus)
    assert time.process_time() - begin < 2


# --- sampling models ----------------------------------------------------------------------------


def draw(model, n_bags=20_000, size=4, gamma=0.3, **options):
    """Labels and instances of many bags, one row for each bag."""
    sample = sample_bags(
        np.full(n_bags, gamma), size, norm(2).rvs, norm(-1).rvs, model=model, random_state=0,
        **options,
    )  # fmt: skip
    return sample.labels.reshape(n_bags, size), sample.X.reshape(n_bags, size)


def correlation(first, second):
    return np.corrcoef(first, second)[0, 1]


@every_model
def test_single_instances_come_from_the_mixture_and_from_their_class(model):
    labels, X = draw(model)
    share = labels.mean(axis=0)
    if model == "CIBM":
        # right on average over the bag, but not one by one
        assert share[0] > 0.4
        assert share[-1] < 0.2
    else:
        assert np.abs(share - 0.3).max() < 0.015
        assert np.abs(X.mean(axis=0) - (0.3 * 2 - 0.7)).max() < 0.05
    assert_mean(labels.mean(axis=1), 0.3)
    for j in range(4):
        assert_mean(X[labels[:, j] == 1, j], 2)
        assert_mean(X[labels[:, j] == 0, j], -1)
    # given all labels of the bag as well
    two = labels.sum(axis=1) == 2
    assert_mean(np.mean(X[two], axis=1, where=labels[two] == 1), 2)
    assert_mean(np.mean(X[two], axis=1, where=labels[two] == 0), -1)


@every_model
def test_instances_of_a_bag_depend_and_bags_do_not(model):
    labels, X = draw(model)
    inside = correlation(X[:, 0] - 3 * labels[:, 0], X[:, 1] - 3 * labels[:, 1])
    of_labels = correlation(labels[:, 0], labels[:, 1])
    assert abs(correlation(X[1:, 0], X[:-1, 1])) < 0.03
    if model in ("IIM", "CIIM"):
        assert abs(inside) < 0.03
        assert abs(of_labels) < 0.03
    else:
        assert inside > 0.3
        assert of_labels == pytest.approx(0.5, abs=0.03) or model == "CIBM"


def test_full_dependence_makes_a_bag_one_instance():
    labels, X = draw("IBM", n_bags=50, dependence=1.0)
    assert (np.ptp(X, axis=1) == 0).all()
    assert (np.ptp(labels, axis=1) == 0).all()
    assert np.ptp(X) > 1
    labels, X = draw("CIBM'", n_bags=50, dependence=1.0)
    assert (np.ptp(X, axis=1) == 0).all()


def test_conditional_bag_model_sorts_labels_and_keeps_their_number():
    labels, _ = draw("CIBM", n_bags=500)
    assert (np.diff(labels, axis=1) <= 0).all()
    unsorted, _ = draw("CIBM'", n_bags=500)
    np.testing.assert_array_equal(labels.sum(axis=1), unsorted.sum(axis=1))


def test_targets_hold_observed_proportions():
    sample = sample_bags([0.2, 0.6], [4, 6], np.eye(3), np.zeros((2, 3)), random_state=3)
    assert sample.X.shape == (10, 3)
    observed = sample.target()
    counts = np.add.reduceat(sample.X.any(axis=1), [0, 4])
    np.testing.assert_allclose(observed["proportion"][[0, 4]], counts / [4, 6])


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiMCM([0.1, 0.6], [0.2, 0.4]), r"κ⁺ \+ κ⁻ < 1 fails.*sum is 1 for pair 1"),
        (lambda: MultiMCM([0.1, 0.2], [0.2, -0.1]), r"κ⁻ ≥ 0 fails.*-0.1 for pair 1"),
        (lambda: MultiMCM([np.nan], [0.2]), "κ⁺ ≥ 0 fails"),
        (lambda: unbiased_loss("hinge", 0.5, 0.5), r"κ⁺ \+ κ⁻ < 1 fails: the sum is 1\."),
        (lambda: unbiased_coefficients(0.7, 0.4), r"κ⁺ \+ κ⁻ < 1 fails: the sum is 1.1\."),
        (lambda: MultiMCM(0.1, 0.2), "one-dimensional"),
        (lambda: MultiMCM([0.1], [0.2], weights=[0.9]), "Σ w = 1 fails: the weights sum to 0.9"),
        (lambda: MultiMCM([0.1] * 2, [0.2] * 2, weights=[1.5, -0.5]), "w ≥ 0 fails.*for pair 1"),
        (lambda: MultiMCM([0.1], [0.2], weights=[0.5, 0.5]), "each of the 1 pairs"),
        (lambda: MultiMCM([0.1], [0.2], weights="best"), "'IIM', 'IBM', 'uniform'"),
        (lambda: MultiMCM([0.1], [0.2], sizes_plus=0), "sizes_plus must be whole numbers"),
        (lambda: MultiMCM([0.1], [0.2], sizes_minus=1.5), "sizes_minus must be whole numbers"),
        (lambda: MultiMCM([0.1], [0.2]).risk("logistic", [1.0], [0]), "Bag 1 should have 1"),
        (lambda: unbiased_loss("cubic", 0.1, 0.1), "loss must be one of 'logistic'"),
        (lambda: unbiased_loss(SoftmaxLoss(), 0.1, 0.1), "losses of two classes"),
        (lambda: unbiased_loss("hinge", 0.1, 0.1)(0.0, 0), "sign must be 1"),
        (lambda: sample_bags([0.5], 3, [1.0], [0.0], model="iid"), "one of 'IIM'"),
        (lambda: sample_bags([0.5], 3, [1.0], [0.0], dependence=0.1), "independent under"),
        (
            lambda: sample_bags([0.5], 3, [1.0], [0.0], model="IBM", dependence=2),
            r"must lie in \[0, 1\]",
        ),
        (lambda: sample_bags([0, 1.5], 3, [1.0], [0.0]), "0 ≤ γ ≤ 1 fails.*1.5 for bag 1"),
        (lambda: sample_bags([[0.5]], 3, [1.0], [0.0]), "one number for each bag"),
        (lambda: sample_bags([0.5], [3, 4], [1.0], [0.0]), "sizes must be whole numbers"),
        (lambda: sample_bags([0.5], 3, [], [0.0]), "positives must hold at least one row"),
        (lambda: sample_bags([0.5], 3, np.eye(2), [0.0]), "the same features"),
        (lambda: sample_bags([1.0], 3, lambda _n, _rng: [1.0], [0.0]), "positives was asked for"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
