"""Merging against the paper's two schemes written as plain loops."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from unbag import bag_target, check_bag_target
from unbag.paper.weights import MERGERS, blockwise_max, blockwise_pairwise, default_merge_size

both_schemes = pytest.mark.parametrize("merge", MERGERS.values(), ids=MERGERS)


def make_bags(sizes, positives, labels=()):
    """Bags of these sizes and numbers of positives, and rows of known label behind them."""
    bag = [*np.repeat(np.arange(len(sizes)), sizes), *[np.nan] * len(labels)]
    known = [*[np.nan] * int(np.sum(sizes)), *labels]
    return check_bag_target(bag_target(bag, counts=dict(enumerate(positives)), labels=known))


@st.composite
def small_bags(draw, equal_sizes=False, labels=True):
    """Two to fifteen bags of two to nine instances, sometimes with labelled rows."""
    n_bags = draw(st.integers(2, 15))
    if equal_sizes:
        sizes = [draw(st.integers(2, 9))] * n_bags
    else:
        sizes = draw(st.lists(st.integers(2, 9), min_size=n_bags, max_size=n_bags))
    positives = [draw(st.integers(0, n)) for n in sizes]
    known = draw(st.lists(st.integers(0, 1), max_size=3)) if labels else ()
    return make_bags(sizes, positives, known)


merge_sizes = st.one_of(st.none(), st.integers(1, 9))


def naive_blocks(n_small, merge_size):
    """Lists of 2K consecutive bags; one bag alone at the end joins the block before it."""
    if merge_size is None:
        merge_size = default_merge_size(n_small)
    blocks = [
        list(range(begin, min(begin + 2 * merge_size, n_small)))
        for begin in range(0, n_small, 2 * merge_size)
    ]
    if len(blocks) > 1 and len(blocks[-1]) == 1:
        left_over = blocks.pop()
        blocks[-1] += left_over
    return blocks


def naive_pairwise(proportion, block):
    """I⁺ of the paper for one block: of bags 1 and 2, of bags 3 and 4, ... the larger one."""
    positive = []
    for place in range(0, len(block), 2):
        pair = block[place : place + 2]
        if len(pair) == 1 or proportion[pair[0]] >= proportion[pair[1]]:
            positive.append(pair[0])
        else:
            positive.append(pair[1])
    return set(positive)


def naive_max(proportion, block):
    """I⁺ of the blockwise-max scheme: the half with the largest proportions, rounded up."""
    ranked = sorted(block, key=lambda i: -proportion[i])
    return set(ranked[: (len(block) + 1) // 2])


def naive_share(bags, members):
    members = list(members)
    return bags.sizes[members] @ bags.proportions[members, 1] / bags.sizes[members].sum()


def naive_contrast(bags, block, positive):
    return naive_share(bags, positive) - naive_share(bags, set(block) - positive)


def sides(merged, block):
    """The two sets of small bags that the block was split into, by large bag."""
    split = {}
    for i in block:
        split.setdefault(int(merged.group[i]), set()).add(i)
    return split


# --- what both schemes conserve -----------------------------------------------------------------


@both_schemes
@given(bags=small_bags(), merge_size=merge_sizes)
@settings(max_examples=50, deadline=None)
def test_every_small_bag_is_in_exactly_one_large_bag_and_nothing_is_lost(merge, bags, merge_size):
    merged = merge(bags, merge_size)
    large = merged.bags
    assert merged.group.shape == (bags.n_bags,)
    assert set(merged.group.tolist()) == set(range(large.n_bags))
    for j in range(large.n_bags):
        members = np.flatnonzero(merged.group == j)
        assert large.sizes[j] == bags.sizes[members].sum()
        held = (bags.sizes[members, None] * bags.proportions[members]).sum(axis=0)
        np.testing.assert_allclose(large.sizes[j] * large.proportions[j], held, atol=1e-9)
    np.testing.assert_array_equal(large.index, merged.group[bags.index])
    np.testing.assert_array_equal(np.bincount(large.index), large.sizes)
    np.testing.assert_allclose(large.class_shares, bags.class_shares, atol=1e-12)
    np.testing.assert_array_equal(large.classes, bags.classes)
    assert len(set(large.ids.tolist())) == large.n_bags


@both_schemes
@given(bags=small_bags(), merge_size=merge_sizes)
@settings(max_examples=50, deadline=None)
def test_blocks_are_runs_of_2k_bags_each_split_in_two(merge, bags, merge_size):
    merged = merge(bags, merge_size)
    small = np.flatnonzero(~bags.labelled)
    np.testing.assert_array_equal(small, np.arange(len(small)))
    blocks = naive_blocks(len(small), merge_size)
    assert (~merged.bags.labelled).sum() == 2 * len(blocks)
    seen = []
    for block in blocks:
        split = sides(merged, block)
        assert len(split) == 2
        counts = sorted(len(side) for side in split.values())
        assert counts == [len(block) // 2, (len(block) + 1) // 2]
        seen += split
    assert len(seen) == len(set(seen))


@both_schemes
@given(bags=small_bags(), merge_size=merge_sizes)
@settings(max_examples=50, deadline=None)
def test_pairs_are_the_two_sides_of_a_block_with_the_larger_proportion_first(
    merge, bags, merge_size
):
    merged = merge(bags, merge_size)
    share = merged.bags.proportions[:, 1]
    blocks = naive_blocks(int((~bags.labelled).sum()), merge_size)
    candidates = {frozenset(sides(merged, block)) for block in blocks}
    kept = np.flatnonzero(merged.bags.labelled)
    if len(kept) == 2:
        candidates.add(frozenset(kept.tolist()))
    positive, negative = merged.pairing.positive.tolist(), merged.pairing.negative.tolist()
    pairs = [frozenset(pair) for pair in zip(positive, negative, strict=True)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) <= candidates
    # equal up to rounding is not a contrast, and whether it makes a pair does not matter
    assert all(np.ptp(share[list(pair)]) < 1e-12 for pair in candidates.difference(pairs))
    assert (share[positive] > share[negative]).all()


@both_schemes
@given(bags=small_bags(), merge_size=merge_sizes)
@settings(max_examples=40, deadline=None)
def test_labelled_rows_stay_apart_and_pure(merge, bags, merge_size):
    assume(bags.labelled.any())
    merged = merge(bags, merge_size)
    large = merged.bags
    for i in np.flatnonzero(bags.labelled):
        j = merged.group[i]
        assert large.labelled[j]
        assert (merged.group == j).sum() == 1
        assert large.sizes[j] == bags.sizes[i]
        assert large.ids[j] == bags.ids[i]
        np.testing.assert_array_equal(large.proportions[j], bags.proportions[i])
    assert large.labelled.sum() == bags.labelled.sum()


# --- the schemes themselves ---------------------------------------------------------------------


@given(bags=small_bags(), merge_size=merge_sizes)
@settings(max_examples=80, deadline=None)
def test_pairwise_puts_the_larger_of_every_two_neighbours_on_one_side(bags, merge_size):
    merged = blockwise_pairwise(bags, merge_size)
    proportion = bags.proportions[:, 1]
    for block in naive_blocks(int((~bags.labelled).sum()), merge_size):
        positive = naive_pairwise(proportion, block)
        assert positive in sides(merged, block).values()


@given(bags=small_bags(equal_sizes=True), merge_size=merge_sizes)
@settings(max_examples=80, deadline=None)
def test_max_puts_the_half_with_the_largest_proportions_on_one_side(bags, merge_size):
    merged = blockwise_max(bags, merge_size)
    proportion = bags.proportions[:, 1]
    for block in naive_blocks(int((~bags.labelled).sum()), merge_size):
        # ties may be broken in any way, so that only the proportions can be compared
        split = [sorted(proportion[list(side)]) for side in sides(merged, block).values()]
        assert sorted(proportion[list(naive_max(proportion, block))]) in split


@given(
    bags=st.lists(
        st.tuples(st.integers(0, 500), st.integers(2, 60)),
        min_size=2,
        max_size=15,
        unique_by=lambda pair: pair[0],
    ),
    merge_size=merge_sizes,
)
@settings(max_examples=80, deadline=None)
def test_max_has_the_better_of_both_splits_for_bags_of_any_size(bags, merge_size):
    # no ties, as another choice among tied bags of unequal size is another contrast
    shares, sizes = zip(*bags, strict=True)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    bags = check_bag_target(bag_target(bag, np.array(shares)[bag] / 500))
    merged = blockwise_max(bags, merge_size)
    proportion = bags.proportions[:, 1]
    for block in naive_blocks(bags.n_bags, merge_size):
        by_rank = abs(naive_contrast(bags, block, naive_max(proportion, block)))
        by_pairs = abs(naive_contrast(bags, block, naive_pairwise(proportion, block)))
        found = np.ptp(merged.bags.proportions[list(sides(merged, block)), 1])
        np.testing.assert_allclose(found, max(by_rank, by_pairs), atol=1e-12)


def contrasts(merged):
    share = merged.bags.proportions[~merged.bags.labelled, 1]
    return np.abs(share[1::2] - share[::2])


@pytest.mark.parametrize("equal_sizes", [True, False])
@given(data=st.data(), merge_size=merge_sizes)
@settings(max_examples=80, deadline=None)
def test_max_dominates_pairwise_in_every_block(equal_sizes, data, merge_size):
    bags = data.draw(small_bags(equal_sizes=equal_sizes))
    by_max, by_pairs = blockwise_max(bags, merge_size), blockwise_pairwise(bags, merge_size)
    assert (contrasts(by_max) >= contrasts(by_pairs) - 1e-12).all()


def test_max_keeps_the_pairwise_split_where_the_upper_half_has_less_contrast():
    bags = make_bags([10, 100, 2, 10], [0, 79, 2, 8])
    gamma, block = bags.proportions[:, 1], range(4)
    upper_half = naive_contrast(bags, block, naive_max(gamma, block))
    pairwise = naive_contrast(bags, block, naive_pairwise(gamma, block))
    assert upper_half == pytest.approx(10 / 12 - 79 / 110)
    assert pairwise == pytest.approx(81 / 102 - 8 / 20)
    np.testing.assert_allclose(contrasts(blockwise_max(bags, 2)), [pairwise], atol=1e-12)


def test_unequal_sizes_can_turn_a_block_around_and_the_pair_follows():
    # the larger of each two neighbours: 0.5 of a large bag and 1.0 of a small one, against 0.4
    # of a small one and 0.9 of a large one
    bags = make_bags([100, 10, 10, 100], [50, 4, 10, 90])
    merged = blockwise_pairwise(bags, 2)
    assert list(sides(merged, range(4)).values()) == [{0, 2}, {1, 3}]
    share = merged.bags.proportions[:, 1]
    assert merged.group[1] == merged.pairing.positive[0]
    assert share[merged.pairing.positive[0]] == pytest.approx(94 / 110)
    assert share[merged.pairing.negative[0]] == pytest.approx(60 / 110)


@both_schemes
@pytest.mark.parametrize(
    ("n_bags", "merge_size", "lengths"),
    [
        (8, 2, [4, 4]),
        (10, 2, [4, 4, 2]),
        (11, 2, [4, 4, 3]),
        (9, 2, [4, 5]),
        (3, 1, [3]),
        (3, 7, [3]),
        (2, 1, [2]),
        (7, 1, [2, 2, 3]),
    ],
    ids=["even", "short", "odd", "one left over", "three", "one block", "two", "pairs and one"],
)
def test_lengths_of_the_blocks(merge, n_bags, merge_size, lengths):
    bags = make_bags([5] * n_bags, np.arange(n_bags) % 6)
    merged = merge(bags, merge_size)
    assert np.bincount(merged.group // 2).tolist() == lengths


@both_schemes
def test_a_block_without_contrast_makes_no_pair(merge):
    merged = merge(make_bags([5, 5, 5, 5], [2, 2, 0, 5]), 1)
    assert len(merged.pairing.positive) == 1
    assert merged.group[[3, 2]].tolist() == [merged.pairing.positive[0], merged.pairing.negative[0]]


@both_schemes
@given(bags=small_bags(labels=False), labels=st.lists(st.integers(0, 1), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_labelled_rows_do_not_change_how_the_others_are_merged(merge, bags, labels):
    positives = np.rint(bags.sizes * bags.proportions[:, 1]).astype(int)
    more = make_bags(bags.sizes, positives, labels)
    np.testing.assert_array_equal(merge(more).group[: bags.n_bags], merge(bags).group)


# --- K ------------------------------------------------------------------------------------------


@given(n_bags=st.integers(2, 10**9), more=st.integers(1, 10**6))
@example(n_bags=2, more=1)
@settings(max_examples=200, deadline=None)
def test_default_merge_size_grows_with_the_number_of_bags_but_more_slowly(n_bags, more):
    assert default_merge_size(n_bags) >= 1
    assert default_merge_size(n_bags + more) >= default_merge_size(n_bags)
    # a hundred times the bags are ten times the blocks, of ten times the bags, up to rounding
    growth = default_merge_size(100 * n_bags) / default_merge_size(n_bags)
    assert 5 <= growth <= 10
    assert 100 / growth >= 10


def test_default_merge_size_and_the_number_of_blocks_pass_every_bound():
    n_bags = 10 ** np.arange(1, 13)
    size = np.array([default_merge_size(int(n)) for n in n_bags])
    blocks = n_bags / (2 * size)
    assert (np.diff(size) > 0).all()
    assert (np.diff(blocks) > 0).all()
    assert size[-1] > 1e5
    assert blocks[-1] > 1e5
    # N = O(K^β) with β = 2, which the theorem needs as well
    assert (n_bags / 2 <= size.astype(float) ** 2).all()


@both_schemes
def test_merge_size_is_the_default_when_it_is_not_given(merge):
    bags = make_bags([4] * 50, np.arange(50) % 5)
    np.testing.assert_array_equal(merge(bags).group, merge(bags, default_merge_size(50)).group)
    assert (merge(bags).group != merge(bags, default_merge_size(50) + 1).group).any()
    np.testing.assert_array_equal(merge(bags, np.int32(3)).group, merge(bags, 3).group)


@both_schemes
@pytest.mark.parametrize("merge_size", [0, -2, 1.5, 2.0, "3"])
def test_merge_size_must_be_a_whole_number_above_zero(merge, merge_size):
    bags = make_bags([4, 4, 4], [0, 1, 2])
    with pytest.raises(ValueError, match=f"whole number of at least 1, not {merge_size!r}"):
        merge(bags, merge_size)


@both_schemes
def test_one_bag_beside_labelled_rows_cannot_be_merged(merge):
    with pytest.raises(ValueError, match="at least two bags and there are 1"):
        merge(make_bags([4], [2], labels=[0, 1, 1]))


@both_schemes
def test_three_classes_cannot_be_merged(merge):
    bags = check_bag_target(
        bag_target([0, 0, 1, 1], np.repeat([[0.5, 0.5, 0], [0, 0.5, 0.5]], 2, 0))
    )
    with pytest.raises(ValueError, match="two classes only, and there are 3"):
        merge(bags)
