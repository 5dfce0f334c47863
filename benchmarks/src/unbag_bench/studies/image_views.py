"""Networks for images, and views of images made where the images are."""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


def block(inputs: int, outputs: int, pool: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool else []))


class Residual(nn.Module):
    """x + g(x)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(block(width, width), block(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Add what the inside makes of x."""
        return x + self.inside(x)


class Network(nn.Module):
    """A body from images to features, and a linear head."""

    def __init__(self, body: nn.Module, width: int, n_classes: int) -> None:
        super().__init__()
        self.body, self.width = body, width
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.head(self.body(x))


def small_cnn(n_classes: int = 10) -> Network:
    """Four convolutions for grey images of 28 × 28; 0.4 million weights."""
    body = nn.Sequential(
        block(1, 32),
        block(32, 64, pool=True),
        block(64, 128, pool=True),
        block(128, 256),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return Network(body, 256, n_classes)


def resnet9(n_classes: int = 10) -> Network:
    """ResNet-9, 6.6 million weights."""
    body = nn.Sequential(
        block(3, 64),
        block(64, 128, pool=True),
        Residual(128),
        block(128, 256, pool=True),
        block(256, 512, pool=True),
        Residual(512),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return Network(body, 512, n_classes)


class Views(NamedTuple):
    """How far views of an image go.

    Attributes
    ----------
    shift : float
        Largest shift, as a part of the image.
    smallest : float
        Least part of the area that is cut out and blown up.
    turn : float
        Largest rotation, in parts of a half turn.
    light : float
        Largest change of brightness, contrast and saturation.
    grey : float
        How often colours go.
    hole : float
        Side of a square that is covered, as a part of the image.
    """

    shift: float = 0.0
    smallest: float = 1.0
    turn: float = 0.0
    light: float = 0.0
    grey: float = 0.0
    hole: float = 0.0


class Recipe(NamedTuple):
    """What suits a set of images: its network, its constants and its views."""

    network: Any
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    weak: Views
    strong: Views
    free: Views


GREY = {
    "weak": Views(shift=2 / 28),
    "strong": Views(shift=2 / 28, smallest=0.6, turn=0.05, light=0.3, hole=0.4),
    "free": Views(smallest=0.3, turn=0.05, light=0.4),
}
RECIPES = {
    "mnist": Recipe(small_cnn, (0.131,), (0.308,), **GREY),
    "fashion": Recipe(small_cnn, (0.286,), (0.353,), **GREY),
    "cifar10": Recipe(
        resnet9,
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        weak=Views(shift=4 / 32),
        strong=Views(shift=4 / 32, smallest=0.5, turn=0.08, light=0.4, grey=0.1, hole=0.4),
        free=Views(smallest=0.2, light=0.4, grey=0.2),
    ),
}


def normalise(images: Tensor, recipe: Recipe) -> Tensor:
    """Bytes to numbers of mean 0 and variance 1."""
    shape = 1, -1, 1, 1
    mean = torch.tensor(recipe.mean, device=images.device).reshape(shape)
    deviation = torch.tensor(recipe.deviation, device=images.device).reshape(shape)
    return _last(((images.float() / 255) - mean) / deviation)


def make_views(images: Tensor, views: Views, recipe: Recipe) -> Tensor:
    """Views of images (bytes), each with draws of its own, normalised."""
    n, channels, height, width = images.shape
    x = images.float() / 255

    def draw(low: float, high: float) -> Tensor:
        return torch.empty(n, device=x.device).uniform_(low, high)

    scale = draw(views.smallest, 1.0).sqrt()
    angle = pi * draw(-views.turn, views.turn)
    flip = torch.where(draw(0, 1) < 0.5, -1.0, 1.0)
    room = 1 - scale
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 1] = scale * flip * angle.cos(), -scale * angle.sin()
    theta[:, 1, 0], theta[:, 1, 1] = scale * flip * angle.sin(), scale * angle.cos()
    # whole pixels, so that nothing is blurred where nothing is blown up
    for axis, size in ((0, width), (1, height)):
        moved = room * draw(-1, 1) + (draw(-views.shift, views.shift) * size).round() * 2 / size
        theta[:, axis, 2] = moved
    grid = functional.affine_grid(theta, [n, channels, height, width], align_corners=False)
    x = functional.grid_sample(x, grid, padding_mode="zeros", align_corners=False)
    if views.light:
        x = _relight(x, views.light, draw)
    if views.grey and channels == 3:
        grey = x.mean(dim=1, keepdim=True).expand_as(x)
        x = torch.where((draw(0, 1) < views.grey).reshape(-1, 1, 1, 1), grey, x)
    x = normalise(x * 255, recipe)
    return _cover(x, views.hole, draw) if views.hole else x


def _relight(x: Tensor, light: float, draw: Any) -> Tensor:
    """Change brightness, contrast, saturation and hue of four in five images."""
    shape = -1, 1, 1, 1
    changed = x * draw(1 - light, 1 + light).reshape(shape)
    middle = changed.mean(dim=(1, 2, 3), keepdim=True)
    changed = middle + (changed - middle) * draw(1 - light, 1 + light).reshape(shape)
    if x.shape[1] == 3:
        changed = _recolour(changed, draw(1 - light, 1 + light), pi * draw(-light / 4, light / 4))
    changed = changed.clamp(0, 1)
    return torch.where((draw(0, 1) < 0.8).reshape(shape), changed, x)


def _recolour(x: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """Turn and stretch the plane of colours (YIQ) of each image."""
    to_yiq = torch.tensor(
        [[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], device=x.device
    )
    turn = torch.zeros(len(x), 3, 3, device=x.device)
    turn[:, 0, 0] = 1.0
    turn[:, 1, 1] = turn[:, 2, 2] = saturation * hue.cos()
    turn[:, 1, 2], turn[:, 2, 1] = -saturation * hue.sin(), saturation * hue.sin()
    matrix = torch.linalg.inv(to_yiq) @ turn @ to_yiq
    return torch.einsum("ncd,ndhw->nchw", matrix, x)


def _cover(x: Tensor, hole: float, draw: Any) -> Tensor:
    """Put a square of zeros anywhere."""
    height, width = x.shape[-2:]

    def outside(size: int) -> Tensor:
        places = (torch.arange(size, device=x.device) + 0.5) / size
        return (places - draw(0, 1)[:, None]).abs() > hole / 2

    keep = outside(height)[:, None, :, None] | outside(width)[:, None, None, :]
    return x * keep


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
