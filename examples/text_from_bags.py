"""
Text: which letters complain
============================

From raw text to a classifier: letters in, and for each day the share of them that complain.

A desk gets letters, and nobody sorts them; of each day it is only known how many were complaints.
Here letters are drawn from the word frequencies of complaints and of others, which differ a little
in many words. A sparse matrix of TF-IDF goes to a linear model, which finds by itself how strongly
to hold its thousands of coefficients back. How well single letters of later days are told apart is
estimated without labels, and stands beside the truth that only this script knows.
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from unbag import LinearMCMClassifierCV, bag_target
from unbag.metrics import evaluate

N_DAYS, N_LETTERS, N_WORDS = 80, 40, 40

rng = np.random.default_rng(0)
syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
vocabulary = np.array([first + second for first in syllables for second in syllables])
common = 1 / np.arange(10, 10 + len(vocabulary))
complaints = common * np.exp(rng.normal(scale=0.5, size=len(vocabulary)))
frequencies = [common / common.sum(), complaints / complaints.sum()]


def letters_of_some_days():
    """Draw raw text, the target that is known of it, and the labels that nobody has."""
    day = np.repeat(np.arange(N_DAYS), N_LETTERS)
    labels = (rng.random(len(day)) < rng.uniform(0.05, 0.6, N_DAYS)[day]).astype(int)
    text = [" ".join(rng.choice(vocabulary, N_WORDS, p=frequencies[label])) for label in labels]
    counts = np.bincount(day, labels)
    return text, bag_target(day, counts=counts[day]), labels


text, y, _ = letters_of_some_days()
model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearMCMClassifierCV()).fit(text, y)
print(f"One letter:   {text[0][:60]} ...")
print(f"Its features: {model[0].transform(text[:1]).nnz} of {len(model[0].vocabulary_):,} not zero")

text, y, labels = letters_of_some_days()
scores = model.decision_function(text)
print(f"AUC without a label: {evaluate(y, scores)['roc_auc']}")
print(f"AUC in truth:        {roc_auc_score(labels, scores):.4f}")
