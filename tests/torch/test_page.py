"""The snippets of docs/howto/networks.md run, one after the other."""

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "networks.md"


def _snippets(kind):
    pattern = rf"^```{kind}\n(.*?)^```$"
    return re.findall(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_snippets_run():
    snippets = _snippets("python")
    assert len(snippets) == 3
    names = {}
    for snippet in snippets:
        exec(snippet, names)
    assert names["probabilities"].shape == (1200, 2)
    slopes = names["scores"].grad
    assert slopes.isfinite().all()
    assert slopes.any()


@pytest.mark.filterwarnings("ignore")  # Lightning warns of what it would rather have
def test_lightning_learns(tmp_path, monkeypatch):
    pytest.importorskip("lightning", reason="lightning is not installed")
    monkeypatch.chdir(tmp_path)
    (snippet,) = _snippets("text")
    names = {}
    exec(snippet, names)
    data = names["data"]
    with torch.no_grad():
        scores = names["module"](torch.tensor(data.X, dtype=torch.float32))[:, 0]
    assert ((scores > 0).numpy() == data.labels).mean() > 0.8
