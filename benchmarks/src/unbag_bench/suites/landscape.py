"""Adult in the 52 bag sets of Franco et al., with their splits and their published results.

Franco et al., *The complex landscape of LLP evaluation*: bags and results are those of the
authors' repository, gaabrielfranco/complex-llp-evaluation on GitHub (CC0), features and labels
those of Adult.

**Sets.** By how bags were made: "naive", random bags; "simple", rows depend on their bag
through their class only: label shift; "intermediate", labels depend on their
bag through the features only: covariate shift; "hard", on both. Five to thirty bags.

**Splits.** Thirty, each a quarter of all rows for testing, the same rows whatever the set. They are
reproduced from the seeds of the authors' script, and they are the same rows: the accuracy of the
majority class, which the results hold for every split, agrees to the last row. Proportions are
those of the rows that are trained on.

**Selection.** Each method was run with the setting that did best under one of three rules, over
five random halves of the rows of every bag: "abs" and "hypergeo" compare predicted with known
shares of bags, by absolute differences or by the hypergeometric likelihood; "oracle" looks at
labels. Accuracy and F1 are those of the class that is predicted for the test rows; the positive
class of F1 is the income of more than 50,000 dollars.
"""

from __future__ import annotations

import io
import lzma
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit

from unbag._arrays import Floats, Ints
from unbag.datasets import load_adult
from unbag_bench.suites.files import check_name

Labels = NDArray[np.int64]

DATA_FILE = Path(__file__).parent / "data" / "landscape.npz.xz"

# As they are called in the results; kdd-lr is EM with logistic regression.
PUBLISHED = ("mm", "lmm", "amm", "kdd-lr", "dllp", "llp-vat", "mixbag", "llpfc")
RULES = ("abs", "hypergeo", "oracle")
LABEL_FREE = ("abs", "hypergeo")

N_SPLITS, N_TEST, N_TRAIN = 30, 12_211, 36_631

_SPANS = ("close-global-cluster", "far-global-cluster", "mixed-cluster")
_MANY = {"extra-large": 20, "extra-extra-large": 25, "massive": 30}
KINDS = ("naive", "simple", "intermediate", "hard")

# Their rows are the test file of Adult, then the training file, shuffled by this seed.
_SHUFFLE = 6738921
_N_TRAINING_FILE = 32_561
_SPLIT_SEEDS = (
    *(189395, 962432364, 832061813, 316313123, 1090792484, 1041300646, 242592193, 634253792),
    *(391077503, 2644570296, 1925621443, 3585833024, 530107055, 3338766924, 3029300153),
    *(2924454568, 1443523392, 2612919611, 2781981831, 3394369024, 641017724, 626917272),
    *(1164021890, 3439309091, 1066061666, 411932339, 1446558659, 1448895932, 952198910),
    3882231031,
)
_NUMBERS = ("fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
_CATEGORIES = (
    *("age", "workclass", "education", "marital-status", "occupation", "relationship"),
    *("race", "native-country"),
)


def _names() -> tuple[str, ...]:
    names = []
    for kind in KINDS:
        clusters = "kmeans-5" if kind in ("intermediate", "hard") else "None-None"
        spans = ("None-cluster",) if kind == "naive" else _SPANS
        names += [
            f"{kind}-{number}-{sizes}-{span}-{clusters}"
            for number in ("small", "large")
            for sizes in ("equal", "not-equal")
            for span in spans
        ]
        span = "None-cluster" if kind == "naive" else "fol-clust-cluster"
        names += [f"{kind}-{many}-fol-clust-{span}-kmeans-{k}" for many, k in _MANY.items()]
    return tuple(names)


LANDSCAPE = _names()


class PublishedScore(NamedTuple):
    """Scores of a published method in each of the splits."""

    accuracy: Floats
    f1: Floats


def load_landscape(name: str) -> tuple[Floats, Labels, Ints]:
    """Load Adult in one of the bag sets.

    Parameters
    ----------
    name : str
        One of LANDSCAPE.

    Returns
    -------
    X : ndarray of shape (48842, 179)
        Features as published, but the four numbers among them standardised; the others are zeros
        and ones.
    labels : ndarray of shape (48842,)
        One for an income of more than 50,000 dollars.
    bag : ndarray of shape (48842,)
        The bag of each row.

    Examples
    --------
    >>> from unbag_bench.suites.landscape import LANDSCAPE, load_landscape
    >>> X, labels, bag = load_landscape(LANDSCAPE[-1])
    >>> X.shape, int(bag.max()) + 1
    ((48842, 179), 30)
    """
    X, labels = _adult()
    bag = _shipped()["bags"][:, _place(name)]
    return X.copy(), labels.copy(), bag.astype(np.intp)


def kind_of(name: str) -> str:
    """How the bags of a set were made: one of KINDS."""
    return name.split("-")[0]


def split_rows(split: int) -> tuple[Ints, Ints]:
    """Give the rows to train and to test on in one of the thirty published splits."""
    if not 0 <= split < N_SPLITS:
        raise ValueError(f"The published splits are numbered 0 to {N_SPLITS - 1}, not {split}.")
    splitter = ShuffleSplit(n_splits=1, test_size=0.25, random_state=_SPLIT_SEEDS[split])
    train, test = next(splitter.split(np.empty((48_842, 1))))
    return train, test


def published(name: str, method: str, rule: str = "abs") -> PublishedScore:
    """Look up what was published of a method on a set, selected by a rule, split by split.

    Parameters
    ----------
    name : str
        One of LANDSCAPE.
    method : {"mm", "lmm", "amm", "kdd-lr", "dllp", "llp-vat", "mixbag", "llpfc"}
        The method.
    rule : {"abs", "hypergeo", "oracle"}, default="abs"
        How its settings were selected.

    Returns
    -------
    scores : PublishedScore
        With ``accuracy`` and ``f1`` of each split.

    Examples
    --------
    >>> from unbag_bench.suites.landscape import published
    >>> scores = published("simple-small-equal-close-global-cluster-None-None", "lmm")
    >>> round(float(scores.accuracy.mean()), 3)
    0.806
    """
    found = _shipped()
    place = (_place(name), PUBLISHED.index(method), RULES.index(rule))
    return PublishedScore(found["right"][place] / N_TEST, found["f1"][place].astype(np.float64))


def _place(name: str) -> int:
    check_name(name, LANDSCAPE)
    return LANDSCAPE.index(name)


@cache
def _shipped() -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(lzma.decompress(DATA_FILE.read_bytes()))) as found:
        return dict(found)


@cache
def _adult() -> tuple[Floats, Labels]:
    adult = load_adult("all")
    columns = [_standardised(adult.frame[name].to_numpy(dtype=np.float64)) for name in _NUMBERS]
    columns.insert(1, (adult.frame["sex"] == "Female").to_numpy(dtype=np.float64))
    for name in _CATEGORIES:
        values = adult.frame[name].to_numpy()
        columns += [(values == value).astype(np.float64) for value in np.unique(values)]
    order = np.random.RandomState(_SHUFFLE).permutation(len(adult.target))
    rows = (order + _N_TRAINING_FILE) % len(order)
    return np.column_stack(columns)[rows], adult.target[rows].astype(np.int64)


def _standardised(values: Floats) -> Floats:
    return (values - values.mean()) / values.std()
