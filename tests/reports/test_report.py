"""The whole report: what it says, that what it says is escaped, and how it is written."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from unbag import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
    bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import calibration_curve, cross_fit, evaluate
from unbag.evaluation.curves import CalibrationCurve
from unbag.paper import LMMCMClassifierCV
from unbag.reports import CalibrationDisplay, Report, RocDisplay, model_report
from unbag.reports.report import make_report, reliability_section

DATA = make_gaussian_bags(n_bags=24, bag_size=40, random_state=0)
MODEL = LLPClassifier(kernel=None)


class Page(HTMLParser):
    """Gathers elements, ids and text of a page, and checks that tags are closed."""

    VOID = frozenset(("meta", "link", "img"))

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.outside = [], [], [], [], []
        self.pictures, self.words = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [v[1:] for k, v in attrs if k.endswith("href") and v.startswith("#")]
        self.links += [m for v in values.values() for m in re.findall(r"url\(#([^)]*)\)", v or "")]
        self.outside += [v for k, v in attrs if k in ("src", "href") and v[0] != "#"]
        self.pictures += [values] if tag == "img" else []
        assert not any(name.startswith("on") for name in values)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


@pytest.fixture(scope="module")
def report():
    return model_report(LLPClassifier(kernel=None), DATA.X, DATA.y, labels=DATA.labels)


def section(report, key):
    return next(section for section in report.sections if section.key == key)


def titles(report):
    return [section.title for section in report.sections]


def test_a_page_is_whole_and_needs_nothing_else(report):
    text = report.to_html()
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.links) <= set(page.ids)
    assert all(place.startswith("data:") for place in page.outside)
    assert "script" not in page.tags
    assert "://" not in "".join(page.words)
    assert all(picture["alt"] for picture in page.pictures)
    assert len(page.pictures) == 7
    assert len(text) < 300_000
    # the same report is the same page
    assert report.to_html() == text


def test_every_question_is_answered(report):
    assert [one.key for one in report.sections] == [
        "verdict",
        "performance",
        "columns",
        "probabilities",
        "bags",
    ]
    for one in report.sections:
        if not one.title.startswith("Which"):
            assert one.findings[0].text.startswith(("Yes", "No", "Unclear"))
    assert report.warnings == ()
    words = str(report)
    auc = report.evaluation["roc_auc"]
    digits = 3 if auc.high - auc.low < 0.04 else 2
    assert f"{auc.value:.{digits}f}" in words
    wide = report.evaluation.by_assumption["sensitivity"]["roc_auc"]
    (table,) = section(report, "performance").tables
    row = next(row for row in table.rows if "AUC" in row[0])
    assert row[table.header.index("Sensitivity range")].startswith(f"{wide.low:.2f}")
    assert not any("error" in head.lower() for head in table.header)
    assert set(report.displays) >= {"roc", "bags", "reliability", "importance", "effects"}


def test_the_truth_is_shown_with_the_estimates(report):
    (table,) = section(report, "performance").tables
    truth = balanced_accuracy_score(DATA.labels, report.evaluation.scores > 0)
    row = next(row for row in table.rows if row[0] == "Balanced accuracy")
    assert row[-1] == f"{100 * truth:.1f}%"
    assert table.header[-1] == "With the labels"


def test_ranges_and_estimates_from_labels_are_named_as_what_they_are():
    y = bag_target(DATA.y["bag"], np.random.default_rng(0).permutation(24)[DATA.y["bag"]] / 40)
    model = clone(MODEL).fit(DATA.X, DATA.y)
    scores = model.decision_function(DATA.X)
    found = evaluate(y, scores, n_resamples=50)
    assert found["roc_auc"].is_range
    page = make_report(model, found, DATA.X, y)
    assert findings(page, "verdict")[0].text.startswith("No, only the ranges.")
    (table,) = section(page, "performance").tables
    assert table.header[1].startswith("If ")
    labels = np.where(np.arange(len(y)) % 4, np.nan, DATA.labels)
    found = evaluate(DATA.y, scores, labels=labels, n_resamples=50)
    page = make_report(model, found, DATA.X, DATA.y)
    first = findings(page, "verdict")[0]
    assert page.tiles[0].value == "240"
    assert first.kind == "good"
    assert "from the labelled rows" in first.text
    assert "ranges" not in first.text
    assert found.verdict.advice == ()
    display = RocDisplay.from_evaluation(found)
    assert display.auc == found["roc_auc"].alone
    assert "from labels alone" in str(display)
    # the trapezoids below the curve are the area that stands with it
    area = np.trapezoid(display.band.tpr, display.band.fpr)
    assert area == pytest.approx(display.auc.value, abs=0.02)
    assert (display.band.low <= display.band.tpr).all()
    assert (display.band.tpr <= display.band.high).all()


# --- bag effects --------------------------------------------------------------------------------


def findings(report, key):
    return section(report, key).findings


def shops(effect, n_bags=60, size=60):
    """Covariate shift, up to a bag effect on the log-odds."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(n_bags), size)
    X = rng.normal(size=(len(bag), 2)) + rng.normal(size=(n_bags, 2))[bag]
    odds = np.exp(1.5 * X[:, 0] + effect * rng.normal(size=n_bags)[bag])
    labels = rng.uniform(size=len(bag)) < odds / (1 + odds)
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag])


def test_bag_effects_are_reported_with_the_assumption():
    X, y = shops(effect=1.0)
    report = model_report(LLPClassifier(kernel=None), X, y, cv=3, n_resamples=50)
    assert report.estimator.bag_effect_ > 0
    reported = [f for f in findings(report, "verdict") if "count likelihood" in f.text]
    assert [f.kind for f in reported] == ["note"]
    assert "between bags" in reported[0].text


def test_bags_that_differ_in_who_is_in_them_are_noticed(report):
    X, y = shops(effect=0.0)
    other = model_report(LLPClassifier(kernel=None), X, y, cv=3, n_resamples=50)
    for one, words in ((other, "No conflict with covariate shift"), (report, "label shift found")):
        assert words in findings(one, "verdict")[0].text
        assert any("covariate shift expects 1.00" in f.text for f in findings(one, "verdict"))
    assert any(
        "effects that follow the bag means of scores" in f.text for f in findings(other, "verdict")
    )
    assert any("Label shift is rejected" in f.text for f in findings(other, "verdict"))


def test_models_without_a_likelihood_report_no_effects():
    corrected = LMMCMClassifierCV([0.01, 0.1], kernel="linear")
    report = model_report(corrected, DATA.X, DATA.y, cv=2, n_resamples=50)
    assert "effect" not in str(report)
    assert "unexplained" not in str(report)


def test_names_are_text_and_nothing_else(nasty_report):
    text = nasty_report.to_html()
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert {one["src"][:26] for one in page.pictures} == {"data:image/svg+xml;base64,"}
    words = "".join(page.words)
    assert "<script>alert(2)</script> & $t$ \\u2067" in words
    assert "'<script>alert(1)</script>'" in words
    assert "be\\x07ll\\nline" in words
    assert not set("\u202e\x07\u2067") & set(text)
    assert nasty_report.evaluation.tests["The features"].reject
    assert any("not linear in the proportions" in text for text in nasty_report.warnings)


def test_yours_stays_as_it_is_and_fitted_models_are_used():
    mine = LLPClassifier(kernel=None)
    report = model_report(mine, DATA.X, DATA.y, cv=2, n_resamples=50)
    assert not hasattr(mine, "coef_")
    assert hasattr(report.estimator, "coef_")
    fitted = clone(mine).fit(DATA.X, DATA.y)
    assert model_report(fitted, DATA.X, DATA.y, cv=2, n_resamples=50).estimator is fitted


def test_pages_are_written_at_once_or_not_at_all(report, tmp_path, monkeypatch):
    monkeypatch.setattr(Report, "to_html", lambda _: "α page")
    target = tmp_path / "page.html"
    target.write_text("old")
    assert report.save(target) == target
    assert target.read_text(encoding="utf-8") == "α page"
    target.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.save(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_path_that_cannot_be_is_refused_before_the_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model_report(None, None, None, path=tmp_path / "nowhere" / "page.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        model_report(None, None, None, path=tmp_path)


def test_a_path_is_written(tmp_path):
    model_report(MODEL, DATA.X, DATA.y, cv=2, n_resamples=50, path=str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_three_classes():
    data = make_gaussian_bags(n_bags=24, bag_size=30, n_classes=3, random_state=0)
    report = model_report(MODEL, data.X, data.y, cv=3, n_resamples=50, labels=data.labels)
    assert "roc" not in report.displays
    names = [row[0] for row in section(report, "performance").tables[0].rows]
    assert names[-3:] == [f"Recall of class {c}" for c in range(3)]
    page = Page(report.to_html())
    assert page.open == []
    assert "On average over the 3 classes" in "".join(page.words)


def test_plain_labels():
    labels = np.array(["<no>", "$yes$"])[DATA.labels]
    report = model_report(MODEL, DATA.X, labels, cv=3, n_resamples=50)
    words = "".join(Page(report.to_html()).words)
    assert "estimated from labels" in words
    assert "All 960 rows are labelled" in words


def test_frames_with_text_and_gaps_in_a_pipeline():
    X = pd.DataFrame(DATA.X, columns=["a", "b"]).assign(words="w", gaps=[np.nan] + [0.0] * 959)
    first = make_pipeline(_Keep(["a", "b"]), StandardScaler(), LLPClassifier(kernel=None))
    report = model_report(first, X, DATA.y, cv=2, n_resamples=50)
    # what the model sees is tested, not what it never gets
    assert list(report.evaluation.tests["The features"].features["feature"]) == [
        "column 0",
        "column 1",
    ]
    plain = model_report(MODEL, DATA.X, DATA.y, cv=2, n_resamples=50, feature_names=["a", "b"])
    assert list(plain.evaluation.tests["The features"].features["feature"]) == ["a", "b"]


class _Keep(StandardScaler):
    """Passes on some columns."""

    def __init__(self, columns):
        self.columns = columns

    def fit(self, X, y=None):  # noqa: ARG002
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X[self.columns].to_numpy()


def test_sparse_data():
    report = model_report(MODEL, csr_array(DATA.X), DATA.y, cv=2, n_resamples=50)
    assert not report.evaluation.tests["The features"].reject


def test_few_and_similar_bags_are_warned_of():
    rng = np.random.default_rng(0)
    data = make_gaussian_bags(n_bags=8, bag_size=60, proportions=(0.47, 0.53), random_state=2)
    share = rng.permutation(np.linspace(0.48, 0.52, 8))
    y = bag_target(data.y["bag"], share[data.y["bag"]])
    report = model_report(MODEL, rng.normal(size=data.X.shape), y, cv=4, n_resamples=50)
    words = " ".join(report.warnings)
    assert "carry little information" in words
    assert "random guessing" in words or "leave 0 to 1" in words
    assert Page(report.to_html()).open == []


def test_noisy_proportions():
    y = bag_target(DATA.y["bag"], DATA.y["proportion"], noise=0.02)
    report = model_report(MODEL, DATA.X, y, cv=2, n_resamples=50)
    assert "proportions are noisy" in str(report)


def test_a_fit_that_did_not_converge_is_warned_of():
    fitted = LLPClassifier(kernel=None).fit(DATA.X, DATA.y)
    fitted.converged_ = False
    report = model_report(fitted, DATA.X, DATA.y, cv=2, n_resamples=50)
    assert any("did not converge" in text for text in report.warnings)


def test_notebooks_get_a_frame_of_its_own(report):
    shown = report._repr_html_()
    assert isinstance(report, Report)
    assert shown.startswith("<iframe")
    assert "<script" not in shown
    assert Page(shown).tags == ["iframe"]


def test_a_mixture_says_what_it_is_made_of():
    data = make_gaussian_bags(n_bags=24, bag_size=15, random_state=0)
    models = [("linear", LLPClassifier(kernel=None)), ("boosted", LLPBoostingClassifier())]
    model = LLPEnsembleClassifier(models, cv=3).fit(data.X, data.y)
    report = model_report(model, data.X, data.y, cv=3, n_resamples=50)
    (table,) = section(report, "learners").tables
    assert [row[0] for row in table.rows] == [row["learner"] for row in model.leaderboard_]
    assert "effects" not in report.displays


# --- columns ------------------------------------------------------------------------------------


def test_effects_and_terms_of_a_mixed_model_are_shown():
    X = pd.DataFrame(DATA.X, columns=["a", "b"])
    report = model_report(MODEL, X, DATA.y, cv=2, n_resamples=50)
    one = section(report, "columns")
    assert [effect.column for effect in report.displays["effects"].effects] == ["a", "b"]
    assert [picture.caption for picture in one.pictures] == ["Effect of a.", "Effect of b."]
    terms, importance = one.tables
    assert [row[0] for row in terms.rows] == ["numbers"]
    shares = [float(row[1].removesuffix("%")) for row in importance.rows]
    assert max(shares) <= 100
    assert sum(shares) == pytest.approx(100, abs=1)


def test_each_test_has_one_p_value(report, nasty_report):
    for one in (report, nasty_report):
        tests = [test for test in one.evaluation.tests.values() if not isinstance(test, str)]
        words = str(one)
        for test in tests:
            assert words.count(test.summary) == 1


def test_classes_have_their_names():
    data = make_gaussian_bags(n_bags=24, bag_size=30, n_classes=3, random_state=0)
    y = bag_target(data.y["bag"], data.y["proportion"], class_names=["Ann", "Bob", "<Cy>"])
    report = model_report(MODEL, data.X, y, cv=3, n_resamples=50)
    assert report.displays["effects"].of == "<Cy>"
    words = "".join(Page(report.to_html()).words)
    assert "Recall of class Bob" in words
    assert "class 0" not in words


# --- where the page comes from ------------------------------------------------------------------


def test_the_command_is_shown_and_no_address_in_memory():
    report = model_report(
        make_pipeline(FunctionTransformer(np.tanh), MODEL),
        *(DATA.X, DATA.y),
        cv=2,
        n_resamples=50,
        command="unbag report <a> b",
    )
    words = "".join(Page(report.to_html()).words)
    assert "unbag report <a> b" in words
    assert "<ufunc 'tanh'>" in words
    assert " at 0x" not in words


# --- probabilities ------------------------------------------------------------------------------


def test_probabilities_are_those_of_the_model_itself():
    model = LLPEnsembleClassifier([("linear", LLPClassifier(kernel=None))], cv=3)
    model.fit(DATA.X, DATA.y)
    report = model_report(model, DATA.X, DATA.y, cv=3, n_resamples=50)
    own = expit(cross_fit(model, DATA.X, DATA.y, cv=3).log_odds)
    expected = calibration_curve(DATA.y, own)
    (curve,) = report.displays["reliability"].curves.values()
    np.testing.assert_allclose(curve.predicted, expected.predicted)
    np.testing.assert_allclose(curve.observed, expected.observed)


def curve_of(observed, error, predicted=None):
    n = len(observed)
    predicted = np.linspace(0.1, 0.9, n) if predicted is None else predicted
    numbers = np.array(predicted), np.array(observed), np.full(n, error), np.full(n, 10)
    return CalibrationDisplay({"1": CalibrationCurve(*numbers)})


@pytest.mark.parametrize(
    ("display", "kind"),
    [
        (curve_of(np.linspace(0.12, 0.88, 10), 0.02), "good"),
        # bars of 89 points: nothing else could have been found
        (curve_of(np.linspace(0.12, 0.88, 10), 0.445), "note"),
        (curve_of([0.5], 0.01, [0.6]), "warning"),
        (curve_of([0.1, 0.5, 0.5], 0.01, [0.1, 0.3, 0.8]), "warning"),
    ],
)
def test_what_could_not_fail_is_not_called_good(display, kind):
    reported = [f for f in reliability_section(display).findings if "agree within" in f.text]
    assert [f.kind for f in reported] == [kind]
    assert ("could not have shown" in reported[0].text) == (kind == "note")


def test_probabilities_are_not_judged_by_what_bags_refute():
    X, y = shops(effect=0.0)
    report = model_report(LLPClassifier(kernel=None), X, y, cv=3, n_resamples=50)
    assert report.evaluation.verdicts["label_shift"].name == "rejected"
    assert "rests on label shift" in str(section(report, "probabilities"))
    assert "reliability" not in report.displays
