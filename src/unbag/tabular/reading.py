"""Tables on disk, opened once, and read whole or in chunks with types inferred or given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbag._text import listing, shown_value
from unbag.tabular.arrow import arrow_frames, arrow_names
from unbag.tabular.file import TableError, TableFile, named
from unbag.tabular.kinds import Kind, cast, types_of
from unbag.tabular.text import text_frames, text_names


def open_table(path: str | Path) -> Table:
    """Open a table on disk: its columns are known at once, its rows are read when asked for.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above.

    Returns
    -------
    Table

    Raises
    ------
    ValueError, OSError
        With one sentence that names the file and, where there is one, the line at fault: wrong
        encoding, rows of another length than the header, two columns of one name, no rows. What
        is wrong with rows is told when they are read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from unbag.tabular import open_table, write_table
    >>> people = pd.DataFrame({"age": [31, 64, 47], "colour": ["red", None, "blue"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_table([people], Path(folder) / "people.csv.gz")
    ...     table = open_table(Path(folder) / "people.csv.gz")
    ...     ages = table.read(columns=["age"])["age"].tolist()
    ...     colours = [chunk["colour"].tolist() for chunk in table.chunks(rows=2)]
    >>> written, table.names, ages
    (3, ['age', 'colour'], [31, 64, 47])
    >>> colours
    [['red', nan], ['blue']]
    """
    file = TableFile.find(path)
    with named(file):
        if file.path.stat().st_size == 0:
            raise TableError(file, "is empty")
        return Table(file, text_names(file) if file.is_text else arrow_names(file))


@dataclass(frozen=True)
class Table:
    """A table on disk, made by `open_table`.

    Attributes
    ----------
    file : TableFile
        The file.
    names : list of str
        Names of the columns.
    """

    file: TableFile
    names: list[str]

    def need(self, columns: Sequence[str], why: str = "") -> None:
        """Make sure that there are these columns."""
        known = set(self.names)
        absent = [name for name in columns if name not in known]
        if absent:
            problem = f"has no column {listing(map(shown_value, absent))}"
            raise TableError(self.file, f"{problem} {why}".strip(), column=absent[0])

    def read(
        self,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> Any:
        """Read the rows as a pandas DataFrame, in one go through the file.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in the order wanted; all of them by default.
        kinds : mapping of str to str, optional
            What some or all columns hold; see `unbag.tabular.kinds`. Categories are read as they
            are written, with leading zeros and all.

        Returns
        -------
        pandas DataFrame
            With at least one row. Dates in CSV and TSV stay text, unless ``kinds`` says otherwise.
        """
        wanted = self._wanted(columns)
        types = {n: t for n, t in types_of(kinds or {}).items() if n in set(wanted)}
        with named(self.file):
            [frame] = self._frames(None, wanted, types)
            changed = cast(frame, types)
            return frame.assign(**changed) if changed else frame

    def chunks(
        self,
        rows: int = 100_000,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> Iterator[Any]:
        """Read the rows in chunks, so that they never have to fit into memory.

        The types are the same in all chunks. Where ``kinds`` does not tell, they are found by
        going through those columns once before the first chunk is given, again chunk by chunk.

        Parameters
        ----------
        rows : int
            Rows in each chunk; only the last may have fewer.
        columns, kinds
            As for `read`.

        Yields
        ------
        pandas DataFrame
            The next rows; the index counts on from chunk to chunk.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}.")
        return self._chunks(rows, self._wanted(columns), types_of(kinds or {}))

    def _wanted(self, columns: Sequence[str] | None) -> list[str]:
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of columns, such as [{columns!r}].")
        self.need(columns or ())
        return self.names if columns is None else list(dict.fromkeys(columns))

    def _chunks(self, rows: int, columns: list[str], types: dict[str, Any]) -> Iterator[Any]:
        with named(self.file):
            unknown = [name for name in columns if name not in types]
            if unknown:
                types |= _infer_types(self._frames(rows, unknown, {}))
            types = {name: types[name] for name in columns}
            frames = self._frames(rows, columns, types)
        while True:
            # The user's own errors happen between two chunks, and keep their words.
            with named(self.file):
                frame = next(frames, None)
                if frame is None:
                    return
                frame = frame.assign(**cast(frame, types))
            yield frame

    def _frames(
        self, rows: int | None, columns: list[str], types: Mapping[str, Any]
    ) -> Iterator[Any]:
        """Give the table in frames of so many rows, or in one piece."""
        if self.file.is_text:
            as_written = {name for name, dtype in types.items() if str(dtype) == "str"}
            found = text_frames(self.file, self.names, rows, columns, as_written)
        else:
            found = arrow_frames(self.file, rows, columns)
        start = 0
        for frame in found:
            if not len(frame):
                continue
            frame.index = range(start, start + len(frame))
            start += len(frame)
            yield _tidy(frame if list(frame.columns) == columns else frame[columns])
        if not start:
            raise TableError(self.file, "has columns and no rows")


def _infer_types(frames: Iterator[Any]) -> dict[str, Any]:
    """One type for each column that holds the values of all chunks."""
    types: dict[str, Any] = {}
    for frame in frames:
        empty = frame.isna().all()
        for name in frame.columns:
            dtype = None if empty[name] else frame[name].dtype
            types[name] = _common(types[name], dtype) if name in types else dtype
    return {name: "float64" if dtype is None else dtype for name, dtype in types.items()}


def _common(first: Any, second: Any) -> Any:
    """A type for the values of both; None is the type of a chunk that has none."""
    import pandas as pd

    if first is None or second is None:
        other = second if first is None else first
        kind = getattr(other, "kind", "") if isinstance(other, np.dtype) else ""
        return {"b": "boolean", "i": "float64", "u": "float64"}.get(kind, other)
    if first == second:
        return first
    if {str(first), str(second)} == {"bool", "boolean"}:
        return "boolean"
    numeric = [isinstance(d, np.dtype) and d.kind in "iuf" for d in (first, second)]
    if all(numeric):
        return np.result_type(first, second)
    if isinstance(first, pd.CategoricalDtype) and isinstance(second, pd.CategoricalDtype):
        return pd.CategoricalDtype(first.categories.union(second.categories, sort=False))
    return "str"


def _tidy(frame: Any) -> Any:
    """Give truth values with gaps, which pandas reads as objects, a type of their own."""
    import pandas as pd

    mixed = [name for name, dtype in frame.dtypes.items() if dtype == np.dtype(object)]
    found = [n for n in mixed if pd.api.types.infer_dtype(frame[n], skipna=True) == "boolean"]
    return frame.astype(dict.fromkeys(found, "boolean")) if found else frame
