"""A run on a fleet: its shards to hosts, their rounds and reports back, one report of them all.

Dask is asked for nothing but to start a shard on a host that is free, and may forget everything at any moment: what has
come back is in the run's log, which is the truth.
"""

import contextlib
import json
import logging
import queue
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from distributed import Client, Future, KilledWorker

from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice
from opduel.fleet.archives import Archives
from opduel.fleet.host import TOPIC, finish, measure
from opduel.fleet.host_states import LOST, HostStates
from opduel.fleet.hosts import hosts_of, wait_for_hosts
from opduel.fleet.job import KIND_RESOURCE, SLOT, Answer, Job, shard_configuration, tag_resource
from opduel.fleet.merge import HostReport
from opduel.fleet.outcome import Course, of_family, report_of
from opduel.fleet.run_log import KIND, count_samples, folder_of, identity, ids_of, read_run
from opduel.fleet.service import connect, dashboard_of
from opduel.fleet.shards import Shard, cut
from opduel.fleet.slots import slots_of
from opduel.fleet.stragglers import UnderWay, pace_of, straggler
from opduel.harness.measurement_plan import Progress
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED, Case, Report, RunError
from opduel.records.text import counted, one_line
from opduel.reporters.document import from_text

POLL_S = 0.3
LOOK_S = 2.0  # between looks at which hosts are there
ATTEMPTS = 4  # of one shard, whatever became of the others
FINISH_S = 60.0  # for a host that was asked to finish

log = logging.getLogger(__name__)


def run_fleet(
    request: RunRequest,
    choice: FleetChoice,
    on_progress: Callable[[Progress], None] = lambda _: None,
    suite: ChosenSuite | None = None,
) -> Report:
    """Measure both builds against each other on the hosts of a fleet; the report is as that of ``run_ab``, and says of
    each case which host it was measured on. ``suite``: the one that the cases are of, if they are of one.

    With a log (``request.log``) a further start goes on where this one ended, however that was: shards that were
    measured are not measured again, and the others go on from their rounds where the same host takes them.

    Raises:
        UsageError: bad certificates.
        InterruptedRunError: a signal ended it before a shard was measured.
        RunError: no scheduler answers, no host of the wanted kind is there in time, or no shard could be measured.
    """
    with connect(choice) as client:
        hosts = wait_for_hosts(client, choice, lambda: on_progress(_nothing_yet(request)) if choice.kind else None)
        level = logging.DEBUG if choice.priority else logging.INFO  # what is measured ahead says so itself
        of_kind = f" of the kind {choice.kind}" if choice.kind else ""
        log.log(level, "fleet: %s%s, %s", counted(len(hosts), "host"), of_kind, ", ".join(sorted(hosts)))
        if dashboard := dashboard_of(client, choice):
            log.log(level, "fleet: dashboard at %s", dashboard)
        with Archives.of(request, suite) as archives:
            return _FleetRun(client, choice, request, len(hosts), on_progress, archives).finish()


def _nothing_yet(request: RunRequest) -> Progress:
    return Progress(0, len(request.cases), len(request.cases), 0.0, 0.0)


@dataclass
class _Attempt:
    """A shard on its way: which attempt it is, the workers that may take it (None: all), the host that has begun with
    it, and when; how many samples came from there, when something was heard of it, and when it was asked to finish."""

    shard: Shard
    key: str
    number: int
    workers: list[str] | None = None
    host: str | None = None
    began: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    samples: int = 0
    told: float | None = None


class _FleetRun:
    """One run: what of it is done, what is on its way, and what is kept of both."""

    def __init__(
        self,
        client: Client,
        choice: FleetChoice,
        request: RunRequest,
        hosts: int,
        on_progress: Callable[[Progress], None],
        archives: "Archives",
    ) -> None:
        self._client, self._choice, self._request = client, choice, request
        self._on_progress = on_progress
        self._began, self._started = time.monotonic(), datetime.now(UTC)
        self._run = identity(request)
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._pending: dict[Future, _Attempt] = {}
        self._todo: deque[str] = deque()  # keys of the shards that no host was given yet
        self._open: dict[str, int] = {}  # shard's key -> open cases
        self._rounds: dict[str, int] = {}
        self._failed: Counter[str] = Counter()  # shard's key -> attempts
        self._refused: dict[str, str] = {}  # host -> why it can't measure this run
        self._there = hosts_of(client, choice)
        self._looked = time.monotonic()
        self._alone: float | None = None  # since when no host is there
        self._slow: set[str] = set()  # hosts that get no further shard while there are others
        self._stopped: str | None = None
        self._interrupted = False
        self._unsaved = False  # something could not be written into the log
        self._hosts = hosts
        self._slots = slots_of[choice.address.text, choice.kind]
        self._archives = archives
        self._states = HostStates()
        self._states.see(self._there)
        self._kept = read_run(request, self._run, self._cost)
        if not self._kept.shards:
            shards = cut(request.cases, self._cost, hosts, request.seed)
            self._kept.add(self._run, shards)
            self._kept.start = secrets.token_hex(8)
            self._keep({"event": "cut", "shards": ids_of(shards), "start": self._kept.start})
        self._folder = folder_of(self._run, self._kept.start)
        self._shards, self._done = self._kept.shards, self._kept.finished
        self._open = {key: 0 if key in self._done else len(one.cases) for key, one in self._shards.items()}

    def finish(self) -> Report:
        """Measure what is not measured yet; the report of all. Raises RunError: as ``run_fleet``."""
        self._todo.extend(key for key in self._shards if key not in self._done)
        if self._done:
            log.info("fleet: %s of %d measured before", counted(len(self._done), "shard"), len(self._shards))
        try:
            with self._listening():
                while (self._todo or self._pending) and self._stopped is None:
                    self._look_for_hosts()
                    self._submit_what_hosts_can_take()
                    self._hear()
                    self._collect()
                    self._relieve_a_slow_host()
                    self._tell()
        except KeyboardInterrupt as error:
            self._stopped, self._interrupted = str(error) or "interrupted", True
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(self._pending), force=True)
            self._slots.leave(self)
        return self._merged()

    def _cost(self, case: Case) -> float:
        """What earlier runs say that it costs; without any, all cost the same."""
        prior = self._request.prior_runs
        known = prior.of(case) if prior else None
        return known.seconds if known else 1.0

    def _look_for_hosts(self) -> None:
        """See which hosts are there, and say when none is; the run ends when that lasts as long as no host may be
        silent, or when all refuse it."""
        now, was_alone = time.monotonic(), self._alone
        if now - self._looked < LOOK_S:
            return
        self._there, self._looked = hosts_of(self._client, self._choice), now
        self._states.see(self._there)
        if self._client.status == "closed":
            self._stopped = "the scheduler does not answer any more"
        elif self._there and not self._eligible() and not self._pending:
            self._stopped = "; ".join(f"{host}: {why}" for host, why in self._refused.items())
        elif self._there:
            self._alone = None
            if was_alone is not None:
                log.info("fleet: %s, %s", counted(len(self._there), "host"), ", ".join(sorted(self._there)))
        elif was_alone is None:
            self._alone = now
            log.warning("fleet: no host is there: waiting for %g s", self._choice.silence_s)
        elif now - was_alone > self._choice.silence_s:
            self._stopped = f"no host was there for {self._choice.silence_s:g} s"

    def _submit_what_hosts_can_take(self) -> None:
        """Submit a shard for each host that has none, if no other run is more urgent: Dask would give a host several at
        once, and leave them there."""
        self._slots.keep(self, len(self._pending))
        hosts = len(self._eligible())
        while self._todo and self._stopped is None and self._slots.take(self, self._choice.priority, hosts):
            key = self._todo.popleft()
            self._submit(self._shards[key], key, 1 + self._failed[key])

    def _submit(self, shard: Shard, key: str, number: int) -> None:
        choice, request = self._choice, self._request
        first = request.first_measurement
        failed = first.failed if first else frozenset()
        own = {case.id for case in shard.cases}
        elsewhere = [
            one for one in request.cases if one.metric in SAMPLED and one.id not in own and one.id not in failed
        ]
        job = Job(
            run=self._folder,
            key=key,
            framework=request.framework.name,
            control=request.control,
            treatment=request.treatment,
            cases=shard.cases,
            seed=request.seed,
            configuration=shard_configuration(request, shard, self._hosts),
            labels=request.labels,
            # Of what has moved always the same, or its rounds were of no use.
            elsewhere=len(elsewhere) + request.elsewhere + of_family(request, self._kept.moved.get(key, 0)),
            suspects_only=request.suspects_only,
            first_measurement=first,
            find_causes=request.find_causes,
            env=request.env,
            kept=self._kept.rounds.get(key, {}),
            sent=self._archives.needed_by(shard.cases),
            suite=self._archives.suite_for(shard.cases),
        )
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
        self._pending[future] = _Attempt(shard, key, number, workers)

    def _eligible(self) -> list[str]:
        """The addresses of the hosts that may be asked; slow ones only if there are no others."""
        hosts = {name: at for name, at in self._there.items() if name not in self._refused}
        return [at for name, at in hosts.items() if name not in self._slow] or list(hosts.values())

    def _relieve_a_slow_host(self) -> None:
        """When hosts are idle, tell one to finish whose open cases they would settle sooner; its answer moves them.

        A case moves once. With a time budget none does: that ends every shard in time.
        """
        if self._todo or self._request.configuration.time_budget is not None:
            return
        now = time.monotonic()
        on_hosts = {one.key: one for one in self._pending.values() if one.host and one.key not in self._kept.moved}
        idle = self._slots.free(len(self._eligible()))
        if idle < 1 or any(one.told for one in on_hosts.values()):
            return
        under_way = {
            key: UnderWay(len(one.shard.cases), self._open[key], one.samples, now - one.began)
            for key, one in on_hosts.items()
        }
        key = straggler(under_way, pace_of(part.report for part in self._done.values()), idle)
        future = next((future for future, one in self._pending.items() if one.key == key), None)
        if future is None:
            return
        attempt = self._pending[future]
        address = self._there.get(attempt.host or "")
        if address is None:  # it has gone, and its shard with it
            return
        attempt.told = now
        log.debug("fleet: %s is slow: asked to finish shard %d", attempt.host, attempt.shard.number)

        def tell() -> None:  # a host that hangs never says that it has heard
            with contextlib.suppress(Exception):
                self._client.run(finish, future.key, workers=[address], on_error="ignore")

        threading.Thread(target=tell, daemon=True).start()

    def _moved(self, answer: Answer, attempt: _Attempt, report: Report | None) -> None:
        """Take in what a slow host has settled; the rest is for other hosts."""
        settled = {case.id for case in report.cases} if report else set[str]()
        skipped = {one.case for one in report.run.skipped} if report else set[str]()
        left = {case.id for case in attempt.shard.cases} - settled - skipped
        cases = [case for case in attempt.shard.cases if case.id in left]
        self._slow.add(answer.host)
        words = counted(len(cases), "open case"), attempt.shard.number
        log.info("fleet: %s is slow: other hosts take over %s of shard %d, from the start", answer.host, *words)
        part = HostReport(answer.host, report, whole=False) if report else None
        shards = cut(cases, self._cost, len(self._eligible()) or 1, self._request.seed)
        text = answer.report.decode() if answer.report else None
        entry = {"event": "moved", "key": attempt.key, "host": answer.host, "report": text}
        self._keep({**entry, "shards": ids_of(shards)})
        keys = self._kept.move(self._run, attempt.key, part, shards)
        self._open[attempt.key] = 0
        self._open |= {key: len(self._shards[key].cases) for key in keys}
        self._todo.extend(keys)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Within it, what hosts say is put into the queue."""

        def hear(event: tuple[float, dict[str, Any]]) -> None:
            self._events.put(event[1])

        self._client.subscribe_topic(TOPIC, hear)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(TOPIC)

    def _hear(self) -> None:
        """Take in what was said; wait a moment for the first word."""
        with contextlib.suppress(queue.Empty):
            event = self._events.get(timeout=POLL_S)
            while True:
                self._take_in(event)
                event = self._events.get_nowait()

    def _take_in(self, event: dict[str, Any]) -> None:
        key = event.get("key")
        attempt = next((one for one in self._pending.values() if one.key == key), None)
        if event.get("run") != self._folder or attempt is None:
            return
        if attempt.host != event["host"]:  # Dask has given it to another, which nobody has asked to finish
            attempt.told = None
        attempt.host, attempt.heard = event["host"], time.monotonic()
        self._states.hear(event, attempt.shard.number, len(attempt.shard.cases))
        if event["event"] in ("began", "measuring"):  # the second when its builds are there
            attempt.began, attempt.samples = time.monotonic(), 0
            log.debug("fleet: shard %d %s on %s", attempt.shard.number, event["event"], attempt.host)
        elif event["event"] == "progress":
            self._open[attempt.key], self._rounds[attempt.key] = event["open"], event["rounds"]
        elif event["event"] == "round":
            attempt.samples += count_samples(event["text"])
            self._keep({"event": "round", "key": key, "host": event["host"], "text": event["text"]})

    def _collect(self) -> None:
        """Take in what has ended, and try again elsewhere what failed."""
        for future, attempt in list(self._pending.items()):
            why = self._why_given_up(attempt) if future.status == "pending" else ""
            if future.status == "pending" and not why:
                continue
            del self._pending[future]
            if future.status == "finished":
                self._answered(future.result(), attempt)
            elif future.status == "pending":
                self._client.cancel([future], force=True)
                if attempt.host:
                    self._slow.add(attempt.host)
                self._again(attempt, why, None)
            else:  # its worker died, or the scheduler has forgotten it
                self._again(attempt, _why_lost(future, attempt.shard), None)

    def _why_given_up(self, attempt: _Attempt) -> str:
        """Why a host has to be given up that has not answered; empty if it has not."""
        now = time.monotonic()
        if attempt.host is None:
            gone = attempt.workers is not None and not set(attempt.workers) & set(self._eligible())
            return f"the hosts that shard {attempt.shard.number} was for have gone" if gone else ""
        if now - attempt.heard > self._choice.silence_s:
            return f"{attempt.host} has said nothing for {now - attempt.heard:.0f} s"
        if attempt.told is not None and now - attempt.told > FINISH_S:
            return f"{attempt.host} does not finish: all of shard {attempt.shard.number} is measured elsewhere"
        return ""

    def _answered(self, answer: Answer, attempt: _Attempt) -> None:
        if answer.needs:
            self._send(answer, attempt)
            return
        self._states.ended(answer.host)
        if answer.refusal is not None:
            self._again(attempt, answer.refusal, answer.host)
            return
        text = answer.report.decode() if answer.report else ""
        report = from_text(text) if answer.report else None
        if report is None or len(report.cases) + len(report.run.skipped) < len(attempt.shard.cases):
            self._moved(answer, attempt, report)
            return
        budget = {"time_budget": self._request.configuration.time_budget}
        self._keep({"event": "report", "key": attempt.key, "host": answer.host, "report": text, **budget})
        self._done[attempt.key] = HostReport(answer.host, report)
        self._open[attempt.key] = 0

    def _send(self, answer: Answer, attempt: _Attempt) -> None:
        """Send a host what it needs, and submit its shard again."""
        address = self._there.get(answer.host)
        try:
            why = self._archives.send(self._client, answer.host, address, answer.needs) if address else "has gone"
        except OSError as error:  # Dask's errors of connections, too
            self._again(attempt, f"{answer.host}: {error}", None)
            return
        except RunError as error:  # what is to be sent can't be had here; another host may have it already
            self._again(attempt, str(error), answer.host)
            return
        if why and address:
            self._again(attempt, why, answer.host)
        else:
            self._submit(attempt.shard, attempt.key, attempt.number)

    def _again(self, attempt: _Attempt, why: str, refused_by: str | None) -> None:
        """The shard goes to the next host that is free; never to the one that refused it, if one did."""
        self._states.ended(refused_by or attempt.host, f"left out: {why}" if refused_by else LOST)
        if refused_by is not None:
            self._refused[refused_by] = why
        log.warning("fleet: %s%s", f"{refused_by}: " if refused_by else "", why)
        if attempt.number == ATTEMPTS:
            self._stopped = f"shard {attempt.shard.number} failed {ATTEMPTS} times: {why}"
        else:
            self._failed[attempt.key] = attempt.number
            self._todo.appendleft(attempt.key)

    def _keep(self, entry: dict[str, Any]) -> None:
        if self._request.log is None:
            return
        try:
            self._request.log.keep(json.dumps({"kind": KIND, "run": self._run, **entry}))
        except OSError as error:
            level = logging.DEBUG if self._unsaved else logging.WARNING  # a full disk is said once
            log.log(level, "what hosts send cannot be saved; a resumed run will measure it again: %s", error)
            self._unsaved = True

    def _tell(self) -> None:
        elapsed_s = time.monotonic() - self._began
        cases, still_open = len(self._request.cases), sum(self._open.values())
        done = max(1, cases - still_open)
        left_s = elapsed_s * still_open / done
        rounds, hosts = sum(self._rounds.values()), self._states.all
        self._on_progress(Progress(rounds, still_open, cases, elapsed_s, left_s, hosts=hosts))

    def _merged(self) -> Report:
        known = self._kept.earlier | self._done
        parts = [known[key] for key in self._shards if key in known]
        course = Course(self._started, time.monotonic() - self._began, self._stopped, self._interrupted)
        return report_of(self._request, parts, course, self._kept.given_up)


def _why_lost(future: Future, shard: Shard) -> str:
    """Why a shard came back neither measured nor refused, in a line."""
    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        return f"shard {shard.number}: every worker that had it died"
    return one_line(str(error)) if error else f"shard {shard.number}: the scheduler lost it; submitted again"
