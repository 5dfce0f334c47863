"""Trials of the paper's experiments."""

import numpy as np
import pytest

from unbag import check_bag_target
from unbag.paper import Setting, make_trial
from unbag.paper.tables import BAG_SIZES, published_auc


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


@pytest.mark.parametrize("table", [1, 2])
@pytest.mark.parametrize("dataset", ["adult", "magic"])
@pytest.mark.parametrize("share", [(0.0, 0.5), (0.5, 1.0)])
def test_every_setting_has_published_figures(table, dataset, share):
    for size in BAG_SIZES:
        assert Setting(dataset, share, size, table).n_bags >= 12
        for method in ("lmmcm", "invcal", "alter-psvm"):
            assert 0.5 < published_auc(table, dataset, share, size, method).mean < 0.9
    assert published_auc(table, dataset, share, 64, "lmmcm") is None
    assert published_auc(table, dataset, share, 8, "labels") is None


def test_second_table_fixes_the_number_of_bags():
    trial = make_trial(Setting("magic", (0.0, 0.5), 32, table=2), seed=0)
    assert len(trial.y) == 12 * 32


def test_shuffled_bags_are_close_to_the_class_shares():
    trial = make_trial(Setting("adult", (0.0, 1.0), 512, sampling="iid"), seed=0)
    assert np.abs(trial.y["proportion"] - 0.24).max() < 0.08


def test_all_columns_standardised_on_request():
    trial = make_trial(Setting("adult", (0.0, 0.5), 512, standardize_all=True), seed=0)
    np.testing.assert_allclose(trial.X.std(axis=0).round(9), 1)


def test_unknown_data_set():
    with pytest.raises(ValueError, match="dataset must be"):
        Setting("iris", (0, 1), 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": 3}, "table must be 1 or 2"),
        ({"sampling": "random"}, "sampling must be"),
        ({"proportions": (0.5, 0.5)}, "proportions must satisfy"),
        ({"bag_size": 4000}, "bag size must lie between 2 and 2048"),
    ],
)
def test_wrong_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        Setting(**{"dataset": "adult", "proportions": (0.0, 0.5), "bag_size": 8, **change})
