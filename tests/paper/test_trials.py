"""Trials of the paper's experiments."""

import numpy as np
import pytest

from unbag import check_bag_target
from unbag.paper import PAPER_AUC, Setting, make_trial


@pytest.mark.parametrize(("dataset", "low"), [("adult", 0.5), ("magic", 0.0)])
def test_a_trial_has_the_size_and_proportions_of_the_paper(dataset, low):
    setting = Setting(dataset, (low, low + 0.5), 512)
    trial = make_trial(setting, seed=3)
    bags = check_bag_target(trial.y)
    assert bags.n_instances == {"adult": 8192, "magic": 6144}[dataset]
    assert set(bags.sizes) == {512}
    np.testing.assert_allclose(bags.means(trial.labels), bags.proportions[:, 1])
    assert abs(bags.class_shares[1] - (low + 0.25)) < 0.15
    assert len(trial.labels_test) == {"adult": 16281, "magic": 3804}[dataset]
    assert trial.X.shape[1] == trial.X_test.shape[1]


def test_numerical_columns_are_standardised_on_the_training_instances():
    trial = make_trial(Setting("magic", (0.0, 0.5), 128), seed=0)
    np.testing.assert_allclose(trial.X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(trial.X.std(axis=0), 1)


def test_training_and_test_instances_do_not_overlap():
    trial = make_trial(Setting("magic", (0.5, 1.0), 32), seed=1)
    train = {row.tobytes() for row in np.round(trial.X, 6)}
    test = [row.tobytes() in train for row in np.round(trial.X_test, 6)]
    assert np.mean(test) < 0.02  # the data set repeats some rows itself


def test_the_same_seed_gives_the_same_trial_and_another_one_another():
    setting = Setting("magic", (0.0, 0.5), 128)
    one, same, other = (make_trial(setting, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.y, other.y)


def test_all_sixteen_settings_have_a_published_figure():
    assert len(PAPER_AUC) == 16
    assert all(Setting(name, share, size).n_bags >= 12 for name, share, size in PAPER_AUC)


def test_unknown_data_set():
    with pytest.raises(ValueError, match="dataset must be"):
        Setting("iris", (0, 1), 8)
