"""What a step may add to the loss of its bags: mixed bags, adversarial moves, strong views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from torch import Tensor, nn

from unbag.torch.batches import BagBatch
from unbag.torch.losses import BagLoss
from unbag.torch.mixing import mix_bags
from unbag.torch.vat import vat_loss
from unbag.torch.views import count_posteriors, view_loss

# Part of the training over which extras come to their full weight, as published for LLP-VAT.
_RAMP = 0.4

View = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Extras:
    """Options of a step.

    Attributes
    ----------
    mix : float
        How often a bag gives way to parts of two.
    vat : float
        Weight of `vat_loss`.
    views : (callable, callable) or None
        A weak and a strong view of a batch of rows.
    """

    mix: float = 0.0
    vat: float = 0.0
    views: tuple[View, View] | None = None

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return self.mix > 0 or self.vat > 0 or self.views is not None

    def losses(
        self, module: nn.Module, X: Tensor, bags: BagBatch, loss: BagLoss, part: float, seed: Any
    ) -> tuple[Tensor, Tensor]:
        """Loss of the bags, and what is added to it a part of the way on."""
        if self.mix > 0:
            X, bags = mix_bags(X, bags, self.mix, np.random.default_rng(seed))
        weak, strong = self.views or (None, None)
        scores = module(X if weak is None else weak(X))
        value = loss(scores, bags)
        added = 0.0 * value
        ramp = exp(-5 * (1 - min(1.0, part / _RAMP)) ** 2)
        if self.vat > 0:
            added = added + self.vat * ramp * vat_loss(module, X)
        if strong is not None:
            effect = float(getattr(loss, "bag_effect", 0.0))
            posteriors = count_posteriors(scores, bags, effect)
            added = added + ramp * view_loss(module(strong(X)), posteriors)
        return value, added
