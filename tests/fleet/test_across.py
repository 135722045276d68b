"""The runs of all kinds at the same time: what each is asked for, and what becomes of all if one fails or all end.

What a kind's hosts would measure is made up here; tests/end_to_end/test_fleet_across.py has real ones.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_samples import a_case
from report_samples import CONTROL, TREATMENT, comparison, report

from opduel.fleet import across
from opduel.fleet.address import FleetChoice, parse_address
from opduel.frameworks import get_framework
from opduel.harness.measurement_plan import FirstMeasurement, Progress
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_request import RunRequest
from opduel.records import Report, RunError

CASES = (a_case("a"), a_case("b"), a_case("b/memory", metric="memory"), a_case("b/error", metric="error"))
BY_TAG = FleetChoice(parse_address("tcp://bench:1"), Path("/nowhere"), platforms=("old", "new"))
BY_HOST = replace(BY_TAG, platforms=(), across=True)
PROGRESS = Progress(2, 1, 4, 3.0, 4.0)


class Log:
    """A log that serves one thread at a time."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._lock = threading.Lock()

    def rounds(self) -> Sequence[str]:
        return list(self.texts)

    def keep(self, text: str) -> None:
        assert self._lock.acquire(blocking=False)
        time.sleep(0.01)
        self.texts.append(text)
        self._lock.release()


class Hosts:
    """Stands in for the hosts of each kind; ``do`` is what a kind's run does before it has its report."""

    def __init__(self) -> None:
        self.there = ["new", "old"]
        self.request_by_kind: dict[str, RunRequest] = {}
        self.do: Callable[[str, RunRequest, Callable[[Progress], None]], None] = lambda *_: None

    def run(self, request: RunRequest, choice: FleetChoice, on_progress: Callable[[Progress], None]) -> Report:
        assert choice.kind is not None
        self.request_by_kind[choice.kind] = request
        self.do(choice.kind, request, on_progress)
        fleet = {"hosts": [{"name": f"host-{choice.kind}"}]}
        return report([comparison(case.id) for case in request.cases], fleet=fleet, id=f"run-{choice.kind}")


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    fleet_hosts = Hosts()
    monkeypatch.setattr(across, "connect", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(across, "wait_for_hosts", lambda *_: {"host": "there"})
    monkeypatch.setattr(across, "kinds_there", lambda *_: fleet_hosts.there)
    monkeypatch.setattr(across, "run_fleet", fleet_hosts.run)
    return fleet_hosts


def a_request(**changes: Any) -> RunRequest:
    request = RunRequest(get_framework("mxnet"), CONTROL, TREATMENT, CASES, seed=1)
    return replace(request, **changes)


def test_each_kind_is_asked_for_all_cases_in_the_family_of_all(hosts: Hosts) -> None:
    report = across.run_across(a_request(), BY_TAG)
    assert [row.case for row in report.comparisons] == [
        *("a@old", "a@new", "b@old", "b@new", "b@old/memory", "b@new/memory", "b@old/error", "b@new/error")
    ]
    assert {kind: [case.id for case in request.cases] for kind, request in hosts.request_by_kind.items()} == {
        kind: [f"a@{kind}", f"b@{kind}", f"b@{kind}/memory", f"b@{kind}/error"] for kind in ("old", "new")
    }
    # the sampled rows of the other kind; an error is not tested
    assert {kind: request.other_comparisons for kind, request in hosts.request_by_kind.items()} == {"old": 3, "new": 3}


def test_rows_of_an_earlier_report_go_to_their_kinds(hosts: Hosts) -> None:
    rows = (CASES[0].of_kind("new"), CASES[1].of_kind("new"), CASES[1].of_kind("old"))
    firsts = {kind: FirstMeasurement({}, {}, frozenset({kind}), ()) for kind in ("old", "new")}
    first = FirstMeasurement({}, {}, frozenset(), (), failed=frozenset({"b@new"}), by_kind=firsts)
    hosts.there = []  # it is known which kinds are wanted
    report = across.run_across(a_request(cases=rows, first_measurement=first), BY_HOST)
    assert [row.case for row in report.comparisons] == ["a@new", "b@new", "b@old"]
    assert {kind: request.other_comparisons for kind, request in hosts.request_by_kind.items()} == {
        "new": 1,
        "old": 1,
    }  # of b@new nothing
    assert {kind: request.first_measurement for kind, request in hosts.request_by_kind.items()} == firsts


def test_the_kinds_of_a_run_are_those_that_it_began_with(hosts: Hosts) -> None:
    log = Log()
    first = across.run_across(a_request(log=log), BY_HOST)
    hosts.there = ["newest", "old"]
    again = across.run_across(a_request(log=log), BY_HOST)
    assert [row.kind for row in again.comparisons] == [row.kind for row in first.comparisons]
    other = across.run_across(a_request(log=log, seed=2), BY_HOST)  # another run
    assert {row.kind for row in other.comparisons} == {"newest", "old"}


def test_kinds_share_the_callers_log_and_progress_is_told_in_its_thread(hosts: Hosts) -> None:
    log, progress_reports, caller = Log(), [], threading.get_ident()
    log.texts.append("kept before")

    def do(kind: str, request: RunRequest, on_progress: Callable[[Progress], None]) -> None:
        assert threading.get_ident() != caller
        assert request.log is not None
        assert list(request.log.rounds()) == ["kept before"]
        for number in range(3):
            request.log.keep(f"{kind} {number}")
        on_progress(PROGRESS)

    def hear(progress: Progress) -> None:
        assert threading.get_ident() == caller
        progress_reports.append(progress)

    hosts.do = do
    across.run_across(a_request(log=log), BY_TAG, hear)
    assert sorted(log.texts[1:]) == [f"{kind} {number}" for kind in ("new", "old") for number in range(3)]
    assert progress_reports[-1].cases == 8


def test_what_cannot_be_kept_is_an_error_where_it_was_measured(hosts: Hosts) -> None:
    class Full(Log):
        def keep(self, text: str) -> None:
            raise OSError(28, "No space left on device")

    errors = []

    def do(kind: str, request: RunRequest, on_progress: object) -> None:
        assert request.log is not None
        try:
            request.log.keep(json.dumps(kind))
        except OSError as error:
            errors.append(error.errno)

    hosts.do = do
    across.run_across(a_request(log=Full()), BY_TAG)
    assert errors == [28, 28]


def test_a_kind_that_fails_leaves_the_others(hosts: Hosts) -> None:
    def do(kind: str, *_: object) -> None:
        if kind == "new":
            raise RunError("no worker is there")

    hosts.do = do
    report = across.run_across(a_request(), BY_TAG)
    assert (report.run.aborted, report.run.stop_reason) == (True, "new: no worker is there")
    assert {row.kind for row in report.comparisons if row.rounds} == {"old"}


def test_without_any_it_is_the_error_of_each_once(hosts: Hosts) -> None:
    def do(*_: object) -> None:
        raise RunError("no worker is there")

    hosts.do = do
    with pytest.raises(RunError, match=r"^no worker is there$"):
        across.run_across(a_request(), BY_TAG)


def test_a_fault_of_ours_is_raised(hosts: Hosts) -> None:
    def do(kind: str, request: RunRequest, on_progress: Callable[[Progress], None]) -> None:
        if kind == "new":
            raise ZeroDivisionError
        until_interrupted(kind, request, on_progress)

    hosts.do = do
    with pytest.raises(ZeroDivisionError):
        across.run_across(a_request(), BY_TAG)


def until_interrupted(kind: str, request: RunRequest, on_progress: Callable[[Progress], None]) -> None:
    """A run that goes on until it is interrupted."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        on_progress(PROGRESS)
        time.sleep(0.01)


def interrupt(_: Progress) -> None:
    raise KeyboardInterrupt("SIGTERM")


def test_an_interruption_ends_all_kinds(hosts: Hosts) -> None:
    hosts.do = until_interrupted
    with pytest.raises(InterruptedRunError, match="nothing was measured: SIGTERM"):
        across.run_across(a_request(), BY_TAG, interrupt)


def test_an_interruption_keeps_what_was_measured(hosts: Hosts) -> None:
    over = threading.Event()

    def do(kind: str, request: RunRequest, on_progress: Callable[[Progress], None]) -> None:
        if kind == "old":
            over.set()
        else:
            over.wait()
            until_interrupted(kind, request, on_progress)

    hosts.do = do
    report = across.run_across(a_request(log=Log()), BY_TAG, interrupt)
    assert (report.run.interrupted, report.run.resumable) == (True, True)
    assert {row.kind for row in report.comparisons if row.rounds} == {"old"}
