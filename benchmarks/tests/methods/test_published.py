"""Published methods as estimators: identities between them, and how settings are chosen."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.observations.losses import get_loss
from unbag.paper import LMMCMClassifier, ProportionRiskClassifier
from unbag.paper.proportion_risk import ProportionRisk
from unbag_bench.methods import (
    PUBLISHED,
    PublishedClassifierCV,
    SoftLabelClassifier,
)
from unbag_bench.methods.published import BagError
from unbag_bench.methods.published_methods import (
    AggregateResponses,
    BagTask,
    EasyLLP,
    LaplacianMeanMap,
)

DATA = make_gaussian_bags(n_bags=25, bag_size=20, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=40, bag_size=12, n_classes=3, separation=4.0, random_state=0)
FEW = {"alphas": (1e-2, 1e-4), "cv": 3}
# Its minimum is a function that hardly differs inside a bag, and need not reach both classes.
LEARN = [name for name in PUBLISHED if name != "amm_max"]
TWO_CLASSES = {"amm_max", "amm_min", "easyllp_squared", "llp_dc", "rot"}
ONE = np.zeros(1, dtype=np.intp)


def fitted(method, data=DATA, **settings):
    return PublishedClassifierCV(method, **{**FEW, **settings}).fit(data.X, data.y)


@pytest.mark.parametrize("method", LEARN)
def test_every_method_learns(method):
    alphas = (1.0, 1e-2) if method.startswith("easyllp") else FEW["alphas"]
    model = fitted(method, alphas=alphas)
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.83
    probability = model.predict_proba(DATA.X)[:, 1]
    np.testing.assert_allclose(model.class_prior_[1], DATA.labels.mean())
    assert abs(probability.mean() - DATA.labels.mean()) < 0.1


@pytest.mark.parametrize("method", sorted(set(LEARN) - TWO_CLASSES))
def test_three_classes(method):
    model = fitted(method, THREE, alphas=(1e-2,))
    assert (model.predict(THREE.X) == THREE.labels).mean() > 0.75


def task(y=DATA.y, X=DATA.X):
    bags = check_bag_target(y)
    return BagTask(np.ones((1, bags.n_bags), dtype=bool), bags, X)


class TestIdentities:
    def test_mean_map_is_the_corrected_risk_at_the_pooled_shares(self):
        """Bags are of equal size; scores of the one are at q, of the other at equal shares."""
        mean_map = fitted("mm", alphas=(1e-3,), tol=1e-8)
        ours = LMMCMClassifier(1e-3, kernel="linear", training_prior="pooled", tol=1e-8).fit(
            DATA.X, DATA.y
        )
        np.testing.assert_allclose(mean_map.coef_, ours.coef_, atol=1e-5)
        q = mean_map.class_prior_
        np.testing.assert_allclose(
            mean_map.intercept_, ours.intercept_ + np.log(q[1] / q[0]), atol=1e-5
        )

    def test_dllp_is_the_proportion_risk_with_cross_entropy(self):
        one = fitted("dllp", alphas=(1e-4,))
        other = ProportionRiskClassifier((1e-4,), cv=3, divergence="cross_entropy", kernel="linear")
        np.testing.assert_allclose(one.coef_, other.fit(DATA.X, DATA.y).coef_)

    @pytest.mark.parametrize(("n_bags", "close"), [(100, 2e-2), (800, 2.5e-3)])
    def test_count_loss_is_the_likelihood_of_the_mixed_model(self, n_bags, close):
        """α stands for σ² = 1/(2nα)."""
        data = make_gaussian_bags(n_bags, bag_size=20, n_features=3, random_state=0)
        X = data.X / data.X.std(axis=0)
        one = PublishedClassifierCV("count_loss", alphas=(1e-4,), cv=3, tol=1e-7).fit(X, data.y)
        variances = {"numbers": 1 / (2e-4 * len(X))}
        other = LLPClassifier(kernel=None, bag_effect=0.0, variances=variances, tol=1e-4)
        coef = other.fit(X, data.y).coef_
        assert np.abs(one.coef_ - coef).max() < close * np.abs(coef).max()

    def test_easyllp_without_stretch_is_soft_labels(self):
        one = fitted(EasyLLP(stretch=1.0), alphas=(1e-3,), tol=1e-8)
        other = SoftLabelClassifier(1e-3, kernel="linear", class_prior="empirical", tol=1e-8)
        np.testing.assert_allclose(one.coef_, other.fit(DATA.X, DATA.y).coef_, atol=1e-6)

    def test_easyllp_is_logistic_regression_on_stretched_targets(self):
        """t_b = q + n_b(γ_b − q), whether it is a share or not."""
        given, rng = task(), np.random.default_rng(0)
        f = rng.normal(size=len(DATA.y))
        bags, n = given.bags, 20
        q, gamma = bags.class_shares, bags.proportions[bags.index]
        target = q[1] + n * (gamma[:, 1] - q[1])
        expected = np.mean(np.logaddexp(0, f) - target * f)
        found = EasyLLP(correction="none").objective(given).value(f[None, None], ONE)[0]
        np.testing.assert_allclose(found, expected)

    @pytest.mark.parametrize("data", [DATA, THREE])
    def test_easyllp_is_upm(self, data):
        """Σ_c [n·mean_b(γ_bc ℓ̄_bc) − (n − 1) q_c ℓ̄_c], with the prior of these bags."""
        given = task(data.y, data.X)
        bags, n = given.bags, data.y["size"][0]
        outputs = 1 if bags.n_classes == 2 else bags.n_classes
        f = np.random.default_rng(0).normal(size=(1, outputs, bags.n_instances))
        losses = get_loss("logistic", bags.n_classes).losses(f)[0]
        of_bags = np.sum(bags.means(losses) * bags.proportions.T, axis=0)
        expected = n * of_bags.mean() - (n - 1) * bags.class_shares @ losses.mean(axis=1)
        found = EasyLLP(correction="none").objective(given).value(f, ONE)[0]
        np.testing.assert_allclose(found, expected)

    def test_easyllp_in_shuffled_bags_stretches_as_least_squares_does(self):
        """There Var γ = q(1 − q)/n, so that n and q(1 − q)/Var γ agree; elsewhere they do not."""
        rng, n = np.random.default_rng(0), 20
        shuffled = rng.binomial(n, 0.3, size=20_000) / n
        for gamma, agree in ((shuffled, True), (rng.uniform(0, 0.6, size=20_000), False)):
            q = gamma.mean()
            assert (abs(q * (1 - q) / gamma.var() / n - 1) < 0.05) == agree

    def test_aggregate_is_bags_at_one_end_and_rows_at_the_other(self):
        given, f = task(), np.random.default_rng(0).normal(size=(1, 1, len(DATA.y)))
        ends = {
            1.0: PUBLISHED["dllp"].objective(given),
            0.0: EasyLLP(stretch=1.0).objective(given),
        }
        for rho, end in ends.items():
            found = AggregateResponses((rho,)).objective(given).value(f, ONE)
            np.testing.assert_allclose(found, end.value(f, ONE))

    def test_loss_of_rows_is_that_of_bags_and_the_variance_inside(self):
        """Squared errors: mean (γ_b − p_j)² = (γ_b − p̂_b)² + Var_b(p), bag by bag."""
        given = task()
        bags, p = given.bags, np.random.default_rng(0).uniform(size=len(DATA.y))
        gamma = bags.proportions[:, 1]
        rows = bags.means((gamma[bags.index] - p) ** 2)
        inside = bags.means((p - bags.means(p)[bags.index]) ** 2)
        np.testing.assert_allclose(rows, (gamma - bags.means(p)) ** 2 + inside)

    @pytest.mark.parametrize("method", ["dllp", "count_loss", "forward", "amm_min", "llp_dc"])
    def test_on_labels_they_are_logistic_regression(self, method):
        n = len(DATA.labels)
        model = PublishedClassifierCV(method, alphas=(1e-3,), cv=2, tol=1e-7)
        model.fit(DATA.X, DATA.labels)
        factor = 1.5 if method == "llp_dc" else 1.0
        labels = LogisticRegression(C=factor / (2e-3 * n), tol=1e-8).fit(DATA.X, DATA.labels)
        np.testing.assert_allclose(model.coef_, labels.coef_, atol=2e-3)

    def test_worst_labels_leave_nothing_to_learn(self):
        """Of AMM^max, which is convex, the minimum is where scores hardly differ in a bag."""
        risk = PUBLISHED["amm_max"].objective(task())
        found = fitted("mm").decision_function(DATA.X)
        flat = np.full(len(DATA.y), np.log(DATA.labels.mean() / (1 - DATA.labels.mean())))
        values = risk.value(np.stack([found, 0.1 * found + flat, flat])[:, None], np.zeros(3, int))
        assert (np.diff(values) < 0).all()


class TestChoice:
    def test_error_of_bags(self):
        bags = check_bag_target(DATA.y)
        sizes = np.repeat((bags.sizes / bags.sizes.sum())[:, None], 2, axis=1)
        f = np.random.default_rng(0).normal(size=(2, 1, len(DATA.y)))
        risk = ProportionRisk(sizes, bags, get_loss("logistic"), "absolute")
        both = np.zeros(2, dtype=np.intp)
        found = BagError(bags, get_loss("logistic")).value(f, both)
        np.testing.assert_allclose(found, risk.value(f, both))

    def test_error_of_three_classes(self):
        bags = check_bag_target(THREE.y)
        sizes = np.repeat((bags.sizes / bags.sizes.sum())[:, None], 3, axis=1)
        f = np.random.default_rng(0).normal(size=(1, 3, len(THREE.y)))
        loss = get_loss("logistic", 3)
        risk = ProportionRisk(sizes, bags, loss, "absolute")
        np.testing.assert_allclose(BagError(bags, loss).value(f, ONE), risk.value(f, ONE))

    def test_settings_and_penalties_are_those_of_least_error(self):
        grid = LaplacianMeanMap((0.01, 1.0), (0.5, 2.0))
        model = fitted(grid, tol=1e-8)
        single = {s: fitted(s, tol=1e-8).selection_risks_.min() for s in grid.settings()}
        assert len(single) == 4
        assert model.method_ == min(single, key=single.get)
        assert model.selection_risks_.min() == pytest.approx(min(single.values()), rel=1e-5)
        assert model.alpha_ == model.alphas_[model.selection_risks_.argmin()]

    def test_sparse_rows_give_the_same_model(self):
        dense = fitted("lmm", tol=1e-7)
        other = PublishedClassifierCV("lmm", **FEW, tol=1e-7)
        other.fit(csr_array(DATA.X), DATA.y)
        np.testing.assert_allclose(dense.coef_, other.coef_, atol=1e-5)

    def test_mean_over_folds(self):
        model = fitted("dllp", selection="folds")
        assert model.selection_risks_.shape == (3, 2)
        assert model.alpha_ == model.alphas_[model.selection_risks_.mean(axis=0).argmin()]

    def test_a_name_that_is_none(self):
        with pytest.raises(ValueError, match=r"method must be one of 'aggregate', .* not 'magic'"):
            PublishedClassifierCV("magic").fit(DATA.X, DATA.y)

    def test_alternation_starts_from_the_mean_map(self):
        """From zero, where all labels fit alike, the rows in the bag decide nothing."""
        model = fitted("amm_min", alphas=(1e-4,))
        risk = PUBLISHED["amm_min"].objective(task())
        ends = np.stack(
            [
                model.decision_function(DATA.X),
                fitted("mm", alphas=(1e-4,)).decision_function(DATA.X),
            ]
        )
        values = risk.value(ends[:, None], np.zeros(2, dtype=np.intp))
        assert values[0] < values[1]

    def test_easyllp_of_unequal_bags_has_an_end(self):
        """By size, the mean of its targets would be no share, and the loss would fall for ever."""
        sizes = np.where(np.arange(25) % 2, 30, 10)
        bag = np.repeat(np.arange(25), sizes)
        X, y = DATA.X[: len(bag)], DATA.labels[: len(bag)]
        share = np.array([y[bag == b].mean() for b in range(25)])
        target = bag_target(bag, share[bag])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = PublishedClassifierCV("easyllp", cv=3).fit(X, target)
        assert (model.predict(X) == y).mean() > 0.8
        bags = check_bag_target(target)
        q, gamma = bags.class_shares[1], bags.proportions[:, 1]
        means = [w @ (q + sizes * (gamma - q)) for w in (np.full(25, 0.04), sizes / sizes.sum())]
        np.testing.assert_allclose(means[0], q)
        assert abs(means[1] - q) > 0.05
