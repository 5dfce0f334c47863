"""Neural networks trained from bags, on the objectives of the library.

The network gives log-odds at the shares of the classes in the training bags, and is trained by the
losses of `unbag.torch` in batches of whole bags; one that is larger than a batch goes through the
network in two passes, with the gradient of the whole bag. Held-out bags decide when to stop.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unbag._checks import check_choice, check_count, check_inside, check_nonnegative, check_positive
from unbag._optional import install_command
from unbag.bags.bags import Bags
from unbag.bags.priors import prior_offset, resolve_class_prior
from unbag.defaults import FEWEST_HELD_OUT
from unbag.model_selection.splitters import BagShuffleSplit
from unbag.models.base import LogOddsClassifier

try:
    import torch
except ImportError:
    raise ImportError(f"Neural networks need torch: {install_command('torch')}") from None

from torch import nn

from unbag.torch.data import BagDataset
from unbag.torch.losses import BagLoss, CountLikelihoodLoss, ForwardLoss, ProportionLoss
from unbag.torch.networks import TableNetwork
from unbag.torch.training import NetworkTrainer, TensorRows, TrainingPlan, scores_of

# Shares of classes that the training bags do not hold at all.
_LEAST_SHARE = 1e-9

# Layers draw from generators that all threads share: fits side by side would draw from each
# other's, and the same seed would not give the same network.
_ONE_FIT_AT_A_TIME = threading.RLock()


class LLPNeuralClassifier(LogOddsClassifier):
    """Neural network trained from the class counts of bags.

    Parameters
    ----------
    module : "mlp", nn.Module or callable, default="mlp"
        The network. ``"mlp"`` is for tables, whose columns it standardises. A module of your own
        takes a batch of rows, in floating point, and gives scores (rows, classes), or (rows,) or
        (rows, 1) for two classes; it is copied. A callable is given the shape of a row and the
        number of scores, and makes one. If it has a method ``start_at``, that is called with the
        shares of the classes.
    hidden : int or tuple of int, default=(64, 64)
        Units of the hidden layers of ``"mlp"``.
    objective : {"likelihood", "forward", "proportion"}, default="likelihood"
        What is minimised. "likelihood": that of the counts of bags. "forward": that of single rows
        whose labels were drawn with the proportions of their bags as probabilities. "proportion"
        compares mean probabilities of bags with their proportions (DLLP).
    class_prior : {"empirical", "balanced"} or array-like, default="empirical"
        Class prior that scores and probabilities are for: that of all training bags together,
        equal shares, or a number for each class.
    max_epochs : int, default=200
        Largest number of epochs.
    batch_size : int, default=1024
        Most rows of a batch. A larger bag is processed in chunks, with the same gradient.
    lr : float, default=5e-3
        Step size of AdamW.
    weight_decay : float, default=1e-3
        Weight decay of AdamW.
    validation_fraction : float, default=0.2
        Fraction of the bags to hold out for early stopping; 0 for none, and none where that would be
        one bag.
    patience : int, default=20
        Training stops after this many epochs without a lower loss on held-out bags. The weights of
        the best epoch are kept.
    tol : float, default=1e-4
        Least decrease of the loss that counts as an improvement.
    ema_decay : float, optional
        Decay of an exponential moving average of the weights, a step, such as 0.99; the averaged
        weights are then validated and kept.
    condition_on_total : bool or "auto", default="auto"
        Whether the counts of a batch are conditioned on their sum, which then counts once an epoch
        (docs/howto/networks.md). A batch then has two bags at least. For the count likelihood; ``"auto"``
        is True there with three classes or more.
    precision : {"single", "double"}, default="single"
        Of the network.
    device : str, optional
        Device of torch, such as ``"cuda"``.
    random_state : int, RandomState or None, default=0
        Seed; the same seed gives the same model on one machine and device.

    Attributes
    ----------
    classes_, class_prior_, empirical_prior_, n_features_in_, feature_names_in_ : as in `LLPClassifier`
    condition_on_total_ : bool
        Whether counts were conditioned on the sum of those of a batch.
    training_shares_ : ndarray of shape (n_classes,)
        Shares of the classes in the bags that were not held out.
    weights_ : dict of ndarray
        Weights of the network, by their names.
    n_iter_ : int
        Number of epochs.
    history_ : dict of ndarray
        ``training_loss`` and ``validation_loss`` by epoch.
    input_shape_ : tuple of int
        Shape of a row.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.models import LLPNeuralClassifier
    >>> data = make_gaussian_bags(n_bags=40, bag_size=20, random_state=0)
    >>> model = LLPNeuralClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        module: Any = "mlp",
        *,
        hidden: Any = (64, 64),
        objective: str = "likelihood",
        class_prior: Any = "empirical",
        max_epochs: int = 200,
        batch_size: int = 1024,
        lr: float = 5e-3,
        weight_decay: float = 1e-3,
        validation_fraction: float = 0.2,
        patience: int = 20,
        tol: float = 1e-4,
        ema_decay: float | None = None,
        condition_on_total: bool | str = "auto",
        precision: str = "single",
        device: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.module = module
        self.hidden = hidden
        self.objective = objective
        self.class_prior = class_prior
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.tol = tol
        self.ema_decay = ema_decay
        self.condition_on_total = condition_on_total
        self.precision = precision
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_instances, ...)
            Rows, of any shape that the module takes.
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions; plain labels are pure bags.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        X, bags = self._check_Xy(X, y)
        self._check_settings()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.class_prior_ = resolve_class_prior(self.class_prior, bags.class_shares)
        self.input_shape_ = X.shape[1:]
        units = bags.with_labelled_rows_apart()[0]
        counts = self.objective == "likelihood"
        if units.noise is not None and not counts:
            raise ValueError(
                f"objective={self.objective!r} takes proportions as exact, and those of y carry "
                "noise; use objective='likelihood'."
            )
        chosen = self.condition_on_total
        self.condition_on_total_ = (
            counts and units.n_classes > 2 if chosen == "auto" else bool(chosen)
        )
        # bags to stop by, with proportions of all kinds
        held = np.zeros(units.n_bags, dtype=bool)
        if round(self.validation_fraction * units.n_bags) >= FEWEST_HELD_OUT:
            split = BagShuffleSplit(1, test_size=self.validation_fraction, random_state=seed)
            held[units.index[next(split.split(np.zeros(len(units.index)), np.asarray(y)))[1]]] = (
                True
            )
        self._train(X, units, held, seed)
        return self

    def make_network(self) -> nn.Module:
        """Return the trained network as a torch module.

        Its scores are log-odds at ``training_shares_``, those of the bags it was trained on.

        Returns
        -------
        network : torch.nn.Module
            With the trained weights, in the mode of evaluation.
        """
        check_is_fitted(self)
        with self._own_generators():
            network = self._new_network()
        network.load_state_dict({name: torch.as_tensor(w) for name, w in self.weights_.items()})
        return network.eval()

    def _scores(self, X: Any) -> NDArray[Any]:
        if X.shape[1:] != self.input_shape_:
            raise ValueError(
                f"X has rows of the shape {X.shape[1:]}, and {type(self).__name__} was fitted to "
                f"rows of the shape {self.input_shape_}."
            )
        network = self.make_network()
        if isinstance(self.module, str):
            # rows score the same alone and among others
            network = network.double()
        first = next(network.parameters())
        rows = TensorRows(X, np.arange(X.shape[0]), first.device, first.dtype)
        found = scores_of(network, rows, X.shape[0], self._plan(0)).cpu().numpy()
        found = found.reshape(len(found), -1)
        if self._n_outputs == 1 and found.shape[1] == 2:
            found = found[:, 1:] - found[:, :1]
        return (found + prior_offset(self.training_shares_, self.class_prior_)).T

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, tuple | dict) and not issparse(X):  # dok_array is a dict
            raise ValueError(
                f"X is a {type(X).__name__}; several inputs of a network go side by side into one "
                "array, which the module divides."
            )
        X = self._validate(X, reset, dtype="numeric", ensure_all_finite=False, allow_nd=True)
        self._check_finite(X)
        return X

    def _train(self, X: Any, units: Bags, held: NDArray[np.bool_], seed: int) -> None:
        """Train from scratch, and keep the weights."""
        (kept, rows), (out, out_rows) = units.take(~held), units.take(held)
        self.training_shares_ = np.maximum(kept.class_shares, _LEAST_SHARE)
        training = BagDataset(X[rows], kept)
        validation = BagDataset(X[out_rows], out) if held.any() else None
        with self._own_generators():
            torch.manual_seed(seed)
            network = self._new_network()
            if isinstance(network, TableNetwork):
                network.fit_scaler(X[rows])
            start_at: Any = getattr(network, "start_at", None)
            if start_at is not None:
                start_at(self.training_shares_)
            loss: BagLoss = CountLikelihoodLoss()
            if self.objective != "likelihood":
                forward = self.objective == "forward"
                loss = ForwardLoss(self.training_shares_) if forward else ProportionLoss()
            trainer = NetworkTrainer(network, loss, self._plan(seed), training, validation)
            best = trainer.run()
        self.weights_ = {name: w.cpu().numpy() for name, w in best.state_dict().items()}
        self.n_iter_ = trainer.epoch
        self.history_ = {
            "training_loss": np.array(trainer.training_losses),
            "validation_loss": np.array(trainer.validation_losses),
        }

    def _new_network(self) -> nn.Module:
        network = self.module
        if isinstance(network, str):
            if len(self.input_shape_) != 1:
                raise ValueError(
                    f"module={network!r} is for tables, and the rows of X have the shape "
                    f"{self.input_shape_}; give a module of torch, or a callable that makes one."
                )
            hidden = np.atleast_1d(self.hidden).astype(int).tolist()
            network = TableNetwork(self.input_shape_[0], self._n_outputs, hidden)
        elif isinstance(network, nn.Module):
            network = copy.deepcopy(network)
        else:
            network = network(self.input_shape_, self._n_outputs)
        if not isinstance(network, nn.Module):
            raise ValueError(
                "module must make a module of torch from the shape of a row and the number of "
                f"scores, and made {network!r}."
            )
        if not any(weights.requires_grad for weights in network.parameters()):
            raise ValueError("module has no weights to learn.")
        dtype = torch.float64 if self.precision == "double" else torch.float32
        return network.to(torch.device(self.device or "cpu"), dtype)

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        """Where draws leave the generators of the caller as they were."""
        device = torch.device(self.device or "cpu")
        cards = [device] if device.type == "cuda" else []
        with _ONE_FIT_AT_A_TIME, torch.random.fork_rng(devices=cards):
            yield

    def _check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        check_choice(self.objective, ("likelihood", "forward", "proportion"), "objective")
        check_choice(self.precision, ("single", "double"), "precision")
        if isinstance(self.module, str):
            check_choice(self.module, ("mlp",), "module")
        elif not callable(self.module):
            raise ValueError(
                "module must be 'mlp', a module of torch or a callable that makes one, not "
                f"{self.module!r}."
            )
        hidden = self.hidden if isinstance(self.hidden, tuple | list) else [self.hidden]
        if not all(isinstance(units, Integral) and int(units) >= 1 for units in hidden):
            raise ValueError(
                "hidden must be a whole number of at least 1, or a tuple of such numbers, not "
                f"{self.hidden!r}."
            )
        for name in ("max_epochs", "batch_size", "patience"):
            check_count(getattr(self, name), name)
        check_positive(self.lr, "lr")
        for name in ("weight_decay", "tol"):
            check_nonnegative(getattr(self, name), name)
        if self.validation_fraction != 0:
            check_inside(self.validation_fraction, "validation_fraction")
        if self.ema_decay is not None:
            check_inside(self.ema_decay, "ema_decay")
        if self.condition_on_total not in (True, False, "auto"):
            given = repr(self.condition_on_total)
            raise ValueError(f"condition_on_total must be True, False or 'auto', not {given}.")
        if self.condition_on_total is True and self.objective != "likelihood":
            raise ValueError(
                "condition_on_total=True is for the count likelihood, not for "
                f"objective={self.objective!r}; use objective='likelihood'."
            )
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"device={self.device!r} cannot be used here: {reason}") from None

    def _plan(self, seed: int) -> TrainingPlan:
        names = ["max_epochs", "batch_size", "lr", "weight_decay", "patience", "tol", "ema_decay"]
        own = {name: getattr(self, name) for name in names}
        return TrainingPlan(**own, seed=seed, condition_on_total=self.condition_on_total_)
