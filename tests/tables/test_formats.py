"""Tables as people have them: each format is written by a library that is not ours, and read."""

import datetime as dt
import io
import json
import sqlite3
import sys
import zipfile

import duckdb
import numpy as np
import pandas as pd
import pytest

from unbag.tables import open_table, write_table
from unbag.tables.files import TableURL

N = 9


def people():
    """Numbers, text, gaps, dates and names beyond ASCII."""
    return pd.DataFrame(
        {
            "Größe": [1.5, np.nan, 2.25, -0.125, 1e-3, 7.0, 8.5, 9.0, 0.1],
            "größte Zahl": np.arange(N) * 1000,
            "Straße": ["Königsweg", None, "a;b", "c,d", 'e "f"', "g|h", "ß", "Ärger", "ö\tä"],
            "Plz": [f"0{i}117" for i in range(N)],
            "Tag": pd.to_datetime([f"2024-05-{i + 1:02}" for i in range(N)]),
        }
    )


def as_text(frame):
    return frame.assign(Tag=frame["Tag"].dt.strftime("%Y-%m-%d"))


def decimal_commas(frame, path, encoding="utf-8"):
    frame.to_csv(path, index=False, sep=";", decimal=",", encoding=encoding)


def in_zip(frame, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/", "")
        archive.writestr("__MACOSX/._people.csv", "junk")
        archive.writestr("readme.txt", "nothing to see")
        archive.writestr("inner/people.csv", frame.to_csv(index=False))


def parquet_in_zip(frame, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("people.parquet", frame.to_parquet(index=False))


def in_parts(frame, path, write=pd.DataFrame.to_parquet, suffix=".parquet"):
    path.mkdir()
    (path / "_SUCCESS").write_bytes(b"")
    for i in range(3):
        write(frame.iloc[3 * i : 3 * i + 3], path / f"part-{9 + i}{suffix}", index=False)


def csv_in_parts(frame, path):
    in_parts(frame, path, pd.DataFrame.to_csv, ".csv")


def in_sqlite(frame, path):
    connection = sqlite3.connect(path)
    frame.to_sql("people", connection, index=False)
    connection.close()


def in_duckdb(frame, path):
    with duckdb.connect(str(path)) as connection:
        connection.register("given", frame)
        connection.execute("create table people as select * from given")


# How it is written, how the file is called, and whether dates come back as text.
FORMATS = {
    "semicolons": (decimal_commas, "t.csv", True),
    "cp1252": (lambda f, p: decimal_commas(f, p, "cp1252"), "t.csv", True),
    "utf-16": (lambda f, p: f.to_csv(p, index=False, encoding="utf-16"), "t.csv", True),
    "utf-8 with a mark": (lambda f, p: f.to_csv(p, index=False, encoding="utf-8-sig"), "t", True),
    "tabs": (lambda f, p: f.to_csv(p, index=False, sep="\t"), "t.tsv", True),
    "tabs in text": (lambda f, p: f.to_csv(p, index=False, sep="\t"), "t.txt", True),
    "bars": (lambda f, p: f.to_csv(p, index=False, sep="|"), "t.csv", True),
    "excel": (lambda f, p: f.to_excel(p, index=False), "t.xlsx", False),
    "json lines": (
        lambda f, p: f.to_json(p, orient="records", lines=True, date_format="iso"),
        "t.jsonl",
        True,
    ),
    "json list": (lambda f, p: f.to_json(p, orient="records", force_ascii=False), "t.json", True),
    "json lines, packed": (lambda f, p: f.to_json(p, orient="records", lines=True), "t.ndjson.gz"),
    "zip": (in_zip, "t.zip", True),
    "parquet in zip": (parquet_in_zip, "t.zip", False),
    "folder": (in_parts, "parts", False),
    "folder of text": (csv_in_parts, "parts", True),
    "sqlite": (in_sqlite, "t.sqlite", True),
    "sqlite called db": (in_sqlite, "t.db", True),
    "duckdb": (in_duckdb, "t.duckdb", False),
    "duckdb called db": (in_duckdb, "t.db", False),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_comes_back(name, tmp_path):
    write, path, *_ = FORMATS[name]
    path = tmp_path / (path if name != "utf-8 with a mark" else "t.csv")
    dates_are_text = FORMATS[name][-1] is not False
    frame = as_text(people()) if dates_are_text else people()
    write(frame, path)
    expected = frame.assign(Plz=frame["Plz"])
    kinds = {"Plz": "category"}  # with leading zeros
    if not dates_are_text:
        expected["Tag"] = expected["Tag"].astype("datetime64[us]")
        kinds["Tag"] = "time"
    before = sorted(tmp_path.rglob("*"))
    found = open_table(path).read(types=kinds)
    assert_same(found, expected)
    assert open_table(path).names == list(frame)
    for rows in (2, 4, N, 20):
        chunks = list(open_table(path).chunks(rows, types=kinds))
        sizes = [len(chunk) for chunk in chunks]
        # the last one of a file may be smaller
        assert max(sizes) <= rows if "folder" in name else set(sizes[:-1]) <= {rows}
        assert_same(pd.concat(chunks), expected)
    some = ["Straße", "Größe"]
    assert_same(open_table(path).read(some), expected[some])
    assert sorted(tmp_path.rglob("*")) == before


def assert_same(found, expected):
    assert list(found) == list(expected)
    assert found.index.tolist() == list(range(N))
    for name in expected:
        a, b = found[name], expected[name]
        assert a.isna().tolist() == b.isna().tolist(), name
        if b.dtype == float:
            np.testing.assert_allclose(a.astype(float), b, rtol=1e-15)
        else:
            assert a.dropna().tolist() == b.dropna().tolist(), name
            assert b.dtype != int or a.dtype == int


def reported(path, **options):
    """What is said of a file, each thing once, however often it is read."""
    said = []
    table = open_table(path, on_message=said.append, **options)
    list(table.chunks(2))
    table.read()
    return [text.replace(str(path), "T") for text in said]


def test_what_is_found_out_is_said_once(tmp_path):
    path, frame = tmp_path / "t.csv", as_text(people())
    frame.to_csv(path, index=False)
    assert reported(path) == []
    decimal_commas(frame, path)
    assert reported(path) == ["T is read with semicolons between fields and decimal commas."]
    decimal_commas(frame, path, "cp1252")
    assert reported(path)[0] == "T is read as cp1252 text, since it is not UTF-8."
    frame.to_csv(path, index=False, encoding="utf-16")
    assert reported(path) == ["T is read as utf-16 text, since it is not UTF-8."]
    frame.to_csv(path, index=False, sep="\t")
    assert reported(path) == ["T is read with tabs between fields."]
    book = tmp_path / "b.xlsx"
    with pd.ExcelWriter(book) as writer:
        frame.to_excel(writer, sheet_name="May", index=False)
        frame.head(2).to_excel(writer, sheet_name="June", index=False)
    assert reported(book) == ["T is read from its first sheet, 'May'; it also has 'June'."]
    assert reported(book, query="June") == []
    assert len(open_table(book, query="June").read()) == 2


def test_text_that_is_not_utf_8_as_was_said_is_refused_without_a_remark(tmp_path):
    path, said = tmp_path / "t.csv", []
    path.write_bytes(b"a,b\n1,\xe9\n")
    with pytest.raises(ValueError, match=r"not utf-8 text: 0xe9 .* which it has \(--encoding\)"):
        open_table(path, encoding="utf-8", on_message=said.append).read()
    assert said == []


@pytest.mark.parametrize("n_plain", [0, 3, 20_000])
@pytest.mark.parametrize("encoding", ["cp1252", "cp1250", "latin-1"])
def test_the_first_letter_beyond_ascii_decides(n_plain, encoding, tmp_path):
    """However far into the file it is, all is as if the encoding had been known before."""
    words = ["plain"] * n_plain + ["Köln", "Zürich"]
    frame = pd.DataFrame({"n": range(len(words)), "word": words})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False, encoding=encoding)
    found = open_table(path, encoding="cp1250" if encoding == "cp1250" else "cp1252").read()
    assert found["word"].tolist() == words
    assert found["n"].tolist() == frame["n"].tolist()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(encoding, tmp_path):
    path = tmp_path / "t.csv"
    people().to_csv(path, index=False, encoding=encoding)
    # a missing street is None or NaN, by the version of pandas
    found, expected = (table["Straße"].fillna("") for table in (open_table(path).read(), people()))
    assert found.tolist() == expected.tolist()


def test_a_title_above_the_header_is_named(tmp_path):
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as writer:
        people().to_excel(writer, index=False, startrow=2)
        writer.sheets["Sheet1"].write(0, 0, "Visits of 2024")
    with pytest.raises(ValueError, match=r"t.xlsx has a title, 'Visits of 2024', .* begins with"):
        open_table(path)
    path.with_suffix(".csv").write_text("Visits of 2024\n\na,b\n1,2\n")
    with pytest.raises(ValueError, match=r"line 3 has 2 fields, .* the header has 1; .* a title"):
        open_table(path.with_suffix(".csv")).read()


@pytest.mark.parametrize("name", ["t.zip", "t.xlsx"])
def test_archives_that_unpack_to_far_more_than_a_table_are_refused(tmp_path, monkeypatch, name):
    path, zeros = tmp_path / name, b"0" * 3_000_000
    if name == "t.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", b"a,b\n1," + zeros)
    else:
        people().to_excel(path, index=False)
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/media/more.png", zeros)
    open_table(path)
    monkeypatch.setattr("unbag.tables.files._UNPACKED", 1_000_000)
    with pytest.raises(ValueError, match=r"unpacked, [\d,]+ times what it takes"):
        open_table(path)


def test_names_in_another_encoding(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("Länge;Jiří\n1,5;2\n".encode("cp1250"))
    assert open_table(path, encoding="cp1250").names == ["Länge", "Jiří"]
    with pytest.raises(ValueError, match="there is no encoding 'cp9'"):
        open_table(path, encoding="cp9")


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("a;b\n1,5;x\n", ["a", "b"], [1.5, "x"]),
        ("a;b\n1.5;x\n", ["a", "b"], [1.5, "x"]),  # points stay points
        ("a;b\n1;x\n2;y\n", ["a", "b"], [1, "x"]),
        ("a\tb\n1,5\tx\n", ["a", "b"], [1.5, "x"]),
        ('"a, in m";b\n1,5;x\n2,5;y, z\n', ["a, in m", "b"], [1.5, "x"]),
        ("a,b;c\n1,2;3\n", ["a", "b;c"], [1, "2;3"]),  # the usual wins where it fits
        ("a\n1;2\n", ["a"], ["1;2"]),
        ('a,b\n"1,234.5",x\n12,y\n', ["a", "b"], [1234.5, "x"]),  # thousands
        ('a,b\n"1,234","1,2"\n', ["a", "b"], ["1,234", "1,2"]),  # no thousands
        ("a;b\n1.234,5;0,5\n", ["a", "b"], [1234.5, 0.5]),
        ("a;b\n1,234;0.5\n", ["a", "b"], [1234, 0.5]),
        ("a,b\n1'234,x\n", ["a", "b"], [1234, "x"]),
        ("a,b\n1 234.5,x\n", ["a", "b"], [1234.5, "x"]),
        ("a;b\n01.01.2024;1,5\n", ["a", "b"], ["01.01.2024", 1.5]),
    ],
)
def test_how_text_is_written(text, names, first, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    table = open_table(path)
    assert table.names == names
    assert table.read().iloc[0].tolist() == first


def test_lone_columns_with_other_separators_come_back(tmp_path):
    frame = pd.DataFrame({"a;b": ["c;d", "e;f"]})
    write_table([frame], tmp_path / "t.csv")
    assert open_table(tmp_path / "t.csv").read().to_dict("list") == frame.to_dict("list")


# --- several files ------------------------------------------------------------------------------


def test_patterns_and_the_order_of_parts(tmp_path):
    for i in (10, 9, 2):
        pd.DataFrame({"n": [i], "w": ["x"]}).to_csv(tmp_path / f"day-{i}.csv", index=False)
    pd.DataFrame({"other": [1]}).to_csv(tmp_path / "else.csv", index=False)
    assert open_table(tmp_path / "day-*.csv").read()["n"].tolist() == [2, 9, 10]
    (tmp_path / "day-[1].csv").write_text("n,w\n7,x\n")  # a file, not a pattern
    assert open_table(tmp_path / "day-[1].csv").read()["n"].tolist() == [7]
    with pytest.raises(ValueError, match=r"else.csv has other columns than .*: 'n', 'other', 'w'"):
        open_table(tmp_path)
    with pytest.raises(OSError, match=r"there is no file .*week-"):
        open_table(tmp_path / "week-*.csv")


def test_types_that_differ_between_parts(tmp_path):
    """A code that is text in one file is read as written in all, as from one file."""
    for name, text in {"a": "code,n\n01,1\n", "b": "code,n\nx1,\n", "c": "code,n\n,2.5\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    whole = open_table(tmp_path).read()
    assert whole["code"].tolist()[:2] == ["01", "x1"]
    assert whole["n"].tolist()[::2] == [1, 2.5]
    chunks = pd.concat(open_table(tmp_path).chunks(2))
    assert chunks["code"].tolist()[:2] == ["01", "x1"]
    assert chunks.isna().to_numpy().tolist() == whole.isna().to_numpy().tolist()


def test_folders_may_say_what_is_in_them(tmp_path):
    frame = pd.DataFrame({"n": [1, 2]})
    for month in ("05", "06"):
        (tmp_path / f"month={month}").mkdir()
        frame.to_parquet(tmp_path / f"month={month}" / "part.parquet")
    table = open_table(tmp_path)
    assert table.names == ["n", "month"]
    assert table.read()["month"].tolist() == ["05", "05", "06", "06"]
    assert table.read(["n"])["n"].tolist() == [1, 2, 1, 2]
    assert [c["month"].tolist() for c in table.chunks(3)] == [["05", "05"], ["06", "06"]]
    frame.to_parquet(tmp_path / "part.parquet")
    with pytest.raises(ValueError, match="has folders like month=05 for some"):
        open_table(tmp_path)


# --- databases ----------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "duckdb", "url"])
def two_tables(request, tmp_path):
    """A database with two tables, in three ways."""
    frame = as_text(people())
    path = tmp_path / ("t.duckdb" if request.param == "duckdb" else "t.sqlite")
    if request.param == "duckdb":
        in_duckdb(frame, path)
        with duckdb.connect(str(path)) as connection:
            connection.execute("create table days (Tag varchar, open boolean)")
    else:
        in_sqlite(frame, path)
        connection = sqlite3.connect(path)
        connection.execute("create table days (Tag text, open integer)")
        connection.commit()
        connection.close()
    return f"sqlite:///{path}" if request.param == "url" else path


def test_queries(two_tables):
    with pytest.raises(ValueError, match=r"has 2 tables \(days, people\): say .* FROM days$"):
        open_table(two_tables)
    wanted = 'select "Plz", "Größe" as g from people where "Plz" like \'03%\' or "Größe" > 8'
    table = open_table(two_tables, query=wanted)
    assert table.names == ["Plz", "g"]
    assert table.read()["g"].tolist() == [-0.125, 8.5, 9.0]
    assert [len(chunk) for chunk in table.chunks(2)] == [2, 1]
    for wrong, message in [
        ("select * from nobody", "cannot be read as .*nobody"),
        ("select 1 as a, 2 as a", "more than one column 'a'|a_1"),
        ("people", r"the query must be a SELECT, such as SELECT \* FROM people"),
        ("drop table people", "is only read: the query must be a SELECT"),
        ("with a as (select 1) delete from people", "cannot be read as|to this query"),
        ("select from where", "cannot be read as .*syntax error"),
        ("select * from days", "has columns and no rows"),
    ]:
        if "as a" in wrong and str(two_tables).endswith("duckdb"):
            continue  # which names the second one a_1
        with pytest.raises(ValueError, match=message) as caught:
            open_table(two_tables, query=wrong).read()
        assert "\n" not in str(caught.value)
    assert len(open_table(two_tables, query="select * from people").read()) == N


def test_no_query_reaches_another_file(tmp_path):
    """Not even one that only reads: the engines refuse, whatever the query looks like."""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    in_duckdb(as_text(people()), tmp_path / "t.duckdb")
    in_sqlite(as_text(people()), tmp_path / "t.sqlite")
    for query in (
        f"select * from read_csv('{tmp_path}/secret.csv')",
        f"from '{tmp_path}/secret.csv'",
    ):
        with pytest.raises(ValueError, match="cannot be read as duckdb: "):
            open_table(tmp_path / "t.duckdb", query=query)
    for query in ("with a as (select 1) delete from people", "select * from pragma_table_list"):
        with pytest.raises(ValueError, match="cannot be read as sqlite: "):
            open_table(tmp_path / "t.sqlite", query=query).read()


def test_views_in_a_file_reach_no_other_file(tmp_path):
    """A file that was made to read another one when somebody opens it."""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(f"create view v as select * from read_csv('{tmp_path}/secret.csv')")
        assert connection.sql("from v").fetchall() == [(1,)]  # the attack is real
    connection = sqlite3.connect(tmp_path / "t.sqlite")
    connection.execute("create view v as select load_extension('x') as a")
    connection.commit()
    for name in ("t.duckdb", "t.sqlite"):
        with pytest.raises(ValueError, match=f"{name} cannot be read as"):
            open_table(tmp_path / name).read()


def test_a_query_cannot_loosen_the_engine(tmp_path):
    in_duckdb(as_text(people()), tmp_path / "t.duckdb")
    for change in ("enable_external_access = true", "memory_limit = '100GB'"):
        query = f"select 1 as a; set {change}; select 2 as a"
        with pytest.raises(ValueError, match="cannot be read as duckdb"):
            open_table(tmp_path / "t.duckdb", query=query).read()


def test_a_url_by_its_only_table_and_without_its_password(tmp_path):
    in_sqlite(as_text(people()), tmp_path / "t.sqlite")
    assert open_table(f"sqlite:///{tmp_path}/t.sqlite").names == list(people())
    secret = TableURL("nosuch://ann:s3cr@t@host/db")
    assert "s3cr" not in f"{secret} {secret!r}"
    assert str(TableURL("a://h/db?user=u&password=s3cr&mode=ro")) == (
        "a://h/db?user=u&password=***&mode=ro"
    )
    with pytest.raises(ValueError, match=r"nosuch://ann:\*\*\*@host/db needs a driver") as caught:
        open_table(secret)
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize("name", ["https://a.org/t.csv", "s3://bucket/t.parquet", "HTTP://a/b"])
def test_files_that_are_elsewhere(name):
    with pytest.raises(ValueError, match="is not on this machine: download it first"):
        open_table(name)


# --- standard input -----------------------------------------------------------------------------


def feed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst", ".jsonl", ".parquet", ".arrow"])
def test_standard_input(suffix, tmp_path, monkeypatch):
    frame = as_text(people())
    write_table([frame], tmp_path / f"t{suffix}")
    feed(monkeypatch, (tmp_path / f"t{suffix}").read_bytes())
    table = open_table("-")
    assert_same(table.read(types={"Plz": "category"}), frame)
    assert_same(pd.concat(table.chunks(4, types={"Plz": "category"})), frame)
    assert str(table.file) == "standard input"


def test_standard_input_in_a_spreadsheet_or_without_anything(monkeypatch, tmp_path):
    people().to_excel(tmp_path / "t.xlsx", index=False)
    feed(monkeypatch, (tmp_path / "t.xlsx").read_bytes())
    assert open_table("-").names == list(people())
    feed(monkeypatch, b"")
    with pytest.raises(ValueError, match=r"^standard input is empty$"):
        open_table("-")


# --- what is not a table ---------------------------------------------------------------------------


def write_zip(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)


def test_files_that_are_not_sound(tmp_path):
    write_zip(tmp_path / "two.zip", a_csv="a\n1\n", b_csv="a\n1\n")
    write_zip(tmp_path / "none.zip", a_doc="a")
    write_zip(tmp_path / "packed.zip", a_csv_gz="a")
    for name, text in {
        "t.zip": "no zip",
        "t.xlsx": "no workbook",
        "t.sqlite": "no database at all",
        "t.duckdb": "no database " * 1000,
        "half.jsonl": '{"a": 1}\n{"a": \n',
        "list.jsonl": '{"a": 1}\n[1, 2]\n',
        "nested.jsonl": '{"a": 1}\n\n{"a": [1]}\n',
        "blank.jsonl": "\n\n",
        "list.json": '[{"a": 1}, 3]',
    }.items():
        (tmp_path / name).write_text(text)
    pd.DataFrame({"a": [1]}).to_excel(tmp_path / "book.xlsx", index=False)
    pd.DataFrame().to_excel(tmp_path / "void.xlsx", index=False)
    pd.DataFrame([[1, 2]], columns=["a", "a"]).to_excel(tmp_path / "twins.xlsx", index=False)
    for name, message, options in [
        ("two.zip", r"has 2 tables \(a.csv, b.csv\) in it, where one is needed", {}),
        ("none.zip", "has no table in it, where one is needed", {}),
        ("packed.zip", "a.csv.gz in .* cannot be read from within an archive", {}),
        ("t.zip", "cannot be read as zip: File is not a zip file", {}),
        ("t.xlsx", "cannot be read as a workbook", {}),
        ("t.sqlite", "is not an SQLite database", {}),
        ("t.duckdb", "cannot be read as duckdb", {}),
        ("half.jsonl", "line 2 is not JSON: Expecting value", {}),
        ("list.jsonl", r"line 2 holds \[1, 2\], and not an object", {}),
        ("nested.jsonl", "line 3 has a list or an object in column 'a'", {}),
        ("blank.jsonl", "is empty", {}),
        ("list.json", "entry 2 holds 3, and not an object", {}),
        ("book.xlsx", "has no sheet 'May'; it has 'Sheet1'", {"query": "May"}),
        ("void.xlsx", "has nothing in its sheet 'Sheet1'", {}),
        ("twins.xlsx", "has more than one column 'a'", {}),
        ("half.jsonl", "is not JSON", {"query": "select 1"}),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            open_table(tmp_path / name, **options)
        assert name.partition(".")[0] in str(caught.value)
        assert "\n" not in str(caught.value)
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="is neither a database nor a workbook"):
        open_table(tmp_path / "t.csv", query="select 1")


def test_columns_without_a_name_in_a_sheet(tmp_path):
    rows = [["a", None, None, "b"], [1, 2, None, 3]]
    pd.DataFrame(rows).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    found = open_table(tmp_path / "t.xlsx").read()
    assert found.to_dict("list") == {"a": [1], "Unnamed: 1": [2], "b": [3]}


def test_archives_with_a_password(tmp_path):
    write_zip(tmp_path / "t.zip", a_csv="a\n1\n")
    content = bytearray((tmp_path / "t.zip").read_bytes())
    for mark, place in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)]:
        content[content.index(mark) + place] |= 1  # says that it is encrypted
    (tmp_path / "t.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"a.csv in .*t.zip cannot be read as csv: .*encrypted"):
        open_table(tmp_path / "t.zip")


@pytest.mark.parametrize("name", ["t.xlsx", "t.sqlite", "t.duckdb", "t.zip"])
def test_formats_that_are_only_read(name, tmp_path):
    with pytest.raises(ValueError, match=r"cannot be written as a table: .* in \.csv, \.tsv"):
        write_table([people()], tmp_path / name)


def test_missing_packages_are_named(monkeypatch, tmp_path):
    people().to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs fastexcel.*\[excel\]"):
        open_table(tmp_path / "t.xlsx")


def test_json_keys_may_come_and_go(tmp_path):
    rows = [{"a": 1}, {"b": "x", "a": None}, {"c": True}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = open_table(tmp_path / "t.jsonl")
    assert table.names == ["a", "b", "c"]
    assert table.read().notna().to_numpy().tolist() == np.eye(3, dtype=bool).tolist()


def test_text_late_in_a_sheet_is_no_gap(tmp_path):
    """Types must come from all rows: what does not fit an inferred type would be lost."""
    column = [*range(3000), "n/a?"]
    pd.DataFrame({"a": column, "t": dt.date(2024, 5, 1)}).to_excel(tmp_path / "t.xlsx", index=False)
    found = open_table(tmp_path / "t.xlsx").read()
    assert found["a"].notna().all()
    assert found["a"].iloc[-1] == "n/a?"
