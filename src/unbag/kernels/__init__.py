"""Kernel matrices and features that approximate them."""
