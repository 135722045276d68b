"""A run that each kind of host measures by itself: one run on the fleet for each kind, merged into one report.

Each is a ``run_fleet`` in a thread. Progress is reported in the caller's thread; the caller's log is used in all.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from distributed import Client

from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice
from opduel.fleet.client import run_fleet
from opduel.fleet.hosts import kinds_there, wait_for_hosts
from opduel.fleet.merge import KindReport, merge_kinds
from opduel.fleet.run_log import entries_of
from opduel.fleet.service import connect
from opduel.harness.checkpoint import RoundLog, fingerprint
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED, Case, OpduelError, Report, RunError
from opduel.support.text import counted

POLL_S = 0.2
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
    from its log. UsageError, InterruptedRunError, RunError: as ``run_fleet``, of all kinds.
    """
    with connect(choice) as client:  # of a fleet on this machine it is also what keeps it, so that all share it
        rows = rows_of(request.cases, _kinds(request, choice, client))
        kinds = list(dict.fromkeys(row.kind for row in rows if row.kind is not None))
        log.info("fleet: %s of host: %s", counted(len(kinds), "kind"), ", ".join(kinds))
        shared = replace(request, log=_SharedLog(request.log)) if request.log is not None else request
        requests = {kind: _request_of_kind(shared, rows, kind) for kind in kinds}
        measure = run_fleet if suite is None else partial(run_fleet, suite=suite)
        return _KindRuns(requests, choice, measure).finish(rows, on_progress)


def rows_of(cases: Sequence[Case], kinds: Sequence[str]) -> list[Case]:
    """Return each case on each of the kinds; a case that has a kind, on that one only."""
    return [row for case in cases for row in ([case] if case.kind else map(case.of_kind, kinds))]


def _kinds(request: RunRequest, choice: FleetChoice, client: Client) -> Sequence[str]:
    """Return the kinds that measure the cases without a kind. Raise RunError if no host is there in time."""
    if choice.platforms or all(case.kind for case in request.cases):
        return choice.platforms
    run = _identity(request)
    if logged := next(entries_of(request, KIND, run), None):
        return [str(kind) for kind in logged["kinds"]]
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


def _request_of_kind(request: RunRequest, rows: Sequence[Case], kind: str) -> RunRequest:
    """Return the part of the request that hosts of this kind measure; the other rows are of the same family."""
    first = request.first_measurement
    failed = first.failed if first else frozenset()
    own = [row for row in rows if row.kind == kind]
    other_rows = [row for row in rows if row.kind != kind and row.metric in SAMPLED and row.id not in failed]
    first = first and first.by_kind.get(kind, first)
    return replace(request, cases=own, other_comparisons=len(other_rows), first_measurement=first)


class _KindRuns:
    """The runs of all kinds, each in a thread, until all have ended."""

    def __init__(
        self,
        requests: Mapping[str, RunRequest],
        choice: FleetChoice,
        measure: Callable[[RunRequest, FleetChoice, Callable[[Progress], None]], Report],
    ) -> None:
        self._requests, self._choice, self._measure_on = requests, choice, measure
        self._progress: dict[str, Progress] = {}
        self._reports: dict[str, Report] = {}
        self._reasons: dict[str, str] = {}  # kind -> why it has no report
        self._crash: BaseException | None = None
        self._interrupted: str | None = None

    def finish(self, rows: Sequence[Case], on_progress: Callable[[Progress], None]) -> Report:
        """Measure all kinds and return the merged report. Raise RunError if no kind has one."""
        threads = [
            threading.Thread(target=self._measure, args=item, name=item[0], daemon=True)
            for item in self._requests.items()
        ]
        for thread in threads:
            thread.start()
        while running := [thread for thread in threads if thread.is_alive()]:
            try:
                running[0].join(POLL_S)
                if self._progress and self._interrupted is None:
                    on_progress(self._progress_of_all())
            except KeyboardInterrupt as error:
                if self._interrupted is not None:
                    raise
                self._interrupted = str(error) or "interrupted"
        if self._crash is not None:
            raise self._crash
        return self._merged(rows)

    def _measure(self, kind: str, request: RunRequest) -> None:
        try:
            choice = replace(self._choice, kind=kind)
            self._reports[kind] = self._measure_on(request, choice, lambda progress: self._hear(kind, progress))
        except OpduelError as error:
            self._reasons[kind] = str(error)
            log.warning("fleet: %s: %s", kind, error)
        except KeyboardInterrupt as error:
            self._reasons[kind] = str(error)
        except BaseException as error:  # a bug, which the caller's thread raises
            self._crash = error

    def _hear(self, kind: str, progress: Progress) -> None:
        """Keep a kind's progress, in its thread. Raise KeyboardInterrupt if all runs are to end."""
        self._progress[kind] = progress
        if self._interrupted is not None or self._crash is not None:
            raise KeyboardInterrupt(self._interrupted or "another kind's run has failed")

    def _progress_of_all(self) -> Progress:
        kinds = list(self._progress.values())
        cases = sum(len(request.cases) for request in self._requests.values())
        settled_cases = sum(progress.cases - progress.open_cases for progress in kinds)
        elapsed_s, left_s = (max(progress.elapsed_s for progress in kinds), max(progress.left_s for progress in kinds))
        rounds = sum(progress.rounds for progress in kinds)
        return Progress(rounds, cases - settled_cases, cases, elapsed_s, left_s)

    def _merged(self, rows: Sequence[Case]) -> Report:
        kinds = [
            KindReport(kind, self._reports.get(kind), self._reasons.get(kind, "not measured"))
            for kind in self._requests
        ]
        if not self._reports:
            if self._interrupted is not None:
                raise InterruptedRunError(f"nothing was measured: {self._interrupted}")
            raise RunError("; ".join(dict.fromkeys(kind.why for kind in kinds)))
        resumable = any(request.log is not None for request in self._requests.values())
        return merge_kinds(kinds, rows, self._interrupted is not None, resumable)


class _SharedLog:
    """The caller's log as all kinds use it: one at a time, and each with the texts that were in it at the start."""

    def __init__(self, round_log: RoundLog) -> None:
        self._log, self._texts = round_log, tuple(round_log.rounds())
        self._lock = threading.Lock()

    def rounds(self) -> Sequence[str]:
        """Return the texts at the start, as ``RoundLog``."""
        return self._texts

    def keep(self, text: str) -> None:
        with self._lock:
            self._log.keep(text)
