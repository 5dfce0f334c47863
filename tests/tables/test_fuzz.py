"""Files that nobody meant to write: readers and the loader of models end in one sentence at worst.

A few hundred examples, always the same. ``UNBAG_FUZZ=20000 pytest tests/tables/test_fuzz.py``
tries so many of each kind, new ones every time; ``scripts/fuzz_model_files.py`` forges them in
structure.
"""

import copy
import hashlib
import io
import json
import os
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.tables import open_table, write_table
from unbag.tables.features import make_features
from unbag.tables.persistence import describe_model, load_model, save_model

sio = pytest.importorskip("skops.io")

MANY = os.environ.get("UNBAG_FUZZ")
SUFFIXES = [".csv", ".tsv", ".csv.gz", ".csv.bz2", ".tsv.xz", ".csv.zst", ".parquet", ".feather"]
LONGEST = 10  # seconds of processor time that one file may take


def fuzz(n_examples):
    return settings(
        max_examples=int(MANY) if MANY else n_examples,
        derandomize=not MANY,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def read_table(path, **options):
    return open_table(path).read(**options)


def read_chunks(path, **options):
    return open_table(path).chunks(**options)


def one_sentence(read, path):
    """Give what is read, or None if there is an error as there should be."""
    start = time.process_time()
    found, reported = None, path.name
    try:
        found = read(path)
    except (ValueError, OSError, MemoryError) as error:
        reported = str(error)
    assert time.process_time() - start < LONGEST
    assert path.name in reported
    assert "\n" not in reported
    return found


@st.composite
def damages(draw, content):
    """Damage bytes in a few places: flip, cut, insert, repeat, blank."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        # as often near the ends, where formats keep their structure, as anywhere
        edge = min(len(content), 120)
        place = draw(st.integers(0, len(content)) | st.integers(-edge, edge)) % (len(content) + 1)
        length = draw(st.integers(1, 9) | st.integers(1, 2000))
        what = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "blank", "end"]))
        part = content[place : place + length]
        if what == "flip":
            part = bytes(byte ^ draw(st.integers(1, 255)) for byte in part[:4]) + part[4:]
        elif what == "cut":
            part = b""
        elif what == "insert":
            part = draw(st.binary(min_size=1, max_size=12)) + part
        elif what == "repeat":
            part = part * 3
        elif what == "blank":
            part = bytes([draw(st.sampled_from([0, 10, 34, 44, 255]))]) * len(part)
        content[place : None if what == "end" else place + length] = part
    return bytes(content)


# --- readers ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Sound files of every format, as bytes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=60),
            "whole": np.arange(60),
            "text": ['two "words"', "a,b", None, "line\nend", "é", "7"] * 10,
            "flag": rng.uniform(size=60) < 0.5,
            "time": pd.date_range("2024-01-01", periods=60),
        }
    )
    folder = tmp_path_factory.mktemp("tables")
    for suffix in SUFFIXES:
        write_table([frame[:40], frame[40:]], folder / f"t{suffix}")
    return {suffix: (folder / f"t{suffix}").read_bytes() for suffix in SUFFIXES}


@pytest.mark.parametrize("suffix", SUFFIXES)
@fuzz(30)
@given(data=st.data())
def test_damaged_tables(suffix, data, tables, tmp_path):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(data.draw(damages(tables[suffix])))
    names = one_sentence(lambda p: open_table(p).names, path)
    whole = one_sentence(read_table, path)
    chunks = one_sentence(lambda p: list(read_chunks(p, rows=7)), path)
    if whole is not None:
        assert list(whole) == names
        assert len(whole) == sum(map(len, chunks))


def test_arrow_text_that_points_outside_the_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    buffers = [pa.py_buffer(np.array([0, 1 << 30, 4], np.int32)), pa.py_buffer(b"abcd")]
    lying = pa.StringArray.from_buffers(2, *buffers)
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), lying], names=["number", "text"])
    path = tmp_path / "t.arrow"
    with pa.ipc.new_stream(path, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(ValueError, match=r"t\.arrow cannot be read as arrow"):
        read_table(path)
    assert read_table(path, columns=["number"])["number"].tolist() == [1, 2]


GAPS = pd._libs.parsers.STR_NA_VALUES
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@pytest.mark.parametrize("suffix", SUFFIXES)
@fuzz(20)
@given(data=st.data())
def test_round_trip_of_any_text(suffix, data, tmp_path):
    header = data.draw(st.lists(names, min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.tuples(*[texts] * len(header)), min_size=1, max_size=5))
    # a line of nothing but spaces is a row to nobody
    assume(len(header) > 1 or all(row[0].strip(" \t\ufeff") for row in rows))
    assume(header[0].strip(" \t") and not header[0].startswith("\ufeff"))
    path = tmp_path / f"t{suffix}"
    frame = pd.DataFrame(rows, columns=header, dtype="str")
    assert write_table([frame], path) == len(rows)
    kinds = dict.fromkeys(header, "category")
    for found in (read_table(path, types=kinds), *read_chunks(path, types=kinds)):
        assert list(found) == header
        is_text = suffix not in (".parquet", ".feather")
        for name, column in zip(header, zip(*rows, strict=True), strict=True):
            wanted = [None if is_text and value in GAPS else value for value in column]
            assert [None if pd.isna(value) else value for value in found[name]] == wanted


# --- models -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """A model as `unbag fit` makes it, as bytes."""
    bags = make_gaussian_bags(n_bags=12, bag_size=10, n_features=2, random_state=0)
    X = pd.DataFrame(bags.X, columns=["a", "b"]).assign(c=np.resize(["x", "y", None], 120))
    X.loc[::7, "a"] = np.nan
    model = make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(X, bags.y)
    return save_model(model, tmp_path_factory.mktemp("model") / "m.unbag").read_bytes()


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(parts):
    """Pack pairs of name and content, twins included."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in parts:
            packed.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def forged(path, file, payload):
    """Write a file around another model, with a checksum that is right."""
    header = json.loads(members(file)["header.json"])
    header["sha256"] = hashlib.sha256(payload).hexdigest()
    parts = {"header.json": json.dumps(header), "model.skops": payload}
    path.write_bytes(archive(parts.items()))
    return path


def check_load(path):
    one_sentence(describe_model, path)
    one_sentence(load_model, path)


@fuzz(100)
@given(data=st.data())
def test_damaged_model_files(data, model_file, tmp_path):
    path = tmp_path / "m.unbag"
    path.write_bytes(data.draw(damages(model_file)))
    check_load(path)


@fuzz(60)
@given(data=st.data())
def test_damaged_models_with_the_right_checksum(data, model_file, tmp_path):
    payload = data.draw(damages(members(model_file)["model.skops"]))
    check_load(forged(tmp_path / "m.unbag", model_file, payload))


@fuzz(60)
@given(data=st.data())
def test_members_that_change_places(data, model_file, tmp_path):
    parts = members(members(model_file)["model.skops"])
    order = data.draw(st.permutations(list(parts)))
    mixed = list(zip(parts, map(parts.get, order), strict=True))
    fixed = data.draw(st.booleans())  # the description of the model stays, its arrays move
    mixed = [(name, parts[name] if fixed and name == "schema.json" else c) for name, c in mixed]
    dropped = data.draw(st.sets(st.integers(0, len(mixed) - 1), max_size=1))
    mixed = [part for i, part in enumerate(mixed) if i not in dropped]
    if data.draw(st.booleans()):
        name, content = data.draw(st.sampled_from(mixed))
        mixed.append((f"{name}.more", data.draw(damages(content))))
    check_load(forged(tmp_path / "m.unbag", model_file, archive(mixed)))


def places(tree):
    """Every place in a tree of JSON, as the container and the key in it."""
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            found.append((node, key))
            if isinstance(value, dict | list):
                todo.append(value)
    return found


ODD = [None, True, -1, 0, 10**30, 1e308, "", "x", "0", [], {}, [[]], {"__id__": 1}, "a" * 10_000]
ODD += ["builtins", "numpy", "ndarray", "object", "eval", "float64", "unbag.models", "ListNode"]
ODD += ["TypeNode", "ObjectNode", "ReduceNode", "MethodNode", "NdArrayNode", "schema.json", "list"]


@fuzz(150)
@given(data=st.data())
def test_edited_descriptions(data, model_file, tmp_path):
    parts = members(members(model_file)["model.skops"])
    tree = json.loads(parts["schema.json"])
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(tree)
        node, key = found[data.draw(st.integers(0, len(found) - 1))]
        what = data.draw(st.sampled_from(["odd", "other", "delete", "same key"]))
        if what == "delete":
            del node[key]
        elif what == "odd":
            node[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        else:  # what stands elsewhere, anywhere or under the same key
            others = [p for p in found if p[1] == key] if what == "same key" else found
            other, place = others[data.draw(st.integers(0, len(others) - 1))]
            node[key] = copy.deepcopy(other[place])
    parts["schema.json"] = json.dumps(tree).encode()
    check_load(forged(tmp_path / "m.unbag", model_file, archive(parts.items())))
