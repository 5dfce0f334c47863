import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from unbag.observations.information import Information
from unbag.terms import design as blocks
from unbag.terms.columns import CategoryTerm, NumberTerm
from unbag.terms.design import Design
from unbag.terms.device import DeviceDesign
from unbag.terms.encoding import TableEncoder

SIZES = np.array([3, 1, 40, 7, 9])
N = int(SIZES.sum())


def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"a": rng.normal(size=N), "b": rng.normal(size=N), "c": rng.choice(list("xyz"), size=N)}
    )


def make_design(of=Design, **how):
    encoder = TableEncoder().fit(table())
    rows = encoder.encode(table())
    # a sparse term before a dense one
    terms = [CategoryTerm("c", 0, encoder.levels[0]), NumberTerm("numbers", ["a", "b"], [0, 1])]
    for term in terms:
        term.fit(rows)
    return of(terms, rows, SIZES, **how)


@pytest.fixture(params=["one block", "pieces", "not kept", "device"])
def design(request, monkeypatch):
    if request.param != "one block":
        # two bags in a block, or a piece of the bag of 40
        monkeypatch.setattr(blocks, "_cut", lambda sizes, _: list(CUT(sizes, 9)))
    if request.param == "not kept":
        monkeypatch.setattr(Design, "_most_kept", 0)
    if request.param == "device":
        return make_design(DeviceDesign, device="cpu")
    return make_design()


CUT = blocks._cut


def matrix():
    frame = table()
    numbers = (frame[["a", "b"]] - frame[["a", "b"]].mean()) / frame[["a", "b"]].std(ddof=0)
    return np.column_stack([np.ones(N), numbers, pd.get_dummies(frame["c"]).astype(float)])


def test_columns_of_terms(design):
    assert design.columns_of == [slice(3, 6), slice(1, 3)]
    assert design.n_columns == 6


def test_products_are_those_of_the_matrix(design):
    rng = np.random.default_rng(1)
    theta, residual = rng.normal(size=(2, 6)), rng.normal(size=(2, N))
    np.testing.assert_allclose(design.scores(theta), theta @ matrix().T, atol=1e-12)
    np.testing.assert_allclose(design.gradient(residual), residual @ matrix(), atol=1e-12)


@pytest.mark.parametrize(("K", "rank"), [(1, 1), (3, 3)])
def test_information_is_that_of_the_matrix(design, K, rank):
    rng, Phi = np.random.default_rng(2), matrix()
    weights = rng.normal(size=(K, K, N))
    weights = weights + np.swapaxes(weights, 0, 1)
    factors = rng.normal(size=(K, rank, N))
    expected = np.einsum("ji,acj,jk->aick", Phi, weights, Phi)
    sums = np.add.reduceat(
        np.einsum("arj,ji->raij", factors, Phi), np.cumsum(SIZES) - SIZES, axis=-1
    )
    expected += np.einsum("raib,rckb->aick", sums, sums)
    found = design.information(Information(weights, factors))
    np.testing.assert_allclose(found, expected.reshape(6 * K, 6 * K), atol=1e-10)
    residual = factors[:, 0]
    s = np.add.reduceat(
        np.einsum("aj,ji->aij", residual, Phi), np.cumsum(SIZES) - SIZES, axis=-1
    ).reshape(6 * K, -1)
    np.testing.assert_allclose(design.bag_products(residual), s @ s.T, atol=1e-10)


def test_sums_over_groups_and_forms_of_bags_are_those_of_the_matrix(design):
    rng, Phi = np.random.default_rng(3), matrix()
    gather = csr_array(rng.random((4, N)) < 0.2, dtype=float)
    np.testing.assert_allclose(design.sums(gather), gather @ Phi, atol=1e-12)
    values, P = rng.normal(size=(1, N)), np.cov(rng.normal(size=(6, 20)))
    g = np.add.reduceat(values[0][:, None] * Phi, np.cumsum(SIZES) - SIZES)
    np.testing.assert_allclose(design.bag_forms(values, P), np.einsum("bi,ij,bj->b", g, P, g))
