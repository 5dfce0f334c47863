"""Networks that learn images from bags, with everything on the device: data, losses, training.

`images` says what the methods are, and measures them.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unbag import LLPClassifier, bag_target
from unbag.observations.several_classes import several_class_loss
from unbag_bench.studies.image_views import RECIPES, Network, Recipe, make_views, normalise

CLASSES = 10
CURVE_POINTS = 10
TEMPERATURE = 0.5
SCRATCH_COUNTS = (
    "likelihood",
    "conditional",
    "annealed",
    "annealed-1",
    "narrowing",
    "narrowing-late",
)
# Counts by weak views alone, and proportions.
COUNTS = (*SCRATCH_COUNTS, "fine-counts", "fine-conditional")
# Times the covariance of a draw that annealed counts may be off by at first.
FIRST_SLACK = 4.0

GIVEN_TOTAL = ("conditional", "fine-conditional")
SHARES = ("proportion", "fine-shares")


@dataclass
class Settings:
    """What runs have in common."""

    device: torch.device
    half: bool
    compiled: bool
    batch_rows: int
    learning_rate: float
    weight_decay: float
    decay: float
    epochs: int | None
    seconds: float | None

    def autocast(self) -> Any:
        """Half precision, where it is wanted."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else nullcontext()

    def in_half(self, network: nn.Module) -> Callable[[Tensor], Tensor]:
        """A network in half precision, with scores in single."""

        def forward(x: Tensor) -> Tensor:
            with self.autocast():
                return network(x).float()

        return forward


class ImageSet(NamedTuple):
    """Images (rows, channels, height, width) to learn from and to test on, with their labels."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


@dataclass
class Data:
    """Images on the device, and their bags: rows (bags, size) and counts (bags, classes).

    Held-out bags have theirs apart.
    """

    images: Tensor
    rows: Tensor
    counts: Tensor
    rows_held_out: Tensor
    counts_held_out: Tensor
    test_images: Tensor
    test_labels: Tensor
    recipe: Recipe

    @classmethod
    def draw(
        cls,
        found: ImageSet,
        name: str,
        size: int,
        seed: int,
        device: torch.device,
        held_out: float = 0.0,
    ) -> Data:
        """Deal rows out at random; what does not fill a bag is left out."""
        n_bags = len(found.labels) // size
        order = np.random.default_rng([seed, size]).permutation(len(found.labels))
        rows = order[: n_bags * size].reshape(n_bags, size)
        counts = (found.labels[rows][:, :, None] == np.arange(CLASSES)).sum(axis=1)

        kept = n_bags - round(held_out * n_bags)

        def send(array: Any) -> Tensor:
            return torch.as_tensor(array).to(device)

        return cls(
            send(found.images),
            send(rows[:kept]),
            send(counts[:kept].astype(float)),
            send(rows[kept:]),
            send(counts[kept:].astype(float)),
            send(found.test_images),
            send(found.test_labels.astype(np.int64)),
            RECIPES[name],
        )


@dataclass
class Training:
    """Steps of a network along a schedule, with averaged weights beside it."""

    network: Network
    settings: Settings
    loss: Callable[[nn.Module, Callable[[Tensor], Tensor], int, float], Tensor]
    steps: int
    rate: float
    averaged: Network = field(init=False)
    done: int = 0

    def __post_init__(self) -> None:
        self.averaged = copy.deepcopy(self.network).requires_grad_(False)
        network = torch.compile(self.network) if self.settings.compiled else self.network
        self._forward = self.settings.in_half(network)
        self._optimiser = torch.optim.AdamW(
            _groups(self.network, self.settings.weight_decay),
            lr=self.rate,
            fused=self.settings.device.type == "cuda",
        )

    def step(self) -> None:
        """One step: a tenth of the way the rate rises, then it falls as a cosine does."""
        part = self.done / self.steps
        rate = min(part / 0.1 + 1e-3, 1) * 0.5 * (1 + math.cos(math.pi * min(part, 1)))
        for group in self._optimiser.param_groups:
            group["lr"] = self.rate * rate
        self.network.train()
        loss = self.loss(self.network, self._forward, self.done, part)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()
        self.done += 1
        self._average()

    @torch.no_grad()
    def _average(self) -> None:
        decay = min(self.settings.decay, self.done / (self.done + 9))
        kept, new = (list(n.state_dict().values()) for n in (self.averaged, self.network))
        real = [i for i, value in enumerate(kept) if value.is_floating_point()]
        torch._foreach_lerp_([kept[i] for i in real], [new[i] for i in real], 1 - decay)


def _groups(network: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Only weights of layers decay."""
    flat = [p for p in network.parameters() if p.ndim < 2]
    return [
        {"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": weight_decay},
        {"params": flat, "weight_decay": 0.0},
    ]


@contextmanager
def without_statistics(network: nn.Module) -> Iterator[None]:
    """Leave the running means of batch norm alone: strong views are not what is to be classified.

    Nor do they share a batch with weak ones: in one run, of which no row is kept, bags of 64 were
    learned worse that way. Whether that holds in general is not known.
    """
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    kept = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    yield
    for norm, momentum in zip(norms, kept, strict=True):
        norm.momentum = momentum


def class_loss(
    f: Tensor, counts: Tensor, S: Tensor, gradient: bool = True
) -> tuple[Tensor, Tensor | None]:
    """−log Pr of the counts of bags of one size, for scores (1, bags, classes, rows), and its slopes."""
    scores, k, covariance = (part.cpu().numpy() for part in (f, counts, S))
    real = np.ones_like(scores[0, :, :1, :])
    value, slopes = several_class_loss(scores, k, real, covariance, gradient)
    return torch.as_tensor(value).to(f), torch.as_tensor(slopes).to(f) if gradient else None


def count_slopes(
    scores: Tensor, counts: Tensor, slack: float = 0.0, width: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Gradient of −Σ_b log Pr(K_b = k_b) by scores (rows, classes), and posteriors of the rows.

    With slack, counts may be off by so many times the covariance of n draws from their shares.
    With a width of 1 they vary as if each row had the mean probabilities of its bag, which is what the
    proportion loss assumes; with 0, as rows do.
    """
    m = len(counts)
    f = scores.detach().double().reshape(m, -1, CLASSES).permute(0, 2, 1)[None]
    q = counts.sum(dim=0) / counts.sum()
    S = slack * f.shape[-1] * (torch.diag(q) - torch.outer(q, q)).to(f).expand(m, -1, -1)
    apart = f[0].softmax(dim=1)
    apart = apart - apart.mean(dim=2, keepdim=True)
    S = S + width * apart @ apart.transpose(1, 2)
    _, slopes = class_loss(f, counts, S)
    posterior = (f.softmax(dim=2) - slopes).clamp(min=0)
    posterior = posterior / posterior.sum(dim=2, keepdim=True)
    slopes, posterior = (
        t[0].permute(0, 2, 1).reshape(-1, CLASSES).float() for t in (slopes, posterior)
    )
    return slopes, posterior


class BagLoss:
    """Loss of a batch of whole bags by one of the methods."""

    def __init__(self, data: Data, method: str, batch_rows: int) -> None:
        self._data, self._method = data, method
        self._bags = max(1, batch_rows // data.rows.shape[1])
        self.steps = max(1, len(data.rows) // self._bags)

    def trust(self, part: float) -> float:
        """Weight of strong views, a part of the way on.

        From scratch, posteriors of large bags are poor for long, and to learn them early kept
        small networks from learning the counts.
        """
        return min(1.0, 5 * part) if self._method == "fine" else max(0.0, 2 * part - 1)

    def slack(self, part: float) -> float:
        """What counts may be off by, a part of the way on: several draws, then less and less."""
        first = {"annealed": FIRST_SLACK, "annealed-1": 1.0}.get(self._method, 0.0)
        return first * max(0.0, 1 - 2 * part)

    def width(self, part: float) -> float:
        """How far counts vary as those of rows that are alike, a part of the way on."""
        ends = {"narrowing": 0.5, "narrowing-late": 1.0}.get(self._method)
        return 0.0 if ends is None else max(0.0, 1 - part / ends)

    def __call__(
        self, network: nn.Module, forward: Callable[[Tensor], Tensor], done: int, part: float
    ) -> Tensor:
        """Loss of the next batch, after so many and a part of the way."""
        if done % self.steps == 0:
            self._order = torch.randperm(len(self._data.rows), device=self._data.rows.device)
        start = (done % self.steps) * self._bags
        chosen = self._order[start : start + self._bags]
        images = self._data.images[self._data.rows[chosen].reshape(-1)]
        counts, recipe = self._data.counts[chosen], self._data.recipe
        weak = make_views(images, recipe.weak, recipe)
        if self._method in SHARES:
            return _proportion(forward(weak), counts)
        if self._method in COUNTS:
            scores = forward(weak)
            slopes, _ = count_slopes(scores, counts, self.slack(part), self.width(part))
            if self._method in GIVEN_TOTAL:
                together, _ = count_slopes(scores, counts.sum(dim=0, keepdim=True))
                slopes = slopes - (1 - len(counts) / len(self._data.rows)) * together
            return (scores * slopes).sum() / len(scores)
        strong = make_views(images, recipe.strong, recipe)
        with without_statistics(network):
            others = forward(strong)
        scores = forward(weak)
        slopes, posterior = count_slopes(scores, counts)
        entropy = -(posterior * posterior.clamp(min=1e-9).log()).sum(dim=1)
        sure = 1 - entropy / math.log(CLASSES)
        other = -(sure * (posterior * others.log_softmax(dim=1)).sum(dim=1)).mean()
        return (scores * slopes).sum() / len(scores) + self.trust(part) * other


def _proportion(scores: Tensor, counts: Tensor) -> Tensor:
    probabilities = scores.softmax(dim=1).reshape(len(counts), -1, CLASSES).mean(dim=1)
    shares = counts / counts.sum(dim=1, keepdim=True)
    return -(shares * probabilities.clamp(min=1e-9).log()).sum(dim=1).mean()


class Contrast(nn.Module):
    """SimCLR: two views of an image should be nearer to each other than to those of all others."""

    def __init__(self, data: Data, network: Network, batch_rows: int) -> None:
        super().__init__()
        self._data, self._rows = data, batch_rows
        self.steps = max(1, len(data.images) // batch_rows)
        width = network.width
        self.top = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 128)
        )

    def __call__(
        self,
        network: nn.Module,  # noqa: ARG002
        forward: Callable[[Tensor], Tensor],
        done: int,  # noqa: ARG002
        part: float,  # noqa: ARG002
    ) -> Tensor:
        """Loss of a batch of images drawn at random."""
        chosen = torch.randint(
            len(self._data.images), (self._rows,), device=self._data.images.device
        )
        images, recipe = self._data.images[chosen], self._data.recipe
        both = torch.cat([make_views(images, recipe.free, recipe) for _ in range(2)])
        z = functional.normalize(forward(both), dim=1)
        likeness = z @ z.T / TEMPERATURE
        likeness.fill_diagonal_(-1e4)
        partner = torch.arange(2 * self._rows, device=z.device).roll(self._rows)
        return functional.cross_entropy(likeness, partner)


def epochs_that_fit(make: Callable[[], Training], steps: int, settings: Settings) -> int:
    """Epochs as given, or as many of them as fit the seconds."""
    if settings.seconds is None:
        return settings.epochs or 1
    trial = make()
    for _ in range(4):
        trial.step()
    _wait(settings.device)
    start = time.perf_counter()
    for _ in range(8):
        trial.step()
    _wait(settings.device)
    fitting = int(settings.seconds / (steps * (time.perf_counter() - start) / 8))
    return max(1, fitting if settings.epochs is None else min(fitting, settings.epochs))


def train(
    network: Network, loss: Any, settings: Settings, rate: float, after: Callable[..., None]
) -> tuple[Network, Network, int]:
    """Train a network; give it, its averaged weights and the number of epochs."""

    def make() -> Training:
        return Training(copy.deepcopy(network), settings, loss, 10**6, rate)

    epochs = epochs_that_fit(make, loss.steps, settings)
    training = Training(network, settings, loss, epochs * loss.steps, rate)
    every = max(1, epochs // CURVE_POINTS)
    for epoch in range(1, epochs + 1):
        for _ in range(loss.steps):
            training.step()
        if epoch % every == 0 or epoch == epochs:
            after(epoch, training)
    return training.network, training.averaged, epochs


@torch.no_grad()
def in_parts(network: nn.Module, images: Tensor, recipe: Recipe, settings: Settings) -> Tensor:
    """Outputs for all images, averaged over an image and its mirror image."""
    network.eval()
    forward, found = settings.in_half(network), []
    for part in images.split(2000):
        x = normalise(part, recipe)
        found.append(0.5 * (forward(x) + forward(x.flip(-1))))
    return torch.cat(found)


def accuracy(network: nn.Module, data: Data, settings: Settings) -> float:
    scores = in_parts(network, data.test_images, data.recipe, settings)
    return round(float((scores.argmax(dim=1) == data.test_labels).float().mean()), 4)


def losses_held_out(network: nn.Module, data: Data, settings: Settings) -> dict[str, float]:
    """Of held-out bags: −log Pr(counts) a row, and the cross-entropy of mean probabilities."""
    counts = data.counts_held_out
    images = data.images[data.rows_held_out.reshape(-1)]
    scores = in_parts(network, images, data.recipe, settings)
    f = scores.double().reshape(len(counts), -1, CLASSES).permute(0, 2, 1)[None]
    none = torch.zeros(len(counts), CLASSES, CLASSES, dtype=f.dtype, device=f.device)
    values, _ = class_loss(f, counts, none, gradient=False)
    return {
        "counts": float(values.sum()) / len(scores),
        "shares": float(_proportion(scores, counts)),
    }


def body_without_bags(
    data: Data, settings: Settings, path: Path, epochs: int | None, seconds: float | None
) -> Network:
    """A network whose body was trained by SimCLR, from a file if there is one."""
    network = data.recipe.network().to(settings.device, memory_format=torch.channels_last)
    if path.exists():
        network.load_state_dict(torch.load(path, map_location=settings.device))
        return network
    loss = Contrast(data, network, settings.batch_rows)
    whole = Network(network.body, network.width, 1).to(settings.device)
    whole.head = loss.top.to(settings.device)
    own = copy.copy(settings)
    own.epochs, own.seconds, own.weight_decay = epochs, seconds, 1e-3
    start = time.perf_counter()

    def after(epoch: int, training: Training) -> None:  # noqa: ARG001
        print(f"  without bags: epoch {epoch}, {time.perf_counter() - start:.0f} s", flush=True)

    _, averaged, done = train(whole, loss, own, settings.learning_rate, after)
    network.body.load_state_dict(averaged.body.state_dict())
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), path)
    took = round(time.perf_counter() - start)
    path.with_suffix(".json").write_text(json.dumps({"epochs": done, "seconds": took}))
    return network


def fit_head(network: Network, data: Data, settings: Settings) -> float:
    """Fit the head by the likelihood of the counts; return the standard deviation of its coefficients."""
    features = in_parts(network.body, data.images, data.recipe, settings)
    mean, deviation = features.mean(dim=0), features.std(dim=0) + 1e-6
    rows, n = data.rows.cpu().numpy(), data.rows.shape[1]
    X = ((features - mean) / deviation).cpu().numpy()[rows.reshape(-1)]
    y = bag_target(
        np.repeat(np.arange(len(rows)), n), counts=data.counts.cpu().numpy().repeat(n, 0)
    )
    model = LLPClassifier(kernel=None, bag_effect=0.0).fit(X, y)
    coef = torch.as_tensor(model.coef_, dtype=torch.float32).to(settings.device) / deviation
    intercept = torch.as_tensor(model.intercept_, dtype=torch.float32).to(settings.device)
    with torch.no_grad():
        network.head.weight.copy_(coef)
        network.head.bias.copy_(intercept - coef @ mean)
    return model.terms_[0].standard_deviation


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
