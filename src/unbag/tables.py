"""Tables on disk: read whole or in chunks, written in chunks, and turned into features.

The end of a file's name says what it holds: CSV (``.csv``) and TSV (``.tsv``), compressed or not
(``.gz``, ``.bz2``, ``.xz``, ``.zst``), Parquet (``.parquet``) and Arrow (``.arrow``, ``.feather``,
``.ipc``). Text is UTF-8 with one header line.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from unbag.schema import Kind, column_kind, convert, seconds, shown_value

_SEPARATORS = {"csv": ",", "tsv": "\t"}
_FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
_FORMATS |= dict.fromkeys([".arrow", ".feather", ".ipc"], "arrow")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_KINDS: dict[str, Kind] = {
    "float64": "number",
    "boolean": "boolean",
    "datetime64[us]": "time",
    "str": "category",
}
_BLOCK = 1 << 20
_LONGEST_ROW = 1 << 26
_MISSING = "(missing)"


class _TableError(ValueError):
    """A mistake that has its sentence already."""


def read_table(path: str | Path, *, columns: Sequence[str] | None = None) -> Any:
    """Read a table as a pandas DataFrame, with types inferred.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above.
    columns : sequence of str, optional
        The columns to read, in the order wanted; all of them by default.

    Returns
    -------
    pandas DataFrame
        With at least one row. Dates in CSV and TSV stay text.

    Raises
    ------
    ValueError, OSError
        With one sentence that names the file and, where there is one, the line at fault: wrong
        encoding, rows of another length than the header, two columns of one name, no rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from unbag.tables import read_table, write_table
    >>> people = pd.DataFrame({"age": [31, 64], "colour": ["red", None]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_table([people], Path(folder) / "people.csv.gz")
    ...     again = read_table(Path(folder) / "people.csv.gz", columns=["colour", "age"])
    >>> written, list(again), again["age"].tolist()
    (2, ['colour', 'age'], [31, 64])
    """
    table = _Table.find(path)
    with _named(table):
        wanted = table.check(columns)
        return next(table.frames(None, wanted, ()))


def read_chunks(
    path: str | Path,
    *,
    rows: int = 100_000,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Read a table in chunks, so that it never has to fit into memory.

    The types are the same in all chunks. Where ``dtypes`` does not give them, they are found by
    going through those columns once before the first chunk is given, again chunk by chunk. The
    lines of a text file are checked before the first chunk as well.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above.
    rows : int
        Rows in each chunk; only the last may have fewer.
    columns : sequence of str, optional
        The columns to read, in the order wanted; all of them by default.
    dtypes : mapping of str to type, optional
        Types of some or all columns, such as `unbag.schema.Schema.dtypes`. Columns of type
        ``"str"`` are read as they are written, with leading zeros and all.

    Yields
    ------
    pandas DataFrame
        The next rows; the index counts on from chunk to chunk.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from unbag.tables import read_chunks, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "numbers.parquet"
    ...     written = write_table([pd.DataFrame({"x": range(5)})], path)
    ...     [chunk["x"].tolist() for chunk in read_chunks(path, rows=2)]
    [[0, 1], [2, 3], [4]]
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}.")
    return _chunks(_Table.find(path), rows, columns, dict(dtypes or {}))


def write_table(frames: Iterable[Any], path: str | Path) -> int:
    """Write pandas DataFrames one below the other into one file, and count the rows.

    The file appears when all is written. If anything fails before, what was there stays as it was
    and nothing is left over. The first frame sets columns and types; an index is not written.

    Parameters
    ----------
    frames : iterable of pandas DataFrame
        The chunks, all with the same columns.
    path : str or Path
        The file to write; the end of its name says in which of the formats above.

    Returns
    -------
    int
        Number of rows written.
    """
    table = _Table.find(path, to_write=True)
    draft = table.path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with _named(table, "written"), draft.open("xb") as file:
            n_rows = _write(frames, table, file)
        draft.replace(table.path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return n_rows


@dataclass(frozen=True)
class _Table:
    """A file, and what the end of its name says about it."""

    path: Path
    format: str
    compression: str

    @classmethod
    def find(cls, path: str | Path, to_write: bool = False) -> _Table:
        """Read the name, and make sure that there is something to read or a place to write."""
        path = Path(path)
        suffixes = [suffix.lower() for suffix in path.suffixes]
        compression = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
        form = _FORMATS.get(suffixes[-1] if suffixes else "")
        table = cls(path, form or "", compression)
        if path.is_dir():
            raise OSError(f"{table} is a folder, not a table")
        if form is None:
            raise ValueError(
                f"{table} is no table that can be {'written' if to_write else 'read'}: its name "
                "must end in .csv, .tsv, .parquet, .arrow, .feather or .ipc (.csv.gz and the like "
                "will do)."
            )
        if compression and form not in _SEPARATORS:
            raise ValueError(
                f"{table} is compressed twice: {form} compresses itself, leave out {compression}."
            )
        if to_write and not path.absolute().parent.is_dir():
            raise OSError(f"the folder of {table} does not exist")
        if not to_write and not path.is_file():
            raise OSError(f"there is no file {table}")
        return table

    def __str__(self) -> str:
        name = str(self.path)
        return name if name.isprintable() else repr(name)

    def open(self) -> IO[bytes]:
        """Open the file for reading, without its compression."""
        if self.compression == ".zst":
            pa = _pyarrow()
            return pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")
        openers: dict[str, Callable[..., Any]]
        openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        return openers.get(self.compression, open)(self.path, "rb")

    def text(self) -> io.TextIOWrapper:
        """Open the file as text, without its byte order mark."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="")

    def check(self, columns: Sequence[str] | None) -> list[str]:
        """Look for what would go wrong later; give the names of the columns to be read."""
        if self.path.stat().st_size == 0:
            raise _TableError(f"{self} is empty")
        present = _check_text(self) if self.format in _SEPARATORS else _arrow_names(self)
        if isinstance(columns, str):
            raise _TableError(f"columns must be a list of columns, such as [{columns!r}].")
        absent = [name for name in columns or () if name not in set(present)]
        if absent:
            raise _TableError(f"{self} has no column {shown_value(absent[0])}")
        return present if columns is None else list(dict.fromkeys(columns))

    def frames(self, rows: int | None, columns: list[str], text: Iterable[str]) -> Iterator[Any]:
        """Give the table in frames of so many rows, or in one piece."""
        source = _text_frames if self.format in _SEPARATORS else _arrow_frames
        start = 0
        for frame in source(self, rows, columns, text):
            if not len(frame):
                continue
            frame.index = range(start, start + len(frame))
            start += len(frame)
            yield _tidy(frame[columns])
        if not start:
            raise _TableError(f"{self} has columns and no rows")


@contextmanager
def _named(table: _Table, done: str = "read") -> Iterator[None]:
    """Put the file's name into the words of whatever library stumbles over it."""
    damaged = (EOFError, zlib.error, lzma.LZMAError, csv.Error)
    clumsy = (KeyError, TypeError, IndexError, OverflowError, NotImplementedError)
    try:
        yield
    except _TableError:
        raise
    except (ValueError, OSError, *damaged, *clumsy) as error:
        words = str(error).strip() or type(error).__name__
        reason = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words.splitlines()[0])
        told = OSError if isinstance(error, OSError) else ValueError
        what = f"{table.format}{table.compression}"
        raise told(f"{table} cannot be {done} as {what}: {reason}") from None


def _chunks(
    table: _Table, rows: int, columns: Sequence[str] | None, dtypes: dict[str, Any]
) -> Iterator[Any]:
    with _named(table):
        wanted = table.check(columns)
        unknown = [name for name in wanted if name not in dtypes]
        if unknown:
            dtypes = dtypes | _infer_types(table.frames(rows, unknown, ()))
        text = {name for name in wanted if str(dtypes[name]) == "str"}
        frames = table.frames(rows, wanted, text)
    while True:
        # The user's own errors happen between two chunks, and keep their words.
        with _named(table):
            frame = next(frames, None)
            if frame is None:
                return
            frame = _cast(frame, dtypes)
        yield frame


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


def _cast(frame: Any, dtypes: Mapping[str, Any]) -> Any:
    import pandas as pd

    columns = {}
    for name in frame.columns:
        values, dtype = frame[name], dtypes[name]
        kind = _KINDS.get(str(dtype))
        as_wanted = kind == "category" and isinstance(values.dtype, pd.StringDtype)
        if not as_wanted and values.dtype != dtype:
            values = convert(values, kind) if kind else values.astype(dtype)
        columns[name] = values
    return pd.DataFrame(columns, index=frame.index)


# --- text ---------------------------------------------------------------------------------------


def _text_frames(
    table: _Table, rows: int | None, columns: list[str], text: Iterable[str]
) -> Iterator[Any]:
    import pandas as pd

    with table.text() as file:
        found = pd.read_csv(
            file,
            sep=_SEPARATORS[table.format],
            usecols=columns,
            dtype=dict.fromkeys(text, str),
            chunksize=rows,
            low_memory=False,
        )
        yield from [found] if rows is None else found


def _check_text(table: _Table) -> list[str]:
    """Make sure that the file is UTF-8 and its rows are as long as the header; give the header."""
    separator = ord(_SEPARATORS[table.format])
    decoder = codecs.getincrementaldecoder("utf-8")()
    header: list[str] = []
    offset, line, rest, even = 0, 1, b"", True
    with table.open() as stream:
        while block := stream.read(_BLOCK):
            pending = decoder.getstate()[0]
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                start = offset - len(pending)
                raise _not_text(table, pending + block, error.start, start, line) from None
            if (place := block.find(b"\0")) >= 0:
                raise _not_text(table, block, place, offset, line)
            if not offset:
                header = _header(table)
            if even:
                rest += block if offset else block.removeprefix(codecs.BOM_UTF8)
                end = _even_rows(rest, separator, len(header))
                rest = rest[end:]
                even = end >= 0 and len(rest) < _LONGEST_ROW
            offset, line = offset + len(block), line + block.count(b"\n")
        if decoder.getstate()[0]:
            raise _TableError(f"{table} ends within a character, on line {line}: it is cut short")
    if not header:
        raise _TableError(f"{table} is empty")
    if not even or _even_rows(rest + b"\n", separator, len(header)) < len(rest):
        _look_closer(table, len(header))
    return header


def _not_text(table: _Table, block: bytes, place: int, offset: int, line: int) -> _TableError:
    """Say where the first byte is that no UTF-8 text has."""
    line += block.count(b"\n", 0, place)
    return _TableError(
        f"{table} is not UTF-8 text: 0x{block[place]:02x} at byte {offset + place}, on line "
        f"{line}; save it with the encoding UTF-8"
    )


def _header(table: _Table) -> list[str]:
    """Read the names of the columns as pandas does."""
    with table.text() as file:
        rows = csv.reader(file, delimiter=_SEPARATORS[table.format])
        names = next((row for row in rows if not _is_blank(row)), [])
    _check_distinct(table, names)
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)]


def _is_blank(row: list[str]) -> bool:
    """Whether pandas skips a line: it is empty, or of spaces only; an empty quote is a field."""
    return not row or (len(row) == 1 and row[0] != "" and not row[0].strip(" \t"))


def _even_rows(data: bytes, separator: int, n_fields: int) -> int:
    """Length of the whole rows that data starts with; −1 if they are not plainly all alike.

    A separator or line end counts unless an odd number of quotes stands before it. That is right
    as long as quotes open at the start of a field only, which is checked.
    """
    if data.count(b"\r", 0, max(len(data) - 1, 0)) != data.count(b"\r\n"):
        return -1
    symbols = np.frombuffer(data, np.uint8)
    quote = symbols == ord('"')
    outside = ~np.logical_xor.accumulate(quote)
    opening = np.flatnonzero(quote)[::2]
    before = symbols[opening[opening > 0] - 1]
    if not np.isin(before, [separator, *b'\r\n"']).all():
        return -1
    ends = np.flatnonzero((symbols == ord("\n")) & outside)
    if not len(ends):
        return 0
    separators = np.flatnonzero((symbols == separator) & outside)
    n_separators = np.diff(np.searchsorted(separators, ends), prepend=0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    blank = (lengths == 0) | ((lengths == 1) & (symbols[starts] == ord("\r")))
    return -1 if (n_separators[~blank] != n_fields - 1).any() else int(ends[-1]) + 1


def _look_closer(table: _Table, n_fields: int) -> None:
    """Go through the rows one by one, and name the first that has another length."""
    with table.text() as file:
        rows = csv.reader(file, delimiter=_SEPARATORS[table.format])
        first = 1
        for row in rows:
            last = rows.line_num
            if len(row) != n_fields and not _is_blank(row):
                where = f"line {first}" if last == first else f"the row on lines {first} to {last}"
                hint = "" if last == first else " (is a quote left open?)"
                raise _TableError(
                    f"{table}: {where} has {len(row)} fields{hint}, and the header has {n_fields}"
                )
            first = last + 1


# --- Parquet and Arrow --------------------------------------------------------------------------


def _pyarrow(module: str = "pyarrow") -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this file needs pyarrow; install with: pip install pyarrow"
        ) from None


def _open_arrow(table: _Table, stack: ExitStack) -> tuple[Any, Callable[..., Iterator[Any]]]:
    """The schema of the file, and a function that gives its batches."""
    pa = _pyarrow()
    file = stack.enter_context(pa.OSFile(str(table.path)))
    start, size = file.read(6), file.size()
    mark = b"PAR1" if table.format == "parquet" else b"ARROW1"
    file.seek(max(size - len(mark), 0))
    if start.startswith(mark) and (size < 2 * len(mark) or file.read() != mark):
        raise ValueError("the file is cut short or damaged at its end")
    file.seek(0)
    if table.format == "parquet":
        # With pre_buffer, what was read stays in memory to the end of the file.
        opened = _pyarrow("pyarrow.parquet").ParquetFile(file, pre_buffer=False)
        parquet = stack.enter_context(opened)
        return parquet.schema_arrow, lambda rows, names: parquet.iter_batches(rows, columns=names)
    if start.startswith(mark):
        reader = stack.enter_context(pa.ipc.open_file(file))
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        reader = batches = stack.enter_context(pa.ipc.open_stream(file))
    return reader.schema, lambda _, names: (batch.select(names) for batch in batches)


def _arrow_names(table: _Table) -> list[str]:
    with ExitStack() as stack:
        names = [n for n in _open_arrow(table, stack)[0].names if not _is_row_label(n)]
    if not names:
        raise _TableError(f"{table} has no columns")
    _check_distinct(table, names)
    return names


def _is_row_label(name: str) -> bool:
    """Whether pandas stored an index without a name here."""
    return name.startswith("__index_level_") and name.endswith("__")


def _check_distinct(table: _Table, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise _TableError(f"{table} has more than one column {twice[0]!r}")


def _arrow_frames(
    table: _Table, rows: int | None, columns: list[str], _: Iterable[str]
) -> Iterator[Any]:
    pa = _pyarrow()
    with ExitStack() as stack:
        schema, batches = _open_arrow(table, stack)
        kept = pa.schema([schema.field(name) for name in columns], schema.metadata)
        held, n_held = [], 0
        for batch in batches(rows or 1 << 16, columns):
            held.append(batch.select(columns))
            n_held += len(batch)
            while rows is not None and n_held >= rows:
                whole = pa.Table.from_batches(held, held[0].schema)
                yield _to_pandas(whole.slice(0, rows), columns)
                held, n_held = whole.slice(rows).to_batches(), n_held - rows
        if held:
            yield _to_pandas(pa.Table.from_batches(held), columns)
        else:
            yield kept.empty_table().to_pandas()


def _to_pandas(table: Any, columns: list[str]) -> Any:
    """Make a frame in which a former index is a column again."""
    frame = table.to_pandas()
    return frame if set(columns) <= set(frame.columns) else frame.reset_index()


def _write(frames: Iterable[Any], table: _Table, file: IO[bytes]) -> int:
    """Write all frames into an open file."""
    n_rows, names, add = 0, None, None
    with ExitStack() as stack:
        for frame in frames:
            if names is None or add is None:
                names = list(frame.columns)
                _check_distinct(table, names)
                add = _writer(table, file, frame, stack)
            elif list(frame.columns) != names:
                raise _TableError(
                    f"{table} cannot be written: a chunk behind row {n_rows} has other columns "
                    "than the first"
                )
            add(frame)
            n_rows += len(frame)
        if names is None:
            raise _TableError(f"{table} cannot be written: there is not a single chunk")
    return n_rows


def _writer(table: _Table, file: IO[bytes], first: Any, stack: ExitStack) -> Callable[[Any], None]:
    """A function that writes one more frame below the others."""
    if table.format in _SEPARATORS:
        stream: Any = file
        if table.compression == ".zst":
            stream = stack.enter_context(_pyarrow().CompressedOutputStream(file, "zstd"))
        elif table.compression:
            opener: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}[table.compression]
            stream = stack.enter_context(opener(file, "wb"))
        separator, header = _SEPARATORS[table.format], [True]

        def add_text(frame: Any) -> None:
            text = frame.to_csv(
                None, sep=separator, index=False, header=header[0], lineterminator="\n"
            )
            stream.write(text.encode())
            header[0] = False

        return add_text
    pa = _pyarrow()
    schema = pa.Table.from_pandas(first, preserve_index=False).schema
    if table.format == "parquet":
        writer = stack.enter_context(_pyarrow("pyarrow.parquet").ParquetWriter(file, schema))
    else:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        writer = stack.enter_context(pa.ipc.new_file(file, schema, options=options))
    return lambda frame: writer.write_table(
        pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    )


# --- features -----------------------------------------------------------------------------------


class ToNumbers(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn columns of numbers, truth values and times into floats.

    Truth values become 0 and 1, times become seconds since 1970, lengths of time become seconds.
    Missing and infinite values become NaN. What a column holds is learnt in `fit`, so that a
    column of the same name that holds something else later is an error that names it.
    """

    def fit(self, X: Any, y: Any = None) -> ToNumbers:  # noqa: ARG002 (scikit-learn's signature)
        """Remember what each column holds."""
        validate_data(self, X, skip_check_array=True)
        self.kinds_: list[str] = [column_kind(X[name]) for name in X.columns]
        return self

    def transform(self, X: Any) -> Any:
        """Give an array of floats with the same columns."""
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        numbers = np.empty(X.shape)
        kinds: Any = self.kinds_
        for i, (name, kind) in enumerate(zip(X.columns, kinds, strict=True)):
            values = convert(X[name], kind)
            values = seconds(values) if kind == "time" else values
            numbers[:, i] = values.to_numpy(dtype=float, na_value=np.nan)
        numbers[~np.isfinite(numbers)] = np.nan
        return numbers


class ToText(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn columns of any kind into text, with ``"(missing)"`` where there is no value."""

    def fit(self, X: Any, y: Any = None) -> ToText:  # noqa: ARG002 (scikit-learn's signature)
        """Remember the names of the columns."""
        validate_data(self, X, skip_check_array=True)
        return self

    def transform(self, X: Any) -> Any:
        """Give an array of text with the same columns."""
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        text = np.empty(X.shape, dtype=object)
        for i, name in enumerate(X.columns):
            text[:, i] = convert(X[name], "category").fillna(_MISSING)
        return text

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")


def number_columns(frame: Any) -> list[str]:
    """Names of the columns that hold numbers, truth values or times."""
    return [name for name in frame.columns if column_kind(frame[name]) != "category"]


def category_columns(frame: Any) -> list[str]:
    """Names of the columns that hold text or categories."""
    return [name for name in frame.columns if column_kind(frame[name]) == "category"]


def make_features() -> ColumnTransformer:
    """Standardise numbers, encode everything else one-hot; missing values are filled in.

    Numbers get the median of their column, with a column that says where; infinite values count
    as missing, truth values as 0 and 1, times as seconds. Other missing values are a category of
    their own. Categories that were not seen in training become zeros.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables import make_features
    >>> people = pd.DataFrame({"age": [31, 64] * 5, "colour": ["red", None] * 5})
    >>> features = make_features().fit(people)
    >>> features.get_feature_names_out().tolist()
    ['age', 'colour_(missing)', 'colour_red']
    """
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    others = OneHotEncoder(handle_unknown="ignore", min_frequency=5, sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(ToNumbers(), imputer, StandardScaler()), number_columns),
            ("categories", make_pipeline(ToText(), others), category_columns),
        ],
        sparse_threshold=0,
        verbose_feature_names_out=False,
    )
