"""Scores and probabilities at another class prior."""

import numpy as np
import pytest

from unbag.bags.priors import adjust_probabilities, prior_offset, probabilities_of


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_and_probabilities_are_moved_alike(n_classes):
    rng = np.random.default_rng(n_classes)
    prior, wanted = rng.dirichlet(np.ones(n_classes), 2)
    scores = rng.normal(size=(1 if n_classes == 2 else n_classes, 50))
    moved = probabilities_of(scores + prior_offset(prior, wanted)[:, None])
    expected = adjust_probabilities(probabilities_of(scores).T, prior, wanted)
    np.testing.assert_allclose(moved.T, expected, rtol=1e-12)
    several = prior_offset(prior, np.stack([wanted, prior]))
    np.testing.assert_array_equal(several[1], np.zeros(len(scores)))


def test_a_class_that_is_left_out_has_no_probability():
    offset = prior_offset(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    assert np.isfinite(offset).all()
    p = probabilities_of(np.array([[30.0]]) + offset)
    np.testing.assert_allclose(p, [[1.0], [0.0]], atol=1e-200)
