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
from opduel.server.models import CaseNoise, HostRun, Result, fit
from opduel.server.queries import noise_of

MOST_HOSTS = 1000  # of one run
_LARGEST_NUMBER = 2**31 - 1  # that a column of whole numbers holds
_LONG = 1000  # characters of a text


@dataclass(frozen=True)
class HostPart:
    """One host's part in a run, out of its report: columns of ``HostRun``, its comparisons and its A/A checks."""

    columns: dict[str, Any]
    comparisons: Sequence[Comparison]
    checks: Sequence[AACheckRecord]


def keep_hosts(
    session: Session, report: Report, run_number: int, started: datetime, threads: int, numbers: Mapping[str, int]
) -> None:
    """Store the hosts of a run; ``numbers`` has the numbers of its cases by id."""
    known_noise = _references(session, run_number, threads)
    references = {case: total / runs for case, (total, runs) in known_noise.items()}
    rows: list[dict[str, Any]] = []
    excesses: dict[int, float] = {}
    for part in hosts_of(report):
        spreads = _spreads(part, numbers)
        noise = level = run_noise(spreads, references)
        if level is None:  # the noise of the cases is unknown: the host's own in its last runs is subtracted instead
            last_runs = noise_of(session, part.columns["host"], part.columns["kind"], RECENT)
            level = level_of([value for _, value in last_runs]) or 0.0
        excesses |= {case: spread - level for case, spread in spreads.items()}
        columns = {**part.columns, **_noise_columns(part.checks, spreads)}
        rows.append({"run_number": run_number, "started": started, "noise": noise, **columns})
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
        return [HostPart(_columns(entry, validity.reasons), report.comparisons, validity.aa_checks)]
    part_by_host: dict[str, HostPart] = {}
    for entry in fleet.hosts[:MOST_HOSTS]:
        comparisons = [comparison for comparison in report.comparisons if comparison.host == entry.name]
        cases = {comparison.case for comparison in comparisons}
        checks = [check for check in validity.aa_checks if check.case in cases]
        columns = _columns(entry, _reasons_of(entry, fleet.hosts, validity.reasons[:MOST_HOSTS]))
        part_by_host.setdefault(columns["host"], HostPart(columns, comparisons, checks))
    return list(part_by_host.values())


def _columns(entry: FleetHostRecord, reasons: Iterable[str]) -> dict[str, Any]:
    """Return the columns that describe a host and its share of the run."""
    kind = kind_of(entry.host)
    name = fit(entry.name.strip())
    is_named = bool(name.strip("."))  # a name of dots alone can't stand in a URL's path
    counts = {column: max(0, min(getattr(entry, column), _LARGEST_NUMBER)) for column in ("shards", "cases", "rounds")}
    valid = entry.valid is not False
    return {
        "host": name if is_named else fit(f"unnamed: {kind}"),
        "is_named": is_named,
        "kind": kind,
        **counts,
        "valid": valid,
        "distrust": None if valid else fit("; ".join(reasons), _LONG) or None,
    }


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


def _spreads(part: HostPart, numbers: Mapping[str, int]) -> dict[int, float]:
    """Return the log spread of each case that a host measured, by the case's number.

    Changed cases are left out, as one side may run other code. Undecided cases count: on a noisy host only the quietest
    cases get the verdict unchanged.
    """
    checks = {check.case: [sample.log_ratio for sample in check.samples] for check in part.checks}
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


def _noise_columns(checks: Sequence[AACheckRecord], spreads: Mapping[int, float]) -> dict[str, Any]:
    ratios = [math.log(check.ratio) for check in checks if check.ratio is not None and check.ratio > 0]
    return {
        "spread": math.exp(statistics.median(spreads.values())) if spreads else None,
        "noise_cases": len(spreads),
        "aa_checks": len(checks),
        "aa_failed": sum(check.flagged for check in checks),
        "aa_log_ratio": max(ratios, key=abs, default=None),
    }


def _references(session: Session, run_number: int, threads: int) -> dict[int, tuple[float, int]]:
    """Return the noise sums of the run's cases, by number, each with the number of runs in the sum."""
    query = (
        select(CaseNoise.case_number, CaseNoise.total, CaseNoise.runs)
        .join(Result, Result.case_number == CaseNoise.case_number)
        .where(Result.run_number == run_number, CaseNoise.threads == threads)
    )
    return {row.case_number: (row.total, row.runs) for row in session.execute(query)}


def _learn(
    session: Session, excesses: Mapping[int, float], known_noise: Mapping[int, tuple[float, int]], threads: int
) -> None:
    """Add a run to the noise of cases that are known from too few runs. The order of the cases' numbers is fixed, so
    that two reports that come at once can't deadlock."""
    rows = [
        {"case_number": case, "threads": threads, "total": excess, "runs": 1}
        for case, excess in sorted(excesses.items())
        if known_noise.get(case, (0.0, 0))[1] < REFERENCE_RUNS
    ]
    statement = upsert(session, CaseNoise)
    added = {"total": CaseNoise.total + statement.excluded.total, "runs": CaseNoise.runs + 1}
    statement = statement.on_conflict_do_update(index_elements=["case_number", "threads"], set_=added)
    for some in batches(rows):
        session.execute(statement, some)
