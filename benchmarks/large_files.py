"""Memory and time of ``unbag fit`` and ``unbag predict`` on a table that is large for one machine.

python benchmarks/large_files.py             # 5,000,000 rows × 8 numbers and a key, as Parquet
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unbag._provenance import provenance_line

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


def measured(folder, *arguments):
    """Run a command; give its peak of memory in MB and its seconds."""
    start = time.perf_counter()
    call = [sys.executable, "-m", "unbag.cli", *arguments]
    process = subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(call)} ended with {process.returncode}")
    return used.ru_maxrss * 1.024 / 1000, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--folds", type=int, default=5, help="folds of the evaluation")
    options = parser.parse_args()
    print(f"{provenance_line()}\n\n| command | peak memory (MB) | seconds |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, options.rows, options.features)
        tables = ["instances.parquet", "aggregates.csv", "--bag", "region", "--positives"]
        fit = ["fit", *tables, "positives", "--model", "linear", "-q", "-o", "model.unbag"]
        predict = ["predict", "model.unbag", "instances.parquet", "-q", "-o", "scores.parquet"]
        for call in ([*fit, "--folds", str(options.folds)], predict):
            memory, seconds = measured(folder, *call)
            print(f"| unbag {' '.join(call)} | {memory:,.0f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
