"""Tables as users have them, and two ways to run a command on them."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from unbag.cli import main
from unbag.datasets import load_magic

NASTY = "\x1b[31m<script>alert(1)</script>"
KNOWN = ("--bag", "region", "--positives", "conversions", "--exclude", "id")


@pytest.fixture(scope="session")
def run():
    """Run a command as users do, in a process of its own."""

    def run(*arguments, cwd=None, **options):
        call = [sys.executable, "-m", "unbag", *map(str, arguments)]
        return subprocess.run(call, capture_output=True, text=True, check=False, cwd=cwd, **options)

    return run


@pytest.fixture
def call(capsys):
    """Run a command in this process, which is faster."""

    def call(*arguments):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as end:
            code = end.code
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    return call


@pytest.fixture(scope="session")
def frames():
    """Visits of 24 regions with missing values and text, and their conversions, made from MAGIC."""
    magic = load_magic()
    rng = np.random.default_rng(0)
    wanted = np.linspace(0.05, 0.95, 24)
    positive, negative = (rng.permutation(np.flatnonzero(magic.target == c)) for c in (1, 0))
    rows, region = [], []
    for i, share in enumerate(wanted):
        k = round(25 * share)
        rows += [*positive[25 * i : 25 * i + k], *negative[25 * i : 25 * i + 25 - k]]
        region += [f"r{i:02}"] * 25
    visits = magic.frame.iloc[rows, :4].reset_index(drop=True).astype(float)
    names = list(visits)
    visits.loc[::9, names[0]] = np.nan
    visits["device"] = np.where(visits[names[1]] > visits[names[1]].median(), "phone", "desk")
    visits["region"], visits["id"] = region, np.arange(len(visits))
    counts = np.bincount(np.repeat(np.arange(24), 25), magic.target[rows])
    regions = pd.DataFrame({"region": sorted(set(region)), "conversions": counts.astype(int)})
    return visits, regions.assign(n=25, rate=counts / 25)


@pytest.fixture(scope="session")
def folder(frames, tmp_path_factory):
    """The same as files, and a model fitted to them."""
    folder = tmp_path_factory.mktemp("files")
    visits, regions = frames
    visits.to_parquet(folder / "visits.parquet")
    visits.to_csv(folder / "visits.csv.gz", index=False)
    regions.to_csv(folder / "regions.csv", index=False)
    call = ["fit", folder / "visits.parquet", folder / "regions.csv", *KNOWN]
    assert main([*map(str, call), "--model", "linear", "-o", str(folder / "model.unbag")]) == 0
    return folder


@pytest.fixture
def known():
    """What the columns of these tables hold, as options."""
    return KNOWN


@pytest.fixture
def nasty():
    """A name that a terminal or a browser would execute."""
    return NASTY
