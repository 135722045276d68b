"""All tables of the first version."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), primary_key=True),
        *_columns(sa.Text(), "run_id", "category", "received_from", "document_sha256"),
        *_columns(_MOMENT, "received", "started"),
        *_columns(_MOMENT, "finished", nullable=True),
        *_columns(sa.Text(), "framework", "platform", "spec", "run_type"),
        *_columns(sa.Text(), "user_identifier", "branch", "cpu_model", "distrust", nullable=True),
        *(column for side in ("control", "treatment") for column in _build_columns(side)),
        *_columns(sa.Integer(), "threads", nullable=True),
        *_columns(sa.Double(), "alpha"),
        *_columns(sa.Double(), "inject", "wall_s", nullable=True),
        *_columns(sa.Boolean(), "trusted", "complete", "broken"),
        *_columns(sa.Integer(), "regressed", "improved", "unchanged", "not_worse", "not_better", "inconclusive"),
        *_columns(sa.Integer(), "failed", "broken_by_treatment"),
        sa.UniqueConstraint("run_id"),
    )
    op.create_table(
        "documents",
        _foreign_key("run_number", "runs.number", primary_key=True),
        *_columns(sa.BigInteger(), "size"),
        *_columns(sa.LargeBinary(), "content"),
    )
    op.create_table(
        "cases",
        sa.Column("number", sa.Integer(), primary_key=True),
        *_columns(sa.Text(), "framework", "case", "operator", "direction", "metric", "unit"),
        *_columns(sa.Text(), "dtype", "context", "operator_category", nullable=True),
        *_columns(sa.Boolean(), "lower_is_better"),
        sa.UniqueConstraint("framework", "case"),
    )
    op.create_table(
        "results",
        _foreign_key("run_number", "runs.number", primary_key=True),
        sa.Column("case_number", sa.Integer(), sa.ForeignKey("cases.number"), primary_key=True),
        *_columns(sa.Text(), "verdict"),
        *_columns(sa.Text(), "held_back", "failure_side", "failure_kind", "failure_reason", "note", nullable=True),
        *_columns(sa.Double(), "threshold"),
        *_columns(sa.Double(), "ratio", "ci_low", "ci_high", "p_value", "q_value", nullable=True),
        *_columns(sa.Double(), "mde", "control", "treatment", nullable=True),
        *_columns(sa.Integer(), "rounds"),
        *_columns(sa.Boolean(), "injected", "trusted"),
    )
    op.create_table(
        "causes",
        _foreign_key("run_number", "runs.number", primary_key=True),
        sa.Column("case_number", sa.Integer(), sa.ForeignKey("cases.number"), primary_key=True),
        *_columns(sa.Text(), "sentence"),
        *_columns(sa.JSON(), "content"),
    )
    _create_history_tables()
    _create_host_tables()
    _create_access_tables()
    for table, *names in _INDEXES:
        op.create_index(op.f("_".join(("ix", table, *names))), table, names)


def downgrade() -> None:
    """Drop the tables, with all that is in them."""
    for table, *names in _INDEXES:
        op.drop_index(op.f("_".join(("ix", table, *names))), table)
    for table in ("sessions", "tokens", "case_noise", "host_runs", "notices", "change_points", "analysed_series"):
        op.drop_table(table)
    for table in ("causes", "results", "documents", "cases", "runs"):
        op.drop_table(table)


_INDEXES = (
    ("runs", "started", "number"),
    ("results", "case_number", "run_number"),
    ("causes", "case_number"),
    ("change_points", "series_number"),
    ("change_points", "changed"),
    ("host_runs", "host", "started", "run_number"),
)


def _create_history_tables() -> None:
    op.create_table(
        "analysed_series",
        sa.Column("number", sa.Integer(), primary_key=True),
        _foreign_key("case_number", "cases.number"),
        *_columns(sa.Text(), "platform", "branch"),
        *_columns(sa.Integer(), "threads", "run_count", "method", "builds", "runs"),
        *_columns(_MOMENT, "newest", nullable=True),
        *_columns(sa.Double(), "p_value", "minimal", "drift_log", "drift_low", "drift_high"),
        *_columns(sa.JSON(), "oldest", "newest_build", nullable=True),
        sa.UniqueConstraint("case_number", "platform", "threads", "branch"),
    )
    op.create_table(
        "change_points",
        sa.Column("number", sa.Integer(), primary_key=True),
        _foreign_key("series_number", "analysed_series.number"),
        *_columns(sa.Text(), "kind"),
        *_columns(sa.Text(), "acknowledged_by", "note", nullable=True),
        *_columns(sa.JSON(), "before", "after"),
        *_columns(sa.Integer(), "builds"),
        *_columns(sa.Double(), "log_ratio", "ci_low", "ci_high", "p_value", "known_log", "known_low", "known_high"),
        *_columns(_MOMENT, "found", "changed"),
        *_columns(_MOMENT, "gone", "acknowledged", nullable=True),
    )
    op.create_table(
        "notices",
        _foreign_key("change_point_number", "change_points.number", primary_key=True),
        sa.Column("receiver", sa.Text(), primary_key=True),
        *_columns(_MOMENT, "sent", "claimed", nullable=True),
    )


def _create_host_tables() -> None:
    op.create_table(
        "host_runs",
        _foreign_key("run_number", "runs.number", primary_key=True),
        sa.Column("host", sa.Text(), primary_key=True),
        *_columns(_MOMENT, "started"),
        *_columns(sa.Boolean(), "is_named", "valid"),
        *_columns(sa.Text(), "kind"),
        *_columns(sa.Text(), "distrust", nullable=True),
        *_columns(sa.Integer(), "shards", "cases", "rounds", "noise_cases", "aa_checks", "aa_failed"),
        *_columns(sa.Double(), "spread", "noise", "aa_log_ratio", "aa_spread", nullable=True),
    )
    op.create_table(
        "case_noise",
        _foreign_key("case_number", "cases.number", primary_key=True),
        sa.Column("threads", sa.Integer(), primary_key=True),
        *_columns(sa.Double(), "total"),
        *_columns(sa.Integer(), "runs"),
    )


def _create_access_tables() -> None:
    op.create_table(
        "tokens",
        sa.Column("number", sa.Integer(), primary_key=True),
        *_columns(sa.Text(), "name", "key", "digest"),
        *_columns(sa.Boolean(), "can_read", "can_write"),
        *_columns(_MOMENT, "created"),
        *_columns(_MOMENT, "expires", "revoked", nullable=True),
        sa.UniqueConstraint("key"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), primary_key=True),
        _foreign_key("token_number", "tokens.number"),
        *_columns(_MOMENT, "created", "expires"),
    )


def _build_columns(side: str) -> list["sa.Column[Any]"]:
    return [
        *_columns(sa.Text(), f"{side}_requested", f"{side}_digest", f"{side}_version"),
        *_columns(sa.Text(), f"{side}_commit", f"{side}_commit_subject", f"{side}_commit_author", nullable=True),
        *_columns(sa.BigInteger(), f"{side}_commit_time", nullable=True),
    ]


def _columns(kind: "sa.types.TypeEngine[Any]", *names: str, nullable: bool = False) -> list["sa.Column[Any]"]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def _foreign_key(name: str, column: str, primary_key: bool = False) -> "sa.Column[int]":
    """Return a column that refers to another table's; rows go with the row that they refer to."""
    key = sa.ForeignKey(column, ondelete="CASCADE")
    return sa.Column(name, sa.Integer(), key, primary_key=primary_key, nullable=False)
