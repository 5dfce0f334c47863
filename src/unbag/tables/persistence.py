"""Fitted models in files: saved whole or not at all, and opened without running foreign code.

The archive that such a file is, is in `unbag.tables.model_archive`.

Unlike a pickle, such a file names the types it holds, and nothing is built before all of them have
been found on a list: the plain types, NumPy arrays and scikit-learn estimators that skops trusts,
and the classes of this package that a fitted model is made of. The checksum guards against damage
only: a forged file can have a checksum that fits.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator

from unbag._files import whole_file
from unbag._optional import hidden, optional
from unbag._provenance import PACKAGES
from unbag.models.mixed import TermSummary
from unbag.observations.losses import ClassLoss
from unbag.tables.model_archive import (
    FORMAT,
    FORMAT_VERSION,
    HEADER,
    MAX_HEADER,
    MAX_PAYLOAD,
    PAYLOAD,
    check_unpacked_size,
    open_archive,
    read_header,
    read_member,
    reason_of,
)
from unbag.tables.model_contents import check_model_settings, foreign_types
from unbag.terms.base import Term
from unbag.terms.encoding import TableEncoder

__all__ = ["ModelFile", "describe_model", "load_model", "save_model"]

# Types that skops leaves out because scikit-learn does not check the node numbers in them: those
# of a forged file can crash the process at the first prediction. For files of known origin.
TREES = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
)

# Parts of pipelines and searches that skops does not know, and that do no harm whatever they are
# given; the functions only read the columns of a table. Of the classifiers of boosting
# libraries, settings can come back, but no trees: these are of types that are not here.
_PARTS = {
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.metrics._scorer._PassthroughScorer",
    "unbag.tables.features.category_columns",
    "unbag.tables.features.number_columns",
    "unbag.tables.features.text_columns",
    "unbag.tables.features.datetime_columns",
    "unbag.tables.mixed_features.text_groups",
    "unbag.paper.kernels.Kernel",
}

# What a fitted model of this package is made of, and where such classes live.
_FAMILIES = (
    BaseEstimator,
    BaseCrossValidator,
    ClassLoss,
    TableEncoder,
    Term,
    TermSummary,
)
_HOMES = ("model_selection", "models", "observations", "paper", "tables", "terms")

# The parts of scikit-learn that import other array libraries, and hold no estimator.
_ARRAY_LIBRARIES = tuple(
    f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")
)


class UntrustedTypesError(ValueError):
    """A model file holds types that are not trusted."""

    def __init__(self, message: str, types: list[str]) -> None:
        super().__init__(message)
        self.types = types


@dataclass(frozen=True)
class ModelFile:
    """What `load_model` found in a file.

    Attributes
    ----------
    model : estimator
        The fitted model.
    schema : dict or None
        What was saved as the schema of its table.
    metadata : dict
        What else was saved.
    versions : dict
        Versions of the packages that wrote the file, by name.
    """

    model: Any
    schema: dict[str, Any] | None
    metadata: dict[str, Any]
    versions: dict[str, str]


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Save a fitted model as one file, whole or not at all.

    The file is written under another name and moved into place when it is complete, so that an error, a
    full disk or a power cut leaves the old file or the new one, never half of one. (A process that
    is killed may leave a ``.tmp`` file, which can be deleted.) The model is read back once before
    that: one that could not be loaded is not saved.

    Parameters
    ----------
    model : estimator
        A fitted estimator or pipeline.
    path : path
        Name of the file, by custom ending in ``.unbag``. A file of this name is replaced.
    schema : dict, optional
        What the columns of the model's table hold, as ``Schema.to_dict`` gives it; anything that
        JSON can hold.
    metadata : dict, optional
        Anything else to keep with the model, likewise.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.persistence import load_model, save_model
    >>> data = make_gaussian_bags(random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> with TemporaryDirectory() as folder:
    ...     path = save_model(model, f"{folder}/model.unbag", metadata={"author": "Ada"})
    ...     found = load_model(path)
    >>> found.metadata
    {'author': 'Ada'}
    >>> bool((found.model.predict(data.X) == model.predict(data.X)).all())
    True
    """
    path = Path(path)
    payload = _serialise(model)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in (*PACKAGES, "skops")},
        "sha256": hashlib.sha256(payload).hexdigest(),
        "schema": None if schema is None else _check_json("schema", schema),
        "metadata": _check_json("metadata", {} if metadata is None else metadata),
    }
    text = json.dumps(header, indent=1).encode()
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"schema and metadata take {len(text):,} bytes, more than the {MAX_HEADER:,} that the "
            "header of a model file may have."
        )

    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(HEADER, text)
        archive.writestr(PAYLOAD, payload)
    return path


def load_model(
    path: str | os.PathLike[str], *, trusted: Collection[str | type[Any]] = ()
) -> ModelFile:
    """Load what `save_model` saved, if it holds trusted types only.

    Parameters
    ----------
    path : path
        The file.
    trusted : list of str or type, default=()
        Types to trust beyond those of scikit-learn and this package, such as your own
        transformers, by their full names. The pair ``unbag.tables.persistence.TREES`` lets in tree
        ensembles of scikit-learn, which a forged file could use to crash the process.

    Returns
    -------
    ModelFile
        The model, schema, metadata and versions.

    Raises
    ------
    ValueError
        If the file is no model file, is damaged, is of a newer format or holds other types.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.persistence import load_model, save_model
    >>> data = make_gaussian_bags(random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> with TemporaryDirectory() as folder:
    ...     found = load_model(save_model(model, f"{folder}/model.unbag"))
    >>> type(found.model).__name__
    'LLPClassifier'
    """
    names = _type_names(trusted)
    path = Path(path)
    with open_archive(path) as archive:
        header = read_header(path, archive)
        payload = read_member(path, archive, PAYLOAD)
    if hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise ValueError(f"{path} is damaged: its model does not match its checksum.")
    return ModelFile(
        _build(path, payload, names, header["versions"]),
        header["schema"],
        header["metadata"],
        header["versions"],
    )


def describe_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Say what a model file is, without loading its model.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict
        With the keys ``format``, ``format_version``, ``created``, ``versions``, ``sha256``,
        ``schema`` and ``metadata``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.persistence import describe_model, save_model
    >>> data = make_gaussian_bags(random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> with TemporaryDirectory() as folder:
    ...     about = describe_model(save_model(model, f"{folder}/model.unbag"))
    >>> about["format"], about["format_version"]
    ('unbag model', 1)
    """
    path = Path(path)
    with open_archive(path) as archive:
        return read_header(path, archive)


def _skops() -> Any:
    # to list estimators, skops walks over all of scikit-learn, and so would import torch and Dask
    with hidden(*_ARRAY_LIBRARIES):
        return optional("skops.io", "a model file", "files")


def _serialise(model: Any) -> bytes:
    """Give the model as bytes from which it can be built again: functions without a name cannot."""
    skops = _skops()
    _refuse_modules(model)
    try:
        payload: bytes = skops.dumps(model)
        skops.loads(payload, trusted=skops.get_untrusted_types(data=payload))
    except Exception as error:  # whatever the parts of a model raise
        raise ValueError(
            f"This {type(model).__name__} cannot be saved, as one of its parts cannot be written "
            f"to a file and read again: {reason_of(error)}"
        ) from None
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(
            f"The model takes {len(payload):,} bytes; a file may hold {MAX_PAYLOAD:,}."
        )
    return payload


def _refuse_modules(model: Any) -> None:
    """Say what to do about parameters that are networks of torch."""
    settings = model.get_params() if hasattr(model, "get_params") else {}
    for name, value in settings.items():
        if any(base.__module__.startswith("torch.nn.") for base in type(value).__mro__):
            raise ValueError(
                f"{name} is a module of torch, which a model file cannot hold; give a callable "
                "that makes it, which is saved by its name, or save weights_ by numpy.savez."
            )


def _build(
    path: Path, payload: bytes, trusted: Collection[str], versions: Mapping[str, str]
) -> Any:
    """Build the model, after all its types have been found trusted."""
    skops = _skops()
    try:
        check_unpacked_size(payload)
        types = skops.get_untrusted_types(data=payload)
        refused = [name for name in types if not (name in trusted or _is_trusted(name))]
        with zipfile.ZipFile(io.BytesIO(payload)) as parts:
            refused += sorted(foreign_types(parts) - {*refused, *trusted})
        if not refused:
            model = skops.loads(payload, trusted=types)
            check_model_settings(model, trusted)
            return model
    except Exception as error:  # a forged model can make any of its parts fail
        written = ", ".join(f"{name} {number}" for name, number in versions.items())
        raise ValueError(
            f"The model in {path}, written by {written}, cannot be built here: {reason_of(error)}"
        ) from None
    advice = "If you know who made the file and trust these types"
    if set(refused) <= set(TREES):
        advice = (
            "A forged tree can crash the process, so if you know who made the file, and only then"
        )
    raise UntrustedTypesError(
        f"{path} holds types that are not trusted: {', '.join(refused)}. {advice}, load it with "
        f"trusted={refused}.",
        refused,
    )


def _type_names(trusted: Collection[str | type[Any]]) -> set[str]:
    if isinstance(trusted, str) or not isinstance(trusted, Collection):
        raise ValueError(f"trusted must be a list of types or their names, not {trusted!r}.")
    if not all(isinstance(item, str | type) for item in trusted):
        raise ValueError(f"trusted may hold types and names of types only, not {trusted!r}.")
    return {t if isinstance(t, str) else f"{t.__module__}.{t.__name__}" for t in trusted}


def _check_json(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Give what JSON makes of a dictionary, if that is the same."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dictionary, not {type(value).__name__}.")
    try:
        kept: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
        same = kept == dict(value)
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise ValueError(
            f"{name} may hold only what JSON keeps as it is: texts, finite numbers, True, False, "
            "None, lists, and dictionaries whose keys are texts."
        )
    return kept


def _is_trusted(name: str) -> bool:
    """Whether this is the full name of a class that a fitted model may hold."""
    if name in _PARTS:
        return True
    module, _, attribute = name.rpartition(".")
    package, _, home = module.partition(".")
    if package != "unbag" or home.split(".")[0] not in _HOMES:
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    if not isinstance(found, type) or found.__module__ != module:
        return False
    return issubclass(found, _FAMILIES)
