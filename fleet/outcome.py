"""The report of a run on a fleet, made of its parts and its timing."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from opduel.comparator import plan_looks
from opduel.fleet.merge import HostReport, merge, with_problems_of_hosts
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED, Report, RunError


@dataclass(frozen=True)
class RunTiming:
    """A run's start, seconds, reason why it was stopped (None: it was not), and whether by a signal."""

    started: datetime
    wall_s: float
    stopped: str | None
    interrupted: bool


def count_attempts(request: RunRequest, given_up: int) -> int:
    """Return how many comparisons the given-up attempts count as: those of each kind of host, so that all kinds
    together keep the level alpha."""
    own = sum(case.metric in SAMPLED for case in request.cases)
    return given_up * (1 + math.ceil(request.other_comparisons / max(1, own)))


def _goes_on(part: HostReport) -> bool:
    """Return whether the part could go on with more time."""
    return bool(part.report.run.resumable) and part.report.run.is_cut_short


def report_of(request: RunRequest, parts: Sequence[HostReport], course: RunTiming, given_up: int) -> Report:
    """Return the report of all parts; ``given_up`` comparisons were begun on one host and made on another.

    Raises:
        InterruptedRunError: a signal ended the run before a part was measured.
        RunError: no part could be measured.
    """
    if not parts:
        error = InterruptedRunError if course.interrupted else RunError
        raise error(f"nothing was measured: {course.stopped}")
    reasons = [part.report.run.stop_reason for part in parts if part.report.run.is_cut_short]
    reasons = [course.stopped, *reasons] if course.stopped else reasons
    looks = plan_looks(request.max_rounds)
    other_comparisons = request.other_comparisons + count_attempts(request, given_up) - given_up
    report = merge(parts, request.cases, looks, request.configuration.alpha, other_comparisons, given_up)
    labels = request.labels
    run = replace(
        report.run,
        **vars(replace(labels, suite=with_problems_of_hosts(labels.suite, parts) if labels.suite else None)),
        id=f"{course.started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        started=course.started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        configuration=request.configuration,
        time_budget=request.configuration.time_budget,
        # A shard of an earlier start, or measured ahead, took longer than this start shows.
        wall_s=max(course.wall_s, *(part.report.run.wall_s or 0.0 for part in parts)),
        complete=not reasons,
        stop_reason="; ".join(dict.fromkeys(filter(None, reasons))) or None,
        aborted=course.stopped is not None or report.run.aborted,
        interrupted=course.interrupted if course.stopped else report.run.interrupted,
        resumable=request.log is not None and (course.stopped is not None or any(_goes_on(part) for part in parts)),
    )
    return replace(report, run=run).without_secrets()
