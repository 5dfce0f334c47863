import hashlib
import lzma
import sys
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unbag.datasets import load_adult, load_magic

# of the uncompressed text, which no version of the compressor can change
CHECKSUMS = {
    "flights.csv.xz": "81a22f3be358791c8e359ad91bdc8560fc03a1a2a951b722edcf13cab402acf9",
    "adult-train.csv.xz": "f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb",
    "adult-test.csv.xz": "f6b1801c5d231515ea5ff04d4444997bacd57e04876e94710cb9b9bd5549c033",
    "magic.csv.xz": "ed9c3c747b6a424f579fb830b375bfea72ac4b0f4520fb2edd1ee609df79d0bc",
}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_shipped_text_is_the_original(name):
    packed = files("unbag.datasets").joinpath("data", name).read_bytes()
    assert hashlib.sha256(lzma.decompress(packed)).hexdigest() == CHECKSUMS[name]


def test_licence_names_the_sources():
    text = files("unbag.datasets").joinpath("data", "LICENSE").read_text()
    for bunch in (load_adult("test"), load_magic()):
        assert "CC BY 4.0" in bunch.citation
        doi = bunch.citation.split("doi.org/")[1]
        assert doi in text


@pytest.mark.parametrize(("subset", "rows", "positives"), [
    ("train", 32561, 7841),
    ("test", 16281, 3846),
    ("all", 48842, 11687),
])  # fmt: skip
def test_adult_counts(subset, rows, positives):
    adult = load_adult(subset)
    assert adult.frame.shape == (rows, 14)
    assert adult.target.shape == (rows,)
    assert adult.target.sum() == positives
    assert set(np.unique(adult.target)) == {0, 1}
    assert adult.target.dtype.kind == "i"
    assert adult.target_names.tolist() == ["<=50K", ">50K"]


def test_adult_columns():
    adult = load_adult("all")
    assert sorted(adult.categorical + adult.numerical) == sorted(adult.frame.columns)
    assert all(adult.frame[name].dtype == np.int64 for name in adult.numerical)
    assert all(isinstance(adult.frame[name].iloc[0], str) for name in adult.categorical)
    assert not adult.frame.isna().any().any()
    unknown = (adult.frame[adult.categorical] == "?").sum()
    assert unknown[unknown > 0].to_dict() == {
        "workclass": 2799,
        "occupation": 2809,
        "native-country": 857,
    }
    assert (adult.frame["age"].min(), adult.frame["age"].max()) == (17, 90)
    assert adult.frame["fnlwgt"].max() == 1490400
    assert adult.frame["native-country"].nunique() == 42


def test_adult_keeps_the_order_of_rows():
    train, test, everything = (load_adult(subset) for subset in ("train", "test", "all"))
    pd.testing.assert_frame_equal(
        everything.frame, pd.concat([train.frame, test.frame], ignore_index=True)
    )
    assert np.array_equal(everything.target, np.concatenate([train.target, test.target]))
    assert train.frame["fnlwgt"].iloc[:2].tolist() == [77516, 83311]
    assert test.frame["fnlwgt"].iloc[0] == 226802


def test_magic():
    magic = load_magic()
    assert magic.frame.shape == (19020, 10)
    assert magic.target.sum() == 12332
    assert magic.target[0] == 1
    assert magic.target_names.tolist() == ["h", "g"]
    assert magic.categorical == []
    assert magic.numerical == list(magic.frame.columns)
    assert all(magic.frame[name].dtype == np.float64 for name in magic.numerical)
    assert magic.frame["fLength"].iloc[0] == 28.7967
    assert (magic.frame["fAlpha"].min(), magic.frame["fAlpha"].max()) == (0, 90)
    assert magic.frame["fDist"].mean() == pytest.approx(193.818026, abs=1e-6)


def test_columns_are_ready_for_a_column_transformer():
    adult = load_adult("test")
    encoder = make_column_transformer(
        (OneHotEncoder(), adult.categorical), (StandardScaler(), adult.numerical)
    )
    n_categories = sum(adult.frame[name].nunique() for name in adult.categorical)
    encoded = encoder.fit_transform(adult.frame)
    assert encoded.shape == (16281, n_categories + len(adult.numerical))


def test_missing_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"A data set needs pandas; install it with: pip install"):
        load_magic()


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"subset must be one of 'train', .* not 'valid'"):
        load_adult("valid")
