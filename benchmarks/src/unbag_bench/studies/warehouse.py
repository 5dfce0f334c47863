"""What it takes to fit tables as counts of their different rows, where they are or in memory.

One table has 10⁸ rows of five columns and 1,000 bags, in a DuckDB file; the other is like a voter file,
200,000 rows of ten demographic columns in 212 precincts, as Parquet. Measured are processor seconds, time
and peak memory of ``unbag fit``, from the command to the model file; and on 10⁶ rows of the first table,
by how many standard errors 12 bins change the coefficients.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unbag.tables.persistence import load_model
from unbag_bench.study import Row, Study, Task, table

# Log-odds of a unit of age, of log income, of sex, of owner.
SLOPES = {"age": 0.03, "income": 8e-6, "sex": 0.5, "owner": -0.4}

# Numbers between 0 and 1 by hashes: of the row, and of its bag.
_VISITS = """
CREATE TABLE visits AS
WITH drawn AS (
    SELECT 'r' || (i % {bags}) AS region, {uniform} AS u,
           hash(i + 1e9) / 18446744073709551616.0 AS a, hash(i + 2e9) / 18446744073709551616.0 AS b,
           hash(i + 3e9) / 18446744073709551616.0 AS c, hash(i + 4e9) / 18446744073709551616.0 AS d,
           hash(i + 5e9) / 18446744073709551616.0 AS e, hash(i + 6e9) / 18446744073709551616.0 AS f,
           hash(i % {bags} + 7e9) / 18446744073709551616.0 AS g,
           hash(i % {bags} + 8e9) / 18446744073709551616.0 AS h
    FROM range({rows}) t(i)),
cells AS (
    SELECT region, u, (18 + 40 * a + 30 * b * g)::UTINYINT AS age,
           exp(10 + 0.5 * h + 0.6 * sqrt(-2 * ln(c + 1e-18)) * cos(2 * pi() * d))::FLOAT AS income,
           (e < 0.5)::UTINYINT AS sex, (f < 0.2 + 0.6 * h)::UTINYINT AS owner,
           ['none', 'school', 'college', 'bachelor', 'master'][1 + least(4, floor(5 * u * (0.5 + g)))::INT]
               AS education
    FROM drawn)
SELECT region, age, income, sex, owner, education,
       hash(u) / 18446744073709551616.0 < 1 / (1 + exp(
           3 - 0.03 * age - 8e-6 * income - 0.5 * sex + 0.4 * owner)) AS bought
FROM cells
"""


def write_warehouse(folder: Path, n_rows: int, n_bags: int) -> None:
    """A DuckDB file with the rows, and a table of counts; by a process of its own."""
    import duckdb

    with duckdb.connect(folder / "all.duckdb", config={"memory_limit": "2GB"}) as connection:
        uniform = "hash(i) / 18446744073709551616.0"
        connection.execute(_VISITS.format(rows=n_rows, bags=n_bags, uniform=uniform))
        counts = (
            "SELECT region, count(*) FILTER (bought) AS sales FROM visits GROUP BY 1 ORDER BY 1"
        )
        connection.sql(counts).write_csv(str(folder / "sales.csv"))
        connection.execute("ALTER TABLE visits DROP COLUMN bought")


def write_voters(folder: Path, n_rows: int, n_bags: int) -> None:
    """A voter file in Parquet, and votes of precincts."""
    rng = np.random.default_rng(0)
    bag = rng.integers(0, n_bags, n_rows)
    place = rng.uniform(-1, 1, (n_bags, 4))[bag]
    age = np.clip(45 + 8 * place[:, 0] + 17 * rng.normal(size=n_rows), 18, 99).astype(int)
    frame = pd.DataFrame(
        {
            "precinct": [f"p{b:03}" for b in bag],
            "age": age,
            "income": np.round(
                np.exp(10.5 + 0.4 * place[:, 1] + 0.5 * rng.normal(size=n_rows)), -3
            ),
            "years_at_address": rng.geometric(0.12, n_rows),
            "household": rng.integers(1, 7, n_rows),
            "woman": rng.integers(0, 2, n_rows),
            "owner": (rng.random(n_rows) < 0.5 + 0.3 * place[:, 1]).astype(int),
            "party": rng.choice(["A", "B", "none"], n_rows),
            "race": np.where(rng.random(n_rows) < 0.4 + 0.3 * place[:, 2], "white", "other"),
            "education": rng.choice(["none", "school", "college", "degree"], n_rows),
            "occupation": rng.choice([f"job {i}" for i in range(12)], n_rows),
        }
    )
    f = 0.02 * (age - 45) + 0.6 * frame["owner"] - 1.2 * (frame["race"] == "white")
    yes = rng.random(n_rows) < 1 / (1 + np.exp(-f))
    frame.to_parquet(folder / "voters.parquet")
    frame.assign(yes=yes).groupby("precinct")["yes"].sum().to_csv(folder / "votes.csv")


def used(folder: Path, *arguments: str) -> Row:
    """Run a command; give its time, its processor seconds, its peak of memory and what it said."""
    start = time.perf_counter()
    with (folder / "said.txt").open("w") as said:
        call = [sys.executable, "-m", "unbag", *arguments]
        process = subprocess.Popen(call, cwd=folder, stdout=said, stderr=said)
        _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = (folder / "said.txt").read_text()
    if process.returncode:
        sys.exit(text)
    return {
        "call": " ".join(["unbag", *arguments]),
        "wall": time.perf_counter() - start,
        "seconds": spent.ru_utime + spent.ru_stime,
        "peak_mb": spent.ru_maxrss * 1.024 / 1000,
        "load": os.getloadavg()[0],
        "said": [line for line in text.splitlines() if "different" in line or "bins" in line],
    }


def measure(case: str, rows: int, bags: int) -> list[Row]:
    """Fit in the engine, or a file both ways."""
    model = ["--model", "linear", "--folds", "0", "-o"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if case == "DuckDB":
            # its memory is not that of the command
            code = f"from {__name__} import *; write_warehouse(Path({name!r}), {rows}, {bags})"
            subprocess.run([sys.executable, "-c", code], check=True)
            tables = ["all.duckdb", "sales.csv", "--bag", "region", "--positives", "sales"]
            found = used(folder, "fit", *tables, "--group-rows", *model, "model.unbag")
            own = coefficients(folder / "model.unbag")
            return [found | {"slopes": {n: own[n] / true for n, true in SLOPES.items()}}]
        if case == "bins":
            write_warehouse(folder, rows, bags)
            return compare_bins(folder, model)
        write_voters(folder, rows, bags)
        tables = ["voters.parquet", "votes.csv", "--bag", "precinct", "--positives", "yes"]
        found = [
            used(folder, "fit", *tables, *more, *model, f"{n}.unbag")
            for n, more in enumerate(([], ["--group-rows"]))
        ]
        first, second = (coefficients(folder / f"{n}.unbag") for n in range(2))
        off = max(abs(first[n] - second[n]) for n in first)
        return [found[0], found[1] | {"largest_difference": off}]


def compare_bins(folder: Path, model: list[str]) -> list[Row]:
    """Fit all rows, and groups by 12 bins; slopes and their standard errors as shares of true slopes."""
    tables = ["all.duckdb", "sales.csv", "--bag", "region", "--positives", "sales"]
    found = []
    for n, more in enumerate(([], ["--group-rows", "--bins", "12"])):
        row = used(folder, "fit", *tables, *more, *model, f"{n}.unbag")
        own, sds = coefficients(folder / f"{n}.unbag"), standard_errors(folder / f"{n}.unbag")
        slopes = {name: [own[name] / true, sds[name] / abs(true)] for name, true in SLOPES.items()}
        found.append(row | {"slopes_and_errors": slopes})
    return found


def coefficients(path: Path) -> dict[str, Any]:
    """Coefficients of a saved model by their names."""
    fitted = _fitted(path)
    return dict(zip(fitted.coef_names_, fitted.coef_[0].tolist(), strict=True))


def standard_errors(path: Path) -> dict[str, float]:
    """Standard errors of the coefficients of a saved model, from its summary."""
    table = _fitted(path).summary()
    return dict(zip(table.names, table.standard_errors[0].tolist(), strict=True))


def _fitted(path: Path) -> Any:
    model = load_model(path).model
    return model[-1] if hasattr(model, "steps") else model


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Both tables."""
    yield {"case": "voter file", "rows": 200_000, "bags": 212}
    yield {"case": "bins", "rows": 1_000_000, "bags": 1000}
    yield {"case": "DuckDB", "rows": options.rows, "bags": 1000}


def page(rows: list[Row]) -> list[str]:
    """A table of commands, and what they said."""
    lines = [
        [
            f"{row['rows']:,}",
            f"`{row['call']}`",
            f"{row['seconds']:.0f}",
            f"{row['wall']:.0f} ({row['load']:.0f})",
            f"{row['peak_mb']:,.0f}",
        ]
        for row in rows
    ]
    found = table(["rows", "command", "processor seconds", "seconds (load)", "peak MB"], lines)
    for row in rows:
        if row["said"]:
            found += ["", f"What it printed of the {row['case']}: `{' '.join(row['said'])}`"]
        if "slopes" in row:
            shares = ", ".join(f"{name} {value:.3f}" for name, value in row["slopes"].items())
            found += ["", f"Coefficients as a share of the true ones: {shares}."]
        if "slopes_and_errors" in row:
            pairs = row["slopes_and_errors"].items()
            shares = ", ".join(f"{name} {value:.3f} ± {sd:.3f}" for name, (value, sd) in pairs)
            found += ["", f"Coefficients as a share of the true ones, ± one SE: {shares}."]
        if "largest_difference" in row:
            off = row["largest_difference"]
            found += ["", f"Coefficients of rows and of groups differ by {off:.1e} at most."]
    return found


STUDY = Study(
    name="warehouse",
    title="Tables as counts of their different rows",
    keys=["case", "rows", "bags"],
    tasks=tasks,
    measure=measure,
    page=page,
    options={"--rows": {"type": int, "default": 100_000_000}},
    packages=["duckdb"],
)
