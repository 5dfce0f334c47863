"""Several learners as one: what it is made of, and what each of its promises rests on."""

import time

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from unbag import (
    LLPBoostingClassifier,
    LLPEMClassifier,
    LLPEnsembleClassifier,
    LLPKernelClassifierCV,
    LLPLinearClassifierCV,
    LLPNeuralClassifier,
    bag_target,
)
from unbag._deadlines import OutOfTimeError, check_time, deadline
from unbag._optional import install_command
from unbag.bags.bags import check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.bag_effects import largest_dispersion
from unbag.models.bag_goal import make_bag_goal
from unbag.models.mixing import fit_mixture
from unbag.tables.persistence import save_model

DATA = make_gaussian_bags(n_bags=30, bag_size=20, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=20, bag_size=12, n_features=3, n_classes=3, random_state=0)
QUICK = ["linear", "boosted"]


def _goal_of(y):
    bags = check_bag_target(y)
    return make_bag_goal(LLPLinearClassifierCV(class_prior="empirical"), bags), bags


@pytest.mark.parametrize("data", [DATA, THREE], ids=["two classes", "three"])
def test_it_learns_and_its_probabilities_add_up_to_the_counts(data):
    model = LLPEnsembleClassifier(QUICK, cv=3).fit(data.X, data.y)
    assert (model.predict(data.X) == data.labels).mean() > 0.7
    shares = check_bag_target(data.y).class_shares
    np.testing.assert_allclose(model.predict_proba(data.X).mean(axis=0), shares, atol=1e-6)
    balanced = LLPEnsembleClassifier(QUICK, cv=3, class_prior="balanced").fit(data.X, data.y)
    moved = model.predict_proba(data.X, class_prior="balanced")
    np.testing.assert_allclose(balanced.predict_proba(data.X), moved, atol=0.02)


def test_scores_are_the_mixture_of_the_learners():
    model = LLPEnsembleClassifier(QUICK).fit(DATA.X, DATA.y)
    weights = [row["weight"] for row in model.leaderboard_]
    assert sum(weights) == pytest.approx(1)
    assert [row["loss"] for row in model.leaderboard_] == sorted(model.mixture_.losses)
    expected = model.mixture_.intercepts[0] + sum(
        slope * one.decision_function(DATA.X)
        for slope, one in zip(model.mixture_.slopes, model.models_, strict=True)
    )
    np.testing.assert_allclose(model.decision_function(DATA.X), expected)


def test_its_file_does_not_grow_with_the_rows(tmp_path):
    sizes = []
    for bag_size in (20, 400):
        data = make_gaussian_bags(n_bags=30, bag_size=bag_size, n_features=3, random_state=0)
        model = LLPEnsembleClassifier("linear").fit(data.X, data.y)
        assert model.models_[0].cv == LLPLinearClassifierCV().cv
        sizes.append(save_model(model, tmp_path / "model.unbag").stat().st_size)
    assert sizes[1] < 1.1 * sizes[0]


def test_one_learner_orders_rows_as_it_does_alone():
    alone = LLPLinearClassifierCV(class_prior="empirical").fit(DATA.X, DATA.y)
    mixed = LLPEnsembleClassifier("linear").fit(DATA.X, DATA.y)
    alone, mixed = (model.decision_function(DATA.X) for model in (alone, mixed))
    np.testing.assert_array_equal(np.argsort(mixed), np.argsort(alone))


def test_the_colder_the_nearer_to_the_best_alone():
    cold = LLPEnsembleClassifier(QUICK, temperature=1e-6).fit(DATA.X, DATA.y)
    warm = LLPEnsembleClassifier(QUICK, temperature=1e6).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(cold.mixture_.weights, [1, 0], atol=1e-9)
    np.testing.assert_allclose(warm.mixture_.weights, [0.5, 0.5], atol=1e-3)


def test_calibration_finds_the_scale_of_scores_that_were_stretched():
    """Scores that are true log-odds, told three times too loud: few bags mend most of it."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(400), 20)
    odds = rng.normal(size=8000) + np.repeat(rng.normal(size=400), 20)
    labels = rng.random(8000) < expit(odds)
    y = bag_target(bag, counts=np.bincount(bag, labels).astype(int)[bag])
    goal, bags = _goal_of(y)
    found = fit_mixture(goal, bags, [3 * odds[None] + 1], temperature=16.0)
    assert found.slopes[0] == pytest.approx(1 / 3, rel=0.1)
    assert found.intercepts[0] == pytest.approx(-1 / 3, abs=0.1)


def test_few_large_bags_with_effects_of_their_own_do_not_overrule_what_is_known(monkeypatch):
    """Scores are true log-odds; five bags of 4000 rows, if rows count, would have them others."""
    worlds = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        bag = np.repeat(np.arange(5), 4000)
        odds = rng.normal(size=len(bag)) + rng.normal(scale=0.5, size=5)[bag] - 1
        labels = rng.random(len(bag)) < expit(odds + rng.normal(scale=0.5, size=5)[bag])
        y = bag_target(bag, counts=np.bincount(bag, labels).astype(int)[bag])
        worlds.append((*_goal_of(y), [odds[None]]))

    def stretches():
        return np.abs([np.log(fit_mixture(*world, temperature=16.0).slopes[0]) for world in worlds])

    found = stretches()
    monkeypatch.setattr("unbag.models.mixing.largest_dispersion", lambda *_: 1.0)
    by_rows_alone = stretches()
    gain = by_rows_alone - found
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
    assert np.median(found) < 0.1
    assert np.median(by_rows_alone) > 0.3


def test_the_stretch_is_where_likelihood_over_dispersion_and_prior_are_largest(monkeypatch):
    """Found again on a grid of a and b, for 12 bags with effects."""
    rng = np.random.default_rng(1)
    bag = np.repeat(np.arange(12), 60)
    odds = rng.normal(size=len(bag)) + rng.normal(size=12)[bag]
    labels = rng.random(len(bag)) < expit(odds + rng.normal(scale=0.7, size=12)[bag])
    goal, bags = _goal_of(bag_target(bag, counts=np.bincount(bag, labels).astype(int)[bag]))
    objective = goal.objective(goal.whole(bags), bags, None)
    scores, one = 2 * odds[None], np.zeros(1, dtype=int)
    found = fit_mixture(goal, bags, [scores], temperature=16.0)
    with monkeypatch.context() as patched:
        patched.setattr("unbag.models.mixing.largest_dispersion", lambda *_: 1.0)
        first = fit_mixture(goal, bags, [scores], temperature=16.0)
    times = largest_dispersion(bags, first([scores]), bags.class_shares)
    assert times > 2

    def loss(log_a, b):
        value = objective.value((np.exp(log_a) * scores + b)[None], one)[0]
        return len(bag) * value / times + 2 * log_a**2

    best = loss(np.log(found.slopes[0]), found.intercepts[0])
    around = [loss(a, b) for a in np.linspace(-1, 0.5, 31) for b in np.linspace(-1, 1, 41)]
    assert best <= min(around) + 1e-9
    assert min(around) < best + 0.02


@pytest.mark.parametrize("world", ["looks", "odds"])
def test_mean_chances_are_the_shares_and_many_bags_need_no_push(world):
    """Of five bags of unequal size, and of 200 where calibration had all but found it."""
    rng = np.random.default_rng(0)
    for n_bags, most in ((5, np.inf), (200, 0.1)):
        sizes = rng.integers(5, 60, n_bags)
        bag = np.repeat(np.arange(n_bags), sizes)
        x = rng.normal(size=len(bag))
        if world == "looks":
            labels = rng.random(len(bag)) < rng.uniform(0, 0.5, n_bags)[bag]
            x = x + labels
        else:
            x = x + rng.normal(size=n_bags)[bag]
            labels = rng.random(len(bag)) < expit(x - 1)
        goal, bags = _goal_of(bag_target(bag, counts=np.bincount(bag, labels).astype(int)[bag]))
        scores = [x[None]]
        found = fit_mixture(goal, bags, scores, temperature=16.0)
        moved = found.at_shares(scores, bags.class_shares, bags.class_shares)
        assert expit(moved(scores)).mean() == pytest.approx(labels.mean())
        assert abs(moved.intercepts[0] - found.intercepts[0]) < most
        # the same for scores that are for equal classes
        odds = np.log(bags.class_shares[1] / bags.class_shares[0])
        balanced = found.at_shares([x[None]], bags.class_shares, np.array([0.5, 0.5]))
        assert balanced.intercepts[0] == pytest.approx(moved.intercepts[0] - odds)


def test_a_loud_model_does_not_drown_a_quiet_one():
    """How loud a model tells its scores changes what it counts, not what a unit of that does."""
    goal, bags = _goal_of(DATA.y)
    one, other = np.random.default_rng(0).normal(size=(2, 1, len(DATA.y)))
    found = fit_mixture(goal, bags, [one, 50 * other], temperature=1e9)
    np.testing.assert_allclose(found.weights, 0.5, atol=1e-3)
    spread = found.slopes * [one.std(), 50 * other.std()]
    assert spread[0] == pytest.approx(spread[1], rel=0.01)


def test_models_that_say_nothing_are_mixed_without_a_warning():
    goal, bags = _goal_of(DATA.y)
    silent = np.zeros((1, len(DATA.y)))
    for scores in ([silent, silent], [silent, np.ones_like(silent)]):
        assert np.isfinite(fit_mixture(goal, bags, scores, temperature=16.0)(scores)).all()


def test_mixtures_are_scored_by_models_that_did_not_see_the_bag():
    """What a fold's models say depends on the counts of its bags by the mixture of all only."""
    model = LLPEnsembleClassifier(QUICK, cv=3).fit(DATA.X, DATA.y)
    fold = model.folds_.fold
    other = DATA.y.copy()
    flipped = fold == 0
    other["proportion"][flipped] = 1 - other["proportion"][flipped]
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    settings = {"alphas": [0.01], "bag_effect": 0, "class_prior": "empirical"}
    learners = {"linear": LLPLinearClassifierCV(store_folds=True, **settings)}
    one, two = (
        LLPEnsembleClassifier(learners, cv=splits).fit(DATA.X, y).models_[0].coef_
        for y in (DATA.y, other)
    )
    assert not np.allclose(one, two)
    seen = [
        LLPEnsembleClassifier(learners, cv=splits).fit(DATA.X, y).folds_.held_out[0, flipped]
        for y in (DATA.y, other)
    ]
    # the model that scores them is the same; only the calibration heard of other folds' models
    assert np.corrcoef(*seen)[0, 1] > 0.99999


def test_fewer_than_ten_bags_are_left_to_the_linear_model():
    data = make_gaussian_bags(n_bags=9, bag_size=30, random_state=2)
    model = LLPEnsembleClassifier(cv=20).fit(data.X, data.y)
    assert [type(one) for one in model.models_] == [LLPLinearClassifierCV]
    left_out = {row["learner"]: row["note"] for row in model.leaderboard_[1:]}
    reason = "9 bags do not tell which learner is better"
    assert left_out == {"kernel": reason, "boosted": reason}
    # each is held out by itself
    assert len(model.folds_.scores) == 9
    more = make_gaussian_bags(n_bags=10, bag_size=30, random_state=2)
    assert len(LLPEnsembleClassifier().fit(more.X, more.y).models_) == 3


def differ_in_who_is_in_them(n_bags):
    """Rows whose odds go with a feature, wherever they are."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(n_bags), 100)
    X = rng.normal(size=(len(bag), 2)) + 2 * rng.normal(size=(n_bags, 2))[bag]
    labels = rng.random(len(bag)) < expit(X[:, 0])
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag])


def test_few_bags_that_differ_in_who_is_in_them_are_left_to_the_linear_model():
    X, y = differ_in_who_is_in_them(32)
    model = LLPEnsembleClassifier().fit(X, y)
    assert [type(one) for one in model.models_] == [LLPLinearClassifierCV]
    reason = "few bags that differ in who is in them are left to the linear model"
    left_out = {row["learner"]: row["note"] for row in model.leaderboard_[1:]}
    assert left_out == {"kernel": reason, "boosted": reason}
    # learners that were asked for are trained in any case, as are those of more bags
    asked = LLPEnsembleClassifier(["linear", "boosted"]).fit(X, y)
    assert len(asked.models_) == 2
    assert len(LLPEnsembleClassifier().fit(*differ_in_who_is_in_them(33)).models_) == 3


def test_labels_among_few_bags_tell_learners_apart():
    X, y = differ_in_who_is_in_them(32)
    of_one = y["bag"] == 0
    bag = np.where(of_one, 1000 + np.arange(len(y)), y["bag"])
    some_labels = bag_target(bag, np.where(of_one, X[:, 0] > 0, y["proportion"]))
    assert len(LLPEnsembleClassifier().fit(X, some_labels).models_) == 3


def test_three_bags_are_ranked_as_the_linear_model_ranks_them():
    data = make_gaussian_bags(n_bags=3, bag_size=40, random_state=2)
    with pytest.warns(UserWarning, match="5 folds need as many bags, and there are 3"):
        linear = LLPLinearClassifierCV(class_prior="empirical").fit(data.X, data.y)
    model = LLPEnsembleClassifier().fit(data.X, data.y)
    np.testing.assert_array_equal(
        np.argsort(model.decision_function(data.X)), np.argsort(linear.decision_function(data.X))
    )


def test_too_few_bags_get_one_sentence():
    data = make_gaussian_bags(n_bags=3, bag_size=40, random_state=2)
    two = data.y["bag"] < 2
    with pytest.raises(ValueError, match=r"needs three bags to choose its .* there are 2$"):
        LLPEnsembleClassifier().fit(data.X[two], data.y[two])
    with pytest.raises(ValueError, match=r"^linear, kernel need four bags .* 3; name one of them"):
        LLPEnsembleClassifier(["linear", "kernel"]).fit(data.X, data.y)


def test_learners_of_your_own_are_fitted_once_more_for_each_fold():
    learners = {
        "em": LLPEMClassifier(LogisticRegression(C=10)),
        "kernel": LLPKernelClassifierCV(class_prior="empirical", store_folds=True),
    }
    model = LLPEnsembleClassifier(learners, cv=3).fit(DATA.X, DATA.y)
    assert {row["learner"] for row in model.leaderboard_} == {"em", "kernel"}
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.8
    assert model.out_of_fold_scores_.shape == DATA.labels.shape


def test_a_time_limit_leaves_out_what_was_not_begun():
    model = LLPEnsembleClassifier(QUICK, time_limit=1e-9).fit(DATA.X, DATA.y)
    first, second = model.leaderboard_
    assert (first["learner"], first["weight"]) == ("linear", 1)
    assert second["note"] == "not begun within the time limit of 1e-09 s"


class _Slow(LLPLinearClassifierCV):
    """Takes a hundred seconds for every step."""

    def fit(self, X, y):
        self.clock.append(100)
        check_time()
        return super().fit(X, y)


def test_a_learner_that_is_not_done_by_the_time_limit_is_left_out(monkeypatch):
    _Slow.clock = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(_Slow.clock))
    learners = {"first": LLPLinearClassifierCV(), "slow": _Slow(), "late": LLPLinearClassifierCV()}
    model = LLPEnsembleClassifier(learners, cv=3, time_limit=50).fit(DATA.X, DATA.y)
    assert [(row["learner"], row["note"]) for row in model.leaderboard_] == [
        ("first", ""),
        ("slow", "stopped at the time limit of 50 s"),
        ("late", "not begun within the time limit of 50 s"),
    ]
    assert len(model.models_) == 1


def test_the_first_learner_is_trained_whatever_it_takes(monkeypatch):
    _Slow.clock = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(_Slow.clock))
    model = LLPEnsembleClassifier({"slow": _Slow(store_folds=True)}, cv=3, time_limit=50)
    assert model.fit(DATA.X, DATA.y).leaderboard_[0]["seconds"] == 100


@pytest.mark.parametrize(
    "learner",
    [
        LLPLinearClassifierCV(),
        LLPKernelClassifierCV(),
        LLPBoostingClassifier(),
        LLPEMClassifier(LogisticRegression()),
        LLPNeuralClassifier(),
    ],
)
def test_learners_stop_once_their_time_is_over(learner):
    with pytest.raises(OutOfTimeError), deadline(time.monotonic() - 1):
        learner.fit(DATA.X, DATA.y)
    learner.fit(DATA.X, DATA.y)


def test_without_lightgbm_trees_are_left_out_and_it_is_said(monkeypatch):
    monkeypatch.setattr("unbag.models.ensemble.find_spec", lambda _: None)
    model = LLPEnsembleClassifier().fit(DATA.X, DATA.y)
    assert {row["learner"]: row["note"] for row in model.leaderboard_} == {
        "linear": "",
        "kernel": "",
        "boosted": f"needs LightGBM: {install_command('boosting')}",
    }


def test_sparse_rows_are_rows():
    dense = LLPEnsembleClassifier(QUICK).fit(DATA.X, DATA.y)
    sparse = LLPEnsembleClassifier(QUICK).fit(csr_array(DATA.X), DATA.y)
    np.testing.assert_allclose(
        sparse.decision_function(csr_array(DATA.X)), dense.decision_function(DATA.X), atol=0.05
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learners": "trees"}, r"learners has 'trees'; known are 'auto' and linear, kernel"),
        ({"learners": []}, r"learners is empty; name one"),
        ({"learners": {}}, r"learners is empty; name one"),
        ({"temperature": 0}, r"temperature must be"),
        ({"time_limit": -1}, r"time_limit must be"),
    ],
)
def test_mistakes_get_one_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        LLPEnsembleClassifier(**settings).fit(DATA.X, DATA.y)


def test_fewer_than_ten_bags_leave_the_linear_model_as_loud_as_it_is():
    data = make_gaussian_bags(n_bags=9, bag_size=60, random_state=0)
    model = LLPEnsembleClassifier().fit(data.X, data.y)
    linear = LLPLinearClassifierCV(class_prior="empirical").fit(data.X, data.y)
    moved = model.decision_function(data.X) - linear.decision_function(data.X)
    np.testing.assert_allclose(moved, moved.mean(), atol=1e-9)
    # mean chances are the shares
    assert model.predict_proba(data.X)[:, 1].mean() == pytest.approx(
        model.class_prior_[1], abs=1e-6
    )
