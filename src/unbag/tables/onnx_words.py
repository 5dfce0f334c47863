"""Words of sentences as nodes of an ONNX graph, without a step of it that knows languages.

Runtimes change capitals by the locale of their machine, if it is installed, and know no accents. So
texts are split into characters, characters get numbers that are the same with and without capital
and accent, and a word is a run of such numbers between two zeros.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from unbag.tables.onnx_nodes import Graph, rounded

# Beyond are rare ideographs, which are letters of no word here, and what is for private use.
_N_CHARACTERS = 0x20000

_BETWEEN, _OTHER_LETTER, _FIRST_LETTER = 0, 1, 2


def words(step: Any, graph: Graph, table: str) -> str:
    """Count words and weigh them, as `unbag.tables.prose.ToWords` does."""
    parts = [
        _weights(found, graph, graph.node("Gather", table, graph.constant(column), axis=1))
        for column, found in enumerate(step.vectorizers_)
        if found is not None
    ]
    return rounded(step, graph, graph.together(parts))


def _weights(vectorizer: Any, graph: Graph, texts: str) -> str:
    """(1 + log count) · idf of each word, over the length of that vector."""
    counts = graph.cast(_counts(vectorizer.get_feature_names_out(), graph, texts), "DOUBLE")
    one = graph.constant(1.0)
    logged = graph.node("Add", graph.node("Log", graph.node("Max", counts, one)), one)
    told = graph.node("Where", graph.node("Equal", counts, graph.constant(0.0)), counts, logged)
    weighed = graph.node("Mul", told, graph.constant(np.asarray(vectorizer.idf_, float)))
    squares = graph.node("ReduceSum", graph.node("Mul", weighed, weighed), graph.constant([1]))
    length = graph.node("Sqrt", squares)
    empty = graph.node("Equal", length, graph.constant(0.0))
    return graph.node("Div", weighed, graph.node("Where", empty, one, length))


def _counts(vocabulary: Any, graph: Graph, texts: str) -> str:
    """How often each word is in each text."""
    spelled = [unicodedata.normalize("NFC", word) for word in vocabulary]
    letters = sorted(set("".join(spelled)))
    code = {letter: number for number, letter in enumerate(letters, _FIRST_LETTER)}
    numbers = _numbers(code, graph, _characters(graph, texts))
    runs = [[_BETWEEN, *(code[letter] for letter in word), _BETWEEN] for word in spelled]
    order = sorted(range(len(runs)), key=lambda place: len(runs[place]))
    lengths = np.array([len(runs[place]) for place in order])
    starts = [int(sum(lengths[lengths < length])) for length in range(1, int(lengths.max()) + 1)]
    return graph.node(
        "TfIdfVectorizer",
        numbers,
        mode="TF",
        min_gram_length=int(lengths.min()),
        max_gram_length=int(lengths.max()),
        max_skip_count=0,
        ngram_counts=starts,
        ngram_indexes=order,
        pool_int64s=[number for place in order for number in runs[place]],
    )


def _characters(graph: Graph, texts: str) -> str:
    """The characters of each text but for accents that stand alone, padded by blanks."""
    found = graph.node(
        "Tokenizer",
        texts,
        domain="com.microsoft",
        tokenexp=f"(?s)[^{_alphabet()[1]}]",
        pad_value=" ",
        mark=0,
        mincharnum=1,
    )
    # checkers of ONNX files do not know that these are texts
    return graph.cast(found, "STRING")


def _numbers(code: dict[str, int], graph: Graph, characters: str) -> str:
    """Numbers of characters, with what is between words at both ends."""
    folds, _ = _alphabet()
    known = {c: code.get(to, _OTHER_LETTER) if to else _BETWEEN for c, to in folds.items()}
    known = {c: number for c, number in known.items() if number != _OTHER_LETTER}
    found = graph.codes(characters, known, _OTHER_LETTER)
    return graph.node("Pad", found, graph.constant([0, 1, 0, 1]), graph.constant(_BETWEEN))


@cache
def _alphabet() -> tuple[dict[str, str], str]:
    """What each character is folded to, "" between words; and accents, as ranges of a pattern.

    As scikit-learn has it: small letters without accents, of which words have two or more.
    """
    every = [chr(n) for n in range(_N_CHARACTERS) if not 0xD800 <= n < 0xE000]
    accents = [ord(c) for c in every if unicodedata.combining(c)]
    runs = [list(run) for _, run in groupby(enumerate(accents), lambda pair: pair[1] - pair[0])]
    ranges = "".join(rf"\x{{{run[0][1]:x}}}-\x{{{run[-1][1]:x}}}" for run in runs)
    folds = {c: _fold(c) for c in every if not unicodedata.combining(c)}
    return {c: to if re.fullmatch(r"\w+", to) else "" for c, to in folds.items()}, ranges


def _fold(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character.lower())
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    return unicodedata.normalize("NFC", plain)
