"""Every block of code on every page runs, and so does every command.

Pages on the reader's tables get them from shipped data here.
"""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target, bags_from_frame
from unbag.cli import main
from unbag.cli.parser import make_parser
from unbag.datasets import load_flights, load_visits
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


def visits(n_regions=40, first=0):
    found = load_visits()
    known = found.regions.iloc[first : first + n_regions]
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
    candidates = ["Ann", "Bob", "Cy", "home"]
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


def check_uncertainty(names):
    probability = names["mixed"].predict_proba(names["features"].transform(names["visitors"]))[0, 1]
    return [probability, *names["limits"][0]]


def check_hidden_counts(names):
    flights, rows, days = names["flights"], names["rows"], names["days"]
    truth = flights.target[rows.index]
    X, y = bags_from_frame(rows, days, on="date", positives="late")
    model = LLPClassifier(kernel=None).fit(X, y)
    aucs = [roc_auc_score(truth, m.decision_function(X)) for m in (model, names["model"])]
    return [100 * (days["late"] < 20).mean(), *aucs]


# figures in the text of a page, as its code gives them
FIGURES = {
    "howto/uncertainty.md": (
        r"buys with probability ([\d.]+), and the 95% interval is ([\d.]+) to ([\d.]*\d)",
        check_uncertainty,
    ),
    "howto/hidden-counts.md": (
        r"Here (\d+)% of the counts are hidden, and the AUC falls from ([\d.]+) to ([\d.]*\d)",
        check_hidden_counts,
    ),
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
    if page in FIGURES:
        sentence, check = FIGURES[page]
        shown = re.search(sentence, " ".join((DOCS / page).read_text("utf-8").split())).groups()
        for number, value in zip(shown, check(names), strict=True):
            decimals = len(number.partition(".")[2])
            assert float(number) == pytest.approx(value, abs=2 * 10**-decimals)


def test_the_first_page_shows_the_code_of_the_readme():
    (code,) = blocks(DOCS / "index.md", "python")
    assert blocks(DOCS.parent / "README.md", "python") == [code]


# --- commands --------------------------------------------------------------------------------


def commands_of(page):
    """The lines of a page for the shell, as lists of words."""
    text = "".join(blocks(DOCS / page, "(?:sh|bash)")).replace("\\\n", "")
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


def write_visits(rows, bags, first=0, **renamed):
    """Visitors of 24 regions and their purchases, as files of these names."""
    frame, known = visits(24, first)
    frame = frame.drop(columns=["marital_status", "occupation"]).rename(columns=renamed)
    write = frame.to_parquet if rows.endswith("parquet") else frame.to_csv
    write(rows, index=False)
    known.rename(columns=renamed).to_csv(bags, index=False)


def fit_visits(positives, *options):
    """A model of visitors of other regions."""
    write_visits("rows.csv", "bags.csv", first=24, purchases=positives)
    known = ["--bag", "region", "--positives", positives, "--model", "linear"]
    assert main(["fit", "rows.csv", "bags.csv", *known, *options, "-o", "model.unbag"]) == 0


def for_evaluate():
    write_visits("may.csv", "regions.csv", purchases="yes")
    fit_visits("yes", "--folds", "0")


def for_export():
    fit_visits("purchases", "--folds", "0")


def for_monitoring():
    write_visits("may-visits.parquet", "may-regions.csv", purchases="conversions")
    fit_visits("conversions")


def for_ads():
    frame, known = visits(24)
    day = frame.groupby("region").cumcount() % 2
    frame = frame.assign(day=day).rename(columns={"region": "campaign"})
    frame.drop(columns=["marital_status", "occupation"]).to_csv("visits.csv", index=False)
    noise = np.random.default_rng(0).laplace(scale=3, size=(len(known), 2))
    days = [
        known[["region"]].assign(day=d, conversions=known["purchases"] / 2 + noise[:, d])
        for d in range(2)
    ]
    totals = pd.concat(days).rename(columns={"region": "campaign"})
    totals.to_csv("totals.csv", index=False)


def for_groupings():
    flights = load_flights()
    some = flights.frame["date"] < "2013-03"
    rows = flights.frame[some][["date", "carrier", "dep_delay", "distance"]]
    rows.to_csv("flights.csv", index=False)
    for column, name in (("date", "days.csv"), ("carrier", "carriers.csv")):
        late = rows.assign(late=flights.target[some]).groupby(column, observed=True)["late"].sum()
        late.reset_index().to_csv(name, index=False)


def for_warehouse():
    import duckdb

    frame, known = visits(24)
    columns = frame[["region", "education_years", "age"]]
    with duckdb.connect("warehouse.duckdb") as connection:
        connection.register("rows", columns)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    known.rename(columns={"purchases": "sales"}).to_csv("results.csv", index=False)


def for_assumptions():
    write_visits("people.csv", "results.csv", region="precinct", purchases="yes_votes")


def for_ecological_inference():
    tables = of_ecological_inference()
    voters, results = tables["voters"], tables["results"]
    voters.to_csv("voters.csv", index=False)
    results.to_csv("results.csv", index=False)
    groups = pd.crosstab(voters["precinct"], voters["race"]).reset_index()
    groups.merge(results, on="precinct").to_csv("precincts.csv", index=False)


FILES = {
    "explanation/assumptions.md": for_assumptions,
    "explanation/ecological-inference.md": for_ecological_inference,
    "howto/ads.md": for_ads,
    "howto/evaluate.md": for_evaluate,
    "howto/export.md": for_export,
    "howto/groupings.md": for_groupings,
    "howto/monitoring.md": for_monitoring,
    "howto/warehouse.md": for_warehouse,
}
# what `unbag` and tests of the benchmarks run: installation, the demo, studies
INSTALLED = {"install.md", "benchmarks.md"}


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("page", sorted({*pages("sh"), *pages("bash")} - INSTALLED))
def test_commands_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FILES[page]()
    for program, *arguments in commands_of(page):
        assert program == "unbag"
        if "--labels" in arguments:  # what the page says to fill in
            table = pd.read_csv("to-label.csv")
            table.assign(label=np.arange(len(table)) % 2).to_csv("to-label.csv", index=False)
        code = main(arguments)
        assert code == 0 or (arguments[0] == "monitor" and code in (3, 4)), arguments
        written = [
            arguments[i + 1] for i, word in enumerate(arguments) if word in ("-o", "--report")
        ]
        assert all(Path(name).stat().st_size for name in written)


@pytest.mark.parametrize("page", sorted(INSTALLED))
def test_commands_of_installation_are_known(page):
    for program, *arguments in commands_of(page):
        assert program in ("unbag", "unbag-bench", "pip")
        if program == "unbag":
            make_parser({arguments[0]}).parse_args(arguments)
