"""Tables: read whole or in chunks, written in chunks, and classified.

The end of a file's name says what it holds: CSV (``.csv``) and TSV (``.tsv``), compressed or not
(``.gz``, ``.bz2``, ``.xz``, ``.zst``), Parquet (``.parquet``) and Arrow (``.arrow``, ``.feather``,
``.ipc``). Text is UTF-8 with one header line.
"""

from unbag.tabular.pipeline import make_classifier
from unbag.tabular.reading import Table, open_table
from unbag.tabular.writing import write_table

__all__ = ["Table", "make_classifier", "open_table", "write_table"]
