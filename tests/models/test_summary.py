"""Summaries: coefficients in units of the table are log-odds of rows, and so are their errors."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.models.summary import score_differences

TWO = make_gaussian_bags(n_bags=40, bag_size=25, n_features=3, random_state=0)
THREE = make_gaussian_bags(40, 25, n_classes=3, n_features=2, random_state=0)
# columns of other scales and places, so that the units of the table matter
X = TWO.X * [1.0, 50.0, 0.01] + [3.0, -20.0, 0.0]


class TestSummary:
    def test_errors_of_coefficients_are_those_of_rows(self):
        model = LLPClassifier(kernel=None, class_prior="balanced").fit(X, TWO.y)
        frame = model.summary().frame()
        origin = np.zeros((1, 3))
        score, sd = model.decision_function(origin, return_std=True)
        assert frame["coefficient"][0] == pytest.approx(score[0])
        assert frame["standard_error"][0] == pytest.approx(sd[0])
        for j in range(3):
            unit = np.eye(3)[[j]]
            change, error = score_differences(model, unit, origin)
            assert frame["coefficient"][j + 1] == pytest.approx(change[0])
            assert frame["standard_error"][j + 1] == pytest.approx(error[0])
        np.testing.assert_allclose(frame["coefficient"][1:], model.coef_[0])

    def test_levels_are_compared_with_their_mean(self):
        cities = np.array(["Bonn", "Oslo", "Rome"])
        city = cities[np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))]
        frame = pd.DataFrame({"height": X[:, 1], "city": city})
        model = LLPClassifier(kernel=None).fit(frame, TWO.y)
        found = model.summary().frame().set_index("column")
        each = pd.DataFrame({"height": 0.0, "city": cities})
        scores = model.decision_function(each)
        assert found["coefficient"]["(intercept)"] == pytest.approx(scores.mean())
        f = model.function_
        Phi = f.design_matrix(f.encoder.encode(each))
        for k, name in enumerate(cities):
            level = found.loc[f"city_{name}"]
            assert level["coefficient"] == pytest.approx(scores[k] - scores.mean())
            change = Phi[k] - Phi.mean(axis=0)
            error = np.sqrt(change @ model.covariance_ @ change)
            assert level["standard_error"] == pytest.approx(error)

    def test_intervals_are_those_of_t(self):
        model = LLPClassifier(kernel=None).fit(X, TWO.y)
        frame = model.summary(0.8).frame()
        reach = t.ppf(0.9, model.n_informative_bags_ - 1) * frame["standard_error"]
        np.testing.assert_allclose(frame["high"] - frame["coefficient"], reach)
        np.testing.assert_allclose(frame["coefficient"] - frame["low"], reach)
        np.testing.assert_allclose(frame["t"], frame["coefficient"] / frame["standard_error"])

    def test_robust_errors_of_labels_are_those_of_logistic_regression(self):
        labels = TWO.labels
        model = LLPClassifier(kernel=None, variances={"numbers": 1e4}, tol=1e-6).fit(X, labels)
        design = np.column_stack([np.ones(len(X)), X])
        p = model.predict_proba(X)[:, 1]
        bread = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
        score = design * (labels - p)[:, None]
        # the information is that of a step before, within 1%
        sandwich = bread @ score.T @ score @ bread
        frame = model.summary().frame()
        np.testing.assert_allclose(frame["robust_error"], np.sqrt(np.diag(sandwich)), rtol=0.01)
        np.testing.assert_allclose(frame["standard_error"], np.sqrt(np.diag(bread)), rtol=0.01)

    @pytest.mark.parametrize("data", [TWO, THREE])
    def test_robust_errors_of_bags_are_near_those_of_the_posterior(self, data):
        frame = LLPClassifier(kernel=None).fit(data.X, data.y).summary().frame()
        slopes = frame[frame["column"] != "(intercept)"]
        assert (slopes["standard_error"] < 0.4).all()
        ratio = slopes["robust_error"] / slopes["standard_error"]
        assert 0.7 < ratio.mean() < 1.3

    def test_of_several_classes_names_them(self):
        model = LLPClassifier(kernel=None).fit(THREE.X, THREE.y)
        frame = model.summary().frame()
        for k, own in frame.groupby("class"):
            np.testing.assert_allclose(own["coefficient"][1:], model.coef_[int(k)])

    def test_prints_terms_and_coefficients_but_no_features_of_kernels(self):
        frame = pd.DataFrame(X, columns=["age", "height", "weight"])
        frame["city"] = np.where(X[:, 0] > 3, "Rome", "Oslo")
        model = LLPClassifier(n_landmarks=10).fit(frame, TWO.y)
        text = str(model.summary())
        for word in (
            "age",
            "city_Rome",
            "kernel",
            "95% interval",
            "Robust s.e.",
            "Informative bags",
        ):
            assert word in text
        assert "kernel_0" not in text
        assert not model.summary().frame()["column"].str.startswith("kernel").any()

    def test_of_too_many_coefficients_has_no_errors(self):
        model = LLPClassifier(kernel=None).fit(X, TWO.y)
        model.covariance_ = None
        assert model.summary().frame()["standard_error"].isna().all()
        with pytest.raises(ValueError, match="4 coefficients"):
            score_differences(model, X, X[:1])


@pytest.mark.parametrize(("data", "rows"), [(TWO, X), (THREE, THREE.X)])
def test_differences_to_a_row(data, rows):
    model = LLPClassifier(n_landmarks=15).fit(rows, data.y)
    change, sd = score_differences(model, rows, rows[:1])
    scores = model.decision_function(rows) if data is TWO else model.predict_log_proba(rows)
    if data is THREE:
        scores = scores - scores.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(change, scores - scores[:1], atol=1e-9)
    np.testing.assert_allclose(sd[0], 0.0, atol=1e-6)
    assert (sd[1:] > 0).all()
    draws = np.random.default_rng(0).multivariate_normal(
        model.function_.theta.ravel(), model.covariance_, 4000
    )
    f = model.function_
    Phi = f.design_matrix(f.encoder.encode(rows[:3])) - f.design_matrix(f.encoder.encode(rows[:1]))
    drawn = draws.reshape(4000, *f.theta.shape) @ Phi.T
    if data is THREE:
        drawn = drawn - drawn.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(drawn.std(axis=0).T.squeeze(), sd[:3], rtol=0.06, atol=1e-6)
