"""
Text: which letters complain
============================

A desk receives letters, and reports only the number of complaints per day. Letters are simulated here
from the word frequencies of complaints and of other letters, which differ a little in many words. A
sparse TF-IDF matrix goes to a linear model, which chooses its regularisation from the counts. The AUC
on letters of later days is estimated without labels, and compared with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from unbag import LLPClassifier, bag_target
from unbag.evaluation import evaluate

N_DAYS, N_LETTERS, N_WORDS = 60, 40, 40

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
    words = np.empty((len(day), N_WORDS), dtype=vocabulary.dtype)
    for label in (0, 1):
        size = (np.count_nonzero(labels == label), N_WORDS)
        words[labels == label] = rng.choice(vocabulary, size, p=frequencies[label])
    text = [" ".join(letter) for letter in words]
    counts = np.bincount(day, labels)
    return text, bag_target(day, counts=counts[day]), labels


text, y, _ = letters_of_some_days()
model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LLPClassifier(kernel=None)).fit(text, y)
print(f"One letter:   {text[0][:60]} ...")
print(f"Its features: {model[0].transform(text[:1]).nnz} of {len(model[0].vocabulary_):,} not zero")

text, y, labels = letters_of_some_days()
scores = model.decision_function(text)
print(f"AUC without a label: {evaluate(y, scores)['roc_auc']}")
print(f"True AUC:            {roc_auc_score(labels, scores):.4f}")

# %%
# The coefficient of each word, against how much more frequent the word is in complaints.

ratio = np.log(frequencies[1] / frequencies[0])
words = model[0].get_feature_names_out()
position = {word: i for i, word in enumerate(vocabulary)}
truly = np.array([ratio[position[word]] for word in words])
how_often = np.array([common[position[word]] for word in words])

axes = plt.figure().gca()
rare_first = np.argsort(how_often)
shown = axes.scatter(
    truly[rare_first],
    model[1].coef_[0][rare_first],
    c=how_often[rare_first] / how_often.max(),
    s=8,
    norm="log",
)
plt.colorbar(shown, label="frequency, relative to the most frequent word")
axes.set(xlabel="true log-ratio of frequencies", ylabel="estimated coefficient")
axes.set_title("4,900 words, learned from the counts of 60 days")
plt.show()
