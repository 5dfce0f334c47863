"""The snippets of docs/howto/groupings.md run, one after the other."""

import re
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "groupings.md"


def test_snippets_run():
    snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) == 3
    names = {}
    exec(snippets[0], names)
    np.testing.assert_allclose(names["model"].coef_[0], [1, -0.5, 0], atol=0.3)
    assert abs(names["probabilities"].mean() - names["sold"].mean()) < 0.03
    exec(snippets[1], names)
    assert names["y"].dtype.names == ("day", "carrier")
    shares = names["y"]["carrier"]["proportion"]
    np.testing.assert_allclose(shares.sum(), names["late"].sum())
    exec(snippets[2], names)
    reference = LogisticRegression(tol=1e-9, max_iter=5000).fit(names["X"], names["sold"])
    np.testing.assert_allclose(names["fit"].model.coef_, reference.coef_, atol=1e-4)
