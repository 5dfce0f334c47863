"""Effective sample size: labels as the oracle, variances by simulation, and inequalities."""

import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

from unbag import bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags, make_random_bags
from unbag.evaluation.sample_size import effective_sample_size
from unbag.weights import decontamination_weights


def target(counts, labels=(), noise=None):
    """Bags that hold so many instances of each class, and rows of known label behind them."""
    counts = np.asarray(counts)
    sizes = counts.sum(axis=1)
    given_counts = counts[:, 1] if counts.shape[1] == 2 else counts
    bag = [*np.repeat(np.arange(len(sizes)), sizes), *[np.nan] * len(labels)]
    known = [*[np.nan] * int(sizes.sum()), *labels]
    return bag_target(bag, counts=dict(enumerate(given_counts)), labels=known, noise=noise)


def worth(y):
    """The same without the warning, which small examples deserve."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return effective_sample_size(y)


def difference(found, shares):
    """Labelled rows for the difference between two class means: one over its variance."""
    return found.n_effective * np.prod(shares)


@st.composite
def some_counts(draw, max_classes=2, min_size=1):
    """Counts of bags whose proportions differ in all directions."""
    n_classes = draw(st.integers(2, max_classes))
    row = st.lists(st.integers(0, 9), min_size=n_classes, max_size=n_classes)
    rows = row.filter(lambda counts: sum(counts) >= min_size)
    counts = np.array(draw(st.lists(rows, min_size=n_classes, max_size=9)))
    shares = counts / counts.sum(axis=1, keepdims=True)
    spread = np.linalg.svd(shares - shares.mean(axis=0), compute_uv=False)
    assume(spread[n_classes - 2] > 0.02)
    # bags of one row are labelled rows, which must not be the only ones of their kind
    assume((counts.sum(axis=1) > 1).sum() >= 2)
    return counts


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [["no", "yes"], ["a", "b", "c"]], ids=len)
def test_labels_are_worth_their_number(classes):
    labels = np.repeat(classes, np.arange(1, len(classes) + 1) * 40)
    found = effective_sample_size(labels)
    np.testing.assert_allclose(found.rows_per_class, np.arange(1, len(classes) + 1) * 40)
    assert found.fraction_of_labels == pytest.approx(1)
    assert found.n_effective == pytest.approx(len(labels))
    assert list(found.classes) == classes
    assert (found.n_bags, found.n_instances) == (0, len(labels))
    assert found.warning is None
    if len(classes) == 2:
        assert difference(found, [1 / 3, 2 / 3]) == pytest.approx(40 * 80 / 120)


def test_pure_bags_are_worth_their_labels():
    found = effective_sample_size(
        target([[30, 0, 0], [0, 20, 0], [12, 0, 0], [0, 0, 25], [0, 9, 0]])
    )
    np.testing.assert_allclose(found.rows_per_class, [42, 29, 25])
    assert found.fraction_of_labels == pytest.approx(1)


def test_labelled_rows_add_to_the_information_matrix_one_by_one():
    counts, labels = np.array([[30, 10], [12, 28]]), [0] * 5 + [1] * 3
    found = worth(target(counts, labels))
    G, n = counts / 40, np.array([40, 40])
    inverse = np.linalg.inv((n * G.T) @ G + np.diag([5, 3]))
    np.testing.assert_allclose(found.rows_per_class, 1 / np.diag(inverse))
    assert (found.n_bags, found.n_instances) == (2, 88)
    entries = dict(zip(found.by_bag["bag"], found.by_bag["size"], strict=True))
    assert entries == {0: 40, 1: 40, "rows labelled 0": 5, "rows labelled 1": 3}
    named = [str(bag).startswith("rows") for bag in found.by_bag["bag"]]
    part = found.by_bag["share"][named].sum()
    assert f"{100 * part:.0f}% of the information is in the labelled rows" in found.summary


# --- formulas -----------------------------------------------------------------------------------


@given(counts=some_counts(min_size=2))
@settings(max_examples=40, deadline=None)
def test_two_classes_by_hand(counts):
    found = worth(target(counts))
    n = counts.sum(axis=1)
    gamma = counts[:, 1] / n
    mean = counts[:, 1].sum() / n.sum()
    parts = n * (gamma - mean) ** 2
    assert difference(found, [1 - mean, mean]) == pytest.approx(parts.sum())
    assert found.fraction_of_labels == pytest.approx(parts.sum() / (n.sum() * mean * (1 - mean)))
    assert found.n_effective == pytest.approx(found.fraction_of_labels * n.sum())
    order = np.argsort(found.by_bag["bag"])
    np.testing.assert_allclose(found.by_bag["share"][order], parts / parts.sum(), atol=1e-12)
    np.testing.assert_array_equal(found.by_bag["size"][order], n)
    np.testing.assert_allclose(found.by_bag["proportion"][order], gamma)


@given(counts=some_counts(max_classes=4, min_size=2))
@settings(max_examples=40, deadline=None)
def test_share_is_the_harmonic_mean_over_all_contrasts(counts):
    """Efficiencies λ of contrasts solve GᵀNG x = λ D x with D the class counts."""
    found = worth(target(counts))
    n = counts.sum(axis=1)
    G = counts / n[:, None]
    efficiency = eigh((n * G.T) @ G, np.diag(counts.sum(axis=0)), eigvals_only=True)
    assert efficiency[-1] == pytest.approx(1)
    assert found.fraction_of_labels == pytest.approx(1 / np.mean(1 / efficiency[:-1]))
    assert found.by_bag["share"].sum() == pytest.approx(1)
    assert (found.by_bag["share"] >= 0).all()
    assert (np.diff(found.by_bag["share"]) <= 0).all()


# --- variances by simulation --------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_variance_of_class_means_over_resampled_bags(n_classes):
    """Every feature is a statistic of unit variance inside classes."""
    squares = []
    for seed in range(8):
        drawn = make_gaussian_bags(
            bag_size=np.arange(5, 45, 2), n_classes=n_classes, n_features=300,
            random_state=seed,
        )  # fmt: skip
        bags = check_bag_target(drawn.y)
        W = decontamination_weights(bags)
        error = bags.means(drawn.X.T) @ W - drawn.means.T
        found = worth(drawn.y)
        squares.append(error**2 * found.rows_per_class)
        if n_classes == 2:
            apart = (error[:, 1] - error[:, 0]) ** 2 * difference(found, bags.class_shares)
            squares.append(np.column_stack([apart, apart]))
    # 2,400 squares of standard normal variables, or more
    np.testing.assert_allclose(np.concatenate(squares).mean(axis=0), 1, atol=4 * (2 / 2400) ** 0.5)


def test_noise_at_its_worst_by_simulation():
    """Bag means off by ¼/n_i + v_i, as for a statistic between 0 and 1 at its worst."""
    rng = np.random.default_rng(0)
    sizes, gamma, noise = np.full(60, 30), rng.random(60), 0.05
    theta = np.array([0.0, 1.0])
    ratios = []
    for _ in range(150):
        noisy = gamma + noise * rng.standard_normal(60)
        bag = np.repeat(np.arange(60), sizes)
        y = bag_target(bag, noisy[bag], noise=noise)
        bags = check_bag_target(y)
        W = decontamination_weights(bags)
        means = gamma * theta[1] + rng.standard_normal((50, 60)) * np.sqrt(0.25 / sizes)
        ratios.append(np.mean((means @ W - theta) ** 2, axis=0) * 4 * worth(y).rows_per_class)
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1, atol=0.15)


# --- inequalities and invariances ---------------------------------------------------------------


@given(counts=some_counts(max_classes=3), more=st.lists(st.integers(0, 9), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None)
def test_one_more_bag_never_lowers_the_information(counts, more):
    more = more[: counts.shape[1]]
    assume(sum(more) > 1)
    before = worth(target(counts))
    after = worth(target([*counts, more]))
    assert (after.rows_per_class >= before.rows_per_class * (1 - 1e-9)).all()


@given(counts=some_counts(max_classes=3, min_size=2), data=st.data())
@settings(max_examples=40, deadline=None)
def test_joining_two_bags_never_raises_the_information(counts, data):
    first, second = data.draw(st.permutations(range(len(counts))))[:2]
    joined = [*np.delete(counts, [first, second], axis=0), counts[first] + counts[second]]
    shares = np.array(joined) / np.sum(joined, axis=1, keepdims=True)
    spread = np.linalg.svd(shares - shares.mean(axis=0), compute_uv=False)
    assume(len(joined) >= counts.shape[1] and spread[counts.shape[1] - 2] > 0.02)
    before, after = worth(target(counts)), worth(target(joined))
    assert (after.rows_per_class <= before.rows_per_class * (1 + 1e-9)).all()
    assert after.fraction_of_labels <= before.fraction_of_labels * (1 + 1e-9)


@given(counts=some_counts(max_classes=3), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_order_of_rows_bags_and_classes_does_not_matter(counts, seed):
    rng = np.random.default_rng(seed)
    y, turned = target(counts), target(rng.permutation(counts)[:, ::-1])
    found, other = worth(y), worth(rng.permutation(turned))
    np.testing.assert_allclose(found.rows_per_class, other.rows_per_class[::-1])
    assert found.fraction_of_labels == pytest.approx(other.fraction_of_labels)
    np.testing.assert_allclose(found.by_bag["share"], other.by_bag["share"], atol=1e-9)


@given(counts=some_counts(max_classes=3, min_size=2))
@settings(max_examples=30, deadline=None)
def test_twice_the_bags_are_worth_twice_the_rows(counts):
    once, twice = (worth(target(c)) for c in (counts, np.vstack([counts, counts])))
    np.testing.assert_allclose(twice.rows_per_class, 2 * once.rows_per_class)
    assert twice.n_effective == pytest.approx(2 * once.n_effective)
    assert twice.fraction_of_labels == pytest.approx(once.fraction_of_labels)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_noise_lowers_the_information_the_more_the_larger_it_is(n_classes):
    drawn = make_gaussian_bags(40, 30, n_classes=n_classes, n_features=n_classes, random_state=0)
    bag, shares = drawn.y["bag"], drawn.y["proportion"]
    found = [
        effective_sample_size(bag_target(bag, shares, noise=s)) for s in (0, 1e-6, 0.02, 0.05, 0.1)
    ]
    np.testing.assert_allclose(found[1].rows_per_class, found[0].rows_per_class, rtol=1e-6)
    for more, less in pairwise(found[1:]):
        assert (less.rows_per_class < more.rows_per_class).all()
        assert less.fraction_of_labels < more.fraction_of_labels
    assert found[-1].by_bag["share"].sum() == pytest.approx(1)


# --- words and tables ---------------------------------------------------------------------------


def test_bags_that_are_alike_are_warned_of():
    y = bag_target(np.repeat([1, 2, 3], 500), {1: 0.3, 2: 0.31, 3: 0.32})
    with pytest.warns(UserWarning, match="Get more bags") as caught:
        found = effective_sample_size(y)
    assert len(caught) == 1
    assert found.warning == str(caught[0].message)
    assert "if 0 and 1 differed" in found.warning
    assert difference(found, [0.69, 0.31]) < 8
    assert "little information" in str(found)


def test_the_warning_names_the_classes_that_cannot_be_separated():
    shares = {1: [0.8, 0.1, 0.1], 2: [0.1, 0.45, 0.45], 3: [0.1, 0.46, 0.44]}
    with pytest.warns(UserWarning, match="if 1 and 2 differed"):
        effective_sample_size(bag_target(np.repeat([1, 2, 3], 200), shares))


def test_many_shuffled_bags_are_not_warned_of():
    """Shares of small bags vary by chance, and what is known of them is worth just as much."""
    _, y = make_random_bags(np.arange(4000) % 2, 10, random_state=0)
    found = effective_sample_size(y)
    assert found.warning is None
    # L − 1 degrees of freedom out of n − 1
    assert found.fraction_of_labels == pytest.approx(0.1, abs=0.03)


def test_few_labelled_rows_are_not_the_fault_of_bags():
    assert effective_sample_size([0, 0, 1, 1, 1]).warning is None


def test_summary_in_words():
    drawn = make_gaussian_bags(48, 128, (0, 0.5), random_state=0)
    found = effective_sample_size(drawn.y)
    for number in ("48 bags", "6,144 rows", "628 labelled", "10%", "1,340", "222", "9 of the"):
        assert number in found.summary
    assert np.sum(found.by_bag["share"][:9]) >= 0.5 > np.sum(found.by_bag["share"][:8])


def test_summary_of_several_classes_names_them():
    drawn = make_gaussian_bags(60, 50, n_classes=4, n_features=4, random_state=0)
    found = effective_sample_size(drawn.y)
    for name, rows in enumerate(found.rows_per_class):
        assert f"{rows:.0f} of class {name}" in found.summary


def test_frames_hold_the_tables():
    drawn = make_gaussian_bags(12, 20, n_classes=3, random_state=0)
    found = effective_sample_size(drawn.y)
    frame = found.frame()
    assert list(frame) == [
        "bag", "size", "proportion of 0", "proportion of 1", "proportion of 2", "share",
    ]  # fmt: skip
    assert len(frame) == 12
    assert frame["share"].is_monotonic_decreasing
    assert repr(found) == str(found)
    assert "most informative" in str(found)


def test_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"frame\(\) needs pandas; install it with: pip install"):
        effective_sample_size([0, 1]).frame()


def test_large_bags_are_counted_without_overflow():
    counts = {1: 10**5, 2: 3 * 10**5}
    found = effective_sample_size(bag_target(np.repeat([1, 2], 4 * 10**5), counts=counts))
    assert difference(found, [0.5, 0.5]) == pytest.approx(2 * 4e5 * 0.25**2)


# --- mistakes -----------------------------------------------------------------------------------


def test_clear_errors():
    with pytest.raises(ValueError, match="All 2 bags have the same class proportions"):
        effective_sample_size(target([[2, 2], [3, 3]]))
    with pytest.raises(ValueError, match="There is only one bag"):
        effective_sample_size(target([[2, 2]]))
    with pytest.raises(ValueError, match="only one class"):
        effective_sample_size([1, 1, 1])


def test_noisy_proportions_without_a_class():
    y = bag_target(np.repeat(np.arange(4), 5), dict(enumerate([-0.9, 0.2, -0.9, 0.2])), noise=0.01)
    with pytest.raises(ValueError, match="no instances of class 1 at all"):
        effective_sample_size(y)
