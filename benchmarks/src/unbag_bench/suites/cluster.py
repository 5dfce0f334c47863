"""Tasks that have nothing to do with each other, sent to a Dask cluster through joblib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from joblib import parallel_config

from unbag._optional import optional


@contextmanager
def on_cluster(address: str) -> Iterator[None]:
    """Let joblib send its calls to the cluster of a scheduler.

    Parameters
    ----------
    address : str
        Such as "tcp://scheduler:8786".
    """
    distributed = optional("distributed", "--dask", "distributed")
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise OSError(f"No scheduler of Dask answers at {address}: {error}") from None
    with client, parallel_config(backend="dask"):
        yield
