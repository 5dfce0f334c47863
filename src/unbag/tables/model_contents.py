"""What a model may hold that comes from a file: parts that only compute, of the shapes that these have.

Types alone are not enough. A `CountVectorizer` is a harmless type, but with ``input="filename"`` it opens
the file that each row names, and with a forged vocabulary it sends native code beyond the end of an array.
So types are held against a list before anything is built, what a file says once is built and read once, and
each part that was built is looked at before anybody gets it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any
from zipfile import ZipFile

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import BaseCrossValidator
from sklearn.preprocessing import OneHotEncoder

from unbag.models.mixed import LLPClassifier, TermSummary
from unbag.observations.losses import ClassLoss
from unbag.terms.columns import CategoryTerm, NumberTerm, SparseTerm, Term
from unbag.terms.design import layout
from unbag.terms.encoding import TableEncoder
from unbag.terms.kernel import KernelTerm

# Estimators of scikit-learn that only compute with NumPy, whatever they receive, except what is checked below.
_SCIKIT_LEARN = {
    f"sklearn.{module}.{name}"
    for module, names in {
        "compose._column_transformer": "ColumnTransformer make_column_selector",
        "decomposition._pca": "PCA",
        "decomposition._truncated_svd": "TruncatedSVD",
        "feature_extraction.text": "CountVectorizer TfidfTransformer TfidfVectorizer",
        "frozen._frozen": "FrozenEstimator",
        "impute._base": "SimpleImputer",
        "linear_model._logistic": "LogisticRegression",
        "metrics._scorer": "_PassthroughScorer",
        "model_selection._search": "GridSearchCV",
        "pipeline": "FeatureUnion Pipeline",
        "preprocessing._data": "MinMaxScaler RobustScaler StandardScaler",
        "preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
        "preprocessing._function_transformer": "FunctionTransformer",
    }.items()
    for name in names.split()
}

# Objects of this package and of NumPy other than classes of fitted models; the functions only read the columns of a table.
_OTHERS = {
    "numpy.dtype",
    "unbag.paper.kernels.Kernel",
    "unbag.tables.features.category_columns",
    "unbag.tables.features.datetime_columns",
    "unbag.tables.features.number_columns",
    "unbag.tables.features.text_columns",
    "unbag.tables.mixed_features.text_groups",
}

# What a fitted model of this package is made of, and where such classes live.
_FAMILIES = (BaseEstimator, BaseCrossValidator, ClassLoss, TableEncoder, Term, TermSummary)
_HOMES = ("model_selection", "models", "observations", "paper", "tables", "terms")

# Settings by name, in any part, and what each may be.
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "input": ("content",),
    "memory": (None,),
    "analyzer": ("word", "char", "char_wb"),
    # scikit-learn's own; others can take for ever on a text
    "token_pattern": (r"(?u)\b\w\w+\b", r"(?u)\b\w+\b", None),
    "strip_accents": (None, "ascii", "unicode"),
    "dtype": ("float32", "float64", np.float32, np.float64, np.int64),
    "drop": (None,),
}
# Lengths of what parts of this package have learnt: what has the same letter has the same length, and
# "g<p" are g positions below p.
_SHAPES = {
    "NumberTerm": "places:p columns:p missing_columns:g<p means:p+g scales:p+g names:p+g",
    "KernelTerm": "landmarks:m,d codes:m,c transform:m,k mean:k names:k",
    "NumericFeatures": "feature_names_in_:n kinds_:n medians_:n missing_columns_:g<n means_:n+g "
    "scales_:n+g",
    "DatetimeFeatures": "feature_names_in_:n periods_:n",
    "TfidfText": "feature_names_in_:n vectorizers_:n",
    "MixedFeatures": "numbers_:n kinds_:n categories_:c levels_:c times_:t periods_:t texts_:s "
    "words_:s components_:s",
    "LLPBoostingClassifier": "start_coef_:o,f start_intercept_:o start_fill_:f classes_:k "
    "class_prior_:k empirical_prior_:k",
    "LLPEnsembleClassifier": "estimators_:e weights_:e",
    "LLPNeuralClassifier": "classes_:k class_prior_:k empirical_prior_:k training_shares_:k",
}
# What may hold text.
_NAMES = ("classes_", "columns", "feature_names_in_", "names")
# Parts that would start as many processes as a file says.
_IN_ONE_PROCESS = ("ColumnTransformer", "FeatureUnion")
# Bytes of one entry of an array of text, and entries of an array that holds no bytes.
_LONGEST_ENTRY = 1 << 20
# Types of other packages that a file names, and that a model may hold only if they are on the list.
_CHECKED_PACKAGES = ("sklearn.", "numpy.random.")
_DRAWS = "numpy.random.mtrand.RandomState"
# Numbers that a Mersenne Twister keeps.
_KEPT_NUMBERS = 624


def is_trusted(name: str) -> bool:
    """Whether this is the full name of a type, or function, of this package that a model may hold."""
    if name in _OTHERS or name in _SCIKIT_LEARN:
        return True
    module, _, attribute = name.rpartition(".")
    package, _, home = module.partition(".")
    if package != "unbag" or home.split(".")[0] not in _HOMES:
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module and issubclass(found, _FAMILIES)


def foreign_types(payload: ZipFile) -> set[str]:
    """Types in a file of skops that are not on the list, though skops accepts them.

    What would be built, or read, more often than it is written is refused: a nest of lists that are there
    twice each is of exponential size.
    """
    found = _Description()
    found.read(json.loads(payload.read("schema.json")))
    if sum(payload.getinfo(name).file_size for _, name in found.reads) > sum(
        member.file_size for member in payload.infolist()
    ):
        raise ValueError("it reads its parts more often than it holds them")
    named = {name for name in found.names if name.startswith(_CHECKED_PACKAGES)}
    return named - _SCIKIT_LEARN - {_DRAWS}


@dataclass
class _Description:
    """What the description of a model in a file names: its types, and the members that it reads."""

    names: set[str] = field(default_factory=set)
    reads: set[tuple[Any, str]] = field(default_factory=set)
    sizes: dict[Any, int] = field(default_factory=dict)

    def read(self, node: Any) -> int:
        """Read a part of the description; return its size. Parts of one ``__id__`` are built once."""
        if not isinstance(node, dict | list):
            return 1
        size = 1 + sum(map(self.read, node.values() if isinstance(node, dict) else node))
        if isinstance(node, dict) and isinstance(node.get("__loader__"), str):
            self.names.add(f"{node.get('__module__')}.{node.get('__class__')}")
            own = node.get("__id__") or object()
            if self.sizes.setdefault(own, size) != size:
                raise ValueError("a part of it stands for another one")
            if isinstance(node.get("file"), str):
                self.reads.add((own, node["file"]))
        return size


def check_parts(model: Any, trusted: Collection[str] = ()) -> None:
    """Refuse a model with a part that does more than compute, or whose shape is wrong; trusted ones are skipped."""
    seen: dict[int, Any] = {}  # with the parts, so that no address is used twice
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            waiting += _check(part, trusted)


def _check(part: Any, trusted: Collection[str]) -> list[Any]:
    """Check a part; return what is in it."""
    if part is None or isinstance(part, str | bytes | int | float | slice):
        return []
    if isinstance(part, dict):
        return [*part.keys(), *part.values()]
    if isinstance(part, list | tuple | set | frozenset):
        return list(part)
    if isinstance(part, np.ndarray | np.generic):
        return _check_array(part)
    if isinstance(part, np.dtype):
        _check_entry(part)
    elif isinstance(part, np.random.RandomState):
        position = part.get_state(legacy=False)["state"].get("pos", 0)
        if not 0 <= position <= _KEPT_NUMBERS:  # native code would read there
            raise ValueError("it has a RandomState whose position is none")
    elif sparse.issparse(part):
        _check_matrix(part)
    elif _name(type(part)) in trusted or is_trusted(_name(type(part))):
        if _name(type(part)) not in trusted:
            _check_part(part)
        own = dict(getattr(part, "__dict__", {}))
        if "cv_results_" in own:  # masked where a grid leaves a parameter out
            own["cv_results_"] = list(map(np.ma.getdata, own["cv_results_"].values()))
        return list(own.values())
    else:
        _check_function(part, trusted)
    return []


def _check_array(array: Any) -> list[Any]:
    if isinstance(array, np.ma.MaskedArray):  # the masked would be looked at by nobody, and used
        raise ValueError("it has an array that is masked")
    _check_entry(array.dtype)
    if not array.nbytes and prod(n or 1 for n in array.shape) > _LONGEST_ENTRY:
        raise ValueError(f"it has an array of shape {array.shape} without a byte")
    found: list[Any] = array.ravel().tolist() if array.dtype == object else []
    return found


def _check_entry(dtype: np.dtype[Any]) -> None:
    if dtype.itemsize > _LONGEST_ENTRY:
        raise ValueError(f"it has an array of entries of {dtype.itemsize:,} bytes")


def _check_part(part: Any) -> None:
    """Check the settings of an object, and the shapes of what it has learnt."""
    kind, is_ours = type(part).__name__, type(part).__module__.startswith("unbag.")
    for name, value in vars(part).items():
        if callable(getattr(type(part), name, None)):
            raise ValueError(f"it has a {kind} whose {name} is not a method")
        allowed = _SETTINGS.get(name) if isinstance(part, BaseEstimator) else None
        if allowed is not None and not _is_one_of(value, allowed):
            words = repr(value) if isinstance(value, str) else type(value).__name__
            raise ValueError(
                f"it has a {kind} with {name}={words}, which can do more than compute; if you know "
                f"who made the file, trust {_name(type(part))!r}"
            )
        if allowed is None and name.endswith("dtype") and isinstance(value, str):
            raise ValueError(f"it has a {kind} whose {name} is a text")
        is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if is_ours and is_float and not np.isfinite(value).all():
            raise ValueError(f"it has a {kind} with numbers in {name} that are not finite")
    if kind in _IN_ONE_PROCESS and part.n_jobs not in (None, 1):
        raise ValueError(f"it has a {kind} with n_jobs={part.n_jobs!r}")
    for name in type(part)._get_param_names() if isinstance(part, BaseEstimator) else ():
        if name not in vars(part):
            raise ValueError(f"it has a {kind} without {name}")
    if is_ours:
        _check_shapes(part, kind)
    if isinstance(part, CountVectorizer):
        _check_vocabulary(part)
    elif isinstance(part, OneHotEncoder):
        _check_codes(part)
    elif isinstance(part, LLPClassifier) and hasattr(part, "classes_"):
        _check_mixed(part)
    elif hasattr(part, "weights_") and hasattr(part, "hidden"):
        _check_network(part)


def _is_one_of(value: Any, allowed: tuple[Any, ...]) -> bool:
    return any(value is one or (isinstance(one, str) and value == one) for one in allowed)


def _check_vocabulary(words: CountVectorizer) -> None:
    """Places of words become positions in sparse matrices, which native code does not check."""
    places = getattr(words, "vocabulary_", words.vocabulary)
    if places is None:
        return
    if type(places) is not dict or not all(
        isinstance(place, int | np.integer) for place in places.values()
    ):
        raise ValueError("it has words without places")
    if sorted(places.values()) != list(range(len(places))):
        raise ValueError("it has words whose places are not those of columns")


def _check_codes(encoder: OneHotEncoder) -> None:
    """Codes of categories become positions in sparse matrices, too."""
    own = vars(encoder)
    if "categories_" not in own:
        return
    if not all(map(_in_order, own["categories_"])):
        raise ValueError("it has a OneHotEncoder whose categories are not in order")
    counts = [len(categories) for categories in own["categories_"]]
    maps = own.get("_default_to_infrequent_mappings", [None] * len(counts))
    if len(maps) != len(counts):
        raise ValueError(
            "it has a OneHotEncoder that takes rare categories of other columns together"
        )
    for i, codes in enumerate(maps):
        if codes is None:
            continue
        whole = isinstance(codes, np.ndarray) and codes.dtype.kind == "i" and codes.ndim == 1
        if not whole or len(codes) != counts[i] or not len(codes) or codes.min() < 0:
            raise ValueError("it has a OneHotEncoder with codes that are none")
        counts[i] = int(codes.max()) + 1
    if list(own["_n_features_outs"]) != counts:
        raise ValueError("it has a OneHotEncoder of another number of columns than categories")


def _in_order(categories: Any) -> bool:
    """Whether a search by halves finds each; texts are looked up one by one."""
    if categories.dtype == object:
        if all(one is None or one != one or isinstance(one, str) for one in categories):
            return True
        categories = categories.astype(float)
    found = np.unique(categories)
    return np.array_equal(found, categories, equal_nan=categories.dtype.kind == "f")


def _check_shapes(part: Any, kind: str) -> None:
    """Arrays and lists of a part of this package fit each other."""
    own, sizes = vars(part), dict[str, int]()
    for entry in _SHAPES.get(kind, "").split():
        name, _, rule = entry.partition(":")
        value = own.get(name)
        if value is None:
            continue
        rule, _, limit = rule.partition("<")
        array = value if isinstance(value, np.ndarray) else None
        if array is not None and array.dtype.kind not in "biuf" and name not in _NAMES:
            raise ValueError(f"it has a {kind} whose {name} holds more than numbers")
        shape = [len(value)] if array is None else list(array.shape)
        wanted = [
            sum(sizes.setdefault(one, found) for one in letter.split("+"))
            for letter, found in zip(rule.split(","), shape, strict=False)
        ]
        if len(shape) != rule.count(",") + 1 or wanted != shape:
            raise ValueError(f"it has a {kind} whose {name} does not fit the rest of it")
        if limit and len(value):
            places = np.asarray(value)
            whole = places.dtype.kind == "i"
            if not (whole and places.min() >= 0 and places.max() < sizes[limit]):
                raise ValueError(f"it has a {kind} whose {name} leads nowhere")
    for name in {"class_prior_", "empirical_prior_"} & own.keys():
        shares = np.asarray(own[name], dtype=float)
        fits = shares.shape == part.classes_.shape and (shares >= 0).all()
        if not (fits and abs(shares.sum() - 1) <= 1e-6):
            raise ValueError(f"it has a {kind} whose {name} does not add up to 1")


def _check_mixed(model: LLPClassifier) -> None:
    """Terms of a mixed model fit its table and its coefficients."""
    f = model.function_
    encoder, (n_outputs, n_columns) = f.encoder, f.theta.shape
    numbers, categories = encoder.number_places, encoder.category_places
    columns, n = layout(f.terms)
    names = getattr(model, "feature_names_in_", None)
    places = [
        *zip(encoder.number_names, numbers, strict=True),
        *zip(encoder.category_names, categories, strict=True),
    ]
    n_features = len(numbers) + len(categories)
    fits = [
        n_features == model.n_features_in_,
        sorted([*numbers, *categories]) == list(range(n_features)),
        len(numbers) == len(encoder.number_names),
        all(name == (f"x{at}" if names is None else str(names[at])) for name, at in places),
        all(levels == sorted(set(levels)) for levels in encoder.levels),
        len(categories) == len(encoder.category_names) == len(encoder.levels),
        list(f.columns) == columns and n == n_columns,
        n_outputs == f.offset.size == (1 if len(model.classes_) == 2 else len(model.classes_)),
        f.theta.dtype.kind == f.offset.dtype.kind == "f",
        model.covariance_ is None or model.covariance_.shape == (f.theta.size,) * 2,
    ]
    for term in f.terms:
        of_numbers = term.numbers if isinstance(term, KernelTerm) else [term]
        taken = [one.places for one in of_numbers if isinstance(one, NumberTerm)]
        fits += [bool(((at >= 0) & (at < len(numbers))).all()) for at in taken]
        if isinstance(term, CategoryTerm):
            fits.append(0 <= term.place < len(categories))
            fits.append(len(encoder.levels[term.place]) == len(term.names))
        elif isinstance(term, SparseTerm):
            fits.append(len(term.names) == len(numbers) and term.scale > 0)
        elif isinstance(term, KernelTerm):
            width = sum(len(one.means) for one in term.numbers)
            fits.append(term.landmarks.shape[1] == width and term.gamma > 0)
            fits.append(term.codes.shape[1] == len(categories))
    if not all(fits):
        raise ValueError("it has a mixed model whose terms do not fit its columns or coefficients")


def _check_network(model: Any) -> None:
    """A network is made by its settings before its weights are put into it."""
    if callable(model.module):
        return
    sizes = [*model.input_shape_, *np.atleast_1d(model.hidden).astype(int).tolist()]
    needed = sum(a * b for a, b in pairwise(sizes))
    if min(sizes) < 1 or needed > sum(weights.size for weights in model.weights_.values()):
        raise ValueError("it has a network of more weights than there are in the file")


def _check_matrix(matrix: Any) -> None:
    """Positions beyond the end of a sparse matrix would be read by native code."""
    check = getattr(matrix, "check_format", None)
    if check is None:
        raise ValueError(f"it has a {type(matrix).__name__}; sparse matrices may be CSR or CSC")
    check(full_check=True)


def _check_function(function: Any, trusted: Collection[str]) -> None:
    if isinstance(function, np.ufunc | type):
        return
    name = _name(function if hasattr(function, "__qualname__") else type(function))
    if not name.startswith("unbag.") and name not in trusted:
        raise ValueError(f"it calls {name}; if you know who made the file, trust {name!r}")


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
