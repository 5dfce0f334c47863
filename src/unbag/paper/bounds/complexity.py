"""Weighted Rademacher complexities: how well a class of functions can follow random signs.

For pairs of bags with coefficients c_i ≥ 0 the paper defines, with random signs ε = ±1,

    R^I = E sup_f Σ_i c_i Σ_{σ=±} 1/(2n_i^σ) Σ_j ε_ij^σ f(X_ij^σ)    (independent instances),
    R^B = E sup_f Σ_i c_i ε_i f(X_i)                                 (independent bags),

where X_i is one instance, drawn from either bag of pair i with probability ½ each. Both have the
form E sup_f Σ_k ε_k a_k f(x_k). On given data they are estimated by drawing signs (and X_i).

Condition (SR) of a class of functions (`unbag.paper.bounds.function_classes`) gives

    R^I ≤ B √(Σ_i c_i² / (2n̄_i)),    R^B ≤ B √(Σ_i c_i²).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count
from unbag.bags.bags import Bags
from unbag.paper.bounds.checks import check_coefficients
from unbag.paper.bounds.function_classes import BLOCK, FunctionClass
from unbag.paper.bounds.sampling import PairModel
from unbag.paper.pairing import Pairing


@dataclass(frozen=True)
class ComplexityEstimate:
    """A Monte-Carlo estimate of a weighted Rademacher complexity on given data.

    Attributes
    ----------
    value : float
        Mean over the draws.
    standard_error : float
        Its Monte-Carlo standard error.
    upper_bound : float
        The bound by condition (SR), which needs no draws.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.paper.bounds import RKHSBall, rademacher_complexity
    >>> from unbag.kernels import Kernel
    >>> from unbag.paper import pair_bags
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.2, 0.2, 0.9, 0.9]))
    >>> pairing = pair_bags(bags.proportions[:, 1], bags.sizes)
    >>> X = np.array([[0.0], [1.0], [1.0], [2.0]])
    >>> estimate = rademacher_complexity(RKHSBall(Kernel("rbf")), X, bags, pairing, [1.0])
    >>> bool(estimate.value < estimate.upper_bound), estimate.standard_error < 0.01
    (True, True)
    """

    value: float
    standard_error: float
    upper_bound: float


def rademacher_complexity(
    functions: FunctionClass,
    X: ArrayLike,
    bags: Bags,
    pairing: Pairing,
    coefficients: ArrayLike,
    model: PairModel = "IIM",
    *,
    n_draws: int = 1000,
    random_state: Any = 0,
) -> ComplexityEstimate:
    """Estimate the complexity R^I ("IIM") or R^B ("IBM") of a class on given data.

    Parameters
    ----------
    functions : RKHSBall or TwoLayerReLU
        The class.
    X : array-like of shape (n_instances, n_features)
        The instances, in the order of ``bags.index``.
    bags : Bags
        The bags.
    pairing : Pairing
        Which bags make a pair.
    coefficients : array-like of shape (n_pairs,)
        c_i ≥ 0; for the bounds c_i = w_i|ℓ|/s_i, see `GeneralizationBound.coefficients`.
    model : {"IIM", "IBM"}, default="IIM"
        Whether instances are independent, or only bags are.
    n_draws : int, default=1000
        Number of draws of random signs.
    random_state : int, Generator or None, default=0
        Makes the draws repeatable.

    Returns
    -------
    estimate : ComplexityEstimate
        With ``value``, ``standard_error`` and ``upper_bound``.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.paper.bounds import RKHSBall, rademacher_complexity
    >>> from unbag.kernels.matrices import Kernel
    >>> from unbag.paper.pairing import pair_extremes
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.2, 0.2, 0.9, 0.9]))
    >>> pairing = pair_extremes(bags.proportions[:, 1])
    >>> X = np.array([[0.0], [1.0], [1.0], [2.0]])
    >>> ball = RKHSBall(Kernel("rbf"))
    >>> estimate = rademacher_complexity(ball, X, bags, pairing, [1.0])
    >>> round(estimate.value, 2), round(estimate.upper_bound, 2)
    (0.48, 0.5)
    """
    check_choice(model, get_args(PairModel), "model")
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or len(X) != bags.n_instances:
        raise ValueError(
            f"X must have one row for each of the {bags.n_instances} instances; its shape is "
            f"{X.shape}."
        )
    c = check_coefficients(coefficients, len(pairing))
    check_count(n_draws, "n_draws", least=2)
    rng = np.random.default_rng(random_state)
    if model == "IIM":
        per_bag = np.zeros(bags.n_bags)
        per_bag[pairing.positive] = c / (2 * bags.sizes[pairing.positive])
        per_bag[pairing.negative] = c / (2 * bags.sizes[pairing.negative])
        a = per_bag[bags.index]
        draws = _instance_draws(functions, X, a, n_draws, rng)
    else:
        a, draws = c, _bag_draws(functions, X, bags, pairing, c, n_draws, rng)
    values = np.concatenate(list(draws))
    return ComplexityEstimate(
        value=float(values.mean()),
        standard_error=float(values.std(ddof=1) / np.sqrt(n_draws)),
        upper_bound=float(functions.constants(X)[1] * np.sqrt(np.sum(a**2))),
    )


def _instance_draws(
    functions: FunctionClass, X: Floats, a: Floats, n_draws: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Suprema for signs of all instances, in blocks of draws."""
    paired = np.flatnonzero(a > 0)
    if not len(paired):
        yield np.zeros(n_draws)
        return
    X, a = functions.rows(X, paired), a[paired]
    step = max(1, BLOCK // len(paired))
    for start in range(0, n_draws, step):
        shape = (min(step, n_draws - start), len(paired))
        yield functions.suprema(X, a * _signs(rng, shape))


def _bag_draws(
    functions: FunctionClass,
    X: Floats,
    bags: Bags,
    pairing: Pairing,
    c: Floats,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    """Suprema for one sign and one instance of each pair."""
    members = np.argsort(bags.index, kind="stable")
    start = np.cumsum(bags.sizes) - bags.sizes
    for _ in range(n_draws):
        bag = np.where(rng.random(len(c)) < 0.5, pairing.positive, pairing.negative)
        chosen = members[start[bag] + rng.integers(bags.sizes[bag])]
        signed = c * _signs(rng, (1, len(c)))
        yield functions.suprema(functions.rows(X, chosen), signed)


def _signs(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int8]:
    return 2 * rng.integers(2, size=shape, dtype=np.int8) - 1
