"""``unbag report``: a page from two tables."""

import pytest


def test_report_from_two_tables(call, folder, known, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    page = tmp_path / "page.html"
    arguments = ["report", "visits.csv.gz", "regions.csv", *known, "--model", "linear"]
    result = call(*arguments, "--title", "Visits", "-o", page)
    assert result.returncode == 0, result.stderr
    assert "ranks a random positive above a random negative" in result.stdout
    assert "Visits</bdi></h1>" in page.read_text(encoding="utf-8")


def test_noisy_shares(call, folder, tmp_path):
    known = ["--bag", "region", "--proportion", "rate", "--noise", "0.01", "--exclude", "id", "-q"]
    tables = [folder / "visits.parquet", folder / "regions.csv"]
    result = call("report", *tables, *known, "--model", "linear", "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["visits.doc", "regions.csv"], "no table that can be read"),
        (["nobody.csv", "regions.csv"], "there is no file nobody.csv"),
        (["visits.csv.gz", "regions.csv", "--exclude", "nom"], "has no column 'nom' to exclude"),
        (["visits.csv.gz", "regions.csv", "-o", "no/where.html"], "no/where.html"),
    ],
)
def test_mistakes_get_one_sentence(folder, arguments, message, monkeypatch, call):
    monkeypatch.chdir(folder)
    result = call("report", *arguments, "--bag", "region", "--positives", "conversions")
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
