"""Shells complete commands and options."""

import shutil
import subprocess

import pytest

from unbag.cli import main


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "unbag"
    with path.open("w") as file:
        subprocess.run(["unbag", "completion", "bash"], stdout=file, check=True)
    return path


def complete(script, *words):
    """What bash offers for the last word."""
    ask = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f"$(complete -p unbag | sed 's/.*-F \\([^ ]*\\).*/\\1/') unbag '{words[-1]}' "
        f"'{words[-2]}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    found = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    return found.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_options(script):
    assert complete(script, "unbag", "mon") == ["monitor"]
    assert {"--bag", "--positives", "--threshold-metric"} <= set(
        complete(script, "unbag", "fit", "--")
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("before", [("fit",), ("fit", "a.csv"), ("fit", "-o"), ("predict",)])
def test_bash_completes_files_where_they_are_meant(script, before, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").touch()
    assert complete(script, "unbag", *before, "peo") == ["people.csv"]


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_get_scripts_of_their_own(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "sample-labels" in text
    assert "positives" in text


def test_a_shell_that_is_not_known(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "cmd"])
    assert "'bash', 'zsh'" in capsys.readouterr().err
