"""Faults from outside: kills, full disks, folders not to be written, files that are not sound.

Whatever happens, a file that was there stays as it was or is replaced as a whole, and a mistake is
one sentence and exit code 1.
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from child_process import run_in_child
from unbag import _files
from unbag.cli import main, predict
from unbag.tables import open_table
from unbag.tables.persistence import load_model

on_posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SCRIPT = "\x1b[31m<script>alert(1)<"


def assert_one_sentence(result, *parts):
    assert (result.returncode, result.stdout) == (1, "")
    error = result.stderr.splitlines()[-1]
    assert re.match(r"unbag [a-z-]+: error: ", error)
    assert error.isprintable()
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in error


# --- kills --------------------------------------------------------------------------------------


def run_until_killed(arguments, prepare):
    """Run a command in a copy of this process that is to kill itself."""

    def work():
        prepare()
        main(list(map(str, arguments)))

    assert os.WIFSIGNALED(run_in_child(work))


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(number, function):
    """Make a function that ends the process when it is called for the n-th time."""
    calls = []

    def dying(*arguments, **options):
        calls.append(None)
        return die() if len(calls) == number else function(*arguments, **options)

    return dying


def after(function):
    def dying(*arguments):
        function(*arguments)
        die()

    return dying


KILLS_OF_PREDICT = {
    "first chunk": (predict.Scorer, "score", die_at(1, predict.Scorer.score)),
    "third chunk": (predict.Scorer, "score", die_at(3, predict.Scorer.score)),
    "before the move": (os, "replace", die),
    "after the move": (os, "replace", after(os.replace)),
}


@on_posix
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("moment", KILLS_OF_PREDICT)
def test_kill_while_predicting(moment, suffix, folder, tmp_path):
    out = tmp_path / f"scores{suffix}"
    pd.DataFrame({"old": [1]}).pipe(lambda f: getattr(f, f"to_{suffix[1:]}")(out, index=False))
    arguments = ["predict", folder / "model.unbag", folder / "visits.parquet", "-o", out]
    run_until_killed([*arguments, "--chunk-rows", 100], lambda: setattr(*KILLS_OF_PREDICT[moment]))
    found = open_table(out).read()
    if moment == "after the move":
        assert len(found) == 600
    else:
        assert found.to_dict("list") == {"old": [1]}


KILLS_OF_FIT = {
    "while writing": (zipfile.ZipFile, "writestr", die_at(2, zipfile.ZipFile.writestr)),
    "before the move": (os, "replace", die),
    "after the move": (_files, "sync_folder", die),
}


@on_posix
@pytest.mark.parametrize("moment", KILLS_OF_FIT)
def test_kill_while_saving_a_model(moment, folder, known, tmp_path):
    out = tmp_path / "m.unbag"
    old = (folder / "model.unbag").read_bytes()
    out.write_bytes(old)
    arguments = ["fit", folder / "visits.parquet", folder / "regions.csv", *known]
    arguments += ["--model", "linear", "--folds", 0, "-o", out]
    run_until_killed(arguments, lambda: setattr(*KILLS_OF_FIT[moment]))
    is_new = load_model(out).metadata["fitted_with"]["folds"] == 0
    assert is_new == (moment == "after the move")
    assert is_new or out.read_bytes() == old


# --- no room, no right --------------------------------------------------------------------------


@pytest.fixture(params=["predict", "fit"])
def writing(request, folder, known, tmp_path):
    """A command, and the file it is to replace."""
    names = {"predict": "s.parquet", "fit": "m.unbag"}
    out = tmp_path / names[request.param]
    out.write_bytes(b"as it was")
    if request.param == "predict":
        return ["predict", folder / "model.unbag", folder / "visits.parquet", "-o", out], out
    tables = [folder / "visits.parquet", folder / "regions.csv", *known, "--model", "linear"]
    return [request.param, *tables, "--folds", 0, "-o", out], out


def assert_untouched(out):
    assert out.read_bytes() == b"as it was"
    assert list(out.parent.iterdir()) == [out]


@on_posix
@pytest.mark.parametrize("room", [0, 2000])
def test_full_disk(writing, room, call):
    import resource

    arguments, out = writing
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, old[1]))
    try:
        result = call(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert_one_sentence(result, out.name, "File too large")
    assert_untouched(out)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv.zst", ".parquet", ".feather"])
def test_no_space_left_between_chunks(suffix, folder, call, tmp_path, monkeypatch):
    out = tmp_path / f"s{suffix}"
    out.write_bytes(b"as it was")
    opened = Path.open

    def open_small(path, mode="r", *arguments, **options):
        file = opened(path, mode, *arguments, **options)
        return Small(file) if path.parent == tmp_path else file

    monkeypatch.setattr(Path, "open", open_small)
    arguments = ["predict", folder / "model.unbag", folder / "visits.parquet", "-o", out]
    result = call(*arguments, "--chunk-rows", 50)
    monkeypatch.undo()
    assert_one_sentence(result, out.name, "No space left on device")
    assert_untouched(out)


class Small:
    """A file on a disk with room for 3,000 bytes."""

    def __init__(self, file):
        self.file, self.room = file, 3000

    def write(self, data):
        self.room -= len(memoryview(data))
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def test_read_only_folder(writing, call, monkeypatch):
    arguments, out = writing
    if os.name == "posix" and os.geteuid() == 0:  # root may write anywhere
        for owner, name in [(Path, "open"), (os, "open")]:
            monkeypatch.setattr(owner, name, refusing(out.parent, getattr(owner, name)))
    else:
        out.parent.chmod(0o500)
    try:
        result = call(*arguments)
    finally:
        monkeypatch.undo()
        out.parent.chmod(0o700)
    assert_one_sentence(result, out.name, "Permission denied")
    assert_untouched(out)


def refusing(folder, function):
    def refuse(path, *arguments, **options):
        if isinstance(path, str | Path) and Path(path).parent == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return function(path, *arguments, **options)

    return refuse


# --- a strange environment ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(folder):
    """A table with letters beyond ASCII, and the scores of the usual way to call."""
    visits = folder / "words.csv"
    frame = pd.read_parquet(folder / "visits.parquet").head(30)
    frame.assign(region="Münster", note="größer €").to_csv(visits, index=False)
    out = folder / "words-scores.csv"
    arguments = ["predict", folder / "model.unbag", visits, "--keep", "note", "-o", out]
    assert main(list(map(str, arguments))) == 0
    return visits, out.read_bytes()


ENVIRONMENTS = {
    "no HOME": {"HOME": None, "USER": None},
    "no TMPDIR": {"TMPDIR": "/nowhere", "TMP": "/nowhere", "TEMP": "/nowhere"},
    "C": {"LC_ALL": "C", "LANG": "C"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
}


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_scores_are_the_same_bytes_in_a_strange_environment(kind, words, folder):
    """From standard input, which needs a temporary file, to standard output, in UTF-8."""
    changed = os.environ | ENVIRONMENTS[kind]
    environment = {name: value for name, value in changed.items() if value is not None}
    call = [sys.executable, "-m", "unbag", "predict", folder / "model.unbag", "-"]
    call += ["--keep", "note", "-o", "-"]
    result = subprocess.run(
        call, input=words[0].read_bytes(), capture_output=True, env=environment, check=False
    )
    assert (result.returncode, result.stdout) == (0, words[1])
    assert b"Traceback" not in result.stderr


@on_posix
@pytest.mark.parametrize("reader", ["closed", "gone", "full"])
def test_nobody_reads_the_output(reader, words, folder):
    """No traceback: nothing is lost but what nobody takes, and a full device is an error."""
    command = f"{sys.executable} -m unbag predict {folder}/model.unbag {words[0]} -o -"
    ends = {"closed": ">&-", "gone": "--chunk-rows 1 | head -c 1 >/dev/null", "full": "> /dev/full"}
    bash = ["bash", "-o", "pipefail", "-c", f"{command} {ends[reader]}"]
    result = subprocess.run(bash, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert result.returncode == (1 if reader == "full" else result.returncode)
    assert ("No space left on device" in result.stderr) == (reader == "full")


@on_posix
def test_too_little_memory_says_what_it_needed(folder, tmp_path):
    """30 million rows, 240 MB in memory, in a process that may take 150 MB more."""
    import resource

    pd.DataFrame({"region": np.zeros(30_000_000)}).to_parquet(tmp_path / "large.parquet")
    out, said = tmp_path / "s.csv", tmp_path / "stderr"
    out.write_bytes(b"as it was")

    def work():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + 150_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        sys.stderr = said.open("w")
        call = ["inspect", tmp_path / "large.parquet", folder / "regions.csv"]
        code = main([*map(str, call), "--bag", "region", "--positives", "conversions"])
        sys.stderr.close()
        os._exit(code)

    assert os.waitstatus_to_exitcode(run_in_child(work)) == 1
    assert re.search(r"error: .*(memory|malloc).*\d", said.read_text())
    assert out.read_bytes() == b"as it was"


@on_posix
def test_two_commands_write_one_file(folder, tmp_path):
    """The file is all of one or all of the other, and nothing else is left."""
    out = tmp_path / "s.csv"
    call = [sys.executable, "-m", "unbag", "predict", folder / "model.unbag"]
    call += [folder / "visits.parquet", "--chunk-rows", "50", "-o", out]
    rules = (["--threshold", "0.1"], ["--threshold", "0.9"])
    running = [subprocess.Popen([*call, *rule]) for rule in rules]
    assert [one.wait() for one in running] == [0, 0]
    found = pd.read_csv(out)
    assert list(tmp_path.iterdir()) == [out]
    assert len(found) == 600
    above = [(found["class"] == (found["probability"] > limit)).all() for limit in (0.1, 0.9)]
    assert sum(above) == 1


# --- files that are not sound -------------------------------------------------------------------


@pytest.fixture
def unsound(folder, frames, tmp_path, monkeypatch):
    """Tables of instances and of regions with one fault each, beside sound ones."""
    monkeypatch.chdir(tmp_path)
    visits, regions = frames
    for name, frame in [("visits", visits), ("regions", regions)]:
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_parquet(f"{name}.parquet")
        whole = Path(f"{name}.parquet").read_bytes()
        Path(f"{name}-cut.parquet").write_bytes(whole[: len(whole) // 2])
        # its end is sound, what is before it is not
        Path(f"{name}-hole.parquet").write_bytes(whole[:4] + bytes(600) + whole[604:])
        text = Path(f"{name}.csv").read_text()
        mixed = text.replace("region", "région", 1).encode() + "é05".encode("latin-1") + b"\n"
        Path(f"{name}-mixed.csv").write_bytes(mixed)
        Path(f"{name}-utf16.csv").write_bytes(text.encode("utf-16")[:-1])
        frame.head(0).to_csv(f"{name}-header.csv", index=False)
        frame.head(0).to_parquet(f"{name}-header.parquet")
        Path(f"{name}-nothing.csv").write_bytes(b"")
        Path(f"{name}-nothing.parquet").write_bytes(b"")
    model = (folder / "model.unbag").read_bytes()
    Path("model.unbag").write_bytes(model)
    Path("cut.unbag").write_bytes(model[: len(model) // 2])
    Path("flipped.unbag").write_bytes(model[:5000] + bytes([model[5000] ^ 255]) + model[5001:])
    with zipfile.ZipFile("model.unbag") as old, zipfile.ZipFile("newer.unbag", "w") as new:
        header = json.loads(old.read("header.json"))
        new.writestr("header.json", json.dumps(header | {"format_version": 99}))
        new.writestr("model.skops", old.read("model.skops"))


TABLE_FAULTS = [
    ("cut.parquet", "cannot be read as parquet: the file is cut short or damaged at its end"),
    ("hole.parquet", "cannot be read as parquet"),
    ("mixed.csv", "is not UTF-8 text: 0xe9 at byte"),
    ("utf16.csv", "ends within a character, on line"),
    ("header.csv", "has columns and no rows"),
    ("header.parquet", "has columns and no rows"),
    ("nothing.csv", "is empty"),
    ("nothing.parquet", "is empty"),
]


@pytest.mark.usefixtures("unsound")
@pytest.mark.parametrize(("fault", "message"), TABLE_FAULTS)
def test_unsound_tables(fault, message, call, known):
    visits, regions = f"visits-{fault}", f"regions-{fault}"
    for command in (["fit", "-o", "m.unbag"], ["inspect"]):
        result = call(*command, visits, "regions.csv", *known)
        assert_one_sentence(result, visits, message)
        result = call(*command, "visits.csv", regions, *known)
        assert_one_sentence(result, regions, message)
        assert "visits.csv" not in result.stderr
    known = known[:4]
    result = call("evaluate", "model.unbag", visits, "regions.csv", *known)
    assert_one_sentence(result, visits, message)
    result = call("predict", "model.unbag", visits, "-o", "s.csv")
    assert_one_sentence(result, visits, message)
    made = {"m.unbag", "s.csv"}
    assert not made & {path.name for path in Path().iterdir()}


@pytest.mark.usefixtures("unsound")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("cut.unbag", "is damaged or cut short"),
        ("flipped.unbag", "is damaged"),
        ("newer.unbag", "has format version 99"),
        ("visits.csv", "is not a model file"),
        ("nobody.unbag", "there is no file"),
        (".", "it is a folder"),
    ],
)
def test_unsound_models(model, message, call, known):
    assert_one_sentence(call("predict", model, "visits.csv", "-o", "s.csv"), message)
    result = call("evaluate", model, "visits.csv", "regions.csv", *known[:4])
    assert_one_sentence(result, message)
    if model not in ("flipped.unbag", "visits.csv"):  # only the header is read; a table is misuse
        assert_one_sentence(call("inspect", model), message)


def test_hundreds_of_columns(call, tmp_path):
    rng = np.random.default_rng(0)
    positives = np.array([1, 2, 3, 4, 5, 6])
    label = (np.arange(60) % 10 < positives[np.arange(60) // 10]).astype(int)
    X = rng.normal(size=(60, 300)).round(3) + label[:, None] * (np.arange(300) < 100)
    wide = pd.DataFrame(X, columns=[f"c{i}" for i in range(300)])
    wide = pd.concat([pd.DataFrame({"bag": np.arange(60) // 10}), wide], axis=1)
    paths = [tmp_path / "wide.parquet", tmp_path / "bags.csv"]
    wide.to_parquet(paths[0])
    wide.to_csv(tmp_path / "wide.csv", index=False)
    pd.DataFrame({"bag": range(6), "k": positives}).to_csv(paths[1], index=False)
    model, out = tmp_path / "m.unbag", tmp_path / "s.csv"
    options = ["--bag", "bag", "--positives", "k", "--model", "linear", "--folds", 0]
    result = call("fit", *paths, *options, "-o", model)
    assert result.returncode == 0, result.stderr
    assert "and 250 more columns" in call("inspect", model).stdout
    assert call("predict", model, tmp_path / "wide.csv", "-o", out).returncode == 0
    scores = pd.read_csv(out)["score"]
    assert scores[label == 1].mean() > scores[label == 0].mean()


# --- names that are obeyed ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the model was trained on")
@pytest.mark.skipif(sys.platform == "win32", reason="such file names do not exist there")
def test_nothing_raw_on_the_terminal_or_in_a_page(call, frames, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visits, regions = frames
    key, count = f"key{SCRIPT}", f"count{SCRIPT}"
    visits = visits.rename(columns={"region": key, "device": f"device{SCRIPT}"})
    visits = visits.replace({"phone": SCRIPT})
    visits[key] = SCRIPT + visits[key]
    regions = regions.rename(columns={"region": key, "conversions": count})
    regions[key] = SCRIPT + regions[key]
    tables = [f"visits{SCRIPT}.parquet", f"regions{SCRIPT}.csv"]
    model, page = f"m{SCRIPT}.unbag", f"p{SCRIPT}.html"
    visits.to_parquet(tables[0])
    regions.to_csv(tables[1], index=False)
    regions.assign(**{count: 99}).to_csv(f"more{SCRIPT}.csv", index=False)
    visits.assign(**{f"device{SCRIPT}": f"new{SCRIPT}"}).to_csv(f"new{SCRIPT}.csv", index=False)
    args = ["--bag", key, "--positives", count]
    calls = [
        (0, ["fit", *tables, *args, "--exclude", "id", "--model", "linear", "-o", model]),
        (
            0,
            [
                "fit",
                *tables,
                *args,
                "--model",
                "linear",
                "-o",
                model,
                "--report",
                page,
            ],
        ),
        (0, ["inspect", *tables, *args]),
        (0, ["inspect", *tables, *args, "--json"]),
        (0, ["inspect", model]),
        (0, ["inspect", model, "--json"]),
        (0, ["evaluate", model, *tables, *args]),
        (0, ["predict", model, tables[0], "-o", f"s{SCRIPT}.csv"]),
        (0, ["predict", model, f"new{SCRIPT}.csv", "-o", f"s{SCRIPT}.csv", "--json"]),
        (1, ["inspect", tables[0], f"more{SCRIPT}.csv", *args]),
        (1, ["fit", tables[0], f"more{SCRIPT}.csv", *args, "-o", model]),
        (1, ["fit", *tables, *args, "--exclude", SCRIPT, "-o", model]),
        (1, ["fit", *tables, *args, "--types", f"device{SCRIPT}=number", "-o", model]),
        (1, ["predict", model, tables[1], "-o", "s.csv"]),
        (1, ["predict", f"no{SCRIPT}", tables[1], "-o", "s.csv"]),
        (1, ["predict", tables[0], tables[1], "-o", "s.csv"]),
        (1, ["predict", model, tables[0], "-o", f"{SCRIPT}/s.csv"]),
        (2, ["fit", *tables, *args, "--types", SCRIPT, "-o", model]),
    ]
    for code, arguments in calls:
        if code == 0 and arguments[0] == "fit":
            arguments = [*arguments, "--folds", 3]
        result = call(*arguments)
        assert result.returncode == code, (arguments, result.stderr)
        assert "\x1b" not in result.stdout + result.stderr, arguments
    text = Path(page).read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "\x1b" not in text


def test_csv_on_a_terminal_is_escaped_and_in_a_pipe_as_it_is(call, folder, frames, monkeypatch):
    visits = frames[0].head(3).assign(region=SCRIPT)
    new = folder / "obeyed.csv"
    visits.to_csv(new, index=False)
    arguments = ["predict", folder / "model.unbag", new, "-o", "-"]
    piped = call(*arguments).stdout
    assert piped.count(SCRIPT) == 3
    monkeypatch.setattr("unbag.cli.predict._on_terminal", lambda: True)
    shown = call(*arguments).stdout
    assert shown == piped.replace("\x1b", r"\x1b")
