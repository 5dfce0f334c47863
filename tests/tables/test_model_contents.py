"""A model file reads, writes and runs nothing: the attack is real, and refused."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FunctionTransformer, make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.tables.model_contents import check_model_settings
from unbag.tables.persistence import load_model, save_model

BAGS = make_gaussian_bags(n_bags=6, bag_size=5, random_state=0)


def first_column(texts):
    return texts[:, 0]


def test_a_file_that_reads_another_file(tmp_path):
    """Types that are all trusted, put together so that scoring reads a path that the file names."""
    secret = tmp_path / "secret.txt"
    secret.write_text("my password")
    reader = CountVectorizer(input="filename").fit([str(secret)])
    fill = SimpleImputer(strategy="constant", fill_value=str(secret))
    fill.fit(np.array([["a"]], dtype=object))
    gap = np.array([[np.nan]], dtype=object)
    assert reader.transform(fill.transform(gap)[:, 0]).sum() == 2  # it did read the two words
    path = save_model(make_pipeline(fill, reader), tmp_path / "m.unbag")
    with pytest.raises(ValueError, match=r"CountVectorizer with input='filename'"):
        load_model(path)
    trusted = ["sklearn.feature_extraction.text.CountVectorizer"]
    assert load_model(path, trusted=trusted).model[1].input == "filename"


def test_a_file_that_would_write_a_cache(tmp_path):
    cache = tmp_path / "cache"
    model = make_pipeline(StandardScaler(), LLPClassifier(kernel=None), memory=str(cache))
    path = save_model(model, tmp_path / "m.unbag")
    with pytest.raises(ValueError, match="memory="):
        load_model(path)
    assert not cache.exists()


def test_a_pattern_that_takes_for_ever(tmp_path):
    words = CountVectorizer(token_pattern=r"(a+)+$").fit(["a"])
    path = save_model(words, tmp_path / "m.unbag")
    with pytest.raises(ValueError, match="token_pattern="):
        load_model(path)


def test_functions_are_called_only_if_they_are_trusted(tmp_path):
    model = FunctionTransformer(first_column)
    name = f"{first_column.__module__}.first_column"
    path = save_model(model, tmp_path / "m.unbag")
    with pytest.raises(ValueError, match=re.escape(name)):
        load_model(path)
    assert load_model(path, trusted=[name]).model.func is first_column
    logarithm = save_model(FunctionTransformer(np.log1p), tmp_path / "m.unbag")
    assert load_model(logarithm).model.func is np.log1p


def test_types_that_look_things_up_in_native_code(tmp_path):
    from sklearn.neighbors import KNeighborsClassifier

    path = save_model(KNeighborsClassifier().fit(BAGS.X, BAGS.labels), tmp_path / "m.unbag")
    with pytest.raises(ValueError, match=r"not trusted: .*KNeighborsClassifier"):
        load_model(path)


def test_positions_beyond_the_end_of_a_sparse_matrix():
    matrix = sparse.csr_array(np.eye(3))
    check_model_settings({"matrix": matrix}, ())
    matrix.indices[0] = 10**6
    with pytest.raises(ValueError, match="indices"):
        check_model_settings({"matrix": matrix}, ())
