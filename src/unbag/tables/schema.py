"""What a model file remembers of its training table: feature columns, and fingerprints of bags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import numpy as np

from unbag._text import counted, listing, plural, shown_value
from unbag.bags.bags import ANYTHING, check_bag_target
from unbag.tables.column_types import ColumnType, column_type, convert

# Beyond this many, the values of a column are not remembered.
MOST_CATEGORIES = 1000
_EXAMPLES = 5
_FORMAT = 1
# Of more bags, those with the smallest fingerprints are kept: the same ones, whatever the order.
_MOST = 1000


@dataclass(frozen=True)
class Column:
    """What is known about one feature column."""

    name: str
    kind: ColumnType
    values: tuple[str, ...] | None = None
    missing: bool = False


@dataclass(frozen=True)
class SchemaReport:
    """How a table differs from the schema, by column; the reports of several chunks can be added."""

    unseen: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: SchemaReport) -> SchemaReport:
        examples = dict(self.examples)
        for name, more in other.examples.items():
            examples[name] = tuple(dict.fromkeys(examples.get(name, ()) + more))[:_EXAMPLES]
        unseen = Counter(self.unseen) + Counter(other.unseen)
        return SchemaReport(unseen, examples, Counter(self.missing) + Counter(other.missing))

    @property
    def differences(self) -> list[str]:
        """Unseen categories and new missing values, a sentence for each column."""
        unseen = [
            f"Column {name!r}: {counted(count, 'row')} of categories that were not in the training "
            f"data, such as {listing(map(shown_value, self.examples[name]))}."
            for name, count in self.unseen.items()
        ]
        return unseen + [
            f"Column {name!r}: {counted(count, 'missing value')}, where training data had none."
            for name, count in self.missing.items()
        ]


@dataclass(frozen=True)
class Schema:
    """The feature columns that a model expects, and the key columns that name the bags.

    Made by `make_schema`.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, ColumnType]:
        """What each feature column holds."""
        return {column.name: column.kind for column in self.columns}

    def check(self, frame: Any) -> tuple[Any, SchemaReport]:
        """Bring a table, or a chunk of one, into the columns, order and types of the schema."""
        import pandas as pd

        absent = [name for name in self.names if name not in frame.columns]
        if absent:
            names = listing(map(repr, absent), 20)
            raise ValueError(f"The table lacks the {plural(len(absent), 'column')} {names}.")
        found = {column.name: convert(frame[column.name], column.kind) for column in self.columns}
        unseen, examples, missing = {}, {}, {}
        for column in self.columns:
            values = found[column.name]
            if values.isna().any() and not column.missing:
                missing[column.name] = int(values.isna().sum())
            if column.values is not None:
                new = values[values.notna() & ~values.isin(column.values)]
                if len(new):
                    unseen[column.name] = len(new)
                    examples[column.name] = tuple(new.unique()[:_EXAMPLES])
        report = SchemaReport(unseen, examples, missing)
        return pd.DataFrame(found, index=frame.index, columns=list(self.names)), report

    def to_dict(self) -> dict[str, Any]:
        """Give the schema as plain lists and dictionaries, which JSON can hold."""
        columns = [asdict(column) for column in self.columns]
        for column in columns:
            column["values"] = None if column["values"] is None else list(column["values"])
        return {"format": _FORMAT, "keys": list(self.keys), "columns": columns}

    @classmethod
    def from_dict(cls, content: Any) -> Schema:
        """Read what `to_dict` gave."""
        if not isinstance(content, Mapping) or content.get("format") != _FORMAT:
            raise ValueError("This is not a schema that can be read: it does not say 'format': 1.")
        try:
            entries = content["columns"]
            if not isinstance(entries, list):
                raise TypeError(f"a list of columns was expected, not {shown_value(entries)}")
            columns = tuple(map(_read_column, entries))
            keys = _texts(content["keys"])
        except KeyError as error:
            raise ValueError(f"The schema is damaged: it lacks {error}.") from None
        except TypeError as error:
            raise ValueError(f"The schema is damaged: {error}.") from None
        names = Counter([*keys, *(column.name for column in columns)])
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise ValueError(f"The schema has more than one column {twice[0]!r}.")
        return cls(columns, keys)


def make_schema(frame: Any, keys: Sequence[str] = ()) -> Schema:
    """Remember what the columns of a table hold, except those of ``keys``."""
    columns = []
    for name in frame.columns.difference(keys, sort=False):
        kind, known = column_type(frame[name]), None
        if kind == "category":
            distinct = sorted(convert(frame[name], kind).dropna().unique())
            known = tuple(distinct) if len(distinct) <= MOST_CATEGORIES else None
        columns.append(Column(name, kind, known, bool(frame[name].isna().any())))
    return Schema(tuple(columns), tuple(keys))


def _read_column(entry: Any) -> Column:
    if not isinstance(entry, Mapping):
        raise TypeError(f"a column was expected, not {shown_value(entry)}")
    kind: Any = entry["kind"]
    if kind not in get_args(ColumnType):
        raise ValueError(f"The schema has a column of unknown kind {shown_value(kind)}.")
    values = None if entry["values"] is None else _texts(entry["values"])
    return Column(_texts([entry["name"]])[0], kind, values, bool(entry["missing"]))


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"a list of text was expected, not {shown_value(values)}")
    return tuple(values)


def make_fingerprints(X: Any, *targets: Any) -> dict[str, Any]:
    """Fingerprints of bags, by their rows in any order: the same districts come with other people."""
    found = sorted(mark for y in targets for mark in _fingerprints(X, y))
    return {"version": 1, "n_bags": len(found), "bags": found[:_MOST]}


def count_seen(kept: dict[str, Any], X: Any, y: Any) -> int:
    """Number of bags whose fingerprints are kept."""
    return len(set(kept["bags"]) & set(_fingerprints(X, y)))


def _fingerprints(X: Any, y: Any) -> list[str]:
    """Return one for each bag: the sum of the hashes of its rows, which has no order."""
    from pandas.util import hash_pandas_object

    # text that is missing is None in one file format and NaN in another
    text = X.select_dtypes(exclude=["number", "bool", "datetime"])
    X = X.assign(**{name: text[name].astype(object).where(text[name].notna(), "") for name in text})
    bags = check_bag_target(y, accept=ANYTHING)
    sums = np.zeros(bags.n_bags, np.uint64)
    np.add.at(sums, bags.index, hash_pandas_object(X, index=False).to_numpy())
    return [f"{total:016x}-{size}" for total, size in zip(sums, bags.sizes, strict=True)]
