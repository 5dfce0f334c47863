"""Memory and time of ``unbag fit`` and ``unbag predict`` on a table that is large for one machine.

The table has 5,000,000 rows × 8 numbers and a key of text, as Parquet, in bags of 1,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unbag_bench.study import Row, Study, table

BAG_SIZE, CHUNK = 1000, 100_000


def write_tables(folder, n_rows, n_features, seed=0):
    """Write instances chunk by chunk, so that this process stays small, and their aggregates."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.05, 0.6, -(-n_rows // BAG_SIZE))
    direction = rng.normal(size=n_features) / np.sqrt(n_features)
    names = [f"x{i}" for i in range(n_features)]
    keys = pa.array([f"region-{i:06}" for i in range(len(share))])
    counts = np.zeros(len(share), dtype=int)
    schema = pa.schema([("region", pa.string()), *((name, pa.float64()) for name in names)])
    with pq.ParquetWriter(folder / "instances.parquet", schema) as writer:
        for start in range(0, n_rows, CHUNK):
            bag = np.arange(start, min(start + CHUNK, n_rows)) // BAG_SIZE
            label = rng.uniform(size=len(bag)) < share[bag]
            np.add.at(counts, bag, label)
            X = rng.normal(size=(len(bag), n_features)) + np.outer(2 * label - 1, direction)
            writer.write_table(pa.table([keys.take(pa.array(bag)), *X.T], schema=schema))
    lines = [f"{key},{count}" for key, count in zip(keys.to_pylist(), counts, strict=True)]
    (folder / "aggregates.csv").write_text("\n".join(["region,positives", *lines, ""]))


def used(folder, *arguments):
    """Run a command; give its peak of memory in MB and its processor seconds."""
    call = [sys.executable, "-m", "unbag", *arguments]
    process = subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(call)} ended with {process.returncode}")
    return {
        "call": " ".join(["unbag", *arguments]),
        "peak": spent.ru_maxrss * 1.024 / 1000,
        "seconds": spent.ru_utime + spent.ru_stime,
    }


def measure(rows: int, features: int, folds: int) -> list[Row]:
    tables = ["instances.parquet", "aggregates.csv", "--bag", "region", "--positives", "positives"]
    fit = ["fit", *tables, "--model", "linear", "-o", "model.unbag", "--folds", str(folds)]
    predict = ["predict", "model.unbag", "instances.parquet", "-o", "scores.parquet"]
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name), rows, features)
        return [used(name, *call) for call in (fit, predict)]


def page(rows: list[Row]) -> list[str]:
    lines = [
        [f"{row['rows']:,}", row["call"], f"{row['peak']:,.0f}", f"{row['seconds']:.0f}"]
        for row in rows
    ]
    return table(["rows", "command", "peak memory (MB)", "processor seconds"], lines)


STUDY = Study(
    name="large_files",
    title="Large files",
    keys=["rows", "features", "folds"],
    tasks=lambda options: [
        {"rows": options.rows, "features": options.features, "folds": options.folds}
    ],
    measure=measure,
    page=page,
    options={
        "--rows": {"type": int, "default": 5_000_000},
        "--features": {"type": int, "default": 8},
        "--folds": {"type": int, "default": 5, "help": "folds of the evaluation"},
    },
)
