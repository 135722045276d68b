"""What the framework's own profiler says of cases: what a run's report tells of it, and its files in a folder.

*A breakdown* says which operators a case's time goes into on either side.  *A profile* is its trace, its table, and
what the case printed.  Both are made after all measuring, in processes of their own.  Whatever goes wrong here costs a
case its breakdown or profile and nothing else.
"""

import json
import math
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opduel.frameworks import Framework
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.restarting_worker import Question, RestartingWorker
from opduel.records import DEFAULT_METRIC, Breakdown, Case, Comparison, Failure, OperatorTime, RunError
from opduel.records.measurement import SIDES, Side
from opduel.records.run_record import ProfilesRecord
from opduel.support.digests import cut, with_digest

BREAKDOWN_NS, MOST_BROKEN_DOWN = 500_000_000, 10  # about as much profiled work, or calls, as a case gets on either side
PROFILED_NS, MOST_PROFILED = 200_000_000, 20  # the same of a profile
INDEX = "profiles.json"
FILES = ("trace.json", "table.txt", "output.txt", "callgrind.out")  # the last by --explain, later
LONGEST_PART = 100  # bytes of one part of a path
_UNFIT = re.compile(r"[^\w.,=+@()\[\]-]+|^\.+")
_PLACES = {"regressed": 0, "improved": 1}


class NotProfiledError(Exception):
    """Why there is no profile."""


@dataclass(frozen=True)
class Profiling:
    """Asks the profiler on ``bench``, whose environment is that of the run's workers; the profiler's own is added.

    After ``deadline`` (of the monotonic clock) nothing further is asked.
    """

    bench: Bench
    framework: Framework
    threads: int
    seed: int
    deadline: float = math.inf

    @contextmanager
    def workers(self, cpus: frozenset[int]) -> Iterator[dict[Side, RestartingWorker]]:
        """Give a worker of each build on ``cpus``, started when it is first asked."""
        environment = {**self.bench.environment, **self.framework.profiling.variables}
        with ExitStack() as stack:
            yield {side: stack.enter_context(self.bench.worker(side, environment, cpus)) for side in self.bench.builds}

    def ask(self, worker: RestartingWorker, case: Case, question: Question) -> Mapping[str, Any]:
        """Return the answer to a question about a case that was prepared, in a process of its own. Raises
        NotProfiledError: there is none."""
        prepare = CaseRequest(replace(case, input_sets=1), self.seed).message(worker.side)
        fork = self.framework.can_fork(self.threads, case.context)
        try:
            answers = worker.ask_until(self.deadline, case, [prepare, question], fork=fork)
        except RunError as error:
            raise NotProfiledError(str(error)) from None
        if answers is None:
            raise NotProfiledError(NO_TIME_LEFT)
        if isinstance(answers, Failure):
            raise NotProfiledError(f"{answers.kind}: {answers.reason}")
        return answers[1]


def calls_within(limit_ns: float, call_ns: float, most: int) -> int:
    """Return how many calls take ``limit_ns``: 1 to ``most``."""
    return max(1, min(most, int(limit_ns / call_ns)))


def add_breakdowns(
    comparisons: Sequence[Comparison],
    cases: Sequence[Case],
    result: MeasurementResult,
    profiling: Profiling,
    every_case: bool,
) -> list[Comparison]:
    """Return the comparisons, those of ``to_break_down`` with a breakdown, if they were timed on both sides; those that
    regressed come first, then those that improved.  How many were left out for want of time, or a signal, is noted in
    ``result``.  A run that was cut short gets none."""
    framework, breakdowns = profiling.framework, dict[str, Breakdown]()
    by_id = {case.id: case for case in to_break_down(cases, framework, every_case) if not result.aborted}
    measured = (comparison for comparison in comparisons if comparison.case in by_id and comparison.control is not None)
    due = sorted(measured, key=lambda comparison: _PLACES.get(comparison.verdict, len(_PLACES)))
    try:
        with profiling.workers(profiling.bench.cpus.start) as workers:
            for comparison in due:
                case = framework.profiling.as_profiled(by_id[comparison.case])
                breakdown = _break_down(profiling, case, workers, comparison.control or 0.0)
                if breakdown is None:
                    result.not_broken_down = len(due) - len(breakdowns)
                    break
                breakdowns[comparison.case] = breakdown
    except KeyboardInterrupt as error:
        result.stop(error)
    return [replace(comparison, breakdown=breakdowns.get(comparison.case)) for comparison in comparisons]


def to_break_down(cases: Sequence[Case], framework: Framework, every_case: bool) -> list[Case]:
    """Return the cases that get a breakdown if they are measured: those of networks, or every one that is timed."""
    return [
        case for case in cases if case.metric == DEFAULT_METRIC and (every_case or framework.cases.is_network(case))
    ]


def _break_down(
    profiling: Profiling, case: Case, workers: Mapping[Side, RestartingWorker], call_ns: float
) -> Breakdown | None:
    """Profile one case on both sides; what can't be profiled is said in the note. None: the time was up before it
    was over."""
    calls = calls_within(BREAKDOWN_NS, call_ns, MOST_BROKEN_DOWN)
    tables: dict[Side, tuple[OperatorTime, ...]] = dict.fromkeys(SIDES, ())
    problems = []
    for side in SIDES:
        try:
            answer = profiling.ask(workers[side], case, {"op": "profile", "calls": 1 + calls})
        except NotProfiledError as error:
            if str(error) == NO_TIME_LEFT:
                return None
            problems.append(f"{side}: {error}")
            continue
        tables[side] = operator_times(answer["calls"][1:])  # the first one sets the profiler up, too
        if not tables[side]:
            problems.append(f"{side}: the framework's profiler saw no operator")
    return Breakdown(tables["control"], tables["treatment"], "; ".join(problems))


def operator_times(calls: Sequence[Mapping[str, Any]]) -> tuple[OperatorTime, ...]:
    """Return what one call spends in each operator: medians over ``calls``, as the worker's "profile" answers them.

    Those that take longest come first; shares are of all operators together.
    """
    names = sorted({name for call in calls for name in call["operators"]})
    runs = {name: [call["operators"].get(name, []) for call in calls] for name in names}
    spent = {name: statistics.median(map(sum, runs[name])) for name in names}
    total_ns = sum(spent.values()) or 1.0
    rows = [
        OperatorTime(name, statistics.median(map(len, runs[name])), spent[name], spent[name] / total_ns)
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: -row.ns))


@dataclass
class Profiles:
    """What was written: an entry for each case and side, in the order of ``profiles.json``.

    An entry: ``case``, ``side``, ``folder`` (below the profiles'), ``calls`` and ``problem``, one of which is null.
    """

    folder: Path
    entries: list[dict[str, Any]] = field(default_factory=list)
    skipped: str = ""  # why none was made
    stopped: BaseException | None = None  # the signal that ended it

    def record(self) -> ProfilesRecord:
        """Return what the report keeps of it; ``problems``: what could not be profiled, and why, a line each."""
        missing = [
            f"{entry['case']} ({entry['side']}): {entry['problem']}" for entry in self.entries if entry["problem"]
        ]
        problems = [self.skipped, *missing] if self.skipped else missing
        written = len(self.entries) - len(missing)
        return ProfilesRecord(folder=str(self.folder), written=written, problems=tuple(problems))


def write_profiles(
    folder: Path, cases: Sequence[Case], failed: Mapping[str, str], profiling: Profiling, cut_short: bool
) -> Profiles:
    """Profile each of ``cases``, once whatever its metrics, but for those that have ``failed`` (id -> why); none, if
    the run was ``cut_short``. The files are in ``<folder>/<case>/<side>``, or in ``<folder>/<case>`` where there is one
    side alone; those of an earlier run are replaced. Never raises for what a worker does, or for a signal."""
    if cut_short:
        return Profiles(folder, skipped="none was made because the run was aborted")
    profiles, places = Profiles(folder), case_folders(cases)
    rng = random.Random(f"profiles {profiling.seed}")
    with profiling.workers(profiling.bench.cpus.measure) as workers:
        try:
            for case in {case.time_id: case for case in cases}.values():
                for side in rng.sample(list(workers), len(workers)):
                    place = places[case.time_id] if len(workers) == 1 else places[case.time_id] / side
                    entry = {"case": case.time_id, "side": side, "folder": place.as_posix(), "calls": None}
                    why = failed.get(case.id) or _profile(profiling, case, workers[side], folder / place, entry)
                    profiles.entries.append({**entry, "problem": why})
        except KeyboardInterrupt as error:
            profiles.stopped = error
    builds = {side: build.requested for side, build in profiling.bench.builds.items()}
    document = {"builds": builds, "profiles": profiles.entries}
    with suppress(OSError):  # the report has the same
        (folder / INDEX).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return profiles


def is_profiles_folder(folder: Path) -> bool:
    """Return whether a folder holds profiles of an earlier run, or nothing at all."""
    try:
        if not any(folder.iterdir()):
            return True
        return "profiles" in json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _profile(
    profiling: Profiling, case: Case, worker: RestartingWorker, folder: Path, entry: dict[str, Any]
) -> str | None:
    """Profile one case on one side, and note the number of calls; returns why there is no profile."""
    if time.monotonic() >= profiling.deadline:
        return NO_TIME_LEFT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        return f"its folder can't be written ({error.strerror})"

    def question(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        calls = calls_within(PROFILED_NS, float(answers[0]["call_ns"]), MOST_PROFILED)
        return {"op": "write_profile", "calls": calls, "folder": str(folder), "name": case.time_id}

    try:
        entry["calls"] = profiling.ask(worker, case, question)["calls"]
    except NotProfiledError as error:
        return str(error)
    return None


def case_folders(cases: Sequence[Case]) -> dict[str, Path]:
    """Return each case's folder, below that of all, by its id less the metric: the id, made fit for a path, and none
    twice."""
    places = {
        name: "/".join(cut(_UNFIT.sub("_", part), LONGEST_PART) or "_" for part in name.split("/"))
        for name in (case.time_id for case in cases)
    }
    uses = Counter(map(str.casefold, places.values()))  # some file systems take no notice of case
    return {
        name: Path(place if uses[place.casefold()] == 1 else with_digest(place, name)) for name, place in places.items()
    }
