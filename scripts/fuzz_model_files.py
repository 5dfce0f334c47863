"""Forge model files in structure: what is loaded scores as it says, and nothing crashes, hangs or blows up.

    python scripts/fuzz_model_files.py --minutes 20 --jobs 2 [--parts | --trees]

Files of every kind of model, and of the transformers that they are made of, are taken apart, and one
to three of their parts are changed: settings, types, shapes and entries of arrays, levels,
vocabularies, fields of trees, members, bytes. The checksum is made right, so that all of it reaches
the loader. A file is refused in one sentence, or what was loaded scores rows: then it scores as a
plain second implementation of what the file says does, and every tenth as the same model saved once
more. Anything else is a finding and is kept in the folder ``--findings``, by its number: the same
number makes the same file.

Small files are tried more often: a part is as easily forged in a file of its own as in a pipeline,
and takes a tenth of the time.

Nearly all of the time goes into unpacking. With ``--parts``, a model that was loaded is changed in place
as a file could have it, checked as the loader does, scored and mended: ten times as many in the same
time. With ``--trees``, the text of boosted trees alone is forged, the one part that native code reads.

Files are tried in processes of limited memory; one that dies or takes too long is a finding, too.
"""

from __future__ import annotations

import argparse
import copy
import gc
import io
import json
import marshal
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from unbag import LLPBoostingClassifier, LLPClassifier, LLPEnsembleClassifier
from unbag.datasets import make_gaussian_bags
from unbag.defaults import LARGEST_INPUT
from unbag.models.neural import LLPNeuralClassifier
from unbag.tables import make_classifier
from unbag.tables.features import make_features
from unbag.tables.mixed_features import MixedFeatures
from unbag.tables.model_contents import check_parts
from unbag.tables.persistence import _build, _serialise
from unbag.terms.columns import CategoryTerm, SparseTerm
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


# How often files of a kind are tried: the larger, the less.
KINDS = {"trees": 12, "three": 8, "sparse": 6, "alone": 4, "network": 4, "ensemble": 4}
KINDS |= {"features": 3, "words": 2, "columns": 1, "linear": 1, "kernel": 1, "boosted": 1}
OUTCOMES = ["refused", "no model", "does not score", "scores as it says"]
OUTCOMES += ["scores, and is beyond the second implementation", "FINDING"]


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


def sound_models() -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a model or transformer of each kind, and three rows for each."""
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
    mixed = LLPClassifier(kernel=None)
    boosted = make_classifier("boosted").set_params(**{f"model__{k}": v for k, v in small.items()})
    both = [("mixed", mixed), ("trees", LLPBoostingClassifier(n_estimators=2, num_leaves=3))]
    narrow, words, counts = table[["a", "c", "t"]], table[["s"]], csr_array(abs(bags.X) // 1)
    fitted = {
        "trees": (LLPBoostingClassifier(**small), three.X, three.y),
        "alone": (mixed, table[["a", "b", "c"]], bags.y),
        "three": (LLPClassifier(n_landmarks=8), three.X, three.y),
        "sparse": (LLPClassifier(kernel=None), counts, bags.y),
        "network": (LLPNeuralClassifier(hidden=2, max_epochs=2), bags.X, bags.y),
        "ensemble": (LLPEnsembleClassifier(both, cv=2), bags.X, bags.y),
        "features": (MixedFeatures(), narrow, bags.y),
        "columns": (make_features("float32"), narrow, bags.y),
        "words": (MixedFeatures(), words, bags.y),
        "linear": (make_classifier("linear"), table, bags.y),
        "kernel": (make_classifier("auto").set_params(model__n_landmarks=15), table, bags.y),
        "boosted": (boosted, table, bags.y),
    }
    models = {name: model.fit(X, y) for name, (model, X, y) in fitted.items()}
    return models, {name: X[:3] for name, (_, X, _) in fitted.items()}


# --- what a file says -----------------------------------------------------------------------------


def plain_scores(model: Any, rows: Any) -> np.ndarray:
    """Scores by loops over the fitted numbers, which share no code with the library's."""
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    if isinstance(model, LLPBoostingClassifier):
        found = plain_trees(model, np.asarray(rows, dtype=float))
    elif isinstance(model, LLPNeuralClassifier):
        found = plain_network(model, np.asarray(rows, dtype=float))
    elif isinstance(model, LLPEnsembleClassifier):
        parts = [plain_scores(one, rows) for one in model.estimators_]
        parts = [scores.reshape(len(rows), -1) for scores in parts]
        found = sum(
            weight * (scores + log_shares(model.empirical_prior_, one.class_prior_))
            for weight, scores, one in zip(model.weights_, parts, model.estimators_, strict=True)
        ) + log_shares(model.class_prior_, model.empirical_prior_)
    else:
        found = plain_function(model, rows)
    return found[:, 0] if found.shape[1] == 1 else found


def log_shares(shares: Any, others: Any) -> np.ndarray:
    """Logarithms of quotients; of two classes, the difference."""
    found = np.log(np.maximum(shares, 1e-304)) - np.log(np.maximum(others, 1e-304))
    return found[1:] - found[:1] if len(found) == 2 else found


def plain_network(model: Any, rows: np.ndarray) -> np.ndarray:
    """Scores of a network of one hidden layer."""
    w = {name: weights.astype(float) for name, weights in model.weights_.items()}
    z = (rows - w["mean"]) / w["scale"]
    z = z / np.sqrt(1 + (z / LARGEST_INPUT) ** 2)
    z = np.maximum(z @ w["layers.0.weight"].T + w["layers.0.bias"], 0)
    found = z @ w["layers.2.weight"].T + w["layers.2.bias"]
    return found + log_shares(model.class_prior_, model.training_shares_)


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
            elif isinstance(term, SparseTerm):
                phi = values / term.scale
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
    moved = log_shares(model.class_prior_, model.empirical_prior_)
    n_outputs = len(moved)
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
    node["content"] = json.dumps(forged_value(rng, value))


def forged_value(rng: random.Random, value: Any) -> Any:
    """Something else for a number, a text or nothing."""
    if isinstance(value, str) and value.startswith("tree\n"):
        return forge_trees(rng, value)
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice([value + 1, value - 1, -value, value * 1000, float(value)])
    return copy.deepcopy(rng.choice(ODD))


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
    if not names:
        return
    name = rng.choice(names)
    try:
        array = np.load(io.BytesIO(parts[name]), allow_pickle=False)
    except Exception:  # forged before; NumPy has no one error for damage
        return
    what = rng.random()
    if what < 0.12:
        parts[name] = parts[rng.choice(names)]
    elif what < 0.25:
        content = bytearray(parts[name])
        content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        parts[name] = bytes(content)
    else:
        buffer = io.BytesIO()
        np.save(buffer, forged_array(rng, array))
        parts[name] = buffer.getvalue()


def forged_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """Another entry, shape or type."""
    what = rng.choice(["entry", "entry", "shorter", "longer", "turned", "type"])
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
    elif what == "type" and array.dtype != object:
        array = array.astype(rng.choice(["f4", "i4", "i8", "U5", "?", "c16", "f8"]))
    return array


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


class Sound:
    """A sound file, from which others are made."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.parts = payload, members(payload)
        self.tree = marshal.dumps(json.loads(self.parts.pop("schema.json")))  # copied the fastest

    def forge(self, rng: random.Random) -> bytes:
        """Change one to three parts of it."""
        if rng.random() < 0.02:  # bytes of the archive itself
            content = bytearray(self.payload)
            for _ in range(rng.randrange(1, 4)):
                content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
            return bytes(content)
        parts, tree = dict(self.parts), marshal.loads(self.tree)
        for _ in range(rng.choice([1, 1, 2, 3])):
            rng.choice(FORGERIES)(rng, tree, parts)
        return packed(parts | {"schema.json": json.dumps(tree).encode()})


class Loaded:
    """A model that was loaded, whose parts are forged in place."""

    def __init__(self, payload: bytes) -> None:
        self.model = _build(Path("m.unbag"), payload, (), {"unbag": "0"})
        self.places = list(part_places(self.model))

    def forge(self, rng: random.Random) -> list[tuple[Any, Any]]:
        """Change one to three of its attributes and entries; return what was there."""
        before = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            container, key = rng.choice(self.places)
            before.append((container, copy.copy(container)))
            try:
                value = container[key]
                if rng.random() < 0.1:
                    del container[key]
                elif rng.random() < 0.2:
                    same = [p for p in self.places if p[1] == key] if rng.random() < 0.7 else []
                    other, at = rng.choice(same or self.places)
                    container[key] = other[at]
                elif isinstance(value, np.ndarray) and rng.random() < 0.9:
                    container[key] = forged_array(rng, value)
                else:
                    container[key] = forged_value(rng, value)
            except (LookupError, ValueError, TypeError, OverflowError):
                continue  # forged before, or an array that cannot be of this type
        return before

    def mend(self, before: list[tuple[Any, Any]]) -> None:
        """Put everything back."""
        for container, old in reversed(before):
            container.clear()
            container.update(old) if isinstance(container, dict) else container.extend(old)


def part_places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every attribute, and every entry of lists and dictionaries."""
    if isinstance(part, tuple):
        for one in part:
            yield from part_places(one)
        return
    own = part if isinstance(part, dict | list) else getattr(part, "__dict__", None)
    if isinstance(part, type) or not isinstance(own, dict | list):
        return
    for key, value in own.items() if isinstance(own, dict) else enumerate(own):
        yield own, key
        yield from part_places(value)


# --- trying them ----------------------------------------------------------------------------------


def try_file(payload: bytes, X: Any, save: bool = True) -> str:
    """Load and score: what became of it."""
    try:
        model = _build(Path("m.unbag"), payload, (), {"unbag": "0"})
    except ValueError as error:
        if "\n" in str(error) or "m.unbag" not in str(error):
            raise RuntimeError(f"not one sentence that names the file: {error}") from error
        return "refused"
    return try_model(model, X, save)


def try_parts(loaded: Loaded, rng: random.Random, X: Any) -> str:
    """Check and score a model with forged parts, and mend it."""
    before = loaded.forge(rng)
    try:
        try:
            check_parts(loaded.model)
        except MemoryError:
            raise
        except Exception:  # as the loader takes it
            return "refused"
        return try_model(loaded.model, X, save=False)
    finally:
        loaded.mend(before)


def try_model(model: Any, X: Any, save: bool) -> str:
    """Score rows: what became of it."""
    steps = hasattr(model, "steps")
    if not (steps or hasattr(model, "decision_function") or hasattr(model, "transform")):
        return "no model"
    try:  # features are made once, for both implementations
        rows = model[:-1].transform(X) if steps else X
        scores = output(model[-1] if steps else model, rows)
    except MemoryError:
        raise
    except Exception:  # an error of Python, whatever its kind, is an end that harms nobody
        return "does not score"
    found = "scores as it says"
    if hasattr(model, "decision_function"):
        try:
            expected = np.asarray(plain_scores(model[-1] if steps else model, rows), dtype=float)
        except Exception:
            expected, found = scores, "scores, and is beyond the second implementation"
        sound = np.isfinite(scores) & np.isfinite(expected)  # beyond the largest number, anything
        if not np.allclose(scores[sound], expected[sound], rtol=1e-6, atol=1e-8):
            raise RuntimeError(f"scores {scores} where the file says {expected}")
    if save:  # which takes as long as all the rest
        again = _build(Path("m.unbag"), _serialise(model), (), {"unbag": "0"})
        if not same(output(again, X), scores):
            raise RuntimeError("another score when saved once more")
    return found


def output(model: Any, X: Any) -> Any:
    """What a model makes of rows: scores, features, or names of categories among them."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=float)
    found = model.transform(X)
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def same(one: Any, other: Any) -> bool:
    """Whether all entries are the same, where none is a number as well."""
    if one.dtype == object:
        return bool(pd.DataFrame(one).equals(pd.DataFrame(other)))
    return bool(np.array_equal(one, other, equal_nan=True))


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


def work(first: int, step: int, end: float, at: Any, counts: Any, options: Any) -> None:
    """Try every ``step``-th file from the first, as long as there is time."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    models, rows = sound_models()
    sound = {name: Sound(_serialise(model)) for name, model in models.items()}
    for name, file in sound.items():
        found = try_file(file.payload, rows[name])
        if found != "scores as it says":
            raise RuntimeError(f"the sound file of {name}: {found}")
    names = [name for name, often in KINDS.items() for _ in range(often)]
    if options.trees:
        names = ["trees"]
    number, sound_trees, loaded = first, models["trees"].trees_, dict[str, Loaded]()
    gc.disable()
    while time.time() < end and number < options.last:
        at.value = number
        if number % 500 < step:
            for name, one in loaded.items():  # nothing may be left of what was forged
                if not same(output(one.model, rows[name]), output(models[name], rows[name])):
                    raise RuntimeError(f"the sound model of {name} scores otherwise by now")
            gc.collect()
        signal.setitimer(signal.ITIMER_PROF, LONGEST)  # nobody handles it: it ends the process
        rng = random.Random(number)
        name = names[number % len(names)]
        try:
            if options.trees:
                text = sound_trees
                for _ in range(rng.choice([1, 1, 2, 3])):
                    text = forge_trees(rng, text)
                found = try_trees(models["trees"], text, rows["trees"])
            elif options.parts:
                if name not in loaded:
                    loaded[name] = Loaded(sound[name].payload)
                found = try_parts(loaded[name], rng, rows[name])
            else:
                payload = sound[name].forge(rng)
                found = try_file(payload, rows[name], save=rng.random() < 0.1)
        except Exception:
            found = "FINDING"
            (options.findings / f"{number}.txt").write_text(f"{name}\n{traceback.format_exc()}")
        counts[place(name, found)] += 1
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LARGE:
            sys.exit("took too much memory")  # a finding; another process goes on
        number += step


def place(kind: str, outcome: str) -> int:
    """Where files of a kind that ended so are counted."""
    return list(KINDS).index(kind) * len(OUTCOMES) + OUTCOMES.index(outcome)


def main() -> int:
    """Share the numbers out, and watch over those who try them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--parts", action="store_true", help="forge models that were loaded")
    parser.add_argument("--trees", action="store_true", help="forge the text of trees alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--last", type=int, default=2**62, help="number behind the last")
    parser.add_argument(
        "--findings", type=Path, default=Path(tempfile.gettempdir()) / "unbag-findings"
    )
    options = parser.parse_args()
    options.findings.mkdir(exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    begin, died = time.time(), 0
    end = begin + 60 * options.minutes

    def start(first: int) -> tuple[Any, Any, Any]:
        at, counts = spawn.Value("q", first), spawn.RawArray("q", len(KINDS) * len(OUTCOMES))
        process = spawn.Process(target=work, args=(first, options.jobs, end, at, counts, options))
        process.start()
        return process, at, counts

    running = [start(options.first + i) for i in range(options.jobs)]
    tried = [counts for _, _, counts in running]
    printed = begin
    while running:
        time.sleep(0.2)
        for i, (process, at, _) in reversed(list(enumerate(running))):
            if not process.is_alive():
                process.join()
                running.pop(i)
                if process.exitcode != 0:
                    died += 1
                    reason = f"ended the process: {process.exitcode}\n"
                    (options.findings / f"{at.value}.txt").write_text(reason)
                    if time.time() < end:
                        running.append(start(at.value + options.jobs))
                        tried.append(running[-1][2])
        if time.time() > printed + 300 or not running:
            printed = time.time()
            report(np.sum(tried, axis=0).reshape(len(KINDS), -1), died, printed - begin)
    return 1 if died or sum(counts[place(k, "FINDING")] for counts in tried for k in KINDS) else 0


def report(counts: np.ndarray, died: int, seconds: float) -> None:
    """Print how many files of each kind ended how."""
    n = counts.sum() + died
    print(f"{n:,} files in {seconds:.0f} s, {n / seconds:.0f} a second; {died} ended the process")
    table = pd.DataFrame(counts, index=list(KINDS), columns=OUTCOMES)
    table.loc["all"] = table.sum()
    print(table.to_string(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
