"""Workers that all tests of adaptors share: one for each build and environment."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from mxnet_workers import MXNetWorkers


@pytest.fixture(scope="session")
def mxnet_workers() -> Iterator[MXNetWorkers]:
    """Yield the workers of MXNet's builds."""
    with ExitStack() as stack:
        yield MXNetWorkers(stack)
