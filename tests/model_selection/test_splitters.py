"""Splitters keep bags whole and spread what is in them; folds are checked before they are used."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from estimates import plain_estimate
from unbag import (
    BagKFold,
    BagShuffleSplit,
    LLPBoostingClassifier,
    LLPClassifier,
    bag_target,
    check_bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_fit
from unbag.model_selection.splitters import check_cv, cut_by_folds


def target(sizes, proportions, seed=0):
    """Bags of given sizes and proportions, their rows in random order."""
    order = np.random.default_rng(seed).permutation(int(np.sum(sizes)))
    bag = np.repeat(np.arange(len(sizes)), sizes)[order]
    return bag_target(bag, np.asarray(proportions)[bag])


def random_target(n_bags=23, seed=0, sizes=(1, 30)):
    rng = np.random.default_rng(seed)
    return target(rng.integers(*sizes, size=n_bags), rng.uniform(size=n_bags), seed)


def mixed_target():
    """Six bags of ten, four rows of each labelled; their ids are numbers beyond 5."""
    labels = np.full(60, np.nan)
    labels[np.arange(60) % 10 < 4] = np.arange(24) % 2
    return bag_target(np.arange(60) // 10, np.full(60, 0.5), labels=labels)


def three_classes():
    return make_gaussian_bags(24, 10, n_classes=3, random_state=0).y


TARGETS = {
    "equal bags": target(np.full(20, 6), np.linspace(0, 1, 20)),
    "unequal bags": random_target(),
    "one proportion": target([5, 9, 2, 4, 4, 7], np.full(6, 0.5)),
    "as few bags as folds": random_target(5),
    "three classes": three_classes(),
    "labelled rows": mixed_target(),
}
ALL_TARGETS = pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
SPLITTERS = {
    "folds": BagKFold(5),
    "shuffled folds": BagKFold(5, shuffle=True, random_state=0),
    "random": BagShuffleSplit(6, random_state=0),
}
ALL_SPLITTERS = pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)


def folds(splitter, y):
    return [test for _, test in splitter.split(np.zeros((len(y), 1)), y)]


@ALL_TARGETS
@ALL_SPLITTERS
def test_bags_stay_whole_and_every_row_is_in_one_part(splitter, y):
    splits = list(splitter.split(np.zeros((len(y), 1)), y))
    assert len(splits) == splitter.get_n_splits() == splitter.n_splits
    for train, test in splits:
        assert len(train) > 0
        assert len(test) > 0
        np.testing.assert_array_equal(np.sort(np.append(train, test)), np.arange(len(y)))
        assert not set(y["bag"][train]) & set(y["bag"][test])
        check_bag_target(y[train])  # refuses parts of bags
        check_bag_target(y[test])


@ALL_TARGETS
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_bag_is_in_exactly_one_test_fold(y, shuffle):
    tests = folds(BagKFold(4, shuffle=shuffle, random_state=1 if shuffle else None), y)
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), np.arange(len(y)))


def test_three_folds_of_six_bags_by_hand():
    """Neighbours 1, 2, 3 and 4, 5, 6: each fold has one of both."""
    y = target([1, 2, 3, 4, 5, 6], [0, 0.1, 0.2, 0.8, 0.9, 1.0])
    for test in folds(BagKFold(3), y):
        proportions = np.unique(y["proportion"][test])
        assert len(proportions) == 2
        assert proportions[0] <= 0.2
        assert proportions[1] >= 0.8
    # the largest of the second group joins the smallest of the first
    assert {len(test) for test in folds(BagKFold(3), y)} == {7}


def spread(tests, y):
    """How far the means of folds and of all bags are apart, and the least range of a fold."""
    ids, first = np.unique(y["bag"], return_index=True)
    proportion = dict(zip(ids.tolist(), y["proportion"][first].tolist(), strict=True))
    held = [[proportion[i] for i in set(y["bag"][test].tolist())] for test in tests]
    overall = np.mean(list(proportion.values()))
    return max(abs(np.mean(h) - overall) for h in held), min(max(h) - min(h) for h in held)


@pytest.mark.parametrize("shuffle", [False, True])
def test_proportions_are_spread_over_the_folds(shuffle):
    for seed in range(10):
        y = random_target(40, seed)
        splitter = BagKFold(5, shuffle=shuffle, random_state=seed if shuffle else None)
        off, least = spread(folds(splitter, y), y)
        # a fold holds one of each five neighbours: means differ by less than one group's range
        steps = np.sort(np.unique(y["proportion"]))
        groups = steps[4::5] - steps[::5]
        assert off <= groups.mean()
        assert least >= steps[-5] - steps[4]


@pytest.mark.parametrize(
    "splitter",
    [
        BagKFold(5),
        BagKFold(5, shuffle=True, random_state=0),
        BagShuffleSplit(5, random_state=0),
    ],
    ids=["folds", "shuffled folds", "random"],
)
def test_proportions_are_spread_better_than_at_random(splitter):
    ours, random = [], []
    for seed in range(20):
        y = random_target(30, seed)
        ours.append(spread(folds(splitter, y), y))
        group = np.random.default_rng(seed).permutation(30)[y["bag"]] % 5
        random.append(spread([np.flatnonzero(group == k) for k in range(5)], y))
    (our_off, our_range), (off, least) = np.mean(ours, axis=0), np.mean(random, axis=0)
    assert our_off < 0.7 * off
    assert our_range > least


def test_all_shares_of_three_classes_are_spread_along_their_main_direction():
    y = three_classes()
    shares = check_bag_target(y).proportions
    centred = shares - shares.mean(axis=0)
    main = np.linalg.svd(centred, full_matrices=False)[2][0]
    along = np.argsort(np.argsort(centred @ main))
    for test in folds(BagKFold(4), y):
        groups = along[np.unique(y["bag"][test])] // 4
        assert sorted(groups) == list(range(6))


def test_folds_of_unequal_bags_have_similar_numbers_of_instances():
    for seed in range(10):
        y = random_target(40, seed, sizes=(1, 60))
        sizes = [len(test) for test in folds(BagKFold(5), y)]
        assert sum(sizes) == len(y)
        largest = np.unique(y["bag"], return_counts=True)[1].max()
        assert max(sizes) - min(sizes) <= largest
        by_turns = np.bincount(y["bag"] % 5)
        assert np.ptp(sizes) < np.ptp(by_turns)


def test_folds_without_shuffling_do_not_depend_on_random_numbers_or_on_the_order_of_rows():
    y = random_target()
    rows = np.random.default_rng(3).permutation(len(y))
    once, again, moved = folds(BagKFold(4), y), folds(BagKFold(4), y), folds(BagKFold(4), y[rows])
    for a, b, c in zip(once, again, moved, strict=True):
        np.testing.assert_array_equal(a, b)
        assert set(y["bag"][a]) == set(y[rows]["bag"][c])


def test_shuffling_depends_on_the_random_state_only():
    y = random_target()

    def shuffled(state):
        return [t.tolist() for t in folds(BagKFold(4, shuffle=True, random_state=state), y)]

    assert shuffled(0) == shuffled(0)
    assert shuffled(0) != shuffled(1)
    assert shuffled(0) != [t.tolist() for t in folds(BagKFold(4), y)]
    assert shuffled(np.random.RandomState(0)) == shuffled(0)


def test_plain_labels_are_dealt_row_by_row_with_every_class_in_every_fold():
    labels = np.array(["a", "b", "c"])[np.repeat([0, 1, 2], [50, 23, 12])]
    tests = folds(BagKFold(5), labels)
    assert [len(test) for test in tests] == [17] * 5
    usual = [test for _, test in StratifiedKFold(5).split(labels, labels)]
    for ours, theirs in zip(tests, usual, strict=True):
        counts = np.unique(labels[ours], return_counts=True)[1]
        expected = np.unique(labels[theirs], return_counts=True)[1]
        assert np.abs(counts - expected).max() <= 1


def test_labelled_rows_among_bags_are_dealt_one_by_one():
    y = mixed_target()
    labelled = y["size"] == 1
    for test in folds(BagKFold(3), y):
        assert len(np.unique(y["bag"][test][~labelled[test]])) == 2  # of six bags
        rows = y["proportion"][test][labelled[test]]
        assert {0.0, 1.0} == set(rows)
        assert abs(len(rows) - 8) <= 1  # of 24


def test_test_size_is_the_share_of_bags_on_average_and_at_most_one_bag_off():
    for n_bags, test_size in ((20, 0.2), (17, 0.3), (10, 0.5), (30, 0.9)):
        y = target(np.full(n_bags, 2), np.linspace(0, 1, n_bags))
        splitter = BagShuffleSplit(400, test_size=test_size, random_state=0)
        held = np.array([len(np.unique(y["bag"][test])) for test in folds(splitter, y)])
        assert np.abs(held - n_bags * test_size).max() < 1 + 1e-9
        assert abs(held.mean() - n_bags * test_size) < 4 * 0.5 / np.sqrt(400)


def test_every_bag_is_held_out_equally_often():
    y = target(np.full(20, 2), np.linspace(0, 1, 20))
    splitter = BagShuffleSplit(1000, test_size=0.3, random_state=0)
    times = sum(np.bincount(np.unique(y["bag"][t]), minlength=20) for t in folds(splitter, y))
    assert np.abs(times / 1000 - 0.3).max() < 4 * np.sqrt(0.3 * 0.7 / 1000)


def test_random_splits_spread_the_proportions_over_the_test_bags():
    y = target(np.full(20, 2), np.linspace(0, 1, 20))
    for test in folds(BagShuffleSplit(50, test_size=0.25, random_state=0), y):
        held = np.unique(y["bag"][test])
        # about every fourth of the sorted bags, so that none is far from the next
        assert held[0] <= 4
        assert held[-1] >= 15
        assert np.diff(held).max() <= 4


def test_random_splits_depend_on_the_random_state_only():
    y = random_target()

    def drawn(state):
        return [t.tolist() for t in folds(BagShuffleSplit(8, random_state=state), y)]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert len({tuple(t) for t in drawn(0)}) > 1


@pytest.mark.parametrize("n_bags", [2, 3])
@pytest.mark.parametrize("test_size", [0.01, 0.5, 0.99])
def test_no_part_of_a_random_split_is_ever_empty(n_bags, test_size):
    y = target(np.full(n_bags, 3), np.linspace(0, 1, n_bags))
    for test in folds(BagShuffleSplit(50, test_size=test_size, random_state=0), y):
        assert 0 < len(test) < len(y)


def test_single_bag_cannot_be_split():
    y = target([4], [0.5])
    with pytest.raises(ValueError, match="bag"):
        folds(BagShuffleSplit(2), y)


@pytest.mark.parametrize(
    ("splitter", "sentence"),
    [
        (BagKFold(1), "n_splits must be a whole number of at least 2, not 1"),
        (BagKFold(2.5), "n_splits must be a whole number of at least 2, not 2.5"),
        (BagKFold("five"), "n_splits must be a whole number of at least 2, not 'five'"),
        (BagKFold(24), "24 folds need as many bags, and there are 23"),
        (BagShuffleSplit(test_size=0), "test_size must lie between 0 and 1, not be 0"),
        (BagShuffleSplit(test_size=1.0), "test_size must lie between 0 and 1, not be 1.0"),
        (BagShuffleSplit(test_size=np.nan), "test_size must lie between 0 and 1, not be nan"),
    ],
)
def test_settings_that_are_refused(splitter, sentence):
    with pytest.raises(ValueError, match=sentence):
        folds(splitter, random_target())


@ALL_SPLITTERS
def test_missing_target_is_refused(splitter):
    with pytest.raises(ValueError, match=r"Splitting whole bags needs y, made by unbag.bag_target"):
        next(splitter.split(np.zeros((4, 1))))


def test_check_cv_takes_an_integer_for_bag_folds():
    y = random_target()
    X = np.zeros((len(y), 1))
    for number in (3, np.int64(3)):
        held = check_cv(number, X, y)
        assert held.shape == (3, len(y))
        for mask, test in zip(held, folds(BagKFold(3), y), strict=True):
            np.testing.assert_array_equal(np.flatnonzero(mask), test)


def test_check_cv_takes_splitters_lists_and_generators():
    y = random_target()
    X = np.zeros((len(y), 1))
    splitter = BagKFold(3)
    expected = check_cv(3, X, y)
    masks = [(~mask, mask) for mask in expected]
    for cv in (splitter, list(splitter.split(X, y)), splitter.split(X, y), masks):
        np.testing.assert_array_equal(check_cv(cv, X, y), expected)


@pytest.mark.parametrize(
    ("cv", "sentence"),
    [
        ([([0, 1, 2], [2, 3]), ([2, 3], [0, 1])], "either into the training or"),
        ([([], [0, 1, 2, 3]), ([2, 3], [0, 1])], "leave neither empty"),
        ([([0, 1], [2, 3])], "cv must give at least two folds, not 1"),
        ([], "cv must give at least two folds, not 0"),
        (1, "n_splits must be a whole number of at least 2, not 1"),
        ("five", "cv must be a whole number, a splitter or a list of splits, not 'five'"),
        (None, "cv must be a whole number, a splitter or a list of splits, not None"),
    ],
)
def test_folds_that_are_refused(cv, sentence):
    y = target([2, 2], [0.2, 0.8])
    with pytest.raises(ValueError, match=sentence):
        check_cv(cv, np.zeros((4, 1)), y)


def test_of_few_bags_each_is_held_out_once():
    y = target([2, 3, 1, 2], [0.2, 0.8, 0.0, 0.5])
    with pytest.warns(UserWarning, match="5 folds need as many bags, and there are 4: each of"):
        held = check_cv(5, np.zeros((8, 1)), y)
    assert sorted(map(tuple, held)) == sorted(tuple(y["bag"] == bag) for bag in np.unique(y["bag"]))
    with pytest.raises(ValueError, match="5 folds need as many bags, and there are 1"):
        check_cv(5, np.zeros((2, 1)), target([2], [0.2]))


def test_folds_that_leave_rows_out_of_both_parts_are_refused():
    y = target(np.full(8, 5), np.linspace(0, 1, 8))
    with pytest.raises(ValueError, match="fold"):
        check_cv(TimeSeriesSplit(3), np.zeros((40, 1)), y)


def test_fold_without_test_rows_is_refused():
    y = target([2, 2], [0.2, 0.8])
    with pytest.raises(ValueError, match="empty"):
        check_cv([([0, 1, 2, 3], []), ([2, 3], [0, 1])], np.zeros((4, 1)), y)


def test_cutting_says_which_bags_each_fold_holds_out():
    y = random_target()
    bags = check_bag_target(y)
    held_rows = check_cv(BagShuffleSplit(7, random_state=0), y, y)
    same, held = cut_by_folds(bags, held_rows)
    np.testing.assert_array_equal(same.ids, bags.ids)
    np.testing.assert_array_equal(same.index, bags.index)
    np.testing.assert_array_equal(held[:, same.index], held_rows)


@pytest.mark.parametrize("y", [mixed_target(), np.arange(30) % 3], ids=["mixed", "plain labels"])
def test_cutting_divides_labelled_rows_where_folds_do(y):
    bags = check_bag_target(y)
    held_rows = check_cv(BagShuffleSplit(4, test_size=0.4, random_state=0), y, y)
    cut, held = cut_by_folds(bags, held_rows)
    assert cut.n_bags > bags.n_bags
    np.testing.assert_array_equal(held[:, cut.index], held_rows)
    np.testing.assert_array_equal(cut.sizes, np.bincount(cut.index))
    np.testing.assert_array_equal(cut.proportions[cut.index], bags.proportions[bags.index])
    np.testing.assert_array_equal(cut.labelled[cut.index], bags.labelled[bags.index])
    np.testing.assert_array_equal(cut.ids[cut.index], bags.ids[bags.index])
    # no more parts than there are patterns of being held out
    parts = np.unique(np.vstack([bags.index, held_rows]), axis=1).shape[1]
    assert cut.n_bags == parts


def test_fold_with_a_fragment_of_a_bag_is_refused():
    y = bag_target(["north"] * 4 + ["south"] * 4, {"north": 0.2, "south": 0.8})
    held = check_cv(KFold(4), y, y)
    with pytest.raises(ValueError, match=r"part of bag .*'north'.* only; split whole bags with"):
        cut_by_folds(check_bag_target(y), held)


def test_fragment_is_named_as_the_user_wrote_it():
    y = target([4, 4], [0.2, 0.8])
    held = check_cv(KFold(4), y, y)
    with pytest.raises(ValueError, match=r"part of bag [01] only"):
        cut_by_folds(check_bag_target(y), held)


DATA = make_gaussian_bags(20, 15, random_state=0)


def label_free_auc(model, X, y):
    return plain_estimate("roc_auc", y, model.decision_function(X))


def test_cross_val_score_fits_and_scores_by_whole_bags():
    scores = cross_val_score(
        LLPClassifier(kernel=None), DATA.X, DATA.y, cv=BagKFold(4), scoring=label_free_auc
    )
    expected = [
        label_free_auc(
            LLPClassifier(kernel=None).fit(DATA.X[train], DATA.y[train]), DATA.X[test], DATA.y[test]
        )
        for train, test in BagKFold(4).split(DATA.X, DATA.y)
    ]
    np.testing.assert_allclose(scores, expected)


@pytest.mark.parametrize("cv", [BagKFold(4), BagShuffleSplit(4, random_state=0)])
def test_grid_search_over_a_pipeline_works_with_whole_bags(cv):
    model = make_pipeline(StandardScaler(), LLPClassifier(kernel=None))
    grid = {"llpclassifier__bag_effect": [0.0, 1.0]}
    search = GridSearchCV(model, grid, cv=cv, scoring=label_free_auc, error_score="raise")
    search.fit(DATA.X, DATA.y)
    assert search.n_splits_ == 4
    for number, bag_effect in enumerate(grid["llpclassifier__bag_effect"]):
        one = clone(model).set_params(llpclassifier__bag_effect=bag_effect)
        mean = cross_val_score(one, DATA.X, DATA.y, cv=cv, scoring=label_free_auc).mean()
        assert search.cv_results_["mean_test_score"][number] == pytest.approx(mean)
    assert (search.predict(DATA.X) == DATA.labels).mean() > 0.7


def test_group_folds_of_scikit_learn_keep_bags_whole_as_well():
    cv = GroupKFold(4)
    scores = cross_val_score(
        LLPClassifier(kernel=None),
        DATA.X,
        DATA.y,
        groups=DATA.y["bag"],
        cv=cv,
        scoring=label_free_auc,
        error_score="raise",
    )
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("cv", [5, KFold(7), KFold(5, shuffle=True, random_state=0)])
def test_scikit_learn_folds_that_cut_bags_are_refused_with_what_to_use(cv):
    # a number asks for labels first, a splitter cuts bags
    with pytest.raises(
        ValueError, match=r"(a proportion says nothing about part of a bag|one label).*BagKFold"
    ):
        cross_val_score(
            LLPClassifier(kernel=None),
            DATA.X,
            DATA.y,
            cv=cv,
            scoring=label_free_auc,
            error_score="raise",
        )


def test_folds_that_cut_bags_are_refused_by_boosting_and_cross_fit():
    boosting = LLPBoostingClassifier(n_estimators=5, cv=KFold(7))
    with pytest.raises(ValueError, match=r"A fold holds out part of bag .*unbag.BagKFold"):
        boosting.fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match=r"A fold holds out part of bag .*unbag.BagKFold"):
        cross_fit(LLPClassifier(kernel=None), DATA.X, DATA.y, cv=KFold(7))


def test_integer_means_bag_folds_in_boosting_and_cross_fit():
    by_number, by_splitter = (
        LLPBoostingClassifier(n_estimators=5, cv=cv).fit(DATA.X, DATA.y) for cv in (3, BagKFold(3))
    )
    np.testing.assert_array_equal(by_number.out_of_fold_scores_, by_splitter.out_of_fold_scores_)
    by_number, by_splitter = (
        cross_fit(LLPClassifier(kernel=None), DATA.X, DATA.y, cv=cv) for cv in (3, BagKFold(3))
    )
    np.testing.assert_array_equal(by_number.scores, by_splitter.scores)


def test_default_score_of_an_estimator_works_on_bags():
    scores = cross_val_score(
        LLPClassifier(kernel=None), DATA.X, DATA.y, cv=BagKFold(4), error_score="raise"
    )
    assert np.isfinite(scores).all()
