"""Tables of several classes, from the R package mlbench as Debian has it.

``unbag-bench fetch classes`` writes ``FOLDER/classes/NAME.npz``: the arrays ``X`` of numbers and
``labels``. The data are under the terms of their sources, and none of them belongs into this
repository. It needs ``apt-get``,
``dpkg-deb`` and the package ``rdata``.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

PACKAGE = "r-cran-mlbench"
# Names of the data set and of its column of classes in the package.
TABLES = {
    "dna": ("DNA", "Class"),
    "letters": ("LetterRecognition", "lettr"),
    "satellite": ("Satellite", "classes"),
    "shuttle": ("Shuttle", "Class"),
}


def fetch(folder: Path) -> None:
    """Download the package, and keep its tables as arrays."""
    import rdata

    folder = folder / "classes"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        subprocess.run(["apt-get", "download", PACKAGE], cwd=work, check=True)
        (archive,) = work.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(archive), str(work)], check=True)
        data = work / "usr/lib/R/site-library/mlbench/data"
        for own, (theirs, column) in TABLES.items():
            with warnings.catch_warnings():
                # of texts in ASCII
                warnings.filterwarnings("ignore", message="Unknown encoding")
                table = rdata.read_rda(data / f"{theirs}.rda")[theirs]
            labels = pd.Categorical(table.pop(column)).codes
            X = table.astype(str).apply(pd.to_numeric).to_numpy(float)
            np.savez_compressed(folder / f"{own}.npz", X=X, labels=labels)
            print(f"{own}: {X.shape[0]} rows, {X.shape[1]} columns, {labels.max() + 1} classes")
