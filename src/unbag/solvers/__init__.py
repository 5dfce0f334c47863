"""Solvers: what minimises an objective in score space over a function space."""

from unbag.solvers.lbfgs import Solution, minimise
from unbag.solvers.spaces import FunctionSpace, KernelSpace, LinearSpace

__all__ = ["FunctionSpace", "KernelSpace", "LinearSpace", "Solution", "minimise"]
