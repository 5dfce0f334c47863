"""The walk in CONTRIBUTING.md is the way that a row really goes."""

import cProfile
import re
from pathlib import Path

import dask
import dask.dataframe as dd

from unbag import LLPClassifier
from unbag.cli import main
from unbag.distributed import DistributedClassifier, bags_from_frame
from unbag.evaluation import evaluate

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unbag"
WALK = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## The walk")[2]
ROWS = [line.split("|")[2:4] for line in WALK.splitlines() if line.startswith("| ")][2:]


def steps(column):
    """Module and name of the functions that a column names."""
    named = re.findall(r"`((?:[a-z_]+\.)+)(?:[A-Z]\w+\.)?(\w+)`", " ".join(r[column] for r in ROWS))
    found = {(path.removesuffix(".").replace(".", "/"), name) for path, name in named}
    # modules, of which a row says what it enters
    return {step for step in found if not (SOURCE / "/".join(step)).with_suffix(".py").exists()}


def called(profile):
    """The same of all that was called, and classes of the methods that were."""
    codes = [entry.code for entry in profile.getstats() if not isinstance(entry.code, str)]
    return {
        (code.co_filename.partition("/unbag/")[2].removesuffix(".py"), name)
        for code in codes
        for name in (code.co_name, code.co_qualname.partition(".")[0])
    }


def test_in_memory(folder, known, tmp_path):
    tables = [folder / "visits.parquet", folder / "regions.csv", *known]
    places = ["-o", tmp_path / "m.unbag", "--report", tmp_path / "page.html"]
    profile = cProfile.Profile()
    assert profile.runcall(main, [*map(str, ["fit", *tables, *places])]) == 0
    assert steps(0) <= called(profile)


def test_on_dask(frames):
    visits, regions = frames
    numbers = dd.from_pandas(visits[[*visits.columns[1:4], "region"]], npartitions=2)
    profile = cProfile.Profile()
    with dask.config.set(scheduler="synchronous"), profile:
        X, y = bags_from_frame(numbers, regions, on="region", positives="conversions")
        model = DistributedClassifier(LLPClassifier(kernel=None)).fit(X, y)
        evaluate(y.compute(), model.decision_function(X).compute(), n_resamples=10)
    assert steps(1) - called(profile) == {("dask", "dataframe")}
