"""Alerts on change points: each is sent to every receiver once, and again when it has changed materially.

Several processes may send alerts at once: each claims what it sends in one transaction, and leaves out what another one
has claimed. support/outbox.py does not fit: it is a file of one machine, and delivers at least once, not exactly once.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from sqlalchemy import or_, update
from sqlalchemy.orm import Session

from opduel.records import OpduelError
from opduel.reporters.alerts import Alert, Cause, cause_of
from opduel.reporters.alerts import Finding as AlertFinding
from opduel.reporters.notifier import Notifier
from opduel.reporters.text import printable
from opduel.server.database import Database, upsert
from opduel.server.drift import DriftAnalysis
from opduel.server.findings import ALERT_Q, Finding, FindingFilter, exp, list_findings
from opduel.server.histories import BuildName
from opduel.server.models import Notice
from opduel.server.pages import day_of_commit, link_of

SLOWDOWNS = FindingFilter("open", "slower", q=ALERT_Q)
_CLAIM_LASTS = timedelta(minutes=10)  # sending takes less, so an older claim is of a process that was killed
_SURE = (
    "found in the combined history of all runs; a single run may not show it; at most "
    f"{ALERT_Q:.0%} of such findings are expected to be false"
)


def send_alerts(
    database: Database, notifiers: Sequence[Notifier], public_url: str | None, finding_filter: FindingFilter = SLOWDOWNS
) -> list[str]:
    """Analyse new runs, and send every receiver the change points of ``finding_filter`` that it has not been sent yet.
    Return one line for each receiver that failed.

    A receiver is identified by its option, its place among the receivers of that option, and the filter's branch and
    category.
    """
    DriftAnalysis(database).analyse()
    failures = []
    for receiver, notifier in _receivers(notifiers, finding_filter).items():
        now = datetime.now(UTC)
        with database.writing() as session:
            due = _claim(session, receiver, finding_filter, now)
            alert = alert_of(due, public_url, now) if due else None
            states = {finding.point.number: finding.point.changed for finding in due}
        if alert is None:
            continue
        is_sent = False
        try:
            notifier.send(alert)
            is_sent = True
        except OpduelError as error:
            failures.append(f"--{notifier.option} failed: {error}; the next alert tries again")
        finally:
            _end_claim(database, receiver, states, is_sent)
    return failures


def _claim(session: Session, receiver: str, finding_filter: FindingFilter, now: datetime) -> list[Finding]:
    """Claim the change points of ``finding_filter`` that ``receiver`` has not been sent in their present state and that
    no other process is sending. Return them, the worst first.

    The statement waits for a row that another process is claiming, and then finds it claimed: so each is claimed once.
    """
    findings = list_findings(session, finding_filter)
    claimed: set[int] = set()
    # In one order, so that two processes don't block each other.
    for finding in sorted(findings, key=lambda finding: finding.point.number):
        values = {"change_point_number": finding.point.number, "receiver": receiver, "claimed": now}
        statement = (
            upsert(session, Notice)
            .values(values)
            .on_conflict_do_update(
                index_elements=["change_point_number", "receiver"],
                set_={"claimed": now},
                where=or_(Notice.claimed.is_(None), Notice.claimed < now - _CLAIM_LASTS)
                & or_(Notice.sent.is_(None), Notice.sent < finding.point.changed),
            )
        )
        claimed.update(session.scalars(statement.returning(Notice.change_point_number)))
    return [finding for finding in findings if finding.point.number in claimed]


def _end_claim(database: Database, receiver: str, states: Mapping[int, datetime], is_sent: bool) -> None:
    """Release claimed change points, and record the state in which each was sent, if it was."""
    with database.writing() as session:
        for number, state in sorted(states.items()):
            this = (Notice.change_point_number == number, Notice.receiver == receiver)
            values = {"claimed": None, "sent": state} if is_sent else {"claimed": None}
            session.execute(update(Notice).where(*this).values(values))


def alert_of(findings: Sequence[Finding], public_url: str | None, now: datetime) -> Alert:
    """Return the alert about change points (at least one), grouped by the builds between which they lie."""
    keys = [f"{finding.point.number} {finding.point.changed.isoformat()}" for finding in findings]
    paths = () if public_url is None else ("/drift", link_of(findings[0].series))
    return Alert(
        id=hashlib.sha256("\0".join(keys).encode()).hexdigest()[:16],
        framework=", ".join(sorted({finding.case.framework for finding in findings})),
        spec="",
        control="",
        treatment="",
        causes=tuple(sorted(_causes(findings), key=lambda cause: -len(cause.findings))),
        sure=_SURE,
        moment=now.isoformat(timespec="seconds"),
        pages=tuple(f"{public_url}{path}" for path in paths),
        branch=", ".join(sorted({finding.series.branch or "" for finding in findings} - {""})),
    )


def _causes(findings: Iterable[Finding]) -> list[Cause]:
    def place(finding: Finding) -> tuple[str, ...]:
        branch = (finding.series.branch,) if finding.series.branch else ()
        return *branch, finding.point.kind, finding.before.node, finding.after.node

    ordered = sorted(findings, key=place)
    are_several = len({finding.series.branch for finding in ordered}) > 1
    causes = []
    for key, some in groupby(ordered, key=place):
        same = list(some)
        causes.append(cause_of("..".join(key), _since(same[0], are_several), map(_alert_finding, same)))
    return causes


def _since(finding: Finding, with_branch: bool) -> str:
    branch = f" on the branch {printable(finding.series.branch)}" if with_branch and finding.series.branch else ""
    if finding.point.kind == "step":
        return f"since {_name(finding.after)}{branch}"
    words = "drifting" if finding.point.kind == "drift" else "overall"
    return f"{words} between {_name(finding.before)} and {_name(finding.after)}{branch} ({finding.point.builds} builds)"


def _name(build: BuildName) -> str:
    day = day_of_commit(build.time)
    words = [build.label, "" if day == "-" else day, build.subject or ""]
    return printable(" ".join(word for word in words if word))


def _alert_finding(finding: Finding) -> AlertFinding:
    place = "" if finding.series.platform == "host" else f" on {finding.series.platform}"
    ci = exp(finding.ci[0]), exp(finding.ci[1])
    return AlertFinding(f"{finding.case.case}{place}", finding.case.metric, finding.ratio, ci, None, finding.q_value)


def _receivers(notifiers: Sequence[Notifier], finding_filter: FindingFilter) -> dict[str, Notifier]:
    limits = {"branch": finding_filter.branch, "category": finding_filter.category}
    suffix = "".join(f" {name} {value}" for name, value in limits.items() if value is not None)
    notifier_by_receiver: dict[str, Notifier] = {}
    for notifier in notifiers:
        before = sum(name.startswith(f"{notifier.option} ") for name in notifier_by_receiver)
        notifier_by_receiver[f"{notifier.option} {before}{suffix}"] = notifier
    return notifier_by_receiver
