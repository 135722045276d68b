"""A run that each kind of host measures by itself: one run on the fleet for each kind, merged into one report.

Each is a ``run_fleet`` in a thread. The caller's log and progress are used in the caller's thread only.
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
from opduel.support.files import UnreadableError, parse_json
from opduel.support.text import counted

POLL_S = 0.2
GRACE_S = 10.0  # for the caller's thread to serve a request after an interrupt
KIND = "fleet kinds"  # of this run's text in a log

log = logging.getLogger(__name__)


def run_across(
    request: RunRequest,
    choice: FleetChoice,
    on_progress: Callable[[Progress], None] = lambda _: None,
    suite: ChosenSuite | None = None,
) -> Report:
    """Measure all cases on each kind of host (``choice.each_kind``); a case that has a kind, on that one only.

    A row of the report is a case on a kind of host. A kind without a host in time, or whose run failed, has rows
    without figures, and the run is incomplete. The kinds are those of the hosts at the start; a resumed run takes them
    from its log.

    Raises:
        UsageError, InterruptedRunError, RunError: as ``run_fleet``, of all kinds.
    """
    with connect(choice) as client:  # of a fleet on this machine it is also what keeps it, so that all share it
        rows = rows_of(request.cases, _kinds(request, choice, client))
        kinds = list(dict.fromkeys(row.kind for row in rows if row.kind is not None))
        log.info("fleet: %s of host: %s", counted(len(kinds), "kind"), ", ".join(kinds))
        runs = [_kind_run(request, rows, kind) for kind in kinds]
        measure = run_fleet if suite is None else partial(run_fleet, suite=suite)
        return _Runs(runs, choice, measure, on_progress).finish(rows, request.log)


def rows_of(cases: Sequence[Case], kinds: Sequence[str]) -> list[Case]:
    """Return each case on each of the kinds; a case that has a kind, on that one only."""
    return [row for case in cases for row in ([case] if case.kind else map(case.of_kind, kinds))]


def _kinds(request: RunRequest, choice: FleetChoice, client: Client) -> Sequence[str]:
    """Return the kinds that measure the cases without a kind. Raise RunError if no host is there in time."""
    if choice.platforms or all(case.kind for case in request.cases):
        return choice.platforms
    run = _identity(request)
    if logged_kinds := _kept_kinds(request, run):
        return logged_kinds
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
    """Return what identifies the run, since another run in the same log may have other kinds."""
    builds = [request.control.digest, request.treatment.digest]
    return fingerprint(
        {"builds": builds, "cases": [case.measured_by() for case in request.cases], "seed": request.seed}
    )


def _kept_kinds(request: RunRequest, run: str) -> list[str]:
    """Return the kinds in the run's log; [] if there are none."""
    for text in request.log.rounds() if request.log else ():
        with contextlib.suppress(UnreadableError):
            entry = parse_json(text)
            if isinstance(entry, dict) and (entry.get("kind"), entry.get("run")) == (KIND, run):
                return [str(kind) for kind in entry["kinds"]]
    return []


def _kind_run(request: RunRequest, rows: Sequence[Case], kind: str) -> "_KindRun":
    """Return the part of the request that hosts of this kind measure; the other rows are of the same family."""
    first = request.first_measurement
    failed = first.failed if first else frozenset()
    own = [row for row in rows if row.kind == kind]
    other_rows = [row for row in rows if row.kind != kind and row.metric in SAMPLED and row.id not in failed]
    first = first and first.by_kind.get(kind, first)
    return _KindRun(kind, replace(request, cases=own, other_comparisons=len(other_rows), first_measurement=first))


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
        self._requests: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        self._progress: dict[str, Progress] = {}
        self._reports: dict[str, Report] = {}
        self._reasons: dict[str, str] = {}  # kind -> why it has no report
        self._crash: BaseException | None = None
        self._interrupted: str | None = None

    def finish(self, rows: Sequence[Case], rounds: RoundLog | None) -> Report:
        """Measure all kinds and return the merged report. Raise RunError if no kind has one."""
        logged_texts = () if rounds is None else tuple(rounds.rounds())
        threads = []
        for kind_run in self._runs:
            relayed = None if rounds is None else _RelayedLog(logged_texts, rounds, self._in_callers_thread)
            own = replace(kind_run, request=replace(kind_run.request, log=relayed))
            threads.append(threading.Thread(target=self._measure, args=(own,), name=kind_run.kind, daemon=True))
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                self._serve()
                self._report_progress()
            except KeyboardInterrupt as error:
                if self._interrupted is not None:
                    raise
                self._interrupted = str(error) or "interrupted"
        if self._crash is not None:
            raise self._crash
        return self._merged(rows)

    def _measure(self, kind_run: _KindRun) -> None:
        """Measure one kind, in its thread."""
        try:
            choice = replace(self._choice, kind=kind_run.kind)
            self._reports[kind_run.kind] = self._measure_on(
                kind_run.request, choice, lambda progress: self._hear(kind_run.kind, progress)
            )
        except OpduelError as error:
            self._reasons[kind_run.kind] = str(error)
            log.warning("fleet: %s: %s", kind_run.kind, error)
        except KeyboardInterrupt as error:
            self._reasons[kind_run.kind] = str(error)
        except BaseException as error:  # a bug, which the caller's thread raises
            self._crash = error

    def _hear(self, kind: str, progress: Progress) -> None:
        """Keep a kind's progress, in its thread. Raise KeyboardInterrupt if all runs are to end."""
        self._progress[kind] = progress
        if self._interrupted is not None or self._crash is not None:
            raise KeyboardInterrupt(self._interrupted or "another kind's run has failed")

    def _in_callers_thread(self, action: Callable[[], None]) -> None:
        """Have the caller's thread do it, and wait, in a kind's thread. Raise OSError if that was interrupted."""
        outcome: Future[None] = Future()
        self._requests.put((action, outcome))
        while not outcome.done():
            wait([outcome], GRACE_S)
            if self._interrupted is not None and not outcome.done():
                raise OSError("interrupted")
        outcome.result()

    def _serve(self) -> None:
        """Do what the kinds' threads request, for ``POLL_S``."""
        end = time.monotonic() + POLL_S
        while (remaining_s := end - time.monotonic()) > 0:
            try:
                action, outcome = self._requests.get(timeout=remaining_s)
            except queue.Empty:
                return
            try:
                action()
            except Exception as error:
                outcome.set_exception(error)
            except BaseException:  # a signal: the thread must not wait for ever
                outcome.set_exception(OSError("interrupted"))
                raise
            else:
                outcome.set_result(None)

    def _report_progress(self) -> None:
        progress_of_kinds = list(self._progress.values())
        if not progress_of_kinds or self._interrupted is not None:
            return
        cases = sum(len(kind_run.request.cases) for kind_run in self._runs)
        settled_cases = sum(progress.cases - progress.open_cases for progress in progress_of_kinds)
        rounds, elapsed_s, left_s = (
            sum(progress.rounds for progress in progress_of_kinds),
            max(progress.elapsed_s for progress in progress_of_kinds),
            max(progress.left_s for progress in progress_of_kinds),
        )
        self._on_progress(Progress(rounds, cases - settled_cases, cases, elapsed_s, left_s))

    def _merged(self, rows: Sequence[Case]) -> Report:
        parts = [
            KindReport(
                kind_run.kind, self._reports.get(kind_run.kind), self._reasons.get(kind_run.kind, "not measured")
            )
            for kind_run in self._runs
        ]
        if not self._reports:
            if self._interrupted is not None:
                raise InterruptedRunError(f"nothing was measured: {self._interrupted}")
            raise RunError("; ".join(dict.fromkeys(part.why for part in parts)))
        resumable = any(kind_run.request.log is not None for kind_run in self._runs)
        return merge_kinds(parts, rows, self._interrupted is not None, resumable)


@dataclass(frozen=True)
class _RelayedLog:
    """The caller's log as a kind's thread uses it; ``texts`` were in it at the start."""

    texts: Sequence[str]
    log: RoundLog
    in_callers_thread: Callable[[Callable[[], None]], None]

    def rounds(self) -> Sequence[str]:
        """Return the texts at the start, as ``RoundLog``."""
        return self.texts

    def keep(self, text: str) -> None:
        """Append a text, as ``RoundLog``."""
        self.in_callers_thread(lambda: self.log.keep(text))
