"""Make the shipped file of the landscape from the files of its authors.

    python -m unbag_bench.suites.make_landscape FOLDER

FOLDER holds ``datasets-ci_adult-*.parquet`` and ``results.parquet`` of the repository
gaabrielfranco/complex-llp-evaluation on GitHub (CC0). What is kept: the bag of every row in each of
the 52 sets, and test accuracy and F1 of eight methods under three rules of selection in 30 splits.
Features and labels are those of Adult, which the package has.
"""

from __future__ import annotations

import io
import lzma
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from unbag._files import write_whole
from unbag_bench.suites.landscape import DATA_FILE, LANDSCAPE, N_SPLITS, N_TEST, PUBLISHED, RULES


def main(folder: Path) -> None:
    """Write the file into the package."""
    bags = [
        pd.read_parquet(folder / f"datasets-ci_adult-{name}.parquet")["bag"] for name in LANDSCAPE
    ]
    found = pd.read_parquet(folder / "results.parquet").astype({"exec": int})
    found = found.set_index(["dataset", "model", "metric", "exec"])
    index = pd.MultiIndex.from_product(
        [[f"adult-{name}" for name in LANDSCAPE], PUBLISHED, RULES, range(N_SPLITS)]
    )
    shape = (len(LANDSCAPE), len(PUBLISHED), len(RULES), N_SPLITS)
    right = found["accuracy_test"].loc[index].to_numpy().reshape(shape) * N_TEST
    if not np.allclose(right, np.round(right), rtol=0, atol=1e-6):
        raise ValueError(f"Accuracies are not shares of {N_TEST} rows.")
    file = io.BytesIO()
    np.savez(
        file,
        bags=np.column_stack(bags).astype(np.uint8),
        right=np.round(right).astype(np.uint16),
        f1=found["f1_test"].loc[index].to_numpy().reshape(shape).astype(np.float32),
    )
    content = lzma.compress(file.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    write_whole(DATA_FILE, content)
    print(f"{DATA_FILE}: {len(content)} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
