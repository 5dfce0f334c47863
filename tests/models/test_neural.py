"""Networks from bags: what they learn, and what a fit must not depend on."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed, parallel_config
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from torch import nn

from unbag import bag_target, check_bag_target
from unbag._optional import install_command
from unbag.datasets import make_gaussian_bags
from unbag.models import LLPNeuralClassifier
from unbag.observations.count_likelihood import CountLikelihood
from unbag.tables.persistence import load_model, save_model
from unbag.torch.networks import TableNetwork

DATA = make_gaussian_bags(n_bags=30, bag_size=12, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=40, bag_size=12, n_features=3, n_classes=3, random_state=0)
QUICK = {"max_epochs": 15, "hidden": (8,), "lr": 0.02}


def accuracy(model, data):
    return (model.predict(data.X) == data.labels).mean()


@pytest.mark.parametrize("objective", ["likelihood", "forward", "proportion"])
@pytest.mark.parametrize("data", [DATA, THREE], ids=["two classes", "three"])
def test_every_objective_learns(data, objective):
    model = LLPNeuralClassifier(objective=objective, max_epochs=60, lr=0.02, hidden=(16,))
    model.fit(data.X, data.y)
    assert accuracy(model, data) > 0.7
    np.testing.assert_allclose(model.predict_proba(data.X).sum(axis=1), 1, atol=1e-6)


def test_a_linear_network_is_the_linear_model():
    bags, one = check_bag_target(DATA.y), np.zeros(1, dtype=np.intp)
    likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
    rows = np.column_stack([DATA.X, np.ones(len(DATA.X))])

    def loss(w):
        value, gradient = likelihood.value_and_gradient((rows @ w)[None, None], one)
        return value[0], gradient[0, 0] @ rows

    expected = rows @ minimize(loss, np.zeros(rows.shape[1]), jac=True, tol=1e-10).x
    network = LLPNeuralClassifier(
        hidden=(),
        max_epochs=400,
        lr=0.05,
        weight_decay=0.0,
        validation_fraction=0,
        class_prior="empirical",
        precision="double",
    ).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(network.decision_function(DATA.X), expected, atol=0.02)


def test_bags_larger_than_a_batch_are_taken_in_parts_with_the_same_result():
    """One bag per step in both, so that only the passes differ."""
    settings = dict(QUICK, precision="double", validation_fraction=0, max_epochs=3)
    whole, parts = (
        LLPNeuralClassifier(batch_size=size, **settings).fit(DATA.X, DATA.y) for size in (12, 5)
    )
    np.testing.assert_allclose(
        whole.decision_function(DATA.X), parts.decision_function(DATA.X), atol=1e-8
    )


def test_class_prior_moves_scores_by_log_odds():
    even = LLPNeuralClassifier(class_prior="balanced", **QUICK).fit(DATA.X, DATA.y)
    odd = clone(even).set_params(class_prior=[0.9, 0.1]).fit(DATA.X, DATA.y)
    difference = odd.decision_function(DATA.X) - even.decision_function(DATA.X)
    np.testing.assert_allclose(difference, np.log(1 / 9), atol=1e-5)
    np.testing.assert_allclose(
        even.predict_proba(DATA.X, class_prior=[0.9, 0.1]), odd.predict_proba(DATA.X), atol=1e-6
    )


def image_network(shape, n_outputs):
    width = int(np.prod(shape))
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(width), nn.Linear(width, n_outputs))


@pytest.mark.parametrize("given", ["module", "callable"])
def test_images_go_to_a_module_of_your_own(given):
    images = np.repeat(DATA.X[:, :, None], 2, axis=2).reshape(-1, 1, 3, 2)
    images = np.clip(images * 20 + 128, 0, 255).astype(np.uint8)
    torch.manual_seed(0)
    module = image_network if given == "callable" else image_network((1, 3, 2), 2)
    before = None if given == "callable" else module[2].weight.clone()
    model = LLPNeuralClassifier(module, max_epochs=30, lr=0.02, batch_size=48).fit(images, DATA.y)
    assert (model.predict(images) == DATA.labels).mean() > 0.8
    if before is not None:
        torch.testing.assert_close(module[2].weight, before)
    with pytest.raises(ValueError, match="rows of the shape"):
        model.predict(images[:, :, :, :1])
    with pytest.raises(ValueError, match=r"X is a tuple; several inputs .* into one array"):
        LLPNeuralClassifier(module).fit((images, DATA.X), DATA.y)


class Words(nn.Module):
    """The mean of what tokens are given, through a linear layer."""

    def __init__(self, n_outputs):
        super().__init__()
        self.mean, self.scores = nn.EmbeddingBag(60, 8), nn.Linear(8, n_outputs)

    def forward(self, x):
        return self.scores(self.mean(x.long()))


def test_tokens_go_to_a_network_for_text():
    rng = np.random.default_rng(0)
    common, own = (rng.integers(20, size=(len(DATA.labels), 10)) for _ in range(2))
    own += 20 + 20 * DATA.labels[:, None]
    tokens = np.where(rng.random(own.shape) < 0.5, own, common)
    model = LLPNeuralClassifier(lambda _, n: Words(n), max_epochs=20, lr=0.05, batch_size=64)
    assert (model.fit(tokens, DATA.y).predict(tokens) == DATA.labels).mean() > 0.9


def test_sparse_rows_are_rows():
    dense = LLPNeuralClassifier(**QUICK).fit(DATA.X, DATA.y)
    sparse = clone(dense).fit(csr_array(DATA.X), DATA.y)
    np.testing.assert_allclose(
        sparse.decision_function(csr_array(DATA.X)), dense.decision_function(DATA.X), atol=1e-3
    )


def test_early_stopping_keeps_the_best_epoch():
    model = LLPNeuralClassifier(hidden=(64, 64), lr=0.05, patience=4, tol=0.0, weight_decay=0.0)
    model.fit(DATA.X, DATA.y)
    losses = model.history_["validation_loss"]
    assert model.n_iter_ == len(losses) < 200
    assert losses.argmin() == len(losses) - 1 - 4
    without = clone(model).set_params(validation_fraction=0, max_epochs=7).fit(DATA.X, DATA.y)
    assert without.n_iter_ == 7
    assert len(without.history_["validation_loss"]) == 0


def test_noisy_counts_are_learned_from():
    shares = DATA.y["proportion"] + np.random.default_rng(0).normal(0, 0.05, 30)[DATA.y["bag"]]
    y = bag_target(DATA.y["bag"], shares, noise=0.05)
    model = LLPNeuralClassifier(max_epochs=60, lr=0.02).fit(DATA.X, y)
    assert accuracy(model, DATA) > 0.8
    with pytest.raises(ValueError, match="takes proportions as exact, and those of y carry noise"):
        LLPNeuralClassifier(objective="forward").fit(DATA.X, y)


def test_proportions_of_no_whole_counts_are_sampling_probabilities():
    share = np.where(DATA.y["bag"] % 2, 0.21, 0.7)  # 2.52 and 8.4 of 12
    noise = np.sqrt(share * (1 - share) / 12)
    drawn, noisy = (bag_target(DATA.y["bag"], share, noise=sd) for sd in (None, noise))
    first, second = (LLPNeuralClassifier(**QUICK).fit(DATA.X, y) for y in (drawn, noisy))
    np.testing.assert_allclose(
        first.decision_function(DATA.X), second.decision_function(DATA.X), rtol=1e-5
    )


def test_averaged_weights_learn_too():
    model = LLPNeuralClassifier(max_epochs=60, lr=0.02, ema_decay=0.9)
    assert accuracy(model.fit(DATA.X, DATA.y), DATA) > 0.8


def test_few_large_bags_a_batch_are_learned_given_their_sum():
    data = make_gaussian_bags(n_bags=40, bag_size=100, n_features=3, random_state=0)
    settings = {"max_epochs": 4, "hidden": (16,), "batch_size": 200, "lr": 0.02}
    plain = LLPNeuralClassifier(**settings, condition_on_total=False).fit(data.X, data.y)
    model = LLPNeuralClassifier(**settings, condition_on_total=True).fit(data.X, data.y)
    # the losses of held-out bags are those of all counts
    assert model.history_["validation_loss"][-1] < plain.history_["validation_loss"][-1]
    assert accuracy(model, data) > 0.8
    # of all bags at once, nothing is left out
    settings["batch_size"] = 10_000
    plain = LLPNeuralClassifier(**settings, condition_on_total=False).fit(data.X, data.y)
    model = LLPNeuralClassifier(**settings, condition_on_total=True).fit(data.X, data.y)
    np.testing.assert_array_equal(model.predict_proba(data.X), plain.predict_proba(data.X))


def test_counts_are_taken_given_their_sum_where_there_are_several_classes():
    assert LLPNeuralClassifier(max_epochs=1).fit(THREE.X, THREE.y).condition_on_total_
    assert not LLPNeuralClassifier(max_epochs=1).fit(DATA.X, DATA.y).condition_on_total_
    settings = {"max_epochs": 1, "objective": "proportion"}
    assert not LLPNeuralClassifier(**settings).fit(THREE.X, THREE.y).condition_on_total_


def test_bags_larger_than_a_batch_are_taken_two_by_two():
    settings = {"max_epochs": 2, "hidden": (8,), "validation_fraction": 0, "weight_decay": 0}
    small, large = (
        LLPNeuralClassifier(**settings, batch_size=size).fit(THREE.X, THREE.y) for size in (5, 24)
    )
    np.testing.assert_allclose(
        small.history_["training_loss"], large.history_["training_loss"], rtol=1e-5
    )


@pytest.mark.parametrize("data", [DATA, THREE], ids=["two classes", "three"])
def test_built_in_networks_start_at_the_pooled_shares(data):
    shares = []

    class Probe(TableNetwork):
        def start_at(self, q):
            super().start_at(q)
            rare = torch.zeros(1, self.layers[0].in_features)
            torch.nn.init.zeros_(self.layers[-1].weight)
            odds = self(rare).detach().numpy()[0]
            shares.append((odds - np.logaddexp.reduce(odds) if len(odds) > 1 else odds, q))

    def make(shape, n_outputs):
        return Probe(shape[0], n_outputs, (4,))

    model = LLPNeuralClassifier(make, max_epochs=1).fit(data.X, data.y)
    ((odds, q),) = shares
    np.testing.assert_array_equal(q, model.training_shares_)
    wanted = np.log(q) if len(q) > 2 else np.log(q[1:] / q[:1])
    np.testing.assert_allclose(odds, wanted, rtol=1e-5)


def test_the_generators_of_the_caller_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    LLPNeuralClassifier(**QUICK).fit(DATA.X, DATA.y)
    torch.testing.assert_close(torch.rand(4), expected)


def test_same_seed_same_network_in_threads_side_by_side():
    def fitted():
        return LLPNeuralClassifier(**QUICK).fit(DATA.X, DATA.y).decision_function(DATA.X)

    with parallel_config("threading"):
        found = Parallel(n_jobs=4)(delayed(fitted)() for _ in range(8))
    for scores in found:
        np.testing.assert_array_equal(scores, found[0])


def test_a_saved_model_gives_the_same_scores(tmp_path):
    model = LLPNeuralClassifier(**QUICK | {"hidden": 8}).fit(DATA.X, DATA.y)
    found = load_model(save_model(model, tmp_path / "model.unbag")).model
    np.testing.assert_array_equal(found.decision_function(DATA.X), model.decision_function(DATA.X))


def test_a_module_of_your_own_is_not_saved(tmp_path):
    model = LLPNeuralClassifier(nn.Linear(3, 2), **QUICK).fit(DATA.X, DATA.y)
    with pytest.raises(
        ValueError, match="module is a module of torch, which a model file cannot hold; give a"
    ):
        save_model(model, tmp_path / "model.unbag")


def test_without_torch_all_else_works_and_networks_say_what_to_install():
    code = """
import importlib, sys, unbag, unbag.models
print("torch" in sys.modules)
sys.modules["torch"] = None
for name in ("unbag.torch", "unbag.models.neural"):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported, *errors = done.stdout.splitlines()
    assert imported == "False"
    assert len(errors) == 2
    assert all(f"torch: {install_command('torch')}" in sentence for sentence in errors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"module": "cnn"}, "module must be one of 'mlp', not 'cnn'"),
        ({"module": 3}, "a module of torch or a callable that makes one, not 3"),
        ({"objective": "dllp"}, "objective must be one of 'likelihood', 'forward'"),
        ({"precision": "half"}, "precision must be one of 'single', 'double', not 'half'"),
        ({"max_epochs": 0}, "max_epochs must be a whole number of at least 1, not 0"),
        ({"lr": 0}, "lr must be a positive number, not 0"),
        ({"tol": -1}, "tol must be a finite number of at least 0"),
        (
            {"validation_fraction": 1},
            "validation_fraction must lie between 0 and 1",
        ),
        ({"ema_decay": 1.0}, "ema_decay must lie between 0 and 1, not be 1.0"),
        ({"hidden": "wide"}, "hidden must be a whole number of at least 1, or a tuple"),
        ({"hidden": (8, 0)}, "hidden must be a whole number of at least 1, or a tuple"),
        ({"hidden": 2.5}, "hidden must be a whole number of at least 1, or a tuple"),
        ({"module": nn.Identity()}, "module has no weights to learn"),
        ({"module": lambda *_: None}, "module must make a module of torch from the shape of a row"),
        ({"lr": 1e30}, r"Weights went to infinity in epoch \d+: steps of lr=1e\+30 are too long"),
        (
            {"condition_on_total": True, "objective": "forward"},
            "condition_on_total=True is for the count likelihood, not for objective='forward'",
        ),
        ({"condition_on_total": "never"}, "condition_on_total must be True, False or 'auto'"),
        ({"device": "abacus"}, "device='abacus' cannot be used here"),
    ],
)
def test_mistakes_get_one_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        LLPNeuralClassifier(**settings).fit(DATA.X, DATA.y)


def test_a_network_that_goes_to_infinity_is_kept_as_it_was_before():
    class Spoiled(nn.Linear):
        """Is lost in the fourth step, of one epoch each."""

        steps = 0

        def forward(self, x):
            if self.training:
                self.steps += 1
            if self.steps == 4:
                with torch.no_grad():
                    self.weight.fill_(torch.nan)
            return super().forward(x)

    torch.manual_seed(0)
    module = Spoiled(3, 1)
    kept = LLPNeuralClassifier(module, max_epochs=3, patience=9).fit(DATA.X, DATA.y)
    model = LLPNeuralClassifier(module, max_epochs=9, patience=9)
    with pytest.warns(ConvergenceWarning, match="in epoch 4: .* as it was in its best epoch"):
        model.fit(DATA.X, DATA.y)
    assert model.n_iter_ == 4
    for name, weights in kept.weights_.items():
        np.testing.assert_array_equal(model.weights_[name], weights)


def test_several_inputs_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"X is a tuple; several inputs .* into one array"):
        LLPNeuralClassifier().fit((DATA.X, DATA.X), DATA.y)


def test_heavy_tails_of_columns_do_little_harm():
    # a network that scales by standard deviations has an AUC of .73 to .88 here
    rng, bag = np.random.default_rng(2), np.arange(2000) // 20
    normal = rng.normal(size=(2000, 3)) + rng.normal(size=(100, 3))[bag]
    labels = rng.random(2000) < expit(2 * normal[:, 0] - normal[:, 1])
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    heavy = np.sign(normal) * np.expm1(2.5 * np.abs(normal))
    model = LLPNeuralClassifier(hidden=(16,), max_epochs=30)
    of_normal, of_heavy = (
        roc_auc_score(labels, model.fit(X, y).decision_function(X)) for X in (normal, heavy)
    )
    assert of_heavy > of_normal - 0.03


def test_text_is_refused_with_what_makes_numbers_of_it():
    X = np.array([["red"], ["blue"]] * (len(DATA.X) // 2), dtype=object)
    with pytest.raises(ValueError, match=r"X holds the text 'red'.*make_features"):
        LLPNeuralClassifier().fit(X, DATA.y)


def test_built_in_networks_are_for_tables():
    with pytest.raises(ValueError, match="is for tables, and the rows of X have the shape"):
        LLPNeuralClassifier().fit(DATA.X[:, :, None], DATA.y)
    model = LLPNeuralClassifier(**QUICK).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match="one number for each of the 2 classes"):
        model.predict_proba(DATA.X, class_prior=[1.0])
