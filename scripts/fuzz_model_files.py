"""Damage model files, guided by coverage: loading them ends in one sentence at worst.

    pip install atheris        # Linux, Python 3.11 to 3.14
    python scripts/fuzz_model_files.py -max_total_time=300 [folder of found inputs]

All options are libFuzzer's. An input is one of four things, which its first byte says: a file; the
model in one, whose checksum is then made right; or, put into an archive of otherwise sound parts,
the JSON that describes a model or one of its arrays. Anything but a ValueError, OSError or
MemoryError of one line is a finding: atheris prints the traceback and writes the input into the
current folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import atheris

# following the other libraries would only slow the search down
with atheris.instrument_imports(include=["unbag", "skops"]):
    import skops.io  # noqa: F401

    from unbag.tables.persistence import load_model, save_model

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags

FOLDER = Path(tempfile.mkdtemp(prefix="unbag-fuzz-"))
PATH = FOLDER / "m.unbag"


def members(content: bytes) -> dict[str, bytes]:
    """Unpack an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: Mapping[str, bytes]) -> bytes:
    """Pack it again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def sound_file() -> bytes:
    """Make a small model file."""
    bags = make_gaussian_bags(n_bags=6, bag_size=5, random_state=0)
    return save_model(LLPClassifier(kernel=None).fit(bags.X, bags.y), PATH).read_bytes()


SOUND = sound_file()
PARTS = members(SOUND)
HEADER = json.loads(PARTS["header.json"])
MODEL = members(PARTS["model.skops"])
ARRAY = next(name for name in MODEL if name.endswith(".npy"))


def with_model(payload: bytes) -> bytes:
    """Make a file around a model, with the right checksum."""
    header = HEADER | {"sha256": hashlib.sha256(payload).hexdigest()}
    return packed({"header.json": json.dumps(header).encode(), "model.skops": payload})


def as_file(data: bytes) -> bytes:
    """Make the file that an input stands for."""
    kind, content = data[:1], data[1:]
    if kind == b"m":
        return with_model(content)
    if kind == b"j":
        return with_model(packed(MODEL | {"schema.json": content}))
    if kind == b"a":
        return with_model(packed(MODEL | {ARRAY: content}))
    return content


def load(data: bytes) -> None:
    """Load one file."""
    PATH.write_bytes(as_file(data))
    try:
        load_model(PATH)
    except (ValueError, OSError, MemoryError) as error:
        if "\n" in str(error) or PATH.name not in str(error):
            raise RuntimeError(f"not one sentence that names the file: {error}") from error


def main() -> None:
    """Start from sound inputs of the four kinds."""
    seeds = FOLDER / "seeds"
    seeds.mkdir()
    (seeds / "file").write_bytes(b"f" + SOUND)
    (seeds / "model").write_bytes(b"m" + PARTS["model.skops"])
    compact = json.dumps(json.loads(MODEL["schema.json"])).encode()
    (seeds / "json").write_bytes(b"j" + compact)
    (seeds / "array").write_bytes(b"a" + MODEL[ARRAY])
    warnings.simplefilter("ignore")
    longest = f"-max_len={2 * len(SOUND)}"
    atheris.Setup([sys.argv[0], longest, *sys.argv[1:], str(seeds)], load)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
