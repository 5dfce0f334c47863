"""A folder of files as ``unbag-bench fetch`` makes it, with real rows, but few of them."""

import numpy as np
import pytest

from unbag.datasets import load_magic


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Two tables, which are parts of MAGIC, one without enough positives for bags of many."""
    magic = load_magic()
    rows = np.random.default_rng(0).permutation(len(magic.target))
    path = tmp_path_factory.mktemp("data")
    (path / "tables").mkdir()
    frame = magic.frame.assign(label=1 - magic.target)
    for number, name in enumerate(("hi", "compas")):
        part = frame.iloc[rows[3000 * number : 3000 * (number + 1)]]
        part.reset_index(drop=True).to_parquet(path / "tables" / f"{name}.parquet")
    return path
