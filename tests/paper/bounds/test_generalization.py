"""The first theorem: its algebra, what minimises it, and that it holds."""

from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from unbag import bag_target, check_bag_target
from unbag.observations.losses import LOSSES
from unbag.paper.bounds import RKHSBall, generalization_bound
from unbag.paper.bounds.complexity import rademacher_complexity
from unbag.paper.bounds.contamination import MultiMCM, unbiased_coefficients
from unbag.paper.kernels import Kernel
from unbag.paper.weights import Pairing, pair_extremes, pair_matching

MODELS = ["IIM", "IBM"]
KAPPA = (np.array([0.1, 0.35, 0.0, 0.5]), np.array([0.2, 0.3, 0.05, 0.4]))
SIZES = np.array([[10, 40], [100, 100], [3, 7], [60, 20]])
CONSTANTS = {"loss": "logistic", "A": 1.5, "B": 2.0, "delta": 0.1}


def draws_of(sizes, model):
    return 2 / (1 / sizes).sum(axis=1) if model == "IIM" else np.ones(len(sizes))


def by_hand(w, model, factor):
    contrast = 1 - KAPPA[0] - KAPPA[1]
    return factor * np.sqrt(np.sum(w**2 / (draws_of(SIZES, model) * contrast**2)))


def models_of(kappa_plus, kappa_minus, sizes, weights="IIM"):
    sizes = np.asarray(sizes)
    plus, minus = sizes.T if sizes.ndim == 2 else (sizes, sizes)
    return MultiMCM(kappa_plus, kappa_minus, sizes_plus=plus, sizes_minus=minus, weights=weights)


def bags_of(proportions, sizes):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return check_bag_target(bag_target(bag, np.repeat(proportions, sizes)))


# --- algebra ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_forms_agree_with_direct_evaluation(model):
    lip, A, B, delta = 4.0, 1.5, 2.0, 0.1
    proved = np.sqrt(2) * B * lip + A * lip * np.sqrt(np.log(2 / delta))
    stated = 2 * B * lip + (1 + A * lip) * np.sqrt(np.log(2 / delta))
    w = np.array([0.4, 0.3, 0.2, 0.1])
    bound = generalization_bound(models_of(*KAPPA, SIZES, w), "huber", A, B, delta, model)
    assert bound.value == pytest.approx(by_hand(w, model, proved))
    assert bound.stated == pytest.approx(by_hand(w, model, stated))
    assert bound.with_uniform_weights == pytest.approx(by_hand(np.full(4, 0.25), model, proved))
    best = bound.optimal_weights
    assert bound.with_optimal_weights == pytest.approx(by_hand(best, model, proved))
    # the means of the paper
    noise = 1 / (draws_of(SIZES, model) * (1 - KAPPA[0] - KAPPA[1]) ** 2)
    harmonic = len(noise) / np.sum(1 / noise)
    assert bound.with_optimal_weights == pytest.approx(proved * np.sqrt(harmonic / 4))
    assert bound.with_uniform_weights == pytest.approx(proved * np.sqrt(noise.mean() / 4))
    assert bound.coefficients == pytest.approx(w * lip / (1 - KAPPA[0] - KAPPA[1]))


@pytest.mark.parametrize("model", MODELS)
def test_pairs_in_any_form(model):
    rng = np.random.default_rng(0)
    gamma, sizes = rng.random(8), rng.integers(2, 31, 8)
    pairing = pair_matching(gamma, sizes)
    plain = models_of(
        1 - gamma[pairing.positive],
        gamma[pairing.negative],
        np.column_stack([sizes[pairing.positive], sizes[pairing.negative]]),
        model,
    )
    expected = generalization_bound(plain, **CONSTANTS, model=model)
    models = MultiMCM.from_pairs(pairing, gamma, sizes, weights=model)
    of_models = generalization_bound(models, **CONSTANTS, model=model)
    assert of_models.value == pytest.approx(expected.value)
    uniform = MultiMCM.from_pairs(pairing, gamma, sizes, weights="uniform")
    uniform = generalization_bound(uniform, **CONSTANTS, model=model)
    assert uniform.value == pytest.approx(expected.with_uniform_weights)


def test_a_hundred_thousand_pairs_take_less_than_a_second():
    rng = np.random.default_rng(0)
    kappa = rng.random((2, 100_000)) * 0.49
    sizes = rng.integers(1, 1000, (100_000, 2))
    start = perf_counter()
    for model in MODELS:
        generalization_bound(models_of(*kappa, sizes, model), **CONSTANTS, model=model)
    assert perf_counter() - start < 1


# --- what minimises it --------------------------------------------------------------------------


# what older versions of SciPy say of their own steps
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sizes", [SIZES, np.full((4, 2), 10)], ids=["unequal", "equal"])
def test_optimal_weights_are_those_found_numerically(model, sizes):
    pairs = (*KAPPA, sizes)

    def value(w):
        on_simplex = np.maximum(w, 0) / np.maximum(w, 0).sum()
        models = models_of(*pairs, on_simplex / on_simplex.sum())
        return generalization_bound(models, **CONSTANTS, model=model).value

    found = minimize(value, np.full(4, 0.25), method="SLSQP", bounds=[(1e-9, 1)] * 4, tol=1e-14)
    bound = generalization_bound(models_of(*pairs, model), **CONSTANTS, model=model)
    assert found.fun == pytest.approx(bound.with_optimal_weights, rel=1e-6)
    assert found.fun >= bound.value * (1 - 1e-12)
    assert found.x / found.x.sum() == pytest.approx(bound.optimal_weights, abs=2e-3)
    elsewhere = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    assert min(map(value, elsewhere)) > bound.value


def perfect_matchings(bags):
    if not bags:
        yield []
        return
    for k in range(1, len(bags)):
        for rest in perfect_matchings(bags[1:k] + bags[k + 1 :]):
            yield [(bags[0], bags[k]), *rest]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("equal", [True, False], ids=["equal sizes", "unequal sizes"])
@pytest.mark.parametrize("n_pairs", [2, 3, 4])
def test_best_pairing_is_the_best_of_all(model, equal, n_pairs):
    rng = np.random.default_rng(n_pairs)
    for _ in range(3):
        gamma = rng.random(2 * n_pairs)
        sizes = np.full(2 * n_pairs, 9) if equal else rng.integers(2, 200, 2 * n_pairs)

        def value(pairing, gamma=gamma, sizes=sizes):
            models = MultiMCM.from_pairs(pairing, gamma, sizes, weights=model)
            return generalization_bound(models, **CONSTANTS, model=model).value

        values = []
        for pairs in perfect_matchings(list(range(2 * n_pairs))):
            first, second = np.array(pairs).T
            up = gamma[first] > gamma[second]
            values.append(value(Pairing(np.where(up, first, second), np.where(up, second, first))))
        if equal or model == "IBM":
            assert value(pair_extremes(gamma)) == pytest.approx(min(values), rel=1e-12)
        if model == "IIM":
            assert value(pair_matching(gamma, sizes)) == pytest.approx(min(values), rel=1e-12)
        assert len(values) == {2: 3, 3: 15, 4: 105}[n_pairs]


# --- that it holds ------------------------------------------------------------------------------

# ℓ_σ(t) = −σt: the paper allows losses to be negative
LINEAR = SimpleNamespace(name="linear", lipschitz=1.0)


def probability_beyond(n_units, distance):
    """P(|Ê − E| > distance) for the single function f(x) = x on fair coins x = ±1, without noise.

    With n_units independent coins on each side, Ê − E = −(Bin(2·n_units, ½) − n_units)/n_units.
    """
    edge = n_units * distance
    return 2 * binom.cdf(np.ceil(n_units - edge) - 1, 2 * n_units, 0.5)


@pytest.mark.parametrize("delta", [0.2, 0.05, 0.01])
def test_deviation_holds_and_could_hardly_be_smaller(delta):
    """A class of one function has no complexity, so that the second term stands alone."""
    pairs = np.zeros(100), np.zeros(100), np.full(100, 5)
    for model, n_units in (("IIM", 500), ("IBM", 100)):
        bound = generalization_bound(
            models_of(*pairs, model), LINEAR, A=1.0, B=0.0, delta=delta, model=model
        )
        probability = probability_beyond(n_units, bound.value)
        assert delta / 20 < probability <= delta


def test_step_printed_for_independent_bags_is_too_small():
    """The bounded difference of a pair is 2w_i m_i; the paper's next line drops the 2."""
    A, delta, n_pairs = 50.0, 0.01, 1000
    printed = (1 + A) * np.sqrt(np.log(2 / delta) / 2) / np.sqrt(n_pairs)
    assert probability_beyond(n_pairs, printed / A) > 1.5 * delta


def test_figures_of_the_page_on_sharpness():
    pairs = np.zeros(100), np.zeros(100), np.full(100, 5)
    for model, n_units, expected in (("IIM", 500, 0.0072), ("IBM", 100, 0.0057)):
        bound = generalization_bound(
            models_of(*pairs, model), LINEAR, A=1.0, B=0.0, delta=0.05, model=model
        )
        assert probability_beyond(n_units, bound.value) == pytest.approx(expected, abs=5e-5)
        assert probability_beyond(n_units, 0.73 * bound.value) < 0.05
        assert probability_beyond(n_units, 0.71 * bound.value) > 0.05
    distances = suprema("IIM", LOSSES["logistic"], 5000, np.random.default_rng(0))
    bound = generalization_bound(models_of(*KAPPA, SIZES), "logistic", A=1.0, B=1.0, delta=0.2)
    assert bound.value == pytest.approx(0.60, abs=0.005)
    assert np.quantile(distances, 0.8) == pytest.approx(0.07, abs=0.005)
    assert distances.max() < bound.value


VALUES = np.linspace(-1, 1, 5)
PLUS, MINUS = np.array([1, 1, 2, 3, 3]) / 10, np.array([3, 4, 1, 1, 1]) / 10
SLOPES = np.linspace(-1, 1, 41)


def suprema(model, loss, reps, rng, kappa=KAPPA, sizes=SIZES):
    """Largest |Ê_w − E| over f(x) = sx, |s| ≤ 1, with the optimal weights, in many samples.

    Under IBM all instances of a bag are the same: the worst dependence there is.
    """
    margin = VALUES * SLOPES[:, None]
    losses = np.stack([loss.value(-margin), loss.value(margin)])
    truth = 0.5 * (losses[0] @ MINUS + losses[1] @ PLUS)
    w = models_of(*kappa, sizes, model).weights
    coefficients = unbiased_coefficients(*kappa)
    estimate = np.zeros((reps, len(SLOPES)))
    for i in range(len(w)):
        for side in (0, 1):
            share = kappa[1][i] if side == 0 else 1 - kappa[0][i]
            size = sizes[i, 1 - side]
            mixture = share * PLUS + (1 - share) * MINUS
            mean = rng.multinomial(size if model == "IIM" else 1, mixture, reps)
            mean = mean / (size if model == "IIM" else 1)
            corrected = np.tensordot(coefficients[i, side], losses, 1)
            estimate += 0.5 * w[i] * mean @ corrected.T
    return np.abs(estimate - truth).max(axis=1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["logistic", "huber", "hinge", "sigmoid", "ramp"])
def test_bound_holds_over_the_whole_class(model, name):
    distances = suprema(model, LOSSES[name], 2000, np.random.default_rng(0))
    delta = 0.2
    models = models_of(*KAPPA, SIZES, model)
    bound = generalization_bound(models, name, A=1.0, B=1.0, delta=delta, model=model)
    assert np.mean(distances > bound.value) <= delta
    # and is not a bound that holds only by being huge
    assert bound.value < 15 * np.quantile(distances, 1 - delta)


@pytest.mark.parametrize("model", MODELS)
def test_bound_with_the_complexity_of_the_data_holds(model):
    """Distance and complexity of one and the same sample."""
    rng = np.random.default_rng(1)
    delta, loss = 0.2, LOSSES["logistic"]
    share = np.concatenate([1 - KAPPA[0], KAPPA[1]])
    bags = bags_of(share, np.concatenate([SIZES[:, 0], SIZES[:, 1]]))
    pairing = Pairing(np.arange(4), np.arange(4, 8))
    models = MultiMCM.from_pairs(pairing, share, bags.sizes, weights=model)
    plain = generalization_bound(models, loss, 1.0, 1.0, delta, model)
    mixtures = share[:, None] * PLUS + (1 - share[:, None]) * MINUS
    ball = RKHSBall(Kernel("linear"), kernel_bound=1.0)
    beyond = []
    for _ in range(50):
        if model == "IIM":
            x = np.array([rng.choice(VALUES, p=mixtures[bag]) for bag in bags.index])
        else:
            x = np.array([rng.choice(VALUES, p=mixture) for mixture in mixtures])[bags.index]
        estimate = rademacher_complexity(
            ball, x[:, None], bags, pairing, plain.coefficients, model, n_draws=100
        )
        bound = generalization_bound(
            models, loss, 1.0, None, delta, model, complexity=estimate.value
        )
        risks = [models.risk(loss, slope * x, bags.index) for slope in SLOPES]
        truth = [
            0.5 * (loss.value(slope * VALUES) @ PLUS + loss.value(-slope * VALUES) @ MINUS)
            for slope in SLOPES
        ]
        beyond.append(np.max(np.abs(np.subtract(risks, truth))) > bound.value)
    assert np.mean(beyond) <= delta
    assert bound.value > 2 * estimate.value
    assert np.isnan(bound.with_uniform_weights)


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, "delta must lie between 0 and 1"),
        ({"delta": 1.0}, "delta must lie between 0 and 1"),
        ({"delta": np.nan}, "delta must lie between 0 and 1"),
        ({"model": "iid"}, "model must be one of 'IIM', 'IBM', not 'iid'"),
        ({"loss": "squared"}, "'squared' is not Lipschitz"),
        ({"loss": "zero_one"}, "'zero_one' is not Lipschitz"),
        ({"loss": object()}, "attribute lipschitz"),
        ({"A": -1.0}, "A must be a finite number of at least 0"),
        ({"B": None}, "B must be a finite number of at least 0"),
        ({"complexity": -1.0}, "complexity must be a finite number"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"pairs": models_of([0.1, 0.2], [0.1, 0.4], 5), **CONSTANTS, **change}
    with pytest.raises(ValueError, match=message):
        generalization_bound(**arguments)
