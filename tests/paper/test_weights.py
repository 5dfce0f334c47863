"""Decontamination weights: the algebra of W as properties, and the paper's Ê_w as a loop."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unbag import bag_target, check_bag_target
from unbag.observations.losses import LOSSES
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.weights import MERGERS, bag_weights, pair_bags, pair_weights
from unbag.weights import decontamination_weights

METHODS = ["least_squares", "pairs"]
BAG_MODELS = ["instances", "bags"]

both_methods = pytest.mark.parametrize("method", METHODS)
both_models = pytest.mark.parametrize("bag_model", BAG_MODELS)


def make_bags(counts, labels=()):
    """Bags that hold so many instances of each class, and rows of known label behind them."""
    counts = np.asarray(counts)
    sizes = counts.sum(axis=1)
    given_counts = counts[:, 1] if counts.shape[1] == 2 else counts
    bag = [*np.repeat(np.arange(len(sizes)), sizes), *[np.nan] * len(labels)]
    known = [*[np.nan] * int(sizes.sum()), *labels]
    y = bag_target(bag, counts=dict(enumerate(given_counts)), labels=known)
    return check_bag_target(y)


@st.composite
def any_bags(draw, max_classes=2):
    """Bags of unequal sizes, some of a single row, often with rows of known label."""
    n_classes = draw(st.integers(2, max_classes))
    n_bags = draw(st.integers(n_classes, 8))
    cell = st.integers(0, 8)
    row = st.lists(cell, min_size=n_classes, max_size=n_classes).filter(any)
    counts = draw(st.lists(row, min_size=n_bags, max_size=n_bags))
    labels = draw(st.lists(st.integers(0, n_classes - 1), max_size=4))
    bags = make_bags(counts, labels)
    assume(bags.n_bags >= n_classes)
    centred = bags.proportions - bags.proportions.mean(axis=0)
    assume(np.linalg.svd(centred, compute_uv=False)[n_classes - 2] > 0.02)
    return bags


def draws(bags, bag_model):
    """Independent draws in each bag, written out: rows of known label count one by one."""
    return [
        float(n) if bag_model == "instances" or known else 1.0
        for n, known in zip(bags.sizes, bags.labelled, strict=True)
    ]


def variance(W, n):
    """Σ W²/n, for every class."""
    return np.sum(W**2 / np.asarray(n)[:, None], axis=0)


def assert_unbiased(W, bags):
    assert W.shape == (bags.n_bags, bags.n_classes)
    np.testing.assert_allclose(W.T @ bags.proportions, np.eye(bags.n_classes), atol=1e-9)


# --- unbiasedness -------------------------------------------------------------------------------


@both_models
@given(bags=any_bags(max_classes=4))
@settings(max_examples=60, deadline=None)
def test_decontamination_weights_single_out_every_class(bag_model, bags):
    assert_unbiased(decontamination_weights(bags, bag_model=bag_model), bags)


@both_models
@given(bags=any_bags())
@settings(max_examples=60, deadline=None)
def test_pair_weights_single_out_every_class(bag_model, bags):
    assert_unbiased(bag_weights(bags, method="pairs", bag_model=bag_model), bags)


@both_methods
@both_models
@pytest.mark.parametrize("merge", MERGERS)
@given(bags=any_bags(), merge_size=st.one_of(st.none(), st.integers(1, 4)))
@settings(max_examples=40, deadline=None)
def test_weights_of_merged_bags_single_out_every_class(method, bag_model, merge, bags, merge_size):
    assume((~bags.labelled).sum() >= 2)
    pairing = MERGERS[merge](bags, merge_size).pairing
    merged = MERGERS[merge](bags, merge_size).bags
    gap = merged.proportions[pairing.positive, 1] - merged.proportions[pairing.negative, 1]
    assume(gap.max(initial=0) > 0.02)
    W = bag_weights(bags, method=method, bag_model=bag_model, merge=merge, merge_size=merge_size)
    assert_unbiased(W, bags)


@pytest.mark.parametrize("merge", MERGERS)
@pytest.mark.parametrize("labels", [[], [0], [1, 1]])
def test_pairs_of_merged_bags_with_contrast_between_blocks_only(merge, labels):
    """Each block is of one mixture, but the bags do differ: W must be right or refused."""
    bags = make_bags([[8, 2], [8, 2], [2, 8], [2, 8]], labels)
    try:
        W = bag_weights(bags, method="pairs", merge=merge, merge_size=1)
    except ValueError:
        return
    assert_unbiased(W, bags)


@pytest.mark.parametrize("merge", MERGERS)
def test_pairs_of_merged_bags_do_not_live_on_rounding(merge):
    """Two blocks of one mixture each, whose large bags are equal up to the last digit."""
    sizes = np.array([21, 25, 38, 29, 26, 22, 23, 37])
    shares = np.repeat([0.8158535541215322, 0.002738500170148095], 4)
    bag = np.repeat(np.arange(8), sizes)
    bags = check_bag_target(bag_target(bag, shares[bag]))
    try:
        W = bag_weights(bags, method="pairs", merge=merge, merge_size=2)
    except ValueError:
        return
    assert_unbiased(W, bags)


# --- least variance -----------------------------------------------------------------------------


@both_models
@given(bags=any_bags(max_classes=4), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_unbiased_weights_have_less_variance_than_least_squares(bag_model, bags, seed):
    W = decontamination_weights(bags, bag_model)
    n = np.array(draws(bags, bag_model))
    G = bags.proportions
    # every other unbiased W differs by a matrix whose columns are orthogonal to those of G
    other = np.random.default_rng(seed).normal(size=W.shape)
    other -= G @ np.linalg.lstsq(G, other)[0]
    assert_unbiased(W + other, bags)
    least = variance(W, n)
    assert (variance(W + other, n) >= least * (1 - 1e-9)).all()
    # at the minimum the variances add up: no direction goes down
    np.testing.assert_allclose(
        variance(W + other, n), least + variance(other, n), rtol=1e-7, atol=1e-9
    )


@both_models
@given(bags=any_bags())
@settings(max_examples=60, deadline=None)
def test_pairs_never_have_less_variance_than_least_squares(bag_model, bags):
    n = draws(bags, bag_model)
    least = variance(decontamination_weights(bags, bag_model=bag_model), n)
    pairs = variance(bag_weights(bags, method="pairs", bag_model=bag_model), n)
    assert (pairs >= least * (1 - 1e-9)).all()


def test_pairs_can_have_less_variance_where_classes_vary_differently():
    """True positive rate of a classifier with rates .99 and .5: Σ W²/n is not its variance."""
    shares = (np.arange(400) + 0.5) / 400
    bags = check_bag_target(bag_target(np.arange(400), shares))
    inside = shares * 0.99 * 0.01 + (1 - shares) * 0.25
    rates = [
        np.sum(bag_weights(bags, method=method) ** 2 * inside[:, None], axis=0)
        for method in ("pairs", "least_squares")
    ]
    np.testing.assert_allclose(rates[0] / rates[1], [1.39, 0.685], atol=0.005)


@both_models
def test_least_squares_is_the_formula_of_weighted_regression(bag_model):
    bags = make_bags([[3, 1, 2], [0, 5, 1], [7, 0, 1], [2, 2, 9], [1, 1, 0]], labels=[0, 2, 2])
    N, G = np.diag(draws(bags, bag_model)), bags.proportions
    assert np.ptp(np.diag(N)) > 0
    expected = N @ G @ np.linalg.inv(G.T @ N @ G)
    np.testing.assert_allclose(decontamination_weights(bags, bag_model), expected, atol=1e-12)


def test_two_bags_leave_no_choice():
    bags = make_bags([[6, 2], [1, 9]])
    only = np.linalg.inv(bags.proportions).T
    for method in METHODS:
        for bag_model in BAG_MODELS:
            W = bag_weights(bags, method=method, bag_model=bag_model)
            np.testing.assert_allclose(W, only, atol=1e-12)


@both_models
def test_bag_model_says_whether_a_large_bag_counts_more(bag_model):
    bags = make_bags([[80, 20], [6, 4], [3, 7], [10, 90]])
    for method in METHODS:
        W = bag_weights(bags, method=method, bag_model=bag_model)
        same_sizes = make_bags([[80, 20], [60, 40], [30, 70], [10, 90]])
        equal = bag_weights(same_sizes, method=method, bag_model=bag_model)
        if bag_model == "bags":
            np.testing.assert_allclose(W, equal, atol=1e-12)
        else:
            assert (np.abs(W[[0, 3]]).sum(axis=0) > np.abs(equal[[0, 3]]).sum(axis=0)).all()


# --- the paper's estimator ----------------------------------------------------------------------


def naive_weighted_risk(loss, scores_of_bag, gamma, sizes, pairing, bag_model):
    """Ê_w(f) of section 2.2, with the weights of section 3.1, as a loop over pairs."""
    total, sum_of_weights = 0.0, 0.0
    for high, low in zip(pairing.positive, pairing.negative, strict=True):
        kappa_plus, kappa_minus = 1 - gamma[high], gamma[low]
        gap = 1 - kappa_minus - kappa_plus
        n = 2 / (1 / sizes[high] + 1 / sizes[low]) if bag_model == "instances" else 1
        weight = n * gap**2

        def corrected(t, side, kappa, gap=gap):
            return ((1 - kappa) * loss.value(side * t) - kappa * loss.value(-side * t)) / gap

        positive = np.mean([corrected(t, 1, kappa_minus) for t in scores_of_bag[high]])
        negative = np.mean([corrected(t, -1, kappa_plus) for t in scores_of_bag[low]])
        total += weight * (positive / 2 + negative / 2)
        sum_of_weights += weight
    return total / sum_of_weights


@both_models
@pytest.mark.parametrize("name", ["logistic", "hinge", "sigmoid", "zero_one"])
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_pair_weights_give_the_risk_of_the_paper(bag_model, name, data, seed):
    counts = data.draw(
        st.lists(
            st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=9, unique=True
        )
    )
    bags = make_bags(counts)
    gamma = bags.proportions[:, 1]
    assume(np.ptp(gamma) > 0.02)
    scores = np.random.default_rng(seed).normal(scale=2, size=bags.n_instances)
    # what pairs there are is the business of pair_bags, and of its own tests
    pairing = pair_bags(gamma, bags.sizes if bag_model == "instances" else np.ones(bags.n_bags))
    scores_of_bag = [scores[bags.index == i] for i in range(bags.n_bags)]
    expected = naive_weighted_risk(
        LOSSES[name], scores_of_bag, gamma, bags.sizes, pairing, bag_model
    )
    for W in (
        bag_weights(bags, method="pairs", bag_model=bag_model),
        pair_weights(bags, pairing, bag_model),
    ):
        risk = CorrectedRisk(W, bags, LOSSES[name], np.full(2, 0.5), "none")
        found = risk.value(scores[None, None], np.zeros(1, dtype=np.intp))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_pair_weights_stay_bounded_when_a_pair_hardly_differs():
    """A pair of nearly no contrast has a weight of nearly zero."""
    bag = np.repeat(np.arange(4), 10)
    for difference in (1e-3, 1e-8, 1e-15):
        share = np.array([0.5, 0.1, 0.9, 0.5 + difference])
        bags = check_bag_target(bag_target(bag, share[bag]))
        W = bag_weights(bags, method="pairs")
        assert_unbiased(W, bags)
        assert np.abs(W[[0, 3]]).max() <= difference


# --- what W does --------------------------------------------------------------------------------


@both_methods
@both_models
def test_on_labels_class_means_are_the_means_of_the_rows_of_each_class(method, bag_model):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 30)
    values = rng.normal(size=(3, 30))
    bags = check_bag_target(labels)
    W = bag_weights(bags, method=method, bag_model=bag_model)
    np.testing.assert_allclose(W, np.eye(2), atol=1e-12)
    expected = np.column_stack([values[:, labels == c].mean(axis=1) for c in (0, 1)])
    np.testing.assert_allclose(bags.means(values) @ W, expected, atol=1e-12)


@st.composite
def pure_bags(draw, smallest):
    """Bags of one class each, and a value for every row."""
    n_classes = draw(st.integers(2, 4))
    sizes = draw(st.lists(st.integers(smallest, 9), min_size=4, max_size=10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    of_bag = rng.permutation(np.arange(len(sizes)) % n_classes)
    bags = make_bags(np.eye(n_classes, dtype=int)[of_bag] * np.array(sizes)[:, None])
    return bags, rng.normal(size=sum(sizes))


@given(pure=pure_bags(smallest=1))
@settings(max_examples=40, deadline=None)
def test_on_pure_bags_least_squares_pools_the_rows_of_each_class(pure):
    bags, values = pure
    label = bags.proportions.argmax(axis=1)[bags.index]
    expected = [values[label == c].mean() for c in range(bags.n_classes)]
    W = decontamination_weights(bags)
    np.testing.assert_allclose(bags.means(values) @ W, expected, atol=1e-12)


@given(pure=pure_bags(smallest=2))
@settings(max_examples=40, deadline=None)
def test_on_pure_bags_the_bag_model_averages_the_bag_means_of_each_class(pure):
    bags, values = pure
    of_bag = bags.proportions.argmax(axis=1)
    means = np.array([values[bags.index == i].mean() for i in range(bags.n_bags)])
    expected = [means[of_bag == c].mean() for c in range(bags.n_classes)]
    W = decontamination_weights(bags, bag_model="bags")
    np.testing.assert_allclose(bags.means(values) @ W, expected, atol=1e-12)


@both_models
@given(bags=any_bags(max_classes=4), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_class_means_are_exact_where_bag_means_are_mixtures_of_class_means(bag_model, bags, seed):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(2, bags.n_classes))
    # noise that averages to zero in every bag must not matter either
    noise = rng.normal(size=(2, bags.n_instances))
    noise -= bags.means(noise)[:, bags.index]
    values = (truth @ bags.proportions.T)[:, bags.index] + noise
    for method in METHODS if bags.n_classes == 2 else METHODS[:1]:
        W = bag_weights(bags, method=method, bag_model=bag_model)
        np.testing.assert_allclose(bags.means(values) @ W, truth, atol=1e-8)


@both_methods
@given(bags=any_bags())
@settings(max_examples=60, deadline=None)
def test_one_is_one_in_every_class(method, bags):
    W = bag_weights(bags, method=method)
    np.testing.assert_allclose(bags.means(np.ones(bags.n_instances)) @ W, 1, atol=1e-9)


@both_methods
@both_models
@given(
    counts=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda row: sum(row) > 1),
        min_size=2,
        max_size=9,
    ),
    times=st.integers(2, 5),
)
@settings(max_examples=60, deadline=None)
def test_weights_do_not_change_when_all_bags_grow_alike(method, bag_model, counts, times):
    small, large = make_bags(counts), make_bags(np.array(counts) * times)
    assume(np.ptp(small.proportions[:, 1]) > 0.02)
    options = {"method": method, "bag_model": bag_model}
    W = bag_weights(small, **options)
    np.testing.assert_allclose(bag_weights(large, **options), W, atol=1e-9)


@both_models
@given(bags=any_bags(max_classes=4), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_classes_in_another_order_are_columns_in_another_order(bag_model, bags, seed):
    order = np.random.default_rng(seed).permutation(bags.n_classes)
    W = decontamination_weights(bags, bag_model=bag_model)
    turned = replace(bags, proportions=bags.proportions[:, order])
    np.testing.assert_allclose(
        decontamination_weights(turned, bag_model=bag_model), W[:, order], atol=1e-9
    )


@both_methods
@both_models
@pytest.mark.parametrize("merge", MERGERS)
def test_weights_of_merged_bags_are_those_of_bags_that_came_merged(method, bag_model, merge):
    rng = np.random.default_rng(5)
    bags = make_bags(rng.integers(1, 9, size=(11, 2)), labels=[0, 1, 1])
    values = rng.normal(size=(2, bags.n_instances))
    merged = MERGERS[merge](bags, 2)
    if method == "pairs":
        large = pair_weights(merged.bags, merged.pairing, bag_model)
    else:
        large = decontamination_weights(merged.bags, bag_model)
    options = {"method": method, "bag_model": bag_model, "merge": merge, "merge_size": 2}
    W = bag_weights(bags, **options)
    np.testing.assert_allclose(
        bags.means(values) @ W, merged.bags.means(values) @ large, atol=1e-12
    )


# --- rows of known label ------------------------------------------------------------------------


@both_methods
@both_models
def test_labelled_rows_alone_give_contrast_to_bags_that_have_none(method, bag_model):
    alike = [[5, 5], [2, 2], [7, 7]]
    with pytest.raises(ValueError, match="no method can learn"):
        bag_weights(make_bags(alike), method=method, bag_model=bag_model)
    bags = make_bags(alike, labels=[0, 1, 1])
    assert bags.labelled.tolist() == [False, False, False, True, True]
    assert_unbiased(bag_weights(bags, method=method, bag_model=bag_model), bags)


@both_models
@given(
    counts=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8, unique=True
    ),
    labels=st.lists(st.integers(0, 1), max_size=4),
    label=st.integers(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_another_labelled_row_makes_least_squares_better(bag_model, counts, labels, label):
    before, after = make_bags(counts, labels), make_bags(counts, [*labels, label])
    assume(before.n_bags > 1 and np.ptp(before.proportions[:, 1]) > 0.02)
    worth = [
        variance(decontamination_weights(b, bag_model=bag_model), draws(b, bag_model))
        for b in (before, after)
    ]
    assert (worth[1] <= worth[0] * (1 + 1e-9)).all()
    assert worth[1][label] < worth[0][label]


@both_methods
def test_labelled_rows_count_one_by_one_under_the_bag_model(method):
    few = make_bags([[6, 4], [3, 7]], labels=[0, 1])
    many = make_bags([[6, 4], [3, 7]], labels=[0, 1] * 50)
    share = [np.abs(bag_weights(b, method=method, bag_model="bags")[2:]).sum() for b in (few, many)]
    assert share[1] > share[0]
    assert share[1] == pytest.approx(2, abs=0.05)


# --- what cannot be learned from ----------------------------------------------------------------


@both_methods
def test_one_bag_is_not_enough(method):
    with pytest.raises(ValueError, match="only one bag; no method can learn"):
        bag_weights(make_bags([[3, 5]]), method=method)


@both_methods
@pytest.mark.parametrize("n_classes", [2, 3])
def test_bags_that_are_all_alike_are_refused_with_their_proportions(method, n_classes):
    counts = np.outer([2, 5, 3], np.arange(1, n_classes + 1))
    shares = np.arange(1, n_classes + 1) / counts[0].sum() * 2
    written = ", ".join(f"{share:.4g}" for share in shares)
    with pytest.raises(ValueError, match="no method can learn") as caught:
        bag_weights(make_bags(counts), method=method)
    assert f"All 3 bags have the same class proportions ({written})" in str(caught.value)


@both_methods
def test_proportions_that_differ_by_rounding_only_are_alike(method):
    bag = np.repeat(np.arange(3), 10)
    share = np.array([0.3, 0.1 + 0.2, 0.3 + 1e-12])
    assert len(set(share)) == 3
    bags = check_bag_target(bag_target(bag, share[bag]))
    with pytest.raises(ValueError, match="All 3 bags have the same class proportions"):
        bag_weights(bags, method=method)


def test_three_classes_that_vary_in_one_direction_are_refused():
    counts = [[2, 2, 4], [4, 4, 8], [4, 4, 2], [6, 6, 1], [1, 1, 0]]
    with pytest.raises(ValueError, match="vary in 1 direction only, but 3 classes need 2"):
        decontamination_weights(make_bags(counts))


def test_a_class_that_no_bag_holds_is_refused():
    with pytest.raises(ValueError, match="vary in 1 direction only"):
        decontamination_weights(make_bags([[2, 3, 0], [4, 1, 0], [3, 3, 0]]))


@both_methods
@pytest.mark.parametrize("name", ["only", 7])
def test_one_class_is_refused_by_name(method, name):
    with pytest.raises(ValueError, match=rf"only one class, .*{name}"):
        bag_weights(check_bag_target([name] * 5), method=method)


@both_methods
def test_large_bags_that_merging_made_alike_are_refused(method):
    # 12 of 30 and 8 of 10 make one half, as do 2 of 10 and 18 of 30
    bags = make_bags([[18, 12], [8, 2], [2, 8], [12, 18]])
    options = {"method": method, "merge_size": 2}
    with pytest.raises(ValueError, match="All 2 bags have the same class proportions"):
        bag_weights(bags, merge="blockwise_pairwise", **options)
    assert_unbiased(bag_weights(bags, merge="blockwise_max", **options), bags)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "weights must be one of 'least_squares', 'pairs', not 'magic'"),
        ({"bag_model": "rows"}, "bag_model must be one of 'instances', 'bags', not 'rows'"),
        ({"method": "pairs", "bag_model": None}, "bag_model must be one of 'instances', 'bags'"),
        ({"merge": "random"}, "merge must be None or one of 'blockwise_pairwise', 'blockwise_max'"),
        ({"merge": "blockwise_max", "merge_size": 0}, "merge_size must be a whole number"),
    ],
)
def test_unknown_options_are_refused_with_the_choices(options, message):
    with pytest.raises(ValueError, match=message):
        bag_weights(make_bags([[3, 5], [4, 1]]), **options)


def test_pairs_are_for_two_classes():
    bags = make_bags([[3, 5, 1], [4, 1, 2], [1, 1, 6]])
    with pytest.raises(ValueError, match=r"two classes and there are 3; use weights='least_sq"):
        bag_weights(bags, method="pairs")
