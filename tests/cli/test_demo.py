"""``unbag demo``, as a newcomer runs it."""

import pytest

from unbag.paper.trials import N_INSTANCES


def test_estimates_beside_the_truth_and_a_picture(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(N_INSTANCES, "magic", 1536)  # a quarter of it
    result = call("demo")
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    auc = next(row for row in rows if row[:1] == ["area"])
    estimate, truth, new = map(float, auc[-3:])
    assert 0.8 < new < 0.93
    assert abs(estimate - truth) < 0.1
    assert "66/66" not in result.stderr  # nobody watches a bar in a pipe
    picture = (tmp_path / "unbag-demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    page = (tmp_path / "unbag-demo.html").read_text(encoding="utf-8")
    assert "MAGIC: a classifier from proportions" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bag-size", "1"], "bag size must lie between 2 and 1536"),
        (["--proportions", "0.2", "1.5"], "proportions"),
        (["-o", "nowhere/at/all.png"], "does not exist"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message, call):
    result = call("demo", *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr
