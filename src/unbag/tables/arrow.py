"""Tables as columns: Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from unbag.tables.file import TableError, TableFile, check_distinct, import_pyarrow


@dataclass(frozen=True)
class ArrowTable:
    """A Parquet or Arrow file; every column keeps the type it has there."""

    file: TableFile
    names: list[str]

    def frames(self, rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        """Frames of so many rows each, or one of all."""
        with ExitStack() as stack:
            schema, batches = _open_arrow(self.file, stack)
            yield from batched_frames(schema, batches(rows or 1 << 16, columns), rows, columns)


def open_arrow(file: TableFile) -> ArrowTable:
    """Read the names of the columns."""
    with ExitStack() as stack:
        names = [n for n in _open_arrow(file, stack)[0].names if not _is_row_label(n)]
    if not names:
        raise TableError(file, "has no columns")
    check_distinct(file, names)
    return ArrowTable(file, names)


def _open_arrow(table: TableFile, stack: ExitStack) -> tuple[Any, Callable[..., Iterator[Any]]]:
    """The schema of the file, and a function that gives its batches."""
    pa = import_pyarrow()
    if table.content is None:
        file = stack.enter_context(pa.OSFile(str(table.path)))
    else:  # to be read from its end, which streams cannot
        with table.open() as stream:
            file = stack.enter_context(pa.BufferReader(stream.read()))
    start, size = file.read(6), file.size()
    mark = b"PAR1" if table.format == "parquet" else b"ARROW1"
    file.seek(max(size - len(mark), 0))
    if start.startswith(mark) and (size < 2 * len(mark) or file.read() != mark):
        raise ValueError("the file is cut short or damaged at its end")
    file.seek(0)
    if table.format == "parquet":
        # With pre_buffer, what was read stays in memory to the end of the file.
        opened = import_pyarrow("pyarrow.parquet").ParquetFile(file, pre_buffer=False)
        parquet = stack.enter_context(opened)
        return parquet.schema_arrow, lambda rows, names: parquet.iter_batches(rows, columns=names)
    if start.startswith(mark):
        reader = stack.enter_context(pa.ipc.open_file(file))
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        reader = batches = stack.enter_context(pa.ipc.open_stream(file))
    return reader.schema, lambda _, names: (_sound(batch.select(names)) for batch in batches)


def _sound(batch: Any) -> Any:
    """Refuse what points outside the file, which Arrow itself would follow."""
    batch.validate(full=True)
    return batch


def _is_row_label(name: str) -> bool:
    """Whether pandas stored an index without a name here."""
    return name.startswith("__index_level_") and name.endswith("__")


def batched_frames(
    schema: Any, batches: Iterable[Any], rows: int | None, columns: list[str]
) -> Iterator[Any]:
    """Frames of so many rows each, or one of all, from batches of any size."""
    pa = import_pyarrow()
    kept = pa.schema([schema.field(name) for name in columns], schema.metadata)
    held, n_held = [], 0
    for batch in batches:
        held.append(batch.select(columns))
        n_held += len(batch)
        while rows is not None and n_held >= rows:
            whole = pa.Table.from_batches(held, held[0].schema)
            yield _to_pandas(whole.slice(0, rows), columns)
            held, n_held = whole.slice(rows).to_batches(), n_held - rows
    if held:
        whole = pa.Table.from_batches(held)
        held.clear()
        frame = _to_pandas(whole, columns)
        del whole
        pa.default_memory_pool().release_unused()
        yield frame
    else:
        yield kept.empty_table().to_pandas()


def _to_pandas(table: Any, columns: list[str]) -> Any:
    """Make a frame in which a former index is a column again."""
    # column by column, each freed once it is converted: a table is never in memory twice
    frame = table.to_pandas(split_blocks=True, self_destruct=True)
    return frame if set(columns) <= set(frame.columns) else frame.reset_index()
