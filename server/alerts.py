"""Alerts on change points: each is sent to every receiver once, and again when it has changed materially.

Several processes may send alerts at once: each claims what it sends, in one transaction, and leaves out what another
one has claimed. records/outbox.py is no substitute: it is an SQLite file of one machine, delivers "at least once", and
would have to repeat in each entry what ``notices`` says in two columns that are deleted with their change point.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby

from sqlalchemy import or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from opduel.records import OpduelError
from opduel.reporters.alerts import Alert, Cause, cause_of
from opduel.reporters.alerts import Finding as Told
from opduel.reporters.notifier import Notifier
from opduel.reporters.text import printable
from opduel.server.database import Database, upsert
from opduel.server.drift import DriftAnalysis
from opduel.server.findings import ALERT_Q, Finding, Wanted, exp, list_findings
from opduel.server.histories import BuildName
from opduel.server.models import Notice
from opduel.server.pages import day_of_commit, link_of

SLOWDOWNS = Wanted("open", "slower", q=ALERT_Q)
_CLAIM_LASTS = timedelta(minutes=10)  # then whoever claimed it was killed: sending takes less
_SURE = (
    "found in the combined history of all runs; a single run may not show it; at most "
    f"{ALERT_Q:.0%} of such findings are expected to be false"
)


def send_alerts(
    database: Database, notifiers: Sequence[Notifier], public_url: str | None, wanted: Wanted = SLOWDOWNS
) -> list[str]:
    """Weigh what is new, and send every receiver those change points of ``wanted`` that it doesn't know; a line for
    each receiver that failed.

    A receiver is known by its option and its place among those of that option, and by the branch and the category that
    ``wanted`` is narrowed to.
    """
    DriftAnalysis(database).analyse()
    failures = []
    for receiver, notifier in _named(notifiers, wanted).items():
        now = datetime.now(UTC)
        with database.writing() as session:
            due = _claim(session, receiver, wanted, now)
            alert = alert_of(due, public_url, now) if due else None
            states = {one.point.number: one.point.changed for one in due}
        if alert is None:
            continue
        unsent: dict[int, datetime | None] = dict.fromkeys(states)
        try:
            notifier.send(alert)
        except OpduelError as error:
            _end_claim(database, receiver, unsent)
            failures.append(f"--{notifier.option} failed: {error}; the next alert tries again")
        except BaseException:
            with suppress(DBAPIError):
                _end_claim(database, receiver, unsent)
            raise
        else:
            _end_claim(database, receiver, states)
    return failures


def _claim(session: Session, receiver: str, wanted: Wanted, now: datetime) -> list[Finding]:
    """Those change points of ``wanted`` that ``receiver`` doesn't know as they are, and that nobody else is sending,
    the worst first: from now on the caller is.

    A row that another process claims meanwhile is waited for, and is then no longer free: so each is claimed once.
    """
    query = select(Notice.change_point_number, Notice.sent).where(Notice.receiver == receiver)
    known = {row.change_point_number: row.sent for row in session.execute(query)}
    long_ago = datetime.min.replace(tzinfo=UTC)
    found = [
        one for one in list_findings(session, wanted) if (known.get(one.point.number) or long_ago) < one.point.changed
    ]
    claimed: set[int] = set()
    for one in sorted(found, key=lambda one: one.point.number):  # in one order: two processes don't block each other
        values = {"change_point_number": one.point.number, "receiver": receiver, "claimed": now}
        statement = (
            upsert(session, Notice)
            .values(values)
            .on_conflict_do_update(
                index_elements=["change_point_number", "receiver"],
                set_={"claimed": now},
                where=or_(Notice.claimed.is_(None), Notice.claimed < now - _CLAIM_LASTS)
                & or_(Notice.sent.is_(None), Notice.sent < one.point.changed),
            )
        )
        claimed.update(session.scalars(statement.returning(Notice.change_point_number)))
    return [one for one in found if one.point.number in claimed]


def _end_claim(database: Database, receiver: str, states: Mapping[int, datetime | None]) -> None:
    """What was claimed is claimed no more; it was sent as it was in ``states``, if that has a time."""
    with database.writing() as session:
        for number, sent in sorted(states.items()):
            this = (Notice.change_point_number == number, Notice.receiver == receiver)
            values = {"claimed": None} if sent is None else {"claimed": None, "sent": sent}
            session.execute(update(Notice).where(*this).values(values))


def alert_of(found: Sequence[Finding], public_url: str | None, now: datetime) -> Alert:
    """The alarm about some change points, at least one: by the builds between which they are."""
    keys = [f"{one.point.number} {one.point.changed.isoformat()}" for one in found]
    paths = () if public_url is None else ("/drift", link_of(found[0].series))
    return Alert(
        id=hashlib.sha256("\0".join(keys).encode()).hexdigest()[:16],
        framework=", ".join(sorted({one.case.framework for one in found})),
        spec="",
        control="",
        treatment="",
        causes=tuple(sorted(_causes(found), key=lambda cause: -len(cause.findings))),
        sure=_SURE,
        moment=now.isoformat(timespec="seconds"),
        pages=tuple(f"{public_url}{path}" for path in paths),
        branch=", ".join(sorted({one.series.branch or "" for one in found} - {""})),
    )


def _causes(found: Iterable[Finding]) -> list[Cause]:
    def place(one: Finding) -> tuple[str, ...]:
        branch = (one.series.branch,) if one.series.branch else ()
        return *branch, one.point.kind, one.before.node, one.after.node

    listed = sorted(found, key=place)
    are_several = len({one.series.branch for one in listed}) > 1
    causes = []
    for key, some in groupby(listed, key=place):
        same = list(some)
        causes.append(cause_of("..".join(key), _since(same[0], are_several), map(_told, same)))
    return causes


def _since(one: Finding, with_branch: bool) -> str:
    branch = f" on the branch {printable(one.series.branch)}" if with_branch and one.series.branch else ""
    if one.point.kind == "step":
        return f"since {_name(one.after)}{branch}"
    words = "drifting" if one.point.kind == "drift" else "overall"
    return f"{words} between {_name(one.before)} and {_name(one.after)}{branch} ({one.point.builds} builds)"


def _name(build: BuildName) -> str:
    day = day_of_commit(build.time)
    words = [build.label, "" if day == "-" else day, build.subject or ""]
    return printable(" ".join(word for word in words if word))


def _told(one: Finding) -> Told:
    case = one.case.case if one.series.platform == "host" else f"{one.case.case} on {one.series.platform}"
    return Told(case, one.case.metric, one.ratio, (exp(one.ci[0]), exp(one.ci[1])), None, one.q_value)


def _named(notifiers: Sequence[Notifier], wanted: Wanted) -> dict[str, Notifier]:
    narrowed = {"branch": wanted.branch, "category": wanted.category}
    suffix = "".join(f" {name} {value}" for name, value in narrowed.items() if value is not None)
    named: dict[str, Notifier] = {}
    for one in notifiers:
        before = sum(name.startswith(f"{one.option} ") for name in named)
        named[f"{one.option} {before}{suffix}"] = one
    return named
