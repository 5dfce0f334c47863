import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from gaussian import gaussian_auc, gaussian_bayes_ber
from unbag import check_bag_target
from unbag.datasets import make_gaussian_bags


def test_shapes_and_defaults():
    bags = make_gaussian_bags(random_state=0)
    assert bags.X.shape == (5000, 2)
    assert bags.y.shape == bags.labels.shape == (5000,)
    assert bags.true_proportions.shape == (100,)
    assert bags.true_proportions.min() >= 0
    assert bags.true_proportions.max() <= 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("label_dependence", [0, 0.5])
def test_proportions_are_observed(n_classes, label_dependence):
    sizes = np.array([3, 50, 7, 1200])
    bags = make_gaussian_bags(
        bag_size=sizes, n_classes=n_classes, label_dependence=label_dependence, random_state=0
    )
    found = check_bag_target(bags.y)
    assert np.array_equal(found.sizes, sizes)
    shares = np.stack([found.means((bags.labels == c).astype(float)) for c in range(n_classes)])
    assert np.allclose(found.proportions.T, shares, rtol=0, atol=1e-15)
    assert bags.true_proportions.shape == ((4,) if n_classes == 2 else (4, 3))


@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 1), (2, 5), (3, 2), (4, 3), (6, 8)])
def test_means_are_equally_far_apart(n_classes, n_features):
    bags = make_gaussian_bags(
        5, 10, n_classes=n_classes, n_features=n_features, separation=1.7, random_state=0
    )
    assert bags.means.shape == (n_classes, n_features)
    assert np.allclose(pdist(bags.means), 1.7)
    assert np.allclose(bags.means.mean(axis=0), 0)


@pytest.mark.parametrize("dependence", [0, 0.3, 0.8])
@pytest.mark.parametrize("label_dependence", [0, 0.4])
def test_dependence_leaves_the_marginals_alone(dependence, label_dependence):
    bags = make_gaussian_bags(
        4000, 3, dependence=dependence, label_dependence=label_dependence, random_state=1
    )
    X, labels = bags.X.reshape(4000, 3, 2), bags.labels.reshape(4000, 3)
    for instance in range(3):
        # one instance of each bag: these are independent of each other
        for c in (0, 1):
            drawn = X[labels[:, instance] == c, instance]
            for feature in (0, 1):
                law = stats.norm(bags.means[c, feature])
                # twelve tests each: a strict level keeps them from failing by chance
                assert stats.kstest(drawn[:, feature], law.cdf).pvalue > 1e-5
            tolerance = 5 * np.sqrt(2 / len(drawn))
            assert np.allclose(np.cov(drawn.T), np.eye(2), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dependence", [0, 0.3, 0.8])
def test_instances_of_a_bag_are_correlated(dependence):
    n_bags = 5000
    bags = make_gaussian_bags(n_bags, 2, dependence=dependence, random_state=2)
    residual = (bags.X - bags.means[bags.labels]).reshape(n_bags, 2, 2)
    tolerance = 4 / np.sqrt(n_bags)
    for feature in (0, 1):
        within = np.corrcoef(residual[:, 0, feature], residual[:, 1, feature])[0, 1]
        assert within == pytest.approx(dependence, abs=tolerance * (1 - dependence**2))
    between = np.corrcoef(residual[:-1, 0, 0], residual[1:, 0, 0])[0, 1]
    assert abs(between) < tolerance


@pytest.mark.parametrize("r", [0, 0.25, 0.7])
def test_labels_of_a_bag_are_correlated_around_the_true_proportion(r):
    n_bags, size, proportion = 6000, 5, 0.3
    bags = make_gaussian_bags(
        n_bags, size, (proportion, proportion), label_dependence=r, random_state=3
    )
    labels = bags.labels.reshape(n_bags, size)
    variance = proportion * (1 - proportion) * (1 + (size - 1) * r) / size
    observed = bags.y["proportion"][::size]
    assert observed.mean() == pytest.approx(proportion, abs=4 * np.sqrt(variance / n_bags))
    assert observed.var() == pytest.approx(variance, rel=0.1)
    assert np.corrcoef(labels[:, 0], labels[:, 1])[0, 1] == pytest.approx(r, abs=0.06)


@pytest.mark.parametrize("label_dependence", [0, 0.5])
def test_observed_proportions_average_to_the_true_ones(label_dependence):
    mixtures = stats.dirichlet([3, 2, 1])
    bags = make_gaussian_bags(
        5000, 4, mixtures, n_classes=3, label_dependence=label_dependence, random_state=4
    )
    gap = bags.y["proportion"][::4] - bags.true_proportions
    assert (np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0) / np.sqrt(5000)).all()
    # the gap is noise on top of any mixture, rich or poor in a class
    slope = [np.cov(bags.true_proportions[:, c], gap[:, c])[0, 1] for c in range(3)]
    assert np.allclose(slope, 0, atol=0.005)


@pytest.mark.parametrize("separation", [0.5, 2.0])
def test_bayes_facts(separation):
    bags = make_gaussian_bags(
        1000, 100, (0.2, 0.6), n_features=3, separation=separation, random_state=5
    )
    score = bags.X @ (bags.means[1] - bags.means[0])
    ber = 1 - balanced_accuracy_score(bags.labels, score > 0)
    assert ber == pytest.approx(gaussian_bayes_ber(separation), abs=0.008)
    assert roc_auc_score(bags.labels, score) == pytest.approx(gaussian_auc(separation), abs=0.008)


def test_random_state():
    first, again = (make_gaussian_bags(10, 5, random_state=0) for _ in range(2))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.X, make_gaussian_bags(10, 5, random_state=1).X)
    dependent = make_gaussian_bags(10, 5, dependence=0.9, separation=4, random_state=0)
    assert np.array_equal(first.labels, dependent.labels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_classes": 1}, "n_classes must be a whole number of at least 2, not 1"),
        ({"n_classes": 5}, "5 means at equal distances need at least 4 features, not 2"),
        ({"separation": -1}, "separation must be .* not -1"),
        ({"separation": np.inf}, "separation must be a finite number"),
        ({"dependence": 1}, "^dependence must be at least 0 and below 1, not 1"),
        ({"label_dependence": -0.1}, "^label_dependence must be .* not -0.1"),
        ({"n_bags": 3, "bag_size": [4, 4]}, "There are 2 bag sizes, but n_bags is 3"),
        ({"n_classes": 3, "proportions": (0, 0.5)}, "use a distribution over mixtures"),
    ],
    ids=str,
)
def test_wrong_parameters(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_gaussian_bags(**wrong)
