"""Losses and batches of whole bags for training loops in torch.

Everything here needs torch: ``pip install 'unbag[torch]'``. `unbag.models.neural` has an estimator,
for which no training loop has to be written.
"""

from unbag._optional import install_command as _install_command

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise ImportError(f"unbag.torch needs torch: {_install_command('torch')}") from None

from unbag.torch.data import BagBatchSampler, BagDataset
from unbag.torch.losses import (
    BagBatch,
    BagLoss,
    CountLikelihoodLoss,
    ForwardLoss,
    ProportionLoss,
)
from unbag.torch.training import two_pass_backward

__all__ = [
    "BagBatch",
    "BagBatchSampler",
    "BagDataset",
    "BagLoss",
    "CountLikelihoodLoss",
    "ForwardLoss",
    "ProportionLoss",
    "two_pass_backward",
]
