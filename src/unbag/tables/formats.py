"""One reader for each format: the names of the columns, and a function that gives the rows."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unbag._optional import optional
from unbag._text import listing, shown_value
from unbag.tables.column_types import without_texts
from unbag.tables.dialect import find_dialect, is_blank
from unbag.tables.files import (
    SEPARATORS,
    TableError,
    TableFile,
    check_distinct,
    check_unpacked,
    decoded,
    import_pyarrow,
    name_parts,
)

BATCH = 1 << 16
_LONGEST_ROW = 1 << 26
_SAMPLE = 1 << 15


class Source(NamedTuple):
    """An opened table."""

    names: list[str]
    frames: Callable[[int | None, list[str], set[str]], Iterator[Any]]
    # of a table in an engine that narwhals knows: opens it as a lazy frame
    lazy: Callable[[], AbstractContextManager[Any]] | None = None


@dataclass(frozen=True)
class Options:
    """How tables are read; see `unbag.tables.open_table`."""

    query: str | None
    encoding: str
    na_values: tuple[str, ...]
    on_message: Callable[[str], object]


# --- text ---------------------------------------------------------------------------------------


def open_text(file: TableFile, options: Options) -> Source:
    """Open a CSV or TSV file, and infer its dialect from the first lines."""
    usual = SEPARATORS[file.format]
    blocks = decoded(file, options.encoding, options.on_message)
    start = next(blocks, "")
    while "\n" not in start.lstrip() and "\r" not in start.lstrip() and (more := next(blocks, "")):
        start += more
    blocks.close()  # type: ignore[attr-defined]
    lines = io.StringIO(start, newline="").readlines()
    ends = np.cumsum([len(line) for line in lines])
    sample = lines[: max(1, int(np.searchsorted(ends, _SAMPLE)))]
    while len(sample) > 2 and "".join(sample).count('"') % 2:
        sample.pop()  # of a row that goes on
    dialect = find_dialect(sample, usual)
    rows = csv.reader(lines, delimiter=dialect.separator)
    names = next((row for row in rows if not is_blank(row)), [])
    if not names:
        raise TableError(file, "is empty")
    check_distinct(file, names)
    if unusual := dialect.describe(usual):
        options.on_message(f"{file} is read with {unusual}.")
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    codes = {names[i] for i in dialect.codes if i < len(names)}

    def frames(rows: int | None, columns: list[str], as_text: set[str]) -> Iterator[Any]:
        import pandas as pd

        text = decoded(file, options.encoding, options.on_message)
        newline = "\n" if "\n" in start else "\r"
        with closing(text):  # type: ignore[type-var]
            found = pd.read_csv(
                CheckedRows(file, text, dialect.separator, newline, len(names)),  # type: ignore[call-overload]
                sep=dialect.separator,
                decimal=dialect.decimal,
                thousands=dialect.thousands,
                usecols=columns,
                dtype=dict.fromkeys(as_text | (codes & set(columns)), str),
                na_values=list(options.na_values),
                chunksize=rows,
                low_memory=False,
            )
            yield from [found] if rows is None else found

    return Source(names, frames)


class CheckedRows:
    """Text for pandas, of which all rows have as many fields as the header.

    pandas fills short rows up and takes a field too many for an index, without a word.
    """

    def __init__(
        self, file: TableFile, blocks: Iterator[str], separator: str, newline: str, n_fields: int
    ) -> None:
        self._file, self._blocks, self._n_fields = file, blocks, n_fields
        self._separator, self._newline = separator, newline
        self._rest, self._n_lines = "", 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.read, "")

    def read(self, _size: int = -1) -> str:
        """Return the next whole rows, however many characters that is."""
        for block in self._blocks:
            self._rest += block
            given = self._checked(self._rest[: self._rest.rfind(self._newline) + 1], is_end=False)
            if len(self._rest) > _LONGEST_ROW:
                where, size = f"the row on line {self._n_lines + 1}", f"{_LONGEST_ROW >> 20} MB"
                problem = f"is longer than {size} (is a quote left open?)"
                raise TableError(self._file, problem, line=where)
            if given:
                return given
        return self._checked(self._rest, is_end=True)

    def _checked(self, text: str, is_end: bool) -> str:
        """Return the rows that end within the text; the others are kept."""
        if not self._is_even(text):
            text = self._check_each(text, is_end)
        self._rest = self._rest[len(text) :]
        self._n_lines += text.count(self._newline)
        return text

    def _is_even(self, text: str) -> bool:
        """Whether rows are plainly complete and alike, of which most files consist."""
        outside = text.split('"')[::2]
        if '"' in text:
            before = (self._separator, "\n", "\r")
            if text.count('"') % 2 or not all(not t or t.endswith(before) for t in outside[:-1]):
                return False
        lines = "".join(outside).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        counts = {line.count(self._separator) for line in lines if line}
        return counts <= {self._n_fields - 1}

    def _check_each(self, text: str, is_end: bool) -> str:
        """Check row by row, name the first of another length, and return those that are whole."""
        lines = io.StringIO(text, newline="").readlines()
        # one line more, which is part of the last row if a quote is open there
        rows = csv.reader([*lines, "\n"], delimiter=self._separator)
        n_passed, n_before = 0, self._n_lines
        for row in rows:
            if rows.line_num > len(lines) and not is_end:
                break
            n_read = min(rows.line_num, len(lines))
            if len(row) != self._n_fields and not is_blank(row):
                first, last = n_before + n_passed + 1, n_before + n_read
                where = f"line {first}" if last == first else f"the row on lines {first} to {last}"
                hint = "" if last == first else " (is a quote left open?)"
                title = "; if that is a title, take it out" if self._n_fields == 1 else ""
                problem = f"has {len(row)} fields{hint}, and the header has {self._n_fields}{title}"
                raise TableError(self._file, problem, line=where)
            n_passed = n_read
        return "".join(lines[:n_passed])


# --- JSON ---------------------------------------------------------------------------------------


def open_json(file: TableFile, options: Options) -> Source:
    """Open one JSON object on each line, or a list of them; a key may lack in some rows."""
    names: dict[str, None] = {}
    for row in _json_rows(file, options):
        if not row.keys() <= names.keys():
            names.update(dict.fromkeys(row))
    if not names:
        raise TableError(file, "is empty")

    def frames(rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        import pandas as pd

        found = _json_rows(file, options)
        while some := list(islice(found, rows)):
            yield pd.DataFrame({n: [row.get(n) for row in some] for n in columns}, columns=columns)

    return Source(list(names), frames)


def _json_rows(file: TableFile, options: Options) -> Iterator[dict[str, Any]]:
    blocks = decoded(file, options.encoding, options.on_message)
    start = next(blocks, "")
    if start.lstrip().startswith("["):
        values = _parsed(file, start + "".join(blocks), "the list")
        yield from (_row(file, value, f"entry {i}") for i, value in enumerate(values, 1))
        return
    number, rest = 0, ""
    for block in chain([start], blocks, ["\n"]):
        *lines, rest = (rest + block).split("\n")
        for number, line in enumerate(lines, number + 1):  # noqa: B020
            if line.strip():
                yield _row(file, _parsed(file, line, f"line {number}"), f"line {number}")


def _parsed(file: TableFile, text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TableError(file, f"is not JSON: {error}", line=where) from None


def _row(file: TableFile, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = f"holds {shown_value(value)}, and not an object of column names and values"
        raise TableError(file, problem, line=where)
    nested = next((n for n, v in value.items() if isinstance(v, list | dict)), None)
    if nested is not None:
        problem = f"has a list or an object in column {nested!r}, which is not a single value"
        raise TableError(file, problem, line=where, column=nested)
    return value


# --- Parquet, Arrow, workbooks ------------------------------------------------------------------


def open_arrow(file: TableFile, _: Options) -> Source:
    """Open a Parquet or Arrow file; every column keeps the type it has there."""
    with ExitStack() as stack:
        names = _arrow_batches(file, stack)[0].names
    names = [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]
    if not names:
        raise TableError(file, "has no columns")
    check_distinct(file, names)

    def frames(rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        with ExitStack() as stack:
            schema, batches = _arrow_batches(file, stack)
            yield from arrow_frames(schema, batches(rows or BATCH, columns), rows, columns)

    return Source(names, frames)


def _arrow_batches(table: TableFile, stack: ExitStack) -> tuple[Any, Callable[..., Iterator[Any]]]:
    """Return the schema, and a function that gives batches of some columns."""
    pa = import_pyarrow()
    if table.member:
        with table.open() as stream:
            file = stack.enter_context(pa.BufferReader(stream.read()))
    else:
        file = stack.enter_context(pa.OSFile(str(table.path)))
    start, size = file.read(6), file.size()
    mark = b"PAR1" if table.format == "parquet" else b"ARROW1"
    file.seek(max(size - len(mark), 0))
    if start.startswith(mark) and (size < 2 * len(mark) or file.read() != mark):
        raise ValueError("the file is cut short or damaged at its end")
    file.seek(0)
    if table.format == "parquet":
        # pre_buffer would keep what was read in memory
        opened = import_pyarrow("pyarrow.parquet").ParquetFile(file, pre_buffer=False)
        parquet = stack.enter_context(opened)
        return parquet.schema_arrow, lambda rows, names: parquet.iter_batches(rows, columns=names)
    if start.startswith(mark):
        reader = stack.enter_context(pa.ipc.open_file(file))
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        reader = batches = stack.enter_context(pa.ipc.open_stream(file))

    def checked(batch: Any) -> Any:
        batch.validate(full=True)  # or Arrow follows offsets that point outside the file
        return batch

    return reader.schema, lambda _, names: (checked(batch.select(names)) for batch in batches)


def arrow_frames(
    schema: Any, batches: Iterable[Any], rows: int | None, columns: list[str]
) -> Iterator[Any]:
    """Give data frames of so many rows each, or one of all, from batches of any size."""
    pa = import_pyarrow()

    def frame(table: Any) -> Any:
        # column by column, each freed once converted: the table is never in memory twice
        made = table.to_pandas(split_blocks=True, self_destruct=True)
        return made if set(columns) <= set(made.columns) else made.reset_index()

    held: list[Any] = []
    n_held = 0
    for batch in batches:
        held.append(batch.select(columns))
        n_held += len(batch)
        while rows is not None and n_held >= rows:
            whole = pa.Table.from_batches(held, held[0].schema)
            yield frame(whole.slice(0, rows))
            held, n_held = whole.slice(rows).to_batches(), n_held - rows
    kept = pa.schema([schema.field(name) for name in columns], schema.metadata)
    whole = pa.Table.from_batches(held) if held else kept.empty_table()
    held.clear()
    yield frame(whole)


def open_workbook(file: TableFile, options: Options) -> Source:
    """Read a sheet of a workbook into memory: the one that the query names, or the first."""
    fastexcel = optional("fastexcel", "a workbook", "excel")
    with file.open() as stream:
        content = stream.read()
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_unpacked(file, archive.infolist())
    try:
        book = fastexcel.read_excel(content)
        sheets, name = book.sheet_names, options.query
        if name is not None and name not in sheets:
            raise TableError(file, f"has no sheet {name!r}; it has {listing(map(repr, sheets))}")
        chosen = sheets[0] if name is None else name
        header = book.load_sheet(chosen, n_rows=1, header_row=None, dtypes="string").to_pandas()
        # types from all rows: what does not fit a type found in a sample becomes missing
        rows = book.load_sheet(chosen, schema_sample_rows=None).to_pandas()
    except fastexcel.FastExcelError as error:
        reason = str(error).splitlines()[0].removeprefix("calamine error: ")
        raise TableError(file, f"cannot be read as a workbook: {reason}") from None
    if name is None and len(sheets) > 1:
        others = listing(map(repr, sheets[1:]))
        options.on_message(
            f"{file} is read from its first sheet, {chosen!r}; it also has {others}."
        )
    if not len(header):
        raise TableError(file, f"has nothing in its sheet {chosen!r}")
    names = [str(n) for n in header.iloc[0].dropna()]
    if len(names) == 1 and rows.notna().any().sum() > 1:
        advice = "take it out, so that the sheet begins with their names"
        raise TableError(file, f"has a title, {names[0]!r}, above its columns; {advice}")
    check_distinct(file, names)
    rows = rows.rename(columns=lambda n: n.replace("__UNNAMED__", "Unnamed: "))
    # a cell that was once touched makes a column without a name
    rows = rows[[n for n in rows.columns if not n.startswith("Unnamed: ") or rows[n].notna().any()]]
    cleaned = without_texts(rows, options.na_values)
    rows = rows.assign(**{name: _as_numbers(values) for name, values in cleaned.items()})
    floats = rows.select_dtypes("float64").items()
    rows = rows.assign(
        **{name: values.astype(np.int64) for name, values in floats if _whole(values)}
    )

    def frames(n_rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        step = n_rows or max(len(rows), 1)
        for start in range(0, len(rows), step):
            yield rows.iloc[start : start + step][columns].copy()

    return Source(list(rows.columns), frames)


def _as_numbers(values: Any) -> Any:
    """Return a column as numbers, if it holds nothing else."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    return values if (numbers.isna() & values.notna()).any() else numbers


def _whole(values: Any) -> bool:
    """Whether a column holds integers only, all of them exact as floats."""
    return bool((values == values.round()).all() and (values.abs() < 2**53).all())


# --- several files ------------------------------------------------------------------------------


def find_parts(path: Path) -> list[Path] | None:
    """List the tables in a folder, or of a pattern, part-2 before part-10; None if it is neither."""
    if path.is_dir():
        found = [p for p in path.rglob("*") if _is_part(p, path)]
        if not found:
            raise IsADirectoryError(f"{TableFile(path, '')} is a folder without a table in it")
    elif has_magic(str(path)) and not path.exists():
        names = glob(str(path), recursive=True)  # noqa: PTH207 (it may start anywhere)
        found = [p for p in map(Path, names) if p.is_file()]
        if not found:
            raise FileNotFoundError(f"there is no file {TableFile(path, '')}")
    else:
        return None
    return sorted(
        found, key=lambda p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", str(p))]
    )


def open_parts(paths: list[Path], root: Path, sources: list[Source]) -> Source:
    """Concatenate files with the same columns; folders like month=05 give a column more."""
    first = set(sources[0].names)
    for path, source in zip(paths, sources, strict=True):
        if set(source.names) != first:
            odd = listing(map(repr, sorted(first ^ set(source.names))))
            raise TableError(path, f"has other columns than {paths[0]}: {odd} in one of them only")
    added = [_folder_values(path, root) for path in paths]
    more = [name for name in added[0] if name not in first]
    if any(set(one) != set(added[0]) for one in added) or len(more) < len(added[0]):
        raise TableError(root, "has folders like month=05 for some of its rows or columns only")

    def frames(rows: int | None, columns: list[str], as_text: set[str]) -> Iterator[Any]:
        import pandas as pd

        held, n_held = [], 0
        own = [name for name in columns if name in first]
        for source, values in zip(sources, added, strict=True):
            for frame in source.frames(rows, own, as_text & first):
                whole = frame.assign(**{n: values[n] for n in columns if n in values})[columns]
                if rows is None:
                    yield whole
                    continue
                held.append(whole)
                n_held += len(whole)
                while n_held >= rows:
                    whole = pd.concat(held, ignore_index=True)
                    yield whole.iloc[:rows]
                    held, n_held = [whole.iloc[rows:]], n_held - rows
        if held := [frame for frame in held if len(frame)]:
            yield pd.concat(held, ignore_index=True)

    return Source([*sources[0].names, *more], frames)


def _is_part(path: Path, root: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    return path.is_file() and not hidden and bool(name_parts(path)[0]) and path.suffix != ".txt"


def _folder_values(path: Path, root: Path) -> dict[str, str]:
    folders = path.relative_to(root).parts[:-1] if root.is_dir() else ()
    pairs = (folder.partition("=") for folder in folders)
    return {name: value for name, equal, value in pairs if equal}
