"""Docstrings that describe the same parameter do so in the same words."""

import inspect
import re

from estimator_checks import all_estimators

CLASSIFIERS = [item for _, item in all_estimators() if item.__module__.startswith("unbag.models")]


def test_fit_is_described_alike():
    fits = {item.__name__: inspect.getdoc(item.fit) for item in CLASSIFIERS}
    assert len(fits) > 3
    for name, doc in fits.items():
        assert re.search(r"^X : ", doc, re.MULTILINE), name
        target = "y : structured array from `unbag.bag_target`, or plain labels"
        assert target in doc, name
