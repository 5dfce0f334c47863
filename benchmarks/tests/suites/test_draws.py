"""Bags are what their recipe says, and the same seed draws the same."""

from pathlib import Path

import numpy as np
import pytest

from unbag_bench.suites.draws import KINDS, count_target, pick_rows, pick_split
from unbag_bench.suites.files import load_natural, load_table


def some_rows(n=9000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X.sum(axis=1) + rng.normal(size=n) > 1).astype(np.int64)


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_bags_are_what_the_recipe_says(kind, unequal):
    X, labels = some_rows()
    picked = pick_rows(X, labels, kind, 64, 2048, seed=1, unequal=unequal)
    sizes = np.bincount(picked.bag)
    assert len(np.unique(picked.train)) == len(picked.train) <= 2048
    assert not np.isin(picked.train, picked.test).any()
    assert len(picked.test) == 2250
    if unequal:
        assert sizes.min() >= 32
        assert sizes.max() <= 128
        assert np.ptp(sizes) > 40
    else:
        assert (sizes == 64).all()
    y = count_target(picked.bag, labels[picked.train])
    shares = np.bincount(picked.bag, weights=labels[picked.train]) / sizes
    np.testing.assert_allclose(y["proportion"], shares[picked.bag])
    if kind in ("low", "high"):
        # uniform on half of [0, 1], up to the random number of labels
        assert shares.mean() == pytest.approx(0.25 if kind == "low" else 0.75, abs=0.08)
        assert shares.std() == pytest.approx(np.sqrt(1 / 48 + 0.17 / 64), abs=0.05)
    elif kind == "shuffled":
        expected = labels.mean() * (1 - labels.mean()) / 60
        assert shares.var() < 2 * expected
    else:
        assert shares.std() > 0.1


def test_a_seed_and_a_recipe_make_a_draw():
    X, labels = some_rows()
    digests = [
        pick_rows(X, labels, kind, 32, 1024, seed=seed, unequal=unequal).digest
        for kind in ("low", "shuffled", "feature")
        for seed in (0, 0, 1)
        for unequal in (False, True)
    ]
    again = digests[:2] == digests[2:4]
    assert again
    assert len(set(digests)) == 12


def test_few_positives_make_fewer_bags():
    X, labels = some_rows()
    rare = labels * (np.arange(len(labels)) % 10 == 0)
    picked = pick_rows(X, rare, "high", 64, 2048, seed=0, unequal=True)
    assert len(picked.train) < 1024
    assert rare[picked.train].mean() > 0.6


def test_every_bag_is_split_alike():
    bag = np.repeat(["a", "b", "c"], [40, 80, 400])
    labels = np.zeros(520, dtype=np.int64)
    picked = pick_split(labels, bag, None, seed=0)
    np.testing.assert_array_equal(np.bincount(picked.bag), [30, 60, 300])
    fewer = pick_split(labels, bag, 39, seed=0)
    np.testing.assert_array_equal(np.bincount(fewer.bag), [3, 6, 30])
    np.testing.assert_array_equal(fewer.test, picked.test)


def test_mistakes_get_one_sentence(folder):
    X, labels = some_rows()
    with pytest.raises(ValueError, match="The kinds of bags are low, high, shuffled, feature"):
        pick_rows(X, labels, "round", 8, 512, seed=0)
    with pytest.raises(ValueError, match="512 rows to train on are too few for two bags of 300"):
        pick_rows(X, labels, "low", 300, 512, seed=0)
    with pytest.raises(ValueError, match="There is no set 'iris'; there are arrests, caravan"):
        load_table("iris", folder)
    with pytest.raises(FileNotFoundError, match=r"votes.csv.xz: fetch the data with .* --data"):
        load_natural("votes", folder)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_table("hi", Path("nowhere"))
