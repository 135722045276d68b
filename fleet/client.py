"""A run on a fleet: sends shards to hosts, takes in their rounds and reports, and merges these into one report.

Dask only starts a shard on a free host, and may lose its state at any moment; all that came back is in the run's log.
"""

import contextlib
import json
import logging
import queue
import secrets
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distributed import Client, Future

from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice
from opduel.fleet.archives import Archives
from opduel.fleet.attempts import Attempt, make_job, reason_of_loss
from opduel.fleet.host import TOPIC, finish, measure
from opduel.fleet.hosts import hosts_of, wait_for_hosts
from opduel.fleet.job import KIND_RESOURCE, SLOT, Answer, tag_resource
from opduel.fleet.merge import HostReport, RunTiming, report_of
from opduel.fleet.run_log import KIND, count_samples, folder_of, identity, ids_of, read_run
from opduel.fleet.service import connect
from opduel.fleet.shards import Shard, cut
from opduel.fleet.slots import slots_of
from opduel.fleet.stragglers import UnderWay, pace_of, straggler
from opduel.harness.measurement_plan import Progress
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Report, RunError
from opduel.reporters.document import from_text
from opduel.support.text import counted

POLL_S = 0.3
LOOK_S = 2.0  # between looks at which hosts are there
ATTEMPTS = 4  # of one shard, whatever became of the others

log = logging.getLogger(__name__)


def run_fleet(
    request: RunRequest,
    choice: FleetChoice,
    on_progress: Callable[[Progress], None] = lambda _: None,
    suite: ChosenSuite | None = None,
) -> Report:
    """Measure the request on the hosts of a fleet. The report is as that of ``run_ab``, and names each case's host.

    With a log (``request.log``) a later start resumes this one: finished shards are not measured again, and others go
    on from their rounds if the same host takes them.

    Raises:
        UsageError: bad certificates.
        InterruptedRunError: a signal ended it before a shard was measured.
        RunError: no scheduler answers, no host of the wanted kind is there in time, or no shard could be measured.
    """
    with connect(choice) as client:
        nothing_yet = Progress(0, len(request.cases), len(request.cases), 0.0, 0.0)
        hosts = wait_for_hosts(client, choice, lambda: on_progress(nothing_yet) if choice.kind else None)
        level = logging.DEBUG if choice.priority else logging.INFO  # what is measured ahead says so itself
        of_kind = f" of the kind {choice.kind}" if choice.kind else ""
        log.log(level, "fleet: %s%s, %s", counted(len(hosts), "host"), of_kind, ", ".join(sorted(hosts)))
        with tempfile.TemporaryDirectory(prefix="opduel-archives-") as folder:
            archives = Archives(Path(folder), request, suite)
            return _FleetRun(client, choice, request, len(hosts), on_progress, archives).finish()


class _FleetRun:
    """One run: its finished and pending shards, and its log."""

    def __init__(
        self,
        client: Client,
        choice: FleetChoice,
        request: RunRequest,
        hosts: int,
        on_progress: Callable[[Progress], None],
        archives: Archives,
    ) -> None:
        self._client, self._choice, self._request = client, choice, request
        self._on_progress = on_progress
        self._began, self._started = time.monotonic(), datetime.now(UTC)
        self._run = identity(request)
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._attempts: dict[Future, Attempt] = {}
        self._todo: deque[str] = deque()  # keys of the shards that no host was given yet
        self._rounds: dict[str, int] = {}
        self._failed: Counter[str] = Counter()  # shard's key -> attempts
        self._refused: dict[str, str] = {}  # host -> why it can't measure this run
        self._addresses = hosts_of(client, choice)
        self._looked = time.monotonic()
        self._no_host_since: float | None = None  # since when no host is there
        self._slow: set[str] = set()  # hosts that get no further shard while there are others
        self._stopped: str | None = None
        self._interrupted = False
        self._unsaved = False  # something could not be written into the log
        self._hosts = hosts
        self._slots = slots_of[choice.address.text, choice.kind]
        self._archives = archives
        self._logged = read_run(request, self._run, self._cost)
        if not self._logged.shards:
            shards = cut(request.cases, self._cost, hosts, request.seed)
            self._logged.add(self._run, shards)
            self._logged.start = secrets.token_hex(8)
            self._log_entry({"event": "cut", "shards": ids_of(shards), "start": self._logged.start})
        self._folder = folder_of(self._run, self._logged.start)
        self._shards, self._finished = self._logged.shards, self._logged.finished
        # shard's key -> open cases
        self._open = {key: 0 if key in self._finished else len(shard.cases) for key, shard in self._shards.items()}

    def finish(self) -> Report:
        """Measure the shards that are not finished, and return the report of all. Raise as ``run_fleet``."""
        self._todo.extend(key for key in self._shards if key not in self._finished)
        if self._finished:
            log.info("fleet: %s of %d measured before", counted(len(self._finished), "shard"), len(self._shards))
        try:
            self._client.subscribe_topic(TOPIC, lambda event: self._events.put(event[1]))
            while (self._todo or self._attempts) and self._stopped is None:
                self._look_for_hosts()
                self._submit_what_hosts_can_take()
                self._hear()
                self._collect()
                self._relieve_a_slow_host()
                self._report_progress()
        except KeyboardInterrupt as error:
            self._stopped, self._interrupted = str(error) or "interrupted", True
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(self._attempts), force=True)
                self._client.unsubscribe_topic(TOPIC)
            self._slots.leave(self)
        return self._merged()

    def _cost(self, case: Case) -> float:
        """Return the seconds that the case took in earlier runs; 1 for each if there are none."""
        prior = self._request.prior_runs
        cost = prior.of(case) if prior else None
        return cost.seconds if cost else 1.0

    def _look_for_hosts(self) -> None:
        """Update which hosts are there. Stop the run if all refuse it, or if there is none for ``silence_s``."""
        now, was_alone = time.monotonic(), self._no_host_since
        if now - self._looked < LOOK_S:
            return
        self._addresses, self._looked = hosts_of(self._client, self._choice), now
        if self._client.status == "closed":
            self._stopped = "the scheduler does not answer any more"
        elif self._addresses and not self._eligible() and not self._attempts:
            self._stopped = "; ".join(f"{host}: {why}" for host, why in self._refused.items())
        elif self._addresses:
            self._no_host_since = None
            if was_alone is not None:
                log.info("fleet: %s, %s", counted(len(self._addresses), "host"), ", ".join(sorted(self._addresses)))
        elif was_alone is None:
            self._no_host_since = now
            log.warning("fleet: no host is there: waiting for %g s", self._choice.silence_s)
        elif now - was_alone > self._choice.silence_s:
            self._stopped = f"no host was there for {self._choice.silence_s:g} s"

    def _submit_what_hosts_can_take(self) -> None:
        """Submit a shard for each free host, unless another run is more urgent. More would be queued on busy hosts."""
        self._slots.keep(self, len(self._attempts))
        hosts = len(self._eligible())
        while self._todo and self._stopped is None and self._slots.take(self, self._choice.priority, hosts):
            key = self._todo.popleft()
            self._submit(self._shards[key], key, 1 + self._failed[key])

    def _submit(self, shard: Shard, key: str, number: int) -> None:
        choice = self._choice
        job = make_job(self._request, shard, key, self._logged, self._folder, self._archives, self._hosts)
        resources = dict.fromkeys([SLOT, *map(tag_resource, choice.tags)], 1.0)
        if choice.across and choice.kind:
            resources[KIND_RESOURCE + choice.kind] = 1.0
        chosen = choice.hosts or choice.excluded or choice.platforms or self._refused or self._slow
        workers = self._eligible() if chosen else None
        if workers == []:  # they have just gone; without any, Dask would take others
            self._todo.appendleft(key)
            return
        future = self._client.submit(
            measure,
            job,
            key=f"{key}-{number}-{secrets.token_hex(3)}",
            workers=workers,
            resources=resources,
            pure=False,
            priority=choice.priority - shard.number,
        )
        self._attempts[future] = Attempt(shard, key, number, workers)

    def _eligible(self) -> list[str]:
        """Return the addresses of the hosts that may measure; slow ones only if there are no others."""
        hosts = {name: at for name, at in self._addresses.items() if name not in self._refused}
        return [at for name, at in hosts.items() if name not in self._slow] or list(hosts.values())

    def _relieve_a_slow_host(self) -> None:
        """Ask a slow host to finish if idle hosts would settle its open cases sooner; its answer then moves these.

        A case moves once. With a time budget none does, because that ends every shard in time.
        """
        if self._todo or self._request.configuration.time_budget is not None:
            return
        idle = self._slots.free(len(self._eligible()))
        if idle < 1 or any(attempt.asked_to_finish for attempt in self._attempts.values()):
            return
        key = self._straggler(idle)
        future = next((future for future, pending in self._attempts.items() if pending.key == key), None)
        if future is None:
            return
        attempt = self._attempts[future]
        address = self._addresses.get(attempt.host or "")
        if address is None:  # it has gone, and its shard with it
            return
        attempt.asked_to_finish = time.monotonic()
        log.debug("fleet: %s is slow: asked to finish shard %d", attempt.host, attempt.shard.number)

        def ask_to_finish() -> None:  # in a thread, because a host that hangs never answers
            with contextlib.suppress(Exception):
                self._client.run(finish, future.key, workers=[address], on_error="ignore")

        threading.Thread(target=ask_to_finish, daemon=True).start()

    def _straggler(self, idle: int) -> str | None:
        """Return the key of the shard whose open cases so many idle hosts would settle sooner; None if there is none.
        A shard of cases that moved already is never chosen."""
        now = time.monotonic()
        under_way = {
            attempt.key: UnderWay(
                len(attempt.shard.cases), self._open[attempt.key], attempt.samples, now - attempt.measuring_since
            )
            for attempt in self._attempts.values()
            if attempt.host and attempt.key not in self._logged.moved
        }
        return straggler(under_way, pace_of(part.report for part in self._finished.values()), idle)

    def _move_open_cases(self, answer: Answer, attempt: Attempt, report: Report | None) -> None:
        """Keep what a slow host has settled, and put the other cases into new shards."""
        settled = {case.id for case in report.cases} if report else set[str]()
        skipped = {skipped_case.case for skipped_case in report.run.skipped} if report else set[str]()
        moving = {case.id for case in attempt.shard.cases} - settled - skipped
        cases = [case for case in attempt.shard.cases if case.id in moving]
        self._slow.add(answer.host)
        words = counted(len(cases), "open case"), attempt.shard.number
        log.info("fleet: %s is slow: other hosts take over %s of shard %d, from the start", answer.host, *words)
        part = HostReport(answer.host, report, is_whole=False) if report else None
        shards = cut(cases, self._cost, len(self._eligible()) or 1, self._request.seed)
        text = answer.report.decode() if answer.report else None
        entry = {"event": "moved", "key": attempt.key, "host": answer.host, "report": text}
        self._log_entry({**entry, "shards": ids_of(shards)})
        keys = self._logged.move(self._run, attempt.key, part, shards)
        self._open[attempt.key] = 0
        self._open |= {key: len(self._shards[key].cases) for key in keys}
        self._todo.extend(keys)

    def _hear(self) -> None:
        """Handle the events in the queue; wait up to ``POLL_S`` for the first."""
        with contextlib.suppress(queue.Empty):
            event = self._events.get(timeout=POLL_S)
            while True:
                self._take_in(event)
                event = self._events.get_nowait()

    def _take_in(self, event: dict[str, Any]) -> None:
        key = event.get("key")
        attempt = next((pending for pending in self._attempts.values() if pending.key == key), None)
        if event.get("run") != self._folder or attempt is None:
            return
        if attempt.host != event["host"]:  # Dask has given it to another, which nobody has asked to finish
            attempt.asked_to_finish = None
        attempt.host, attempt.heard_at = event["host"], time.monotonic()
        if event["event"] in ("began", "measuring"):  # the second when its builds are there
            attempt.measuring_since, attempt.samples = time.monotonic(), 0
            log.debug("fleet: shard %d %s on %s", attempt.shard.number, event["event"], attempt.host)
        elif event["event"] == "progress":
            self._open[attempt.key], self._rounds[attempt.key] = event["open"], event["rounds"]
        elif event["event"] == "round":
            attempt.samples += count_samples(event["text"])
            self._log_entry({"event": "round", "key": key, "host": event["host"], "text": event["text"]})

    def _collect(self) -> None:
        """Take in the attempts that have ended, and retry those that failed."""
        for future, attempt in list(self._attempts.items()):
            status = future.status
            why = attempt.reason_to_give_up(self._eligible(), self._choice.silence_s) if status == "pending" else ""
            if status == "pending" and not why:
                continue
            del self._attempts[future]
            if status == "finished":
                self._take_answer(future.result(), attempt)
            elif status == "pending":
                self._client.cancel([future], force=True)
                if attempt.host:
                    self._slow.add(attempt.host)
                self._retry(attempt, why, None)
            else:  # its worker died, or the scheduler has forgotten it
                self._retry(attempt, reason_of_loss(future, attempt.shard), None)

    def _take_answer(self, answer: Answer, attempt: Attempt) -> None:
        if answer.needs:
            self._send(answer, attempt)
            return
        if answer.refusal is not None:
            self._retry(attempt, answer.refusal, answer.host)
            return
        text = answer.report.decode() if answer.report else ""
        report = from_text(text) if answer.report else None
        if report is None or len(report.cases) + len(report.run.skipped) < len(attempt.shard.cases):
            self._move_open_cases(answer, attempt, report)
            return
        budget = {"time_budget": self._request.configuration.time_budget}
        self._log_entry({"event": "report", "key": attempt.key, "host": answer.host, "report": text, **budget})
        self._finished[attempt.key] = HostReport(answer.host, report)
        self._open[attempt.key] = 0

    def _send(self, answer: Answer, attempt: Attempt) -> None:
        """Send a host the archives that it needs, and submit its shard again."""
        address = self._addresses.get(answer.host)
        try:
            why = self._archives.send(self._client, answer.host, address, answer.needs) if address else "has gone"
        except OSError as error:  # Dask's errors of connections, too
            self._retry(attempt, f"{answer.host}: {error}", None)
            return
        except RunError as error:  # what is to be sent can't be had here; another host may have it already
            self._retry(attempt, str(error), answer.host)
            return
        if why and address:
            self._retry(attempt, why, answer.host)
        else:
            self._submit(attempt.shard, attempt.key, attempt.number)

    def _retry(self, attempt: Attempt, why: str, refused_by: str | None) -> None:
        """Queue the shard for the next free host; ``refused_by`` gets no further shard of this run."""
        if refused_by is not None:
            self._refused[refused_by] = why
        log.warning("fleet: %s%s", f"{refused_by}: " if refused_by else "", why)
        if attempt.number == ATTEMPTS:
            self._stopped = f"shard {attempt.shard.number} failed {ATTEMPTS} times: {why}"
        else:
            self._failed[attempt.key] = attempt.number
            self._todo.appendleft(attempt.key)

    def _log_entry(self, entry: dict[str, Any]) -> None:
        if self._request.log is None:
            return
        try:
            self._request.log.keep(json.dumps({"kind": KIND, "run": self._run, **entry}))
        except OSError as error:
            level = logging.DEBUG if self._unsaved else logging.WARNING  # warn about a full disk once
            log.log(level, "what hosts send cannot be saved; a resumed run will measure it again: %s", error)
            self._unsaved = True

    def _report_progress(self) -> None:
        elapsed_s = time.monotonic() - self._began
        cases, still_open = len(self._request.cases), sum(self._open.values())
        settled = max(1, cases - still_open)
        left_s = elapsed_s * still_open / settled
        rounds, hosts = sum(self._rounds.values()), len(self._addresses)
        self._on_progress(Progress(rounds, still_open, cases, elapsed_s, left_s, hosts=hosts))

    def _merged(self) -> Report:
        report_by_shard = self._logged.earlier | self._finished
        parts = [report_by_shard[key] for key in self._shards if key in report_by_shard]
        course = RunTiming(self._started, time.monotonic() - self._began, self._stopped, self._interrupted)
        return report_of(self._request, parts, course, self._logged.given_up)
