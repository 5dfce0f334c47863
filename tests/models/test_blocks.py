import numpy as np
import pytest

from unbag import bag_target, check_bag_target
from unbag.bags.bags import ANYTHING
from unbag.models import blocks
from unbag.models.blocks import BlockLikelihood
from unbag.models.newton import DesignLikelihood
from unbag.observations.information import CountObservation
from unbag.terms.columns import CategoryTerm, NumberTerm
from unbag.terms.design import Design
from unbag.terms.encoding import EncodedRows

SIZES = np.array([3, 2, 40, 7, 9, 12, 30, 5, 5, 22])
BAG, N = np.repeat(np.arange(len(SIZES)), SIZES), int(SIZES.sum())


def targets():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=N)
    counts = np.bincount(BAG, labels)
    times = rng.integers(1, 4, size=N)
    classes = labels + rng.integers(2, size=N)
    several = np.array([np.bincount(BAG, classes == k) for k in range(3)]).T
    low, high = np.maximum(counts - 2, 0), np.minimum(counts + 2, SIZES)
    noise = np.where(np.arange(len(SIZES)) > 5, 0.1, 0.0)
    return {
        "counts": bag_target(BAG, counts=counts[BAG]),
        "noise": bag_target(BAG, (counts / SIZES)[BAG], noise=noise[BAG]),
        "sets": bag_target(BAG, low=low[BAG], high=high[BAG]),
        "multiplicity": bag_target(
            BAG, counts=np.bincount(BAG, labels * times)[BAG], multiplicity=times
        ),
        "classes": bag_target(BAG, counts=several[BAG]),
        "noisy classes": bag_target(
            BAG, (several / SIZES[:, None])[BAG], noise=np.repeat(noise[BAG, None], 3, axis=1)
        ),
    }


@pytest.fixture(params=targets())
def problem(request):
    rng = np.random.default_rng(1)
    codes = rng.integers(3, size=(N, 1)).astype(np.int32)
    bags = check_bag_target(targets()[request.param], accept=ANYTHING)
    rows = EncodedRows(rng.normal(size=(N, 2)), codes, bags.multiplicity)
    terms = [NumberTerm("numbers", ["a", "b"], [0, 1]), CategoryTerm("c", 0, list("xyz"))]
    for term in terms:
        term.fit(rows)
    theta = rng.normal(size=(1 if bags.n_classes == 2 else bags.n_classes, 6))
    return terms, rows, bags, theta


@pytest.mark.parametrize("kept", ["all", "some", "none"])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_add_up_to_the_likelihood_of_all_rows(problem, kept, threads, monkeypatch):
    terms, rows, bags, theta = problem
    monkeypatch.setattr(blocks, "MOST_KEPT", {"all": 1e9, "some": 8 * 3 * 50, "none": 0}[kept])
    offset = np.random.default_rng(2).normal(size=(len(theta), N))
    design = Design(terms, rows, bags.lengths)
    whole = DesignLikelihood(design, CountObservation(bags), offset)
    cut = BlockLikelihood(terms, rows, bags, offset, block=20, threads=threads)
    assert cut.n_bags == whole.n_bags
    assert cut.n_bytes == {"all": 8 * 3 * N, "some": 8 * 3 * 45, "none": 0}[kept]
    P = np.eye(theta.size) + 0.1
    for change in (
        lambda found: found,
        lambda found: found.with_bag_effects(np.full(found.n_bags, 0.4)),
        lambda found: found.with_bag_effects(np.full(found.n_bags, 0.4)).with_label_shift(0.5),
    ):
        one, other = change(whole), change(cut)
        assert other.value(theta) == pytest.approx(one.value(theta), abs=1e-7)
        for a, b in zip(one.derivatives(theta), other.derivatives(theta), strict=True):
            np.testing.assert_allclose(b, a, atol=1e-6)
        assert other.derivatives(theta, False).information is None
        np.testing.assert_allclose(other.bag_products(theta), one.bag_products(theta), atol=1e-6)
        directions = np.random.default_rng(3).normal(size=(2, *theta.shape))
        expected = one.products(theta)(directions)
        np.testing.assert_allclose(other.products(theta)(directions), expected, atol=1e-6)
        tables = one.bag_tables(theta, P), other.bag_tables(theta, P)
        for a, b in zip(*tables, strict=True):
            for column, same in zip(a, b, strict=True):
                np.testing.assert_allclose(same, column, atol=1e-5)
        columns = [slice(1, 3), slice(3, 6)]
        moments = one.score_moments(theta, columns), other.score_moments(theta, columns)
        for a, b in zip(*moments, strict=True):
            np.testing.assert_allclose(b, a, atol=1e-9)


def test_threads_change_no_digit(problem):
    terms, rows, bags, theta = problem
    one, three = (
        BlockLikelihood(terms, rows, bags, block=20, threads=threads).derivatives(theta)
        for threads in (1, 3)
    )
    assert one.value == three.value
    np.testing.assert_array_equal(one.information, three.information)
