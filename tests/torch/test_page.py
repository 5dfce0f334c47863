"""The snippets of docs/howto/networks.md run, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "networks.md"


def test_snippets_run():
    snippets = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) == 3
    names = {}
    for snippet in snippets:
        exec(snippet, names)
    assert names["probabilities"].shape == (1200, 2)
    slopes = names["scores"].grad
    assert slopes.isfinite().all()
    assert slopes.any()
