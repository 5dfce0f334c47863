"""Counts of several groupings: enumeration, finite differences, one grouping, contradictions."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from unbag import bag_target, check_bag_target, multi_grouping_target
from unbag.bags.groupings import check_groupings_target
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.groupings import Cells, GroupingsObservation, Margins

ONE = np.zeros(1, dtype=np.intp)


def draw(rng, n, sizes, spread=1.0):
    """Cells of rows, all of them taken, their scores and labels."""
    cells = [np.unique(rng.integers(0, size, n), return_inverse=True)[1] for size in sizes]
    f = spread * rng.normal(size=n)
    return cells, f, rng.random(n) < expit(f)


def counted(cells, labels, noise=0.0, rng=None):
    found = []
    for cell in cells:
        counts = np.bincount(cell, labels).astype(float)
        if noise:
            counts += noise * rng.normal(size=len(counts))
        found.append(Cells(cell, counts, np.full(len(counts), noise**2)))
    return found


def target_of(cells, labels):
    return multi_grouping_target(
        {f"by {g}": bag_target(c, counts=np.bincount(c, labels)[c]) for g, c in enumerate(cells)}
    )


def observed(y):
    return GroupingsObservation(check_groupings_target(y))


def enumerated(f, groupings):
    """−log Pr of all counts, and the probability of each row to be positive given them."""
    labels = np.array(list(product([0, 1], repeat=len(f))))
    probability = np.where(labels, expit(f), expit(-f)).prod(axis=1)
    for g in groupings:
        counts = np.stack([labels[:, g.index == cell].sum(axis=1) for cell in range(g.n_cells)])
        if g.variance.any():
            probability *= norm.pdf(counts, g.counts[:, None], np.sqrt(g.variance[:, None])).prod(
                axis=0
            )
        else:
            probability *= (counts == g.counts[:, None]).all(axis=0)
    return -np.log(probability.sum()), probability @ labels / probability.sum()


def numerical(value, f, step=1e-5):
    return np.array([(value(f + s) - value(f - s)) / (2 * step) for s in step * np.eye(len(f))])


def test_against_all_labellings_of_ten_rows():
    rng = np.random.default_rng(0)
    joint, added, values = [], [], []
    for _ in range(40):
        cells, f, labels = draw(rng, 10, (3, 2))
        exact, posterior = enumerated(f, counted(cells, labels))
        y = target_of(cells, labels)
        value, residual = observed(y).value_and_residual(f[None])
        joint.append(expit(f) + residual[0] - posterior)
        parts = [observed(y[name]).value_and_residual(f[None])[1][0] for name in y.dtype.names]
        added.append(expit(f) + sum(parts) - posterior)
        values.append(-value - exact)
    # probabilities given all counts, in cells of three to five rows
    assert np.sqrt(np.mean(np.square(joint))) < 0.045
    assert np.sqrt(np.mean(np.square(added))) > 0.15
    # up to a constant, which depends on how many cells there are
    assert np.std(values) < 0.25


def test_noisy_counts_against_all_labellings():
    rng = np.random.default_rng(1)
    off = []
    for _ in range(40):
        cells, f, labels = draw(rng, 10, (3, 2))
        groupings = counted(cells, labels, 0.7, rng)
        posterior = enumerated(f, groupings)[1]
        off.append(expit(f) - Margins(groupings).value_and_gradient(f)[1] - posterior)
    # probabilities, in cells of three to five rows
    assert np.sqrt(np.mean(np.square(off))) < 0.035


def test_the_error_falls_with_the_size_of_cells():
    """Differences of −log Pr between scores, against the exact sum over the crossing's counts."""
    rng = np.random.default_rng(2)
    errors = []
    for size in (6, 24, 96):
        n = 4 * size
        line, column = np.repeat([0, 0, 1, 1], size), np.tile(np.repeat([0, 1], size), 2)
        labels = rng.random(n) < 0.4
        groupings = counted([line, column], labels)
        flat, steep = (
            Margins(groupings).value(f) - _exact_square(f, line, column, labels)
            for f in (np.zeros(n), rng.normal(size=n))
        )
        errors.append(abs(steep - flat))
    assert errors[2] < errors[0]
    assert errors[2] < 0.01


def _exact_square(f, line, column, labels):
    """−log Pr of the margins of four blocks, from the distribution of the count of each block."""
    blocks = []
    for a, b in product([0, 1], repeat=2):
        probabilities = np.ones(1)
        for p in expit(f[(line == a) & (column == b)]):
            probabilities = np.convolve(probabilities, [1 - p, p])
        blocks.append(probabilities)
    first, second = labels[line == 0].sum(), labels[line == 1].sum()
    left = labels[column == 0].sum()
    total = 0.0
    for k in range(len(blocks[0])):
        counts = [k, first - k, left - k, second - left + k]
        if all(0 <= c < len(block) for c, block in zip(counts, blocks, strict=True)):
            total += np.prod([block[c] for c, block in zip(counts, blocks, strict=True)])
    return -np.log(total)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_gradients_are_finite_differences(noise):
    rng = np.random.default_rng(3)
    cells, f, labels = draw(rng, 60, (6, 4, 3))
    groupings = [*counted(cells[:2], labels), *counted(cells[2:], labels, noise, rng)]
    # rows on which the second grouping has no information
    every = np.ones(60, dtype=bool)
    groupings[1] = groupings[1].kept(every, np.arange(groupings[1].n_cells) > 0)
    margins = Margins(groupings)
    gradient = margins.value_and_gradient(f)[1]
    np.testing.assert_allclose(gradient, numerical(margins.value, f), atol=1e-7)


def test_residual_is_the_derivative_of_the_log_probability():
    rng = np.random.default_rng(4)
    cells, f, labels = draw(rng, 30, (4, 3))
    observation = observed(target_of(cells, labels))
    residual = observation.value_and_residual(f[None])[1][0]
    slopes = numerical(lambda g: observation.value(g[None]), f)
    np.testing.assert_allclose(residual, slopes, atol=1e-8)


@pytest.mark.parametrize("noise", [None, 0.8])
def test_one_grouping_is_the_ordinary_likelihood(noise):
    rng = np.random.default_rng(5)
    (bag, _), f, labels = draw(rng, 90, (4, 2))
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag], noise=noise)
    bags = check_bag_target(y)
    ordinary = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
    expected = ordinary.value_and_gradient(f[None, None], ONE)
    for target in (y, multi_grouping_target({"bag": y})):
        value, residual = observed(target).value_and_residual(f[None])
        np.testing.assert_allclose(value, -90 * expected[0][0], rtol=1e-12)
        np.testing.assert_allclose(residual, -90 * expected[1][0], atol=1e-12)


def test_the_same_grouping_twice_adds_nothing():
    rng = np.random.default_rng(6)
    cells, f, labels = draw(rng, 600, (6, 2))
    once = observed(target_of(cells[:1], labels)).value_and_residual(f[None])[1]
    twice = observed(target_of([cells[0], cells[0]], labels)).value_and_residual(f[None])[1]
    np.testing.assert_allclose(twice, once, atol=2e-3 * np.abs(once).max())


def test_labels_that_follow_from_pure_cells_are_labels():
    # no positives in line 0, so that all of column 0 are in line 1
    line, column = np.array([0, 0, 1, 1, 1, 1]), np.array([0, 1, 0, 1, 1, 0])
    labels = np.array([0, 0, 1, 0, 1, 1], dtype=bool)
    f = np.linspace(-1, 2, 6)
    groupings = counted([line, column], labels)
    exact, posterior = enumerated(f, groupings)
    value, gradient = Margins(groupings).value_and_gradient(f)
    sure = posterior % 1 == 0
    assert sure.sum() == 4
    np.testing.assert_allclose(gradient[sure], (expit(f) - posterior)[sure], atol=1e-12)
    pure = Margins(counted([np.array([0, 1])], np.array([True, False])))
    np.testing.assert_allclose(pure.value(np.array([1.0, 2.0])), -np.log(expit([1, -2])).sum())
    assert abs(value - exact) < 0.5


def test_large_scores_stay_finite():
    rng = np.random.default_rng(8)
    cells, f, labels = draw(rng, 120, (5, 3))
    observation = observed(target_of(cells, labels))
    before = observation.value_and_residual(f[None])
    for scale in (30.0, 1000.0):
        value, gradient = observation.value_and_residual(scale * f[None])
        assert np.isfinite(value).all()
        assert np.isfinite(gradient).all()
    # and nothing of them is left behind
    after = observation.value_and_residual(f[None])
    np.testing.assert_allclose(after[0], before[0], rtol=1e-9)
    np.testing.assert_allclose(after[1], before[1], atol=1e-9)


def test_counts_that_contradict_each_other_are_refused():
    line, column = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    # each total is 2, but a column of 2 leaves both lines one
    y = multi_grouping_target(
        {
            "line": bag_target(line, counts={0: 2, 1: 0}),
            "column": bag_target(column, counts={0: 2, 1: 0}),
        }
    )
    with pytest.raises(ValueError, match="No labels give the counts of all groupings"):
        observed(y)
    rng = np.random.default_rng(9)
    cells = [np.repeat([0, 1], 20), np.repeat([0, 1], [22, 18])]
    wrong = [Cells(cells[0], np.array([19.0, 1.0]), np.zeros(2))]
    wrong += [Cells(cells[1], np.array([5.0, 15.0]), np.zeros(2))]
    with pytest.raises(ValueError, match="they contradict each other"):
        Margins(wrong)
    fine = counted(cells, rng.random(40) < 0.5)
    assert np.isfinite(Margins(fine).value(np.zeros(40)))


def test_too_many_cells_are_refused(monkeypatch):
    monkeypatch.setattr("unbag.observations.groupings.LARGEST_TABLE", 10)
    rng = np.random.default_rng(11)
    cells, _, labels = draw(rng, 80, (5, 4))
    with pytest.raises(ValueError, match="have 5 and 4 cells, and what they share is a table of 9"):
        observed(target_of(cells, labels))
