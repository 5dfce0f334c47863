"""What tests of all folders share."""

import sys

import pytest


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Let standard error, which is captured, pass for a terminal."""
    # the class, since every step of a test gets a stream of its own
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    return capsys
