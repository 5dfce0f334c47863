"""Bars are for those who watch."""

from pathlib import Path

import unbag
from unbag._progress import progress_bar


def test_a_terminal_has_bars_if_asked_for(terminal):
    assert list(progress_bar(range(3), verbose=0)) == [0, 1, 2]
    assert terminal.readouterr().err == ""
    assert list(progress_bar(range(3), verbose=1, desc="steps")) == [0, 1, 2]
    assert "steps: 100%" in terminal.readouterr().err


def test_files_and_pipes_have_none(capsys):
    assert list(progress_bar(range(3), verbose=1)) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_one_place_decides():
    makers = [
        path.name
        for path in Path(unbag.__file__).parent.rglob("*.py")
        if " tqdm(" in path.read_text(encoding="utf-8")
    ]
    assert makers == ["_progress.py"]
