"""Text of any encoding as UTF-8: which one it is shows on the way, in one go through the file."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable
from typing import Any

from unbag.tables.file import TableError, TableFile

Tell = Callable[[str], object]

_BLOCK = 1 << 16

# Bytes of a header, by which UTF-16 without a mark is known.
_LOOKED_AT = 16

# The longer marks first: that of UTF-32 starts like that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Utf8Bytes(io.RawIOBase):
    """The bytes of a text file, turned to UTF-8 if they are not.

    A byte order mark, or zeros between letters, say UTF-16 or UTF-32. Otherwise the first character
    beyond ASCII decides: if its bytes are UTF-8, all must be, and if not, the file is read as
    ``encoding``, which is the same as if it had been read so from the start. (Latin-1 is
    part of cp1252 but for control characters, which no text has.)
    """

    def __init__(self, table: TableFile, encoding: str, tell: Tell) -> None:
        self._table, self._stream, self._tell = table, table.open(), tell
        self._encoding = encoding
        self._decoder: Any = None  # of another encoding, once that is known
        self._started, self._only_ascii = False, True
        self._held = b""  # the start of a character
        self._offset, self._n_lines = 0, 0  # bytes and line ends before those held
        self._block = b""  # what is found and not given yet

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes of UTF-8."""
        # other encodings may take more bytes as UTF-8 than there is room for
        block = self._block or self.next_block(min(len(buffer), _BLOCK))
        given, self._block = block[: len(buffer)], block[len(buffer) :]
        buffer[: len(given)] = given
        return len(given)

    def as_text(self, newline: str | None = None) -> io.TextIOWrapper:
        """Give the text, without its byte order mark."""
        return io.TextIOWrapper(io.BufferedReader(self), encoding="utf-8-sig", newline=newline)

    def next_block(self, size: int) -> bytes:
        """Give some more bytes of UTF-8; none at the end."""
        while True:
            block = self._stream.read(size) if self._started else self._start(size)
            given = self._decode(block) if self._decoder else self._check(block)
            if given or not block:
                return given

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()

    def _start(self, size: int) -> bytes:
        """Read so much that a byte order mark would be seen."""
        self._started, block = True, b""
        while len(block) < 4 and (more := self._stream.read(size)):
            block += more
        for mark, encoding in _MARKS.items():
            if block.startswith(mark):
                self._switch(encoding)
                return block
        # every other byte of Western text is 0 in UTF-16, and no text has a 0 otherwise
        for encoding, first in {"utf-16-le": 1, "utf-16-be": 0}.items():
            if len(block) > 3 and not any(block[first:_LOOKED_AT:2]):
                self._switch(encoding)
        return block

    def _switch(self, encoding: str) -> None:
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._tell(f"{self._table} is read as {encoding} text, since it is not UTF-8.")

    def _check(self, block: bytes) -> bytes:
        """Let UTF-8 pass, or find that it is something else."""
        data = self._held + block
        try:
            n_sound = codecs.utf_8_decode(data, "strict", not block)[1]
        except UnicodeDecodeError as error:
            asked_for = codecs.lookup(self._encoding).name == "utf-8"
            if block and not asked_for and self._only_ascii and data[: error.start].isascii():
                self._held = b""
                self._switch(self._encoding)
                return self._decode(data)
            name = self._encoding if asked_for else "UTF-8"
            raise self._wrong(name, data, error.start, is_end=not block) from None
        self._only_ascii = self._only_ascii and data[:n_sound].isascii()
        self._held = data[n_sound:]
        self._pass(data[:n_sound])
        return data[:n_sound]

    def _decode(self, data: bytes) -> bytes:
        held = self._decoder.getstate()[0]
        try:
            text: str = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise self._wrong(
                self._encoding, held + data, error.start, is_end=not data, n_before=len(held)
            ) from None
        given = text.encode()
        self._offset += len(data)
        self._n_lines += given.count(b"\n")
        return given

    def _pass(self, data: bytes) -> None:
        self._offset += len(data)
        self._n_lines += data.count(b"\n")

    def _wrong(
        self, encoding: str, data: bytes, place: int, *, is_end: bool, n_before: int = 0
    ) -> TableError:
        """Say where the first byte is that no text of this encoding has."""
        line = self._n_lines + data.count(b"\n", 0, place) + 1
        if is_end:
            return TableError(
                self._table, f"ends within a character, on line {line}: it is cut short"
            )
        other = "save it with the encoding UTF-8"
        if encoding != "UTF-8":
            other = f"{other}, or say which it has (--encoding)"
        return TableError(
            self._table,
            f"is not {encoding} text: 0x{data[place]:02x} at byte "
            f"{self._offset - n_before + place}, on line {line}; {other}",
        )
