"""Objectives of published methods: values by hand or by enumeration, gradients, limits."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import hypergeom

from counted_bags import make_bags
from unbag import bag_target, check_bag_target
from unbag._arrays import Segments
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.losses import get_loss
from unbag.observations.saddlepoint import TiltSearch, miss, tilted_probabilities
from unbag.paper.proportion_risk import ProportionRisk
from unbag_bench.methods.assignment import AssignmentRisk
from unbag_bench.methods.count_moments import CountMoments
from unbag_bench.methods.forward import ForwardLikelihood
from unbag_bench.methods.grouped_forward import GroupedForward, bag_prior, transition
from unbag_bench.methods.published_methods import Mixed
from unbag_bench.methods.residual_spread import ResidualSpread

ONE = np.zeros(1, dtype=np.intp)


# bags of several sizes, pure ones and rows of known label among them
BAGS = {
    2: make_bags([[3, 1], [1, 4], [5, 0], [2, 2], [0, 3], [6, 3], [0, 1], [1, 0]]),
    3: make_bags([[3, 1, 1], [1, 4, 0], [0, 1, 3], [4, 0, 0], [1, 2, 2], [0, 0, 1], [1, 0, 0]]),
}
OBJECTIVES = {
    "spread": lambda yes, bags: ResidualSpread(yes, bags, 7.0),
    "best labels": lambda yes, bags: AssignmentRisk(yes, bags, "exact"),
    "worst labels": lambda yes, bags: AssignmentRisk(yes, bags, "worst"),
    "transport": lambda yes, bags: AssignmentRisk(yes, bags, "transport"),
    "moments": lambda yes, bags: CountMoments(yes, bags, 4),
    "groups": lambda yes, bags: GroupedForward(yes, bags, np.arange(bags.n_bags)[::-1]),
    "mixed": lambda yes, bags: Mixed(
        [
            (0.5, ResidualSpread(yes, bags)),
            (2.0, ForwardLikelihood(yes, bags)),
        ]
    ),
}
CASES = [(name, 2) for name in OBJECTIVES] + [
    (name, 3) for name in ("spread", "moments", "groups", "mixed")
]
every_case = pytest.mark.parametrize(("name", "n_classes"), CASES)


def problems(bags):
    """All bags, and without two of them."""
    return np.stack([np.ones(bags.n_bags, dtype=bool), np.arange(bags.n_bags) % 4 != 1])


def some_scores(bags, n_columns=4):
    n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
    scale = np.linspace(0.3, 3, n_columns)[:, None, None]
    drawn = np.random.default_rng(0).normal(size=(n_columns, n_outputs, bags.n_instances))
    return scale * drawn


@every_case
def test_gradient_is_that_of_finite_differences(name, n_classes):
    bags = BAGS[n_classes]
    objective = OBJECTIVES[name](problems(bags), bags)
    scores, problem = some_scores(bags), np.array([0, 1, 0, 1])
    value, gradient = objective.value_and_gradient(scores, problem)
    np.testing.assert_allclose(objective.value(scores, problem), value, rtol=1e-12)
    rng = np.random.default_rng(2)
    for _ in range(4):
        direction = rng.normal(size=scores.shape)
        step = 1e-5 * direction
        rise = objective.value(scores + step, problem) - objective.value(scores - step, problem)
        slope = np.sum(gradient * direction, axis=(1, 2))
        np.testing.assert_allclose(rise / 2e-5, slope, atol=2e-8)


@every_case
def test_a_bag_held_out_counts_for_nothing(name, n_classes):
    bags = BAGS[n_classes]
    yes = problems(bags)[1]
    if name == "groups":
        pytest.skip("groups of fewer bags are other groups: tested by itself")
    kept, rows = bags.take(yes)
    scores = some_scores(bags)
    whole = OBJECTIVES[name](problems(bags), bags)
    alone = OBJECTIVES[name](np.ones((1, kept.n_bags), dtype=bool), kept)
    value, gradient = whole.value_and_gradient(scores, np.ones(4, dtype=np.intp))
    expected, slopes = alone.value_and_gradient(scores[:, :, rows], np.zeros(4, dtype=np.intp))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient[:, :, rows], slopes, atol=1e-14)
    assert not np.delete(gradient, rows, axis=2).any()


@every_case
def test_single_precision_agrees(name, n_classes):
    bags = BAGS[n_classes]
    scores, problem = some_scores(bags), np.zeros(4, dtype=np.intp)
    expected = OBJECTIVES[name](problems(bags), bags).value(scores, problem)
    small = scores.astype(np.float32)
    value, gradient = OBJECTIVES[name](problems(bags), bags).value_and_gradient(small, problem)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(value, expected, rtol=1e-5)


class TestResidualSpread:
    def by_loop(self, a, bags, scores):
        """A Var_w(r) + |mean_w(r)|² of one column, bag by bag."""
        positive = expit(scores[0])
        p = np.stack([1 - positive, positive]) if len(scores) == 1 else softmax(scores, axis=0)
        units = bags.with_labelled_rows_apart()[0]
        r = np.stack(
            [
                units.proportions[b] - p[:, units.index == b].mean(axis=1)
                for b in range(units.n_bags)
            ]
        )
        w = units.sizes / units.sizes.sum()
        mean = w @ r
        return (a * (w @ (r - mean) ** 2).sum() + (mean**2).sum()) / 2

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("a", [1.0, 32.0])
    def test_definition(self, n_classes, a):
        bags = BAGS[n_classes]
        scores = some_scores(bags)
        found = ResidualSpread(problems(bags)[:1], bags, factor=a).value(scores, np.zeros(4, int))
        np.testing.assert_allclose(found, [self.by_loop(a, bags, f) for f in scores])

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_factor_one_is_the_squared_error_of_proportions(self, n_classes):
        bags = BAGS[n_classes]
        sizes = np.repeat((bags.sizes / bags.sizes.sum())[:, None], n_classes, axis=1)
        risk = ProportionRisk(sizes, bags, get_loss("logistic", n_classes), "squared")
        scores = some_scores(bags)
        found = ResidualSpread(problems(bags)[:1], bags).value(scores, np.zeros(4, int))
        np.testing.assert_allclose(found, risk.value(scores, np.zeros(4, int)))

    def test_the_size_of_bags_for_a_factor_is_dsq(self):
        """DSQ as published: mean n|r|² − mean(n − 1)|p̄ − q|², of bags of any size."""
        bags = make_bags([[3, 1], [1, 4], [4, 2], [2, 2]])
        f = some_scores(bags)[2]
        p, q = expit(f[0]), bags.class_shares[1]
        r = bags.proportions[:, 1] - bags.means(p)
        dsq = np.mean(bags.sizes * r**2) - np.mean(bags.sizes - 1) * (p.mean() - q) ** 2
        a = bags.sizes.mean()
        found = ResidualSpread(problems(bags)[:1], bags, factor=a).value(f[None], ONE)
        np.testing.assert_allclose(found, dsq)

    def test_genbags_is_the_family_in_blocks_and_in_the_mean_over_blocks(self):
        """Its covariance in blocks of four gives J_121, its mean over all blocks of many J_91."""
        r = np.random.default_rng(0).normal(size=4)
        S = 1.331 * np.eye(4) - 0.33
        np.testing.assert_allclose(r @ S @ r, 0.044 * (121 * r.var() + r.mean() ** 2), rtol=1e-12)
        r = np.random.default_rng(1).normal(loc=0.3, size=9)
        blocks = [r[list(some)] @ S @ r[list(some)] / 4 for some in combinations(range(9), 4)]
        # of pairs drawn without replacement: mean² − Var/(B − 1)
        of_pairs = r.mean() ** 2 - r.var() / 8
        expected = 1.001 * (r.var() + r.mean() ** 2) - 0.99 * of_pairs
        np.testing.assert_allclose(np.mean(blocks), expected)
        many = 0.011 * (91 * r.var() + r.mean() ** 2)
        np.testing.assert_allclose(expected + 0.99 * (of_pairs - r.mean() ** 2), many)

    def test_dsq_is_the_brier_score_in_shuffled_bags_and_more_in_bags_that_vary(self):
        """E(y − p)² + (n − 1) Var(γ) (1 − (p̄₊ − p̄₋))², within four standard errors."""
        rng, n, n_bags = np.random.default_rng(3), 32, 4000
        for vary in (False, True):
            probability = rng.uniform(0, 0.5, n_bags) if vary else np.full(n_bags, 0.25)
            y = rng.uniform(size=(n_bags, n)) < probability[:, None]
            f = rng.normal(loc=np.where(y, 0.5, -1.5), scale=1.0)
            p, gamma = expit(f), y.mean(axis=1)
            bags = check_bag_target(
                bag_target(np.repeat(np.arange(n_bags), n), np.repeat(gamma, n))
            )
            spread = ResidualSpread(np.ones((1, n_bags), dtype=bool), bags, factor=n)
            value = spread.value(f.reshape(1, 1, -1), ONE)[0]
            between = np.var(probability) * (1 - (p[y].mean() - p[~y].mean())) ** 2
            expected = np.mean((y - p) ** 2) + (n - 1) * between
            r = gamma - p.mean(axis=1)
            error = np.std(n * (r - r.mean()) ** 2) / np.sqrt(n_bags)
            assert abs(value - expected) < 4 * error
            assert (between > 0.0005) == vary


class TestAssignment:
    def labels(self, bags, f, choose):
        """Σ_j ℓ(f_j, y_j) of all labels that a bag allows: the least or largest."""
        total = 0.0
        units = bags.with_labelled_rows_apart()[0]
        for b in range(units.n_bags):
            own = f[units.index == b]
            k = round(float(units.proportions[b, 1] * len(own)))
            allowed = [own[list(some)].sum() for some in combinations(range(len(own)), k)]
            total += np.logaddexp(0, own).sum() - choose(allowed)
        return total / len(f)

    def test_best_and_worst_labels_by_enumeration(self):
        bags, problem = BAGS[2], np.zeros(4, dtype=np.intp)
        scores = some_scores(bags)
        found = AssignmentRisk(problems(bags)[:1], bags).value(scores, problem)
        np.testing.assert_allclose(found, [self.labels(bags, f[0], max) for f in scores])
        # an entropy of log 2 at most, times τ
        found = AssignmentRisk(problems(bags)[:1], bags, "worst").value(scores, problem)
        over = found - [self.labels(bags, f[0], min) for f in scores]
        assert (over > 0).all()
        assert (over < 0.1 * np.log(2)).all()

    def test_equal_scores_share_the_labels(self):
        bags = make_bags([[3, 1], [1, 4]])
        risk = AssignmentRisk(problems(bags)[:1], bags)
        _, slopes = risk.value_and_gradient(np.zeros((1, 1, 9)), ONE)
        np.testing.assert_allclose(slopes[0, 0], (0.5 - bags.proportions[bags.index, 1]) / 9)

    def test_transport_ends_where_sinkhorn_does(self):
        bags = make_bags([[3, 1], [1, 4], [6, 3]])
        f = some_scores(bags)[1]
        _, slopes = AssignmentRisk(problems(bags)[:1], bags, "transport").value_and_gradient(
            f[None], ONE
        )
        found = expit(f[0]) - slopes[0, 0] * bags.n_instances
        for b in range(3):
            own = bags.index == b
            plan = np.stack([1 - expit(f[0, own]), expit(f[0, own])])
            for _ in range(2000):
                plan *= (bags.proportions[b] * own.sum() / plan.sum(axis=1))[:, None]
                plan /= plan.sum(axis=0)
            np.testing.assert_allclose(found[own], plan[1], atol=1e-9)

    def test_transport_is_the_saddle_point_without_the_probability_to_hit_the_mean(self):
        bags = make_bags([[30, 10], [25, 15]])
        f = some_scores(bags)[0]
        transport = AssignmentRisk(problems(bags)[:1], bags, "transport").value(f[None], ONE)[0]
        count = CountLikelihood(np.ones(2, dtype=bool), bags).value(f[None], ONE)[0]
        order = np.argsort(bags.index, kind="stable")
        rows, n = Segments(bags.sizes), bags.sizes.astype(float)
        k, none = n * bags.proportions[:, 1], np.zeros(2)
        search, odds = TiltSearch(k, n, none, 1), np.exp(f[:, order])
        q, left = tilted_probabilities(odds, rows, search.tilt)
        while not search.found(rows.sum(q), rows.sum(q * left), 1e-9):
            q, left = tilted_probabilities(odds, rows, search.tilt)
        missed = miss(q, rows, none)[0].sum() / 80
        np.testing.assert_allclose(transport + missed, count, rtol=1e-7)

    def test_more_classes_are_refused(self):
        with pytest.raises(ValueError, match="two classes only, and there are 3"):
            AssignmentRisk(problems(BAGS[3]), BAGS[3])


class TestCountMoments:
    def drawn(self, p, r):
        """π_r: how many of r rows drawn at random are positive, by all of them."""
        found = np.zeros(r + 1)
        subsets = list(combinations(p, r))
        for some in subsets:
            for labels in product((0, 1), repeat=r):
                probability = [q if y else 1 - q for q, y in zip(some, labels, strict=True)]
                found[sum(labels)] += np.prod(probability)
        return found / len(subsets)

    def test_moments_by_enumeration(self):
        bags = make_bags([[4, 2], [1, 5]])
        f, order = some_scores(bags)[1], 4
        moments = CountMoments(problems(bags)[:1], bags, order, smoothing=0)
        expected = 0.0
        for b, k in enumerate([2, 5]):
            p = expit(f[0, bags.index == b])
            labels = np.arange(6) < k
            for r in range(1, order + 1):
                known = self.drawn(labels.astype(float), r)
                some = known > 0
                expected -= (known[some] @ np.log(self.drawn(p, r)[some])) / order / 2
        np.testing.assert_allclose(moments.value(f[None], ONE)[0], expected, rtol=1e-9)

    def test_order_one_is_the_cross_entropy_of_mean_probabilities(self):
        bags = BAGS[2]
        sizes = np.repeat((bags.sizes / bags.sizes.sum())[:, None], 2, axis=1)
        risk = ProportionRisk(sizes, bags, get_loss("logistic"), "cross_entropy")
        scores, problem = some_scores(bags), np.zeros(4, dtype=np.intp)
        moments = CountMoments(problems(bags)[:1], bags, 1, smoothing=0)
        for one, other in zip(
            moments.value_and_gradient(scores, problem),
            risk.value_and_gradient(scores, problem),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, atol=1e-12)

    def test_order_of_all_rows_is_the_likelihood_of_the_counts(self):
        bags = make_bags([[4, 2], [1, 5], [3, 3]])
        scores, problem = some_scores(bags), np.zeros(4, dtype=np.intp)
        yes = problems(bags)[:1]
        up_to = [CountMoments(yes, bags, s, 0).value(scores, problem) * s for s in (5, 6)]
        count = CountLikelihood(yes, bags).value(scores, problem)
        # per bag, where the likelihood is per row
        np.testing.assert_allclose(up_to[1] - up_to[0], 6 * count, rtol=1e-8)

    def test_large_bags_keep_their_digits(self):
        """Against sums over the counts, whose probabilities come row by row."""
        bags = make_bags([[400, 100], [350, 150]])
        f = 2 * some_scores(bags)[0]
        expected = 0.0
        for b, k in enumerate([100, 150]):
            probability = np.ones(1)
            for p in expit(f[0, bags.index == b]):
                probability = np.convolve(probability, [1 - p, p])
            for r in range(1, 9):
                a = np.arange(r + 1)
                known = hypergeom.pmf(a, 500, k, r)
                found = hypergeom.pmf(a, 500, np.arange(501)[:, None], r).T @ probability
                expected -= known @ np.log(found + 1e-4) / 8 / 2
        found = CountMoments(problems(bags)[:1], bags).value(f[None], ONE)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-10)


class TestGroupedForward:
    def test_one_group_by_hand(self):
        """T = Γα/(Γᵀα) with α = 2/5, 3/5, and rows weighed to have these shares."""
        bags = check_bag_target(bag_target([0, 0, 1, 1, 1, 1], [0.9, 0.9, 0.4, 0.4, 0.4, 0.4]))
        gamma, q = bags.proportions, bags.class_shares
        alpha = bag_prior(gamma, q, "fixed")
        np.testing.assert_allclose(gamma.T @ alpha, q, atol=1e-6)
        T = transition(gamma, alpha)
        np.testing.assert_allclose(T.sum(axis=0), 1)
        f = np.array([0.5, -1.0, 0.2, 1.5, -0.3, 0.0])
        p = np.stack([1 - expit(f), expit(f)])
        losses = -np.log(np.sum(T[bags.index] * p.T, axis=1))
        expected = alpha @ bags.means(losses)
        found = GroupedForward(np.ones((1, 2), dtype=bool), bags, np.arange(2))
        np.testing.assert_allclose(found.value(f[None, None], ONE)[0], expected)

    def test_two_bags_are_one_group(self):
        """Two bags of two classes: forward correction of LLPFC and of all bags is the same."""
        bags = check_bag_target(bag_target([0, 0, 1, 1, 1, 1], [0.9, 0.9, 0.4, 0.4, 0.4, 0.4]))
        yes, scores = np.ones((1, 2), dtype=bool), some_scores(bags)
        one = GroupedForward(yes, bags, np.arange(2)).value_and_gradient(scores, np.zeros(4, int))
        other = ForwardLikelihood(yes, bags).value_and_gradient(scores, np.zeros(4, int))
        np.testing.assert_allclose(np.diff(one[0] - other[0]), 0, atol=1e-6)
        np.testing.assert_allclose(one[1], other[1], atol=1e-6)

    def test_bags_held_out_or_left_over_count_for_nothing(self):
        # in every group the bags lie on both sides of q, or one would have no part in it
        bags = make_bags([[3, 1], [1, 4], [1, 5], [4, 1], [1, 3]])
        order = np.array([4, 0, 3, 1, 2])
        yes = np.array([True, False, True, True, True])
        scores = some_scores(bags, 1)
        found = GroupedForward(yes[None], bags, order)
        _, slopes = found.value_and_gradient(scores, ONE)
        # 4 and 0 would be a group; without 1 there are 4 and 0, 3 and 2
        used = sorted({int(b) for b in bags.index[slopes[0, 0] != 0]})
        assert used == [0, 2, 3, 4]
        _, slopes = GroupedForward(np.ones((1, 5), dtype=bool), bags, order).value_and_gradient(
            scores, ONE
        )
        assert sorted({int(b) for b in bags.index[slopes[0, 0] != 0]}) == [0, 1, 3, 4]

    def test_fewer_bags_than_classes_get_one_sentence(self):
        bags = BAGS[3]
        yes = np.arange(bags.n_bags) < 2
        with pytest.raises(ValueError, match=r"Groups of 3 bags, .* need more than 2 bag"):
            GroupedForward(yes[None], bags, np.arange(bags.n_bags))

    def prior_distances(self, groups):
        """Mean TV distance of the induced prior Γᵀα from q."""
        q = groups.mean(axis=(0, 1))
        return {
            prior: np.mean([np.abs(g.T @ bag_prior(g, q, prior) - q).sum() / 2 for g in groups])
            for prior in ("fixed", "released", "uniform")
        }

    def test_the_released_prior_is_no_better_than_equal_shares(self):
        """Ten balanced classes: α = 1/C solves the transposed problem, whatever the shares."""
        groups = np.random.default_rng(0).dirichlet(np.ones(10), size=(400, 10))
        found = self.prior_distances(groups)
        rounded = {prior: round(float(d), 2) for prior, d in found.items()}
        assert rounded == {"fixed": 0.06, "released": 0.12, "uniform": 0.12}

    def test_so_it_is_with_two_classes(self):
        """Shares uniform on [0, ½]: 1/12 by equal shares and 1/24 at best, by integration."""
        share = np.random.default_rng(0).uniform(0, 0.5, size=(1500, 2))
        found = self.prior_distances(np.stack([1 - share, share], axis=-1))
        # four standard errors
        assert found["uniform"] == pytest.approx(1 / 12, abs=0.007)
        assert found["released"] == pytest.approx(1 / 12, abs=0.01)
        assert found["fixed"] == pytest.approx(1 / 24, abs=0.006)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_on_labels_first_moments_forward_and_counts_are_logistic_regression(n_classes):
    """Pure bags of one row: cross-entropy of means, forward likelihood, likelihood of counts."""
    labels = np.random.default_rng(0).permutation(np.arange(12) % n_classes)
    bags = check_bag_target(labels)
    yes, scores = np.ones((1, bags.n_bags), dtype=bool), some_scores(bags)
    problem = np.zeros(4, dtype=np.intp)
    loss = get_loss("logistic", n_classes)
    own = np.take_along_axis(loss.losses(scores), np.broadcast_to(labels, (4, 1, 12)), axis=1)
    expected = own.mean(axis=(1, 2))
    sizes = np.repeat((bags.sizes / bags.sizes.sum())[:, None], n_classes, axis=1)
    risk = ProportionRisk(sizes, bags, loss, "cross_entropy")
    np.testing.assert_allclose(risk.value(scores, problem), expected)
    np.testing.assert_allclose(CountLikelihood(yes, bags).value(scores, problem), expected)
    # up to the constant log q, and the least ratio of a class that is not there
    forward = ForwardLikelihood(yes, bags)
    entropy = -np.mean(np.log(bags.class_shares[labels]))
    np.testing.assert_allclose(forward.value(scores, problem) + entropy, expected, atol=1e-3)
    if n_classes == 2:
        for name in ("exact", "worst", "transport"):
            found = AssignmentRisk(yes, bags, name).value(scores, problem)
            np.testing.assert_allclose(found, expected)


def test_gradient_of_the_counts_is_probability_less_posterior():
    """−log Pr(K = k): p_j − P(y_j = 1 | K = k), by all orders of the labels."""
    bags = make_bags([[3, 2], [2, 3]])
    f = some_scores(bags)[1]
    _, slopes = CountLikelihood(np.ones(2, dtype=bool), bags).value_and_gradient(f[None], ONE)
    for b, k in enumerate([2, 3]):
        own = np.flatnonzero(bags.index == b)
        p = expit(f[0, own])
        labels = np.array(sorted(set(permutations([1] * k + [0] * (5 - k)))))
        probability = np.prod(np.where(labels, p, 1 - p), axis=1)
        posterior = probability @ labels / probability.sum()
        np.testing.assert_allclose(slopes[0, 0, own] * 10, p - posterior, atol=1e-12)


@pytest.mark.parametrize("off", [16, 64])
def test_confident_and_wrong_counts_keep_their_likelihood(off):
    """128 rows, half of them sure to be positive: an FFT of their probabilities loses the tail."""
    n, k = 128, 64 + off
    p = np.where(np.arange(n) < 64, 1 - 1e-3, 1e-3)
    # probabilities of the counts row by row, as logarithms
    logs = np.full(n + 1, -np.inf)
    logs[0] = 0.0
    for probability in p:
        up = np.append(-np.inf, logs[:-1] + np.log(probability))
        logs = np.logaddexp(logs + np.log1p(-probability), up)
    turned = np.prod(1 - p + p * np.exp(-2j * np.pi * np.arange(n + 1) / (n + 1))[:, None], axis=1)
    by_fft = np.log(np.maximum(np.fft.ifft(turned).real, 1e-300))[k]
    assert by_fft > -45 or not np.isclose(by_fft, logs[k], rtol=0.01)
    bags = check_bag_target(bag_target(np.repeat([0, 1], n), counts=np.repeat([k, 30], n)))
    scores = np.concatenate([np.log(p / (1 - p)), np.zeros(n)])[None, None]
    only = np.array([[True, False]])
    for exact_size, close in ((n, 1e-9), (16, 0.01)):
        likelihood = CountLikelihood(only, bags, exact_size=exact_size)
        np.testing.assert_allclose(likelihood.value(scores, ONE)[0] * n, -logs[k], rtol=close)
