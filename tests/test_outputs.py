"""Two classes have one score and one probability of an instance, several have one each."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from unbag._outputs import by_instance, by_output, probabilities_of_all, scores_of_all


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_scores_by_instance_and_back(n_outputs):
    scores = np.random.default_rng(0).normal(size=(n_outputs, 5))
    assert by_instance(scores).shape == ((5,) if n_outputs == 1 else (5, 3))
    np.testing.assert_array_equal(by_output(by_instance(scores)), scores)


def test_the_first_of_two_classes():
    scores = np.random.default_rng(0).normal(size=(1, 5))
    found = softmax(scores_of_all(scores), axis=0)
    np.testing.assert_allclose(found, probabilities_of_all(expit(scores)), rtol=1e-12)
    np.testing.assert_array_equal(found.argmax(axis=0), scores[0] > 0)


def test_of_several_classes_there_is_nothing_to_add():
    several = np.random.default_rng(0).normal(size=(3, 5))
    assert scores_of_all(several) is several
    assert probabilities_of_all(several) is several
