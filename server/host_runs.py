"""What a report says of the hosts that measured it, as the tables keep it: what each did, and how noisy it was."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from opduel.comparator.host_noise import RECENT, REFERENCE_RUNS, level_of, log_spread, run_noise
from opduel.records import METRICS, Comparison, HostRecord, Report
from opduel.records.run_record import AACheckRecord
from opduel.server.database import batches, upsert
from opduel.server.models import UNKNOWN_THREADS, CaseNoise, HostRun, Result, fit
from opduel.server.queries import noise_of

MOST_HOSTS = 1000  # of one run
_LARGEST_NUMBER = 2**31 - 1  # that a column of whole numbers holds
_LONG = 1000  # characters of a text


@dataclass(frozen=True)
class HostPart:
    """What one host did in a run, as its report has it; names as the columns of ``HostRun``."""

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
    """Store the hosts of the run of that number; ``numbers`` has those of its cases by their ids."""
    known = _references(session, run_number, threads)
    references = {case: total / runs for case, (total, runs) in known.items()}
    rows: list[dict[str, Any]] = []
    excesses: dict[int, float] = {}
    for part in hosts_of(report):
        spreads = _spreads(part, numbers)
        noise = run_noise(spreads, references)
        # Cases that nothing is known of are compared with what the host usually is.
        level = noise if noise is not None else _usual(session, part)
        excesses |= {case: spread - level for case, spread in spreads.items()}
        rows.append({"run_number": run_number, "started": started, "noise": noise, **_row(part, spreads)})
    if rows:
        session.execute(insert(HostRun), rows)
    _learn(session, excesses, known, threads)


def hosts_of(report: Report) -> list[HostPart]:
    """The hosts of a report: those of its fleet, or the one that it was measured on."""
    fleet = report.run.fleet
    if fleet is None or not fleet.hosts:
        return [_only_host(report)]
    all_reasons = report.run.validity.reasons[:MOST_HOSTS]
    comparisons, checks = _by_host(report)
    several_kinds = len({entry.kind for entry in fleet.hosts}) > 1
    found: dict[str, HostPart] = {}
    for entry in fleet.hosts[:MOST_HOSTS]:
        own = entry.get("host")
        kind = kind_of(HostRecord(own if isinstance(own, Mapping) else {}))
        name, is_named = _named(entry.name, kind)
        of_kind = f"{entry.kind}: " if several_kinds else ""
        own_kind = [one.removeprefix(of_kind) for one in all_reasons if one.startswith(of_kind)]
        alone = sum(other.kind == entry.kind for other in fleet.hosts) == 1
        reasons = [one for one in own_kind if alone or one.startswith(f"{entry.name}: ")]
        valid = entry.valid is not False
        part = HostPart(
            name,
            is_named,
            kind,
            _whole(entry.shards),
            _whole(entry.cases),
            _whole(entry.rounds),
            valid,
            None if valid else _line(one.removeprefix(f"{entry.name}: ") for one in reasons),
            comparisons.get(entry.name, ()),
            checks.get(entry.name, ()),
        )
        found.setdefault(name, part)
    return list(found.values())


def _by_host(report: Report) -> tuple[dict[str, list[Comparison]], dict[str, list[AACheckRecord]]]:
    """The comparisons and A/A checks of each host of a fleet."""
    comparisons: dict[str, list[Comparison]] = {}
    host_of = {}
    for one in report.comparisons:
        if one.host is not None:
            comparisons.setdefault(one.host, []).append(one)
            host_of[one.case] = one.host
    checks: dict[str, list[AACheckRecord]] = {}
    for check in report.run.validity.aa_checks:
        if check.case in host_of:
            checks.setdefault(host_of[check.case], []).append(check)
    return comparisons, checks


def kind_of(host: HostRecord) -> str:
    """What sort of machine it is: hosts of one kind are compared. Its kernel's release changes too often to count."""
    processors = host.logical_cpus
    parts = (
        host.cpu_model,
        f"{processors} processor{'' if processors == 1 else 's'}" if processors else None,
        host.machine,
        (host.kernel or "").partition(" ")[0],
    )
    return fit(", ".join(filter(None, parts))) or "unknown kind"


def _only_host(report: Report) -> HostPart:
    kind, validity = kind_of(report.host), report.run.validity
    valid = validity.valid is not False
    return HostPart(
        *_named(report.host.name, kind),
        kind,
        1,
        len(report.comparisons),
        _whole(report.run.rounds),
        valid,
        None if valid else _line(validity.reasons),
        report.comparisons,
        validity.aa_checks,
    )


def _named(name: str | None, kind: str) -> tuple[str, bool]:
    """What a host is called, and whether that is its name. One of dots alone would be no part of an address."""
    known = fit((name or "").strip())
    return (known, True) if known.strip(".") else (fit(f"unnamed: {kind}"), False)


def _line(reasons: Iterable[str]) -> str | None:
    return fit("; ".join(reasons), _LONG) or None


def _whole(number: int | None) -> int:
    return max(0, min(number or 0, _LARGEST_NUMBER))


def _spreads(part: HostPart, numbers: Mapping[str, int]) -> dict[int, float]:
    """The log spread of each case that a host measured, by the case's number.

    Of all cases but those that changed: a changed case may be another one on one side. Not of unchanged ones alone: of
    a noisy host's cases only the quietest come to that verdict.
    """
    checks = {check.case: _log_ratios(check) for check in part.checks}
    found = {}
    for one in part.comparisons:
        metric = METRICS.get(one.metric)
        if metric is None or not metric.noisy or one.injected or one.failure is not None:
            continue
        if one.finding is not None:
            continue
        spread = log_spread([sample.log_ratio for sample in one.samples], checks.get(one.case, ()))
        if spread is not None:
            found[numbers[one.case]] = spread
    return found


def _log_ratios(check: AACheckRecord) -> list[float]:
    """The log ratios of an A/A check's process pairs; none where the report has something else there."""
    samples = check.get("samples")
    values = [one.get("log_ratio") for one in samples if isinstance(one, Mapping)] if isinstance(samples, list) else []
    return [float(one) for one in values if isinstance(one, int | float)]


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
    """How noisy the host was in its last runs; 0 where these don't say."""
    return level_of([noise for _, noise in noise_of(session, part.host, part.kind, RECENT)]) or 0.0


def _references(session: Session, run_number: int, threads: int | None) -> dict[int, tuple[float, int]]:
    """What is known of the noise of the run's cases, by their numbers: the sum, and of how many runs it is."""
    query = (
        select(CaseNoise.case_number, CaseNoise.total, CaseNoise.runs)
        .join(Result, Result.case_number == CaseNoise.case_number)
        .where(Result.run_number == run_number, CaseNoise.threads == _threads(threads))
    )
    return {row.case_number: (row.total, row.runs) for row in session.execute(query)}


def _learn(
    session: Session, excesses: Mapping[int, float], known: Mapping[int, tuple[float, int]], threads: int | None
) -> None:
    """Add a run to the references that are of too few; always in the order of the cases' numbers, so that two reports
    that come at once wait for each other, but never both."""
    rows = [
        {"case_number": case, "threads": _threads(threads), "total": excess, "runs": 1}
        for case, excess in sorted(excesses.items())
        if known.get(case, (0.0, 0))[1] < REFERENCE_RUNS
    ]
    statement = upsert(session, CaseNoise)
    added = {"total": CaseNoise.total + statement.excluded.total, "runs": CaseNoise.runs + 1}
    statement = statement.on_conflict_do_update(index_elements=["case_number", "threads"], set_=added)
    for some in batches(rows):
        session.execute(statement, some)


def _threads(threads: int | None) -> int:
    return UNKNOWN_THREADS if threads is None else threads
