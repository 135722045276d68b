"""The log of a run on a fleet: its shards, their rounds and reports, and the cases that moved."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from opduel.fleet.merge import HostReport
from opduel.fleet.shards import Shard
from opduel.harness.checkpoint import fingerprint
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED, Case, Report
from opduel.reporters.document import from_text
from opduel.support.files import UnreadableError, parse_json

KIND = "fleet"  # of this run's texts in a log


@dataclass
class LoggedRun:
    """A run as its log has it. Keys are those of shards.

    ``shards`` includes those made of moved cases. ``finished`` has their reports, ``earlier`` the reports of shards
    that go on because they have more time now, and ``rounds`` the rounds of each shard by host. ``given_up`` counts the
    comparisons that were begun on one host and left to another; ``moved`` has this count at the time when a shard was
    made of moved cases. ``start`` identifies the run's first start, so that hosts' folders of other runs are not used.
    """

    shards: dict[str, Shard] = field(default_factory=dict)
    finished: dict[str, HostReport] = field(default_factory=dict)
    earlier: dict[str, HostReport] = field(default_factory=dict)
    rounds: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    given_up: int = 0
    start: str = ""

    def add(self, run: str, shards: Sequence[Shard]) -> list[str]:
        """Add shards that are to be measured, and return their keys."""
        keys = [key_of(run, shard) for shard in shards]
        self.shards |= zip(keys, shards, strict=True)
        return keys

    def move(self, run: str, key: str, part: HostReport | None, shards: Sequence[Shard]) -> list[str]:
        """Move a shard's open cases to new ``shards``, and return their keys; their numbers follow those of all others.
        ``part`` is the report of the shard's other cases, if it has any."""
        first = 1 + max(shard.number for shard in self.shards.values())
        shards = [replace(shard, number=first + number) for number, shard in enumerate(shards)]
        moved = {case.id for shard in shards for case in shard.cases}
        old = self.shards.pop(key)
        if part is not None:
            stay = tuple(case for case in old.cases if case.id not in moved)
            self.shards[key] = replace(old, cases=stay, share=max(0.0, old.share - sum(new.share for new in shards)))
            self.finished[key] = part
        keys = self.add(run, shards)
        self.given_up += sum(case.metric in SAMPLED for shard in shards for case in shard.cases)
        self.moved |= dict.fromkeys(keys, self.given_up)
        return keys


def read_run(request: RunRequest, run: str, cost: Callable[[Case], float]) -> LoggedRun:
    """Return what the request's log has of the run; without shards if it was not begun."""
    logged = LoggedRun()
    by_id = {case.id: case for case in request.cases}
    total_cost = sum(map(cost, request.cases)) or 1.0

    def shards(parts: Sequence[Sequence[str]]) -> list[Shard]:
        own = [tuple(by_id[case_id] for case_id in ids) for ids in parts]
        return [Shard(number, cases, sum(map(cost, cases)) / total_cost) for number, cases in enumerate(own)]

    for entry in entries_of(request, KIND, run):
        key = entry.get("key", "")
        if entry["event"] == "cut":
            logged.shards.clear()
            logged.start = entry["start"]
            logged.add(run, shards(entry["shards"]))
        elif entry["event"] == "round":
            logged.rounds.setdefault(key, {}).setdefault(entry["host"], []).append(entry["text"])
        elif entry["event"] == "report" and key in logged.shards:
            host_report = HostReport(entry["host"], from_text(entry["report"]))
            goes_on = _goes_on(host_report.report, entry.get("time_budget"), request)
            logged.finished.pop(key, None)
            (logged.earlier if goes_on else logged.finished)[key] = host_report
        elif entry["event"] == "moved" and key in logged.shards and key not in logged.finished:
            text = entry["report"]
            part = None if text is None else HostReport(entry["host"], from_text(text), is_whole=False)
            logged.move(run, key, part, shards(entry["shards"]))
    return logged


def _goes_on(report: Report, had_s: float | None, request: RunRequest) -> bool:
    """Tell whether a shard is open, and its run has more time than ``had_s`` (seconds; None: no limit)."""
    if not may_go_on(report, had_s, request.configuration.time_budget):
        return False
    return report.is_open if request.suspects_only else report.run.is_cut_short


def may_go_on(report: Report, had_s: float | None, now_s: float | None) -> bool:
    """Tell whether a run that had a time budget of ``had_s`` (None: no limit) can go on, and has more now."""
    has_more = had_s is not None and (now_s is None or now_s > had_s)
    return has_more and not report.run.aborted and bool(report.run.resumable)


def identity(request: RunRequest) -> str:
    """Return a digest of all that must be the same for a start to resume another one's shards."""
    configuration = asdict(request.configuration)
    del configuration["time_budget"]
    return fingerprint(
        {
            "framework": request.framework.name,
            "builds": [request.control.digest, request.treatment.digest],
            "cases": [case.measured_by() for case in request.cases],
            "configuration": configuration,
            "seed": request.seed,
            "suite": dict(request.framework.suite_variables),
        }
    )


def folder_of(run: str, start: str) -> str:
    """Return the name of the run's folder on hosts; another first start of the same run has another one."""
    return fingerprint({"run": run, "start": start})


def key_of(run: str, shard: Shard) -> str:
    """Return the key of a shard in its run."""
    return f"{shard.number}-{fingerprint({'run': run, 'cases': [case.id for case in shard.cases]})}"


def ids_of(shards: Iterable[Shard]) -> list[list[str]]:
    """Return the ids of each shard's cases."""
    return [[case.id for case in shard.cases] for shard in shards]


def count_samples(text: str) -> int:
    """Return the number of samples in a round's text, as a host sends it."""
    entry = json.loads(text)
    return len(entry["result"]["samples"]) if entry.get("kind") == "round" else 0


def entries_of(request: RunRequest, kind: str, run: str) -> Iterator[dict[str, Any]]:
    """Yield the log's entries of this kind and run; damaged ones, and all others, are skipped."""
    texts: Sequence[str] = request.log.rounds() if request.log else ()
    for text in texts:
        try:
            entry = parse_json(text)
        except UnreadableError:
            continue
        if isinstance(entry, dict) and entry.get("kind") == kind and entry.get("run") == run:
            yield entry
