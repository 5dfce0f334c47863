"""Losses, data sets and exact gradients of whole bags, for training loops of your own in torch.

Everything here needs torch: ``pip install 'unbag[torch]'``. Those who want no loop of their own
find an estimator in `unbag.models.neural`.
"""

from unbag._optional import install_command as _install_command

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise ImportError(f"unbag.torch needs torch: {_install_command('torch')}") from None

from unbag.torch.batches import BagBatch
from unbag.torch.data import BagBatchSampler, BagDataset
from unbag.torch.losses import (
    BagLoss,
    CorrectedRiskLoss,
    CountLikelihoodLoss,
    ForwardLoss,
    ProportionLoss,
)
from unbag.torch.mixing import mix_bags
from unbag.torch.two_pass import two_pass_backward
from unbag.torch.vat import vat_loss
from unbag.torch.views import count_posteriors, view_loss

__all__ = [
    "BagBatch",
    "BagBatchSampler",
    "BagDataset",
    "BagLoss",
    "CorrectedRiskLoss",
    "CountLikelihoodLoss",
    "ForwardLoss",
    "ProportionLoss",
    "count_posteriors",
    "mix_bags",
    "two_pass_backward",
    "vat_loss",
    "view_loss",
]
