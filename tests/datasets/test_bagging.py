import numpy as np
import pytest
from scipy import stats

from unbag import check_bag_target
from unbag.datasets import make_bags, make_random_bags

HALF = np.tile([0, 1], 100_000)
THIRDS = np.tile([0, 1, 2], 50_000)

MAKERS = [make_bags, make_random_bags]


def bag_labels(labels, index, y):
    """The labels of each bag, and the proportions that y states for it."""
    bags = check_bag_target(y)
    # a maker puts the rows bag after bag
    assert (np.diff(bags.index) >= 0).all()
    return np.split(np.asarray(labels)[index], np.cumsum(bags.sizes)[:-1]), bags.proportions


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("bag_size", [[7] * 500, [5, 1000, 33, 2, 2]], ids=["equal", "unequal"])
def test_no_row_twice_and_proportions_are_observed(make, bag_size):
    index, y = make(HALF, bag_size, random_state=0)
    assert len(np.unique(index)) == len(index) == len(y) == sum(bag_size)
    assert np.array_equal(y["size"], np.repeat(bag_size, bag_size))
    found, stated = bag_labels(HALF, index, y)
    assert [len(bag) for bag in found] == bag_size
    assert np.array_equal(stated[:, 1], [bag.mean() for bag in found])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("bag_size", [[7] * 500, [5, 1000, 33, 2, 2]], ids=["equal", "unequal"])
def test_proportions_are_observed_for_three_classes(make, bag_size):
    index, y = make(THIRDS, bag_size, random_state=0)
    assert len(np.unique(index)) == len(index) == len(y) == sum(bag_size)
    found, stated = bag_labels(THIRDS, index, y)
    shares = [np.bincount(bag, minlength=3) / len(bag) for bag in found]
    # a target of several columns is rescaled to sum to one, which rounds
    assert np.allclose(stated, shares, rtol=0, atol=1e-15)


@pytest.mark.parametrize("make", MAKERS)
def test_target_has_one_number_or_one_per_class(make):
    assert make(HALF, 10, n_bags=3, random_state=0)[1]["proportion"].shape == (30,)
    assert make(THIRDS, 10, n_bags=3, random_state=0)[1]["proportion"].shape == (30, 3)


@pytest.mark.parametrize(
    ("proportions", "mean", "variance"),
    [
        ((0, 1), 1 / 2, 1 / 12),
        ((0, 0.5), 1 / 4, 1 / 48),
        ((0.5, 1), 3 / 4, 1 / 48),
        ((0.3, 0.3), 0.3, 0),
        (stats.beta(2, 5), 2 / 7, 10 / (49 * 8)),
    ],
    ids=lambda value: str(value).split(" object at")[0],
)
def test_moments_of_the_papers_scheme(proportions, mean, variance):
    n_bags, size = 5000, 20
    _, y = make_bags(HALF, size, proportions, n_bags=n_bags, random_state=1)
    observed = y["proportion"][::size]
    expected = variance + (mean - mean**2 - variance) / size
    assert observed.mean() == pytest.approx(mean, abs=4 * np.sqrt(expected / n_bags))
    assert observed.var() == pytest.approx(expected, rel=0.1)


def test_uniform_proportions_make_all_counts_equally_likely():
    # a binomial count whose probability is uniform on [0, 1] is uniform on 0..n
    _, y = make_bags(HALF, 9, n_bags=10_000, random_state=2)
    counts = np.bincount(np.rint(9 * y["proportion"][::9]).astype(int))
    assert stats.chisquare(counts).pvalue > 0.001


def test_moments_with_three_classes():
    n_bags, size = 4000, 20
    weights = np.array([2, 1, 1])
    _, y = make_bags(THIRDS, size, stats.dirichlet(weights), n_bags=n_bags, random_state=3)
    observed = y["proportion"][::size]
    probability = stats.dirichlet_multinomial(weights, size)
    covariance = probability.cov() / size**2
    spread = np.sqrt(np.diag(covariance) / n_bags)
    assert (np.abs(observed.mean(axis=0) - weights / 4) < 4 * spread).all()
    assert np.allclose(np.cov(observed.T), covariance, rtol=0.1)


def test_by_default_all_mixtures_are_equally_likely():
    _, y = make_bags(THIRDS, 2, n_bags=12_000, random_state=4)
    drawn = np.rint(2 * y["proportion"][::2]).astype(int)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 0.001


def test_two_classes_accept_a_distribution_over_mixtures():
    _, y = make_bags(HALF, 10, stats.dirichlet([1, 3]), n_bags=2000, random_state=0)
    assert y["proportion"].ndim == 1
    assert y["proportion"].mean() == pytest.approx(3 / 4, abs=0.03)


def test_rows_of_a_class_are_equally_likely_and_in_random_order():
    labels = np.array([0] * 10 + [1] * 10)
    rng = np.random.RandomState(0)
    drawn = [make_bags(labels, 4, n_bags=1, random_state=rng)[0] for _ in range(1500)]
    for position in range(4):
        at = np.bincount([index[position] for index in drawn], minlength=20)
        # equal probabilities within a class, and, as proportions are uniform, of the classes too
        assert stats.chisquare(at).pvalue > 0.001


@pytest.mark.parametrize("proportions", [(0, 0.2), (0.9, 1), (0, 1)])
def test_without_n_bags_the_next_bag_would_not_fit(proportions):
    labels = np.repeat([0, 1], [3000, 1000])
    index, y = make_bags(labels, 32, proportions, random_state=0)
    assert len(np.unique(index)) == len(index)
    assert len(index) % 32 == 0
    left = np.bincount(np.delete(labels, index), minlength=2)
    assert left.min() < 32
    found, stated = bag_labels(labels, index, y)
    assert np.array_equal([bag.mean() for bag in found], stated[:, 1])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "values", [(0, 1), (False, True), (-1, 1), (0.0, 1.0), ("a", "b"), (7, 19)], ids=str
)
def test_the_larger_of_two_labels_is_positive(make, values):
    labels = np.asarray(values)[HALF[:1000]]
    index, y = make(labels, 10, n_bags=20, random_state=0)
    expected_index, expected_y = make(HALF[:1000], 10, n_bags=20, random_state=0)
    assert np.array_equal(index, expected_index)
    assert np.array_equal(y, expected_y)
    assert y["proportion"][::10].max() == max(
        np.mean(bag == values[1]) for bag in bag_labels(labels, index, y)[0]
    )


@pytest.mark.parametrize("make", MAKERS)
def test_random_state(make):
    def drawn(random_state):
        return make(HALF[:2000], 10, n_bags=20, random_state=random_state)

    first, again, other = drawn(0), drawn(0), drawn(1)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    assert np.array_equal(drawn(np.random.RandomState(0))[0], first[0])
    frozen = stats.beta(1, 1)
    one, two = (make_bags(HALF, 10, frozen, n_bags=5, random_state=0)[0] for _ in range(2))
    assert np.array_equal(one, two)


def test_shuffled_bags_are_near_the_prior():
    labels = np.repeat([0, 1], [30_000, 10_000])
    index, y = make_random_bags(labels, 100, random_state=0)
    assert len(index) == 40_000
    observed = y["proportion"][::100]
    assert observed.mean() == pytest.approx(0.25)
    assert observed.var() == pytest.approx(0.25 * 0.75 / 100, rel=0.25)


def test_shuffled_bags_leave_out_rows_that_fill_no_bag():
    index, y = make_random_bags(HALF[:107], 10, random_state=0)
    assert len(index) == len(y) == 100
    assert len(make_random_bags(HALF[:107], 10, n_bags=4, random_state=0)[0]) == 40


def test_a_class_that_runs_out_is_named():
    labels = np.repeat(["no", "yes"], [500, 20])
    with pytest.raises(ValueError, match=r"^These bags need 100 rows of class yes, but .* only 20"):
        make_bags(labels, 10, (1, 1), n_bags=10)
    with pytest.raises(ValueError, match=r"rows of class (no|yes), but labels has only"):
        make_bags(labels, 10_000)
    with pytest.raises(ValueError, match=r"^These bags need 600 rows, but labels has only 520\.$"):
        make_random_bags(labels, 200, n_bags=3)
    with pytest.raises(ValueError, match=r"need 1000 rows, but labels has only 520"):
        make_random_bags(labels, 1000)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("bag_size", [0, -1, 2.5, "ten", [], [[3]], [3, 0], True])
def test_wrong_sizes(make, bag_size):
    with pytest.raises(ValueError, match="bag_size must be a whole number above 0"):
        make(HALF, bag_size)


@pytest.mark.parametrize("make", MAKERS)
def test_wrong_numbers_of_bags(make):
    with pytest.raises(ValueError, match="There are 2 bag sizes, but n_bags is 3"):
        make(HALF, [5, 5], n_bags=3)
    for wrong in (0, 1.5):
        with pytest.raises(ValueError, match=f"n_bags must be .* not {wrong}"):
            make(HALF, 5, n_bags=wrong)


@pytest.mark.parametrize("make", MAKERS)
def test_wrong_labels(make):
    with pytest.raises(ValueError, match="at least two classes"):
        make(np.ones(10), 2)
    with pytest.raises(ValueError, match="Unknown label type"):
        make(np.linspace(0, 1, 10), 2)


@pytest.mark.parametrize(
    ("proportions", "message"),
    [
        ((0.5, 0.2), r"0 <= low <= high <= 1, not \(0.5, 0.2\)"),
        ((0, 1.5), r"not \(0, 1.5\)"),
        ((0, np.nan), "low <= high"),
        (0.5, r"two numbers \(low, high\) or a frozen scipy.stats distribution, not 0.5"),
        ((0, 0.5, 1), "two numbers"),
        (stats.norm(), "reaches from -inf to inf; it must stay inside"),
        (stats.uniform(0, 2), "reaches from 0 to 2"),
        (stats.dirichlet([1, 1, 1]), "There are 2 classes, but proportions are given for 3"),
        (stats.multivariate_normal([0, 0]), "shares that sum to 1"),
    ],
    ids=lambda value: str(value).split(" object at")[0],
)
def test_wrong_proportions(proportions, message):
    with pytest.raises(ValueError, match=message):
        make_bags(HALF, 10, proportions, n_bags=50, random_state=0)


@pytest.mark.parametrize("proportions", [(0, 0.5), stats.beta(2, 2), stats.dirichlet([1, 1])])
def test_three_classes_need_a_distribution_over_mixtures(proportions):
    message = r"There are 3 classes.* given for 2; use .* scipy.stats.dirichlet\(\[1, 1, 1\]\)"
    with pytest.raises(ValueError, match=message):
        make_bags(THIRDS, 10, proportions, n_bags=5)
