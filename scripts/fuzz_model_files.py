"""Forge model files in structure: what is loaded scores as it says, and nothing crashes, hangs or blows up.

    python scripts/fuzz_model_files.py --minutes 20 --jobs 2 [--trees]

Files of every kind of model are taken apart, and one to three of their parts are changed: settings,
types, shapes and entries of arrays, levels, vocabularies, fields of trees, members, bytes. The
checksum is made right, so that all of it reaches the loader. A file is refused in one sentence, or
what was loaded scores rows: then it scores as a plain second implementation of what the file says
does, and as the same model saved once more. Anything else is a finding and is kept in the folder
``--findings``, by its number: the same number makes the same file.

With ``--trees``, the text of boosted trees alone is forged, a hundred times faster: the one part that native
code reads.

Files are tried in processes of limited memory; one that dies or takes too long is a finding, too.
"""

from __future__ import annotations

import argparse
import copy
import gc
import io
import json
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unbag import LLPBoostingClassifier, LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.tables import make_classifier
from unbag.tables.persistence import _build, _serialise
from unbag.terms.columns import CategoryTerm
from unbag.terms.kernel import KernelTerm

LIMIT = 3 << 30  # bytes of memory that a process may have
LARGE = 1 << 20  # KiB of memory in use that no file should need, be it refused or not
LONGEST = 10.0  # seconds of processor time that one file may take
WORDS = ["red", "green", "blue", "black", "white", "grey", "brown", "pink"]
ODD: list[Any] = [None, True, False, -1, 0, 1, 2, 3, 7, 255, 10**6, 10**9, 2**31, 2**63, -(2**31)]
ODD += [0.5, 1e308, "", "x", "0", "nan", "float32", "float64", "object", "U99999999", [], {}, [0]]
ODD += ["filename", "file", "/etc/passwd", "auto", "kernel", "passthrough", "drop", "(rare)", "red"]
ODD_NUMBERS = ["-1", "0", "1", "2", "3", "-2", "-5", "100", "2147483648", "nan", "inf", "1_0", "+1"]
ODD_NUMBERS += ["1.0", "1e0", "0x1", "\u0661", "1e400", "", "\t1", "1\r"]
ODD_LINES = [
    "average_output",
    "linear_tree=1",
    "is_linear=1",
    "num_cat=1",
    "end of trees",
    "Tree=0",
]
ODD_LINES += [
    "leaf_value=1 2 3 4",
    "split_feature=9 9 9",
    "pandas_categorical:[[1]]",
    "loaded=\x00",
]
CLASSES = ["builtins.list", "builtins.dict", "builtins.str", "builtins.int", "numpy.ndarray"]
CLASSES += ["numpy.float32", "numpy.int64", "numpy.object_", "os.system", "builtins.eval"]
CLASSES += ["sklearn.feature_extraction.text.CountVectorizer", "sklearn.pipeline.Pipeline"]
CLASSES += ["unbag.models.mixed.LLPClassifier", "unbag.terms.columns.NumberTerm"]


# --- sound files ----------------------------------------------------------------------------------


def members(content: bytes) -> dict[str, bytes]:
    """Unpack an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes]) -> bytes:
    """Pack it again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def sound_models() -> tuple[pd.DataFrame, dict[str, Any], dict[str, Any]]:
    """Rows to score, and a model of each kind with the features that these are made of."""
    bags = make_gaussian_bags(n_bags=8, bag_size=20, n_features=2, random_state=0)
    three = make_gaussian_bags(n_bags=9, bag_size=20, n_classes=3, n_features=2, random_state=0)
    rng, n = np.random.default_rng(0), len(bags.X)
    table = pd.DataFrame(bags.X, columns=["a", "b"]).assign(
        c=np.resize(["x", "y", "z", None], n),
        t=pd.date_range("2024-01-01", periods=n, freq="7h"),
        s=[" ".join(rng.choice(WORDS, 4)) for _ in range(n)],
    )
    table.loc[::7, "a"] = np.nan
    small = {"n_estimators": 3, "num_leaves": 4, "cv": None}
    boosted = make_classifier("boosted").set_params(**{f"model__{k}": v for k, v in small.items()})
    models = {
        "linear": make_classifier("linear").fit(table, bags.y),
        "kernel": make_classifier("auto").set_params(model__n_landmarks=15).fit(table, bags.y),
        "boosted": boosted.fit(table, bags.y),
        "alone": LLPClassifier(kernel=None).fit(table[["a", "b", "c"]], bags.y),
        "trees": LLPBoostingClassifier(**small).fit(three.X, three.y),
        "three": LLPClassifier(n_landmarks=8).fit(three.X, three.y),
    }
    rows = dict.fromkeys(models, table.iloc[:5])
    rows["alone"] = table[["a", "b", "c"]].iloc[:5]
    rows |= dict.fromkeys(["trees", "three"], three.X[:5])
    return table, models, rows


# --- what a file says -----------------------------------------------------------------------------


def plain_scores(model: Any, X: Any) -> np.ndarray:
    """Scores by loops over the fitted numbers, which share no code with the library's."""
    final, rows = model, X
    if hasattr(model, "steps"):
        final, rows = model[-1], model[:-1].transform(X)
    if isinstance(final, LLPBoostingClassifier):
        found = plain_trees(final, np.asarray(rows, dtype=float))
    else:
        found = plain_function(final, rows)
    return found[:, 0] if found.shape[1] == 1 else found


def plain_function(model: Any, rows: Any) -> np.ndarray:
    """Scores of a mixed model."""
    f = model.function_
    if isinstance(rows, pd.DataFrame):
        numbers = rows[f.encoder.number_names].to_numpy(dtype=float)
        texts = rows[f.encoder.category_names].astype(object)
        texts = texts.where(texts.notna(), "(missing)").to_numpy()
    else:
        numbers, texts = np.asarray(rows, dtype=float), np.empty((len(rows), 0), dtype=object)
    found = np.zeros((len(numbers), len(f.theta)))
    for i, (values, names) in enumerate(zip(numbers, texts, strict=True)):
        codes = [
            levels.index(name) if name in levels else -1
            for name, levels in zip(names, f.encoder.levels, strict=True)
        ]
        features = np.zeros(f.theta.shape[1])
        features[0] = 1.0
        for term, place in zip(f.terms, f.columns, strict=True):
            if isinstance(term, CategoryTerm):
                phi = np.zeros(len(term.names))
                if codes[term.place] >= 0:
                    phi[codes[term.place]] = 1.0
            elif isinstance(term, KernelTerm):
                point = np.concatenate(
                    [np.zeros(0), *(standard(one, values) for one in term.numbers)]
                )
                gamma, near = term.gamma, []
                for landmark, code in zip(term.landmarks, term.codes, strict=True):
                    differ = sum(a != b for a, b in zip(codes, code, strict=True))
                    near.append(np.exp(-gamma * (((point - landmark) ** 2).sum() + 2 * differ)))
                phi = np.array(near) @ term.transform - term.mean
            else:
                phi = standard(term, values)
            features[place] = phi
        found[i] = f.theta @ features + f.offset
    return found


def standard(term: Any, values: np.ndarray) -> np.ndarray:
    """Columns of a term for one row."""
    own = [values[place] for place in term.places]
    marks = [float(np.isnan(own[i])) for i in term.missing_columns]
    filled = [m if np.isnan(v) else v for v, m in zip(own, term.means, strict=False)]
    found = np.array(filled + marks) - term.means
    return found / term.scales


def plain_trees(model: Any, rows: np.ndarray) -> np.ndarray:
    """Scores of boosted trees, walked through as their text says."""
    shares = np.maximum([model.class_prior_, model.empirical_prior_], 1e-304)
    moved = np.log(shares[0]) - np.log(shares[1])
    n_outputs = 1 if len(moved) == 2 else len(moved)
    moved = moved[1:] - moved[:1] if n_outputs == 1 else moved
    filled = np.where(np.isnan(rows), model.start_fill_, rows)
    found = filled @ model.start_coef_.T + model.start_intercept_ + moved
    for i, text in enumerate(model.trees_.partition("\nend of trees")[0].split("\nTree=")[1:]):
        tree = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        leaves = [float(v) for v in tree["leaf_value"].split()]
        sides = [
            [int(v) for v in tree.get(name, "").split()] for name in ("left_child", "right_child")
        ]
        for row, values in enumerate(rows):
            node = 0 if sides[0] else -1
            while node >= 0:
                value = values[int(tree["split_feature"].split()[node])]
                kind = int(tree["decision_type"].split()[node])
                missing = (kind >> 2) & 3
                value = 0.0 if np.isnan(value) and missing != 2 else value
                if (missing == 2 and np.isnan(value)) or (missing == 1 and abs(value) <= 1e-35):
                    left = bool(kind & 2)
                else:
                    left = value <= float(tree["threshold"].split()[node])
                node = sides[0 if left else 1][node]
            found[row, i % n_outputs] += leaves[-node - 1]
    return found


# --- forged files ---------------------------------------------------------------------------------


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree of JSON, as the container and the key in it."""
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            found.append((node, key))
            if isinstance(value, dict | list):
                todo.append(value)
    return found


def forge_setting(rng: random.Random, tree: Any, _: dict[str, bytes]) -> None:
    """Change a value that is kept as JSON: a parameter, a name, a level, a place in a vocabulary."""
    nodes = [c for c, k in places(tree) if k == "content" and c.get("is_json")]
    try:
        node = rng.choice(nodes)
        value = json.loads(node["content"])
    except (IndexError, TypeError, ValueError):  # forged before
        return
    if isinstance(value, str) and value.startswith("tree\n"):
        new: Any = forge_trees(rng, value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
        new = rng.choice([value + 1, value - 1, -value, value * 1000, float(value)])
    else:
        new = rng.choice(ODD)
    node["content"] = json.dumps(new)


def forge_trees(rng: random.Random, text: str) -> str:
    """Change a field of the trees, or add a line."""
    lines = text.split("\n")
    if rng.random() < 0.1:
        lines.insert(rng.randrange(1, len(lines)), rng.choice(ODD_LINES))
        return "\n".join(lines)
    chosen = [i for i, line in enumerate(lines) if "=" in line]
    i = rng.choice(chosen)
    name, _, value = lines[i].partition("=")
    entries = value.split(" ")
    at = rng.randrange(len(entries))
    what = rng.random()
    if what < 0.6:
        entries[at] = rng.choice(ODD_NUMBERS)
    elif what < 0.8:
        del entries[at]
    else:
        entries.insert(at, rng.choice(entries))
    lines[i] = f"{name}={' '.join(entries)}"
    trees = "\n".join(lines).partition("\nend of trees")[0].split("\nTree=")[1:]
    if rng.random() < 0.7:  # so that LightGBM gets to see it
        sizes = " ".join(str(len(f"Tree={tree}\n")) for tree in trees)
        lines = [
            f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in lines
        ]
    return "\n".join(lines)


def forge_array(rng: random.Random, _: Any, parts: dict[str, bytes]) -> None:
    """Change entries, shape or type of an array."""
    names = [name for name in parts if name.endswith(".npy")]
    name = rng.choice(names)
    try:
        array = np.load(io.BytesIO(parts[name]), allow_pickle=False)
    except Exception:  # forged before; NumPy has no one error for damage
        return
    what = rng.choice(["entry", "entry", "shorter", "longer", "turned", "type", "other", "bytes"])
    if what == "entry" and array.size and array.dtype.kind in "if":
        array = array.copy()
        new = rng.choice([-1, 0, 1, 2, 100, 2**31 - 1, 0.5, 1e300, -1e300, np.nan, np.inf])
        with np.errstate(all="ignore"):
            array.flat[rng.randrange(array.size)] = np.array(new).astype(array.dtype)
    elif what == "shorter" and array.ndim:
        array = array[: rng.randrange(len(array) + 1)]
    elif what == "longer" and array.ndim:
        array = np.concatenate([array] * rng.randrange(2, 4))
    elif what == "turned":
        array = rng.choice([array.T, array.reshape(-1), array[None], array.reshape(-1)[:1]])
    elif what == "type":
        array = array.astype(rng.choice(["f4", "i4", "i8", "U5", "?", "c16", "f8"]))
    elif what == "other":
        parts[name] = parts[rng.choice(names)]
        return
    elif what == "bytes":
        content = bytearray(parts[name])
        content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        parts[name] = bytes(content)
        return
    buffer = io.BytesIO()
    np.save(buffer, array)
    parts[name] = buffer.getvalue()


def forge_structure(rng: random.Random, tree: Any, _: dict[str, bytes]) -> None:
    """Take out, repeat, rename, retype or exchange parts of the description."""
    found = places(tree)
    container, key = rng.choice(found)
    what = rng.choice(["delete", "repeat", "rename", "class", "exchange", "exchange", "odd"])
    if what == "delete":
        del container[key]
    elif what == "repeat" and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif what == "rename" and isinstance(container, dict):
        names = [k for _, k in found if isinstance(k, str)]
        container[rng.choice(names)] = container.pop(key)
    elif what == "class":
        classes = [c for c, k in found if k == "__class__"]
        node = rng.choice(classes)
        module, _, name = rng.choice(CLASSES).rpartition(".")
        node["__module__"], node["__class__"] = module, name
    elif what == "odd":
        container[key] = copy.deepcopy(rng.choice(ODD))
    else:
        same = [p for p in found if p[1] == key] if rng.random() < 0.7 else found
        other, place = rng.choice(same)
        container[key] = copy.deepcopy(other[place])


FORGERIES = [forge_setting, forge_setting, forge_array, forge_array, forge_structure]


def forge(payload: bytes, rng: random.Random) -> bytes:
    """Change one to three parts of a model."""
    if rng.random() < 0.02:  # bytes of the archive itself
        content = bytearray(payload)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        return bytes(content)
    parts = members(payload)
    tree = json.loads(parts.pop("schema.json"))
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(FORGERIES)(rng, tree, parts)
    return packed(parts | {"schema.json": json.dumps(tree).encode()})


# --- trying them ----------------------------------------------------------------------------------


def try_file(payload: bytes, X: Any, save: bool = True) -> str:
    """Load and score: what became of it."""
    try:
        model = _build(Path("m.unbag"), payload, (), {"unbag": "0"})
    except ValueError as error:
        if "\n" in str(error) or "m.unbag" not in str(error):
            raise RuntimeError(f"not one sentence that names the file: {error}") from error
        return "refused"
    if not hasattr(model, "decision_function"):
        return "no model"
    try:
        scores = np.asarray(model.decision_function(X), dtype=float)
    except MemoryError:
        raise
    except Exception:  # an error of Python, whatever its kind, is an end that harms nobody
        return "does not score"
    with np.errstate(all="ignore"):
        try:
            expected = plain_scores(model, X)
        except Exception:
            return "scores, and is beyond the second implementation"
        sound = np.isfinite(scores) & np.isfinite(expected)  # beyond the largest number, anything
        if not np.allclose(scores[sound], expected[sound], rtol=1e-6, atol=1e-8):
            raise RuntimeError(f"scores {scores} where the file says {expected}")
    if not save:  # saving takes as long as all the rest
        return "scores as it says"
    again = _build(Path("m.unbag"), _serialise(model), (), {"unbag": "0"})
    if not np.array_equal(again.decision_function(X), scores, equal_nan=True):
        raise RuntimeError("another score when saved once more")
    return "scores as it says"


def try_trees(model: Any, text: str, X: Any) -> str:
    """Score by a text of trees: what became of it."""
    model.trees_ = text
    try:
        scores = model.decision_function(X)
    except ValueError:
        return "refused"
    expected = plain_scores(model, X)
    if not np.allclose(scores, expected, rtol=1e-6, atol=1e-8):
        raise RuntimeError(f"scores {scores} where the trees say {expected}")
    return "scores as it says"


def work(
    first: int, step: int, end: float, at: Any, counts: Any, findings: Path, trees: bool
) -> None:
    """Try every ``step``-th file from the first, as long as there is time."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, models, rows = sound_models()
    sound = {name: _serialise(model) for name, model in models.items()}
    for name, payload in sound.items():
        found = try_file(payload, rows[name])
        if found != "scores as it says":
            raise RuntimeError(f"the sound file of {name}: {found}")
    # kinds of small files more often: more files in the same time
    names = [*sound, "alone", "trees", "trees", "three"]
    number, sound_trees = first, models["trees"].trees_
    gc.disable()
    while time.time() < end:
        at.value = number
        if number % 500 < step:
            gc.collect()
        signal.setitimer(signal.ITIMER_PROF, LONGEST)  # nobody handles it: it ends the process
        rng = random.Random(number)
        name = names[number % len(names)]
        try:
            if trees:
                text = sound_trees
                for _ in range(rng.choice([1, 1, 2, 3])):
                    text = forge_trees(rng, text)
                found = try_trees(models["trees"], text, rows["trees"])
            else:
                payload = forge(sound[name], rng)
                found = try_file(payload, rows[name], save=rng.random() < 0.1)
        except Exception:
            found = "FINDING"
            (findings / f"{number}.txt").write_text(f"{name}\n{traceback.format_exc()}")
        counts.put((first, found))
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LARGE:
            sys.exit("took too much memory")  # a finding; another process goes on
        number += step


def main() -> int:
    """Share the numbers out, and watch over those who try them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trees", action="store_true", help="forge the text of trees alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument(
        "--findings", type=Path, default=Path(tempfile.gettempdir()) / "unbag-findings"
    )
    options = parser.parse_args()
    options.findings.mkdir(exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    end, counts, seen = time.time() + 60 * options.minutes, spawn.Queue(), Counter[str]()
    begin = time.time()

    def start(first: int) -> tuple[Any, Any]:
        at = spawn.Value("q", first)
        process = spawn.Process(
            target=work,
            args=(first, options.jobs, end, at, counts, options.findings, options.trees),
        )
        process.start()
        return process, at

    running = [start(options.first + i) for i in range(options.jobs)]
    printed = begin
    while running:
        time.sleep(0.2)
        while not counts.empty():
            seen[counts.get()[1]] += 1
        if time.time() > printed + 300:
            printed = time.time()
            print(f"{sum(seen.values()):,} files so far, {seen['FINDING']} findings", flush=True)
        for i, (process, at) in reversed(list(enumerate(running))):
            if not process.is_alive():
                process.join()
                running.pop(i)
                if process.exitcode != 0:
                    seen["FINDING"] += 1
                    reason = f"ended the process: {process.exitcode}\n"
                    (options.findings / f"{at.value}.txt").write_text(reason)
                    if time.time() < end:
                        running.append(start(at.value + options.jobs))
    while not counts.empty():
        seen[counts.get()[1]] += 1
    n, seconds = sum(seen.values()), time.time() - begin
    print(f"{n:,} files in {seconds:.0f} s, {n / seconds:.0f} a second")
    for what, count in seen.most_common():
        print(f"{count:10,}  {what}")
    return 1 if seen["FINDING"] else 0


if __name__ == "__main__":
    sys.exit(main())
