"""What several tests of the benchmarks share."""

import subprocess

import pytest
from fake_harness import FakeHarness


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> FakeHarness:
    fake = FakeHarness()
    monkeypatch.setattr(subprocess, "run", fake)
    return fake
