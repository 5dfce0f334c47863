"""Solvers: what minimises an objective in score space over a function space."""
