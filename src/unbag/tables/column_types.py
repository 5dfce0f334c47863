"""Four types of columns: how they are recognised, and the one dtype of each.

=============  ===================================================  =================
type           what belongs to it                                   type
=============  ===================================================  =================
``number``     integers, floats, decimals, percentages, lengths of  float64
               time (as seconds), and columns without any value
``boolean``    true or false, with or without gaps                  boolean (pandas)
``time``       dates and points in time; zones are turned to UTC    datetime64[us]
``category``   text, pandas categoricals and everything else        object, as text
=============  ===================================================  =================
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from unbag._text import shown_value

ColumnType = Literal["number", "category", "boolean", "time"]

_TYPES: dict[str, str] = {
    "number": "float64",
    "boolean": "boolean",
    "time": "datetime64[us]",
    "category": "str",
}
_KINDS: dict[str, Any] = {dtype: kind for kind, dtype in _TYPES.items()}
_KIND_OF_OBJECTS: dict[str, ColumnType] = {
    "empty": "number",
    "integer": "number",
    "floating": "number",
    "decimal": "number",
    "mixed-integer-float": "number",
    "timedelta": "number",
    "timedelta64": "number",
    "boolean": "boolean",
    "date": "time",
    "datetime": "time",
    "datetime64": "time",
}
_PERCENT = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)\s?%\s*")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.,]\d+)?)?\s?(Z|[+-]\d\d(:?\d\d)?)?)?")
# Values that are looked at before all of a column is tried.
_FIRST = 100
# Rows in which some column may have different values at random.
_FEWEST_FOR_ID = 50
# Texts that a column with so many different numbers may have without being text.
_MOST_STRAYS, _FEWEST_NUMBERS = 3, 10
_WORDS = {"number": "numbers", "boolean": "true or false", "time": "dates or times"}


class Stray(NamedTuple):
    """The first text in a column of numbers: its row, what it is, and the rows with numbers."""

    row: Any
    value: str
    n_numbers: int


class ColumnError(ValueError):
    """A column holds what it cannot; ``row`` and ``value`` are the first at fault."""

    def __init__(self, column: Any, problem: str, row: Any = None, value: Any = None) -> None:
        super().__init__(column, problem, row, value)
        self.column, self.problem, self.row, self.value = column, problem, row, value

    def __str__(self) -> str:
        return self._worded(f"the row with index {shown_value(self.row)}")

    def in_file(self) -> str:
        """Say it to those who know the table as a file, whose rows count from 1."""
        return self._worded(f"row {self.row + 1}" if isinstance(self.row, int) else "a row")

    def _worded(self, where: str) -> str:
        text = f"The column {self.column!r} {self.problem}"
        return text if self.row is None else f"{text} {where} holds {shown_value(self.value)}."


def dtypes_of(kinds: Mapping[str, ColumnType]) -> dict[str, Any]:
    """Give the type that columns of these kinds are kept in."""
    return {name: _TYPES[kind] for name, kind in kinds.items()}


def cast(frame: Any, types: Mapping[str, Any]) -> dict[str, Any]:
    """Give those columns that are of another type than wanted, converted."""
    import pandas as pd

    changed = {}
    for name, dtype in types.items():
        values, kind = frame[name], _KINDS.get(str(dtype))
        is_text = kind == "category" and isinstance(values.dtype, pd.StringDtype)
        if not is_text and values.dtype != dtype:
            changed[name] = convert(values, kind) if kind else values.astype(dtype)
    return changed


def column_type(values: Any) -> ColumnType:
    """Return the type of a pandas column; one without any value counts as numbers."""
    import pandas as pd

    dtype, types = values.dtype, pd.api.types
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "time"
    if types.is_complex_dtype(dtype):
        raise ColumnError(values.name, "holds complex numbers, which are not features.")
    if types.is_numeric_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return "number"
    kind = _KIND_OF_OBJECTS.get(types.infer_dtype(values, skipna=True))
    if kind is not None:
        return kind
    # Lists, dictionaries, arrays and bytes have no text that would make a sensible category.
    odd = values.map(lambda v: isinstance(v, list | tuple | dict | set | bytes | np.ndarray))
    if odd.any():
        place = int(np.argmax(odd.to_numpy(dtype=bool)))
        raise ColumnError(
            values.name, "cannot be a feature:", values.index[place], values.iloc[place]
        )
    return "category"


def as_pandas(frame: Any, name: Any) -> Any:
    """A column as pandas has it, whatever library the table is of."""
    values = frame[name]
    return values.to_pandas() if hasattr(values, "to_pandas") else values


def parse_texts(frame: Any, known: Collection[str] = ()) -> dict[str, Any]:
    """Columns of text that are times in ISO form or percentages, as such; but those that are known."""
    found = {}
    for name in frame.columns:
        values = frame[name]
        if name in known or column_type(values) != "category":
            continue
        present = values.dropna()
        first = present.iloc[:_FIRST]
        for form, read in ((_ISO, _times), (_PERCENT, _numbers)):
            if len(first) and all(isinstance(v, str) and form.fullmatch(v) for v in first):
                made = read(values, "category")
                if made.notna().sum() == len(present):
                    found[name] = made
    return found


def is_id(values: Any) -> bool:
    """Whether a pandas column names rows: text that differs in every row, or numbers in turn.

    Of three numbers one may be missing, where rows were left out.
    """
    import pandas as pd

    if len(values) < _FEWEST_FOR_ID or values.isna().any():
        return False
    if pd.api.types.is_integer_dtype(values.dtype):
        in_turn = int(values.max()) - int(values.min()) < 1.5 * len(values)
        return bool(in_turn and values.is_unique)
    return column_type(values) == "category" and bool(values.is_unique)


def without_texts(frame: Any, missing: tuple[str, ...]) -> dict[str, Any]:
    """Columns that have texts which stand for missing values, without these."""
    changed = {}
    for name in frame.columns if missing else ():
        values = frame[name]
        if column_type(values) == "category" and (absent := values.isin(missing)).any():
            changed[name] = values.mask(absent).infer_objects()
    return changed


def find_stray(values: Any) -> Stray | None:
    """Find what keeps a pandas column of numbers from being one, if it is that and little else.

    Up to three texts among ten numbers or more, which stand in most rows, are not categories. Codes
    with leading zeros are not numbers.
    """
    import pandas as pd

    if column_type(values) != "category":
        return None
    present = values.dropna().astype(str)
    distinct = pd.Series(present.unique(), dtype=object)
    is_number = _numbers(distinct, "category").notna()
    odd = distinct[~is_number]
    if not 1 <= len(odd) <= _MOST_STRAYS or is_number.sum() < _FEWEST_NUMBERS:
        return None
    wrong = present.isin(odd)
    if 2 * wrong.sum() >= len(present) or distinct.str.match(r"0\d").any():
        return None
    return Stray(present.index[wrong][0], present[wrong].iloc[0], int((~wrong).sum()))


def convert(values: Any, kind: ColumnType) -> Any:
    """Bring a pandas column into the type of its kind, or name the first value that is another."""
    import pandas as pd

    given, gaps = column_type(values), values.isna().to_numpy(dtype=bool)
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(object)
    if kind == "category":
        if isinstance(values.dtype, pd.StringDtype):
            text = values.to_numpy(dtype=object, na_value=None)
        else:
            text = [None if gap else str(v) for v, gap in zip(values, gaps, strict=True)]
        return pd.Series(text, index=values.index, name=values.name, dtype=object)
    result = {"number": _numbers, "boolean": _booleans, "time": _times}[kind](values, given)
    wrong = result.isna().to_numpy(dtype=bool) & ~gaps
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ColumnError(
            values.name, f"should hold {_WORDS[kind]}, but", values.index[place], values.iloc[place]
        )
    return result


def seconds(times: Any) -> Any:
    """Turn points in time, as `convert` gives them, into seconds since 1970."""
    return (times - np.datetime64(0, "us")) / np.timedelta64(1, "s")


def _numbers(values: Any, given: ColumnType) -> Any:
    import pandas as pd

    if given in ("boolean", "time"):
        return pd.Series(np.nan, index=values.index, name=values.name)
    if pd.api.types.infer_dtype(values, skipna=True).startswith("timedelta"):
        return pd.to_timedelta(values).dt.total_seconds()
    if given == "category":
        values = pd.to_numeric(values.astype(object).map(_without_sign), errors="coerce")
    numbers = values.to_numpy(dtype="float64", na_value=np.nan)
    return pd.Series(numbers, index=values.index, name=values.name)


def _without_sign(value: Any) -> Any:
    """A percentage as its number: 24.5% is 24.5, and so is 24,5%."""
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return value.replace("%", "").replace(",", ".").strip()
    return value


def _booleans(values: Any, given: ColumnType) -> Any:
    if given == "boolean":
        return values.astype("boolean")
    if given == "category":
        values = values.astype(object).map(lambda v: v.strip().lower() if isinstance(v, str) else v)
    truth = {"true": True, "false": False, 1: True, 0: False}
    return values.astype(object).map(truth).astype("boolean")


def _times(values: Any, given: ColumnType) -> Any:
    import pandas as pd

    if given in ("number", "boolean"):
        return pd.Series(pd.NaT, index=values.index, name=values.name, dtype="datetime64[us]")
    if isinstance(values.dtype, pd.PeriodDtype):
        values = values.dt.to_timestamp()
    form = "ISO8601" if given == "category" else None
    times = pd.to_datetime(values, utc=True, errors="coerce", format=form)
    return times.dt.tz_localize(None).astype("datetime64[us]")
