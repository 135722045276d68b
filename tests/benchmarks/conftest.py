"""What several tests of the benchmarks share."""

import subprocess

import pytest
from made_calibration import Harness


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    made = Harness()
    monkeypatch.setattr(subprocess, "run", made)
    return made
