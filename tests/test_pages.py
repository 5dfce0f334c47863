"""Every block of code on every page runs, and every command on a page is one that ``unbag`` knows.

Pages that speak of the reader's tables get them from shipped data here.
"""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbag import bag_target, bags_from_frame
from unbag.cli.parser import make_parser
from unbag.datasets import load_visits
from unbag.tables import make_classifier

DOCS = Path(__file__).parents[1] / "docs"
# those of the tutorials and the README are run by `test_tutorial`
ELSEWHERE = {
    "explanation/published-methods.md",  # benchmarks/tests/methods/test_methods_page.py
    "howto/groupings.md",  # tests/models/test_groupings_page.py
    "howto/networks.md",  # tests/torch/test_page.py
    "index.md",  # the same as that of the README
}
WRITTEN = {"_build", "api", "files", "gallery", "tutorials"}
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not WRITTEN & set(page.parts)]


def blocks(page, kind):
    found = re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    return [block for block in found if ">>> " not in block]


def pages(kind):
    return [str(page.relative_to(DOCS)) for page in PAGES if blocks(page, kind)]


def visits(n_regions=40):
    found = load_visits()
    known = found.regions.iloc[:n_regions]
    return found.frame[found.frame["region"].isin(known["region"])], known


def of_evaluate():
    rows, known = visits()
    columns = {"on": "region", "positives": "purchases"}
    rows = rows.drop(columns=["marital_status", "occupation"])
    X, y = bags_from_frame(rows, known, **columns)
    model = make_classifier("linear").fit(X, y)
    noisy = np.array(y["proportion"] * 60)
    scores = model.decision_function(X)
    return {
        "X": X,
        "y": y,
        "y_new": y,
        "model": model,
        "scores": scores,
        "np": np,
        "bag": y["bag"],
        "bag_target": bag_target,
        "noisy_counts": noisy,
        "scale": 3.0,
    }


def of_votes():
    rows, known = visits()
    return {
        "people": rows.rename(columns={"region": "district"}),
        "results": known.rename(columns={"region": "district", "purchases": "yes_votes"}),
    }


def of_ecological_inference():
    rows, _ = visits(24)
    rng = np.random.default_rng(0)
    voters = pd.DataFrame({"precinct": rows["region"], "age": rows["age"]})
    voters["race"] = rng.choice(["black", "white", "other"], len(rows))
    chosen = rng.integers(0, 4, len(rows))
    candidates = ["Ann", "Bob", "Cy", "stayed at home"]
    votes = pd.get_dummies(pd.Categorical.from_codes(chosen, candidates)).astype(int)
    results = votes.groupby(voters["precinct"].to_numpy()).sum().reset_index(names="precinct")
    return {"voters": voters, "results": results}


def of_large_data():
    rows, known = visits()
    Path("visits").mkdir()
    rows = rows.rename(columns={"region": "campaign"})
    rows = rows.drop(columns=["marital_status", "occupation"])
    for part in range(2):
        rows.iloc[part::2].to_parquet(f"visits/{part}.parquet", index=False)
    known = known.assign(conversion_rate=known["purchases"] / known["visitors"])
    columns = {"region": "campaign"}
    known.rename(columns=columns)[["campaign", "conversion_rate"]].to_csv("rates.csv", index=False)
    return {}


READERS_TABLES = {
    "howto/evaluate.md": of_evaluate,
    "howto/votes.md": of_votes,
    "explanation/ecological-inference.md": of_ecological_inference,
    "howto/large-data.md": of_large_data,
}


@pytest.mark.parametrize(
    "page",
    [str(page.relative_to(DOCS)) for page in PAGES if ">>> " in page.read_text("utf-8")],
)
def test_examples_give_what_the_page_shows(page):
    found = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's, of pandas
@pytest.mark.parametrize("page", sorted({*pages("python")} - ELSEWHERE))
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = READERS_TABLES.get(page, dict)()
    for block in blocks(DOCS / page, "python"):
        exec(block, names)


def test_the_first_page_shows_the_code_of_the_readme():
    (code,) = blocks(DOCS / "index.md", "python")
    assert blocks(DOCS.parent / "README.md", "python") == [code]


@pytest.mark.parametrize("page", sorted({*pages("sh"), *pages("bash")}))
def test_commands_are_known(page):
    lines = "".join(blocks(DOCS / page, "(?:sh|bash)")).replace("\\\n", "").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    for program, *arguments in filter(None, commands):
        assert program in ("unbag", "unbag-bench", "pip"), program
        if program == "unbag":
            make_parser({arguments[0]}).parse_args(arguments)
