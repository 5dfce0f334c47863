import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from unbag import LLPClassifier, bag_target, check_bag_target, multi_grouping_target
from unbag.datasets import make_gaussian_bags
from unbag.defaults import PRIOR_WEIGHT
from unbag.models.likelihoods import UniformPrior
from unbag.models.newton import DesignLikelihood, maximise
from unbag.models.variances import VarianceComponents
from unbag.observations.information import CountObservation
from unbag.terms.columns import NumberTerm
from unbag.terms.design import Design
from unbag.terms.encoding import EncodedRows


def make_problem(X, y):
    """The likelihood of numbers in the order of their bags."""
    bags, _ = check_bag_target(y).with_labelled_rows_apart()
    order = np.argsort(bags.index, kind="stable")
    rows = EncodedRows(X[order], np.empty((len(X), 0), dtype=np.int32))
    term = NumberTerm("numbers", [f"x{i}" for i in range(X.shape[1])], list(range(X.shape[1])))
    term.fit(rows)
    observation = CountObservation(bags.reordered(order))
    design = Design([term], rows, observation.sizes)
    return DesignLikelihood(design, observation), design


def covariate_shift(rng, n_bags, size, slopes=(1.0, -0.7, 0.4), intercept=-0.5):
    bag = np.repeat(np.arange(n_bags), size)
    X = rng.normal(size=(len(bag), len(slopes))) + 0.7 * rng.normal(size=(n_bags, len(slopes)))[bag]
    labels = rng.random(len(bag)) < expit(intercept + X @ slopes)
    counts = np.bincount(bag, labels, n_bags)
    return X, bag_target(bag, counts=counts[bag]), labels


class TestPureBagsAreLabels:
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_ridge_logistic_regression(self, n_classes):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 3))
        labels = np.argmax(
            X @ rng.normal(size=(3, n_classes)) + rng.gumbel(size=(120, n_classes)), 1
        )
        model = LLPClassifier(
            kernel=None, variances={"numbers": 0.3}, bag_effect=0.0, tol=1e-6
        ).fit(X, labels)
        scaled = (X - X.mean(axis=0)) / X.std(axis=0)
        ridge = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(scaled, labels)
        np.testing.assert_allclose(model.predict_proba(X), ridge.predict_proba(scaled), atol=1e-5)

    def test_a_bag_of_one_class_is_so_many_labels(self):
        rng = np.random.default_rng(1)
        X, labels = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
        bags = bag_target(labels, counts=30.0 * labels)
        settings = {"kernel": None, "variances": {"numbers": 1.0}, "bag_effect": 0.0, "tol": 1e-6}
        one, other = (LLPClassifier(**settings).fit(X, y) for y in (bags, labels))
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)


def test_gradient_and_information_of_coefficients():
    rng = np.random.default_rng(2)
    X, y, _ = covariate_shift(rng, 12, 9)
    likelihood, _ = make_problem(X, y)
    theta = rng.normal(size=(1, 4)) * 0.5
    at, h = likelihood.derivatives(theta), 1e-5
    ends = [
        [likelihood.derivatives(theta + sign * h * np.eye(4)[[i]]) for sign in (1, -1)]
        for i in range(4)
    ]
    gradient = [(up.value - down.value) / (2 * h) for up, down in ends]
    np.testing.assert_allclose(at.gradient[0], gradient, rtol=1e-5)
    H = np.array([(down.gradient - up.gradient)[0] / (2 * h) for up, down in ends])
    assert np.linalg.norm(at.information - H, 2) < 0.02 * np.linalg.norm(H, 2)


@pytest.mark.parametrize("effect", ["auto", 0.1])
def test_training_again_leaves_nothing_of_the_counts_of_its_start(effect):
    X, y, _ = covariate_shift(np.random.default_rng(4), 60, 20)
    rng = np.random.default_rng(5)
    others = bag_target(y["bag"], counts=rng.permutation(np.arange(60) // 4)[y["bag"]])
    model = LLPClassifier(n_landmarks=20, bag_effect=effect, tol=1e-4)
    starts = [clone(model).fit(X, each) for each in (y, others)]
    some = y["bag"] < 50
    one, other = (start.refit(X[some], y[some]) for start in starts)
    scores = one.decision_function(X)
    np.testing.assert_allclose(other.decision_function(X), scores, atol=0.01)
    np.testing.assert_allclose(other.covariance_, one.covariance_, atol=5e-3)
    differences = [start.decision_function(X) - scores for start in starts]
    assert 0.03 < differences[0].std() < 0.3 < differences[1].std()


def test_training_again_with_other_classes_starts_anew():
    rng = np.random.default_rng(6)
    X, labels = rng.normal(size=(90, 2)), np.arange(90) % 3
    model = LLPClassifier(kernel=None).fit(X[labels < 2], labels[labels < 2])
    expected = LLPClassifier(kernel=None).fit(X, labels)
    np.testing.assert_array_equal(model.refit(X, labels).coef_, expected.coef_)


def test_marginal_likelihood_is_the_integral():
    rng = np.random.default_rng(3)
    X, y, _ = covariate_shift(rng, 15, 8, slopes=(1.0,))
    likelihood, design = make_problem(X, y)
    variance = 0.4
    components = VarianceComponents(
        [slice(1, 2)], np.array([variance]), 1, 2, np.array([0.5]), fixed=True
    )
    fit = maximise(likelihood, np.zeros((1, 2)), components, bag_effect=0.0, tol=1e-6)
    b = fit.theta[0, 0]

    def integrand(w):
        # the constant at its best value and its Gaussian integral, as in Laplace's approximation
        return np.exp(
            likelihood.value(np.array([[b, w]])) - fit_value - 0.5 * w**2 / variance
        ) / np.sqrt(2 * np.pi * variance)

    fit_value = likelihood.value(fit.theta)
    exact = fit_value + np.log(quad(integrand, -4, 4)[0])
    H = likelihood.derivatives(fit.theta).information
    schur = H[1, 1] + 1 / variance
    laplace = fit.log_marginal_likelihood + 0.5 * np.log(
        np.linalg.det(H + np.diag([0, 1 / variance])) / schur
    )
    assert laplace == pytest.approx(exact, abs=0.1)
    assert design.n_columns == 2


def test_the_variance_maximises_the_marginal_likelihood():
    rng = np.random.default_rng(4)
    X, y, _ = covariate_shift(rng, 60, 20)
    settings = {"kernel": None, "bag_effect": 0.0, "tol": 1e-4}
    best = LLPClassifier(**settings).fit(X, y)
    sd = best.terms_[0].standard_deviation

    def criterion(variance):
        model = LLPClassifier(variances={"numbers": variance}, **settings).fit(X, y)
        log_prior = -0.5 * PRIOR_WEIGHT * (np.log(variance) + 0.5**2 / variance)
        return model.log_marginal_likelihood_ + log_prior

    around = [criterion(sd**2 * factor) for factor in (0.5, 1.0, 2.0)]
    assert np.argmax(around) == 1


def test_order_of_rows_and_of_bags_does_not_matter():
    rng = np.random.default_rng(5)
    X, y, _ = covariate_shift(rng, 20, 12)
    rows = rng.permutation(len(X))
    settings = {"kernel": None, "tol": 1e-5}
    one = LLPClassifier(**settings).fit(X, y)
    other = LLPClassifier(**settings).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-8)
    assert one.log_marginal_likelihood_ == pytest.approx(other.log_marginal_likelihood_)


def test_linear_coefficients_make_the_scores():
    data = make_gaussian_bags(20, 15, n_features=3, random_state=0)
    model = LLPClassifier(kernel=None).fit(data.X, data.y)
    expected = data.X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(data.X), expected)
    assert model.coef_names_ == ["x0", "x1", "x2"]


def test_a_sparse_matrix_is_a_dense_one():
    rng = np.random.default_rng(6)
    X, y, _ = covariate_shift(rng, 20, 12)
    X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    sparse = LLPClassifier(variances={"numbers": 1.0}, bag_effect=0.0, tol=1e-6).fit(
        csr_matrix(X), y
    )
    scale = np.sqrt((X**2).sum() / len(X))
    settings = {"bag_effect": 0.0, "kernel": None, "tol": 1e-6}
    same_penalty = {f"group {i}": 1.0 / scale**2 * v for i, v in enumerate(X.var(axis=0))}
    dense = LLPClassifier(groups=[[0], [1], [2]], variances=same_penalty, **settings).fit(X, y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)


class TestTerms:
    def frame(self, n_bags=150, size=60, sd=0.8):
        rng = np.random.default_rng(7)
        X, _, _ = covariate_shift(rng, n_bags, size)
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        level = rng.integers(30, size=len(X))
        effect = sd * rng.normal(size=30)
        bag = np.repeat(np.arange(n_bags), size)
        probability = expit(-0.5 + X @ (1, -0.7, 0.4) + effect[level])
        labels = rng.random(len(X)) < probability
        counts = np.bincount(bag, labels, n_bags)
        frame["site"] = pd.Categorical([f"s{i:02}" for i in level])
        frame["nothing"] = rng.choice([f"n{i}" for i in range(30)], size=len(X))
        return frame, bag_target(bag, counts=counts[bag]), labels

    def test_categories_are_random_effects(self):
        frame, y, labels = self.frame()
        model = LLPClassifier(kernel=None).fit(frame, y)
        terms = {term.term: term for term in model.terms_}
        assert list(terms) == ["numbers", "site", "nothing"]
        assert terms["site"].standard_deviation > 2 * terms["nothing"].standard_deviation
        assert terms["nothing"].variance_share < 0.1 * terms["site"].variance_share
        assert sum(term.variance_share for term in model.terms_) == pytest.approx(1)
        without = LLPClassifier(kernel=None).fit(frame.drop(columns=["site", "nothing"]), y)
        gained = [
            roc_auc_score(labels, m.decision_function(frame[m.feature_names_in_]))
            for m in (without, model)
        ]
        assert gained[1] > gained[0] + 0.002

    def test_levels_that_training_did_not_have_have_no_effect(self):
        frame, y, _ = self.frame(40, 20)
        model = LLPClassifier(kernel=None).fit(frame, y)
        new = frame.iloc[:3].assign(site="elsewhere", nothing="none")
        numbers = model.coef_[0, :3] @ new[["a", "b", "c"]].to_numpy().T
        np.testing.assert_allclose(
            model.decision_function(new), model.intercept_[0] + numbers, atol=1e-10
        )

    def test_columns_of_0_and_1_count_as_the_levels_of_a_category_do(self):
        rng = np.random.default_rng(0)
        X, _, _ = covariate_shift(rng, 40, 25)
        level = rng.choice(4, size=len(X), p=[0.02, 0.18, 0.3, 0.5])
        effect = np.array([1.0, -1.0, 0.5, 0.0])[level]
        labels = rng.random(len(X)) < expit(X @ [1.0, -0.7, 0.4] + effect)
        bag = np.repeat(np.arange(40), 25)
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        array = np.column_stack([np.eye(4)[level], X])
        frame = pd.DataFrame(X, columns=list("abc")).assign(level=pd.Categorical(level))
        settings = {"kernel": None, "tol": 1e-4}
        one, other = (LLPClassifier(**settings).fit(table, y) for table in (array, frame))
        assert [(term.term, term.columns) for term in one.terms_] == [
            ("numbers", ["x4", "x5", "x6"]),
            ("indicators", ["x0", "x1", "x2", "x3"]),
        ]
        np.testing.assert_allclose(
            [term.standard_deviation for term in one.terms_],
            [term.standard_deviation for term in other.terms_],
            rtol=1e-3,
        )
        np.testing.assert_allclose(
            one.decision_function(array), other.decision_function(frame), atol=1e-3
        )

    def test_columns_of_0_and_1_stay_in_their_group(self):
        rng = np.random.default_rng(0)
        X, y, _ = covariate_shift(rng, 20, 25)
        X = np.column_stack([X, rng.random((len(X), 2)) < 0.3])
        model = LLPClassifier(kernel=None, groups={"own": [2, 3]}).fit(X, y)
        assert [(term.term, term.columns) for term in model.terms_] == [
            ("own", ["x2", "x3"]),
            ("numbers", ["x0", "x1"]),
            ("indicators", ["x4"]),
        ]

    def test_groups_of_columns_have_variances_of_their_own(self):
        rng = np.random.default_rng(8)
        X, y, _ = covariate_shift(rng, 200, 30, slopes=(1.0, -1.0, 0.0, 0.0, 0.0, 0.0))
        model = LLPClassifier(kernel=None, groups={"signal": [0, 1]}).fit(X, y)
        assert [term.term for term in model.terms_] == ["signal", "numbers"]
        signal, rest = model.terms_
        assert signal.standard_deviation > 2 * rest.standard_deviation
        together = LLPClassifier(kernel=None).fit(X, y)
        assert model.log_marginal_likelihood_ > together.log_marginal_likelihood_

    def test_the_kernel_vanishes_where_data_are_linear_and_not_elsewhere(self):
        rng = np.random.default_rng(9)
        X, y, _ = covariate_shift(rng, 200, 30, slopes=(1.0, -0.7))
        linear = LLPClassifier(n_landmarks=60).fit(X, y).terms_[1]
        bag = np.repeat(np.arange(200), 30)
        labels = rng.random(len(X)) < expit(2 - 2 * np.abs(X[:, 0]) * np.abs(X[:, 1]) * 2)
        y = bag_target(bag, counts=np.bincount(bag, labels, 200)[bag])
        bent = LLPClassifier(n_landmarks=60).fit(X, y).terms_[1]
        assert linear.variance_share < 0.05
        assert bent.variance_share > 0.5


def test_intervals_hold_the_truth_as_often_as_they_say():
    covered = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X, y, _ = covariate_shift(rng, 60, 25)
        model = LLPClassifier(kernel=None).fit(X, y)
        truth = expit(-0.5 + X[:50] @ (1.0, -0.7, 0.4))
        low, high = model.predict_interval(X[:50]).T
        covered.append(((low <= truth) & (truth <= high)).mean())
    assert 0.85 < np.mean(covered) <= 1


def test_standard_deviations_of_several_classes_are_those_of_draws():
    data = make_gaussian_bags(40, 30, n_classes=3, n_features=2, random_state=0)
    model = LLPClassifier(kernel=None).fit(data.X, data.y)
    scores, sd = model.decision_function(data.X[:20], return_std=True)
    p = model.predict_proba(data.X[:20])
    np.testing.assert_allclose(scores, np.log(p) - np.log1p(-p))
    rng, scaled = np.random.default_rng(0), (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    # few enough deviations for log-odds to be linear
    deviations = 0.1 * rng.multivariate_normal(np.zeros(9), model.covariance_, size=4000)
    Phi = np.column_stack([np.ones(20), scaled[:20]])
    centre = model.decision_function(data.X[:20]).T
    drawn = softmax(centre + deviations.reshape(-1, 3, 3) @ Phi.T, axis=1)
    drawn = np.log(drawn) - np.log1p(-drawn)
    np.testing.assert_allclose(sd, drawn.std(axis=0).T / 0.1, rtol=0.1)


def test_bags_that_differ_more_than_the_model_says_widen_intervals():
    rng = np.random.default_rng(11)
    bag = np.repeat(np.arange(100), 200)
    X = rng.normal(size=(len(bag), 1)) + rng.normal(size=(100, 1))[bag]
    labels = rng.random(len(bag)) < expit(X[:, 0] + 0.5 * rng.normal(size=100)[bag])
    y = bag_target(bag, counts=np.bincount(bag, labels, 100)[bag])
    model = LLPClassifier(kernel=None).fit(X, y)
    assert 0.12 < model.bag_effect_ < 0.5
    assert model.coef_[0, 0] == pytest.approx(1, abs=0.15)
    assert model.dispersion_ < 1.5
    fixed = LLPClassifier(kernel=None, bag_effect=0.0).fit(X, y)
    sds = [m.decision_function(X, return_std=True)[1].mean() for m in (model, fixed)]
    assert sds[0] > 1.5 * sds[1]


@pytest.mark.parametrize("options", [{}, {"noise": 3.0}])
@pytest.mark.parametrize("n", [9, 40])
def test_random_intercepts_are_integrated_out(n, options):
    rng = np.random.default_rng(n)
    y = bag_target(np.zeros(n, dtype=int), counts=np.full(n, float(n // 3)), **options)
    plain = CountObservation(check_bag_target(y))
    scores, h = rng.normal(size=(1, n)), 1e-4
    mixed = plain.with_bag_effects(0.3)

    def integrand(u):
        return np.exp(plain.value(scores + u) - 0.5 * u**2 / 0.3) / np.sqrt(2 * np.pi * 0.3)

    value, residual = mixed.value_and_residual(scores)
    assert value == pytest.approx(np.log(quad(integrand, -5, 5)[0]), abs=0.01)
    moves = h * np.eye(n)[:, None]
    slopes = [(mixed.value(scores + m) - mixed.value(scores - m)) / (2 * h) for m in moves]
    np.testing.assert_allclose(residual[0], slopes, atol=2e-4)
    assert plain.with_bag_effects(1e-9).value(scores) == pytest.approx(
        plain.value(scores), abs=1e-6
    )


def test_random_intercepts_of_a_class_that_nobody_has_change_nothing():
    rng = np.random.default_rng(0)
    bag, several = np.repeat(np.arange(5), 30), rng.integers(1, 9, size=150)
    size = np.bincount(bag, several).astype(int)
    count = rng.integers(1, size)
    counts = np.column_stack([size - count, count, np.zeros(5)])
    two, three = (
        CountObservation(check_bag_target(y, accept=("multiplicity",))).with_bag_effects(0.6)
        for y in (
            bag_target(bag, counts=known[bag], multiplicity=several) for known in (count, counts)
        )
    )
    scores, direction = rng.normal(size=(2, 1, 150))
    none = np.zeros_like(scores)
    value, residual = two.value_and_residual(scores)
    beside = np.concatenate([none, scores, none - 40.0])
    found, residuals = three.value_and_residual(beside)
    # the saddlepoint approximation of several classes is of the first order
    assert found == pytest.approx(value, abs=0.02)
    np.testing.assert_allclose(residuals, np.concatenate([-residual, residual, none]), atol=0.01)
    information = [two.information(scores, residual), three.information(beside, residuals)]
    moved = three.times(information[1], np.concatenate([none, direction, none]))
    expected = two.times(information[0], direction)
    np.testing.assert_allclose(moved[1:2], expected, atol=0.02 * np.abs(expected).max())


def test_gradient_with_random_intercepts_of_three_classes():
    rng = np.random.default_rng(1)
    bag, several = np.repeat(np.arange(4), 5), rng.integers(1, 40, size=20)
    counts = np.array([rng.multinomial(n, [0.2, 0.3, 0.5]) for n in np.bincount(bag, several)])
    y = bag_target(bag, counts=counts[bag], multiplicity=several)
    bags = check_bag_target(y, accept=("multiplicity",))
    observation = CountObservation(bags).with_bag_effects(0.7)
    scores, h = rng.normal(size=(3, 20)), 1e-5
    moves = h * np.eye(60).reshape(60, 3, 20)
    slopes = [observation.value(scores + m) - observation.value(scores - m) for m in moves]
    _, residual = observation.value_and_residual(scores)
    np.testing.assert_allclose(residual.ravel(), np.array(slopes) / (2 * h), atol=1e-6)


def test_bags_of_three_classes_that_differ_more_than_the_model_says_have_a_bag_effect():
    rng = np.random.default_rng(2)
    bag = np.repeat(np.arange(100), 200)
    X = rng.normal(size=(len(bag), 1)) + rng.normal(size=(100, 1))[bag]
    effects = rng.normal(size=(2, 100, 3)) * np.sqrt(0.3 / 2)
    for effect, low, high in ((effects[0], 0.15, 0.5), (0 * effects[1], 0.0, 0.03)):
        scores = X * np.array([0.0, 1.0, -0.5]) + effect[bag]
        labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        counts = np.stack([np.bincount(bag, labels == c, 100) for c in range(3)], axis=1)
        model = LLPClassifier(kernel=None).fit(X, bag_target(bag, counts=counts[bag]))
        assert low <= model.bag_effect_ < high
        assert model.dispersion_ < 1.5
        assert np.isfinite(model.n_informative_bags_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_bag_effect_is_found_under_label_shift(n_classes):
    data = make_gaussian_bags(100, 60, n_features=3, n_classes=n_classes, random_state=0)
    model = LLPClassifier(kernel=None).fit(data.X, data.y)
    assert model.bag_effect_ < 0.01
    assert model.dispersion_ < 1.3


def test_bags_of_both_kinds_have_next_to_no_bag_effect():
    rng, n, slopes = np.random.default_rng(5), 300, np.array([1.0, -0.7, 0.4])
    bag, by_label = np.repeat(np.arange(n), 100), np.repeat(np.arange(n) < n // 2, 100)
    positive = rng.random(len(bag)) < rng.uniform(0.05, 0.95, n)[bag]
    X = rng.normal(size=(len(bag), 3))
    moved = X + 0.7 * rng.normal(size=(n, 3))[bag]
    X = np.where(by_label[:, None], X + (positive[:, None] - 0.5) * slopes, moved)
    labels = np.where(by_label, positive, rng.random(len(bag)) < expit(moved @ slopes))
    y = bag_target(bag, counts=np.bincount(bag, labels, n)[bag])
    model = LLPClassifier(kernel=None).fit(X, y)
    # without the variance of a random slope, .04 and .87
    assert model.bag_effect_ < 0.02
    assert model.coef_[0] @ slopes / (slopes @ slopes) == pytest.approx(1.0, abs=0.07)


def test_words_of_errors():
    data = make_gaussian_bags(10, 5, n_features=2, random_state=0)
    for settings, message in [
        ({"kernel": "cubic"}, "kernel"),
        ({"groups": [[0], [0]]}, "groups"),
        ({"groups": [["x9"]]}, "x9"),
        ({"variances": {"other": 1.0}}, "other"),
        ({"bag_effect": -1}, "^bag_effect must be a finite number of at least 0, not -1"),
        ({"bag_effect": "yes"}, "^bag_effect must be one of 'auto', not 'yes'"),
        ({"n_landmarks": 0}, "^n_landmarks must be a whole number of at least 1, not 0"),
        ({"max_iter": 1.5}, "^max_iter must be a whole number of at least 1, not 1.5"),
        ({"tol": "x"}, "^tol must be a positive number, not 'x'"),
    ]:
        with pytest.raises(ValueError, match=message):
            LLPClassifier(**settings).fit(data.X, data.y)
    for table, message in [
        (data.y, "^X is the target of bag_target; give an array or a data frame"),
        ({"a": data.X[:, 0]}, "^X is a dict; give an array or a data frame"),
        (pd.DataFrame(data.X, columns=["a", "a"]), "^X has more than one column 'a'.$"),
    ]:
        with pytest.raises(ValueError, match=message):
            LLPClassifier().fit(table, data.y)
    with pytest.raises(TypeError, match=r"^Column 'a' holds neither numbers, nor times, nor text"):
        LLPClassifier().fit(pd.DataFrame({"a": [[1]] * 50}), data.y)
    frame = pd.DataFrame({"city": ["Rome", "Oslo"] * 25})
    model = LLPClassifier(kernel=None).fit(frame, data.y)
    with pytest.raises(ValueError, match="city"):
        model.predict(np.zeros((2, 1)))


def test_proportions_that_no_labels_give_are_sampling_probabilities():
    rng = np.random.default_rng(12)
    X, y, _ = covariate_shift(rng, 60, 10)
    odd = bag_target(y["bag"], np.clip(y["proportion"] + 0.033, 0.033, 0.967))
    slopes = [LLPClassifier(kernel=None).fit(X, target).coef_[0] for target in (y, odd)]
    np.testing.assert_allclose(*slopes, atol=0.3)


def test_hidden_counts_under_label_shift_leave_slopes_as_they_are():
    rng, sizes = np.random.default_rng(0), np.full(200, 60)
    bag, slopes = np.repeat(np.arange(200), sizes), np.array([1.0, -0.7])
    label = rng.random(len(bag)) < (0.3 * rng.random(200))[bag]
    X = rng.normal(size=(len(bag), 2)) + np.where(label[:, None], slopes, 0.0)
    counts = np.bincount(bag, label, 200)
    hidden = (counts >= 1) & (counts <= 9)
    low, high = np.where(hidden, 1, counts)[bag], np.where(hidden, 9, counts)[bag]
    model = LLPClassifier(kernel=None).fit(X, bag_target(bag, low=low, high=high))
    by_rows = np.linalg.norm(LogisticRegression(C=np.inf).fit(X, label).coef_)
    # without the weights of counts, 1.2
    assert np.linalg.norm(model.coef_) / by_rows == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("shift", ["label", "covariate"])
def test_noise_that_leaves_nothing_to_learn_leaves_the_class_prior(shift):
    bag = np.repeat(np.arange(50), 14)
    for seed in range(5):
        rng = np.random.default_rng(1000 + seed)
        X = rng.normal(size=(700, 3))
        if shift == "label":
            labels = rng.random(700) < rng.beta(1, 9, 50)[bag]
            X += np.where(labels[:, None], [1.0, -0.7, 0.4], 0.0)
        else:
            X += 0.7 * rng.normal(size=(50, 3))[bag]
            labels = rng.random(700) < expit(-2.8 + X @ [1.0, -0.7, 0.4])
        noise = 14.0 * rng.normal(size=50)
        # a total as it may well be, two standard deviations below zero
        noise -= noise.mean() + (2 * 14.0 * np.sqrt(50) + labels.sum()) / 50
        y = bag_target(bag, counts=(np.bincount(bag, labels, 50) + noise)[bag], noise=14.0)
        with pytest.warns(UserWarning, match="leaves little to learn"):
            model = LLPClassifier(kernel=None).fit(X, y)
        p = model.predict_proba(X)[:, 1]
        assert p.mean() == pytest.approx(model.empirical_prior_[1], rel=0.6)
        assert log_loss(labels, p) < log_loss(labels, np.full(700, labels.mean())) + 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_derivatives_with_a_uniform_prior_of_shares(n_classes):
    rng = np.random.default_rng(0)
    X, y, _ = covariate_shift(rng, 12, 9)
    likelihood, design = make_problem(X, y)
    if n_classes > 2:
        shares = rng.multinomial(9, [0.5, 0.3, 0.2], size=12) / 9
        bags = check_bag_target(bag_target(y["bag"], shares[y["bag"]]))
        likelihood = DesignLikelihood(design, CountObservation(bags))
    prior, K = UniformPrior(likelihood, 0.7), 1 if n_classes == 2 else n_classes
    theta, h = 0.5 * rng.normal(size=(K, 4)), 1e-5
    more, less = prior.derivatives(theta), likelihood.derivatives(theta)
    for i in range(theta.size):
        step = h * np.eye(theta.size)[i].reshape(theta.shape)
        ends = [prior.value(theta + s) - likelihood.value(theta + s) for s in (step, -step)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert (more.gradient - less.gradient).ravel()[i] == pytest.approx(slope, abs=1e-6)
        ends = [
            (prior.derivatives(theta + s).gradient - likelihood.derivatives(theta + s).gradient)
            for s in (-step, step)
        ]
        curvature = (ends[0] - ends[1]).ravel() / (2 * h)
        np.testing.assert_allclose((more.information - less.information)[i], curvature, atol=1e-5)
    directions = rng.normal(size=(2, *theta.shape))
    added = prior.products(theta)(directions) - likelihood.products(theta)(directions)
    own = directions.reshape(2, -1) @ (more.information - less.information)
    np.testing.assert_allclose(added.reshape(2, -1), own, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_counts_that_are_nearly_all_hidden_do_not_run_off(seed):
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(1500), 1 + rng.geometric(0.07, size=1500))
    # cells, whose rows share two of three columns
    X = np.column_stack([rng.standard_t(3, size=(len(bag), 1)), rng.normal(size=(1500, 2))[bag]])
    labels = rng.random(len(bag)) < expit(-3.5 + X @ [1.5, 0.5, -0.5])
    counts = np.bincount(bag, labels, 1500)
    hidden = counts < 6
    low, high = np.where(hidden, 0, counts)[bag], np.where(hidden, 5, counts)[bag]
    model = LLPClassifier(kernel=None).fit(X, bag_target(bag, low=low, high=high))
    best = log_loss(labels, LogisticRegression(C=np.inf).fit(X, labels).predict_proba(X))
    assert log_loss(labels, model.predict_proba(X)) < best + 0.03


def test_majorities_alone_are_not_taken_for_label_shift():
    rng, n_bags, size = np.random.default_rng(0), 200, 100
    bag, slopes = np.repeat(np.arange(n_bags), size), np.array([1.0, -0.7])
    X = rng.normal(size=(len(bag), 2)) + 0.7 * rng.normal(size=(n_bags, 2))[bag]
    most = np.bincount(bag, rng.random(len(bag)) < expit(X @ slopes), n_bags) >= size / 2
    y = bag_target(bag, low=np.where(most, 50, 0)[bag], high=np.where(most, 100, 49)[bag])
    model = LLPClassifier(kernel=None).fit(X, y)
    precision = X.std(axis=0) ** 2 / model.terms_[0].standard_deviation ** 2

    def loss(coef):
        p = expit(coef[0] + X @ coef[1:]).reshape(n_bags, size).T
        counts = np.eye(1, size + 1).T * np.ones(n_bags)
        for own in p:
            counts = counts * (1 - own) + np.roll(counts, 1, axis=0) * own
        known = np.where(most, counts[50:].sum(axis=0), counts[:50].sum(axis=0))
        return -np.log(np.maximum(known, 1e-300)).sum() + 0.5 * precision @ coef[1:] ** 2

    exact = minimize(loss, np.append(model.intercept_, model.coef_)).x
    # the model allows for a small random intercept, which makes slopes steeper
    np.testing.assert_allclose(exact, np.append(model.intercept_, model.coef_), atol=0.05)
    assert model.coef_[0] @ slopes / (slopes @ slopes) == pytest.approx(1.0, abs=0.3)


def test_devices_that_are_none():
    pytest.importorskip("torch")
    data = make_gaussian_bags(10, 5, random_state=0)
    with pytest.raises(ValueError, match=r"^device='gpu' cannot be used here: [^\n]+$"):
        LLPClassifier(kernel=None, device="gpu").fit(data.X, data.y)


@pytest.mark.parametrize("groupings", [False, True])
def test_a_device_gives_the_same_model(groupings):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    X["c"] = rng.choice(list("xyz"), size=400)
    labels = rng.random(400) < expit(X["a"])
    bag = rng.integers(20, size=400)
    y = bag_target(bag, counts=np.bincount(bag, labels).astype(int)[bag])
    if groupings:
        region = bag % 5
        other = bag_target(region, counts=np.bincount(region, labels).astype(int)[region])
        y = multi_grouping_target({"bag": y, "region": other})
    here, there = (
        LLPClassifier(n_landmarks=20, device=device).fit(X, y) for device in (None, "cpu")
    )
    np.testing.assert_allclose(here.coef_, there.coef_, atol=1e-8)
    np.testing.assert_allclose(here.covariance_, there.covariance_, atol=1e-8)


@pytest.mark.parametrize(("n_bags", "most"), [(60, 0.15), (600, 0.02)])
def test_linear_data_leave_next_to_nothing_to_the_kernel(n_bags, most):
    rng = np.random.default_rng(0)
    X, y, _ = covariate_shift(rng, n_bags, 50)
    model, line = LLPClassifier().fit(X, y), LLPClassifier(kernel=None).fit(X, y)
    assert model.terms_[-1].term == "kernel"
    assert model.terms_[-1].variance_share < most
    new = rng.normal(size=(2000, 3))
    both = np.corrcoef(model.decision_function(new), line.decision_function(new))
    assert both[0, 1] > 1 - most


class TestCovariateShiftOfSomeColumns:
    """Bags shift two of six columns; a category of 40 levels is the same in all."""

    def draw(self, seed, n_bags=200, size=150):
        rng = np.random.default_rng(seed)
        bag = np.repeat(np.arange(n_bags), size)
        X = rng.normal(size=(len(bag), 6))
        X += rng.normal(size=(n_bags, 1))[bag] * [0.5, 0, 0, 0.25, 0, 0]
        level, effects = rng.integers(40, size=len(bag)), 0.8 * rng.normal(size=40)
        f = X @ [1.0, -0.7, 0.5, 0.0, 0.3, 0.0] - 2.0 + effects[level]
        labels = rng.random(len(bag)) < expit(f)
        frame = pd.DataFrame(X, columns=list("abcdef")).assign(level=[f"l{i}" for i in level])
        y = bag_target(bag, counts=np.bincount(bag, labels).astype(int)[bag])
        train = bag < n_bags // 2
        return frame[train], y[train], frame[~train], y[~train], labels[~train]

    def test_the_forward_likelihood_of_held_out_bags_prefers_too_strong_a_penalty(self):
        differences = []
        for seed in range(4):
            X, y, X_held, y_held, labels = self.draw(seed, size=500)
            auto = LLPClassifier(kernel=None).fit(X, y)
            tenth = {term.term: term.standard_deviation**2 / 10 for term in auto.terms_}
            strong = LLPClassifier(kernel=None, variances=tenth).fit(X, y)
            q, share = auto.empirical_prior_[1], y_held["proportion"]
            criteria = []
            for model in (auto, strong):
                p = model.predict_proba(X_held)[:, 1]
                forward = np.log(p * share / q + (1 - p) * (1 - share) / (1 - q)).mean()
                counts, marginal = model.score(X_held, y_held), model.log_marginal_likelihood_
                criteria.append([forward, counts, marginal, roc_auc_score(labels, p)])
            differences.append(np.subtract(*criteria))
        forward, counts, marginal, auc = np.mean(differences, axis=0)
        assert forward < 0
        assert counts > 0
        assert marginal > 0
        assert auc > 0.01

    def test_the_marginal_likelihood_falls_with_every_variance_that_is_too_small(self):
        X, y, *_ = self.draw(0)
        auto = LLPClassifier(kernel=None).fit(X, y)
        found, phi = [auto.log_marginal_likelihood_], []
        for factor in (10, 100, 1000):
            less = {term.term: term.standard_deviation**2 / factor for term in auto.terms_}
            model = LLPClassifier(kernel=None, variances=less).fit(X, y)
            found.append(model.log_marginal_likelihood_)
            phi.append(model.dispersion_)
        # whatever the dispersion, which takes up what coefficients may not
        assert max(phi) > 5
        assert np.all(np.diff(found) < 0)

    def test_a_column_that_bags_do_not_shift_does_not_hurt(self):
        gains = []
        for seed in range(4):
            X, y, X_held, _, labels = self.draw(seed)
            every = LLPClassifier(kernel=None).fit(X, y).decision_function(X_held)
            X, X_held = X.drop(columns="level"), X_held.drop(columns="level")
            some = LLPClassifier(kernel=None).fit(X, y).decision_function(X_held)
            gains.append(roc_auc_score(labels, every) - roc_auc_score(labels, some))
        assert min(gains) > -0.002
        assert np.mean(gains) > 0.005
