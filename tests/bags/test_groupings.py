"""Targets of several groupings: what they hold, and what they refuse."""

import numpy as np
import pytest

from unbag import BagKFold, bag_target, check_bag_target, multi_grouping_target
from unbag.bags.groupings import check_groupings_target

DAY = np.array([1, 1, 2, 2, 3, 3])
SHOP = np.array(["a", "b", "a", "b", "a", "b"])


def by_day(**settings):
    return bag_target(DAY, counts={1: 1, 2: 1, 3: 0}, **settings)


def by_shop(**settings):
    return bag_target(SHOP, counts={"a": 2, "b": 0}, **settings)


def target():
    return multi_grouping_target({"day": by_day(), "shop": by_shop()})


def test_each_field_is_the_target_of_its_grouping():
    y = target()
    assert y.shape == (6,)
    np.testing.assert_array_equal(y["day"], by_day())
    np.testing.assert_array_equal(y["shop"], by_shop())
    assert check_bag_target(y["shop"]).n_bags == 2


def test_read_as_bags_of_each_grouping():
    found = check_groupings_target(target())
    assert found.names == ("day", "shop")
    assert [bags.n_bags for bags in found.bags] == [3, 2]
    assert found.n_cells == 5
    np.testing.assert_allclose(found.class_shares, [4 / 6, 2 / 6])


def test_a_single_target_and_labels_are_one_grouping():
    assert check_groupings_target(by_day()).names == ("bag",)
    labels = check_groupings_target(np.array(["no", "yes", "no"]))
    assert labels.classes.tolist() == ["no", "yes"]
    # every labelled row is a cell of its own
    assert labels.n_cells == 3


def test_shares_of_the_classes_come_from_the_groupings_that_know_them_best():
    noisy = bag_target(DAY, counts={1: 2.0, 2: 2.0, 3: 2.0}, noise=1.0)
    exact = multi_grouping_target({"day": noisy, "shop": by_shop()})
    np.testing.assert_allclose(check_groupings_target(exact).class_shares[1], 2 / 6)
    # variances 3 of a total of 6, and 6 of one of 3
    both = multi_grouping_target(
        {
            "day": noisy,
            "shop": bag_target(SHOP, counts={"a": 2.0, "b": 1.0}, noise=np.sqrt(3)),
        }
    )
    mean, sd = (6 / 3 + 3 / 6) / (1 / 3 + 1 / 6) / 6, (1 / 3 + 1 / 6) ** -0.5 / 6
    shares = np.linspace(0, 1, 100_001)
    expected = np.average(shares, weights=np.exp(-0.5 * ((shares - mean) / sd) ** 2))
    np.testing.assert_allclose(check_groupings_target(both).class_shares[1], expected, rtol=1e-4)


def test_rows_may_be_put_in_another_order_but_not_left_out():
    y = target()
    check_groupings_target(y[::-1])
    with pytest.raises(ValueError, match="In the grouping 'day': Bag 1 has 1 of its 2 instances"):
        check_groupings_target(y[1:])


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([by_day()], "Give a mapping from the name of each grouping"),
        ({}, "Give a mapping from the name of each grouping"),
        ({1: by_day()}, "A grouping is named by a text, not by 1"),
        ({"day": DAY}, "The target of grouping 'day' is not made by unbag.bag_target"),
        (
            {"day": by_day(), "shop": by_shop()[:4]},
            "'day' and 'shop' have 6 and 4 rows; all of them are of the same rows",
        ),
        (
            {"day": by_day(), "shop": bag_target(SHOP, counts={"a": 2, "b": 1})},
            "By 'day' there are 2 positives in all, by 'shop' 3; if a table is rounded or noisy",
        ),
        (
            {"day": bag_target(DAY, np.full((6, 3), 1 / 3), noise=0.1)},
            "The grouping 'day' has 3 classes, and classifiers of groupings take two",
        ),
    ],
)
def test_mistakes_get_one_sentence(targets, message):
    with pytest.raises(ValueError, match=message):
        multi_grouping_target(targets)


def test_where_one_grouping_is_wanted_that_is_said():
    X, y = np.zeros((6, 1)), target()
    sentence = (
        r"The target has several groupings \('day', 'shop'\), whose cells share rows: use "
        r"unbag.LLPClassifier, or one of them alone, y\['day'\]"
    )
    with pytest.raises(ValueError, match=sentence):
        next(BagKFold(2).split(X, y))
