"""A fleet on this machine, with real workers: those that are killed are replaced."""

import os
import signal
import time
from pathlib import Path

import dask
import pytest

from opduel.fleet import service


def test_a_worker_that_dask_gives_up_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask does so where its own restart takes too long, or fails."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(service, "RETRY_S", 0.2)
    settings = {**service.SETTINGS, "distributed.deploy.lost-worker-timeout": "1ms"}
    with dask.config.set(settings), service._local_fleet(1) as cluster:
        (nanny,) = cluster.workers.values()
        (address,) = cluster.scheduler.workers
        os.kill(nanny.pid, signal.SIGKILL)
        until = time.monotonic() + 90
        while time.monotonic() < until and not set(cluster.scheduler.workers) - {address}:
            time.sleep(0.1)
        assert set(cluster.scheduler.workers) - {address}
