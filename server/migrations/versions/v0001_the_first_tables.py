"""The first tables: runs and their results, documents, cases, tokens and logins."""

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Make what the tables lack."""
    op.create_table(
        "cases",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("framework", sa.Text(), nullable=False),
        sa.Column("case", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=True),
        sa.Column("context", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_cases")),
        sa.UniqueConstraint("framework", "case", name=op.f("uq_cases_framework_case")),
    )
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("received", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_from", sa.Text(), nullable=False),
        sa.Column("document_sha256", sa.Text(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("framework", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("user_identifier", sa.Text(), nullable=True),
        sa.Column("run_type", sa.Text(), nullable=False),
        sa.Column("control_requested", sa.Text(), nullable=False),
        sa.Column("control_digest", sa.Text(), nullable=False),
        sa.Column("control_version", sa.Text(), nullable=False),
        sa.Column("control_commit", sa.Text(), nullable=True),
        sa.Column("control_commit_time", sa.BigInteger(), nullable=True),
        sa.Column("control_commit_subject", sa.Text(), nullable=True),
        sa.Column("control_commit_author", sa.Text(), nullable=True),
        sa.Column("treatment_requested", sa.Text(), nullable=False),
        sa.Column("treatment_digest", sa.Text(), nullable=False),
        sa.Column("treatment_version", sa.Text(), nullable=False),
        sa.Column("treatment_commit", sa.Text(), nullable=True),
        sa.Column("treatment_commit_time", sa.BigInteger(), nullable=True),
        sa.Column("treatment_commit_subject", sa.Text(), nullable=True),
        sa.Column("treatment_commit_author", sa.Text(), nullable=True),
        sa.Column("cpu_model", sa.Text(), nullable=True),
        sa.Column("threads", sa.Integer(), nullable=True),
        sa.Column("alpha", sa.Double(), nullable=False),
        sa.Column("inject", sa.Double(), nullable=True),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("trusted", sa.Boolean(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("broken", sa.Boolean(), nullable=False),
        sa.Column("regressed", sa.Integer(), nullable=False),
        sa.Column("improved", sa.Integer(), nullable=False),
        sa.Column("unchanged", sa.Integer(), nullable=False),
        sa.Column("inconclusive", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("broken_by_treatment", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_runs_run_id")),
    )
    op.create_index(op.f("ix_runs_started_number"), "runs", ["started", "number"])
    op.create_table(
        "tokens",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("can_read", sa.Boolean(), nullable=False),
        sa.Column("can_write", sa.Boolean(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_tokens")),
        sa.UniqueConstraint("key", name=op.f("uq_tokens_key")),
        sa.UniqueConstraint("name", name=op.f("uq_tokens_name")),
    )
    op.create_table(
        "documents",
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_number"], ["runs.number"], name=op.f("fk_documents_run_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_number", name=op.f("pk_documents")),
    )
    op.create_table(
        "results",
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("case_number", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("held_back", sa.Text(), nullable=True),
        sa.Column("ratio", sa.Double(), nullable=True),
        sa.Column("ci_low", sa.Double(), nullable=True),
        sa.Column("ci_high", sa.Double(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("q_value", sa.Double(), nullable=True),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("mde", sa.Double(), nullable=True),
        sa.Column("control", sa.Double(), nullable=True),
        sa.Column("treatment", sa.Double(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("injected", sa.Boolean(), nullable=False),
        sa.Column("failure_side", sa.Text(), nullable=True),
        sa.Column("failure_kind", sa.Text(), nullable=True),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["case_number"], ["cases.number"], name=op.f("fk_results_case_number")),
        sa.ForeignKeyConstraint(
            ["run_number"], ["runs.number"], name=op.f("fk_results_run_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_number", "case_number", name=op.f("pk_results")),
    )
    op.create_index(op.f("ix_results_case_number_run_number"), "results", ["case_number", "run_number"])
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("token_number", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_number"], ["tokens.number"], name=op.f("fk_sessions_token_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )


def downgrade() -> None:
    """Take it back, with all that is in them."""
    for table in ("sessions", "results", "documents", "tokens", "runs", "cases"):
        op.drop_table(table)
