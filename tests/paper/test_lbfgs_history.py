"""The memory of L-BFGS against the textbook's two-loop recursion on long vectors."""

import numpy as np
import pytest

from unbag.paper.lbfgs_history import History

D = 7


def two_loops(pairs, gradient, inner):
    """−Hg by Nocedal and Wright, Algorithm 7.4; ``pairs`` run from the oldest to the newest."""
    if not pairs:
        return -gradient
    q, alphas = gradient.copy(), []
    for s, y in reversed(pairs):
        alphas.append(inner(s, q) / inner(s, y))
        q = q - alphas[-1] * y
    s, y = pairs[-1]
    r = inner(s, y) / inner(y, y) * q
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        r = r + (alpha - inner(y, r) / inner(s, y)) * s
    return -r


class Walk:
    """Random steps and gradients of several columns, told to a history and kept in full."""

    def __init__(self, n_columns, memory, self_dual, dtype=np.float64, seed=0):
        self.rng = np.random.default_rng(seed)
        root = np.eye(D) if self_dual else self.rng.normal(size=(D, D)) + 2 * np.eye(D)
        self.gram = root @ root.T
        self.memory, self.self_dual, self.dtype = memory, self_dual, dtype
        self.gradient = self.rng.normal(size=(n_columns, D)).astype(dtype)
        self.pairs = [[] for _ in range(n_columns)]
        self.history = History.start(self.with_dual(self.gradient), memory)

    def inner(self, u, v):
        return float(u.astype(float) @ self.gram @ v.astype(float))

    def image(self, vectors):
        return vectors if self.self_dual else vectors @ self.gram.astype(self.dtype)

    def with_dual(self, vectors):
        both = [vectors] if self.self_dual else [vectors, self.image(vectors)]
        return np.stack(both, axis=1)

    def direction(self):
        """−Hg and its dual."""
        found = self.history.direction()
        return found[:, 0], found[:, -1]

    def step(self, bent=None):
        """A step along which the slope rises, except in column ``bent``, where it falls."""
        old = self.gradient
        step = self.rng.normal(size=old.shape)
        root = self.rng.normal(size=(len(old), D, D)) + np.eye(D)
        # ⟨s, y⟩ = sᵀ (root rootᵀ) s > 0, with another matrix each time: no quadratic behind it
        change = np.einsum("nij,nkj,nk->ni", root, root, step) @ np.linalg.inv(self.gram)
        if bent is not None:
            change[bent] *= -1
        step = step.astype(self.dtype)
        new = (old + change).astype(self.dtype)
        change = new - old
        rows = range(len(old))
        self.history.add(
            self.with_dual(step),
            self.with_dual(new),
            tuple(np.array([self.inner(step[i], g[i]) for i in rows]) for g in (old, new)),
        )
        self.gradient = new
        for i in rows:
            self.pairs[i].append((step[i], change[i]))

    def keep(self, rows):
        self.history = self.history.keep(np.array(rows))
        self.gradient = self.gradient[rows]
        self.pairs = [self.pairs[i] for i in rows]

    def check(self, tolerance=1e-9):
        direction, image = self.direction()
        expected = np.stack(
            [
                two_loops(
                    [(s, y) for s, y in pairs[-self.memory :] if self.inner(s, y) > 0],
                    gradient,
                    self.inner,
                )
                for pairs, gradient in zip(self.pairs, self.gradient, strict=True)
            ]
        )
        scale = np.abs(expected).max(axis=1, keepdims=True)
        np.testing.assert_allclose(direction / scale, expected / scale, atol=tolerance)
        np.testing.assert_allclose(
            image / scale, self.image(expected / scale), atol=tolerance * self.gram.max()
        )


SELF_DUAL = pytest.mark.parametrize("self_dual", [True, False], ids=["self-dual", "with duals"])


@SELF_DUAL
def test_without_memory_the_direction_is_steepest_descent(self_dual):
    walk = Walk(n_columns=3, memory=4, self_dual=self_dual)
    direction, image = walk.direction()
    np.testing.assert_array_equal(direction, -walk.gradient)
    np.testing.assert_array_equal(image, -walk.image(walk.gradient))


@SELF_DUAL
@pytest.mark.parametrize("n_columns", [1, 4])
@pytest.mark.parametrize("memory", [1, 2, 5, 20])
def test_direction_equals_two_loops_at_every_step_even_when_the_memory_is_full(
    self_dual, n_columns, memory
):
    walk = Walk(n_columns, memory, self_dual)
    for _ in range(13):
        walk.step()
        walk.check()


@SELF_DUAL
@pytest.mark.parametrize("before", [1, 3, 8])
def test_columns_that_are_kept_go_on_as_if_nothing_had_happened(self_dual, before):
    walk = Walk(n_columns=5, memory=4, self_dual=self_dual)
    for _ in range(before):
        walk.step()
    walk.keep([0, 2, 3])
    walk.check()
    for _ in range(3):
        walk.step()
        walk.check()
    walk.keep([1])
    for _ in range(6):
        walk.step()
        walk.check()


@SELF_DUAL
def test_columns_do_not_depend_on_each_other(self_dual):
    together = Walk(n_columns=3, memory=3, self_dual=self_dual)
    for _ in range(5):
        together.step()
    direction, _ = together.direction()
    together.keep([1])
    alone, _ = together.direction()
    np.testing.assert_allclose(alone[0], direction[1], rtol=1e-12)


@SELF_DUAL
def test_pair_of_negative_curvature_is_passed_over_in_its_column_only(self_dual):
    walk = Walk(n_columns=3, memory=4, self_dual=self_dual)
    walk.step()
    walk.step(bent=1)
    s, y = walk.pairs[1][-1]
    assert walk.inner(s, y) < 0
    for _ in range(5):  # until the ring has overwritten it
        walk.step()
        walk.check()


@SELF_DUAL
def test_columns_that_forget_start_with_steepest_descent_and_learn_again(self_dual):
    walk = Walk(n_columns=3, memory=4, self_dual=self_dual)
    for _ in range(6):
        walk.step()
    walk.history.forget(np.array([False, True, False]))
    walk.pairs[1] = []
    walk.check()
    for _ in range(6):
        walk.step()
        walk.check()


@SELF_DUAL
def test_square_is_that_of_the_current_gradient(self_dual):
    walk = Walk(n_columns=3, memory=2, self_dual=self_dual)
    for _ in range(4):
        expected = [walk.inner(g, g) for g in walk.gradient]
        np.testing.assert_allclose(walk.history.square, expected, rtol=1e-12)
        walk.step()


@SELF_DUAL
def test_direction_descends(self_dual):
    walk = Walk(n_columns=6, memory=5, self_dual=self_dual)
    for number in range(10):
        walk.step(bent=number % 6)
        direction, _ = walk.direction()
        slopes = [walk.inner(d, g) for d, g in zip(direction, walk.gradient, strict=True)]
        assert max(slopes) < 0


@SELF_DUAL
def test_a_column_that_did_not_move_keeps_a_finite_direction_of_descent(self_dual):
    walk = Walk(n_columns=2, memory=3, self_dual=self_dual)
    walk.step()
    nothing, gradient = np.zeros_like(walk.gradient), walk.with_dual(walk.gradient)
    walk.history.add(walk.with_dual(nothing), gradient, (np.zeros(2), np.zeros(2)))
    direction, _ = walk.direction()
    slopes = [walk.inner(d, g) for d, g in zip(direction, walk.gradient, strict=True)]
    assert np.isfinite(direction).all()
    assert max(slopes) < 0


@SELF_DUAL
def test_single_precision_is_close_to_the_textbook_in_double(self_dual):
    walk = Walk(n_columns=3, memory=4, self_dual=self_dual, dtype=np.float32)
    for _ in range(3):
        walk.step()
        direction, _ = walk.direction()
        assert direction.dtype == np.float32
        walk.check(tolerance=1e-3)
