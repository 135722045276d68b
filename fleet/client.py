"""A run on a fleet: its shards to hosts, their rounds and reports back, one report of them all.

Dask is asked for nothing but to start a shard on a host that is free, and may forget everything at any moment: what has
come back is in the run's log, which is the truth.
"""

import contextlib
import json
import logging
import queue
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from distributed import Client, Future, KilledWorker

from opduel.comparator import plan_looks
from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice
from opduel.fleet.archives import Archives
from opduel.fleet.host import TOPIC, measure
from opduel.fleet.job import SLOT, Answer, Job, tag_resource
from opduel.fleet.merge import HostReport, merge
from opduel.fleet.service import connect
from opduel.fleet.shards import Shard, cut
from opduel.harness.checkpoint import fingerprint
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import InterruptedRunError, RunRequest
from opduel.records import SAMPLED, Case, Report, RunError
from opduel.records.files import UnreadableError, parse_json
from opduel.records.text import counted, one_line
from opduel.reporters.document import from_text

SILENT_S = 900.0  # a host that says nothing for so long is given up; explaining causes takes five minutes
POLL_S = 0.3
ATTEMPTS = 4  # of one shard, whatever became of the others
KIND = "fleet"  # of this run's texts in a log

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
        hosts = wait_for_hosts(client, choice)
        level = logging.DEBUG if choice.priority else logging.INFO  # what is measured ahead says so itself
        log.log(level, "fleet: %s, %s", counted(len(hosts), "host"), ", ".join(sorted(hosts)))
        with Archives.of(request, suite) as archives:
            return _FleetRun(client, choice, request, len(hosts), on_progress, archives).finish()


def _hosts_of(client: Client, choice: FleetChoice) -> dict[str, str]:
    """The names of the measuring hosts that are wanted -> their workers' addresses."""
    found = {}
    for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
        resources = worker.get("resources") or {}
        tags = frozenset(tag for tag in choice.tags if tag_resource(tag) in resources)
        if SLOT in resources and choice.wants(str(worker["name"]), tags):
            found[str(worker["name"])] = address
    return found


def wait_for_hosts(client: Client, choice: FleetChoice) -> dict[str, str]:
    """The wanted hosts' names and addresses: those there now, or the first to come. RunError: none in time."""
    end = time.monotonic() + choice.timeout_s
    while not (found := _hosts_of(client, choice)):
        if time.monotonic() > end:
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            there = ", ".join(sorted(str(worker["name"]) for worker in workers)) or "none"
            raise RunError(
                f"--fleet {choice.address.text}: no worker is {choice.words} within {choice.timeout_s:g} s "
                f"(workers there: {there}): start one with opduel fleet worker"
            )
        time.sleep(POLL_S)
    return found


@dataclass
class _Attempt:
    """A shard on its way: which attempt it is, the host that has begun with it, and when something was heard of it."""

    shard: Shard
    key: str
    number: int
    host: str | None = None
    heard: float = field(default_factory=time.monotonic)


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
        self._run = _identity(request)
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._pending: dict[Future, _Attempt] = {}
        self._todo: deque[str] = deque()  # keys of the shards that no host was given yet
        self._done: dict[str, HostReport] = {}
        self._kept: dict[str, dict[str, list[str]]] = {}  # shard's key -> host -> rounds
        self._open: dict[str, int] = {}  # shard's key -> open cases
        self._rounds: dict[str, int] = {}
        self._refused: dict[str, str] = {}  # host -> why it can't measure this run
        self._stopped: str | None = None
        self._interrupted = False
        self._hosts = hosts
        self._archives = archives
        self._shards = self._planned()

    def finish(self) -> Report:
        """Measure what is not measured yet; the report of all. Raises RunError: as ``run_fleet``."""
        self._todo.extend(key for key in self._shards if key not in self._done)
        if self._done:
            log.info("fleet: %s of %d measured before", counted(len(self._done), "shard"), len(self._shards))
        try:
            with self._listening():
                while (self._todo or self._pending) and self._stopped is None:
                    self._submit_what_hosts_can_take()
                    self._hear()
                    self._collect()
                    self._tell()
        except KeyboardInterrupt as error:
            self._stopped, self._interrupted = str(error) or "interrupted", True
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(self._pending), force=True)
        return self._merged()

    def _planned(self) -> dict[str, Shard]:
        """The run's shards by key: as they were cut when the run was begun, if it was."""
        request, sizes = self._request, None
        for entry in _entries(request, self._run):
            if entry["event"] == "cut":
                sizes = entry["shards"]
            elif entry["event"] == "round":
                self._kept.setdefault(entry["key"], {}).setdefault(entry["host"], []).append(entry["text"])
            elif entry["event"] == "report":
                self._done[entry["key"]] = HostReport(entry["host"], from_text(entry["report"]))
        if sizes is None:
            shards = cut(request.cases, self._cost, self._hosts, request.seed)
            self._keep({"event": "cut", "shards": [[case.id for case in one.cases] for one in shards]})
        else:
            by_id = {case.id: case for case in request.cases}
            whole = sum(map(self._cost, request.cases)) or 1.0
            own = [tuple(by_id[case_id] for case_id in ids) for ids in sizes]
            shards = [Shard(number, cases, sum(map(self._cost, cases)) / whole) for number, cases in enumerate(own)]
        keyed = {_key_of(self._run, shard): shard for shard in shards}
        self._done = {key: part for key, part in self._done.items() if key in keyed}
        self._open = {key: 0 if key in self._done else len(shard.cases) for key, shard in keyed.items()}
        return keyed

    def _cost(self, case: Case) -> float:
        """What earlier runs say that it costs; without any, all cost the same."""
        prior = self._request.prior_runs
        known = prior.of(case) if prior else None
        return known.fork_s if known else 1.0

    def _submit_what_hosts_can_take(self) -> None:
        """Submit a shard for each host that has none: Dask would give a host several at once, and leave them there."""
        if not self._todo:
            return
        hosts = len(self._eligible()) or 1  # without any, a shard waits for the first to come
        while self._todo and len(self._pending) < hosts and self._stopped is None:
            key = self._todo.popleft()
            self._submit(self._shards[key], key, 1)

    def _submit(self, shard: Shard, key: str, number: int) -> None:
        choice, request = self._choice, self._request
        configuration = request.configuration
        if configuration.time_budget is not None:
            budget = configuration.time_budget * min(1.0, shard.share * self._hosts)
            configuration = request.configured(time_budget=budget).configuration
        first = request.first_measurement
        failed = first.failed if first else frozenset()
        own = {case.id for case in shard.cases}
        elsewhere = [
            one for one in request.cases if one.metric in SAMPLED and one.id not in own and one.id not in failed
        ]
        job = Job(
            run=self._run,
            key=key,
            framework=request.framework.name,
            control=request.control,
            treatment=request.treatment,
            cases=shard.cases,
            seed=request.seed,
            configuration=configuration,
            labels=request.labels,
            elsewhere=len(elsewhere),
            suspects_only=request.suspects_only,
            first_measurement=first,
            env=request.env,
            kept=self._kept.get(key, {}),
            sent=self._archives.needed_by(shard.cases),
            suite=self._archives.suite_for(shard.cases),
        )
        resources = {SLOT: 1.0, **{tag_resource(tag): 1.0 for tag in choice.tags}}
        workers = self._eligible() if choice.hosts or choice.excluded or self._refused else None
        if workers == []:
            self._stopped = "; ".join(f"{host}: {why}" for host, why in self._refused.items()) or "no host is left"
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
        self._pending[future] = _Attempt(shard, key, number)

    def _eligible(self) -> list[str]:
        """The addresses of the hosts that may be asked."""
        hosts = _hosts_of(self._client, self._choice)
        return [address for name, address in hosts.items() if name not in self._refused]

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
        if event.get("run") != self._run or attempt is None:
            return
        attempt.host, attempt.heard = event["host"], time.monotonic()
        if event["event"] == "began":
            log.debug("fleet: shard %d began on %s", attempt.shard.number, attempt.host)
        elif event["event"] == "progress":
            self._open[attempt.key], self._rounds[attempt.key] = event["open"], event["rounds"]
        elif event["event"] == "round":
            self._keep({"event": "round", "key": key, "host": event["host"], "text": event["text"]})

    def _collect(self) -> None:
        """Take in what has ended, and try again elsewhere what failed."""
        for future, attempt in list(self._pending.items()):
            silent_s = time.monotonic() - attempt.heard
            if future.status == "pending" and not (attempt.host and silent_s > SILENT_S):
                continue
            del self._pending[future]
            if future.status == "finished":
                self._answered(future.result(), attempt)
            elif future.status == "pending":
                self._client.cancel([future], force=True)
                self._again(attempt, f"{attempt.host} has said nothing for {silent_s:.0f} s", attempt.host)
            else:  # its worker died, or the scheduler has forgotten it
                self._again(attempt, _why_lost(future, attempt.shard), None)

    def _answered(self, answer: Answer, attempt: _Attempt) -> None:
        if answer.needs:
            self._send(answer, attempt)
            return
        if answer.report is None:
            self._again(attempt, answer.refusal or "no report", answer.host)
            return
        text = answer.report.decode()
        self._keep({"event": "report", "key": attempt.key, "host": answer.host, "report": text})
        self._done[attempt.key] = HostReport(answer.host, from_text(text))
        self._open[attempt.key] = 0

    def _send(self, answer: Answer, attempt: _Attempt) -> None:
        """Send a host what it needs, and submit its shard again."""
        address = _hosts_of(self._client, self._choice).get(answer.host)
        try:
            why = self._archives.send(self._client, answer.host, address, answer.needs) if address else "has gone"
        except OSError as error:  # Dask's errors of connections, too
            self._again(attempt, f"{answer.host}: {error}", None)
            return
        if why and address:
            self._again(attempt, why, answer.host)
        else:
            self._submit(attempt.shard, attempt.key, attempt.number)

    def _again(self, attempt: _Attempt, why: str, refused_by: str | None) -> None:
        """Submit the shard once more; without the host that refused it, if one did."""
        if refused_by is not None:
            self._refused[refused_by] = why
        log.warning("fleet: %s%s", f"{refused_by}: " if refused_by else "", why)
        if attempt.number == ATTEMPTS:
            self._stopped = f"shard {attempt.shard.number} failed {ATTEMPTS} times: {why}"
        else:
            self._submit(attempt.shard, attempt.key, attempt.number + 1)

    def _keep(self, entry: dict[str, Any]) -> None:
        if self._request.log is None:
            return
        try:
            self._request.log.keep(json.dumps({"kind": KIND, "run": self._run, **entry}))
        except OSError as error:
            log.warning("what a host sent could not be saved; a resumed run will measure it again: %s", error)

    def _tell(self) -> None:
        elapsed_s = time.monotonic() - self._began
        cases, still_open = len(self._request.cases), sum(self._open.values())
        done = max(1, cases - still_open)
        left_s = elapsed_s * still_open / done
        self._on_progress(Progress(sum(self._rounds.values()), still_open, cases, elapsed_s, left_s))

    def _merged(self) -> Report:
        request = self._request
        if not self._done:
            error = InterruptedRunError if self._interrupted else RunError
            raise error(f"nothing was measured: {self._stopped}")
        parts = [self._done[key] for key in self._shards if key in self._done]
        reasons = [part.report.run.stop_reason for part in parts if part.report.run.is_cut_short]
        reasons = [self._stopped, *reasons] if self._stopped else reasons
        own = {
            "id": f"{self._started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
            "started": self._started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "configuration": asdict(request.configuration),
            "time_budget": request.configuration.time_budget,
            "wall_s": time.monotonic() - self._began,
            "complete": not reasons,
            "stop_reason": "; ".join(dict.fromkeys(filter(None, reasons))) or None,
            **({"aborted": True, "interrupted": self._interrupted} if self._stopped else {}),
            "resumable": request.log is not None and self._stopped is not None,
            **request.labels,
        }
        looks = plan_looks(request.configuration.max_rounds)
        return merge(parts, request.cases, looks, request.configuration.alpha, own)


def _why_lost(future: Future, shard: Shard) -> str:
    """Why a shard came back neither measured nor refused, in a line."""
    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        return f"shard {shard.number}: every worker that had it died"
    return one_line(str(error)) if error else f"shard {shard.number}: the scheduler lost it; submitted again"


def _identity(request: RunRequest) -> str:
    """Of all that has to be the same for one start to go on with the shards of another."""
    asked = asdict(request.configuration)
    asked.pop("time_budget")
    return fingerprint(
        {
            "framework": request.framework.name,
            "builds": [request.control.digest, request.treatment.digest],
            "cases": [case.measured_by() for case in request.cases],
            "configuration": asked,
            "seed": request.seed,
            **({"suite": dict(of_suite)} if (of_suite := request.framework.suite_variables) else {}),
        }
    )


def _key_of(run: str, shard: Shard) -> str:
    return f"{shard.number}-{fingerprint({'run': run, 'cases': [case.id for case in shard.cases]})}"


def _entries(request: RunRequest, run: str) -> Iterator[dict[str, Any]]:
    """What this run's log has of it; whatever is damaged, or another's, is passed over."""
    texts: Sequence[str] = request.log.rounds() if request.log else ()
    for text in texts:
        try:
            entry = parse_json(text)
        except UnreadableError:
            continue
        if isinstance(entry, dict) and entry.get("kind") == KIND and entry.get("run") == run:
            yield entry
