"""What scikit-learn's own tools make of bags: each works, or says what to call instead."""

import pickle
import re
import warnings
from functools import reduce

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.multiclass import type_of_target

import unbag
from unbag import (
    BagKFold,
    BagShuffleSplit,
    LLPClassifier,
    bag_target,
    check_bag_target,
    multi_grouping_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_fit
from unbag.evaluation.scorers import SCORERS
from unbag.tables import make_classifier
from unbag.tables.features import make_features

DATA = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)
X, Y = DATA.X, DATA.y
NO_LABELS = (
    r"^y holds bags and their proportions, and this tool .* cv=unbag.BagKFold\(5\) .*SCORERS"
    r".*LLPEnsembleClassifier.*docs/howto/pitfalls.md"
)
VARIANCES = [{"numbers": 1e-8}, {"numbers": 1.0}]
NUMBERS_ONLY = ["LLPBoostingClassifier", "LLPEnsembleClassifier", "LLPNeuralClassifier"]
OPTIONAL = {"LLPBoostingClassifier": "lightgbm", "LLPNeuralClassifier": "torch"}
NUMBERED = "^y holds {} different values, which are taken for ids of bags, not for classes; "


class TestToolsThatTakeBagsForClasses:
    @pytest.mark.parametrize(
        "tool",
        [
            VotingClassifier([("a", LLPClassifier(kernel=None))]),
            StackingClassifier([("a", LLPClassifier(kernel=None))], cv=BagKFold(3)),
            CalibratedClassifierCV(LLPClassifier(kernel=None), cv=BagKFold(3)),
            CalibratedClassifierCV(LLPClassifier(kernel=None)),
            BaggingClassifier(LLPClassifier(kernel=None)),
            OneVsRestClassifier(LLPClassifier(kernel=None)),
            TunedThresholdClassifierCV(LLPClassifier(kernel=None), cv=BagKFold(3)),
            GridSearchCV(LLPClassifier(kernel=None), {"bag_effect": [0.0, 0.1]}),
            RFECV(LLPClassifier(kernel=None), cv=BagKFold(3)),
        ],
        ids=lambda tool: type(tool).__name__,
    )
    def test_errors_name_what_to_use(self, tool):
        few = Y["bag"] < 5
        for rows in (slice(None), few):
            with pytest.raises(ValueError, match=NO_LABELS):
                tool.fit(X[rows], Y[rows])

    def test_splits_of_rows_say_how_to_split_bags(self):
        with pytest.raises(ValueError, match="Split whole bags"):
            cross_val_score(LLPClassifier(kernel=None), X, Y, cv=KFold(5), error_score="raise")

    @pytest.mark.parametrize("scoring", ["roc_auc", "accuracy", "neg_log_loss"])
    def test_scores_of_labels_fail_aloud(self, scoring):
        with pytest.warns(UserWarning, match=f"(?s)Scoring failed.*{NO_LABELS[1:]}"):
            found = cross_val_score(
                LLPClassifier(kernel=None), X, Y, cv=BagKFold(3), scoring=scoring
            )
        assert np.isnan(found).all()
        search = GridSearchCV(
            LLPClassifier(kernel=None),
            {"bag_effect": [0.0, 0.1]},
            cv=BagKFold(3),
            scoring=scoring,
            error_score="raise",
        )
        with pytest.raises(ValueError, match=NO_LABELS) as error:
            search.fit(X, Y)
        for name in re.findall(r"(?<!\w)unbag(?:\.\w+)+", str(error.value)):
            reduce(getattr, name.split(".")[1:], unbag)  # what it names is there

    def test_scores_of_bags_choose(self):
        search = GridSearchCV(
            LLPClassifier(kernel=None),
            {"variances": VARIANCES},
            cv=BagKFold(3),
            scoring=SCORERS["corrected_risk"],
        ).fit(X, Y)
        assert search.best_params_ == {"variances": VARIANCES[1]}
        found = cross_val_score(
            LLPClassifier(kernel=None), X, Y, cv=BagKFold(3), scoring=SCORERS["balanced_accuracy"]
        )
        assert found.min() > 0.7

    def test_cross_val_predict(self):
        classes = cross_val_predict(LLPClassifier(kernel=None), X, Y, cv=BagKFold(3))
        scores = cross_fit(LLPClassifier(kernel=None), X, Y, cv=BagKFold(3)).scores
        np.testing.assert_array_equal(classes, scores > 0)
        for method in ("predict_proba", "decision_function"):
            with pytest.raises(ValueError, match=NUMBERED.format(16)):
                cross_val_predict(LLPClassifier(kernel=None), X, Y, cv=BagKFold(3), method=method)


class TestToolsThatWork:
    """By the model's own score of bags, or one of `SCORERS`."""

    @pytest.mark.parametrize("scoring", [None, SCORERS["roc_auc"]])
    def test_what_a_column_is_worth(self, scoring):
        model = LLPClassifier(kernel=None).fit(X, Y)
        found = permutation_importance(model, X, Y, n_repeats=2, scoring=scoring, random_state=0)
        assert found.importances_mean.argmax() == np.abs(model.coef_[0]).argmax()

    @pytest.mark.parametrize(
        "tool",
        [
            RFE(LLPClassifier(kernel=None), n_features_to_select=1),
            SelectFromModel(LLPClassifier(kernel=None)),
            SequentialFeatureSelector(
                LLPClassifier(kernel=None), n_features_to_select=1, cv=BagKFold(3)
            ),
        ],
        ids=lambda tool: type(tool).__name__,
    )
    def test_choosing_columns(self, tool):
        kept = make_pipeline(tool, LLPClassifier(kernel=None)).fit(X, Y)[0].get_support()
        assert kept[np.abs(LLPClassifier(kernel=None).fit(X, Y).coef_[0]).argmax()]

    def test_curves_over_settings_and_sizes(self):
        model, cv = LLPClassifier(kernel=None), BagKFold(3)
        _, held_out = validation_curve(
            model, X, Y, param_name="variances", param_range=VARIANCES, cv=cv
        )
        search = GridSearchCV(model, {"variances": VARIANCES}, cv=cv).fit(X, Y)
        np.testing.assert_allclose(held_out.mean(axis=1), search.cv_results_["mean_test_score"])
        with pytest.raises(ValueError, match=r"^Bag .* of its 15 instances here.*BagShuffleSplit"):
            learning_curve(LLPClassifier(kernel=None), X, Y, cv=BagKFold(3), error_score="raise")
        parts = BagShuffleSplit(2, test_size=0.5, random_state=0)
        # by more than a model of the same probability for all rows
        alone = cross_val_score(
            LLPClassifier(kernel=None, variances={"numbers": 1e-9}), X, Y, cv=parts
        )
        assert (cross_val_score(model, X, Y, cv=parts) > alone).all()

    def test_columns_of_each_kind_their_own_step(self):
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=np.where(X[:, 0] > 0, "u", "v"))
        steps = make_column_transformer(
            (StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(), ["d"])
        )
        model = make_pipeline(steps, LLPClassifier(kernel=None)).fit(frame, Y)
        with config_context(enable_metadata_routing=True):
            routed = make_pipeline(steps, LLPClassifier(kernel=None)).fit(frame, Y)
        np.testing.assert_array_equal(model.predict(frame), routed.predict(frame))
        assert (model.predict(frame) == DATA.labels).mean() > 0.7


class TestTargetsKeepTheirType:
    @pytest.mark.parametrize(
        "change",
        [
            np.asarray,
            lambda y: pickle.loads(pickle.dumps(y)),
            lambda y: y[::-1].copy(),
            lambda y: np.concatenate([y, y]),
            lambda y: np.array(list(y)),
            lambda y: bag_target(y["bag"], y["proportion"], class_names=["no", "yes"]),
        ],
    )
    def test_through_what_arrays_go_through(self, change):
        with pytest.raises(ValueError, match=NO_LABELS):
            type_of_target(change(Y))

    def test_rows_are_rows_still(self):
        assert Y[0] == Y[1]
        assert not np.isdtype(Y.dtype, "numeric")
        assert Y[0].item() == (Y["bag"][0], Y["proportion"][0], Y["size"][0])
        assert pd.DataFrame(Y).columns.tolist() == ["bag", "proportion", "size"]
        plain = np.array(Y.tolist(), dtype=Y.dtype.descr)
        np.testing.assert_array_equal(plain, Y)
        one, other = check_bag_target(plain), check_bag_target(Y)
        np.testing.assert_array_equal(one.proportions, other.proportions)


class TestWhatIsNoTarget:
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_tables(self, frame):
        for names in (["bag"], ["bag", "proportion"]):
            y = frame({name: Y[name] for name in names})
            listed = ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))
            with pytest.raises(
                ValueError,
                match=f"^y is a table with the {listed}, and not one array; make the "
                r"target with unbag.bag_target\(bag, proportion\).$",
            ):
                LLPClassifier(kernel=None).fit(X, y)

    @pytest.mark.parametrize("series", [np.array, list, pd.Series, pl.Series])
    def test_ids_of_bags(self, series):
        names = [f"district {b}" for b in Y["bag"]]
        for ids in (Y["bag"], names):
            with pytest.raises(ValueError, match=NUMBERED.format(24) + "make the target with"):
                LLPClassifier(kernel=None).fit(X, series(ids))

    @pytest.mark.parametrize("series", [np.array, list, pd.Series, pl.Series])
    def test_ids_of_bags_of_one_row_or_two(self, series):
        rows = np.arange(60)
        for ids in (rows, rows // 2, np.minimum(rows, 40), [f"household {row}" for row in rows]):
            message = NUMBERED.format(len(set(ids))) + "make the target with unbag.bag_target"
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(ValueError, match=message):
                    LLPClassifier(kernel=None).fit(X[:60], series(ids))

    @pytest.mark.parametrize(
        "gather", [list, tuple, lambda pair: dict(zip("ab", pair, strict=True))]
    )
    def test_several_targets(self, gather):
        named = bag_target([f"day {b}" for b in Y["bag"]], Y["proportion"])
        for model in (LLPClassifier(kernel=None), LLPClassifier()):
            with pytest.raises(
                ValueError, match=r"^y holds several targets; .*multi_grouping_target.$"
            ):
                model.fit(X, gather([Y, named]))

    def test_groupings_have_no_labels(self):
        y = multi_grouping_target({"ad": Y, "day": Y})
        with pytest.raises(ValueError, match=r"unbag.LLPClassifier .* grouping alone, y\['ad'\].$"):
            cross_val_score(LLPClassifier(kernel=None), X, y)

    def test_proportions(self):
        with pytest.raises(ValueError, match=r"neither classes nor bags .* unbag.bag_target"):
            LLPClassifier(kernel=None).fit(X, Y["proportion"])

    def test_ten_classes_are_classes_and_more_can_be_said_to_be(self):
        labels = np.arange(120) % 10
        assert check_bag_target(labels).n_classes == 10
        labels = np.arange(120) % 12
        with pytest.raises(ValueError, match=r"say so by bag_target\(range\(n_rows\), proportion"):
            check_bag_target(labels)
        bags = check_bag_target(bag_target(range(120), np.eye(12)[labels]))
        assert bags.labelled.all()
        np.testing.assert_array_equal(bags.index, labels)

    def test_a_list_of_its_rows_is_still_a_target(self):
        given, listed = check_bag_target(Y), check_bag_target(list(Y))
        np.testing.assert_array_equal(listed.proportions, given.proportions)
        np.testing.assert_array_equal(listed.index, given.index)


class TestSampleWeight:
    def test_fit(self):
        with pytest.raises(TypeError, match="sample_weight"):
            LLPClassifier(kernel=None).fit(X, Y, sample_weight=np.ones(len(X)))

    def test_score(self):
        model = LLPClassifier(kernel=None).fit(X, Y)
        weight = np.where(DATA.labels == 1, 1.0, 2.0)
        with pytest.raises(ValueError, match=r"^sample_weight cannot be used"):
            model.score(X, Y, sample_weight=weight)
        right = model.predict(X) == DATA.labels
        expected = np.average(right, weights=weight)
        assert model.score(X, DATA.labels, sample_weight=weight) == pytest.approx(expected)


class TestColumnsOfAnyKind:
    def test_text_in_arrays_points_to_features(self):
        text = np.where(X > 0, "yes", "it's no")
        for table in (text, text.astype(object)):
            with pytest.raises(
                ValueError,
                match=r"^X holds the text '?\"?(yes|it's no)\"?'?, and LLPClassifier takes "
                r"numbers only; .*make_pipeline\(unbag.tables.features.make_features\(\), ",
            ):
                LLPClassifier(kernel=None).fit(table, Y)
        with pytest.raises(ValueError, match=r"^X holds the text .* takes numbers only"):
            LLPClassifier(kernel=None).fit(X, Y).predict(text)

    @pytest.mark.parametrize("model", NUMBERS_ONLY)
    def test_frames_of_text_and_dates_point_to_features(self, model):
        pytest.importorskip(OPTIONAL.get(model, "sklearn"))
        estimator = getattr(unbag, model)()
        days = pd.date_range("2024-01-01", periods=len(X))
        for column, held in ((np.resize(["u", "v"], len(X)), "the text 'u'"), (days, "dates or")):
            frame = pd.DataFrame(X).assign(c=column).rename(columns=str)
            with pytest.raises(ValueError, match=rf"^X holds {held}.*make_features\(\), {model}"):
                estimator.fit(frame, Y)

    @pytest.mark.parametrize("model", ["LLPClassifier", *NUMBERS_ONLY])
    def test_lazy_frames_are_collected_first(self, model):
        pytest.importorskip(OPTIONAL.get(model, "sklearn"))
        estimator, frame = getattr(unbag, model)(), pl.DataFrame(X).lazy()
        with pytest.raises(ValueError, match=r"^X is a lazy frame, .* call collect\(\) first\.$"):
            estimator.fit(frame, Y)
        linear = make_classifier("linear")
        with pytest.raises(ValueError, match=r"^X is a lazy frame"):
            linear.fit(frame, Y)
        with pytest.raises(ValueError, match=r"^X is a lazy frame"):
            linear.fit(frame.collect(), Y).predict(frame)

    def test_frames_of_text_are_categories(self):
        frame = pd.DataFrame(np.where(X > 0, "yes", "it's no"), columns=["a", "b", "c"])
        models = [
            LLPClassifier(kernel=None).fit(table, Y)
            for table in (frame, frame.astype("category"), pl.from_pandas(frame))
        ]
        expected = models[0].decision_function(frame)
        assert ((expected > 0) == DATA.labels).mean() > 0.7
        for model in models[1:]:
            np.testing.assert_allclose(model.decision_function(frame), expected, atol=1e-9)
        model = make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(frame, Y)
        assert (model.predict(frame) == DATA.labels).mean() > 0.7

    def test_polars_gives_the_features_of_pandas(self):
        n = len(X)
        day = np.datetime64("2020-01-01", "us") + np.arange(n) * np.timedelta64(1, "D")
        frame = pd.DataFrame(
            {
                "number": np.where(np.arange(n) % 7 == 0, np.nan, X[:, 0]),
                "truth": X[:, 1] > 0,
                "day": day,
                "text": np.where(np.arange(n) % 5 == 0, None, np.where(X[:, 2] > 0, "u", "v")),
            }
        )
        table = pl.from_pandas(frame)
        of_pandas, of_polars = make_features().fit(frame), make_features().fit(table)
        expected = of_pandas.transform(frame)
        np.testing.assert_allclose(of_polars.transform(table), expected)
        np.testing.assert_allclose(of_pandas.transform(table), expected)
        names = of_pandas.get_feature_names_out().tolist()
        assert of_polars.get_feature_names_out().tolist() == names
        model = make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(table, Y)
        assert (model.predict(table) == DATA.labels).mean() > 0.7

    def test_arrays_have_one_type_for_all_columns(self):
        with pytest.raises(ValueError, match=r"^make_features takes a table .* not ndarray\.$"):
            make_features().fit(X)


class TestSparse:
    ROWS = np.where(np.abs(X) > 0.3, X, 0)

    def test_formats_are_the_same(self):
        model = LLPClassifier().fit(sparse.csr_array(self.ROWS), Y)
        assert [term.term for term in model.terms_] == ["numbers"]
        expected = model.decision_function(sparse.csr_array(self.ROWS))
        for rows in (sparse.csr_matrix(self.ROWS), sparse.csc_array(self.ROWS)):
            again = LLPClassifier().fit(rows, Y)
            np.testing.assert_allclose(again.decision_function(rows), expected, atol=1e-8)


@pytest.mark.parametrize("model", [LLPClassifier(kernel=None), LLPClassifier()])
def test_empirical_class_prior_is_the_share_of_the_bags(model):
    model.fit(X, Y)
    probabilities = model.predict_proba(X, class_prior="empirical")
    np.testing.assert_allclose(
        probabilities, model.predict_proba(X, class_prior=model.empirical_prior_), atol=1e-12
    )
    assert probabilities[:, 1].mean() == pytest.approx(Y["proportion"].mean(), abs=0.05)
