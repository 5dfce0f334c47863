"""The corrected risk as the objective of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.bags import Bags
from unbag.decontamination import decontamination_weights
from unbag.losses import get_loss
from unbag.models.base import ObjectiveClassifier
from unbag.risk import CorrectedRisk, resolve_class_prior


class CorrectedRiskClassifier(ObjectiveClassifier):
    """A classifier that minimises the corrected risk; the parameters all such models share."""

    weights: Any
    bag_model: Any
    merge: Any
    merge_size: Any
    loss: Any
    class_prior: Any
    correction: Any

    def _prepare(self, bags: Bags) -> None:
        self._loss = get_loss(self.loss, bags.n_classes)
        if not self._loss.trainable:
            raise ValueError(f"loss={self.loss!r} measures a classifier but cannot train one.")
        self.class_prior_ = resolve_class_prior(self.class_prior, bags)

    def _weights(self, bags: Bags) -> NDArray[np.float64]:
        return decontamination_weights(
            bags,
            method=self.weights,
            bag_model=self.bag_model,
            merge=self.merge,
            merge_size=self.merge_size,
        )

    def _objective(self, weights: NDArray[np.float64], bags: Bags, like: Any) -> CorrectedRisk:
        return CorrectedRisk(weights, bags, self._loss, self.class_prior_, self.correction, like)
