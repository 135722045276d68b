"""One report of the reports of many shards.  Pure: reports in, a report out."""

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.comparator import Looks, RunAnalysis, benjamini_hochberg
from opduel.harness.host import merged_noise
from opduel.records import FLAGGED, ONE_SIDED, SAMPLED, Case, Comparison, HostRecord, Report, RunRecord

NOT_MEASURED = "not measured: the fleet had not come to it when the run ended"
_MAY_BE_FLAGGED = ("inconclusive", *ONE_SIDED)  # a shard's verdicts that a flag doesn't contradict
_SUMS = ("rounds", "timed_s", "aa_cases", "not_broken_down")


@dataclass(frozen=True)
class HostReport:
    """A shard's report, and the name of the host that it was measured on. ``whole``: no case of it went to another."""

    host: str
    report: Report
    whole: bool = True


@dataclass(frozen=True)
class KindReport:
    """The report of the hosts of one kind; None where there is none, ``why`` says why."""

    kind: str
    report: Report | None
    why: str = ""


def merge_kinds(kinds: Sequence[KindReport], rows: Sequence[Case], interrupted: bool, has_log: bool) -> Report:
    """The report of a run that each kind of host measured: ``rows`` are the cases of each kind, in order.

    Verdicts and q values stay those of the kinds, each of which counted the rows of the others as p = 1: whatever is
    found on one kind changes nothing on another.

    Raises:
        ValueError: no kind has a report.
    """
    parts = [HostReport(one.kind, one.report) for one in kinds if one.report is not None]
    if not parts:
        raise ValueError("no kind of host has a report")
    none = {one.kind for one in kinds if one.report is None}
    found = {one.case: one for part in parts for one in part.report.comparisons}
    hosts = [(part.host, host) for part in parts for host in part.report.run["fleet"]["hosts"]]
    reasons = {one.kind: one.why if one.report is None else one.report.run.stop_reason for one in kinds}
    runs = [part.report.run for part in parts]
    merged = _merged_run(parts)
    skipped = {one["case"] for one in merged["skipped"]}
    kept = tuple(row for row in rows if row.id not in skipped)
    record = merged | {
        "started": min(str(run.started) for run in runs),
        "finished": max(str(run.finished) for run in runs),
        "wall_s": max(run.wall_s or 0.0 for run in runs),
        "complete": merged["complete"] and not none,
        "stop_reason": "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items() if reason) or None,
        "aborted": merged["aborted"] or bool(none),
        "interrupted": interrupted or merged["interrupted"],
        "resumable": merged["resumable"] or (bool(none) and has_log),
        "fleet": {
            "hosts": [{**host, "kind": kind} for kind, host in hosts],
            "kinds": [
                {
                    "name": one.kind,
                    "hosts": [host["name"] for kind, host in hosts if kind == one.kind],
                    "stop_reason": reasons[one.kind],
                }
                for one in kinds
            ],
            "given_up": sum(run["fleet"].get("given_up", 0) for run in runs),
        },
    }
    comparisons = [
        dataclasses.replace(
            found.get(row.id) or Comparison.without_figures(row, "inconclusive", note=_not_measured(row.kind, none)),
            kind=row.kind,
        )
        for row in kept
    ]
    first = parts[0].report
    host = HostRecord(_merged_host([part.report.host for part in parts]))
    return Report(RunRecord(record), first.control, first.treatment, host, comparisons, cases=kept)


def _not_measured(kind: str | None, without_report: Container[str]) -> str:
    return f"not measured on a host of the kind {kind}" if kind in without_report else NOT_MEASURED


def merge(
    parts: Sequence[HostReport],
    cases: Sequence[Case],
    looks: Looks,
    alpha: float,
    run: Mapping[str, Any],
    elsewhere: int = 0,
    given_up: int = 0,
) -> Report:
    """The report of a run whose ``cases`` were measured in ``parts``; ``run`` has what is known of the whole run, in
    place of what its parts say.  ``elsewhere``: comparisons of the same family in other runs, whose p counts as 1.

    Each shard was corrected for all of the run's comparisons, with p = 1 for those of other shards.  With what these
    came to, the correction can only find more: a case that its shard left open, or settled on one side only, is flagged
    if it is now, in a run without a verification (of which it would need its own), on a host that was not disturbed.

    ``given_up``: how many comparisons were begun on a slow host, left open there, and made on another. Each was a
    chance to be flagged, and belongs to the family with p = 1. Shards did not know of those that came later: what they
    flagged and all attempts together don't is withdrawn.

    Raises:
        ValueError: there are no parts, or two have a case in common.
    """
    if not parts:
        raise ValueError("no part of the run was measured")
    first = parts[0].report
    found: dict[str, Comparison] = {}
    skipped: set[str] = set()
    for part in parts:
        skipped |= {one.case for one in part.report.run.skipped}
        for one in part.report.comparisons:
            if one.case in found:
                raise ValueError(f"{one.case} was measured twice")
            found[one.case] = dataclasses.replace(one, host=part.host)
    for part in parts:
        found |= {one.case: one for one in _found_by_all(part, found, looks, alpha, elsewhere + given_up)}
    q_values = _q_values(list(found.values()), elsewhere + given_up)
    if given_up:
        found = {case_id: _despite_attempts(one, q_values.get(case_id), alpha) for case_id, one in found.items()}
    comparisons = [
        dataclasses.replace(found[case.id], q_value=q_values.get(case.id))
        if case.id in found
        else Comparison.without_figures(case, "inconclusive", note=NOT_MEASURED)
        for case in cases
        if case.id not in skipped
    ]
    kept = tuple(case for case in cases if case.id not in skipped)
    record = {**_merged_run(parts), **run, "fleet": {"hosts": _hosts(parts), "given_up": given_up}}
    if record.get("suite"):
        record["suite"] = {**record["suite"], "problems": _problems_of_suite(parts, record["suite"]["problems"])}
    host = HostRecord(_merged_host([part.report.host for part in parts]))
    return Report(RunRecord(record), first.control, first.treatment, host, comparisons, cases=kept)


def _p_value(one: Comparison) -> float:
    return 1.0 if one.p_value is None or one.failure is not None else one.p_value


def _q_values(comparisons: Sequence[Comparison], elsewhere: int) -> dict[str, float]:
    """By case, of those that were tested; the family is all that are sampled, and so many others."""
    family = [one for one in comparisons if one.metric in SAMPLED]
    corrected = benjamini_hochberg([*map(_p_value, family), *[1.0] * elsewhere])[: len(family)]
    return {one.case: q for one, q in zip(family, corrected, strict=True) if one.p_value is not None}


def _despite_attempts(one: Comparison, q_value: float | None, alpha: float) -> Comparison:
    """The comparison, withdrawn if it is flagged and all attempts together don't flag it."""
    if one.verdict not in FLAGGED or q_value is None or q_value <= alpha:
        return one
    note = "; ".join(filter(None, (f"{one.verdict} if no case had been begun on two hosts", one.note)))
    return dataclasses.replace(one, verdict="inconclusive", suspected=one.verdict, note=note)


def _found_by_all(
    part: HostReport, found: Mapping[str, Comparison], looks: Looks, alpha: float, elsewhere: int
) -> list[Comparison]:
    """The part's comparisons that are flagged only with the p values of all others; none of a part that has lost its
    open cases, since the prior of the noise was of all."""
    report = part.report
    validity = report.run.validity
    if not part.whole:
        return []
    if report.configuration.verify or report.run.get("replicates") or (validity.hold and not validity.valid):
        return []
    own = {one.case: one for one in report.comparisons if one.metric in SAMPLED}
    cases = [case for case in report.cases if case.id in own]
    others = [_p_value(one) for one in found.values() if one.case not in own and one.metric in SAMPLED]
    again = RunAnalysis(
        cases,
        {case.id: own[case.id].samples for case in cases},
        {case.id: failure for case in cases if (failure := own[case.id].failure) is not None},
        looks,
        alpha,
        injected=frozenset(case_id for case_id, one in own.items() if one.injected),
        other_p_values=[*others, *[1.0] * elsewhere],
    ).comparisons()
    return [
        dataclasses.replace(one, host=part.host, work=own[one.case].work, breakdown=own[one.case].breakdown)
        for one in again
        if one.verdict in FLAGGED and own[one.case].verdict in _MAY_BE_FLAGGED
    ]


def _merged_run(parts: Sequence[HostReport]) -> dict[str, Any]:
    """The keys of ``run`` that follow from those of the parts."""
    runs = [part.report.run for part in parts]
    merged = dict(runs[0])
    for key in _SUMS:
        merged[key] = sum(run.get(key) or 0 for run in runs)
    spent: dict[str, float] = {}
    for run in runs:
        for name, seconds in run.spent_s.items():
            spent[name] = spent.get(name, 0.0) + seconds
    reasons = [part.report.run.stop_reason for part in parts if part.report.run.is_cut_short]
    several = len({part.host for part in parts}) > 1
    validities = [run.get("validity") or {} for run in runs]
    return merged | {
        "spent_s": spent,
        "complete": not reasons,
        "stop_reason": "; ".join(dict.fromkeys(filter(None, reasons))) or None,
        "aborted": any(run.aborted for run in runs),
        "interrupted": any(run.interrupted for run in runs),
        "resumable": any(run.resumable for run in runs),
        "resumed": [],
        "forecast": None,
        "skipped": [one for run in runs for one in run.get("skipped") or ()],
        "incidents": [one for run in runs for one in run.get("incidents") or ()],
        "validity": {
            **validities[0],
            "valid": all(one.get("valid") is not False for one in validities),
            "reasons": list(
                dict.fromkeys(
                    f"{part.host}: {reason}" if several else reason
                    for part, one in zip(parts, validities, strict=True)
                    for reason in one.get("reasons") or ()
                )
            ),
            "frequency_mhz": validities[0].get("frequency_mhz") if len(parts) == 1 else None,
            "aa_checks": [check for one in validities for check in one.get("aa_checks") or ()],
        },
    }


def _problems_of_suite(parts: Sequence[HostReport], known: Sequence[str]) -> list[str]:
    """What is wrong with the suite: what was known before, and on which hosts its ``setup_cache`` failed."""
    of_hosts: dict[str, list[str]] = {}
    for part in parts:
        for line in (part.report.run.get("suite") or {}).get("problems") or ():
            of_hosts.setdefault(line, []).append(part.host)
    new = (f"{', '.join(dict.fromkeys(on))}: {line}" for line, on in of_hosts.items() if line not in known)
    return [*known, *new]


def _hosts(parts: Sequence[HostReport]) -> list[dict[str, Any]]:
    """What each host was and did."""
    by_host: dict[str, list[Report]] = {}
    for part in parts:
        by_host.setdefault(part.host, []).append(part.report)
    return [
        {
            "name": name,
            "shards": len(reports),
            "cases": sum(len(report.comparisons) for report in reports),
            "rounds": sum(report.run.rounds or 0 for report in reports),
            "wall_s": sum(report.run.wall_s or 0.0 for report in reports),
            "valid": all(report.run.validity.valid is not False for report in reports),
            "host": dict(_merged_host([report.host for report in reports])),
        }
        for name, reports in sorted(by_host.items())
    ]


def _merged_host(hosts: Sequence[HostRecord]) -> dict[str, Any]:
    """What all have in common; the processors' models are all named. Noise is that of all times together."""
    merged: dict[str, Any] = {}
    for key in hosts[-1]:
        values = [host.get(key) for host in hosts]
        if key in ("before", "during", "verifying"):
            merged[key] = merged_noise(values)
        elif all(value == values[0] for value in values):
            merged[key] = values[0]
        else:
            merged[key] = None
    models = list(dict.fromkeys(filter(None, (host.cpu_model for host in hosts))))
    return merged | {"cpu_model": " and ".join(models) or None}
