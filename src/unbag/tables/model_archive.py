"""Model files as archives: their members, how large these may be, and what is wrong with a file.

A model file is a ZIP archive, not compressed, with two members::

    header.json   what the file is: format, date, versions, SHA-256 of the model, schema, metadata
    model.skops   the model, in the format of skops
"""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

FORMAT = "unbag model"
FORMAT_VERSION = 1
HEADER, PAYLOAD = "header.json", "model.skops"
MAX_HEADER = 16_000_000
MAX_PAYLOAD = 16 * 1024**3


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
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
            raise ValueError(f"{path} is no model file: neither unbag fit nor save_model wrote it.")
        try:
            archive = zipfile.ZipFile(file)
        except Exception as error:  # zipfile has no one error for damage
            raise ValueError(f"{path} is damaged or cut short: {reason_of(error)}") from None
        with archive:
            yield archive


def read_header(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Read what the file says it is, if it is whole and of a version that is known."""
    names = archive.namelist()
    if HEADER not in names:
        with path.open("rb") as file:
            if file.read(30 + len(HEADER)).endswith(HEADER.encode()):
                # what was found is the end of the model inside, itself a ZIP archive
                raise ValueError(f"{path} is damaged or cut short: its end is missing.")
        raise ValueError(f"{path} is a ZIP archive but no model file: it holds no {HEADER}.")
    text = read_member(path, archive, HEADER)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is no model file: its header does not say so.")
    written = header.get("format_version")
    if type(written) is not int or written < 1:
        raise ValueError(f"{path} has a header without a format version.")
    if written > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {written} and this version of unbag reads versions up to "
            f"{FORMAT_VERSION}: update unbag to load it."
        )
    versions, schema = header.get("versions"), header.get("schema")
    complete = (
        isinstance(versions, dict)
        and isinstance(header.get("sha256"), str)
        and (schema is None or isinstance(schema, dict))
        and isinstance(header.get("metadata"), dict)
    )
    if not complete or sorted(names) != [HEADER, PAYLOAD]:
        raise ValueError(f"{path} is damaged: its header or its model is not as it should be.")
    return header


def read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member whose declared size is believable."""
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
        raise ValueError(f"{path} is damaged: {reason_of(error)}") from None
    return content


def check_unpacked_size(content: bytes) -> None:
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
                if sum(part.file_size for part in matrix.infolist()) > MAX_PAYLOAD:
                    raise ValueError("it unpacks to an absurd size.")


def reason_of(error: Exception) -> str:
    """What went wrong, in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else f"{type(error).__name__}."
