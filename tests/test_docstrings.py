"""Docstrings of all that is public are complete: what scikit-learn asks of its own, and links."""

import inspect
import re
import warnings
from functools import cache, cached_property
from importlib import import_module

import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

import unbag
from estimator_checks import all_estimators
from unbag.datasets import make_gaussian_bags
from unbag.paper.lbfgs import Objective

# In the order of the reference; modules that users import from are here beside packages.
MODULES = (
    "bags",
    "models",
    "inference",
    "model_selection",
    "evaluation",
    "reports",
    "tables",
    "tables.features",
    "tables.onnx_export",
    "tables.persistence",
    "distributed",
    "torch",
    "datasets",
    "weights",
    "paper",
    "paper.bounds",
)


def public(module):
    """What a module shows, by the shortest path that leads to it."""
    home = import_module(f"unbag.{module}")
    names = getattr(home, "__all__", None) or [
        name
        for name, value in vars(home).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == home.__name__
    ]
    found = {name: getattr(home, name) for name in names}
    return {
        f"unbag.{name}" if shown_at_the_top(name, value) else f"unbag.{module}.{name}": value
        for name, value in found.items()
    }


def shown_at_the_top(name, value):
    return name in unbag.__all__ and getattr(unbag, name) is value


EVERYTHING = {
    path: value for module in MODULES for path, value in public(module).items() if callable(value)
}


@cache
def parsed(item):
    return NumpyDocString(inspect.getdoc(item) or "")


def signature_of(item):
    parameters = inspect.signature(item).parameters.values()
    signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {
        signs.get(p.kind, "") + p.name: p
        for p in parameters
        if p.name not in ("self", "cls") and not p.name.startswith("_")
    }


def faults_of_parameters(doc, expected):
    documented = {name: item for item in doc["Parameters"] for name in item.name.split(", ")}
    if list(documented) != list(expected):
        yield f"documents parameters {list(documented)}, has {list(expected)}"
    for name in documented.keys() & expected.keys():
        item, parameter = documented[name], expected[name]
        if re.fullmatch(r"as in `\w+`", item.type):
            continue
        if not item.type and not name.startswith("*"):
            yield f"does not say the type of {name}"
        if not item.desc:
            yield f"does not describe {name}"
        if not default_is_stated(item.type, parameter.default):
            yield f"says of {name}: {item.type}, and its default is {parameter.default!r}"


def default_is_stated(words, default):
    """As ``default=...`` or, for what cannot be None otherwise, as "optional"."""
    stated = re.search(r"default=(.+)$", words)
    if default is inspect.Parameter.empty or not stated:
        return (default is inspect.Parameter.empty) != words.endswith("optional") and not stated
    if callable(default):
        return stated[1] == default.__name__
    # fractions are readable as such: 1/3
    return eval(stated[1], {"__builtins__": {}}) == default


def gives_something(item):
    annotation = inspect.signature(item).return_annotation
    return annotation not in (None, "None", "NoReturn", inspect.Signature.empty)


def faults_of_function(item, *, is_method=False):
    doc = parsed(item)
    if not doc["Summary"] or len(doc["Summary"]) > 1:
        yield "has no summary of one line"
    yield from faults_of_parameters(doc, signature_of(item))
    # of a method without parameters, the first line says it
    plain = is_method and not signature_of(item)
    if gives_something(item) and not (plain or doc["Returns"] or doc["Yields"]):
        yield "does not say what it returns"
    if not is_method:
        yield from faults_of_whole(doc)


def faults_of_whole(doc):
    if ">>>" not in "\n".join(doc["Examples"]):
        yield "has no example"


def own_methods(item):
    """Public methods of a class that are this package's own, and no plain attribute."""
    for name in dir(item):
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(item, name)
        value = getattr(value, "__func__", value)
        if inspect.isfunction(value) and value.__module__.startswith("unbag"):
            yield name, value


def properties(item):
    kinds = (property, cached_property)
    return {name for name in dir(item) if isinstance(inspect.getattr_static(item, name), kinds)}


def described_by_protocol(item):
    """Names of the methods that a protocol describes, once for all classes that have them."""
    if item.__module__.startswith("unbag.paper.") and item is not Objective:
        return {name for name, _ in own_methods(Objective)}
    return set()


def attributes_of(doc):
    return {name for item in doc["Attributes"] for name in item.name.split(", ")}


def faults_of_class(item):
    doc = parsed(item)
    if not doc["Summary"] or len(doc["Summary"]) > 1:
        yield "has no summary of one line"
    expected = signature_of(item)
    by_a_function = not doc["Parameters"] and "*args" not in expected
    if by_a_function:
        missing = expected.keys() - attributes_of(doc) - properties(item)
        if missing:
            yield f"documents neither as parameters nor as attributes {sorted(missing)}"
    elif doc["Parameters"]:
        yield from faults_of_parameters(doc, expected)
    if not by_a_function:
        yield from faults_of_whole(doc)
    for name, method in own_methods(item):
        if name in described_by_protocol(item):
            continue
        yield from (f"{name}() {f}" for f in faults_of_function(method, is_method=True))
    attributes = attributes_of(doc)
    for name in properties(item):
        own = inspect.getdoc(inspect.getattr_static(item, name))
        if not (name.startswith("_") or own or name in attributes):
            yield f"{name} is not described"


def faults(item):
    return list(faults_of_class(item) if inspect.isclass(item) else faults_of_function(item))


# What is still to be mended; this list may only get shorter.
MISSING = frozenset()
missing = pytest.mark.xfail(reason="still to be written", strict=True)


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=missing) if p in MISSING else p for p in EVERYTHING]
)
def test_complete(path):
    assert faults(EVERYTHING[path]) == []


# What many settings, folds and rounds show here, a few do as well.
QUICK = {
    "AlternatingSVMClassifier": {"Cs": (1,), "C_bags": (1,), "gammas": (0.1,)},
    "LLPEnsembleClassifier": {"estimators": [("mixed", unbag.LLPClassifier(kernel=None))], "cv": 3},
    "LLPBoostingClassifier": {"num_leaves": (2,), "n_estimators": 5, "cv": 3},
    "InvCalClassifier": {"Cs": (1,), "epsilons": (0,), "gammas": (0.1,)},
    "LLPNeuralClassifier": {"hidden": (4,), "max_epochs": 2},
}
DATA = make_gaussian_bags(n_bags=12, bag_size=10, n_features=2, random_state=0)
# There if it is asked for, if X has them, or of a linear model.
AT_TIMES = {"feature_names_in_", "coef_"}


@pytest.mark.parametrize("name", [n for n, e in all_estimators() if issubclass(e, ClassifierMixin)])
def test_attributes_of_fitted_models_are_described(name):
    estimator = dict(all_estimators())[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator(**QUICK.get(name, {})).fit(DATA.X, DATA.y)
    there = {n for n in {*vars(model), *properties(estimator)} if re.fullmatch(r"[^_].*_", n)}
    described = parsed(estimator)["Attributes"]
    elsewhere = [a for a in described if re.fullmatch(r"as in `\w+`", a.type)]
    assert [a.name for a in described if not (a.type and a.desc) and a not in elsewhere] == []
    named = {name for a in described for name in a.name.split(", ")}
    assert there - named == set()
    assert named - there <= AT_TIMES
