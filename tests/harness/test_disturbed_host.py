"""A run beside real work of others: what is plain stands."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from os import kill, sched_getaffinity

import pytest
from test_run import request
from toy_bench import toy_case

from opduel.harness.run import run_ab

# Busy in bursts of 5 to 60 ms, as long as the pauses; it ends by itself.
BURSTS = """
import os, random, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end = time.monotonic() + 300
while time.monotonic() < end:
    until = time.monotonic() + random.uniform(0.005, 0.06)
    while time.monotonic() < until:
        pass
    time.sleep(random.uniform(0.005, 0.03))
"""


@pytest.fixture
def bursts() -> Iterator[None]:
    """A stranger on each processor: a child of ours would count as ours."""
    command = '"$@" >/dev/null 2>&1 & echo $!'
    started = [
        int(subprocess.check_output(["sh", "-c", command, "sh", sys.executable, "-c", BURSTS, str(cpu)], text=True))
        for cpu in sched_getaffinity(0)
    ]
    yield
    for pid in started:
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


@pytest.mark.nightly
@pytest.mark.measures
@pytest.mark.usefixtures("bursts")
def test_under_bursts_a_change_by_half_stands_and_so_does_most_that_has_not_changed() -> None:
    """At a threshold of a quarter; nothing is called what it isn't."""
    slow = [toy_case(f"slow{number}", slower=2.0) for number in range(2)]
    cases = [replace(one, threshold=0.25) for one in (*slow, *(toy_case(f"same{number}") for number in range(6)))]
    report = run_ab(request(*cases, max_rounds=30, TOY_CLOCK="real"))
    assert report.run.validity.valid is False
    assert "other processes kept" in " ".join(report.run.validity.reasons)
    verdicts = {one.case: one.verdict for one in report.comparisons}
    assert [verdicts[one.id] for one in slow] == ["regressed"] * 2, [one.note for one in report.comparisons]
    assert not {"regressed", "improved", "failed"} & {verdict for case, verdict in verdicts.items() if "same" in case}
    assert sum(verdict == "unchanged" for verdict in verdicts.values()) >= 3
    assert all(one.rounds >= 8 for one in report.comparisons if one.verdict in ("regressed", "unchanged"))
