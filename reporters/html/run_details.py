"""The page's content on the run: the builds, the result, how and on what it was measured."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from opduel.records import Build, Comparison, Report
from opduel.records.host_record import MeasureRecord, NoiseRecord
from opduel.records.run_record import ValidityRecord
from opduel.reporters.kinds import kinds_text
from opduel.reporters.run_text import (
    disturbance_text,
    effort_text,
    frameworks_text,
    host_text,
    hosts_text,
    incidents,
    is_number,
    platform_text,
    roofline_words,
)
from opduel.reporters.summary import caveats, next_line, not_broken_down_line, notes, verdict_counts, worst_first
from opduel.reporters.units import human_size
from opduel.support.text import duration

Rows = list[tuple[str, ...]]
# Paths of the machine aren't shown, here or of variables: report.json has them.
_BUILD_FACTS = ("strategy", "digest", "created", "duration_s")
_APART = ("incidents", "validity", "environment", "command", "configuration", "suite", "skipped", "fleet", "spec_path")
_APART_OF_HOST = ("before", "during", "verifying", "roofline")
_SIZES = ("memory_total", "memory_available", "available_memory", "swap_total", "swap_used")


def heading(report: Report) -> dict[str, Any]:
    """Return what the templates show at the top, by name: the builds and the result."""
    run, configuration = report.run, report.configuration
    labels = (
        run.spec,
        run.framework,
        platform_text(report),
        run.started,
        configuration.user_identifier,
        run.id and f"run {run.id}",
        frameworks_text(report.control, report.treatment),
    )
    package = report.treatment.label.partition(" ")[0] if report.treatment.commit else ""
    return {
        "title": f"{package and package + ': '}{report.treatment.name} against {report.control.name}",
        "about": ", ".join(filter(None, labels)),
        "counts": verdict_counts(report.comparisons),
        "effort": effort_text(report),
        "warnings": list(_warnings(report)),
        "notes": notes(report),
        "next_line": next_line(report),
    }


def run_details(report: Report) -> dict[str, Any]:
    """Return the other facts of the run that the page shows, by name: how and on what it was measured, and what was
    lost."""
    run, host = report.run, report.host
    phases = (host.before, host.during, host.verifying)
    packages = report.control.packages, report.treatment.packages
    variables = {name: value for name, value in run.environment.items() if "/" not in value}
    return {
        "sides": _side_by_side(_summary(report.control), _summary(report.treatment)),
        "failures": _failures_by_reason(report),
        "incidents": incidents(report),
        "run": _facts(
            {name: value for name, value in asdict(run).items() if name not in _APART and not _is_nested(value)}
        ),
        "command": shlex.join(run.command),
        "host": [
            ("in short", host_text(host)),
            ("fleet", hosts_text(report) or "-"),
            *_facts({"kinds of host": kinds_text(report), "roofline": roofline_words(host.roofline)}),
            *_facts({name: value for name, value in asdict(host).items() if name not in _APART_OF_HOST}),
        ],
        "noise": [
            (field.name, *(_measure(field.name, getattr(phase, field.name, None)) for phase in phases))
            for field in fields(NoiseRecord)
        ],
        "validity": _facts(_trust(run.validity)),
        "aa_checks": run.validity.aa_checks,
        "environment": _facts(variables),
        "packages": [
            (name, *(versions.get(name, "-") for versions in packages)) for name in sorted(set().union(*packages))
        ],
        "builds": _side_by_side(_build_facts(report.control), _build_facts(report.treatment)),
    }


def not_measured(report: Report) -> list[tuple[str, str]]:
    """Return the cases without a result, and why: skipped by both builds, or out of the change's reach."""
    left_out = report.run.left_out
    return [
        *((skip.case, f"skipped by both builds: {skip.reason}") for skip in report.run.skipped),
        *((case, "the change can't reach it") for case in (left_out.cases if left_out else ())),
    ]


def _failures_by_reason(report: Report) -> list[tuple[Comparison, int]]:
    """Return for each reason for which cases failed one of them, and how many others did."""
    by_reason: dict[tuple[str, ...], list[Comparison]] = {}
    for comparison in worst_first(report.comparisons):
        if failure := comparison.failure:
            by_reason.setdefault((failure.side, failure.kind, failure.reason), []).append(comparison)
    return [(comparisons[0], len(comparisons) - 1) for comparisons in by_reason.values()]


def _is_nested(value: Any) -> bool:
    """Tell whether a fact is no more than data for programs, which report.json has."""
    items = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(item, Mapping) for item in items)


def _trust(validity: ValidityRecord) -> dict[str, Any]:
    """Return whether the host was quiet, and what followed from that, in words."""
    facts: dict[str, Any] = {}
    if validity.valid is not None:
        disturbed = "a sentinel differs" if validity.is_biased else "disturbed"
        facts["host"] = "quiet" if validity.valid else disturbed
    if not validity.valid and validity.hold is not None:
        facts["verdicts that do not stand for all that"] = "held back" if validity.hold else "reported"
    return facts | {"reasons": "; ".join(validity.reasons), "frequency in MHz": validity.frequency_mhz}


def _warnings(report: Report) -> Iterator[str]:
    """Yield what a reader must know before relying on the results."""
    for line in (*caveats(report, with_names=False), not_broken_down_line(report)):
        if line:
            yield line[:1].upper() + line[1:]
    if words := disturbance_text(report):
        yield f"Busy host: {words}"


def _summary(build: Build) -> dict[str, str]:
    commit = build.commit
    author = commit.author.partition("<")[0].strip() if commit else ""  # without the mail address
    return {
        "build": build.name,
        "version": build.description,
        "commit": f"{commit.short} {commit.subject}" if commit else "",
        "committed": f"{commit.moment or commit.time}, {author}" if commit else "",
        "digest": build.digest[:12],
    }


def _build_facts(build: Build) -> dict[str, str]:
    commit = {"commit": build.commit.id if build.commit else ""}
    return commit | {name: _words(name, getattr(build, name)) for name in _BUILD_FACTS}


def _side_by_side(control: Mapping[str, str], treatment: Mapping[str, str]) -> Rows:
    """Return facts about both builds, which have the same names, without those that are empty on both sides."""
    return [(name, fact, treatment[name]) for name, fact in control.items() if fact or treatment[name]]


def _measure(name: str, measure: MeasureRecord | float | None) -> str:
    """Return ``0.44 (0.43 to 0.45)``, a number by itself, or an empty text."""
    if isinstance(measure, MeasureRecord):
        mean, least, most = (_words(name, figure) for figure in (measure.mean, measure.min, measure.max))
        return f"{mean} ({least} to {most})"
    return _words(name, measure)


def _facts(values: Mapping[str, Any]) -> Rows:
    return [(name.removesuffix("_s"), words) for name, value in values.items() if (words := _words(name, value))]


def _words(name: str, value: Any) -> str:
    """Return a fact, rounded: seconds and bytes by its name, a text as it is, others as JSON; empty for None and empty
    values."""
    if value is None or value in ("", [], {}, ()):
        return ""
    if is_number(value) and name.endswith("_s"):
        return duration(value)
    if is_number(value) and name in _SIZES:
        return human_size(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
