"""Manifests: which row is in which bag, kept in a file for every draw.

A draw follows from its seed, but by way of NumPy's generators and of k-means, which change between
versions. What was drawn is therefore kept, and a run that finds it there uses it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Ints
from unbag._files import whole_file
from unbag_bench.suites.draws import Picked

Labels = NDArray[np.int64]

# What a file holds.
_TOLD, _NUMBERS = ("suite", "name", "seed", "digest"), ("train", "bag", "test", "counts")


@dataclass(frozen=True, eq=False)
class Manifest:
    """A draw of bags: numbers of rows, and no label of any of them.

    Attributes
    ----------
    suite : str
        One of SUITES.
    name : str
        Of the set.
    seed : int
        Of the draw.
    picked : Picked
        With ``train``, the rows to train on, ``bag``, the bag of each, and ``test``, the rows to
        test on. Rows are numbered as in the data of the set.
    counts : ndarray of shape (n_bags, n_classes)
        Rows of each class in each bag.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.suites import Manifest, pick_split
    >>> bag = np.repeat([0, 1], 8)
    >>> counts = 6 * np.eye(2, dtype=int)
    >>> manifest = Manifest("natural", "votes", 0, pick_split(bag, bag, None, 0), counts)
    >>> manifest.file_name, len(manifest.picked.train)
    ('natural-votes-0.npz', 12)
    """

    suite: str
    name: str
    seed: int
    picked: Picked
    counts: Ints

    @property
    def file_name(self) -> str:
        """Such as tables-hi-low-128-unequal-0.npz."""
        return f"{self.suite}-{self.name.replace(' ', '-')}-{self.seed}.npz"


def make_manifest(suite: str, name: str, seed: int, picked: Picked, labels: Labels) -> Manifest:
    """Count the classes of the bags that were drawn."""
    n_bags, n_classes = int(picked.bag.max()) + 1, int(labels.max()) + 1
    cells = n_classes * picked.bag + labels[picked.train]
    counts = np.bincount(cells, minlength=n_bags * n_classes).reshape(n_bags, n_classes)
    return Manifest(suite, name, seed, picked, counts)


def save_manifest(folder: Path, manifest: Manifest) -> Path:
    """Write a manifest into a folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / manifest.file_name
    numbers = (*manifest.picked, manifest.counts)
    small = [values.astype(np.min_scalar_type(values.max())) for values in numbers]
    known = (manifest.suite, manifest.name, manifest.seed, manifest.picked.digest)
    parts: dict[str, Any] = dict(zip(_TOLD + _NUMBERS, (*known, *small), strict=True))
    with whole_file(path) as file:
        np.savez_compressed(file, **parts)
    return path


def read_manifest(path: Path) -> Manifest:
    """Read which rows were in which bags.

    Parameters
    ----------
    path : Path
        A file that ``unbag-bench reproduce`` wrote into the folder ``bags`` of its results.

    Returns
    -------
    manifest : Manifest
        The draw, whose digest is the one that it was written with.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from unbag_bench.suites import Manifest, pick_split, read_manifest
    >>> from unbag_bench.suites.manifests import save_manifest
    >>> bag = np.repeat([0, 1], 8)
    >>> counts = 6 * np.eye(2, dtype=int)
    >>> drawn = Manifest("natural", "votes", 0, pick_split(bag, bag, None, 0), counts)
    >>> with TemporaryDirectory() as folder:
    ...     manifest = read_manifest(save_manifest(Path(folder), drawn))
    >>> manifest.picked.digest == drawn.picked.digest
    True
    """
    try:
        with np.load(io.BytesIO(path.read_bytes())) as found:
            suite, name, seed, digest = (found[key].item() for key in _TOLD)
            *picked, counts = (found[key].astype(np.intp) for key in _NUMBERS)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise OSError(f"{path} is damaged, or no manifest of bags; delete it.") from error
    manifest = Manifest(suite, name, seed, Picked(*picked), counts)
    if manifest.picked.digest != digest:
        raise OSError(f"Rows and bags of {path} do not have the digest {digest}; delete it.")
    return manifest


def keep_manifest(folder: Path, drawn: Manifest, labels: Labels) -> Picked:
    """Save what was drawn; or, if the folder holds the draw, give what it holds."""
    path = folder / drawn.file_name
    if not path.exists():
        save_manifest(folder, drawn)
        return drawn.picked
    kept = read_manifest(path)
    if not _is_of(kept, drawn, labels):
        raise OSError(f"{path} is not of this draw of these data; delete it.")
    return kept.picked


def _is_of(kept: Manifest, drawn: Manifest, labels: Labels) -> bool:
    if kept.file_name != drawn.file_name or max(map(np.max, kept.picked[::2])) >= len(labels):
        return False
    again = make_manifest(kept.suite, kept.name, kept.seed, kept.picked, labels)
    return np.array_equal(again.counts, kept.counts)
