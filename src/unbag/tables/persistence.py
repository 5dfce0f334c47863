"""Fitted models in files, opened without running foreign code.

A model file is a ZIP archive, not compressed, with two members::

    header.json   what the file is: format, date, versions, SHA-256 of the model, schema, metadata
    model.skops   the model, in the format of skops

Unlike a pickle, it names the types it holds, and nothing is built before all of them have been found
on a list (`unbag.tables.model_contents`). The checksum guards against damage only: a forged file can
have a checksum that fits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from unbag._files import whole_file
from unbag._optional import hidden, optional
from unbag._provenance import PACKAGES
from unbag.tables.files import unpacks_absurdly
from unbag.tables.model_contents import check_parts, foreign_types, is_trusted

__all__ = ["ModelFile", "load_model", "save_model"]

FORMAT = "unbag model"
FORMAT_VERSION = 1
HEADER, PAYLOAD = "header.json", "model.skops"
MAX_HEADER = 16_000_000
MAX_PAYLOAD = 16 * 1024**3

# The parts of scikit-learn that import other array libraries, and hold no estimator.
_ARRAY_LIBRARIES = tuple(
    f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")
)


class UntrustedTypesError(ValueError):
    """A model file holds types that are not trusted."""

    def __init__(self, message: str, types: list[str]) -> None:
        super().__init__(message)
        self.types = types


@dataclass(frozen=True)
class ModelFile:
    """A model that was loaded from a file, with its metadata.

    Attributes
    ----------
    model : estimator
        The fitted model.
    schema : dict or None
        What was saved as the schema of its table.
    metadata : dict
        What else was saved.
    versions : dict
        Versions of the packages that wrote the file, by name.
    """

    model: Any
    schema: dict[str, Any] | None
    metadata: dict[str, Any]
    versions: dict[str, str]


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Save a fitted model as one file, whole or not at all.

    The file is written under another name and moved into place when it is complete, so that an error, a
    full disk or a power cut leaves the old file or the new one, never half of one. (A process that
    is killed may leave a ``.tmp`` file, which can be deleted.) The model is read back once before
    that: one that could not be loaded is not saved.

    Parameters
    ----------
    model : estimator
        A fitted estimator or pipeline.
    path : path
        Name of the file, by custom ending in ``.unbag``. A file of this name is replaced.
    schema : dict, optional
        What the columns of the model's table hold, as ``Schema.to_dict`` gives it; anything that
        JSON can hold.
    metadata : dict, optional
        Anything else to keep with the model, likewise.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.persistence import load_model, save_model
    >>> data = make_gaussian_bags(random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> with TemporaryDirectory() as folder:
    ...     path = save_model(model, f"{folder}/model.unbag", metadata={"author": "Ada"})
    ...     found = load_model(path)
    >>> found.metadata
    {'author': 'Ada'}
    >>> bool((found.model.predict(data.X) == model.predict(data.X)).all())
    True
    """
    path = Path(path)
    payload = _serialise(model)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in (*PACKAGES, "skops")},
        "sha256": hashlib.sha256(payload).hexdigest(),
        "schema": None if schema is None else _check_json("schema", schema),
        "metadata": _check_json("metadata", {} if metadata is None else metadata),
    }
    text = json.dumps(header, indent=1).encode()
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"schema and metadata take {len(text):,} bytes, more than the {MAX_HEADER:,} that the "
            "header of a model file may have."
        )

    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(HEADER, text)
        archive.writestr(PAYLOAD, payload)
    return path


def load_model(
    path: str | os.PathLike[str], *, trusted: Collection[str | type[Any]] = ()
) -> ModelFile:
    """Load a model that `save_model` saved, if it has trusted types only.

    Parameters
    ----------
    path : path
        The file.
    trusted : list of str or type, default=()
        Types to trust beyond those of scikit-learn and this package, such as your own
        transformers, by their full names.

    Returns
    -------
    ModelFile
        The model, schema, metadata and versions.

    Raises
    ------
    ValueError
        If the file is not a model file, is damaged, is of a newer format or holds other types.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.persistence import load_model, save_model
    >>> data = make_gaussian_bags(random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> with TemporaryDirectory() as folder:
    ...     found = load_model(save_model(model, f"{folder}/model.unbag"))
    >>> type(found.model).__name__
    'LLPClassifier'
    """
    names = _type_names(trusted)
    path = Path(path)
    with _open_archive(path) as archive:
        header = _read_header(path, archive)
        payload = _read_member(path, archive, PAYLOAD)
    if hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise ValueError(f"{path} is damaged: its model does not match its checksum.")
    return ModelFile(
        _build(path, payload, names, header["versions"]),
        header["schema"],
        header["metadata"],
        header["versions"],
    )


def describe_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model file, whose model is not loaded."""
    path = Path(path)
    with _open_archive(path) as archive:
        return _read_header(path, archive)


def _skops() -> Any:
    # to list estimators, skops walks over all of scikit-learn, and so would import torch and Dask
    with hidden(*_ARRAY_LIBRARIES):
        return optional("skops.io", "a model file", "files")


def _serialise(model: Any) -> bytes:
    """Give the model as bytes from which it can be built again: functions without a name cannot."""
    skops = _skops()
    settings = model.get_params() if hasattr(model, "get_params") else {}
    for name, value in settings.items():
        if any(base.__module__.startswith("torch.nn.") for base in type(value).__mro__):
            raise ValueError(
                f"{name} is a module of torch, which a model file cannot hold; give a callable "
                "that makes it, which is saved by its name, or save weights_ by numpy.savez."
            )
    try:
        payload: bytes = skops.dumps(model)
        skops.loads(payload, trusted=skops.get_untrusted_types(data=payload))
    except Exception as error:  # whatever the parts of a model raise
        raise ValueError(
            f"This {type(model).__name__} cannot be saved, as one of its parts cannot be written "
            f"to a file and read again: {_reason_of(error)}"
        ) from None
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(
            f"The model takes {len(payload):,} bytes; a file may hold {MAX_PAYLOAD:,}."
        )
    return payload


def _build(
    path: Path, payload: bytes, trusted: Collection[str], versions: Mapping[str, str]
) -> Any:
    """Build the model, after all its types have been found trusted."""
    skops = _skops()
    try:
        _check_unpacked_size(payload)
        with zipfile.ZipFile(BytesIO(payload)) as parts:
            foreign = foreign_types(parts)  # before skops reads any part
        types = skops.get_untrusted_types(data=payload)
        refused = [name for name in types if not (name in trusted or is_trusted(name))]
        refused += sorted(foreign - {*refused, *trusted})
        if not refused:
            model = skops.loads(payload, trusted=types)
            check_parts(model, trusted)
            return model
    except Exception as error:  # a forged model can make any of its parts fail
        written = ", ".join(f"{name} {number}" for name, number in versions.items())
        raise ValueError(
            f"The model in {path}, written by {written}, cannot be built here: {_reason_of(error)}"
        ) from None
    raise UntrustedTypesError(
        f"{path} holds types that are not trusted: {', '.join(refused)}. If you know who made the file "
        f"and trust these types, load it with trusted={refused}.",
        refused,
    )


def _type_names(trusted: Collection[str | type[Any]]) -> set[str]:
    if isinstance(trusted, str) or not isinstance(trusted, Collection):
        raise ValueError(f"trusted must be a list of types or their names, not {trusted!r}.")
    if not all(isinstance(item, str | type) for item in trusted):
        raise ValueError(f"trusted may hold types and names of types only, not {trusted!r}.")
    return {t if isinstance(t, str) else f"{t.__module__}.{t.__name__}" for t in trusted}


def _check_json(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Give what JSON makes of a dictionary, if that is the same."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dictionary, not {type(value).__name__}.")
    try:
        kept: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
        same = kept == dict(value)
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise ValueError(
            f"{name} may hold only what JSON keeps as it is: texts, finite numbers, True, False, "
            "None, lists, and dictionaries whose keys are texts."
        )
    return kept


# --- archives -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a model file; a pickle is refused."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise OSError(f"there is no file {path}") from None
    except OSError as error:
        reason = "it is a folder" if path.is_dir() else error.strerror
        raise OSError(f"{path} cannot be read: {reason}") from None
    with file:
        start = file.read(4)
        if not start:
            raise ValueError(f"{path} is empty.")
        if start[0] == 0x80:
            raise ValueError(
                f"{path} looks like a pickle, which is never opened here because that runs the "
                "code in it; save models with unbag.tables.persistence.save_model."
            )
        if start != b"PK\x03\x04":
            raise ValueError(
                f"{path} is not a model file: neither unbag fit nor save_model wrote it."
            )
        try:
            archive = zipfile.ZipFile(file)
        except Exception as error:  # zipfile has no one error for damage
            raise ValueError(f"{path} is damaged or cut short: {_reason_of(error)}") from None
        with archive:
            yield archive


def _read_header(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Read what the file says it is, if it is whole and of a version that is known."""
    names = archive.namelist()
    if HEADER not in names:
        # of a file that is cut short, the end of the model inside may be found, itself an archive
        raise ValueError(
            f"{path} is not a model file, or its end is missing: it holds no {HEADER}."
        )
    content = _read_member(path, archive, HEADER)
    try:
        header = json.loads(content)
    except (ValueError, RecursionError):  # no JSON, or a number of thousands of digits
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a model file: its header does not say so.")
    written, schema = header.get("format_version"), header.get("schema", "")
    if type(written) is int and written > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {written} and this version of unbag reads versions up to "
            f"{FORMAT_VERSION}: update unbag to load it."
        )
    complete = (
        type(written) is int
        and written > 0
        and isinstance(header.get("versions"), dict)
        and isinstance(header.get("sha256"), str)
        and isinstance(schema, dict | None)
        and isinstance(header.get("metadata"), dict)
    )
    if not complete or sorted(names) != [HEADER, PAYLOAD]:
        raise ValueError(f"{path} is damaged: its header or its model is not as it should be.")
    return header


def _read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member whose declared size is plausible."""
    member = archive.getinfo(name)
    limit = MAX_HEADER if name == HEADER else MAX_PAYLOAD
    if member.file_size > limit:
        raise ValueError(
            f"{path} claims {member.file_size:,} bytes for its {name}; at most {limit:,} are read."
        )
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > path.stat().st_size:
        raise ValueError(f"{path} is damaged: its {name} is not stored as save_model does.")
    try:
        content = archive.read(member)
    except Exception as error:  # zipfile has no one error for damage
        raise ValueError(f"{path} is damaged: {_reason_of(error)}") from None
    return content


def _check_unpacked_size(content: bytes) -> None:
    """Refuse archives that say they unpack to more than they should: skops does not compress."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > len(content):
            raise ValueError("its parts claim to be larger than the file.")
        # sparse matrices are archives of their own, and these are compressed
        for member in members:
            with archive.open(member) as file:
                if file.read(2) != b"PK":
                    continue
            with zipfile.ZipFile(BytesIO(archive.read(member))) as matrix:
                if unpacks_absurdly(matrix.infolist()):
                    raise ValueError("it unpacks to an absurd size.")


def _reason_of(error: Exception) -> str:
    """What went wrong, in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else f"{type(error).__name__}."
