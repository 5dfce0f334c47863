"""Numbers that change what a user gets, each with its reason and its study."""

FEWEST_DEGREES = 3.0
"""Degrees of freedom of intervals with very few informative bags."""
