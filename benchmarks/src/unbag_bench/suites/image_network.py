"""A small network for images."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from unbag.torch.networks import set_output_bias


class ImageNetwork(nn.Module):
    """Four convolutions for square images that come as rows of pixels, grey or of three colours."""

    def __init__(self, shape: tuple[int, ...], n_outputs: int) -> None:
        super().__init__()
        self.image = _image_shape(shape)
        widths = [self.image[0], 16, 32, 64, 128]
        layers: list[nn.Module] = []
        for place, (inputs, outputs) in enumerate(pairwise(widths)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
            layers += [nn.MaxPool2d(2)] * (place < 3)
        self.layers = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], n_outputs)
        )

    def start_at(self, shares: NDArray[np.float64]) -> None:
        """Begin with classes as common as the shares say."""
        set_output_bias(self.layers[-1], shares)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (rows, outputs)."""
        scores: Tensor = self.layers(x.reshape(-1, *self.image))
        return scores


def _image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    for channels in (1, 3):
        side = isqrt(shape[0] // channels)
        if len(shape) == 1 and side >= 8 and channels * side**2 == shape[0]:
            return channels, side, side
    raise ValueError(
        "A network for images takes rows of 64 pixels or more, of a square and in one colour or "
        f"three, not rows of the shape {shape}."
    )
