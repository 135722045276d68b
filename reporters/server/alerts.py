"""Alerts on change points: each is sent to every receiver once, and again when it has changed materially."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from sqlalchemy import select
from sqlalchemy.orm import Session

from records import OpduelError
from reporters.alarm import Alarm, Cause, cause_of
from reporters.alarm import Finding as Told
from reporters.notifier import Notifier
from reporters.server.database import Database
from reporters.server.drift import Weighing
from reporters.server.findings import ALERT_Q, Finding, Wanted, exp, list_findings
from reporters.server.histories import BuildName
from reporters.server.models import Notice
from reporters.server.pages import day_of_commit
from reporters.server.storing import upsert
from reporters.text import printable

_SURE = (
    "found in the histories of all runs together, which a single run need not show; at most "
    f"{ALERT_Q:.0%} of such findings are expected to be false"
)


def send_alerts(database: Database, notifiers: Sequence[Notifier], public_url: str | None, now: datetime) -> list[str]:
    """Weigh what is new, and send every receiver the open slowdowns that it doesn't know; a line for each that failed.

    A receiver is known by its option and its place among those of that option.
    """
    Weighing(database).weigh()
    failures = []
    for receiver, notifier in _named(notifiers).items():
        with database.reading() as session:
            due = unsent(session, receiver)
            alarm = alarm_of(due, public_url, now) if due else None
            numbers = [one.point.number for one in due]
        if alarm is None:
            continue
        try:
            notifier.send(alarm)
        except OpduelError as error:
            failures.append(f"--{notifier.option} failed: {error}; to be tried again by the next alert")
            continue
        with database.writing() as session:
            for number in numbers:
                values = {"change_point_number": number, "receiver": receiver, "sent": now}
                statement = upsert(session, Notice).values(values)
                keys = ["change_point_number", "receiver"]
                session.execute(statement.on_conflict_do_update(index_elements=keys, set_={"sent": now}))
    return failures


def unsent(session: Session, receiver: str) -> list[Finding]:
    """The slowdowns that nobody has acknowledged and that ``receiver`` doesn't know as they are, the worst first."""
    query = select(Notice.change_point_number, Notice.sent).where(Notice.receiver == receiver)
    sent = {row.change_point_number: row.sent for row in session.execute(query)}
    found = list_findings(session, Wanted("open", "slower", q=ALERT_Q))
    return [one for one in found if one.point.number not in sent or sent[one.point.number] < one.point.changed]


def alarm_of(found: Sequence[Finding], public_url: str | None, now: datetime) -> Alarm:
    """The alarm about some change points, at least one: by the builds between which they are."""
    keys = [f"{one.point.number} {one.point.changed.isoformat()}" for one in found]
    pages = []
    if public_url is not None:
        pages = [f"{public_url}/drift", f"{public_url}/cases/{found[0].case.number}"]
    return Alarm(
        id=hashlib.sha256("\0".join(keys).encode()).hexdigest()[:16],
        framework=", ".join(sorted({one.case.framework for one in found})),
        spec="",
        control="",
        treatment="",
        causes=tuple(sorted(_causes(found), key=lambda cause: -len(cause.findings))),
        sure=_SURE,
        moment=now.isoformat(timespec="seconds"),
        pages=tuple(pages),
    )


def _causes(found: Iterable[Finding]) -> list[Cause]:
    def place(one: Finding) -> tuple[str, str, str]:
        return one.point.kind, one.before.node, one.after.node

    causes = []
    for key, some in groupby(sorted(found, key=place), key=place):
        same = list(some)
        causes.append(cause_of("..".join(key), _since(same[0]), map(_told, same)))
    return causes


def _since(one: Finding) -> str:
    if one.point.kind == "step":
        return f"since {_name(one.after)}"
    words = "drifting" if one.point.kind == "drift" else "overall"
    return f"{words} between {_name(one.before)} and {_name(one.after)} ({one.point.builds} builds)"


def _name(build: BuildName) -> str:
    day = day_of_commit(build.time)
    words = [build.label, "" if day == "-" else day, build.subject or ""]
    return printable(" ".join(word for word in words if word))


def _told(one: Finding) -> Told:
    case = one.case.case if one.series.platform == "host" else f"{one.case.case} on {one.series.platform}"
    return Told(case, one.case.metric, one.ratio, (exp(one.ci[0]), exp(one.ci[1])), None, one.q_value)


def _named(notifiers: Sequence[Notifier]) -> dict[str, Notifier]:
    named: dict[str, Notifier] = {}
    for one in notifiers:
        before = sum(name.startswith(f"{one.option} ") for name in named)
        named[f"{one.option} {before}"] = one
    return named
