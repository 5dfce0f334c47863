"""Kernel matrices and features that approximate them."""

from unbag.kernels.approximations import KernelFeatures, make_kernel_features
from unbag.kernels.matrices import KERNELS, Kernel, make_kernel

__all__ = ["KERNELS", "Kernel", "KernelFeatures", "make_kernel", "make_kernel_features"]
