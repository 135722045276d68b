"""What the page says of the run as a whole: who was compared, what it came to, how and on what it was measured."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.records import Build, Commit, HostRecord, Report
from opduel.records.run_record import AACheckRecord
from opduel.reporters.html.cases import fragment_of
from opduel.reporters.rates import roofline_words
from opduel.reporters.run_text import disturbance_text, effort_text, host_text, incidents, is_number
from opduel.reporters.summary import (
    WORST_FIRST,
    injection,
    injection_line,
    not_broken_down_line,
    open_lines,
    validity_line,
    worst_first,
)
from opduel.reporters.text import printable, printable_lines
from opduel.reporters.units import human_change, human_duration, human_interval, human_share

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Heading:
    """The page's top. All texts are safe to show, and still to be escaped."""

    title: str
    about: str
    counts: list[tuple[str, int]]  # verdict and how often, the worst first
    effort: str
    warnings: list[str]
    sides: list[tuple[str, str, str]]  # what, of the control, of the treatment


@dataclass(frozen=True)
class Lost:
    """A failure or an incident: where (with the case's fragment if it is one), how, and what came of it."""

    where: str
    fragment: str
    what: str
    words: str
    consequence: str


@dataclass(frozen=True)
class RunDetails:
    """What stands below the table of cases."""

    failures: list[Lost]
    incidents: list[Lost]
    run: Facts
    command: str
    host: Facts
    noise: list[tuple[str, ...]]  # what, and its mean and extremes before, during and verifying
    validity: Facts
    aa_checks: list[tuple[str, ...]]
    environment: Facts
    packages: list[tuple[str, str, str, bool]]  # name, both sides' versions, whether they differ
    builds: list[tuple[str, str, str]]


def heading(report: Report) -> Heading:
    """Who was compared, and what it came to."""
    run, asked = report.run, report.configuration
    known = (run.spec, run.framework, asked.platform, run.started, asked.user_identifier)
    about = [one for one in known if one]
    return Heading(
        title=printable(f"{report.treatment.requested} against {report.control.requested}"),
        about=printable(", ".join([*about, f"run {run.id}"] if run.id else about)),
        counts=[(verdict, report.count(verdict)) for verdict in WORST_FIRST],
        effort=printable(effort_text(report)),
        warnings=[printable(line) for line in _warnings(report)],
        sides=_sides(report.control, report.treatment),
    )


def run_details(report: Report) -> RunDetails:
    """How and on what it was measured, and what was lost on the way."""
    return RunDetails(
        failures=_failures(report),
        incidents=[
            Lost(
                printable(where),
                "",
                printable(f"{failure.side}: {failure.kind}: {failure.reason}"),
                printable_lines(failure.output_tail).strip(),
                printable(consequence),
            )
            for where, failure, consequence in incidents(report)
        ],
        run=_facts(report.run, without=("incidents", "validity", "environment", "command", "configuration")),
        command=printable(shlex.join(report.run.command)),
        host=[("in short", printable(host_text(report.host))), *_facts(report.host, without=_NOISE)],
        noise=_noise(report.host),
        validity=_facts(report.run.validity, without=("aa_checks",)),
        aa_checks=_aa_checks(report.run.validity.aa_checks),
        environment=_facts(report.run.environment),
        packages=_packages(report.control, report.treatment),
        builds=_builds(report.control, report.treatment),
    )


_NOISE = ("before", "during", "verifying")


def _warnings(report: Report) -> Iterator[str]:
    """What a reader must know before believing the rest."""
    if line := validity_line(report):
        yield line[:1].upper() + line[1:]
    if report.run.is_cut_short:
        yield f"Not complete: {report.run.why_stopped}"
    yield from (line[:1].upper() + line[1:] for line in open_lines(report))
    if line := not_broken_down_line(report):
        yield line[:1].upper() + line[1:]
    if words := disturbance_text(report.host):
        yield f"Busy host: {words}"
    outcome = injection(report)
    if outcome is not None:
        yield injection_line(outcome)


def _sides(control: Build, treatment: Build) -> list[tuple[str, str, str]]:
    """Both builds beside each other, without lines that are empty on both sides."""
    table = [
        ("build", control.requested, treatment.requested),
        ("version", *(f"{one.framework} {one.version}, Python {one.python}" for one in (control, treatment))),
        ("commit", *(f"{one.commit.short} {one.commit.subject}" if one.commit else "" for one in (control, treatment))),
        ("committed", *(_committed(one.commit) for one in (control, treatment))),
        ("digest", control.digest[:12], treatment.digest[:12]),
    ]
    return [(what, printable(one), printable(other)) for what, one, other in table if one or other]


def _committed(commit: Commit | None) -> str:
    """Date and author, without the mail address."""
    if commit is None:
        return ""
    try:
        moment = commit.moment
    except (OverflowError, OSError, ValueError):  # no year of ours
        moment = str(commit.time)
    return f"{moment}, {commit.author.partition('<')[0].strip()}"


def _builds(control: Build, treatment: Build) -> list[tuple[str, str, str]]:
    """What else is known of the builds: where they are and how they were made."""
    table = [
        (name, *(_plain(getattr(one, name)) for one in (control, treatment)))
        for name in ("strategy", "interpreter", "directory", "digest", "created", "duration_s", "environment")
    ]
    commits = ("commit", *(printable(one.commit.id) if one.commit else "" for one in (control, treatment)))
    return [(what, one, other) for what, one, other in (commits, *table) if one or other]


def _packages(control: Build, treatment: Build) -> list[tuple[str, str, str, bool]]:
    names = sorted(control.packages.keys() | treatment.packages.keys())
    pairs = [(name, control.packages.get(name, "-"), treatment.packages.get(name, "-")) for name in names]
    return [(printable(name), printable(one), printable(other), one != other) for name, one, other in pairs]


def _failures(report: Report) -> list[Lost]:
    return [
        Lost(
            printable(one.case),
            fragment_of(one.case),
            printable(f"{one.failure.side}: {one.failure.kind}: {one.failure.reason}"),
            printable_lines(one.failure.output_tail).strip(),
            "",
        )
        for one in worst_first(report.comparisons)
        if one.failure is not None
    ]


def _noise(host: HostRecord) -> list[tuple[str, ...]]:
    """A line for each measure of the host's noise: mean and extremes before, during and while verifying."""
    phases = [host.before, host.during, host.verifying]
    names = list(dict.fromkeys(str(name) for phase in phases for name in phase))
    return [(printable(name), *(_extremes(phase.get(name)) for phase in phases)) for name in names]


def _extremes(measure: Any) -> str:
    """``0.44 (0.43 to 0.45)`` of a mapping of mean, min and max; anything else as it is."""
    if not isinstance(measure, Mapping):
        return f"{measure:.4g}" if is_number(measure) else _plain(measure)
    mean, low, high = (measure.get(name) for name in ("mean", "min", "max"))
    if is_number(mean) and is_number(low) and is_number(high):
        return f"{mean:.3g} ({low:.3g} to {high:.3g})"
    return _plain(measure)


def _aa_checks(aa_checks: Sequence[AACheckRecord]) -> list[tuple[str, ...]]:
    """Each comparison of the control with itself: case, change, interval, threshold, rounds, and what it says."""
    return [
        (
            printable(str(one.case)),
            human_change(one.ratio),
            human_interval((one.ci[0], one.ci[1]) if len(one.ci) == 2 else None),
            human_share(one.threshold),
            _plain(one.rounds),
            "differs" if one.flagged else "no difference found",
        )
        for one in aa_checks
    ]


def _facts(mapping: Mapping[str, Any], without: Sequence[str] = ()) -> Facts:
    """Everything that is known, with readable words for seconds and the roofline; nothing for what isn't."""
    facts = [(printable(str(key)), _fact(str(key), value)) for key, value in mapping.items() if key not in without]
    return [(key, said) for key, said in facts if said]


def _fact(key: str, value: Any) -> str:
    if key == "roofline" and isinstance(value, Mapping):
        try:
            return printable(roofline_words(value))
        except (TypeError, ValueError, AttributeError):
            return _plain(value)
    if key == "wall_s" and is_number(value):
        return f"{human_duration(value)} ({value!r})"
    return _plain(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(value: Any) -> str:
    """A text as it is, anything else as JSON; nothing for None and what is empty."""
    if value is None or value in ("", [], {}, ()):
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
