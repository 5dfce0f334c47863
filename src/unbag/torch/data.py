"""Whole bags for the loaders of torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from unbag._arrays import Ints
from unbag._checks import check_count
from unbag.bags.bags import Bags, check_bag_target
from unbag.torch.losses import BagBatch


class BagDataset(Dataset[tuple[Tensor, BagBatch]]):
    """Rows in bags as a torch data set; indexed by bags, it returns a batch.

    Parameters
    ----------
    X : array, tensor or SciPy sparse matrix of shape (n_rows, ...)
        Rows, of any number of dimensions; sparse ones become dense batch by batch.
    y : structured array from `unbag.bag_target`, or Bags
        Rows of known label count as bags of one row.

    Examples
    --------
    >>> import numpy as np
    >>> from torch.utils.data import DataLoader
    >>> from unbag import bag_target
    >>> from unbag.torch import BagBatchSampler, BagDataset
    >>> y = bag_target([7, 7, 9, 9, 9], counts={7: 1, 9: 2})
    >>> dataset = BagDataset(np.eye(5, dtype=np.float32), y)
    >>> X, bags = dataset[[0, 1]]
    >>> X.shape, bags.index, bags.counts
    (torch.Size([5, 5]), tensor([0, 0, 1, 1, 1]), tensor([[1., 1.],
            [1., 2.]], dtype=torch.float64))
    >>> loader = DataLoader(dataset, sampler=BagBatchSampler(dataset, 4), batch_size=None)
    >>> [len(X) for X, bags in loader]
    [2, 3]
    """

    def __init__(self, X: Any, y: Any) -> None:
        bags = y if isinstance(y, Bags) else check_bag_target(y)
        if not hasattr(X, "shape"):
            raise ValueError(
                "X must be an array, a tensor or a sparse matrix, not of the type "
                f"{type(X).__name__}; several inputs of a network go side by side into one array, "
                "which the network divides."
            )
        if X.shape[0] != bags.n_instances:
            raise ValueError(f"X has {X.shape[0]} rows but y has {bags.n_instances}.")
        self.X = X.tocsr() if hasattr(X, "tocsr") else X
        self.bags = bags.with_labelled_rows_apart()[0]
        self.order = np.argsort(self.bags.index, kind="stable")
        self.ends = np.cumsum(self.bags.sizes)

    def __len__(self) -> int:
        """Return the number of bags."""
        return self.bags.n_bags

    def __getitem__(self, bags: int | Sequence[int]) -> tuple[Tensor, BagBatch]:
        """Rows of some bags, one bag after the other, and what is known of them."""
        chosen = np.atleast_1d(np.asarray(bags, dtype=np.intp))
        return as_tensor(self.X[rows_of(self, chosen)]), batch_of(self.bags, chosen)


def rows_of(dataset: BagDataset, chosen: Ints) -> Ints:
    """Numbers of the rows of some bags, bag after bag."""
    ends, sizes = dataset.ends[chosen], dataset.bags.sizes[chosen]
    pieces = zip(ends - sizes, ends, strict=True)
    return np.concatenate([dataset.order[start:end] for start, end in pieces])


def batch_of(bags: Bags, chosen: Ints) -> BagBatch:
    """What is known of some bags, and which row of a batch is in which."""
    sizes, covariance = bags.sizes[chosen], None
    if bags.noise is not None:
        scale = sizes[:, None, None].astype(float) ** 2
        covariance = torch.from_numpy(bags.noise[chosen] * scale)
    return BagBatch(
        torch.from_numpy(np.repeat(np.arange(len(chosen)), sizes)),
        torch.from_numpy(sizes[:, None] * bags.proportions[chosen]),
        covariance,
    )


def as_tensor(rows: Any) -> Tensor:
    """Rows of an array, a tensor or a sparse matrix, dense."""
    return torch.as_tensor(rows.toarray() if hasattr(rows, "toarray") else rows)


# Orders of the bags that determine how many batches an epoch has.
_ORDERS_TRIED = 4


class BagBatchSampler(Sampler[list[int]]):
    """Batches of whole bags with at most a given number of rows.

    A bag that is larger comes alone; `unbag.torch.two_pass_backward` takes it in parts. Where an
    order of the bags makes fewer batches than others, large ones are divided; where it makes more
    than the first four, which is rare, the smallest neighbours are taken together. Give it to a ``DataLoader`` as ``sampler``, with
    ``batch_size=None``. Of several processes each has batches of its own, as many as the others:
    some come twice if their number is not a multiple of that of the processes.

    Parameters
    ----------
    dataset : BagDataset
        The bags.
    batch_size : int, default=1024
        Most rows of a batch.
    shuffle : bool, default=True
        Whether the bags come in a new order every time.
    seed : int, default=0
        Same seed, same orders.
    least_bags : int, default=1
        Bags that a batch has, however many rows these are; the last one may have fewer.
    num_replicas, rank : int, optional
        Number of processes, and which this one is; by default as `torch.distributed` says, where
        it is initialised.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target
    >>> from unbag.torch import BagBatchSampler, BagDataset
    >>> y = bag_target([7, 7, 9, 9, 9], counts={7: 1, 9: 2})
    >>> dataset = BagDataset(np.eye(5, dtype=np.float32), y)
    >>> list(BagBatchSampler(dataset, batch_size=4, shuffle=False))
    [[0], [1]]
    """

    def __init__(
        self,
        dataset: BagDataset,
        batch_size: int = 1024,
        shuffle: bool = True,
        seed: int = 0,
        least_bags: int = 1,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.sizes = dataset.bags.sizes
        self.batch_size = check_count(batch_size, "batch_size")
        self.least_bags = check_count(least_bags, "least_bags")
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        processes = torch.distributed
        here, number = 0, 1
        if processes.is_available() and processes.is_initialized():
            here, number = processes.get_rank(), processes.get_world_size()
        self.num_replicas, self.rank = num_replicas or number, here if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank must be below num_replicas={self.num_replicas}, not {rank!r}.")
        orders = _ORDERS_TRIED if shuffle else 1
        self._n_batches = max(len(self._in_order(epoch)) for epoch in range(orders))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the bags.

        Parameters
        ----------
        epoch : int
            Number of the order.
        """
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        """Give the bags of each batch."""
        batches = self._in_order(self.epoch)
        self.epoch += 1
        sizes = [int(self.sizes[bags].sum()) for bags in batches]
        while len(batches) > self._n_batches:
            at = int(np.argmin(np.add(sizes[:-1], sizes[1:])))
            batches[at : at + 2] = [batches[at] + batches[at + 1]]
            sizes[at : at + 2] = [sizes[at] + sizes[at + 1]]
        while len(batches) < self._n_batches:
            at = max(range(len(batches)), key=lambda i: (len(batches[i]) > 1, sizes[i]))
            bags, middle = batches[at], len(batches[at]) // 2
            batches[at : at + 1] = [bags[:middle], bags[middle:]]
            sizes[at : at + 1] = [int(self.sizes[part].sum()) for part in batches[at : at + 2]]
        own = range(self.rank, len(self) * self.num_replicas, self.num_replicas)
        return iter([batches[i % len(batches)] for i in own])

    def __len__(self) -> int:
        """Return the number of batches of an epoch, in this process."""
        return -(-self._n_batches // self.num_replicas)

    def _in_order(self, epoch: int) -> list[list[int]]:
        """Fill batches one after the other, in the order of an epoch."""
        order = np.arange(len(self.sizes))
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(order)
        batches: list[list[int]] = []
        room = 0
        for bag, size in zip(order.tolist(), self.sizes[order].tolist(), strict=True):
            if not batches or (size > room and len(batches[-1]) >= self.least_bags):
                batches.append([])
                room = self.batch_size
            batches[-1].append(bag)
            room -= size
        return batches
