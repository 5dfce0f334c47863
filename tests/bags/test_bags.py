"""The structured target and the `Bags` read from it, against counting by hand."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import resample

from unbag import Bags, bag_target, check_bag_target

NAN = np.nan


def by_id(bags):
    """What is known about each bag, whatever their order."""
    return {
        i: (n, tuple(p))
        for i, n, p in zip(
            bags.ids.tolist(), bags.sizes.tolist(), bags.proportions.tolist(), strict=True
        )
    }


# ids: [second, first, second, third], in whatever form a user may have them
IDS = {
    "integers with missing values": ([40, -3, 40, 7], [40, -3, 40, 7]),
    "unsigned": (np.array([4, 0, 4, 255], dtype=np.uint8), [4, 0, 4, 255]),
    "beyond float": ([2**60 + 1, 2**60, 2**60 + 1, 2**60 + 2],) * 2,
    "whole floats": ([4.0, 1.0, 4.0, 9.0], [4, 1, 4, 9]),
    "booleans": ([True, False, True, True], [1, 0, 1, 1]),
    "strings": (["south", "north", "south", ""], ["south", "north", "south", ""]),
    "tuple": (("b", "a", "b", "c"), ["b", "a", "b", "c"]),
    "object strings": (np.array(["b", "aa", "b", "c"], dtype=object), ["b", "aa", "b", "c"]),
    "object integers": (np.array([4, np.int32(1), 4, 9], dtype=object), [4, 1, 4, 9]),
    "bytes": (np.array([b"b", b"a", b"b", b"c"]), [b"b", b"a", b"b", b"c"]),
    "pandas": (pd.Series([4, 1, 4, 9], index=[3, 3, 1, 0]), [4, 1, 4, 9]),
    "pandas nullable": (pd.Series([4, 1, 4, 9], dtype="Int64"), [4, 1, 4, 9]),
    "pandas strings": (pd.Series(["b", "a", "b", "c"]), ["b", "a", "b", "c"]),
    "pandas index": (pd.Index(["b", "a", "b", "c"]), ["b", "a", "b", "c"]),
    "category": (pd.Series(["b", "a", "b", "c"]).astype("category"), ["b", "a", "b", "c"]),
    "polars": (pl.Series([4, 1, 4, 9]), [4, 1, 4, 9]),
    "polars strings": (pl.Series(["b", "a", "b", "c"]), ["b", "a", "b", "c"]),
    "pyarrow": (pa.chunked_array([["b", "a"], ["b", "c"]]), ["b", "a", "b", "c"]),
}


@pytest.mark.parametrize(("bag", "written"), IDS.values(), ids=IDS)
def test_bag_ids_of_every_form(bag, written):
    share = dict(zip(written, [0.25, 0.5, 0.25, 0.25], strict=True))
    y = bag_target(bag, share)
    assert y["bag"].tolist() == written
    assert y["proportion"].tolist() == [share[i] for i in written]
    assert y["size"].tolist() == [written.count(i) for i in written]
    bags = check_bag_target(y)
    assert bags.ids.tolist() == sorted(set(written))
    assert bags.ids[bags.index].tolist() == written
    np.testing.assert_array_equal(bags.proportions[:, 0] + bags.proportions[:, 1], 1)


PROPORTIONS = {
    "per row": [0.5, 0.2, 0.5, 0.2],
    "per row, array": np.array([0.5, 0.2, 0.5, 0.2]),
    "per row, Series": pd.Series([0.5, 0.2, 0.5, 0.2], index=[9, 9, 1, 0]),
    "per row, polars": pl.Series([0.5, 0.2, 0.5, 0.2]),
    "per row, objects": np.array([0.5, 0.2, 0.5, 0.2], dtype=object),
    "mapping": {"a": 0.2, "b": 0.5},
    "mapping with more bags": {"a": 0.2, "b": 0.5, "c": 7},
    "Series": pd.Series([0.2, 0.5], index=["a", "b"]),
    "Series with more bags": pd.Series([0.2, 0.5, 7], index=["a", "b", "c"]),
}


@pytest.mark.parametrize("proportion", PROPORTIONS.values(), ids=PROPORTIONS)
def test_proportions_of_every_form(proportion):
    y = bag_target(list("baba"), proportion)
    assert y["proportion"].tolist() == [0.5, 0.2, 0.5, 0.2]
    assert y["proportion"].dtype == float
    assert y.dtype.names == ("bag", "proportion", "size")


PER_CLASS = {
    "per row": [[0.25, 0.75, 0], [0.5, 0.25, 0.25], [0.25, 0.75, 0], [0.5, 0.25, 0.25]],
    "mapping": {"a": [0.5, 0.25, 0.25], "b": (0.25, 0.75, 0)},
    "DataFrame": pd.DataFrame({"b": [0.25, 0.75, 0], "a": [0.5, 0.25, 0.25]}).T,
    "DataFrame per row": pd.DataFrame(
        [[0.25, 0.75, 0], [0.5, 0.25, 0.25], [0.25, 0.75, 0], [0.5, 0.25, 0.25]]
    ),
    "Series of lists": pd.Series({"b": [0.25, 0.75, 0], "a": [0.5, 0.25, 0.25]}),
}


@pytest.mark.parametrize("proportion", PER_CLASS.values(), ids=PER_CLASS)
def test_proportions_per_class(proportion):
    y = bag_target(list("baba"), proportion)
    assert y["proportion"].tolist() == PER_CLASS["per row"]
    bags = check_bag_target(y)
    assert (bags.n_bags, bags.n_classes, bags.n_instances) == (2, 3, 4)
    assert bags.classes.tolist() == [0, 1, 2]
    assert bags.proportions.tolist() == [[0.5, 0.25, 0.25], [0.25, 0.75, 0]]


def test_two_columns_are_the_same_bags_as_one():
    one = check_bag_target(bag_target([1, 1, 2], {1: 0.25, 2: 0.5}))
    two = check_bag_target(bag_target([1, 1, 2], {1: [0.75, 0.25], 2: [0.5, 0.5]}))
    assert by_id(one) == by_id(two)


def test_printed_shares_are_made_to_sum_to_one():
    y = bag_target([1, 1], {1: [0.3333333, 0.3333333, 0.3333333]})
    np.testing.assert_allclose(y["proportion"], 1 / 3, rtol=1e-15)


COUNTS = {
    "per row": [1, 2, 1, 1, 2],
    "mapping": {5: 1, 3: 2},
    "Series": pd.Series({3: 2, 5: 1}),
    "per class": {5: [2, 1], 3: [0, 2]},
}


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_counts_of_every_form(counts):
    y = bag_target([5, 3, 5, 5, 3], counts=counts)
    bags = check_bag_target(y)
    assert bags.ids.tolist() == [3, 5]
    assert bags.sizes.tolist() == [2, 3]
    np.testing.assert_allclose(bags.proportions, [[0, 1], [2 / 3, 1 / 3]], rtol=1e-15)


@st.composite
def labelled_bags(draw):
    n_classes = draw(st.integers(2, 4))
    n_rows = draw(st.integers(1, 40))
    labels = draw(st.lists(st.integers(0, n_classes - 1), min_size=n_rows, max_size=n_rows))
    bag = draw(st.lists(st.integers(-9, 9), min_size=n_rows, max_size=n_rows))
    order = draw(st.permutations(range(n_rows)))
    return np.array(bag), np.array(labels), n_classes, np.array(order)


def true_counts(bag, labels, n_classes):
    return {
        int(i): np.bincount(labels[bag == i], minlength=n_classes).tolist() for i in np.unique(bag)
    }


@given(labelled_bags())
@settings(max_examples=150, deadline=None)
def test_true_counts_give_the_shares_of_the_labels(drawn):
    bag, labels, n_classes, order = drawn
    counts = true_counts(bag, labels, n_classes)
    y = bag_target(bag, counts=counts)
    bags = check_bag_target(y)
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    np.testing.assert_allclose(bags.class_shares, shares, atol=1e-12)
    # the bags of permuted rows are the permuted bags
    np.testing.assert_array_equal(bag_target(bag[order], counts=counts), y[order])
    again = check_bag_target(y[order])
    assert by_id(again) == by_id(bags)
    np.testing.assert_array_equal(again.labelled, bags.labelled)
    np.testing.assert_array_equal(again.index, bags.index[order])


@given(labelled_bags())
@settings(max_examples=100, deadline=None)
def test_positives_give_the_share_of_positives(drawn):
    bag, labels, _, _ = drawn
    positive = (labels > 0).astype(int)
    counts = {i: c[1] for i, c in true_counts(bag, positive, 2).items()}
    share = check_bag_target(bag_target(bag, counts=counts)).class_shares[1]
    assert share == pytest.approx(positive.mean(), abs=1e-12)


@given(labelled_bags(), st.data())
@settings(max_examples=100, deadline=None)
def test_known_labels_do_not_change_the_shares_of_all(drawn, data):
    bag, labels, n_classes, _ = drawn
    flags = data.draw(st.lists(st.booleans(), min_size=len(bag), max_size=len(bag)))
    known = np.where(flags, labels, NAN)
    y = bag_target(bag, counts=true_counts(bag, labels, n_classes), labels=known)
    bags = check_bag_target(y)
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    np.testing.assert_allclose(bags.class_shares, shares, atol=1e-12)
    # every labelled row is in the pure bag of its class
    np.testing.assert_allclose(bags.proportions[bags.index[flags], labels[flags]], 1, atol=1e-12)
    # and the rest of every bag has the proportions of the rest
    for i in np.unique(bag[np.logical_not(flags)]):
        rest = (bag == i) & np.logical_not(flags)
        expected = np.bincount(labels[rest], minlength=n_classes) / rest.sum()
        np.testing.assert_allclose(y["proportion"][rest], [expected] * rest.sum(), atol=1e-12)
        assert (y["size"][rest] == rest.sum()).all()


LABELS = {
    "NaN": [NAN, 1, NAN, NAN, 0],
    "None": [None, 1, None, None, 0],
    "None and booleans": [None, True, None, None, False],
    "pandas nullable": pd.Series([None, 1, None, None, 0], dtype="Int64"),
    "polars": pl.Series([None, 1, None, None, 0]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labelled_rows_leave_their_bag(labels):
    y = bag_target([3, 3, 3, 3, 5], {3: 0.5, 5: 0.0}, labels=labels)
    assert y["proportion"].tolist() == [1 / 3, 1, 1 / 3, 1 / 3, 0]
    assert y["size"].tolist() == [3, 1, 3, 3, 1]
    assert y["bag"][[0, 2, 3]].tolist() == [3, 3, 3]
    assert len(np.unique(y["bag"])) == 3
    bags = check_bag_target(y)
    assert bags.ids.tolist() == [3, "rows labelled 0", "rows labelled 1"]
    assert bags.sizes.tolist() == [3, 1, 1]
    assert bags.labelled.tolist() == [False, True, True]
    assert bags.index.tolist() == [0, 2, 0, 0, 1]
    np.testing.assert_allclose(bags.proportions, [[2 / 3, 1 / 3], [1, 0], [0, 1]])


@pytest.mark.parametrize(
    "bag",
    [
        [3, NAN, 3, None],
        np.array([3, NAN, 3, NAN]),
        pd.Series([3, None, 3, None], dtype="Int64"),
        pl.Series([3, None, 3, None]),
        ["c", None, "c", None],
        pd.Series(["c", None, "c", None]),
        pl.Series(["c", None, "c", None]),
    ],
    ids=["list", "floats", "pandas", "polars", "list of text", "pandas text", "polars text"],
)
def test_labelled_rows_need_no_bag(bag):
    name = 3 if 3 in list(bag) else "c"
    y = bag_target(bag, {name: 0.5}, labels=[NAN, 1, NAN, 0])
    assert y["bag"][[0, 2]].tolist() == [name, name]
    assert y["proportion"].tolist() == [0.5, 1, 0.5, 0]
    assert y["size"].tolist() == [2, 1, 2, 1]
    assert len(np.unique(y["bag"])) == 3


def test_a_bag_without_an_id_needs_no_proportion_in_a_row():
    y = bag_target([3, None, 3], [0.5, NAN, 0.5], labels=[NAN, 1, NAN])
    assert y["proportion"].tolist() == [0.5, 1, 0.5]


def test_labels_of_several_classes():
    y = bag_target([1] * 4, counts={1: [1, 1, 2]}, labels=[2, NAN, NAN, 0])
    np.testing.assert_allclose(
        y["proportion"], [[0, 0, 1], [0, 0.5, 0.5], [0, 0.5, 0.5], [1, 0, 0]]
    )


def test_a_bag_may_be_labelled_altogether():
    bags = check_bag_target(bag_target([1, 1, 2, 2], {1: 0.5, 2: 0.5}, labels=[0, 1, NAN, NAN]))
    assert bags.ids.tolist() == [2, "rows labelled 0", "rows labelled 1"]


def test_a_rounded_share_does_not_contradict_labels():
    # one of three is 0.33 in print
    y = bag_target([1, 1, 1], {1: 0.33}, labels=[1, NAN, NAN])
    assert y["proportion"].tolist() == [1, 0, 0]


def test_new_ids_keep_clear_of_the_old():
    y = bag_target(["labelled row 1", "b", "b"], [0.3, 0.5, 0.5], labels=[NAN, 1, NAN])
    assert len(set(y["bag"].tolist())) == 3


def test_whole_bags_can_be_sliced():
    y = bag_target(list("abcab"), {"a": 0.5, "b": 0.25, "c": 0.75})
    whole = check_bag_target(y)
    part = check_bag_target(y[[3, 1, 4, 0]])
    assert by_id(part) == {i: v for i, v in by_id(whole).items() if i != "c"}
    assert part.index.tolist() == [0, 1, 1, 0]


def test_a_fragment_of_a_bag_is_an_error():
    y = bag_target(list("aaab"), {"a": 0.5, "b": 0.25})
    with pytest.raises(ValueError, match=r"^Bag 'a' has 2 of its 3 instances here"):
        check_bag_target(y[[0, 2, 3]])


def test_bags_drawn_twice_by_a_bootstrap_are_whole():
    y = bag_target(list("aab"), {"a": 0.5, "b": 0.25})
    bags = check_bag_target(y[[0, 1, 2, 1, 0, 2, 2]])
    assert by_id(bags) == {"a": (4, (0.5, 0.5)), "b": (3, (0.75, 0.25))}


def test_labelled_rows_can_be_sliced_one_by_one():
    y = bag_target([1, 1, 1, 2, 2], {1: 2 / 3, 2: 0.5}, labels=[1, 1, 0, NAN, NAN])
    bags = check_bag_target(resample(y[:3], random_state=0, n_samples=7))
    assert bags.sizes.sum() == 7
    assert bags.labelled.all()
    assert set(bags.ids.tolist()) <= {"rows labelled 0", "rows labelled 1"}


def test_a_pure_bag_of_one_is_a_labelled_row():
    bags = check_bag_target(bag_target(list("abcd"), {"a": 1.0, "b": 0.5, "c": 0, "d": 1}))
    assert bags.ids.tolist() == ["b", "rows labelled 0", "rows labelled 1"]
    assert bags.sizes.tolist() == [1, 1, 2]
    assert bags.labelled.tolist() == [False, True, True]


def test_a_pure_bag_of_two_remains_a_bag():
    bags = check_bag_target(bag_target([1, 1], {1: 1.0}))
    assert not bags.labelled.any()


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", "yes", "no", "yes"],
        [0, 1, 1, 0, 1],
        [-1.0, 3.0, 3.0, -1.0, 3.0],
        [7, 2, 5, 5, 2],
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_plain_labels_are_pure_bags(labels, kind):
    bags = check_bag_target(kind(labels))
    assert bags.classes.tolist() == sorted(set(labels))
    assert bags.classes[bags.index].tolist() == labels
    assert bags.ids.tolist() == bags.classes.tolist()
    assert bags.sizes.tolist() == [labels.count(c) for c in bags.classes]
    np.testing.assert_array_equal(bags.proportions, np.eye(len(bags.classes)))
    np.testing.assert_allclose(bags.class_shares, bags.sizes / 5)
    assert bags.labelled.all()


def test_targets_can_be_pickled_and_joined():
    y = bag_target(["a", "a", "b"], {"a": 0.5, "b": 0.25})
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)), y)
    other = bag_target(["long name"], [0.3])
    bags = check_bag_target(np.concatenate([y, other]))
    assert bags.ids.tolist() == ["a", "b", "long name"]


@pytest.fixture(name="bags")
def three_bags():
    y = bag_target(
        [5, 3, 5, None, 3, 5, 9], {3: 0.5, 5: 0.2, 9: 0.7}, labels=[NAN] * 3 + [1] + [NAN] * 3
    )
    return check_bag_target(y)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (1, 1, 1)])
def test_means_equal_a_loop(bags, shape):
    values = np.random.default_rng(1).normal(size=(*shape, 7))
    means = bags.means(values)
    assert means.shape == (*shape, 4)
    for i in range(4):
        np.testing.assert_allclose(means[..., i], values[..., bags.index == i].mean(axis=-1))


def test_means_of_flags(bags):
    np.testing.assert_allclose(bags.means(bags.index == 1), [0, 1, 0, 0])


def test_draws_count_instances_or_bags(bags):
    assert bags.draws("instances").tolist() == [2, 3, 1, 1]
    assert bags.draws("bags").tolist() == [1, 1, 1, 1]
    labelled = check_bag_target([0, 0, 1])
    assert labelled.draws("bags").tolist() == [2, 1]
    assert labelled.draws("bags").dtype == float


@pytest.mark.parametrize(
    "chosen", [[1, 3], [3, 0], np.array([False, True, True, False]), slice(1, 3), [-1], []], ids=str
)
def test_take_keeps_whole_bags(bags, chosen):
    kept, rows = bags.take(chosen)
    positions = np.arange(4)[chosen]
    np.testing.assert_array_equal(rows, np.flatnonzero(np.isin(bags.index, positions)))
    np.testing.assert_array_equal(positions[kept.index], bags.index[rows])
    for name in ("ids", "sizes", "proportions", "labelled"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(bags, name)[positions])
    np.testing.assert_array_equal(kept.classes, bags.classes)
    np.testing.assert_array_equal(np.bincount(kept.index, minlength=len(positions)), kept.sizes)


def test_taking_all_bags_changes_nothing(bags):
    kept, rows = bags.take(np.ones(4, dtype=bool))
    np.testing.assert_array_equal(rows, np.arange(7))
    for name in Bags.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(kept, name), getattr(bags, name))


def test_class_shares_weigh_bags_by_size():
    bags = check_bag_target(bag_target([1, 2, 2, 2], {1: 0.5, 2: 0.1}))
    np.testing.assert_allclose(bags.class_shares, [0.8, 0.2])


def broken(y, field, value):
    y = y.copy()
    y[field][0] = value
    return y


TWO = bag_target([1, 1, 2], {1: 0.5, 2: 0.25})
THREE_CLASSES = bag_target([1, 1], {1: [0.2, 0.3, 0.5]})

ERRORS = {
    "neither": (lambda: bag_target([1, 2]), "Give either proportion, or counts"),
    "both": (
        lambda: bag_target([1, 2], [0, 1], counts=[0, 1]),
        "Give either proportion, or counts",
    ),
    "no rows": (lambda: bag_target([], []), r"^bag must hold one id per .* its shape is \(0,\).$"),
    "two dimensions": (
        lambda: bag_target([[1], [2]], [0, 1]),
        r"^bag must hold one id per instance; its shape is \(2, 1\); columns .*multi_grouping_target.$",
    ),
    "scalar": (lambda: bag_target(3, [0]), r"one id per instance; its shape is \(\).$"),
    "missing id": (
        lambda: bag_target([1, None, 2], {1: 0.5, 2: 0.5}),
        "^Row 2 has no bag id; only labelled rows may lack one.$",
    ),
    "NaN as id": (
        lambda: bag_target([1, 2, NAN], {1: 0.5, 2: 0.5}),
        "^Row 3 has no bag id; only labelled rows may lack one.$",
    ),
    "missing id, other row labelled": (
        lambda: bag_target([1, None, None], {1: 0.5}, labels=[NAN, 1, NAN]),
        "^Row 3 has no bag id; only labelled rows may lack one.$",
    ),
    "mixed ids": (
        lambda: bag_target(np.array([1, "a"], dtype=object), [0, 1]),
        "^Bag ids must be all integers or all strings.$",
    ),
    "fractions": (
        lambda: bag_target([1.5, 2], [0, 1]),
        "^Bag ids must be integers or strings, not fractions.$",
    ),
    "complex ids": (
        lambda: bag_target([1j, 2], [0, 1]),
        "^Bag ids must be integers or strings, not complex128.$",
    ),
    "more labels than rows": (
        lambda: bag_target([1, 2], [0, 1], labels=[0, 1, NAN]),
        "^There are 2 bag ids but 3 labels.$",
    ),
    "labels in two dimensions": (
        lambda: bag_target([1, 2], [0, 1], labels=[[0], [1]]),
        r"^labels must hold one entry per instance; the shape is \(2, 1\).$",
    ),
    "labels as text": (
        lambda: bag_target([1, 2], [0, 1], labels=["no", "yes"]),
        "^labels must be class numbers 0, 1, ... or missing.$",
    ),
    "negative label": (
        lambda: bag_target([1, 2], [0, 1], labels=[-1, 1]),
        "^Label -1 is not a class number: use 0, 1, ... and NaN for unknown.$",
    ),
    "half a label": (
        lambda: bag_target([1, 2], [0, 1], labels=[0.5, 1]),
        "^Label 0.5 is not a class number",
    ),
    "label beyond the classes": (
        lambda: bag_target([1, 2], [0, 1], labels=[2, NAN]),
        "^Label 2 does not fit proportions of 2 classes.$",
    ),
    "label against the proportion": (
        lambda: bag_target(list("aab"), {"a": 0.5, "b": 0.5}, labels=[1, 1, NAN]),
        "^The labels of bag 'a' contradict its proportion: more rows of one class are labelled",
    ),
    "repeated in a Series": (
        lambda: bag_target([1, 1, 2], pd.Series([0.5, 0.4], index=[1, 1])),
        "^The proportion of bag 1 is given twice.$",
    ),
    "repeated counts": (
        lambda: bag_target([1, 1, 2], counts=pd.Series([1, 1], index=[2, 2])),
        "^The counts of bag 2 (is|are) given twice.$",
    ),
    "bag absent from a mapping": (
        lambda: bag_target(["a", "b"], {"a": 0.5}),
        "^Bag 'b' has instances but no proportion.$",
    ),
    "bag absent from a Series": (
        lambda: bag_target([1, 2], counts=pd.Series([1], index=[1])),
        "^Bag 2 has instances but no counts.$",
    ),
    "too few values": (
        lambda: bag_target([1, 2, 2], [0.5, 0.5]),
        "^There are 3 bag ids but 2 values of proportion; give one per instance, or one per bag",
    ),
    "one value": (
        lambda: bag_target([1, 2, 2], 0.5),
        "^There are 3 bag ids but 1 values? of proportion; give one per instance",
    ),
    "words as proportion": (
        lambda: bag_target([1, 2], ["half", "all"]),
        "^The proportion values must be numbers: ",
    ),
    "ragged": (
        lambda: bag_target([1, 2], {1: [0.5, 0.5], 2: [1]}),
        "^The proportion values must be numbers: ",
    ),
    "words as counts": (
        lambda: bag_target([1, 2], counts={1: "one", 2: 0}),
        "^The counts values must be numbers: ",
    ),
    "not the same within a bag": (
        lambda: bag_target(["a", "a", "b"], [0.5, 0.4, 0.1]),
        "^The proportion is not the same for all instances of bag 'a'.$",
    ),
    "counts not the same within a bag": (
        lambda: bag_target(["a", "b", "b"], counts=[1, 1, 2]),
        "^The counts (is|are) not the same for all instances of bag 'b'.$",
    ),
    "negative count": (
        lambda: bag_target([1, 2], counts={1: 1, 2: -1}),
        "^The counts of bag 2 must be finite and not negative.$",
    ),
    "negative count that cancels": (
        lambda: bag_target([1, 2], counts={1: [0, 1], 2: [2, -1]}),
        "^The counts of bag 2 must be finite and not negative.$",
    ),
    "missing count": (
        lambda: bag_target([1, 2], counts={1: NAN, 2: 1}),
        "^The counts of bag 1 must be finite and not negative.$",
    ),
    "more positives than instances": (
        lambda: bag_target(["a", "a", "b"], counts={"a": 3, "b": 1}),
        "^Bag 'a' has 3 positives but 2 instances.$",
    ),
    "counts that do not sum": (
        lambda: bag_target(["a", "a", "b"], counts={"a": [1, 0], "b": [1, 0]}),
        "^Bag 'a' has 1 counted instances but 2 instances.$",
    ),
    "one column": (
        lambda: bag_target([1, 2], [[0.5], [0.5]]),
        r"^proportion must be the share of the positive class, or one .* its shape is \(2, 1\).$",
    ),
    "three dimensions": (
        lambda: bag_target([1, 2], np.ones((2, 2, 2))),
        r"\(two or more\); its shape is \(2, 2, 2\).$",
    ),
    "missing proportion": (
        lambda: bag_target(["a", "b"], {"a": 0.5, "b": None}),
        "^The proportion of bag 'b' is not a finite number.$",
    ),
    "missing proportion in rows": (
        lambda: bag_target(["a", "a", "b"], [NAN, NAN, 0.5]),
        "^The proportion of bag 'a' is not a finite number.$",
    ),
    "infinite proportion": (
        lambda: bag_target(["a"], [np.inf]),
        "^The proportion of bag 'a' is not a finite number.$",
    ),
    "percent": (
        lambda: bag_target(["a", "b"], {"a": 0.5, "b": 40}),
        r"^The proportion of bag 'b' is 40.0, outside \[0, 1\].$",
    ),
    "negative": (
        lambda: bag_target([7], [[-0.5, 1.5]]),
        r"^The proportion of bag 7 is .*, outside \[0, 1\].$",
    ),
    "shares that do not sum": (
        lambda: bag_target([7, 8], [[0.5, 0.5], [0.5, 0.4]]),
        "^The shares of bag 8 sum to 0.9, not to 1.$",
    ),
    "no such field": (
        lambda: check_bag_target(TWO[["bag", "proportion"]]),
        "^The target has no field 'size'; make it with unbag.bag_target.$",
    ),
    "no rows of a target": (
        lambda: check_bag_target(TWO[:0]),
        r"^The target must have one dimension and some rows, not shape \(0,\).$",
    ),
    "no labels": (lambda: check_bag_target([]), "^The target has no rows.$"),
    "column of a target": (
        lambda: check_bag_target(TWO[:, None]),
        r"^The target must have one dimension and some rows, not shape \(3, 1\).$",
    ),
    "single entry of a target": (
        lambda: check_bag_target(TWO[0]),
        r"^The target must have one dimension and some rows, not shape \(\).$",
    ),
    "edited proportion": (
        lambda: check_bag_target(broken(TWO, "proportion", 0.1)),
        "^The proportion is not the same for all instances of bag 1.$",
    ),
    "edited shares": (
        lambda: check_bag_target(broken(THREE_CLASSES, "proportion", [0.3, 0.2, 0.5])),
        "^The proportion is not the same for all instances of bag 1.$",
    ),
    "edited share outside": (
        lambda: check_bag_target(broken(TWO[2:], "proportion", 2)),
        r"^The proportion of bag 2 is 2.0, outside \[0, 1\].$",
    ),
    "part of a bag": (
        lambda: check_bag_target(TWO[1:]),
        "^Bag 1 has 1 of its 2 instances here: a proportion says nothing about part of a bag. ",
    ),
    "continuous labels": (lambda: check_bag_target([0.5, 1.5, 2.25]), "Unknown label type"),
    "labels in columns": (
        lambda: check_bag_target([[0, 1], [1, 0]]),
        r"^y has the shape \(2, 2\), not one entry for each row; make the target with unbag",
    ),
    "unknown bag model": (
        lambda: check_bag_target(TWO).draws("rows"),
        "^bag_model must be one of 'instances', 'bags', not 'rows'.$",
    ),
}


@pytest.mark.parametrize(("call", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


DAYS = np.array(["2024-05-01", "2024-05-01", "2024-05-02"], dtype="datetime64[ns]")
STRINGS = np.array(["a", "b", "a"], dtype=np.dtypes.StringDType())

CORNERS = {
    "integers near the end of their type": lambda: (
        bag_target(
            np.array([0, 0, 255, 255], dtype=np.uint8), [0.5] * 4, labels=[NAN, NAN, 1, NAN]
        )["bag"].tolist()
        == [0, 0, 256, 255]
    ),
    "large unsigned integers": lambda: (
        bag_target(
            np.array([2**60, 2**60 + 1, 2**60], dtype=np.uint64), [0.5] * 3, labels=[NAN, 1, NAN]
        )["bag"].tolist()
        == [2**60, 2**60 + 2, 2**60]
    ),
    "nanoseconds by mapping": lambda: (
        bag_target(DAYS, pd.Series([0.5, 0.2], index=pd.DatetimeIndex(DAYS[1:])))[
            "proportion"
        ].tolist()
        == [0.5, 0.5, 0.2]
    ),
    "times and labels": lambda: (
        bag_target(DAYS, [0.5, 0.5, 0.2], labels=[1, NAN, NAN])["proportion"].tolist()
        == [1.0, 0.0, 0.2]
    ),
    "variable-width strings": lambda: (
        bag_target(STRINGS, {"a": 0.5, "b": 0.2})["bag"].tolist() == ["a", "b", "a"]
    ),
    "only labelled rows": lambda: (
        bag_target([None, None], {}, labels=[1, 0])["proportion"].tolist() == [1.0, 0.0]
    ),
    "rest of seven in a hundred": lambda: (
        bag_target([1] * 100, [0.07] * 100, labels=[1] * 7 + [NAN] * 93)["proportion"][-1] == 0
    ),
    "no row of the bag is labelled": lambda: (
        bag_target([1] * 7, [0.2997118905373848] * 7, labels=[NAN] * 7)["proportion"][0]
        == 0.2997118905373848
    ),
}

MORE_ERRORS = {
    "fewer labels than rows": (
        lambda: bag_target([1, 1, 2], [0.5, 0.5, 0], labels=[1, NAN]),
        "^There are 3 bag ids but 2 labels.$",
    ),
    "NaN in a list of text": (
        lambda: bag_target(["a", "a", NAN], [0.5, 0.5, 0.5]),
        "^Row 3 has no bag id",
    ),
    "mixed list": (lambda: bag_target([1, "a"], [0.5, 0.5]), "^Bag ids must be all integers or"),
    "no time": (
        lambda: bag_target(np.array(["2024-05-01", "NaT"], dtype="datetime64[D]"), [0.5, 0.5]),
        "^Row 2 has no bag id",
    ),
    "infinite id": (lambda: bag_target([1, np.inf], [0.5, 0.5]), "^Bag ids must be integers"),
    "infinite label": (
        lambda: bag_target([1, 1], [0.5, 0.5], labels=[np.inf, NAN]),
        "^Label inf is not a class number",
    ),
    "bags of different size under one id": (
        lambda: check_bag_target(
            np.concatenate([bag_target([1] * 2, [0.5] * 2), bag_target([1] * 4, [0.5] * 4)])
        ),
        "bag 1",
    ),
    "a Series as long as the rows that may be meant per bag": (
        lambda: bag_target([2, 1], pd.Series({1: 0.25, 2: 0.75})),
        "mapping",
    ),
    "a bag taken twice": (lambda: check_bag_target(TWO).take([0, 0]), "twice"),
}


@pytest.mark.parametrize("comes_right", CORNERS.values(), ids=CORNERS)
def test_corner_cases(comes_right):
    assert comes_right()


@pytest.mark.parametrize(("call", "message"), MORE_ERRORS.values(), ids=MORE_ERRORS)
def test_more_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- names of classes ---------------------------------------------------------------------------


def test_names_of_classes_stay_with_the_target():
    counts = {1: [1, 1, 0], 2: [0, 1, 1]}
    y = bag_target([1, 1, 2, 2], counts=counts, class_names=["Ann", "Bob", "Cy"])
    for part in (y, y[2:], y[y["bag"] == 1], pickle.loads(pickle.dumps(y))):
        assert check_bag_target(part).class_names.tolist() == ["Ann", "Bob", "Cy"]
    plain = bag_target([1, 1, 2, 2], counts=counts)
    np.testing.assert_array_equal(y, plain)
    # models use numbers
    assert check_bag_target(y).classes.tolist() == [0, 1, 2]
    assert check_bag_target(plain).class_names.tolist() == [0, 1, 2]


@pytest.mark.parametrize("names", [["Ann", "Bob"], ["Ann", "Ann", "Bob"]])
def test_names_must_be_as_many_as_classes(names):
    with pytest.raises(ValueError, match="class_names must be 3 different names"):
        bag_target([1, 2], counts=[[1, 0, 0], [0, 1, 0]], class_names=names)


@pytest.mark.parametrize("counts", [[0.3, 0.3, 1, 1], [[0.3, 1.7], [0.3, 1.7], [1, 1], [1, 1]]])
def test_counts_are_whole_numbers_unless_noise_is_given(counts):
    sentence = (
        "The counts of bag 7 hold 0.3, which is not a whole number: .* noise=...; .* proportion"
    )
    with pytest.raises(ValueError, match=sentence):
        bag_target([7, 7, 9, 9], counts=counts)
    assert bag_target([7, 7, 9, 9], counts=counts, noise=0.5)["proportion"].shape[0] == 4
    # rounding is not a fraction
    assert bag_target([7, 7], counts=[1 + 1e-9] * 2)["proportion"][0] == pytest.approx(0.5)


def test_bags_without_labelled_rows_stay_as_they_are():
    index = np.random.default_rng(0).permutation(np.repeat(np.arange(5), 4))
    bags = check_bag_target(bag_target(index, np.array([0.0, 0.25, 0.5, 0.75, 1.0])[index]))
    apart, first = bags.with_labelled_rows_apart()
    divided, expected = bags.divide(np.zeros(20, dtype=np.intp))
    np.testing.assert_array_equal(apart.index, divided.index)
    np.testing.assert_array_equal(first, expected)


def test_rows_of_each_kind_and_class_are_counted(bags):
    kind = np.arange(bags.n_instances) % 2
    expected = [[np.sum(kind[bags.index == b] == k) for k in range(3)] for b in range(bags.n_bags)]
    np.testing.assert_array_equal(bags.tally(kind, 3), expected)
    np.testing.assert_allclose(bags.counts.sum(axis=1), bags.sizes)
    np.testing.assert_allclose(bags.counts[:, 1], bags.sizes * bags.proportions[:, 1])
