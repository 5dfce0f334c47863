"""A model file reads, writes and runs nothing: the attack is real, and refused."""

import copy
import io
import re
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FunctionTransformer, make_pipeline
from sklearn.preprocessing import StandardScaler

from estimator_checks import all_estimators
from forged_files import change_description, dict_node, forge, node, text_node, tuple_node
from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.tables import make_classifier, persistence
from unbag.tables.features import make_features
from unbag.tables.model_contents import check_parts, is_trusted
from unbag.tables.persistence import load_model, save_model

BAGS = make_gaussian_bags(n_bags=6, bag_size=5, random_state=0)


def first_column(texts):
    return texts[:, 0]


def test_a_file_that_reads_another_file(tmp_path):
    """Types that are all trusted, put together so that scoring reads a path that the file names."""
    secret = tmp_path / "secret.txt"
    secret.write_text("my password")
    reader = CountVectorizer(input="filename").fit([str(secret)])
    fill = SimpleImputer(strategy="constant", fill_value=str(secret))
    fill.fit(np.array([["a"]], dtype=object))
    gap = np.array([[np.nan]], dtype=object)
    assert reader.transform(fill.transform(gap)[:, 0]).sum() == 2  # it did read the two words
    path = save_model(make_pipeline(fill, reader), tmp_path / "m.unbag")
    with pytest.raises(ValueError, match=r"CountVectorizer with input='filename'"):
        load_model(path)
    trusted = ["sklearn.feature_extraction.text.CountVectorizer"]
    assert load_model(path, trusted=trusted).model[1].input == "filename"


def test_a_file_that_would_write_a_cache(tmp_path):
    cache = tmp_path / "cache"
    model = make_pipeline(StandardScaler(), LLPClassifier(kernel=None), memory=str(cache))
    path = save_model(model, tmp_path / "m.unbag")
    with pytest.raises(ValueError, match="memory="):
        load_model(path)
    assert not cache.exists()


def test_a_pattern_that_takes_for_ever(tmp_path):
    words = CountVectorizer(token_pattern=r"(a+)+$").fit(["a"])
    path = save_model(words, tmp_path / "m.unbag")
    with pytest.raises(ValueError, match="token_pattern="):
        load_model(path)


def test_functions_are_called_only_if_they_are_trusted(tmp_path):
    model = FunctionTransformer(first_column)
    name = f"{first_column.__module__}.first_column"
    path = save_model(model, tmp_path / "m.unbag")
    with pytest.raises(ValueError, match=re.escape(name)):
        load_model(path)
    assert load_model(path, trusted=[name]).model.func is first_column
    for function in (first_column, np.zeros(1).tofile):  # whatever the types in the file
        with pytest.raises(ValueError, match=r"^it calls .*(first_column|tofile);"):
            check_parts(FunctionTransformer(function))
    logarithm = save_model(FunctionTransformer(np.log1p), tmp_path / "m.unbag")
    assert load_model(logarithm).model.func is np.log1p


def test_types_that_look_things_up_in_native_code(tmp_path):
    from sklearn.neighbors import KNeighborsClassifier

    path = save_model(KNeighborsClassifier().fit(BAGS.X, BAGS.labels), tmp_path / "m.unbag")
    with pytest.raises(ValueError, match=r"not trusted: .*KNeighborsClassifier"):
        load_model(path)


def test_positions_beyond_the_end_of_a_sparse_matrix():
    matrix = sparse.csr_array(np.eye(3))
    check_parts({"matrix": matrix})
    matrix.indices[0] = 10**6
    with pytest.raises(ValueError, match=r"indices|index values"):
        check_parts({"matrix": matrix})


@pytest.fixture(scope="module")
def parts():
    """A model of every kind of part, fitted; tests forge copies of it."""
    bags = make_gaussian_bags(n_bags=12, bag_size=20, n_features=2, random_state=0)
    rng, n = np.random.default_rng(0), len(bags.X)
    words = ["red", "green", "blue", "black", "white", "grey"]
    X = pd.DataFrame(bags.X, columns=["a", "b"]).assign(
        c=np.resize(["x", "y", "z", None], n),
        s=[" ".join(rng.choice(words, 5)) for _ in range(n)],
    )
    X.loc[:2, "c"], X.loc[::9, "a"] = "rare", np.nan
    linear = make_classifier("linear").fit(X, bags.y)
    return X, linear, make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(X, bags.y)


def forged_vocabulary(mixed, _):
    mixed[0].words_[0].vectorizers_[0].vocabulary_["red"] = 10**9


def forged_codes(_, encoded):
    encoded[0].named_transformers_["categories"][-1]._default_to_infrequent_mappings[0][-1] = 10**6


def forged_columns(_, encoded):
    encoded[0].named_transformers_["categories"][-1]._n_features_outs = [1]


def forged_levels(mixed, _):
    mixed[-1]._encoder.levels[0] += ["more"] * 1000


def forged_scores(mixed, _):
    mixed[-1]._theta[:] = np.nan


def forged_means(mixed, _):
    mixed[-1]._terms[0].means = mixed[-1]._terms[0].means[:1]


def forged_texts(mixed, _):
    mixed[-1]._terms[0].means = mixed[-1]._terms[0].means.astype("U5")


def forged_posterior(mixed, _):
    mixed[-1].covariance_ = mixed[-1].covariance_[:, :1]


def forged_places(mixed, _):
    mixed[-1]._encoder.number_places[0] = 1


def forged_gaps(_, encoded):
    encoded[0].named_transformers_["numbers"].missing_columns_ = np.array([10**6])


def forged_prior(mixed, _):
    mixed[-1].class_prior_ = np.array([0.2, 0.2])


def forged_objects(mixed, _):
    mixed[-1]._terms[0].means = mixed[-1]._terms[0].means.astype(object)


def forged_without(mixed, _):
    del mixed[-1].tol


def forged_method(mixed, _):
    mixed[-1].decision_function = bytes


def forged_type(_, encoded):
    encoded[0].named_transformers_["numbers"].dtype = "U1000000000"


def forged_processes(_, encoded):
    encoded[0].n_jobs = 10**5


def forged_entries(_, encoded):
    encoded[0].named_transformers_["numbers"].more_ = np.empty(0, dtype="U100000000")


def forged_features(mixed, _):
    mixed[-1].n_features_in_ = 10**12


def forged_order(_, encoded):
    # a search by halves ends one beyond the last
    encoded[0].named_transformers_["categories"][-1].categories_ = [np.array([5.0, 1.0])]


def forged_number_order(_, encoded):
    categories = [np.array([5.0, 1.0], dtype=object)]
    encoded[0].named_transformers_["categories"][-1].categories_ = categories


def forged_masks(_, encoded):
    encoder = encoded[0].named_transformers_["categories"][-1]
    codes = encoder._default_to_infrequent_mappings[0].copy()
    codes[-1] = 10**6
    hidden = np.ma.MaskedArray(codes, mask=codes == 10**6)
    encoder._default_to_infrequent_mappings = [hidden]


def forged_function(mixed, _):
    words = CountVectorizer(input="filename")
    words.__qualname__, words.__module__ = "first_column", "unbag.tables"
    mixed[0].words_[0].vectorizers_[0] = words


def forged_shape(mixed, _):
    mixed[0].feature_names_in_ = np.empty((10**12, 0))


def forged_default(mixed, _):
    words = mixed[0].words_[0].vectorizers_[0]
    words.vocabulary_ = defaultdict(int, words.vocabulary_)


def forged_draws(mixed, _):
    state = np.random.RandomState(0).get_state(legacy=False)
    state["state"]["pos"] = 10**9
    mixed[-1].random_state = np.random.RandomState()
    mixed[-1].random_state.set_state(state)


def forged_name_of_type(mixed, _):
    mixed[0].words_[0].imputer_ = SimpleImputer()
    mixed[0].words_[0].imputer_._fit_dtype = "U1000000000"


FORGERIES = {
    forged_vocabulary: "words whose places",
    forged_codes: "another number of columns than categories",
    forged_columns: "another number of columns than categories",
    forged_levels: "terms do not fit its columns or coefficients",
    forged_scores: "not finite",
    forged_means: "a NumberTerm whose means does not fit",
    forged_places: "terms do not fit its columns or coefficients",
    forged_gaps: "missing_columns_ leads nowhere",
    forged_prior: "class_prior_ does not add up to 1",
    forged_objects: "whose means holds more than numbers",
    forged_texts: "whose means holds more than numbers",
    forged_posterior: "terms do not fit its columns or coefficients",
    forged_without: "without tol",
    forged_method: "decision_function is not a method",
    forged_type: "dtype='U1000000000'",
    forged_processes: "n_jobs=100000",
    forged_entries: "entries of 400,000,000 bytes",
    forged_features: "terms do not fit its columns or coefficients",
    forged_order: "categories are not in order",
    forged_number_order: "categories are not in order",
    forged_masks: "an array that is masked",
    forged_function: "CountVectorizer with input='filename'",
    forged_shape: "without a byte",
    forged_default: "words without places",
    forged_draws: "a RandomState whose position is none",
    forged_name_of_type: "_fit_dtype is a text",
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_shapes_that_would_reach_beyond_an_array_or_blow_up(forge, parts):
    X, *models = parts
    for model in models:
        check_parts(model)
        model.decision_function(X)
    models = copy.deepcopy(models)
    forge(*models)
    with pytest.raises(ValueError, match=re.escape(FORGERIES[forge])):
        check_parts(models)


def array_node(file):
    return node("NdArrayNode", "numpy", "ndarray", type="numpy", file=file)


def nest(kind, name, depth):
    """Lists in lists, each there twice, of which the second is named only."""
    number = 10**15
    inner = node(kind, "builtins", name, content=[text_node("x")], __id__=number)
    for i in range(depth):
        again = node(kind, "builtins", name, __id__=number + i)
        inner = node(kind, "builtins", name, content=[inner, again], __id__=number + i + 1)
    return inner


def many_reads(state):
    state["tol"] = node("ListNode", "builtins", "list", content=[array_node("x")] * 10_000)


def nest_of_lists(state):
    shape = tuple_node(text_node(1), text_node(1))
    content = [nest("ListNode", "list", 40)]
    state["tol"] = node(
        "NdArrayNode", "numpy", "ndarray", type="json", content=content, shape=shape
    )


def nest_of_tuples(state):
    state["tol"] = node("SetNode", "builtins", "set", content=[nest("TupleNode", "tuple", 40)])


def seed_sequence(state):
    parts = {"pool_size": text_node(10**6), "entropy": text_node(1)}
    bits = dict_node(bit_generator=text_node("PCG64"))
    content = {"bit_generator": bits, "seed_seq": dict_node(**parts)}
    state["random_state"] = node(
        "RandomGeneratorNode", "numpy.random._generator", "Generator", content=content
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (many_reads, "reads its parts more often than it holds them"),
        (nest_of_lists, "a part of it stands for another one"),
        (nest_of_tuples, "a part of it stands for another one"),
        (seed_sequence, r"not trusted: numpy\.random\._generator\.Generator"),
    ],
)
def test_small_files_that_would_become_large(change, message, tmp_path):
    """They are refused before anything is built, so that this test takes neither time nor memory."""
    payload = persistence._serialise(LLPClassifier(kernel=None).fit(BAGS.X, BAGS.y))
    array = io.BytesIO()
    np.save(array, np.zeros(10**6))
    forged = change_description(payload, change, x=array.getvalue())
    with pytest.raises(ValueError, match=message):
        load_model(forge(tmp_path / "m.unbag", forged))


def test_a_network_that_is_larger_than_its_weights():
    pytest.importorskip("torch")
    from unbag import LLPNeuralClassifier

    model = LLPNeuralClassifier(max_epochs=1).fit(BAGS.X, BAGS.y)
    check_parts(model)
    model.training_shares_ = model.training_shares_[None]
    with pytest.raises(ValueError, match="training_shares_ does not fit the rest of it"):
        check_parts(model)
    model.training_shares_ = model.training_shares_[0]
    model.hidden = (10**6, 10**6)
    with pytest.raises(ValueError, match="more weights than there are in the file"):
        check_parts(model)
    model.hidden = (10**9, -(10**6))  # which would be none in all
    with pytest.raises(ValueError, match="more weights than there are in the file"):
        check_parts(model)


# --- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "unbag.observations.losses.get_loss",  # a function
        "unbag.observations.losses.np",  # a module
        "unbag.models.mixed.BaseEstimator",  # not here
        "unbag.models.LLPClassifier",  # not its own name
        "unbag.models.nowhere.Model",
        "unbag.cli.main",
        "unbag.models.newton.BagLikelihood",  # ours, but no part of a fitted model
        "unbag_bench.methods.published.PublishedClassifierCV",  # another package
        "unbagged.models.Model",
        "unbag",
        "",
    ],
)
def test_what_is_not_ours(name):
    assert not is_trusted(name)


def test_every_estimator_is_trusted():
    types = [estimator for _, estimator in all_estimators()]
    assert all(is_trusted(f"{found.__module__}.{found.__name__}") for found in types)
