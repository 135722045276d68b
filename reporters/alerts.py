"""An alarm: what a notification tells of, taken from a report: confirmed regressions, and cases newly broken."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opduel.records import Build, Comparison, Report
from opduel.reporters.run_text import commit_moment
from opduel.reporters.summary import open_lines, validity_line, worst_first
from opduel.reporters.text import printable


@dataclass(frozen=True)
class Finding:
    """One case that got worse. ``ratio``, ``ci``, ``again``: treatment / control, its interval, and that of a second
    measurement; ``broken`` is how the treatment fails, empty where it runs; ``why`` the sentence of the change's cause,
    where it was looked for."""

    case: str
    metric: str
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    again: float | None = None
    q_value: float | None = None
    broken: str = ""
    injected: bool = False
    why: str = ""


@dataclass(frozen=True)
class Cause:
    """Since when: ``since`` in words ("since ...", "between ..."), ``key`` the same for the same cause. Of its findings
    those that fail come first, then the largest changes. ``code``: what is known of the code that changed, in lines."""

    key: str
    since: str
    findings: tuple[Finding, ...]
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alert:
    """One notification. ``sure`` says how sure it is; ``doubts`` what speaks against it; ``places`` where details are.
    The cause with the most cases comes first. ``spec``, ``control`` and ``treatment`` are empty if it is of no run; one
    about the driver itself has a ``title`` and ``lines``, and no causes.
    """

    id: str
    framework: str
    spec: str
    control: str
    treatment: str
    causes: tuple[Cause, ...]
    sure: str
    doubts: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    moment: str = ""  # when the run ended, ISO 8601
    pages: tuple[str, ...] = ()  # addresses of pages with details
    branch: str = ""  # that the treatment is on, if that is known
    title: str = ""
    lines: tuple[str, ...] = ()

    @property
    def broken(self) -> int:
        """How many cases fail."""
        return len(self._cases(broken=True))

    @property
    def regressed(self) -> int:
        """How many got slower or larger; one that has two causes counts once."""
        return len(self._cases(broken=False))

    def _cases(self, broken: bool) -> set[str]:
        return {one.case for cause in self.causes for one in cause.findings if bool(one.broken) == broken}


def is_confirmed(one: Comparison) -> bool:
    """Whether it stood in a second measurement."""
    return one.verdict == "regressed" and one.verification is not None and one.verification.verdict == "regressed"


def worth_alerting(report: Report, unverified: bool = False) -> list[Comparison]:
    """What is worth a notification, the worst first: regressions that are confirmed (or not, with ``unverified``), and
    cases that fail on the treatment alone, which noise can't make them do."""
    return [
        one
        for one in worst_first(report.comparisons)
        if one.is_worse and (unverified or is_confirmed(one) or one.is_broken_by_treatment)
    ]


def alert_of(report: Report, unverified: bool = False) -> Alert | None:
    """The alarm that a run gives, without places; None when there is nothing to be alarmed by."""
    found = worth_alerting(report, unverified)
    if not found:
        return None
    since = f"between {side_words(report.control)} and {side_words(report.treatment)}"
    key = f"{report.control.requested}..{report.treatment.requested}"
    cause = cause_of(key, since, map(finding_of, found))
    once = sum(one.verdict == "regressed" and not is_confirmed(one) for one in found)
    return make_alert(report, [cause], _sure(cause, once))


def make_alert(report: Report, causes: Sequence[Cause], sure: str) -> Alert:
    """An alarm about these causes, without places, with what ``report`` says of its run."""
    run = report.run
    stopped = run.why_stopped
    doubts = [validity_line(report), f"not completed: {stopped}" if run.aborted else "", *open_lines(report)]
    return Alert(
        id=str(run.id or "unknown"),
        framework=str(run.framework or "unknown"),
        spec=str(run.spec or "unknown"),
        control=side_words(report.control),
        treatment=side_words(report.treatment),
        causes=tuple(sorted(causes, key=lambda cause: -len(cause.findings))),
        sure=sure,
        doubts=tuple(doubt for doubt in doubts if doubt),
        moment=str(run.finished or ""),
        branch=str(run.branch or ""),
    )


def cause_of(key: str, since: str, findings: Iterable[Finding], code: Sequence[str] = ()) -> Cause:
    """A cause with its findings in order."""

    def order(one: Finding) -> tuple[bool, float, str]:
        change = abs(math.log(one.ratio)) if one.ratio and one.ratio > 0 else 0.0  # of a rate, the worst is the lowest
        return not one.broken, -change, one.case

    return Cause(key, since, tuple(sorted(findings, key=order)), tuple(code))


def finding_of(one: Comparison) -> Finding:
    """What is reported a comparison that is alarming."""
    broken = "" if one.failure is None else f"{one.failure.kind}: {one.failure.reason}"
    again = one.verification.ratio if one.verification else None
    why = one.cause.sentence if one.cause else ""
    return Finding(one.case, one.metric, one.ratio, one.ci, again, one.q_value, broken, one.injected, why)


def side_words(build: Build) -> str:
    """A commit as ``abc123def456 2022-03-07 Jane Doe: Fixed it``, any other build as it was requested."""
    commit = build.commit
    if commit is None:
        return build.requested
    return printable(
        f"{commit.short} {(commit_moment(commit) or '')[:10]} {commit.author.partition(' <')[0]}: {commit.subject}"
    )


def _sure(cause: Cause, once: int) -> str:
    """How sure it is, where ``once`` of its regressions were measured once only."""
    broken = sum(bool(one.broken) for one in cause.findings)
    twice = len(cause.findings) - broken - once
    words = [
        "confirmed: flagged again, in the same direction, by a second measurement on fresh processes" if twice else "",
        f"NOT VERIFIED: {once} measured once only" if once else "",
        "failing on the treatment, in a fresh process, and not on the control" if broken else "",
    ]
    return "; ".join(word for word in words if word)
