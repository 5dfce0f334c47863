"""Tables on disk, their features, and the ready-made pipeline.

The end of a file's name says what it holds: CSV (``.csv``, ``.txt``), TSV (``.tsv``) and JSON lines
(``.jsonl``), compressed or not (``.gz``, ``.bz2``, ``.xz``, ``.zst``, ``.zip``), Parquet
(``.parquet``) and Arrow (``.arrow``, ``.feather``, ``.ipc``); to be read only, workbooks
(``.xlsx``, ``.ods``), SQLite (``.sqlite``, ``.db``) and DuckDB (``.duckdb``). Text has one header
line; its encoding, what stands between fields and before decimals are found out.
"""

from unbag.tables.pipeline import make_classifier
from unbag.tables.reading import open_table
from unbag.tables.writing import write_table

__all__ = ["make_classifier", "open_table", "write_table"]
