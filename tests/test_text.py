"""Names, numbers, lists and tables as text."""

import pytest

from unbag import _text


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (_text.counted(1, "bag"), "1 bag"),
        (_text.counted(1200, "penalty", "penalties"), "1,200 penalties"),
        (_text.percent(0.954), "95%"),
        (_text.percent(0.954, 1), "95.4%"),
        (_text.percent(0.975, None), "97.5%"),
        (_text.p_text(0.0002), "p < 0.001"),
        (_text.p_text(0.0321), "p = 0.032"),
        (_text.listing(range(5)), "0, 1, 2, 3, 4"),
        (_text.listing(range(5000), 2), "0, 1 and 4,998 more"),
        (_text.quoted(["a", "b'c"], " or "), "'a' or \"b'c\""),
        (_text.sentence("features explain it"), "Features explain it."),
        (_text.shown("a\x1b[31m\u202eb"), r"a\x1b[31m\u202eb"),
        (_text.shown_value("x" * 100), "'" + "x" * 76 + "..."),
        (_text.aligned([["a", "bb"], ["ccc", "d"]]), ["a    bb", "ccc  d"]),
        (_text.aligned([["a", "bb"], ["ccc", "d"]], ">"), ["  a  bb", "ccc   d"]),
        (_text.table_lines(["x\n"], [(None,), (0.123456789,)]), [r"x\n", "-", "0.123457"]),
    ],
)
def test_words(written, wanted):
    assert written == wanted
