"""The hosts of each run, and how noisy they were, taken from the stored reports in the order in which these came."""

import zlib
from datetime import UTC
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.orm import Session

from opduel.records import UsageError
from opduel.reporters.document import from_text
from opduel.server.host_runs import keep_hosts
from opduel.server.models import columns

revision = "v0006"
down_revision = "v0005"


def upgrade() -> None:
    """Create the tables, and fill them."""
    op.create_table(
        "host_runs",
        sa.Column("run_number", sa.Integer(), nullable=False),
        *columns(sa.Text(), "host"),
        *columns(sa.DateTime(timezone=True), "started"),
        *columns(sa.Boolean(), "is_named"),
        *columns(sa.Text(), "kind"),
        *columns(sa.Integer(), "shards", "cases", "rounds"),
        *columns(sa.Boolean(), "valid"),
        *columns(sa.Text(), "distrust", nullable=True),
        *columns(sa.Double(), "spread", "noise", nullable=True),
        *columns(sa.Integer(), "noise_cases", "aa_checks", "aa_failed"),
        *columns(sa.Double(), "aa_log_ratio", "aa_spread", nullable=True),
        sa.PrimaryKeyConstraint("run_number", "host", name=op.f("pk_host_runs")),
        sa.ForeignKeyConstraint(
            ["run_number"], ["runs.number"], name=op.f("fk_host_runs_run_number"), ondelete="CASCADE"
        ),
    )
    op.create_index(op.f("ix_host_runs_host_started_run_number"), "host_runs", ["host", "started", "run_number"])
    op.create_table(
        "case_noise",
        sa.Column("case_number", sa.Integer(), nullable=False),
        *columns(sa.Integer(), "threads"),
        *columns(sa.Double(), "total"),
        *columns(sa.Integer(), "runs"),
        sa.PrimaryKeyConstraint("case_number", "threads", name=op.f("pk_case_noise")),
        sa.ForeignKeyConstraint(
            ["case_number"], ["cases.number"], name=op.f("fk_case_noise_case_number"), ondelete="CASCADE"
        ),
    )
    with Session(op.get_bind(), join_transaction_mode="rollback_only") as session:
        for number in session.scalars(_RUNS).all():
            _keep(session, number)
        session.commit()  # of nothing by itself: it is part of the migration's transaction


def downgrade() -> None:
    """Remove the tables; the reports still have their contents."""
    op.drop_table("case_noise")
    op.drop_index(op.f("ix_host_runs_host_started_run_number"), "host_runs")
    op.drop_table("host_runs")


_RUNS = sa.text("SELECT number FROM runs ORDER BY received, number")
_STARTED = sa.column("started", sa.DateTime(timezone=True))
_TABLE = sa.table("runs", sa.column("number"))
_RUN: "sa.Select[*tuple[Any, ...]]" = sa.select(_STARTED, sa.column("threads")).select_from(_TABLE)
_CONTENT = sa.text("SELECT content FROM documents WHERE run_number = :run")
_CASES = sa.text('SELECT "case", number FROM cases JOIN results ON case_number = number WHERE run_number = :run')


def _keep(session: Session, number: int) -> None:
    """What the report of the run of this number says of its hosts."""
    content = zlib.decompress(session.execute(_CONTENT, {"run": number}).scalar_one())
    try:
        report = from_text(content.decode("utf-8"))
    except UsageError:  # an odd one, of a version that took it
        return
    started, threads = session.execute(_RUN.where(sa.column("number") == number)).one()
    started = started.replace(tzinfo=UTC) if started.tzinfo is None else started  # SQLite keeps no time zones
    numbers = {row[0]: row[1] for row in session.execute(_CASES, {"run": number})}
    keep_hosts(session, report, number, started, threads, numbers)
