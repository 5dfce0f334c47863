"""How to install what is missing, by where the package came from."""

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from unbag import _optional
from unbag._optional import install_command


def test_from_a_clone():
    clone = Path(__file__).parent.parent
    assert install_command("report") == f"pip install -e '{clone}[report]'"


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, "unbag[report]"),
        ({"url": "file:///home/ann/unbag"}, "unbag[report] @ file:///home/ann/unbag"),
        (
            {"url": "https://a.org/unbag", "vcs_info": {"vcs": "git"}},
            "unbag[report] @ git+https://a.org/unbag",
        ),
    ],
)
def test_where_it_was_installed_from(origin, wanted, monkeypatch, tmp_path):
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(_optional, "__file__", str(tmp_path / "lib" / "unbag" / "_optional.py"))
    packaged = SimpleNamespace(read_text=lambda _: text)
    monkeypatch.setattr(_optional, "distribution", lambda _: packaged)
    assert install_command("report") == f"pip install '{wanted}'"


def test_a_copy_that_nobody_installed(monkeypatch, tmp_path):
    def nothing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_optional, "__file__", str(tmp_path / "lib" / "unbag" / "_optional.py"))
    monkeypatch.setattr(_optional, "distribution", nothing)
    assert install_command("report") == "pip install 'unbag[report]'"
