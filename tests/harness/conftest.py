"""Waiting for something that happens soon, without asserting when."""

import time
from collections.abc import Callable

import pytest


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
