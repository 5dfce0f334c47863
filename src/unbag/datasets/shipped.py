"""Data files that come with the package, as data frames.

They are read with the standard library, so that no data frame library is needed but the one the
frame is wanted in.
"""

from __future__ import annotations

import csv
import lzma
from importlib import import_module
from importlib.resources import files
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np
from sklearn.utils import Bunch

from unbag._checks import check_choice

FrameBackend = Literal["pandas", "polars", "pyarrow"]


def load_shipped(
    names: tuple[str, ...],
    backend: FrameBackend,
    *,
    categorical: tuple[str, ...],
    number: type[np.number[Any]],
    target_names: tuple[str, str],
    citation: str,
) -> Bunch:
    """Read files of the same columns, whose last one is the label."""
    _check_backend(backend)
    header, rows = _read(names)
    values = dict(zip(header, zip(*rows, strict=True), strict=True))
    labels = values.pop(header[-1])
    columns = {
        name: list(column) if name in categorical else np.array(column, dtype=number)
        for name, column in values.items()
    }
    return Bunch(
        frame=nw.from_dict(columns, backend=backend).to_native(),
        target=np.array([target_names.index(label) for label in labels]),
        target_names=np.array(target_names),
        categorical=list(categorical),
        numerical=[name for name in columns if name not in categorical],
        citation=citation,
    )


def _check_backend(backend: str) -> None:
    check_choice(backend, get_args(FrameBackend), "backend")
    try:
        import_module(backend)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"backend={backend!r} needs {error.name}, which is not installed: "
            f"pip install {error.name}."
        ) from error


def _read(names: tuple[str, ...]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of shipped files of the same columns, one behind the other."""
    header: list[str] = []
    rows: list[list[str]] = []
    for name in names:
        packed = files("unbag.datasets").joinpath("data", name).read_bytes()
        header, *more = csv.reader(lzma.decompress(packed).decode("ascii").splitlines())
        rows += more
    return header, rows
