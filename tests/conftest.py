"""Real MXNet builds for the tests that are marked ``mxnet``: from the user's build cache, made there on first use."""

import pytest

from driver.builds import BuildCache, resolve_build
from frameworks import get_framework
from records import Build


def release(version: str) -> Build:
    return resolve_build(f"mxnet=={version}", get_framework("mxnet"), BuildCache())


@pytest.fixture(scope="session")
def mxnet_1_5() -> Build:
    """mxnet==1.5.1.post0."""
    return release("1.5.1.post0")


@pytest.fixture(scope="session")
def mxnet_1_8() -> Build:
    """mxnet==1.8.0.post0."""
    return release("1.8.0.post0")


@pytest.fixture(scope="session")
def mxnet_1_9() -> Build:
    """mxnet==1.9.1."""
    return release("1.9.1")
