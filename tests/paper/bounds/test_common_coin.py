"""What is printed of (CIIM) and (CIBM) is not enough: one coin for the labels of all bags.

A bag is one instance, many times or once, so that nothing inside a bag is in question. Instances
are drawn from their mixtures, independently. Then one U, uniform on [0, 1], decides all labels:
Y_i = 1 if U < P(Y_i = 1 | X_i). Every printed condition holds.
"""

import numpy as np
import pytest

from unbag.paper.bounds import sample_bags

GAMMA = np.tile([0.45, 0.55], 500)
# probability of x = 1 in the negative and the positive class
PROBABILITY = np.array([0.49, 0.51])


def draw(rng, common):
    """Instances x = 0 or 1 and labels, one for each bag."""
    x = rng.random(len(GAMMA)) < (1 - GAMMA) * PROBABILITY[0] + GAMMA * PROBABILITY[1]
    likelihood = np.where(x[:, None], PROBABILITY, 1 - PROBABILITY)
    joint = likelihood * np.column_stack([1 - GAMMA, GAMMA])
    coin = rng.random() if common else rng.random(len(GAMMA))
    return x, coin < joint[:, 1] / joint.sum(axis=1)


def contrasts(rng, common, draws=1000):
    """Γ̂⁺ − Γ̂⁻ of one block by blockwise-pairwise merging."""
    labels = np.array([draw(rng, common)[1] for _ in range(draws)])
    return np.abs(labels[:, ::2].astype(int) - labels[:, 1::2]).mean(axis=1)


def test_every_printed_condition_holds():
    rng = np.random.default_rng(0)
    draws = [draw(rng, common=True) for _ in range(8000)]
    x, y = (np.array([pair[k][:4] for pair in draws]) for k in (0, 1))
    error = 4 * np.sqrt(0.25 / len(x))
    # labels have the probabilities γ, and instances the distribution of their class
    np.testing.assert_allclose(y.mean(axis=0), GAMMA[:4], atol=error)
    for label in (0, 1):
        for bag in range(4):
            given = x[y[:, bag] == label, bag]
            assert given.mean() == pytest.approx(
                PROBABILITY[label], abs=4 * 0.5 / np.sqrt(len(given))
            )
    # instances of different bags are independent; labels are anything but
    assert np.abs(np.corrcoef(x.T) - np.eye(4)).max() < 2 * error
    assert np.corrcoef(y.T).min() > 0.75


def test_step_on_contrasts_fails_with_one_coin_for_all_labels():
    """The proof has P(Γ̂ ≤ Γ − ε) ≤ e^{−2Kε²}, here .0003; it happens in nine of ten draws."""
    K, epsilon = len(GAMMA) // 2, 0.09
    allowed = np.exp(-2 * K * epsilon**2)
    assert allowed < 4e-4
    rng = np.random.default_rng(1)
    common = contrasts(rng, common=True)
    short = np.mean(common <= common.mean() - epsilon)
    assert short == pytest.approx(0.89, abs=0.03)
    independent = contrasts(rng, common=False)
    assert np.mean(independent <= independent.mean() - epsilon) <= allowed


@pytest.mark.parametrize("model", ["CIIM", "CIBM", "CIBM'"])
def test_bags_that_we_draw_are_independent_with_their_labels(model):
    shares = np.array(
        [
            sample_bags(np.tile([0.45, 0.55], 2), 4, [1.0], [0.0], model=model, random_state=k)
            .observed_proportions
            for k in range(2000)
        ]
    )  # fmt: skip
    correlation = np.corrcoef(shares.T) - np.eye(4)
    assert np.abs(correlation).max() < 4 / np.sqrt(2000)
