"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def check_place(path: str | os.PathLike[str]) -> Path:
    """Make sure that a file can have this name: its folder is there, and it is not a folder itself."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist")
    return path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file to be written; it takes its name when all is written, and not before.

    An error, a full disk or a power cut leaves what was there before, or all of the new file. (A
    process that is killed may leave a ``.tmp`` file, which can be deleted.) A link stays a link,
    and who may read the file stays as it was.
    """
    target = Path(os.path.realpath(check_place(path)))
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            with draft.open("xb") as file:
                yield file
            # by a handle of its own, since some writers close the file that they are given
            _sync(draft, os.O_RDWR)
            if target.exists():
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
            os.replace(draft, target)  # noqa: PTH105 - the call that tests make fail
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        if error.strerror is None:  # raised by the writer, not by the system
            raise
        reason = f"{path} could not be saved, and nothing was changed: {error.strerror}"
        raise type(error)(reason) from None
    sync_folder(target.parent)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file in one go, whole or not at all; text in UTF-8."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


def sync_folder(folder: Path) -> None:
    """Make a new name last through a power cut, on systems where folders can be flushed."""
    with suppress(OSError):
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
