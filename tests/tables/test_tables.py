"""Tables on disk: every format there and back, damaged files, and features from mixed columns."""

import bz2
import datetime as dt
import gzip
import lzma
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbag.tables import open_table, write_table
from unbag.tables.column_types import ColumnError, convert
from unbag.tables.files import TableError
from unbag.tables.schema import make_schema

# older versions of pandas tell None from NaN where text is missing
pytestmark = pytest.mark.filterwarnings("ignore:Mismatched null-like values:FutureWarning")

TEXT = [kind + packed for kind in (".csv", ".tsv") for packed in ("", ".gz", ".bz2", ".xz", ".zst")]
BINARY = [".parquet", ".arrow", ".feather", ".ipc"]
ODD_NAMES = ["<script>", "\x1b[31mred", "line\nbreak", 'quo"te', "com,ma", "tab\t", "größe", " a "]


def read_table(path, **options):
    return open_table(path).read(**options)


def read_chunks(path, **options):
    return open_table(path).chunks(**options)


def mixed(n=7):
    """A table with missing values, quotes, separators and line ends in it."""
    rng = np.random.default_rng(0)
    words = np.array(["red", 'a "quoted" one', "with, comma", "two\nlines", "tab\there", "größer"])
    return pd.DataFrame(
        {
            "whole": np.arange(n),
            "share": np.where(np.arange(n) % 3 == 1, np.nan, rng.normal(size=n)),
            "word": pd.Series(words[np.arange(n) % len(words)]).where(np.arange(n) % 4 != 1),
            "yes": np.arange(n) % 2 == 0,
        }
    )


def raw(path, data):
    """Write bytes below the compression that the name asks for."""
    if path.suffix == ".zst":
        data = pa.Codec("zstd").compress(data, asbytes=True)
    else:
        pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
        data = pack.get(path.suffix, bytes)(data)
    path.write_bytes(data)
    return path


# --- there and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", TEXT + BINARY)
def test_round_trip(tmp_path, suffix):
    frame, path = mixed(25), tmp_path / f"table{suffix}"
    parts = (frame.iloc[i : i + 10] for i in range(0, 25, 10))
    assert write_table(parts, path) == 25
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    pd.testing.assert_frame_equal(read_table(path), frame)
    pd.testing.assert_frame_equal(read_table(str(path)), frame)
    some = ["yes", "whole"]
    pd.testing.assert_frame_equal(read_table(path, columns=some), frame[some])
    for rows in (8, 25):
        chunks = list(read_chunks(path, rows=rows))
        assert [len(chunk) for chunk in chunks[:-1]] == [rows] * (len(chunks) - 1)
        pd.testing.assert_frame_equal(pd.concat(chunks), frame)
        assert len({tuple(map(str, chunk.dtypes)) for chunk in chunks}) == 1
    pd.testing.assert_frame_equal(pd.concat(read_chunks(path, columns=some)), frame[some])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather"])
def test_pandas_reads_what_is_written_and_the_other_way_round(tmp_path, suffix):
    frame, ours, theirs = mixed(), tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
    write_table([frame], ours)
    if ".parquet" in suffix:
        frame.to_parquet(theirs)
        seen = pd.read_parquet(ours)
    elif ".feather" in suffix:
        frame.to_feather(theirs)
        seen = pd.read_feather(ours)
    else:
        sep = "\t" if "tsv" in suffix else ","
        frame.to_csv(theirs, index=False, sep=sep)
        seen = pd.read_csv(ours, sep=sep)
    pd.testing.assert_frame_equal(seen, frame)
    pd.testing.assert_frame_equal(read_table(theirs), frame)


def test_arrow_stream_and_nullable_types(tmp_path):
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], "Int64"),
            "b": pd.array([True, None, False], "boolean"),
            "c": pd.Categorical(["u", "v", "u"]),
            "t": pd.to_datetime(["2020-01-01 00:00:00", None, "2021-05-06 07:08:09"]),
        }
    )
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(tmp_path / "t.arrow", table.schema) as sink:
        sink.write_table(table)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.arrow"), frame)
    for suffix in BINARY:
        write_table([frame], tmp_path / f"u{suffix}")
        pd.testing.assert_frame_equal(read_table(tmp_path / f"u{suffix}"), frame)
        assert len(list(read_chunks(tmp_path / f"u{suffix}", rows=1))) == 3


def test_a_stored_index_is_a_column(tmp_path):
    frame = mixed().set_index("word")
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(
        read_table(tmp_path / "t.parquet"), frame.reset_index(), check_like=True
    )
    mixed().sample(frac=1, random_state=0).to_parquet(tmp_path / "u.parquet")
    shuffled = mixed().sample(frac=1, random_state=0).reset_index(drop=True)
    pd.testing.assert_frame_equal(read_table(tmp_path / "u.parquet"), shuffled)
    pd.testing.assert_frame_equal(pd.concat(read_chunks(tmp_path / "u.parquet", rows=2)), shuffled)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow"])
def test_odd_names(tmp_path, suffix):
    frame = pd.DataFrame([range(len(ODD_NAMES))] * 2, columns=ODD_NAMES)
    write_table([frame], tmp_path / f"odd{suffix}")
    pd.testing.assert_frame_equal(read_table(tmp_path / f"odd{suffix}"), frame)
    pd.testing.assert_frame_equal(next(read_chunks(tmp_path / f"odd{suffix}")), frame)


@pytest.mark.parametrize("suffix", [".csv"])
def test_ten_thousand_columns(tmp_path, suffix):
    wide = pd.DataFrame(np.arange(20_000).reshape(2, -1)).rename(columns="c{}".format)
    write_table([wide], tmp_path / f"wide{suffix}")
    found = read_table(tmp_path / f"wide{suffix}")
    assert list(found) == list(wide)
    np.testing.assert_array_equal(found, wide)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,x\n2,y\n",
        "a,b\r\n1,x\r\n2,y\r\n",
        "a,b\r1,x\r2,y",
        "\ufeffa,b\n1,x\n2,y",
        '\ufeff"a","b"\n1,"x"\n2,y\n',
        "a,b\n1,x\n\n2,y\n\n\n",
        "\r\na,b\r\n1,x\r\n\r\n2,y\r\n  \r\n",
    ],
)
def test_line_ends_blank_lines_and_byte_order_marks(tmp_path, text):
    (tmp_path / "t.csv").write_bytes(text.encode())
    expected = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), expected)
    pd.testing.assert_frame_equal(pd.concat(read_chunks(tmp_path / "t.csv", rows=1)), expected)


def test_text_of_code_stays_text(tmp_path):
    texts = ["=1+1", "__import__('os').getcwd()", "{{7*7}}", "$(id)", "<script>1</script>"]
    path = raw(tmp_path / "t.csv", "\n".join(["a,b", *(f'"{text}",1' for text in texts)]).encode())
    assert open_table(path).read()["a"].tolist() == texts


def test_quotes_within_words(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n5" pipe,1\nx""y,2\n"""z""",3\n')
    assert read_table(tmp_path / "t.csv")["a"].tolist() == ['5" pipe', 'x""y', '"z"']
    (tmp_path / "one.csv").write_text('a\nu"v,w"x\n')
    with pytest.raises(ValueError, match="line 2 has 2 fields, and the header has 1"):
        read_table(tmp_path / "one.csv")


def test_text_beyond_one_block(tmp_path):
    # characters, quotes and line ends straddle the blocks in which the file is checked
    words = ["ä" * 7 + '"\r\n,' + "x" * (i % 13) for i in range(150_000)]
    frame = pd.DataFrame({"word": words, "n": range(150_000)})
    write_table([frame], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").stat().st_size > 3 << 20
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), frame)
    with (tmp_path / "t.csv").open("ab") as file:
        file.write(b"x,1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv: line 300002 has 3 fields"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("block", [4, 5, 7])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('a,b\r\n"x\r\n""y",2\r\n5" pipe,é\r\n', None),
        ("\ufeffa,b\r1,2\r\r3,4", None),
        ("a,b\n1,2\n\n3\n", "line 4 has 1 fields"),
        ('a,b\n"1\n",2\nx",y,z\n4,5\n', "line 4 has 3 fields"),
        ('a,b\n1,2\n"3,4\n5,6', "the row on lines 3 to 4 has 1 fields .is a quote left open"),
    ],
)
def test_blocks_end_anywhere(tmp_path, monkeypatch, block, data, message):
    monkeypatch.setattr("unbag.tables.text_formats._BLOCK", block)
    (tmp_path / "t.csv").write_bytes(data.encode())
    if message is None:
        assert read_table(tmp_path / "t.csv").shape == (2, 2)
    else:
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / "t.csv")


def test_a_row_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("unbag.tables.text_formats._LONGEST_ROW", 1 << 20)
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n3," + b"4" * (2 << 20))
    with pytest.raises(ValueError, match=r"t\.csv: the row on line 3 is longer than 1 MB"):
        read_table(tmp_path / "t.csv")


def test_errors_say_which_column(tmp_path):
    write_table([mixed()], tmp_path / "t.csv")
    with pytest.raises(TableError, match=r"t\.csv has no column 'nom' to keep"):
        open_table(tmp_path / "t.csv").need(["whole", "nom"], "to keep")
    with pytest.raises(ColumnError) as found:
        convert(pd.Series([1, "x"], index=[5, 6], name="n"), "number")
    assert (found.value.column, found.value.row, found.value.value) == ("n", 6, "x")


# --- types in chunks ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_types_are_the_same_in_all_chunks(tmp_path, suffix):
    frame = pd.DataFrame(
        {
            "gap late": [1, 2, 3, None, 5, 6],
            "half late": [1.0, 2, 3, 4, 5, 6.5],
            "truth": pd.array([True, False, None, None, True, True], "boolean"),
            "empty first": [None, None, None, None, "x", "y"],
            "never": [np.nan] * 6,
        }
    )
    path = tmp_path / f"t{suffix}"
    plain = frame.assign(truth=frame["truth"].astype(object).where(frame["truth"].notna(), None))
    pd.testing.assert_frame_equal(_written(plain, path), frame)
    chunks = list(read_chunks(path, rows=2))
    assert len({tuple(map(str, chunk.dtypes)) for chunk in chunks}) == 1
    pd.testing.assert_frame_equal(pd.concat(chunks), frame)


def _written(frame, path):
    write_table([frame], path)
    return read_table(path)


def test_text_that_appears_late_makes_the_column_text(tmp_path):
    (tmp_path / "t.csv").write_text("id,n\n007,1\n8,2\nx9,3\n")
    chunks = list(read_chunks(tmp_path / "t.csv", rows=1))
    assert [chunk["id"].item() for chunk in chunks] == ["007", "8", "x9"]
    assert read_table(tmp_path / "t.csv")["id"].tolist() == ["007", "8", "x9"]


def test_types_can_be_given(tmp_path):
    (tmp_path / "t.csv").write_text("code,n,when,ok\n007,1,2020-01-01,1\n008,x,2020-01-02,0\n")
    schema = make_schema(
        pd.DataFrame(
            {
                "code": ["007"],
                "n": [1.5],
                "when": [dt.datetime(2020, 1, 1)],
                "ok": [True],
            }
        )
    )
    first = next(read_chunks(tmp_path / "t.csv", rows=1, types=schema.kinds))
    assert first["code"].tolist() == ["007"]
    assert first["n"].dtype == float
    assert first["when"].tolist() == [pd.Timestamp("2020-01-01")]
    assert first["ok"].dtype == "boolean"
    message = r"t\.csv: .*'n' should hold numbers, but row 2 holds 'x'"
    with pytest.raises(ValueError, match=message):
        list(read_chunks(tmp_path / "t.csv", rows=1, types=schema.kinds))


def test_categories_of_all_chunks(tmp_path):
    frame = pd.DataFrame({"c": pd.Categorical(["u", "v", "w", "u"])})
    write_table([frame], tmp_path / "t.parquet")
    chunks = list(read_chunks(tmp_path / "t.parquet", rows=1))
    assert len({str(chunk["c"].dtype) for chunk in chunks}) == 1
    assert pd.concat(chunks)["c"].tolist() == frame["c"].tolist()


MEMORY = """
import resource, sys
import numpy as np, pandas as pd, pyarrow.parquet
from unbag.tables import open_table, write_table
path, n = sys.argv[1], int(sys.argv[2])
def frames():
    rng = np.random.default_rng(0)
    for start in range(0, n, 20_000):
        frame = pd.DataFrame(rng.normal(size=(20_000, 9))).rename(columns="c{}".format)
        yield frame.assign(word="some words")
next(frames())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_table(frames(), path)
assert sum(map(len, open_table(path).chunks(rows=20_000))) == n
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize("suffix", [".parquet"])
def test_chunks_need_little_memory(tmp_path, suffix):
    # the whole table would be 24 MB of numbers and as much text
    call = [sys.executable, "-c", MEMORY, str(tmp_path / f"t{suffix}"), "300000"]
    megabytes = float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    assert megabytes < 150


# --- damaged and unsuitable files ---------------------------------------------------------------


@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "has columns and no rows"),
        (b"a,b\n1,2\n3\n4,5\n", "line 3 has 1 fields, and the header has 2"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 fields, and the header has 2"),
        (b"a,b\n1,2,3\n4,5,6\n", "line 2 has 3 fields, and the header has 2"),
        (b'a,b\n"1\n",2\n3\n', "line 4 has 1 fields"),
        (b'a,b\n1,2\n"3,4\n5,6\n', "the row on lines 3 to 4 has 1 fields .is a quote left open"),
        (b"a,\xc3\xa9\n1,2\n3,\xe9t\xe9\n", "not UTF-8 text: 0xe9 at byte 11, on line 3"),
        (b"a,b\n1,2\n3,\xe9\x81\n", "not cp1252 text: 0x81 at byte 11, on line 3; .*say which"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "ends within a character, on line 2"),
        (b"a,b\n1,\x00\n", "not UTF-8 text: 0x00 at byte 6, on line 2"),
        (b"a,b\n1,\xc3", "ends within a character, on line 2"),
        (b"a,b,a\n1,2,3\n", "more than one column 'a'"),
        (b"a,\x1b[31m,\x1b[31m\n1,2,3\n", r"more than one column '\\x1b\[31m'"),
    ],
)
def test_text_errors_say_where(tmp_path, data, message, packed):
    path = raw(tmp_path / f"t.csv{packed}", data)
    for read in (
        read_table,
        lambda p: list(read_chunks(p)),
        lambda p: read_table(p, columns=["a"]),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert "t.csv" in str(caught.value)
        assert str(caught.value).isprintable()


def test_wrong_encoding_far_into_the_file(tmp_path):
    text = b"a,\xc3\xa9\n" + b"12345,6\n" * 300_000
    for place in (1 << 20, (1 << 20) - 1, 2_000_001):
        data = bytearray(text)
        data[place] = 0xE4
        (tmp_path / "t.csv").write_bytes(data)
        line = text[:place].count(b"\n") + 1
        with pytest.raises(ValueError, match=f"0xe4 at byte {place}, on line {line};"):
            read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("suffix", TEXT[1:5] + BINARY)
def test_cut_short(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_table([mixed(500)], path)
    whole = path.read_bytes()
    for end in (0, 1, 5, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises((ValueError, OSError), match=f"t{suffix}".replace(".", r"\.")) as caught:
            read_table(path)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("suffix", BINARY)
def test_binary_files_without_rows_or_with_twins(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_table([mixed(3).iloc[:0]], path)
    with pytest.raises(ValueError, match="has columns and no rows"):
        read_table(path)
    with pytest.raises(ValueError, match="has columns and no rows"):
        list(read_chunks(path))
    twins = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    if suffix == ".parquet":
        pa.parquet.write_table(twins, path)
    else:
        with pa.ipc.new_file(path, twins.schema) as sink:
            sink.write_table(twins)
    with pytest.raises(ValueError, match="more than one column 'a'"):
        read_table(path)


def test_names_that_lead_nowhere(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, kind, message in [
        ("folder.csv", OSError, "is a folder without a table in it"),
        ("absent.csv", OSError, "there is no file"),
        ("t.doc", ValueError, r"must end in \.csv"),
        ("t", ValueError, r"must end in \.csv"),
        ("t.gz", ValueError, r"must end in \.csv"),
        ("t.parquet.gz", ValueError, "compressed twice"),
        ("bad\x1b[0m\n.csv", OSError, r"bad\\x1b\[0m\\n\.csv"),
    ]:
        for read in (read_table, read_chunks):
            with pytest.raises(kind, match=message) as caught:
                read(tmp_path / name)
            assert str(caught.value).isprintable()
    write_table([mixed()], tmp_path / "T.CSV.GZ")
    assert len(read_table(tmp_path / "T.CSV.GZ")) == 7
    with pytest.raises(ValueError, match="has no column 'nom'"):
        read_table(tmp_path / "T.CSV.GZ", columns=["whole", "nom"])
    with pytest.raises(ValueError, match="must be a list"):
        read_table(tmp_path / "T.CSV.GZ", columns="whole")
    with pytest.raises(ValueError, match="rows must be at least 1"):
        read_chunks(tmp_path / "T.CSV.GZ", rows=0)


def _start(suffix):
    return st.sampled_from({".parquet": [b"", b"PAR1"]}.get(suffix, [b"", b"ARROW1\0\0", b"a,b\n"]))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.zst", *BINARY[:2]])
@pytest.mark.parametrize("packed", [False, True])
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,  # parsers of text differ in what lone carriage returns mean
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_bytes_give_a_table_or_one_sentence(tmp_path, suffix, packed, data):
    text = st.text(alphabet=' ,\t\r\n"a1é.-', max_size=40).map(str.encode)
    content = data.draw(_start(suffix)) + data.draw(st.binary(max_size=200) | text)
    path = tmp_path / f"t{suffix}"
    if packed:
        raw(path, content)
    else:
        path.write_bytes(content)
    try:
        n_rows, reported = len(read_table(path)), None
    except (ValueError, OSError) as error:
        n_rows, reported = 0, str(error)
    if reported is None:
        assert n_rows
        assert sum(map(len, read_chunks(path, rows=2))) == n_rows
    else:
        assert f"t{suffix}" in reported
        assert reported.isprintable()
        with pytest.raises((ValueError, OSError)):
            list(read_chunks(path, rows=2))


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst", ".parquet", ".feather"])
def test_failure_leaves_everything_as_it_was(tmp_path, suffix):
    def failing(error):
        yield mixed()
        raise error

    path = tmp_path / f"t{suffix}"
    for error in (RuntimeError("no more"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            write_table(failing(error), path)
        assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"as it was")
    for frames, message in [
        ([mixed(), mixed()[["whole"]]], "behind row 7 has other columns"),
        ([], "not a single chunk"),
        ([mixed().set_axis(["a", "b", "a", "c"], axis=1)], "more than one column 'a'"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_table(frames, path)
        assert path.read_bytes() == b"as it was"
        assert list(tmp_path.iterdir()) == [path]


def test_a_chunk_of_another_type(tmp_path):
    frames = [pd.DataFrame({"n": [1, 2]}), pd.DataFrame({"n": ["x", "y"]})]
    with pytest.raises(ValueError, match=r"t\.parquet cannot be written as parquet"):
        write_table(frames, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, kind, message in [
        ("folder.csv", OSError, "is a folder"),
        ("no/where.csv", OSError, "the folder of .* does not exist"),
        ("t.doc", ValueError, "cannot be written as a table"),
        ("-", ValueError, "cannot be written as a table"),
    ]:
        with pytest.raises(kind, match=message):
            write_table([mixed()], tmp_path / name)
