"""The README shows the means of the rows."""

import re
from pathlib import Path

import numpy as np
import pytest

from unbag.paper.rows import load_rows
from unbag_bench.studies.six_tables import METHODS, STUDY

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_shows_the_means():
    rows = load_rows(STUDY.folder / "rows.jsonl")
    text = README.read_text(encoding="utf-8").replace("*", "")
    for method, (title, *_) in METHODS.items():
        shown = re.search(
            rf"^\| {re.escape(title)} \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE
        )
        own = [row for row in rows if row["method"] == method]
        for column, value in zip(("auc", "calibration_error"), shown.groups(), strict=True):
            assert np.mean([row[column] for row in own]) == pytest.approx(float(value), abs=6e-4)
