"""What the page says of the run as a whole: who was compared, what it came to, how and on what it was measured."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opduel.records import Build, Commit, Report
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
from opduel.reporters.units import human_change, human_duration, human_interval, human_share

Rows = list[tuple[str, ...]]
_NOISE = ("before", "during", "verifying")


def heading(report: Report) -> dict[str, Any]:
    """What the templates show at the top, by name: who was compared, and what it came to."""
    run, asked = report.run, report.configuration
    known = (run.spec, run.framework, asked.platform, run.started, asked.user_identifier, run.id and f"run {run.id}")
    return {
        "title": f"{report.treatment.requested} against {report.control.requested}",
        "about": ", ".join(one for one in (*known, frameworks_text(report.control, report.treatment)) if one),
        "counts": verdict_counts(report.comparisons),
        "effort": effort_text(report),
        "warnings": list(_warnings(report)),
    }


_APART = ("incidents", "validity", "environment", "command", "configuration", "suite", "skipped", "fleet")


def run_details(report: Report) -> dict[str, Any]:
    """The rest of what the page shows of the run, by name: how and on what it was measured, and what was lost."""
    run, host = report.run, report.host
    phases = [host.before, host.during, host.verifying]
    measures = dict.fromkeys(str(name) for phase in phases for name in phase)
    packages = report.control.packages, report.treatment.packages
    kinds = [("kinds of host", text)] if (text := kinds_text(report)) else []
    names = ("strategy", "interpreter", "directory", "digest", "created", "duration_s", "environment")
    made = {name: lambda one, name=name: _plain(getattr(one, name)) for name in names}
    return {
        "sides": _on_both(
            report,
            build=lambda one: one.requested,
            version=lambda one: one.description,
            commit=lambda one: f"{one.commit.short} {one.commit.subject}" if one.commit else "",
            committed=lambda one: _committed(one.commit),
            digest=lambda one: one.digest[:12],
        ),
        "failures": [one for one in worst_first(report.comparisons) if one.failure is not None],
        "incidents": incidents(report),
        "run": _facts(run, without=_APART),
        "command": shlex.join(run.command),
        "host": [
            ("in short", host_text(host)),
            ("fleet", hosts_text(report) or "-"),
            *kinds,
            *_facts(host, without=_NOISE),
        ],
        "noise": [(name, *(_extremes(phase.get(name)) for phase in phases)) for name in measures],
        "validity": _facts(run.validity, without=("aa_checks",)),
        "aa_checks": [
            (
                str(one.case),
                human_change(one.ratio),
                human_interval((one.ci[0], one.ci[1]) if len(one.ci) == 2 else None),
                human_share(one.threshold),
                _plain(one.rounds),
                "differs" if one.flagged else "no difference found",
            )
            for one in run.validity.aa_checks
        ],
        "environment": _facts(run.environment),
        "packages": [(name, *(one.get(name, "-") for one in packages)) for name in sorted(set().union(*packages))],
        "builds": _on_both(report, commit=lambda one: one.commit.id if one.commit else "", **made),
    }


def _warnings(report: Report) -> Iterator[str]:
    """What a reader must know before believing the rest."""
    for line in (*caveats(report), not_broken_down_line(report)):
        if line:
            yield line[:1].upper() + line[1:]
    if words := disturbance_text(report.host):
        yield f"Busy host: {words}"
    yield from notes(report)


def _on_both(report: Report, **facts: Callable[[Build], str]) -> Rows:
    """Facts about both builds beside each other, without lines that are empty on both sides."""
    rows = [(what, fact(report.control), fact(report.treatment)) for what, fact in facts.items()]
    return [row for row in rows if any(row[1:])]


def _committed(commit: Commit | None) -> str:
    """Date and author, without the mail address."""
    if commit is None:
        return ""
    return f"{commit_moment(commit) or commit.time}, {commit.author.partition('<')[0].strip()}"


def _extremes(measure: Any) -> str:
    """``0.44 (0.43 to 0.45)`` of a mapping of mean, min and max; anything else as it is."""
    if not isinstance(measure, Mapping):
        return f"{measure:.4g}" if is_number(measure) else _plain(measure)
    mean, low, high = (measure.get(name) for name in ("mean", "min", "max"))
    if is_number(mean) and is_number(low) and is_number(high):
        return f"{mean:.3g} ({low:.3g} to {high:.3g})"
    return _plain(measure)


def _facts(mapping: Mapping[str, Any], without: Sequence[str] = ()) -> Rows:
    """Everything that is known, with readable words for seconds and the roofline; nothing for what isn't."""
    facts = [(str(key), _fact(str(key), value)) for key, value in mapping.items() if key not in without]
    return [(key, said) for key, said in facts if said]


def _fact(key: str, value: Any) -> str:
    if key == "roofline" and isinstance(value, Mapping):
        try:
            return roofline_words(value)
        except (TypeError, ValueError, AttributeError):
            return _plain(value)
    if key == "wall_s" and is_number(value):
        return f"{human_duration(value)} ({value!r})"
    return _plain(value)


def _plain(value: Any) -> str:
    """A text as it is, anything else as JSON; nothing for None and what is empty."""
    if value is None or value in ("", [], {}, ()):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
