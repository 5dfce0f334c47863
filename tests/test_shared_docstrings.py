"""Entries that a docstring takes from another class."""

import pytest

from unbag._docstrings import add_sections, as_in
from unbag.models.base import BagClassifier


class Given:
    """One.

    Parameters
    ----------
    one : int
        The first,
        in two lines.
    two : str, default="a"
        The second.
    """


def test_entries_are_those_of_the_other_class():
    @as_in(Given)
    class Asks:
        """Two.

        Parameters
        ----------
        three : float
            The third.
        two, one : as in Given

        Examples
        --------
        >>> 1
        """

    assert Asks.__doc__ == (
        "Two.\n\nParameters\n----------\nthree : float\n    The third.\n"
        'two : str, default="a"\n    The second.\none : int\n    The first,\n    in two lines.\n\n'
        "Examples\n--------\n>>> 1"
    )


def test_an_entry_that_is_not_there_is_noticed():
    class Asks:
        """Two.

        four : as in Given
        """

    with pytest.raises(KeyError, match="four"):
        as_in(Given)(Asks)


def test_a_line_gets_the_sections_of_another_method():
    def fit():
        """Do it."""

    def whole():
        """Do it.

        At length.
        """

    before = whole.__doc__
    for method in (fit, whole):
        add_sections(method, BagClassifier.fit)
    assert fit.__doc__.startswith("Do it.\n\nParameters\n----------\nX : array-like")
    assert fit.__doc__.endswith("self : estimator\n    The fitted model.")
    assert whole.__doc__ == before
