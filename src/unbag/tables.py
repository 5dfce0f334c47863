"""From tables on disk to features: reading files, and turning mixed columns into numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def read_table(path: Path) -> Any:
    """Read a table as a pandas DataFrame: CSV or TSV (compressed or not), Parquet or Feather."""
    import pandas as pd

    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = next((s for s in suffixes if s in (".csv", ".tsv", ".parquet", ".feather")), None)
    if kind is None:
        raise ValueError(
            f"{path} is no table that can be read: its name must end in .csv, .tsv, .parquet or "
            ".feather (.csv.gz and the like will do)."
        )
    if not path.is_file():
        raise OSError(f"there is no file {path}")
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        if kind == ".feather":
            return pd.read_feather(path)
        return pd.read_csv(path, sep="\t" if kind == ".tsv" else ",")
    except (ValueError, OSError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} cannot be read as {kind[1:]}: {reason}") from None


def make_features() -> ColumnTransformer:
    """Standardise numbers, encode everything else one-hot; missing values are filled in.

    Numbers get the median of their column, with a column that says where; other missing values
    are a category of their own. Categories that were not seen in training become zeros.
    """
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    others = OneHotEncoder(handle_unknown="ignore", min_frequency=5, sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("categories", others, make_column_selector(dtype_exclude="number")),
        ],
        sparse_threshold=0,
        verbose_feature_names_out=False,
    )
