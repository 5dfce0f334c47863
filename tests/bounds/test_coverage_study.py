"""A quick form of the study of how often bounds hold; the whole of it is in results/bounds."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "bounds.py"
SPEC = importlib.util.spec_from_file_location(PATH.stem, PATH)
study = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(study)


@pytest.mark.parametrize("name", study.STUDIES)
def test_bounds_hold_as_often_as_they_say(name):
    row = study.run_one(name, draws=12, seed=1)
    assert row["held"] >= row["promised"]
    assert row["median bound"] > 0
