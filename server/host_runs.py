"""The hosts that measured a report, as rows of the tables: what each measured, and how noisy it was."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from opduel.comparator.history.host_noise import RECENT, REFERENCE_RUNS, level_of, log_spread, run_noise
from opduel.records import METRICS, Comparison, HostRecord, Report
from opduel.records.run_record import AACheckRecord, FleetHostRecord
from opduel.server.database import batches, upsert
from opduel.server.models import UNKNOWN_THREADS, CaseNoise, HostRun, Result, fit
from opduel.server.queries import noise_of

MOST_HOSTS = 1000  # of one run
_LARGEST_NUMBER = 2**31 - 1  # that a column of whole numbers holds
_LONG = 1000  # characters of a text


@dataclass(frozen=True)
class HostPart:
    """One host's part in a run, out of its report; fields are named as the columns of ``HostRun``."""

    host: str
    is_named: bool
    kind: str
    shards: int
    cases: int
    rounds: int
    valid: bool
    distrust: str | None
    comparisons: Sequence[Comparison]
    checks: Sequence[AACheckRecord]


def keep_hosts(
    session: Session,
    report: Report,
    run_number: int,
    started: datetime,
    threads: int | None,
    numbers: Mapping[str, int],
) -> None:
    """Store the hosts of a run; ``numbers`` has the numbers of its cases by id."""
    known_noise = _references(session, run_number, threads)
    references = {case: total / runs for case, (total, runs) in known_noise.items()}
    rows: list[dict[str, Any]] = []
    excesses: dict[int, float] = {}
    for part in hosts_of(report):
        spreads = _spreads(part, numbers)
        noise = run_noise(spreads, references)
        # Where the noise of the cases is unknown, the host's usual noise is subtracted instead.
        level = noise if noise is not None else _usual(session, part)
        excesses |= {case: spread - level for case, spread in spreads.items()}
        rows.append({"run_number": run_number, "started": started, "noise": noise, **_row(part, spreads)})
    if rows:
        session.execute(insert(HostRun), rows)
    _learn(session, excesses, known_noise, threads)


def hosts_of(report: Report) -> list[HostPart]:
    """Return the hosts of a report: those of its fleet, or the only one."""
    fleet, validity = report.run.fleet, report.run.validity
    if fleet is None or not fleet.hosts:
        count, rounds, host = len(report.comparisons), report.run.rounds or 0, report.host
        entry = FleetHostRecord(
            name=host.name or "", shards=1, cases=count, rounds=rounds, valid=validity.valid, host=host
        )
        return [_host_part(entry, validity.reasons, report.comparisons, validity.aa_checks)]
    comparisons, checks = _by_host(report)
    part_by_host: dict[str, HostPart] = {}
    for entry in fleet.hosts[:MOST_HOSTS]:
        reasons = _reasons_of(entry, fleet.hosts, validity.reasons[:MOST_HOSTS])
        part = _host_part(entry, reasons, comparisons.get(entry.name, ()), checks.get(entry.name, ()))
        part_by_host.setdefault(part.host, part)
    return list(part_by_host.values())


def _host_part(
    entry: FleetHostRecord, reasons: Iterable[str], comparisons: Sequence[Comparison], checks: Sequence[AACheckRecord]
) -> HostPart:
    kind = kind_of(entry.host)
    shards, cases, rounds = (max(0, min(count, _LARGEST_NUMBER)) for count in (entry.shards, entry.cases, entry.rounds))
    valid = entry.valid is not False
    distrust = None if valid else fit("; ".join(reasons), _LONG) or None
    name, is_named = _name_host(entry.name, kind)
    return HostPart(name, is_named, kind, shards, cases, rounds, valid, distrust, comparisons, checks)


def _reasons_of(entry: FleetHostRecord, entries: Sequence[FleetHostRecord], reasons: Sequence[str]) -> Iterator[str]:
    """Yield the reasons that are one host's, without its name: they begin with it unless it is the only one of its
    kind, and with the kind if there are several."""
    kind_prefix = f"{entry.kind}: " if len({other.kind for other in entries}) > 1 else ""
    name_prefix = f"{entry.name}: "
    is_only = sum(other.kind == entry.kind for other in entries) == 1
    for reason in reasons:
        reason_of_host = reason.removeprefix(kind_prefix)
        if reason.startswith(kind_prefix) and (is_only or reason_of_host.startswith(name_prefix)):
            yield reason_of_host.removeprefix(name_prefix)


def _by_host(report: Report) -> tuple[dict[str, list[Comparison]], dict[str, list[AACheckRecord]]]:
    """Return the comparisons and the A/A checks of each host of a fleet."""
    comparisons: dict[str, list[Comparison]] = {}
    host_of = {}
    for comparison in report.comparisons:
        if comparison.host is not None:
            comparisons.setdefault(comparison.host, []).append(comparison)
            host_of[comparison.case] = comparison.host
    checks: dict[str, list[AACheckRecord]] = {}
    for check in report.run.validity.aa_checks:
        if check.case in host_of:
            checks.setdefault(host_of[check.case], []).append(check)
    return comparisons, checks


def kind_of(host: HostRecord) -> str:
    """Return the kind of machine in words. Hosts of one kind are compared; the kernel's release changes too often."""
    processors = host.logical_cpus
    parts = (
        host.cpu_model,
        f"{processors} processor{'' if processors == 1 else 's'}" if processors else None,
        host.machine,
        (host.kernel or "").partition(" ")[0],
    )
    return fit(", ".join(filter(None, parts))) or "unknown kind"


def _name_host(name: str, kind: str) -> tuple[str, bool]:
    """Return what a host is called, and whether that is its name. A name of dots alone can't stand in a URL's path."""
    cleaned = fit(name.strip())
    return (cleaned, True) if cleaned.strip(".") else (fit(f"unnamed: {kind}"), False)


def _spreads(part: HostPart, numbers: Mapping[str, int]) -> dict[int, float]:
    """Return the log spread of each case that a host measured, by the case's number.

    Changed cases are left out, as one side may run other code. Undecided cases count: on a noisy host only the quietest
    cases get the verdict unchanged.
    """
    checks = {check.case: _log_ratios(check) for check in part.checks}
    spread_by_number = {}
    for comparison in part.comparisons:
        metric = METRICS.get(comparison.metric)
        if metric is None or not metric.noisy or comparison.injected or comparison.failure is not None:
            continue
        if comparison.finding is not None:
            continue
        spread = log_spread([sample.log_ratio for sample in comparison.samples], checks.get(comparison.case, ()))
        if spread is not None:
            spread_by_number[numbers[comparison.case]] = spread
    return spread_by_number


def _log_ratios(check: AACheckRecord) -> list[float]:
    """Return the log ratios of an A/A check's process pairs."""
    return [sample.log_ratio for sample in check.samples]


def _row(part: HostPart, spreads: Mapping[int, float]) -> dict[str, Any]:
    ratios = [math.log(check.ratio) for check in part.checks if check.ratio is not None and check.ratio > 0]
    of_checks = [spread for check in part.checks if (spread := log_spread(_log_ratios(check))) is not None]
    names = ("host", "is_named", "kind", "shards", "cases", "rounds", "valid", "distrust")
    return {
        **{name: getattr(part, name) for name in names},
        "spread": math.exp(statistics.median(spreads.values())) if spreads else None,
        "noise_cases": len(spreads),
        "aa_checks": len(part.checks),
        "aa_failed": sum(check.flagged for check in part.checks),
        "aa_log_ratio": max(ratios, key=abs, default=None),
        "aa_spread": math.exp(statistics.median(of_checks)) if of_checks else None,
    }


def _usual(session: Session, part: HostPart) -> float:
    """Return the host's noise in its last runs, a log ratio; 0 if it is unknown."""
    return level_of([noise for _, noise in noise_of(session, part.host, part.kind, RECENT)]) or 0.0


def _references(session: Session, run_number: int, threads: int | None) -> dict[int, tuple[float, int]]:
    """Return the noise sums of the run's cases, by number, each with the number of runs in the sum."""
    query = (
        select(CaseNoise.case_number, CaseNoise.total, CaseNoise.runs)
        .join(Result, Result.case_number == CaseNoise.case_number)
        .where(Result.run_number == run_number, CaseNoise.threads == _threads(threads))
    )
    return {row.case_number: (row.total, row.runs) for row in session.execute(query)}


def _learn(
    session: Session, excesses: Mapping[int, float], known_noise: Mapping[int, tuple[float, int]], threads: int | None
) -> None:
    """Add a run to the noise of cases that are known from too few runs. The order of the cases' numbers is fixed, so
    that two reports that come at once can't deadlock."""
    rows = [
        {"case_number": case, "threads": _threads(threads), "total": excess, "runs": 1}
        for case, excess in sorted(excesses.items())
        if known_noise.get(case, (0.0, 0))[1] < REFERENCE_RUNS
    ]
    statement = upsert(session, CaseNoise)
    added = {"total": CaseNoise.total + statement.excluded.total, "runs": CaseNoise.runs + 1}
    statement = statement.on_conflict_do_update(index_elements=["case_number", "threads"], set_=added)
    for some in batches(rows):
        session.execute(statement, some)


def _threads(threads: int | None) -> int:
    return UNKNOWN_THREADS if threads is None else threads
