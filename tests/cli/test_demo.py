"""``unbag demo`` and ``unbag example``, as a newcomer runs them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text_of(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").replace("*", "").split())


def agree(shown, measured, within=0.002):
    """Numbers of a page are those that come out."""
    shown = shown if isinstance(shown, list) else shown.groups()
    assert len(shown) == len(measured)
    assert list(map(float, shown)) == pytest.approx(list(map(float, measured)), abs=within)


def test_totals_come_close_to_labels_and_the_estimate_to_the_truth(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("demo")
    assert result.returncode == 0, result.stderr
    aucs = {
        name: float(re.search(rf"^{name}.*? (0\.\d+)", result.stdout, re.MULTILINE)[1])
        for name in (
            "best single column",
            "each visitor labelled",
            "unbag, from",
            "logistic regression",
        )
    }
    assert aucs["unbag, from"] > aucs["each visitor labelled"] > aucs["best single column"]
    assert abs(aucs["unbag, from"] - aucs["logistic regression"]) < 0.01
    value, low, high, truth = re.search(
        r"Estimated AUC (\S+) \(95% interval (\S+) to (\S+)\); true AUC (\S+)\.", result.stdout
    ).groups()
    assert float(low) < float(truth) == aucs["unbag, from"] < float(high)
    assert abs(float(value) - float(truth)) < 0.03
    # pages show what comes out
    losses = re.findall(r"^[^|\n]* 0\.\d+ +(0\.\d+)$", result.stdout, re.MULTILINE)
    readme = text_of("README.md")
    shown = re.findall(r"\| (0\.\d+) \| (0\.\d+)? ?\|", readme)[:4]
    agree([auc for auc, _ in shown], sorted(aucs.values()))
    agree([loss for _, loss in shown if loss], losses)
    agree(re.search(r"AUC as (\S+) \(95% interval (\S+) to (\S+)\)", readme), (value, low, high))
    found = re.search(
        r"has an AUC of (\S+) on new visitors.*? has (\S+)\.", text_of("docs/index.md")
    )
    agree(found, (aucs["unbag, from"], aucs["logistic regression"]))
    table = re.findall(r"\| (0\.\d+) \|", text_of("docs/tutorials/first-model.md"))
    agree(table, sorted(aucs.values()))
    naive, own = losses[:2]
    training = text_of("docs/explanation/training.md")
    found = re.search(r"log-loss is (\S+), and (\S+) with the count likelihood", training)
    agree(found, (naive, own), within=0.006)
    # the case that stays uncertain says so, and its range covers the true value
    low, high, truth = re.search(r"days: (\S+) to (\S+); true AUC (\S+)\.", result.stdout).groups()
    assert float(low) < 0.3 < float(truth) < 0.7 < float(high)
    assumptions = text_of("docs/explanation/assumptions.md")
    found = re.search(r"the range of the AUC is (\S+) to (\S+)\.", assumptions)
    agree(found, (low, high), within=0.02)
    assert (tmp_path / "unbag-demo.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "unbag-demo.html").read_text(encoding="utf-8")
    assert "Which visitors buy?" in page


def test_mistakes_get_one_sentence(call):
    result = call("demo", "-o", "nowhere/at/all.png")
    assert (result.returncode, result.stdout) == (1, "")
    assert "does not exist" in result.stderr


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("visits", {"may-visits.csv", "may-regions.csv", "june-visits.csv", "june-regions.csv"}),
        ("flights", {"flights.csv", "days.csv"}),
    ],
)
def test_examples_write_tables_that_fit_each_other(name, files, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("example", name)
    assert result.returncode == 0, result.stderr
    assert {path.name for path in (tmp_path / name).iterdir()} == files
    rows, totals, bag, positives = {
        "visits": ("may-visits.csv", "may-regions.csv", "region", "purchases"),
        "flights": ("flights.csv", "days.csv", "date", "late"),
    }[name]
    found = call(
        "inspect", f"{name}/{rows}", f"{name}/{totals}", "--bag", bag, "--positives", positives
    )
    assert found.returncode == 0, found.stderr
    assert "the tables are consistent" in found.stdout
