"""The snippets of docs/howto/groupings.md run, one after the other."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "groupings.md"


def test_snippets_run():
    snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) == 2
    names = {}
    exec(snippets[0], names)
    np.testing.assert_allclose(names["model"].coef_[0], [1, -0.5, 0], atol=0.3)
    assert abs(names["probabilities"].mean() - names["sold"].mean()) < 0.03
    exec(snippets[1], names)
    assert names["y"].dtype.names == ("day", "carrier")
    shares = names["y"]["carrier"]["proportion"]
    np.testing.assert_allclose(shares.sum(), names["late"].sum())
