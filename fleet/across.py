"""A run that each kind of host measures by itself: a run on a fleet for each, at the same time; one report of them all.

Each is as ``run_fleet`` makes it, in a thread of its own. What is the caller's (its log, its progress) is used in the
caller's thread alone.
"""

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial

from distributed import Client

from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice
from opduel.fleet.client import run_fleet
from opduel.fleet.hosts import kinds_there, wait_for_hosts
from opduel.fleet.merge import KindReport, merge_kinds
from opduel.fleet.service import connect
from opduel.harness.checkpoint import RoundLog, fingerprint
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED, Case, OpduelError, Report, RunError
from opduel.records.files import UnreadableError, parse_json
from opduel.records.text import counted

POLL_S = 0.2
GRACE_S = 10.0  # for the caller's thread to do what a kind's asked for, once it was interrupted
KIND = "fleet kinds"  # of this run's text in a log

log = logging.getLogger(__name__)


def run_across(
    request: RunRequest,
    choice: FleetChoice,
    on_progress: Callable[[Progress], None] = lambda _: None,
    suite: ChosenSuite | None = None,
) -> Report:
    """Measure all cases on each kind of host (``choice.each_kind``), but a case that has a kind already on that alone.

    A row of the report is a case on a kind of host. A kind that has no host in time, or whose run failed, has rows
    without figures, and the run is then not completed. The kinds that are there when a run begins are its kinds; with a
    log, also of every further start.

    Raises:
        UsageError, InterruptedRunError, RunError: as ``run_fleet``, of all kinds.
    """
    with connect(choice) as client:  # of a fleet on this machine it is also what keeps it, so that all share it
        rows = rows_of(request.cases, _kinds(request, choice, client))
        kinds = list(dict.fromkeys(row.kind for row in rows if row.kind is not None))
        log.info("fleet: %s of host: %s", counted(len(kinds), "kind"), ", ".join(kinds))
        runs = [_of_kind(request, rows, kind) for kind in kinds]
        measure = run_fleet if suite is None else partial(run_fleet, suite=suite)
        return _Runs(runs, choice, measure, on_progress).finish(rows, request.log)


def rows_of(cases: Sequence[Case], kinds: Sequence[str]) -> list[Case]:
    """Each case on each of the kinds; one that has a kind already on that alone."""
    return [row for case in cases for row in ([case] if case.kind else map(case.of_kind, kinds))]


def _kinds(request: RunRequest, choice: FleetChoice, client: Client) -> Sequence[str]:
    """The kinds that measure the cases that are of none yet. RunError: no host is there in time."""
    if choice.platforms or all(case.kind for case in request.cases):
        return choice.platforms
    run = _identity(request)
    if found := _kept_kinds(request, run):
        return found
    wait_for_hosts(client, choice)
    kinds = kinds_there(client, choice)
    if not kinds:
        raise RunError("--across hosts: no worker says of which kind its host is: install this version on all hosts")
    if request.log is not None:
        try:
            request.log.keep(json.dumps({"kind": KIND, "run": run, "kinds": kinds}))
        except OSError as error:
            log.warning("the kinds of host could not be saved; a resumed run takes those that it finds: %s", error)
    return kinds


def _identity(request: RunRequest) -> str:
    """Of what is measured: another run in the same log may have other kinds."""
    builds = [request.control.digest, request.treatment.digest]
    return fingerprint(
        {"builds": builds, "cases": [case.measured_by() for case in request.cases], "seed": request.seed}
    )


def _kept_kinds(request: RunRequest, run: str) -> list[str]:
    """The kinds that the run began with, if its log says so."""
    for text in request.log.rounds() if request.log else ():
        with contextlib.suppress(UnreadableError):
            entry = parse_json(text)
            if isinstance(entry, dict) and (entry.get("kind"), entry.get("run")) == (KIND, run):
                return [str(kind) for kind in entry["kinds"]]
    return []


def _of_kind(request: RunRequest, rows: Sequence[Case], kind: str) -> "_KindRun":
    """The part of the request that hosts of this kind measure; the rows of others are of the same family."""
    first = request.first_measurement
    failed = first.failed if first else frozenset()
    own = [row for row in rows if row.kind == kind]
    others = [row for row in rows if row.kind != kind and row.metric in SAMPLED and row.id not in failed]
    first = first and first.by_kind.get(kind, first)
    return _KindRun(kind, replace(request, cases=own, elsewhere=len(others), first_measurement=first))


@dataclass(frozen=True)
class _KindRun:
    kind: str
    request: RunRequest


class _Runs:
    """The runs of all kinds, each in a thread, until all have ended."""

    def __init__(
        self,
        runs: Sequence[_KindRun],
        choice: FleetChoice,
        measure: Callable[[RunRequest, FleetChoice, Callable[[Progress], None]], Report],
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._runs, self._choice, self._measure_on, self._on_progress = runs, choice, measure, on_progress
        self._asked: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        self._progress: dict[str, Progress] = {}
        self._reports: dict[str, Report] = {}
        self._why: dict[str, str] = {}  # kind -> why it has no report
        self._crash: BaseException | None = None
        self._interrupted: str | None = None

    def finish(self, rows: Sequence[Case], rounds: RoundLog | None) -> Report:
        """The report of all. Raises RunError: there is none of any kind."""
        kept = () if rounds is None else tuple(rounds.rounds())
        threads = []
        for one in self._runs:
            relayed = None if rounds is None else _RelayedLog(kept, rounds, self._in_callers_thread)
            own = replace(one, request=replace(one.request, log=relayed))
            threads.append(threading.Thread(target=self._measure, args=(own,), name=one.kind, daemon=True))
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                self._serve()
                self._tell()
            except KeyboardInterrupt as error:
                if self._interrupted is not None:
                    raise
                self._interrupted = str(error) or "interrupted"
        if self._crash is not None:
            raise self._crash
        return self._merged(rows)

    def _measure(self, one: _KindRun) -> None:
        """In a thread of its own: the run of one kind."""
        try:
            choice = replace(self._choice, kind=one.kind)
            self._reports[one.kind] = self._measure_on(one.request, choice, lambda told: self._hear(one.kind, told))
        except OpduelError as error:
            self._why[one.kind] = str(error)
            log.warning("fleet: %s: %s", one.kind, error)
        except KeyboardInterrupt as error:
            self._why[one.kind] = str(error)
        except BaseException as error:  # a fault of ours, which the caller's thread raises
            self._crash = error

    def _hear(self, kind: str, progress: Progress) -> None:
        """Called in a kind's thread. KeyboardInterrupt: all is to end."""
        self._progress[kind] = progress
        if self._interrupted is not None or self._crash is not None:
            raise KeyboardInterrupt(self._interrupted or "another kind's run has failed")

    def _in_callers_thread(self, action: Callable[[], None]) -> None:
        """Called in a kind's thread: have the caller's thread do it, and wait for that. OSError: it was interrupted."""
        done: Future[None] = Future()
        self._asked.put((action, done))
        while not done.done():
            wait([done], GRACE_S)
            if self._interrupted is not None and not done.done():
                raise OSError("interrupted")
        done.result()

    def _serve(self) -> None:
        """Do what threads asked for; wait a moment for the first."""
        end = time.monotonic() + POLL_S
        while (left := end - time.monotonic()) > 0:
            try:
                action, done = self._asked.get(timeout=left)
            except queue.Empty:
                return
            try:
                action()
            except Exception as error:
                done.set_exception(error)
            except BaseException:  # a signal: the thread must not wait for ever
                done.set_exception(OSError("interrupted"))
                raise
            else:
                done.set_result(None)

    def _tell(self) -> None:
        told = list(self._progress.values())
        if not told or self._interrupted is not None:
            return
        cases = sum(len(one.request.cases) for one in self._runs)
        done = sum(one.cases - one.open_cases for one in told)
        rounds, elapsed_s, left_s = (
            sum(one.rounds for one in told),
            max(one.elapsed_s for one in told),
            max(one.left_s for one in told),
        )
        self._on_progress(Progress(rounds, cases - done, cases, elapsed_s, left_s))

    def _merged(self, rows: Sequence[Case]) -> Report:
        parts = [
            KindReport(one.kind, self._reports.get(one.kind), self._why.get(one.kind, "not measured"))
            for one in self._runs
        ]
        if not self._reports:
            if self._interrupted is not None:
                raise InterruptedRunError(f"nothing was measured: {self._interrupted}")
            raise RunError("; ".join(dict.fromkeys(part.why for part in parts)))
        resumable = any(one.request.log is not None for one in self._runs)
        return merge_kinds(parts, rows, self._interrupted is not None, resumable)


@dataclass(frozen=True)
class _RelayedLog:
    """The caller's log as a kind's thread uses it. ``kept``: the texts that it had at the start."""

    kept: Sequence[str]
    log: RoundLog
    in_callers_thread: Callable[[Callable[[], None]], None]

    def rounds(self) -> Sequence[str]:
        """As ``RoundLog`` has it, as of the start."""
        return self.kept

    def keep(self, text: str) -> None:
        """As ``RoundLog`` has it."""
        self.in_callers_thread(lambda: self.log.keep(text))
