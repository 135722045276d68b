"""What several tests of the benchmarks share."""

import pytest
from fake_harness import FakeHarness

from benchmarks import calibrate


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> FakeHarness:
    fake = FakeHarness()
    monkeypatch.setattr(calibrate, "run_harness", fake)
    return fake
