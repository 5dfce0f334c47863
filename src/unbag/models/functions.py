"""The families of functions that models search: linear ones, and those of a kernel.

A family is made once from the parameters of an estimator. `space` gives its functions over
instances in memory; `basis` what they are made of, which is all that is needed to evaluate them
anywhere and to keep the one that was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from unbag._arrays import Floats, on_device
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.kernels.approximations import KernelFeatures, choose_approximation, make_kernel_features
from unbag.kernels.matrices import Kernel, check_kernel_memory, make_kernel
from unbag.kernels.rows import RowsInMemory, RowSummary, SparseRows, as_dense
from unbag.solvers import KernelSpace, LinearSpace
from unbag.solvers.centred import CentredSpace
from unbag.solvers.spaces import SpaceInMemory

PRECISIONS = {"single": np.float32, "double": np.float64}

# A table of at least so many columns, of which at most such a share is not zero (an entry of a
# sparse matrix takes as long as five of a table), is multiplied as a sparse matrix.
_MANY_COLUMNS, _FEW_ENTRIES = 64, 0.1

# Up to so many bags (for kernels, of so many rows together), what is known of scores beforehand
# helps to choose among penalties: more were not tried, or showed no gain (results/few_bags.md,
# results/large_bags.md).
_FEW_FOR_LINES, _FEW_FOR_KERNELS, _FEW_ROWS = 32, 16, 4_096

# Instances that tell how much functions vary, and a share of k(x, x) that is as good as nothing.
_SOME_ROWS, _LEAST_VARIANCE = 1_000, 1e-9

# A share of the variance of all columns that makes one of them nearly all.
_ONE_COLUMN = 0.9


@dataclass(frozen=True, eq=False)
class Basis:
    """What functions are made of: f(x) = Σ_j c_j b_j(x) + a, with c = Tw for what is searched, w.

    Attributes
    ----------
    n_coefficients : int
        Length of w for one output.
    intercept : bool
        Whether there is a constant a, which is searched as the last entry after w.
    kernel : Kernel or None
        b_j(x) = k(x, z_j), or waves; None stands for the features themselves.
    points : ndarray of shape (n_points, n_features) or None
        The z_j; None for a kernel matrix that was given.
    transform : ndarray of shape (n_functions, n_coefficients) or None
        T; None stands for the identity.
    approximation : str or None
        How the functions of a kernel are approximated.
    shift : ndarray of shape (n_coefficients + 1,) or None
        What a gains with each entry of what is searched, see `unbag.solvers.centred`.
    variance : float or None
        How much functions of norm one vary over the instances, where that is asked for.
    """

    n_coefficients: int
    intercept: bool
    kernel: Kernel | None = None
    points: NDArray[Any] | None = None
    transform: Floats | None = None
    approximation: str | None = None
    shift: Floats | None = None
    variance: float | None = None

    def read(self, theta: NDArray[Any], n_outputs: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Coefficients c (outputs, functions) and constants (outputs,) of what was found."""
        rows = theta.reshape(n_outputs, -1)
        w = rows[:, : self.n_coefficients]
        constant = rows[:, -1] if self.intercept else np.zeros(n_outputs, dtype=theta.dtype)
        if self.shift is not None:
            constant = (constant + rows @ self.shift).astype(theta.dtype)
        return w.copy() if self.transform is None else w @ self.transform.T, constant.copy()


class Functions(Protocol):
    """A family of functions."""

    def space(self, X: Any, n_outputs: int, free_intercept: bool) -> tuple[SpaceInMemory, Basis]:
        """Functions over instances in memory, and what they are made of."""
        ...

    def with_variance(self, bags: Bags) -> Functions:
        """Give the same family, whose basis tells how much functions vary if bags are few."""
        ...

    def on_partitions(self) -> Functions:
        """Say what stands for this family where instances are in partitions, or refuse."""
        ...

    def basis(self, rows: RowSummary, free_intercept: bool) -> Basis:
        """What functions are made of that are evaluated where the instances are."""
        ...


@dataclass(frozen=True)
class LinearFunctions:
    """f(x) = xᵀw + b."""

    fit_intercept: bool
    device: str | None
    tells_variance: bool = False

    def space(self, X: Any, n_outputs: int, free_intercept: bool) -> tuple[SpaceInMemory, Basis]:
        """Functions over instances in memory, and what they are made of."""
        if self.device is not None and issparse(X):
            raise ValueError(
                f"device={self.device!r} takes dense X only; use device=None for sparse X, or "
                "X.toarray()."
            )
        rows = _without_zeros(X) if self.device is None else on_device(X, self.device)
        space = LinearSpace(rows, n_outputs, self.fit_intercept)
        return space, self.basis(SparseRows(X) if issparse(X) else RowsInMemory(X), free_intercept)

    def with_variance(self, bags: Bags) -> LinearFunctions:
        """The same family, whose basis tells how much functions vary if bags are few."""
        return replace(self, tells_variance=bags.n_bags <= _FEW_FOR_LINES)

    def on_partitions(self) -> LinearFunctions:
        """The same family."""
        _refuse_device(self.device)
        return self

    def basis(self, rows: RowSummary, free_intercept: bool) -> Basis:  # noqa: ARG002
        """The features themselves."""
        variance = _of_like_columns(rows) if self.tells_variance else None
        return Basis(rows.shape[1], self.fit_intercept, variance=variance)


@dataclass(frozen=True)
class KernelFunctions:
    """f(x) = Σ_j α_j k(x, x_j) + b over the instances, or an approximation of fewer terms.

    b is zero unless it is free. An approximation is trained as a linear model on features
    (`unbag.kernels.approximations`), which for sparse instances is done in any case.
    """

    kernel: str
    gamma: str | float
    degree: int
    coef0: float
    precision: str
    device: str | None = None
    approximation: str | None = None
    n_components: int = 1000
    random_state: Any = None
    tells_variance: bool = False

    def space(self, X: Any, n_outputs: int, free_intercept: bool) -> tuple[SpaceInMemory, Basis]:
        """Functions over instances in memory, and what they are made of."""
        check_choice(self.precision, PRECISIONS, "precision")
        dtype = np.dtype(PRECISIONS[self.precision])
        rows: RowSummary = SparseRows(X) if issparse(X) else RowsInMemory(X)
        kernel, variance = self._kernel(rows)
        n, there = X.shape[0], on_device(np.empty(0), self.device)
        approximation = choose_approximation(
            self.approximation, self.kernel, n, dtype.itemsize, there
        )
        if issparse(X):  # which is taken only where an approximation may be
            approximation = approximation or "nystroem"
        if approximation is not None:
            features = self._features(approximation, kernel, rows)
            matrix = features.matrix(X, dtype, self.device)
            basis = _basis_of(features, approximation, free_intercept, variance)
            return LinearSpace(matrix, n_outputs, free_intercept), basis
        check_kernel_memory(n, dtype.itemsize, there)
        on_it = on_device(X, self.device)
        K = kernel.matrix(on_it, getattr(array_namespace(on_it), dtype.name))
        points = None if self.kernel == "precomputed" else X
        basis = Basis(n, free_intercept, kernel, points, variance=variance)
        return _centred(KernelSpace(K, n_outputs, free_intercept), basis)

    def with_variance(self, bags: Bags) -> KernelFunctions:
        """The same family, whose basis tells how much functions vary if bags are few."""
        few = bags.n_bags <= _FEW_FOR_KERNELS and bags.sizes.sum() <= _FEW_ROWS
        return replace(self, tells_variance=bool(few))

    def on_partitions(self) -> KernelFunctions:
        """An approximation, by landmarks if it is left open."""
        _refuse_device(self.device)
        if self.kernel == "precomputed" or self.approximation is None:
            raise ValueError(
                "A whole kernel matrix is for data in memory; on Dask collections use "
                "approximation='nystroem' or 'fourier' and a kernel such as 'rbf'."
            )
        chosen = "nystroem" if self.approximation == "auto" else self.approximation
        return replace(self, approximation=chosen)

    def basis(self, rows: RowSummary, free_intercept: bool) -> Basis:
        """Features of the kernel."""
        approximation = choose_approximation(
            self.approximation, self.kernel, rows.shape[0], 8, np.empty(0)
        )
        kernel, variance = self._kernel(rows)
        features = self._features(approximation, kernel, rows)
        return _basis_of(features, approximation, free_intercept, variance)

    def _kernel(self, rows: RowSummary) -> tuple[Kernel, float | None]:
        """The kernel, and if that is asked for, how much its functions vary."""
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, rows)
        return kernel, _variance(kernel, rows) if self.tells_variance else None

    def _features(self, approximation: Any, kernel: Kernel, rows: RowSummary) -> KernelFeatures:
        return make_kernel_features(
            approximation, kernel, rows, self.n_components, self.random_state
        )


def _centred(space: KernelSpace, basis: Basis) -> tuple[SpaceInMemory, Basis]:
    """Search the intercept, where there is one, as the mean of the scores.

    Of features, linear or of an approximation, it is searched as it is, as on partitions: so a
    model is the same there step by step.
    """
    if not basis.intercept:
        return space, basis
    centred = CentredSpace(space)
    return centred, replace(basis, shift=centred.shift)


def _of_like_columns(rows: RowSummary) -> float | None:
    """Sum of the variances of columns; None if nearly all of it is one column's.

    Then columns are not of one scale, and how much functions vary is how much that one does.
    """
    variances = rows.column_variances()
    total = float(variances.sum())
    return total if variances.max() < _ONE_COLUMN * total else None


def _variance(kernel: Kernel, rows: RowSummary) -> float | None:
    """Mean of k(x, x) less the mean of k, over instances of even distance; None if that is zero."""
    n = rows.shape[0]
    some = np.linspace(0, n - 1, min(n, _SOME_ROWS)).astype(np.intp)
    X = as_dense(rows.take(some))
    K = kernel.matrix(X[:, some] if kernel.name == "precomputed" else X, np.float64)
    largest = np.diag(K).mean()
    variance = float(largest - K.mean())
    return variance if variance > _LEAST_VARIANCE * largest else None


def _basis_of(
    features: KernelFeatures, approximation: str | None, intercept: bool, variance: float | None
) -> Basis:
    return Basis(
        features.n_features,
        intercept,
        features.kernel,
        features.points,
        features.transform,
        approximation,
        variance=variance,
    )


def _without_zeros(X: Any) -> Any:
    """X, as a sparse matrix where that is faster: where categories are columns of 0 and 1, say."""
    if issparse(X) or X.shape[1] < _MANY_COLUMNS:
        return X
    few = np.count_nonzero(X) <= _FEW_ENTRIES * X.size
    return csr_array(X) if few else X


def _refuse_device(device: str | None) -> None:
    if device is not None:
        raise ValueError(
            f"device={device!r} is for data in memory; on Dask collections use device=None."
        )
