"""Label-free metrics against scikit-learn's on known labels, and against the truth on average."""

from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn import metrics as sk
from sklearn.utils.class_weight import compute_sample_weight

from estimates import plain_estimate
from gaussian import gaussian_auc, gaussian_bayes_ber
from unbag import bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.curves import roc_rates
from unbag.evaluation.measures import make_sample
from unbag.weights import decontamination_weights

roc_auc_score, balanced_accuracy_score, corrected_risk = (
    partial(plain_estimate, name) for name in ("roc_auc", "balanced_accuracy", "corrected_risk")
)


def roc_curve(y, scores):
    (fpr, tpr), thresholds = roc_rates(make_sample(y, scores, binary="The ROC curve"))
    return fpr, tpr, thresholds


RNG = np.random.default_rng(0)
LABELS = (RNG.uniform(size=120) < 0.3).astype(int)
SCORES = RNG.normal(size=120) + LABELS
TIED = np.round(2 * SCORES) / 2 + 0.25  # many ties, none of them at 0
THREE = RNG.integers(3, size=150)
COLUMNS = RNG.normal(size=(150, 3)) + 2 * np.eye(3)[THREE]


def pure_bags(labels):
    """Pure bags of several sizes, some of a single row."""
    bag = np.zeros(len(labels), dtype=int)
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        growing = np.repeat(np.arange(len(rows)), np.arange(1, len(rows) + 1))
        bag[rows] = 100 * c + growing[: len(rows)]
    shares = labels.astype(float) if labels.max() == 1 else np.eye(labels.max() + 1)[labels]
    return bag_target(bag, shares)


# targets that determine every label
PURE = {
    "plain labels": lambda labels: labels,
    "strings": lambda labels: np.array(["a", "b", "c"])[labels],
    "pure bags": pure_bags,
}
ALL_PURE = pytest.mark.parametrize("target", PURE.values(), ids=PURE)
ALL_SCORES = pytest.mark.parametrize("scores", [SCORES, TIED], ids=["distinct", "tied"])


@ALL_PURE
@ALL_SCORES
def test_area_under_the_curve_of_pure_bags_is_the_usual_one(target, scores):
    expected = sk.roc_auc_score(LABELS, scores)
    assert roc_auc_score(target(LABELS), scores) == pytest.approx(expected, rel=1e-12)


@ALL_PURE
@ALL_SCORES
def test_roc_curve_of_pure_bags_is_the_usual_one(target, scores):
    fpr, tpr, thresholds = roc_curve(target(LABELS), scores)
    expected = sk.roc_curve(LABELS, scores, drop_intermediate=False)
    np.testing.assert_allclose(fpr, expected[0], atol=1e-12)
    np.testing.assert_allclose(tpr, expected[1], atol=1e-12)
    np.testing.assert_array_equal(thresholds, expected[2])


@ALL_PURE
@ALL_SCORES
@pytest.mark.parametrize("threshold", [0.0, 0.6, -3.1, 99.0])
def test_balanced_accuracy_of_pure_bags_is_the_usual_one(target, scores, threshold):
    expected = sk.balanced_accuracy_score(LABELS, scores > threshold)
    found = balanced_accuracy_score(target(LABELS), scores, threshold=threshold)
    assert found == pytest.approx(expected, rel=1e-12)


@ALL_PURE
def test_balanced_accuracy_of_three_classes_is_the_usual_one(target):
    expected = sk.balanced_accuracy_score(THREE, COLUMNS.argmax(axis=1))
    assert balanced_accuracy_score(target(THREE), COLUMNS) == pytest.approx(expected, rel=1e-12)


def test_two_columns_of_scores_decide_like_their_difference():
    columns = np.column_stack([-SCORES, SCORES**3])
    one, two = balanced_accuracy_score(LABELS, SCORES), balanced_accuracy_score(LABELS, columns)
    assert one == pytest.approx(two, rel=1e-12)


@ALL_PURE
@ALL_SCORES
def test_corrected_risk_of_pure_bags_is_the_balanced_log_loss(target, scores):
    balanced = compute_sample_weight("balanced", LABELS)
    expected = sk.log_loss(LABELS, expit(scores), sample_weight=balanced)
    assert corrected_risk(target(LABELS), scores) == pytest.approx(expected, rel=1e-10)


@ALL_PURE
def test_corrected_risk_of_three_classes_is_the_balanced_log_loss(target):
    balanced = compute_sample_weight("balanced", THREE)
    expected = sk.log_loss(THREE, softmax(COLUMNS, axis=1), sample_weight=balanced)
    assert corrected_risk(target(THREE), COLUMNS) == pytest.approx(expected, rel=1e-10)


def test_class_prior_says_how_much_each_class_counts():
    empirical = sk.log_loss(LABELS, expit(SCORES))
    assert corrected_risk(LABELS, SCORES, class_prior="empirical") == pytest.approx(empirical)
    weight = np.array([1.0, 3.0])[LABELS] / np.bincount(LABELS)[LABELS]
    given = sk.log_loss(LABELS, expit(SCORES), sample_weight=weight)
    assert corrected_risk(LABELS, SCORES, class_prior=[0.25, 0.75]) == pytest.approx(given)


def test_hinge_and_zero_one_risk_are_the_usual_ones():
    balanced = compute_sample_weight("balanced", LABELS)
    hinge = sk.hinge_loss(2 * LABELS - 1, SCORES, sample_weight=balanced)
    assert corrected_risk(LABELS, SCORES, loss="hinge") == pytest.approx(hinge)
    error = 1 - sk.balanced_accuracy_score(LABELS, SCORES > 0)
    assert corrected_risk(LABELS, SCORES, loss="zero_one") == pytest.approx(error)


def signed_weights(y):
    bags = check_bag_target(y)
    return (decontamination_weights(bags) / bags.sizes[:, None])[bags.index]


@pytest.mark.parametrize("decimals", [9, 0], ids=["distinct", "tied"])
@pytest.mark.parametrize("sizes", [20, [3, 40, 11, 1, 7, 25]], ids=["equal", "unequal"])
def test_area_under_the_curve_is_the_signed_sum_over_all_pairs(decimals, sizes):
    data = make_gaussian_bags(6, sizes, random_state=3)
    scores = np.round(data.X[:, 0], decimals)
    negative, positive = signed_weights(data.y).T
    difference = scores[:, None] - scores
    wins = (difference > 0) + 0.5 * (difference == 0)
    expected = positive @ wins @ negative
    assert roc_auc_score(data.y, scores) == pytest.approx(expected, rel=1e-10)


def test_rates_are_signed_sums_at_every_threshold():
    data = make_gaussian_bags(6, [3, 40, 11, 1, 7, 25], random_state=3)
    scores = np.round(data.X[:, 0], 1)
    weights = signed_weights(data.y)
    fpr, tpr, thresholds = roc_curve(data.y, scores)
    assert thresholds[0] == np.inf
    np.testing.assert_array_equal(thresholds[1:], np.unique(scores)[::-1])
    for rates, column in ((fpr, 0), (tpr, 1)):
        expected = [weights[scores >= t, column].sum() for t in thresholds]
        np.testing.assert_allclose(rates, expected, atol=1e-12)
    np.testing.assert_allclose([fpr[-1], tpr[-1]], 1)


def test_balanced_accuracy_lies_on_the_curve():
    data = make_gaussian_bags(8, 15, random_state=4)
    fpr, tpr, thresholds = roc_curve(data.y, data.X[:, 0])
    for number in (10, 50, 90):
        between = (thresholds[number] + thresholds[number + 1]) / 2
        accuracy = balanced_accuracy_score(data.y, data.X[:, 0], threshold=between)
        assert accuracy == pytest.approx((tpr[number] + 1 - fpr[number]) / 2, rel=1e-12)


def test_score_at_the_threshold_counts_half_as_in_the_zero_one_loss():
    data = make_gaussian_bags(8, 15, random_state=4)
    scores = np.round(data.X[:, 0])
    assert (scores == 0).any()
    error = corrected_risk(data.y, scores, loss="zero_one")
    accuracy = balanced_accuracy_score(data.y, scores)
    assert accuracy == pytest.approx(1 - error, rel=1e-12)
    either_way = [balanced_accuracy_score(data.y, scores + shift) for shift in (-0.1, 0.1)]
    assert accuracy == pytest.approx(np.mean(either_way), rel=1e-12)
    assert either_way[0] != pytest.approx(either_way[1], abs=1e-6)


def test_order_of_the_rows_does_not_matter():
    data = make_gaussian_bags(6, 15, random_state=3)
    scores = np.round(data.X[:, 0], 1)
    rows = np.random.default_rng(1).permutation(len(scores))
    for metric in (roc_auc_score, balanced_accuracy_score, corrected_risk):
        expected = metric(data.y, scores)
        assert metric(data.y[rows], scores[rows]) == pytest.approx(expected, rel=1e-10)


def test_only_the_order_of_the_scores_matters_for_the_area():
    data = make_gaussian_bags(6, 15, random_state=3)
    area = roc_auc_score(data.y, data.X[:, 0])
    assert roc_auc_score(data.y, np.exp(data.X[:, 0])) == pytest.approx(area, rel=1e-12)
    assert roc_auc_score(data.y, -data.X[:, 0]) == pytest.approx(1 - area, rel=1e-12)
    assert roc_auc_score(data.y, np.ones(len(data.X))) == pytest.approx(0.5, rel=1e-12)


SEPARATION = 1.5
EXPECTED_LOSS = quad(lambda t: np.logaddexp(0, -t) * norm.pdf(t, SEPARATION / 2), -20, 20)[0]
EXACT_SCORES = {
    "area under the curve": (roc_auc_score, gaussian_auc(SEPARATION)),
    "balanced accuracy": (balanced_accuracy_score, 1 - gaussian_bayes_ber(SEPARATION)),
    "corrected risk": (corrected_risk, EXPECTED_LOSS),
    "true positives": (lambda y, f: rates_at(-0.5, y, f)[1], norm.cdf(SEPARATION / 2 + 0.5)),
    "false positives": (lambda y, f: rates_at(0.2, y, f)[0], norm.cdf(-SEPARATION / 2 - 0.2)),
}
BAGS = {
    "small bags": {"bag_size": 8, "n_bags": 16},
    "unequal bags": {"bag_size": [2, 5, 9, 30, 60, 4, 12, 7, 21, 15], "n_bags": 10},
    "few positives": {"bag_size": 20, "n_bags": 12, "proportions": (0, 0.4)},
    "dependent instances": {"bag_size": 8, "n_bags": 16, "dependence": 0.5},
}


def rates_at(threshold, y, scores):
    fpr, tpr, thresholds = roc_curve(y, scores)
    last = np.count_nonzero(thresholds >= threshold) - 1
    return fpr[last], tpr[last]


@pytest.mark.parametrize("bags", BAGS.values(), ids=BAGS)
def test_estimates_average_to_the_truth_over_resampled_bags(bags):
    estimates = {name: [] for name in EXACT_SCORES}
    for seed in range(300):
        data = make_gaussian_bags(**bags, separation=SEPARATION, random_state=seed)
        for name, (metric, _) in EXACT_SCORES.items():
            estimates[name].append(metric(data.y, data.X[:, 0]))
    for name, (_, truth) in EXACT_SCORES.items():
        values = np.array(estimates[name])
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - truth) < 4 * error, name
        assert error < 0.05, name  # or the comparison would say little


def test_three_class_estimates_average_to_the_truth_over_resampled_bags():
    surplus = []
    for seed in range(200):
        data = make_gaussian_bags(15, 12, n_classes=3, separation=SEPARATION, random_state=seed)
        scores = data.X @ data.means.T
        with_labels = sk.balanced_accuracy_score(data.labels, scores.argmax(axis=1))
        surplus.append(balanced_accuracy_score(data.y, scores) - with_labels)
    error = np.std(surplus, ddof=1) / np.sqrt(200)
    assert abs(np.mean(surplus)) < 4 * error
    assert error < 0.02


def test_estimates_outside_the_unit_interval_are_reported_as_they_are():
    """By hand: 0.6 and 0.4 positive, every score of the first bag above every one of the second."""
    y = bag_target([1, 1, 2, 2], [0.6, 0.6, 0.4, 0.4])
    scores = [1.0, 1.0, -1.0, -1.0]
    fpr, tpr, thresholds = roc_curve(y, scores)
    np.testing.assert_allclose(fpr, [0, -2, 1])
    np.testing.assert_allclose(tpr, [0, 3, 1])
    np.testing.assert_array_equal(thresholds, [np.inf, 1, -1])
    assert roc_auc_score(y, scores) == pytest.approx(3)
    assert balanced_accuracy_score(y, scores) == pytest.approx(3)
    assert corrected_risk(y, scores, loss="zero_one") == pytest.approx(-2)


def test_rows_of_known_label_count_with_the_bags():
    """Bags and labelled rows together are the bags with a pure one for each class."""
    data = make_gaussian_bags(5, 10, random_state=0)
    known = np.arange(50) % 3 == 0
    labels = np.where(known, data.labels, np.nan)
    counts = np.bincount(data.y["bag"], data.labels)
    y = bag_target(data.y["bag"], counts=dict(enumerate(counts)), labels=labels)
    joined = np.where(known, 100 + data.labels, data.y["bag"])
    shares = {i: data.labels[joined == i].mean() for i in np.unique(joined)}
    for metric in (roc_auc_score, balanced_accuracy_score, corrected_risk):
        expected = metric(bag_target(joined, shares), data.X[:, 0])
        assert metric(y, data.X[:, 0]) == pytest.approx(expected, rel=1e-10)


def test_single_column_may_have_two_dimensions():
    for metric in (roc_auc_score, balanced_accuracy_score, corrected_risk):
        assert metric(LABELS, SCORES[:, None]) == metric(LABELS, SCORES)
        assert metric(LABELS, SCORES.tolist()) == metric(LABELS, SCORES)


METRICS = pytest.mark.parametrize(
    "metric", [roc_auc_score, roc_curve, balanced_accuracy_score, corrected_risk]
)


@METRICS
@pytest.mark.parametrize(
    ("y", "scores", "sentence"),
    [
        (LABELS, SCORES[1:], r"There are 120 instances but scores of shape \(119,\)"),
        (LABELS, SCORES[None], r"There are 120 instances but scores of shape \(1, 120\)"),
        (LABELS, 1.0, r"There are 120 instances but scores of shape \(\)"),
        (LABELS, np.zeros((120, 1, 1)), r"but scores of shape \(120, 1, 1\)"),
        (LABELS, np.zeros((120, 3)), "2 classes need as many columns of scores"),
        (THREE, COLUMNS[:, :2], "3 classes need as many columns of scores"),
        (THREE, COLUMNS[:, 0], "A single column of scores is for two classes and there are 3"),
        (LABELS, np.where(SCORES > 1, np.nan, SCORES), "Scores must be finite numbers"),
        (LABELS, np.where(SCORES > 1, np.inf, SCORES), "Scores must be finite numbers"),
        (np.zeros(120, dtype=int), SCORES, "There is only one class|is for two classes"),
        (bag_target(np.arange(120) // 60, np.full(120, 0.5)), SCORES, "same class proportions"),
    ],
)
def test_scores_that_are_refused(metric, y, scores, sentence):
    with pytest.raises(ValueError, match=sentence):
        metric(y, scores)


@pytest.mark.parametrize(
    ("metric", "what"), [(roc_auc_score, "The area under the ROC curve"), (roc_curve, "The ROC")]
)
def test_curve_of_three_classes_is_refused(metric, what):
    with pytest.raises(ValueError, match=f"{what}.* is for two classes and there are 3"):
        metric(THREE, COLUMNS)


@pytest.mark.parametrize("metric", [roc_auc_score, roc_curve, corrected_risk])
def test_two_columns_for_two_classes_stand_for_their_difference(metric):
    both = metric(LABELS, np.column_stack([-SCORES, SCORES]))
    one = metric(LABELS, 2 * SCORES)
    for got, wanted in zip(np.atleast_1d(both), np.atleast_1d(one), strict=True):
        np.testing.assert_allclose(got, wanted)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "cubic"}, "loss must be one of .*'logistic'.* not 'cubic'"),
        ({"class_prior": "even"}, "class_prior must be 'balanced', 'empirical' or one number"),
        ({"class_prior": [1, 2, 3]}, "one number for each of the 2 classes"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        corrected_risk(LABELS, SCORES, **settings)


def test_margin_loss_for_three_classes_is_refused():
    with pytest.raises(ValueError, match="loss='hinge' is for two classes and there are 3"):
        corrected_risk(THREE, COLUMNS, loss="hinge")
