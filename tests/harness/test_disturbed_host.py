"""On a disturbed host cases are measured until their verdicts stand; beside real work of others what is plain does."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from os import kill, sched_getaffinity
from typing import Any

import pytest
from test_run import request
from test_schedule import run
from toy_bench import toy_case

from opduel.comparator import Looks
from opduel.harness.run import run_ab
from opduel.records import ONE_SIDED

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
    cases = [replace(case, threshold=0.25) for case in (*slow, *(toy_case(f"same{number}") for number in range(6)))]
    report = run_ab(request(*cases, max_rounds=30, TOY_CLOCK="real"))
    assert report.run.validity.valid is False
    assert "other processes kept" in " ".join(report.run.validity.reasons)
    verdicts = {comparison.case: comparison.verdict for comparison in report.comparisons}
    assert [verdicts[case.id] for case in slow] == ["regressed"] * 2, [
        comparison.note for comparison in report.comparisons
    ]
    assert not {"regressed", "improved", "failed"} & {verdict for case, verdict in verdicts.items() if "same" in case}
    assert sum(verdict == "unchanged" for verdict in verdicts.values()) >= 3
    assert all(
        comparison.rounds >= 8 for comparison in report.comparisons if comparison.verdict in ("regressed", "unchanged")
    )


@pytest.mark.usefixtures("ranks_alone")
def test_on_a_disturbed_host_settled_cases_are_measured_until_their_verdicts_stand() -> None:
    cases = [replace(toy_case("same"), threshold=0.9), toy_case("slow", slower=4)]
    simulated = {"TOY_CLOCK": "simulated"}

    def counts(looks: Looks, **order: Any) -> dict[str, int]:
        measured, comparisons = run(*cases, looks=looks, environment=simulated, **order)
        assert (comparisons["same"].verdict, comparisons["slow"].verdict) == ("unchanged", "regressed")
        return {name: len(samples) for name, samples in measured.samples.items()}

    looks = Looks((5, 8, 12, 15))
    assert counts(looks) == {"same": 5, "slow": 8}
    stand = {"same": 12, "slow": 12}  # the look at which a signed-rank test with its share of the error can show it
    assert counts(looks, is_disturbed=lambda noise, mhz: True) == stand
    too_few = Looks((3, 6))
    assert counts(too_few, is_disturbed=lambda noise, mhz: True) == {"same": 6, "slow": 6}, "no look is left"


@pytest.mark.usefixtures("ranks_alone")
def test_time_that_no_open_case_can_use_goes_to_changes_whose_verdicts_do_not_stand_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "opduel.harness.planning.budget.affordable",
        lambda trips, *_, **__: [need for need in trips if need.excess is not None],
    )
    result, comparisons = run(
        replace(toy_case("open", mode=3.0), threshold=1e-7),
        replace(toy_case("same"), threshold=0.9),
        toy_case("slow", slower=4),
        looks=Looks((5, 8, 30)),
        alpha=0.001,
        environment={"TOY_CLOCK": "simulated"},
        is_disturbed=lambda noise, mhz: True,
        time_budget=60.0,
    )
    assert [comparisons[name].verdict for name in ("same", "slow")] == ["unchanged", "regressed"]
    assert comparisons["open"].verdict in ("inconclusive", *ONE_SIDED), "its processes may be in one mode by chance"
    assert {name: len(samples) for name, samples in result.samples.items()} == {"open": 5, "same": 5, "slow": 30}
    assert result.stopped is not None
    assert "of the time budget are too few for another round" in result.stopped
