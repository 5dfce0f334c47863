"""Help for testing estimators of this package, and of packages built on it."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages

from sklearn.base import BaseEstimator

import unbag


def all_estimators() -> list[tuple[str, type[BaseEstimator]]]:
    """List every public estimator of the package by name.

    Examples
    --------
    >>> from unbag.testing import all_estimators
    >>> "KernelMCMClassifier" in dict(all_estimators())
    True
    """
    found = {}
    for module_info in walk_packages(unbag.__path__, "unbag."):
        module = import_module(module_info.name)
        for name, item in inspect.getmembers(module, inspect.isclass):
            public = not name.startswith("_") and item.__module__.startswith("unbag.")
            if public and issubclass(item, BaseEstimator) and not inspect.isabstract(item):
                found[name] = item
    return sorted(found.items())
