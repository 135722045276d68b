"""One report of the reports of many shards.  Pure: reports in, a report out."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.comparator import Looks, benjamini_hochberg, compare_cases
from opduel.harness.host import merged_noise
from opduel.records import FLAGGED, SAMPLED, Case, Comparison, HostRecord, Report, RunRecord

NOT_MEASURED = "not measured: the fleet had not come to it when the run ended"
_SUMS = ("rounds", "timed_s", "aa_cases", "not_broken_down")


@dataclass(frozen=True)
class HostReport:
    """A shard's report, and the name of the host that it was measured on."""

    host: str
    report: Report


def merge(
    parts: Sequence[HostReport], cases: Sequence[Case], looks: Looks, alpha: float, run: Mapping[str, Any]
) -> Report:
    """The report of a run whose ``cases`` were measured in ``parts``; ``run`` has what is known of the whole run, in
    place of what its parts say.

    Each shard was corrected for all of the run's comparisons, with p = 1 for those of other shards.  With what these
    came to, the correction can only find more: a case that its shard left open is flagged if it is now, in a run
    without a verification (of which it would need its own), on a host that was not disturbed.

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
        found |= {one.case: one for one in _found_by_all(part, found, looks, alpha)}
    q_values = _q_values(list(found.values()))
    comparisons = [
        dataclasses.replace(found[case.id], q_value=q_values.get(case.id))
        if case.id in found
        else Comparison.without_figures(case, "inconclusive", note=NOT_MEASURED)
        for case in cases
        if case.id not in skipped
    ]
    kept = tuple(case for case in cases if case.id not in skipped)
    record = {**_merged_run(parts), **run, "fleet": {"hosts": _hosts(parts)}}
    if record.get("suite"):
        record["suite"] = {**record["suite"], "problems": _problems_of_suite(parts, record["suite"]["problems"])}
    host = HostRecord(_merged_host([part.report.host for part in parts]))
    return Report(RunRecord(record), first.control, first.treatment, host, comparisons, cases=kept)


def _p_value(one: Comparison) -> float:
    return 1.0 if one.p_value is None or one.failure is not None else one.p_value


def _q_values(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """By case, of those that were tested; the family is all that are sampled."""
    family = [one for one in comparisons if one.metric in SAMPLED]
    corrected = benjamini_hochberg([_p_value(one) for one in family])
    return {one.case: q for one, q in zip(family, corrected, strict=True) if one.p_value is not None}


def _found_by_all(part: HostReport, found: Mapping[str, Comparison], looks: Looks, alpha: float) -> list[Comparison]:
    """The part's comparisons that are flagged only with the p values of all others."""
    report = part.report
    validity = report.run.validity
    if report.configuration.verify or report.run.get("replicates") or (validity.hold and not validity.valid):
        return []
    own = {one.case: one for one in report.comparisons if one.metric in SAMPLED}
    cases = [case for case in report.cases if case.id in own]
    others = [_p_value(one) for one in found.values() if one.case not in own and one.metric in SAMPLED]
    again = compare_cases(
        cases,
        {case.id: own[case.id].samples for case in cases},
        {case.id: failure for case in cases if (failure := own[case.id].failure) is not None},
        looks,
        alpha,
        frozenset(case_id for case_id, one in own.items() if one.injected),
        others=others,
    )
    return [
        dataclasses.replace(one, host=part.host, work=own[one.case].work, breakdown=own[one.case].breakdown)
        for one in again
        if one.verdict in FLAGGED and own[one.case].verdict == "inconclusive"
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
