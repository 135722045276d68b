"""An alert: the content of a notification, from a report: confirmed regressions, and cases that began to fail."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opduel.records import Build, Comparison, Report
from opduel.reporters.changes import effect_text
from opduel.reporters.summary import effect_size, open_lines, validity_line, worst_first
from opduel.reporters.text import printable


@dataclass(frozen=True)
class Finding:
    """One case that got worse. ``ratio``, ``ci``, ``again``: treatment / control, its interval, and the ratio of a
    second measurement; ``broken``: how the treatment fails, empty if it runs; ``why``: the sentence of the change's
    cause, if that was examined; ``values``: ``0 -> 3 copies`` where there is no ratio."""

    case: str
    metric: str
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    again: float | None = None
    q_value: float | None = None
    broken: str = ""
    injected: bool = False
    why: str = ""
    values: str = ""


@dataclass(frozen=True)
class Cause:
    """The commit, or range of commits, that a change began with: ``since`` in words ("since ...", "between ..."), and
    ``key``, which is the same for the same cause. Of its findings failures come first, then the largest changes.
    ``code``: what is known of the code that changed, in lines."""

    key: str
    since: str
    findings: tuple[Finding, ...]
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alert:
    """One notification. ``sure`` says how sure it is, ``doubts`` what speaks against it, ``places`` where details are.
    The cause with the most cases comes first. ``spec``, ``control`` and ``treatment`` are empty if it is not about a
    run. A notification about the driver itself has a ``title`` and ``lines``, and no causes.
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
    branch: str = ""  # the treatment's, if that is known
    title: str = ""
    lines: tuple[str, ...] = ()

    @property
    def broken(self) -> int:
        """The number of cases that fail."""
        return len(self._cases(broken=True))

    @property
    def regressed(self) -> int:
        """The number of cases that regressed; one that has two causes counts once."""
        return len(self._cases(broken=False))

    def _cases(self, broken: bool) -> set[str]:
        return {finding.case for cause in self.causes for finding in cause.findings if bool(finding.broken) == broken}


def is_confirmed(comparison: Comparison) -> bool:
    """Return whether a second measurement confirmed a regression."""
    return (
        comparison.verdict == "regressed"
        and comparison.verification is not None
        and comparison.verification.verdict == "regressed"
    )


def worth_alerting(report: Report, unverified: bool = False) -> list[Comparison]:
    """Return the cases worth a notification, the worst first: confirmed regressions (all with ``unverified``), and
    cases that fail on the treatment alone, which noise can't cause."""
    return [
        comparison
        for comparison in worst_first(report.comparisons)
        if comparison.is_worse and (unverified or is_confirmed(comparison) or comparison.is_broken_by_treatment)
    ]


def alert_of(report: Report, unverified: bool = False) -> Alert | None:
    """Return the alert of a run, without places; None if there is nothing to notify of."""
    comparisons = worth_alerting(report, unverified)
    if not comparisons:
        return None
    since = f"between {side_words(report.control)} and {side_words(report.treatment)}"
    key = f"{report.control.requested}..{report.treatment.requested}"
    cause = cause_of(key, since, map(finding_of, comparisons))
    regressed = [comparison for comparison in comparisons if comparison.verdict == "regressed"]
    confirmed = sum(map(is_confirmed, regressed))
    return make_alert(report, [cause], _sure(confirmed, len(regressed) - confirmed, len(comparisons) - len(regressed)))


def make_alert(report: Report, causes: Sequence[Cause], sure: str) -> Alert:
    """Return an alert about these causes, without places, with the facts of the run of ``report``."""
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
    """Return a cause with its findings in order."""

    def order(finding: Finding) -> tuple[bool, bool, float, str]:
        return not finding.broken, not finding.values, -effect_size(finding.ratio), finding.case

    ordered = sorted(findings, key=order)
    return Cause(key, since, tuple(ordered), tuple(code))


def finding_of(comparison: Comparison) -> Finding:
    """Return the finding of a comparison."""
    broken = "" if comparison.failure is None else f"{comparison.failure.kind}: {comparison.failure.reason}"
    again = comparison.verification.ratio if comparison.verification else None
    why = comparison.cause.words.removeprefix("cause: ") if comparison.cause else ""
    figures = comparison.case, comparison.metric, comparison.ratio, comparison.ci, again, comparison.q_value
    values = "" if comparison.difference is None else f"{effect_text(comparison, comparison.unit)} {comparison.unit}"
    return Finding(*figures, broken, comparison.injected, why, values.strip())


def side_words(build: Build) -> str:
    """Return a commit as ``abc123def456 2022-03-07 Jane Doe: Fixed it``, any other build as it was requested."""
    return printable(build.commit.words) if build.commit else build.requested


def _sure(confirmed: int, measured_once: int, broken: int) -> str:
    """Return how sure the regressions and failures are, by the number of each."""
    words = [
        "confirmed: flagged again, in the same direction, by a second measurement on fresh processes"
        if confirmed
        else "",
        f"NOT VERIFIED: {measured_once} measured once only" if measured_once else "",
        "failing on the treatment, in a fresh process, and not on the control" if broken else "",
    ]
    return "; ".join(filter(None, words))
