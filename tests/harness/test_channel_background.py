"""Steps that go on in the background: nothing waits before ``finish``, and errors come there, every time."""

import os
from collections.abc import Iterator

import pytest

from opduel.harness.processes.channel import Background, Steps, Waiting


class StepError(Exception):
    pass


@pytest.fixture
def ready() -> Iterator[int]:
    """A descriptor with something to read."""
    readable, writable = os.pipe()
    os.write(writable, b"x")
    yield readable
    os.close(readable)
    os.close(writable)


def steps(descriptor: int, fails: bool = False) -> Steps[str]:
    yield Waiting(descriptor, float("inf"))
    yield Waiting(descriptor, float("inf"))
    if fails:
        raise StepError("no")
    return "done"


@pytest.mark.parametrize("advances", range(5))
def test_it_ends_alike_however_far_it_came_before(ready: int, advances: int) -> None:
    background = Background(steps(ready), StepError)
    for _ in range(advances):
        background.advance()
    assert background.over == (advances >= 3)
    assert [background.finish(), background.finish()] == ["done", "done"]
    assert background.over


@pytest.mark.parametrize("advances", range(5))
def test_an_error_is_raised_by_finish_alone(ready: int, advances: int) -> None:
    background = Background(steps(ready, fails=True), StepError)
    for _ in range(advances):
        background.advance()
    for _ in range(2):
        with pytest.raises(StepError, match="no"):
            background.finish()
    assert background.over


def test_another_error_is_raised_at_once(ready: int) -> None:
    background = Background(steps(ready, fails=True), KeyError)
    background.advance()
    background.advance()
    with pytest.raises(StepError):
        background.advance()
