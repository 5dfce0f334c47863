"""The trials of new users, at small size: every number they print is right, or refused."""

import importlib.util
import sys
from pathlib import Path

import pytest

USERS = Path(__file__).parent.parent / "examples" / "users"
SMALL = {
    "ad_analyst": ("--impressions", "2500", "--model", "linear"),
    "political_scientist": ("--precincts", "30", "--voters", "20"),
    "scikit_learn_user": ("--bags", "30"),
    "hospital": ("--patients", "40"),
    "paper_reader": ("--bags", "40", "--draws", "40"),
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, USERS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_trial_is_run():
    assert {path.stem for path in USERS.glob("*.py")} == {*SMALL, "trial"}


@pytest.mark.parametrize("name", SMALL)
def test_a_trial_is_right_in_all_it_says(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(USERS))
    monkeypatch.setitem(sys.modules, "trial", load("trial"))
    assert load(name).main(SMALL[name]) == 0, capsys.readouterr().out


def test_a_wrong_number_is_noticed(capsys):
    trial = load("trial").Trial()
    trial.check("AUC", 0.9, 0.7, (0.85, 0.95))
    assert trial.end() == 1
    assert "truth 0.700: WRONG" in capsys.readouterr().out
