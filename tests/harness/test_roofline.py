"""The host's roofline, measured for real, and what is read off it."""

import pytest

from harness.cpus import plan_cpus
from harness.roofline import measure_roofline
from records import Work, achieved, roof


def test_the_host_has_a_roofline() -> None:
    found = measure_roofline(plan_cpus(1), 1)
    assert found["threads"] == 1
    assert found["copied_bytes"] >= 1 << 26
    assert found["gbytes"] > 0.01
    assert found["gflops"]["float32"] > found["gflops"]["float64"] > 0.01


@pytest.mark.parametrize(
    ("work", "nanoseconds"),
    [
        (Work(1000.0, 10.0, "float32"), 100.0),  # bound by operations: 1000 / 10
        (Work(10.0, 1000.0, "float32"), 500.0),  # bound by bytes: 1000 / 2
        (Work(None, 1000.0, "float32"), 500.0),
        (Work(1000.0, None, "float32"), 100.0),
        (Work(None, None, "float32"), None),
    ],
)
def test_the_roof_is_the_tighter_bound(work: Work, nanoseconds: float | None) -> None:
    assert roof(work, 10.0, 2.0) == nanoseconds


def test_without_a_peak_only_bytes_bind() -> None:
    assert roof(Work(1000.0, 10.0, "float16"), None, 2.0) == 5.0


def test_rates_are_a_nanosecond() -> None:
    assert achieved(Work(300.0, None, "float32"), 100.0).gflops == 3.0
    assert achieved(Work(300.0, None, "float32"), 100.0).gbytes is None
