"""The page's content on the run: the builds, the result, how and on what it was measured."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from opduel.records import Build, Commit, Report
from opduel.records.host_record import NoiseRecord
from opduel.reporters.kinds import kinds_text
from opduel.reporters.run_text import (
    commit_moment,
    disturbance_text,
    effort_text,
    frameworks_text,
    host_text,
    hosts_text,
    incidents,
    is_number,
    roofline_words,
)
from opduel.reporters.summary import caveats, not_broken_down_line, notes, verdict_counts, worst_first
from opduel.reporters.units import human_change, human_interval, human_share
from opduel.support.text import duration

Rows = list[tuple[str, ...]]
_NOISE = ("before", "during", "verifying")


def heading(report: Report) -> dict[str, Any]:
    """Return what the templates show at the top, by name: the builds and the result."""
    run, configuration = report.run, report.configuration
    labels = (
        run.spec,
        run.framework,
        configuration.platform,
        run.started,
        configuration.user_identifier,
        run.id and f"run {run.id}",
    )
    return {
        "title": f"{report.treatment.requested} against {report.control.requested}",
        "about": ", ".join(label for label in (*labels, frameworks_text(report.control, report.treatment)) if label),
        "counts": verdict_counts(report.comparisons),
        "effort": effort_text(report),
        "warnings": list(_warnings(report)),
    }


_APART = ("incidents", "validity", "environment", "command", "configuration", "suite", "skipped", "fleet")


def run_details(report: Report) -> dict[str, Any]:
    """Return the other facts of the run that the page shows, by name: how and on what it was measured, and what was
    lost."""
    run, host = report.run, report.host
    noise = [asdict(phase) if phase else {} for phase in (host.before, host.during, host.verifying)]
    packages = report.control.packages, report.treatment.packages
    kinds = [("kinds of host", text)] if (text := kinds_text(report)) else []
    names = ("strategy", "interpreter", "directory", "digest", "created", "duration_s", "environment")
    build_facts = {name: lambda build, name=name: _plain(getattr(build, name)) for name in names}
    return {
        "sides": _on_both(
            report,
            build=lambda side: side.requested,
            version=lambda side: side.description,
            commit=lambda side: f"{side.commit.short} {side.commit.subject}" if side.commit else "",
            committed=lambda side: _committed(side.commit),
            digest=lambda side: side.digest[:12],
        ),
        "failures": [comparison for comparison in worst_first(report.comparisons) if comparison.failure is not None],
        "incidents": incidents(report),
        "run": _facts(asdict(run), without=_APART),
        "command": shlex.join(run.command),
        "host": [
            ("in short", host_text(host)),
            ("fleet", hosts_text(report) or "-"),
            *kinds,
            *([("roofline", words)] if (words := roofline_words(host.roofline)) else []),
            *_facts(asdict(replace(host, roofline=None)), without=_NOISE),
        ],
        "noise": [
            (measure.name, *(_extremes(phase.get(measure.name)) for phase in noise)) for measure in fields(NoiseRecord)
        ],
        "validity": _facts(asdict(run.validity), without=("aa_checks",)),
        "aa_checks": [
            (
                str(check.case),
                human_change(check.ratio),
                human_interval(check.ci),
                human_share(check.threshold),
                _plain(check.rounds),
                "differs" if check.flagged else "no difference found",
            )
            for check in run.validity.aa_checks
        ],
        "environment": _facts(run.environment),
        "packages": [
            (name, *(versions.get(name, "-") for versions in packages)) for name in sorted(set().union(*packages))
        ],
        "builds": _on_both(report, commit=lambda build: build.commit.id if build.commit else "", **build_facts),
    }


def _warnings(report: Report) -> Iterator[str]:
    """Yield what a reader must know before relying on the results."""
    for line in (*caveats(report), not_broken_down_line(report)):
        if line:
            yield line[:1].upper() + line[1:]
    if words := disturbance_text(report.host):
        yield f"Busy host: {words}"
    yield from notes(report)


def _on_both(report: Report, **facts: Callable[[Build], str]) -> Rows:
    """Return facts about both builds side by side, without lines that are empty on both sides."""
    rows = [(name, fact(report.control), fact(report.treatment)) for name, fact in facts.items()]
    return [row for row in rows if any(row[1:])]


def _committed(commit: Commit | None) -> str:
    """Return date and author of a commit, without the mail address."""
    if commit is None:
        return ""
    return f"{commit_moment(commit) or commit.time}, {commit.author.partition('<')[0].strip()}"


def _extremes(measure: Any) -> str:
    """Return ``0.44 (0.43 to 0.45)`` of a mapping of mean, min and max; anything else as it is."""
    if not isinstance(measure, Mapping):
        return f"{measure:.4g}" if is_number(measure) else _plain(measure)
    mean, low, high = (measure.get(name) for name in ("mean", "min", "max"))
    if is_number(mean) and is_number(low) and is_number(high):
        return f"{mean:.3g} ({low:.3g} to {high:.3g})"
    return _plain(measure)


def _facts(mapping: Mapping[str, Any], without: Sequence[str] = ()) -> Rows:
    """Return all known facts, in readable words for seconds."""
    facts = [(str(key), _fact(str(key), value)) for key, value in mapping.items() if key not in without]
    return [(key, words) for key, words in facts if words]


def _fact(key: str, value: Any) -> str:
    if key == "wall_s" and is_number(value):
        return f"{duration(value)} ({value!r})"
    return _plain(value)


def _plain(value: Any) -> str:
    """Return a text as it is, anything else as JSON; empty for None and empty values."""
    if value is None or value in ("", [], {}, ()):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
