"""Merging of the reports of shards, and of kinds of host, into one report of the run."""

import dataclasses
import math
import secrets
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from opduel.comparator import Looks, RunAnalysis, benjamini_hochberg, plan_looks
from opduel.harness.machine.host import merged_noise
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_request import RunRequest
from opduel.records import FLAGGED, ONE_SIDED, SAMPLED, Case, Comparison, HostRecord, Report, RunError, RunRecord
from opduel.records.run_record import FleetHostRecord, FleetKindRecord, FleetRecord, SuiteRecord

NOT_MEASURED = "not measured: the fleet had not come to it when the run ended"
_MAY_BE_FLAGGED = ("inconclusive", *ONE_SIDED)  # a shard's verdicts that can become a flag


@dataclass(frozen=True)
class HostReport:
    """A shard's report, and its host's name. ``is_whole``: no case of the shard moved to another host."""

    host: str
    report: Report
    is_whole: bool = True


@dataclass(frozen=True)
class KindReport:
    """The report of one kind of host; if there is none, ``why`` is the reason."""

    kind: str
    report: Report | None
    why: str = ""


def merge_kinds(kinds: Sequence[KindReport], rows: Sequence[Case], interrupted: bool, has_log: bool) -> Report:
    """Return the report of a run that each kind of host measured; ``rows`` are the cases of each kind, in order.

    Verdicts and q values stay those of each kind, whose correction counted the rows of the others as p = 1: so a
    finding on one kind changes nothing on another. ValueError: no kind has a report.
    """
    parts = [
        HostReport(kind_report.kind, kind_report.report) for kind_report in kinds if kind_report.report is not None
    ]
    if not parts:
        raise ValueError("no kind of host has a report")
    kinds_without_report = {kind_report.kind for kind_report in kinds if kind_report.report is None}
    comparison_by_row = {comparison.case: comparison for part in parts for comparison in part.report.comparisons}
    hosts = [(part.host, host) for part in parts for host in _fleet(part.report).hosts]
    reasons = {
        kind_report.kind: kind_report.why if kind_report.report is None else kind_report.report.run.stop_reason
        for kind_report in kinds
    }
    runs = [part.report.run for part in parts]
    merged = _merged_run(parts)
    skipped = {skipped_case.case for skipped_case in merged.skipped}
    rows_to_report = tuple(row for row in rows if row.id not in skipped)
    record = dataclasses.replace(
        merged,
        started=min(str(run.started) for run in runs),
        finished=max(str(run.finished) for run in runs),
        wall_s=max(run.wall_s or 0.0 for run in runs),
        complete=bool(merged.complete) and not kinds_without_report,
        stop_reason="; ".join(f"{kind}: {reason}" for kind, reason in reasons.items() if reason) or None,
        aborted=merged.aborted or bool(kinds_without_report),
        interrupted=interrupted or merged.interrupted,
        resumable=merged.resumable or (bool(kinds_without_report) and has_log),
        fleet=FleetRecord(
            hosts=tuple(dataclasses.replace(host, kind=kind) for kind, host in hosts),
            kinds=tuple(
                FleetKindRecord(
                    name=kind_report.kind,
                    hosts=tuple(host.name for kind, host in hosts if kind == kind_report.kind),
                    stop_reason=reasons[kind_report.kind],
                )
                for kind_report in kinds
            ),
            given_up=sum(_fleet(part.report).given_up for part in parts),
        ),
    )
    comparisons = [
        dataclasses.replace(
            comparison_by_row.get(row.id)
            or Comparison.without_figures(row, "inconclusive", note=_not_measured(row.kind, kinds_without_report)),
            kind=row.kind,
        )
        for row in rows_to_report
    ]
    first = parts[0].report
    host = _merged_host([part.report.host for part in parts])
    report = Report(record, first.control, first.treatment, host, comparisons, cases=rows_to_report)
    return report.without_secrets()


def _fleet(report: Report) -> FleetRecord:
    return report.run.fleet or FleetRecord()


def _not_measured(kind: str | None, without_report: Container[str]) -> str:
    return f"not measured on a host of the kind {kind}" if kind in without_report else NOT_MEASURED


def merge(
    parts: Sequence[HostReport],
    cases: Sequence[Case],
    looks: Looks,
    alpha: float,
    other_comparisons: int = 0,
    given_up: int = 0,
) -> Report:
    """Return the report of a run whose ``cases`` were measured in ``parts``. ``other_comparisons`` are of the same
    family in other runs, and count as p = 1.

    Each shard was corrected for all of the run's comparisons, with p = 1 for those of other shards. With their real p
    values, the correction can only flag more: so a case that its shard left open, or decided on one side only, may be
    flagged now; not in a run with a verification, which the case would need too, and not on a disturbed host.

    ``given_up`` comparisons were begun on a slow host, left open there, and made on another. Each attempt was a chance
    to be flagged, and belongs to the family with p = 1. Shards did not know of later attempts, so a flag that does not
    survive all of them is withdrawn. ValueError: there are no parts, or two have a case in common.
    """
    if not parts:
        raise ValueError("no part of the run was measured")
    first = parts[0].report
    comparison_by_case: dict[str, Comparison] = {}
    skipped: set[str] = set()
    for part in parts:
        skipped |= {comparison.case for comparison in part.report.run.skipped}
        for comparison in part.report.comparisons:
            if comparison.case in comparison_by_case:
                raise ValueError(f"{comparison.case} was measured twice")
            comparison_by_case[comparison.case] = dataclasses.replace(comparison, host=part.host)
    for part in parts:
        comparison_by_case |= {
            comparison.case: comparison
            for comparison in _flagged_by_all(part, comparison_by_case, looks, alpha, other_comparisons + given_up)
        }
    q_values = _q_values(list(comparison_by_case.values()), other_comparisons + given_up)
    if given_up:
        comparison_by_case = {
            case_id: _withdraw_if_lost(comparison, q_values.get(case_id), alpha)
            for case_id, comparison in comparison_by_case.items()
        }
    comparisons = [
        dataclasses.replace(comparison_by_case[case.id], q_value=q_values.get(case.id))
        if case.id in comparison_by_case
        else dataclasses.replace(Comparison.without_figures(case, "inconclusive", note=NOT_MEASURED), unreached=True)
        for case in cases
        if case.id not in skipped
    ]
    cases_to_report = tuple(case for case in cases if case.id not in skipped)
    record = dataclasses.replace(_merged_run(parts), fleet=FleetRecord(hosts=_hosts(parts), given_up=given_up))
    host = _merged_host([part.report.host for part in parts])
    return Report(record, first.control, first.treatment, host, comparisons, cases=cases_to_report)


def _p_value(comparison: Comparison) -> float:
    return 1.0 if comparison.p_value is None or comparison.failure is not None else comparison.p_value


def _q_values(comparisons: Sequence[Comparison], other_comparisons: int) -> dict[str, float]:
    """Return the q values of the tested cases; the family is all sampled comparisons, and so many others."""
    family = [comparison for comparison in comparisons if comparison.metric in SAMPLED]
    corrected = benjamini_hochberg([*map(_p_value, family), *[1.0] * other_comparisons])[: len(family)]
    return {
        comparison.case: q for comparison, q in zip(family, corrected, strict=True) if comparison.p_value is not None
    }


def _withdraw_if_lost(comparison: Comparison, q_value: float | None, alpha: float) -> Comparison:
    """Return the comparison; a flag that the q value of all attempts does not support is withdrawn."""
    if comparison.verdict not in FLAGGED or q_value is None or q_value <= alpha:
        return comparison
    note = "; ".join(filter(None, (f"{comparison.verdict} if no case had been begun on two hosts", comparison.note)))
    return dataclasses.replace(comparison, verdict="inconclusive", suspected=comparison.verdict, note=note)


def _flagged_by_all(
    part: HostReport, comparison_by_case: Mapping[str, Comparison], looks: Looks, alpha: float, other_comparisons: int
) -> list[Comparison]:
    """Return the part's comparisons that are flagged only with the p values of all others. A part whose open cases
    moved has none, since its prior of the noise included them."""
    report = part.report
    validity = report.run.validity
    if not part.is_whole:
        return []
    if report.configuration.verify or report.run.replicates or (validity.hold and not validity.valid):
        return []
    own = {comparison.case: comparison for comparison in report.comparisons if comparison.metric in SAMPLED}
    cases = [case for case in report.cases if case.id in own]
    other_p_values = [
        _p_value(comparison)
        for comparison in comparison_by_case.values()
        if comparison.case not in own and comparison.metric in SAMPLED
    ]
    again = RunAnalysis(
        cases,
        {case.id: own[case.id].samples for case in cases},
        {case.id: failure for case in cases if (failure := own[case.id].failure) is not None},
        looks,
        alpha,
        injected=frozenset(case_id for case_id, comparison in own.items() if comparison.injected),
        other_p_values=[*other_p_values, *[1.0] * other_comparisons],
    ).comparisons()
    return [
        dataclasses.replace(
            comparison, host=part.host, work=own[comparison.case].work, breakdown=own[comparison.case].breakdown
        )
        for comparison in again
        if comparison.verdict in FLAGGED and own[comparison.case].verdict in _MAY_BE_FLAGGED
    ]


def _merged_run(parts: Sequence[HostReport]) -> RunRecord:
    """Return what follows from the runs of the parts."""
    runs = [part.report.run for part in parts]
    spent: dict[str, float] = {}
    for run in runs:
        for name, seconds in run.spent_s.items():
            spent[name] = spent.get(name, 0.0) + seconds
    stop_reasons = [run.stop_reason for run in runs if run.is_cut_short]
    several = len({part.host for part in parts}) > 1
    disturbances = [
        f"{part.host}: {reason}" if several else reason for part in parts for reason in part.report.run.validity.reasons
    ]
    return dataclasses.replace(
        runs[0],
        rounds=sum(run.rounds or 0 for run in runs),
        timed_s=sum(run.timed_s or 0.0 for run in runs),
        aa_cases=sum(run.aa_cases or 0 for run in runs),
        not_broken_down=sum(run.not_broken_down for run in runs),
        spent_s=spent,
        complete=not stop_reasons,
        stop_reason="; ".join(dict.fromkeys(filter(None, stop_reasons))) or None,
        aborted=any(run.aborted for run in runs),
        interrupted=any(run.interrupted for run in runs),
        resumable=any(run.resumable for run in runs),
        resumed=(),
        forecast=None,
        skipped=tuple(skipped_case for run in runs for skipped_case in run.skipped),
        incidents=tuple(incident for run in runs for incident in run.incidents),
        validity=dataclasses.replace(
            runs[0].validity,
            valid=all(run.validity.valid is not False for run in runs),
            reasons=tuple(dict.fromkeys(disturbances)),
            frequency_mhz=runs[0].validity.frequency_mhz if len(parts) == 1 else None,
            aa_checks=tuple(check for run in runs for check in run.validity.aa_checks),
        ),
    )


def with_problems_of_hosts(suite: SuiteRecord, parts: Sequence[HostReport]) -> SuiteRecord:
    """Return the suite with its problems: the first ones, and on which hosts its ``setup_cache`` failed."""
    of_hosts: dict[str, list[str]] = {}
    for part in parts:
        for line in part.report.run.suite.problems if part.report.run.suite else ():
            of_hosts.setdefault(line, []).append(part.host)
    new = (f"{', '.join(dict.fromkeys(on))}: {line}" for line, on in of_hosts.items() if line not in suite.problems)
    return dataclasses.replace(suite, problems=(*suite.problems, *new))


def _hosts(parts: Sequence[HostReport]) -> tuple[FleetHostRecord, ...]:
    """Return an entry for each host: what it measured, and its record."""
    by_host: dict[str, list[Report]] = {}
    for part in parts:
        by_host.setdefault(part.host, []).append(part.report)
    return tuple(
        FleetHostRecord(
            name=name,
            shards=len(reports),
            cases=sum(len(report.comparisons) for report in reports),
            rounds=sum(report.run.rounds or 0 for report in reports),
            wall_s=sum(report.run.wall_s or 0.0 for report in reports),
            valid=all(report.run.validity.valid is not False for report in reports),
            host=_merged_host([report.host for report in reports]),
        )
        for name, reports in sorted(by_host.items())
    )


def _merged_host(hosts: Sequence[HostRecord]) -> HostRecord:
    """Return what all hosts have in common, with the models of all processors, and the noise of all times together."""
    names = [field.name for field in dataclasses.fields(HostRecord)]
    shared = {name for name in names if all(getattr(host, name) == getattr(hosts[0], name) for host in hosts)}
    models = list(dict.fromkeys(filter(None, (host.cpu_model for host in hosts))))
    return dataclasses.replace(
        HostRecord(**{name: getattr(hosts[0], name) for name in shared}),
        cpu_model=" and ".join(models) or None,
        before=merged_noise([host.before for host in hosts]),
        during=merged_noise([host.during for host in hosts]),
        verifying=merged_noise([host.verifying for host in hosts]),
    )


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
    InterruptedRunError: a signal ended the run before a part was measured; RunError: no part could be measured."""
    if not parts:
        error = InterruptedRunError if course.interrupted else RunError
        raise error(f"nothing was measured: {course.stopped}")
    reasons = [part.report.run.stop_reason for part in parts if part.report.run.is_cut_short]
    reasons = [course.stopped, *reasons] if course.stopped else reasons
    looks = plan_looks(request.max_rounds)
    other_comparisons = request.other_comparisons + count_attempts(request, given_up) - given_up
    report = merge(parts, request.cases, looks, request.configuration.alpha, other_comparisons, given_up)
    labels = request.labels
    suite = with_problems_of_hosts(labels.suite, parts) if labels.suite else None
    run = dataclasses.replace(
        report.run,
        **vars(dataclasses.replace(labels, suite=suite)),
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
    return dataclasses.replace(report, run=run).without_secrets()
