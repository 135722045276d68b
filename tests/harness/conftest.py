"""What the tests of the harness share: waiting without asserting when, and short rounds."""

import time
from collections.abc import Callable

import pytest
from watching import Watch

import opduel.comparator.disturbance
import opduel.harness.rounds.pair


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], bool]:
    """``wait_until(condition)``: whether it came true within a minute."""

    def wait(condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False

    return wait


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.fixture(autouse=True)
def one_fork(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Few tests hang on how often a pair measures a case, and all others are quicker with once."""
    if "many_forks" not in request.keywords:
        monkeypatch.setattr(opduel.harness.rounds.pair, "MOST_FORKS", 1)


@pytest.fixture
def ranks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disturbed host rounds are so unlike that Student's t test shows nothing in them, as ranks may."""
    monkeypatch.setattr(opduel.comparator.disturbance, "student_p", lambda _: 1.0)
