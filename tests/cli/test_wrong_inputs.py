"""Wrong inputs: each gets one sentence and the right exit code, and leaves nothing behind."""

import io
import re
import shlex
import sqlite3
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbag.cli import main

# In Latin-1, which cannot follow text in UTF-8.
TEXT = "é".encode("latin-1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of tables of which each has one fault, and a model."""
    folder = tmp_path_factory.mktemp("wrong")
    rng = np.random.default_rng(0)
    visits = pd.DataFrame(
        {
            "region": np.repeat([f"r{i}" for i in range(8)], 10),
            "age": rng.integers(20, 60, 80),
            "device": np.tile(["phone", "desk"], 40),
        }
    )
    regions = pd.DataFrame(
        {
            "region": [f"r{i}" for i in range(8)],
            "yes": range(1, 9),
            "no": range(9, 1, -1),
            "n": 10,
            "rate": np.arange(1, 9) / 10,
        }
    )
    make_files(folder, visits, regions)
    assert (
        main(
            [
                "fit",
                str(folder / "v.csv"),
                str(folder / "r.csv"),
                *[
                    "--bag",
                    "region",
                    "--positives",
                    "yes",
                    "--model",
                    "linear",
                    "--folds",
                    "0",
                ],
                "-o",
                str(folder / "m.unbag"),
            ]
        )
        == 0
    )
    return folder


def make_files(folder, visits, regions):
    texts = {
        "nothing.csv": b"",
        "header.csv": b"region,age\n",
        "table.doc": b"region,age\n",
        "v.parquet.gz": b"",
        "long.csv": b"region,age\nr0,1,2\n",
        "headless.csv": b"r0,2.0,2.0\nr1,1.0,1.0\n",
        "quote.csv": b'region,age\nr0,1\n"r1,2\n',
        "twins.csv": b"region,age,age\nr0,1,2\n",
        "mixed.csv": "région,age\n".encode() + TEXT + b",1\n",
        "utf16.csv": "region,age\nr0,1\n".encode("utf-16")[:-1],
        "odd.csv": b"region,age\n\xe9,\x81\n",
        "plain.csv.gz": b"region,age\nr0,1\n",
        "plain.zip": b"region,age\nr0,1\n",
        "plain.xlsx": b"region,age\nr0,1\n",
        "plain.sqlite": b"region,age\nr0,1\n",
        "half.jsonl": b'{"region": "r0"}\n{"region": ',
        "nested.jsonl": b'{"region": "r0", "age": [1, 2]}\n',
        "short.unbag": b"no model",
    }
    for name, content in texts.items():
        (folder / name).write_bytes(content)
    for name, members in {"two.zip": ["a.csv", "b.csv"], "none.zip": ["a.doc"]}.items():
        with zipfile.ZipFile(folder / name, "w") as archive:
            for member in members:
                archive.writestr(member, "region,age\nr0,1\n")
    (folder / "empty").mkdir()
    (folder / "parts").mkdir()
    (folder / "parts" / "1.csv").write_text("region,age\nr0,1\n")
    (folder / "parts" / "2.csv").write_text("region,size\nr0,1\n")
    connection = sqlite3.connect(folder / "t.sqlite")
    visits.to_sql("visits", connection, index=False)
    regions.to_sql("regions", connection, index=False)
    connection.close()
    visits.to_excel(folder / "v.xlsx", index=False)
    visits.to_parquet(folder / "v.parquet")
    whole = (folder / "v.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    visits.assign(words=[["a", "b"]] * 80).to_parquet(folder / "lists.parquet")
    faulty_visits = {
        "v.csv": visits,
        "key-only.csv": visits[["region"]],
        "gap.csv": visits.assign(region=visits["region"].where(visits.index != 4)),
        "numbered.csv": visits.assign(region=visits["region"].str[1:].astype(int)),
        "others.csv": visits.assign(region="x" + visits["region"]),
        "some.csv": visits[visits["region"] != "r3"],
        "stray.csv": visits.assign(age=visits["age"].astype(str).where(visits.index != 6, "n/a?")),
        "old.csv": visits.assign(age="old"),
        "ageless.csv": visits.drop(columns="age"),
        "maybe.csv": visits.assign(label="maybe"),
    }
    faulty_regions = {
        "r.csv": regions,
        "upper.csv": regions.assign(region=regions["region"].str.upper()),
        "word.csv": regions.assign(yes=[*"1234567", "?"]),
        "lost.csv": regions.assign(yes=regions["yes"].where(regions["yes"] != 3)),
        "negative.csv": regions.assign(yes=regions["yes"] - 2),
        "many.csv": regions.assign(yes=regions["yes"] + 5),
        "shares.csv": regions.assign(yes=regions["rate"]),
        "percent.csv": regions.assign(rate=100 * regions["rate"]),
        "below.csv": regions.assign(rate=regions["rate"] - 0.5),
        "sums.csv": regions.assign(other=0.5),
        "missing-class.csv": regions.assign(no=1, yes=1),
        "twice.csv": pd.concat([regions, regions.assign(rate=0.5)]),
        "small.csv": regions.assign(n=9),
        "noise.csv": regions.assign(sd=-1),
        "two.csv": regions[:2],
    }
    for name, frame in {**faulty_visits, **faulty_regions}.items():
        frame.to_csv(folder / name, index=False)


FIT = "--bag region --positives yes --model linear --folds 0"
SHARE = "--bag region --proportion rate"

# What is called, the exit code, and the sentence, as a pattern.
WRONG = {
    # files
    "no such file": ("fit nowhere.csv r.csv", 1, "there is no file nowhere.csv"),
    "no such second file": ("fit v.csv nowhere.csv", 1, "there is no file nowhere.csv"),
    "empty": ("fit nothing.csv r.csv", 1, "nothing.csv is empty"),
    "no rows": ("fit header.csv r.csv", 1, "header.csv has columns and no rows"),
    "no table": (
        "fit table.doc r.csv",
        1,
        r"table.doc cannot be read as a table.* must end in \.csv",
    ),
    "compressed twice": ("fit v.parquet.gz r.csv", 1, "v.parquet.gz is compressed twice"),
    "row too long": ("fit long.csv r.csv", 1, "long.csv: line 2 has 3 fields, and the header has"),
    "open quote": ("fit quote.csv r.csv", 1, r"row on lines? 3.*\(is a quote left open\?\)|line 3"),
    "no header": ("fit headless.csv r.csv", 1, "more than one column '2.0' .is the line with the"),
    "columns of one name": ("fit twins.csv r.csv", 1, "twins.csv has more than one column 'age'"),
    "two encodings": ("fit mixed.csv r.csv", 1, "mixed.csv is not UTF-8 text: 0xe9 .* on line 2"),
    "half a character": ("fit utf16.csv r.csv", 1, "utf16.csv ends within a character, on line 2"),
    "no encoding": ("fit odd.csv r.csv", 1, "odd.csv is not cp1252 text: 0x81 at byte 13"),
    "unknown encoding": ("fit v.csv r.csv --encoding klingon", 1, "no encoding 'klingon'"),
    "cut parquet": ("fit cut.parquet r.csv", 1, "cut.parquet cannot be read as parquet: .* short"),
    "not packed": ("fit plain.csv.gz r.csv", 1, "plain.csv.gz cannot be read as csv.gz: Not a gz"),
    "two in a zip": ("fit two.zip r.csv", 1, r"two.zip has 2 tables \(a.csv, b.csv\) in it"),
    "none in a zip": ("fit none.zip r.csv", 1, "none.zip has no table in it"),
    "no zip": ("fit plain.zip r.csv", 1, "plain.zip cannot be read as zip: File is not a zip file"),
    "no workbook": ("fit plain.xlsx r.csv", 1, "plain.xlsx cannot be read as a workbook"),
    "no such sheet": ("fit v.xlsx r.csv --query May", 1, "v.xlsx has no sheet 'May'; it has 'Sh"),
    "no database": ("fit plain.sqlite r.csv", 1, "plain.sqlite is not an SQLite database"),
    "two in a database": ("fit t.sqlite r.csv", 1, r"t.sqlite has 2 tables \(regions, visits\)"),
    "no select": ("fit t.sqlite r.csv --query 'drop table visits'", 1, "must be a SELECT"),
    "wrong query": ("fit t.sqlite r.csv --query 'select x from visits'", 1, "no such column: x"),
    "query of a file": (
        "fit v.csv r.csv --query visits",
        1,
        "v.csv is neither a database nor a workbo",
    ),
    "elsewhere": ("fit https://a.org/v.csv r.csv", 2, "v.csv is not on this machine: download it"),
    "an address": ("fit file:///v.csv r.csv", 2, "file:///v.csv is an address: give the path"),
    "a far model": (
        "predict https://a.org/m v.csv -o s.csv",
        2,
        "https://a.org/m is an address",
    ),
    "a far output": ("predict m.unbag v.csv -o s3://b/s.csv", 2, "s3://b/s.csv is an address, and"),
    "no such file behind a URL": (
        "fit sqlite:///nowhere.sqlite r.csv",
        1,
        "there is no file nowhere.sqlite",
    ),
    "a table's name as query": (
        "fit t.sqlite r.csv --query visits",
        1,
        r"the query must be a SELECT, such as SELECT \* FROM visits",
    ),
    "no such driver": ("fit db2000://u:pw@h/v r.csv", 1, r"db2000://u:\*\*\*@h/v needs a driver"),
    "empty folder": ("fit empty r.csv", 1, "empty is a folder without a table in it"),
    "uneven parts": ("fit parts r.csv", 1, "2.csv has other columns than .*1.csv: 'age', 'size'"),
    "empty pattern": ("fit w-*.csv r.csv", 1, r"there is no file w-\*.csv"),
    "half a line": ("fit half.jsonl r.csv", 1, "half.jsonl: line 2 is not JSON"),
    "a list in a row": ("fit nested.jsonl r.csv", 1, "line 1 has a list or an object in column"),
    "stdin twice": ("fit - -", 2, "only one of the two tables can come from standard input"),
    "empty stdin": ("fit - r.csv", 1, "standard input is empty"),
    # keys
    "a zip on stdin": (
        "fit - r.csv",
        1,
        "standard input has 2 tables .* in it, where one is needed",
    ),
    "a key twice": ("fit v.csv r.csv --bag region,region", 2, "--bag: 'region' is named twice"),
    "unknown key": (
        "fit v.csv r.csv --bag regio",
        1,
        r"no column 'regio'; did you mean 'region'",
    ),
    "missing key": ("fit gap.csv r.csv", 1, "Row 5 of the row table gap.csv has no value in"),
    "other kinds of keys": ("fit numbered.csv r.csv", 1, "holds integers .* but text .* --types"),
    "case": ("fit v.csv upper.csv", 1, "'r0' and 'R0' differ in case only: --ignore case"),
    "no common bag": ("fit others.csv r.csv", 1, "No bag is in both tables: the first is 'xr0'"),
    "unmatched": ("fit some.csv r.csv", 1, "Bag 'r3' has a row in .* use --unmatched drop"),
    # counts and shares
    "no such count": (
        "fit v.csv r.csv --positives yess",
        1,
        r"no column 'yess'; did you mean 'yes'",
    ),
    "text as count": ("fit v.csv word.csv", 1, r"must hold numbers; row 8 holds '\?'"),
    "missing count": ("fit v.csv lost.csv", 1, r"must hold counts; .* bag 'r2' \(missing\)"),
    "negative count": ("fit v.csv negative.csv", 1, r"must hold counts; .* bag 'r0' \(-1\)"),
    "too many": ("fit v.csv many.csv", 1, r"more positives than .* 'r5' \(11, but 10 rows\)"),
    "shares as counts": ("fit v.csv shares.csv", 1, "if these are proportions, use --proportion"),
    "percentages": (f"fit v.csv percent.csv {SHARE}", 1, "if these are percentages, use --percent"),
    "shares as percentages": (
        f"fit v.csv r.csv {SHARE} --percent",
        1,
        "No value is above 1%: if the column holds proportions, leave --percent out",
    ),
    "percent of counts": ("fit v.csv r.csv --percent", 2, "--percent goes with --proportion"),
    "negative share": (
        f"fit v.csv below.csv {SHARE}",
        1,
        r"in \[0, 1\].*'r0' \(-0.4\)",
    ),
    "sums": (
        "fit v.csv sums.csv --bag region --proportion rate,other",
        1,
        "must sum to 1; they",
    ),
    "missing class": (
        "fit v.csv missing-class.csv --positives yes,no",
        1,
        "a column for each class",
    ),
    "a bag twice": (f"fit v.csv twice.csv {SHARE}", 1, "'r0' appears twice .* in rows 1 and 9"),
    "size": ("fit v.csv small.csv --bag-size n", 1, r"'n' contradicts .* 'r0' \(9, but 10 rows\)"),
    "negative noise": ("fit v.csv noise.csv --noise sd", 1, "'r0' is a standard deviation"),
    "swapped": ("fit r.csv v.csv", 1, "seem to be swapped: .* ROWS come first"),
    # columns
    "stray text": (
        "fit stray.csv r.csv",
        1,
        r"'n/a\?' in row 7 of column 'age'.*--na-values",
    ),
    "nothing to drop": ("fit v.csv r.csv --exclude id", 1, "v.csv has no column 'id' to exclude"),
    "type of no column": (
        "fit v.csv r.csv --types id=number",
        1,
        "names the column 'id', which",
    ),
    "two types": (
        "fit v.csv r.csv --types age=number,age=time",
        2,
        "'age' has two types, number and",
    ),
    "no bags left": (
        "fit v.csv r.csv --exclude region",
        2,
        "'region' names the bags, and is not a feature",
    ),
    "no such type": (
        "fit v.csv r.csv --types age=long",
        2,
        "'age=long' is not of the form",
    ),
    "wrong type": (
        "fit v.csv r.csv --types device=number",
        1,
        "'device' should hold numbers, but row 1",
    ),
    "no features": ("fit key-only.csv r.csv", 1, "has no column except its key"),
    "lists": ("fit lists.parquet r.csv", 1, "'words' cannot be a feature"),
    "no label": (
        "fit maybe.csv r.csv --labels label",
        1,
        r"labels \(0, 1\) or .* row 1 holds",
    ),
    # other files and commands
    "no page": ("fit v.csv r.csv --report out.pdf", 2, "pages are HTML: out.pdf must"),
    "no folder": ("fit v.csv r.csv -o no/where.unbag", 1, "the folder of no/where.unbag does not"),
    "a folder": ("fit v.csv r.csv -o empty", 1, "empty is a folder; give the name of a file in it"),
    "no bag": ("fit v.csv r.csv --bag", 2, "argument --bag: expected one argument"),
    "no model": ("predict short.unbag v.csv -o out.csv", 1, "short.unbag is not a model file"),
    "column gone": ("predict m.unbag ageless.csv -o out.csv", 1, "no column 'age' that the model"),
    "other kind": (
        "predict m.unbag old.csv -o out.csv",
        1,
        "'age' should hold numbers, but row 1",
    ),
    "its own table": (
        "predict m.unbag v.csv -o ./v.csv",
        2,
        "-o v.csv is read here: give another name",
    ),
    "its own model": ("export m.unbag -o m.unbag", 2, "-o m.unbag is read here"),
    "a part of its table": ("predict m.unbag parts/ -o parts/2.csv", 2, "-o parts/2.csv is read"),
    "one file for two": (
        "fit v.csv r.csv -o out.html --report out.html --folds 2",
        2,
        "-o and --report are one file",
    ),
    "only read": (
        "predict m.unbag v.csv -o out.xlsx",
        1,
        "out.xlsx cannot be (written|read) as a table",
    ),
    "nothing to keep": ("predict m.unbag v.csv -o out.csv --keep id", 1, "no column 'id' to keep"),
    "other classes": (
        "evaluate m.unbag v.csv r.csv --bag region --positives yes,no,n",
        1,
        "do not sum",
    ),
}


def test_there_are_fifty():
    assert len(WRONG) >= 50


@pytest.mark.parametrize("name", WRONG)
def test_one_sentence_and_nothing_left(name, place, call, monkeypatch, tmp_path):
    line, code, pattern = WRONG[name]
    words = shlex.split(line)
    if words[0] == "fit":
        for option, value in [("--bag", "region"), ("--positives", "yes"), ("-o", "out.unbag")]:
            known = (
                "--proportion" if option == "--positives" and "--proportion" in words else option
            )
            words += [] if known in words else [option, value]
        words += ["--model", "linear", "--folds", "0"]
    monkeypatch.chdir(place)
    given = Path("two.zip").read_bytes() if name == "a zip on stdin" else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = sorted(Path().rglob("*"))
    result = call(*words)
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()[-1]
    assert said.startswith(f"unbag {words[0]}: error: ")
    assert re.search(pattern, said), said
    assert said.isprintable()
    assert sorted(Path().rglob("*")) == before
    assert list(tmp_path.iterdir()) == []
