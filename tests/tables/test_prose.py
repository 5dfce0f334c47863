"""Columns of sentences become the words that are in them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from unbag import bag_target
from unbag.tables import make_classifier
from unbag.tables.features import TfidfText, is_free_text, make_features
from unbag.tables.persistence import load_model, save_model

RNG = np.random.default_rng(0)
COMMON = [f"word{i}" for i in range(60)]


def note(late):
    informative = RNG.choice(["slow", "refund"] if late else ["swift", "thanks"])
    return " ".join(RNG.permutation([informative, *RNG.choice(COMMON, 5)]))


SHARES = RNG.uniform(0.1, 0.9, size=30)
BAG = np.repeat(np.arange(30), 20)
LATE = RNG.uniform(size=len(BAG)) < SHARES[BAG]
NOTES = pd.DataFrame({"note": [note(late) for late in LATE], "age": RNG.normal(size=len(BAG))})
TARGET = bag_target(BAG, counts=np.bincount(BAG, LATE)[BAG])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (NOTES["note"], True),
        (NOTES["note"].where(RNG.uniform(size=len(BAG)) < 0.5), True),
        (["New York City", "Salt Lake City"] * 30, False),  # categories of three words
        ([f"id-{i}" for i in range(60)], False),
        (NOTES["age"], False),
        ([None] * 60, False),
    ],
)
def test_free_text_is_neither_category_nor_id(values, expected):
    assert is_free_text(pd.Series(values)) == expected


def test_words_are_weighed_as_scikit_learn_does():
    found = TfidfText().fit(NOTES[["note"]])
    plain = TfidfVectorizer(min_df=5, sublinear_tf=True).fit(NOTES["note"])
    assert found.get_feature_names_out().tolist() == [
        f"note_{word}" for word in plain.get_feature_names_out()
    ]
    expected = plain.transform(NOTES["note"])
    assert abs(found.transform(NOTES[["note"]]) - expected).max() == 0


def test_a_column_without_any_frequent_word_gives_nothing():
    alone = pd.DataFrame({"note": [f"a{i} b{i} c{i}" for i in range(20)]})
    assert TfidfText().fit(alone).transform(alone).shape == (20, 0)


def test_a_classifier_learns_from_sentences_and_survives_a_file(tmp_path):
    model = make_classifier("linear").fit(NOTES, TARGET)
    scores = model.decision_function(NOTES)
    assert np.mean((scores > 0) == LATE) > 0.9
    back = load_model(save_model(model, tmp_path / "notes.unbag")).model
    np.testing.assert_array_equal(back.decision_function(NOTES), scores)


def test_sentences_that_are_missing_or_new_are_zeros():
    features = make_features().fit(NOTES)
    names = list(features.get_feature_names_out())
    new = pd.DataFrame({"note": [None, "nothing known here"], "age": [0.0, 0.0]})
    rows = features.transform(new)
    assert names[0] == "age"
    assert (rows[:, 1:] == 0).all()
