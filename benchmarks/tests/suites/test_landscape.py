"""The shipped landscape is that of its authors: rows, bags, splits and results."""

import numpy as np
import pytest

from unbag.datasets import load_adult
from unbag_bench.suites.landscape import (
    KINDS,
    LANDSCAPE,
    N_SPLITS,
    N_TEST,
    PUBLISHED,
    RULES,
    kind_of,
    load_landscape,
    published,
    split_rows,
)


def test_splits_are_those_of_the_published_results():
    """Where F1 is 0 nobody was predicted positive: accuracy is the share of the others."""
    _, labels, _ = load_landscape(LANDSCAPE[0])
    theirs = published(LANDSCAPE[0], "dllp")
    assert (theirs.f1 == 0).all()
    for split in range(N_SPLITS):
        train, test = split_rows(split)
        assert len(test) == N_TEST
        assert len(np.union1d(train, test)) == len(labels)
        assert theirs.accuracy[split] == pytest.approx(1 - labels[test].mean(), abs=1e-12)


def test_rows_are_those_of_adult():
    X, labels, _ = load_landscape(LANDSCAPE[0])
    adult = load_adult("all")
    assert X.shape == (48842, 179)
    assert labels.sum() == adult.target.sum()
    is_number = ~np.isin(X, (0, 1)).all(axis=0)
    np.testing.assert_allclose(X[:, is_number].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X[:, is_number].std(axis=0), 1)
    # one column of each of eight categories, beside the sex
    assert (X[:, 5:].sum(axis=1) == 8).all()
    women = X[:, 1] == 1
    of_women = adult.target[(adult.frame["sex"] == "Female").to_numpy()]
    assert labels[women].mean() == pytest.approx(of_women.mean())


def test_there_are_52_sets_of_four_kinds():
    assert len(set(LANDSCAPE)) == 52
    assert [sum(kind_of(name) == kind for name in LANDSCAPE) for kind in KINDS] == [7, 15, 15, 15]


@pytest.mark.parametrize(
    ("name", "n_bags"),
    [
        ("naive-small-equal-None-cluster-None-None", 5),
        ("hard-large-equal-mixed-cluster-kmeans-5", 10),
        ("intermediate-massive-fol-clust-fol-clust-cluster-kmeans-30", 30),
    ],
)
def test_bags_are_as_many_as_the_name_says(name, n_bags):
    _, _, bag = load_landscape(name)
    np.testing.assert_array_equal(np.unique(bag), np.arange(n_bags))


def test_bags_are_of_their_kind():
    """Given the class, rows of simple sets are alike in all bags, and in others they are not."""
    spread = {}
    for kind in KINDS:
        name = next(name for name in LANDSCAPE if kind_of(name) == kind and "massive" in name)
        X, labels, bag = load_landscape(name)
        poor = labels == 0
        married = X[poor][:, 95:102].argmax(axis=1) == 2
        n = np.bincount(bag[poor])
        share = np.bincount(bag[poor], weights=married) / n
        binomial = married.mean() * (1 - married.mean()) / n
        spread[kind] = np.mean((share - married.mean()) ** 2 / binomial)
    assert spread["naive"] < 2
    assert spread["simple"] < 2
    assert spread["intermediate"] > 20
    assert spread["hard"] > 4


def test_selection_with_labels_is_best_on_average():
    means = {
        rule: np.mean([published(n, m, rule).accuracy for n in LANDSCAPE for m in PUBLISHED])
        for rule in RULES
    }
    assert max(means, key=means.get) == "oracle"


def test_mistakes_get_one_sentence():
    with pytest.raises(ValueError, match=r"There is no set 'adult'; there are naive-small-equal"):
        load_landscape("adult")
    with pytest.raises(ValueError, match="numbered 0 to 29, not 30"):
        split_rows(30)
