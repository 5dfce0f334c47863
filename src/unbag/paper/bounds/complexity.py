"""Classes of functions, and what bounds need to know of them.

Condition (SR): |f(x)| ≤ A, and E sup_f Σ_k ε_k a_k f(x_k) ≤ B √(Σ_k a_k²) for all a ≥ 0, with
random signs ε = ±1. Proposition 4 gives A and B of balls in spaces of kernels, and of networks.

Weighted Rademacher complexities say how well a class can follow random signs. For pairs of bags
with coefficients c_i ≥ 0 and X_i one instance of either bag of pair i with probability ½ each,

    R^I = E sup_f Σ_i c_i Σ_{σ=±} 1/(2n_i^σ) Σ_j ε_ij^σ f(X_ij^σ) ≤ B √(Σ_i c_i² / (2n̄_i)),
    R^B = E sup_f Σ_i c_i ε_i f(X_i)                              ≤ B √(Σ_i c_i²).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count, check_nonnegative, check_one_each
from unbag.bags.bags import Bags
from unbag.models.base import row_blocks
from unbag.paper.bounds.contamination import PairModel, refuse_first
from unbag.paper.kernels import Kernel
from unbag.paper.weights import Pairing

# Numbers held at a time: 32 MB of them.
BLOCK = 1 << 22


class FunctionClass(Protocol):
    """What the bounds ask of a class of functions: (A, B) of condition (SR), and suprema."""

    def constants(self, X: NDArray[Any]) -> tuple[float, float]: ...  # noqa: D102

    def _suprema(self, X: NDArray[Any], signed: Floats) -> Floats:
        """sup_f Σ_k u_k f(x_k) for every row u of ``signed``, or a value of larger mean."""


@dataclass(frozen=True)
class RKHSBall:
    """Functions of RKHS norm at most ``radius``.

    By Cauchy and Schwarz the supremum has a closed form, and A = B = radius · max √k(x, x):

        sup_f Σ_k u_k f(x_k) = radius · √(uᵀ K u),    K = (k(x_k, x_l)).

    Parameters
    ----------
    kernel : Kernel
        k.
    radius : float, default=1.0
        The largest norm.
    kernel_bound : float, optional
        A bound of √k(x, x) on the whole space. It is 1 for the Gaussian kernel, where A and B do
        not depend on the data. For others, if it is left out, the largest value on the data stands
        for it: then A and B hold for these instances only.

    Examples
    --------
    >>> from unbag.paper.bounds import RKHSBall
    >>> from unbag.paper.kernels import Kernel
    >>> RKHSBall(Kernel("linear"), radius=2.0).constants([[3.0, 4.0], [0.0, 1.0]])
    (10.0, 10.0)
    >>> RKHSBall(Kernel("rbf", gamma=0.5), radius=2.0).constants()
    (2.0, 2.0)
    """

    kernel: Kernel
    radius: float = 1.0
    kernel_bound: float | None = None

    def __post_init__(self) -> None:
        check_nonnegative(self.radius, "radius")
        if self.kernel_bound is not None:
            check_nonnegative(self.kernel_bound, "kernel_bound")

    def constants(self, X: ArrayLike | None = None, n_outputs: int = 1) -> tuple[float, float]:
        """(A, B) of condition (SR): both are radius times the bound of the kernel.

        With several scores, of squared norms that sum to radius² at most, A bounds the Euclidean
        norm of all of them and B is √n_outputs times as large.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features), optional
            Instances; needed where ``kernel_bound`` is not known.
        n_outputs : int, default=1
            Number of scores of an instance.

        Returns
        -------
        A, B : float
            Bound of |f(x)|, and B of condition (SR).
        """
        bound = self.kernel_bound
        if bound is None and self.kernel.name == "rbf":
            bound = 1.0
        if bound is None:
            if X is None:
                raise ValueError(
                    f"The {self.kernel.name} kernel has no bound of its own: give kernel_bound, or "
                    "the data."
                )
            X = np.asarray(X, dtype=float)
            bound = float(np.max(np.linalg.norm(X, axis=1)))
        return self.radius * bound, self.radius * bound * sqrt(n_outputs)

    def _suprema(self, X: NDArray[Any], signed: Floats) -> Floats:
        """Radius · √(uᵀKu) for every row u of ``signed``; K is made in blocks of rows."""
        squares = np.zeros(len(signed))
        for part in row_blocks(len(X)):
            block = self.kernel.block(X[part], X)
            squares += np.einsum("dk,dk->d", signed[:, part] @ block, signed)
        return self.radius * np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True)
class TwoLayerReLU:
    """Networks f(x) = Σ_j v_j max(0, u_jᵀx) with |v_j| ≤ α_j and ‖u_j‖ ≤ β_j.

    A = ⟨α, β⟩ max‖x‖, which some f attains (the paper's ‖α‖‖β‖ max‖x‖ is never smaller), and
    B = 2⟨α, β⟩ max‖x‖. The supremum has no closed form, but by contraction

        E sup_f Σ_k ε_k a_k f(x_k) ≤ 2⟨α, β⟩ E ‖Σ_k ε_k a_k x_k‖ ≤ B √(Σ_k a_k²).

    Parameters
    ----------
    output_bounds : array-like of shape (n_hidden,)
        α.
    input_bounds : array-like of shape (n_hidden,)
        β.
    data_bound : float, optional
        A bound of ‖x‖ on the whole space; left out, the largest norm in the data.

    Examples
    --------
    >>> from unbag.paper.bounds import TwoLayerReLU
    >>> TwoLayerReLU([1.0, 2.0], [0.5, 0.5]).constants([[3.0, 4.0], [0.0, 1.0]])
    (7.5, 15.0)
    """

    output_bounds: ArrayLike
    input_bounds: ArrayLike
    data_bound: float | None = None

    def __post_init__(self) -> None:
        alpha, beta = np.asarray(self.output_bounds), np.asarray(self.input_bounds)
        if alpha.ndim != 1 or alpha.shape != beta.shape or not len(alpha):
            raise ValueError(
                "output_bounds and input_bounds must have one entry for each hidden unit, not the "
                f"shapes {alpha.shape} and {beta.shape}."
            )
        if not (np.isfinite(alpha) & np.isfinite(beta) & (alpha >= 0) & (beta >= 0)).all():
            raise ValueError("output_bounds and input_bounds must be finite and not negative.")
        if self.data_bound is not None:
            check_nonnegative(self.data_bound, "data_bound")

    @property
    def scale(self) -> float:
        """⟨α, β⟩."""
        return float(np.dot(self.output_bounds, self.input_bounds))

    def constants(self, X: ArrayLike) -> tuple[float, float]:
        """(A, B) of condition (SR).

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances; not read if ``data_bound`` is given.

        Returns
        -------
        A, B : float
            Bound of |f(x)|, and B of condition (SR).
        """
        bound = self.data_bound
        if bound is None:
            bound = float(np.max(np.linalg.norm(np.asarray(X, dtype=float), axis=1)))
        return self.scale * bound, 2 * self.scale * bound

    def _suprema(self, X: NDArray[Any], signed: Floats) -> Floats:
        """2⟨α, β⟩‖Σ_k u_k x_k‖, whose mean over signs bounds that of the supremum."""
        return 2 * self.scale * np.linalg.norm(signed @ X, axis=1)


# --- complexity -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ComplexityEstimate:
    """A Monte-Carlo estimate of a weighted Rademacher complexity on given data.

    ``value`` is the mean over the draws, with its standard error; ``upper_bound`` is the bound by
    condition (SR), which needs no draws.
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

    X has the instances in the order of ``bags.index``. For the bounds the coefficients are
    c_i = w_i|ℓ|/s_i, see `unbag.paper.bounds.generalization.GeneralizationBound`.
    """
    check_choice(model, get_args(PairModel), "model")
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or len(X) != bags.n_instances:
        raise ValueError(
            f"X must have one row for each of the {bags.n_instances} instances; its shape is "
            f"{X.shape}."
        )
    c = np.asarray(coefficients, dtype=float)
    check_one_each(c, len(pairing), "coefficients", "pairs")
    refuse_first(~((c >= 0) & (c < np.inf)), c, "c ≥ 0 fails: the coefficient is")
    check_count(n_draws, "n_draws", least=2)
    rng = np.random.default_rng(random_state)
    if model == "IIM":
        per_bag = np.zeros(bags.n_bags)
        for side in (pairing.positive, pairing.negative):
            per_bag[side] = c / (2 * bags.sizes[side])
        a = per_bag[bags.index]
        paired = np.flatnonzero(a > 0)
        own, rows = a[paired], X[paired]
        step = max(1, BLOCK // max(len(own), 1))
        draws = [
            functions._suprema(rows, own * _signs(rng, min(step, n_draws - start), len(own)))
            for start in range(0, n_draws, step)
        ]
    else:
        a, draws = c, []
        members = np.argsort(bags.index, kind="stable")
        first = np.cumsum(bags.sizes) - bags.sizes
        for _ in range(n_draws):
            bag = np.where(rng.random(len(c)) < 0.5, pairing.positive, pairing.negative)
            rows = X[members[first[bag] + rng.integers(bags.sizes[bag])]]
            draws.append(functions._suprema(rows, c * _signs(rng, 1, len(c))))
    values = np.concatenate(draws)
    return ComplexityEstimate(
        value=float(values.mean()),
        standard_error=float(values.std(ddof=1) / np.sqrt(n_draws)),
        upper_bound=float(functions.constants(X)[1] * np.sqrt(np.sum(a**2))),
    )


def _signs(rng: np.random.Generator, n_draws: int, n: int) -> NDArray[np.int8]:
    return 2 * rng.integers(2, size=(n_draws, n), dtype=np.int8) - 1
