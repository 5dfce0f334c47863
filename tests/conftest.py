"""What tests of all folders share."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# what `pytest -m core` runs: from the target to the mixed model and its evaluation
CORE = (
    "bags",
    "observations",
    "terms",
    "models/test_mixed",
    "models/test_groupings",
    "evaluation/test_measures",
    "evaluation/test_uncertainty",
    "evaluation/test_identification",
    "model_selection",
)


def pytest_collection_modifyitems(items):
    """Mark the tests of the core."""
    for item in items:
        if item.path.is_relative_to(TESTS) and str(item.path.relative_to(TESTS)).startswith(CORE):
            item.add_marker(pytest.mark.core)


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Let standard error, which is captured, pass for a terminal."""
    # the class, since every step of a test gets a stream of its own
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    return capsys
