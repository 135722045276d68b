"""The real thing: a release of MXNet from the package index."""

import time
from pathlib import Path

import pytest

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.process import run
from opduel.frameworks import get_framework

COMPUTE = Path(__file__).with_name("compute_mxnet.py")


@pytest.mark.mxnet
def test_mxnet_1_9_1_is_made_computes_and_is_quick_the_second_time(tmp_path: Path, processes_started) -> None:
    framework = get_framework("mxnet")
    cache = BuildCache(tmp_path)
    started = time.monotonic()
    build = resolve_build("mxnet==1.9.1", framework, cache)
    first = time.monotonic() - started

    with processes_started() as processes:
        started = time.monotonic()
        cached_build = resolve_build("mxnet==1.9.1", framework, cache)
        second = time.monotonic() - started

    assert (build.version, build.packages["numpy"]) == ("1.9.1", "1.23.5")
    assert cached_build == build
    assert not processes
    assert second < first / 10

    computed = run([cached_build.interpreter, COMPUTE], timeout=300, environment=framework.environment(1))
    assert computed.stdout == "computes, numpy 1.23.5\n", computed.stderr

    brought = resolve_build(str(cached_build.directory), framework, cache)
    assert (brought.strategy, brought.version, brought.packages) == ("environment", "1.9.1", build.packages)
