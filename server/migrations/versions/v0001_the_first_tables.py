"""The first tables: runs and their results, documents, cases, tokens and logins."""

import sqlalchemy as sa
from alembic import op

from opduel.server.models import columns

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Make what the tables lack."""
    op.create_table(
        "cases",
        sa.Column("number", sa.Integer(), primary_key=True),
        *columns(sa.Text(), "framework", "case", "operator", "direction", "metric", "unit"),
        *columns(sa.Text(), "dtype", "context", nullable=True),
        sa.UniqueConstraint("framework", "case"),
    )
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), primary_key=True),
        *columns(sa.Text(), "run_id", "category"),
        *columns(sa.DateTime(timezone=True), "received"),
        *columns(sa.Text(), "received_from", "document_sha256"),
        *columns(sa.DateTime(timezone=True), "started"),
        *columns(sa.DateTime(timezone=True), "finished", nullable=True),
        *columns(sa.Text(), "framework", "platform", "spec"),
        *columns(sa.Text(), "user_identifier", nullable=True),
        *columns(sa.Text(), "run_type"),
        *(column for side in ("control", "treatment") for column in _build_columns(side)),
        *columns(sa.Text(), "cpu_model", nullable=True),
        *columns(sa.Integer(), "threads", nullable=True),
        *columns(sa.Double(), "alpha"),
        *columns(sa.Double(), "inject", "wall_s", nullable=True),
        *columns(sa.Boolean(), "trusted", "complete", "broken"),
        *columns(sa.Integer(), "regressed", "improved", "unchanged", "not_worse", "not_better", "inconclusive"),
        *columns(sa.Integer(), "failed", "broken_by_treatment"),
        sa.UniqueConstraint("run_id"),
    )
    op.create_index(op.f("ix_runs_started_number"), "runs", ["started", "number"])
    op.create_table(
        "tokens",
        sa.Column("number", sa.Integer(), primary_key=True),
        *columns(sa.Text(), "name", "key", "digest"),
        *columns(sa.Boolean(), "can_read", "can_write"),
        *columns(sa.DateTime(timezone=True), "created"),
        *columns(sa.DateTime(timezone=True), "expires", "revoked", nullable=True),
        sa.UniqueConstraint("key"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "documents",
        sa.Column("run_number", sa.Integer(), sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
        *columns(sa.BigInteger(), "size"),
        *columns(sa.LargeBinary(), "content"),
    )
    op.create_table(
        "results",
        sa.Column("run_number", sa.Integer(), sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
        sa.Column("case_number", sa.Integer(), sa.ForeignKey("cases.number"), primary_key=True),
        *columns(sa.Text(), "verdict"),
        *columns(sa.Text(), "held_back", nullable=True),
        *columns(sa.Double(), "ratio", "ci_low", "ci_high", "p_value", "q_value", nullable=True),
        *columns(sa.Double(), "threshold"),
        *columns(sa.Double(), "mde", "control", "treatment", nullable=True),
        *columns(sa.Integer(), "rounds"),
        *columns(sa.Boolean(), "injected"),
        *columns(sa.Text(), "failure_side", "failure_kind", "failure_reason", nullable=True),
    )
    op.create_index(op.f("ix_results_case_number_run_number"), "results", ["case_number", "run_number"])
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("token_number", sa.Integer(), sa.ForeignKey("tokens.number", ondelete="CASCADE"), nullable=False),
        *columns(sa.DateTime(timezone=True), "created", "expires"),
    )


def _build_columns(side: str) -> list["sa.Column[object]"]:
    return [
        *columns(sa.Text(), f"{side}_requested", f"{side}_digest", f"{side}_version"),
        *columns(sa.Text(), f"{side}_commit", nullable=True),
        *columns(sa.BigInteger(), f"{side}_commit_time", nullable=True),
        *columns(sa.Text(), f"{side}_commit_subject", f"{side}_commit_author", nullable=True),
    ]


def downgrade() -> None:
    """Take it back, with all that is in them."""
    for table in ("sessions", "results", "documents", "tokens", "runs", "cases"):
        op.drop_table(table)
