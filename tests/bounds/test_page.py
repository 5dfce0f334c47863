"""The examples of the page on bounds give what it shows."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"


def test_examples_of_the_page_say_what_they_say():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 20
    assert found.failed == 0
