"""Features in place of a kernel matrix: φ(x)ᵀφ(z) ≈ k(x, z) with few numbers an instance.

A function f = wᵀφ has the norm ‖w‖ in the RKHS of the approximate kernel, so that a kernel model
is a linear model without intercept on φ(X), whose cost is linear in the number of instances.

**Nyström.** For m landmarks Z, spread over the instances by k-means++, with K_ZZ = UΛUᵀ,

    φ(x) = Λ^{−1/2} Uᵀ k(Z, x),    so that φ(x)ᵀφ(z) = k(x, Z) K_ZZ^{−1} k(Z, z):

the kernel of the functions that landmarks span, which is exact if these are all instances. Where
K_ZZ is singular, only eigenvalues above rounding count.

**Fourier.** The rbf kernel is the mean of cos ωᵀ(x − z) over ω ~ N(0, 2γI). For m/2 draws of ω,

    φ(x) = √(2/m) (cos ω₁ᵀx, ..., sin ω₁ᵀx, ...),    so that φ(x)ᵀφ(z) is a mean over these draws.

Draws are orthogonal among as many as there are columns, which makes the mean more accurate.

Either way f(x) = Σ_j c_j b(x, z_j) for a basis b (the kernel itself, or waves), points z_j
(landmarks, or frequencies) and c = Tw: predictions need no features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from unbag._arrays import Array, Floats, on_device
from unbag._checks import check_count
from unbag.kernels.matrices import Kernel, Waves, check_feature_memory, memory_of, row_blocks
from unbag.kernels.rows import RowSummary, as_dense

Approximation = Literal["nystroem", "fourier"]

# "auto" computes the whole kernel matrix up to this size (20,000 instances in single precision),
# beyond which it is slow without a GPU, and up to this share of the memory.
_COMFORTABLE_BYTES = 1.6e9
_COMFORTABLE_SHARE = 0.25

# Landmarks are chosen among this many times as many instances. (Adult, 8,192 instances, 1,000
# landmarks: k-means++ loses about half as much of the exact AUC as landmarks at random do.)
_CANDIDATES = 10


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """φ(x) = Tᵀ b(x, Z) for a basis b and points Z.

    Attributes
    ----------
    kernel : Kernel
        b, the kernel itself or `Waves`.
    points : ndarray of shape (n_points, n_columns)
        Z, landmarks or frequencies.
    transform : ndarray of shape (n_basis, n_features) or None
        T; None stands for the identity.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.kernels.approximations import make_kernel_features
    >>> from unbag.kernels.matrices import Kernel
    >>> from unbag.kernels.rows import RowsInMemory
    >>> rows = RowsInMemory(np.random.default_rng(0).normal(size=(50, 2)))
    >>> features = make_kernel_features("fourier", Kernel("rbf"), rows, 20, random_state=0)
    >>> features.matrix(np.eye(2), np.dtype(float)).shape
    (2, 20)
    """

    kernel: Kernel
    points: NDArray[Any]
    transform: Floats | None

    def matrix(self, X: Any, dtype: np.dtype[Any], where: str | None = None) -> Array:
        """φ of every row of X, in the given type and on the given device.

        Rows, which may be sparse, are brought there in blocks, so that little more than the result
        is held.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_columns)
            Rows.
        dtype : numpy.dtype
            Type of the result.
        where : str, default=None
            Device of torch, or None for NumPy.

        Returns
        -------
        features : array of shape (n_rows, n_features)
            φ of each row.
        """
        points, transform = on_device(self.points, where), self.transform
        if transform is not None:
            transform = on_device(transform, where)
        xp, n = array_namespace(points), X.shape[0]
        check_feature_memory(n, self.n_features, dtype.itemsize, points)
        features = xp.empty(
            (n, self.n_features), dtype=getattr(xp, dtype.name), device=device(points)
        )
        for rows in row_blocks(n):
            block = self.kernel.block(on_device(as_dense(X[rows]), where), points, xp.float64)
            block = block if transform is None else block @ transform
            features[rows, :] = xp.astype(block, features.dtype, copy=False)
        return features

    @property
    def n_features(self) -> int:
        """Length of φ(x)."""
        return 2 * len(self.points) if self.transform is None else self.transform.shape[1]


def choose_approximation(
    approximation: str | None, kernel: str, n: int, itemsize: int, like: Array
) -> Approximation | None:
    """Check the setting, and turn ``"auto"`` into what suits n instances on the device of ``like``.

    "auto" stands for None, the exact kernel, while its matrix takes at most a quarter of the
    memory and, unless that is a GPU's, at most 1.6 GB. Beyond that it stands for "nystroem".
    """
    if approximation not in (None, "auto", *get_args(Approximation)):
        raise ValueError(
            f"approximation must be None, 'auto', 'nystroem' or 'fourier', not {approximation!r}."
        )
    if approximation is None or (kernel == "precomputed" and approximation == "auto"):
        return None
    if kernel == "precomputed":
        raise ValueError(
            f"approximation={approximation!r} computes a kernel from instances, while "
            "kernel='precomputed' gives the whole matrix; use approximation=None."
        )
    if approximation == "fourier" and kernel != "rbf":
        raise ValueError(
            f"approximation='fourier' is for kernel='rbf', not {kernel!r}; use "
            "approximation='nystroem'."
        )
    if approximation != "auto":
        return approximation  # type: ignore[return-value]
    total, on_gpu = memory_of(like)
    comfortable = np.inf if total is None else _COMFORTABLE_SHARE * total
    if not on_gpu:
        comfortable = min(comfortable, _COMFORTABLE_BYTES)
    return None if n * n * itemsize <= comfortable else "nystroem"


def make_kernel_features(
    approximation: Approximation,
    kernel: Kernel,
    rows: RowSummary,
    n_components: int,
    random_state: Any = None,
) -> KernelFeatures:
    """Draw the features that stand for a kernel.

    Parameters
    ----------
    approximation : {"nystroem", "fourier"}
        Functions that some instances span, or random waves.
    kernel : Kernel
        The kernel they stand for; "rbf" for waves.
    rows : RowSummary
        Instances, of which landmarks are drawn.
    n_components : int
        Number of landmarks, all instances if there are no more; or of random features, half of
        them cosines and half sines, an odd number rounded up.
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable.

    Returns
    -------
    features : KernelFeatures
        What makes features of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.kernels.approximations import make_kernel_features
    >>> from unbag.kernels.matrices import make_kernel
    >>> from unbag.kernels.rows import RowsInMemory
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> kernel = make_kernel("rbf", 0.5, 3, 1.0, RowsInMemory(X))
    >>> features = make_kernel_features("nystroem", kernel, RowsInMemory(X), 150, random_state=0)
    >>> phi = features.matrix(X, np.dtype(float))
    >>> bool(np.abs(phi @ phi.T - kernel.matrix(X, float)).max() < 1e-3)
    True
    """
    check_count(n_components, "n_components")
    rng = check_random_state(random_state)
    if approximation == "nystroem":
        return _nystroem(kernel, rows, int(n_components), rng)
    return _fourier(kernel, rows.shape[1], (int(n_components) + 1) // 2, rng)


def _nystroem(kernel: Kernel, rows: RowSummary, m: int, rng: Any) -> KernelFeatures:
    m = min(m, rows.shape[0])
    check_feature_memory(m, m, 8)
    Z = _spread_landmarks(rows, m, rng)
    values, vectors = np.linalg.eigh(kernel.matrix(Z, np.float64))
    sound = values > m * np.finfo(float).eps * values[-1]
    if not sound.any():  # the kernel is zero everywhere, and so is the only function
        return KernelFeatures(kernel, Z, np.zeros((m, 1)))
    return KernelFeatures(kernel, Z, vectors[:, sound] / np.sqrt(values[sound]))


def _spread_landmarks(rows: RowSummary, m: int, rng: Any) -> NDArray[Any]:
    """Choose m rows by k-means++, which does not take two that are close, among some of all."""
    n = rows.shape[0]
    if m == n:
        return as_dense(rows.take(np.arange(n)))
    # here, as it is slow to import and most fits do without it
    from sklearn.cluster import kmeans_plusplus

    some = np.sort(sample_without_replacement(n, min(n, _CANDIDATES * m), random_state=rng))
    candidates = rows.take(some)
    _, chosen = kmeans_plusplus(candidates, m, random_state=rng, n_local_trials=1)
    return as_dense(candidates[np.sort(chosen)])


def _fourier(kernel: Kernel, d: int, m: int, rng: Any) -> KernelFeatures:
    # rows of a random orthogonal matrix, with the lengths of independent draws
    draws = rng.standard_normal((-(-m // d), d, d))
    directions = np.linalg.qr(draws)[0].reshape(-1, d)[:m]
    lengths = np.sqrt(2 * kernel.gamma * rng.chisquare(d, size=(m, 1)))
    waves = Waves(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)
    return KernelFeatures(waves, lengths * directions, None)
