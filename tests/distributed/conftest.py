import dask
import pytest


@pytest.fixture
def in_this_thread():
    """Compute without threads or processes, as without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        yield
