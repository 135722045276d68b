"""The server's tables: runs, results, reports, histories, hosts, tokens."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from opduel.reporters.text import printable

UNKNOWN_THREADS = -1


def fit(text: str, most: int = 200) -> str:
    """Return ``text`` as tables keep it: printable, and no longer than ``most`` characters."""
    line = printable(text[:most])
    return line if len(line) <= most and len(text) <= most else f"{line[: most - 3]}..."


class Moment(TypeDecorator[datetime]):
    """A point in time, always in UTC: SQLite keeps no time zones, so it is put on again when read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return ``value`` in UTC. Raises ValueError: ``value`` has no time zone."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without a time zone")
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return ``value`` with its zone: UTC."""
        return value and (value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC))


class Base(DeclarativeBase):
    """All tables. Constraints have names that follow from their columns, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: dict[Any, Any] = {  # noqa: RUF012
        str: Text(),
        float: Double(),
        datetime: Moment(),
        bytes: LargeBinary(),
        dict[str, Any]: JSON(none_as_null=True),
    }


class Run(Base):
    """One run, with the fields that are searched and listed; its ``Document`` has all of it.

    Texts are printable and bounded: control characters are escaped, and long texts cut. A build has a ``digest``, and a
    ``commit`` (40 hexadecimal digits) if it was made from one; commit times are seconds since 1970. ``regressed`` ...
    ``failed`` count the results of each verdict, and ``broken_by_treatment`` the failures of the treatment alone.
    """

    __tablename__ = "runs"
    __table_args__ = (UniqueConstraint("run_id"), Index(None, "started", "number"))

    number: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str]
    category: Mapped[str]
    received: Mapped[datetime]
    received_from: Mapped[str]  # the name of the token that posted it
    document_sha256: Mapped[str]  # of the report with sorted keys: equal for documents that differ in layout alone
    started: Mapped[datetime]
    finished: Mapped[datetime | None]
    framework: Mapped[str]
    platform: Mapped[str]
    spec: Mapped[str]
    user_identifier: Mapped[str | None]
    branch: Mapped[str | None]  # the treatment's; None if the report names none
    run_type: Mapped[str]
    control_requested: Mapped[str]
    control_digest: Mapped[str]
    control_version: Mapped[str]
    control_commit: Mapped[str | None]
    control_commit_time: Mapped[int | None] = mapped_column(BigInteger)
    control_commit_subject: Mapped[str | None]
    control_commit_author: Mapped[str | None]
    treatment_requested: Mapped[str]
    treatment_digest: Mapped[str]
    treatment_version: Mapped[str]
    treatment_commit: Mapped[str | None]
    treatment_commit_time: Mapped[int | None] = mapped_column(BigInteger)
    treatment_commit_subject: Mapped[str | None]
    treatment_commit_author: Mapped[str | None]
    cpu_model: Mapped[str | None]
    threads: Mapped[int | None]
    alpha: Mapped[float]  # intervals of its results have confidence 1 - alpha
    inject: Mapped[float | None]  # the share by which cases were slowed on purpose; such a run is in no history
    wall_s: Mapped[float | None]
    trusted: Mapped[bool]
    distrust: Mapped[str | None]  # why it can't be trusted
    complete: Mapped[bool]
    broken: Mapped[bool]
    regressed: Mapped[int]
    improved: Mapped[int]
    unchanged: Mapped[int]
    not_worse: Mapped[int]
    not_better: Mapped[int]
    inconclusive: Mapped[int]
    failed: Mapped[int]
    broken_by_treatment: Mapped[int]


class Document(Base):
    """A run's report, whole: ``content`` is the zlib-compressed ``report.json``, of ``size`` bytes uncompressed."""

    __tablename__ = "documents"

    run_number: Mapped[int] = mapped_column(ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    content: Mapped[bytes]


class Case(Base):
    """A case, the same over all runs of a framework; its details are those of the report received last."""

    __tablename__ = "cases"
    __table_args__ = (UniqueConstraint("framework", "case"),)

    number: Mapped[int] = mapped_column(primary_key=True)
    framework: Mapped[str]
    case: Mapped[str]  # its id in reports
    operator: Mapped[str]
    direction: Mapped[str]
    metric: Mapped[str]
    unit: Mapped[str]
    dtype: Mapped[str | None]
    context: Mapped[str | None]
    operator_category: Mapped[str | None]  # the spec that it is from, by the last report that names one
    lower_is_better: Mapped[bool]


class Result(Base):
    """The result of one case in one run; figures as in ``opduel.records.Comparison``."""

    __tablename__ = "results"
    __table_args__ = (Index(None, "case_number", "run_number"),)

    run_number: Mapped[int] = mapped_column(ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True)
    case_number: Mapped[int] = mapped_column(ForeignKey("cases.number"), primary_key=True)
    verdict: Mapped[str]
    held_back: Mapped[str | None]
    ratio: Mapped[float | None]
    ci_low: Mapped[float | None]
    ci_high: Mapped[float | None]
    p_value: Mapped[float | None]
    q_value: Mapped[float | None]
    threshold: Mapped[float]
    mde: Mapped[float | None]
    control: Mapped[float | None]
    treatment: Mapped[float | None]
    rounds: Mapped[int]
    injected: Mapped[bool]
    failure_side: Mapped[str | None]
    failure_kind: Mapped[str | None]
    failure_reason: Mapped[str | None]
    note: Mapped[str | None]  # the reason for the verdict, if the figures alone don't show it
    trusted: Mapped[bool]  # on a fleet, by the validity of its host


class CauseFound(Base):
    """Why one case changed in one run. ``content`` is the report's ``cause`` without the frames of its flame graphs,
    which only the document has; ``sentence`` is printable and bounded."""

    __tablename__ = "causes"
    __table_args__ = (Index(None, "case_number"),)

    run_number: Mapped[int] = mapped_column(ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True)
    case_number: Mapped[int] = mapped_column(ForeignKey("cases.number"), primary_key=True)
    sentence: Mapped[str]
    content: Mapped[dict[str, Any]]


class AnalysedSeries(Base):
    """The latest analysis of one case's history on one platform and branch.

    ``run_count`` and ``newest`` identify its runs: while they are the same, so is the result.
    ``p_value`` tests "no change anywhere"; ``drift_log`` is the log ratio of the newest build to the oldest. ``branch``
    is empty if the runs name none.
    """

    __tablename__ = "analysed_series"
    __table_args__ = (UniqueConstraint("case_number", "platform", "threads", "branch"),)

    number: Mapped[int] = mapped_column(primary_key=True)
    case_number: Mapped[int] = mapped_column(ForeignKey("cases.number", ondelete="CASCADE"))
    platform: Mapped[str]
    threads: Mapped[int]  # UNKNOWN_THREADS where runs don't say
    branch: Mapped[str]
    run_count: Mapped[int]
    newest: Mapped[datetime | None]
    builds: Mapped[int]
    runs: Mapped[int]
    p_value: Mapped[float]
    drift_log: Mapped[float]

    case: Mapped[Case] = relationship()


class ChangePoint(Base):
    """A change in a history, which is followed while runs are added. Its builds are stored as ``BuildName``.

    ``kind`` is "step", "drift" (gradual, over ``builds`` steps of the order) or "overall" (the newest build against the
    oldest, without a change at a particular build). ``found`` is when it was first detected, ``changed`` when it last
    changed materially against the ``known_...`` figures, ``gone`` when the runs stopped supporting it. An
    acknowledgement counts until the next material change.
    """

    __tablename__ = "change_points"
    __table_args__ = (Index(None, "series_number"), Index(None, "changed"))

    number: Mapped[int] = mapped_column(primary_key=True)
    series_number: Mapped[int] = mapped_column(ForeignKey("analysed_series.number", ondelete="CASCADE"))
    kind: Mapped[str]
    before: Mapped[dict[str, Any]]
    after: Mapped[dict[str, Any]]
    builds: Mapped[int]
    log_ratio: Mapped[float]
    ci_low: Mapped[float]
    ci_high: Mapped[float]
    p_value: Mapped[float]
    found: Mapped[datetime]
    changed: Mapped[datetime]
    gone: Mapped[datetime | None]
    known_log: Mapped[float]
    known_low: Mapped[float]
    known_high: Mapped[float]
    acknowledged: Mapped[datetime | None]
    acknowledged_by: Mapped[str | None]  # the name of a token
    note: Mapped[str | None]

    series: Mapped[AnalysedSeries] = relationship()

    @property
    def is_acknowledged(self) -> bool:
        """Return whether it has been acknowledged in its present state."""
        return self.acknowledged is not None and self.acknowledged >= self.changed


class Notice(Base):
    """A change point that was sent to a receiver of alerts, or is being sent.

    ``sent`` is the ``changed`` of the change point when it was sent last, None before the first time. ``claimed`` is
    when a process began to send it, so that no other one does; None when it has ended.
    """

    __tablename__ = "notices"

    change_point_number: Mapped[int] = mapped_column(
        ForeignKey("change_points.number", ondelete="CASCADE"), primary_key=True
    )
    receiver: Mapped[str] = mapped_column(primary_key=True)
    sent: Mapped[datetime | None]
    claimed: Mapped[datetime | None]


class HostRun(Base):
    """One host's part in one run: the whole run, or its shards of a fleet's.

    ``started`` is the run's. ``kind`` describes the machine: hosts of the same kind are compared. Unless ``is_named``,
    the report doesn't name the host, and ``host`` stands for all unnamed ones of its kind. ``spread`` is the standard
    deviation of a process pair's log ratio, the median over ``noise_cases`` cases; ``noise`` is its log ratio to the
    references of these cases.
    """

    __tablename__ = "host_runs"
    __table_args__ = (Index(None, "host", "started", "run_number"),)

    run_number: Mapped[int] = mapped_column(ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True)
    host: Mapped[str] = mapped_column(primary_key=True)
    started: Mapped[datetime]
    is_named: Mapped[bool]
    kind: Mapped[str]
    shards: Mapped[int]
    cases: Mapped[int]
    rounds: Mapped[int]
    valid: Mapped[bool]
    distrust: Mapped[str | None]
    spread: Mapped[float | None]
    noise: Mapped[float | None]
    noise_cases: Mapped[int]
    aa_checks: Mapped[int]
    aa_failed: Mapped[int]
    aa_log_ratio: Mapped[float | None]  # of the A/A check that is farthest from 0


class CaseNoise(Base):
    """The usual noise of a case with so many threads: the sum of the log spreads of its first ``runs`` runs, each less
    its host's noise in that run. ``total / runs`` is the case's reference."""

    __tablename__ = "case_noise"

    case_number: Mapped[int] = mapped_column(ForeignKey("cases.number", ondelete="CASCADE"), primary_key=True)
    threads: Mapped[int] = mapped_column(primary_key=True)  # UNKNOWN_THREADS where runs don't say
    total: Mapped[float]
    runs: Mapped[int]


class Token(Base):
    """A token that lets its owner read or write. It is not stored itself: ``key`` is its public part, ``digest`` the
    SHA-256 of its secret part, in hexadecimal digits."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("name"), UniqueConstraint("key"))

    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    key: Mapped[str]
    digest: Mapped[str]
    can_read: Mapped[bool]
    can_write: Mapped[bool]
    created: Mapped[datetime]
    expires: Mapped[datetime | None]
    revoked: Mapped[datetime | None]


class Login(Base):
    """A browser's login with a token, valid as long as both are. ``digest`` is the SHA-256 of the
    random id that its cookie holds."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(primary_key=True)
    token_number: Mapped[int] = mapped_column(ForeignKey("tokens.number", ondelete="CASCADE"))
    created: Mapped[datetime]
    expires: Mapped[datetime]

    token: Mapped[Token] = relationship()
