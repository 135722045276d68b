"""Leave out the cases that the change between two builds of a Python package can't reach, or that neither runs."""

import dataclasses
import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from opduel.commands.entry import log
from opduel.driver.builds.environment_build import site_packages
from opduel.driver.code_difference import CodeDifference, compare_installed
from opduel.driver.likely_reach import LikelyReach
from opduel.harness import reach as recording
from opduel.harness.processes.case_request import CaseRequest, benchmark_of
from opduel.harness.reach import record_reach
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Case, Failure
from opduel.records.measurement import SIDES, Side
from opduel.records.reach import Reach
from opduel.records.run_record import UNKNOWN, LeftOutRecord
from opduel.support.atomic import write_atomically
from opduel.support.digests import data_digest, file_digest
from opduel.support.text import counted, duration, listed

SHOWN = 5  # reasons why cases fail, in the log
MOST_KEPT = 50  # builds whose cases were recorded
LONGEST_S = 600.0  # of recording
LEAST_S, BUDGET_SHARE = 30.0, 0.25  # of recording beside a time budget: so long, or this share of it
SUITE = "OPDUEL_SUITE"  # the build's variable that says where its copy of the suite is
_RECORDER = Path(recording.__file__).parent / "worker" / "reach.py"


@dataclass(frozen=True)
class NotMeasured:
    """The cases of a request that aren't measured: those that the change can't reach, and those that fail on both
    sides in the same way, by id."""

    left_out: LeftOutRecord
    failures: Mapping[str, Failure] = field(default_factory=dict)

    def without(self, request: RunRequest) -> RunRequest:
        """Return the request for the other cases, those that fail among them, which take no time."""
        case_ids = set(self.left_out.cases)
        cases = [case for case in request.cases if case.id not in case_ids]
        return dataclasses.replace(request, cases=cases, failures={**request.failures, **self.failures})


def record_reaches(request: RunRequest) -> tuple[Mapping[str, Reach], Mapping[str, Reach]] | None:
    """Return what each case of the request runs in the control, and in the treatment, by its id; None where that can't
    be recorded."""
    if not _can_record(request):
        return None
    control, treatment = (_Recorder(request).record(side, request.cases) for side in SIDES)
    return control, treatment


def _can_record(request: RunRequest) -> bool:
    control, treatment = request.control, request.treatment
    return control.directory is not None and treatment.directory is not None and control.python == treatment.python


def leave_out(request: RunRequest, level: int = logging.INFO) -> NotMeasured | None:
    """Return which cases of the request the change between its builds can't reach, and which neither runs; None if it
    may reach all, which is logged with the reason, at this ``level``. What each case runs is recorded once for a build,
    and kept."""
    if not _can_record(request):
        log.log(level, "measuring every case: the two builds are no commits of a package in one version of Python")
        return None
    difference = compare_installed(_site_of(request.control), _site_of(request.treatment))
    if difference.everything:
        log.log(level, "measuring every case: %s can reach each", listed(difference.everything, 3))
        return None
    if not (difference.functions or difference.files or difference.lookups):
        log.log(level, "nothing to measure: no code that is executed differs; --all_cases measures all the same")
        return NotMeasured(LeftOutRecord(cases=tuple(case.id for case in request.cases), total=len(request.cases)))
    suite = request.control.environment.get(SUITE)
    likely = LikelyReach(_site_of(request.control), difference.parts, Path(suite) if suite else None)
    ranks = {case.id: likely.rank(case) for case in request.cases}
    cases = sorted(request.cases, key=lambda case: (ranks[case.id], case.operator, case.id))

    def is_reached(reach: Reach) -> bool:
        reason = difference.reason(reach)
        return reason is not None and not reason.startswith(UNKNOWN)

    recorder = _Recorder(request)
    reaches = recorder.record("control", cases, is_reached)
    failures = _failures_on_both(recorder, reaches)
    reasons = {case.id: difference.reason(reaches[case.id]) for case in cases if case.id not in failures}
    reasons |= _reasons_of_others(cases, reaches, reasons)
    reasons |= _reasons_on_treatment(recorder, difference, reaches, reasons)
    unreached = tuple(case_id for case_id, reason in reasons.items() if reason is None)
    reached = {case_id: reason for case_id, reason in reasons.items() if reason is not None}
    _log_choice(len(request.cases), reached, difference.parts, level)
    _log_failures(failures)
    record = LeftOutRecord(cases=unreached, total=len(request.cases), changed=tuple(difference.parts), reached=reached)
    return NotMeasured(record, failures)


def _reasons_of_others(
    cases: Sequence[Case], reaches: Mapping[str, Reach], reasons: Mapping[str, str | None]
) -> dict[str, str]:
    """Return what reaches cases that weren't looked at: what reaches another one of their benchmark."""
    reason_by_benchmark = {
        benchmark_of(case): reason
        for case in cases
        if (reason := reasons.get(case.id)) is not None and not reason.startswith(UNKNOWN)
    }
    return {
        case.id: reason_by_benchmark[benchmark_of(case)]
        for case in cases
        if reaches[case.id] == recording.NO_TIME and benchmark_of(case) in reason_by_benchmark
    }


def _failures_on_both(recorder: "_Recorder", reaches: Mapping[str, Reach]) -> dict[str, Failure]:
    """Return the failures of the cases that the control can't run, and the treatment neither."""
    request = recorder.request
    failing = [case for case in request.cases if reaches[case.id].failure]
    theirs = recorder.record("treatment", failing) if failing else {}
    failures: dict[str, Failure] = {}
    for case in failing:
        failure, other = reaches[case.id].failure, theirs[case.id].failure
        if failure and other and failure.kind == other.kind:
            failures[case.id] = dataclasses.replace(failure, side="both")
    return failures


def _log_failures(failures: Mapping[str, Failure]) -> None:
    """Log which failures leave how many cases out."""
    reasons = Counter(f"{failure.kind}: {failure.reason}" for failure in failures.values()).most_common()
    for reason, count in reasons[:SHOWN]:
        log.warning("%s not measured, as both builds can't run it: %s", counted(count, "case"), reason)
    if further_cases := sum(count for _, count in reasons[SHOWN:]):
        log.warning("%s more, for other reasons (report.json has them)", counted(further_cases, "case"))


def _reasons_on_treatment(
    recorder: "_Recorder", difference: CodeDifference, reaches: Mapping[str, Reach], reasons: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return what reaches those cases that must be looked at on the treatment, too."""
    cases = [
        case
        for case in recorder.request.cases
        if case.id in reasons and reasons[case.id] is None and difference.needs_treatment(reaches[case.id])
    ]
    if not cases:
        return {}
    theirs = recorder.record("treatment", cases)
    return {case.id: difference.reason_on_both(reaches[case.id], theirs[case.id]) for case in cases}


def _log_choice(count: int, reached: Mapping[str, str], changed: Sequence[str], level: int) -> None:
    log.log(level, "changed: %s", listed(changed) if changed else "nothing that is executed")
    in_all = counted(count, "case")  # those that fail included
    reasons = [reason for reason in reached.values() if reason.startswith(UNKNOWN)]
    share = f"{len(reached) - len(reasons)} of {in_all} can be reached by this change"
    log.log(level, "%s%s; --all_cases measures all", share, ", as far as is known" if reasons else "")
    for reason, cases in Counter(reasons).most_common(3):
        more = "1 more is measured, as what it runs" if cases == 1 else f"{cases} more are measured, as what they run"
        log.log(level, "%s isn't known: %s", more, reason.removeprefix(UNKNOWN))


class _Recorder:
    """Records what cases reach, or takes what was recorded before, in a limited time for all of it."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        budget_s = request.configuration.time_budget or math.inf
        self._deadline = time.monotonic() + min(LONGEST_S, max(LEAST_S, BUDGET_SHARE * budget_s))

    def record(
        self, side: Side, cases: Sequence[Case], is_reached: Callable[[Reach], bool] = lambda _: False
    ) -> dict[str, Reach]:
        """Return what the cases reach on a side; ``NO_TIME`` of one whose benchmark ``is_reached`` by others."""
        file, reaches = self._kept(side)
        keys = {
            case.id: data_digest(CaseRequest(case, 0).description() | {"metric": case.metric})[:16] for case in cases
        }
        reached = {benchmark_of(case) for case in cases if is_reached(reaches.get(keys[case.id], recording.NO_TIME))}
        missing = [case for case in cases if keys[case.id] not in reaches and benchmark_of(case) not in reached]
        if missing:
            new = self._record_now(side, missing, is_reached)
            reaches |= {keys[case_id]: reach for case_id, reach in new.items()}
            with suppress(OSError):  # a cache
                _write(file, reaches)
        return {case.id: reaches.get(keys[case.id], recording.NO_TIME) for case in cases}

    def _kept(self, side: Side) -> tuple[Path, dict[str, Reach]]:
        """Return what was recorded of a side's build before, by the cases' keys, and the file that has it."""
        request = self.request
        build = request.control if side == "control" else request.treatment
        settings = [build.digest, request.framework.name, dict(request.framework.suite_variables), dict(request.env)]
        key = data_digest([*settings, request.configuration.threads, file_digest(_RECORDER)])
        file = platformdirs.user_cache_path("opduel") / "reach" / f"{key[:32]}.json"
        return file, _read(file)

    def _record_now(
        self, side: Side, cases: Sequence[Case], is_reached: Callable[[Reach], bool]
    ) -> Mapping[str, Reach]:
        build = self.request.control if side == "control" else self.request.treatment
        left_s = max(1.0, self._deadline - time.monotonic())
        words = "recording what %s on %s, once for a build, in at most %s"
        log.info(words, _runs(len(cases)), build.requested[:12], duration(round(left_s)))
        return record_reach(self.request, side, cases, _site_of(build), left_s, is_reached)


def _site_of(build: Build) -> Path:
    return site_packages(Path(str(build.directory)))


def _runs(count: int) -> str:
    return f"{count} cases run" if count != 1 else "1 case runs"


def _read(file: Path) -> dict[str, Reach]:
    """Return what was kept, by the cases' keys; nothing if the file is missing or damaged."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        parts = [frozenset[str](part) for part in document["parts"]]
        return {
            key: Reach(parts[functions], parts[imported], parts[modules], str(unknown))
            for key, (functions, imported, modules, unknown) in document["cases"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def _write(file: Path, reaches: Mapping[str, Reach]) -> None:
    """Keep what is known; equal parts of several cases once. The oldest files of other builds go."""
    numbers: dict[frozenset[str], int] = {}

    def number(part: frozenset[str]) -> int:
        return numbers.setdefault(part, len(numbers))

    cases = {
        key: [number(reach.functions), number(reach.imported), number(reach.modules), reach.unknown]
        for key, reach in reaches.items()
        if reach != recording.NO_TIME and reach.failure is None  # which may have a cause outside the build
    }
    document = {"cases": cases, "parts": [sorted(part) for part in numbers]}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(document).encode())
    for old in sorted(file.parent.glob("*.json"), key=os.path.getmtime)[:-MOST_KEPT]:
        old.unlink(missing_ok=True)
