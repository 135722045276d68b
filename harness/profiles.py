"""The framework's own profile of every case, on every side, in a folder: its trace, its table, what the case printed.

It is made after all measuring, in processes of its own.  Whatever goes wrong here costs a case its profile and nothing
else.
"""

import json
import math
import random
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opduel.frameworks import Framework
from opduel.harness.blocks import CaseRequest, time_left
from opduel.harness.budget import NO_TIME_LEFT
from opduel.harness.cpus import CpuPlan
from opduel.harness.restarting_worker import RestartingWorker
from opduel.records import Build, Case, Failure, RunError
from opduel.records.measurement import Side

PROFILED_NS = 200_000_000  # about as much profiled work as a case gets on either side
MOST_CALLS = 20
INDEX = "profiles.json"
FILES = ("trace.json", "table.txt", "output.txt")
LONGEST_PART = 100  # characters of one part of a path


@dataclass(frozen=True)
class Subject:
    """What is profiled: the builds by side, and how their workers run."""

    builds: Mapping[Side, Build]
    framework: Framework
    environment: Mapping[str, str]  # of the run's workers; the profiler's own is added
    cpus: CpuPlan
    threads: int
    seed: int


@dataclass
class Profiles:
    """What was written: an entry for each case and side, in the order of ``profiles.json``.

    An entry: ``case``, ``side``, ``folder`` (below the profiles'), ``calls`` and ``problem``, one of which is null.
    """

    folder: Path
    entries: list[dict[str, Any]] = field(default_factory=list)
    skipped: str = ""  # why none was made
    stopped: BaseException | None = None  # the signal that ended it

    @property
    def problems(self) -> list[str]:
        """What could not be profiled, and why, a line each."""
        missing = [f"{one['case']} ({one['side']}): {one['problem']}" for one in self.entries if one["problem"]]
        return [self.skipped, *missing] if self.skipped else missing

    def record(self) -> dict[str, Any]:
        """What the report keeps of it."""
        written = sum(one["problem"] is None for one in self.entries)
        return {"folder": str(self.folder), "written": written, "problems": self.problems}


def write_profiles(
    folder: Path,
    cases: Sequence[Case],
    failed: Mapping[str, str],
    subject: Subject,
    cut_short: bool,
    deadline: float = math.inf,
) -> Profiles:
    """Profile each of ``cases``, once whatever its metrics, but for those that have ``failed`` (id -> why); none, if
    the run was ``cut_short``; none after ``deadline`` (of the monotonic clock).

    The files are in ``<folder>/<case>/<side>``, or in ``<folder>/<case>`` where there is one side alone; those of an
    earlier run are replaced. Never raises for what a worker does, or for a signal.
    """
    if cut_short:
        return Profiles(folder, skipped="none was made because the run was aborted")
    profiles, places = Profiles(folder), _places(cases)
    rng = random.Random(f"profiles {subject.seed}")
    environment = {**subject.environment, **subject.framework.profiling_environment()}
    with ExitStack() as stack:
        workers = {
            side: stack.enter_context(
                RestartingWorker(side, build, subject.framework.adaptor, environment, subject.cpus.measure)
            )
            for side, build in subject.builds.items()
        }
        try:
            for case in {case.time_id: case for case in cases}.values():
                for side in rng.sample(list(workers), len(workers)):
                    place = places[case.time_id] if len(workers) == 1 else places[case.time_id] / side
                    entry = {"case": case.time_id, "side": side, "folder": place.as_posix(), "calls": None}
                    why = failed.get(case.id) or _profile(workers[side], case, folder / place, subject, deadline, entry)
                    profiles.entries.append({**entry, "problem": why})
        except KeyboardInterrupt as error:
            profiles.stopped = error
    _write_index(profiles, subject)
    return profiles


def is_profiles_folder(folder: Path) -> bool:
    """Whether a folder holds profiles of an earlier run, or nothing at all."""
    try:
        if not any(folder.iterdir()):
            return True
        return "profiles" in json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _profile(
    worker: RestartingWorker, case: Case, folder: Path, subject: Subject, deadline: float, entry: dict[str, Any]
) -> str | None:
    """Profile one case on one side, and note the number of calls; returns why there is no profile."""
    if time.monotonic() >= deadline:  # before a worker is started
        return NO_TIME_LEFT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        return f"its folder can't be written ({error.strerror})"

    def question(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        calls = max(1, min(MOST_CALLS, int(PROFILED_NS / float(answers[0]["call_ns"]))))
        return {"op": "write_profile", "calls": calls, "folder": str(folder), "name": case.time_id}

    prepare = CaseRequest(case, subject.seed).message("control")  # nothing is slowed
    fork = subject.framework.can_fork(subject.threads, case.context)
    try:
        answers = worker.ask([prepare, question], time_left(case, deadline), fork=fork)
    except RunError as error:
        return str(error)
    if not isinstance(answers, Failure):
        entry["calls"] = answers[1]["calls"]
        return None
    if answers.kind == "timeout" and time.monotonic() >= deadline:
        return NO_TIME_LEFT
    with suppress(OSError), open(folder / "output.txt", "x", encoding="utf-8") as stream:  # a child that died left none
        stream.write(f"{answers.output_tail}\n")
    return f"{answers.kind}: {answers.reason}"


def _places(cases: Sequence[Case]) -> dict[str, Path]:
    """Id (less the metric) -> the case's folder, below that of all: its id, made fit for a path, and none twice."""
    places: dict[str, Path] = {}
    taken: set[str] = set()
    for case in cases:
        if case.time_id in places:
            continue
        parts = [
            re.sub(r"[^\w.,=+@()\[\]-]+|^\.+", "_", part)[:LONGEST_PART] or "_" for part in case.time_id.split("/")
        ]
        place, number = "/".join(parts), 1
        while place.casefold() in taken:  # some file systems take no notice of case
            number += 1
            place = "/".join([*parts[:-1], f"{parts[-1]}_{number}"])
        taken.add(place.casefold())
        places[case.time_id] = Path(place)
    return places


def _write_index(profiles: Profiles, subject: Subject) -> None:
    """Which case is where, beside the folders."""
    document = {
        "builds": {side: build.requested for side, build in subject.builds.items()},
        "profiles": profiles.entries,
    }
    with suppress(OSError):  # the report has the same
        (profiles.folder / INDEX).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
